/* charsmap.c - SentencePiece's "precompiled_charsmap": text rules compiled to a double array.
 *
 * The blob has the size of the array in bytes (u32), then the array, one u32 unit per node
 * (darts-clone). The replacements follow, each with a final NUL. Bits of a unit:
 *   0-7    label of its edge; bit 31 is set in a value unit
 *   8      a key ends here
 *   9      the offset is shifted left by 8
 *   10-30  offset to its children
 * Every index is validated, because the blob comes from a file. */
#include "token_impl.h"

#include <string.h>

/* All memory is in the arena of charsmap_open. */
struct charsmap {
    const uint32_t *unit; /* double array [n_unit] */
    size_t n_unit;
    const char *to; /* contiguous NUL-terminated replacements */
    size_t n_to;
};

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int charsmap_open(const struct charsmap **out, struct arena *a, const void *blob, size_t n,
                  struct err *e)
{
    const uint8_t *p = blob;
    *out = NULL;
    size_t n_array = n >= 4 ? read_u32(p) : 0;
    if (n_array == 0 || n_array % 4 != 0 || n_array + 4 >= n || p[n - 1] != 0)
        return err_set(
            e, ERR_FORMAT,
            "precompiled_charsmap of %zu bytes: its array of %zu bytes and the NUL-ended texts "
            "after it do not fit",
            n, n_array);
    struct charsmap *m = arena_push(a, sizeof *m, _Alignof(struct charsmap));
    uint32_t *unit = arena_push(a, n_array, 4);
    if (!m || !unit) return err_memory(e, "precompiled_charsmap", n);
    for (size_t i = 0; i < n_array / 4; i++) unit[i] = read_u32(p + 4 + 4 * i);
    *m = (struct charsmap){.unit = unit, .n_unit = n_array / 4, .n_to = n - 4 - n_array};
    m->to = arena_text(a, (const char *)p + 4 + n_array, m->n_to);
    if (!m->to) return err_memory(e, "precompiled_charsmap", n);
    *out = m;
    return 0;
}

/* Append a little-endian number. */
static void put_u32(struct buf *out, uint32_t x)
{
    for (int i = 0; i < 4; i++) buf_add_char(out, (char)(x >> 8 * i));
}

void charsmap_put(const struct charsmap *m, struct buf *out)
{
    put_u32(out, (uint32_t)(4 * m->n_unit));
    for (size_t i = 0; i < m->n_unit; i++) put_u32(out, m->unit[i]);
    buf_add(out, m->to, m->n_to);
}

/* Return the offset of a unit's children. The caller combines it with the unit's index by exclusive
 * or. */
static uint32_t children_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* Find the shortest or the longest key that is a prefix of p[0, n). Keys longer than
 * NORM_SEARCH_BYTES_MAX never match. Return the key's length and set *value to its value. */
static size_t find_key(const struct charsmap *m, const char *p, size_t n, bool longest,
                       uint32_t *value)
{
    size_t found = 0;
    uint32_t at = children_of(m->unit[0]);
    for (size_t i = 0; i < n && i < NORM_SEARCH_BYTES_MAX && p[i]; i++) {
        uint8_t c = (uint8_t)p[i];
        at ^= c;
        if (at >= m->n_unit || (m->unit[at] & (1u << 31 | 0xFF)) != c) break;
        bool ends = m->unit[at] >> 8 & 1;
        at ^= children_of(m->unit[at]);
        if (!ends) continue;
        if (at >= m->n_unit) break;
        found = i + 1;
        *value = m->unit[at] & ~(1u << 31);
        if (!longest) break;
    }
    return found && *value < m->n_to ? found : 0;
}

size_t charsmap_longest(const struct charsmap *m, const char *p, size_t n, const char **to,
                        size_t *n_to)
{
    uint32_t value = 0;
    size_t len = find_key(m, p, n, true, &value);
    *to = len ? m->to + value : NULL;
    *n_to = len ? strlen(*to) : 0;
    return len;
}

bool charsmap_first(const struct charsmap *m, const char *p, size_t n, const char **to,
                    size_t *n_to)
{
    uint32_t value = 0;
    size_t len = find_key(m, p, n, false, &value);
    *to = len ? m->to + value : NULL;
    *n_to = len ? strlen(*to) : 0;
    return len != 0;
}
