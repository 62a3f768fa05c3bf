/* same_config.c - compare the configs of two checkpoints of one model, such as a directory and the
 * GGUF made of it. The comparison detects a field that has no key in the written file, because its
 * value differs after reading.
 *
 * Configs are compared after binding, not as files: names, units and defaults differ between the
 * formats, and only the resolved values determine the answers. Both models are bound but not
 * packed, so no matrix is read. */
#include "model_impl.h"

#include <math.h>
#include <string.h>

/* State of a comparison. The pointers are borrowed. */
struct comparison {
    const char *want; /* path */
    struct err *e;
    int rc; /* first difference */
};

/* Record a difference. layer: number of the layer; -1: the value does not belong to a layer. */
static void check_value(struct comparison *x, const char *what, int layer, double want, double got)
{
    /* 1e-30: a GGUF has such small angles for lanes that do not rotate */
    const double room = 2e-6 * fabs(want) + 1e-28;
    if (x->rc != 0 || want == got || fabs(want - got) <= room || (isnan(want) && isnan(got)))
        return;
    x->rc = layer < 0 ? err_set(x->e, ERR_UNSUPPORTED,
                                "%s: %s is %.9g, which the result cannot express: it has %.9g",
                                x->want, what, want, got)
                      : err_set(x->e, ERR_UNSUPPORTED,
                                "%s: %s of layer %d is %.9g, which the result cannot express: it "
                                "has %.9g",
                                x->want, what, layer, want, got);
}

#define SAME(field)    check_value(x, #field, -1, (double)a->field, (double)b->field)
#define SAME_IN(field) check_value(x, #field, i, (double)a->field, (double)b->field)

/* Compare the sizes of latent attention. */
static void compare_latent(struct comparison *x, const struct latent *a, const struct latent *b)
{
    SAME(q_rank);
    SAME(kv_rank);
    SAME(d_nope);
    SAME(d_rope);
    SAME(d_v);
}

/* Compare layer i. SAME_IN compares a field of both. */
static void compare_layer(struct comparison *x, int i, const struct layer_config *a,
                          const struct layer_config *b)
{
    SAME_IN(n_head);
    SAME_IN(n_head_kv);
    SAME_IN(d_head);
    SAME_IN(d_ff);
    SAME_IN(n_expert);
    SAME_IN(n_expert_used);
    SAME_IN(d_expert);
    if (a->n_expert) SAME_IN(norm_experts);
    SAME_IN(window);
    SAME_IN(n_later);
    SAME_IN(rope);
    SAME_IN(attn_scale);
    SAME_IN(kv_layer);
    SAME_IN(reuses_kv);
    SAME_IN(v_is_k);
    SAME_IN(softcap);
    SAME_IN(cuts_gates);
    SAME_IN(gate_cut);
}

/* Compare the angles, not the parameters, because one of the files may have a tensor of divisors in
 * place of a scaling. */
static void compare_rope(struct comparison *x, int i, const struct rope_config *a,
                         const struct rope_config *b)
{
    SAME_IN(d_rot);
    SAME_IN(magnitude);
    SAME_IN(beta);
    check_value(x, "two lists of divisors", i, a->long_factor != NULL, b->long_factor != NULL);
    check_value(x, "dynamic scaling", i, a->scaling == ROPE_DYNAMIC, b->scaling == ROPE_DYNAMIC);
    if (a->long_factor || a->beta != 0 || a->scaling == ROPE_DYNAMIC) SAME_IN(context_original);
    for (int k = 0; k < a->d_rot / 2 && x->rc == 0; k++) {
        check_value(x, "an angle of the rope", i, rope_freq(a, k, false), rope_freq(b, k, false));
        check_value(x, "an angle of the long rope", i, rope_freq(a, k, true),
                    rope_freq(b, k, true));
    }
}

/* Compare activations. The error has their names, because numbers of the enum mean nothing to
 * users. */
