/* to_gguf_keys.c - the keys of a GGUF made of a Hugging Face directory: the inverse of config.c and
 * of the config functions of the architectures.
 *
 *   struct config --> ARCH.* and general.*
 *
 * The values are from the resolved config, not from config.json, so the file also contains defaults
 * of the class. A key that only some architectures have is written if the architecture of the GGUF
 * declares the key (arch.gguf_key). model_same_config detects a mechanism without a key.
 *
 * The functions put_* write nothing after the first error (w->rc), so that their callers read as a
 * list of keys. A key's name is "ARCH." and the rest, with llama.cpp's name of the architecture. */
#include "convert_impl.h"

#include "base/log.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

void gguf_put_int(struct key_writer *w, const char *key, int64_t x)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", w->arch, key);
    if (w->rc == 0) w->rc = checkpoint_add_u32(w->view, full, (uint32_t)x, w->e);
}

void gguf_put_real(struct key_writer *w, const char *key, double x)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", w->arch, key);
    if (w->rc == 0) w->rc = checkpoint_add_f32(w->view, full, (float)x, w->e);
}

void gguf_put_bool(struct key_writer *w, const char *key, bool x)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", w->arch, key);
    if (w->rc == 0) w->rc = checkpoint_add_bool(w->view, full, x, w->e);
}

static void put_ints(struct key_writer *w, const char *key, const int32_t *v, size_t n)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", w->arch, key);
    if (w->rc == 0) w->rc = checkpoint_add_ints(w->view, full, v, n, w->e);
}

void gguf_put_floats(struct key_writer *w, const char *key, const float *v, size_t n)
{
    if (w->rc == 0) w->rc = checkpoint_add_floats(w->view, key, v, n, w->e);
}

/* Return the declaration of a key of the GGUF; NULL if its architecture does not declare the
 * key. */
static const struct config_key *declared(const struct key_writer *w, const char *key)
{
    const struct config_key *k = w->gguf->gguf_key;
    while (k && k->key && strcmp(k->key, key) != 0) k++;
    return k && k->key ? k : NULL;
}

static void put_name(struct key_writer *w, const char *key, const char *text)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", w->arch, key);
    if (w->rc == 0) w->rc = checkpoint_add_text(w->view, full, text, strlen(text), w->e);
}

/* Write the rope. to_gguf.c writes llama3's scaling as one tensor of divisors, and LongRoPE as
 * two tensors. */
static void put_rope(struct key_writer *w, const struct config *c)
{
    const struct rope_config *r = &c->rope[ROPE_MAIN];
    gguf_put_int(w, "rope.dimension_count", r->d_rot);
    gguf_put_real(w, "rope.freq_base", r->base);
    if (declared(w, "rope.freq_base_swa") && c->n_rope > 1)
        gguf_put_real(w, "rope.freq_base_swa", c->rope[ROPE_LOCAL].base);
    if (declared(w, "rope.dimension_count_swa") && c->n_rope > 1)
        gguf_put_int(w, "rope.dimension_count_swa", c->rope[ROPE_LOCAL].d_rot);
    if (r->scaling == ROPE_YARN && declared(w, "rope.scaling.yarn_beta_fast")) {
        gguf_put_real(w, "rope.scaling.yarn_beta_fast", r->beta_fast);
        gguf_put_real(w, "rope.scaling.yarn_beta_slow", r->beta_slow);
    }
    if (r->scaling == ROPE_LINEAR || r->scaling == ROPE_YARN) {
        put_name(w, "rope.scaling.type", r->scaling == ROPE_YARN ? "yarn" : "linear");
        gguf_put_real(w, "rope.scaling.factor", r->factor);
    }
    if (r->scaling == ROPE_YARN || r->scaling == ROPE_LONG)
        gguf_put_int(w, "rope.scaling.original_context_length", r->context_original);
    if (r->scaling == ROPE_LONG) gguf_put_real(w, "rope.scaling.attn_factor", r->magnitude);
}

/* Return a value of the directory. Set *value to the default of the class if the file lacks the
 * value. */
