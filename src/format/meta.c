/* meta.c - getters of metadata values of any format. Getters cannot fail, because values are
 * checked before they are added. Getters return `fallback` if the value has another kind.
 *
 * A value is a type and a pointer to bytes in the order of GGUF: little-endian, at any alignment.
 * Getters assemble numbers from bytes, without a cast of the pointer.
 *
 *   VT_* (12 number types, text, list, null, object) --kind_of--> META_* (what callers distinguish)
 *
 * Text is a pointer and a length in struct meta. A list of text is an array of struct
 * text_slice. */
#include "format_impl.h"

#include <math.h>
#include <string.h>

/* Types that are not numbers have no row, so their size is 0. */
size_t value_bytes(enum value_type type)
{
    static const uint8_t n_byte[VT_COUNT] = {
        [VT_U8] = 1,  [VT_I8] = 1,   [VT_U16] = 2, [VT_I16] = 2, [VT_U32] = 4, [VT_I32] = 4,
        [VT_F32] = 4, [VT_BOOL] = 1, [VT_U64] = 8, [VT_I64] = 8, [VT_F64] = 8,
    };
    return n_byte[type];
}

static enum meta_kind kind_of(enum value_type type)
{
    static const uint8_t kind[VT_COUNT] = {
        [VT_U8] = META_UINT,   [VT_U16] = META_UINT,  [VT_U32] = META_UINT,
        [VT_U64] = META_UINT,  [VT_I8] = META_INT,    [VT_I16] = META_INT,
        [VT_I32] = META_INT,   [VT_I64] = META_INT,   [VT_F32] = META_REAL,
        [VT_F64] = META_REAL,  [VT_BOOL] = META_BOOL, [VT_TEXT] = META_TEXT,
        [VT_LIST] = META_LIST, [VT_NULL] = META_NONE, [VT_OBJECT] = META_OBJECT,
    };
    return (enum meta_kind)kind[type];
}

/* Return the bits of a number: little-endian, zero-extended. */
static uint64_t bits_of(enum value_type type, const uint8_t *p)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < value_bytes(type); i++) bits |= (uint64_t)p[i] << (8 * i);
    return bits;
}

/* Return a number with its sign extended to 64 bits. The unsigned shift moves the sign to bit 63,
 * and the signed shift copies it back. */
static int64_t sign_extended(enum value_type type, uint64_t bits)
{
    unsigned unused = 64 - 8 * (unsigned)value_bytes(type);
    return (int64_t)(bits << unused) >> unused;
}

/* Return the value of a number whose type is VT_F32 or VT_F64. memcpy reinterprets the bits without
 * aliasing. */
static double float_of(enum value_type type, uint64_t bits)
{
    if (type == VT_F64) {
        double x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    uint32_t half = (uint32_t)bits;
    float x;
    memcpy(&x, &half, sizeof x);
    return x;
}

/* Return a number as an integer. A real is accepted only if it is whole and within int64. NaN and
 * infinite values fail the comparisons. */
static int64_t number_int(enum value_type type, const void *p, int64_t fallback)
{
    uint64_t bits = bits_of(type, p);
    switch (kind_of(type)) {
    case META_BOOL:
        return bits != 0;
    case META_INT:
        return sign_extended(type, bits);
    case META_UINT:
        return bits <= INT64_MAX ? (int64_t)bits : fallback;
    case META_REAL: {
        double x = float_of(type, bits);
        return x >= -0x1p63 && x < 0x1p63 && x == floor(x) ? (int64_t)x : fallback;
    }
    default:
        return fallback;
    }
}

/* Return a number as a real. In contrast to number_int, a BOOL is not a number, because 1.0 for
 * true would hide a wrong field. */
static double number_real(enum value_type type, const void *p, double fallback)
{
    uint64_t bits = bits_of(type, p);
    switch (kind_of(type)) {
    case META_INT:
        return (double)sign_extended(type, bits);
    case META_UINT:
        return (double)bits;
    case META_REAL:
        return float_of(type, bits);
    default:
        return fallback;
    }
}

enum meta_kind meta_kind(const struct meta *m)
{
    return m ? kind_of(m->type) : META_NONE;
}

bool meta_bool(const struct meta *m, bool fallback)
{
    return meta_kind(m) == META_BOOL ? *(const uint8_t *)m->data != 0 : fallback;
}

int64_t meta_int(const struct meta *m, int64_t fallback)
{
    return m ? number_int(m->type, m->data, fallback) : fallback;
}

double meta_real(const struct meta *m, double fallback)
{
    return m ? number_real(m->type, m->data, fallback) : fallback;
}

const char *meta_text(const struct meta *m, size_t *n)
{
    bool is_text = meta_kind(m) == META_TEXT;
    if (n) *n = is_text ? m->n : 0;
    return is_text ? m->data : NULL;
}

bool meta_is_empty(const struct meta *m)
{
    return meta_kind(m) == META_OBJECT && m->n == 0;
}

size_t meta_count(const struct meta *m)
{
    return meta_kind(m) == META_LIST ? m->n : 0;
}

enum meta_kind meta_item_kind(const struct meta *m)
{
    return meta_kind(m) == META_LIST ? kind_of(m->item) : META_NONE;
}

/* Return item i of a list of numbers; NULL if m has another kind or fewer items. */
static const uint8_t *number_item(const struct meta *m, size_t i)
{
    if (i >= meta_count(m) || value_bytes(m->item) == 0) return NULL;
    return (const uint8_t *)m->data + i * value_bytes(m->item);
}

int64_t meta_item_int(const struct meta *m, size_t i, int64_t fallback)
{
    const uint8_t *p = number_item(m, i);
    return p ? number_int(m->item, p, fallback) : fallback;
}

double meta_item_real(const struct meta *m, size_t i, double fallback)
{
    const uint8_t *p = number_item(m, i);
    return p ? number_real(m->item, p, fallback) : fallback;
}

const char *meta_item_text(const struct meta *m, size_t i, size_t *n)
{
    bool is_text = i < meta_count(m) && m->item == VT_TEXT;
    const struct text_slice *s = is_text ? (const struct text_slice *)m->data + i : NULL;
    if (n) *n = s ? s->n : 0;
    return s ? s->text : NULL;
}
