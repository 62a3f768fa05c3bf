/* load.c - a checkpoint becomes a model: choose the architecture, read its config, bind its
 * tensors, plan memory.
 *
 * Nothing here trusts the file: every number has a range, every tensor a shape, and a layer
 * tensor that nobody bound is a refusal, because a model computed without one of its parts would
 * be silently wrong. */
#include "model_impl.h"

#include "base/log.h"
#include "base/os.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metadata ---- */

const struct meta *config_meta(const struct binder *b, const char *key)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", b->prefix, key);
    return checkpoint_meta(b->checkpoint, full);
}

int config_int(struct binder *b, const char *key, int64_t lo, int64_t hi, int64_t otherwise)
{
    if (b->rc != 0) return 0;
    const struct meta *m = config_meta(b, key);
    if (!m && otherwise >= lo) return (int)otherwise;
    const char *path = checkpoint_path(b->checkpoint);
    if (!m) {
        b->rc = err_set(b->e, ERR_MISSING, "%s: metadata %s.%s is missing", path, b->prefix, key);
        return 0;
    }
    int64_t v = meta_int(m, INT64_MIN);
    if (v < lo || v > hi) {
        if (v == INT64_MIN)
            b->rc = err_set(b->e, ERR_FORMAT, "%s: metadata %s.%s is not one integer", path,
                            b->prefix, key);
        else
            b->rc =
                err_set(b->e, ERR_FORMAT, "%s: metadata %s.%s is %lld, not between %lld and %lld",
                        path, b->prefix, key, (long long)v, (long long)lo, (long long)hi);
        return 0;
    }
    return (int)v;
}

double config_real(const struct binder *b, const char *key, double otherwise)
{
    return meta_real(config_meta(b, key), otherwise);
}

static bool text_is(const struct meta *m, const char *text)
{
    size_t n;
    const char *t = meta_text(m, &n);
    return t && n == strlen(text) && memcmp(t, text, n) == 0;
}

static bool item_is(const struct meta *m, int i, const char *text)
{
    size_t n = 0;
    const char *t = meta_item_text(m, (size_t)i, &n);
    return t && n == strlen(text) && memcmp(t, text, n) == 0;
}

/* ---- configuration ---- */

static void config_rope_scaling(struct binder *b, struct rope_config *r)
{
    static const struct {
        const char *name;
        enum rope_scaling scaling;
    } kinds[] = {{"none", ROPE_NONE},
                 {"default", ROPE_NONE},
                 {"linear", ROPE_LINEAR},
                 {"llama3", ROPE_LLAMA3},
                 {"yarn", ROPE_YARN}};
    const struct meta *type = config_meta(b, "rope.scaling.type");
    size_t i = 0, n = sizeof kinds / sizeof kinds[0];
    while (i < n && type && !text_is(type, kinds[i].name)) i++;
    if (i == n) {
        const char *name = meta_text(type, NULL);
        b->rc = err_set(b->e, ERR_UNSUPPORTED,
                        "%s: rope scaling \"%s\" is not supported (linear, llama3 and yarn are)",
                        checkpoint_path(b->checkpoint), name ? name : "?");
        return;
    }
    r->scaling = type ? kinds[i].scaling : ROPE_NONE;
    r->factor = config_real(b, "rope.scaling.factor", config_real(b, "rope.scale_linear", 1));
    if (!type && r->factor != 1) r->scaling = ROPE_LINEAR;
    r->low_freq = config_real(b, "rope.scaling.low_freq_factor", 1);
    r->high_freq = config_real(b, "rope.scaling.high_freq_factor", 4);
    r->beta_fast = config_real(b, "rope.scaling.yarn_beta_fast", 32);
    r->beta_slow = config_real(b, "rope.scaling.yarn_beta_slow", 1);
    r->attn_factor = config_real(b, "rope.scaling.attn_factor", 0);
    r->context_original = config_int(b, "rope.scaling.original_context_length", 1, INT_MAX,
                                     b->m->config.context_train);
    bool sane = r->factor > 0 && r->factor < 1e6 && r->low_freq > 0 && r->high_freq > r->low_freq &&
                r->beta_fast > 0 && r->beta_slow > 0;
    if (b->rc == 0 && r->scaling != ROPE_NONE && !sane)
        b->rc = err_set(b->e, ERR_FORMAT, "%s: rope scaling parameters are out of range",
                        checkpoint_path(b->checkpoint));
}

