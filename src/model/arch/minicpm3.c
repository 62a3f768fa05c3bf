/* minicpm3.c - MiniCPM3 ("MiniCPM", arXiv 2404.06395), with latent attention ("DeepSeek-V2", arXiv
 * 2405.04434): keys and values of all heads are linear in one compressed row. The rotated values of
 * a key are separate, and all heads share them.
 *
 *   x = embed * scale_emb;  x += scale_depth / sqrt(n_layer) * block(norm x);
 *   logits * dim_model_base / d
 *
 *   in --q_a--> norm --q_b----------> q           of each head [d_nope | d_rope: rope]
 *   in --kv_a--> latent [kv_rank] --norm--kv_b--> of each head k [d_nope] and v [d_v]
 *           '--> k_rope [d_rope] --rope---------> d_rope values of every head's k
 *
 * The pages contain k and v of every head. Every matrix therefore has its published form, in every
 * number format, and adapters can add to every matrix. Pages of latent rows and k_rope would be
 * smaller (22 times in MiniCPM3-4B), but would require the transposed halves of kv_b. Pages of
 * latent rows would require changes only in minicpm3.c. minicpm3_config.c has the keys. */
#include "minicpm3_impl.h"

#include "model/convert_impl.h"

/* The class normalizes compressed rows with the default epsilon of its norm. llama.cpp uses the
 * epsilon of all other norms. */
static const float class_eps = 1e-6f;

/* Row scratch: q_a [q_rank], kv_a [kv_rank + d_rope], latent [kv_rank], k_rope [d_rope], kv [n_head
 * * (d_nope + d_v)]. */
struct minicpm3_layer {
    /* q_norm, kv_norm: norms of compressed rows */
    struct norm attn_norm, q_norm, kv_norm, ffn_norm;
    /* matrices q_a [q_rank, d], kv_a [kv_rank + d_rope, d], kv_b [n_head * (d_nope + d_v),
     * kv_rank] */
    struct linear q_a, kv_a, kv_b;
    struct attn_block attn; /* q is q_b [n_head * d_head, q_rank], or [n_head * d_head, d] */
    struct ffn_block ffn;
    int at_q_a, at_kv_a, at_latent, at_k_rope, at_kv;
};

/* ---- binding ---- */

/* Bind the norm of compressed rows. */
static void bind_row_norm(struct binder *b, struct norm *n, const char *stem, int il)
{
    bind_norm(b, n, stem, il);
    if (config_is_hf(b)) n->eps = class_eps;
}

static void bind_projections(struct binder *b, struct minicpm3_layer *l, int il)
{
    const struct config *c = &b->m->config;
    const struct latent *s = c->own;
    if (s->q_rank > 0) {
        bind_linear(b, &l->q_a, "blk.%d.attn_q_a", il, c->qkv_bias);
        bind_row_norm(b, &l->q_norm, "blk.%d.attn_q_a_norm", il);
        bind_linear(b, &l->attn.q, "blk.%d.attn_q_b", il, BIAS_NONE);
    } else {
        bind_linear(b, &l->attn.q, "blk.%d.attn_q", il, BIAS_NONE);
    }
    bind_linear(b, &l->kv_a, "blk.%d.attn_kv_a_mqa", il, c->qkv_bias);
    bind_row_norm(b, &l->kv_norm, "blk.%d.attn_kv_a_norm", il);
    bind_linear(b, &l->kv_b, "blk.%d.attn_kv_b", il, BIAS_NONE);
    bind_linear(b, &l->attn.o, "blk.%d.attn_output", il, c->o_bias);
}

