/* gguf_fuzz.c - mutated GGUF files: refused with a sentence, or everything in them can be read. */
#include "checkpoint_walk_fuzz.h"
#include "../../tests/fuzz/fuzz.h"

FUZZ(gguf)
{
    checkpoint_walk(fuzz_file(data, n, ".gguf"));
}