static const struct meta *class_value(const struct model *m, const char *key, double *value)
{
    char full[160];
    const struct config_key *k = m->arch->hf_key;
    while (k->key && strcmp(k->key, key) != 0) k++;
    *value = k->key ? k->value : NAN;
    snprintf(full, sizeof full, "%s%s%s", strncmp(key, "config.", 7) == 0 ? "" : m->arch->name,
             strncmp(key, "config.", 7) == 0 ? "" : ".", key);
    const struct meta *v = checkpoint_meta(m->checkpoint, full);
    if (v) *value = meta_kind(v) == META_BOOL ? meta_bool(v, false) : meta_real(v, NAN);
    return v;
}

/* Write the numbers that only one architecture has. A null is not written. */
static void put_own(struct key_writer *w)
{
    static const struct {
        const char *arch, *from, *key; /* static */
        bool whole;
    } own[] = {
#define TO_GGUF_REAL(arch, from, key) {arch, from, key, false},
#define TO_GGUF_INT(arch, from, key)  {arch, from, key, true},
#include "to_gguf.def"
    };
    static const struct {
        const char *arch, *key, *text; /* static */
    } texts[] = {
#define TO_GGUF_TEXT(arch, key, text) {arch, key, text},
#include "to_gguf.def"
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        double x;
        if (strcmp(own[i].arch, w->m->arch->name) != 0) continue;
        class_value(w->m, own[i].from, &x);
        if (isnan(x)) continue;
        if (own[i].whole)
            gguf_put_int(w, own[i].key, (int64_t)x);
        else
            gguf_put_real(w, own[i].key, x);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i].arch, w->m->arch->name) == 0) put_name(w, texts[i].key, texts[i].text);
}

int conversion_window(const struct config *c)
{
    int window = 0;
    for (int i = 0; i < c->n_layer; i++)
        if (c->layer[i].window > window) window = c->layer[i].window;
    return window;
}

/* ---- sizes and windows ---- */

/* Write a size: one number if the size is equal in all layers, otherwise a list. */
static void put_layers(struct key_writer *w, const char *key,
                       int (*of)(const struct layer_config *))
{
    const struct config *c = &w->m->config;
    const int first = of(&c->layer[0]);
    bool same = true;
    for (int i = 0; i < c->n_layer; i++) same &= of(&c->layer[i]) == first;
    if (same || !w->gguf->gguf_lists) {
        gguf_put_int(w, key, first);
        return;
    }
    int32_t *v = arena_push(w->arena, (size_t)c->n_layer * sizeof *v, 8);
    if (!v && w->rc == 0) w->rc = err_memory(w->e, key, (size_t)c->n_layer * sizeof *v);
    for (int i = 0; i < c->n_layer && v; i++) v[i] = of(&c->layer[i]);
    if (v) put_ints(w, key, v, (size_t)c->n_layer);
}

static int layer_d_ff(const struct layer_config *l)
{
    return l->d_ff;
}

/* Return the width of a block in a GGUF that has 0 for all other blocks. */
static int layer_d_ff_or_0(const struct layer_config *l)
{
    return l->n_expert > 0 ? l->d_expert : l->d_ff;
}

static int layer_n_head_kv(const struct layer_config *l)
{
    return l->n_head_kv;
}

/* Return the number of KV heads in a GGUF that has 0 for recurrent layers. */
static int layer_n_head_kv_or_0(const struct layer_config *l)
{
    return l->recurrent ? 0 : l->n_head_kv;
}

/* Return the number of KV heads in a GGUF that has 0 for all layers without attention. */
static int layer_n_head_kv_single(const struct layer_config *l)
{
    return l->recurrent || layer_d_ff_or_0(l) > 0 ? 0 : l->n_head_kv;
}

/* Return the size of a head in the layers with a window, or in the layers without one; 0 if there
 * are no such layers. */
static int d_head_of(const struct config *c, bool window)
{
    for (int i = 0; i < c->n_layer; i++)
        if ((c->layer[i].window > 0) == window) return c->layer[i].d_head;
    return 0;
}

