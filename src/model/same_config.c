/* same_config.c - compare the configs of two checkpoints of one model, such as a directory and the
 * GGUF made of it. The comparison detects a field that has no key in the written file, because its
 * value differs after reading.
 *
 * Configs are compared after binding, not as files: names, units and defaults differ between the
 * formats, and only the resolved values determine the answers. Both models are bound but not
 * packed, so no matrix is read. */
#include "convert_impl.h"

#include "base/buf.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* State of a comparison. The pointers are borrowed. */
struct comparison {
    const struct checkpoint *want;
    struct err *e;
    bool reorders; /* true: one of the files has rows of q and k in another order */
    bool to_gguf;  /* true: the result is a GGUF */
    int rc;        /* first difference */
};

/* ---- names ---- */

/* Fields and keys of a value that is compared. The texts are static. */
static const struct {
    const char *what, *keys; /* keys: separated by spaces; a file has one of them */
} origins[] = {
    {"n_layer", "block_count"},
    {"d", "embedding_length"},
    {"n_head", "attention.head_count decoder_attention_heads"},
    {"n_vocab", "vocab_size"},
    {"context_train", "context_length"},
    {"the number of positions", "context_length"},
    {"n_segment", "token_type_count"},
    {"pooling_type", "pooling_type"},
    {"n_label", "id2label classifier.output_labels"},
    {"class_pad", "pad_token_id tokenizer.ggml.padding_token_id"},
    {"class_act", "problem_type"},
    {"score_act", "activation_fn"},
    {"start", "decoder_start_token_id"},
    {"rms_eps", "attention.layer_norm_rms_epsilon attention.layer_norm_epsilon"},
    {"an activation", "hidden_act hidden_activation activation_function activation"},
    {"logit_softcap", "final_logit_softcapping"},
    {"qkv_limit", "clip_qkv attention.clamp_kqv"},
    {"n_bucket", "attention.relative_buckets_count"},
    {"bucket_reach", "relative_attention_max_distance"},
    {"alibi", "alibi attention.max_alibi_bias"},
    {"alibi_scale", "alibi attention.max_alibi_bias"},
    {"embed_scale", "embedding_multiplier scale_emb embedding_scale"},
    {"residual_scale", "residual_multiplier scale_depth residual_scale"},
    {"logit_scale", "logit_scale logits_scaling dim_model_base"},
    {"n_rope", "attn_temperature_tuning rope_parameters rope_scaling rope.scaling.type"},
    {"d_rot", "partial_rotary_factor rotary_dim rotary_pct rope.dimension_count"},
    {"an angle of the rope", "rope_parameters rope_scaling rope.scaling.type rope.freq_base"},
    {"an angle of the long rope", "rope_parameters rope_scaling rope.scaling.type"},
    {"two lists of divisors", "rope_parameters rope_scaling rope.scaling.type"},
    {"dynamic scaling", "rope_parameters rope_scaling rope.scaling.type"},
    {"the order of rotated lanes", "rope_interleave"},
    {"magnitude", "rope_parameters rope_scaling rope.scaling.attn_factor"},
    {"beta", "attn_scale rope_parameters rope_scaling rope.scaling.type"},
    {"beta_context",
     "floor_scale rope_parameters rope_scaling rope.scaling.original_context_length"},
    {"context_original", "rope_parameters rope_scaling rope.scaling.original_context_length"},
    {"n_head_kv", "attention.head_count_kv"},
    {"d_head", "attention.key_length"},
    {"d_ff", "feed_forward_length decoder_ffn_dim"},
    {"n_expert", "expert_count"},
    {"n_expert_used", "expert_used_count"},
    {"d_expert", "expert_feed_forward_length"},
    {"d_latent", "moe_latent_size"},
    {"d_shared", "expert_shared_feed_forward_length expert_shared_count"},
    {"the function of the experts' scores", "scoring_func expert_gating_func"},
    {"the number of groups of experts", "expert_group_count"},
    {"n_group_used", "expert_group_used_count"},
    {"the normalization of the experts' weights", "norm_topk_prob expert_weights_norm"},
    {"the factor of the experts' weights", "expert_weights_scale"},
    {"the distance of logits in the router", "router_jitter_noise"},
    {"window", "layer_types attention.sliding_window"},
    {"chunk", "attention_chunk_size layer_types"},
    {"n_later", "use_bidirectional_attention attention.causal"},
    {"rope", "layer_types no_rope_layers"},
    {"attn_scale", "query_pre_attn_scalar attention_multiplier attention.scale"},
    {"kv_layer", "num_kv_shared_layers attention.shared_kv_layers"},
    {"reuses_kv", "num_kv_shared_layers attention.shared_kv_layers"},
    {"recurrent", "layer_types layers_block_type"},
    {"v_is_k", "attention_k_eq_v"},
    {"softcap", "attn_logit_softcapping"},
    {"cuts_gates", "activation_sparsity_pattern activation_sparsity_scale"},
    {"gate_cut", "activation_sparsity_pattern activation_sparsity_scale"},
};

