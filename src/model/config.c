/* config.c - metadata -> struct config: the keys that decoders share, rope and its scaling,
 * windows.
 *
 * Every value has a range. An absent value has the default of its architecture's class (arch/).
 * Each key of a mechanism is read, whatever the values of all other keys are, because keys.c
 * rejects unread keys. */
#include "model_impl.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool config_is_hf(const struct binder *b)
{
    return checkpoint_kind(b->checkpoint) == CKPT_HF;
}

/* Lengths are compared, because texts of files may contain NULs. */
bool config_is_text(const struct meta *m, const char *text)
{
    size_t n;
    const char *t = meta_text(m, &n);
    return t && n == strlen(text) && memcmp(t, text, n) == 0;
}

bool config_item_is(const struct meta *m, size_t i, const char *text)
{
    size_t n = 0;
    const char *t = meta_item_text(m, i, &n);
    return t && n == strlen(text) && memcmp(t, text, n) == 0;
}

/* ---- rope ---- */

/* Return true if the parameters of rope have the form of a config.json. The caller's parameters
 * have this form, also for a GGUF. */
static bool rope_is_hf(const struct binder *b)
{
    return config_is_hf(b) || checkpoint_rope_given(b->checkpoint);
}

/* Return the advice for a missing parameter of --rope-scaling; "" if another place has the scaling.
 * Only the factor has a flag of its own, and llama3 needs further parameters. */
static const char *rope_advice(const struct binder *b, enum rope_scaling scaling)
{
    const char *flag = checkpoint_rope_given(b->checkpoint);
    if (!flag || strcmp(flag, "--rope-scaling") != 0) return "";
    if (scaling == ROPE_LLAMA3)
        return "; give a JSON object, for example {\"rope_type\":\"llama3\",\"factor\":8,"
               "\"low_freq_factor\":1,\"high_freq_factor\":4,"
               "\"original_max_position_embeddings\":8192}";
    if (scaling == ROPE_LONG)
        return "; give a JSON object, for example {\"rope_type\":\"longrope\",\"factor\":4,"
               "\"original_max_position_embeddings\":4096,\"short_factor\":[1,1.1,...],"
               "\"long_factor\":[1,2.5,...]}";
    return "; give --rope-scale with the name of a type, or factor in a JSON object";
}

/* Return a scaling parameter. The classes of a config.json require this parameter. For a GGUF the
 * default is 1. */
static double required(struct binder *b, const char *key, double v, enum rope_scaling scaling,
                       bool needed)
{
    if (needed && isnan(v) && rope_is_hf(b))
        config_refuse(b, key, ERR_MISSING, "is missing, and the rope scaling needs it%s",
                      rope_advice(b, scaling));
    return isnan(v) ? 1 : v;
}

static const char part_key[] = "config.rope_parameters.partial_rotary_factor";

static const struct rope_type rope_types[] = {ROPE_TYPES, ROPE_TYPES_END};
/* Types of rope scaling in GGUF files. */
static const struct rope_type gguf_types[] = {
    {"none", ROPE_NONE, NULL}, {"linear", ROPE_LINEAR, NULL}, {"llama3", ROPE_LLAMA3, NULL},
    {"yarn", ROPE_YARN, NULL}, {"default", ROPE_NONE, NULL},  ROPE_TYPES_END};

const struct rope_type *config_rope_types(const struct arch *a)
{
    return a->rope_type ? a->rope_type : rope_types;
}

/* Return true if t is the first type of its list with this scaling. */
static bool is_first_name(const struct rope_type *list, const struct rope_type *t)
{
    while (list->scaling != t->scaling) list++;
    return list == t;
}

