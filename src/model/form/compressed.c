/* compressed.c - compressed-tensors. The tensors of a matrix determine its form:
 *
 *   pack-quantized         weight_packed I32 [n_out, ceil(k * bits / 32)], codes along the inputs,
 *                          value + 2^(bits - 1); weight_zero_point I32, codes along the outputs,
 *                          [ceil(n_out * bits / 32), n_group]; weight_g_idx I32 [k]
 *   int-, naive-quantized  weight I8 [n_out, k], weight_zero_point I8 of the scale's shape
 *   float-quantized        weight F8_E4M3 [n_out, k]
 *   mxfp4-pack-quantized   weight_packed U8 [n_out, k / 2], E2M1, the first code in the lower bits;
 *                          weight_scale U8 [n_out, k / 32], 2^(item - 127)
 *   nvfp4-pack-quantized   the same with weight_scale F8_E4M3 [n_out, k / 16] and
 *                          weight_global_scale F32 [1], which divides the scales
 *
 *   sparse-24-bitmask      compressed [n_out, k / 2], the stored values of a matrix with 2:4
 *                          sparsity: floats, or F8_E4M3 or I8 with weight_scale; bitmask U8
 *                          [n_out, ceil(k / 8)], bit c % 8 of byte c / 8 for input c; shape I64
 *                          [2, 1]
 *
 * weight_scale is [1], [n_out], [n_out, n_group] or one item per block. value = (code - zero) *
 * scale. Scales of activations are not used, because quoth does not round activations. The groups
 * of the config (config_groups) give the possible numbers of bits, group sizes and blocks. */
#include "form_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Flags. ZEROS: some weights are not symmetric. ORDERED, UNORDERED: some groups of the config have,
 * or lack, an order of inputs by group. */
enum { ZEROS = 1, ORDERED = 2, UNORDERED = 4 };

/* Return the flag that some groups of integers of n bits, at most 9, are symmetric or not. */
static uint32_t symmetry_flag(int n, bool symmetric)
{
    return 1u << (n + (symmetric ? 8 : 18));
}

/* ---- config ---- */

/* Add a size to the list, unless the list has the size. A matrix is rejected if its size is not in
 * the full list. */
static void add_group_size(struct quantization *q, int n)
{
    for (int i = 0; i < q->n_group_size; i++)
        if (q->group_size[i] == n) return;
    if (q->n_group_size < GROUP_SIZES_MAX) q->group_size[q->n_group_size++] = n;
}

/* Return the value of a field of the weights of a group. key: another field of these weights */
static const struct meta *sibling_field(const struct binder *b, const char *key, const char *field)
{
    char full[160];
    snprintf(full, sizeof full, "%.*s%s", (int)(strrchr(key, '.') + 1 - key), key, field);
    return checkpoint_meta(b->checkpoint, full);
}

/* Record which tensors the weights of a group of the config have: zeros, and groups of inputs.
 * key: the group's num_bits, whose value is n */
static void read_group(struct binder *b, const char *key, int n)
{
    struct quantization *q = &b->m->config.quant;
    const struct meta *order = sibling_field(b, key, "actorder");
    const char *type = meta_text(sibling_field(b, key, "type"), NULL),
               *name = meta_text(order, NULL);
    const bool ordered = meta_bool(order, false) ||
                         (name && (strcmp(name, "group") == 0 || strcmp(name, "dynamic") == 0));
    const bool symmetric = meta_bool(sibling_field(b, key, "symmetric"), true);
    q->bits_set |= 1 << n;
    if (!type || strcmp(type, "int") == 0) q->flags |= symmetry_flag(n, symmetric);
    q->flags |= ordered ? ORDERED : UNORDERED;
}

/* Collect the values of all groups of the config. A matrix does not name its group, so the shape of
 * a matrix is compared with each group. */
static void read_fields(struct binder *b)
{
    struct quantization *q = &b->m->config.quant;
    q->per_output = true;
    for (int i = 0; i < checkpoint_n_meta(b->checkpoint); i++) {
        const char *key;
        const struct meta *m = checkpoint_meta_at(b->checkpoint, i, &key);
        if (!strstr(key, "quantization_config.config_groups.")) continue;
        const int64_t n = meta_int(m, 0);
        if (text_ends_with(key, ".weights.num_bits") && n >= 1 && n <= 8)
            read_group(b, key, (int)n);
        if (text_ends_with(key, ".weights.group_size") && n >= 1 && n <= D_FF_MAX)
            add_group_size(q, (int)n);
        if (text_ends_with(key, ".weights.symmetric") && !meta_bool(m, true)) q->flags |= ZEROS;
        if (text_ends_with(key, ".weights.block_structure") && meta_count(m) == 2) {
            const int64_t out = meta_item_int(m, 0, 0), k = meta_item_int(m, 1, 0);
            if (out >= 1 && k >= 1 && out <= D_FF_MAX && k <= D_FF_MAX)
                q->block_out = (int)out, q->block_k = (int)k;
        }
    }
}

/* ---- matrices ---- */

