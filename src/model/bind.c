/* bind.c - a checkpoint's tensors become an architecture's weights.
 *
 * Nothing here trusts the file: the architecture's table (format/tensors.def) gives the shape of
 * each tensor. A tensor that is neither bound nor listed in left_out.def is rejected, because a
 * model computed without one of its parts would be silently wrong. Blocks also reserve their
 * scratch here. Every tensor is looked up by name once: linear time. */
#include "model_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- tensors ---- */

static const struct tensor_info *find(const struct binder *b, const char *name)
{
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
    if (t) b->bound[t - checkpoint_tensor_at(b->checkpoint, 0)] = 1;
    return t;
}

/* Write stem, with its layer number, and suffix to out. */
static void name_of(char out[160], const char *stem, int il, const char *suffix)
{
    char layer[96];
    snprintf(layer, sizeof layer, stem, il); /* check: stem is our literal, with at most one %d */
    snprintf(out, 160, "%s.%s", layer, suffix);
}

static const struct tensor_info *need(struct binder *b, const char *name, int64_t n_out, int64_t k)
{
    if (b->rc != 0) return NULL;
    const struct tensor_info *t = find(b, name);
    const char *path = checkpoint_path(b->checkpoint);
    if (!t)
        b->rc = err_set(b->e, ERR_MISSING, "%s: tensor %s is missing", path, name);
    else if (t->dim[2] != 1 || t->dim[3] != 1)
        b->rc = err_set(b->e, ERR_FORMAT, "%s: tensor %s has %d dimensions, expected at most 2",
                        path, name, t->n_dim);
    else if (t->dim[0] != k || t->dim[1] != n_out)
        b->rc = err_set(b->e, ERR_FORMAT, "%s: tensor %s is [%lld, %lld], expected [%lld, %lld]",
                        path, name, (long long)t->dim[1], (long long)t->dim[0], (long long)n_out,
                        (long long)k);
    else if (!qtype_info[t->type].ops)
        b->rc = err_set(b->e, ERR_UNSUPPORTED, "%s: tensor %s has type %s: not supported yet", path,
                        name, qtype_info[t->type].name);
    return b->rc == 0 ? t : NULL;
}

static struct tensor tensor_of(const struct tensor_info *t)
{
    return (struct tensor){
        .type = t->type, .n_out = t->dim[1], .k = t->dim[0], .data = t->data, .name = t->name};
}

/* Add a tensor to the list that the backend packs after binding; t must stay at its address. */
static void add_tensor(struct binder *b, struct tensor *t)
{
    if (!vec_push(&b->m->tensor, t)) b->rc = err_memory(b->e, "the tensor list", sizeof t);
}

/* ---- the architecture's table ---- */

static int64_t size_of(const struct binder *b, enum tensor_size size, int il)
{
    const struct config *c = &b->m->config;
    const struct layer_config *l = &c->layer[il < 0 ? 0 : il];
    switch (size) {
    case SIZE_ONE:
        return 1;
    case SIZE_D:
        return c->d;
    case SIZE_D_FF:
        return l->d_ff;
    case SIZE_D_HEAD:
        return l->d_head;
    case SIZE_D_Q:
        return (int64_t)l->n_head * l->d_head;
    case SIZE_D_KV:
        return (int64_t)l->n_head_kv * l->d_head;
    case SIZE_N_VOCAB:
        return c->n_vocab;
    case SIZE_N_EXPERT:
        return l->n_expert;
    case SIZE_D_EXPERT:
        return l->d_expert;
    }
    return 0;
}

static const struct tensor_row *row_of(struct binder *b, const char *stem)
{
    for (int i = 0; i < b->n_row; i++)
        if (!b->row[i].bias && strcmp(b->row[i].name, stem) == 0) return &b->row[i];
    if (b->rc == 0)
        b->rc = err_set(b->e, ERR_UNSUPPORTED, "%s: the table of %s has no tensor %s",
                        checkpoint_path(b->checkpoint), b->m->arch->name, stem);
    return NULL;
}

/* ---- weights ---- */

