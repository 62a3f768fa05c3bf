/* command_r.c - Command-R (Cohere): attention and feed-forward block in parallel, after one
 * LayerNorm without bias; a factor of the logits; in the largest models norms of q and k heads. */
#include "command_r_impl.h"

/* defaults of CohereConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 256000),
    KEY("embedding_length", 8192),
    KEY("feed_forward_length", 22528),
    KEY("block_count", 40),
    KEY("attention.head_count", 64),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 8192),
    KEY("config.layer_norm_eps", 1e-5),
    KEY("rope.freq_base", 500000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("config.logit_scale", 0.0625),
    KEY("config.use_qk_norm", 0),
    IDLE("config.model_max_length", "in the published files, but not in the class"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("logit_scale"),
    KEYS_END,
};

void command_r_logit_scale(struct config *c, struct binder *b)
{
    static const char key[] = "config.logit_scale";
    const struct meta *m = config_meta(b, key);
    const double scale = config_real(b, config_is_hf(b) ? key : "logit_scale", 0);
    if (config_is_hf(b) && m && meta_kind(m) == META_NONE)
        config_refuse(b, key, ERR_FORMAT, "must be a number, got null");
    c->logit_scale = config_is_hf(b) || scale != 0 ? (float)scale : 1;
}

static void config(struct config *c, struct binder *b)
{
    command_r_logit_scale(c, b);
    c->head_norms = config_bool(b, "config.use_qk_norm", false);
}

void command_r_bind(struct binder *b, void *layer, int il)
{
    struct command_r_layer *l = layer;
    const struct config *c = &b->m->config;
    const char *const q = "blk.%d.attn_q_norm", *const k = "blk.%d.attn_k_norm";
    const bool norms = config_is_hf(b) ? c->head_norms : bind_has(b, q, il);
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_attn(b, &l->attn, il);
    if (norms) bind_part_norm(b, &l->q_norm, q, il, c->layer[il].n_head);
    if (norms) bind_part_norm(b, &l->k_norm, k, il, c->layer[il].n_head_kv);
    bind_glu(b, &l->ffn, il);
}

void command_r_attn_add(struct fwd *f, float *x, const float *h, const struct command_r_layer *l)
{
    const struct attn_block *a = &l->attn;
    float *q = fwd_at(f, a->at_q), *k = fwd_at(f, a->at_k);
    if (!l->q_norm.g) {
        fwd_attn_add(f, x, fwd_plain(h), a);
        return;
    }
    fwd_qkv(f, fwd_plain(h), a);
    fwd_norm(f, q, q, &l->q_norm);
    fwd_norm(f, k, k, &l->k_norm);
    fwd_attend(f, a);
    fwd_attn_out(f, f->y, a);
    fwd_add(f, x, f->y);
}

void command_r_layer(struct fwd *f, const void *layer)
{
    const struct command_r_layer *l = layer;
    fwd_norm(f, f->h, f->x, &l->attn_norm);
    command_r_attn_add(f, f->x, f->h, l);
    if (l->ffn_norm.g) fwd_norm(f, f->h, f->x, &l->ffn_norm);
    fwd_glu_add(f, f->x, fwd_plain(f->h), &l->ffn);
}

struct model_out command_r_output(struct fwd *f, const void *ends)
{
    struct model_out out = decoder_output(f, ends);
    fwd_scale_logits(f, &out, f->m->config.logit_scale);
    return out;
}

const struct arch arch_command_r = {
    .name = "command-r",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .layer_norm_eps = "config.layer_norm_eps",
    .ends_bytes = sizeof(struct decoder_ends),
    .layer_bytes = sizeof(struct command_r_layer),
    .config = config,
    .bind_ends = decoder_bind,
    .bind = command_r_bind,
    .embed = decoder_embed,
    .layer = command_r_layer,
    .output = command_r_output,
};
