/* bind_error.c - errors of tensors, in the names of the user's file.
 *
 *   GGUF     tensor blk.0.attn_k.weight: expected [16, 64] (attention.head_count_kv *
 *            attention.key_length, embedding_length), got [32, 64]
 *   folder   tensor model.layers.0.self_attn.k_proj.weight: expected [16, 64]
 *            (num_key_value_heads * head_dim, hidden_size), got [32, 64]
 *   both     tensor NAME is missing; a similar tensor: NAME
 *
 * Binding uses GGUF's names. The table of tensors.def gives the names of a folder. A similar tensor
 * is a tensor that the table does not have, with the same numbers in its name. Most characters of
 * the missing name begin or end its name. The search is linear in the size of the list, because a
 * file may have many tensors. inspect --explain shows the tensor that caused the error. */
#include "model_impl.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* Write the name that a folder of the architecture has for a GGUF name. Return false if the table
 * has none. */
static bool folder_name(const struct binder *b, char out[LABEL_BYTES], const char *name)
{
    const char *arch = b->m->arch->name;
    char whole[LABEL_BYTES];
    const int part = hf_part_of(name, whole, sizeof whole);
    if (part >= 0 && hf_raw_name(out, LABEL_BYTES, whole, arch, part)) return true;
    return hf_raw_name(out, LABEL_BYTES, name, arch, -1);
}

/* Replace the beginning of a name of the table by the beginning that this file has, such as
 * "model.language_model." for "model.". The first tensor with a name of the table shows both. */
static void use_file_prefix(const struct binder *b, char name[LABEL_BYTES])
{
    char usual[LABEL_BYTES], own[LABEL_BYTES];
    for (int i = 0; i < checkpoint_n_tensor(b->checkpoint); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(b->checkpoint, i);
        if (!folder_name(b, usual, t->name)) continue;
        size_t n_usual = strlen(usual), n_raw = strlen(t->name_raw);
        while (n_usual > 0 && n_raw > 0 && usual[n_usual - 1] == t->name_raw[n_raw - 1])
            n_usual--, n_raw--;
        if ((n_usual == 0 && n_raw == 0) || strncmp(name, usual, n_usual) != 0) return;
        snprintf(own, sizeof own, "%.*s%s", (int)n_raw, t->name_raw, name + n_usual);
        snprintf(name, LABEL_BYTES, "%s", own);
        return;
    }
}

const char *bind_label(const struct binder *b, char out[LABEL_BYTES], const char *name)
{
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
    if (t)
        snprintf(out, LABEL_BYTES, "%s", t->name_raw);
    else if (config_is_hf(b) && folder_name(b, out, name))
        use_file_prefix(b, out);
    else
        snprintf(out, LABEL_BYTES, "%s", name);
    return out;
}

/* ---- rows of the table ---- */

/* A tensor's name by the table: the row, the layer (-1 outside of layers) and what follows the
 * row's name, such as ".weight". row: NULL if the table has no such name. */
struct table_name {
    const struct tensor_row *row; /* static */
    int il;
    char end[LABEL_BYTES];
};

/* Return the layer of a name from its "blk." on; -1 for NULL or a number beyond all layers. */
static int layer_of(const char *blk)
{
    const long il = blk ? strtol(blk + 4, NULL, 10) : -1;
    return il >= 0 && il < LAYERS_MAX ? (int)il : -1;
}

static struct table_name table_name_of(const struct binder *b, const char *name)
{
    char whole[LABEL_BYTES], own[160];
    const char *of = hf_part_of(name, whole, sizeof whole) >= 0 ? whole : name,
               *blk = strstr(of, "blk.");
    struct table_name p = {.il = layer_of(blk)};
    for (int i = 0; i < b->n_row; i++) {
        snprintf(own, sizeof own, b->row[i].name, p.il); /* check: a name of tensors.def */
        const size_t n = strlen(own);
        if (strncmp(of, own, n) != 0 || of[n] != '.') continue;
        if (b->row[i].bias && strcmp(of + n, ".bias") != 0) continue;
        p.row = &b->row[i];
        snprintf(p.end, sizeof p.end, "%s", of + n);
        return p;
    }
    return p;
}

/* ---- errors ---- */

void bind_refuse(struct binder *b, const struct tensor_info *t, int rc, const char *fmt, ...)
{
    va_list args;
    if (b->rc != 0) return;
    va_start(args, fmt);
    vsnprintf(b->refused_why, sizeof b->refused_why, fmt,
              args); /* check: the format attribute is on the prototype */
    va_end(args);
    const char *why = b->refused_why;
    b->refused = t;
    b->rc = err_set(b->e, rc, "%s: tensor %s%s", checkpoint_path(b->checkpoint), t->name_raw, why);
    /* the tensor's name and the reason are columns of inspect --explain */
    const size_t n_skip = strspn(why, ": ");
    memmove(b->refused_why, why + n_skip, strlen(why + n_skip) + 1);
}

