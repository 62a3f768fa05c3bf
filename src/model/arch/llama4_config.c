/* llama4_config.c - the config of llama4.c. GGUF files have no keys for chunks, temperature and
 * layers without rope, which llama.cpp has as constants. */
#include "llama4_impl.h"

#include <limits.h>

/* constants of llama.cpp. Models of 128 experts have no norms of heads. */
enum { GGUF_CHUNK = 8192, GGUF_FLOOR = 8192, GGUF_INTERVAL = 4, GGUF_EXPERTS_PLAIN = 128 };
static const double gguf_attn_scale = 0.1;

const struct config_key llama4_hf_key[] = {
    KEY("vocab_size", 202048),
    KEY("embedding_length", 5120),
    KEY("feed_forward_length", 16384),
    KEY("block_count", 48),
    KEY("attention.head_count", 40),
    KEY("attention.head_count_kv", 8),
    KEY("attention.key_length", 128),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 500000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.attention_chunk_size", 8192),
    KEY_UNSET("config.layer_types"),
    KEY_UNSET("config.no_rope_layers"),
    KEY("config.no_rope_layer_interval", 4),
    KEY("config.use_qk_norm", 1),
    KEY("config.attn_temperature_tuning", 1),
    KEY("config.attn_scale", 0.1),
    KEY("config.floor_scale", 8192),
    KEY("expert_count", 16),
    KEY("expert_used_count", 1),
    KEY("expert_feed_forward_length", 8192),
    KEY("interleave_moe_layer_step", 1),
    KEY_UNSET("config.moe_layers"),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    IDLE("config.router_jitter_noise", "training"),
    IDLE("config.for_llm_compressor", "field of published files that transformers ignores"),
    KEYS_END,
};

const struct config_key llama4_gguf_key[] = {
    KEY("expert_count", 0),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    KEY_UNSET("interleave_moe_layer_step"),
    KEY("attention.sliding_window", 8192),
    KEYS_END,
};

/* Set the chunks by layer_types, or in the layers with rope. */
static void chunks(struct config *c, struct binder *b)
{
    static const char size[] = "config.attention_chunk_size";
    static const char *const name[] = {"full_attention", "chunked_attention", NULL};
    const struct meta *value = config_meta(b, size);
    const bool none = value && meta_kind(value) == META_NONE;
    const int chunk = none ? 0 : config_int(b, size, 1, INT_MAX, 8192),
              *kind = config_layer_kinds(b, name);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        if (kind && kind[i] == 1 && chunk == 0)
            config_refuse(b, size, ERR_FORMAT, "must be at least 1, because layer %d has chunks",
                          i);
        c->layer[i].chunk = (kind ? kind[i] == 1 : c->layer[i].rope != ROPE_OFF) ? chunk : 0;
    }
}

/* Return true if the queries of layers without rope grow. Published files have an integer. */
static bool tunes(struct binder *b)
{
    static const char key[] = "config.attn_temperature_tuning";
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) == META_INT) return meta_int(m, 0) != 0;
    return config_bool(b, key, true);
}

/* Set the factors of queries, as the magnitude of a rope whose angles are 0. */
static void set_temperature(struct config *c, double beta, int floor_scale)
{
    const struct rope_config *r = &c->rope[ROPE_MAIN];
    bool any = false;
    for (int i = 0; i < c->n_layer; i++) any |= c->layer[i].rope == ROPE_OFF;
    if (!any || beta == 0) return;
    c->rope[ROPE_QUERY] = (struct rope_config){.base = r->base,
                                               .d_rot = c->d_head,
                                               .neox = r->neox,
                                               .scaling = ROPE_PROPORTIONAL,
                                               .factor = 1,
                                               .magnitude = 1,
                                               .beta = beta,
                                               .beta_add = 1,
                                               .beta_context = floor_scale};
    c->n_rope = 2;
}

/* Return true if moe_layers has layer il. */
static bool is_listed(const struct meta *list, int il)
{
    for (size_t i = 0; i < meta_count(list); i++)
        if (meta_item_int(list, i, -1) == il) return true;
    return false;
}

/* Set the layers with a mixture: those of a list, or the last layer of each interval. A GGUF
 * without mixtures may have the interval 0. */
static void mixtures(struct config *c, struct binder *b)
{
    static const char step_key[] = "interleave_moe_layer_step", key[] = "config.moe_layers";
    const struct meta *list = config_is_hf(b) ? config_meta(b, key) : NULL;
    const bool listed = meta_kind(list) != META_NONE;
    const int step = config_int(b, step_key, config_is_hf(b), INT_MAX, listed ? 1 : -1);
    char text[80];
    if (listed && (meta_kind(list) != META_LIST ||
                   (meta_count(list) > 0 && meta_item_kind(list) != META_INT)))
        config_refuse(b, key, ERR_FORMAT, "must be a list of layers, got %s",
                      config_value_text(list, text));
    c->route = (struct route_spec){.score = ROUTE_CHOSEN_SIGMOID, .weighs_input = true};
    config_moe(c, b, 0);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        struct layer_config *l = &c->layer[i];
        l->d_shared = l->d_expert;
        if (listed ? !is_listed(list, i) : step == 0 || (i + 1) % step != 0) config_no_moe(l);
    }
}

/* Set the constants of llama.cpp. A window of 0 stands for a model without chunks, whose layers all
 * have a rope. */
static void gguf_config(struct config *c, struct binder *b)
{
    static const char key[] = "attention.sliding_window";
    const int window = config_int(b, key, 0, INT_MAX, GGUF_CHUNK);
    if (window != 0 && window != GGUF_CHUNK)
        config_refuse(b, key, ERR_UNSUPPORTED, "must be 0 or %d, got %d", GGUF_CHUNK, window);
    for (int i = 0; i < c->n_layer && window > 0; i++) {
        if ((i + 1) % GGUF_INTERVAL == 0)
            c->layer[i].rope = ROPE_OFF;
        else
            c->layer[i].chunk = GGUF_CHUNK;
    }
    set_temperature(c, gguf_attn_scale, GGUF_FLOOR);
    c->head_norms = config_int(b, "expert_count", 0, INT_MAX, 0) != GGUF_EXPERTS_PLAIN;
}

static void hf_config(struct config *c, struct binder *b)
{
    const double beta = config_real(b, "config.attn_scale", 0.1);
    const int floor_scale = config_int(b, "config.floor_scale", 1, INT_MAX, 8192);
    config_no_rope(c, b, true);
    chunks(c, b);
    if (tunes(b) && b->rc == 0) set_temperature(c, beta, floor_scale);
    c->head_norms = config_bool(b, "config.use_qk_norm", true);
}

void llama4_config(struct config *c, struct binder *b)
{
    if (config_is_hf(b))
        hf_config(c, b);
    else
        gguf_config(c, b);
    mixtures(c, b);
    /* compared when a folder is converted */
    bool *own = b->rc == 0 ? bind_memory(b, "the norms of heads", sizeof *own) : NULL;
    if (!own) return;
    *own = c->head_norms;
    c->own = own, c->own_bytes = sizeof *own;
}
