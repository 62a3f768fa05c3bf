/* expr_scientific.c - numbers in the scientific notation of programs (1e-06, 2.5E+20): one digit
 * except 0, a fraction, an exponent.
 *
 *   INTEGER: d . ddd e k with an integer value
 *
 * The state within a mantissa is the number of fractional digits and of zeros at their end. The two
 * numbers determine the minimum exponent of an integer. There are few states, because the number of
 * digits is limited.
 *   a  stage
 *   b  zeros at the end of the fraction
 *   c  fractional digits */
#include "expr.h"

enum { FRACTION_MAX = 20 };
enum { STAGE_FIRST, STAGE_INTEGER, STAGE_POINT, STAGE_FRACTION };

static uint32_t digits(struct exprs *x, uint32_t min, uint32_t max)
{
    return expr_rep(x, expr_range(x, '0', '9'), min, max);
}

static uint32_t byte(struct exprs *x, char c)
{
    return expr_range(x, (uint8_t)c, (uint8_t)c);
}

/* Return the natural numbers in [lo, 999], without leading zeros. EXPR_EMPTY if there are none. */
static uint32_t at_least(struct exprs *x, int lo)
{
    if (lo > EXPONENT_MAX) return EXPR_EMPTY;
    if (lo <= 0)
        return expr_or(x, byte(x, '0'), expr_cat(x, expr_range(x, '1', '9'), digits(x, 0, 2)));
    int n = lo >= 100 ? 3 : lo >= 10 ? 2 : 1;
    uint32_t e = EXPR_EPSILON;
    for (int i = 0; i < n;
         /* begin with the last digit: the digits before it are equal, and the digit itself is
          * greater */
         i++, lo /= 10) {
        int d = '0' + lo % 10;
        e = expr_cat(x, byte(x, (char)d), e);
        if (d < '9')
            e = expr_or(x, e,
                        expr_cat(x, expr_range(x, (uint8_t)(d + 1), '9'),
                                 digits(x, (uint32_t)i, (uint32_t)i)));
    }
    if (n == 3) return e;
    return expr_or(x, e, expr_cat(x, expr_range(x, '1', '9'), digits(x, (uint32_t)n, 2)));
}

/* Return the natural numbers in [lo, hi], with at most two leading zeros. */
static uint32_t natural(struct exprs *x, int lo, int hi)
{
    uint32_t e = at_least(x, lo);
    if (hi < 0) return EXPR_EMPTY;
    if (hi < EXPONENT_MAX) e = expr_and(x, e, expr_not(x, at_least(x, hi + 1)));
    return expr_cat(x, expr_rep(x, byte(x, '0'), 0, 2), e);
}

uint32_t expr_exponent(struct exprs *x, int lo, int hi)
{
    struct byteset mark = {{0}};
    byteset_add(&mark, 'e'), byteset_add(&mark, 'E');
    uint32_t plus = expr_cat(x, expr_rep(x, byte(x, '+'), 0, 1), natural(x, lo, hi)),
             minus = expr_cat(x, byte(x, '-'), natural(x, hi < 0 ? -hi : 0, -lo));
    return expr_cat(x, expr_set(x, &mark), expr_or(x, plus, minus));
}

uint32_t expr_mantissa(struct exprs *x)
{
    uint32_t fraction = expr_cat(x, byte(x, '.'), digits(x, 1, EXPR_INF));
    return expr_cat(x, expr_range(x, '1', '9'), expr_rep(x, fraction, 0, 1));
}

static uint32_t state(struct exprs *x, int stage, int n_zero, int n_fraction)
{
    return expr_make(x, (struct expr){.op = EX_SCIENTIFIC_INTEGER,
                                      .a = (uint32_t)stage,
                                      .b = (uint32_t)n_zero,
                                      .c = (uint32_t)n_fraction,
                                      .simple = true});
}

uint32_t expr_scientific_integer(struct exprs *x)
{
    return state(x, STAGE_FIRST, 0, 0);
}

uint32_t scientific_derive(struct exprs *x, const struct expr *e, uint8_t b)
{
    int stage = (int)e->a, n_zero = (int)e->b, n_fraction = (int)e->c;
    if ((b == 'e' || b == 'E') && (stage == STAGE_INTEGER || stage == STAGE_FRACTION)) {
        uint32_t exponent = expr_exponent(x, n_fraction - n_zero, EXPONENT_MAX);
        return expr_derive(x, exponent, b);
    }
    if (b == '.' && stage == STAGE_INTEGER) return state(x, STAGE_POINT, 0, 0);
    bool digit = b >= '0' && b <= '9';
    if (!digit || (stage == STAGE_FIRST && b == '0') || stage == STAGE_INTEGER) return EXPR_EMPTY;
    if (stage == STAGE_FIRST) return state(x, STAGE_INTEGER, 0, 0);
    if (n_fraction == FRACTION_MAX) return EXPR_EMPTY;
    return state(x, STAGE_FRACTION, b == '0' ? n_zero + 1 : 0, n_fraction + 1);
}
