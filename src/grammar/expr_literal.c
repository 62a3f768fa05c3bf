/* expr_literal.c - the plain JSON spelling of constant texts: names of members, values of const and
 * enum.
 *
 * STRING(a) accepts every spelling of a text (expr_string.c), but a model needs only one. The bytes
 * of a constant are forced if it has only one spelling, so that no letter is written as \u006b.
 *
 * Bytes are spelled one by one, so the spelling of an expression of single bytes, concatenations
 * and alternations is an expression of the same operators. */
#include "expr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 200 };

/* Return the spelling of one byte of a text: the byte, or the escape that JSON requires. */
static uint32_t spell_byte(struct exprs *x, uint8_t byte)
{
    static const char escaped[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *at = byte ? strchr(escaped, byte) : NULL;
    char text[8] = {(char)byte};
    if (at) return expr_bytes(x, (char[]){'\\', letter[at - escaped]}, 2);
    if (byte < ' ')
        return expr_bytes(x, text, (size_t)snprintf(text, sizeof text, "\\u%04x", byte));
    return expr_bytes(x, text, 1);
}

/* Return the spelling of e. EXPR_EMPTY if e has other operators or too many levels. */
static uint32_t spell(struct exprs *x, uint32_t e, int depth);

/* Return the spelling of a set of one byte; EXPR_EMPTY for larger sets. */
static uint32_t spell_set(struct exprs *x, const struct byteset *s)
{
    struct byteset rest = *s;
    uint8_t first = byteset_first(s);
    rest.w[first >> 6] &= ~(1ull << (first & 63));
    bool one = !(rest.w[0] | rest.w[1] | rest.w[2] | rest.w[3]);
    return one ? spell_byte(x, first) : EXPR_EMPTY;
}

/* Return the alternation of the spellings; EXPR_EMPTY if an operand has no plain spelling. */
static uint32_t spell_or(struct exprs *x, struct expr it, int depth)
{
    VEC(uint32_t) v = {0};
    uint32_t e = EXPR_EMPTY;
    bool all = true;
    for (uint32_t i = 0; i < it.b && all; i++) {
        uint32_t one = spell(x, x->list.v[it.a + i], depth + 1);
        all = one != EXPR_EMPTY && vec_push(&v, one);
        if (one != EXPR_EMPTY && !all) expr_fail(x, EXPR_NO_MEMORY);
    }
    if (all) e = expr_or_list(x, v.v, v.n);
    vec_deinit(&v);
    return e;
}

/* Return the concatenation of the spellings; EXPR_EMPTY if an operand has no plain spelling. The
 * function has a loop instead of recursion, because a concatenation may be as long as a schema. */
static uint32_t spell_cat(struct exprs *x, uint32_t e, int depth)
{
    VEC(uint32_t) v = {0};
    uint32_t one = EXPR_EPSILON;
    bool all = true;
    for (; all && x->e[e].op == EX_CAT; e = x->e[e].b) {
        one = spell(x, x->e[e].a, depth + 1);
        all = one != EXPR_EMPTY && vec_push(&v, one);
        if (one != EXPR_EMPTY && !all) expr_fail(x, EXPR_NO_MEMORY);
    }
    uint32_t tail = all ? spell(x, e, depth + 1) : EXPR_EMPTY;
    for (; v.n > 0 && tail != EXPR_EMPTY; v.n--) tail = expr_cat(x, v.v[v.n - 1], tail);
    vec_deinit(&v);
    return tail;
}

static uint32_t spell(struct exprs *x, uint32_t e, int depth)
{
    const struct expr it = x->e[e];
    if (depth > DEPTH_MAX || x->failed || !expr_spend(x, 1)) return EXPR_EMPTY;
    if (it.op == EX_EPSILON) return e;
    if (it.op == EX_SET) return spell_set(x, &x->set.v[it.a]);
    if (it.op == EX_CAT) return spell_cat(x, e, depth);
    return it.op == EX_OR ? spell_or(x, it, depth) : EXPR_EMPTY;
}

uint32_t expr_literal(struct exprs *x, uint32_t a)
{
    uint32_t e = spell(x, a, 0);
    return e == EXPR_EMPTY ? e : expr_cat(x, e, expr_bytes(x, "\"", 1));
}