static void config_rope(struct binder *b, struct config *c)
{
    struct rope_config *r = &c->rope;
    r->neox = checkpoint_kind(b->checkpoint) == CKPT_HF || b->m->arch->gguf_neox;
    r->d_rot = config_int(b, "rope.dimension_count", 2, c->d_head, c->d_head);
    r->base = config_real(b, "rope.freq_base", 10000);
    if (b->rc == 0 && (r->d_rot % 2 || !(r->base > 0)))
        b->rc = err_set(b->e, ERR_FORMAT, "%s: rope over %d lanes with base %g cannot be",
                        checkpoint_path(b->checkpoint), r->d_rot, r->base);
    if (b->rc == 0) config_rope_scaling(b, r);
}

static void config_layers(struct binder *b, struct config *c)
{
    c->layer = arena_push0(&b->m->arena, (size_t)c->n_layer, sizeof *c->layer);
    if (!c->layer) {
        b->rc = err_memory(b->e, "the layers' configuration",
                           (unsigned long long)c->n_layer * sizeof *c->layer);
        return;
    }
    /* Which layers see the window: a list says so, or (older Qwen2 configs) how many at the
     * bottom do not. */
    int window = config_int(b, "attention.sliding_window", 0, INT_MAX, 0);
    const struct meta *types = config_meta(b, "layer_types");
    int full_below = types ? 0 : config_int(b, "attention.max_window_layers", 0, INT_MAX, 0);
    for (int i = 0; i < c->n_layer; i++) {
        bool full =
            (size_t)i < meta_count(types) ? item_is(types, i, "full_attention") : i < full_below;
        c->layer[i] = (struct layer_config){.window = full ? 0 : window, .rope = true};
    }
}

/* Keys that all decoders share; the architecture adjusts the rest. */
static void config_read(struct binder *b)
{
    struct config *c = &b->m->config;
    c->n_layer = config_int(b, "block_count", 1, 4096, -1);
    c->d = config_int(b, "embedding_length", 1, 1 << 20, -1);
    c->d_ff = config_int(b, "feed_forward_length", 1, 1 << 22, -1);
    c->n_head = config_int(b, "attention.head_count", 1, 65536, -1);
    c->n_head_kv = config_int(b, "attention.head_count_kv", 1, 65536, c->n_head);
    c->d_head = config_int(b, "attention.key_length", 1, 65536, b->rc == 0 ? c->d / c->n_head : 1);
    int d_v = config_int(b, "attention.value_length", 1, 65536, c->d_head);
    c->context_train = config_int(b, "context_length", 1, INT_MAX, 2048);
    c->rms_eps = (float)config_real(b, "attention.layer_norm_rms_epsilon", 1e-5);
    if (b->rc != 0) return;
    const char *path = checkpoint_path(b->checkpoint);
    if (c->n_head % c->n_head_kv)
        b->rc = err_set(b->e, ERR_FORMAT, "%s: %d heads cannot share %d KV heads evenly", path,
                        c->n_head, c->n_head_kv);
    else if (d_v != c->d_head)
        b->rc = err_set(b->e, ERR_UNSUPPORTED,
                        "%s: keys of %d and values of %d lanes: %s expects them equal", path,
                        c->d_head, d_v, b->m->arch->name);
    if (b->rc == 0) config_rope(b, c);
    if (b->rc == 0) config_layers(b, c);
    if (b->rc == 0 && b->m->arch->config) b->rc = b->m->arch->config(c, b);
}

