/* to_hf_config.c - a GGUF's config as a config.json: the inverse of config.c and of the config
 * functions of the architectures.
 *
 *   keys of the class (arch.hf_key) --fields[], arch_convert.field--> members of config.json
 *   struct rope_config --put_rope--> rope_parameters
 *
 * A field of the class without a row in fields[] keeps the class's default. model_same_config reads
 * the written file, so it detects a config that requires another value.
 *
 * A function of fields[] writes one member from the resolved config, not from the GGUF's keys.
 * Several classes write one property under different names and units. The names of the functions
 * are those of the properties. A property that the config has lost, such as a divisor whose
 * reciprocal was stored, is read from the key (gguf_real). */
#include "convert_impl.h"

#include <stdio.h>
#include <string.h>

void hf_put_name(struct config_writer *w, const char *name)
{
    if (w->b->n && w->b->data[w->b->n - 1] != '{') buf_add_char(w->b, ',');
    json_put_text(w->b, name, strlen(name));
    buf_add_char(w->b, ':');
}

void hf_put_int(struct config_writer *w, const char *name, int64_t x)
{
    hf_put_name(w, name);
    buf_addf(w->b, "%lld", (long long)x);
}

void hf_put_real(struct config_writer *w, const char *name, double x)
{
    hf_put_name(w, name);
    json_put_float(w->b, (float)x);
}

void hf_put_bool(struct config_writer *w, const char *name, bool x)
{
    hf_put_name(w, name);
    buf_add_text(w->b, x ? "true" : "false");
}

void hf_put_text(struct config_writer *w, const char *name, const char *text)
{
    hf_put_name(w, name);
    json_put_text(w->b, text, strlen(text));
}

static void put_null(struct config_writer *w, const char *name)
{
    hf_put_name(w, name);
    buf_add_text(w->b, "null");
}

/* Return the value of a key of the GGUF; its default in the architecture if the file lacks it. */
static double gguf_real(const struct config_writer *w, const char *key)
{
    char full[160];
    const struct config_key *k = w->m->arch->gguf_key;
    snprintf(full, sizeof full, "%s.%s", arch_gguf_name(w->m->arch->name), key);
    const struct meta *m = checkpoint_meta(w->m->checkpoint, full);
    if (meta_kind(m) != META_NONE) return meta_real(m, NAN);
    while (k && k->key && strcmp(k->key, key) != 0) k++;
    return k && k->key ? k->value : NAN;
}

/* Return true if the architecture's class has the key. */
static bool class_has(const struct arch *a, const char *key)
{
    const struct config_key *k = a->hf_key;
    while (k->key && strcmp(k->key, key) != 0) k++;
    return k->key != NULL;
}

bool hf_has(const struct config_writer *w, const char *tensor)
{
    return checkpoint_tensor(w->m->checkpoint, tensor) != NULL;
}

/* ---- fields ---- */

/* Write the number of the encoder's layers, or of all layers without an encoder. */
static void n_layer(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->n_encoder > 0 ? w->c->n_encoder : w->c->n_layer);
}

static void n_decoder(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->n_layer - w->c->n_encoder);
}

/* Write the context. A model of encoder and decoder has twice its context, for source and text. */
static void context(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->n_encoder > 0 ? w->c->context_train / 2 : w->c->context_train);
}

static void width(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->d);
}

/* Return the layer whose sizes are written as the sizes of the class. In a class with sizes of
 * single layers, the returned layer has a window. */
static const struct layer_config *base_layer(const struct config_writer *w)
{
    const bool single = class_has(w->class, "config.per_layer_config");
    for (int i = 0; i < w->c->n_layer && single; i++)
        if (w->c->layer[i].window > 0) return &w->c->layer[i];
    return &w->c->layer[0];
}

static void d_ff(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->layer[0].d_ff);
}

static void n_head(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->n_head);
}

/* Write the number of KV heads. Latent attention has as many as heads, although its pages may have
 * one. */
static void n_head_kv(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->latent ? w->c->n_head : base_layer(w)->n_head_kv);
}

static void d_head(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, base_layer(w)->d_head);
}

