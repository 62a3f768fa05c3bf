/* hqq.c - integers in groups of consecutive inputs, with float scales and float zeros (HQQ). The
 * codes of the matrix, row by row, are in planes: the first n codes are in the upper bits of n
 * words.
 *
 *     W_q      U8 [words], or I32 for 3 bits, ten codes per word
 *     scale    [groups, 1]
 *     zero     [groups, 1]
 *     packing  text: 8bit_u8, 4bit_u8, 3bit_32, 2bit_u8 or 1bit_u8
 *     shape    [n_out, k];  group_size, axis and others: one number per tensor
 *
 *     value = (code - zero) * scale
 *
 * The library computes in compute_dtype. quoth computes in f32. The tensors of a matrix repeat the
 * config, so only the tensors are read. The values become f32, because zeros are fractions. */
#include "form_impl.h"

#include <string.h>

static const struct {
    const char *name;
    int bits, word, per_word;
} packings[] = {{"8bit_u8", 8, 1, 1},
                {"4bit_u8", 4, 1, 2},
                {"3bit_32", 3, FORM_INT32, 10},
                {"2bit_u8", 2, 1, 4},
                {"1bit_u8", 1, 1, 8}};

/* Return the index of the packing in `packings`; -1 if unknown. */
static int packing_of(const struct tensor_info *t)
{
    for (int i = 0; i < (int)(sizeof packings / sizeof packings[0]); i++)
        if (t->n_byte == strlen(packings[i].name) &&
            memcmp(t->data, packings[i].name, t->n_byte) == 0)
            return i;
    return -1;
}

/* Return a number of a matrix, stored as one item of the type U8 or I32; `fallback` if absent. */
static int64_t number_of(struct binder *b, const struct site *s, const char *suffix, int fallback)
{
    const struct tensor_info *t = form_find(b, s, suffix);
    if (!t) return fallback;
    int32_t v = 0;
    if (t->type == QT_i32 && t->n_byte == sizeof v)
        memcpy(&v, t->data, sizeof v);
    else if (t->n_byte == 1)
        v = t->data[0];
    else
        form_fault(b, t, "must be one number, got %zu bytes", t->n_byte);
    return v;
}

/* Require that a number of the matrix is `want`. */
static void check_number(struct binder *b, const struct site *s, const char *suffix, int want)
{
    const int64_t v = number_of(b, s, suffix, want);
    const struct tensor_info *t = form_find(b, s, suffix);
    if (t && v != want) form_fault(b, t, "must be %d, got %lld", want, (long long)v);
}

/* Reject numbers that select other layouts. */
static void check_numbers(struct binder *b, const struct site *s)
{
    static const char *const unused[] = {
        "nbits",        "unpack_view_dtype",  "compute_dtype",
        "offload_meta", "encoded_state_dict", "stores_quant_config",
        "optimize",     "round_zero",         NULL};
    check_number(b, s, "axis", 1);
    check_number(b, s, "view_as_float", 0);
    check_number(b, s, "quant_scale", 0);
    check_number(b, s, "quant_zero", 0);
    check_number(b, s, "channel_wise", 1);
    form_skip(b, s, unused);
    const struct tensor_info *t = form_find(b, s, "shape");
    int64_t shape[2];
    if (!t || b->rc != 0) return;
    if (t->n_byte != sizeof shape) {
        form_fault(b, t, "must be two numbers, got %zu bytes", t->n_byte);
        return;
    }
    memcpy(shape, t->data, sizeof shape);
    if (shape[0] != s->n_out || shape[1] != s->k)
        form_fault(b, t, "is [%lld, %lld], expected [%lld, %lld]", (long long)shape[0],
                   (long long)shape[1], (long long)s->n_out, (long long)s->k);
}

/* Return a tensor with one float per group. */
static const struct tensor_info *floats_of(struct binder *b, const struct site *s,
                                           const char *suffix, int64_t n_group)
{
    const struct tensor_info *t = form_need(b, s, suffix, FLOAT_TYPES, -1, -1);
    if (t && t->dim[0] * t->dim[1] != n_group)
        form_fault(b, t, "has %lld items, expected %lld", (long long)(t->dim[0] * t->dim[1]),
                   (long long)n_group);
    return t;
}

static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    const struct tensor_info *t = form_find(b, s, "W_q");
    if (!t) return NULL;
    const int64_t size = number_of(b, s, "group_size", (int)s->k), n = s->n_out * s->k;
    const struct tensor_info *packing = form_need(b, s, "packing", TYPE(u8), 1, -1);
    check_numbers(b, s);
    if (!packing || b->rc != 0) return NULL;
    const int i = packing_of(packing);
    if (i < 0) form_fault(b, packing, "is no known packing");
    if (size < 1 || n % size)
        form_fault(b, form_find(b, s, "group_size"), "does not divide %lld values", (long long)n);
    if (b->rc != 0) return NULL;
    const int64_t n_group = n / size,
                  n_row = (n_group + packings[i].per_word - 1) / packings[i].per_word;
    const struct tensor_info *scale = floats_of(b, s, "scale", n_group),
                             *zero = floats_of(b, s, "zero", n_group);
    t = form_need(b, s, "W_q", packings[i].word == 1 ? TYPE(u8) : TYPE(i32), n_row, size);
    if (t && packings[i].word == 1 && n_group % packings[i].per_word)
        form_fault(b, t, "has %lld groups, which %d planes do not contain", (long long)n_group,
                   packings[i].per_word);
    if (!t || !scale || !zero || b->rc != 0) return NULL;
    p->code = (struct codes){.data = t->data,
                             .bits = packings[i].bits,
                             .word = packings[i].word,
                             .order = ORDER_FLAT,
                             .n_plane = n_row * size,
                             .step = packings[i].word,
                             .other = s->k};
    p->scale.data = scale->data, p->scale.type = scale->type;
    p->scale.group_step = 1;
    p->shift = (struct published_shifts){.data = zero->data, .type = zero->type};
    p->block_k = size, p->flat = true;
    return t;
}

const struct form form_hqq = {.method = "hqq", .bind = bind};
