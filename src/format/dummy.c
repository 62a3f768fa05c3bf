/* dummy.c - models of random weights, as with vLLM's --load-format dummy. These models allow
 * measurements and tests with any shape and number format, without a download.
 *
 *   --shape NAME        dummy_shape.def -> metadata ------+
 *   folder, for a GGUF  config.json     -> metadata ------+-> struct shape -> tensors
 *   folder              metadata unchanged; the caller lists the tensors (dummy_request)
 *   GGUF                metadata and tensor list unchanged
 *
 * The next steps are a type for each tensor (quant_mix.c), the tokenizer (dummy_vocab.c) and the
 * bytes (dummy_data.c). The values of matrices have the normal distribution N(0, 1/k), so that the
 * outputs of a layer are about as large as its inputs. The weights of norms are 1. The rope scaling
 * of a llama 3.1 config becomes the tensor rope_freqs, as in GGUF. */
#include "format_impl.h"

#include "base/text.h"

#include <limits.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sizes of a model, in values, in the order of dummy_shape.def. */
struct shape {
    const char *name, *arch; /* borrowed from the config; static for a named shape */
    int n_layer, d, d_ff, n_head, n_head_kv, d_head, n_vocab;
    bool tied;
    int context;
    /* rope_factor: factor of llama 3.1's scaling; 0: no scaling */
    double rope_base, rope_factor, eps;
    int n_expert, n_expert_used, d_expert; /* sizes of a mixture of experts; 0 if none */
    /* sizes of latent attention; zeros: no latent attention. q_rank: width of compressed q.
     * kv_rank: width of compressed k and v. d_nope, d_rope: number of values of a q or k head
     * without and with rope. d_v: number of values of a v head */
    struct latent_shape {
        int q_rank, kv_rank, d_nope, d_rope, d_v;
    } latent;
    /* number of layers of a decoder after an encoder, and number of buckets of distances */
    int n_decoder, n_bucket;
    /* sizes of Gemma 3n; zeros: none. d_input, n_input: width and rows of the inputs of layers.
     * n_stream: number of residual streams. d_laurel: rank of the learned residual */
    struct stream_shape {
        int d_input, n_input, n_stream, d_laurel;
    } stream;
    /* width of a mixture's block of all rows, number of layers before the first mixture, and
     * distance of layers with a mixture */
    int d_shared, n_dense, step;
    /* sizes of layers with the gated delta rule; n_head 0: none. interval: distance of layers with
     * attention. kinds: names of all layers, borrowed; NULL: by the interval. name: that of a layer
     * with the delta rule, static */
    struct delta_shape {
        int n_head_k, n_head, d_k, d_v, n_tap, interval;
        const char *name;
        const struct meta *kinds;
    } delta;
};

/* context length for a config.json without that field */
enum { CONTEXT_DEFAULT = 2048 };
#define EPSILON_DEFAULT 1e-6
/* epsilon of LayerNorm, because the name of its field depends on the class. Architectures without
 * LayerNorm ignore the key. */
#define LAYER_NORM_EPSILON_DEFAULT 1e-5

static const struct shape shapes[] = {
#define SHAPE(...) {__VA_ARGS__, 0, 0, 0, {0}, 0, 0, {0}, 0, 0, 1, {0}},
#include "dummy_shape.def"
#undef SHAPE
};

/* Pointers are borrowed. */
struct dummy_maker {
    struct checkpoint *c;
    const struct dummy_options *o;
    struct shape shape;
    double rope_low, rope_high, rope_context; /* parameters of llama 3.1's scaling */
    struct quant_mix mix;                     /* valid if `mixed` is true */
    bool window; /* true: all layers of the config's architecture have a sliding window */
    bool mixed;  /* true: a mix or a format replaces the types; false: tensors keep their types */
    struct err *e;
    int rc; /* first failure of config_int; 0 if none */
};

/* ---- a named shape ---- */

static int unknown_shape(const char *name, struct err *e)
{
    char list[400] = "";
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", shapes[i].name);
    }
    return err_set(e, ERR_ARG, "shape \"%.40s\" not found; available: %s", name, list);
}

const char *dummy_shapes(int i)
{
    return i < (int)(sizeof shapes / sizeof shapes[0]) ? shapes[i].name : NULL;
}

/* Set the config to the row of a named shape. All named shapes have the same constants as
 * parameters of llama 3.1's scaling. */
static int find_shape(struct dummy_maker *m)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(shapes[i].name, m->o->shape) == 0) {
            m->shape = shapes[i];
            m->rope_low = 1, m->rope_high = 4, m->rope_context = 8192;
            return 0;
        }
    return unknown_shape(m->o->shape, m->e);
}

/* Add an integer under the key "ARCH.key". */
static int add_u32(struct dummy_maker *m, const char *key, int64_t x)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", m->shape.arch, key);
    return checkpoint_add_u32(m->c, full, (uint32_t)x, m->e);
}

static int add_f32(struct dummy_maker *m, const char *key, double x)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", m->shape.arch, key);
    return checkpoint_add_f32(m->c, full, (float)x, m->e);
}

/* Add the metadata that src/model requires of a GGUF. */
static int shape_meta(struct dummy_maker *m)
{
    const struct shape *s = &m->shape;
    const struct {
        const char *key; /* static */
        int64_t value;
    } whole[] = {
        {"block_count", s->n_layer},         {"context_length", s->context},
        {"embedding_length", s->d},          {"feed_forward_length", s->d_ff},
        {"attention.head_count", s->n_head}, {"attention.head_count_kv", s->n_head_kv},
        {"attention.key_length", s->d_head}, {"attention.value_length", s->d_head},
        {"rope.dimension_count", s->d_head}, {"vocab_size", s->n_vocab},
    };
    char name[80];
    int n = snprintf(name, sizeof name, "%s of random weights", s->name);
    int rc = checkpoint_add_text(m->c, "general.architecture", s->arch, strlen(s->arch), m->e);
    if (rc == 0) rc = checkpoint_add_text(m->c, "general.name", name, (size_t)n, m->e);
    for (size_t i = 0; i < sizeof whole / sizeof whole[0] && rc == 0; i++)
        rc = add_u32(m, whole[i].key, whole[i].value);
    if (rc == 0) rc = add_f32(m, "rope.freq_base", s->rope_base);
    if (rc == 0) rc = add_f32(m, "attention.layer_norm_rms_epsilon", s->eps);
    return rc;
}