/* ---- tensors ---- */

static const struct tensor_info *find(const struct binder *b, const char *fmt, int il, char *name,
                                      size_t n_name)
{
    int n = snprintf(name, n_name, fmt, il); /* check: fmt is one of ours, with at most one %d */
    if (n < 0 || (size_t)n >= n_name) return NULL;
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
    for (int i = 0; t && b->bound && i < checkpoint_n_tensor(b->checkpoint); i++)
        if (checkpoint_tensor_at(b->checkpoint, i) == t) b->bound[i] = 1;
    return t;
}

bool bind_has(const struct binder *b, const char *fmt, int il)
{
    char name[128];
    struct binder quiet = *b;
    quiet.bound = NULL;
    return find(&quiet, fmt, il, name, sizeof name) != NULL;
}

static const struct tensor_info *need(struct binder *b, const char *fmt, int il, int64_t n_out,
                                      int64_t k)
{
    char name[128];
    if (b->rc != 0) return NULL;
    const struct tensor_info *t = find(b, fmt, il, name, sizeof name);
    const char *path = checkpoint_path(b->checkpoint);
    if (!t)
        b->rc = err_set(b->e, ERR_MISSING, "%s: tensor %s is missing", path, name);
    else if (t->dim[0] != k || t->dim[1] != n_out || t->dim[2] != 1 || t->dim[3] != 1)
        b->rc = err_set(b->e, ERR_FORMAT, "%s: tensor %s is [%lld, %lld], expected [%lld, %lld]",
                        path, name, (long long)t->dim[1], (long long)t->dim[0], (long long)n_out,
                        (long long)k);
    else if (!qtype_info[t->type].ops)
        b->rc = err_set(b->e, ERR_UNSUPPORTED,
                        "%s: tensor %s has type %s, which cannot be computed with", path, name,
                        qtype_info[t->type].name);
    return b->rc == 0 ? t : NULL;
}

static struct tensor tensor_of(const struct tensor_info *t)
{
    return (struct tensor){
        .type = t->type, .n_out = t->dim[1], .k = t->dim[0], .data = t->data, .name = t->name};
}

/* A tensor that the backend is to bring into its form once all are bound; it must stay where it
 * is. */
static void add_tensor(struct binder *b, struct tensor *t)
{
    if (!vec_push(&b->m->tensor, t)) b->rc = err_memory(b->e, "the tensor list", sizeof t);
}

/* A vector as f32: used from the map where it is F32 and aligned, else converted into the model's
 * arena. */
static const float *vector(struct binder *b, const char *fmt, int il, int64_t n)
{
    const struct tensor_info *t = need(b, fmt, il, 1, n);
    if (!t) return NULL;
    if (t->type == QT_f32 && (uintptr_t)t->data % sizeof(float) == 0) return (const float *)t->data;
    float *v = arena_push(&b->m->arena, (size_t)n * sizeof *v, 64);
    if (v)
        qtype_info[t->type].ops->decode(v, t->data, n);
    else
        b->rc = err_memory(b->e, t->name, (unsigned long long)n * sizeof *v);
    return v;
}

void bind_linear(struct binder *b, struct linear *l, const char *fmt, int il, int64_t n_out,
                 int64_t k)
{
    const struct tensor_info *t = need(b, fmt, il, n_out, k);
    if (!t) return;
    l->w = tensor_of(t);
    add_tensor(b, &l->w);
    char bias[128];
    size_t stem = strlen(fmt) - strlen("weight");
    snprintf(bias, sizeof bias, "%.*sbias", (int)stem, fmt);
    l->bias = bind_has(b, bias, il) ? vector(b, bias, il, n_out) : NULL;
}

void bind_norm(struct binder *b, struct norm *n, const char *fmt, int il, int64_t size)
{
    *n = (struct norm){.g = vector(b, fmt, il, size), .eps = b->m->config.rms_eps, .n = (int)size};
}