/* Return a vector as f32 in the model's arena, so that no file map is needed after packing. `add`
 * is added to each value. */
static const float *vector(struct binder *b, const char *name, int64_t n, float add)
{
    const struct tensor_info *t = need(b, name, 1, n);
    if (!t) return NULL;
    float *v = arena_push(&b->m->arena, (size_t)n * sizeof *v, 64);
    if (!v) {
        b->rc = err_memory(b->e, t->name, (unsigned long long)n * sizeof *v);
        return NULL;
    }
    qtype_info[t->type].ops->decode(v, t->data, n);
    for (int64_t i = 0; i < n && add != 0; i++) v[i] += add;
    return v;
}

/* Register the vector at *at, f32 [n], for copying to the device. at must stay valid. */
static void add_vector(struct binder *b, const float **at, int64_t n)
{
    if (b->rc == 0 && !vec_push(&b->m->vector, ((struct vector){at, n})))
        b->rc = err_memory(b->e, "the list of vectors", sizeof(struct vector));
}

const float *bind_extra(struct binder *b, const char *name, int64_t n)
{
    return checkpoint_tensor(b->checkpoint, name) ? vector(b, name, n, 0) : NULL;
}

/* Return f32 scales of 8-bit floats, [n, m]: from the map if they are f32, else converted. */
static const uint8_t *scales(struct binder *b, const char *name, int64_t n, int64_t m)
{
    const struct tensor_info *t = need(b, name, n, m);
    if (!t || t->type == QT_f32) return t ? t->data : NULL;
    float *v = arena_push(&b->m->arena, (size_t)(n * m) * sizeof *v, 64);
    if (v)
        qtype_info[t->type].ops->decode(v, t->data, n * m);
    else
        b->rc = err_memory(b->e, t->name, (unsigned long long)(n * m) * sizeof *v);
    return (const uint8_t *)v;
}

/* Return whether a matrix is 8-bit floats with scales. The config states it for all weights of the
 * type. */
static bool is_scaled(const struct binder *b, const struct tensor_info *t)
{
    return b->m->config.scale_out > 0 && t->type == QT_f8_e4m3;
}

/* Describe in p how the matrix t, stem.EXPERTweight, is stored. Returns the type that it is
 * computed with. */
static enum qtype published(struct binder *b, struct published *p, const struct tensor_info *t,
                            const char *stem, int il, const char *expert)
{
    const struct config *c = &b->m->config;
    *p = (struct published){.form = FORM_ROWS, .part = {t->data}};
    if (!is_scaled(b, t)) return t->type;
    char name[160], suffix[48];
    snprintf(suffix, sizeof suffix, "%sweight_scale_inv", expert);
    name_of(name, stem, il, suffix);
    p->form = FORM_SCALED;
    p->code = t->type;
    p->block_out = c->scale_out, p->block_k = c->scale_k;
    p->part[PART_SCALES] = scales(b, name, (t->dim[1] + c->scale_out - 1) / c->scale_out,
                                  (t->dim[0] + c->scale_k - 1) / c->scale_k);
    return QT_f32;
}

void bind_linear(struct binder *b, struct linear *l, const char *stem, int il, enum bias bias)
{
    char name[160];
    const struct tensor_row *row = row_of(b, stem);
    if (!row) return;
    name_of(name, stem, il, "weight");
    const int64_t n_out = size_of(b, row->n_out, il), k = size_of(b, row->k, il);
    const struct tensor_info *t = need(b, name, n_out, k);
    if (!t) return;
    l->w = tensor_of(t);
    if (is_scaled(b, t)) {
        struct published *from = arena_push0(&b->m->arena, 1, sizeof *from);
        if (!from) b->rc = err_memory(b->e, t->name, sizeof *from);
        if (from) l->w.type = published(b, from, t, stem, il, "");
        l->w.from = from;
    }
    add_tensor(b, &l->w);
    if (k > b->m->k_max) b->m->k_max = k;
    name_of(name, stem, il, "bias");
    if (bias == BIAS_NEEDED || (bias == BIAS_HELD && checkpoint_tensor(b->checkpoint, name))) {
        l->bias = vector(b, name, n_out, 0);
        add_vector(b, &l->bias, n_out);
    }
}

