/* form.c - read quantization_config: select the form and check its fields. form.c also has helpers
 * for all forms.
 *
 *   config.json: quantization_config --form_read--> config.quant      once per model
 *   site (stem, layer, shape) --form_bind--> struct published, type   per matrix
 *
 * form.def lists the known fields. An unknown field is an error, because it may change values. The
 * rows of a method have its name. Rows for all methods have an empty name. A matrix without the
 * form's tensors is bound as plain rows, because modules may be exempt. */
#include "form_impl.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* ---- fields ---- */

static const char prefix[] = "config.quantization_config.";

const struct meta *form_meta(const struct binder *b, const char *field)
{
    char key[160];
    snprintf(key, sizeof key, "%s%s", prefix, field);
    return checkpoint_meta(b->checkpoint, key);
}

void form_refuse(struct binder *b, const char *field, const char *fmt, ...)
{
    char key[160], text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args); /* check: the format attribute is on the prototype */
    va_end(args);
    snprintf(key, sizeof key, "%s%.110s", prefix, field);
    config_refuse(b, key, ERR_UNSUPPORTED, "%s", text);
}

/* Reject a boolean, although true is an integer in JSON libraries of some languages. */
int form_int(struct binder *b, const char *field, int lo, int hi, int fallback)
{
    const struct meta *m = form_meta(b, field);
    if (meta_kind(m) == META_NONE) return fallback;
    char text[80];
    const int64_t v = meta_kind(m) == META_BOOL ? INT64_MIN : meta_int(m, INT64_MIN);
    if (v >= lo && v <= hi) return (int)v;
    form_refuse(b, field, "must be an integer in [%d, %d], got %s", lo, hi,
                config_value_text(m, text));
    return fallback;
}

struct field {
    const char *method, *name, *only; /* static; only: accepted values; NULL: all values */
};
static const struct field fields[] = {
#define FIELD(method, field, only) {method, field, only},
#include "form.def"
};

/* Return true if a field's path matches the pattern. * matches one name without a dot. */
static bool name_is(const char *name, const char *pattern)
{
    for (; *pattern; pattern++)
        if (*pattern == '*') {
            if (*name == 0 || *name == '.') return false;
            name += strcspn(name, ".");
        } else if (*name++ != *pattern)
            return false;
    return *name == 0;
}

/* Return the row of a field of the method, or of all methods. NULL if none. */
static const struct field *field_of(const char *method, const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if ((!*fields[i].method || strcmp(fields[i].method, method) == 0) &&
            name_is(name, fields[i].name))
            return &fields[i];
    return NULL;
}

/* Return true if `text` is a name in `list`. The names are separated by |, so a text with | is not
 * a name. */
static bool among(const char *text, const char *list)
{
    const size_t n = strlen(text);
    for (size_t n_name; *list; list += n_name + (list[n_name] == '|')) {
        n_name = strcspn(list, "|");
        if (n_name == n && memcmp(list, text, n) == 0) return true;
    }
    return false;
}

/* Reject fields that are unknown for the method, or have a value outside `only`. null means absent,
 * and so does an empty object in place of a group of fields. */
static void check_fields(struct binder *b, const char *method)
{
    for (int i = 0; i < checkpoint_n_meta(b->checkpoint) && b->rc == 0; i++) {
        char text[80];
        const char *key;
        const struct meta *m = checkpoint_meta_at(b->checkpoint, i, &key);
        if (strncmp(key, prefix, sizeof prefix - 1) != 0 || meta_kind(m) == META_NONE) continue;
        key += sizeof prefix - 1;
        const struct field *f = field_of(method, key);
        const char *value = config_value_text(m, text);
        if (meta_is_empty(m) && !(f && f->only)) continue; /* an unused group of fields */
        if (!f)
            form_refuse(b, key, "not supported yet in quant_method \"%s\", got %s", method, value);
        else if (f->only && !among(value, f->only))
            form_refuse(b, key, "must be %s, got %s", f->only, value);
    }
}

/* ---- methods ---- */

static const struct form *const forms[] = {
#define FORM(id) &form_##id,
#include "form.def"
};

