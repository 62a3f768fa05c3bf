/* build.c - a GGUF view that the caller fills with keys and tensors, for checkpoint_write_gguf. The
 * writer requests the bytes of one tensor at a time from the caller. */
#include "format_impl.h"

#include <string.h>

int checkpoint_build(struct checkpoint **out, const char *path, tensor_make_fn *make, void *ctx,
                     struct err *e)
{
    const int rc = checkpoint_begin(out, path, e);
    if (rc == 0) {
        (*out)->kind = CKPT_GGUF;
        (*out)->make = make;
        (*out)->make_ctx = ctx;
        return 0;
    }
    checkpoint_close(*out);
    *out = NULL;
    return rc;
}

int checkpoint_add_bool(struct checkpoint *c, const char *key, bool x, struct err *e)
{
    static const uint8_t byte[2] = {0, 1};
    return checkpoint_add_meta(c, key, &(struct meta){.type = VT_BOOL, .data = &byte[x], .n = 1},
                               e);
}

/* Add a list of n numbers of the type. The list is copied. */
static int add_numbers(struct checkpoint *c, const char *key, enum value_type type, const void *v,
                       size_t n, struct err *e)
{
    const size_t n_byte = n * value_bytes(type);
    void *own = arena_push(&c->arena, n_byte, 8);
    if (!own) return err_memory(e, key, n_byte);
    memcpy(own, v, n_byte);
    return checkpoint_add_meta(
        c, key, &(struct meta){.type = VT_LIST, .item = type, .data = own, .n = n}, e);
}

int checkpoint_add_ints(struct checkpoint *c, const char *key, const int32_t *v, size_t n,
                        struct err *e)
{
    return add_numbers(c, key, VT_I32, v, n, e);
}

int checkpoint_add_floats(struct checkpoint *c, const char *key, const float *v, size_t n,
                          struct err *e)
{
    return add_numbers(c, key, VT_F32, v, n, e);
}

int checkpoint_add_bytes(struct checkpoint *c, const char *key, const void *v, size_t n,
                         struct err *e)
{
    return add_numbers(c, key, VT_U8, v, n, e);
}

int checkpoint_add_bools(struct checkpoint *c, const char *key, const bool *v, size_t n,
                         struct err *e)
{
    return add_numbers(c, key, VT_BOOL, v, n, e);
}

int checkpoint_add_texts(struct checkpoint *c, const char *key, const char *const *text,
                         const size_t *len, size_t n, struct err *e)
{
    struct text_slice *own = arena_push0(&c->arena, n, sizeof *own);
    bool ok = own != NULL;
    for (size_t i = 0; i < n && ok; i++) {
        own[i] = (struct text_slice){arena_text(&c->arena, text[i], len[i]), len[i]};
        ok = own[i].text != NULL;
    }
    if (!ok) return err_memory(e, key, n * sizeof *own);
    return checkpoint_add_meta(
        c, key, &(struct meta){.type = VT_LIST, .item = VT_TEXT, .data = own, .n = n}, e);
}

int checkpoint_build_tensor(struct checkpoint *c, const char *name, enum qtype type, int n_dim,
                            const int64_t *dim, struct err *e)
{
    struct tensor_info t = {
        .name = name, .name_raw = name, .type = type, .n_dim = n_dim, .dim = {1, 1, 1, 1}};
    for (int i = 0; i < n_dim; i++) t.dim[i] = dim[i];
    if (t.dim[0] % qtype_info[type].block)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tensor %s: rows of %s must be a multiple of %d values, got %lld",
                       c->path, name, qtype_info[type].name, qtype_info[type].block,
                       (long long)t.dim[0]);
    if (!tensor_set_bytes(&t))
        return err_set(e, ERR_FORMAT, "%s: tensor %s: the sizes overflow", c->path, name);
    return checkpoint_add_tensor(c, &t, e);
}
