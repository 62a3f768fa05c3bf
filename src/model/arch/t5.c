/* t5.c - T5: an encoder and a decoder with RMSNorm before the blocks. Paper: "Exploring the Limits
 * of Transfer Learning with a Unified Text-to-Text Transformer", arXiv 1910.10683. Linear layers
 * have no biases, and scores are not scaled. Biases by distance are added to the scores, in place
 * of positions. Version 1.1 ("GLU Variants Improve Transformer", arXiv 2002.05202) has GeGLU and a
 * separate head. */
#include "t5_impl.h"

#include <string.h>

/* defaults of T5Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32128),
    KEY("feed_forward_length", 2048),
    KEY("block_count", 6),
    KEY("decoder_block_default", 6),
    KEY("attention.head_count", 8),
    /* the class has no default; published files have this value */
    KEY("decoder_start_token_id", 0),
    KEY("config.tie_word_embeddings", 1),
    KEY_UNSET("config.scale_decoder_outputs"),
    T5_KEYS,
    T5_DECODER_KEYS,
    KEYS_END,
};

const struct config_key t5_gguf_key[] = {
    KEY_UNSET("decoder_block_count"),
    KEY("attention.relative_buckets_count", 32),
    KEY_UNSET("decoder_start_token_id"),
    IDLE("attention.layer_norm_epsilon", "the norms have attention.layer_norm_rms_epsilon"),
    KEYS_END,
};

/* An embedding of distances in the attention to the source. The reference does not use this
 * embedding. */
const char *const t5_left_out[] = {".EncDecAttention.relative_attention_bias.weight",
                                   ".cross_attn_rel_b.weight", NULL};

/* Set the activation and the gate of a GGUF, which has no keys for both. Blocks with a gate have
 * GELU by tanh. Blocks without a gate have ReLU. */
static void gguf_feed_forward(struct config *c, const struct binder *b)
{
    c->no_gate = !checkpoint_tensor(b->checkpoint, "enc.blk.0.ffn_gate.weight");
    c->curve = c->no_gate ? CURVE_relu : CURVE_gelu_tanh;
}

/* Read the activation and the gate. feed_forward_proj is the name of the activation, with the
 * prefix "gated-" for a gate. "gated-gelu" is GELU by tanh. Two further fields, which the class
 * derives and writes, override feed_forward_proj. */
static void feed_forward(struct config *c, struct binder *b, const char *proj)
{
    static const char key[] = "config.feed_forward_proj", own_key[] = "config.dense_act_fn",
                      gated[] = "gated-";
    const size_t n_gated = sizeof gated - 1;
    const struct meta *m = config_meta(b, key), *own = config_meta(b, own_key);
    size_t n = strlen(proj);
    const char *name = meta_kind(m) == META_NONE ? proj : meta_text(m, &n);
    char value[80];
    const bool has_gate = name && n > n_gated && memcmp(name, gated, n_gated) == 0;
    if (has_gate) name += n_gated, n -= n_gated;
    c->no_gate = !config_bool(b, "config.is_gated_act", has_gate);
    const bool by_tanh = has_gate && n == 4 && memcmp(name, "gelu", 4) == 0;
    if (own) name = meta_text(own, &n);
    if (meta_kind(m) != META_NONE && meta_kind(m) != META_TEXT)
        config_refuse(b, key, ERR_FORMAT, "must be a name, got %s", config_value_text(m, value));
    else if (!name || !config_curve(name, n, &c->curve))
        config_refuse(b, own ? own_key : key, ERR_UNSUPPORTED,
                      "must be silu, gelu, gelu_new, relu or relu2%s, got \"%.40s\"",
                      own ? "" : ", with or without gated-", name ? name : "?");
    else if (!own && by_tanh)
        c->curve = CURVE_gelu_tanh;
}

void t5_config(struct config *c, struct binder *b, const char *proj)
{
    enum { REACH_MAX = 4096 }; /* a layer's table of distances has 2 MB with 64 heads */
    static const char reach[] = "config.relative_attention_max_distance";
    c->n_bucket = config_int(b, "attention.relative_buckets_count", 4, 2 * REACH_MAX, 32);
    c->bucket_reach = config_int(b, reach, 1, REACH_MAX, 128);
    if (b->rc == 0 && c->bucket_reach <= c->n_bucket / 2)
        config_refuse(b, reach, ERR_FORMAT, "must be above half of the %d buckets, got %d",
                      c->n_bucket, c->bucket_reach);
    for (int i = 0; i < c->n_layer; i++) c->layer[i].attn_scale = 1;
    c->tied = true; /* the class uses the embedding as the head if the file lacks a head */
    if (config_is_hf(b))
        feed_forward(c, b, proj);
    else
        gguf_feed_forward(c, b);
}

