/* tensors.c - look-ups in the table of tensors.def: the tensors of each architecture, their Hugging
 * Face names and their sizes.
 *
 *   raw name   model.layers.3.mlp.experts.17.down_proj.weight
 *   pattern    model.layers.%d.mlp.experts.%d.down_proj   -> holes 3, 17; suffix ".weight"
 *   GGUF name  blk.%d.ffn_down_exps                       -> blk.3.ffn_down_exps.17.weight
 *
 * The rows of an architecture are consecutive, so tensor_rows returns its first row and their
 * number. */
#include "format_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tensor_row rows[] = {
#define TENSOR(arch, name, raw, n_out, k)                                                          \
    {#arch, name, raw, SIZE_##n_out, SIZE_##k, SIZE_ONE, false, false},
#define OTHER(arch, name, raw, n_out, k)                                                           \
    {#arch, name, raw, SIZE_##n_out, SIZE_##k, SIZE_ONE, false, true},
#define PARTS(arch, name, raw, n, n_out, k)                                                        \
    {#arch, name, raw, SIZE_##n_out, SIZE_##k, SIZE_##n, false, false},
#define OTHER_PARTS(arch, name, raw, n, n_out, k)                                                  \
    {#arch, name, raw, SIZE_##n_out, SIZE_##k, SIZE_##n, false, true},
#define VECTOR(arch, name, raw, n) {#arch, name, raw, SIZE_ONE, SIZE_##n, SIZE_ONE, false, false},
#define BIAS(arch, name, n)        {#arch, name, NULL, SIZE_ONE, SIZE_##n, SIZE_ONE, true, false},
#define EXPERT_BIAS(arch, name, n)                                                                 \
    {#arch, name, NULL, SIZE_N_EXPERT, SIZE_##n, SIZE_ONE, true, false},
#define BIAS_OF(arch, name, raw, n) {#arch, name, raw, SIZE_ONE, SIZE_##n, SIZE_ONE, true, false},
#define OTHER_BIAS_OF(arch, name, raw, n)                                                          \
    {#arch, name, raw, SIZE_ONE, SIZE_##n, SIZE_ONE, true, true},
#include "tensors.def"
};
enum { N_ROW = sizeof rows / sizeof rows[0] };

const struct tensor_row *tensor_rows(const char *arch, int *n)
{
    int first = 0;
    while (first < N_ROW && strcmp(rows[first].arch, arch) != 0) first++;
    for (*n = 0; first + *n < N_ROW && strcmp(rows[first + *n].arch, arch) == 0;) ++*n;
    return *n ? &rows[first] : NULL;
}

static const struct {
    const char *arch, *other; /* static */
} model_types[] =
    {
#define ARCH_MODEL_TYPE(arch, model_type) {#arch, model_type},
#include "tensors.def"
},
  gguf_names[] = {
#define ARCH_GGUF(arch, gguf) {#arch, #gguf},
#include "tensors.def"
};
static const struct arch_field fields[] = {
#define ARCH_FIELD(arch, model_type, field) {#arch, model_type, field},
#include "tensors.def"
};
static const struct arch_field classes[] = {
#define ARCH_CLASS(arch, model_type, cls) {#arch, model_type, cls},
#include "tensors.def"
};
static const struct {
    const char *arch, *model_type; /* static */
} modules[] = {
#define ARCH_MODULES(arch, model_type) {#arch, model_type},
#include "tensors.def"
};
/* prefix of the Hugging Face names of architectures without ARCH_BASE */
#define BASE_USUAL "model."
static const struct {
    const char *arch, *base; /* static */
} bases[] = {
#define ARCH_BASE(arch, base) {#arch, base},
#include "tensors.def"
};
static const char *const columns[] = {
#define ARCH_COLUMNS(arch) #arch,
#include "tensors.def"
};
static const struct {
    const char *arch; /* static */
    bool square;
} expert_columns[] = {
#define ARCH_EXPERT_COLUMNS(arch, square) {#arch, square},
#include "tensors.def"
};
static const struct {
    const char *arch, *name, *raw; /* static */
} aliases[] = {
#define ALIAS(arch, name, raw) {#arch, name, raw},
#include "tensors.def"
};
static const char *const windows[] = {
#define ARCH_WINDOW(gguf) #gguf,
#include "tensors.def"
};

const char *tensor_alias(const char *arch, const char *name, int i)
{
    for (size_t k = 0; k < sizeof aliases / sizeof aliases[0]; k++)
        if (strcmp(aliases[k].arch, arch) == 0 && strcmp(aliases[k].name, name) == 0 && i-- == 0)
            return aliases[k].raw;
    return NULL;
}

const char *arch_of_model_type(const char *model_type)
{
    for (size_t i = 0; i < sizeof model_types / sizeof model_types[0]; i++)
        if (strcmp(model_types[i].other, model_type) == 0) return model_types[i].arch;
    return model_type;
}

const char *arch_model_type(const char *arch, int i)
{
    int n = 0;
    for (size_t k = 0; k < sizeof model_types / sizeof model_types[0]; k++)
        if (strcmp(model_types[k].arch, arch) == 0 && n++ == i) return model_types[k].other;
    for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++)
        if (strcmp(fields[k].arch, arch) == 0) return NULL;
    for (size_t k = 0; k < sizeof modules / sizeof modules[0]; k++)
        if (strcmp(modules[k].arch, arch) == 0) return NULL;
    return n == 0 && i == 0 ? arch : NULL;
}

const struct arch_field *arch_field_at(size_t i)
{
    return i < sizeof fields / sizeof fields[0] ? &fields[i] : NULL;
}

const struct arch_field *arch_class_at(size_t i)
{
    return i < sizeof classes / sizeof classes[0] ? &classes[i] : NULL;
}

const char *arch_of_modules(const char *model_type)
{
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        if (strcmp(modules[i].model_type, model_type) == 0) return modules[i].arch;
    return NULL;
}

const char *arch_gguf_name(const char *arch)
{
    for (size_t i = 0; i < sizeof gguf_names / sizeof gguf_names[0]; i++)
        if (strcmp(gguf_names[i].arch, arch) == 0) return gguf_names[i].other;
    return arch;
}

const char *arch_base(const char *arch)
{
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
        if (strcmp(bases[i].arch, arch) == 0) return bases[i].base;
    return BASE_USUAL;
}

static bool is_listed(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0) return true;
    return false;
}

bool arch_gguf_window(const char *gguf)
{
    return is_listed(windows, sizeof windows / sizeof windows[0], gguf);
}

bool arch_hf_columns(const char *arch)
{
    return is_listed(columns, sizeof columns / sizeof columns[0], arch);
}

bool arch_hf_expert_columns(const char *arch, bool *square)
{
    for (size_t i = 0; i < sizeof expert_columns / sizeof expert_columns[0]; i++)
        if (strcmp(expert_columns[i].arch, arch) == 0) {
            *square = expert_columns[i].square;
            return true;
        }
    return false;
}

/* ---- names ---- */

enum { HOLES_MAX = 2 };
struct hole {
    const char *digit; /* position of the number in the raw name, borrowed */
    int n;
};

/* Return the length of the part of `raw` that the pattern matches; 0 if none. Set hole[] to the
 * number for each %d of the pattern. A pattern with $ at its end matches only whole names. */
static size_t match(const char *raw, const char *pattern, struct hole hole[HOLES_MAX], int *n_hole)
{
    const char *s = raw;
    for (*n_hole = 0; *pattern; pattern++) {
        if (pattern[0] == '$') return *s ? 0 : (size_t)(s - raw);
        if (pattern[0] != '%') {
            if (*s++ != *pattern) return 0;
            continue;
        }
        if (*n_hole == HOLES_MAX) return 0;
        struct hole *h = &hole[(*n_hole)++];
        for (h->digit = s; isdigit((unsigned char)*s);) s++;
        h->n = (int)(s - h->digit);
        if (h->n == 0) return 0;
        pattern++; /* the d */
    }
    return *s == '.' ? (size_t)(s - raw) : 0;
}

/* Write `name` with the layer for its %d, then the rest of the raw name: the expert and the
 * suffix. */
static void format_name(char *out, size_t n_out, const char *name, const struct hole *hole,
                        int n_hole, const char *suffix)
{
    const char *at = strchr(name, '%');
    int n_before = at ? (int)(at - name) : (int)strlen(name), own = at ? 1 : 0;
    snprintf(out, n_out, "%.*s%.*s%s%s%.*s%s", n_before, name, at ? hole[0].n : 0,
             at ? hole[0].digit : "", at ? at + 2 : "", n_hole > own ? "." : "",
             n_hole > own ? hole[own].n : 0, n_hole > own ? hole[own].digit : "", suffix);
}

/* Match `raw` with a row's name. Models that were saved without their head lack a prefix, so the
 * name without that prefix also matches. In files of several parts, match `raw` with the names of
 * the text part. Return and set the same values as match(). */
static size_t match_row(const char *raw, const struct tensor_row *row, bool parts,
                        struct hole hole[HOLES_MAX], int *n_hole)
{
    const char *base = arch_base(row->arch), *begin;
    const size_t n_base = strlen(base);
    bool whole;
    if (!row->raw) return 0;
    size_t n = match(raw, row->raw, hole, n_hole);
    const bool based = strncmp(row->raw, base, n_base) == 0;
    if (n == 0 && based && !parts) n = match(raw, row->raw + n_base, hole, n_hole);
    for (int i = 0; n == 0 && parts && (begin = parts_name(i, &whole)); i++) {
        const size_t n_begin = strlen(begin);
        if (whole == based || strncmp(raw, begin, n_begin) != 0) continue;
        n = match(raw + n_begin, row->raw + (whole ? 0 : n_base), hole, n_hole);
        if (n > 0) n += n_begin;
    }
    return n;
}

/* Return the current spelling of the end of a name, from raw[n_match]. A parameter of the module
 * itself has no end. BERT's first checkpoints, which are still published, have other names for the
 * weights of a LayerNorm. */
static const char *suffix_of(const char *raw, size_t n_match)
{
    static const char norm[] = "LayerNorm";
    const size_t n = sizeof norm - 1;
    const char *end = raw[n_match] ? raw + n_match : ".weight";
    if (n_match < n || memcmp(raw + n_match - n, norm, n) != 0) return end;
    return strcmp(end, ".gamma") == 0 ? ".weight" : strcmp(end, ".beta") == 0 ? ".bias" : end;
}

/* Write a pattern with the numbers for its %d, then the suffix. */
static void fill_holes(char *out, size_t n_out, const char *pattern, const struct hole *hole,
                       const char *suffix)
{
    size_t n = 0;
    for (const char *at = pattern; n + 1 < n_out;) {
        const char *end = strchr(at, '%');
        const int n_text = end ? (int)(end - at) : (int)strlen(at);
        n += (size_t)snprintf(out + n, n_out - n, "%.*s", n_text, at);
        if (!end || n >= n_out) break;
        n += (size_t)snprintf(out + n, n_out - n, "%.*s", hole->n, hole->digit);
        hole++;
        at = end + 2;
    }
    if (n < n_out) snprintf(out + n, n_out - n, "%s", suffix);
}

/* Return the number of %d in a pattern. */
static int count_holes(const char *pattern)
{
    int n = 0;
    for (; (pattern = strchr(pattern, '%')); pattern++) n++;
    return n;
}

int hf_part_of(const char *name, char *whole, size_t n_whole)
{
    enum { DIGITS_MAX = 6 }; /* the number fits an int */
    const char *end = strrchr(name, '.'), *at = end;
    while (at && at > name && at[-1] >= '0' && at[-1] <= '9') at--;
    if (!at || at == end || at == name || at[-1] != '.' || end - at > DIGITS_MAX) return -1;
    snprintf(whole, n_whole, "%.*s%s", (int)(at - 1 - name), name, end);
    return (int)strtol(at, NULL, 10);
}

/* The row that matches the longest part of the name is used: "cls.output", not "cls". A pattern
 * with $ must match the whole name. */
bool hf_raw_name(char *out, size_t n_out, const char *name, const char *arch, int part)
{
    int n;
    size_t longest = 0;
    char own[160], number[16];
    const struct tensor_row *row = tensor_rows(arch, &n);
    snprintf(number, sizeof number, "%d", part);
    for (int i = 0; i < n; i++) {
        struct hole hole[HOLES_MAX];
        int n_hole = 0;
        const char *raw = row[i].raw;
        const size_t n_match = raw ? match(name, row[i].name, hole, &n_hole) : 0;
        const bool in_parts = raw && count_holes(raw) > n_hole,
                   whole = raw && raw[strlen(raw) - 1] == '$';
        if (n_match <= longest || n_hole == HOLES_MAX || in_parts != (part >= 0)) continue;
        if (whole && strcmp(name + n_match, row[i].bias ? ".bias" : ".weight") != 0) continue;
        if (in_parts) hole[n_hole] = (struct hole){number, (int)strlen(number)};
        snprintf(own, sizeof own, "%.*s", (int)strlen(raw) - whole, raw);
        fill_holes(out, n_out, own, hole, whole ? "" : name + n_match);
        longest = n_match;
    }
    return longest > 0;
}

const char *hf_field_name(const char *arch, const char *key)
{
    static const struct {
        const char *arch, *field, *key; /* static; arch NULL: every architecture */
    } all[] = {
#define HF_KEY_OF(arch, field, key) {arch, field, key},
#define HF_KEY(field, key)          {NULL, field, key},
#include "hf_keys.def"
    };
    const char *field = NULL;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].key, key) != 0) continue;
        if (all[i].arch && strcmp(all[i].arch, arch) == 0) return all[i].field;
        if (!all[i].arch && !field) field = all[i].field;
    }
    return field;
}

void hf_tensor_name(char *out, size_t n_out, const char *raw, const char *arch, bool parts)
{
    int n, n_hole;
    const struct tensor_row *row = tensor_rows(arch ? arch : "llama", &n);
    if (!row) row = tensor_rows("llama", &n);
    for (int i = 0; i < n; i++) {
        struct hole hole[HOLES_MAX];
        size_t n_match = match_row(raw, &row[i], parts, hole, &n_hole);
        if (n_match == 0) continue;
        format_name(out, n_out, row[i].name, hole, n_hole,
                    row[i].bias ? ".bias" : suffix_of(raw, n_match));
        return;
    }
    snprintf(out, n_out, "%s", raw);
}
