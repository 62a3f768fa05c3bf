/* to_gguf.c - a Hugging Face directory as a GGUF view: the tensors in GGUF's order of rows. hf.c
 * has already given most tensors their GGUF names. to_gguf_keys.c writes the keys.
 *
 *   tensors that binding used --put_tensors--> view
 *
 * model_same_config (same_config.c) reads the written file, and detects a mechanism that has no
 * key. */
#include "convert_impl.h"

#include "base/log.h"
#include "base/text.h"

#include <math.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ---- */

/* Return the number of heads whose lanes have another order in GGUF; 0 if the order is the same. */
static int lane_heads(const struct model *m, const struct arch *a, const char *part)
{
    if (a->gguf_neox || a->hf_adjacent || a->no_rope) return 0;
    if (strcmp(part, ".attn_q.weight") == 0 || strcmp(part, ".attn_q.bias") == 0)
        return m->config.n_head;
    if (strcmp(part, ".attn_k.weight") == 0 || strcmp(part, ".attn_k.bias") == 0)
        return m->config.n_head_kv;
    return 0;
}

void conversion_order(struct source *s, const struct model *m, const struct arch *a,
                      const char *name)
{
    const char *part = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    bool square; /* not used: published files of these classes transpose every matrix */
    const bool random = checkpoint_is_random(m->checkpoint);
    if (a->convert && a->convert->place) a->convert->place(s, m, name);
    if (random && s->order == ORDER_TRANSPOSED) s->order = ORDER_SAME;
    if (!part) return;
    const int n_head = lane_heads(m, a, part);
    if (n_head > 0)
        s->order = ORDER_LANES, s->n_head = n_head, s->n_lane = m->config.rope[ROPE_MAIN].d_rot;
    else if (a->hf_groups && strncmp(part, ".attn_qkv.", 10) == 0)
        s->order = ORDER_GROUPS, s->n_head = m->config.n_head_kv, s->d_head = m->config.d_head;
    else if (!random && arch_hf_columns(a->name) && text_ends_with(part, ".weight") &&
             !strstr(part, "norm"))
        s->order = ORDER_TRANSPOSED;
    else if (s->back && text_ends_with(part, "_exps.weight") &&
             arch_hf_expert_columns(a->name, &square))
        s->order = ORDER_TRANSPOSED;
}

/* Return true if the name ends with one of the texts in a list. NULL ends the list. list NULL: an
 * empty list. */
static bool has_end(const char *name, const char *const *end)
{
    for (; end && *end; end++)
        if (text_ends_with(name, *end)) return true;
    return false;
}

/* Return a type for values of type `from` with factors: `from` if it has all products, because the
 * factors are powers of two and its exponents are those of f32; otherwise F32. */
static enum qtype scaled_type(enum qtype from, const struct source *s)
{
    int exponent;
    bool exact = from == QT_bf16;
    for (int i = 0; i < s->n_factor; i++)
        exact &= fabsf(frexpf(s->factor[i].by, &exponent)) == 0.5f;
    return exact || s->n_factor == 0 ? from : QT_f32;
}

/* Return the type of a tensor in the file. Vectors, norms, routers, and the tables of positions and
 * segments are F32, as readers of GGUF files require. */
static enum qtype gguf_type_of(const struct conversion *g, const struct quant_mix *mix,
                               const char *name, const struct tensor_info *t, int n_dim)
{
    const struct config *c = &g->m->config;
    const struct quant_mix_site site = {.name = name,
                                        .type = t->type,
                                        .n_dim = n_dim,
                                        .k = t->dim[0],
                                        .n_layer = c->n_layer,
                                        .n_group = c->n_head / c->n_head_kv,
                                        .tied = !checkpoint_tensor(g->c, "output.weight")};
    static const char *const float_end[] = {
        "norm.weight",          ".ffn_gate_inp.weight", ".ffn_gate_inp_shexp.weight",
        "position_embd.weight", "token_types.weight",   NULL};
    const struct arch_convert *own = g->m->arch->convert;
    if (has_end(name, float_end) || (own && has_end(name, own->f32))) return QT_f32;
    if (n_dim < 2) return QT_f32;
    return mix ? quant_mix_type(mix, &site) : t->type;
}

