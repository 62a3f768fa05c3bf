/* awq.c - integers of 4 bits in groups of inputs with scales and zero points (AWQ). A word has 8
 * codes. Version "gemm" packs along the outputs, in the order 0 2 4 6 1 3 5 7:
 *
 *     qweight  I32 [k, n_out / 8]
 *     qzeros   I32 [n_group, n_out / 8]
 *     scales   [n_group, n_out]
 *
 * Version "gemv" packs along the inputs and the groups, in ascending order. Rows of qzeros and
 * scales are padded with zeros to a width that depends on the group size (AutoAWQ's
 * calculate_zeros_width):
 *
 *     qweight  I32 [n_out, k / 8]
 *     qzeros   I32 [n_out, width]
 *     scales   [n_out, 8 * width]
 *
 *     value = (qweight - zero) * scale */
#include "form_impl.h"

#include <string.h>

enum { BITS = 4, PER_WORD = 8, GROUP_SIZE = 128 /* default of the libraries */ };
enum { ALONG_K = 1 }; /* layout "gemv": codes of consecutive inputs share a word */

/* Read the fields of AWQ. Both names of a field are read if AutoAWQ and llm-awq have different
 * names for it. */
static void read_fields(struct binder *b)
{
    struct quantization *q = &b->m->config.quant;
    q->bits = form_int(b, "bits", BITS, BITS, form_int(b, "w_bit", BITS, BITS, BITS));
    q->group_size[0] = form_int(b, "group_size", -1, D_FF_MAX,
                                form_int(b, "q_group_size", -1, D_FF_MAX, GROUP_SIZE));
    q->n_group_size = 1;
    if (q->group_size[0] == 0) form_refuse(b, "group_size", "must be -1 or at least 1, got 0");
    static const char *const field[] = {"version", "format", "checkpoint_format"};
    const char *first = NULL;
    for (int i = 0; i < 3; i++) {
        const char *version = meta_text(form_meta(b, field[i]), NULL);
        if (!version) continue;
        q->flags = strcasecmp(version, "gemv") == 0 ? ALONG_K : 0;
        if (!q->flags && strcasecmp(version, "gemm") != 0)
            form_refuse(b, field[i], "must be \"gemm\" or \"gemv\", got \"%.40s\"", version);
        if (first && strcasecmp(version, first) != 0)
            form_refuse(b, field[i], "must be the same in all fields, got \"%.40s\" and \"%.40s\"",
                        first, version);
        first = version;
    }
}

/* Bind the layout "gemm". The shape of the scales gives the number of groups. */
static void bind_gemm(struct binder *b, const struct site *s, struct published *p)
{
    const int64_t n_word = s->n_out / PER_WORD;
    const struct tensor_info *t = form_need(b, s, "qweight", TYPE(i32), s->k, n_word);
    const struct tensor_info *scale = form_need(b, s, "scales", FLOAT_TYPES, -1, s->n_out);
    if (!t || !scale) return;
    const int64_t n_group = scale->dim[1];
    p->block_k = form_group_size(b, n_group, s->k, b->m->config.quant.any_shape);
    if (p->block_k > 0 && s->k % p->block_k) p->block_k = 0; /* AutoAWQ has only whole groups */
    const struct tensor_info *zero = form_need(b, s, "qzeros", TYPE(i32), n_group, n_word);
    if (s->n_out % PER_WORD)
        form_fault(b, t, "outputs: must be a multiple of %d, got %lld", PER_WORD,
                   (long long)s->n_out);
    if (p->block_k == 0)
        form_fault(b, scale, "has %lld groups for %lld inputs: not of %d inputs each",
                   (long long)n_group, (long long)s->k, b->m->config.quant.group_size[0]);
    if (!zero || b->rc != 0) return;
    p->code = form_words_out(t, BITS, n_word);
    p->zero = form_words_out(zero, BITS, n_word);
    p->code.order = p->zero.order = ORDER_AWQ;
    p->scale.data = scale->data, p->scale.type = scale->type;
    p->scale.row_step = 1, p->scale.group_step = s->n_out;
}

/* Return true if all rows of the scales are 0 in the columns [begin, end). */
static bool has_no_scale(const struct tensor_info *scale, int64_t begin, int64_t end)
{
    for (int64_t r = 0; r < scale->dim[1]; r++)
        for (int64_t i = begin; i < end; i++)
            if (qtype_value(scale->type, scale->data, r * scale->dim[0] + i) != 0) return false;
    return true;
}

/* Return the number of words in a row of qzeros, for groups of n inputs; 0 if the library has no
 * such layout. */
static int64_t zeros_width(int64_t k, int64_t n)
{
    const int64_t step = n >= 128 ? 1 : n == 64 ? 2 : n == 32 ? 4 : 0;
    if (step == 0 || k % n != 0) return 0;
    const int64_t word = (k / n + PER_WORD - 1) / PER_WORD;
    return (word + step - 1) / step * step;
}

/* Bind the layout "gemv". Another group size has another width, or values in the padding. */
static void bind_gemv(struct binder *b, const struct site *s, struct published *p)
{
    const int64_t n_word = s->k / PER_WORD;
    const int size = b->m->config.quant.group_size[0];
    const int64_t n = size > 0 ? size : s->k, width = zeros_width(s->k, n);
    const struct tensor_info *t = form_need(b, s, "qweight", TYPE(i32), s->n_out, n_word);
    if (t && width == 0)
        form_fault(b, t, "has %lld inputs: not of groups of %d inputs (32, 64, or at least 128)",
                   (long long)s->k, size);
    if (!t || b->rc != 0) return;
    const struct tensor_info *zero = form_need(b, s, "qzeros", TYPE(i32), s->n_out, width),
                             *scale =
                                 form_need(b, s, "scales", FLOAT_TYPES, s->n_out, width * PER_WORD);
    if (!zero || !scale) return;
    const int64_t n_group = s->k / n;
    if (s->k % PER_WORD)
        form_fault(b, t, "inputs: must be a multiple of %d, got %lld", PER_WORD, (long long)s->k);
    if (!has_no_scale(scale, n_group, scale->dim[0]) || has_no_scale(scale, n_group - 1, n_group))
        form_fault(b, scale, "is not of %lld groups of %d inputs each", (long long)n_group, size);
    p->block_k = n;
    p->code = form_words(t, BITS, n_word);
    p->zero = form_words(zero, BITS, zero->dim[0]);
    p->scale.data = scale->data, p->scale.type = scale->type;
    p->scale.row_step = scale->dim[0], p->scale.group_step = 1;
}

const struct tensor_info *form_awq_gemm(struct binder *b, const struct site *s, struct published *p)
{
    const struct tensor_info *t = form_find(b, s, "qweight");
    if (t) bind_gemm(b, s, p);
    return t;
}

static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    if (!(b->m->config.quant.flags & ALONG_K)) return form_awq_gemm(b, s, p);
    const struct tensor_info *t = form_find(b, s, "qweight");
    if (t) bind_gemv(b, s, p);
    return t;
}

const struct form form_awq = {.method = "awq", .read = read_fields, .bind = bind};
