/* charset.c - sets of code points as ranges; see charset.h.
 *
 * Categories and cases come from utf8proc. */
#include "charset.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void charset_deinit(struct charset *s)
{
    free(s->v);
    *s = (struct charset){0};
}

void charset_add(struct charset *s, uint32_t lo, uint32_t hi)
{
    if (lo > hi || s->failed) return;
    /* callers mostly add ascending ranges, so merging with the last range keeps the list short */
    if (s->n > 0 && lo >= s->v[s->n - 1].lo && lo <= s->v[s->n - 1].hi + 1) {
        if (hi > s->v[s->n - 1].hi) s->v[s->n - 1].hi = hi;
        return;
    }
    if (!vec_push(s, ((struct char_range){lo, hi}))) s->failed = true;
}

void charset_add_set(struct charset *s, const struct charset *more)
{
    for (size_t i = 0; i < more->n; i++) charset_add(s, more->v[i].lo, more->v[i].hi);
    s->failed |= more->failed;
}

static int by_lo(const void *p, const void *q)
{
    const struct char_range *a = p, *b = q;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

void charset_settle(struct charset *s)
{
    size_t n = 0;
    if (s->n > 1) qsort(s->v, s->n, sizeof *s->v, by_lo);
    for (size_t i = 0; i < s->n; i++)
        if (n > 0 && s->v[i].lo <= s->v[n - 1].hi + 1) {
            if (s->v[i].hi > s->v[n - 1].hi) s->v[n - 1].hi = s->v[i].hi;
        } else {
            s->v[n++] = s->v[i];
        }
    s->n = n;
}

void charset_invert(struct charset *s)
{
    charset_settle(s);
    struct charset out = {.failed = s->failed};
    uint32_t from = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].lo > from) charset_add(&out, from, s->v[i].lo - 1);
        from = s->v[i].hi + 1;
    }
    charset_add(&out, from, CODE_POINT_MAX);
    free(s->v);
    *s = out;
}

void charset_intersect(struct charset *s, const struct charset *other)
{
    struct charset not_other = {0}; /* A and B = not (not A or not B) */
    charset_add_set(&not_other, other);
    charset_invert(&not_other);
    charset_invert(s);
    charset_add_set(s, &not_other);
    charset_invert(s);
    charset_deinit(&not_other);
}