/* Add a tensor to the view, with the source `s` and the sizes of t. */
static int add(struct conversion *g, const struct quant_mix *mix, const char *name,
               const struct tensor_info *t, struct source *s, struct err *e)
{
    int64_t dim[4] = {t->dim[0], t->dim[1], t->dim[2], t->dim[3]};
    int n_dim = t->n_dim;
    struct tensor_info made = *t;
    if (text_ends_with(name, "norm.weight")) s->add = g->m->config.norm_add;
    conversion_order(s, g->m, g->m->arch, name);
    if (s->form && s->order == ORDER_TRANSPOSED)
        s->order = ORDER_SAME; /* forms are not transposed */
    if (s->order == ORDER_TRANSPOSED) dim[0] = t->dim[1], dim[1] = t->dim[0];
    if (s->squeezed && n_dim == 3) dim[1] = dim[2], dim[--n_dim] = 1;
    if (s->spread && n_dim == 2) dim[2] = dim[1], dim[1] = 1, n_dim = 3;
    if (s->flat) dim[0] *= dim[1] * dim[2], dim[1] = dim[2] = 1, n_dim = 1;
    if (s->row > 0 && n_dim == 1) dim[1] = dim[0] / s->row, dim[0] = s->row, n_dim = 2;
    if (s->n_part > 1 || s->parted) dim[n_dim++] = s->n_part;
    if (n_dim == 2 && dim[1] == 1 && text_ends_with(name, ".bias")) n_dim = 1;
    if (strcmp(name, "position_embd.weight") == 0) { /* rows before position0 are not used */
        s->first = g->m->config.position0;
        dim[1] -= s->first;
    }
    made.type = scaled_type(t->type, s);
    return conversion_add(g, name, gguf_type_of(g, mix, name, &made, n_dim), n_dim, dim, s, e);
}

/* Return the number of a part, such as 7 for "blk.3.ffn_up_exps.7.weight", and write the name
 * without this number. Return -1 for a whole tensor, or a number that the architecture does not
 * have. */
static int part_of(const struct conversion *g, const char *name, char out[NAME_BYTES])
{
    char raw[NAME_BYTES];
    const int part = hf_part_of(name, out, NAME_BYTES);
    return part >= 0 && hf_raw_name(raw, sizeof raw, out, g->m->arch->name, part) ? part : -1;
}

/* Add one tensor with all parts. t is the first part. */
static int put_parts(struct conversion *g, const struct quant_mix *mix, const char *name,
                     const struct tensor_info *t, struct err *e)
{
    const char *end = strrchr(name, '.');
    const struct tensor_info *x = t;
    struct source s = {.tensor = calloc((size_t)checkpoint_n_tensor(g->c), sizeof *s.tensor),
                       .parted = true};
    if (!s.tensor) return err_memory(e, name, (size_t)checkpoint_n_tensor(g->c) * sizeof *s.tensor);
    while (x) {
        char next[200];
        if (x->type != t->type || x->n_byte != t->n_byte) {
            free(s.tensor);
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: tensor %s: must have the type and the shape of %s",
                           checkpoint_path(g->c), x->name, t->name);
        }
        s.tensor[s.n_part++] = (int)(x - checkpoint_tensor_at(g->c, 0));
        snprintf(next, sizeof next, "%.*s.%d%s", (int)(end - name), name, s.n_part, end);
        x = checkpoint_tensor(g->c, next);
    }
    return add(g, mix, name, t, &s, e);
}

/* Return true for a tensor that is not written: an unused pooler, a tensor of another part, or a
 * tensor that becomes a key. */
static bool is_left_out(const struct conversion *g, const struct tensor_info *t)
{
    const char *name = t->name;
    if (checkpoint_parts(g->c) && parts_other(t->name_raw)) return true;
    if (strncmp(name, "cls.", 4) == 0) return !checkpoint_tensor(g->c, "cls.output.weight");
    const struct arch_convert *own = g->m->arch->convert;
    return own && own->key_tensors && strstr(name, own->key_tensors);
}