static void bind_ends(struct binder *b)
{
    struct model *m = b->m;
    const struct tensor_info *embd = checkpoint_tensor(b->checkpoint, "token_embd.weight");
    if (!embd || embd->dim[1] > INT_MAX) {
        b->rc = err_set(b->e, ERR_MISSING, "%s: tensor token_embd.weight is missing",
                        checkpoint_path(b->checkpoint));
        return;
    }
    m->config.n_vocab = (int)embd->dim[1];
    embd = need(b, "token_embd.weight", 0, m->config.n_vocab, m->config.d);
    if (embd) m->embd = tensor_of(embd);
    add_tensor(b, &m->embd);
    bind_norm(b, &m->out_norm, "output_norm.weight", 0, m->config.d);
    bool tied =
        !bind_has(b, "output.weight", 0) || meta_bool(config_meta(b, "tie_word_embeddings"), false);
    if (tied) {
        m->head = (struct linear){.w = m->embd};
        add_tensor(b, &m->head.w);
    } else
        bind_linear(b, &m->head, "output.weight", 0, m->config.n_vocab, m->config.d);
    int d_rot = m->config.rope.d_rot;
    if (b->rc == 0 && bind_has(b, "rope_freqs.weight", 0))
        m->config.rope.freq_factor = vector(b, "rope_freqs.weight", 0, d_rot / 2);
}

static void bind_all(struct binder *b)
{
    struct model *m = b->m;
    bind_ends(b);
    m->layer_bytes = m->arch->layer_bytes;
    m->layer =
        b->rc == 0 ? arena_push0(&m->arena, (size_t)m->config.n_layer, m->layer_bytes) : NULL;
    if (b->rc == 0 && !m->layer)
        b->rc =
            err_memory(b->e, "the layers", (unsigned long long)m->config.n_layer * m->layer_bytes);
    for (int il = 0; il < m->config.n_layer && b->rc == 0; il++)
        m->arch->bind(b, (char *)m->layer + (size_t)il * m->layer_bytes, il);
    for (int i = 0; i < checkpoint_n_tensor(b->checkpoint) && b->rc == 0; i++) {
        const struct tensor_info *t = checkpoint_tensor_at(b->checkpoint, i);
        /* Rotary tables are recomputed; some old exports carry them along. */
        bool part = strncmp(t->name, "blk.", 4) == 0 && !strstr(t->name, "rot") &&
                    !strstr(t->name, "inv_freq");
        if (part && !b->bound[i])
            b->rc = err_set(b->e, ERR_UNSUPPORTED,
                            "%s: tensor %s is not part of architecture %s as quoth knows it",
                            checkpoint_path(b->checkpoint), t->name, m->arch->name);
    }
}

/* ---- memory ---- */

static void model_params(struct model *m)
{
    struct model_info *info = &m->info;
    const char *head =
        checkpoint_tensor(m->checkpoint, "output.weight") ? "output.weight" : "token_embd.weight";
    for (int i = 0; i < checkpoint_n_tensor(m->checkpoint); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(m->checkpoint, i);
        int64_t n = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
        info->n_param += n;
        info->weight_bytes += (int64_t)t->n_byte;
        if (strcmp(t->name, head) == 0) {
            info->head_bytes = (int64_t)t->n_byte;
            info->head_macs = n;
        } else if (strncmp(t->name, "blk.", 4) == 0 && t->n_dim > 1) {
            info->layer_bytes += (int64_t)t->n_byte;
            info->layer_macs += n;
        }
    }
}

static struct kv_geometry *geometry(struct model *m)
{
    struct kv_geometry *g = arena_push0(&m->arena, (size_t)m->config.n_layer, sizeof *g);
    for (int i = 0; g && i < m->config.n_layer; i++)
        g[i] = (struct kv_geometry){m->config.n_head_kv, m->config.d_head, m->config.d_head};
    return g;
}

