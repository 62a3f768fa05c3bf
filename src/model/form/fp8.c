/* fp8.c - 8-bit floats (E4M3) with a scale per matrix, per output, or per block of outputs and
 * inputs:
 *
 *     weight                              F8_E4M3 [n_out, k]
 *     weight_scale_inv or weight_scale    [], [1], [n_out], [n_out, 1] or one item per block
 *     input_scale, activation_scale ...   scales of static activations: not used
 *
 *     value = weight * scale
 *
 * The reference also rounds activations to 8-bit floats. quoth does not round activations. */
#include "form_impl.h"

static void read_fields(struct binder *b)
{
    char text[80];
    const struct meta *block = form_meta(b, "weight_block_size");
    const int64_t out = meta_item_int(block, 0, 0), k = meta_item_int(block, 1, 0);
    if (meta_kind(block) == META_NONE) return;
    if (meta_kind(block) != META_LIST || meta_count(block) != 2)
        form_refuse(b, "weight_block_size", "must be a list of 2 sizes, got %s",
                    config_value_text(block, text));
    else if (out < 1 || k < 1 || out > D_FF_MAX || k > D_FF_MAX)
        form_refuse(b, "weight_block_size", "must be 2 sizes in [1, %d], got [%lld, %lld]",
                    D_FF_MAX, (long long)out, (long long)k);
    b->m->config.quant.block_out = (int)out;
    b->m->config.quant.block_k = (int)k;
}

/* Bind a matrix. Scales of activations are skipped, because activations are not rounded to 8
 * bits. */
static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    static const char *const unused[] = {"input_scale", "activation_scale", "output_scale",
                                         "input_scale_ub", NULL};
    const struct quantization *q = &b->m->config.quant;
    const struct tensor_info *t = form_find(b, s, "weight");
    if (!t || t->type != QT_f8_e4m3) return NULL;
    t = form_need(b, s, "weight", TYPE(f8_e4m3), s->n_out, s->k);
    const bool inv = form_find(b, s, "weight_scale_inv") ||
                     (q->block_out > 0 && !form_find(b, s, "weight_scale"));
    const char *name = inv ? "weight_scale_inv" : "weight_scale";
    const struct tensor_info *scale = form_need(b, s, name, FLOAT_TYPES, -1, -1);
    if (!t || !scale) return NULL;
    p->code = form_bytes(t, s->k);
    p->level = form_e4m3(b);
    form_scales(b, s, p, scale, q->block_out, q->block_k);
    form_skip(b, s, unused);
    return t;
}

const struct form form_fp8 = {.method = "fp8", .read = read_fields, .bind = bind};
const struct form form_modelopt = {.method = "modelopt", .bind = bind};
const struct form form_fbgemm_fp8 = {.method = "fbgemm_fp8", .bind = bind};