/* Select the form by quant_method. The error lists alternatives that quoth can load. */
void form_read(struct binder *b)
{
    const struct meta *m = checkpoint_meta(b->checkpoint, "config.quantization_config");
    if (meta_kind(m) == META_NONE || b->rc != 0) return;
    const char *method = meta_text(form_meta(b, "quant_method"), NULL);
    for (size_t i = 0; method && i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(forms[i]->method, method) == 0) b->m->config.quant.form = forms[i];
    if (!b->m->config.quant.form) {
        config_refuse(b, "config.quantization_config.quant_method", ERR_UNSUPPORTED,
                      "must be a known method, got %s%.40s%s; the unquantized checkpoint, or a "
                      "GGUF of it, loads",
                      method ? "\"" : "", method ? method : "none", method ? "\"" : "");
        return;
    }
    check_fields(b, method);
    if (b->rc == 0 && b->m->config.quant.form->read) b->m->config.quant.form->read(b);
}

/* Set *p to plain rows. The form's bind changes *p to codes, or to values in other places (then
 * it sets p->form), if the matrix has the form's tensors. Set *type to the smallest format that can
 * represent all values. */
const struct tensor_info *form_bind(struct binder *b, struct published *p, enum qtype *type,
                                    const struct site *s)
{
    const struct form *form = b->m->config.quant.form;
    *p = (struct published){.form = FORM_ROWS,
                            .part = {.n = s->n_out},
                            .n_out = s->n_out,
                            .k = s->k,
                            .by = 1,
                            .block_out = 1,
                            .block_k = s->k};
    p->scale.divisor = 1;
    const struct tensor_info *t = form && b->rc == 0 ? form->bind(b, s, p) : NULL;
    if (!t || b->rc != 0) return NULL;
    b->any_codes = true;
    *type = t->type;
    if (p->form != FORM_ROWS) return t;
    p->form = FORM_CODES;
    *type = published_type(p);
    return t;
}

bool form_has_experts(const struct binder *b, const struct site *s)
{
    const struct form *form = b->m->config.quant.form;
    return form && form->has_experts && form->has_experts(b, s);
}

const struct tensor_info *form_bind_experts(struct binder *b, const struct site *s,
                                            struct published *from, int64_t n_expert,
                                            const struct row_part *part)
{
    b->any_codes = true;
    return b->m->config.quant.form->bind_experts(b, s, from, n_expert, part);
}

/* Random weights have no codes, in any form. */
void form_check(const struct binder *b)
{
    const struct form *form = b->m->config.quant.form;
    if (form && !b->any_codes && b->rc == 0 && !checkpoint_is_random(b->checkpoint))
        log_warn(
            "%s: quantization_config: no matrix is quantized by \"%s\"; the weights are used as "
            "they are",
            checkpoint_path(b->checkpoint), form->method);
}

/* Return true for scales of KV caches and of attention's outputs, because these scales do not
 * change weights. */
bool form_left_out(const struct binder *b, const char *name)
{
    static const char *const end[] = {".k_scale",
                                      ".v_scale",
                                      ".q_scale",
                                      ".prob_scale",
                                      ".k_proj.output_scale",
                                      ".v_proj.output_scale",
                                      ".attn_k.output_scale",
                                      ".attn_v.output_scale"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof end / sizeof end[0] && b->m->config.quant.form; i++)
        if (n >= strlen(end[i]) && strcmp(name + n - strlen(end[i]), end[i]) == 0) return true;
    return false;
}

/* ---- tensors ---- */

/* Write the name of a tensor: stem with the layer, expert, suffix. */
static void name_of(const struct binder *b, char out[160], const struct site *s, const char *suffix)
{
    char tail[96];
    snprintf(tail, sizeof tail, "%s%s", s->expert, suffix);
    bind_name(b, out, s->stem, s->il, tail);
}

void form_fault(struct binder *b, const struct tensor_info *t, const char *fmt, ...)
{
    char text[300];
    va_list args;
    if (b->rc != 0) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args); /* check: the format attribute is on the prototype */
    va_end(args);
    bind_refuse(b, t, ERR_FORMAT, " %s", text);
}

const struct tensor_info *form_find(struct binder *b, const struct site *s, const char *suffix)
{
    char name[160];
    name_of(b, name, s, suffix);
    return bind_find(b, name);
}