/* Bind weight_scale. The scales are per block if the number of rows is neither n_out nor 1. */
static void bind_scale(struct binder *b, const struct site *s, struct published *p, uint64_t types)
{
    const struct quantization *q = &b->m->config.quant;
    const struct tensor_info *t = form_need(b, s, "weight_scale", types, -1, -1);
    if (!t) return;
    const int64_t n_row = t->n_dim == 1 ? t->dim[0] : t->dim[1];
    const bool rows = n_row == s->n_out || t->dim[0] * t->dim[1] == 1;
    form_scales(b, s, p, t, rows ? 0 : q->block_out, rows ? 0 : q->block_k);
}

/* Reject zeros of symmetric weights. The library ignores zeros of symmetric weights, so zeros other
 * than 0 contradict the config. */
static void check_zeros(struct binder *b, const struct tensor_info *t)
{
    if (!(b->m->config.quant.flags & ZEROS))
        form_fault(b, t, "has zeros, but the weights of config_groups are symmetric");
}

/* Return true if all weights of this number of bits need zeros. A matrix does not name its group,
 * so zeros may be absent if some of these weights are symmetric. */
static bool needs_zeros(const struct binder *b, int bits)
{
    const unsigned flags = b->m->config.quant.flags;
    return flags & symmetry_flag(bits, false) && !(flags & symmetry_flag(bits, true));
}

/* Bind packed zero points. Zeros are packed along the outputs: [ceil(n_out * bits / 32),
 * n_group]. */
static void bind_packed_zero(struct binder *b, const struct site *s, struct published *p)
{
    const int bits = p->code.bits;
    const int64_t n_group = p->scale.row_step;
    if (!form_find(b, s, "weight_zero_point") && !needs_zeros(b, bits)) return;
    const struct tensor_info *t =
        form_need(b, s, "weight_zero_point", TYPE(i32), (s->n_out * bits + 31) / 32, n_group);
    if (!t) return;
    check_zeros(b, t);
    if (p->block_out != 1) form_fault(b, t, "has zeros per output, but there is one scale");
    p->zero = form_words_out(t, bits, n_group);
    p->zero.step = n_group * FORM_INT32, p->zero.other = FORM_INT32;
}

/* Bind packed integers. The shape determines the number of bits, because groups may differ in their
 * number of bits. */
static const struct tensor_info *bind_packed(struct binder *b, const struct site *s,
                                             struct published *p)
{
    const struct tensor_info *t = form_need(b, s, "weight_packed", TYPE(i32), s->n_out, -1);
    int bits = 0;
    for (int n = 1; n <= 8 && t; n++)
        if ((b->m->config.quant.bits_set >> n & 1) && (s->k * n + 31) / 32 == t->dim[0]) bits = n;
    if (t && bits == 0)
        form_fault(b, t, "has %lld words for %lld inputs: not the config's num_bits",
                   (long long)t->dim[0], (long long)s->k);
    if (b->rc != 0) return NULL;
    p->code = form_words(t, bits, t->dim[0]);
    p->zero_point = 1 << (bits - 1);
    bind_scale(b, s, p, FLOAT_TYPES);
    bind_packed_zero(b, s, p);
    const bool ordered = (b->m->config.quant.flags & (ORDERED | UNORDERED)) == ORDERED;
    if (ordered && p->scale.row_step > 1) form_need(b, s, "weight_g_idx", TYPE(i32), 1, s->k);
    form_groups(b, s, p, "weight_g_idx", p->scale.row_step);
    return t;
}

/* Bind FP4 codes. MXFP4 and NVFP4 differ in the scales only. A global scale identifies NVFP4. */
static const struct tensor_info *bind_fp4(struct binder *b, const struct site *s,
                                          struct published *p)
{
    const struct tensor_info *t = form_need(b, s, "weight_packed", TYPE(u8), s->n_out, s->k / 2),
                             *global = form_find(b, s, "weight_global_scale");
    if (t && s->k % 2) form_fault(b, t, "has an odd number of inputs");
    if (!t || b->rc != 0) return NULL;
    p->code = (struct codes){.data = t->data, .bits = 4, .word = 1, .step = 1, .other = s->k / 2};
    p->level = form_e2m1;
    bind_scale(b, s, p, global ? FLOAT_TYPES | TYPE(f8_e4m3) : TYPE(u8));
    if (global) global = form_need(b, s, "weight_global_scale", TYPE(f32), 1, 1);
    if (global) p->scale.divisor = form_scalar(global);
    return t;
}

/* Bind codes of 8 bits, the tensor `name` [n_out, n]. I8 codes are integers with a zero; F8 codes
 * are indices of a table of 256 levels. */
