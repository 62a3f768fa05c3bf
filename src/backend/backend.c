/* backend.c - select a backend by name, and the tables of KV types.
 *
 * A backend is a line of backends.def and a function backend_open_ID. The first line is the default
 * device. This file includes the list three times: for the choice, for the error message and for
 * the names of the option's values. */
#include "backend_impl.h"

#include "base/check.h"

#include <string.h>
#include <strings.h>

int backend_open(struct backend **out, const char *name, const struct backend_options *o,
                 struct err *e)
{
    *out = NULL;
#define BACKEND(id)                                                                                \
    if (strcmp(name, #id) == 0) return backend_open_##id(out, o, e);
#include "backends.def"
#undef BACKEND
    return err_set(e, ERR_UNSUPPORTED, "device \"%s\" not found; available:"
#define BACKEND(id) " " #id
#include "backends.def"
#undef BACKEND
                   ,
                   name);
}

const char *backend_name(int i)
{
    static const char *const names[] = {
#define BACKEND(id) #id,
#include "backends.def"
#undef BACKEND
    };
    return i < (int)(sizeof names / sizeof names[0]) ? names[i] : NULL;
}

void backend_close(struct backend *b)
{
    if (b) b->op->close(b);
}

static const struct {
    const char *name; /* static */
    int n_byte;
} kv_types[KV_TYPE_COUNT] = {
    [KV_F32] = {"float32", 4}, [KV_F16] = {"float16", 2},       [KV_BF16] = {"bfloat16", 2},
    [KV_Q8] = {"int8", 1},     [KV_FP8_E4M3] = {"fp8_e4m3", 1}, [KV_FP8_E5M2] = {"fp8_e5m2", 1},
};

/* Also accept vLLM's aliases "auto" and "fp8". vLLM's fp8 is E4M3. */
int kv_type_of_name(const char *name)
{
    if (strcasecmp(name, "auto") == 0) return KV_F16;
    if (strcasecmp(name, "fp8") == 0) return KV_FP8_E4M3;
    for (int t = 0; t < KV_TYPE_COUNT; t++)
        if (strcasecmp(name, kv_types[t].name) == 0) return t;
    return -1;
}

const char *kv_type_name(enum kv_type t)
{
    CHECK((unsigned)t < KV_TYPE_COUNT, "type %d", (int)t);
    return kv_types[t].name;
}

/* Add one f32 scale per int8 row of a head. The size of a page is rounded up to cache lines of 64
 * bytes, so that threads share no line at the ends of pages. */
int64_t kv_page_bytes(enum kv_type t, int page_rows, int n_head_kv, int d)
{
    CHECK((unsigned)t < KV_TYPE_COUNT && page_rows >= 1, "type %d, %d rows", (int)t, page_rows);
    int64_t per_token = (int64_t)d * kv_types[t].n_byte + (t == KV_Q8 ? (int64_t)sizeof(float) : 0);
    int64_t n = per_token * page_rows * n_head_kv;
    return (n + 63) / 64 * 64;
}
