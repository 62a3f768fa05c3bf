/* quantize.c - quantization of float weights while they are packed (--quantization).
 *
 * The mix selects the format of each matrix, as in llama.cpp's quantizer (format/quant_mix.c).
 * quantize.c only sets the formats of the matrices. Packing encodes the rows in several threads,
 * and keeps the result in the cache of packed weights (backend/published.c). Norms, biases and
 * routers keep their values. */
#include "model_impl.h"

#include <string.h>

/* Return true for a format whose values are encoded. */
static bool is_source(enum qtype t)
{
    return t == QT_f32 || t == QT_f16 || t == QT_bf16;
}

/* Return true if the embedding is also the head: as in llama.cpp's quantizer, no other tensor is
 * the head. */
static bool is_tied(const struct model *m)
{
    for (size_t i = 0; i < m->tensor.n; i++)
        if (strcmp(m->tensor.v[i]->name, "output.weight") == 0) return false;
    return true;
}

/* Return the format of a matrix. A matrix whose rows no block divides keeps its own format, because
 * F16 cannot represent every value of BF16. */
static enum qtype packed_type_of(const struct model *m, const struct quant_mix *mix, bool tied,
                                 const struct tensor *t)
{
    const struct config *c = &m->config;
    const struct quant_mix_site site = {.name = t->name,
                                        .type = t->type,
                                        .n_dim = 2,
                                        .k = t->k,
                                        .n_layer = c->n_layer,
                                        .n_group = c->n_head / c->n_head_kv,
                                        .tied = tied};
    const enum qtype type = quant_mix_type(mix, &site);
    return qtype_info[mix->type].block > 1 && qtype_info[type].block == 1 ? t->type : type;
}

/* Set the format of t, so that packing encodes its rows. */
static void encode(struct binder *b, struct tensor *t, enum qtype type)
{
    const int n = t->n_expert ? t->n_expert : 1;
    const int64_t row_bytes = (int64_t)qtype_bytes(t->type, t->k);
    struct published *from = arena_push0(&b->m->arena, (size_t)n, sizeof *from);
    if (!from) b->rc = err_memory(b->e, t->name, (size_t)n * sizeof *from);
    for (int i = 0; i < n && from; i++) {
        const struct published *was = t->from ? &t->from[i] : NULL;
        const bool placed = was && was->form == FORM_PLACED;
        from[i] = (struct published){.form = FORM_ENCODED,
                                     .rows = was ? was->rows : t->data + i * t->n_out * row_bytes,
                                     .source = t->type};
        from[i].placed = placed ? was->placed : (struct placed){.row_step = row_bytes};
        if (placed) from[i].part = was->part;
    }
    t->from = from;
    t->type = type;
}

void model_quantize(struct binder *b, const char *name)
{
    struct quant_mix mix;
    const bool tied = is_tied(b->m);
    b->rc = quant_mix_find(&mix, name, false, b->e);
    for (size_t i = 0; i < b->m->tensor.n && b->rc == 0; i++) {
        struct tensor *t = b->m->tensor.v[i];
        const enum qtype type = packed_type_of(b->m, &mix, tied, t);
        const bool codes =
            t->from && (t->from->form == FORM_CODES || t->from->form == FORM_TRANSPOSED);
        if (type == t->type && !codes) continue;
        if (codes || !is_source(t->type))
            b->rc = err_set(b->e, ERR_UNSUPPORTED,
                            "%s: tensor %s: --quantization requires F32, F16 or BF16, got %s",
                            checkpoint_path(b->checkpoint), t->name,
                            codes ? "quantized weights" : qtype_info[t->type].name);
        else
            encode(b, t, type);
    }
    b->m->quantized = true;
}