static const struct tensor_info *bind_bytes(struct binder *b, const struct site *s,
                                            struct published *p, const struct tensor_info *t,
                                            const char *name, int64_t n)
{
    const bool whole = t->type == QT_i8;
    t = form_need(b, s, name, TYPE(i8) | TYPE(f8_e4m3), s->n_out, n);
    if (!t) return NULL;
    p->code = form_bytes(t, n);
    p->code.sign = whole, p->zero_point = 128;
    if (!whole) p->level = form_e4m3(b);
    bind_scale(b, s, p, FLOAT_TYPES);
    if (whole && needs_zeros(b, 8)) form_need(b, s, "weight_zero_point", TYPE(i8), -1, -1);
    if (!whole || !form_find(b, s, "weight_zero_point") || b->rc != 0) return t;
    const int64_t n_row = (s->n_out + p->block_out - 1) / p->block_out;
    const struct tensor_info *zero = form_find(b, s, "weight_zero_point");
    bool all_zero = true;
    for (size_t i = 0; i < zero->n_byte && zero->data; i++) all_zero &= zero->data[i] == 0;
    if (zero->type != QT_i8 || (int64_t)zero->n_byte != n_row * p->scale.row_step || !zero->data)
        form_fault(b, zero, "must have the type I8 and %lld bytes, as the scale, got %s and %zu",
                   (long long)(n_row * p->scale.row_step), qtype_info[zero->type].name,
                   zero->n_byte);
    else if (p->block_out != 1 && !all_zero)
        form_fault(b, zero, "must be 0 if %lld outputs share a scale, got other values",
                   (long long)p->block_out);
    if (!all_zero) check_zeros(b, zero);
    if (b->rc != 0 || all_zero) return t;
    p->zero = form_bytes(zero, p->scale.row_step);
    p->zero.sign = true;
    return t;
}

/* Check a tensor with the size of the matrix: weight_shape [2], or shape [2, 1]. */
static void check_shape(struct binder *b, const struct site *s, const char *name, int n_row)
{
    const struct tensor_info *t = form_find(b, s, name);
    if (!t || b->rc != 0) return;
    t = form_need(b, s, name, TYPE(i64) | TYPE(i32), n_row, 2 / n_row);
    int64_t size[2] = {0};
    for (int i = 0; i < 2 && t; i++) {
        int32_t narrow;
        if (t->type == QT_i64) {
            memcpy(&size[i], t->data + 8 * i, sizeof size[i]);
        } else {
            memcpy(&narrow, t->data + 4 * i, sizeof narrow);
            size[i] = narrow;
        }
    }
    if (t && (size[0] != s->n_out || size[1] != s->k))
        form_fault(b, t, "must be (%lld, %lld), got (%lld, %lld)", (long long)s->n_out,
                   (long long)s->k, (long long)size[0], (long long)size[1]);
}

/* Bind a matrix with 2:4 sparsity. */
static const struct tensor_info *bind_sparse(struct binder *b, const struct site *s,
                                             struct published *p, const struct tensor_info *t)
{
    static const char name[] = "compressed";
    const int64_t row_step = (s->k + 7) / 8;
    const bool codes = t->type == QT_i8 || t->type == QT_f8_e4m3;
    if (s->k % 4) form_fault(b, t, "has %lld inputs, not a multiple of 4", (long long)s->k);
    const struct tensor_info *mask = form_need(b, s, "bitmask", TYPE(u8), s->n_out, row_step);
    if (b->rc == 0 && mask && !mask->data) form_fault(b, mask, "has no data");
    for (int64_t i = 0; b->rc == 0 && i < s->n_out; i++)
        if (!published_is_sparse(mask->data + i * row_step, s->k))
            form_fault(b, mask, "must have two of each four bits, but row %lld has not",
                       (long long)i);
    if (b->rc != 0) return NULL;
    const struct sparse sparse = {.mask = mask->data, .row_step = row_step};
    if (codes) {
        t = bind_bytes(b, s, p, t, name, s->k / 2);
        p->code.sparse = sparse;
        return t;
    }
    t = form_need(b, s, name, FLOAT_TYPES, s->n_out, s->k / 2);
    if (!t) return NULL;
    p->form = FORM_PLACED;
    p->rows = t->data;
    p->placed =
        (struct placed){.row_step = s->k / 2 * qtype_info[t->type].n_byte, .sparse = sparse};
    return t;
}

/* Return NULL if the matrix is plain. The caller then binds the plain matrix. */
static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    static const char *const unused[] = {"input_scale",  "input_zero_point",  "input_global_scale",
                                         "output_scale", "output_zero_point", NULL};
    const struct tensor_info *packed = form_find(b, s, "weight_packed"),
                             *sparse = form_find(b, s, "compressed"), *t;
    if (sparse)
        t = bind_sparse(b, s, p, sparse);
    else if (packed)
        t = packed->type == QT_u8 ? bind_fp4(b, s, p) : bind_packed(b, s, p);
    else {
        t = form_find(b, s, "weight");
        if (!t || (t->type != QT_i8 && t->type != QT_f8_e4m3)) return NULL;
        t = bind_bytes(b, s, p, t, "weight", s->k);
    }
    check_shape(b, s, "weight_shape", 1);
    check_shape(b, s, "shape", 2);
    form_skip(b, s, unused);
    return t;
}

const struct form form_compressed = {
    .method = "compressed-tensors", .read = read_fields, .bind = bind};
