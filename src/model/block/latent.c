/* latent.c - latent attention ("DeepSeek-V2", arXiv 2405.04434): keys and values of all heads are
 * linear in one compressed row, the latent. The rotated values of a key are separate, and all heads
 * share them.
 *
 *   in --q_a--> norm --q_b----------> q           of each head [d_nope | d_rope: rope]
 *   in --kv_a--> latent [kv_rank] --norm--kv_b--> of each head k [d_nope] and v [d_v]
 *           '--> k_rope [d_rope] --rope---------> d_rope values of every head's k
 *
 * The scores of a head are the products of q with k_b latent, thus of the transpose of k_b times q
 * with the latent. The pages therefore contain only the latent and k_rope, as the key of one KV
 * head (kv_layer.latent). The first kv_rank values of this key are also the value of all heads.
 *
 *   q [d_nope] --k_b transposed--> [kv_rank | q_rope] = query      of each head
 *   key [latent | k_rope];  attention --> sum of latents --v_b--> v [d_v]      of each head
 *
 * All rows, of prompts and of decoding, are computed in this order, so their bits are equal. A
 * model may instead store k and v of every head (minicpm3.c). */
#include "model/model_impl.h"

/* ---- binding ---- */

void bind_latent_rows(struct binder *b, struct latent_block *l, int il, const struct latent *s)
{
    const struct config *c = &b->m->config;
    l->size = s;
    l->rope = c->layer[il].rope;
    if (s->q_rank > 0) {
        bind_linear(b, &l->q_a, "blk.%d.attn_q_a", il, c->qkv_bias);
        bind_norm(b, &l->q_norm, "blk.%d.attn_q_a_norm", il);
        bind_linear(b, &l->attn.q, "blk.%d.attn_q_b", il, BIAS_NONE);
    } else {
        bind_linear(b, &l->attn.q, "blk.%d.attn_q", il, BIAS_NONE);
    }
    bind_linear(b, &l->kv_a, "blk.%d.attn_kv_a_mqa", il, c->qkv_bias);
    bind_norm(b, &l->kv_norm, "blk.%d.attn_kv_a_norm", il);
    l->q_norm.eps = l->kv_norm.eps = s->row_eps;
    l->at_q_a = bind_rows(b, "q_a", s->q_rank);
    l->at_kv_a = bind_rows(b, "kv_a", s->kv_rank + s->d_rope);
    l->at_latent = bind_rows(b, "latent", s->kv_rank);
    l->at_k_rope = bind_rows(b, "k_rope", s->d_rope);
}

/* Bind k_b and v_b. New GGUF files have both, and k_b is transposed. All other files have one
 * matrix with the rows of k and v of each head. */
static void bind_expansion(struct binder *b, struct latent_block *l, int il, const struct latent *s)
{
    static const char both[] = "blk.%d.attn_kv_b", k_b[] = "blk.%d.attn_k_b";
    const int64_t step = s->d_nope + s->d_v;
    if (bind_has(b, k_b, il)) {
        bind_parts(b, &l->k_b, k_b, il);
        bind_parts(b, &l->v_b, "blk.%d.attn_v_b", il);
        return;
    }
    bind_heads(b, &l->k_b, both, il, &(struct row_part){.n = s->d_nope, .step = step}, true);
    bind_heads(b, &l->v_b, both, il,
               &(struct row_part){.first = s->d_nope, .n = s->d_v, .step = step}, false);
}

void bind_latent(struct binder *b, struct latent_block *l, int il, const struct latent *s)
{
    const int64_t n_head = b->m->config.layer[il].n_head;
    bind_latent_rows(b, l, il, s);
    bind_expansion(b, l, il, s);
    bind_linear(b, &l->attn.o, "blk.%d.attn_output", il, b->m->config.o_bias);
    bind_attend(b, &l->attn, il,
                &(struct kv_geometry){1, s->kv_rank + s->d_rope, s->kv_rank, true});
    l->attn.rope = ROPE_OFF; /* only a part of each head is rotated */
    l->at_head = bind_rows(b, "q_heads", n_head * (s->d_nope + s->d_rope));
    l->at_value = bind_rows(b, "latent values", n_head * s->d_v);
}

