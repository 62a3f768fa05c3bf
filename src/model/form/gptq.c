/* gptq.c - integers in groups of inputs with scales and zero points (GPTQ). Words of 32 bits have
 * codes in a stream of bits, the first code in the lowest bits:
 *
 *     qweight  I32 [k * bits / 32, n_out]         along the inputs
 *     qzeros   I32 [n_group, n_out * bits / 32]   along the outputs
 *     scales   [n_group, n_out]
 *     g_idx    I32 [k]                            group of each input; without desc_act, it may be
 *                                                 absent: input / group_size
 *
 *     value = (qweight - zero) * scale
 *
 * Files of version 1 contain zero - 1. The library subtracts a word of ones from a word of zeros,
 * so a zero of 0 borrows from the next zero. Therefore quoth also adds the ones to whole words.
 * Codes of 3, 5, 6 and 7 bits cross words, so each of their zeros is incremented alone. The shapes
 * give the bits and the group size of a matrix, because `dynamic` may change these values per
 * module. */
#include "form_impl.h"

#include <string.h>

/* Read the fields. Two fields give the format. Both fields must agree, because gptq and gptq_v2
 * differ by one in every zero point. */
static void read_fields(struct binder *b)
{
    struct quantization *q = &b->m->config.quant;
    q->bits = form_int(b, "bits", 2, 8, 4);
    q->group_size[0] = form_int(b, "group_size", -1, D_FF_MAX, -1);
    q->n_group_size = 1;
    if (q->bits > 4 && q->bits != 8)
        form_refuse(b, "bits", "must be 2, 3, 4 or 8, got %d", q->bits);
    q->any_shape = meta_kind(form_meta(b, "dynamic")) != META_NONE;
    if (q->group_size[0] == 0) form_refuse(b, "group_size", "must be -1 or at least 1, got 0");
    const char *first = meta_text(form_meta(b, "checkpoint_format"), NULL),
               *format = meta_text(form_meta(b, "format"), NULL);
    if (!format) format = first;
    if (first && strcmp(first, format) != 0)
        form_refuse(b, "format", "must be checkpoint_format, got \"%.40s\" and \"%.40s\"", format,
                    first);
    if (format && strcmp(format, "gptq_v2") == 0) q->flags |= FORM_PLAIN_ZEROS;
    if (meta_bool(form_meta(b, "desc_act"), false)) q->flags |= FORM_OWN_GROUPS;
}

/* Return the number of bits of a code, computed from the number of words for k codes; 0 if
 * invalid. */
static int bits_of(const struct quantization *q, int64_t n_word, int64_t k)
{
    for (int bits = 2; bits <= 8; bits++)
        if ((q->any_shape || bits == q->bits) && (k * bits + 31) / 32 == n_word) return bits;
    return 0;
}

static void bind_zeros(struct binder *b, const struct site *s, struct published *p, int bits,
                       int64_t n_group)
{
    const int64_t n_word = (s->n_out * bits + 31) / 32;
    const struct tensor_info *t = form_need(b, s, "qzeros", TYPE(i32), n_group, n_word);
    if (!t) return;
    p->zero = form_words_out(t, bits, n_word);
    if (b->m->config.quant.flags & FORM_PLAIN_ZEROS) return;
    if (32 % bits)
        p->zero.add = 1;
    else
        p->zero.plus = UINT32_MAX / ((1u << bits) - 1);
}

/* Bind words of codes along k. The shape gives the number of bits, because `dynamic` may override
 * the field for a module. */
static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    const struct quantization *q = &b->m->config.quant;
    const struct tensor_info *t = form_find(b, s, "qweight");
    if (!t) return NULL;
    t = form_need(b, s, "qweight", TYPE(i32), -1, s->n_out);
    const struct tensor_info *scale = form_need(b, s, "scales", FLOAT_TYPES, -1, s->n_out);
    if (!t || !scale) return NULL;
    const int bits = bits_of(q, t->dim[1], s->k);
    const int64_t n_group = scale->dim[1];
    if (bits == 0)
        form_fault(b, t, "has %lld words for %lld inputs: not %d bits each", (long long)t->dim[1],
                   (long long)s->k, q->bits);
    p->block_k = form_group_size(b, n_group, s->k, q->any_shape);
    if (p->block_k == 0)
        form_fault(b, scale, "has %lld groups for %lld inputs: not of %d inputs each",
                   (long long)n_group, (long long)s->k, q->group_size[0]);
    if (b->rc != 0) return NULL;
    p->code = form_words(t, bits, 0);
    p->code.step = s->n_out * FORM_INT32, p->code.other = FORM_INT32;
    p->scale.data = scale->data, p->scale.type = scale->type;
    p->scale.row_step = 1, p->scale.group_step = s->n_out;
    bind_zeros(b, s, p, bits, n_group);
    if (n_group > 1 && q->flags & FORM_OWN_GROUPS) form_need(b, s, "g_idx", TYPE(i32), 1, s->k);
    form_groups(b, s, p, "g_idx", n_group);
    return t;
}

const struct form form_gptq = {.method = "gptq", .read = read_fields, .bind = bind};