/* Write the GGUF name of a tensor if it differs from the name in the table. */
static void gguf_name(char out[NAME_BYTES], const struct conversion *g, const char *name)
{
    const struct arch_convert *own = g->m->arch->convert;
    static const char module[] = "modules.", linear[] = ".linear.";
    const char *at = name + sizeof module - 1;
    if (strncmp(name, module, sizeof module - 1) == 0 && *at >= '0' && *at <= '9') {
        char *end;
        const long n = strtol(at, &end, 10);
        if (n < INT_MAX - 2 && strncmp(end, linear, sizeof linear - 1) == 0) {
            /* modules of sentence-transformers */
            snprintf(out, NAME_BYTES, "dense_%ld.%s", n + 2, end + sizeof linear - 1);
            return;
        }
    }
    conversion_rename(out, g->m->arch, name, false);
    if (own && own->rename) own->rename(out, g->m);
}

/* Return the number of the row that a vector is in a tensor of several vectors; -1 if none. */
static int row_of_tensor(const struct arch *a, const char *name)
{
    const char *const *rows = a->convert ? a->convert->rows : NULL;
    for (int i = 1; rows && rows[i]; i++)
        if (text_ends_with(name, rows[i])) return i - 1;
    return -1;
}

/* Add the tensor whose rows are vectors. t: the first row. */
static int put_rows(struct conversion *g, const struct tensor_info *t, struct err *e)
{
    const char *const *rows = g->m->arch->convert->rows;
    const int stem = (int)(strlen(t->name) - strlen(rows[1]));
    char name[NAME_BYTES];
    struct source s = {0};
    int n = 0;
    while (rows[n + 1]) n++;
    s.tensor = calloc((size_t)n, sizeof *s.tensor);
    if (!s.tensor) return err_memory(e, t->name, (size_t)n * sizeof *s.tensor);
    for (; s.n_part < n; s.n_part++) {
        snprintf(name, sizeof name, "%.*s%s", stem, t->name, rows[s.n_part + 1]);
        const struct tensor_info *row = checkpoint_tensor(g->c, name);
        CHECK(row, "tensor %s was bound", name);
        s.tensor[s.n_part] = (int)(row - checkpoint_tensor_at(g->c, 0));
    }
    snprintf(name, sizeof name, "%.*s%s", stem, t->name, rows[0]);
    const int64_t dim[4] = {g->m->config.d, 1, 1, n};
    return conversion_add(g, name, QT_f32, 4, dim, &s, e);
}

/* Add tensor i of the directory; nothing if it is left out or part of an earlier tensor. */
static int put_tensor(struct conversion *g, const struct quant_mix *mix, int i, struct err *e)
{
    const struct tensor_info *t = checkpoint_tensor_at(g->c, i);
    char joined[NAME_BYTES], raw[200];
    if (is_left_out(g, t)) return 0;
    const int row = row_of_tensor(g->m->arch, t->name);
    if (row >= 0) return row == 0 ? put_rows(g, t, e) : 0;
    const int part = part_of(g, t->name, joined);
    if (part > 0) return 0; /* the name contains the number of part 0 */
    if (part == 0) return put_parts(g, mix, joined, t, e);
    gguf_name(joined, g, t->name);
    /* random weights have all experts in one tensor, also if files have a tensor per expert */
    if (strcmp(joined, t->name) == 0 &&
        !hf_raw_name(raw, sizeof raw, t->name, g->m->arch->name, -1) &&
        !hf_raw_name(raw, sizeof raw, t->name, g->m->arch->name, 0))
        return err_set(e, ERR_UNSUPPORTED, "%s: tensor %s: conversion to GGUF is not supported yet",
                       checkpoint_path(g->c), t->name_raw);
    struct source s = {0};
    const int rc = conversion_source(&s, i, e);
    return rc ? rc : add(g, mix, joined, t, &s, e);
}

/* Add a list of divisors of the rope's frequencies. value: the list, in the model's arena. */
static int put_factors_tensor(struct conversion *g, const char *name, const float *value,
                              struct err *e)
{
    const int64_t n = g->m->config.rope[ROPE_MAIN].d_rot / 2;
    const struct source s = {.value = value};
    return conversion_add(g, name, QT_f32, 1, &n, &s, e);
}

