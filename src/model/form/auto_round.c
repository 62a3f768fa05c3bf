/* auto_round.c - integers in groups of inputs, written by AutoRound. packing_format is the layout:
 *
 *     auto_round:auto_gptq    GPTQ's tensors; the file has zero - 1 (also auto_round:gptq, auto)
 *     auto_round              GPTQ's tensors with the zeros (also auto_round:gptqmodel)
 *     auto_round:auto_awq     AWQ's tensors, version "gemm" (also auto_round:awq)
 *
 * GPTQ's tensors may also have codes of 5, 6 and 7 bits, which cross words like those of 3 bits.
 * extra_config may change the bits and the group size of a module, or exempt the module. The shapes
 * of the tensors determine the form of a matrix. AutoRound increments a zero without a carry, and
 * never writes the zero that would carry. */
#include "form_impl.h"

#include <string.h>

enum layout { LAYOUT_GPTQ, LAYOUT_GPTQ_PLAIN, LAYOUT_AWQ, LAYOUT_COUNT };

static const struct {
    const char *name;
    enum layout layout;
} layouts[] = {
    {"auto_round:auto_gptq", LAYOUT_GPTQ},
    {"auto_round:gptq", LAYOUT_GPTQ},
    {"auto", LAYOUT_GPTQ},
    {"auto_round", LAYOUT_GPTQ_PLAIN},
    {"auto_round:gptqmodel", LAYOUT_GPTQ_PLAIN},
    {"auto_round:auto_awq", LAYOUT_AWQ},
    {"auto_round:awq", LAYOUT_AWQ},
};

/* Return the layout; LAYOUT_COUNT if unknown. As in transformers, an absent field means GPTQ's
 * layout. */
static enum layout layout_of(const struct binder *b)
{
    const char *name = meta_text(form_meta(b, "packing_format"), NULL);
    if (!name) return LAYOUT_GPTQ;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (strcmp(name, layouts[i].name) == 0) return layouts[i].layout;
    return LAYOUT_COUNT;
}

static void read_fields(struct binder *b)
{
    struct quantization *q = &b->m->config.quant;
    const enum layout layout = layout_of(b);
    const int lo = layout == LAYOUT_AWQ ? 4 : 2, hi = layout == LAYOUT_AWQ ? 4 : 8;
    q->bits = form_int(b, "bits", lo, hi, 4);
    q->group_size[0] = form_int(b, "group_size", -1, D_FF_MAX, 128);
    q->n_group_size = 1;
    q->any_shape = meta_kind(form_meta(b, "extra_config")) != META_NONE;
    if (q->group_size[0] == 0) form_refuse(b, "group_size", "must be -1 or at least 1, got 0");
    if (layout == LAYOUT_GPTQ_PLAIN) q->flags = FORM_PLAIN_ZEROS;
}

static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    return layout_of(b) == LAYOUT_AWQ ? form_awq_gemm(b, s, p) : form_gptq.bind(b, s, p);
}

const struct form form_auto_round = {.method = "auto-round", .read = read_fields, .bind = bind};