/* Write the place in the source that has a key: a field of config.json, or a key of a GGUF. Return
 * false if the source lacks the key. */
static bool find_key(const struct checkpoint *c, const char *key, char out[160])
{
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    const bool hf = checkpoint_kind(c) == CKPT_HF;
    const char *field = hf ? hf_field_name(arch, key) : NULL;
    char full[160];
    snprintf(full, sizeof full, "%.60s.%.80s", arch, key);
    bool found = checkpoint_meta(c, full) != NULL;
    if (!found && hf) {
        snprintf(full, sizeof full, "config.%.80s", key);
        found = checkpoint_meta(c, full) != NULL;
    }
    snprintf(out, 160, "%s%.140s", hf ? "config.json: " : "metadata ",
             hf && field ? field
             : hf        ? key
                         : full);
    return found;
}

/* Write the place of a compared value in the source. The value of an absent field has the class's
 * default; then the first field of the list is the place. `what` itself is the place if the list
 * has no fields. */
static void source_place(const struct checkpoint *c, const char *what, char out[160])
{
    char word[80], first[160] = "";
    int n;
    snprintf(out, 160, "%s", what);
    for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++) {
        if (strcmp(origins[i].what, what) != 0) continue;
        for (const char *at = origins[i].keys; *at; at += n) {
            if (sscanf(at, "%79s%n", word, &n) != 1) break; /* check: width */
            if (find_key(c, word, out)) return;
            if (!*first) snprintf(first, sizeof first, "%s", out);
        }
        snprintf(out, 160, "%s", first);
        return;
    }
}

/* ---- comparison ---- */

/* Record a difference of the scale of scores by the field of config.json, because people know the
 * field and not the scale that follows from it. Return false for other values. */
static bool refuse_field(struct comparison *x, const char *place, const char *in, double want,
                         double got)
{
    static const char field[] = "config.query_pre_attn_scalar";
    const struct meta *m = checkpoint_meta(x->want, field);
    if (!m || !strstr(place, field + 7)) return false;
    x->rc = err_set(x->e, ERR_UNSUPPORTED,
                    "%s: %s: the result cannot express %.9g%s, a scale of %.9g, and has %.9g",
                    checkpoint_path(x->want), place, meta_real(m, 0), in, want, got);
    return true;
}

/* Record a difference. layer: number of the layer; -1: the value does not belong to a layer. */
static void check_value(struct comparison *x, const char *what, int layer, double want, double got)
{
    /* 1e-30: a GGUF has such small angles for lanes that do not rotate */
    const double room = 2e-6 * fabs(want) + 1e-28;
    char place[160], in[32] = "";
    if (x->rc != 0 || want == got || fabs(want - got) <= room || (isnan(want) && isnan(got)))
        return;
    source_place(x->want, what, place);
    if (layer >= 0) snprintf(in, sizeof in, " in layer %d", layer);
    if (refuse_field(x, place, in, want, got)) return;
    x->rc = err_set(x->e, ERR_UNSUPPORTED, "%s: %s: the result cannot express %.9g%s, and has %.9g",
                    checkpoint_path(x->want), place, want, in, got);
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
    SAME(row_eps);
}

/* Compare layer i. SAME_IN compares a field of both. */
static void compare_layer(struct comparison *x, int i, const struct layer_config *a,
                          const struct layer_config *b)
{
    SAME_IN(n_head);
    if (!a->recurrent || !b->recurrent) SAME_IN(n_head_kv);
    SAME_IN(d_head);
    SAME_IN(d_ff);
    SAME_IN(n_expert);
    SAME_IN(n_expert_used);
    SAME_IN(d_expert);
    SAME_IN(d_latent);
    if (a->n_expert > 0) SAME_IN(d_shared);
    SAME_IN(window);
    SAME_IN(chunk);
    SAME_IN(n_later);
    SAME_IN(rope);
    SAME_IN(attn_scale);
    SAME_IN(kv_layer);
    SAME_IN(reuses_kv);
    SAME_IN(recurrent);
    SAME_IN(v_is_k);
    SAME_IN(softcap);
    SAME_IN(cuts_gates);
    SAME_IN(gate_cut);
}