/* ---- a folder with a config.json ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Return true if GGUF files of the architecture lack the key that folders have. */
static bool is_lacking(const char *gguf, const char *key)
{
    static const struct {
        const char *gguf, *key; /* static */
    } list[] = {
#define ARCH_LACKS(gguf, key) {#gguf, key},
#include "tensors.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(list[i].gguf, gguf) == 0 && strcmp(list[i].key, key) == 0) return true;
    return false;
}

/* Return the GGUF name of a config key; NULL to skip the key. A window is skipped unless the
 * architecture is mistral, which GGUF labels llama. Token ids are skipped, because the folder's
 * tokenizer is not used. Fields without a GGUF name are skipped, because these fields do not change
 * the amount of work. */
static const char *config_key(const struct dummy_maker *m, const char *arch, const char *key,
                              char *out, size_t n_out)
{
    size_t n = strlen(arch);
    if (begins(key, "tokenizer.ggml.") || begins(key, "config.")) return NULL;
    if (!begins(key, arch) || key[n] != '.') return key;
    if (m->shape.rope_factor > 0 && begins(key + n, ".rope.scaling.")) return NULL;
    if (strcmp(key + n, ".attention.sliding_window") == 0 && !m->window) return NULL;
    if (is_lacking(m->shape.arch, key + n + 1)) return NULL;
    if (strcmp(key + n, ".attention.key_length") == 0 && m->shape.latent.kv_rank > 0) return NULL;
    snprintf(out, n_out, "%s%s", m->shape.arch, key + n);
    return out;
}

/* Return true if readers of GGUF require a float for the key. JSON may have an integer. */
static bool is_float_key(const char *key)
{
    static const char *const end[] = {".rope.freq_base", ".rope.freq_base_swa",
                                      ".rope.scaling.factor", ".expert_weights_scale",
                                      ".logit_scale"};
    for (size_t i = 0; i < sizeof end / sizeof end[0]; i++)
        if (text_ends_with(key, end[i])) return true;
    return false;
}

/* Add a 64-bit number of JSON as a 32-bit number, because readers of GGUF require 32 bits. */
static int add_narrow(struct dummy_maker *m, const char *key, const struct meta *v)
{
    if (strcmp(key, "general.architecture") == 0)
        return checkpoint_add_text(m->c, key, m->shape.arch, strlen(m->shape.arch), m->e);
    if (v->type == VT_F64) return checkpoint_add_f32(m->c, key, (float)meta_real(v, 0), m->e);
    int64_t x = meta_int(v, -1);
    if (v->type == VT_I64 && is_float_key(key))
        return checkpoint_add_f32(m->c, key, (float)x, m->e);
    if (v->type == VT_I64 && x >= 0 && x <= UINT32_MAX)
        return checkpoint_add_u32(m->c, key, (uint32_t)x, m->e);
    return checkpoint_add_meta(m->c, key, v, m->e);
}

/* Return the value of "ARCH.key" for the checkpoint's architecture; NULL if none. */
static const struct meta *arch_meta(const struct checkpoint *c, const char *key)
{
    char full[160];
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    snprintf(full, sizeof full, "%s.%s", arch, key);
    return checkpoint_meta(c, full);
}

/* Return the number v, or the number that all items of the list v have. Return -1 for other
 * values. */
static int64_t equal_ints(const struct meta *v)
{
    if (meta_kind(v) != META_LIST) return meta_int(v, -1);
    const int64_t x = meta_item_int(v, 0, -1);
    for (size_t i = 1; i < meta_count(v); i++)
        if (meta_item_int(v, i, -1) != x) return -1;
    return x;
}

/* Return the size v, in [lo, hi]. Return `fallback` if v is absent or null; fallback -1: the size
 * is required. m->rc keeps the first failure, whose error names `key`. Return 1 after a failure, so
 * that callers may divide by the result. */
static int size_in(struct dummy_maker *m, const struct meta *v, const char *key, int lo, int hi,
                   int64_t fallback)
{
    if (meta_kind(v) == META_NONE) v = NULL;
    const int64_t x = v ? equal_ints(v) : fallback;
    if (m->rc == 0 && (x < lo || x > hi))
        m->rc = err_set(m->e, ERR_FORMAT, "%s: config.json: %s: must be %sin [%d, %d], got %s",
                        m->shape.name, key,
                        meta_kind(v) == META_LIST ? "the same for all layers and " : "", lo, hi,
                        v ? "another value" : "nothing");
    return m->rc == 0 ? (int)x : 1;
}

/* Return the size of a key, in [1, hi], the range that src/model requires (size_in). */
static int config_int(struct dummy_maker *m, const struct checkpoint *config, const char *key,
                      int hi, int64_t fallback)
{
    return size_in(m, arch_meta(config, key), key, 1, hi, fallback);
}

/* Return the size of a field without a row in hf_keys.def, in [lo, hi]. Return 0 if the field is
 * absent or null. */
static int field_int(struct dummy_maker *m, const struct checkpoint *config, const char *field,
                     int lo, int hi)
{
    char key[96];
    snprintf(key, sizeof key, "config.%s", field);
    const struct meta *v = checkpoint_meta(config, key);
    return meta_kind(v) == META_NONE ? 0 : size_in(m, v, field, lo, hi, -1);
}

static void read_rope_scaling(struct dummy_maker *m, const struct checkpoint *config)
{
    const char *type = meta_text(arch_meta(config, "rope.scaling.type"), NULL);
    if (!type || strcmp(type, "llama3") != 0) return;
    m->shape.rope_factor = meta_real(arch_meta(config, "rope.scaling.factor"), 0);
    m->rope_low = meta_real(arch_meta(config, "rope.scaling.low_freq_factor"), 1);
    m->rope_high = meta_real(arch_meta(config, "rope.scaling.high_freq_factor"), 4);
    m->rope_context = meta_real(arch_meta(config, "rope.scaling.original_context_length"), 8192);
}

/* Read the sizes of latent attention, if the config has any. Each q or k head has a part without
 * rope and a part with rope. The width of a head is the sum of both widths. */
static void read_latent(struct dummy_maker *m, const struct checkpoint *config)
{
    struct shape *s = &m->shape;
    if (!arch_meta(config, "attention.kv_lora_rank")) return;
    s->latent = (struct latent_shape){
        .q_rank = config_int(m, config, "attention.q_lora_rank", D_HEAD_MAX, -1),
        .kv_rank = config_int(m, config, "attention.kv_lora_rank", D_HEAD_MAX, -1),
        .d_nope = size_in(m, checkpoint_meta(config, "config.qk_nope_head_dim"), "qk_nope_head_dim",
                          1, D_HEAD_MAX, -1),
        .d_rope = config_int(m, config, "rope.dimension_count", D_HEAD_MAX, -1),
        .d_v = config_int(m, config, "attention.value_length", D_HEAD_MAX, s->d / s->n_head)};
    s->d_head = s->latent.d_nope + s->latent.d_rope;
}

/* Read the sizes of residual streams and of inputs of layers, if the config has any. */
static void read_streams(struct dummy_maker *m, const struct checkpoint *config)
{
    m->shape.stream = (struct stream_shape){
        .d_input = field_int(m, config, "hidden_size_per_layer_input", 0, WIDTH_MAX),
        .n_input = field_int(m, config, "vocab_size_per_layer_input", 0, 1 << 24),
        .n_stream = field_int(m, config, "altup_num_inputs", 1, STREAMS_MAX),
        .d_laurel = field_int(m, config, "laurel_rank", 1, WIDTH_MAX)};
}

/* Return an integer in [0, hi]; `otherwise` if it is absent or another value. The result changes
 * only which layers have a mixture and its widths. */
static int optional_int(const struct checkpoint *c, const char *key, int hi, int otherwise)
{
    const int64_t x = meta_int(arch_meta(c, key), otherwise);
    return x >= 0 && x <= hi ? (int)x : otherwise;
}

/* Return the width of the block of all rows if no field has it. */
static int shared_width(const struct shape *s)
{
    static const char *const names[] = {
#define ARCH_SHARED(gguf) #gguf,
#include "tensors.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], s->arch) == 0) return s->d_expert;
    return 0;
}

/* Read the sizes of mixtures. Without a width of the experts, they have the width of the
 * feed-forward block. */
static void read_mixture(struct dummy_maker *m, const struct checkpoint *config)
{
    struct shape *s = &m->shape;
    s->step = 1;
    if (!arch_meta(config, "expert_count")) return;
    s->n_expert = config_int(m, config, "expert_count", EXPERTS_MAX, -1);
    s->n_expert_used = config_int(m, config, "expert_used_count", s->n_expert, -1);
    s->d_expert = config_int(m, config, "expert_feed_forward_length", D_FF_MAX, s->d_ff);
    const int n_shared = optional_int(config, "expert_shared_count", D_FF_MAX / s->d_expert, 0);
    s->d_shared =
        optional_int(config, "expert_shared_feed_forward_length", D_FF_MAX, n_shared * s->d_expert);
    if (s->d_shared == 0) s->d_shared = shared_width(s);
    s->n_dense = optional_int(config, "leading_dense_block_count", LAYERS_MAX, 0);
    s->step = optional_int(config, "interleave_moe_layer_step", LAYERS_MAX, 1);
    if (s->step == 0) s->step = 1;
}

enum { FULL = 1, RECURRENT, MIXED };

/* Return the kind of layers that have an OTHER tensor; 0 if models of random weights omit it. */
static int kind_of(const char *arch, const char *name)
{
    static const struct {
        const char *arch, *name; /* static */
        int kind;
    } list[] = {
#define ARCH_KIND(gguf, kind, name) {#gguf, name, kind},
#include "tensors.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(list[i].arch, arch) == 0 && strcmp(list[i].name, name) == 0) return list[i].kind;
    return 0;
}

/* Return the name of recurrent layers in layer_types, static; NULL if models of random weights have
 * none. */
static const char *recurrent_name(const char *arch)
{
    static const struct {
        const char *arch, *name; /* static */
    } list[] = {
#define ARCH_RECURRENT(gguf, name) {#gguf, name},
#include "tensors.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(list[i].arch, arch) == 0) return list[i].name;
    return NULL;
}

/* Return true if layer il has a recurrence in place of attention. */
static bool is_recurrent(const struct delta_shape *s, int il)
{
    size_t n = 0;
    if (!s->kinds) return (il + 1) % s->interval != 0;
    const char *text = meta_item_text(s->kinds, (size_t)il, &n);
    return text && n == strlen(s->name) && memcmp(text, s->name, n) == 0;
}

/* Read the sizes of layers with the gated delta rule, with the defaults of Qwen3-Next. A GGUF has
 * no key for layers without a mixture. */
static void read_delta(struct dummy_maker *m, const struct checkpoint *config)
{
    static const char heads[] = "ssm.time_step_rank";
    struct shape *s = &m->shape;
    const char *name = recurrent_name(s->arch);
    if (!name) return;
    const struct meta *kinds = checkpoint_meta(config, "config.layer_types"),
                      *dense = checkpoint_meta(config, "config.mlp_only_layers");
    const int d_v = field_int(m, config, "linear_value_head_dim", 1, D_HEAD_MAX);
    s->delta = (struct delta_shape){
        .n_head_k = config_int(m, config, "ssm.group_count", HEADS_MAX, 16),
        .n_head = config_int(m, config, heads, HEADS_MAX, 32),
        .d_k = config_int(m, config, "ssm.state_size", D_HEAD_MAX, 128),
        .d_v = d_v > 0 ? d_v : 128,
        .n_tap = config_int(m, config, "ssm.conv_kernel", WIDTH_MAX, 4),
        .interval = config_int(m, config, "full_attention_interval", LAYERS_MAX, 4),
        .name = name,
        .kinds = meta_item_kind(kinds) == META_TEXT && meta_count(kinds) == (size_t)s->n_layer
                     ? kinds
                     : NULL};
    if (m->rc == 0 && meta_kind(kinds) != META_NONE && !s->delta.kinds)
        m->rc =
            err_set(m->e, ERR_FORMAT, "%s: config.json: layer_types: must be a list of %d names",
                    s->name, s->n_layer);
    if (m->rc == 0 &&
        (meta_count(dense) > 0 || field_int(m, config, "decoder_sparse_step", 0, LAYERS_MAX) > 1))
        m->rc = err_set(m->e, ERR_UNSUPPORTED,
                        "%s: config.json: mlp_only_layers and decoder_sparse_step: random weights "
                        "of layers without a mixture are not supported yet",
                        s->name);
}

/* Read the shape from the metadata of a config.json. The architecture's name changes to that of
 * GGUF. */
static int read_config(struct dummy_maker *m, const struct checkpoint *config)
{
    struct shape *s = &m->shape;
    s->name = config->path;
    s->arch = meta_text(checkpoint_meta(config, "general.architecture"), NULL);
    const char *gguf = arch_gguf_name(s->arch);
    m->window = strcmp(s->arch, gguf) != 0 || arch_gguf_window(gguf);
    s->arch = gguf;
    s->n_layer = config_int(m, config, "block_count", LAYERS_MAX, -1);
    s->d = config_int(m, config, "embedding_length", WIDTH_MAX, -1);
    /* the feed-forward block has the width 4 d in classes without the field */
    s->d_ff = config_int(m, config, "feed_forward_length", D_FF_MAX, 4 * (int64_t)s->d);
    s->n_head = config_int(m, config, "attention.head_count", HEADS_MAX, -1);
    s->n_vocab = config_int(m, config, "vocab_size", 1 << 24, -1);
    s->n_head_kv = config_int(m, config, "attention.head_count_kv", s->n_head, s->n_head);
    s->d_head = config_int(m, config, "attention.key_length", D_HEAD_MAX, s->d / s->n_head);
    read_mixture(m, config);
    read_latent(m, config);
    read_streams(m, config);
    read_delta(m, config);
    s->n_decoder = config_int(m, config, "decoder_block_count", LAYERS_MAX, s->n_layer);
    s->n_bucket = config_int(m, config, "attention.relative_buckets_count", 65536, 32);
    s->rope_base = meta_real(arch_meta(config, "rope.freq_base"), 1e4);
    s->tied = meta_bool(checkpoint_meta(config, "config.tie_word_embeddings"), false);
    s->context = config_int(m, config, "context_length", INT_MAX, CONTEXT_DEFAULT);
    read_rope_scaling(m, config);
    return m->rc;
}

/* Add the metadata that GGUF files of the architecture require and that config.json lacks. */
static int add_required(struct dummy_maker *m)
{
    static const struct {
        const char *arch, *key; /* static */
        double value;           /* value of the key; NAN: the boolean false */
    } list[] = {
#define ARCH_REAL(gguf, key, value) {#gguf, key, value},
#define ARCH_FALSE(gguf, key)       {#gguf, key, NAN},
#include "tensors.def"
    };
    static const struct meta no = {.type = VT_BOOL, .data = ""};
    int rc = 0;
    for (size_t i = 0; i < sizeof list / sizeof list[0] && rc == 0; i++) {
        char full[160];
        if (strcmp(list[i].arch, m->shape.arch) != 0) continue;
        snprintf(full, sizeof full, "%s.%s", m->shape.arch, list[i].key);
        rc = isnan(list[i].value) ? checkpoint_add_meta(m->c, full, &no, m->e)
                                  : checkpoint_add_f32(m->c, full, (float)list[i].value, m->e);
    }
    return rc;
}

/* Add the fields that the GGUF files of the architecture have under keys of their own. */
static int add_copies(struct dummy_maker *m, const struct checkpoint *config)
{
    static const struct {
        const char *arch, *field, *key; /* static */
    } list[] = {
#define ARCH_COPY(gguf, field, key) {#gguf, "config." field, key},
#include "tensors.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0] && m->rc == 0; i++) {
        const struct meta *v = checkpoint_meta(config, list[i].field);
        if (strcmp(list[i].arch, m->shape.arch) != 0 || meta_kind(v) == META_NONE) continue;
        const int x = size_in(m, v, list[i].field, 0, INT_MAX, -1);
        if (m->rc == 0) m->rc = add_u32(m, list[i].key, x);
    }
    return m->rc;
}

/* Add the width of experts, if folders of the architecture have it as that of feed-forward
 * blocks. */
static int add_expert_width(struct dummy_maker *m, const struct checkpoint *config)
{
    static const char key[] = "expert_feed_forward_length";
    static const char *const list[] = {
#define ARCH_EXPERT_WIDTH(gguf) #gguf,
#include "tensors.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(list[i], m->shape.arch) == 0 && meta_kind(arch_meta(config, key)) == META_NONE)
            return add_u32(m, key, m->shape.d_expert);
    return 0;
}

/* Add the list of layers with a window, if the architecture's GGUF files have one. */
static int add_windows(struct dummy_maker *m, const struct checkpoint *config)
{
    static const char *const list[] = {
#define ARCH_LAYER_TYPES(gguf) #gguf,
#include "tensors.def"
    };
    static const char sliding[] = "sliding_attention";
    const struct meta *v = checkpoint_meta(config, "config.layer_types");
    const size_t n = meta_item_kind(v) == META_TEXT ? meta_count(v) : 0;
    char key[160];
    for (size_t i = 0; i < sizeof list / sizeof list[0] && n > 0; i++) {
        if (strcmp(list[i], m->shape.arch) != 0) continue;
        uint8_t *slides = arena_push0(&m->c->arena, n, 1);
        if (!slides) return err_memory(m->e, "layer_types", n);
        for (size_t k = 0; k < n; k++) {
            size_t n_text = 0;
            const char *type = meta_item_text(v, k, &n_text);
            slides[k] = n_text == strlen(sliding) && memcmp(type, sliding, n_text) == 0;
        }
        const struct meta own = {.type = VT_LIST, .item = VT_BOOL, .data = slides, .n = n};
        snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", m->shape.arch);
        return checkpoint_add_meta(m->c, key, &own, m->e);
    }
    return 0;
}

/* Add the keys of layers with the gated delta rule that the config lacks: defaults, the width of
 * all heads, and a list of the layers' kinds. */
static int add_delta(struct dummy_maker *m, const struct checkpoint *config)
{
    const struct delta_shape *s = &m->shape.delta;
    const struct {
        const char *key; /* static */
        int value;
    } sizes[] = {{"ssm.conv_kernel", s->n_tap},
                 {"ssm.state_size", s->d_k},
                 {"ssm.group_count", s->n_head_k},
                 {"ssm.time_step_rank", s->n_head}};
    char key[160];
    int rc = s->n_head > 0 ? add_u32(m, "ssm.inner_size", (int64_t)s->n_head * s->d_v) : 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && s->n_head > 0 && rc == 0; i++)
        if (meta_kind(arch_meta(config, sizes[i].key)) == META_NONE)
            rc = add_u32(m, sizes[i].key, sizes[i].value);
    if (rc != 0 || !s->kinds) return rc;
    uint8_t *flag = arena_push0(&m->c->arena, (size_t)m->shape.n_layer, 1);
    if (!flag) return err_memory(m->e, "layer_types", (unsigned long long)m->shape.n_layer);
    for (int i = 0; i < m->shape.n_layer; i++) flag[i] = is_recurrent(s, i);
    const struct meta own = {
        .type = VT_LIST, .item = VT_BOOL, .data = flag, .n = (size_t)m->shape.n_layer};
    snprintf(key, sizeof key, "%s.attention.recurrent_layers", m->shape.arch);
    return checkpoint_add_meta(m->c, key, &own, m->e);
}

/* Copy the metadata under the names of GGUF, and add the values that GGUF requires. */
static int take_config(struct dummy_maker *m, struct checkpoint *config)
{
    int rc = read_config(m, config);
    const char *arch = meta_text(checkpoint_meta(config, "general.architecture"), NULL);
    for (size_t i = 0; i < config->meta.n && rc == 0; i++) {
        char own[300];
        const struct meta *v = &config->meta.v[i].value;
        const char *key = config_key(m, arch, config->meta.v[i].key, own, sizeof own);
        /* a list of widths has one value, which is added below */
        if (v == arch_meta(config, "feed_forward_length") && meta_kind(v) == META_LIST) continue;
        if (key && v->type < VT_GGUF_COUNT) rc = add_narrow(m, key, v);
    }
    if (rc == 0 && meta_kind(arch_meta(config, "context_length")) == META_NONE)
        rc = add_u32(m, "context_length", m->shape.context);
    if (rc == 0) rc = add_copies(m, config);
    if (rc == 0) rc = add_expert_width(m, config);
    if (rc == 0) rc = add_windows(m, config);
    if (rc == 0) rc = add_delta(m, config);
    if (rc == 0 && meta_kind(arch_meta(config, "feed_forward_length")) != META_INT)
        rc = add_u32(m, "feed_forward_length", m->shape.d_ff);
    if (rc == 0 && meta_kind(arch_meta(config, "attention.layer_norm_rms_epsilon")) == META_NONE)
        rc = add_f32(m, "attention.layer_norm_rms_epsilon", EPSILON_DEFAULT);
    if (rc == 0) rc = add_f32(m, "attention.layer_norm_epsilon", LAYER_NORM_EPSILON_DEFAULT);
    if (rc == 0 && m->shape.latent.kv_rank > 0)
        rc = add_u32(m, "attention.key_length", m->shape.d_head);
    return rc ? rc : add_required(m);
}

/* ---- tensors ---- */

/* Return mean and deviation of a tensor's values. The values of norms and rope factors are 1,
 * biases are small, and matrices have the variance 1 / k. */
static struct dummy_fill fill_of(const struct tensor_info *t)
{
    bool is_norm = text_ends_with(t->name, "norm.weight");
    if (is_norm || begins(t->name, "rope_")) return (struct dummy_fill){.mean = 1};
    /* decays are negative, so that states stay finite */
    if (text_ends_with(t->name, ".ssm_a")) return (struct dummy_fill){.mean = -1};
    if (t->n_dim == 1) return (struct dummy_fill){.sd = 0.02f};
    return (struct dummy_fill){.sd = 1 / sqrtf((float)t->dim[0])};
}

/* Add a tensor with the type of the mix. t->data remains NULL if the bytes are random. */
static int add_tensor(struct dummy_maker *m, struct tensor_info *t,
                      const struct quant_mix_site *about)
{
    struct quant_mix_site site = *about;
    site.name = t->name, site.type = t->type, site.n_dim = t->n_dim, site.k = t->dim[0];
    if (m->mixed) t->type = quant_mix_type(&m->mix, &site);
    if (!tensor_set_bytes(t))
        return err_set(m->e, ERR_LIMIT, "%s: tensor %s is too large", m->c->path, t->name);
    int rc = checkpoint_add_tensor(m->c, t, m->e);
    return rc ? rc : dummy_add(m->c, fill_of(t), m->e);
}

/* Return a size of tensors.def, in values. */
static int64_t size_of(const struct shape *s, enum tensor_size size)
{
    /* 0: a size of an architecture without models of random weights */
    const int64_t n[SIZE_COUNT] = {
        [SIZE_ONE] = 1,
        [SIZE_D] = s->d,
        [SIZE_D_EMBD] = s->d,
        [SIZE_D_FF] = s->d_ff,
        [SIZE_D_FF_2] = 2 * (int64_t)s->d_ff,
        [SIZE_D_HEAD] = s->d_head,
        [SIZE_D_Q] = (int64_t)s->n_head * s->d_head,
        [SIZE_D_KV] = (int64_t)s->n_head_kv * s->d_head,
        [SIZE_D_QKV] = (int64_t)(s->n_head + 2 * s->n_head_kv) * s->d_head,
        [SIZE_N_VOCAB] = s->n_vocab,
        [SIZE_N_POSITION] = s->context,
        [SIZE_N_SEGMENT] = 2,
        [SIZE_N_LABEL] = 1,
        [SIZE_N_EXPERT] = s->n_expert,
        [SIZE_D_EXPERT] = s->d_expert,
        [SIZE_D_EXPERT_2] = 2 * (int64_t)s->d_expert,
        [SIZE_D_SHARED] = s->d_shared,
        [SIZE_D_SHARED_2] = 2 * (int64_t)s->d_shared,
        [SIZE_N_STREAM] = s->stream.n_stream,
        [SIZE_N_STREAM_1] = s->stream.n_stream - 1,
        [SIZE_N_STREAM_2] = (int64_t)s->stream.n_stream * s->stream.n_stream,
        [SIZE_D_LAUREL] = s->stream.d_laurel,
        [SIZE_N_INPUT] = s->stream.n_input,
        [SIZE_D_INPUT] = s->stream.d_input,
        [SIZE_D_INPUTS] = (int64_t)s->n_layer * s->stream.d_input,
        [SIZE_Q_RANK] = s->latent.q_rank,
        [SIZE_KV_RANK] = s->latent.kv_rank,
        [SIZE_KV_A] = s->latent.kv_rank + s->latent.d_rope,
        [SIZE_KV_B] = (int64_t)s->n_head * (s->latent.d_nope + s->latent.d_v),
        [SIZE_D_V] = (int64_t)s->n_head * s->latent.d_v,
        [SIZE_N_HEAD] = s->n_head,
        [SIZE_N_BUCKET] = s->n_bucket,
        [SIZE_D_Q_2] = 2 * (int64_t)s->n_head * s->d_head,
        [SIZE_D_CONV] =
            2 * (int64_t)s->delta.n_head_k * s->delta.d_k + (int64_t)s->delta.n_head * s->delta.d_v,
        [SIZE_N_TAP] = s->delta.n_tap,
        [SIZE_D_INNER] = (int64_t)s->delta.n_head * s->delta.d_v,
        [SIZE_D_HEAD_STATE] = s->delta.d_v,
        [SIZE_N_HEAD_STATE] = s->delta.n_head,
        [SIZE_N_HEAD_STATE_2] = 2 * (int64_t)s->delta.n_head,
    };
    return n[size];
}

/* Return the ending of the GGUF name of a row's tensor. llama.cpp has some parameters of recurrent
 * layers without ".weight". */
static const char *ending(const char *arch, const struct tensor_row *row)
{
    static const struct {
        const char *arch, *name, *end; /* static */
    } list[] = {
#define ARCH_END(gguf, name, end) {#gguf, name, end},
#include "tensors.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(list[i].arch, arch) == 0 && strcmp(list[i].name, row->name) == 0)
            return list[i].end;
    return row->bias ? ".bias" : ".weight";
}

/* Add a row of the architecture's table. Vectors, biases and weights of convolutions are F32.
 * Matrices are BF16 unless the mix has another type. */
static int add_row(struct dummy_maker *m, const struct tensor_row *row, int il)
{
    const struct shape *s = &m->shape;
    char stem[64], name[80];
    /* the name is from tensors.def and has at most one %d */
    snprintf(stem, sizeof stem, row->name, il);
    snprintf(name, sizeof name, "%s%s", stem, ending(s->arch, row));
    const bool vector = row->n_out == SIZE_ONE, parts = row->n_part != SIZE_ONE;
    struct tensor_info t = {
        .name = name,
        .name_raw = name,
        .type = vector || row->bias || row->k == SIZE_N_TAP ? QT_f32 : QT_bf16,
        .n_dim = vector  ? 1
                 : parts ? 3
                         : 2,
        .dim = {size_of(s, row->k), size_of(s, row->n_out), size_of(s, row->n_part), 1}};
    for (int i = 0; i < t.n_dim; i++)
        if (t.dim[i] < 1)
            return err_set(m->e, ERR_FORMAT, "%s: config.json: the sizes of tensor %s are missing",
                           m->c->path, name);
    struct quant_mix_site about = {
        .n_layer = s->n_layer, .n_group = s->n_head / s->n_head_kv, .tied = s->tied};
    return add_tensor(m, &t, &about);
}

/* Return llama 3.1's divisor of a rotary frequency. The divisor is the factor for long waves and 1
 * for short waves. A ramp connects the two ranges. */
static float rope_divisor(const struct dummy_maker *m, int i)
{
    double wave = 2 * M_PI * pow(m->shape.rope_base, 2.0 * i / m->shape.d_head),
           n_rotation = m->rope_context / wave, factor = m->shape.rope_factor;
    if (n_rotation > m->rope_high) return 1;
    if (n_rotation < m->rope_low) return (float)factor;
    double smooth = (n_rotation - m->rope_low) / (m->rope_high - m->rope_low);
    return (float)(1 / ((1 - smooth) / factor + smooth));
}

static int add_rope_freqs(struct dummy_maker *m)
{
    int n = m->shape.d_head / 2;
    float *v = arena_push(&m->c->arena, (size_t)n * sizeof *v, 64);
    if (!v) return err_memory(m->e, "rope_freqs", (unsigned long long)n * sizeof *v);
    for (int i = 0; i < n; i++) v[i] = rope_divisor(m, i);
    struct tensor_info t = {.name = "rope_freqs.weight",
                            .name_raw = "rope_freqs.weight",
                            .type = QT_f32,
                            .n_dim = 1,
                            .dim = {n, 1, 1, 1},
                            .data = (const uint8_t *)v};
    return add_tensor(m, &t, &(struct quant_mix_site){0});
}

static bool of_layer(const struct tensor_row *row)
{
    return strchr(row->name, '%') != NULL;
}

/* Return true for a tensor of a mixture. */
static bool of_mixture(const struct tensor_row *row)
{
    return row->n_part == SIZE_N_EXPERT || row->n_out == SIZE_N_EXPERT ||
           row->n_out == SIZE_D_SHARED || row->k == SIZE_N_EXPERT || row->k == SIZE_D_SHARED ||
           strstr(row->name, "_shexp");
}

/* Return true for a tensor of a feed-forward block. */
static bool of_ffn(const struct tensor_row *row)
{
    return row->n_out == SIZE_D_FF || row->n_out == SIZE_D_FF_2 || row->k == SIZE_D_FF;
}

/* Return true if layer il has the tensor. A layer of a table with mixtures has either a mixture or
 * a feed-forward block. mixes: the table has mixtures. */
static bool in_layer(const struct shape *s, const struct tensor_row *row, int il, bool mixes)
{
    const int kind = row->some ? kind_of(s->arch, row->name) : 0;
    if (kind != 0) return kind == MIXED || is_recurrent(&s->delta, il) == (kind == RECURRENT);
    const bool mixed = s->n_expert > 0 && il >= s->n_dense && (il + 1) % s->step == 0;
    if (mixes && of_mixture(row))
        return mixed && !row->some && (s->d_shared > 0 || !strstr(row->name, "_shexp"));
    return mixes && of_ffn(row) ? !mixed : !row->some;
}

/* Add the rows of the table in this order: rows before the layers, rows of each layer, rows after
 * the layers. */
static int add_tensors(struct dummy_maker *m)
{
    int rc = 0, n, i = 0;
    const struct tensor_row *row = tensor_rows(m->shape.arch, &n);
    if (!row)
        return err_set(m->e, ERR_UNSUPPORTED, "%s: architecture \"%.60s\": not supported yet",
                       m->c->path, m->shape.arch);
    for (; i < n && !of_layer(&row[i]) && rc == 0; i++)
        if (!row[i].some) rc = add_row(m, &row[i], 0);
    if (rc == 0 && m->shape.rope_factor > 0) rc = add_rope_freqs(m);
    const int first = i;
    while (i < n && of_layer(&row[i])) i++;
    const int n_layer = m->shape.n_layer, n_decoder = m->shape.n_decoder;
    bool mixes = false;
    for (int k = first; k < i; k++) mixes |= row[k].n_part == SIZE_N_EXPERT && !row[k].some;
    for (int il = 0; il < n_layer || il < n_decoder; il++)
        for (int k = first; k < i && rc == 0; k++) {
            const int n_own = begins(row[k].name, "dec.") ? n_decoder : n_layer;
            if (il < n_own && in_layer(&m->shape, &row[k], il, mixes)) rc = add_row(m, &row[k], il);
        }
    bool generates = false;
    for (; i < n && rc == 0; i++) {
        const bool is_head = strcmp(row[i].name, "output") == 0;
        generates |= is_head;
        if (is_head && m->shape.tied) continue;
        /* a decoder with a classifier (score) has no head of tokens */
        if (row[i].some && (generates || !begins(row[i].name, "cls"))) continue;
        rc = add_row(m, &row[i], 0);
    }
    return rc;
}

/* ---- a GGUF ---- */

/* Copy the metadata. The general.file_type of the file is skipped if a mix is given. */
static int take_gguf_meta(struct dummy_maker *m, const struct checkpoint *g)
{
    int rc = 0;
    for (size_t i = 0; i < g->meta.n && rc == 0; i++) {
        const char *key = g->meta.v[i].key;
        bool own_type = m->mixed && strcmp(key, "general.file_type") == 0;
        if (!own_type) rc = checkpoint_add_meta(m->c, key, &g->meta.v[i].value, m->e);
    }
    return rc;
}

/* Set the number of tokens to the rows of the embedding. */
static void find_vocab(struct dummy_maker *m)
{
    const struct tensor_info *embd = checkpoint_tensor(m->c, "token_embd.weight");
    m->shape.n_vocab = embd && embd->dim[1] <= INT_MAX ? (int)embd->dim[1] : 1;
}

/* Copy metadata and tensor list. Rope tables keep their data. All other tensors become random. */
static int take_gguf(struct dummy_maker *m, const struct checkpoint *g)
{
    if (g->kind != CKPT_GGUF || g->tensor.n == 0)
        return err_set(m->e, ERR_UNSUPPORTED,
                       "%s: the shape of a random model comes from a GGUF or from a folder with a "
                       "config.json",
                       g->path);
    if (!checkpoint_meta(g, "general.architecture"))
        return err_set(m->e, ERR_MISSING, "%s: metadata general.architecture is missing", g->path);
    int rc = take_gguf_meta(m, g);
    int64_t n_head = meta_int(arch_meta(g, "attention.head_count"), 1),
            n_kv = meta_int(arch_meta(g, "attention.head_count_kv"), n_head);
    struct quant_mix_site about = {
        .n_layer = (int)meta_int(arch_meta(g, "block_count"), 1),
        .n_group = n_kv > 0 ? (int)(n_head / n_kv) : 1,
        .tied = checkpoint_tensor(g, "output.weight") == NULL,
    };
    for (size_t i = 0; i < g->tensor.n && rc == 0; i++) {
        struct tensor_info t = g->tensor.v[i];
        /* tensors with the prefix rope_ are tables, not weights */
        if (!begins(t.name, "rope_")) t.data = NULL;
        t.file = 0;
        rc = add_tensor(m, &t, &about);
    }
    find_vocab(m);
    return rc;
}

/* ---- opening ---- */

/* Add the file type of the mix, and a tokenizer if the source has none. */
static int add_ends(struct dummy_maker *m)
{
    int rc = 0, file_type = m->mixed ? m->mix.file_type : -1;
    if (file_type >= 0)
        rc = checkpoint_add_u32(m->c, "general.file_type", (uint32_t)file_type, m->e);
    if (rc == 0 && !checkpoint_meta(m->c, "general.quantization_version"))
        rc = checkpoint_add_u32(m->c, "general.quantization_version", 2, m->e);
    if (rc == 0 && !checkpoint_meta(m->c, "tokenizer.ggml.model"))
        rc = dummy_vocab(m->c, m->shape.n_vocab, m->e);
    return rc;
}

static int fill_named(struct dummy_maker *m)
{
    int rc = find_shape(m);
    if (rc == 0) rc = shape_meta(m);
    return rc ? rc : add_tensors(m);
}

/* Check the sizes, because random bytes of an absent size are no model. */
static int check_sizes(const struct dummy_maker *m, const struct tensor_info *t)
{
    for (int i = 0; i < t->n_dim; i++)
        if (t->dim[i] < 1)
            return err_set(m->e, ERR_UNSUPPORTED,
                           "%s: random weights: the sizes of tensor %s are missing", m->c->path,
                           t->name);
    return 0;
}

int dummy_request(struct dummy_maker *m, const struct quant_mix_site *site, const int64_t *dim)
{
    static const uint8_t unreadable[1];
    const bool mixed = m->mixed;
    struct tensor_info t = {.name = site->name,
                            .name_raw = site->name,
                            .type = site->type,
                            .n_dim = site->n_dim,
                            .dim = {1, 1, 1, 1}};
    memcpy(t.dim, dim, (size_t)t.n_dim * sizeof *dim);
    int rc = check_sizes(m, &t);
    if (rc == 0 && m->c->tensor.n >= DUMMY_TENSORS_MAX)
        rc = err_set(m->e, ERR_LIMIT, "%s: random weights: more than %d tensors", m->c->path,
                     DUMMY_TENSORS_MAX);
    m->mixed = mixed && t.type != QT_f32;
    if (rc == 0) rc = add_tensor(m, &t, site);
    m->mixed = mixed;
    if (rc != 0) return rc;
    struct tensor_info *own = &m->c->tensor.v[m->c->tensor.n - 1];
    own->data = own->type == QT_f32 ? arena_push0(&m->c->arena, own->n_byte, 1) : unreadable;
    return own->data ? 0 : err_memory(m->e, own->name, own->n_byte);
}

/* Read a folder's config.json, and let the caller list the tensors. The list has its maximum size
 * from the beginning, so that tensors keep their addresses. */
static int fill_listed(struct dummy_maker *m)
{
    struct checkpoint *c = m->c;
    c->kind = CKPT_HF;
    int rc = hf_load_config(c, c->path, m->e);
    for (size_t i = 0; i < c->tensor.n && rc == 0; i++)
        rc = dummy_add(c, (struct dummy_fill){0}, m->e);
    if (rc == 0 && !vec_reserve(&c->tensor, DUMMY_TENSORS_MAX))
        rc = err_memory(m->e, "the tensor list", DUMMY_TENSORS_MAX * sizeof *c->tensor.v);
    if (rc == 0) rc = m->o->tensors(m->o->tensors_ctx, m, c, m->e);
    if (rc != 0) return rc;
    dummy_clear(c);
    find_vocab(m);
    return 0;
}

/* Read the shape from a folder's config.json. The config's checkpoint stays open, because the
 * copied metadata point into that checkpoint. */
static int fill_from_folder(struct dummy_maker *m)
{
    struct checkpoint *config;
    int rc = checkpoint_begin(&config, m->o->model, m->e);
    if (config) dummy_keep(m->c, config);
    if (rc == 0) rc = hf_config_load(config, config->path, m->e);
    if (rc == 0) rc = take_config(m, config);
    return rc ? rc : add_tensors(m);
}

static int fill_from_gguf(struct dummy_maker *m)
{
    struct checkpoint *g;
    int rc = checkpoint_open_header(&g, m->o->model, m->e);
    if (rc != 0) return rc;
    dummy_keep(m->c, g);
    return take_gguf(m, g);
}

static int make_tensors(struct dummy_maker *m)
{
    if (m->o->shape) return fill_named(m);
    if (!dir_exists(m->o->model)) return fill_from_gguf(m);
    return m->o->tensors ? fill_listed(m) : fill_from_folder(m);
}

int checkpoint_open_dummy(struct checkpoint **out, const struct dummy_options *o, struct err *e)
{
    struct dummy_maker m = {.o = o, .e = e, .mixed = o->quant != NULL};
    int rc = checkpoint_begin(&m.c, o->shape ? o->shape : o->model, e);
    if (rc == 0) rc = dummy_open(m.c, o->seed, e);
    if (rc == 0 && m.mixed) rc = quant_mix_find(&m.mix, o->quant, o->pure, e);
    if (rc == 0) m.c->kind = CKPT_GGUF;
    if (rc == 0) rc = make_tensors(&m);
    if (rc == 0) rc = add_ends(&m);
    if (rc == 0) rc = dummy_finish(m.c, o->no_data, e);
    *out = rc == 0 ? m.c : NULL;
    if (rc != 0) checkpoint_close(m.c);
    return rc;
}
