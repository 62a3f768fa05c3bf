/* gemma3n_config.c - the config of Gemma 3n (gemma3n.c). The sparsity of a layer is the share of
 * its gates that are 0 if gates are normally distributed. A GGUF has the quantiles of these
 * shares. */
#include "gemma_impl.h"

#include <limits.h>

/* defaults of Gemma3nTextConfig of transformers 5 */
const struct config_key gemma3n_hf_key[] = {
    KEY("vocab_size", 262400),
    KEY("embedding_length", 2048),
    KEY("feed_forward_length", 16384),
    KEY("block_count", 35),
    KEY("attention.head_count", 8),
    KEY("attention.head_count_kv", 2),
    KEY("attention.key_length", 256),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 1000000),
    KEY_UNSET("config.hidden_activation"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("attention.sliding_window", 512),
    KEY_UNSET("config.layer_types"),
    KEY("config.final_logit_softcapping", 30),
    KEY("config.rope_local_base_freq", 10000),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_theta"),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_type"),
    ONLY("config.rope_parameters.truncate", 1,
         "transformers ignores this parameter in an object per layer type"),
    KEY_UNSET("config.rope_parameters.full_attention"),
    IDLE("config.rope_parameters.sliding_attention", "its fields are read"),
    KEY("config.hidden_size_per_layer_input", 256),
    KEY("config.vocab_size_per_layer_input", 262144),
    KEY("config.num_kv_shared_layers", 15),
    KEY("config.altup_num_inputs", 4),
    KEY("config.altup_active_idx", 0),
    KEY("config.altup_correct_scale", 1),
    KEY("config.laurel_rank", 64),
    KEY_UNSET("config.activation_sparsity_pattern"),
    IDLE("config.altup_coef_clip", "training"),
    KEYS_END,
};

const struct config_key gemma3n_gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEY_UNSET("attention.sliding_window_pattern"),
    KEY_UNSET("attention.shared_kv_layers"),
    KEY_UNSET("embedding_length_per_layer_input"),
    KEY_UNSET("rope.freq_base_swa"),
    KEY("final_logit_softcapping", 30),
    KEY("altup.num_inputs", 4),
    KEY("altup.active_idx", 0),
    KEY_UNSET("activation_sparsity_scale"),
    KEYS_END,
};

/* ---- both sources ---- */

/* Set the fields that config.json and GGUF have in common. The windows of the layers are already
 * set. */
static void finish(struct config *c, struct gemma_own *own, struct binder *b, const char *shared,
                   int n_shared)
{
    const char *active = config_is_hf(b) ? "config.altup_active_idx" : "altup.active_idx";
    own->active = config_int(b, active, 0, STREAMS_MAX, 0);
    c->embed_scale = (float)sqrt(c->d);
    c->v_norms = true;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].attn_scale = 1;
    if (b->rc == 0 && own->active >= own->n_stream)
        config_refuse(b, active, ERR_FORMAT, "must be below the %d streams, got %d", own->n_stream,
                      own->active);
    gemma3n_gates(c, b);
    /* the declared default may exceed the number of layers */
    if (n_shared >= c->n_layer)
        config_refuse(b, shared, ERR_FORMAT, "must be below the %d layers, got %d", c->n_layer,
                      n_shared);
    if (b->rc == 0) config_share_kv(c, b, shared, n_shared);
}

/* Reject rope_parameters without an object per layer type, because the class ignores these
 * parameters. */
static void check_rope(struct binder *b)
{
    static const char full[] = "config.rope_parameters.full_attention";
    const bool has_full = config_object(b, full);
    if (!config_lacks_rope(b) && !has_full)
        config_refuse(b, full, ERR_MISSING, "is missing; a rope_scaling is not supported yet");
}