/* Write the sizes of a key and a value in the pages, and of the heads before their compression. */
static void put_latent(struct key_writer *w, const struct latent *l)
{
    gguf_put_int(w, "attention.key_length", l->kv_rank + l->d_rope);
    gguf_put_int(w, "attention.value_length", l->kv_rank);
    gguf_put_int(w, "attention.key_length_mla", l->d_nope + l->d_rope);
    gguf_put_int(w, "attention.value_length_mla", l->d_v);
    gguf_put_int(w, "attention.kv_lora_rank", l->kv_rank);
    if (l->q_rank > 0) gguf_put_int(w, "attention.q_lora_rank", l->q_rank);
    if (l->row_eps != w->m->config.rms_eps) {
        gguf_put_real(w, "attention.latent_norm_rms_epsilon", (double)l->row_eps);
        log_warn(
            "%s: llama.cpp ignores the epsilon %g of compressed rows, and gives slightly other "
            "results",
            checkpoint_path(w->m->checkpoint), (double)l->row_eps);
    }
    double all;
    class_value(w->m, "config.rope_parameters.mscale_all_dim", &all);
    if (all > 0) gguf_put_real(w, "rope.scaling.yarn_log_multiplier", 0.1 * all);
}

/* Write the sizes of a head. Layers with a window have a separate key if their size differs. */
static void put_heads(struct key_writer *w)
{
    const struct config *c = &w->m->config;
    const int wide = d_head_of(c, false), narrow = d_head_of(c, true);
    const bool two = declared(w, "attention.key_length_swa") != NULL;
    const int d = two && wide ? wide : c->d_head;
    if (declared(w, "attention.key_length_mla")) {
        put_latent(w, c->latent);
        return;
    }
    gguf_put_int(w, "attention.key_length", d);
    if (!w->m->arch->heads) gguf_put_int(w, "attention.value_length", d);
    if (!two) return;
    gguf_put_int(w, "attention.key_length_swa", narrow ? narrow : d);
    gguf_put_int(w, "attention.value_length_swa", narrow ? narrow : d);
}

/* Return the interval of layers without a window: the last layer of every interval has no window.
 * first: the first layer of every interval has no window. Return 0 if the windows have no
 * interval. */
static int window_interval(const struct config *c, bool first)
{
    for (int n = 1; n <= c->n_layer + 1; n++) {
        int i = 0;
        while (i < c->n_layer && (c->layer[i].window > 0) == ((first ? i : i + 1) % n != 0)) i++;
        if (i == c->n_layer) return n;
    }
    return 0;
}

void gguf_put_flags(struct key_writer *w, const char *key, bool (*of)(const struct layer_config *))
{
    char full[160];
    const struct config *c = &w->m->config;
    bool *v = arena_push(w->arena, (size_t)c->n_layer, 1);
    if (!v && w->rc == 0) w->rc = err_memory(w->e, key, (size_t)c->n_layer);
    for (int i = 0; i < c->n_layer && v; i++) v[i] = of(&c->layer[i]);
    snprintf(full, sizeof full, "%s.%s", w->arch, key);
    if (w->rc == 0) w->rc = checkpoint_add_bools(w->view, full, v, (size_t)c->n_layer, w->e);
}

static bool layer_has_window(const struct layer_config *l)
{
    return l->window > 0;
}

/* Write the pattern of windows, as an interval or a list of booleans, unless it is the default of
 * the reader. */
static void put_pattern(struct key_writer *w)
{
    static const char key[] = "attention.sliding_window_pattern";
    const struct config *c = &w->m->config;
    const struct config_key *k = declared(w, key);
    const int n = window_interval(c, w->m->arch->encoder && c->layer[0].window == 0);
    if (!k || (n > 0 && k->value == n)) return;
    if (n > 0 && !isnan(k->value)) {
        gguf_put_int(w, key, n);
        return;
    }
    gguf_put_flags(w, key, layer_has_window);
}

/* Write the windows. An encoder's window in a GGUF is the sum of both sides. */
static void put_windows(struct key_writer *w)
{
    const int window = conversion_window(&w->m->config);
    if (window == 0) return;
    gguf_put_int(w, "attention.sliding_window", w->m->arch->encoder ? 2 * (window - 1) : window);
    put_pattern(w);
    if (!arch_gguf_window(w->arch))
        log_warn("%s: the window of %d tokens is in the file, but llama.cpp ignores it for %s; "
                 "llama.cpp gives other results for longer texts",
                 checkpoint_path(w->m->checkpoint), window, w->arch);
}