/* Return true if a layer has a mixture. */
static bool mixes(const struct config *c)
{
    for (int i = 0; i < c->n_layer; i++)
        if (c->layer[i].n_expert > 0) return true;
    return false;
}

/* Compare the selection of experts. */
static void compare_routes(struct comparison *x, const struct config *c, const struct config *d)
{
    const struct route_spec *a = &c->route, *b = &d->route;
    if (!mixes(c)) return;
    check_value(x, "the function of the experts' scores", -1, a->score, b->score);
    check_value(x, "the number of groups of experts", -1, a->n_group, b->n_group);
    if (a->n_group > 0) SAME(n_group_used);
    if (a->n_group > 0) SAME(group_pairs);
    check_value(x, "the normalization of the experts' weights", -1, a->normalize, b->normalize);
    if (a->normalize) SAME(sum_add);
    if (a->normalize) SAME(sum_least);
    check_value(x, "the factor of the experts' weights", -1, a->factor, b->factor);
    check_value(x, "the distance of logits in the router", -1, a->near, b->near);
    SAME(weighs_input);
}

/* Compare the angles, not the parameters, because one of the files may have a tensor of divisors in
 * place of a scaling. Some architectures have rows of q and k in another order in GGUF files, so
 * only their lanes differ. */
static void compare_rope(struct comparison *x, int i, const struct rope_config *a,
                         const struct rope_config *b)
{
    if (!x->reorders) check_value(x, "the order of rotated lanes", i, a->neox, b->neox);
    SAME_IN(d_rot);
    SAME_IN(magnitude);
    SAME_IN(beta);
    if (a->beta != 0) SAME_IN(beta_add);
    if (a->beta != 0) SAME_IN(beta_context);
    check_value(x, "two lists of divisors", i, a->long_factor != NULL, b->long_factor != NULL);
    check_value(x, "dynamic scaling", i, a->scaling == ROPE_DYNAMIC, b->scaling == ROPE_DYNAMIC);
    if (a->long_factor || a->scaling == ROPE_DYNAMIC) SAME_IN(context_original);
    for (int k = 0; k < a->d_rot / 2 && x->rc == 0; k++) {
        check_value(x, "an angle of the rope", i, rope_freq(a, k, false), rope_freq(b, k, false));
        check_value(x, "an angle of the long rope", i, rope_freq(a, k, true),
                    rope_freq(b, k, true));
    }
}

/* Compare activations. The error has their names, because numbers of the enum mean nothing to
 * users. */
static void compare_curves(struct comparison *x, const char *what, enum curve a, enum curve b)
{
    static const char *const name[] = {
        [CURVE_silu] = "silu",     [CURVE_gelu_tanh] = "gelu_pytorch_tanh",
        [CURVE_gelu_erf] = "gelu", [CURVE_relu] = "relu",
        [CURVE_relu2] = "relu2",   [CURVE_tanh] = "tanh"};
    if (x->rc != 0 || a == b) return;
    char place[160];
    source_place(x->want, what, place);
    x->rc = err_set(x->e, ERR_UNSUPPORTED, "%s: %s: the result cannot express %s, and has %s",
                    checkpoint_path(x->want), place, name[a], name[b]);
}

/* Compare the ids that the model reads as padding, or by the embeddings of other parts. A GGUF has
 * no keys for these ids (docs/open.md). */
static void compare_ids(struct comparison *x, const struct config *a, const struct config *b)
{
    if (x->to_gguf) return;
    SAME(pads_apart);
    SAME(n_padded);
    if (a->pads_apart || a->n_padded > 0) SAME(pad);
    for (int i = 0; i < a->n_padded && x->rc == 0; i++) SAME(padded[i]);
    SAME(n_other);
    for (int i = 0; i < a->n_other && x->rc == 0; i++) {
        SAME(other[i].first);
        SAME(other[i].end);
        SAME(other[i].n_row);
        SAME(other[i].d);
        SAME(other[i].eps);
    }
}

