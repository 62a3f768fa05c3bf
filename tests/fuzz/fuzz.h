/* fuzz.h - targets for mutated input: FUZZ(name) { ...data[0..n)... } in an x_fuzz.c beside x.c.
 * build/fuzz NAME [-n COUNT] [-t SECONDS] [-s SEED] FILE...: mutates the given files and feeds the target;
 * a crash (run it under SAN=address,undefined) leaves the input in build/fuzz-crash-NAME. */
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

/* A target that takes a path can have the input as a file (kept in memory, replaced at every call). */
const char *fuzz_file(const uint8_t *data, size_t n, const char *extension);

/* Count an input that was accepted (the driver prints accepted / refused, so that a target which refuses
 * everything shows itself). */
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