/* Append the sizes of heads for layers whose sizes differ. */
static void single_layers(struct config_writer *w, const char *name)
{
    const struct layer_config *base = base_layer(w);
    hf_put_name(w, name);
    buf_add_char(w->b, '{');
    for (int i = 0; i < w->c->n_layer; i++) {
        const struct layer_config *l = &w->c->layer[i];
        char id[24];
        if (l->d_head == base->d_head && l->n_head_kv == base->n_head_kv) continue;
        snprintf(id, sizeof id, "%d", i);
        hf_put_name(w, id);
        buf_add_char(w->b, '{');
        if (l->d_head != base->d_head) hf_put_int(w, "head_dim", l->d_head);
        if (l->n_head_kv != base->n_head_kv) hf_put_int(w, "num_key_value_heads", l->n_head_kv);
        buf_add_char(w->b, '}');
    }
    buf_add_char(w->b, '}');
}

static void keys_as_values(struct config_writer *w, const char *name)
{
    bool any = false;
    for (int i = 0; i < w->c->n_layer; i++) any |= w->c->layer[i].v_is_k;
    hf_put_bool(w, name, any);
}

static void n_shared(struct config_writer *w, const char *name)
{
    int n = 0;
    for (int i = 0; i < w->c->n_layer; i++) n += w->c->layer[i].reuses_kv;
    hf_put_int(w, name, n);
}

/* Write whether layers that reuse keys and values have feed-forward blocks of twice the width. */
static void wide_shared(struct config_writer *w, const char *name)
{
    const struct layer_config *last = &w->c->layer[w->c->n_layer - 1];
    hf_put_bool(w, name, last->reuses_kv && last->d_ff == 2 * w->c->layer[0].d_ff);
}

static void n_vocab(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->n_vocab);
}

static void epsilon(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, (double)w->c->rms_eps);
}

/* Write the activation, under the name of transformers' ACT2FN or the class's own name. */
static void curve(struct config_writer *w, const char *name)
{
    static const char *const all[] = {[CURVE_silu] = "silu",
                                      [CURVE_gelu_tanh] = "gelu_pytorch_tanh",
                                      [CURVE_gelu_erf] = "gelu",
                                      [CURVE_relu] = "relu",
                                      [CURVE_relu2] = "relu2"};
    hf_put_text(w, name, w->c->own_curve ? w->class->own_curve : all[w->c->curve]);
}

/* Write whether the head uses the embedding. A GGUF has no key for this: the head's tensor is
 * absent. */
static void tied(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, !hf_has(w, "output.weight"));
}

static void bias_qkv(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, hf_has(w, "blk.0.attn_q.bias") || hf_has(w, "blk.0.attn_qkv.bias"));
}

static void bias_out(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, hf_has(w, "blk.0.attn_output.bias"));
}

static void bias_ffn(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, hf_has(w, "blk.0.ffn_down.bias"));
}

static void bias_head(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, hf_has(w, "output.bias"));
}

static void jitter(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, (double)w->c->route.near / 2);
}

static void head_norms(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, hf_has(w, "blk.0.attn_q_norm.weight"));
}

static void parallel(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, w->c->order == BLOCKS_PARALLEL || w->c->order == BLOCKS_2_NORMS);
}

/* Write the window as the key has it; null without a window. */
static void window(struct config_writer *w, const char *name)
{
    if (conversion_window(w->c) > 0)
        hf_put_int(w, name, (int64_t)gguf_real(w, "attention.sliding_window"));
    else
        put_null(w, name);
}

static void slides(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, conversion_window(w->c) > 0);
}

/* Append the list of windows. A class that enables windows has no window without this list. */
static void layer_types(struct config_writer *w, const char *name)
{
    if (conversion_window(w->c) == 0 && class_has(w->class, "config.use_sliding_window")) return;
    hf_put_name(w, name);
    for (int i = 0; i < w->c->n_layer; i++)
        buf_addf(w->b, "%c\"%s_attention\"", i ? ',' : '[',
                 w->c->layer[i].window ? "sliding" : "full");
    buf_add_char(w->b, ']');
}

