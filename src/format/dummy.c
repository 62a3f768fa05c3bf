/* dummy.c - models of random weights, as with vLLM's --load-format dummy. These models allow
 * measurements and tests with any shape and number format, without a download.
 *
 *   --shape NAME        dummy_shape.def -> struct shape -> metadata, tensors of a GGUF
 *   folder              metadata unchanged; the caller lists the tensors (dummy_request)
 *   GGUF or its view    metadata and tensor list unchanged
 *
 * The next steps are a type for each tensor (quant_mix.c), the tokenizer (dummy_vocab.c) and the
 * bytes (dummy_data.c). The values of matrices have the normal distribution N(0, 1/k), so that the
 * outputs of a layer are about as large as its inputs. The weights of norms are 1. The rope scaling
 * of llama 3.1 becomes the tensor rope_freqs, as in GGUF. */
#include "format_impl.h"

#include "base/check.h"
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
};

static const struct shape shapes[] = {
#define SHAPE(...) {__VA_ARGS__},
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
    bool mixed; /* true: a mix or a format replaces the types; false: tensors keep their types */
    struct err *e;
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

/* ---- tensors ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Return the value of "ARCH.key" for the checkpoint's architecture; NULL if none. */
static const struct meta *arch_meta(const struct checkpoint *c, const char *key)
{
    char full[160];
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    snprintf(full, sizeof full, "%s.%s", arch, key);
    return checkpoint_meta(c, full);
}

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

/* Return a size of tensors.def, in values. Named shapes have no other sizes. */
static int64_t size_of(const struct shape *s, enum tensor_size size)
{
    const int64_t n[SIZE_COUNT] = {
        [SIZE_ONE] = 1,
        [SIZE_D] = s->d,
        [SIZE_D_FF] = s->d_ff,
        [SIZE_D_HEAD] = s->d_head,
        [SIZE_D_Q] = (int64_t)s->n_head * s->d_head,
        [SIZE_D_KV] = (int64_t)s->n_head_kv * s->d_head,
        [SIZE_N_VOCAB] = s->n_vocab,
    };
    CHECK(n[size] > 0, "size %d of shape %s", (int)size, s->name);
    return n[size];
}

/* Add a row of the architecture's table. Vectors and biases are F32. Matrices are BF16 unless the
 * mix has another type. */
static int add_row(struct dummy_maker *m, const struct tensor_row *row, int il)
{
    const struct shape *s = &m->shape;
    char stem[64], name[80];
    /* the name is from tensors.def and has at most one %d */
    snprintf(stem, sizeof stem, row->name, il);
    snprintf(name, sizeof name, "%s.%s", stem, row->bias ? "bias" : "weight");
    const bool vector = row->n_out == SIZE_ONE;
    struct tensor_info t = {.name = name,
                            .name_raw = name,
                            .type = vector ? QT_f32 : QT_bf16,
                            .n_dim = vector ? 1 : 2,
                            .dim = {size_of(s, row->k), size_of(s, row->n_out), 1, 1}};
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

/* Return true if the shape has the tensor: neither a mixture nor a tensor of some files, and no
 * head if the head is the embedding. */
static bool has_row(const struct shape *s, const struct tensor_row *row)
{
    return !row->some && row->n_part == SIZE_ONE && row->n_out != SIZE_N_EXPERT &&
           !(s->tied && strcmp(row->name, "output") == 0);
}

/* Add the rows of the table in this order: rows before the layers, rows of each layer, rows after
 * the layers. */
static int add_tensors(struct dummy_maker *m)
{
    int rc = 0, n, first = 0;
    const struct shape *s = &m->shape;
    const struct tensor_row *row = tensor_rows(s->arch, &n);
    for (; !of_layer(&row[first]) && rc == 0; first++)
        if (has_row(s, &row[first])) rc = add_row(m, &row[first], 0);
    if (rc == 0 && s->rope_factor > 0) rc = add_rope_freqs(m);
    int end = first;
    while (end < n && of_layer(&row[end])) end++;
    for (int il = 0; il < s->n_layer; il++)
        for (int k = first; k < end && rc == 0; k++)
            if (has_row(s, &row[k])) rc = add_row(m, &row[k], il);
    for (int k = end; k < n && rc == 0; k++)
        if (has_row(s, &row[k])) rc = add_row(m, &row[k], 0);
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

/* Copy the values of a table of a view, because the view makes them at each request. */
static int take_table(struct dummy_maker *m, const struct checkpoint *view, int i,
                      struct tensor_info *t)
{
    int rc = 0;
    const uint8_t *made = view->make(view->make_ctx, i, &rc, m->e);
    uint8_t *own = rc == 0 ? arena_push(&m->c->arena, t->n_byte, 64) : NULL;
    if (own) memcpy(own, made, t->n_byte);
    t->data = own;
    return rc == 0 && !own ? err_memory(m->e, t->name, t->n_byte) : rc;
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
        const bool table = begins(t.name, "rope_");
        if (!table) t.data = NULL;
        if (table && g->make) rc = take_table(m, g, (int)i, &t);
        t.file = 0;
        if (rc == 0) rc = add_tensor(m, &t, &about);
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
    CHECK(m->o->tensors, "%s: no function lists the tensors", c->path);
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
    if (m->o->view) return take_gguf(m, m->o->view);
    if (!dir_exists(m->o->model)) return fill_from_gguf(m);
    return fill_listed(m);
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
