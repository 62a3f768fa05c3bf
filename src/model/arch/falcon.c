/* falcon.c - Falcon: LayerNorm, a feed-forward block without a gate, parallel to attention in all
 * models except the first. Paper: "The Falcon Series of Open Language Models", arXiv 2311.16867.
 * Some models have one KV head. In all other models, q, k and v are grouped by KV head. The first
 * models have ALiBi in place of a rope. */
#include "model/convert_impl.h"

#include <limits.h>

/* defaults of FalconConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 65024),
    KEY("embedding_length", 4544),
    KEY_UNSET("feed_forward_length"),
    KEY("block_count", 32),
    KEY("attention.head_count", 71),
    KEY("context_length", 2048),
    KEY("config.layer_norm_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.activation"),
    KEY("config.tie_word_embeddings", 1),
    KEY_UNSET("config.num_kv_heads"),
    KEY_UNSET("config.num_ln_in_parallel_attn"),
    KEY("config.new_decoder_architecture", 0),
    KEY("config.multi_query", 1),
    KEY("config.parallel_attn", 1),
    KEY("config.alibi", 0),
    KEY("config.bias", 0),
    IDLE("config.apply_residual_connection_post_layernorm",
         "field of published files that transformers ignores"),
    IDLE("config.hidden_dropout", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEYS_END,
};

/* Set the order of the blocks. In the newer architecture, the blocks are parallel with one or two
 * norms. In the older architecture, the blocks are parallel with one norm, or serial. */
static void order(struct config *c, struct binder *b, bool newer)
{
    static const char norms[] = "config.num_ln_in_parallel_attn", key[] = "config.parallel_attn";
    const bool parallel = config_bool(b, key, false);
    const int n_norm = config_int(b, norms, INT_MIN, INT_MAX, newer ? 2 : 1);
    if (newer && !parallel)
        config_refuse(b, key, ERR_FORMAT, "must be true with new_decoder_architecture, got false");
    if (newer && (n_norm < 1 || n_norm > 2))
        config_refuse(b, norms, ERR_FORMAT, "must be 1 or 2, got %d", n_norm);
    if (!newer && parallel && n_norm == 2)
        config_refuse(b, norms, ERR_FORMAT, "must not be 2 without new_decoder_architecture");
    c->order = !parallel ? BLOCKS_SERIAL : newer && n_norm == 2 ? BLOCKS_2_NORMS : BLOCKS_PARALLEL;
}

/* Set the number of KV heads. The older architecture has one KV head, or one per query head. */
static void kv_heads(struct config *c, struct binder *b, bool newer)
{
    static const char key[] = "config.num_kv_heads";
    const bool multi_query = config_bool(b, "config.multi_query", false);
    int n = config_int(b, key, 1, HEADS_MAX, c->n_head);
    if (newer ? c->n_head % (n ? n : 1) != 0 : !multi_query && n != c->n_head)
        config_refuse(b, key, ERR_FORMAT, "must be %s %d, got %d",
                      newer ? "a divisor of" : "num_attention_heads,", c->n_head, n);
    if (!newer && multi_query) n = 1;
    c->n_head_kv = n;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].n_head_kv = n;
}

static void alibi(struct config *c)
{
    c->alibi = 8;
    c->alibi_scale = 1.0f / sqrtf((float)c->d_head); /* the sum of scores and ALiBi is scaled */
    for (int i = 0; i < c->n_layer; i++) c->layer[i].rope = ROPE_OFF;
}

/* Read the config. A GGUF has parallel blocks and a rope, because llama.cpp supports no other order
 * and no ALiBi. */
static void config(struct config *c, struct binder *b)
{
    if (!config_is_hf(b)) {
        c->order = bind_has(b, "blk.%d.attn_norm_2", 0) ? BLOCKS_2_NORMS : BLOCKS_PARALLEL;
        return;
    }
    const bool newer = config_bool(b, "config.new_decoder_architecture", false);
    order(c, b, newer);
    kv_heads(c, b, newer);
    if (config_bool(b, "config.alibi", false)) alibi(c);
    c->qkv_bias = c->o_bias = c->ffn_bias =
        config_bool(b, "config.bias", false) ? BIAS_NEEDED : BIAS_NONE;
}

/* Bind a layer. In GGUF files with two norms, the norm before attention is attn_norm_2. */
static void bind(struct binder *b, void *layer, int il)
{
    struct decoder_layer *l = layer;
    const enum block_order order = b->m->config.order;
    const bool two = order == BLOCKS_2_NORMS;
    bind_norm(b, &l->attn_norm, two ? "blk.%d.attn_norm_2" : "blk.%d.attn_norm", il);
    bind_attn(b, &l->attn, il);
    if (order != BLOCKS_PARALLEL)
        bind_norm(b, &l->ffn_norm, two ? "blk.%d.attn_norm" : "blk.%d.ffn_norm", il);
    bind_ffn(b, &l->feed.ffn, il);
}

/* ---- conversion ---- */

/* Return true for Falcon's newer architecture, which has several KV heads or two norms. The flag
 * itself is not kept in the config, so the conversion derives it from its effects. */
static bool is_newer(const struct config_writer *w)
{
    return w->c->order == BLOCKS_2_NORMS || (w->c->n_head_kv > 1 && w->c->n_head_kv < w->c->n_head);
}

static void newer(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, is_newer(w));
}

static void n_norm(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->order == BLOCKS_2_NORMS ? 2 : 1);
}

static void multi_query(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, w->c->n_head_kv == 1);
}

static const struct hf_field own_field[] = {{"config.new_decoder_architecture", newer},
                                            {"config.num_ln_in_parallel_attn", n_norm},
                                            {"config.multi_query", multi_query},
                                            {0}};
static const struct arch_convert own_convert = {.field = own_field};

const struct arch arch_falcon = {
    .name = "falcon",
    .convert = &own_convert,
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .hf_groups = true,
    .layer_norm_eps = "config.layer_norm_epsilon",
    .norm_bias = true,
    .curve = CURVE_gelu_erf,
    .ffn_times = 4,
    .config = config,
    .bind = bind,
};
