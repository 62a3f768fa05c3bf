/* recorded.h - results of tests as hashes, compared with a file of this repository: a change that should move no bit is
 * seen to move none. QUOTH_RECORD=1 writes the file anew instead:
 *
 *   QUOTH_RECORD=1 QUOTH_LONG=1 build/unit recorded
 *
 * A file has a line "KEY HASH" per result, in the order in which the test gives them. */
#ifndef QUOTH_TESTS_RECORDED_H
#define QUOTH_TESTS_RECORDED_H

#include <stddef.h>
#include <stdint.h>

enum { RECORDED_MAX = 256 };

struct recorded {
    char path[256];
    int n;
    struct recorded_line {
        char key[96];
        uint64_t hash;
        int n_given; /* how often the test gave it */
    } line[RECORDED_MAX];
};

/* FNV-1a, begun with RECORDED_BEGIN. Not base/hash.h's, which may change. */
#define RECORDED_BEGIN 0xCBF29CE484222325u
uint64_t recorded_hash(uint64_t hash, const void *data, size_t n);

/* Read a file of tests/recorded (while recording: begin an empty one). A file that is missing fails the test. */
void recorded_open(struct recorded *r, const char *file);
/* Fail the test, and print both hashes, unless the file has this key with this hash. A result may be given several
 * times (at each level of kernels): all must be equal, while recording too. */
void recorded_compare(struct recorded *r, const char *key, uint64_t hash, const char *how);
/* Fail the test for each line that it did not give, unless some_only (a sampled run). While recording: write the file. */
void recorded_close(struct recorded *r, int some_only);

#endif
