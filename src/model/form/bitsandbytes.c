/* bitsandbytes.c - 4-bit levels with a scale per block of consecutive values, across rows:
 *
 *     weight                  two codes per byte, the first in the upper bits; any type
 *     weight.quant_map        F32 [16] levels (nf4, fp4)
 *     weight.absmax           F32 [n_block]; nested: U8 [n_block], an index
 *     weight.nested_quant_map, weight.nested_absmax     F32 [256], F32 [ceil(n_block / n)]
 *     weight.quant_state.bitsandbytes__nf4              U8, a JSON object: blocksize,
 *                                                       nested_blocksize, nested_offset
 *
 *     value = level * absmax;  nested: absmax = map[item] * nested_absmax + nested_offset
 *
 * or 8-bit integers with a scale per output: weight I8 [n_out, k], SCB F32 [n_out]; value = weight
 * * SCB * f32(1 / 127). Outliers of activations (llm_int8_threshold) need no separate computation,
 * because activations are not rounded per row. */
#include "form_impl.h"

#include "base/json.h"

#include <string.h>

/* Read the JSON object of a matrix. */
static struct json *state_of(struct binder *b, const struct site *s)
{
    struct json *j = NULL;
    struct err e;
    const struct tensor_info *t = form_find(b, s, "weight.quant_state.bitsandbytes__nf4");
    if (!t) t = form_find(b, s, "weight.quant_state.bitsandbytes__fp4");
    if (!t) {
        form_need(b, s, "weight.quant_state.bitsandbytes__nf4", TYPE(u8), 1, -1);
        return NULL;
    }
    const bool text = t->type == QT_u8 && t->data && t->n_byte <= 1 << 20;
    const int rc = text ? json_parse(&j, (const char *)t->data, t->n_byte, NULL, &e) : ERR_FORMAT;
    if (!text)
        form_fault(b, t, "must have the type U8 and at most %d bytes, got %s and %zu", 1 << 20,
                   qtype_info[t->type].name, t->n_byte);
    else if (rc != 0)
        form_fault(b, t, "%.200s", e.text);
    else if (json_kind(j) != JK_OBJECT)
        form_fault(b, t, "expected an object, got %s", json_kind_name(json_kind(j)));
    return j;
}

/* Return the values of a tensor as aligned f32 [n]. */
static const float *floats(struct binder *b, const struct site *s, const char *suffix, int64_t n)
{
    const struct tensor_info *t = form_need(b, s, suffix, TYPE(f32), 1, n);
    float *v = t ? arena_push(&b->m->arena, (size_t)n * sizeof *v, 64) : NULL;
    if (t && !v) b->rc = err_memory(b->e, t->name, (unsigned long long)n * sizeof *v);
    if (v) memcpy(v, t->data, (size_t)n * sizeof *v);
    return v;
}

/* Return a size of the state in [1, 2^22]. Return 0 and set the error for any other value. */
static int64_t size_of(struct binder *b, const struct tensor_info *absmax, const struct json *state,
                       const char *key)
{
    const int64_t n = json_int(json_field(state, key), 0);
    if (n >= 1 && n <= D_FF_MAX) return n;
    form_fault(b, absmax, "must have a %s in [1, %d] in its quant_state, got %lld", key, D_FF_MAX,
               (long long)n);
    return 0;
}

/* Check the shape in the state, because a transposed matrix would have the same number of
 * blocks. */
static void check_shape(struct binder *b, const struct site *s, const struct tensor_info *absmax,
                        const struct json *state)
{
    const struct json *shape = json_field(state, "shape");
    const int64_t n_out = json_int(json_item(shape, 0), -1), k = json_int(json_item(shape, 1), -1);
    if (json_count(shape) != 2 || n_out != s->n_out || k != s->k)
        form_fault(b, absmax,
                   "must have the shape [%lld, %lld] in its quant_state, got [%lld, %lld]",
                   (long long)s->n_out, (long long)s->k, (long long)n_out, (long long)k);
}