static void bind(struct binder *b, void *layer, int il)
{
    struct minicpm3_layer *l = layer;
    const struct config *c = &b->m->config;
    const struct latent *s = c->own;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_projections(b, l, il);
    bind_attend(b, &l->attn, il, s->d_v);
    l->attn.rope = ROPE_OFF; /* only a part of each head is rotated, by `expand` */
    l->at_q_a = bind_rows(b, "q_a", s->q_rank);
    l->at_kv_a = bind_rows(b, "kv_a", s->kv_rank + s->d_rope);
    l->at_latent = bind_rows(b, "latent", s->kv_rank);
    l->at_k_rope = bind_rows(b, "k_rope", s->d_rope);
    l->at_kv = bind_rows(b, "kv", (int64_t)c->n_head * (s->d_nope + s->d_v));
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_ffn(b, &l->ffn, il);
}

/* ---- the forward pass ---- */

/* Compute q, the compressed rows of k and v, and the rotated values of k. */
static void compress(struct fwd *f, struct input in, const struct minicpm3_layer *l)
{
    float *q_a = fwd_at(f, l->at_q_a), *q = fwd_at(f, l->attn.at_q);
    const bool two = l->q_norm.g != NULL;
    const struct output out[] = {{two ? &l->q_a : &l->attn.q, two ? q_a : q},
                                 {&l->kv_a, fwd_at(f, l->at_kv_a)}};
    fwd_linears(f, out, 2, &in);
    if (!two) return;
    fwd_norm(f, q_a, q_a, &l->q_norm);
    fwd_linear(f, q, &l->attn.q, q_a, f->n_row);
}

/* Separate the compressed rows from the rotated values, and compute k and v of all heads. */
static void expand(struct fwd *f, const struct minicpm3_layer *l)
{
    const struct latent *s = f->m->config.own;
    const int n_head = l->attn.spec.n_head, d_k = s->d_nope + s->d_rope, d_kv = s->d_nope + s->d_v,
              d_kv_a = s->kv_rank + s->d_rope;
    const float *kv_a = fwd_at(f, l->at_kv_a);
    float *latent = fwd_at(f, l->at_latent), *k_rope = fwd_at(f, l->at_k_rope),
          *kv = fwd_at(f, l->at_kv), *q = fwd_at(f, l->attn.at_q), *k = fwd_at(f, l->attn.at_k),
          *v = fwd_at(f, l->attn.at_v);
    const int64_t kv_row = (int64_t)n_head * d_kv, k_row = (int64_t)n_head * d_k,
                  v_row = (int64_t)n_head * s->d_v;
    fwd_columns(
        f, latent, kv_a,
        &(struct columns){.n_part = 1, .n = s->kv_rank, .y_row = s->kv_rank, .x_row = d_kv_a});
    fwd_columns(
        f, k_rope, kv_a + s->kv_rank,
        &(struct columns){.n_part = 1, .n = s->d_rope, .y_row = s->d_rope, .x_row = d_kv_a});
    fwd_norm(f, latent, latent, &l->kv_norm);
    fwd_linear(f, kv, &l->kv_b, latent, f->n_row);
    fwd_rope(f, q + s->d_nope, n_head, d_k, ROPE_MAIN);
    fwd_rope(f, k_rope, 1, s->d_rope, ROPE_MAIN);
    fwd_columns(f, k, kv,
                &(struct columns){.n_part = n_head,
                                  .n = s->d_nope,
                                  .y_row = k_row,
                                  .y_part = d_k,
                                  .x_row = kv_row,
                                  .x_part = d_kv});
    fwd_columns(
        f, k + s->d_nope, k_rope,
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
    compress(f, fwd_normed(f, f->x, &l->attn_norm), l);
    expand(f, l);
    fwd_attend(f, &l->attn);
    fwd_attn_out(f, f->y, &l->attn);
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
    .hf_key = minicpm3_hf_key,
    .gguf_key = minicpm3_gguf_key,
    .gguf_neox = true,
    .layer_bytes = sizeof(struct minicpm3_layer),
    .heads = minicpm3_heads,
    .size = minicpm3_size,
    .config = minicpm3_config,
    .bind = bind,
    .layer = layer,
};