/* Write the list no_rope_layers, in which 1 means that the layer has a rope, as in transformers. */
static void rope_layers(struct config_writer *w, const char *name)
{
    hf_put_name(w, name);
    for (int i = 0; i < w->c->n_layer; i++)
        buf_addf(w->b, "%c%d", i ? ',' : '[', w->c->layer[i].rope != ROPE_OFF);
    buf_add_char(w->b, ']');
}

/* Append the number whose square root divides the scores. */
static void score_divisor(struct config_writer *w, const char *name)
{
    const double scale = (double)w->c->layer[0].attn_scale, x = 1 / (scale * scale);
    if (fabs(x - round(x)) < 1e-4 * x)
        hf_put_int(w, name, (int64_t)round(x));
    else
        hf_put_real(w, name, x);
}

static void score_scale(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, (double)w->c->layer[0].attn_scale);
}

void hf_put_limit(struct config_writer *w, const char *name, double x)
{
    if (x > 0)
        hf_put_real(w, name, x);
    else
        put_null(w, name);
}

static void logit_cap(struct config_writer *w, const char *name)
{
    hf_put_limit(w, name, (double)w->c->logit_softcap);
}

static void score_cap(struct config_writer *w, const char *name)
{
    hf_put_limit(w, name, gguf_real(w, "attn_logit_softcapping"));
}

static void qkv_limit(struct config_writer *w, const char *name)
{
    hf_put_limit(w, name, (double)w->c->qkv_limit);
}

static void embed_scale(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, (double)w->c->embed_scale);
}

static void residual_scale(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, (double)w->c->residual_scale);
}

static void logit_scale(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, (double)w->c->logit_scale);
}

static void logit_divisor(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, gguf_real(w, "logit_scale"));
}

/* Return the first layer with a mixture; NULL if none. */
static const struct layer_config *mixture(const struct config_writer *w)
{
    for (int i = 0; i < w->c->n_layer; i++)
        if (w->c->layer[i].n_expert > 0) return &w->c->layer[i];
    return NULL;
}

static void n_expert(struct config_writer *w, const char *name)
{
    if (mixture(w)) hf_put_int(w, name, mixture(w)->n_expert);
}

static void d_shared(struct config_writer *w, const char *name)
{
    if (mixture(w)) hf_put_int(w, name, mixture(w)->d_shared);
}

static void n_expert_used(struct config_writer *w, const char *name)
{
    if (mixture(w)) hf_put_int(w, name, mixture(w)->n_expert_used);
}

static void d_expert(struct config_writer *w, const char *name)
{
    if (mixture(w)) hf_put_int(w, name, mixture(w)->d_expert);
}

/* Return the number of experts as wide as the block of all rows together. */
static void n_shared_experts(struct config_writer *w, const char *name)
{
    if (mixture(w)) hf_put_int(w, name, mixture(w)->d_shared / mixture(w)->d_expert);
}

static void n_expert_group(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->route.n_group > 0 ? w->c->route.n_group : 1);
}

static void n_expert_group_used(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->route.n_group > 0 ? w->c->route.n_group_used : 1);
}

static void expert_factor(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, w->c->route.factor != 0 ? (double)w->c->route.factor : 1);
}

/* Write the number of layers before the first mixture. */
static void n_dense(struct config_writer *w, const char *name)
{
    int n = 0;
    while (n < w->c->n_layer && w->c->layer[n].n_expert == 0) n++;
    hf_put_int(w, name, n);
}

static void moe_step(struct config_writer *w, const char *name)
{
    hf_put_own_int(w, name, "interleave_moe_layer_step");
}

/* Write that the directory has no layers that predict further tokens. */
static void n_next(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, 0);
}

static void norm_experts(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, w->c->route.normalize);
}

static void n_segment(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->n_segment);
}

/* Append the window as the sum of both sides. */
static void both_sides(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, conversion_window(w->c) > 0 ? 2 * (conversion_window(w->c) - 1) : 128);
}

static void class_pooling(struct config_writer *w, const char *name)
{
    hf_put_text(w, name, w->c->class_pooling == 1 ? "mean" : "cls");
}

static void class_bias(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, hf_has(w, "cls.bias"));
}

