/* grammar_in.h - private to grammar: the parts of an open grammar and of a vocabulary. Any thread;
 * a grammar belongs to one thread at a time. */
#ifndef QUOTH_GRAMMAR_IN_H
#define QUOTH_GRAMMAR_IN_H

#include "cfg.h"
#include "grammar.h"
#include "schema.h"
#include "vocab.h"

struct grammar_vocab {
    struct vocab v;
    const struct tokenizer *t; /* borrowed; tokenizer of the vocabulary */
};

enum { MASK_LATE = -1 };

struct grammar {
    bool is_schema;
    union {
        struct schema schema;
        struct cfg cfg;
    };
    struct machine *m;                 /* borrowed: machine of `schema` or `cfg` */
    const struct grammar_vocab *vocab; /* borrowed; NULL if none */
    uint64_t **mask;                   /* masks by state, owned; NULL if not computed */
    size_t cap_mask, n_mask;
    uint32_t late_state; /* state whose mask or token was interrupted last; 0 if none */
    int32_t late_token;  /* interrupted token; MASK_LATE: a mask */
    /* Forced tokens of a state (forced.c). */
    struct forced_span {
        uint32_t first; /* index of the first token in forced_token */
        int32_t n;      /* number of tokens; -1: not computed */
    } * forced;         /* owned [cap_forced]; spans by state */
    size_t cap_forced;
    struct ids forced_token; /* owned; forced tokens of all states */
};

#endif
