/* gguf_fuzz.c - open mutated GGUF files. Each file is rejected with a message, or all its contents
 * can be read. */
#include "checkpoint_walk_fuzz.h"
#include "../../tests/fuzz/fuzz.h"

FUZZ(gguf)
{
    checkpoint_walk(fuzz_file(data, n, ".gguf"));
}