/* Return true if a settled set contains a code point. */
static bool contains(const struct charset *s, uint32_t cp)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (s->v[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n && s->v[lo].lo <= cp;
}

/* Add the other cases of one ASCII character, without the search of charset_fold. */
static void fold_ascii(struct charset *s, uint32_t c)
{
    uint32_t low = c | 32;
    if (low < 'a' || low > 'z') return;
    charset_add(s, low, low);
    charset_add(s, low - 32, low - 32);
    if (low == 'k') charset_add(s, 0x212a, 0x212a); /* Kelvin */
    if (low == 's') charset_add(s, 0x17f, 0x17f);   /* long s */
    charset_settle(s);
}

void charset_fold(struct charset *s)
{
    if (s->n == 1 && s->v[0].lo == s->v[0].hi && s->v[0].lo < 0x80)
        return fold_ascii(s, s->v[0].lo);
    /* no code point from here on has a case (Unicode 15) */
    enum { CASED_END = 0x1e944 };
    charset_settle(s);
    struct charset more = {0};
    for (uint32_t cp = 'A'; cp < CASED_END; cp++) {
        uint32_t lower = (uint32_t)utf8proc_tolower((int32_t)cp);
        uint32_t upper = (uint32_t)utf8proc_toupper((int32_t)cp);
        if ((lower == cp && upper == cp) || cp == 0x130 || cp == 0x131)
            continue; /* dotted I and dotless i have other cases in Turkish only */
        if (contains(s, cp) || contains(s, lower) || contains(s, upper)) {
            charset_add(&more, cp, cp);
            charset_add(&more, lower, lower);
            charset_add(&more, upper, upper);
        }
    }
    charset_add_set(s, &more);
    charset_deinit(&more);
    charset_settle(s);
}

/* ---- Unicode's categories ---- */

static const struct {
    const char *name,
        /* static. code: code or first letter of the categories; "": all categories */
        *code;
} CATEGORY[] = {
    {"Any", ""},
    {"Letter", "L"},
    {"Lowercase_Letter", "Ll"},
    {"Uppercase_Letter", "Lu"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Nonspacing_Mark", "Mn"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Connector_Punctuation", "Pc"},
    {"Dash_Punctuation", "Pd"},
    {"Open_Punctuation", "Ps"},
    {"Close_Punctuation", "Pe"},
    {"Initial_Punctuation", "Pi"},
    {"Final_Punctuation", "Pf"},
    {"Other_Punctuation", "Po"},
    {"Symbol", "S"},
    {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"},
    {"Modifier_Symbol", "Sk"},
    {"Other_Symbol", "So"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Line_Separator", "Zl"},
    {"Paragraph_Separator", "Zp"},
    {"Other", "C"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Format", "Cf"},
    {"Private_Use", "Co"},
    {"Surrogate", "Cs"},
    {"Unassigned", "Cn"},
};

enum { N_CATEGORY = sizeof((struct categories *)0)->of / sizeof(struct charset) };

void categories_deinit(struct categories *c)
{
    for (int k = 0; k < N_CATEGORY; k++) charset_deinit(&c->of[k]);
}

/* Find the ranges of every category, in one search of all code points. */
static void find_categories(struct categories *c)
{
    int last = utf8proc_category(0);
    for (uint32_t cp = 1, from = 0; cp <= CODE_POINT_MAX + 1; cp++) {
        int k = cp <= CODE_POINT_MAX ? (int)utf8proc_category((int32_t)cp) : -1;
        if (k == last) continue;
        if (last >= 0 && last < N_CATEGORY) charset_add(&c->of[last], from, cp - 1);
        last = k, from = cp;
    }
    c->known = true;
}

/* Add the categories whose code begins with `code`. */
static void add_code(struct charset *s, struct categories *c, const char *code)
{
    if (!c->known) find_categories(c);
    for (int k = 0; k < N_CATEGORY; k++) {
        const struct charset *one = &c->of[k];
        s->failed |= one->failed;
        if (one->n == 0) continue;
        const char *its = utf8proc_category_string((int32_t)one->v[0].lo);
        if (strncmp(its, code, strlen(code)) == 0) charset_add_set(s, one);
    }
}

bool charset_add_category(struct charset *s, struct categories *c, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof CATEGORY / sizeof *CATEGORY; i++) {
        const char *full = CATEGORY[i].name, *code = CATEGORY[i].code;
        bool is_full = strlen(full) == n && memcmp(full, name, n) == 0;
        bool is_code = strlen(code) == n && n > 0 && memcmp(code, name, n) == 0;
        if (is_full || is_code) return add_code(s, c, code), true;
    }
    return false;
}

/* ---- \d, \w, \s ---- */

static void add_space(struct charset *s, bool unicode)
{
    charset_add(s, 9, 13);
    charset_add(s, ' ', ' ');
    if (unicode) charset_add(s, 0x85, 0x85);
    charset_add(s, 0xa0, 0xa0);
    charset_add(s, 0x1680, 0x1680);
    charset_add(s, 0x2000, 0x200a);
    charset_add(s, 0x2028, 0x2029);
    charset_add(s, 0x202f, 0x202f);
    charset_add(s, 0x205f, 0x205f);
    charset_add(s, 0x3000, 0x3000);
    if (!unicode) charset_add(s, 0xfeff, 0xfeff); /* white space in ECMA, not in Unicode */
}

void charset_add_class(struct charset *s, struct categories *c, char letter, bool unicode)
{
    if (letter == 's') {
        add_space(s, unicode);
    } else if (!unicode) {
        charset_add(s, '0', '9');
        if (letter == 'w')
            charset_add(s, 'A', 'Z'), charset_add(s, '_', '_'), charset_add(s, 'a', 'z');
    } else {
        add_code(s, c, "Nd");
        if (letter == 'w') { /* Unicode TR 18: Alphabetic, M, Nd, Pc, Join_Control */
            add_code(s, c, "L"), add_code(s, c, "M"), add_code(s, c, "Nl"), add_code(s, c, "Pc");
            charset_add(s, 0x200c, 0x200d), charset_add(s, 0x24b6, 0x24e9);
        }
    }
}

uint32_t charset_expr(struct charset *s, struct exprs *x)
{
    charset_settle(s);
    if (s->failed) return expr_fail(x, EXPR_NO_MEMORY);
    uint32_t *v = malloc((s->n + 1) * sizeof *v), e;
    if (!v) return expr_fail(x, EXPR_NO_MEMORY);
    for (size_t i = 0; i < s->n && !x->failed; i++) v[i] = expr_chars(x, s->v[i].lo, s->v[i].hi);
    if (x->failed) return free(v), EXPR_EMPTY;
    e = expr_or_list(x, v, s->n);
    free(v);
    return e;
}