/* Add the divisors of llama3's scaling, of LongRoPE, or of lanes that do not rotate. */
static int put_rope_factors(struct conversion *g, struct err *e)
{
    const struct rope_config *r = &g->m->config.rope[ROPE_MAIN];
    const int n = r->d_rot / 2;
    if (g->m->arch->no_rope) return 0;
    if (r->scaling == ROPE_LONG) {
        const int rc = put_factors_tensor(g, "rope_factors_long.weight", r->long_factor, e);
        return rc ? rc : put_factors_tensor(g, "rope_factors_short.weight", r->short_factor, e);
    }
    if (r->scaling != ROPE_LLAMA3 && r->scaling != ROPE_PROPORTIONAL) return 0;
    float *v = arena_push(&g->m->arena, (size_t)n * sizeof *v, 64);
    if (!v) return err_memory(e, "the divisors of the rope", (size_t)n * sizeof *v);
    for (int i = 0; i < n; i++) {
        /* divisor of lanes that do not rotate */
        const double freq = rope_freq(r, i, false), still = 1e30;
        v[i] = (float)(freq > 0 ? pow(r->base, -2.0 * i / r->d_rot) / freq : still);
    }
    return put_factors_tensor(g, "rope_freqs.weight", v, e);
}

/* ---- published forms of quantized weights ---- */

/* Return the length of a tensor's name without its last part, such as ".qweight" or
 * ".weight._data". */
static size_t stem_length(const char *name)
{
    const char *inner = strstr(name, ".weight."), *dot = inner ? inner : strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static const char kv_b[] = ".attn_kv_b.";

/* Return true for a matrix per head. Binding has divided a matrix of keys and values. */
static bool is_per_head(const struct tensor *w)
{
    return w->n_expert > 0 && strstr(w->name, kv_b) != NULL;
}

/* Return the number of matrices of w. */
static int matrix_count(const struct tensor *w)
{
    return w->n_expert > 0 ? w->n_expert : 1;
}

/* Return true for a matrix of several tensors: codes and scales, or values and a mask. Experts of
 * one mixture may have different forms. */
static bool is_split(const struct tensor *w)
{
    for (int i = 0; w->from && i < matrix_count(w); i++)
        if (published_is_split(&w->from[i])) return true;
    return false;
}

/* Return true for a tensor of gate and up, or of the experts' biases, that is several tensors in a
 * GGUF of the architecture. */
static bool is_halved(const struct conversion *g, const char *name)
{
    return g->m->arch->gguf_halves &&
           (strstr(name, ".ffn_gate_up_") || strstr(name, ".ffn_down_exps"));
}

/* Return true for a tensor that belongs to a matrix of several tensors: codes, scales, zeros, or a
 * bias of zeros. Some libraries write such a bias for layers without a bias. */
static bool is_of_split(const struct conversion *g, const struct tensor_info *t)
{
    for (size_t i = 0; i < g->m->tensor.n; i++) {
        const struct tensor *w = g->m->tensor.v[i];
        size_t n = stem_length(w->name);
        if (!is_split(w) || is_halved(g, w->name)) continue;
        const bool numbered = w->n_expert > 0 && !is_per_head(w);
        /* skip the number of the expert */
        while (numbered && n > 0 && w->name[n - 1] != '.') n--;
        if (numbered && n > 0) n--;
        if (strncmp(t->name, w->name, n) != 0 || t->name[n] != '.') continue;
        if (strcmp(t->name + n, ".bias") != 0) return true;
        float x = 0;
        for (int64_t k = 0; k < t->dim[0] && x == 0; k++) x = qtype_value(t->type, t->data, k);
        return x == 0;
    }
    return false;
}

/* Return true if a format can represent n values exactly. */
static bool represents(enum qtype type, const float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint8_t code[4];
        float back;
        qtype_info[type].ops->encode(code, &v[i], 1, NULL);
        qtype_info[type].ops->decode(&back, code, 1);
        if (memcmp(&back, &v[i], sizeof back) != 0 && back != v[i]) return false;
    }
    return true;
}