/* Reject a rope type. The error lists one name of each scaling. */
static void refuse_type(struct binder *b, const struct rope_type *list, const char *name)
{
    struct buf text = {0};
    int n = 0, i = 0;
    for (const struct rope_type *t = list; t->name; t++)
        n += t->scaling != ROPE_NONE && is_first_name(list, t);
    for (const struct rope_type *t = list; t->name; t++)
        if (t->scaling != ROPE_NONE && is_first_name(list, t)) {
            buf_addf(&text, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", t->name);
            i++;
        }
    config_refuse(b, "rope.scaling.type", ERR_UNSUPPORTED, "must be %s, got \"%.40s\"",
                  text.failed ? "another type" : text.data, name ? name : "?");
    buf_deinit(&text);
}

/* Reject parameters next to the objects per layer type. The class ignores these parameters, or it
 * ignores the objects. */
static void check_mixed(struct binder *b)
{
    if (config_meta(b, "config.rope_parameters.mixed"))
        config_refuse(b, "config.rope_parameters.full_attention", ERR_UNSUPPORTED,
                      "must not come with other parameters next to it");
}

/* Return the scaling of the rope. As in llama.cpp, a GGUF without the key has linear scaling with
 * the factor 1. */
static enum rope_scaling rope_kind(struct binder *b)
{
    const bool hf = rope_is_hf(b);
    check_mixed(b);
    const struct rope_type *all = hf ? config_rope_types(b->m->arch) : gguf_types;
    const struct meta *type = config_meta(b, "rope.scaling.type");
    if (meta_kind(type) == META_NONE) return hf ? ROPE_NONE : ROPE_LINEAR;
    for (const struct rope_type *t = all; t->name; t++)
        if (config_is_text(type, t->name) && (!t->with || config_real(b, t->with, 0) > 0))
            return t->scaling;
    refuse_type(b, all, meta_text(type, NULL));
    return ROPE_NONE;
}

/* Return the YaRN factor of queries and keys, which preserves the sharpness of scores. */
static double yarn_magnitude(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

/* Return the magnitude as in transformers. The magnitude is attention_factor if the file has it.
 * Without attention_factor, the magnitude is computed from mscale and mscale_all_dim if the file
 * has both. */
static double hf_magnitude(struct binder *b, const struct rope_config *r)
{
    double whole = config_real(b, "config.rope_parameters.attention_factor", NAN),
           scale = config_real(b, "config.rope_parameters.mscale", 0),
           all = config_real(b, "config.rope_parameters.mscale_all_dim", 0);
    if (r->scaling != ROPE_YARN && r->scaling != ROPE_LONG) return 1;
    if (!isnan(whole)) return whole;
    if (r->scaling == ROPE_LONG)
        return r->factor <= 1 ? 1 : sqrt(1 + log(r->factor) / log(r->context_original));
    if (scale == 0 || all == 0) return yarn_magnitude(r->factor, 1);
    return yarn_magnitude(r->factor, scale) / yarn_magnitude(r->factor, all);
}

/* Return the magnitude as in llama.cpp. attn_factor applies to every scaling. llama.cpp does not
 * read yarn_attn_factor, although its converter stores attention_factor in that key. */
static double gguf_magnitude(struct binder *b, const struct rope_config *r)
{
    double own = r->scaling == ROPE_YARN ? yarn_magnitude(r->factor, 1) : 1,
           whole = config_real(b, "rope.scaling.yarn_attn_factor", own);
    if (fabs(whole - own) > 1e-5)
        config_refuse(b, "rope.scaling.yarn_attn_factor", ERR_UNSUPPORTED,
                      "must be %g, got %g: llama.cpp ignores other values", own, whole);
    return own * config_real(b, "rope.scaling.attn_factor", 1);
}

/* Return the rope factor. In config.json a null YaRN factor means the ratio of the contexts. */
static double rope_factor(struct binder *b, const struct rope_config *r)
{
    const struct meta *m = config_meta(b, "rope.scaling.factor");
    double linear = config_real(b, "rope.scale_linear", NAN),
           v = config_real(b, "rope.scaling.factor", linear);
    if (rope_is_hf(b) && meta_kind(m) == META_NONE &&
        (r->scaling == ROPE_LONG || (r->scaling == ROPE_YARN && m)))
        return (double)b->m->config.context_train / r->context_original;
    v = required(b, "rope.scaling.factor", v, r->scaling,
                 r->scaling != ROPE_NONE && r->scaling != ROPE_PROPORTIONAL);
    return !rope_is_hf(b) && v == 0 ? 1 : v;
}

/* Return v. As in llama.cpp, return the fallback if v is absent or 0. */
static double or_default(double v, double fallback)
{
    return isnan(v) || v == 0 ? fallback : v;
}

/* Return a list of divisors of LongRoPE, f32 [d_rot / 2]. NULL if the file has none. */
static const float *long_factors(struct binder *b, const struct rope_config *r, const char *key)
{
    char text[80];
    const struct meta *m = config_meta(b, key);
    const size_t n = (size_t)r->d_rot / 2;
    if (meta_kind(m) == META_NONE && r->scaling != ROPE_LONG) return NULL;
    if (b->rc == 0 && meta_count(m) != n)
        config_refuse(b, key, ERR_FORMAT, "must be a list of %zu numbers, got %s%s", n,
                      config_value_text(m, text), rope_advice(b, r->scaling));
    float *v = b->rc == 0 ? arena_push(&b->m->arena, n * sizeof *v, 64) : NULL;
    if (b->rc == 0 && !v) b->rc = err_memory(b->e, key, n * sizeof *v);
    for (size_t i = 0; i < n && b->rc == 0; i++) {
        v[i] = (float)meta_item_real(m, i, 0);
        if (!(v[i] > 0))
            config_refuse(b, key, ERR_FORMAT, "[%zu]: must be above 0, got %g", i, v[i]);
    }
    return v;
}

/* Check that a parameter is in (least, most). NaN and infinite values are rejected, even if `most`
 * is infinite. */
static void check_between(struct binder *b, const char *key, double v, double least, double most)
{
    if (v > least && v < most) return;
    if (isinf(most))
        config_refuse(b, key, ERR_FORMAT, "must be above %g, got %g", least, v);
    else
        config_refuse(b, key, ERR_FORMAT, "must be in (%g, %g), got %g", least, most, v);
}

/* Check the ranges of the parameters of a scaling. */
static void check_rope_scaling(struct binder *b, const struct rope_config *r, bool llama3)
{
    enum { RATIO_MAX = 1000000 }; /* maximum factor of the scaling, larger than any useful factor */
    check_between(b, "rope.scaling.factor", r->factor, 0, RATIO_MAX);
    check_between(b, "rope.scaling.yarn_beta_fast", r->beta_fast, 0, INFINITY);
    check_between(b, "rope.scaling.yarn_beta_slow", r->beta_slow, 0, INFINITY);
    check_between(b, "rope.scaling.yarn_attn_factor", r->magnitude, 0, RATIO_MAX);
    if (!llama3) return;
    check_between(b, "rope.scaling.low_freq_factor", r->low_freq, 0, INFINITY);
    check_between(b, "rope.scaling.high_freq_factor", r->high_freq, r->low_freq, INFINITY);
}

/* Read the parameters of the scaling. The keys of all scalings are read before the checks, so that
 * every key is marked as read. */
static void config_rope_scaling(struct binder *b, struct rope_config *r)
{
    config_meta(b, "config.rope_parameters");
    r->scaling = rope_kind(b);
    r->rotated_share = 1;
    r->context_original = config_int(b, "rope.scaling.original_context_length", 1, INT_MAX,
                                     b->m->config.context_train);
    r->factor = rope_factor(b, r);
    bool llama3 = r->scaling == ROPE_LLAMA3;
    r->low_freq = required(b, "rope.scaling.low_freq_factor",
                           config_real(b, "rope.scaling.low_freq_factor", NAN), r->scaling, llama3);
    r->high_freq =
        required(b, "rope.scaling.high_freq_factor",
                 config_real(b, "rope.scaling.high_freq_factor", NAN), r->scaling, llama3);
    r->beta_fast = or_default(config_real(b, "rope.scaling.yarn_beta_fast", NAN), 32);
    r->beta_slow = or_default(config_real(b, "rope.scaling.yarn_beta_slow", NAN), 1);
    r->ramp_whole = config_bool(b, "config.rope_parameters.truncate", true);
    r->ramp_forward = !rope_is_hf(b);
    r->magnitude = rope_is_hf(b) ? hf_magnitude(b, r) : gguf_magnitude(b, r);
    if (r->scaling == ROPE_DYNAMIC) r->context_original = b->m->config.context_train;
    if (r->scaling != ROPE_NONE) check_rope_scaling(b, r, llama3);
}

/* Read the lists of LongRoPE. The architecture may have changed the number of rotated lanes. */
static void config_long_factors(struct binder *b, struct rope_config *r)
{
    r->short_factor = long_factors(b, r, "config.rope_parameters.short_factor");
    r->long_factor = long_factors(b, r, "config.rope_parameters.long_factor");
    if (r->scaling != ROPE_LONG) r->short_factor = r->long_factor = NULL;
}

void config_share_factors(struct config *c)
{
    const struct rope_config *r = &c->rope[ROPE_MAIN];
    struct rope_config *q = &c->rope[ROPE_QUERY];
    if (!c->shares_factors) return;
    q->freq_factor = r->freq_factor;
    q->short_factor = r->short_factor;
    q->long_factor = r->long_factor;
}

/* Extend the context by the caller's scaling, as in vLLM. A scaling in the file is already part of
 * its context length, or requires --max-model-len. */
static void extend_context(struct binder *b, const struct rope_config *r)
{
    const bool extends =
        r->scaling == ROPE_LINEAR || r->scaling == ROPE_DYNAMIC || r->scaling == ROPE_YARN;
    int *context = &b->m->config.context_train;
    const double n = r->factor * (r->scaling == ROPE_YARN ? r->context_original : *context);
    if (extends && checkpoint_rope_given(b->checkpoint) && n > *context)
        *context = n < INT_MAX ? (int)n : INT_MAX;
}

/* Return the number of rotated lanes of a head in a GGUF. The error also contains the keys of the
 * head's size, because a wrong value of these keys may be the cause. */
static int gguf_lanes(struct binder *b, const struct config *c)
{
    static const char key[] = "rope.dimension_count", own[] = "attention.key_length";
    const struct arch *a = b->m->arch;
    const int least = a->partial_rope || a->gguf_partial_rope ? 2 : c->d_head,
              n = config_int(b, key, 1, INT_MAX, c->d_head);
    char range[40], from[80];
    if (b->rc != 0 || (n >= least && n <= c->d_head)) return n;
    snprintf(range, sizeof range, least < c->d_head ? "in [2, %d]" : "%d", c->d_head);
    if (config_meta(b, own))
        snprintf(from, sizeof from, "%s", own);
    else
        snprintf(from, sizeof from, "embedding_length %d / attention.head_count %d", c->d,
                 c->n_head);
    config_refuse(b, key, ERR_UNSUPPORTED, "must be %s (%s), got %d", range, from, n);
    return n;
}

/* Return the number of rotated lanes of a head. All lanes are rotated, unless the architecture has
 * a partial rope or sets the number. */
static int rotated_lanes(struct binder *b, const struct config *c)
{
    if (b->m->arch->heads) return c->rope[ROPE_MAIN].d_rot;
    if (!config_is_hf(b)) return gguf_lanes(b, c);
    if (!b->m->arch->partial_rope) return c->d_head;
    const double v = config_real(b, part_key, 1);
    if (!(v > 0 && v <= 1)) config_refuse(b, part_key, ERR_FORMAT, "must be in (0, 1], got %g", v);
    const int n = b->rc == 0 ? (int)(c->d_head * v) : 0;
    if (b->rc == 0 && n < 2)
        config_refuse(b, part_key, ERR_FORMAT,
                      "must rotate at least 2 of a head's %d lanes, got %g", c->d_head, v);
    return n;
}

/* Return the key that gives the number of rotated lanes. */
static const char *lanes_key(const struct binder *b)
{
    if (!config_is_hf(b)) return "rope.dimension_count";
    return b->m->arch->partial_rope ? part_key : "attention.key_length";
}

/* Read the main rope. The pairing of lanes depends on the kind of file, because converters permute
 * the rows of q and k for GGUF. */
static void config_rope(struct binder *b, struct config *c)
{
    struct rope_config *r = &c->rope[ROPE_MAIN];
    c->n_rope = 1;
    r->neox = config_is_hf(b) ? !b->m->arch->hf_adjacent : b->m->arch->gguf_neox;
    r->d_rot = rotated_lanes(b, c);
    r->base = config_real(b, "rope.freq_base", 10000);
    if (r->d_rot % 2)
        config_refuse(b, lanes_key(b), ERR_FORMAT,
                      "must give an even number of rotated lanes, got %d", r->d_rot);
    if (!(r->base > 0))
        config_refuse(b, "rope.freq_base", ERR_FORMAT, "must be above 0, got %g", r->base);
    if (b->rc == 0) config_rope_scaling(b, r);
    if (b->rc == 0 && r->scaling == ROPE_DYNAMIC && r->d_rot < 4)
        config_refuse(b, "rope.scaling.type", ERR_FORMAT,
                      "must not be dynamic with a rope of 2 lanes, whose base has no effect");
    if (b->rc == 0) extend_context(b, r);
}

bool config_given(const struct binder *b, const char *key)
{
    const struct checkpoint *c = b->checkpoint;
    char full[160];
    snprintf(full, sizeof full, "%s.%s", b->prefix, key);
    const struct meta *m = checkpoint_meta(c, full);
    for (int i = 0; m && i < checkpoint_n_meta(c); i++)
        if (checkpoint_meta_at(c, i, NULL) == m) return checkpoint_given(c, i) != NULL;
    return false;
}

/* Reject the caller's parameters of rope if they have no effect. */
static void check_rope_given(struct binder *b, const struct config *c)
{
    const char *scaling = checkpoint_rope_given(b->checkpoint);
    const bool base = config_given(b, "rope.freq_base");
    int n_layer = 0;
    for (int i = 0; i < c->n_layer; i++) n_layer += c->layer[i].rope != ROPE_OFF;
    if ((scaling || base) && (b->m->arch->no_rope || n_layer == 0))
        b->rc = err_set(b->e, ERR_UNSUPPORTED, "%s: %s: the model has no rope with parameters",
                        checkpoint_path(b->checkpoint), scaling ? scaling : "--rope-theta");
    else if (base && c->rope[ROPE_MAIN].base != config_real(b, "rope.freq_base", 0))
        config_refuse(b, "rope.freq_base", ERR_UNSUPPORTED,
                      "must not come with another base of architecture %s, %g", b->m->arch->name,
                      c->rope[ROPE_MAIN].base);
}

void config_local_rope(struct config *c, struct binder *b, const char *key, double base)
{
    if (!(base > 0)) config_refuse(b, key, ERR_FORMAT, "must be above 0, got %g", base);
    c->rope[ROPE_LOCAL] = (struct rope_config){.base = base,
                                               .d_rot = c->rope[ROPE_MAIN].d_rot,
                                               .neox = c->rope[ROPE_MAIN].neox,
                                               .scaling = ROPE_NONE,
                                               .magnitude = 1};
    c->n_rope = 2;
    for (int i = 0; i < c->n_layer; i++)
        c->layer[i].rope = c->layer[i].window ? ROPE_LOCAL : ROPE_MAIN;
}

double config_sliding_base(struct binder *b, double fallback)
{
    static const char key[] = "config.rope_parameters.sliding_attention.rope_type";
    const double base =
        config_real(b, "config.rope_parameters.sliding_attention.rope_theta", fallback);
    const struct meta *type = config_meta(b, key);
    if (meta_kind(type) != META_NONE && !config_is_text(type, "default"))
        config_refuse(b, key, ERR_UNSUPPORTED, "must be default, got %.40s",
                      meta_text(type, NULL) ? meta_text(type, NULL) : "another kind of value");
    return base;
}

bool config_lacks_rope(struct binder *b)
{
    return config_is_hf(b) && !config_meta(b, "config.rope_parameters");
}

/* ---- layers ---- */

/* Check a list of whole numbers or booleans with an item per layer. */
static void check_items(struct binder *b, const char *key, const struct meta *m, size_t n)
{
    char text[80];
    const enum meta_kind kind = meta_item_kind(m);
    if (meta_count(m) != n || kind == META_REAL || kind == META_TEXT || kind == META_LIST)
        config_refuse(b, key, ERR_FORMAT, "must be a list of %zu integers, got %s", n,
                      config_value_text(m, text));
}

const int *config_layer_ints(struct binder *b, const char *key, int64_t lo, int64_t hi,
                             int64_t fallback)
{
    const struct config *c = &b->m->config;
    const size_t n = (size_t)c->n_layer;
    const struct meta *m = config_meta(b, key);
    const bool list = meta_kind(m) == META_LIST;
    const int all = list ? 0 : config_int(b, key, lo, hi, fallback);
    int *v = b->rc == 0 ? arena_push(&b->m->arena, n * sizeof *v, sizeof *v) : NULL;
    if (b->rc == 0 && !v) b->rc = err_memory(b->e, key, n * sizeof *v);
    /* the lists of a GGUF include the layers that predict further tokens */
    if (list && b->rc == 0) check_items(b, key, m, n + (size_t)(config_is_hf(b) ? 0 : c->n_next));
    for (size_t i = 0; i < n && b->rc == 0; i++) {
        const int64_t x = list ? meta_item_int(m, i, INT64_MIN) : all;
        v[i] = (int)x;
        if (list && (x < lo || x > hi))
            config_refuse(b, key, ERR_FORMAT, "[%zu]: must be in [%lld, %lld], got %lld", i,
                          (long long)lo, (long long)hi, (long long)x);
    }
    return b->rc == 0 ? v : NULL;
}

void config_single_ints(struct binder *b, const char *key, int64_t lo, int64_t hi, int *v)
{
    const size_t n = (size_t)b->m->config.n_layer;
    const struct meta *m = config_meta(b, key);
    if (meta_count(m) > n || (meta_count(m) > 0 && meta_item_kind(m) != META_INT))
        config_refuse(b, key, ERR_FORMAT, "must be integers of the layers [0, %zu], got layer %zu",
                      n - 1, meta_count(m) - 1);
    for (size_t i = 0; i < meta_count(m) && b->rc == 0; i++) {
        const int64_t x = meta_item_int(m, i, -1);
        if (x < 0) continue;
        v[i] = (int)x;
        if (x < lo || x > hi)
            config_refuse(b, key, ERR_FORMAT, "must be in [%lld, %lld] in layer %zu, got %lld",
                          (long long)lo, (long long)hi, i, (long long)x);
    }
}

static const char kv_key[] = "attention.head_count_kv";

/* Return true if a size may be a list with a value per layer. */
static bool has_lists(const struct binder *b)
{
    return config_is_hf(b) ? b->m->arch->hf_lists : b->m->arch->gguf_lists;
}

/* Return the least value of a size in the list of a GGUF: 0 if it may mark a kind of layer. */
static int least_size(const struct binder *b, const char *key)
{
    const struct arch *a = b->m->arch;
    const bool marks = a->gguf_kinds && !config_is_hf(b);
    return marks && (a->gguf_single || strcmp(key, kv_key) == 0) ? 0 : 1;
}

/* Return the first value above 0 of a size that may differ by layer. layer_sizes reads the values
 * of all layers. */
static int first_size(struct binder *b, const char *key, int64_t hi, int64_t fallback)
{
    if (!has_lists(b)) return config_int(b, key, 1, hi, fallback);
    const int *v = config_layer_ints(b, key, least_size(b, key), hi, fallback);
    int i = 0;
    while (v && i + 1 < b->m->config.n_layer && v[i] == 0) i++;
    return !v ? 0 : v[i] > 0 ? v[i] : 1;
}

/* Set the sizes that differ by layer. */
static void layer_sizes(struct binder *b, struct config *c)
{
    static const char ff_key[] = "feed_forward_length";
    const bool single = b->m->arch->gguf_single && !config_is_hf(b);
    const int *d_ff = config_layer_ints(b, ff_key, least_size(b, ff_key), D_FF_MAX, c->d_ff),
              *n_kv = config_layer_ints(b, kv_key, least_size(b, kv_key), HEADS_MAX, c->n_head_kv);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        c->layer[i].d_ff = d_ff[i];
        c->layer[i].recurrent = n_kv[i] == 0 && !(single && d_ff[i] > 0);
        if (single && n_kv[i] > 0 && d_ff[i] > 0)
            config_refuse(b, ff_key, ERR_FORMAT, "must be 0 in layer %d with KV heads, got %d", i,
                          d_ff[i]);
        if (n_kv[i] > 0) c->layer[i].n_head_kv = n_kv[i];
    }
}

/* Check the numbers of heads of all layers, which the architecture may have changed. */
static void check_heads(struct binder *b, const struct config *c)
{
    for (int i = 0; i < c->n_layer && b->rc == 0; i++)
        if (c->layer[i].n_head % c->layer[i].n_head_kv)
            config_refuse(b, "attention.head_count_kv", ERR_FORMAT,
                          "must be a divisor of %d in layer %d, got %d", c->layer[i].n_head, i,
                          c->layer[i].n_head_kv);
}

/* Assign one layer of KV memory to all layers of an encoder, because no later step reads their K
 * and V. The encoder uses the memory of the decoder's first layer if the heads have equal sizes. */
static void share_kv(struct config *c)
{
    for (int i = 0; i < c->n_encoder; i++) {
        const struct layer_config *own = &c->layer[i], *decoder = &c->layer[c->n_encoder];
        const bool alike = own->n_head_kv == decoder->n_head_kv && own->d_head == decoder->d_head;
        c->layer[i].kv_layer = alike ? c->n_encoder : 0;
    }
}

/* Allocate the layers' configs. All layers get the common values first. The architecture's own
 * config function then changes windows, ropes and experts of single layers. */
static void config_layers(struct binder *b, struct config *c)
{
    c->layer = arena_push0(&b->m->arena, (size_t)c->n_layer, sizeof *c->layer);
    if (!c->layer) {
        b->rc = err_memory(b->e, "the layers' configuration",
                           (unsigned long long)c->n_layer * sizeof *c->layer);
        return;
    }
    for (int i = 0; i < c->n_layer; i++)
        c->layer[i] =
            (struct layer_config){.n_head = c->n_head,
                                  .n_head_kv = c->n_head_kv,
                                  .d_head = c->d_head,
                                  .d_ff = c->d_ff,
                                  .rope = b->m->arch->no_rope ? ROPE_OFF : ROPE_MAIN,
                                  .n_later = b->m->arch->encoder || i < c->n_encoder ? INT_MAX : 0,
                                  .attn_scale = 1.0f / sqrtf((float)c->d_head),
                                  /* layers of an encoder share the memory of one layer, because no
                                   * later step reads it */
                                  .kv_layer = b->m->arch->encoder ? 0 : i};
    if (has_lists(b)) layer_sizes(b, c);
}

/* The value without a window is null in config.json and 0 in a GGUF. */
int config_window(struct binder *b)
{
    int n = config_int(b, "attention.sliding_window", config_is_hf(b) ? 1 : 0, INT_MAX, INT_MAX);
    return n == INT_MAX ? 0 : n;
}

/* Return the index of item i in `names`; -1 if it is another text. */
static int name_index(const struct meta *list, size_t i, const char *const *names)
{
    for (int k = 0; names[k]; k++)
        if (config_item_is(list, i, names[k])) return k;
    return -1;
}

const int *config_layer_names(struct binder *b, const char *key, const char *const *names)
{
    char value[80];
    const size_t n = (size_t)b->m->config.n_layer;
    const struct meta *types = config_meta(b, key);
    if (meta_kind(types) == META_NONE || b->rc != 0) return NULL;
    if (meta_item_kind(types) != META_TEXT || meta_count(types) != n)
        config_refuse(b, key, ERR_FORMAT, "must be a list of %zu names, got %s", n,
                      config_value_text(types, value));
    int *kind = bind_memory(b, "the kinds of layers", n * sizeof *kind);
    for (size_t i = 0; i < n && b->rc == 0; i++) {
        size_t length = 0;
        const char *text = meta_item_text(types, i, &length);
        kind[i] = name_index(types, i, names);
        if (kind[i] < 0)
            config_refuse(b, key, ERR_UNSUPPORTED, "[%zu]: must be %s or %s, got \"%.*s\"", i,
                          names[0], names[1], length > 60 ? 60 : (int)length, text);
    }
    return b->rc == 0 ? kind : NULL;
}

const int *config_layer_kinds(struct binder *b, const char *const *names)
{
    return config_layer_names(b, "config.layer_types", names);
}

bool config_object(struct binder *b, const char *key)
{
    char text[80];
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) != META_NONE && meta_kind(m) != META_OBJECT)
        config_refuse(b, key, ERR_FORMAT, "expected an object, got %s", config_value_text(m, text));
    return meta_kind(m) == META_OBJECT;
}

