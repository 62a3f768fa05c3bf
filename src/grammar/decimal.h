/* decimal.h - private to grammar: exact decimal numbers, and the languages of the numbers above
 * or below one. Any thread; the expressions belong to one thread at a time. */
#ifndef QUOTH_GRAMMAR_DECIMAL_H
#define QUOTH_GRAMMAR_DECIMAL_H

#include "expr.h"

enum { DECIMAL_DIGITS_MAX = 400 };

/* Decimal number +-digits . fraction, without leading zeros before or trailing zeros after the
 * point. Both texts are empty for zero. */
struct decimal {
    bool negative;
    int n_digit, n_fraction;
    char digit[DECIMAL_DIGITS_MAX], fraction[DECIMAL_DIGITS_MAX];
};

/* Read a number in JSON's spelling. Return false if the number has too many digits. */
bool decimal_read(struct decimal *d, const char *text, size_t n);

/* Numbers have two spellings: without an exponent and, if requested, in scientific notation with
 * one digit before the point. */
uint32_t number_any(struct exprs *x); /* return all numbers without an exponent */
/* Return the numbers in scientific notation. */
uint32_t number_scientific(struct exprs *x);
/* Return the integers in the spelling 1 and, if requested, 1.0 and 1e0. */
uint32_t number_integer(struct exprs *x, bool fraction_of_zeros, bool scientific);
/* Return the spellings of the number d. */
uint32_t number_equal(struct exprs *x, const struct decimal *d, bool scientific);
/* Return the numbers above d, or also equal to it if or_equal is true. */
uint32_t number_above(struct exprs *x, const struct decimal *d, bool or_equal, bool scientific);
/* Return the language of numbers with an exponent, in any spelling. */
uint32_t number_exponent(struct exprs *x);
/* Return the multiples of d > 0, without an exponent. Return EXPR_EMPTY and set *too_fine if d has
 * more digits than a divisor can hold. */
uint32_t number_multiple(struct exprs *x, const struct decimal *d, bool *too_fine);

#endif