/* Return true if two names have the same numbers in the same order. */
static bool same_numbers(const char *x, const char *y)
{
    static const char digit[] = "0123456789";
    for (;;) {
        x += strcspn(x, digit), y += strcspn(y, digit);
        const size_t n = strspn(x, digit);
        if (n != strspn(y, digit) || strncmp(x, y, n) != 0) return false;
        if (n == 0) return true;
        x += n, y += n;
    }
}

/* Return the number of equal characters at the beginnings and the ends of two names. */
static size_t common(const char *x, const char *y)
{
    size_t n_x = strlen(x), n_y = strlen(y), first = 0, last = 0;
    const size_t least = n_x < n_y ? n_x : n_y;
    while (first < least && x[first] == y[first]) first++;
    while (last < least - first && x[n_x - 1 - last] == y[n_y - 1 - last]) last++;
    return first + last;
}

/* Return true if the table or the form may have the name at `other`, so that the tensor is not a
 * renamed one. Another end of the missing tensor's name is possible, such as qzero for qzeros. */
static bool is_usual(const struct table_name *missing, const struct table_name *other)
{
    if (!other->row) return false;
    if (strcmp(other->end, ".weight") == 0 || strcmp(other->end, ".bias") == 0) return true;
    if (!missing->row || strcmp(missing->row->name, other->row->name) != 0) return true;
    const size_t n = strlen(missing->end), n_other = strlen(other->end);
    return 2 * common(missing->end, other->end) < n || n_other > n + 2 || n > n_other + 2;
}

/* Return the unused tensor whose name in the file is most like `wanted`; NULL if none is similar.
 * name: GGUF's name for `wanted` */
static const struct tensor_info *similar(const struct binder *b, const char *name,
                                         const char *wanted)
{
    const struct tensor_info *best = NULL;
    const struct table_name missing = table_name_of(b, name);
    size_t most = strlen(wanted) * 2 / 3;
    int n_left = 1000; /* look-ups in the table take most of the time */
    for (int i = 0; i < checkpoint_n_tensor(b->checkpoint); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(b->checkpoint, i);
        if (b->bound[i] || !same_numbers(wanted, t->name_raw)) continue;
        const size_t n = common(wanted, t->name_raw);
        if (n <= most || --n_left < 0) continue;
        const struct table_name other = table_name_of(b, t->name);
        if (!is_usual(&missing, &other)) best = t, most = n;
    }
    return best;
}

/* Return a tensor of quantized weights, if config.json has no quantization_config; NULL if none. */
static const struct tensor_info *undeclared_codes(const struct binder *b)
{
    static const char *const end[] = {".qweight",      ".weight.absmax",    ".SCB",
                                      ".weight_scale", ".weight_scale_inv", ".weight_packed",
                                      ".W_q",          ".weight._scale"};
    if (!config_is_hf(b) || b->m->config.quant.form) return NULL;
    for (int i = 0; i < checkpoint_n_tensor(b->checkpoint); i++)
        for (size_t k = 0; k < sizeof end / sizeof end[0]; k++) {
            const struct tensor_info *t = checkpoint_tensor_at(b->checkpoint, i);
            if (text_ends_with(t->name_raw, end[k])) return t;
        }
    return NULL;
}

/* Return the number of layers of which the file has tensors. */
static int n_layer_of(const struct binder *b)
{
    int n = 0, il;
    for (int i = 0; i < checkpoint_n_tensor(b->checkpoint); i++) {
        const char *name = checkpoint_tensor_at(b->checkpoint, i)->name;
        if (sscanf(name, "blk.%9d.", &il) == 1 && il >= n) n = il + 1; /* check: width */
    }
    return n;
}

void bind_add_cause(struct binder *b)
{
    static const char key[] = "block_count";
    const struct tensor_info *t = b->rc != 0 ? undeclared_codes(b) : NULL;
    struct err was = *b->e;
    const bool by_default = b->rc != 0 && config_is_hf(b) && !b->m->arch->hf_layers &&
                            meta_kind(config_meta(b, key)) == META_NONE;
    const int n = by_default ? n_layer_of(b) : 0;
    if (n > 0 && n != b->m->config.n_layer)
        err_set(b->e, b->rc,
                "%s; config.json has no %s, so the number of layers is %d, the default of the "
                "class, but the tensors have %d",
                was.text, hf_field_name(b->m->arch->name, key), b->m->config.n_layer, n);
    else if (t)
        err_set(b->e, b->rc,
                "%s; tensor %s is of quantized weights, but config.json has no quantization_config",
                was.text, t->name_raw);
}

void bind_missing(struct binder *b, const char *name)
{
    char wanted[LABEL_BYTES];
    if (b->rc != 0) return;
    bind_label(b, wanted, name);
    const struct tensor_info *other = similar(b, name, wanted);
    b->rc =
        err_set(b->e, ERR_MISSING, "%s: tensor %s is missing%s%s", checkpoint_path(b->checkpoint),
                wanted, other ? "; a similar tensor: " : "", other ? other->name_raw : "");
    b->refused = other;
    snprintf(b->refused_why, sizeof b->refused_why, "similar to %s, which is missing", wanted);
}

/* ---- shapes ---- */

/* Return the product of keys that is a size of tensors.def, static; NULL for a size that only some
 * architectures have. Keys and operators are separated by spaces. */