static void hf_config(struct config *c, struct gemma_own *own, struct binder *b)
{
    static const char shared[] = "config.num_kv_shared_layers";
    const int window = config_window(b), n_shared = config_int(b, shared, 0, LAYERS_MAX, 0);
    const double base = config_real(b, "config.rope_local_base_freq", 10000);
    c->logit_softcap = config_cap(b, "config.final_logit_softcapping");
    own->d_input = config_int(b, "config.hidden_size_per_layer_input", 1, WIDTH_MAX, 0);
    own->n_input = config_int(b, "config.vocab_size_per_layer_input", 1, INT_MAX, 0);
    own->n_stream = config_int(b, "config.altup_num_inputs", 1, STREAMS_MAX, 0);
    own->d_laurel = config_int(b, "config.laurel_rank", 1, WIDTH_MAX, 0);
    own->scales = config_bool(b, "config.altup_correct_scale", true);
    check_rope(b);
    if (window == 0)
        config_refuse(b, "attention.sliding_window", ERR_FORMAT, "must be at least 1, got null");
    if (b->rc == 0 && !config_layer_types(b, c, window)) gemma_windows(c, window, 5);
    config_local_rope(c, b, "config.rope_local_base_freq", config_sliding_base(b, base));
    finish(c, own, b, shared, n_shared);
}

/* Set the windows by a list of booleans, or by the interval of layers without a window. */
static void gguf_windows(struct config *c, struct binder *b)
{
    static const char key[] = "attention.sliding_window_pattern";
    const int window = config_window(b);
    if (window == 0)
        config_refuse(b, "attention.sliding_window", ERR_FORMAT, "must be at least 1, got 0");
    if (meta_kind(config_meta(b, key)) != META_LIST) {
        gemma_windows(c, window, config_int(b, key, 1, INT_MAX, 5));
        return;
    }
    const int *slides = config_layer_ints(b, key, 0, 1, 0);
    for (int i = 0; i < c->n_layer && slides; i++) c->layer[i].window = slides[i] ? window : 0;
}

/* Read a GGUF. llama.cpp has constants in place of some keys: 20 layers with keys and values, 4
 * streams, 10 sparse layers. The constants of llama.cpp are the defaults of the keys, because files
 * with other values have the keys. */
static void gguf_config(struct config *c, struct gemma_own *own, struct binder *b)
{
    static const char shared[] = "attention.shared_kv_layers";
    const struct tensor_info *left = checkpoint_tensor(b->checkpoint, "blk.0.laurel_l.weight");
    const struct rope_config *r = &c->rope[ROPE_MAIN];
    const double base = config_real(b, "rope.freq_base_swa", r->base);
    const int n_shared =
        config_int(b, shared, 0, LAYERS_MAX, c->n_layer > 20 ? c->n_layer - 20 : 0);
    gguf_windows(c, b);
    c->logit_softcap = (float)config_real(b, "final_logit_softcapping", 30);
    if (!(c->logit_softcap > 0))
        config_refuse(b, "final_logit_softcapping", ERR_FORMAT, "must be above 0, got %g",
                      (double)c->logit_softcap);
    own->d_input = config_int(b, "embedding_length_per_layer_input", 1, WIDTH_MAX, 256);
    own->n_input = gemma_table_rows(b);
    own->scales = true;
    own->n_stream = config_int(b, "altup.num_inputs", 1, STREAMS_MAX, 0);
    own->d_laurel = left && left->dim[1] <= WIDTH_MAX ? (int)left->dim[1] : 0;
    if (r->scaling != ROPE_NONE && r->factor != 1)
        config_refuse(b, "rope.scaling.factor", ERR_UNSUPPORTED, "must be 1, got %g", r->factor);
    config_local_rope(c, b, "rope.freq_base_swa", base);
    c->rope[ROPE_LOCAL].magnitude = config_real(b, "rope.scaling.attn_factor", 1);
    finish(c, own, b, shared, n_shared);
}

void gemma3n_config(struct config *c, struct binder *b)
{
    struct gemma_own *own = gemma_own(c, b);
    if (!own) return;
    if (config_is_hf(b))
        hf_config(c, own, b);
    else
        gguf_config(c, own, b);
}
