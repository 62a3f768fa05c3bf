/* grammar_in.h - private to grammar: the parts of an open grammar and of a vocabulary. */
#ifndef QUOTH_GRAMMAR_IN_H
#define QUOTH_GRAMMAR_IN_H

#include "cfg.h"
#include "grammar.h"
#include "schema.h"
#include "vocab.h"

struct grammar_vocab {
    struct vocab v;
    const struct tokenizer *t; /* borrowed */
};

struct grammar {
    bool is_schema;
    union {
        struct schema schema;
        struct cfg cfg;
    };
    struct machine *m; /* of either */
    const struct grammar_vocab *vocab;
    uint64_t **mask; /* owned: by state, NULL if not computed */
    size_t cap_mask, n_mask;
    /* forced tokens (forced.c) */
    struct forced_span {
        uint32_t first; /* in forced_token */
        int32_t n;      /* -1: not computed */
    } * forced;         /* owned [cap_forced] by state */
    size_t cap_forced;
    struct ids forced_token; /* owned: of all states */
};

#endif
