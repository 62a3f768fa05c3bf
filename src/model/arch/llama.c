/* llama.c - Llama 1 to 3.x ("LLaMA: Open and Efficient Foundation Language Models", arXiv
 * 2302.13971), SmolLM, and other models that GGUF files label llama. Llama is a pre-norm decoder:
 * grouped-query attention with rope, SwiGLU, RMSNorm. */
#include "llama_impl.h"

/* defaults of LlamaConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32000),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    IDLE("config.pretraining_tp", "how training split the matrices"),
    KEYS_END,
};

/* additional keys for mistral, which GGUF files label llama */
static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEYS_END,
};

/* Set the window. Mistral's GGUF files are labelled llama and may have a window. */
static void config(struct config *c, struct binder *b)
{
    int window = config_has(b, "attention.sliding_window") ? config_window(b) : 0;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].window = window;
}

void llama_bind(struct binder *b, void *layer, int il)
{
    struct llama_layer *l = layer;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_attn(b, &l->attn, il);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_glu(b, &l->ffn, il);
}

void llama_layer(struct fwd *f, const void *layer)
{
    const struct llama_layer *l = layer;
    fwd_attn_add(f, f->x, fwd_normed(f, f->x, &l->attn_norm), &l->attn); /* x += attn(norm x) */
    fwd_glu_add(f, f->x, fwd_normed(f, f->x, &l->ffn_norm), &l->ffn);    /* x += ffn(norm x)  */
}

const struct arch arch_llama = {
    .name = "llama",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .ends_bytes = sizeof(struct decoder_ends),
    .layer_bytes = sizeof(struct llama_layer),
    .config = config,
    .bind_ends = decoder_bind,
    .bind = llama_bind,
    .embed = decoder_embed,
    .layer = llama_layer,
    .output = decoder_output,
};