const bool *config_listed_layers(struct binder *b, const char *key, int first, bool strict)
{
    char text[80];
    const int end = first + b->m->config.n_layer;
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) == META_NONE || b->rc != 0) return NULL;
    if (meta_kind(m) != META_LIST || (meta_count(m) > 0 && meta_item_kind(m) != META_INT))
        config_refuse(b, key, ERR_FORMAT, "must be a list of layers, got %s",
                      config_value_text(m, text));
    bool *in = bind_memory(b, "a list of layers", (size_t)(end - first) * sizeof *in);
    for (size_t i = 0; i < meta_count(m) && b->rc == 0; i++) {
        const int64_t il = meta_item_int(m, i, -1);
        if (il >= first && il < end)
            in[il - first] = true;
        else if (strict)
            config_refuse(b, key, ERR_FORMAT, "[%zu]: must be in [%d, %d], got %lld", i, first,
                          end - 1, (long long)il);
    }
    return b->rc == 0 ? in : NULL;
}

bool config_layer_types(struct binder *b, struct config *c, int window)
{
    static const char *const name[] = {"full_attention", "sliding_attention", "attention", NULL};
    const int *kind = config_layer_kinds(b, name);
    for (int i = 0; kind && i < c->n_layer; i++) {
        if (kind[i] == 1 && window == 0)
            config_refuse(b, "config.layer_types", ERR_FORMAT,
                          "layer %d is sliding_attention, but sliding_window is missing", i);
        c->layer[i].window = kind[i] == 1 ? window : 0;
    }
    return kind || b->rc != 0;
}

