/* gguf_fuzz.c - mutated GGUF files: either rejected with a message, or all their contents can be
 * read. */
#include "checkpoint_walk_fuzz.h"
#include "../../tests/fuzz/fuzz.h"

FUZZ(gguf)
{
    checkpoint_walk(fuzz_file(data, n, ".gguf"));
}