void hf_put_kinds(struct config_writer *w, const char *name, const char *recurrent,
                  const char *other)
{
    hf_put_name(w, name);
    for (int i = 0; i < w->c->n_layer; i++)
        buf_addf(w->b, "%c\"%s\"", i ? ',' : '[', w->c->layer[i].recurrent ? recurrent : other);
    buf_add_char(w->b, ']');
}

void hf_put_own_int(struct config_writer *w, const char *name, const char *key)
{
    const double x = gguf_real(w, key);
    if (!isnan(x)) hf_put_int(w, name, (int64_t)x);
}

static void q_rank(struct config_writer *w, const char *name)
{
    if (w->c->latent->q_rank > 0)
        hf_put_int(w, name, w->c->latent->q_rank);
    else
        put_null(w, name);
}

static void kv_rank(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->latent->kv_rank);
}

static void d_rope(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->latent ? w->c->latent->d_rope : w->c->rope[ROPE_MAIN].d_rot);
}

static void d_nope(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->latent->d_nope);
}

/* Write the width of values, which differs from that of keys in compressed attention. */
static void d_value(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->latent->d_v);
}

void hf_put_rows(struct config_writer *w, const char *name, const char *tensor, int64_t other)
{
    const struct tensor_info *t = checkpoint_tensor(w->m->checkpoint, tensor);
    hf_put_int(w, name, t ? t->dim[1] : other);
}

static void mixes(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, mixture(w) != NULL);
}

static void n_bucket(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->n_bucket);
}

static void bucket_reach(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->bucket_reach);
}

static void start_id(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->start[0]);
}

/* Write whether the class scales its logits: the config has 1 without a scale. */
static void scales_logits(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, w->c->logit_scale != 1);
}

static const struct hf_field fields[] = {
    {"block_count", n_layer},
    {"decoder_block_count", n_decoder},
    {"context_length", context},
    {"embedding_length", width},
    {"feed_forward_length", d_ff},
    {"attention.head_count", n_head},
    {"attention.head_count_kv", n_head_kv},
    {"attention.key_length", d_head},
    {"vocab_size", n_vocab},
    {"attention.layer_norm_rms_epsilon", epsilon},
    {"config.layer_norm_eps", epsilon},
    {"config.layer_norm_epsilon", epsilon},
    {"config.norm_eps", epsilon},
    {"config.norm_epsilon", epsilon},
    {"config.hidden_act", curve},
    {"config.hidden_activation", curve},
    {"config.activation_function", curve},
    {"config.activation", curve},
    {"config.tie_word_embeddings", tied},
    {"config.attention_bias", bias_qkv},
    {"config.use_qkv_bias", bias_qkv},
    {"config.qkv_bias", bias_qkv},
    {"config.use_bias", bias_qkv},
    {"config.attention_out_bias", bias_out},
    {"config.mlp_bias", bias_ffn},
    {"config.qk_layernorm", head_norms},
    {"config.use_qk_norm", head_norms},
    {"config.use_parallel_residual", parallel},
    {"attention.sliding_window", window},
    {"config.use_sliding_window", slides},
    {"config.layer_types", layer_types},
    {"config.no_rope_layers", rope_layers},
    {"config.query_pre_attn_scalar", score_divisor},
    {"config.attention_multiplier", score_scale},
    {"config.final_logit_softcapping", logit_cap},
    {"config.attn_logit_softcapping", score_cap},
    {"config.clip_qkv", qkv_limit},
    {"config.embedding_multiplier", embed_scale},
    {"config.residual_multiplier", residual_scale},
    {"config.logits_scaling", logit_divisor},
    {"config.logit_scale", logit_scale},
    {"expert_count", n_expert},
    {"expert_used_count", n_expert_used},
    {"expert_shared_feed_forward_length", d_shared},
    {"expert_feed_forward_length", d_expert},
    {"expert_weights_norm", norm_experts},
    {"expert_shared_count", n_shared_experts},
    {"expert_group_count", n_expert_group},
    {"expert_group_used_count", n_expert_group_used},
    {"expert_weights_scale", expert_factor},
    {"leading_dense_block_count", n_dense},
    {"interleave_moe_layer_step", moe_step},
    {"nextn_predict_layers", n_next},
    {"config.lm_head_bias", bias_head},
    {"config.router_jitter_noise", jitter},
    {"config.per_layer_config", single_layers},
    {"config.attention_k_eq_v", keys_as_values},
    {"config.num_kv_shared_layers", n_shared},
    {"config.use_double_wide_mlp", wide_shared},
    {"config.enable_moe_block", mixes},
    {"config.type_vocab_size", n_segment},
    {"config.local_attention", both_sides},
    {"config.classifier_pooling", class_pooling},
    {"config.classifier_bias", class_bias},
    {"config.num_kv_heads", n_head_kv},
    {"config.parallel_attn", parallel},
    {"config.bias", bias_ffn},
    {"attention.q_lora_rank", q_rank},
    {"attention.kv_lora_rank", kv_rank},
    {"config.qk_nope_head_dim", d_nope},
    {"rope.dimension_count", d_rope},
    {"attention.value_length", d_value},
    {"config.scale_emb", embed_scale},
    {"attention.relative_buckets_count", n_bucket},
    {"config.relative_attention_max_distance", bucket_reach},
    {"decoder_start_token_id", start_id},
    {"config.scale_decoder_outputs", scales_logits},
    {0},
};

