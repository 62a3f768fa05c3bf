/* bind.c - conversion of a checkpoint's tensors to an architecture's weights.
 *
 * All names and shapes in the file are checked. The architecture's table (format/tensors.def) gives
 * the shape of each tensor. A tensor that is neither bound nor listed in left_out.def is rejected.
 * A model that ignores a tensor may give wrong results without an error. Blocks reserve scratch
 * with functions of bind.c. Every tensor is looked up once by its name.
 *
 *   table     {"blk.%d.attn_q", [D_Q, D]}      format/tensors.def
 *   file      blk.3.attn_q.weight [4096, 4096]
 *   result    struct linear: tensor [n_out, k] and bias f32 [n_out]
 *
 * b->rc keeps the first error. After an error every function has no effect and returns a harmless
 * value. Callers check b->rc once at the end.
 *
 * Matrices of three forms become a struct linear:
 *
 *   plain rows of a number format          a pointer into the file's map
 *   rows in another place or order         struct placed: part of a fused or transposed matrix
 *   codes and scales (GPTQ, AWQ, FP8 ...)  struct published, read by packing (form/)
 *
 * A pointer into the map is valid until the weights are packed. Vectors are small, and are copied
 * as f32 into the model's arena. */
#include "model_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ---- */

/* The tensor is marked even if the caller then rejects it. */
const struct tensor_info *bind_find(const struct binder *b, const char *name)
{
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
    if (t) b->bound[t - checkpoint_tensor_at(b->checkpoint, 0)] = 1;
    return t;
}

/* Return the prefix that names of tensors.def have in the part of the model that is being bound. */
static const char *stem_prefix(const struct binder *b, const char *stem)
{
    const size_t n = strlen(b->part);
    for (int i = 0; i < b->n_row && n > 0; i++)
        if (strncmp(b->row[i].name, b->part, n) == 0 && strcmp(b->row[i].name + n, stem) == 0)
            return b->part;
    return "";
}

void bind_name(const struct binder *b, char out[160], const char *stem, int il, const char *suffix)
{
    char layer[96];
    /* check: stem is a literal of quoth with at most one %d */
    snprintf(layer, sizeof layer, stem, il - b->layer0);
    snprintf(out, 160, "%s%s.%s", stem_prefix(b, stem), layer, suffix);
}

/* Return the tensor [n_out, k]. values: true if it is not a matrix of a linear layer. NULL after an
 * error: ERR_MISSING, ERR_FORMAT for another shape, ERR_UNSUPPORTED for a type without
 * arithmetic. */
static const struct tensor_info *need(struct binder *b, const char *name, int64_t n_out, int64_t k,
                                      bool values)
{
    if (b->rc != 0) return NULL;
    const struct tensor_info *t = bind_find(b, name);
    if (!t) t = random_tensor(b, name, 1, n_out, k, values);
    if (b->rc != 0) return NULL;
    if (!t)
        bind_missing(b, name);
    else if (t->dim[2] != 1 || t->dim[3] != 1)
        bind_refuse(b, t, ERR_FORMAT, ": must have at most 2 dimensions, got %d", t->n_dim);
    else if (t->dim[0] != k || t->dim[1] != n_out)
        bind_wrong_shape(b, t, 1, n_out, k);
    else if (!qtype_info[t->type].ops)
        bind_refuse(b, t, ERR_UNSUPPORTED, " has type %s: not supported yet",
                    qtype_info[t->type].name);
    return b->rc == 0 ? t : NULL;
}

/* Return the tensor. Until packing, its data is borrowed from the file. */
static struct tensor tensor_of(const struct tensor_info *t)
{
    return (struct tensor){
        .type = t->type, .n_out = t->dim[1], .k = t->dim[0], .data = t->data, .name = t->name};
}

/* Add a tensor to the list of tensors that the backend packs. The address t must remain valid. */
static void add_tensor(struct binder *b, struct tensor *t)
{
    t->number = (int)b->m->tensor.n;
    if (!vec_push(&b->m->tensor, t)) b->rc = err_memory(b->e, "the tensor list", sizeof t);
}

/* ---- the architecture's table ---- */

int64_t bind_size(const struct binder *b, enum tensor_size size, int il)
{
    const struct config *c = &b->m->config;
    const struct layer_config *l = &c->layer[il < 0 ? 0 : il];
    switch (size) {
    case SIZE_ONE:
        return 1;
    case SIZE_D:
        return c->d;
    case SIZE_D_EMBD:
        return c->d_embd;
    case SIZE_D_FF:
        return l->d_ff;
    case SIZE_D_FF_2:
        return 2 * (int64_t)l->d_ff;
    case SIZE_D_HEAD:
        return l->d_head;
    case SIZE_D_Q:
        return (int64_t)l->n_head * l->d_head;
    case SIZE_D_Q_2:
        return 2 * (int64_t)l->n_head * l->d_head;
    case SIZE_D_KV:
        return (int64_t)l->n_head_kv * l->d_head;
    case SIZE_D_QKV:
        return (int64_t)(l->n_head + 2 * l->n_head_kv) * l->d_head;
    case SIZE_N_VOCAB:
        return c->n_vocab;
    case SIZE_N_POSITION:
        return c->n_position;
    case SIZE_N_SEGMENT:
        return c->n_segment;
    case SIZE_N_LABEL:
        return c->n_label;
    case SIZE_N_EXPERT:
        return l->n_expert;
    case SIZE_D_EXPERT:
        return l->d_expert;
    case SIZE_D_SHARED:
        return l->d_shared;
    case SIZE_D_SHARED_2:
        return 2 * (int64_t)l->d_shared;
    case SIZE_D_EXPERT_2:
        return 2 * (int64_t)l->d_expert;
    case SIZE_D_LATENT:
        return l->d_latent > 0 ? l->d_latent : c->d;
    case SIZE_N_HEAD:
        return l->n_head;
    case SIZE_D_V: /* layers may have attention with latent values, or recurrent state */
        if (l->recurrent) return (int64_t)l->n_head * l->d_head;
        return b->m->arch->size(c, size);
    default: /* a size that only some architectures have */
        CHECK(b->m->arch->size, "size %d of %s", (int)size, b->m->arch->name);
        return b->m->arch->size(c, size);
    }
    return 0;
}

