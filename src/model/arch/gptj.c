/* gptj.c - GPT-J-6B (Wang and Komatsuzaki, 2021): attention and a feed-forward block without a gate
 * are parallel, after one LayerNorm. The rope is fixed and pairs adjacent lanes. No GGUF file has
 * this architecture. */
#include "model/model_impl.h"

/* defaults of GPTJConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50400),
    KEY("embedding_length", 4096),
    KEY_UNSET("feed_forward_length"),
    KEY("block_count", 28),
    KEY("attention.head_count", 16),
    KEY("context_length", 2048),
    KEY("config.layer_norm_epsilon", 1e-5),
    KEY("rope.dimension_count", 64),
    KEY_UNSET("config.activation_function"),
    ONLY("config.tie_word_embeddings", 0, "a tied head with a bias is not supported yet"),
    IDLE("config.resid_pdrop", "training"),
    IDLE("config.embd_pdrop", "training"),
    IDLE("config.attn_pdrop", "training"),
    IDLE("config.rotary", "field of published files that transformers ignores"),
    IDLE("config.scale_attn_weights", "field of published files that transformers ignores"),
    IDLE("config.summary_type", "field of a head that quoth does not use"),
    IDLE("config.summary_use_proj", "field of a head that quoth does not use"),
    IDLE("config.summary_activation", "field of a head that quoth does not use"),
    IDLE("config.summary_proj_to_labels", "field of a head that quoth does not use"),
    IDLE("config.summary_first_dropout", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY("rope.dimension_count", 64),
    KEYS_END,
};

/* masks of attention, which only old files contain */
static const char *const left_out[] = {".attn.bias", ".attn.masked_bias", NULL};

/* Read the config. The class computes its table of sines with a fixed base, and ignores rope
 * parameters. */
static void config(struct config *c, struct binder *b)
{
    static const char key[] = "rope.dimension_count";
    const int d_rot = config_int(b, key, 2, c->d_head, 0);
    if (d_rot % 2 || d_rot > c->d_head)
        config_refuse(b, key, ERR_FORMAT, "must be even and at most %d, got %d", c->d_head, d_rot);
    c->n_rope = 1;
    c->rope[ROPE_MAIN] = (struct rope_config){
        .base = 10000, .d_rot = d_rot, .neox = false, .scaling = ROPE_NONE, .magnitude = 1};
    for (int i = 0; i < c->n_layer; i++) c->layer[i].rope = ROPE_MAIN;
    c->order = BLOCKS_PARALLEL;
    c->ffn_bias = c->head_bias = BIAS_NEEDED;
    c->tied = false;
}

const struct arch arch_gptj = {
    .name = "gptj",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .no_rope = true,
    .layer_norm_eps = "config.layer_norm_epsilon",
    .norm_bias = true,
    .curve = CURVE_gelu_tanh,
    .ffn_times = 4,
    .left_out = left_out,
    .left_out_why = "mask of attention; quoth computes the mask itself",
    .config = config,
};
