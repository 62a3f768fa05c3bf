/* bitnet.c - ternary weights of BitNet:
 *
 *     weight        U8 [n_out / 4, k]: the codes of outputs r, r + n_out / 4, r + n_out / 2 ... of
 *                   a column in a byte, from the lowest bits; a code is the value + 1
 *     weight_scale  [1]
 *
 *     value = weight / weight_scale (linear_class bitlinear) or weight * weight_scale
 *
 * The reference rounds activations to 8 bits per row. quoth does not round activations. */
#include "form_impl.h"

#include <string.h>

enum { INVERSE = 1 }; /* true: weights are divided by their scale */

static void read_fields(struct binder *b)
{
    const char *class = meta_text(form_meta(b, "linear_class"), NULL);
    if (!class || strcmp(class, "bitlinear") == 0) b->m->config.quant.flags |= INVERSE;
}

/* Bind a matrix. NULL if the type of its weight is not U8, because the file may also have
 * unquantized matrices. */
static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    const struct tensor_info *t = form_find(b, s, "weight");
    if (!t || t->type != QT_u8) return NULL;
    t = form_need(b, s, "weight", TYPE(u8), s->n_out / 4, s->k);
    const struct tensor_info *scale = form_need(b, s, "weight_scale", FLOAT_TYPES, 1, 1);
    if (t && s->n_out % 4) form_fault(b, t, "must have a multiple of 4 outputs");
    form_scales(b, s, p, scale, 0, 0);
    p->scale.inverse = b->m->config.quant.flags & INVERSE;
    if (!t || b->rc != 0) return NULL;
    p->code = (struct codes){.data = t->data,
                             .bits = 2,
                             .word = 1,
                             .order = ORDER_PLANES,
                             .along_out = true,
                             .n_plane = s->n_out / 4,
                             .step = s->k,
                             .other = 1};
    p->zero_point = 1;
    return t;
}

const struct form form_bitnet = {.method = "bitnet", .read = read_fields, .bind = bind};