/* Return true if n is the required size. want: the required size; -1 accepts each positive size. */
static bool size_is(int64_t n, int64_t want)
{
    return want < 0 ? n >= 1 : n == want;
}

/* Return a required size as text, for an error. */
static const char *size_text(int64_t want, char out[24])
{
    if (want < 0) return "any";
    snprintf(out, 24, "%lld", (long long)want);
    return out;
}

/* Return a tensor of the matrix. types: set of allowed types, bits TYPE(t). ERR_MISSING, or
 * ERR_FORMAT if the type or the shape is wrong. */
const struct tensor_info *form_need(struct binder *b, const struct site *s, const char *suffix,
                                    uint64_t types, int64_t n_row, int64_t n_col)
{
    char name[160], row[24], col[24];
    if (b->rc != 0) return NULL;
    const struct tensor_info *t = form_find(b, s, suffix);
    name_of(b, name, s, suffix);
    if (!t)
        bind_missing(b, name);
    else if (!(types >> t->type & 1))
        form_fault(b, t, "has type %s: not supported yet in this form", qtype_info[t->type].name);
    else if (t->dim[2] != 1 || t->dim[3] != 1 || !size_is(t->dim[1], n_row) ||
             !size_is(t->dim[0], n_col) || !t->data)
        form_fault(b, t, "is [%lld, %lld], expected [%s, %s]", (long long)t->dim[1],
                   (long long)t->dim[0], size_text(n_row, row), size_text(n_col, col));
    return b->rc == 0 ? t : NULL;
}

void form_skip(struct binder *b, const struct site *s, const char *const *suffixes)
{
    for (; *suffixes; suffixes++) form_find(b, s, *suffixes);
}

/* ---- scales and groups ---- */

/* Set the scales of a matrix. Configs often lack the groups, so the shape of t determines the
 * groups:
 *
 *   block_out > 0      [ceil(n_out / block_out), ceil(k / block_k)]   one scale per block
 *   [1, 1] or [1]      one scale for the matrix
 *   [n_out, n_group]   one scale per output and group; n_group 1: per output */
void form_scales(struct binder *b, const struct site *s, struct published *p,
                 const struct tensor_info *t, int64_t block_out, int64_t block_k)
{
    if (!t || b->rc != 0) return;
    const bool line = t->n_dim == 1;
    const int64_t n_row = line ? t->dim[0] : t->dim[1], n_col = line ? 1 : t->dim[0];
    const int64_t n_block = block_out ? (s->n_out + block_out - 1) / block_out : 0,
                  n_block_k = block_k ? (s->k + block_k - 1) / block_k : 0;
    p->scale.data = t->data, p->scale.type = t->type;
    p->scale.row_step = n_col, p->scale.group_step = 1;
    p->block_out = 1, p->block_k = s->k;
    if (block_out && n_row == n_block && n_col == n_block_k)
        p->block_out = block_out, p->block_k = block_k;
    else if (block_out)
        form_fault(b, t, "is [%lld, %lld], expected [%lld, %lld]", (long long)n_row,
                   (long long)n_col, (long long)n_block, (long long)n_block_k);
    else if (n_row == 1 && n_col == 1)
        p->block_out = s->n_out;
    else if (n_row == s->n_out && n_col >= 1)
        p->block_k = form_group_size(b, n_col, s->k, false);
    else
        p->block_k = 0;
    if (p->block_k == 0)
        form_fault(b, t, "is [%lld, %lld]: no scales of the config's groups of %lld inputs",
                   (long long)n_row, (long long)n_col, (long long)s->k);
    if (p->block_k == 0) p->block_k = s->k;
}

/* Return true if one group may contain all k inputs. The config then has no group size, the size
 * -1, or a size of at least k. */
static bool one_group(const struct quantization *q, int64_t k)
{
    for (int i = 0; i < q->n_group_size; i++)
        if (q->group_size[i] < 0 || q->group_size[i] >= k) return true;
    return q->n_group_size == 0 || q->per_output;
}