void config_no_rope(struct config *c, struct binder *b, bool empty)
{
    static const char key[] = "config.no_rope_layers", by[] = "config.no_rope_layer_interval";
    char text[80];
    const struct meta *list = config_meta(b, key);
    const int interval = config_int(b, by, INT_MIN, INT_MAX, 4);
    const bool none = meta_kind(list) == META_LIST && meta_count(list) == 0,
               listed = meta_kind(list) != META_NONE && !(empty && none);
    if (listed && (meta_item_kind(list) != META_INT || meta_count(list) < (size_t)c->n_layer))
        config_refuse(b, key, ERR_FORMAT, "must be a list of at least %d integers, got %s",
                      c->n_layer, config_value_text(list, text));
    if (!listed && interval == 0)
        config_refuse(b, by, ERR_FORMAT, "must be an integer other than 0, got 0");
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        const bool rope = listed ? meta_item_int(list, (size_t)i, 1) != 0 : (i + 1) % interval != 0;
        c->layer[i].rope = rope ? ROPE_MAIN : ROPE_OFF;
    }
}

void config_share_kv(struct config *c, struct binder *b, const char *key, int n)
{
    const int first = c->n_layer - n;
    for (int i = first; i < c->n_layer && b->rc == 0; i++) {
        struct layer_config *l = &c->layer[i];
        int from = first - 1;
        while (from >= 0 && !c->layer[from].window != !l->window) from--;
        if (from < 0) {
            config_refuse(b, key, ERR_FORMAT,
                          "must leave a layer of the type of layer %d before layer %d, got %d", i,
                          first, n);
            return;
        }
        if (c->layer[from].d_head != l->d_head || c->layer[from].n_head_kv != l->n_head_kv)
            config_refuse(b, key, ERR_FORMAT, "layers %d and %d must have equal KV heads", from, i);
        l->reuses_kv = true;
        l->kv_layer = from;
        l->v_is_k = false;
    }
}

