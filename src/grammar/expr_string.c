/* expr_string.c - STRING(a): the JSON spellings of the texts of a, and the closing quote. Tags of a
 * are reported after the quote.
 *
 *   STRING(a) --\--> ESCAPE(a) --u--> HEX(a) 0..3 digits --> STRING(a after the character)
 *                                       | high surrogate: \ u and four more digits
 *
 * RFC 8259, section 7. A lone surrogate is not a character and is rejected. HEX(a) is dropped if it
 * cannot become a character of a. The test searches the automaton of a for the range of characters
 * that the digits allow, instead of trying all 65,536 spellings. */
#include "expr.h"

#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>

/* Stages of HEX, in the upper half of b. The first stages count the digits of the first \u. The
 * stages for the \, the u and the digits of the second \u follow. */
enum { STAGE_BACKSLASH = 4, STAGE_U = 5, STAGE_LOW = 6 };

/* Flags in c of all states. NO_SOLIDUS: the escape \/ is not permitted. OPEN: the text has no
 * closing quote, because it is a part of a string. */
enum { NO_SOLIDUS = 1 << 16, OPEN = 1 << 17, FLAGS = NO_SOLIDUS | OPEN };

/* Return the state `op` of operand a; EXPR_EMPTY if a is EXPR_EMPTY. */
static uint32_t make(struct exprs *x, enum expr_op op, uint32_t a, uint32_t b, uint32_t c)
{
    if (a == EXPR_EMPTY) return EXPR_EMPTY;
    bool simple = op == EX_STRING && x->e[a].simple;
    bool nullable = op == EX_STRING && c & OPEN && x->e[a].nullable;
    return expr_make(
        x, (struct expr){.op = op, .nullable = nullable, .simple = simple, .a = a, .b = b, .c = c});
}

uint32_t expr_string(struct exprs *x, uint32_t a)
{
    return x->failed ? EXPR_EMPTY : make(x, EX_STRING, a, 0, 0);
}

uint32_t expr_string_python(struct exprs *x, uint32_t a)
{
    return x->failed ? EXPR_EMPTY : make(x, EX_STRING, a, 0, NO_SOLIDUS);
}

uint32_t expr_string_part(struct exprs *x, uint32_t a, bool python)
{
    return x->failed ? EXPR_EMPTY : make(x, EX_STRING, a, 0, OPEN | (python ? NO_SOLIDUS : 0));
}

uint32_t expr_string_like(struct exprs *x, const struct expr *e, uint32_t a)
{
    return x->failed ? EXPR_EMPTY : make(x, EX_STRING, a, 0, e->c & FLAGS);
}

bool expr_is_string_part(const struct expr *e)
{
    return e->op == EX_STRING && e->c & OPEN;
}

/* Return STRING(derivative of the operand of e by the bytes of a character). */
static uint32_t after_char(struct exprs *x, const struct expr *e, uint32_t cp)
{
    uint32_t a = e->a, flag = e->c & FLAGS;
    char bytes[4];
    int n = utf8_encode(bytes, cp);
    for (int i = 0; i < n && a != EXPR_EMPTY; i++) a = expr_derive(x, a, (uint8_t)bytes[i]);
    return make(x, EX_STRING, a, 0, flag);
}

static uint32_t derive_escape(struct exprs *x, const struct expr *e, uint8_t byte)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (byte == 'u') return make(x, EX_HEX, e->a, 0, e->c);
    if (byte == '/' && e->c & NO_SOLIDUS) return EXPR_EMPTY;
    for (int i = 0; from[i]; i++)
        if ((uint8_t)from[i] == byte) return after_char(x, e, (uint8_t)to[i]);
    return EXPR_EMPTY;
}

/* Return the state after the last of four digits. A high surrogate requires a second \u. */
static uint32_t hex_end(struct exprs *x, const struct expr *e, uint32_t value)
{
    uint32_t high = e->c & 0xffff;
    if (high) {
        if (value < 0xdc00 || value > 0xdfff) return EXPR_EMPTY;
        return after_char(x, e, 0x10000 + ((high - 0xd800) << 10) + (value - 0xdc00));
    }
    if (value >= 0xd800 && value < 0xdc00)
        return make(x, EX_HEX, e->a, STAGE_BACKSLASH << 16, e->c | value);
    if (value >= 0xdc00 && value < 0xe000) return EXPR_EMPTY;
    return after_char(x, e, value);
}

static uint32_t derive_hex(struct exprs *x, const struct expr *e, uint8_t byte)
{
    uint32_t stage = e->b >> 16;
    if (stage == STAGE_BACKSLASH || stage == STAGE_U) {
        if (byte != (stage == STAGE_U ? 'u' : '\\')) return EXPR_EMPTY;
        return make(x, EX_HEX, e->a, (stage + 1) << 16, e->c);
    }
    int digit = hex_digit((char)byte);
    if (digit < 0) return EXPR_EMPTY;
    uint32_t value = (e->b & 0xffff) << 4 | (uint32_t)digit;
    if (stage == 3 || stage == STAGE_LOW + 3) return hex_end(x, e, value);
    return make(x, EX_HEX, e->a, (stage + 1) << 16 | value, e->c);
}