/* Bind one tensor with an expert dimension. */
static void stacked(struct binder *b, struct tensor *w, const struct tensor_info *t, int64_t n_out,
                    int64_t k, int64_t n_expert)
{
    b->bound[t - checkpoint_tensor_at(b->checkpoint, 0)] = 1;
    const char *path = checkpoint_path(b->checkpoint);
    if (t->dim[0] != k || t->dim[1] != n_out || t->dim[2] != n_expert || t->dim[3] != 1)
        b->rc = err_set(b->e, ERR_FORMAT,
                        "%s: tensor %s is [%lld, %lld, %lld], expected [%lld, %lld, %lld]", path,
                        t->name, (long long)t->dim[2], (long long)t->dim[1], (long long)t->dim[0],
                        (long long)n_expert, (long long)n_out, (long long)k);
    else if (!qtype_info[t->type].ops)
        b->rc = err_set(b->e, ERR_UNSUPPORTED, "%s: tensor %s has type %s: not supported yet", path,
                        t->name, qtype_info[t->type].name);
    *w = tensor_of(t);
}

/* Bind one tensor per expert, all of one type. */
static void listed(struct binder *b, struct tensor *w, const char *stem, int il, int64_t n_out,
                   int64_t k, int64_t n_expert)
{
    struct published *from = arena_push0(&b->m->arena, (size_t)n_expert, sizeof *from);
    if (!from) b->rc = err_memory(b->e, "the experts", (size_t)n_expert * sizeof *from);
    for (int e = 0; e < n_expert && b->rc == 0; e++) {
        char expert[16], suffix[32], name[160];
        snprintf(expert, sizeof expert, "%d.", e);
        snprintf(suffix, sizeof suffix, "%sweight", expert);
        name_of(name, stem, il, suffix);
        const struct tensor_info *t = need(b, name, n_out, k);
        if (!t) return;
        const enum qtype type = published(b, &from[e], t, stem, il, expert);
        if (e == 0)
            *w = tensor_of(t), w->type = type;
        else if (type != w->type)
            b->rc = err_set(b->e, ERR_UNSUPPORTED, "%s: tensor %s has type %s, expected %s as %s",
                            checkpoint_path(b->checkpoint), name, qtype_info[t->type].name,
                            qtype_info[w->type].name, w->name);
    }
    w->from = from;
}

void bind_experts(struct binder *b, struct linear *l, const char *stem, int il)
{
    char name[160];
    const struct tensor_row *row = row_of(b, stem);
    if (!row || b->rc != 0) return;
    const int64_t n_out = size_of(b, row->n_out, il), k = size_of(b, row->k, il),
                  n_expert = size_of(b, row->n_expert, il);
    name_of(name, stem, il, "weight");
    if (n_expert * n_out > INT32_MAX) {
        b->rc =
            err_set(b->e, ERR_LIMIT, "%s: tensor %s: %lld experts of %lld rows are too many",
                    checkpoint_path(b->checkpoint), name, (long long)n_expert, (long long)n_out);
        return;
    }
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
    if (t)
        stacked(b, &l->w, t, n_out, k, n_expert);
    else
        listed(b, &l->w, stem, il, n_out, k, n_expert);
    l->w.n_expert = (int)n_expert;
    if (b->rc == 0) add_tensor(b, &l->w);
    if (k > b->m->k_max) b->m->k_max = k;
}

void bind_norm(struct binder *b, struct norm *n, const char *stem, int il)
{
    char name[160];
    const struct tensor_row *row = row_of(b, stem);
    if (!row) return;
    const struct config *c = &b->m->config;
    const int64_t size = size_of(b, row->k, il);
    name_of(name, stem, il, "weight");
    *n = (struct norm){.g = vector(b, name, size, c->norm_add), .eps = c->rms_eps, .n = (int)size};
    add_vector(b, &n->g, size);
}

