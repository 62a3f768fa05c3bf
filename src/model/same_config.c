/* same_config.c - compare the configs of two checkpoints of one model, such as a directory and the
 * GGUF made of it. What a file has no key for is found here, because its value differs after
 * reading. */
#include "model_impl.h"

#include <math.h>
#include <string.h>

/* State of a comparison. The pointers are borrowed. */
struct comparison {
    const char *want, *got; /* paths */
    struct err *e;
    int rc; /* first difference */
};

/* Record a difference. layer: -1 if the value is not of a layer. */
static void check_value(struct comparison *x, const char *what, int layer, double want, double got)
{
    const double room = 2e-6 * fabs(want);
    if (x->rc != 0 || want == got || fabs(want - got) <= room || (isnan(want) && isnan(got)))
        return;
    x->rc = layer < 0
                ? err_set(x->e, ERR_UNSUPPORTED,
                          "%s: %s is %.9g, which has no key in %s, where it is %.9g", x->want, what,
                          want, x->got, got)
                : err_set(x->e, ERR_UNSUPPORTED,
                          "%s: %s of layer %d is %.9g, which has no key in %s, where it is %.9g",
                          x->want, what, layer, want, x->got, got);
}

#define SAME(field)    check_value(x, #field, -1, (double)a->field, (double)b->field)
#define SAME_IN(field) check_value(x, #field, i, (double)a->field, (double)b->field)

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
}

/* Compare the angles, not the parameters: a scaling may be a tensor of divisors in one file. */
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

static void compare_configs(struct comparison *x, const struct config *a, const struct config *b)
{
    SAME(n_layer);
    SAME(d);
    SAME(d_ff);
    SAME(n_head);
    SAME(n_head_kv);
    SAME(d_head);
    SAME(n_vocab);
    SAME(context_train);
    SAME(n_encoder);
    SAME(n_start);
    SAME(d_embd);
    SAME(n_position);
    SAME(n_segment);
    SAME(position0);
    SAME(d_input);
    SAME(n_input);
    SAME(n_stream);
    SAME(d_laurel);
    SAME(pooling_type);
    SAME(length_max);
    SAME(rms_eps);
    SAME(plain_norms);
    SAME(head_norms);
    SAME(v_norms);
    SAME(order);
    SAME(curve);
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
    for (int i = 0; i < a->n_rope && x->rc == 0; i++) compare_rope(x, i, &a->rope[i], &b->rope[i]);
    for (int i = 0; i < a->n_layer && x->rc == 0; i++)
        compare_layer(x, i, &a->layer[i], &b->layer[i]);
}

int model_same_config(const struct checkpoint *want, const struct checkpoint *got,
                      struct backend *b, struct err *e)
{
    struct model *m = NULL, *other = NULL;
    struct comparison x = {.want = checkpoint_path(want), .got = checkpoint_path(got), .e = e};
    x.rc = model_bind(&m, want, b, NULL, e);
    if (x.rc == 0) x.rc = model_bind(&other, got, b, NULL, e);
    if (x.rc == 0) compare_configs(&x, &m->config, &other->config);
    model_close(m);
    model_close(other);
    return x.rc;
}