/* Return the expression after the quote: the tags that a reports, or the empty text. */
static uint32_t close_quote(struct exprs *x, uint32_t a)
{
    struct tags tags = {0};
    if (!x->e[a].nullable) return EXPR_EMPTY;
    if (!expr_tags(x, a, &tags)) return vec_deinit(&tags), expr_fail(x, EXPR_NO_MEMORY);
    uint32_t d = tags.n == 0 ? EXPR_EPSILON : EXPR_EMPTY;
    for (size_t i = 0; i < tags.n; i++) d = expr_or(x, d, expr_tag(x, tags.v[i]));
    vec_deinit(&tags);
    return d;
}

uint32_t string_derive(struct exprs *x, const struct expr *e, uint8_t byte)
{
    uint32_t d = EXPR_EMPTY;
    if (e->op == EX_ESCAPE)
        d = derive_escape(x, e, byte);
    else if (e->op == EX_HEX)
        d = derive_hex(x, e, byte);
    else if (byte == '\\')
        d = make(x, EX_ESCAPE, e->a, 0, e->c);
    else if (byte == '"')
        return e->c & OPEN ? EXPR_EMPTY : close_quote(x, e->a);
    else if (byte >= ' ')
        d = make(x, EX_STRING, expr_derive(x, e->a, byte), 0, e->c);
    /* keep an escape only if it can still become a character of the operand */
    bool pending = x->e[d].op == EX_ESCAPE || x->e[d].op == EX_HEX;
    return pending && !expr_alive(x, d) ? EXPR_EMPTY : d;
}

uint32_t string_with(struct exprs *x, const struct expr *e, uint32_t a)
{
    return make(x, e->op, a, e->b, e->c);
}

/* ---- possible first characters ---- */

/* Return true if a text of e begins with n bytes in [lo, hi]. lo and hi are characters of equal
 * length, or the ends of such characters. */
static bool any_between(struct exprs *x, uint32_t e, const uint8_t *lo, const uint8_t *hi, int n)
{
    static const uint8_t first[3] = {0x80, 0x80, 0x80}, last[3] = {0xbf, 0xbf, 0xbf};
    if (n == 0) return expr_alive(x, e);
    const uint32_t *row = expr_row(x, e);
    /* expression for which the search with all continuation bytes has failed */
    uint32_t refused = EXPR_EMPTY;
    for (int b = *lo; row && b <= *hi; b++) {
        uint32_t d = row[b];
        if (d == EXPR_EMPTY || d == refused) continue;
        const uint8_t *from = b == *lo ? lo + 1 : first, *to = b == *hi ? hi + 1 : last;
        if (any_between(x, d, from, to, n - 1)) return true;
        if (b != *lo && b != *hi) refused = d;
    }
    return false;
}

/* Return true if a text of a begins with a character in [lo, hi]. */
static bool any_in(struct exprs *x, uint32_t a, uint32_t lo, uint32_t hi)
{
    static const uint32_t border[] = {0, 0x80, 0x800, 0xd800, 0xe000, 0x10000, 0x110000};
    for (size_t i = 0; i + 1 < sizeof border / sizeof *border; i++) {
        uint32_t from = lo > border[i] ? lo : border[i];
        uint32_t to = hi < border[i + 1] - 1 ? hi : border[i + 1] - 1;
        if (from > to || border[i] == 0xd800) continue;
        char p[4], q[4];
        int n = utf8_encode(p, from);
        utf8_encode(q, to);
        if (any_between(x, a, (const uint8_t *)p, (const uint8_t *)q, n)) return true;
    }
    return false;
}

static uint32_t high_to_char(uint32_t high, uint32_t low)
{
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* Return true if n_left more digits after `value` can spell a first character of a. high: the
 * preceding high surrogate; 0 if none. */
static bool hex_alive(struct exprs *x, uint32_t a, uint32_t value, int n_left, uint32_t high)
{
    uint32_t lo = value << (4 * n_left), hi = lo + (1u << (4 * n_left)) - 1;
    if (high) {
        if (lo < 0xdc00) lo = 0xdc00;
        if (hi > 0xdfff) hi = 0xdfff;
        return lo <= hi && any_in(x, a, high_to_char(high, lo), high_to_char(high, hi));
    }
    if (any_in(x, a, lo, hi)) return true;
    if (lo < 0xd800) lo = 0xd800;
    if (hi > 0xdbff) hi = 0xdbff;
    return lo <= hi && any_in(x, a, high_to_char(lo, 0xdc00), high_to_char(hi, 0xdfff));
}

bool string_alive(struct exprs *x, const struct expr *e)
{
    const struct expr it = *e;
    if (it.op == EX_ESCAPE) return any_in(x, it.a, 0, 0x10ffff); /* \u spells every character */
    uint32_t stage = it.b >> 16;
    if (stage == STAGE_BACKSLASH || stage == STAGE_U)
        return hex_alive(x, it.a, 0, 4, it.c & 0xffff);
    int n_read = (int)(stage < 4 ? stage : stage - STAGE_LOW);
    return hex_alive(x, it.a, it.b & 0xffff, 4 - n_read, it.c & 0xffff);
}
