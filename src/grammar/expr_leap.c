/* expr_leap.c - LEAP: times of day with the second 60 as in RFC 3339: HH:MM:60, a fraction, the
 * offset.
 *
 * A leap second is the last second of a day in UTC, so the local time determines the offset. There
 * are 1,440 pairs of time and offset; each text contains one pair.
 *   a  number of bytes read of HH:MM:60, then the stage of the fraction (AT_*)
 *   b  the digits of HHMM read so far, as a decimal number */
#include "expr.h"

#include <stdio.h>

enum { AT_END = 8, AT_POINT, AT_FRACTION };

static uint32_t state(struct exprs *x, uint32_t at, uint32_t digits)
{
    return expr_make(x, (struct expr){.op = EX_LEAP, .a = at, .b = digits, .simple = true});
}

uint32_t expr_leap(struct exprs *x)
{
    return state(x, 0, 0);
}

/* Return the remaining offset after its first byte, which is `byte`. HHMM with this offset is 23:59
 * in UTC. EXPR_EMPTY if no offset begins with that byte. */
static uint32_t offset(struct exprs *x, uint32_t hhmm, uint8_t byte)
{
    enum { DAY = 24 * 60 };
    uint32_t east = (hhmm / 100 * 60 + hhmm % 100 + 1) % DAY; /* offset in minutes east of UTC */
    if ((byte | 32) == 'z') return east == 0 ? EXPR_EPSILON : EXPR_EMPTY;
    if (byte != '+' && byte != '-') return EXPR_EMPTY;
    uint32_t minutes = byte == '+' ? east : (DAY - east) % DAY;
    char text[16];
    int n = snprintf(text, sizeof text, "%02u:%02u", minutes / 60, minutes % 60);
    return expr_bytes(x, text, (size_t)n);
}

uint32_t leap_derive(struct exprs *x, const struct expr *e, uint8_t byte)
{
    /* maximum of each byte; the only value of colons and seconds */
    static const char most[] = "29:59:60";
    uint32_t at = e->a, digit = (uint32_t)(byte - '0');
    bool is_digit = byte >= '0' && byte <= '9';
    if (at < AT_END && (at == 2 || at >= 5))
        return byte == (uint8_t)most[at] ? state(x, at + 1, e->b) : EXPR_EMPTY;
    if (at < AT_END) {
        bool hour_ok = at != 1 || e->b < 2 || digit <= 3;
        return is_digit && byte <= (uint8_t)most[at] && hour_ok
                   ? state(x, at + 1, 10 * e->b + digit)
                   : EXPR_EMPTY;
    }
    if (byte == '.' && at == AT_END) return state(x, AT_POINT, e->b);
    if (is_digit && at != AT_END) return state(x, AT_FRACTION, e->b);
    return at == AT_POINT ? EXPR_EMPTY : offset(x, e->b, byte);
}