/* Write the sizes. A GGUF of encoder and decoder has the sizes of the encoder. */
static void put_sizes(struct key_writer *w)
{
    const char *own = w->m->arch->layer_norm_eps;
    const struct config *c = &w->m->config;
    const bool cross = c->n_encoder > 0;
    gguf_put_int(w, "block_count", cross ? c->n_encoder : c->n_layer);
    gguf_put_int(w, "context_length", cross ? c->context_train / 2 : c->context_train);
    gguf_put_int(w, "embedding_length", c->d);
    if (w->m->arch->no_attention) {
        /* llama.cpp requires both keys */
        gguf_put_int(w, "feed_forward_length", own ? c->layer[0].d_ff : 0);
        gguf_put_int(w, "attention.head_count", 0);
        gguf_put_int(w, "vocab_size", c->n_vocab);
        gguf_put_real(w, own ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                      (double)c->rms_eps);
        return;
    }
    const struct arch *gguf = w->gguf;
    put_layers(w, "feed_forward_length", gguf->gguf_single ? layer_d_ff_or_0 : layer_d_ff);
    gguf_put_int(w, "attention.head_count", c->n_head);
    put_layers(w, "attention.head_count_kv",
               gguf->gguf_single  ? layer_n_head_kv_single
               : gguf->gguf_kinds ? layer_n_head_kv_or_0
                                  : layer_n_head_kv);
    put_heads(w);
    gguf_put_int(w, "vocab_size", c->n_vocab);
    gguf_put_real(w,
                  own && strncmp(own, "config.", 7) == 0 ? "attention.layer_norm_epsilon"
                                                         : "attention.layer_norm_rms_epsilon",
                  c->rms_eps);
    put_windows(w);
    if (c->n_bucket > 0) gguf_put_int(w, "attention.relative_buckets_count", c->n_bucket);
    if (!cross) return;
    gguf_put_int(w, "decoder_block_count", c->n_layer - c->n_encoder);
    gguf_put_int(w, "decoder_start_token_id", c->start[0]);
}

/* ---- mechanisms of several architectures ---- */

/* Return the number of layers that use keys and values of earlier layers. */
static int count_shared(const struct config *c)
{
    int n = 0;
    for (int i = 0; i < c->n_layer; i++) n += c->layer[i].reuses_kv;
    return n;
}

/* Write the rule that selects the experts of a row, by the keys that the architecture declares. */
static void put_route(struct key_writer *w, const struct route_spec *r)
{
    enum { GATING_SOFTMAX = 1, GATING_SIGMOID };
    if (declared(w, "expert_gating_func"))
        gguf_put_int(w, "expert_gating_func",
                     r->score == ROUTE_SIGMOID ? GATING_SIGMOID : GATING_SOFTMAX);
    if (declared(w, "expert_weights_norm")) gguf_put_bool(w, "expert_weights_norm", r->normalize);
    if (declared(w, "expert_weights_scale") && r->factor != 0)
        gguf_put_real(w, "expert_weights_scale", (double)r->factor);
    if (r->n_group == 0) return;
    gguf_put_int(w, "expert_group_count", r->n_group);
    gguf_put_int(w, "expert_group_used_count", r->n_group_used);
}

/* Write the sizes of the first mixture. GGUF has one set of sizes for all layers. */
static void put_mixture(struct key_writer *w, const struct config *c)
{
    static const char dense[] = "leading_dense_block_count";
    int first = 0;
    while (first < c->n_layer && c->layer[first].n_expert == 0) first++;
    if (declared(w, dense)) gguf_put_int(w, dense, first);
    if (first == c->n_layer) return;
    const struct layer_config *l = &c->layer[first];
    gguf_put_int(w, "expert_count", l->n_expert);
    gguf_put_int(w, "expert_used_count", l->n_expert_used);
    if (declared(w, "expert_feed_forward_length"))
        gguf_put_int(w, "expert_feed_forward_length", l->d_expert);
    if (declared(w, "expert_shared_feed_forward_length"))
        gguf_put_int(w, "expert_shared_feed_forward_length", l->d_shared);
    if (declared(w, "expert_shared_count"))
        gguf_put_int(w, "expert_shared_count", l->d_shared / l->d_expert);
    put_route(w, &c->route);
}