/* ---- the forward pass ---- */

void fwd_latent_rows(struct fwd *f, float *q, struct input in, const struct latent_block *l)
{
    const struct latent *s = l->size;
    const int d_kv_a = s->kv_rank + s->d_rope;
    float *q_a = fwd_at(f, l->at_q_a), *kv_a = fwd_at(f, l->at_kv_a),
          *latent = fwd_at(f, l->at_latent), *k_rope = fwd_at(f, l->at_k_rope);
    const bool two = l->q_norm.g != NULL;
    const struct output out[] = {{two ? &l->q_a : &l->attn.q, two ? q_a : q}, {&l->kv_a, kv_a}};
    fwd_linears(f, out, 2, &in);
    if (two) {
        fwd_norm(f, q_a, q_a, &l->q_norm);
        fwd_linear(f, q, &l->attn.q, q_a, f->n_row);
    }
    fwd_columns(
        f, latent, kv_a,
        &(struct columns){.n_part = 1, .n = s->kv_rank, .y_row = s->kv_rank, .x_row = d_kv_a});
    fwd_columns(
        f, k_rope, kv_a + s->kv_rank,
        &(struct columns){.n_part = 1, .n = s->d_rope, .y_row = s->d_rope, .x_row = d_kv_a});
    fwd_norm(f, latent, latent, &l->kv_norm);
    if (l->rope == ROPE_OFF) return;
    fwd_rope(f, q + s->d_nope, l->attn.spec.n_head, s->d_nope + s->d_rope, l->rope);
    fwd_rope(f, k_rope, 1, s->d_rope, l->rope);
}

/* Set the key of all heads, and the queries of the heads. */
static void put_query_and_key(struct fwd *f, const float *head, const struct latent_block *l)
{
    const struct latent *s = l->size;
    const int n_head = l->attn.spec.n_head, d_head = s->d_nope + s->d_rope,
              d_key = s->kv_rank + s->d_rope;
    const int64_t head_row = (int64_t)n_head * d_head, query_row = (int64_t)n_head * d_key;
    float *query = fwd_at(f, l->attn.at_q), *key = fwd_at(f, l->attn.at_k);
    struct columns c = {
        .n_part = n_head, .y_row = query_row, .y_part = d_key, .x_row = head_row, .x_part = d_head};
    fwd_parts(f, query, &l->k_b, head, &c);
    c.n = s->d_rope;
    fwd_columns(f, query + s->kv_rank, head + s->d_nope, &c);
    fwd_columns(
        f, key, fwd_at(f, l->at_latent),
        &(struct columns){.n_part = 1, .n = s->kv_rank, .y_row = d_key, .x_row = s->kv_rank});
    fwd_columns(f, key + s->kv_rank, fwd_at(f, l->at_k_rope),
                &(struct columns){.n_part = 1, .n = s->d_rope, .y_row = d_key, .x_row = s->d_rope});
}

void fwd_latent_add(struct fwd *f, float *x, struct input in, const struct latent_block *l)
{
    const struct latent *s = l->size;
    const int n_head = l->attn.spec.n_head;
    float *head = fwd_at(f, l->at_head), *value = fwd_at(f, l->at_value);
    fwd_latent_rows(f, head, in, l);
    put_query_and_key(f, head, l);
    fwd_attend(f, &l->attn);
    fwd_parts(f, value, &l->v_b, fwd_at(f, l->attn.at_attn),
              &(struct columns){.n_part = n_head,
                                .y_row = (int64_t)n_head * s->d_v,
                                .y_part = s->d_v,
                                .x_row = (int64_t)n_head * s->kv_rank,
                                .x_part = s->kv_rank});
    fwd_linear_add(f, x, &l->attn.o, value);
    trace(f, "attn_out", f->y, l->attn.o.w.n_out);
}
