/* f32.c - F32: IEEE binary32, little-endian, copied unchanged. */
#include "quant_impl.h"

static void decode(float *y, const void *x, int64_t n)
{
    memcpy(y, x, (size_t)n * sizeof *y);
}

static void encode(void *y, const float *x, int64_t n, const float *importance)
{
    (void)importance;
    memcpy(y, x, (size_t)n * sizeof *x);
}

const struct qtype_ops qtype_ops_f32 = {decode, encode, NULL, NULL};
