/* fuzz.h - targets for mutated input: FUZZ(name) { ...data[0, n)... } in an x_fuzz.c next to x.c.
 *
 * build/fuzz NAME [-n COUNT] [-t SECONDS] [-s SEED] FILE... mutates the given files and passes them
 * to the target. After a crash (with SAN=address,undefined), the input is in build/fuzz-crash-NAME.
 * The test's thread only. */
#ifndef QUOTH_TEST_FUZZ_H
#define QUOTH_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name;
    void (*run)(const uint8_t *data, size_t n);
    struct fuzz_target *next;
};
void fuzz_register(struct fuzz_target *t);

/* Return the path of a file with the input, for a target that opens a path. The file is in memory.
 * Every call replaces it. */
const char *fuzz_file(const uint8_t *data, size_t n, const char *extension);

/* Return the path of a folder in memory, for a target that opens a folder. The folder and its files
 * are removed at the end. */
const char *fuzz_folder(void);
/* Write a file of this folder, or replace it. name: one of at most 4 names, static. */
void fuzz_put(const char *name, const void *data, size_t n);

/* Count an accepted input. The driver prints the numbers of accepted and rejected inputs, which
 * reveal a target that rejects all inputs. */
void fuzz_accepted(void);

#define FUZZ(id)                                                                                   \
    static void fuzz_##id(const uint8_t *data, size_t n);                                          \
    __attribute__((constructor)) static void fuzz_register_##id(void)                              \
    {                                                                                              \
        static struct fuzz_target t = {#id, fuzz_##id, NULL};                                      \
        fuzz_register(&t);                                                                         \
    }                                                                                              \
    static void fuzz_##id(const uint8_t *data, size_t n)

#endif