/* A cap of 0 is rejected, because transformers divides by the cap. */
float config_cap(struct binder *b, const char *key)
{
    const double cap = config_real(b, key, NAN);
    if (!isnan(cap) && !(cap > 0))
        config_refuse(b, key, ERR_FORMAT, "must be above 0, or null, got %g", cap);
    return isnan(cap) ? 0 : (float)cap;
}

float config_qkv_limit(struct binder *b, const char *hf_key, bool zero)
{
    const bool hf = config_is_hf(b);
    const char *key = hf ? hf_key : "attention.clamp_kqv";
    const double limit = config_real(b, key, 0);
    if (limit < 0) config_refuse(b, key, ERR_FORMAT, "must be at least 0, got %g", limit);
    if (hf && !zero && limit == 0 && meta_kind(config_meta(b, key)) != META_NONE)
        config_refuse(b, key, ERR_FORMAT, "must be above 0, got 0");
    return (float)limit;
}

/* ---- the config of a model ---- */

/* Return the key of the activation that the architecture's class reads. */
static const char *activation_key(const struct binder *b)
{
    static const char *const own[] = {"config.hidden_act", "config.hidden_activation",
                                      "config.activation_function", "config.activation"};
    size_t i = 0;
    if (!config_is_hf(b)) return "hidden_activation";
    while (!config_has(b, own[i]) && i + 1 < sizeof own / sizeof own[0]) i++;
    return own[i];
}