/* Return the row of a key: the architecture's row, or the common row; NULL if none. */
static const struct hf_field *field_of(const struct arch *a, const char *key)
{
    const struct hf_field *own = a->convert ? a->convert->field : NULL;
    for (; own && own->key; own++)
        if (strcmp(own->key, key) == 0) return own;
    for (own = fields; own->key; own++)
        if (strcmp(own->key, key) == 0) return own;
    return NULL;
}

/* Return the field of a key of the class; NULL if none. */
static const char *field_name(const char *arch, const char *key)
{
    static const struct {
        const char *arch, *key, *field; /* static */
    } own[] = {
#define TO_HF_FIELD(arch, key, field) {arch, key, field},
#include "to_hf.def"
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(own[i].arch, arch) == 0 && strcmp(own[i].key, key) == 0) return own[i].field;
    return strncmp(key, "config.", 7) == 0 ? key + 7 : hf_field_name(arch, key);
}

/* Append the members for the keys that the class reads. Keys of one field, such as the keys of
 * head_dim, are consecutive. */
static void put_fields(struct config_writer *w, const struct hf_class *class)
{
    static const struct {
        const char *arch, *key; /* static */
    } without[] = {
#define TO_HF_WITHOUT(arch, key) {arch, key},
#include "to_hf.def"
    };
    for (const struct config_key *k = w->class->hf_key; k->key; k++) {
        bool wanted = k->use == KEY_READ;
        for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
            if (strcmp(without[i].arch, class->arch) == 0 && strcmp(without[i].key, k->key) == 0)
                wanted = false;
        const struct hf_field *field = wanted ? field_of(w->class, k->key) : NULL;
        const char *name = field ? field_name(class->arch, k->key) : NULL;
        if (name) field->put(w, name);
    }
}

/* ---- rope ---- */

/* Return true if the parameters of llama3's scaling give the angles of r, whose divisors are in the
 * file. */
static bool same_angles(const struct rope_config *r, const struct rope_config *fit)
{
    for (int i = 0; i < r->d_rot / 2; i++) {
        const double want = rope_freq(r, i, false);
        if (!(fabs(rope_freq(fit, i, false) - want) <= 1e-6 * want)) return false;
    }
    return true;
}

/* Compute the parameters of llama3's scaling from its divisors. First try the parameters of
 * published models: a ramp from 1 to 4, and a power of 2 as context. Then try a ramp from 1 whose
 * line contains two divisors between 1 and the factor. */
