/* decimal.c - exact decimal numbers, and the languages of the numbers above or below one; see
 * decimal.h.
 *
 * The numbers above a bound are a regular language. These numbers have more digits before the point
 * than the bound, or as many digits and a greater digit at the first difference. Negative numbers
 * have the reverse order of positive numbers. */
#include "decimal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static bool put_digit(char *to, int *n, char c)
{
    if (*n >= DECIMAL_DIGITS_MAX) return false;
    to[(*n)++] = c;
    return true;
}

/* Set the digits of d, with the point after n_before of the n digits. n_before may be outside of
 * [0, n], and zeros fill the gap. Remove zeros at both ends. Return false if d has too many
 * digits. */
static bool place_point(struct decimal *d, const char *digit, int n, int n_before)
{
    bool ok = true;
    for (int i = 0; i < n_before && ok; i++)
        ok = put_digit(d->digit, &d->n_digit, i < n ? digit[i] : '0');
    for (int i = n_before; i < n && ok; i++)
        ok = put_digit(d->fraction, &d->n_fraction, i < 0 ? '0' : digit[i]);
    int lead = 0;
    while (lead < d->n_digit && d->digit[lead] == '0') lead++;
    memmove(d->digit, d->digit + lead, (size_t)(d->n_digit - lead));
    d->n_digit -= lead;
    while (d->n_fraction > 0 && d->fraction[d->n_fraction - 1] == '0') d->n_fraction--;
    if (d->n_digit + d->n_fraction == 0) d->negative = false;
    return ok;
}

bool decimal_read(struct decimal *d, const char *text, size_t n)
{
    char digit[DECIMAL_DIGITS_MAX];
    int n_digit = 0, n_before = -1;
    size_t i = 0;
    *d = (struct decimal){0};
    if (i < n && text[i] == '-') d->negative = true, i++;
    for (; i < n && (text[i] | 32) != 'e'; i++)
        if (text[i] == '.')
            n_before = n_digit;
        else if (n_digit == DECIMAL_DIGITS_MAX)
            return false;
        else
            digit[n_digit++] = text[i];
    if (n_before < 0) n_before = n_digit;
    bool minus = i + 1 < n && text[i + 1] == '-';
    int power = 0;
    for (i += 1 + (i + 1 < n && (text[i + 1] == '-' || text[i + 1] == '+')); i < n; i++)
        if (power < 2 * DECIMAL_DIGITS_MAX) power = 10 * power + (text[i] - '0');
    n_before += minus ? -power : power;
    return n_before > -DECIMAL_DIGITS_MAX && place_point(d, digit, n_digit, n_before);
}

/* ---- parts of numbers ---- */

static uint32_t text(struct exprs *x, const char *t)
{
    return expr_bytes(x, t, strlen(t));
}

static uint32_t digits(struct exprs *x, uint32_t min, uint32_t max)
{
    return expr_rep(x, expr_range(x, '0', '9'), min, max);
}

static uint32_t zeros(struct exprs *x, uint32_t min)
{
    return expr_rep(x, text(x, "0"), min, EXPR_INF);
}

static uint32_t optional(struct exprs *x, uint32_t e)
{
    return expr_or(x, EXPR_EPSILON, e);
}

static uint32_t point(struct exprs *x, uint32_t fraction)
{
    return expr_cat(x, text(x, "."), fraction);
}

static uint32_t minus(struct exprs *x, uint32_t e)
{
    return expr_cat(x, text(x, "-"), e);
}

static uint32_t natural(struct exprs *x)
{
    return expr_or(x, text(x, "0"), expr_cat(x, expr_range(x, '1', '9'), digits(x, 0, EXPR_INF)));
}

static uint32_t positive_any(struct exprs *x)
{
    return expr_cat(x, natural(x), optional(x, point(x, digits(x, 1, EXPR_INF))));
}

uint32_t number_any(struct exprs *x)
{
    return expr_cat(x, optional(x, text(x, "-")), positive_any(x));
}

uint32_t number_integer(struct exprs *x, bool fraction_of_zeros, bool scientific)
{
    uint32_t e = fraction_of_zeros ? optional(x, point(x, zeros(x, 1))) : EXPR_EPSILON;
    e = expr_cat(x, natural(x), e);
    if (fraction_of_zeros && scientific) e = expr_or(x, e, expr_scientific_integer(x));
    return expr_cat(x, optional(x, text(x, "-")), e);
}