/* The longest sequence: as asked, or the model's own, halved until its KV fits into half of the
 * free memory. */
static int choose_context(const struct model *m, int asked, int64_t token_bytes)
{
    int n = asked > 0 ? asked : m->config.context_train;
    uint64_t room = os_memory_free() / 2;
    while (asked <= 0 && n > 512 && (uint64_t)n * (uint64_t)token_bytes > room) n /= 2;
    return n;
}

/* What memory_utilization leaves for pages: of the machine's memory (or the control group's) less
 * the device's form of the weights, activations, and what else runs in this process already. */
static int64_t kv_room(const struct model *m, const struct model_options *o)
{
    double all = (double)os_memory_bytes() * o->memory_utilization;
    double taken =
        (double)m->info.weights.n_byte + (double)m->info.scratch_bytes + (double)o->swap_bytes;
    return all > taken ? (int64_t)(all - taken) : 0;
}

/* Pages for n_longest sequences of `stride` pages each, or what fits. */
static int64_t pages_of_longest(int stride, int n_longest, int64_t page_bytes)
{
    int64_t n = (int64_t)stride * (n_longest > 1 ? n_longest : 1),
            most = (int64_t)(os_memory_free() / 2) / page_bytes;
    if (n > most) n = most;
    return n > stride ? n : stride;
}

/* Slots are numbered in 32 bits. */
static int choose_pages(const struct model *m, const struct model_options *o, int stride,
                        int page_rows)
{
    int64_t bytes = m->info.page_bytes, n = o->n_page, most = INT32_MAX / page_rows;
    if (n == 0 && o->kv_bytes)
        n = o->kv_bytes / bytes;
    else if (n == 0 && o->memory_utilization > 0)
        n = kv_room(m, o) / bytes;
    else if (n == 0)
        n = pages_of_longest(stride, o->n_longest, bytes);
    return n < 1 ? 1 : n > most ? (int)most : (int)n;
}

/* Copies of a step: each sequence's copy on write, and one sequence's pages swapped out and in. */
static void choose_copies(struct batch_limits *l, bool swap)
{
    if (l->n_copy == 0) l->n_copy = l->n_seq + (swap ? 2 * l->page_stride : 0);
}

static int plan_scratch(struct model *m, struct err *e)
{
    const struct config *c = &m->config;
    int64_t n_float = forward_scratch_floats(c, &m->limits);
    m->scratch = m->backend->op->alloc(m->backend, (size_t)n_float * sizeof(float));
    if (!m->scratch)
        return err_memory(e, "activations", (unsigned long long)n_float * sizeof(float));
    m->info.scratch_bytes = n_float * (int64_t)sizeof(float);
    int64_t k_max = c->d > c->d_ff ? c->d : c->d_ff, d_q = (int64_t)c->n_head * c->d_head;
    return m->backend->op->reserve(
        m->backend, m->limits.n_row > m->limits.n_out ? m->limits.n_row : m->limits.n_out,
        k_max > d_q ? k_max : d_q, c->d_head, c->n_head / c->n_head_kv, e);
}

static int plan_pages(struct model *m, const struct model_options *o, const struct kv_geometry *g,
                      int page_rows, struct err *e)
{
    struct model_info *i = &m->info;
    i->n_page = choose_pages(m, o, m->limits.page_stride, page_rows);
    if ((uint64_t)i->n_page * (uint64_t)i->page_bytes > os_memory_bytes())
        return err_set(e, ERR_LIMIT,
                       "the KV cache would take %.1f GiB and this machine has %.1f: lower "
                       "--kv-cache-memory or --num-gpu-blocks-override",
                       (double)i->n_page * (double)i->page_bytes / 1073741824.0,
                       (double)os_memory_bytes() / 1073741824.0);
    int rc = kv_store_open(&m->kv, m->backend, g, m->config.n_layer, o->kv_type, page_rows,
                           i->n_page, e);
    i->n_host_page = (int)(o->swap_bytes / i->page_bytes);
    if (rc == 0) rc = kv_store_spill(&m->kv, i->n_host_page, e);
    i->kv_bytes = m->kv.n_byte;
    i->swap_bytes = i->n_host_page * i->page_bytes;
    i->page_rows = page_rows;
    i->kv_type = o->kv_type;
    return rc;
}

