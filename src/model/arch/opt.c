/* opt.c - OPT ("OPT: Open Pre-trained Transformer Language Models", arXiv 2205.01068): learned
 * positions from row 2 on, LayerNorm, biases, a feed-forward block without a gate. One of its
 * models has the norms after the sums, and an embedding that is narrower than the layers. No GGUF
 * file has this architecture. */
#include "model/model_impl.h"

#include <limits.h>

struct opt_ends {
    struct decoder_ends decoder;
    /* matrices between the widths of the embedding and of the layers, [d, d_embd] and [d_embd, d];
     * data is NULL if the widths are equal */
    struct linear in, out;
};

/* the class adds 2 to each position: fairseq's padding index 1, plus 1 */
enum { FIRST_POSITION = 2 };
static const char remove_norm[] = "config._remove_final_layer_norm";

/* defaults of OPTConfig of transformers 5; the epsilon is a constant of the class */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50272),
    KEY("embedding_length", 768),
    KEY("feed_forward_length", 3072),
    KEY("block_count", 12),
    KEY("attention.head_count", 12),
    KEY("context_length", 2048),
    KEY_UNSET("config.word_embed_proj_dim"),
    KEY_UNSET("config.activation_function"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.enable_bias", 1),
    KEY("config.do_layer_norm_before", 1),
    KEY("config._remove_final_layer_norm", 0),
    KEY("config.layer_norm_elementwise_affine", 1),
    ONLY("config.layer_norm_eps", 1e-5, "the class has a constant in place of this field"),
    IDLE("config.dropout", "training"),
    IDLE("config.activation_dropout", "training"),
    IDLE("config.layerdrop", "training"),
    IDLE("config.init_std", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEYS_END,
};

/* Set the positions. A model of random weights has a row for each position of its context. */
static void positions(struct config *c, struct binder *b)
{
    const bool hf = config_is_hf(b);
    const int lo = hf ? 1 : FIRST_POSITION + 1, hi = INT_MAX - FIRST_POSITION;
    if (c->context_train < lo || c->context_train > hi) {
        config_refuse(b, "context_length", ERR_FORMAT, "must be in [%d, %d], got %d", lo, hi,
                      c->context_train);
        return;
    }
    c->position0 = FIRST_POSITION;
    c->n_position = c->context_train + (hf ? FIRST_POSITION : 0);
    c->context_train = c->n_position - FIRST_POSITION;
}

static void config(struct config *c, struct binder *b)
{
    const bool before = config_bool(b, "config.do_layer_norm_before", true);
    config_bool(b, remove_norm, false); /* bind_ends uses this value */
    positions(c, b);
    c->d_embd = config_int(b, "config.word_embed_proj_dim", 1, WIDTH_MAX, c->d);
    c->order = before ? BLOCKS_SERIAL : BLOCKS_POST;
    c->plain_norms = !config_bool(b, "config.layer_norm_elementwise_affine", true);
    c->qkv_bias = c->o_bias = c->ffn_bias =
        config_bool(b, "config.enable_bias", true) ? BIAS_NEEDED : BIAS_NONE;
}

/* Bind the ends. A model with norms after the sums has no norm after the layers. The head is bound
 * last, because converted_params requires this order. */
static void bind_ends(struct binder *b, void *ends)
{
    struct opt_ends *e = ends;
    const struct config *c = &b->m->config;
    if (c->d_embd != c->d) {
        bind_linear(b, &e->in, "embd_in", -1, BIAS_NONE);
        bind_linear(b, &e->out, "embd_out", -1, BIAS_NONE);
        bind_rows(b, "x", c->d_embd);
        bind_rows(b, "h", c->d_embd);
        bind_rows(b, "y", c->d_embd);
    }
    decoder_bind_inputs(b, &e->decoder);
    if (c->order == BLOCKS_SERIAL && !config_bool(b, remove_norm, false))
        bind_norm(b, &e->decoder.norm, "output_norm", -1);
    decoder_bind_head(b, &e->decoder);
}

/* Bind a layer. In files, norms after the sums have the names of norms before the blocks. */
static void bind(struct binder *b, void *layer, int il)
{
    struct decoder_layer *l = layer;
    if (b->m->config.order == BLOCKS_SERIAL) {
        decoder_bind_layer(b, layer, il);
        return;
    }
    bind_attn(b, &l->attn, il);
    bind_norm(b, &l->attn_post, "blk.%d.attn_norm", il);
    bind_ffn(b, &l->feed.ffn, il);
    bind_norm(b, &l->ffn_post, "blk.%d.ffn_norm", il);
}

static void embed(struct fwd *f, const void *ends)
{
    const struct opt_ends *e = ends;
    if (!e->in.w.data) {
        decoder_embed(f, &e->decoder);
        return;
    }
    fwd_embed(f, f->h, &e->decoder.embd);
    fwd_linear(f, f->x, &e->in, f->h, f->n_row);
    fwd_position(f, &e->decoder.position);
}

static struct model_out output(struct fwd *f, const void *ends)
{
    const struct opt_ends *e = ends;
    if (!e->out.w.data) return decoder_output(f, &e->decoder);
    fwd_linear(f, f->x, &e->out, fwd_end_norm(f, &e->decoder), f->n_row);
    return fwd_head(f, f->x, &e->decoder);
}

const struct arch arch_opt = {
    .name = "opt",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .no_rope = true,
    .layer_norm_eps = "config.layer_norm_eps",
    .norm_bias = true,
    .curve = CURVE_relu,
    .ends_bytes = sizeof(struct opt_ends),
    .config = config,
    .bind_ends = bind_ends,
    .bind = bind,
    .embed = embed,
    .output = output,
};