static const struct {
    const char *name; /* static */
    enum curve curve;
} curves[] = {{"silu", CURVE_silu},          {"swish", CURVE_silu},
              {"gelu", CURVE_gelu_erf},      {"gelu_pytorch_tanh", CURVE_gelu_tanh},
              {"gelu_new", CURVE_gelu_tanh}, {"gelu_fast", CURVE_gelu_tanh},
              {"relu", CURVE_relu},          {"relu2", CURVE_relu2}};

bool config_curve(const char *name, size_t n, enum curve *curve)
{
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        if (strlen(curves[i].name) == n && memcmp(curves[i].name, name, n) == 0)
            return *curve = curves[i].curve, true;
    return false;
}

/* Set the curve of the feed-forward blocks. In most architectures llama.cpp ignores the key in a
 * GGUF. Therefore a GGUF with another value is rejected. */
static void config_activation(struct binder *b, struct config *c)
{
    const bool counts = config_is_hf(b) || b->m->arch->gguf_curve;
    const char *key = activation_key(b);
    const struct meta *m = config_meta(b, key);
    c->curve = b->m->arch->curve;
    const char *own_curve = b->m->arch->own_curve;
    c->own_curve = own_curve && (meta_kind(m) == META_NONE || config_is_text(m, own_curve));
    if (meta_kind(m) == META_NONE || c->own_curve) return;
    const bool curved = counts || !own_curve;
    size_t n = 0, own = 0;
    enum curve curve;
    const char *name = meta_text(m, &n);
    if (name && curved && config_curve(name, n, &curve) && (counts || curve == c->curve)) {
        c->curve = curve;
        return;
    }
    while (curves[own].curve != c->curve && own + 1 < sizeof curves / sizeof curves[0]) own++;
    if (counts)
        config_refuse(b, key, ERR_UNSUPPORTED,
                      "must be silu, gelu, gelu_pytorch_tanh, relu or relu2, got \"%.40s\"",
                      name ? name : "?");
    else
        config_refuse(b, key, ERR_UNSUPPORTED,
                      "must be %s, got \"%.40s\": llama.cpp ignores other values",
                      curved ? curves[own].name : own_curve, name ? name : "?");
}

/* Set biases and tied heads. A GGUF has no keys for biases and tied heads, so the tensors in the
 * file determine both. */
static void config_parts(struct binder *b, struct config *c)
{
    if (!config_is_hf(b)) {
        c->qkv_bias = c->o_bias = c->ffn_bias = c->head_bias = BIAS_HELD;
        c->tied = true;
        return;
    }
    c->qkv_bias = c->o_bias =
        config_bool(b, "config.attention_bias", false) ? BIAS_NEEDED : BIAS_NONE;
    c->ffn_bias = config_bool(b, "config.mlp_bias", false) ? BIAS_NEEDED : BIAS_NONE;
    c->tied = checkpoint_parts(b->checkpoint) ? parts_tied(b)
                                              : config_bool(b, "config.tie_word_embeddings", false);
}

/* Read the epsilon of the norms. */
static void config_epsilon(struct binder *b, struct config *c)
{
    static const char usual[] = "attention.layer_norm_epsilon";
    const char *own = b->m->arch->layer_norm_eps, *key = "attention.layer_norm_rms_epsilon";
    if (own) key = config_is_hf(b) || strncmp(own, "config.", 7) != 0 ? own : usual;
    /* some GGUF files have the keys of both kinds of norms */
    if (own) config_meta(b, "attention.layer_norm_rms_epsilon");
    double eps = config_real(b, key, NAN);
    c->rms_eps = (float)eps;
    if (!(eps >= 0))
        config_refuse(b, key, ERR_MISSING, isnan(eps) ? "is missing" : "must be at least 0, got %g",
                      eps);
}

int64_t config_module_int(struct binder *b, const char *name, int64_t lo, int64_t hi,
                          int64_t fallback)
{
    char key[96], text[80];
    snprintf(key, sizeof key, "sentence_transformers.%s", name);
    const struct meta *m = checkpoint_meta(b->checkpoint, key);
    const int64_t v = m ? meta_int(m, INT64_MIN) : fallback;
    if ((!m || (v >= lo && v <= hi)) && meta_kind(m) != META_BOOL) return v;
    if (b->rc == 0)
        b->rc = err_set(b->e, ERR_FORMAT, "%s: %s: must be in [%lld, %lld], got %s",
                        checkpoint_path(b->checkpoint), key, (long long)lo, (long long)hi,
                        config_value_text(m, text));
    return fallback;
}

/* Reject names of poolings other than those that the reader of a directory writes. */
static void check_poolings(struct binder *b)
{
    static const char *const known[] = {
#define POOLING(name, field, number, method) name,
#include "format/poolings.def"
    };
    const char *at =
        meta_text(checkpoint_meta(b->checkpoint, "sentence_transformers.pooling"), NULL);
    int n = 0;
    for (bool more = at != NULL; more && b->rc == 0; n++) {
        const size_t len = strcspn(at, "+");
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            found |= strlen(known[i]) == len && memcmp(known[i], at, len) == 0;
        if (!found || n == POOLINGS_MAX)
            b->rc = err_set(b->e, ERR_FORMAT,
                            "%s: sentence_transformers.pooling: expected 1 to %d names of "
                            "poolings, got \"%.80s\"",
                            checkpoint_path(b->checkpoint), POOLINGS_MAX, at);
        more = at[len] == '+';
        at += len + more;
    }
}