/* Return true if the head is the embedding, or if the file has no head. */
static bool shares_head(const struct binder *b)
{
    const struct tensor_info *embd = checkpoint_tensor(b->checkpoint, "token_embd.weight"),
                             *head = checkpoint_tensor(b->checkpoint, "output.weight");
    return !head || (embd && head->n_byte == embd->n_byte && head->data && embd->data &&
                     memcmp(head->data, embd->data, head->n_byte) == 0);
}

/* Read the config. In version 1.0 the head is the embedding, and the logits are multiplied by a
 * factor. tie_word_embeddings identifies the version. The class writes scale_decoder_outputs in
 * place of tie_word_embeddings. A GGUF has no key for this factor. llama.cpp has no factor, so a
 * temperature has another effect in llama.cpp. */
void t5_scaled_config(struct config *c, struct binder *b, const char *proj)
{
    static const char key[] = "config.scale_decoder_outputs";
    const struct meta *own = config_meta(b, key);
    const bool tied = config_bool(b, "config.tie_word_embeddings", true);
    t5_config(c, b, proj);
    if (config_is_hf(b) ? (own ? config_bool(b, key, false) : tied) : shares_head(b))
        c->logit_scale = 1 / sqrtf((float)c->d);
}

static void config(struct config *c, struct binder *b)
{
    t5_scaled_config(c, b, "relu");
}

/* ---- biases by distance ---- */

int64_t t5_size(const struct config *c, enum tensor_size size)
{
    return size == SIZE_N_BUCKET ? c->n_bucket : 0;
}

/* Return the bucket, of n, for a key at a distance from the row. Half of the buckets contain one
 * distance each. All other buckets contain ranges that grow by a factor. In an encoder, keys after
 * the row have their own half of the buckets. The arithmetic is f32, as in the reference. */
static int bucket_of(int distance, bool encoder, int n, int reach)
{
    int first = 0, far = distance < 0 ? -distance : encoder ? distance : 0;
    if (encoder) n /= 2;
    if (encoder && distance > 0) first = n;
    const int exact = n / 2;
    if (far < exact) return first + far;
    const float ratio = (float)far / (float)exact,
                whole = (float)log((double)reach / (double)exact);
    const int more = (int)((float)log((double)ratio) / whole * (float)(n - exact));
    return first + (exact + more < n ? exact + more : n - 1);
}

/* Bind the table of biases: f32 [n_head, bias_floats(reach)]. */
static void bind_bias(struct binder *b, struct attn_spec *s, int il)
{
    const struct config *c = &b->m->config;
    const int reach = c->bucket_reach, n = bias_floats(reach);
    const float *of = bind_floats(b, "blk.%d.attn_rel_b", il, c->n_bucket, s->n_head);
    float *v = bind_memory(b, "biases by distance", (size_t)(s->n_head * n) * sizeof *v);
    for (int i = 0; i < n && v; i++) {
        const int distance = i - reach - BIAS_EDGE;
        const int bucket = bucket_of(distance < -reach  ? -reach
                                     : distance > reach ? reach
                                                        : distance,
                                     b->m->arch->encoder || il < c->n_encoder, c->n_bucket, reach);
        for (int h = 0; h < s->n_head; h++) v[h * n + i] = of[bucket * s->n_head + h];
    }
    s->bias = v;
}

/* Bind a layer. own: true if the layer has biases of its own, otherwise it has those of the first
 * layer of its side. */
static void bind_layer(struct binder *b, void *layer, int il, bool own)
{
    struct decoder_layer *l = layer;
    const struct decoder_layer *first = (struct decoder_layer *)b->m->layer + b->layer0;
    struct attn_spec *s = &l->attn.spec;
    decoder_bind_layer(b, layer, il);
    if (b->rc != 0) return;
    s->bias_reach = b->m->config.bucket_reach;
    if (own)
        bind_bias(b, s, il);
    else
        s->bias = first->attn.spec.bias;
    bind_vector(b, &s->bias, (int64_t)s->n_head * bias_floats(s->bias_reach));
}

/* The first layer of encoder or decoder has the biases for all layers of this side. llama.cpp
 * accepts layers with their own biases, which a converted UMT5 has. */
void t5_bind(struct binder *b, void *layer, int il)
{
    const bool own = !config_is_hf(b) && bind_has(b, "blk.%d.attn_rel_b", il);
    bind_layer(b, layer, il, il == b->layer0 || own);
}

void umt5_bind(struct binder *b, void *layer, int il)
{
    bind_layer(b, layer, il, true);
}

const struct arch arch_t5 = {
    .name = "t5",
    T5_ARCH,
    .bind = t5_bind,
    .hf_key = hf_key,
    .config = config,
};