/* Set *type to the first type of F16, BF16 and F32 that can represent every value of n_part
 * matrices, whose shape and name are those of t. */
static int exact_type(const struct published *form, int n_part, const struct tensor_info *t,
                      enum qtype *type, struct err *e)
{
    const int64_t k = t->dim[0];
    float *row = malloc((size_t)k * sizeof *row);
    bool half = true, brain = true;
    if (!row) return err_memory(e, t->name, (size_t)k * sizeof *row);
    for (int p = 0; p < n_part; p++)
        for (int64_t r = 0; r < t->dim[1] && (half || brain); r++) {
            published_rows((uint8_t *)row, &form[p], QT_f32, r, 1, k);
            half = half && represents(QT_f16, row, k);
            brain = brain && represents(QT_bf16, row, k);
        }
    free(row);
    *type = half ? QT_f16 : brain ? QT_bf16 : QT_f32;
    return 0;
}

/* Return the places of the matrices of w, from which any format can be made, in the arena.
 * NULL if memory is exhausted. */
static struct published *encoded(struct conversion *g, const struct tensor *w)
{
    const int64_t row = (int64_t)qtype_bytes(w->type, w->k);
    const size_t n = (size_t)matrix_count(w);
    struct published *p = arena_push(&g->m->arena, n * sizeof *p, 8);
    for (size_t i = 0; i < n && p; i++) {
        p[i] = w->from[i];
        if (p[i].form == FORM_CODES) continue;
        if (p[i].form == FORM_ROWS) p[i].placed = (struct placed){.row_step = row};
        p[i].form = FORM_ENCODED;
        p[i].source = w->type;
    }
    return p;
}

/* Add the values of a matrix of several tensors. The result has all rows, although w may be some
 * rows of a matrix that several layers share. */
static int put_split(struct conversion *g, const struct quant_mix *mix, const struct tensor *w,
                     struct err *e)
{
    char name[NAME_BYTES], joined[NAME_BYTES];
    const int n_part = matrix_count(w);
    struct tensor_info t = {.n_dim = 2, .dim = {w->k, w->n_out, 1, 1}, .name = w->name};
    snprintf(name, sizeof name, "%.*s.weight", (int)stem_length(w->name), w->name);
    if (part_of(g, name, joined) < 0) gguf_name(joined, g, name);
    if (checkpoint_tensor(g->view, joined)) return 0;
    struct published *form = encoded(g, w);
    if (!form) return err_memory(e, w->name, (size_t)n_part * sizeof *form);
    for (int p = 0; p < n_part; p++) {
        if (!published_is_split(&w->from[p])) continue; /* rows of an expert */
        t.dim[1] = form[p].n_out;
        form[p].part = (struct row_part){.n = form[p].n_out};
    }
    const int rc = exact_type(form, n_part, &t, &t.type, e);
    return rc ? rc : add(g, mix, joined, &t, &(struct source){.n_part = n_part, .form = form}, e);
}

/* ---- latent attention ---- */

/* Return true for a matrix of keys and values that binding has divided. */
static bool is_divided(const struct conversion *g, const char *name)
{
    for (size_t i = 0; i < g->m->tensor.n && strstr(name, kv_b); i++)
        if (strcmp(g->m->tensor.v[i]->name, name) == 0) return is_per_head(g->m->tensor.v[i]);
    return false;
}

/* Add a matrix per head, as llama.cpp's converter does: those of keys, which are transposed, and of
 * values. The first of both tensors with this name has the keys (block/latent.c). */
static int put_divided(struct conversion *g, const struct quant_mix *mix, const struct tensor *w,
                       struct err *e)
{
    char name[NAME_BYTES];
    const int n_head = w->n_expert;
    struct tensor_info t = {
        .n_dim = 2, .type = w->type, .dim = {w->k, w->n_out, 1, 1}, .name = w->name};
    const struct published *form = encoded(g, w);
    if (!form) return err_memory(e, w->name, (size_t)n_head * sizeof *form);
    const int n = (int)(strstr(w->name, kv_b) - w->name);
    snprintf(name, sizeof name, "%.*s.attn_k_b.weight", n, w->name);
    if (checkpoint_tensor(g->view, name))
        snprintf(name, sizeof name, "%.*s.attn_v_b.weight", n, w->name);
    if (is_split(w)) {
        const int rc = exact_type(form, n_head, &t, &t.type, e);
        if (rc != 0) return rc;
    }
    return add(g, mix, name, &t, &(struct source){.n_part = n_head, .form = form}, e);
}

