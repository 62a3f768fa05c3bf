/* grammar_in.h - private to grammar: what an opened grammar and a vocabulary are made of. */
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
    uint64_t **mask; /* owned: by state, NULL where none was made */
    size_t cap_mask, n_mask;
};

#endif