/* Write the keys that only some architectures declare. */
static void put_declared(struct key_writer *w)
{
    const struct config *c = &w->m->config;
    const struct config_key *cap = declared(w, "final_logit_softcapping");
    if (cap && (c->logit_softcap > 0 || isnan(cap->value)))
        gguf_put_real(w, "final_logit_softcapping", (double)c->logit_softcap);
    if (declared(w, "attention.clamp_kqv") && c->qkv_limit > 0)
        gguf_put_real(w, "attention.clamp_kqv", (double)c->qkv_limit);
    if (declared(w, "attention.max_alibi_bias") && c->alibi > 0)
        gguf_put_real(w, "attention.max_alibi_bias", c->alibi);
    if (declared(w, "use_parallel_residual"))
        gguf_put_bool(w, "use_parallel_residual",
                      c->order == BLOCKS_PARALLEL || c->order == BLOCKS_2_NORMS);
    if (declared(w, "attention.shared_kv_layers"))
        gguf_put_int(w, "attention.shared_kv_layers", count_shared(c));
    if (declared(w, "attention.causal")) gguf_put_bool(w, "attention.causal", false);
    if (w->gguf->gguf_curve)
        put_name(w, "hidden_activation",
                 c->curve == CURVE_silu        ? "silu"
                 : c->curve == CURVE_gelu_tanh ? "gelu_pytorch_tanh"
                                               : "gelu");
    if (c->pooling_type > 0) gguf_put_int(w, "pooling_type", c->pooling_type);
    if (w->m->arch->encoder && w->rc == 0 && w->m->arch->norm_bias)
        w->rc = checkpoint_add_u32(w->view, "tokenizer.ggml.token_type_count",
                                   (uint32_t)(c->n_segment > 0 ? c->n_segment : 1), w->e);
}

/* Write the names of a classifier's labels. */
static void put_labels(struct key_writer *w)
{
    char key[160];
    const struct meta *labels = w->m->config.labels;
    const size_t n = w->m->config.n_label > 0 ? meta_count(labels) : 0;
    const char **text = arena_push(w->arena, (n + 1) * sizeof *text, 8);
    size_t *len = arena_push(w->arena, (n + 1) * sizeof *len, 8);
    if (w->rc == 0 && (!text || !len)) w->rc = err_memory(w->e, "labels", n);
    for (size_t i = 0; i < n && w->rc == 0; i++) text[i] = meta_item_text(labels, i, &len[i]);
    snprintf(key, sizeof key, "%s.classifier.output_labels", w->arch);
    if (n > 0 && w->rc == 0) w->rc = checkpoint_add_texts(w->view, key, text, len, n, w->e);
}

/* Write the token of padding of a classifier that uses it, which may differ from the tokenizer's.
 * The key has llama.cpp's number for no token, because the writer of the tokenizer would add its
 * token for an absent key. */
static void put_class_pad(struct key_writer *w)
{
    const struct config *c = &w->m->config;
    if (w->rc == 0 && config_uses_class_pad(c))
        w->rc = checkpoint_add_u32(w->view, "tokenizer.ggml.padding_token_id",
                                   (uint32_t)c->class_pad, w->e);
}

/* Copy the numbers of generation_config.json. A value that is no number has no effect. top_k -1 is
 * off, as is 0, and a GGUF has an unsigned value. */
static int copy_generation(struct checkpoint *view, const struct checkpoint *c, struct err *e)
{
    enum { INT, REAL };
    static const struct {
        const char *key;
        int kind;
    } rows[] = {
#define GENERATION(field, key, kind)          {key, kind},
#define GENERATION_SAMPLING(field, key, kind) {key, kind},
#include "format/generation.def"
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && rc == 0; i++) {
        const struct meta *v = checkpoint_meta(c, rows[i].key);
        const enum meta_kind kind = meta_kind(v);
        const int64_t n = meta_int(v, 0);
        if (kind != META_INT && kind != META_UINT && kind != META_REAL) continue;
        if (rows[i].kind == INT)
            rc = checkpoint_add_u32(view, rows[i].key,
                                    n < 0            ? 0
                                    : n > UINT32_MAX ? UINT32_MAX
                                                     : (uint32_t)n,
                                    e);
        else
            rc = checkpoint_add_f32(view, rows[i].key, (float)meta_real(v, 0), e);
    }
    return rc;
}

/* Copy the texts and numbers of the directory's other files: chat templates, and fields of
 * sentence-transformers' files. GGUF has no keys for the fields of sentence-transformers, and
 * llama.cpp ignores the copies. */