/* ---- gate and up of experts in one tensor ---- */

/* Return true for the biases of all experts. */
static bool is_bias(const char *name)
{
    return text_ends_with(name, "_bias.weight");
}

/* Write the GGUF name of a bound matrix, or of a bias: gate or up in place of gate_up, and without
 * the ends of the names in a directory. */
static void half_name(char out[NAME_BYTES], const struct conversion *g, const char *name,
                      bool second)
{
    const struct arch_convert *own = g->m->arch->convert;
    static const char both[] = "gate_up", blocks[] = "_blocks.weight", bias[] = "_bias.weight";
    const char *at = strstr(name, both);
    if (at)
        snprintf(out, NAME_BYTES, "%.*s%s%s", (int)(at - name), name, second ? "up" : "gate",
                 at + sizeof both - 1);
    else
        snprintf(out, NAME_BYTES, "%s", name);
    char *end = text_ends_with(out, blocks) ? out + strlen(out) - (sizeof blocks - 1)
                : text_ends_with(out, bias) ? out + strlen(out) - (sizeof bias - 1)
                                            : NULL;
    if (end) snprintf(end, NAME_BYTES - (size_t)(end - out), is_bias(name) ? ".bias" : ".weight");
    if (own && own->rename) own->rename(out, g->m);
}

/* Add a bound matrix of experts, or half of a matrix of gate and up. */
static int put_bound(struct conversion *g, const struct quant_mix *mix, const struct tensor *w,
                     bool second, struct err *e)
{
    char name[NAME_BYTES];
    const struct tensor_info *t = checkpoint_tensor(g->c, w->name);
    const int n_expert = w->n_expert > 0 ? w->n_expert : 1;
    half_name(name, g, w->name, second);
    const struct tensor_info shape = {
        .type = w->type, .n_dim = w->n_expert > 0 ? 3 : 2, .dim = {w->k, w->n_out, n_expert, 1}};
    struct source s = {.n_part = n_expert};
    if (w->from && !(s.form = encoded(g, w))) return err_memory(e, w->name, sizeof *s.form);
    if (!w->from) { /* rows of a plain matrix */
        const int rc = conversion_source(&s, (int)(t - checkpoint_tensor_at(g->c, 0)), e);
        if (rc != 0) return rc;
        s.first = (w->data - t->data) / (int64_t)qtype_bytes(t->type, w->k);
    }
    const int64_t dim[4] = {w->k, w->n_out, n_expert, 1};
    return conversion_add(g, name, gguf_type_of(g, mix, name, &shape, shape.n_dim), shape.n_dim,
                          dim, &s, e);
}

/* Add the bound matrices of divided tensors. gate is bound before up. */
static int put_halves(struct conversion *g, const struct quant_mix *mix, struct err *e)
{
    const char *last = "";
    int rc = 0;
    for (size_t i = 0; i < g->m->tensor.n && rc == 0; i++) {
        const struct tensor *w = g->m->tensor.v[i];
        if (!is_halved(g, w->name)) continue;
        rc = put_bound(g, mix, w, strcmp(last, w->name) == 0, e);
        last = w->name;
    }
    return rc;
}

/* Add one bias of all experts: n values of each expert, from value `first` with the distance
 * `step`. */
static int put_bias(struct conversion *g, const struct tensor_info *t, bool second, int64_t n,
                    int64_t first, int64_t step, struct err *e)
{
    char name[NAME_BYTES];
    const int64_t n_expert = t->dim[1], dim[2] = {n, n_expert};
    float *v = arena_push(&g->m->arena, (size_t)(n * n_expert) * sizeof *v, 64);
    if (!v) return err_memory(e, t->name, (size_t)(n * n_expert) * sizeof *v);
    for (int64_t i = 0; i < n * n_expert; i++)
        v[i] = qtype_value(t->type, t->data, i / n * t->dim[0] + first + i % n * step);
    half_name(name, g, t->name, second);
    return conversion_add(g, name, QT_f32, 2, dim, &(struct source){.value = v}, e);
}