const struct tensor_row *bind_row(const struct binder *b, const char *stem)
{
    const char *part = stem_prefix(b, stem);
    const size_t n = strlen(part);
    for (int i = 0; i < b->n_row; i++)
        if (!b->row[i].bias && strncmp(b->row[i].name, part, n) == 0 &&
            strcmp(b->row[i].name + n, stem) == 0)
            return &b->row[i];
    return NULL;
}

const struct tensor_row *bind_bias_row(const struct binder *b, const char *stem)
{
    for (int i = 0; i < b->n_row; i++)
        if (b->row[i].bias && strcmp(b->row[i].name, stem) == 0) return &b->row[i];
    return NULL;
}

/* Return the row of a matrix or norm in tensors.def. ERR_UNSUPPORTED if the row is absent, because
 * the table, not the file, is then wrong. */
static const struct tensor_row *row_of(struct binder *b, const char *stem)
{
    const struct tensor_row *row = bind_row(b, stem);
    if (!row && b->rc == 0)
        b->rc = err_set(b->e, ERR_UNSUPPORTED, "%s: table of %s: tensor %s is missing",
                        checkpoint_path(b->checkpoint), b->m->arch->name, stem);
    return row;
}

bool bind_is_fused(const struct binder *b, const char *fused, const char *part, int il)
{
    char whole_name[160], part_name[160];
    const struct tensor_row *whole = bind_row(b, fused);
    if (!whole || !whole->some) return whole && !bind_row(b, part);
    bind_name(b, whole_name, fused, il, "weight");
    bind_name(b, part_name, part, il, "weight");
    return checkpoint_tensor(b->checkpoint, whole_name) &&
           !checkpoint_tensor(b->checkpoint, part_name);
}

/* ---- weights ---- */

/* Return a copy of a vector as f32 in the model's arena, because the file map is not available
 * after packing. Add `add` to each value. */