uint32_t number_scientific(struct exprs *x)
{
    uint32_t e = expr_cat(x, expr_mantissa(x), expr_exponent(x, -EXPONENT_MAX, EXPONENT_MAX));
    return expr_cat(x, optional(x, text(x, "-")), e);
}

uint32_t number_exponent(struct exprs *x)
{
    struct byteset e = {{0}}, sign = {{0}};
    byteset_add(&e, 'e'), byteset_add(&e, 'E');
    byteset_add(&sign, '+'), byteset_add(&sign, '-');
    uint32_t power = expr_cat(x, optional(x, expr_set(x, &sign)), digits(x, 1, 3));
    return expr_cat(x, number_any(x), expr_cat(x, expr_set(x, &e), power));
}

static uint32_t zero(struct exprs *x)
{
    return expr_cat(x, text(x, "0"), optional(x, point(x, zeros(x, 1))));
}

/* Set *m to the mantissa of |d|, with one digit before the point, and return the exponent. d must
 * not be zero. */
static int normalize(struct decimal *m, const struct decimal *d)
{
    int n_zero = 0;
    *m = (struct decimal){.n_digit = 1};
    while (d->n_digit == 0 && d->fraction[n_zero] == '0') n_zero++;
    for (int i = 0; i < d->n_digit + d->n_fraction - n_zero; i++) {
        int at = i + n_zero - d->n_digit;
        char c = at < 0 ? d->digit[i] : d->fraction[at];
        if (i == 0)
            m->digit[0] = c;
        else if (m->n_fraction < DECIMAL_DIGITS_MAX)
            m->fraction[m->n_fraction++] = c;
    }
    while (m->n_fraction > 0 && m->fraction[m->n_fraction - 1] == '0') m->n_fraction--;
    return d->n_digit > 0 ? d->n_digit - 1 : -n_zero - 1;
}

static uint32_t plain_equal(struct exprs *x, const struct decimal *d);

uint32_t number_equal(struct exprs *x, const struct decimal *d, bool scientific)
{
    struct decimal m;
    uint32_t e = plain_equal(x, d);
    if (!scientific || d->n_digit + d->n_fraction == 0) return e;
    int power = normalize(&m, d);
    uint32_t same = expr_and(x, expr_mantissa(x), plain_equal(x, &m));
    uint32_t s = expr_cat(x, same, expr_exponent(x, power, power));
    return expr_or(x, e, d->negative ? minus(x, s) : s);
}

/* Return the spellings of d without an exponent. */
static uint32_t plain_equal(struct exprs *x, const struct decimal *d)
{
    if (d->n_digit + d->n_fraction == 0) return expr_or(x, zero(x), minus(x, zero(x)));
    uint32_t tail = optional(x, point(x, zeros(x, 1)));
    if (d->n_fraction > 0)
        tail =
            point(x, expr_cat(x, expr_bytes(x, d->fraction, (size_t)d->n_fraction), zeros(x, 0)));
    uint32_t head = d->n_digit ? expr_bytes(x, d->digit, (size_t)d->n_digit) : text(x, "0");
    uint32_t e = expr_cat(x, head, tail);
    return d->negative ? minus(x, e) : e;
}

/* ---- comparison ---- */

/* Return the digits after a point that are above f[0, n), or also equal to it if `or_equal` is
 * true. There is at least one digit, and zeros may be last. */
static uint32_t fraction_above(struct exprs *x, const char *f, int n, bool or_equal)
{
    uint32_t some = digits(x, 1, EXPR_INF);
    if (n == 0) /* f is 0: all digits are at least f, and all digits except zeros are above f */
        return or_equal ? some : expr_and(x, some, expr_not(x, zeros(x, 0)));
    uint32_t e = EXPR_EMPTY;
    for (int i = n; i > 0; i--) {
        bool last = i == n;
        uint32_t same = e;
        if (last) {
            uint32_t rest = fraction_above(x, f, 0, or_equal);
            same = or_equal ? optional(x, rest) : rest;
        }
        e = expr_cat(x, expr_range(x, (uint8_t)f[i - 1], (uint8_t)f[i - 1]), same);
        if (f[i - 1] < '9')
            e = expr_or(
                x, e,
                expr_cat(x, expr_range(x, (uint8_t)(f[i - 1] + 1), '9'), digits(x, 0, EXPR_INF)));
    }
    return e;
}

