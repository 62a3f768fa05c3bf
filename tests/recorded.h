/* recorded.h - compare hashes of tests' results with a file of this repository. A difference means
 * that a change of the code changed a bit. QUOTH_RECORD=1 writes a new file instead:
 *
 *   QUOTH_RECORD=1 QUOTH_LONG=1 build/unit recorded
 *
 * A file has a line "KEY HASH" per result, in the order of the test. The test's thread only. */
#ifndef QUOTH_TESTS_RECORDED_H
#define QUOTH_TESTS_RECORDED_H

#include <stddef.h>
#include <stdint.h>

enum { RECORDED_MAX = 1024 };

struct recorded {
    char path[256];
    int n;
    struct recorded_line {
        char key[96];
        uint64_t hash;
        int n_given; /* number of times that the test produced this result */
    } line[RECORDED_MAX];
};

/* Hash with FNV-1a. RECORDED_BEGIN is its initial value. The hash of base/hash.h is not used,
 * because it may change. */
#define RECORDED_BEGIN 0xCBF29CE484222325u
uint64_t recorded_hash(uint64_t hash, const void *data, size_t n);

/* Read a file of tests/recorded. Begin an empty file while recording. A missing file fails the
 * test. */
void recorded_open(struct recorded *r, const char *file);
/* Fail the test, and print both hashes, unless the file has this key with this hash. A test may
 * produce a result several times (at each level of kernels). All repetitions must be equal, also
 * while recording. */
void recorded_compare(struct recorded *r, const char *key, uint64_t hash, const char *how);
/* Fail the test for each line whose result the test did not produce, unless some_only (a sampled
 * run). Write the file while recording. */
void recorded_close(struct recorded *r, int some_only);

#endif
