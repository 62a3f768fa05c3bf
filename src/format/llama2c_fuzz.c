/* llama2c_fuzz.c - open mutated llama2.c checkpoints. */
#include "checkpoint_walk_fuzz.h"

FUZZ(llama2c)
{
    checkpoint_walk(fuzz_file(data, n, ".bin"));
}