void bind_table(struct binder *b, struct tensor *t, const char *stem)
{
    char name[160];
    const struct tensor_row *row = row_of(b, stem);
    if (!row) return;
    name_of(name, stem, -1, "weight");
    const struct tensor_info *info = need(b, name, size_of(b, row->n_out, -1), b->m->config.d);
    if (!info) return;
    *t = tensor_of(info);
    add_tensor(b, t);
}

void bind_tied(struct binder *b, struct linear *l, const struct tensor *t)
{
    *l = (struct linear){.w = *t};
    add_tensor(b, &l->w);
    if (t->k > b->m->k_max) b->m->k_max = t->k;
}

/* ---- scratch ---- */

static int want(struct binder *b, const char *name, int64_t per_row, int64_t per_out, int64_t fixed)
{
    size_t i = 0;
    while (i < b->m->scratch.n && strcmp(b->m->scratch.v[i].name, name) != 0) i++;
    if (i == b->m->scratch.n && !vec_push(&b->m->scratch, (struct scratch){.name = name})) {
        b->rc = err_memory(b->e, "the list of activations", sizeof(struct scratch));
        return 0;
    }
    struct scratch *s = &b->m->scratch.v[i];
    if (per_row > s->per_row) s->per_row = per_row;
    if (per_out > s->per_out) s->per_out = per_out;
    if (fixed > s->fixed) s->fixed = fixed;
    return (int)i;
}

int bind_rows(struct binder *b, const char *name, int64_t per_row)
{
    return want(b, name, per_row, 0, 0);
}

int bind_outputs(struct binder *b, const char *name, int64_t per_out)
{
    return want(b, name, 0, per_out, 0);
}

int bind_fixed(struct binder *b, const char *name, int64_t n)
{
    return want(b, name, 0, 0, n);
}

/* ---- all ---- */

/* Return whether a tensor is never computed with: rotary tables in some old exports. */
static bool left_out(const char *name)
{
    static const char *const end[] = {
#define LEFT_OUT(end) end,
#include "left_out.def"
#undef LEFT_OUT
    };
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof end / sizeof end[0]; i++)
        if (n >= strlen(end[i]) && strcmp(name + n - strlen(end[i]), end[i]) == 0) return true;
    return false;
}

static void check_tensors(struct binder *b)
{
    for (int i = 0; i < checkpoint_n_tensor(b->checkpoint) && b->rc == 0; i++) {
        const struct tensor_info *t = checkpoint_tensor_at(b->checkpoint, i);
        if (!b->bound[i] && !left_out(t->name))
            b->rc = err_set(b->e, ERR_UNSUPPORTED,
                            "%s: tensor %s: not supported yet in architecture %s%s",
                            checkpoint_path(b->checkpoint), t->name_raw, b->m->arch->name,
                            strstr(t->name, "bias") ? " with this configuration" : "");
    }
}

static void *push_bound(struct binder *b, const char *what, size_t n, size_t n_byte)
{
    void *p = b->rc == 0 ? arena_push0(&b->m->arena, n, n_byte) : NULL;
    if (b->rc == 0 && !p) b->rc = err_memory(b->e, what, (unsigned long long)n * n_byte);
    return p;
}

void bind_all(struct binder *b)
{
    struct model *m = b->m;
    const struct arch *arch = m->arch;
    const size_t n_layer = (size_t)m->config.n_layer;
    b->row = tensor_rows(arch->name, &b->n_row);
    m->layer_bytes = arch->layer_bytes;
    m->ends = push_bound(b, "the ends", 1, arch->ends_bytes);
    m->layer = push_bound(b, "the layers", n_layer, arch->layer_bytes);
    m->kv_geometry = push_bound(b, "the KV geometry", n_layer, sizeof *m->kv_geometry);
    m->at_x = bind_rows(b, "x", m->config.d);
    m->at_h = bind_rows(b, "h", m->config.d);
    m->at_y = bind_rows(b, "y", m->config.d);
    if (b->rc == 0) arch->bind_ends(b, m->ends);
    for (int il = 0; il < m->config.n_layer && b->rc == 0; il++)
        arch->bind(b, (char *)m->layer + (size_t)il * m->layer_bytes, il);
    check_tensors(b);
}