static void bind_nested(struct binder *b, const struct site *s, struct published *p,
                        const struct tensor_info *absmax, const struct json *state, int64_t n_block)
{
    const int64_t n = size_of(b, absmax, state, "nested_blocksize");
    const struct json *offset = json_field(state, "nested_offset");
    if (json_kind(offset) != JK_REAL && json_kind(offset) != JK_INT)
        form_fault(b, absmax, "must have a number nested_offset in its quant_state, got %s",
                   json_kind_name(json_kind(offset)));
    if (b->rc != 0) return;
    const struct tensor_info *over =
        form_need(b, s, "weight.nested_absmax", TYPE(f32), 1, (n_block + n - 1) / n);
    p->scale.level = floats(b, s, "weight.nested_quant_map", 256);
    p->scale.over = over ? over->data : NULL;
    p->scale.n_over = n;
    p->scale.offset = (float)json_real(offset, 0);
}

/* Bind a 4-bit matrix. A block may contain values of several rows, because blocks are consecutive
 * in the whole matrix. */
static const struct tensor_info *bind_4bit(struct binder *b, const struct site *s,
                                           struct published *p)
{
    struct json *state = state_of(b, s);
    const struct tensor_info *t = form_find(b, s, "weight"),
                             *absmax = form_find(b, s, "weight.absmax");
    const int64_t block = state ? size_of(b, absmax, state, "blocksize") : 0, n = s->n_out * s->k;
    const int64_t n_block = block ? (n + block - 1) / block : 0;
    if (state) check_shape(b, s, absmax, state);
    form_need(b, s, "weight.absmax", TYPE(f32) | TYPE(u8), 1, n_block);
    if (!t && b->rc == 0) form_need(b, s, "weight", TYPE(u8), -1, -1);
    if (t && (s->k % 2 || (int64_t)t->n_byte != n / 2 || !t->data))
        form_fault(b, t, "must have %lld bytes, got %zu", (long long)n / 2, t->n_byte);
    if (b->rc == 0) {
        p->code = (struct codes){.data = t->data,
                                 .bits = 4,
                                 .word = 1,
                                 .order = ORDER_HIGH_FIRST,
                                 .step = 1,
                                 .other = s->k / 2};
        p->level = floats(b, s, "weight.quant_map", 16);
        p->scale.data = absmax->data, p->scale.type = absmax->type;
        p->scale.group_step = 1;
        p->block_k = block, p->flat = s->k % block != 0;
        if (!p->flat) p->scale.row_step = s->k / block;
        if (absmax->type == QT_u8) bind_nested(b, s, p, absmax, state, n_block);
    }
    json_drop(state);
    return t;
}

/* Require format 0, contiguous rows. All other formats are layouts for certain GPUs. The library
 * also accepts only format 0. */
static void check_rows(struct binder *b, const struct site *s)
{
    const struct tensor_info *t = form_find(b, s, "weight_format");
    if (t && (t->n_byte != 1 || t->data[0] != 0))
        form_fault(b, t, "must be 0 (rows), got another layout of the codes");
}

static const struct tensor_info *bind_8bit(struct binder *b, const struct site *s,
                                           struct published *p)
{
    const struct tensor_info *t = form_need(b, s, "weight", TYPE(i8), s->n_out, s->k),
                             *scale = form_need(b, s, "SCB", TYPE(f32), -1, -1);
    form_scales(b, s, p, scale, 0, 0);
    check_rows(b, s);
    if (!t || b->rc != 0) return NULL;
    p->code = form_bytes(t, s->k);
    p->code.sign = true, p->zero_point = 128;
    p->by = 0.00787401574803149606f;
    return t;
}

/* Each tensor of a form selects the form, so that a missing one is an error with its name. */
static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    const struct tensor_info *t = form_find(b, s, "weight");
    if (form_find(b, s, "weight.absmax") || form_find(b, s, "weight.quant_map"))
        return form_need(b, s, "weight.absmax", TYPE(f32) | TYPE(u8), -1, -1) ? bind_4bit(b, s, p)
                                                                              : NULL;
    return form_find(b, s, "SCB") || (t && t->type == QT_i8) ? bind_8bit(b, s, p) : NULL;
}

const struct form form_bitsandbytes = {.method = "bitsandbytes", .bind = bind};
