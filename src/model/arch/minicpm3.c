/* minicpm3.c - MiniCPM3 ("MiniCPM", arXiv 2404.06395), with latent attention (block/latent.c).
 *
 *   x = embed * scale_emb;  x += scale_depth / sqrt(n_layer) * block(norm x);
 *   logits * dim_model_base / d
 *
 * The pages contain k and v of every head. Every matrix therefore has its published form, in every
 * number format, and adapters can add to every matrix. Pages of latent rows (bind_latent) would be
 * smaller, 22 times in MiniCPM3-4B, and attention to a prompt would need 3.4 times as many
 * products. A GGUF has no keys for the factors of embeddings, residual branches and logits. */
#include "model/convert_impl.h"
#include "model/model_impl.h"

/* ---- config ---- */

/* values of MiniCPM3-4B, which llama.cpp uses for every GGUF, because a GGUF has no keys for these
 * values */
static const double scale_emb = 12, scale_depth = 1.4;
enum { DIM_MODEL_BASE = 256 };

/* defaults of MiniCPM3Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 73448),
    KEY("embedding_length", 2560),
    KEY("feed_forward_length", 6400),
    KEY("block_count", 62),
    KEY("attention.head_count", 40),
    KEY("attention.head_count_kv", 40),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("attention.q_lora_rank", 768),
    KEY("attention.kv_lora_rank", 256),
    KEY("config.qk_nope_head_dim", 64),
    KEY("rope.dimension_count", 32),
    KEY_UNSET("attention.value_length"),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.rope_parameters.short_factor"),
    KEY_UNSET("config.rope_parameters.long_factor"),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEY("config.scale_emb", 12),
    KEY("config.scale_depth", 1.4),
    KEY("config.dim_model_base", DIM_MODEL_BASE),
    IDLE("attention.key_length", "the class computes this size from the two parts of a head"),
    IDLE("config.qk_head_dim", "the class computes this size from the two parts of a head"),
    IDLE("config.pretraining_tp", "split of the matrices in training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.q_lora_rank"),
    KEY_UNSET("attention.kv_lora_rank"),
    KEY_UNSET("rope.dimension_count"),
    KEYS_END,
};

/* Return a factor of config.json. Return `null` for a null; reject a null if `null` is NAN. */
static double factor(struct binder *b, const char *key, double null)
{
    const double v = config_real(b, key, null);
    if (isnan(v)) config_refuse(b, key, ERR_FORMAT, "must be a number, got null");
    return v;
}

/* Read the config. The factor of scale_depth or dim_model_base is 1 if the value is null. */
static void config(struct config *c, struct binder *b)
{
    static const char base_key[] = "config.dim_model_base";
    const bool hf = config_is_hf(b);
    const double depth = sqrt((double)c->n_layer);
    const double embed = hf ? factor(b, "config.scale_emb", NAN) : scale_emb,
                 residual = hf ? factor(b, "config.scale_depth", depth) : scale_depth,
                 base = hf ? config_int(b, base_key, 1, WIDTH_MAX, c->d) : DIM_MODEL_BASE;
    if (c->d % c->n_head != 0)
        config_refuse(b, "attention.head_count", ERR_FORMAT, "must be a divisor of %d, got %d",
                      c->d, c->n_head);
    c->embed_scale = (float)embed;
    c->residual_scale = (float)(residual / depth);
    c->logit_scale = (float)(base / c->d);
    const double scores = hf && b->rc == 0 ? latent_scores(b, &c->rope[ROPE_MAIN]) : 1;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].attn_scale *= (float)scores;
}

/* ---- layers ---- */

/* Row scratch: the scratch of latent_block, and kv [n_head * (d_nope + d_v)]. */
struct minicpm3_layer {
    struct norm attn_norm, ffn_norm;
    struct latent_block latent; /* without k_b and v_b */
    struct linear kv_b;         /* matrix [n_head * (d_nope + d_v), kv_rank] */
    struct ffn_block ffn;
    int at_kv;
};

/* ---- binding ---- */

