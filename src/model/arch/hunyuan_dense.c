/* hunyuan_dense.c - Hunyuan dense (Tencent), model_type hunyuan_v1_dense: a llama with norms of q
 * and k heads after rope. The rope has a larger base if its type is "dynamic" with an alpha. */
#include "model/model_impl.h"

#include <string.h>

/* defaults of HunYuanDenseV1Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 290943),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY_UNSET("config.rope_parameters.alpha"),
    IDLE("config.attention_head_dim", "the class reads head_dim"),
    IDLE("config.eod_token_id", "quoth reads this value from the tokenizer's own files"),
    IDLE("config.pretraining_tp", "split of the matrices in training"),
    IDLE("config.use_qk_norm", "the class always uses these norms"),
    KEYS_END,
};

static const char alpha_key[] = "config.rope_parameters.alpha";
static const struct rope_type rope_type[] = {
    {"dynamic", ROPE_NONE, alpha_key}, /* the config function changes the base */
    ROPE_TYPES,
    ROPE_TYPES_END,
};

static void config(struct config *c, struct binder *b)
{
    struct rope_config *r = &c->rope[ROPE_MAIN];
    const double alpha = config_real(b, alpha_key, 0);
    const char *type = meta_text(config_meta(b, "rope.scaling.type"), NULL);
    if (!type || strcmp(type, "dynamic") != 0 || !(alpha > 0)) return;
    if (c->d_head > 2) r->base *= pow(alpha, (double)c->d_head / (c->d_head - 2));
    if (c->d_head <= 2 || !isfinite(r->base))
        config_refuse(b, alpha_key, ERR_FORMAT, "must give a finite base with %d lanes, got %g",
                      c->d_head, alpha);
}

/* Rotate the heads of q and k, then normalize them. */
static void put(struct fwd *f, float *q, float *k, const struct attn_block *a)
{
    const struct attn_spec *s = &a->spec;
    fwd_rope(f, q, s->n_head, s->d_k, ROPE_MAIN);
    fwd_rope(f, k, s->n_head_kv, s->d_k, ROPE_MAIN);
    fwd_head_norm(f, q, s->n_head, &a->q_norm);
    fwd_head_norm(f, k, s->n_head_kv, &a->k_norm);
    fwd_put(f, k, a);
}

static void bind(struct binder *b, void *layer, int il)
{
    struct decoder_layer *l = layer;
    decoder_bind_layer(b, l, il);
    l->attn.put = put;
}

const struct arch arch_hunyuan_dense = {
    .name = "hunyuan-dense",
    .hf_key = hf_key,
    .gguf_neox = true,
    .rope_type = rope_type,
    .config = config,
    .bind = bind,
};