static bool fit_llama3(const struct rope_config *r, struct rope_config *fit)
{
    const int n = r->d_rot / 2;
    double x[2] = {0}, y[2] = {0};
    int n_point = 0;
    *fit = *r;
    fit->freq_factor = NULL;
    fit->scaling = ROPE_LLAMA3;
    fit->factor = (double)r->freq_factor[n - 1];
    fit->low_freq = 1, fit->high_freq = 4;
    for (int context = 1 << 30; context > 0; context /= 2) {
        fit->context_original = context;
        if (same_angles(r, fit)) return true;
    }
    for (int i = 0; i < n && fit->factor > 1; i++) {
        const double f = (double)r->freq_factor[i];
        if (f <= 1.001 || f >= 0.999 * fit->factor) continue;
        const int at = n_point > 0; /* the first point and the last point */
        x[at] = pow(r->base, -2.0 * i / r->d_rot) / (2 * M_PI);
        y[at] = (1 / f - 1 / fit->factor) / (1 - 1 / fit->factor);
        n_point++;
    }
    if (n_point < 2) return false;
    /* y = (context x - 1) / (high - 1) */
    const double slope = (y[0] - y[1]) / (x[0] - x[1]), at_0 = y[0] - slope * x[0];
    if (!(at_0 < 0 && slope > 0 && -slope / at_0 < 1e9)) return false;
    fit->context_original = (int)round(-slope / at_0);
    fit->high_freq = 1 + fit->context_original / slope;
    if (fabs(fit->high_freq - round(fit->high_freq)) < 1e-3) fit->high_freq = round(fit->high_freq);
    return same_angles(r, fit);
}

static void put_factor_list(struct config_writer *w, const char *name, const float *v, int n)
{
    hf_put_name(w, name);
    for (int i = 0; i < n; i++) {
        buf_add_char(w->b, i ? ',' : '[');
        json_put_float(w->b, v[i]);
    }
    buf_add_char(w->b, ']');
}

/* Append the share of rotated lanes of a head, so that the product that the reader computes is
 * exact. */
static void put_part(struct config_writer *w, const struct rope_config *r)
{
    double part = (double)r->d_rot / w->c->d_head;
    while ((int)(w->c->d_head * part) < r->d_rot) part = nextafter(part, 2);
    hf_put_name(w, "partial_rotary_factor");
    json_put_real(w->b, part);
}

/* Append the factor of cos and sin if it differs from the usual factor of the type. */
static void put_magnitude(struct config_writer *w, const struct rope_config *r, double usual)
{
    if (fabs(r->magnitude - usual) > 1e-6 * usual) hf_put_real(w, "attention_factor", r->magnitude);
}

/* Append the parameters of YaRN that differ from the defaults of transformers. */
static void put_yarn(struct config_writer *w, const struct rope_config *r)
{
    hf_put_int(w, "original_max_position_embeddings", r->context_original);
    if (r->beta_fast != 32) hf_put_real(w, "beta_fast", r->beta_fast);
    if (r->beta_slow != 1) hf_put_real(w, "beta_slow", r->beta_slow);
    if (!r->ramp_whole) hf_put_bool(w, "truncate", false);
    /* mscale of latent attention equals mscale_all_dim, so the magnitude is 1 */
    const double all = w->c->latent ? gguf_real(w, "rope.scaling.yarn_log_multiplier") / 0.1 : 0;
    if (all > 0) {
        hf_put_real(w, "mscale", all);
        hf_put_real(w, "mscale_all_dim", all);
        return;
    }
    put_magnitude(w, r, r->factor <= 1 ? 1 : 0.1 * log(r->factor) + 1);
}

/* Append the divisors of LongRoPE and its context in training. */
static void put_long(struct config_writer *w, const struct rope_config *r)
{
    const double ratio = (double)w->c->context_train / r->context_original;
    hf_put_int(w, "original_max_position_embeddings", r->context_original);
    put_factor_list(w, "short_factor", r->short_factor, r->d_rot / 2);
    put_factor_list(w, "long_factor", r->long_factor, r->d_rot / 2);
    put_magnitude(w, r, ratio <= 1 ? 1 : sqrt(1 + log(ratio) / log(r->context_original)));
}

static void put_llama3(struct config_writer *w, const struct rope_config *r)
{
    hf_put_real(w, "factor", r->factor);
    hf_put_real(w, "low_freq_factor", r->low_freq);
    hf_put_real(w, "high_freq_factor", r->high_freq);
    hf_put_int(w, "original_max_position_embeddings", r->context_original);
}

