/* parameter.c - parameters of recurrent layers: vectors, and small matrices that ops need with
 * their columns as rows. Hugging Face directories have some of them without ".weight", and weights
 * of convolutions with a dimension of size 1. GGUF files have the bias of time steps as a bias. */
#include "recurrent_impl.h"

#include <string.h>

/* Return the tensor [n, k] of a parameter; NULL if none. */
static const struct tensor_info *find_parameter(struct binder *b, const char *stem, int il,
                                                int64_t n, int64_t k)
{
    static const char *const end[] = {"weight", "bias", ""};
    char name[160];
    for (size_t i = 0; i < sizeof end / sizeof end[0]; i++) {
        bind_name(b, name, stem, il, end[i]);
        if (!*end[i]) name[strlen(name) - 1] = 0; /* the dot */
        const struct tensor_info *t = bind_find(b, name);
        if (t) return t;
    }
    bind_name(b, name, stem, il, end[0]);
    const struct tensor_info *t =
        k > 1 ? random_tensor(b, name, 1, n, k, true) : random_tensor(b, name, 1, 1, n, true);
    if (!t && b->rc == 0) bind_missing(b, name);
    return t;
}

/* Return true if the sizes of t are those of [n, k], without sizes of 1. */
static bool has_sizes(const struct tensor_info *t, int64_t n, int64_t k)
{
    const int64_t want[2] = {k, n};
    int at = 0;
    /* a vector may have its groups as rows */
    if (k == 1 && t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3] == n) return true;
    for (int i = 0; i < 4; i++) {
        while (at < 2 && want[at] == 1) at++;
        if (t->dim[i] == 1) continue;
        if (at == 2 || t->dim[i] != want[at++]) return false;
    }
    while (at < 2 && want[at] == 1) at++;
    return at == 2;
}

float *bind_transposed(struct binder *b, const char *stem, int il, int64_t n, int64_t k)
{
    const struct tensor_info *t = b->rc == 0 ? find_parameter(b, stem, il, n, k) : NULL;
    if (!t) return NULL;
    b->bound[t - checkpoint_tensor_at(b->checkpoint, 0)] = k > 1 || t->n_dim > 1 ? BOUND_VALUES : 1;
    if (!has_sizes(t, n, k))
        bind_wrong_shape(b, t, t->n_dim > 2 ? n : 1, t->n_dim > 2 ? 1 : n, k);
    else if (!qtype_info[t->type].ops || qtype_is_block(t->type))
        bind_refuse(b, t, ERR_UNSUPPORTED, " has type %s: not supported yet",
                    qtype_info[t->type].name);
    float *v = bind_memory(b, t->name, (size_t)(n * k) * sizeof *v);
    const size_t size = (size_t)qtype_info[t->type].n_byte;
    for (int64_t i = 0; i < n * k && v; i++)
        qtype_info[t->type].ops->decode(v + i % k * n + i / k, t->data + (size_t)i * size, 1);
    return v;
}
