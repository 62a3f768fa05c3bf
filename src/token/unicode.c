/* unicode.c - character properties and normal forms, with utf8proc.
 *
 * utf8proc's own mapping uses an exchange sort for combining marks. The sort takes quadratic time
 * for a text that consists of marks. This file sorts a long run by counting, so that every text
 * takes linear time. Most text is ASCII, which no normal form changes. ASCII text is copied, except
 * for characters next to a character beyond ASCII. */
#include "token_impl.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Return the general category of utf8proc's Unicode version. */
static int category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

/* Return true for Python's str.isspace, except for the separators 0x1C to 0x1F. */
bool uni_space(uint32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
    int c = category(cp);
    return cp == 0x85 || (c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_ZP);
}

/* Return true for a letter, digit or connector, as \w in patterns. */
bool uni_word(uint32_t cp)
{
    if (cp == UNI_BAD) return false;
    int c = category(cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ND) || c == UTF8PROC_CATEGORY_NL ||
           c == UTF8PROC_CATEGORY_PC;
}

/* Return true for control, format, surrogate, private and unassigned characters. */
bool uni_other(uint32_t cp)
{
    int c = category(cp);
    return c >= UTF8PROC_CATEGORY_CC && c <= UTF8PROC_CATEGORY_CO;
}

bool uni_digit(uint32_t cp)
{
    if (cp < 0x80) return cp >= '0' && cp <= '9';
    return cp != UNI_BAD && category(cp) == UTF8PROC_CATEGORY_ND;
}

/* ---- classes in the Unicode version of published tokenizers (unicode_lag.def) ---- */

enum lag_class { MARK, NONSPACING, PUNCT };
static const struct lag {
    enum lag_class class;
    bool member; /* true: the range belongs to the class in published tokenizers */
    uint32_t first, last;
} lags[] = {
#define IS(class, first, last)     {class, true, 0x##first, 0x##last},
#define IS_NOT(class, first, last) {class, false, 0x##first, 0x##last},
#include "unicode_lag.def"
#undef IS
#undef IS_NOT
};

/* Correct the class of a character that changed after the tokenizers were published. */
static bool as_published(enum lag_class class, uint32_t cp, bool member)
{
    for (size_t i = 0; i < sizeof lags / sizeof lags[0]; i++)
        if (lags[i].class == class && cp >= lags[i].first && cp <= lags[i].last)
            return lags[i].member;
    return member;
}

bool uni_mark(uint32_t cp)
{
    if (cp < 0x300 || cp == UNI_BAD) return false;
    int c = category(cp);
    return as_published(MARK, cp, c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME);
}

bool uni_mark_nonspacing(uint32_t cp)
{
    return cp >= 0x300 && as_published(NONSPACING, cp, category(cp) == UTF8PROC_CATEGORY_MN);
}

/* Return true for the ranges in Hugging Face's copy of BERT's reference code, which adds
 * 0x2B920. */