/* Return the natural numbers above d[0, n), which has no leading zeros. */
static uint32_t natural_above(struct exprs *x, const char *d, int n)
{
    uint32_t longer = expr_cat(x, expr_range(x, '1', '9'), digits(x, (uint32_t)n, EXPR_INF));
    uint32_t e = EXPR_EMPTY;
    for (int i = n; i > 0; i--) {
        e = expr_cat(x, expr_range(x, (uint8_t)d[i - 1], (uint8_t)d[i - 1]), e);
        if (d[i - 1] < '9')
            e = expr_or(x, e,
                        expr_cat(x, expr_range(x, (uint8_t)(d[i - 1] + 1), '9'),
                                 digits(x, (uint32_t)(n - i), (uint32_t)(n - i))));
    }
    return expr_or(x, longer, e);
}

/* Return the numbers above |d|, or also equal to it if `or_equal` is true, without a sign and
 * without an exponent. */
static uint32_t positive_above(struct exprs *x, const struct decimal *d, bool or_equal)
{
    uint32_t any_fraction = optional(x, point(x, digits(x, 1, EXPR_INF)));
    uint32_t above = expr_cat(x, natural_above(x, d->digit, d->n_digit), any_fraction);
    uint32_t head = d->n_digit ? expr_bytes(x, d->digit, (size_t)d->n_digit) : text(x, "0");
    uint32_t tail = point(x, fraction_above(x, d->fraction, d->n_fraction, or_equal));
    if (or_equal && d->n_fraction == 0) tail = optional(x, tail);
    return expr_or(x, above, expr_cat(x, head, tail));
}

/* Return the numbers above |d|, or also equal to it if `or_equal` is true, without a sign and in
 * scientific notation. Zero is not included, because it has no scientific notation. */
static uint32_t scientific_above(struct exprs *x, const struct decimal *d, bool or_equal)
{
    struct decimal m;
    uint32_t any = expr_mantissa(x);
    if (d->n_digit + d->n_fraction == 0)
        return expr_cat(x, any, expr_exponent(x, -EXPONENT_MAX, EXPONENT_MAX));
    int power = normalize(&m, d);
    uint32_t larger = expr_cat(x, any, expr_exponent(x, power + 1, EXPONENT_MAX));
    uint32_t above = expr_and(x, any, positive_above(x, &m, or_equal));
    return expr_or(x, larger, expr_cat(x, above, expr_exponent(x, power, power)));
}

/* Return the numbers above |d|, or also equal to it if `or_equal` is true, without a sign, in all
 * spellings. */
static uint32_t all_above(struct exprs *x, const struct decimal *d, bool or_equal, bool scientific)
{
    uint32_t e = positive_above(x, d, or_equal);
    return scientific ? expr_or(x, e, scientific_above(x, d, or_equal)) : e;
}

uint32_t number_above(struct exprs *x, const struct decimal *d, bool or_equal, bool scientific)
{
    static const struct decimal nothing;
    if (!d->negative) {
        uint32_t e = all_above(x, d, or_equal, scientific);
        bool is_zero = d->n_digit + d->n_fraction == 0;
        return is_zero && or_equal ? expr_or(x, e, minus(x, zero(x))) : e;
    }
    /* all numbers without a sign, and negative numbers nearer to zero, are above a negative d */
    uint32_t any = all_above(x, &nothing, true, scientific);
    uint32_t below = expr_and(x, any, expr_not(x, all_above(x, d, !or_equal, scientific)));
    return expr_or(x, any, minus(x, below));
}

uint32_t number_multiple(struct exprs *x, const struct decimal *d, bool *too_fine)
{
    uint64_t m = 0;
    for (int i = 0; i < d->n_digit + d->n_fraction && m <= UINT32_MAX; i++)
        m = m * 10 + (uint64_t)((i < d->n_digit ? d->digit[i] : d->fraction[i - d->n_digit]) - '0');
    *too_fine = m > UINT32_MAX || m == 0 || d->n_fraction > 18 || d->negative;
    if (*too_fine) return EXPR_EMPTY;
    struct divisor divisor = {(uint32_t)m, (uint32_t)d->n_fraction};
    uint32_t e = expr_cat(x, optional(x, text(x, "-")), expr_multiple(x, divisor));
    return expr_and(x, e, number_any(x));
}
