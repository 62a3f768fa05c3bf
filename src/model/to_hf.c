/* to_hf.c - a GGUF as the tensors of a Hugging Face directory: the inverse of to_gguf.c.
 * tensors.def has the names. to_hf_config.c writes the config.json. model_same_config detects a
 * feature that the config.json cannot express.
 *
 * A directory has one tensor per layer and matrix, as the class's modules. Experts and fused
 * matrices of the GGUF are therefore divided (put_part), and two matrices of it may be one
 * (to_hf_pair.c). The vectors have the type of the matrices if this type has their values
 * exactly. */
#include "convert_impl.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the class for a GGUF; NULL if none. slides: the file has a window. */
static const struct hf_class *class_of(const struct checkpoint *c, const char *arch, bool slides)
{
    static const struct hf_class all[] =
        {
#define TO_HF(arch, class, model_type, norm_add) {arch, class, model_type, norm_add, false},
#include "to_hf.def"
        },
                                 windowed[] = {
#define TO_HF_WINDOW(arch, class, model_type, norm_add) {arch, class, model_type, norm_add, false},
#include "to_hf.def"
                                 };
    static const struct {
        struct hf_class class;
        const char *tensor; /* static */
    } lacking[] = {
#define TO_HF_LACKS(arch, class, model_type, norm_add, tensor)                                     \
    {{arch, class, model_type, norm_add, false}, tensor},
#include "to_hf.def"
    };
    static const struct {
        struct hf_class class;
        const char *key; /* static */
        int value;
    } keyed[] = {
#define TO_HF_KEY(arch, class, model_type, norm_add, key, value)                                   \
    {{arch, class, model_type, norm_add, false}, key, value},
#include "to_hf.def"
    };
    for (size_t i = 0; i < sizeof keyed / sizeof keyed[0]; i++) {
        char full[160];
        snprintf(full, sizeof full, "%s.%s", arch, keyed[i].key);
        if (strcmp(arch_gguf_name(keyed[i].class.arch), arch) == 0 &&
            meta_int(checkpoint_meta(c, full), 0) == keyed[i].value)
            return &keyed[i].class;
    }
    for (size_t i = 0; i < sizeof lacking / sizeof lacking[0]; i++) {
        const bool has = lacking[i].tensor[0] == '!';
        if (strcmp(arch_gguf_name(lacking[i].class.arch), arch) == 0 &&
            (checkpoint_tensor(c, lacking[i].tensor + has) != NULL) == has)
            return &lacking[i].class;
    }
    for (size_t i = 0; slides && i < sizeof windowed / sizeof windowed[0]; i++)
        if (strcmp(arch_gguf_name(windowed[i].arch), arch) == 0) return &windowed[i];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(arch_gguf_name(all[i].arch), arch) == 0) return &all[i];
    return NULL;
}

/* Set the name of the class by the head of the file: a classifier, no head (embeddings), or the
 * head of the table's class. The name is in the model's arena. */
static int name_class(struct hf_class *class, struct model *m, struct err *e)
{
    static const char *const ends[] = {"ForCausalLM", "Model"};
    char name[80];
    const bool classifies = checkpoint_tensor(m->checkpoint, "cls.output.weight") != NULL;
    if (!classifies && m->config.pooling_type == 0) return 0;
    for (int i = 0; i < 2; i++) {
        if (!text_ends_with(class->name, ends[i])) continue;
        snprintf(name, sizeof name, "%.*s%s", (int)(strlen(class->name) - strlen(ends[i])),
                 class->name, classifies ? "ForSequenceClassification" : "Model");
        class->name = arena_text(&m->arena, name, strlen(name));
        return class->name ? 0 : err_memory(e, name, strlen(name));
    }
    return 0;
}

/* ---- tensors ---- */

/* Return true if the type can represent the values of a vector exactly after adding `add`. The
 * logarithm of a decay is exact if it gives the same decay again. */
