/* safetensors_fuzz.c - open mutated safetensors files. */
#include "checkpoint_walk_fuzz.h"

FUZZ(safetensors)
{
    checkpoint_walk(fuzz_file(data, n, ".safetensors"));
}