static void bind(struct binder *b, void *layer, int il)
{
    struct minicpm3_layer *l = layer;
    struct attn_block *a = &l->latent.attn;
    const struct config *c = &b->m->config;
    const struct latent *s = c->latent;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_latent_rows(b, &l->latent, il, s);
    bind_linear(b, &l->kv_b, "blk.%d.attn_kv_b", il, BIAS_NONE);
    bind_linear(b, &a->o, "blk.%d.attn_output", il, c->o_bias);
    bind_attend(b, a, il,
                &(struct kv_geometry){c->n_head_kv, s->d_nope + s->d_rope, s->d_v, false});
    a->rope = ROPE_OFF; /* only a part of each head is rotated, by fwd_latent_rows */
    l->at_kv = bind_rows(b, "kv", (int64_t)c->n_head * (s->d_nope + s->d_v));
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_ffn(b, &l->ffn, il);
}

/* ---- the forward pass ---- */

/* Compute k and v of all heads from the compressed rows. */
static void expand(struct fwd *f, const struct minicpm3_layer *l)
{
    const struct latent *s = f->m->config.latent;
    const struct attn_block *a = &l->latent.attn;
    const int n_head = a->spec.n_head, d_k = s->d_nope + s->d_rope, d_kv = s->d_nope + s->d_v;
    float *kv = fwd_at(f, l->at_kv), *k = fwd_at(f, a->at_k), *v = fwd_at(f, a->at_v);
    const int64_t kv_row = (int64_t)n_head * d_kv, k_row = (int64_t)n_head * d_k,
                  v_row = (int64_t)n_head * s->d_v;
    fwd_linear(f, kv, &l->kv_b, fwd_at(f, l->latent.at_latent), f->n_row);
    fwd_columns(f, k, kv,
                &(struct columns){.n_part = n_head,
                                  .n = s->d_nope,
                                  .y_row = k_row,
                                  .y_part = d_k,
                                  .x_row = kv_row,
                                  .x_part = d_kv});
    fwd_columns(
        f, k + s->d_nope, fwd_at(f, l->latent.at_k_rope),
        &(struct columns){
            .n_part = n_head, .n = s->d_rope, .y_row = k_row, .y_part = d_k, .x_row = s->d_rope});
    fwd_columns(f, v, kv + s->d_nope,
                &(struct columns){.n_part = n_head,
                                  .n = s->d_v,
                                  .y_row = v_row,
                                  .y_part = s->d_v,
                                  .x_row = kv_row,
                                  .x_part = d_kv});
}

/* Compute x += r attn(norm x); x += r ffn(norm x). */
static void layer(struct fwd *f, const void *layer)
{
    const struct minicpm3_layer *l = layer;
    const float r = f->m->config.residual_scale;
    const struct attn_block *a = &l->latent.attn;
    fwd_latent_rows(f, fwd_at(f, a->at_q), fwd_normed(f, f->x, &l->attn_norm), &l->latent);
    expand(f, l);
    fwd_attend(f, a);
    fwd_attn_out(f, f->y, a);
    fwd_scale(f, f->y, r);
    fwd_add(f, f->x, f->y);
    fwd_ffn(f, f->y, fwd_normed(f, f->x, &l->ffn_norm), &l->ffn);
    fwd_scale(f, f->y, r);
    fwd_add(f, f->x, f->y);
}

/* ---- conversion ---- */

/* Append the factor of residuals before its division by the square root of the number of layers.
 * struct config only has the quotient, which the forward pass uses. */
static void depth_scale(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, (double)w->c->residual_scale * sqrt((double)w->c->n_layer));
}

static void base_width(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, (int64_t)round((double)w->c->logit_scale * w->c->d));
}

static const struct hf_field own_field[] = {
    {"config.scale_depth", depth_scale}, {"config.dim_model_base", base_width}, {0}};
static const struct arch_convert own_convert = {.field = own_field};

const struct arch arch_minicpm3 = {
    .name = "minicpm3",
    .convert = &own_convert,
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .layer_bytes = sizeof(struct minicpm3_layer),
    .heads = latent_heads,
    .size = latent_size,
    .config = config,
    .bind = bind,
    .layer = layer,
};