/* Return the number of rotated lanes if the divisors only make all other lanes constant; -1 for
 * other divisors. The class supports lanes that do not rotate. */
static int rotating_lanes(const struct config_writer *w, const struct rope_config *r)
{
    int n = 0, i;
    const struct rope_type *t = config_rope_types(w->class);
    while (t->name && t->scaling != ROPE_PROPORTIONAL) t++;
    if (!t->name) return -1;
    while (n < r->d_rot / 2 && r->freq_factor[n] == 1) n++;
    for (i = n; i < r->d_rot / 2 && r->freq_factor[i] >= 1e20f;) i++;
    return i == r->d_rot / 2 ? n : -1;
}

/* Return the scaling that config.json gets. The lists of LongRoPE are tensors of a GGUF, whose keys
 * may have another scaling. A GGUF without a scaling has a linear one by 1. */
static enum rope_scaling written_scaling(const struct rope_config *r)
{
    if (r->long_factor) return ROPE_LONG;
    if (r->scaling == ROPE_LINEAR) return r->factor != 1 ? ROPE_LINEAR : ROPE_NONE;
    const bool has_type =
        r->scaling == ROPE_PROPORTIONAL || r->scaling == ROPE_LLAMA3 || r->scaling == ROPE_YARN;
    return has_type ? r->scaling : ROPE_NONE;
}

/* Append the parameters of one rope. */
static int put_rope(struct config_writer *w, const struct rope_config *from, struct err *e)
{
    static const char *const names[] = {
        [ROPE_NONE] = "default", [ROPE_LINEAR] = "linear", [ROPE_LLAMA3] = "llama3",
        [ROPE_YARN] = "yarn",    [ROPE_LONG] = "longrope", [ROPE_PROPORTIONAL] = "proportional"};
    struct rope_config r = *from;
    const char *path = checkpoint_path(w->m->checkpoint);
    const int n_rotating = from->freq_factor ? rotating_lanes(w, from) : -1;
    if (n_rotating >= 0) r.freq_factor = NULL, r.scaling = ROPE_PROPORTIONAL;
    if (r.freq_factor && (r.factor != 1 || !fit_llama3(from, &r)))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tensor rope_freqs.weight: these divisors are not those of Llama 3's "
                       "scaling, the only one with divisors that config.json has",
                       path);
    const enum rope_scaling scaling = written_scaling(&r);
    buf_add_char(w->b, '{');
    hf_put_text(w, "rope_type", names[scaling]);
    hf_put_real(w, "rope_theta", r.base);
    if (scaling == ROPE_YARN || scaling == ROPE_LINEAR) hf_put_real(w, "factor", r.factor);
    if (scaling == ROPE_YARN) put_yarn(w, &r);
    if (scaling == ROPE_LONG) put_long(w, &r);
    if (scaling == ROPE_LONG && class_has(w->class, "config.rope_parameters.short_mscale")) {
        hf_put_real(w, "short_mscale", r.magnitude);
        hf_put_real(w, "long_mscale", r.magnitude);
    }
    if (scaling == ROPE_LLAMA3) put_llama3(w, &r);
    if (n_rotating >= 0) hf_put_real(w, "partial_rotary_factor", 2.0 * n_rotating / r.d_rot);
    if (w->class->partial_rope) put_part(w, &r);
    if (class_has(w->class, "config.rope_parameters.llama_4_scaling_beta") && w->c->n_rope > 1)
        hf_put_real(w, "llama_4_scaling_beta", w->c->rope[ROPE_LOCAL].beta);
    buf_add_char(w->b, '}');
    return 0;
}