static bool is_exact(const struct tensor_info *t, const struct source *s, enum qtype type)
{
    const bool decays = s->map == MAP_DECAY;
    for (int64_t i = 0; i < t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3]; i++) {
        uint8_t code[8];
        float back;
        const float x = qtype_value(t->type, t->data, i) + s->add;
        const float made = decays ? (float)log(-(double)x) : x;
        qtype_info[type].ops->encode(code, &made, 1, NULL);
        qtype_info[type].ops->decode(&back, code, 1);
        if (decays) back = (float)-exp((double)back);
        if (memcmp(&x, &back, sizeof x) != 0) return false;
    }
    return true;
}

/* Return the type of the matrices in the directory. */
static enum qtype matrix_type(const struct conversion *g, enum qtype from)
{
    const int type = g->type ? qtype_of_name(g->type) : (int)from;
    return type == QT_f32 || type == QT_f16 || type == QT_bf16 ? (enum qtype)type : QT_bf16;
}

/* Return true for a tensor that is F32 in every GGUF: a vector, or a parameter of recurrent
 * layers. */
static bool is_vector(const struct conversion *g, const struct tensor_info *t)
{
    const struct arch_convert *own = g->m->arch->convert;
    const char *const *end = own ? own->f32 : NULL;
    while (end && *end && !text_ends_with(t->name, *end)) end++;
    return t->n_dim == 1 || (t->type == QT_f32 && end && *end);
}

enum qtype hf_type_of(const struct conversion *g, const struct tensor_info *t,
                      const struct source *s)
{
    const struct tensor_info *embd = checkpoint_tensor(g->c, "token_embd.weight");
    const bool vector = is_vector(g, t);
    const enum qtype type = matrix_type(g, (vector ? embd : t)->type);
    return !vector || is_exact(t, s, type) ? type : QT_f32;
}

/* Return true for a vector that is a matrix of one row in the directory. */
static bool is_row(const struct hf_class *class, const struct tensor_info *t)
{
    static const struct {
        const char *arch, *end; /* static */
    } rows[] = {
#define TO_HF_ROW(arch, end) {arch, end},
#include "to_hf.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && t->n_dim == 1; i++)
        if (strcmp(rows[i].arch, class->arch) == 0 && text_ends_with(t->name, rows[i].end))
            return true;
    return false;
}

/* Add part `part` of n equal parts of a tensor. In the directory each part is a separate tensor. */
static int put_part(struct conversion *g, const struct hf_class *class, const struct tensor_info *t,
                    const char *raw, int part, int n, struct err *e)
{
    const bool norm = text_ends_with(t->name, "norm.weight");
    struct source s = {.back = true, .add = norm ? -class->norm_add : 0};
    int64_t dim[4] = {t->dim[0], t->dim[1], t->dim[2], t->dim[3]};
    int n_dim = is_row(class, t) ? 2 : t->n_dim;
    int rc = conversion_source(&s, (int)(t - checkpoint_tensor_at(g->c, 0)), e);
    if (rc != 0) return rc;
    conversion_order(&s, g->m, model_arch_find(class->arch), t->name);
    if (s.order == ORDER_TRANSPOSED) dim[0] = t->dim[1], dim[1] = t->dim[0];
    if (s.squeezed && n_dim == 2) dim[2] = dim[1], dim[1] = 1, n_dim = 3;
    if (s.flat && n_dim == 1) {
        const int64_t row = s.flat_row ? s.flat_row : dim[0];
        dim[1] = dim[0] / row, dim[0] = row, n_dim = s.flat_row ? 2 : 3;
    }
    if (s.n_dim > 0) n_dim = s.n_dim;
    if (s.row > 0 && n_dim == 2) dim[0] *= dim[1], dim[1] = 1, n_dim = 1;
    if (n > 1) dim[--n_dim] = 1;
    s.first = part * (n_dim > 1 ? dim[1] : 1);
    return conversion_add(g, raw, hf_type_of(g, t, &s), n_dim, dim, &s, e);
}

/* Return true for tensors that belong to other files. Divisors of the rope become fields of
 * config.json, and layers of an embedding become modules. */
static bool is_elsewhere(const char *name)
{
    return strncmp(name, "rope_f", 6) == 0 || strncmp(name, "dense_", 6) == 0;
}

bool conversion_raw_name(char *out, size_t n_out, const struct conversion *g,
                         const struct hf_class *class, const char *name, int part)
{
    static const struct {
        const char *arch, *tensor, *from, *to; /* static */
    } other[] = {
#define TO_HF_NAME(arch, tensor, part, other) {arch, tensor, part, other},
#include "to_hf.def"
    };
    char own[200], table[NAME_BYTES];
    conversion_rename(table, model_arch_find(class->arch), name, true);
    if (!hf_raw_name(own, sizeof own, table, class->arch, part)) return false;
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        const bool lacks = other[i].tensor[0] == '!';
        char *at = strstr(own, other[i].from), end[200];
        if (strcmp(other[i].arch, class->arch) != 0 || !at ||
            (checkpoint_tensor(g->c, other[i].tensor + lacks) != NULL) == lacks)
            continue;
        snprintf(end, sizeof end, "%s%s", other[i].to, at + strlen(other[i].from));
        snprintf(at, sizeof own - (size_t)(at - own), "%s", end);
    }
    const char *base = arch_base(class->arch);
    const bool bare = text_ends_with(class->name, "Model") &&
                      strncmp(own, base, strlen(base)) == 0 &&
                      !text_ends_with(class->name, "LMHeadModel");
    snprintf(out, n_out, "%s", own + (bare ? strlen(base) : 0));
    return true;
}