/* Compare the values on which an answer depends. These are not compared:
 *   - ids of padding and of other parts, if the result is a GGUF, which cannot contain them
 *   - the presence and the values of tensors: biases, norms of heads, a tied head
 *   - norm_add, the form of the weights, and the order of lanes if the formats differ in them; the
 *     conversion changes the values of the tensors accordingly
 *   - factors that a GGUF has in its tensors (arch_convert.fold)
 *   - the names of a classifier's labels
 *   - layers after the last layer, which quoth leaves out, and sizes of buffers */
static void compare_all(struct comparison *x, const struct config *a, const struct config *b)
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
    if (config_uses_class_pad(a)) SAME(class_pad);
    if (a->n_label > 0) SAME(class_act);
    if (a->n_label > 0) SAME(score_act);
    for (int i = 0; i < a->n_start && i < b->n_start; i++)
        check_value(x, "start", -1, a->start[i], b->start[i]);
    SAME(rms_eps);
    SAME(plain_norms);
    SAME(v_norms);
    SAME(order);
    compare_curves(x, "an activation", a->curve, b->curve);
    compare_routes(x, a, b);
    check_value(x, "swiglu_alpha", -1, a->clamped.alpha, b->clamped.alpha);
    check_value(x, "swiglu_limit", -1, a->clamped.limit, b->clamped.limit);
    SAME(own_curve);
    SAME(no_gate);
    SAME(ffn_and_moe);
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
    check_value(x, "latent attention", -1, a->latent != NULL, b->latent != NULL);
    if (x->rc == 0 && a->latent) compare_latent(x, a->latent, b->latent);
    compare_ids(x, a, b);
    if (x->rc == 0 && a->own_bytes > 0 && memcmp(a->own, b->own, a->own_bytes) != 0)
        x->rc = err_set(x->e, ERR_UNSUPPORTED,
                        "%s: the result cannot express values that only this architecture has",
                        checkpoint_path(x->want));
    for (int i = 0; i < a->n_rope && x->rc == 0; i++) compare_rope(x, i, &a->rope[i], &b->rope[i]);
    for (int i = 0; i < a->n_layer && x->rc == 0; i++)
        compare_layer(x, i, &a->layer[i], &b->layer[i]);
}

int compare_configs(const struct checkpoint *want, const struct config *a, const struct config *b,
                    bool reorders, bool to_gguf, struct err *e)
{
    struct comparison x = {.want = want, .e = e, .reorders = reorders, .to_gguf = to_gguf};
    compare_all(&x, a, b);
    return x.rc;
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
        if (p->curved) compare_curves(x, "an activation in the head", p->curve, q->curve);
        check_value(x, "the bias of a head", i, p->l.bias != NULL, q->l.bias != NULL);
        check_value(x, "the norm of a head", i, p->norm.g != NULL, q->norm.g != NULL);
    }
}

/* Bind the source, whose warnings the conversion has already logged. */
static int bind_again(struct model **m, const struct checkpoint *want, struct backend *b,
                      struct err *e)
{
    struct buf repeated = {0}, *kept = log_kept;
    log_kept = &repeated;
    const int rc = model_bind(m, want, b, NULL, e);
    log_kept = kept;
    buf_deinit(&repeated);
    return rc;
}

/* Set the values of a directory's config that a GGUF has in its tensors to those of the GGUF. */
static int fold(struct model *m, struct err *e)
{
    struct config *c = &m->config;
    const struct arch_convert *convert = m->arch->convert;
    if (!convert || !convert->fold) return 0;
    void *own = arena_push(&m->arena, c->own_bytes, 64);
    if (!own) return err_memory(e, "values of the architecture", c->own_bytes);
    memcpy(own, c->own, c->own_bytes);
    c->own = own;
    convert->fold(c, own);
    return 0;
}

int model_same_config(const struct checkpoint *want, const struct checkpoint *got,
                      struct backend *b, struct err *e)
{
    struct model *m = NULL, *other = NULL;
    struct comparison x = {.want = want, .e = e};
    x.rc = bind_again(&m, want, b, e);
    if (x.rc == 0) x.rc = model_bind(&other, got, b, NULL, e);
    if (x.rc == 0) x.rc = fold(m, e);
    if (x.rc == 0)
        x.rc = compare_configs(want, &m->config, &other->config,
                               !m->arch->gguf_neox && !m->arch->hf_adjacent,
                               checkpoint_kind(got) == CKPT_GGUF, e);
    for (int h = 0; h < N_HEAD && x.rc == 0; h++) compare_head(&x, &m->head[h], &other->head[h]);
    model_close(m);
    model_close(other);
    return x.rc;
}