/* The last group may be shorter, because k may not be a multiple of the group size. */
int64_t form_group_size(const struct binder *b, int64_t n_group, int64_t k, bool any)
{
    const struct quantization *q = &b->m->config.quant;
    if (n_group == 1 && (any || one_group(q, k))) return k;
    for (int i = 0; i < q->n_group_size; i++) {
        const int64_t n = q->group_size[i];
        if (n > 0 && (k + n - 1) / n == n_group) return n;
    }
    return any && n_group > 0 && k % n_group == 0 ? k / n_group : 0;
}

/* Return item i of an i32 tensor, at any alignment. */
static int32_t item_of(const struct tensor_info *t, int64_t i)
{
    int32_t v;
    memcpy(&v, t->data + i * (int64_t)sizeof v, sizeof v);
    return v;
}

/* Read the group of each input, which GPTQ's act-order stores in g_idx. Consecutive groups need no
 * table. A tensor with only -1 means that there is no table. Each group number is checked, because
 * it becomes an index. */
void form_groups(struct binder *b, const struct site *s, struct published *p, const char *suffix,
                 int64_t n_group)
{
    if (!form_find(b, s, suffix) || b->rc != 0) return;
    const struct tensor_info *t = form_find(b, s, suffix);
    if (t->n_byte == 0) return;
    t = form_need(b, s, suffix, TYPE(i32), 1, s->k);
    if (!t) return;
    bool plain = true, unset = true;
    for (int64_t i = 0; i < s->k && unset; i++) unset = item_of(t, i) == -1;
    for (int64_t i = 0; i < s->k && !unset; i++) {
        const int32_t g = item_of(t, i);
        plain &= g == i / p->block_k;
        if (g >= 0 && g < n_group) continue;
        form_fault(b, t, "[%lld] is %d, expected a group in [0, %lld)", (long long)i, g,
                   (long long)n_group);
        return;
    }
    /* GPTQ writes the groups whenever it orders the inputs */
    if (unset && n_group > 1 && b->m->config.quant.flags & FORM_OWN_GROUPS &&
        strcmp(suffix, "g_idx") == 0)
        form_fault(b, t, "[0] is -1, expected a group in [0, %lld), because desc_act is true",
                   (long long)n_group);
    if (plain || unset) return;
    int32_t *group = arena_push(&b->m->arena, (size_t)s->k * sizeof *group, 64);
    if (!group) b->rc = err_memory(b->e, t->name, (unsigned long long)s->k * sizeof *group);
    if (group) memcpy(group, t->data, (size_t)s->k * sizeof *group);
    p->group = group;
}

/* Return the value of a tensor with one value; 1 if the tensor is absent or its type has no
 * values. */
float form_scalar(const struct tensor_info *t)
{
    float x = 1;
    if (t && qtype_info[t->type].ops) qtype_info[t->type].ops->decode(&x, t->data, 1);
    return x;
}

/* ---- codes ---- */

/* Values of FP4 E2M1 (OCP Microscaling Formats), with the sign in the highest bit. */
const float form_e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                             -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/* Return the values of all E4M3 codes. The values are computed at the first use and kept in the
 * binder. Set b->rc if memory is exhausted. */
const float *form_e4m3(struct binder *b)
{
    float *level = b->e4m3 ? NULL : arena_push(&b->m->arena, 256 * sizeof *level, 64);
    for (int i = 0; i < 256 && level; i++) level[i] = f32_of_e4m3((uint8_t)i);
    if (level) b->e4m3 = level;
    if (!b->e4m3) b->rc = err_memory(b->e, "levels of 8-bit floats", 256 * sizeof *level);
    return b->e4m3;
}

struct codes form_bytes(const struct tensor_info *t, int64_t n_col)
{
    return (struct codes){.data = t->data, .bits = 8, .word = 1, .step = 1, .other = n_col};
}

/* Return the layout of codes along the inputs, in little-endian words of 32 bits. */
struct codes form_words(const struct tensor_info *t, int bits, int64_t n_word)
{
    return (struct codes){.data = t->data,
                          .bits = bits,
                          .word = FORM_INT32,
                          .step = FORM_INT32,
                          .other = n_word * FORM_INT32};
}

struct codes form_words_out(const struct tensor_info *t, int bits, int64_t n_word)
{
    struct codes c = form_words(t, bits, n_word);
    c.along_out = true;
    return c;
}