/* Return true if the rows of a tensor are vectors of the directory. */
static bool has_rows(const struct hf_class *class, const char *name)
{
    const struct arch_convert *own = model_arch_find(class->arch)->convert;
    return own && own->rows && text_ends_with(name, own->rows[0]);
}

/* Add each row of a tensor as a vector with two dimensions of size 1. */
static int put_rows(struct conversion *g, const struct hf_class *class, const struct tensor_info *t,
                    struct err *e)
{
    const char *const *rows = model_arch_find(class->arch)->convert->rows;
    const int stem = (int)(strlen(t->name) - strlen(rows[0]));
    const int64_t dim[4] = {t->dim[0], 1, 1, 1};
    int rc = 0;
    for (int i = 0; rows[i + 1] && rc == 0; i++) {
        char name[NAME_BYTES], raw[NAME_BYTES];
        struct source s = {.back = true, .first = i};
        struct tensor_info row = *t;
        row.n_dim = 1, row.dim[1] = row.dim[2] = row.dim[3] = 1;
        row.data += (size_t)i * qtype_bytes(t->type, t->dim[0]);
        snprintf(name, sizeof name, "%.*s%s", stem, t->name, rows[i + 1]);
        const bool named = conversion_raw_name(raw, sizeof raw, g, class, name, -1);
        CHECK(named, "tensor %s is in the table", name);
        rc = conversion_source(&s, (int)(t - checkpoint_tensor_at(g->c, 0)), e);
        if (rc == 0) rc = conversion_add(g, raw, hf_type_of(g, &row, &s), 3, dim, &s, e);
    }
    return rc;
}

/* Return the error of a tensor that the directory cannot have. */
static int refuse(const struct conversion *g, const struct tensor_info *t, struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED, "%s: tensor %s: conversion to a folder is not supported yet",
                   checkpoint_path(g->c), t->name);
}

/* Return true for a tensor with the rows of gate, then those of up, whose rows alternate in the
 * directory. */
static bool is_unpaired(const struct hf_class *class, const char *name)
{
    return model_arch_find(class->arch)->hf_pairs && strstr(name, ".ffn_gate_up");
}