static const char *keys_of(enum tensor_size size)
{
    switch (size) {
    case SIZE_D:
    case SIZE_D_EMBD:
        return "embedding_length";
    case SIZE_D_FF:
        return "feed_forward_length";
    case SIZE_D_FF_2:
        return "2 * feed_forward_length";
    case SIZE_D_HEAD:
        return "attention.key_length";
    case SIZE_D_Q:
        return "attention.head_count * attention.key_length";
    case SIZE_D_KV:
        return "attention.head_count_kv * attention.key_length";
    case SIZE_D_QKV:
        return "attention.head_count * attention.key_length + 2 * attention.head_count_kv * "
               "attention.key_length";
    case SIZE_N_HEAD:
        return "attention.head_count";
    case SIZE_N_EXPERT:
        return "expert_count";
    case SIZE_D_EXPERT:
        return "expert_feed_forward_length";
    case SIZE_D_EXPERT_2:
        return "2 * expert_feed_forward_length";
    case SIZE_N_VOCAB:
        return "vocab_size";
    case SIZE_N_BUCKET:
        return "attention.relative_buckets_count";
    case SIZE_Q_RANK:
        return "attention.q_lora_rank";
    case SIZE_KV_RANK:
        return "attention.kv_lora_rank";
    case SIZE_KV_A:
        return "attention.kv_lora_rank + rope.dimension_count";
    case SIZE_D_V:
        return "attention.head_count * attention.value_length";
    default:
        return NULL;
    }
}

/* Append the fields of the size n: names of config.json for a folder, keys for a GGUF. Append the
 * number if the size has no key. of_decoder: a tensor of a decoder after an encoder */
static void put_size(const struct binder *b, struct buf *out, enum tensor_size size, int64_t n,
                     bool of_decoder)
{
    static const char encoder[] = "encoder_";
    const size_t n_encoder = sizeof encoder - 1;
    char word[80];
    int n_word;
    const char *at = keys_of(size);
    if (!at) buf_addf(out, "%lld", (long long)n);
    for (; at && sscanf(at, "%79s%n", word, &n_word) == 1; at += n_word) { /* check: width */
        const char *field = config_is_hf(b) ? hf_field_name(b->m->arch->name, word) : NULL;
        const bool other = of_decoder && field && strncmp(field, encoder, n_encoder) == 0;
        buf_addf(out, "%s%s%s", at == keys_of(size) ? "" : " ", other ? "decoder_" : "",
                 other   ? field + n_encoder
                 : field ? field
                         : word);
    }
}

/* Write the fields of the sizes of a tensor, in parentheses: n_part, n_out, k, without those of
 * vectors and single matrices. Write "" if no size has a key, or if the architecture changed the
 * sizes of the table. */
static void put_sizes(const struct binder *b, char out[WHY_BYTES], const char *name,
                      const int64_t dim[3])
{
    struct buf text = {0};
    char whole[LABEL_BYTES];
    const struct table_name p = table_name_of(b, name);
    const struct tensor_row *row = p.row;
    const int il = p.il;
    const bool in_layers = il >= -1 && il < b->m->config.n_layer - b->layer0;
    out[0] = 0;
    if (!row || row->bias || !in_layers || strcmp(p.end, ".weight") != 0) return;
    const bool of_part = hf_part_of(name, whole, sizeof whole) >= 0;
    const enum tensor_size size[] = {of_part ? SIZE_ONE : row->n_part, row->n_out, row->k};
    bool any = false, same = true;
    for (int i = 0; i < 3; i++) {
        if (size[i] == SIZE_ONE) continue;
        if (!keys_of(size[i])) continue;
        same &= bind_size(b, size[i], il < 0 ? il : il + b->layer0) == dim[i];
        any = true;
    }
    if (!any || !same) return;
    for (int i = 0; i < 3; i++) {
        if (size[i] == SIZE_ONE && dim[i] == 1) continue;
        buf_add_text(&text, text.n ? ", " : " (");
        put_size(b, &text, size[i], dim[i], strncmp(name, "dec.", 4) == 0);
    }
    if (!text.failed) snprintf(out, WHY_BYTES, "%s)", text.data);
    buf_deinit(&text);
}

void bind_wrong_shape(struct binder *b, const struct tensor_info *t, int64_t n_part, int64_t n_out,
                      int64_t k)
{
    char fields[WHY_BYTES];
    put_sizes(b, fields, t->name, (const int64_t[]){n_part, n_out, k});
    if (n_part > 1 || t->n_dim > 2)
        bind_refuse(b, t, ERR_FORMAT, ": expected [%lld, %lld, %lld]%s, got [%lld, %lld, %lld]",
                    (long long)n_part, (long long)n_out, (long long)k, fields, (long long)t->dim[2],
                    (long long)t->dim[1], (long long)t->dim[0]);
    else
        bind_refuse(b, t, ERR_FORMAT, ": expected [%lld, %lld]%s, got [%lld, %lld]",
                    (long long)n_out, (long long)k, fields, (long long)t->dim[1],
                    (long long)t->dim[0]);
}