/* Append rope_parameters: one object, or one per type of layer. */
static int put_ropes(struct config_writer *w, struct err *e)
{
    if (w->c->n_rope == 0 || w->class->no_rope) return 0;
    hf_put_name(w, "rope_parameters");
    if (!class_has(w->class, "config.rope_parameters.sliding_attention.rope_theta"))
        return put_rope(w, &w->c->rope[ROPE_MAIN], e);
    buf_add_char(w->b, '{');
    hf_put_name(w, "full_attention");
    int rc = put_rope(w, &w->c->rope[ROPE_MAIN], e);
    hf_put_name(w, "sliding_attention");
    if (rc == 0) rc = put_rope(w, &w->c->rope[w->c->n_rope > 1 ? ROPE_LOCAL : ROPE_MAIN], e);
    buf_add_char(w->b, '}');
    return rc;
}

/* ---- the file ---- */

/* Append the id of a special token, or null. */
static void put_id(struct config_writer *w, const char *field, const char *key)
{
    char full[96];
    snprintf(full, sizeof full, "tokenizer.ggml.%s", key);
    const int64_t id = meta_int(checkpoint_meta(w->m->checkpoint, full), -1);
    if (id >= 0 && id < UINT32_MAX) /* llama.cpp writes -1 as u32 for no token */
        hf_put_int(w, field, id);
    else
        put_null(w, field); /* null, because the class may have a default */
}

/* Append the labels of a classifier, and the function of its logits. */
static void put_labels(struct config_writer *w)
{
    static const char *const act[] = {[CLASS_IDENTITY] = "linear.Identity",
                                      [CLASS_SIGMOID] = "activation.Sigmoid",
                                      [CLASS_SOFTMAX] = "activation.Softmax"};
    if (w->c->n_label == 0) return;
    hf_put_name(w, "id2label");
    buf_add_char(w->b, '{');
    for (int i = 0; i < w->c->n_label; i++) {
        char id[24], label[32];
        size_t n;
        const char *text = meta_item_text(w->c->labels, (size_t)i, &n);
        snprintf(id, sizeof id, "%d", i);
        snprintf(label, sizeof label, "LABEL_%d", i);
        hf_put_name(w, id);
        json_put_text(w->b, text ? text : label, text ? n : strlen(label));
    }
    buf_add_char(w->b, '}');
    if (w->c->class_act == CLASS_AUTO) return;
    hf_put_name(w, "sentence_transformers");
    buf_addf(w->b, "{\"activation_fn\":\"torch.nn.modules.%s\"}", act[w->c->class_act]);
}

int hf_put_config(struct buf *b, const struct model *m, const struct hf_class *class,
                  enum qtype type, struct err *e)
{
    struct config_writer w = {
        .b = b, .m = m, .class = model_arch_find(class->arch), .c = &m->config};
    static const struct {
        const char *arch, *field, *value; /* static; value is JSON */
    } constant[] = {
        {"", "", ""},
#define TO_HF_CONSTANT(arch, field, value) {arch, field, value},
#include "to_hf.def"
    };
    buf_addf(b, "{\"architectures\":[\"%s\"],\"model_type\":\"%s\"", class->name,
             class->model_type);
    hf_put_text(&w, "dtype", type == QT_f32 ? "float32" : type == QT_f16 ? "float16" : "bfloat16");
    put_fields(&w, class);
    for (size_t i = 0; i < sizeof constant / sizeof constant[0]; i++)
        if (strcmp(constant[i].arch, class->arch) == 0) {
            hf_put_name(&w, constant[i].field);
            buf_add_text(b, constant[i].value);
        }
    if (class->keeps_codes) {
        hf_put_name(&w, "quantization_config");
        buf_add_text(b, "{\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":"
                        "[\"model.layers.*.self_attn\",\"model.layers.*.mlp.router\","
                        "\"model.embed_tokens\",\"lm_head\"]}");
    }
    put_labels(&w);
    put_id(&w, "bos_token_id", "bos_token_id");
    put_id(&w, "eos_token_id", "eos_token_id");
    put_id(&w, "pad_token_id", "padding_token_id");
    /* the class of Phi-3 reads this field only at the top level */
    if (m->config.rope[ROPE_MAIN].long_factor)
        hf_put_int(&w, "original_max_position_embeddings",
                   m->config.rope[ROPE_MAIN].context_original);
    int rc = put_ropes(&w, e);
    buf_add_text(b, "}\n");
    return rc ? rc : b->failed ? err_memory(e, "config.json", b->n) : 0;
}