bool uni_cjk(uint32_t cp)
{
    static const uint32_t range[][2] = {
        {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
        {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F},
    };
    if (cp < 0x3400) return false;
    for (size_t i = 0; i < sizeof range / sizeof range[0]; i++)
        if (cp >= range[i][0] && cp <= range[i][1]) return true;
    return false;
}

void uni_add_lower(struct buf *out, uint32_t cp)
{
    buf_add_utf8(out, (unsigned)utf8proc_tolower((utf8proc_int32_t)cp));
    /* the lower case of only this character is two characters */
    if (cp == 0x130) buf_add_utf8(out, 0x307);
}

int uni_next(const char *p, size_t n, uint32_t *cp)
{
    if ((uint8_t)p[0] < 0x80) {
        *cp = (uint8_t)p[0];
        return 1;
    }
    int len = utf8_decode(p, n, cp);
    if (len > 0) return len;
    *cp = UNI_BAD;
    return 1;
}

/* Return the first occurrence of n_what bytes; NULL if none. memchr for the first byte skips most
 * text. */
const char *bytes_find(const char *p, size_t n, const char *what, size_t n_what)
{
    while (n >= n_what) {
        const char *hit = memchr(p, what[0], n - n_what + 1);
        if (!hit || memcmp(hit, what, n_what) == 0) return hit;
        n -= (size_t)(hit + 1 - p);
        p = hit + 1;
    }
    return NULL;
}

size_t uni_valid_len(const char *p, size_t n)
{
    size_t i = 0;
    uint32_t cp;
    while (i < n) {
        int len = uni_next(p + i, n - i, &cp);
        if (cp == UNI_BAD) break;
        i += (size_t)len;
    }
    return i;
}

/* Return the length of the last character. An invalid byte is a character of one byte, UNI_BAD. */
int uni_prev(const char *p, size_t n, uint32_t *cp)
{
    for (int len = 2; len <= 4 && (size_t)len <= n; len++)
        if ((p[n - (size_t)len] & 0xC0) != 0x80) {
            if (uni_next(p + n - len, (size_t)len, cp) == len) return len;
            break;
        }
    uni_next(p + n - 1, 1, cp);
    return 1;
}

/* ---- normal forms ---- */

/* A growing array of code points, owned. */
struct cps {
    utf8proc_int32_t *v;
    size_t n, cap;
};

/* Append the decomposition of a character. utf8proc returns the needed length, so a second call
 * follows only if the array was too small. */
static bool decompose(struct cps *s, uint32_t cp, utf8proc_option_t options)
{
    int boundclass = 0;
    if (!vec_reserve(s, 16)) return false;
    for (;;) {
        utf8proc_ssize_t room = (utf8proc_ssize_t)(s->cap - s->n);
        utf8proc_ssize_t k =
            utf8proc_decompose_char((utf8proc_int32_t)cp, s->v + s->n, room, options, &boundclass);
        if (k < 0) return false;
        if (k <= room) {
            s->n += (size_t)k;
            return true;
        }
        if (!vec_reserve(s, s->n + (size_t)k)) return false;
    }
}

static int combining_class(utf8proc_int32_t cp)
{
    return cp < 0x300 ? 0 : utf8proc_get_property(cp)->combining_class;
}

/* Sort marks by combining class. Marks of equal class keep their order. */
static bool sort_marks(utf8proc_int32_t *v, size_t n)
{
    if (n < 32) {
        for (size_t i = 1; i < n; i++) {
            utf8proc_int32_t cp = v[i];
            size_t j = i;
            for (; j > 0 && combining_class(v[j - 1]) > combining_class(cp); j--) v[j] = v[j - 1];
            v[j] = cp;
        }
        return true;
    }
    size_t at[257] = {0};
    utf8proc_int32_t *sorted = malloc(n * sizeof *sorted);
    if (!sorted) return false;
    for (size_t i = 0; i < n; i++) at[combining_class(v[i]) + 1]++;
    for (int c = 0; c < 256; c++) at[c + 1] += at[c];
    for (size_t i = 0; i < n; i++) sorted[at[combining_class(v[i])]++] = v[i];
    memcpy(v, sorted, n * sizeof *v);
    free(sorted);
    return true;
}

/* Sort each run of marks. A character of class 0 ends a run. */
static bool canonical_order(struct cps *s)
{
    for (size_t i = 0; i < s->n;) {
        size_t begin = i;
        while (i < s->n && combining_class(s->v[i]) != 0) i++;
        if (i - begin > 1 && !sort_marks(s->v + begin, i - begin)) return false;
        if (i == begin) i++;
    }
    return true;
}

/* Append the normal form of p[0, n), which is valid UTF-8. `s` is scratch. */
static bool add_normalized(struct buf *out, struct cps *s, const char *p, size_t n,
                           enum uni_form form)
{
    utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    if (form == UNI_NFKC || form == UNI_NFKD) options |= UTF8PROC_COMPAT;
    s->n = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += (size_t)uni_next(p + i, n - i, &cp);
        if (!decompose(s, cp, options)) return false;
    }
    if (!canonical_order(s)) return false;
    utf8proc_ssize_t k = (utf8proc_ssize_t)s->n;
    if (form == UNI_NFC || form == UNI_NFKC)
        k = utf8proc_normalize_utf32(s->v, k, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; i < k; i++) buf_add_utf8(out, (unsigned)s->v[i]);
    return k >= 0;
}

/* Return the number of bytes at p that are valid characters beyond ASCII. */
static size_t foreign_len(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && (uint8_t)p[i] >= 0x80) i++;
    return uni_valid_len(p, i);
}

bool uni_normalize(struct buf *out, const char *p, size_t n, enum uni_form form)
{
    struct cps s = {0};
    bool ok = true;
    for (size_t i = 0; i < n && ok;) {
        size_t begin = i;
        while (i < n && (uint8_t)p[i] < 0x80) i++;
        size_t foreign = foreign_len(p + i, n - i);
        if (foreign == 0) { /* i is at the end, or at a byte that is not UTF-8 */
            if (i < n) i++;
            buf_add(out, p + begin, i - begin);
            continue;
        }
        size_t base =
            i > begin ? i - 1 : i; /* a mark may compose with the ASCII character before it */
        buf_add(out, p + begin, base - begin);
        ok = add_normalized(out, &s, p + base, i + foreign - base, form);
        i += foreign;
    }
    free(s.v);
    return ok && !out->failed;
}