/* Add the biases of the experts. Biases of gate and up alternate, or follow each other. */
static int put_biases(struct conversion *g, const struct tensor_info *t, struct err *e)
{
    const bool pairs = g->m->arch->hf_pairs;
    const int64_t n = t->dim[0] / 2;
    if (!strstr(t->name, "gate_up")) return put_bias(g, t, false, t->dim[0], 0, 1, e);
    const int rc = put_bias(g, t, false, n, 0, pairs ? 2 : 1, e);
    return rc ? rc : put_bias(g, t, true, n, pairs ? 1 : n, pairs ? 2 : 1, e);
}

/* ---- all tensors ---- */

/* Add a tensor of the directory, unless its matrices are added below. */
static int put_used(struct conversion *g, const struct quant_mix *mix, int i, struct err *e)
{
    const struct tensor_info *t = checkpoint_tensor_at(g->c, i);
    if (!g->used[i] || is_divided(g, t->name)) return 0;
    if (is_halved(g, t->name)) return is_bias(t->name) ? put_biases(g, t, e) : 0;
    return is_of_split(g, t) ? 0 : put_tensor(g, mix, i, e);
}

/* Add the tensors of the directory, then the bound matrices that have other tensors in a GGUF. */
static int put_tensors(struct conversion *g, struct err *e)
{
    struct quant_mix own;
    const struct quant_mix *mix = g->type ? &own : NULL;
    int rc = mix ? quant_mix_find(&own, g->type, g->pure, e) : 0;
    for (int i = 0; i < checkpoint_n_tensor(g->c) && rc == 0; i++) rc = put_used(g, mix, i, e);
    if (rc == 0) rc = put_halves(g, mix, e);
    for (size_t i = 0; i < g->m->tensor.n && rc == 0; i++) {
        const struct tensor *w = g->m->tensor.v[i];
        if (is_per_head(w))
            rc = put_divided(g, mix, w, e);
        else if (is_split(w) && !is_halved(g, w->name))
            rc = put_split(g, mix, w, e);
    }
    const struct arch_convert *convert = g->m->arch->convert;
    if (rc == 0 && convert && convert->put_gguf_tensors) rc = convert->put_gguf_tensors(g, e);
    return rc ? rc : put_rope_factors(g, e);
}

/* ---- open ---- */

/* Check that the source is a folder of an architecture with a conversion to GGUF. */
static int check_source(const struct checkpoint *c, struct err *e)
{
    static const char *const known[] = {
#define TO_GGUF(arch) arch,
#include "to_gguf.def"
    };
    static const struct {
        const char *arch, *why; /* static */
    } none[] = {
#define TO_GGUF_NONE(arch, why) {arch, why},
#include "to_gguf.def"
    };
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    if (checkpoint_kind(c) != CKPT_HF || !arch)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: must be a folder with a config.json to be converted to GGUF",
                       checkpoint_path(c));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i], arch) == 0) return 0;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (strcmp(none[i].arch, arch) == 0)
            return err_set(e, ERR_UNSUPPORTED, "%s: architecture \"%s\" has no GGUF: %s",
                           checkpoint_path(c), arch, none[i].why);
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: architecture \"%.60s\": conversion to GGUF is not supported yet",
                   checkpoint_path(c), arch);
}

int model_gguf_open(struct conversion **out, const struct checkpoint *c,
                    const struct conversion_options *o, struct err *e)
{
    *out = NULL;
    int rc = check_source(c, e);
    if (rc == 0) rc = conversion_open(out, c, o, e);
    if (rc == 0) rc = put_tensors(*out, e);
    if (rc == 0) rc = gguf_put_keys(*out, e);
    if (rc == 0) return 0;
    conversion_close(*out);
    *out = NULL;
    return rc;
}