/* Return the maximum length of a text that becomes an embedding or a class, in tokens. The length
 * of sentence-transformers has priority over that of the tokenizer. INT_MAX for a model that
 * generates text. */
static int64_t text_length(struct binder *b)
{
    const struct checkpoint *c = b->checkpoint;
    const bool pools = b->m->arch->encoder || checkpoint_meta(c, "sentence_transformers.n_dense") ||
                       checkpoint_tensor(c, "cls.output.weight");
    const struct meta *usual = pools ? checkpoint_meta(c, "tokenizer.model_max_length") : NULL;
    const int64_t n = meta_int(usual, INT_MAX);
    return config_module_int(b, "max_seq_length", 1, INT_MAX, n >= 1 && n < INT_MAX ? n : INT_MAX);
}

/* Return the token of padding, at which a classifier does not take the last row. As in
 * transformers, it is that of config.json. -1 if none. */
static int32_t class_pad(const struct binder *b)
{
    const struct checkpoint *c = b->checkpoint;
    const char *key =
        config_is_hf(b) ? "tokenizer.class_pad_id" : "tokenizer.ggml.padding_token_id";
    const int64_t id = meta_int(checkpoint_meta(c, key), -1);
    const bool has = checkpoint_tensor(c, "cls.output.weight") && id >= 0 && id <= INT32_MAX;
    return has ? (int32_t)id : -1;
}

bool config_uses_class_pad(const struct config *c)
{
    enum { LAST = 3 }; /* GGUF's number */
    return c->n_label > 0 && c->class_pooling == LAST;
}

/* Read the pooling of embeddings and the labels of a classifier. */
static void config_results(struct binder *b, struct config *c)
{
    static const struct {
        const char *name; /* static */
        enum class_act act;
    } acts[] = {{"Identity", CLASS_IDENTITY},
                {"Sigmoid", CLASS_SIGMOID},
                {"Softmax", CLASS_SOFTMAX}},
      problems[] = {{"regression", CLASS_IDENTITY},
                    {"multi_label_classification", CLASS_SIGMOID},
                    {"single_label_classification", CLASS_SOFTMAX}};
    char text[80];
    const struct meta *own = checkpoint_meta(b->checkpoint, "sentence_transformers.activation_fn"),
                      *problem = config_meta(b, "config.problem_type");
    c->pooling_type = config_int(b, "pooling_type", 0, 4, 0);
    check_poolings(b);
    c->labels = config_meta(b, "classifier.output_labels");
    c->length_max = text_length(b);
    c->class_pooling = b->m->arch->encoder ? 2 : 3; /* the first row, and the last row */
    c->class_pad = class_pad(b);
    c->class_act = CLASS_AUTO;
    for (size_t i = 0; i < 3; i++)
        if (config_is_text(problem, problems[i].name)) c->class_act = problems[i].act;
    /* as in CrossEncoder and vLLM, problem_type has no effect on a score */
    c->score_act = CLASS_AUTO;
    bool known = !own;
    for (size_t i = 0; i < 3; i++)
        if (config_is_text(own, acts[i].name))
            c->class_act = c->score_act = acts[i].act, known = true;
    if (!known && b->rc == 0)
        b->rc = err_set(b->e, ERR_UNSUPPORTED,
                        "%s: activation_fn: must be Sigmoid, Identity or Softmax, "
                        "got %s",
                        checkpoint_path(b->checkpoint), config_value_text(own, text));
}

/* Read the number of the decoder's layers. The encoder's layers come before the decoder's layers.
 * The default is decoder_block_default if the class has that field, otherwise the number of the
 * encoder's layers. */
static void config_decoder(struct binder *b, struct config *c)
{
    if (!b->m->arch->crosses) return;
    c->n_encoder = c->n_layer;
    static const char key[] = "decoder_block_count";
    const int own = config_int(b, "decoder_block_default", 1, LAYERS_MAX, c->n_encoder),
              n = config_int(b, key, 1, LAYERS_MAX, own);
    if (b->rc == 0 && n > LAYERS_MAX - c->n_encoder)
        config_refuse(b, key, ERR_LIMIT,
                      "must be at most %d, got %d: a model has at most %d layers",
                      LAYERS_MAX - c->n_encoder, n, LAYERS_MAX);
    c->n_layer += n;
    c->context_train = c->context_train > INT_MAX / 2 ? INT_MAX : 2 * c->context_train;
}

/* Return an integer of generation_config.json, at least lo >= 0, or `own` if the file has none. */
static int64_t generation_int(struct binder *b, const char *field, int lo, int64_t own)
{
    char key[80], text[80];
    snprintf(key, sizeof key, "generation.%s", field);
    const struct meta *m = checkpoint_meta(b->checkpoint, key);
    const int64_t n = meta_kind(m) == META_BOOL ? -1 : meta_int(m, m ? -1 : own);
    if (m && (n < lo || n > INT32_MAX) && b->rc == 0)
        b->rc = err_set(b->e, ERR_FORMAT,
                        "%s: generation_config.json: %s: must be an integer in [%d, %d], got %s",
                        checkpoint_path(b->checkpoint), field, lo, INT32_MAX,
                        config_value_text(m, text));
    return n;
}

/* Reject default lengths of answers that requests cannot have. */
static void check_lengths(struct binder *b)
{
    (void)generation_int(b, "max_new_tokens", 1, 1);
    (void)generation_int(b, "min_new_tokens", 0, 0);
}

/* Read the first tokens of the decoder's text: a start token, and a token that transformers forces
 * after it. As in transformers, a generation_config.json replaces the forced token of config.json.
 * The default of the start token is the BOS token. */