/* Add tensor i, as one tensor or as its parts. Only a tensor of parts has no name of its own. */
static int put_tensor(struct conversion *g, const struct hf_class *class, int i, struct err *e)
{
    char raw[200];
    const struct tensor_info *t = checkpoint_tensor_at(g->c, i);
    struct hf_pair pair;
    if (is_elsewhere(t->name)) return 0;
    if (is_unpaired(class, t->name)) return refuse(g, t, e);
    if (hf_pair_of(&pair, g, class, t)) return t == pair.t[0] ? hf_put_pair(g, class, &pair, e) : 0;
    if (class->keeps_codes && text_ends_with(t->name, "_exps.weight"))
        return hf_put_codes(g, class, t->name, (const struct tensor_info *[]){t, NULL}, e);
    if (has_rows(class, t->name)) return put_rows(g, class, t, e);
    if (conversion_raw_name(raw, sizeof raw, g, class, t->name, -1))
        return put_part(g, class, t, raw, 0, 1, e);
    int rc = 0, n = (int)t->dim[t->n_dim - 1];
    for (int p = 0; p < n && rc == 0; p++) {
        if (!conversion_raw_name(raw, sizeof raw, g, class, t->name, p)) return refuse(g, t, e);
        rc = put_part(g, class, t, raw, p, n, e);
    }
    return rc;
}

/* Return true if the metadata have a window. */
static bool folder_has_window(const struct checkpoint *c, const char *arch)
{
    char key[160];
    snprintf(key, sizeof key, "%s.attention.sliding_window", arch);
    return meta_int(checkpoint_meta(c, key), 0) > 0;
}

int model_hf_open(struct conversion **out, const struct checkpoint *c,
                  const struct conversion_options *o, struct buf *config, struct err *e)
{
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    const struct arch *reader = arch ? model_arch_find(arch) : NULL;
    if (reader) arch = reader->name;
    const struct hf_class *found = arch ? class_of(c, arch, folder_has_window(c, arch)) : NULL;
    const struct tensor_info *embd = checkpoint_tensor(c, "token_embd.weight");
    const int type = o->type ? qtype_of_name(o->type) : QT_f32;
    *out = NULL;
    if (!found)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: architecture \"%.60s\": conversion to a folder is not supported yet",
                       checkpoint_path(c), arch ? arch : "");
    if (type != QT_f32 && type != QT_f16 && type != QT_bf16)
        return err_set(e, ERR_ARG, "--type: must be F32, F16 or BF16 for a folder, got %s",
                       o->type);
    struct hf_class class = *found;
    int rc = conversion_open(out, c, o, e);
    if (rc == 0) rc = name_class(&class, (*out)->m, e);
    if (rc == 0) class.keeps_codes = hf_keeps_codes(*out, &class);
    for (int i = 0; i < checkpoint_n_tensor(c) && rc == 0; i++)
        if ((*out)->used[i]) rc = put_tensor(*out, &class, i, e);
    const struct arch_convert *own = model_arch_find(class.arch)->convert;
    if (rc == 0 && own && own->put_tensors) rc = own->put_tensors(*out, &class, e);
    if (rc == 0) rc = hf_put_config(config, (*out)->m, &class, matrix_type(*out, embd->type), e);
    if (rc == 0) return 0;
    conversion_close(*out);
    *out = NULL;
    return rc;
}

int model_hf_dense(struct conversion **out, const struct checkpoint *c,
                   const struct conversion_options *o, int i, struct err *e)
{
    static const char *const end[] = {"weight", "bias"};
    *out = NULL;
    int rc = conversion_open(out, c, o, e);
    for (int k = 0; k < 2 && rc == 0; k++) {
        char name[40], raw[40];
        struct source s = {0};
        snprintf(name, sizeof name, "dense_%d.%s", i + 2, end[k]);
        snprintf(raw, sizeof raw, "linear.%s", end[k]);
        const struct tensor_info *t = checkpoint_tensor(c, name);
        if (!t) continue;
        rc = conversion_source(&s, (int)(t - checkpoint_tensor_at(c, 0)), e);
        if (rc == 0)
            rc = conversion_add(*out, raw, hf_type_of(*out, t, &s), t->n_dim, t->dim, &s, e);
    }
    if (rc == 0) return 0;
    conversion_close(*out);
    *out = NULL;
    return rc;
}
