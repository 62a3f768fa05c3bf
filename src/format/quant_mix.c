/* quant_mix.c - the number format of each tensor of a model, by a published mix of formats
 * (quant_mix.def) or one format for all matrices.
 *
 *   not a matrix, a norm, a router,         its own type
 *   positions, token types
 *   the head (tied: the embedding)          Q6_K; Q8_0 if all other matrices are Q8_0, or if rows
 *                                           are not a multiple of 256; for a float format that
 *                                           format
 *   a tensor with a rule                    the rule's type
 *   any other matrix                        the mix's type
 *   rows that are not a multiple of a block the type of smaller blocks, as in llama.cpp
 *
 * Formats that no GGUF has (FP8 and NF4 with scales) apply only to matrices of layers, as in the
 * libraries that write these formats. */
#include "format_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum where { EVERYWHERE, MORE_BITS, FIRST_2, FIRST_4, FIRST_8TH, FIRST_16TH, GROUPS_OF_4 };

static const struct quant_mix_name {
    const char *name; /* static */
    enum qtype type;
    int file_type;
} names[] = {
#define QUANT_MIX(name, type, file_type) {name, QT_##type, file_type},
#include "quant_mix.def"
};

static const struct quant_mix_rule {
    const char *mix, *tensor; /* static */
    enum where where;         /* layers to which the rule applies */
    enum qtype type;
} rules[] = {
#define QUANT_MIX_RULE(mix, tensor, where, type) {mix, tensor, where, QT_##type},
#include "quant_mix.def"
};

static int unknown(const char *name, struct err *e)
{
    char list[400] = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", names[i].name);
    }
    return err_set(e, ERR_ARG,
                   "number format \"%.40s\" not found; available: those of GGUF (F16, Q4_K, IQ2_XS "
                   "...) and the mixtures %s",
                   name, list);
}

static bool is_quant_mix(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, name) == 0) return true;
    return false;
}

const char *quant_mix_name_at(int i)
{
    int n = sizeof names / sizeof names[0];
    if (i < n) return names[i].name;
    for (int t = 0; t < QT_COUNT; t++)
        if (qtype_info[t].ops && !is_quant_mix(qtype_info[t].name) && i-- == n)
            return qtype_info[t].name;
    return NULL;
}

int quant_mix_find(struct quant_mix *m, const char *name, bool pure, struct err *e)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(names[i].name, name) != 0) continue;
        *m = (struct quant_mix){names[i].name, names[i].type, names[i].file_type, pure};
        return 0;
    }
    int type = qtype_of_name(name);
    if (type < 0 || !qtype_info[type].ops) return unknown(name, e);
    *m = (struct quant_mix){qtype_info[type].name, (enum qtype)type, -1, pure};
    return 0;
}

const char *quant_mix_name(int file_type)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].file_type == file_type && file_type >= 0) return names[i].name;
    return NULL;
}

/* ---- one tensor ---- */

/* Split "blk.12.attn_v.weight" into 12 and "attn_v...", also after "enc." or "dec.". Return -1
 * outside layers. */
static int layer_of(const char *name, const char **part)
{
    if (strncmp(name, "enc.", 4) == 0 || strncmp(name, "dec.", 4) == 0) name += 4;
    char *end = (char *)name;
    *part = name;
    if (strncmp(name, "blk.", 4) != 0) return -1;
    long il = strtol(name + 4, &end, 10);
    if (*end != '.') return -1;
    *part = end + 1;
    return (int)il;
}

/* Return true if a rule's condition is true for layer il. The conditions are from llama.cpp's
 * quantizer (use_more_bits and the cases of llama_tensor_get_type). */
static bool holds(enum where w, int il, const struct quant_mix_site *s)
{
    int n = s->n_layer;
    switch (w) {
    case EVERYWHERE:
        return true;
    case MORE_BITS: /* the first and the last eighth, and every third layer between them */
        return il < n / 8 || il >= 7 * n / 8 || (il - n / 8) % 3 == 2;
    case FIRST_2:
        return il < 2;
    case FIRST_4:
        return il < 4;
    case FIRST_8TH:
        return il < n / 8;
    case FIRST_16TH:
        return il < n / 16;
    case GROUPS_OF_4: /* attn_v is small if four or more query heads share a KV head */
        return s->n_group >= 4;
    }
    return false;
}

/* Return the type of the first rule that matches; the mix's type if no rule matches. */
static enum qtype by_rule(const struct quant_mix *m, const struct quant_mix_site *s)
{
    const char *part;
    int il = layer_of(s->name, &part);
    size_t n = strcspn(part, ".");
    /* matrices of experts follow the rule of a plain feed-forward block */
    if (n > 5 && strncmp(part + n - 5, "_exps", 5) == 0) n -= 5;
    for (size_t i = 0; il >= 0 && i < sizeof rules / sizeof rules[0]; i++) {
        const struct quant_mix_rule *r = &rules[i];
        if (strcmp(r->mix, m->name) == 0 && strlen(r->tensor) == n &&
            strncmp(r->tensor, part, n) == 0 && holds(r->where, il, s))
            return r->type;
    }
    return m->type;
}

/* Return true for the matrix that produces logits. */
static bool is_head(const struct quant_mix_site *s)
{
    return strcmp(s->name, s->tied ? "token_embd.weight" : "output.weight") == 0;
}

/* Return true if a tensor may get the mix's type. As in llama.cpp, routers and weights of
 * convolutions keep their type, because they are small and have a large effect. */
static bool is_matrix(const struct quant_mix_site *s)
{
    static const char *const kept[] = {"_norm.weight", "ffn_gate_inp.weight", "ssm_conv1d.weight",
                                       "shortconv.conv.weight"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (strstr(s->name, kept[i])) return false;
    return s->n_dim >= 2 && text_ends_with(s->name, ".weight") &&
           strcmp(s->name, "position_embd.weight") != 0 &&
           strcmp(s->name, "token_types.weight") != 0;
}

/* Return t if its blocks divide a row of k values. Otherwise return the first type with smaller
 * blocks that divide the row. */
static enum qtype smaller_blocks(enum qtype t, int64_t k)
{
    while (k % qtype_info[t].block != 0) t = qtype_info[t].smaller;
    return t;
}

/* The order of the checks is the order of the table in the head of quant_mix.c. */
enum qtype quant_mix_type(const struct quant_mix *m, const struct quant_mix_site *s)
{
    const char *part;
    if (!is_matrix(s)) return s->type;
    enum qtype t = m->type;
    if (!m->pure && qtype_is_scaled(t))
        return layer_of(s->name, &part) >= 0 ? smaller_blocks(t, s->k) : s->type;
    bool is_float = qtype_info[t].block == 1;
    if (!m->pure && !is_float && is_head(s))
        t = t == QT_q8_0 || s->k % 256 ? QT_q8_0 : QT_q6_k;
    else if (!m->pure)
        t = by_rule(m, s);
    return smaller_blocks(t, s->k);
}