static int copy_general(struct checkpoint *view, const struct checkpoint *c, struct err *e)
{
    static const char st[] = "sentence_transformers.";
    int rc = 0;
    for (int i = 0; i < checkpoint_n_meta(c) && rc == 0; i++) {
        const char *key, *text;
        const struct meta *v = checkpoint_meta_at(c, i, &key);
        size_t n;
        if (strncmp(key, "tokenizer.chat_template", 23) == 0 && (text = meta_text(v, &n)))
            rc = checkpoint_add_text(view, key, text, n, e);
        if (strncmp(key, st, sizeof st - 1) == 0 && !strstr(key, ".dense.") &&
            !text_ends_with(key, ".n_dense") && (text = meta_text(v, &n)))
            rc = checkpoint_add_text(view, key, text, n, e);
        else if (strcmp(key, "sentence_transformers.max_seq_length") == 0 ||
                 strcmp(key, "sentence_transformers.truncate_dim") == 0 ||
                 strcmp(key, "tokenizer.model_max_length") == 0 ||
                 strcmp(key, "sentence_transformers.normalize") == 0)
            rc = checkpoint_add_u32(view, key, (uint32_t)meta_int(v, 0), e);
    }
    return rc;
}

/* Return GGUF's number general.file_type for a type of matrices; -1 if none. */
static int file_type(const struct conversion *g)
{
    struct quant_mix mix;
    struct err ignored;
    const struct tensor_info *t = checkpoint_tensor(g->view, "blk.0.attn_output.weight");
    if (g->type && quant_mix_find(&mix, g->type, false, &ignored) == 0 && mix.file_type >= 0)
        return mix.file_type;
    if (!t) t = checkpoint_tensor(g->view, "token_embd.weight");
    return !t ? -1 : t->type == QT_f32 ? 0 : t->type == QT_f16 ? 1 : t->type == QT_bf16 ? 32 : -1;
}

/* Reject a pooling that GGUF has no number for. */
static int check_pooling(const struct conversion *g, struct err *e)
{
    const char *names = meta_text(checkpoint_meta(g->c, "sentence_transformers.pooling"), NULL);
    if (names)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: pooling_mode: must be mean, cls or lasttoken for GGUF, got \"%s\"",
                       checkpoint_path(g->c), names);
    if (!meta_int(checkpoint_meta(g->c, "sentence_transformers.include_prompt"), 1))
        return err_set(e, ERR_UNSUPPORTED, "%s: include_prompt: must be true for GGUF, got false",
                       checkpoint_path(g->c));
    return 0;
}

int gguf_put_keys(struct conversion *g, struct err *e)
{
    const int allowed = check_pooling(g, e);
    if (allowed != 0) return allowed;

    struct key_writer w = {.view = g->view,
                           .arch = arch_gguf_name(g->m->arch->name),
                           .m = g->m,
                           .arena = &g->m->arena,
                           .e = e};
    const struct arch_convert *own = g->m->arch->convert;
    if (own && own->gguf_name) w.arch = own->gguf_name(g->m);
    w.gguf = model_arch_find(w.arch);
    const char *name = strrchr(checkpoint_dir(g->c), '/');
    name = name && name[1] ? name + 1 : checkpoint_dir(g->c);
    w.rc = checkpoint_add_text(g->view, "general.architecture", w.arch, strlen(w.arch), e);
    if (w.rc == 0) w.rc = checkpoint_add_text(g->view, "general.type", "model", 5, e);
    if (w.rc == 0) w.rc = checkpoint_add_text(g->view, "general.name", name, strlen(name), e);
    put_sizes(&w);
    if (!g->m->arch->no_rope) put_rope(&w, &g->m->config);
    put_mixture(&w, &g->m->config);
    put_own(&w);
    put_declared(&w);
    put_labels(&w);
    put_class_pad(&w);
    if (own && own->put_keys) own->put_keys(&w);
    const int type = w.rc == 0 ? file_type(g) : -1;
    if (w.rc == 0 && type >= 0)
        w.rc = checkpoint_add_u32(g->view, "general.file_type", (uint32_t)type, e);
    if (w.rc == 0) w.rc = checkpoint_add_u32(g->view, "general.quantization_version", 2, e);
    if (w.rc == 0) w.rc = copy_generation(g->view, g->c, e);
    return w.rc ? w.rc : copy_general(g->view, g->c, e);
}
