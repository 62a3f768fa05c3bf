/* mask.h - private to grammar: the tokens that may follow. See vocab.h for the division of tokens.
 * Any thread; a grammar belongs to one thread at a time. */
#ifndef QUOTH_GRAMMAR_MASK_H
#define QUOTH_GRAMMAR_MASK_H

#include "machine.h"
#include "vocab.h"

/* Set the bits of the tokens that may continue a text in state `config`; mask [v->n_word] is
 * overwritten. The caller adds the end of the text (machine_accepts). Return false after a failure
 * (m->x.failed), or if the work was interrupted (m->late). The mask is then incomplete. */
bool mask_fill(struct machine *m, const struct vocab *v, uint32_t config, uint64_t *mask);

/* Return the config after a token's bytes; CONFIG_DEAD if the token is not allowed. The result is
 * not known if the work was interrupted (m->late). */
uint32_t mask_accept(struct machine *m, const struct vocab *v, uint32_t config, int32_t token);

/* ---- private to mask*.c ---- */

/* Ranges of lead bytes and of their second bytes, before n more continuation bytes. UTF-8 restricts
 * the second byte after E0, ED, F0 and F4. */
enum { N_LEAD = 8 };
extern const struct lead_bytes {
    uint8_t lo, hi, second_lo, second_hi, n;
} mask_lead[N_LEAD];

/* Return true if any plain characters may follow in a thread. */
bool mask_has_plain(struct machine *m, struct thread t);

/* State of a JSON string: a STRING of repetitions of any character and at most one pattern. */
struct text_shape {
    uint32_t string;   /* the STRING */
    uint32_t pattern;  /* EXPR_EMPTY if none */
    uint32_t min, max; /* limits of the number of characters; max may be EXPR_INF */
};
/* Set *out to the shape of e. Return false for states without a shape. */
bool mask_shape(const struct machine *m, uint32_t e, struct text_shape *out);

enum { CHAIN_MAX = 64 }; /* characters in a row; the longest class of vocab.h begins at 17 */
struct room {
    int n_char; /* number of arbitrary plain characters that may follow */
    int need;   /* maximum number of bytes that complete the text after each of these characters */
    bool ends;  /* true: the text may end before and after each of these characters */
    /* true: the string has a maximum length */
    bool limited;
};
/* Set *out for a state of a string. Return false for a pattern with a minimum length, or after a
 * failure. */
bool mask_room(struct machine *m, const struct text_shape *s, struct room *out);

/* Return an expression with the same beginnings of at most n_char characters, in which counts above
 * n_char have no maximum. EXPR_EMPTY if e has operators other than bytes, concatenations,
 * alternations and repetitions, or after a failure. n_char must be the same in all calls with one
 * range. */
uint32_t mask_clamp(struct machine *m, uint32_t e, enum clamp_range range, uint32_t n_char);
/* Return an upper bound of the bytes that complete a beginning of a text of e, for every beginning.
 * e is a result of mask_clamp. */
uint32_t mask_peak(struct machine *m, uint32_t e);

#endif
