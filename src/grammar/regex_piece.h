/* regex_piece.h - private to grammar: the texts of a part of a regular expression, and their
 * contexts.
 *
 * An assertion (^, $, \b, their multi-line forms) tests the characters before and after a place.
 * Therefore a piece is a list of items. An item is a language with the contexts that may precede
 * and follow it. There are four contexts: the text's edge, a line feed, a word character, any other
 * character. A concatenation of two pieces replaces their conditions on each other by
 * intersections, so that no assertion remains: (^a|b)c\b is one expression. Any thread; the
 * expressions belong to one thread at a time. */
#ifndef QUOTH_GRAMMAR_REGEX_PIECE_H
#define QUOTH_GRAMMAR_REGEX_PIECE_H

#include "expr.h"

enum {
    CTX_EDGE = 1,
    CTX_LINE = 2,
    CTX_WORD = 4,
    CTX_OTHER = 8,
    CTX_ANY = 15,
    N_CONTEXT = 4,
    PIECE_ITEMS_MAX = 48
};

struct regex_piece {
    uint32_t n;
    struct piece_item {
        uint8_t left,
            /* CTX_*: contexts allowed before and after the item. Both fields apply to the same
             * place if the text is empty. */
            right;
        uint32_t e;
    } v[PIECE_ITEMS_MAX];
};

/* Expressions, and the characters of each context. */
struct pieces {
    struct exprs *x; /* borrowed */
    /* characters of each context, by the bit's number, for assertions; of[0] is EXPR_EMPTY */
    uint32_t of[N_CONTEXT];
    bool too_many; /* true after a piece exceeded the maximum of items or states; never cleared */
};

/* Return the texts of e, without a condition on the context. */
struct regex_piece piece_plain(uint32_t e);
/* Return true if a has no condition on its context. */
bool piece_is_plain(const struct regex_piece *a);
/* Return an assertion: the empty text between contexts. */
struct regex_piece piece_between(uint8_t left, uint8_t right);
/* Return the texts of a or b, with their conditions. */
struct regex_piece piece_either(struct pieces *p, const struct regex_piece *a,
                                const struct regex_piece *b);
/* Return the concatenations of texts of a and b whose contexts agree. */
struct regex_piece piece_join(struct pieces *p, const struct regex_piece *a,
                              const struct regex_piece *b);
/* Return the repetition of a, at least min and at most max times. EXPR_INF: no maximum. */
struct regex_piece piece_repeat(struct pieces *p, const struct regex_piece *a, uint32_t min,
                                uint32_t max);
/* Return the texts that a matches from end to end. */
uint32_t piece_whole(struct pieces *p, const struct regex_piece *a);

#endif