static int plan(struct model *m, const struct model_options *o, struct err *e)
{
    const struct config *c = &m->config;
    int page_rows = o->page_rows ? o->page_rows : 32;
    struct kv_geometry *g = geometry(m);
    if (!g) return err_memory(e, "the KV geometry", (unsigned long long)c->n_layer * sizeof *g);
    m->info.page_bytes = kv_store_bytes_per_page(g, c->n_layer, o->kv_type, page_rows);
    m->info.kv_token_bytes = m->info.page_bytes / page_rows;
    m->info.context_max = choose_context(m, o->context_max, m->info.kv_token_bytes);
    if (o->context_max <= 0 && m->info.context_max < c->context_train)
        log_warn("the context is %d tokens, not the model's %d, to fit into memory; "
                 "--max-model-len sets it",
                 m->info.context_max, c->context_train);
    m->limits = o->batch;
    m->limits.page_stride = (m->info.context_max + page_rows - 1) / page_rows;
    choose_copies(&m->limits, o->swap_bytes > 0);
    int rc = plan_scratch(m, e);
    if (rc == 0) rc = rope_open(m, m->info.context_max, e);
    if (rc == 0) rc = plan_pages(m, o, g, page_rows, e);
    return rc;
}

static void describe(struct model *m)
{
    const struct config *c = &m->config;
    struct model_info *i = &m->info;
    const char *name = meta_text(checkpoint_meta(m->checkpoint, "general.name"), NULL);
    const char *slash = strrchr(checkpoint_path(m->checkpoint), '/');
    i->arch = m->arch->name;
    i->name = name && *name ? name : slash && slash[1] ? slash + 1 : checkpoint_path(m->checkpoint);
    i->n_layer = c->n_layer, i->d_model = c->d, i->d_ff = c->d_ff;
    i->n_head = c->n_head, i->n_head_kv = c->n_head_kv, i->d_head = c->d_head;
    i->n_vocab = c->n_vocab, i->context_train = c->context_train;
    for (int il = 0; il < c->n_layer; il++)
        if (c->layer[il].window > i->window) i->window = c->layer[il].window;
    i->window_all = i->window;
    for (int il = 0; il < c->n_layer; il++)
        if (c->layer[il].window == 0) i->window_all = 0;
}

/* ---- open and close ---- */

static const struct arch *const arches[] = {
#define ARCH(id) &arch_##id,
#include "arch/arch.def"
#undef ARCH
};

static int choose_arch(struct model *m, const char **prefix, struct err *e)
{
    size_t n, n_arch = sizeof arches / sizeof arches[0];
    const char *path = checkpoint_path(m->checkpoint);
    *prefix = meta_text(checkpoint_meta(m->checkpoint, "general.architecture"), &n);
    if (!*prefix)
        return err_set(e, ERR_MISSING, "%s: metadata general.architecture is missing", path);
    for (size_t i = 0; i < n_arch; i++)
        if (strcmp(arches[i]->name, *prefix) == 0) m->arch = arches[i];
    if (m->arch) return 0;
    char list[256] = "";
    for (size_t i = 0; i < n_arch; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", arches[i]->name);
    }
    return err_set(e, ERR_UNSUPPORTED, "%s: architecture \"%.60s\" is not supported; quoth runs %s",
                   path, *prefix, list);
}