static void compare_curves(struct comparison *x, enum curve a, enum curve b)
{
    static const char *const name[] = {
        [CURVE_silu] = "silu",     [CURVE_gelu_tanh] = "gelu_pytorch_tanh",
        [CURVE_gelu_erf] = "gelu", [CURVE_relu] = "relu",
        [CURVE_relu2] = "relu2",   [CURVE_tanh] = "tanh"};
    if (x->rc != 0 || a == b) return;
    x->rc =
        err_set(x->e, ERR_UNSUPPORTED, "%s: the result cannot express the activation %s: it has %s",
                x->want, name[a], name[b]);
}

/* Compare all values on which an answer depends. Sizes of buffers are not compared, because they
 * follow from these values. */
static void compare_configs(struct comparison *x, const struct config *a, const struct config *b)
{
    SAME(n_layer);
    SAME(d);
    SAME(n_head);
    SAME(n_vocab);
    SAME(context_train);
    SAME(n_encoder);
    SAME(n_start);
    SAME(d_embd);
    check_value(x, "the number of positions", -1, a->n_position - a->position0,
                b->n_position - b->position0);
    SAME(n_segment);
    SAME(pooling_type);
    SAME(length_max);
    SAME(n_label);
    if (a->n_label > 0) SAME(class_pooling);
    if (a->n_label > 0) SAME(class_act);
    for (int i = 0; i < a->n_start && i < b->n_start; i++) SAME_IN(start[i]);
    SAME(rms_eps);
    SAME(plain_norms);
    SAME(v_norms);
    SAME(order);
    compare_curves(x, a->curve, b->curve);
    SAME(own_curve);
    SAME(no_gate);
    SAME(logit_softcap);
    SAME(qkv_limit);
    SAME(n_bucket);
    SAME(bucket_reach);
    SAME(alibi);
    SAME(alibi_scale);
    SAME(embed_scale);
    SAME(residual_scale);
    SAME(logit_scale);
    SAME(n_rope);
    SAME(own_bytes);
    if (x->rc == 0 && a->latent && b->latent) compare_latent(x, a->latent, b->latent);
    if (x->rc == 0 && a->own_bytes > 0 && memcmp(a->own, b->own, a->own_bytes) != 0)
        x->rc = err_set(x->e, ERR_UNSUPPORTED,
                        "%s: the result cannot express values that only this architecture has",
                        x->want);
    for (int i = 0; i < a->n_rope && x->rc == 0; i++) compare_rope(x, i, &a->rope[i], &b->rope[i]);
    for (int i = 0; i < a->n_layer && x->rc == 0; i++)
        compare_layer(x, i, &a->layer[i], &b->layer[i]);
}

/* Compare the layers of a head. Their weights are not compared, because their values are in
 * tensors. */
static void compare_head(struct comparison *x, const struct head_layers *a,
                         const struct head_layers *b)
{
    SAME(n);
    SAME(n_out);
    for (int i = 0; i < a->n && x->rc == 0; i++) {
        const struct head_layer *p = &a->layer[i], *q = &b->layer[i];
        check_value(x, "an activation in the head", -1, p->curved, q->curved);
        if (p->curved) compare_curves(x, p->curve, q->curve);
        check_value(x, "the bias of a head", i, p->l.bias != NULL, q->l.bias != NULL);
        check_value(x, "the norm of a head", i, p->norm.g != NULL, q->norm.g != NULL);
    }
}

int model_same_config(const struct checkpoint *want, const struct checkpoint *got,
                      struct backend *b, struct err *e)
{
    struct model *m = NULL, *other = NULL;
    struct comparison x = {.want = checkpoint_path(want), .e = e};
    x.rc = model_bind(&m, want, b, NULL, e);
    if (x.rc == 0) x.rc = model_bind(&other, got, b, NULL, e);
    if (x.rc == 0) compare_configs(&x, &m->config, &other->config);
    for (int h = 0; h < N_HEAD && x.rc == 0; h++) compare_head(&x, &m->head[h], &other->head[h]);
    model_close(m);
    model_close(other);
    return x.rc;
}