static const float *vector(struct binder *b, const char *name, int64_t n, float add)
{
    const struct tensor_info *t = need(b, name, 1, n, true);
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

/* Return the values of a tensor, f32 [n_row, n] in the arena. */
static const float *floats(struct binder *b, const char *name, int64_t n_row, int64_t n)
{
    const struct tensor_info *t = need(b, name, n_row, n, true);
    float *v = t ? arena_push(&b->m->arena, (size_t)(n_row * n) * sizeof *v, 64) : NULL;
    if (t && !v) b->rc = err_memory(b->e, t->name, (size_t)(n_row * n) * sizeof *v);
    if (t) b->bound[t - checkpoint_tensor_at(b->checkpoint, 0)] = BOUND_VALUES;
    for (int64_t i = 0; i < n_row && v; i++)
        qtype_info[t->type].ops->decode(v + i * n, t->data + (size_t)i * qtype_bytes(t->type, n),
                                        n);
    return v;
}

const float *bind_floats(struct binder *b, const char *stem, int il, int64_t n_row, int64_t n)
{
    char name[160];
    bind_name(b, name, stem, il, "weight");
    return floats(b, name, n_row, n);
}

const float *bind_bias_values(struct binder *b, const char *stem, int il, int64_t n_row, int64_t n)
{
    char name[160];
    bind_name(b, name, stem, il, "bias");
    return floats(b, name, n_row, n);
}

void bind_vector(struct binder *b, const float **at, int64_t n)
{
    if (b->rc == 0 && !vec_push(&b->m->vector, ((struct vector){.at = at, .n = n})))
        b->rc = err_memory(b->e, "the list of vectors", sizeof(struct vector));
}

void *bind_memory(struct binder *b, const char *what, size_t n_byte)
{
    if (b->rc != 0) return NULL;
    void *own = arena_push0(&b->m->arena, 1, n_byte);
    if (!own) b->rc = err_memory(b->e, what, n_byte);
    return own;
}

void bind_divide_bias(struct binder *b, struct linear *l, float by)
{
    float *own = l->bias ? bind_memory(b, "a bias", (size_t)l->w.n_out * sizeof *own) : NULL;
    for (int64_t i = 0; i < l->w.n_out && own; i++)
        own[i] = (float)((double)l->bias[i] / (double)by);
    if (own) l->bias = own;
}

void bind_scaled(struct binder *b, const float **at, const char *name, int il, int64_t n, float by)
{
    char full[160];
    bind_name(b, full, "blk.%d", il, name);
    const float *v = bind_required(b, full, n);
    float *scaled = bind_memory(b, full, (size_t)n * sizeof *v);
    for (int64_t i = 0; i < n && scaled; i++) scaled[i] = v[i] * by;
    *at = scaled;
    bind_vector(b, at, n);
}

const float *bind_extra(struct binder *b, const char *name, int64_t n)
{
    return checkpoint_tensor(b->checkpoint, name) ? bind_required(b, name, n) : NULL;
}

const float *bind_required(struct binder *b, const char *name, int64_t n)
{
    return vector(b, name, n, 0);
}

/* Return true if the file contains transposed matrices of layers. */
static bool is_transposed(const struct binder *b, int il)
{
    return il >= 0 && config_is_hf(b) && !checkpoint_is_random(b->checkpoint) &&
           arch_hf_columns(b->m->arch->name);
}

/* Set p to the values of a transposed matrix. A matrix with blocks of values is rejected, because
 * blocks cannot be transposed. */
static void place_columns(struct binder *b, struct published *p, const struct tensor_info *t)
{
    const int64_t size = qtype_info[t->type].n_byte;
    if (qtype_info[t->type].block != 1)
        bind_refuse(b, t, ERR_UNSUPPORTED, ": a transposed matrix of type %s: not supported yet",
                    qtype_info[t->type].name);
    p->form = FORM_PLACED;
    p->placed = (struct placed){.row_step = size, .step = t->dim[0] * size};
}

/* Bind the matrix s, stem.EXPERTweight, or the tensors of its published form. Set p to its stored
 * form and w to its values. */
static void matrix(struct binder *b, struct tensor *w, struct published *p, const struct site *s)
{
    char name[160], suffix[32];
    enum qtype type;
    const struct tensor_info *t = form_bind(b, p, &type, s);
    if (!t) {
        const bool transposed = is_transposed(b, s->il);
        snprintf(suffix, sizeof suffix, "%sweight", s->expert);
        bind_name(b, name, s->stem, s->il, suffix);
        t = checkpoint_tensor(b->checkpoint, name);
        if (s->flat && !config_is_hf(b) && t && t->n_dim == 1 && !qtype_is_block(t->type))
            t = need(b, name, 1, s->n_out * s->k, false);
        else
            t = need(b, name, transposed ? s->k : s->n_out, transposed ? s->n_out : s->k, false);
        if (!t) return;
        type = t->type;
        *p = (struct published){.form = FORM_ROWS, .rows = t->data};
        if (transposed) place_columns(b, p, t);
    }
    *w = (struct tensor){
        .type = type, .n_out = s->n_out, .k = s->k, .data = published_data(p), .name = t->name};
}

/* Bind a bias that has only zeros. Some libraries write zeros for layers without a bias. */
static void bind_zero_bias(struct binder *b, const char *name, int64_t n)
{
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
    const float *v = t ? vector(b, name, n, 0) : NULL;
    for (int64_t i = 0; i < n && v; i++)
        if (v[i] != 0) {
            b->bound[t - checkpoint_tensor_at(b->checkpoint, 0)] = 0;
            return;
        }
}

/* Change p, whose values are w, to some of its rows. */
static void take_part(struct tensor *w, struct published *p, const struct row_part *part)
{
    if (w->n_out == part->n) return;
    published_part(p, w->type, part, w->k);
    w->n_out = part->n;
    w->data = p->rows;
}

/* Return the bias of a part of a matrix: a section of the whole bias, or a copy of its groups. */
static const float *part_bias(struct binder *b, const float *whole, const struct row_part *part)
{
    if (!whole || part->run == 0) return whole ? whole + part->first : NULL;
    float *v = arena_push(&b->m->arena, (size_t)part->n * sizeof *v, 64);
    if (!v) b->rc = err_memory(b->e, "a bias", (size_t)part->n * sizeof *v);
    for (int64_t i = 0; i < part->n && v; i++)
        v[i] = whole[part->first + i / part->run * part->step + i % part->run];
    return v;
}

void bind_linear(struct binder *b, struct linear *l, const char *stem, int il, enum bias bias)
{
    const struct tensor_row *row = row_of(b, stem);
    if (row) bind_part(b, l, stem, il, bias, &(struct row_part){.n = bind_size(b, row->n_out, il)});
}

/* Sort the inputs of a matrix by their groups (GPTQ's desc_act), so that its rows have blocks.
 * Matrices with one input usually have equal groups, and then share one order. The order of the
 * inputs is unchanged if the groups differ in size. */
static void bind_order(struct binder *b, struct linear *l, struct published *p)
{
    const int64_t k = l->w.k;
    if (b->rc != 0 || p->form != FORM_CODES || !p->group) return;
    int32_t *order = arena_push(&b->m->arena, (size_t)k * sizeof *order, 64);
    if (!order) b->rc = err_memory(b->e, l->w.name, (size_t)k * sizeof *order);
    if (!order || !published_sort(p, order, k)) return;
    if (b->order && b->n_order == k && memcmp(b->order, order, (size_t)k * sizeof *order) == 0)
        p->order = b->order;
    b->order = l->order = p->order, b->n_order = k;
    l->w.type = published_type(p);
    if (b->rc == 0 &&
        !vec_push(
            &b->m->vector,
            ((struct vector){.at = (const float **)(void *)&l->order, .n = k, .index = true})))
        b->rc = err_memory(b->e, "the list of vectors", sizeof(struct vector));
}

/* Bind rows of a matrix. The stored form is kept in the arena unless it is plain rows, because
 * packing reads it later. The bias belongs to the whole matrix. */
static void bind_rows_of(struct binder *b, struct linear *l, const char *stem, int il,
                         int64_t n_out, int64_t k, enum bias bias, const struct row_part *part)
{
    char name[160];
    struct published p;
    if (b->rc != 0) return;
    matrix(b, &l->w, &p, &(struct site){stem, il, "", n_out, k, false});
    if (b->rc == 0) take_part(&l->w, &p, part);
    bind_order(b, l, &p);
    if (b->rc != 0) return;
    if (p.form != FORM_ROWS) {
        struct published *from = bind_memory(b, l->w.name, sizeof *from);
        if (!from) return;
        *from = p;
        l->w.from = from;
        l->w.data = published_data(from);
    }
    add_tensor(b, &l->w);
    if (k > b->m->k_max) b->m->k_max = k;
    bind_name(b, name, stem, il, "bias");
    if (bias == BIAS_NEEDED || (bias == BIAS_HELD && checkpoint_tensor(b->checkpoint, name))) {
        l->bias = part_bias(b, vector(b, name, n_out, 0), part);
        bind_vector(b, &l->bias, part->n);
    } else if (p.form == FORM_CODES)
        bind_zero_bias(b, name, n_out);
}

void bind_part(struct binder *b, struct linear *l, const char *stem, int il, enum bias bias,
               const struct row_part *part)
{
    const struct tensor_row *row = row_of(b, stem);
    if (!row || b->rc != 0) return;
    bind_rows_of(b, l, stem, il, bind_size(b, row->n_out, il), bind_size(b, row->k, il), bias,
                 part);
}

void bind_sized(struct binder *b, struct linear *l, const char *stem, int64_t n_out, int64_t k,
                enum bias bias)
{
    bind_rows_of(b, l, stem, -1, n_out, k, bias, &(struct row_part){.n = n_out});
}

/* Bind the experts' matrices, stored as one tensor with an expert dimension. */
static void stacked(struct binder *b, struct tensor *w, const struct tensor_info *t, int64_t n_out,
                    int64_t k, int64_t n_expert)
{
    b->bound[t - checkpoint_tensor_at(b->checkpoint, 0)] = 1;
    if (t->dim[0] != k || t->dim[1] != n_out || t->dim[2] != n_expert || t->dim[3] != 1)
        bind_wrong_shape(b, t, n_expert, n_out, k);
    else if (!qtype_info[t->type].ops)
        bind_refuse(b, t, ERR_UNSUPPORTED, " has type %s: not supported yet",
                    qtype_info[t->type].name);
    *w = tensor_of(t);
}

/* Bind the experts' matrices, stored as one matrix per expert. All matrices get one type. Integers
 * of different ranges get the type with the widest range. */
static void listed(struct binder *b, struct tensor *w, const char *stem, int il, int64_t n_out,
                   int64_t k, int64_t n_expert)
{
    struct published *from = arena_push0(&b->m->arena, (size_t)n_expert, sizeof *from);
    if (!from) b->rc = err_memory(b->e, "the experts", (size_t)n_expert * sizeof *from);
    for (int e = 0; e < n_expert && b->rc == 0; e++) {
        char expert[16], first[LABEL_BYTES];
        struct tensor own;
        snprintf(expert, sizeof expert, "%d.", e);
        matrix(b, &own, &from[e], &(struct site){stem, il, expert, n_out, k, false});
        if (b->rc != 0) return;
        if (e == 0)
            *w = own;
        else if (own.type != w->type && from[e].form == FORM_CODES && from[0].form == FORM_CODES)
            w->type = published_wider(w->type, own.type);
        else if (own.type != w->type || from[e].form != from[0].form)
            bind_refuse(b, checkpoint_tensor(b->checkpoint, own.name), ERR_UNSUPPORTED,
                        ": expected type %s as %s, got %s", qtype_info[w->type].name,
                        bind_label(b, first, w->name), qtype_info[own.type].name);
    }
    w->from = from;
}

/* Sizes of the matrices of a mixture. */
struct expert_sizes {
    int64_t n_out, k, n_expert;
};

/* Return the sizes of the experts' matrices. The number of rows of all experts must fit into an
 * int, because panels are numbered by int. */
static struct expert_sizes expert_sizes(struct binder *b, const char *stem, int il)
{
    const struct tensor_row *row = row_of(b, stem);
    if (!row || b->rc != 0) return (struct expert_sizes){0};
    const struct expert_sizes s = {bind_size(b, row->n_out, il), bind_size(b, row->k, il),
                                   bind_size(b, row->n_part, il)};
    char name[160], in_file[LABEL_BYTES];
    bind_name(b, name, stem, il, "weight");
    if (s.n_expert * s.n_out > INT32_MAX)
        b->rc =
            err_set(b->e, ERR_LIMIT,
                    "%s: tensor %s: must have fewer than 2^31 rows, got %lld experts of %lld rows",
                    checkpoint_path(b->checkpoint), bind_label(b, in_file, name),
                    (long long)s.n_expert, (long long)s.n_out);
    return s;
}

/* Add the bound matrices of l to those that the backend packs. routed: a row uses some of them. */
static void add_experts(struct binder *b, struct linear *l, const struct expert_sizes *s,
                        bool routed)
{
    l->w.n_expert = (int)s->n_expert;
    l->w.routed = routed;
    if (b->rc == 0) add_tensor(b, &l->w);
    if (s->k > b->m->k_max) b->m->k_max = s->k;
}

/* Return true for a tensor of all experts whose matrices [n_out, k] are transposed. In some classes
 * of transformers, matrices with n_out equal to k are not transposed. */
static bool is_transposed_stack(const struct binder *b, const struct tensor_info *t,
                                const struct expert_sizes *s)
{
    bool square;
    return config_is_hf(b) && !checkpoint_is_random(b->checkpoint) &&
           arch_hf_expert_columns(b->m->arch->name, &square) && t->dim[0] == s->n_out &&
           t->dim[1] == s->k && (square || s->n_out != s->k);
}

/* Return the tensor of all experts; NULL if none. Random weights always have it. */
static const struct tensor_info *stack_of(struct binder *b, const char *name,
                                          const struct expert_sizes *s)
{
    const struct tensor_info *t = b->rc == 0 ? checkpoint_tensor(b->checkpoint, name) : NULL;
    return t ? t : random_tensor(b, name, s->n_expert, s->n_out, s->k, false);
}

/* Bind rows `part` of each expert's matrix in the tensor t of all experts. */
static void stacked_part(struct binder *b, struct linear *l, struct published *from,
                         const struct tensor_info *t, const struct expert_sizes *s,
                         const struct row_part *part)
{
    const bool transposed = is_transposed_stack(b, t, s);
    const size_t expert_bytes = qtype_bytes(t->type, s->n_out * s->k);
    stacked(b, &l->w, t, transposed ? s->k : s->n_out, transposed ? s->n_out : s->k, s->n_expert);
    for (int64_t e = 0; e < s->n_expert && b->rc == 0; e++) {
        from[e] = (struct published){.form = FORM_ROWS, .rows = t->data + (size_t)e * expert_bytes};
        if (transposed) place_columns(b, &from[e], t);
        published_part(&from[e], t->type, part, s->k);
    }
}

/* Bind rows `part` of each expert's matrix in the tensors of the model's form. */
static void formed_part(struct binder *b, struct linear *l, struct published *from,
                        const struct site *s, int64_t n_expert, const struct row_part *part)
{
    const struct tensor_info *t = form_bind_experts(b, s, from, n_expert, part);
    if (t) l->w = (struct tensor){.type = published_type(&from[0]), .name = t->name, .n_expert = 1};
}

/* routed: a row uses some of the matrices. */
static void bind_stack_part(struct binder *b, struct linear *l, const char *stem, int il,
                            const struct row_part *part, bool routed)
{
    char name[160];
    const struct expert_sizes s = expert_sizes(b, stem, il);
    const struct site site = {stem, il, "", s.n_out, s.k, false};
    bind_name(b, name, stem, il, "weight");
    const struct tensor_info *t = stack_of(b, name, &s);
    const bool formed = b->rc == 0 && !t && form_has_experts(b, &site);
    if (b->rc == 0 && !t && !formed) bind_missing(b, name);
    struct published *from =
        b->rc == 0 ? arena_push0(&b->m->arena, (size_t)s.n_expert, sizeof *from) : NULL;
    if (b->rc == 0 && !from)
        b->rc = err_memory(b->e, "the experts", (size_t)s.n_expert * sizeof *from);
    if (b->rc == 0 && formed) formed_part(b, l, from, &site, s.n_expert, part);
    if (b->rc == 0 && t) stacked_part(b, l, from, t, &s, part);
    if (b->rc != 0) return;
    l->w.from = from;
    l->w.data = published_data(&from[0]);
    l->w.n_out = part->n, l->w.k = s.k;
    add_experts(b, l, &s, routed);
}

void bind_expert_part(struct binder *b, struct linear *l, const char *stem, int il,
                      const struct row_part *part)
{
    bind_stack_part(b, l, stem, il, part, true);
}

bool bind_has_stack(const struct binder *b, const char *stem, int il)
{
    return bind_has(b, stem, il) || form_has_experts(b, &(struct site){.stem = stem, .il = il});
}

/* routed: a row uses some of the matrices. */
static void bind_stack(struct binder *b, struct linear *l, const char *stem, int il, bool routed)
{
    char name[160];
    const struct expert_sizes s = expert_sizes(b, stem, il);
    if (b->rc != 0) return;
    bind_name(b, name, stem, il, "weight");
    const struct tensor_info *t = stack_of(b, name, &s);
    if (b->rc != 0) return;
    if (t ? is_transposed_stack(b, t, &s) : bind_has_stack(b, stem, il)) {
        bind_stack_part(b, l, stem, il, &(struct row_part){.n = s.n_out}, routed);
        return;
    }
    if (t)
        stacked(b, &l->w, t, s.n_out, s.k, s.n_expert);
    else
        listed(b, &l->w, stem, il, s.n_out, s.k, s.n_expert);
    add_experts(b, l, &s, routed);
}

void bind_experts(struct binder *b, struct linear *l, const char *stem, int il)
{
    bind_stack(b, l, stem, il, true);
}

void bind_parts(struct binder *b, struct linear *l, const char *stem, int il)
{
    bind_stack(b, l, stem, il, false);
}

void bind_heads(struct binder *b, struct linear *l, const char *stem, int il,
                const struct row_part *part, bool transposed)
{
    const struct tensor_row *row = row_of(b, stem);
    struct tensor whole;
    struct published p;
    if (!row || b->rc != 0) return;
    const int64_t n_out = bind_size(b, row->n_out, il), k = bind_size(b, row->k, il);
    const int64_t n_head = n_out / part->step;
    matrix(b, &whole, &p, &(struct site){stem, il, "", n_out, k, .flat = true});
    if (b->rc != 0) return;
    struct published *from = arena_push0(&b->m->arena, (size_t)n_head, sizeof *from);
    if (!from) b->rc = err_memory(b->e, whole.name, (size_t)n_head * sizeof *from);
    enum qtype wide = whole.type; /* format that represents the values of all heads so far */
    for (int64_t h = 0; h < n_head && b->rc == 0; h++) {
        enum qtype type = whole.type;
        from[h] = p;
        published_part(&from[h], type,
                       &(struct row_part){.first = part->first + h * part->step, .n = part->n}, k);
        if (transposed && !published_transpose(&from[h], &type, part->n, k))
            b->rc = err_set(b->e, ERR_UNSUPPORTED,
                            "%s: tensor %s: the transpose of sparse values: not supported yet",
                            checkpoint_path(b->checkpoint), whole.name);
        wide = h == 0 ? type : published_wider(wide, type);
    }
    if (b->rc != 0) return;
    const struct expert_sizes s = {transposed ? k : part->n, transposed ? part->n : k, n_head};
    l->w = (struct tensor){.type = wide,
                           .n_out = s.n_out,
                           .k = s.k,
                           .from = from,
                           .data = published_data(&from[0]),
                           .name = whole.name};
    add_experts(b, l, &s, false);
}

void bind_one_of(struct binder *b, struct linear *l, const char *stem, int i, int n, int64_t n_out,
                 int64_t k)
{
    char name[160];
    if (b->rc != 0) return;
    bind_name(b, name, stem, -1, "weight");
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
    if (!t) {
        char own[96];
        snprintf(own, sizeof own, "%s.%d", stem, i);
        bind_sized(b, l, own, n_out, k, BIAS_NONE);
        return;
    }
    stacked(b, &l->w, t, n_out, k, n);
    if (b->rc != 0) return;
    l->w.n_out = n_out;
    l->w.data += (size_t)(i * n_out) * qtype_bytes(t->type, k);
    add_tensor(b, &l->w);
    if (k > b->m->k_max) b->m->k_max = k;
}

void bind_ones(struct binder *b, struct norm *n, int size, int n_part)
{
    float *one = b->rc == 0 ? arena_push(&b->m->arena, (size_t)size * sizeof *one, 64) : NULL;
    if (b->rc == 0 && !one) b->rc = err_memory(b->e, "a norm", (size_t)size * sizeof *one);
    for (int i = 0; i < size && one; i++) one[i] = 1;
    *n = (struct norm){.g = one, .eps = b->m->config.rms_eps, .n = size, .n_part = n_part};
    bind_vector(b, &n->g, size);
}

/* Remove the suffix from the name of a norm if a GGUF has the norm without it, as files of
 * Falcon-H1 do. */
static void strip_suffix(const struct binder *b, char name[160])
{
    char bare[160];
    snprintf(bare, sizeof bare, "%.*s", (int)(strrchr(name, '.') - name), name);
    if (!config_is_hf(b) && !checkpoint_tensor(b->checkpoint, name) &&
        checkpoint_tensor(b->checkpoint, bare))
        memcpy(name, bare, sizeof bare);
}

/* norm_add is 1 for Gemma, because its files contain g - 1. */
void bind_norm(struct binder *b, struct norm *n, const char *stem, int il)
{
    if (b->m->config.plain_norms) {
        bind_ones(b, n, b->m->config.d, 1);
        return;
    }
    char name[160];
    const struct tensor_row *row = row_of(b, stem);
    if (!row) return;
    const struct config *c = &b->m->config;
    const struct arch *arch = b->m->arch;
    const int64_t size = bind_size(b, row->k, il);
    bind_name(b, name, stem, il, "weight");
    strip_suffix(b, name);
    *n = (struct norm){.g = vector(b, name, size, c->norm_add),
                       .eps = c->rms_eps,
                       .n = (int)size,
                       .n_part = arch->layer_norm_eps ? 1 : 0};
    bind_vector(b, &n->g, size);
    if (!arch->layer_norm_eps) return;
    bind_name(b, name, stem, il, "bias");
    if (!arch->norm_bias) {
        bind_zero_bias(b, name, size);
        return;
    }
    n->b = vector(b, name, size, 0);
    bind_vector(b, &n->b, size);
}

bool bind_has_bias(const struct binder *b, const char *stem, int il)
{
    char name[160];
    bind_name(b, name, stem, il, "bias");
    return checkpoint_tensor(b->checkpoint, name) != NULL;
}

bool bind_has(const struct binder *b, const char *stem, int il)
{
    char name[160];
    bind_name(b, name, stem, il, "weight");
    return checkpoint_tensor(b->checkpoint, name) != NULL || (b->maker && random_has(b, stem));
}

/* Decode part p of the weights to g, f32 [n]. The file has one matrix with a row per part, or a
 * vector per part. */
static void part_weights(struct binder *b, float *g, const char *stem, int il, int p, int n_part,
                         int64_t n)
{
    char name[160], suffix[32] = "weight";
    const bool whole = bind_has(b, stem, il);
    if (!whole) snprintf(suffix, sizeof suffix, "%d.weight", p);
    bind_name(b, name, stem, il, suffix);
    const struct tensor_info *t = need(b, name, whole ? n_part : 1, n, true);
    const size_t at = t && whole ? (size_t)p * (size_t)qtype_bytes(t->type, n) : 0;
    if (t) b->bound[t - checkpoint_tensor_at(b->checkpoint, 0)] = BOUND_VALUES;
    if (t) qtype_info[t->type].ops->decode(g, t->data + at, n);
}

void bind_part_norm(struct binder *b, struct norm *n, const char *stem, int il, int n_part)
{
    const struct tensor_row *row = row_of(b, stem);
    if (!row || b->rc != 0) return;
    const int64_t size = bind_size(b, row->k, il), n_all = n_part * size;
    float *g = arena_push(&b->m->arena, (size_t)n_all * sizeof *g, 64);
    if (!g) b->rc = err_memory(b->e, stem, (size_t)n_all * sizeof *g);
    for (int p = 0; p < n_part && b->rc == 0; p++)
        part_weights(b, g + p * size, stem, il, p, n_part, size);
    *n = (struct norm){.g = g, .eps = b->m->config.rms_eps, .n = (int)n_all, .n_part = n_part};
    bind_vector(b, &n->g, n_all);
}

/* Bind an embedding [n_out, k] without its first rows. */
static void table(struct binder *b, struct tensor *t, const char *stem, int64_t n_out, int64_t k,
                  int64_t first)
{
    char name[160];
    bind_name(b, name, stem, -1, "weight");
    const struct tensor_info *info = need(b, name, n_out, k, false);
    if (!info) return;
    *t = tensor_of(info);
    t->data += (size_t)first * qtype_bytes(t->type, t->k);
    t->n_out -= first;
    t->is_table = true;
    add_tensor(b, t);
}

void bind_table(struct binder *b, struct tensor *t, const char *stem, int64_t first)
{
    const struct tensor_row *row = row_of(b, stem);
    if (row) table(b, t, stem, bind_size(b, row->n_out, -1), bind_size(b, row->k, -1), first);
}

void bind_sized_table(struct binder *b, struct tensor *t, const char *stem, int64_t n_out,
                      int64_t k)
{
    table(b, t, stem, n_out, k, 0);
}

/* The backend packs shared data only once (layout_place). */
void bind_tied(struct binder *b, struct linear *l, const struct tensor *t)
{
    *l = (struct linear){.w = *t};
    l->w.is_table = false;
    add_tensor(b, &l->w);
    if (t->k > b->m->k_max) b->m->k_max = t->k;
}

/* ---- scratch ---- */

/* Reserve scratch by name and return its index. Blocks of several layers share one buffer, which
 * has the largest requested size. */
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

int64_t bind_state(struct binder *b, int64_t n)
{
    const int64_t at = b->m->state_floats;
    b->m->state_floats += (n + 15) / 16 * 16;
    return at;
}

/* ---- binding of a model ---- */

/* Return true for the name of a tensor that no layer uses, such as the rotary tables in old
 * exports. */
static bool left_out(const char *name)
{
    static const char *const end[] = {
#define LEFT_OUT(end) end,
#include "left_out.def"
#undef LEFT_OUT
    };
    for (size_t i = 0; i < sizeof end / sizeof end[0]; i++)
        if (text_ends_with(name, end[i])) return true;
    return false;
}

/* Return true if the beginning or the end of a raw name is in the architecture's list of tensors
 * without effect. */
static bool arch_left_out(const struct arch *arch, const char *raw)
{
    for (const char *const *name = arch->left_out; name && *name; name++)
        if (**name == '.' ? text_ends_with(raw, *name) : strncmp(raw, *name, strlen(*name)) == 0)
            return true;
    return false;
}

/* Return the layer number of a k or v tensor whose layer uses k and v of an earlier layer; -1 for
 * all other tensors. Published files contain these unused tensors. */
static int reusing_layer(const struct binder *b, const char *name)
{
    static const char *const part[] = {"attn_k.", "attn_v.", "attn_k_norm."};
    const struct config *c = &b->m->config;
    char *end;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return -1;
    const long il = strtol(name + 4, &end, 10);
    if (*end != '.' || il >= c->n_layer || !c->layer[il].reuses_kv) return -1;
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        if (strncmp(end + 1, part[i], strlen(part[i])) == 0) return (int)il;
    return -1;
}

/* Return true for a tensor of the layers that predict further tokens. Their tensors in Hugging Face
 * directories may have names that no layer of the table has. */
static bool is_of_next(const struct binder *b, const struct tensor_info *t)
{
    int il = -1;
    const struct config *c = &b->m->config;
    if (sscanf(t->name, "blk.%9d.", &il) != 1 &&            /* check: width */
        sscanf(t->name_raw, "model.layers.%9d.", &il) != 1) /* check: width */
        return false;
    return il >= c->n_layer && il - c->n_layer < c->n_next;
}

/* Return true for a tensor of the first matrix of an encoder's classifier. The matrix of an encoder
 * without a classifier is the pooler of BERT's pretraining. A quantized matrix has tensors with
 * other names. */
static bool is_pooler(const struct binder *b, const char *name)
{
    if (strcmp(name, "cls.weight") == 0 || strcmp(name, "cls.bias") == 0) return true;
    return b->m->config.quant.form && strncmp(name, "cls.", 4) == 0 &&
           strncmp(name, "cls.norm.", 9) != 0 && strncmp(name, "cls.output.", 11) != 0;
}

bool bind_left_out(const struct binder *b, const struct tensor_info *t, char why[WHY_BYTES])
{
    const char *own = b->m->arch->left_out_why,
               *other = checkpoint_parts(b->checkpoint) ? parts_other(t->name_raw) : NULL;
    const int il = reusing_layer(b, t->name);
    if (other)
        snprintf(why, WHY_BYTES, "%s", other);
    else if (left_out(t->name))
        snprintf(why, WHY_BYTES, "table of rope angles; quoth computes these angles itself");
    else if (arch_left_out(b->m->arch, t->name_raw))
        snprintf(why, WHY_BYTES, "%s", own ? own : "a part that the model does not use");
    else if (b->drops_pooler && is_pooler(b, t->name))
        snprintf(why, WHY_BYTES, "pooler of pretraining; embeddings do not use it");
    else if (decoder_drops_divisors(b, t->name))
        snprintf(why, WHY_BYTES, "%s replaces the scaling", checkpoint_rope_given(b->checkpoint));
    else if (is_of_next(b, t))
        snprintf(why, WHY_BYTES, "a layer that predicts further tokens; quoth does not use it");
    else if (form_left_out(b, t->name))
        snprintf(why, WHY_BYTES, "scale of the KV cache; the scale does not change weights");
    else if (il >= 0)
        snprintf(why, WHY_BYTES, "layer %d uses the keys and values of layer %d", il,
                 b->m->config.layer[il].kv_layer);
    else
        return false;
    return true;
}

/* Reject a tensor that is neither bound nor known to be unused. */
static void refuse_tensor(struct binder *b, const struct tensor_info *t)
{
    int il = -1;
    const bool of_layer = sscanf(t->name, "blk.%9d.", &il) == 1; /* check: width */
    if (of_layer && il >= b->m->config.n_layer)
        b->rc = err_set(b->e, ERR_FORMAT,
                        "%s: tensor %s: belongs to layer %d, but the number of layers is %d",
                        checkpoint_path(b->checkpoint), t->name_raw, il, b->m->config.n_layer);
    else
        b->rc =
            err_set(b->e, ERR_UNSUPPORTED, "%s: tensor %s: not supported yet in architecture %s%s",
                    checkpoint_path(b->checkpoint), t->name_raw, b->m->arch->name,
                    strstr(t->name, "bias") ? " with this configuration" : "");
}

/* Check that each tensor of the file is bound, or known to be unused. */
static void check_tensors(struct binder *b)
{
    char why[WHY_BYTES];
    b->all_bound = b->rc == 0;
    for (int i = 0; i < checkpoint_n_tensor(b->checkpoint) && b->rc == 0; i++) {
        const struct tensor_info *t = checkpoint_tensor_at(b->checkpoint, i);
        if (!b->bound[i] && !bind_left_out(b, t, why)) refuse_tensor(b, t);
    }
}

/* Return zeroed memory in the arena for n structs of n_byte bytes; NULL after an error. */
static void *push_bound(struct binder *b, const char *what, size_t n, size_t n_byte)
{
    void *p = b->rc == 0 ? arena_push0(&b->m->arena, n, n_byte) : NULL;
    if (b->rc == 0 && !p) b->rc = err_memory(b->e, what, (unsigned long long)n * n_byte);
    return p;
}

/* Bind the layers. The layers of an encoder come before the layers of its decoder. */
static void bind_layers(struct binder *b)
{
    struct model *m = b->m;
    const struct arch *arch = m->arch;
    for (int il = 0; il < m->config.n_layer && b->rc == 0; il++) {
        const bool decoder = il >= m->config.n_encoder;
        b->part = arch->part ? arch->part : !arch->crosses ? "" : decoder ? "dec." : "enc.";
        b->layer0 = decoder ? m->config.n_encoder : 0;
        (arch->bind ? arch->bind
                    : decoder_bind_layer)(b, (char *)m->layer + (size_t)il * m->layer_bytes, il);
    }
}

/* m->layer is an array of n_layer structs of layer_bytes bytes. Only the architecture defines this
 * struct. */
void bind_all(struct binder *b)
{
    struct model *m = b->m;
    const struct arch *arch = m->arch;
    const size_t n_layer = (size_t)m->config.n_layer;
    m->layer_bytes = arch->layer_bytes ? arch->layer_bytes : sizeof(struct decoder_layer);
    m->ends = push_bound(b, "the ends", 1,
                         arch->ends_bytes ? arch->ends_bytes : sizeof(struct decoder_ends));
    m->layer = push_bound(b, "the layers", n_layer, m->layer_bytes);
    m->kv_geometry = push_bound(b, "the KV geometry", n_layer, sizeof *m->kv_geometry);
    m->at_x = bind_rows(b, "x", m->config.d);
    m->at_h = bind_rows(b, "h", m->config.d);
    m->at_y = bind_rows(b, "y", m->config.d);
    if (b->rc == 0) (arch->bind_ends ? arch->bind_ends : decoder_bind)(b, m->ends);
    bind_layers(b);
    bind_embedding(b);
    check_tensors(b);
    form_check(b);
    bind_add_cause(b);
}