/* Everything before the weights change their form. */
static int bind_model(struct model *m, struct err *e)
{
    const struct checkpoint *c = m->checkpoint;
    struct binder b = {.m = m, .checkpoint = c, .e = e};
    b.rc = choose_arch(m, &b.prefix, e);
    b.bound = b.rc == 0 ? calloc((size_t)checkpoint_n_tensor(c) + 1, 1) : NULL;
    if (b.rc == 0 && !b.bound)
        b.rc = err_memory(e, "the tensor list", (unsigned long long)checkpoint_n_tensor(c));
    if (b.rc == 0) config_read(&b);
    if (b.rc == 0) bind_all(&b);
    free(b.bound);
    return b.rc;
}

/* What comes from no file has no key, and is not kept. */
static struct weights_options weights_options(const struct model *m, const struct model_options *o)
{
    struct weights_options w = o->weights;
    if (!checkpoint_key(m->checkpoint, w.key)) w.cache = NULL;
    return w;
}

static int pack_weights(struct model *m, const struct model_options *o, struct err *e)
{
    struct weights_options w = weights_options(m, o);
    int rc = m->backend->op->weights(m->backend, &m->weights, m->tensor.v, (int)m->tensor.n, &w,
                                     &m->info.weights, e);
    enum weights_how how = m->info.weights.how;
    if (rc == 0 && (how == WEIGHTS_PACKED || how == WEIGHTS_KEPT)) checkpoint_forget(m->checkpoint);
    return rc;
}

static int new_model(struct model **out, const struct checkpoint *c, struct backend *b,
                     struct err *e)
{
    struct model *m = *out = calloc(1, sizeof *m);
    if (!m) return err_memory(e, "the model", sizeof *m);
    m->checkpoint = c;
    m->backend = b;
    return bind_model(m, e);
}

int model_open(struct model **out, const struct checkpoint *c, const struct model_options *o,
               struct err *e)
{
    int rc = new_model(out, c, o->backend, e);
    if (rc == 0) rc = pack_weights(*out, o, e);
    if (rc == 0) rc = plan(*out, o, e);
    if (rc == 0) {
        model_params(*out);
        describe(*out);
        return 0;
    }
    model_close(*out);
    *out = NULL;
    return rc;
}

int model_verify(const struct checkpoint *c, const struct model_options *o, model_verdict_fn *tell,
                 void *ctx, struct err *e)
{
    struct model *m;
    int rc = new_model(&m, c, o->backend, e), n = rc == 0 ? (int)m->tensor.n : 0;
    enum weights_verdict *verdict = calloc((size_t)n + 1, sizeof *verdict);
    if (rc == 0 && !verdict) rc = err_memory(e, "verdicts", (size_t)n * sizeof *verdict);
    if (rc == 0) {
        struct weights_options w = weights_options(m, o);
        rc = w.cache
                 ? m->backend->op->weights_verify(m->backend, verdict, m->tensor.v, n, &w, e)
                 : err_set(e, ERR_MISSING, "packed weights of %s are not kept", checkpoint_path(c));
    }
    for (int i = 0; i < n && rc == 0; i++) tell(ctx, m->tensor.v[i]->name, verdict[i]);
    free(verdict);
    model_close(m);
    return rc;
}

void model_touch_pages(struct model *m)
{
    kv_store_reach(&m->kv, m->kv.n_page - 1);
}

void model_close(struct model *m)
{
    if (!m) return;
    kv_store_close(&m->kv);
    m->backend->op->weights_close(m->backend, m->weights);
    vec_deinit(&m->tensor);
    if (m->scratch) m->backend->op->release(m->backend, m->scratch, (size_t)m->info.scratch_bytes);
    arena_deinit(&m->arena);
    free(m);
}

const struct model_info *model_info(const struct model *m)
{
    return &m->info;
}

const struct batch_limits *model_batch_limits(const struct model *m)
{
    return &m->limits;
}

void model_trace(struct model *m, trace_fn *fn, void *ctx)
{
    m->trace = fn;
    m->trace_ctx = ctx;
}