static void config_starts(struct binder *b, struct config *c)
{
    const struct meta *bos = checkpoint_meta(b->checkpoint, "tokenizer.ggml.bos_token_id");
    const bool generation = checkpoint_meta(b->checkpoint, "generation.present") != NULL;
    if (!b->m->arch->crosses) return;
    int64_t start = config_int(b, "decoder_start_token_id", 0, INT_MAX, INT_MAX),
            forced = config_int(b, "forced_bos_token_id", 0, INT_MAX, INT_MAX);
    if (config_bool(b, "config.force_bos_token_to_be_generated", false)) forced = meta_int(bos, -1);
    start = generation_int(b, "decoder_start_token_id", 0,
                           start == INT_MAX ? meta_int(bos, -1) : start);
    forced =
        generation_int(b, "forced_bos_token_id", 0, generation || forced == INT_MAX ? -1 : forced);
    if (start < 0 || start > INT32_MAX)
        config_refuse(b, "decoder_start_token_id", ERR_MISSING, "is missing, as is a BOS token");
    c->start[c->n_start++] = (int32_t)start;
    if (forced >= 0 && forced <= INT32_MAX) c->start[c->n_start++] = (int32_t)forced;
}

/* Read the number of layers that predict further tokens. The number of layers of a GGUF includes
 * them. */
static void config_next(struct binder *b, struct config *c)
{
    static const char key[] = "nextn_predict_layers";
    if (!config_has(b, key)) return;
    c->n_next = config_int(b, key, 0, LAYERS_MAX, 0);
    if (config_is_hf(b) || b->rc != 0) return;
    if (c->n_next >= c->n_layer)
        config_refuse(b, key, ERR_FORMAT, "must be below the %d layers, got %d", c->n_layer,
                      c->n_next);
    c->n_layer -= c->n_next;
}

/* Return the number of layers: that of a list with an item per layer, or the number in the file. */
static int layer_count(struct binder *b)
{
    static const char count_key[] = "block_count";
    const char *const *key = config_is_hf(b) ? b->m->arch->hf_layers : NULL;
    for (; key && *key; key++) {
        const struct meta *m = config_meta(b, *key);
        size_t n = 0;
        if (meta_kind(m) == META_NONE) continue;
        if (meta_kind(m) == META_LIST)
            n = meta_count(m);
        else
            meta_text(m, &n);
        if (n < 1 || n > LAYERS_MAX)
            config_refuse(b, *key, ERR_FORMAT, "must have 1 to %d layers, got %zu", LAYERS_MAX, n);
        return b->rc == 0 ? (int)n : 1;
    }
    if (config_is_hf(b) && b->m->arch->hf_layers)
        config_refuse(b, b->m->arch->hf_layers[0], ERR_MISSING, "is missing");
    return config_int(b, count_key, 1, LAYERS_MAX, 0);
}

/* Read the sizes. n_vocab is optional, because most GGUF files give it only by the rows of the
 * embedding (bind_vocab). */
static void config_sizes(struct binder *b, struct config *c)
{
    c->n_layer = layer_count(b);
    config_next(b, c);
    c->d = c->d_embd = config_int(b, "embedding_length", 1, WIDTH_MAX, 0);
    if (b->m->arch->no_attention) {
        c->d_ff = c->n_head = c->n_head_kv = c->d_head = 1;
        c->n_vocab = config_int(b, "vocab_size", 1, INT_MAX, INT_MAX);
        c->context_train = config_int(b, "context_length", 1, INT_MAX, 0);
        config_epsilon(b, c);
        return;
    }
    c->d_ff = first_size(b, "feed_forward_length", D_FF_MAX, c->d * b->m->arch->ffn_times);
    c->n_head = config_int(b, "attention.head_count", 1, HEADS_MAX, 0);
    c->n_head_kv = first_size(b, "attention.head_count_kv", HEADS_MAX, c->n_head);
    c->d_head =
        config_int(b, "attention.key_length", 1, D_HEAD_MAX, b->rc == 0 ? c->d / c->n_head : 1);
    int d_v = config_int(b, "attention.value_length", 1, D_HEAD_MAX, c->d_head);
    /* the class has no field head_dim */
    if (!config_has(b, "attention.key_length")) d_v = c->d_head;
    c->n_vocab = config_int(b, "vocab_size", 1, INT_MAX, INT_MAX);
    c->context_train = config_int(b, "context_length", 1, INT_MAX, 0);
    config_decoder(b, c);
    config_epsilon(b, c);
    if (b->rc == 0 && c->n_head % c->n_head_kv)
        config_refuse(b, "attention.head_count_kv", ERR_FORMAT, "must divide the %d heads, got %d",
                      c->n_head, c->n_head_kv);
    if (b->rc == 0 && b->m->arch->heads)
        b->m->arch->heads(c, b);
    else if (d_v != c->d_head)
        config_refuse(b, "attention.value_length", ERR_UNSUPPORTED,
                      "must equal the size of keys, %d, got %d", c->d_head, d_v);
}

/* Read the config in the order of the dependencies. Layers require sizes and rope, and the
 * architecture's function requires layers. The check of unread keys is last. */
void config_read(struct binder *b)
{
    struct config *c = &b->m->config;
    const struct arch *a = b->m->arch;
    if (a->gguf_why && !config_is_hf(b))
        b->rc = err_set(b->e, ERR_UNSUPPORTED, "%s: architecture %s is not supported in a GGUF: %s",
                        checkpoint_path(b->checkpoint), a->name, a->gguf_why);
    if (a->hf_why && config_is_hf(b))
        b->rc =
            err_set(b->e, ERR_UNSUPPORTED, "%s: architecture %s is not supported in a folder: %s",
                    checkpoint_path(b->checkpoint), a->name, a->hf_why);
    if (b->rc != 0) return;
    c->embed_scale = c->residual_scale = c->logit_scale = c->alibi_scale = 1;
    c->plain_norms = b->m->arch->plain_norms;
    config_sizes(b, c);
    if (b->rc == 0) config_activation(b, c);
    if (b->rc == 0) config_parts(b, c);
    if (b->rc == 0) config_results(b, c);
    if (b->rc == 0 && !b->m->arch->no_rope) config_rope(b, c);
    if (b->rc == 0) check_lengths(b);
    if (b->rc == 0) config_starts(b, c);
    if (b->rc == 0) config_layers(b, c);
    if (b->rc == 0 && b->m->arch->config) b->m->arch->config(c, b);
    if (b->rc == 0) parts_head(b, c);
    if (b->rc == 0) parts_tokens(b, c);
    if (b->rc == 0) parts_ids(b, c);
    if (b->rc == 0 && !b->m->arch->no_rope) config_long_factors(b, &c->rope[ROPE_MAIN]);
    config_share_factors(c);
    if (b->rc == 0) check_heads(b, c);
    if (b->rc == 0) check_rope_given(b, c);
    if (b->rc == 0) share_kv(c);
    if (b->rc == 0) config_check_keys(b);
}
