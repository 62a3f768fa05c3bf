/* grammar.h - structured output: which texts a constraint allows, and which tokens may come next.
 *
 *   JSON Schema, regular expression, GBNF, Lark, structural tag, choice --grammar_open--> grammar --grammar_begin--> state --grammar_accept--> state ...
 *                                                                              state --grammar_mask--> a bit for each token
 *
 * A state is a number that a grammar hands out: to fork a sequence is to copy it, to roll back is to go on with an older one. A
 * grammar caches computed states and masks for its next caller.
 *
 * A grammar is kept exactly or refused by grammar_open: what no automaton can decide is an error that names its place. No state leads
 * into a dead end: if a state is not GRAMMAR_DEAD, some text completes it.
 *
 * For a sequence: mask, pick, grammar_accept_token, and keep the states of tokens that may be taken back. Nothing is counted per sequence,
 * so any number of sequences and requests share one grammar, its states and its masks (64 MiB of them; others are made anew).
 *
 * Threads: a grammar belongs to one thread at a time, because every call but grammar_ends may write what it keeps; different grammars
 * are independent (grammar_masks fills theirs on a pool). A grammar_vocab is immutable and may be shared. */
#ifndef QUOTH_GRAMMAR_H
#define QUOTH_GRAMMAR_H

#include "base/err.h"
#include "token/token.h"

struct grammar;
struct grammar_vocab;

enum { GRAMMAR_DEAD = 0 };

enum grammar_kind {
    GRAMMAR_SCHEMA, /* text: a JSON Schema                          */
    GRAMMAR_OBJECT, /* any JSON object; text is ignored             */
    GRAMMAR_REGEX,  /* text: a regular expression for the whole     */
    GRAMMAR_GBNF,   /* text: llama.cpp's GBNF, from the rule `root` */
    GRAMMAR_CHOICE, /* text: a JSON list of strings                 */
    GRAMMAR_LARK,   /* text: a Lark grammar, from the rule `start`          */
    GRAMMAR_TAG,    /* text: a structural tag, JSON                         */
};

/* Read the file that a Lark grammar imports (%import .a.b.NAME: "a/b.lark") into *text, allocated; *text stays NULL: it is not there. */
typedef int grammar_import_fn(const void *arg, const char *path, char **text, size_t *n,
                              struct err *e);

/* What one grammar may cost; 0: as GRAMMAR_LIMITS says. Compiling is refused and running fails (grammar_failure) with ERR_LIMIT and a
 * sentence that names the limit; ERR_BUSY if base/cancel.h's flag is set meanwhile. */
struct grammar_limits {
    size_t n_text_max;  /* bytes of the constraint */
    size_t n_byte_max;  /* memory of the grammar, its kept masks aside */
    size_t n_state_max; /* states of its automata */
    int64_t
        us_max; /* this thread's processor time: to compile, and for each mask or text after that */
};

struct grammar_options {
    bool any_order; /* JSON members in any order; else as `properties` lists them, others after */
    bool no_white_space; /* JSON without white space between tokens */
    bool no_additional;  /* additionalProperties is false if it is absent */
    bool
        plain_numbers; /* JSON numbers as people write them, where there is a choice: integers without a point, at most 19 + 17 digits */
    struct grammar_limits limits;
    const struct grammar_vocab
        *vocab;        /* borrowed; for token names in grammars, and for masks; NULL: neither */
    const char *start; /* Lark: the rule to start from; NULL: `start`, or the first one */
    grammar_import_fn *import; /* Lark: NULL: only its own library can be imported */
    const void *import_arg;
};

/* Compile n bytes of a constraint. ERR_FORMAT: malformed, or no text matches; ERR_UNSUPPORTED: cannot be kept exactly;
 * ERR_LIMIT; ERR_MEMORY. The error names the place (JSON pointer, byte, line). */
int grammar_open(struct grammar **out, enum grammar_kind kind, const char *text, size_t n,
                 const struct grammar_options *o, struct err *e);
void grammar_close(struct grammar *g); /* NULL is fine */

uint32_t grammar_begin(struct grammar *g);
/* The state after n bytes, or GRAMMAR_DEAD; *n_used (may be NULL) is how many bytes some text of the grammar begins with. */
uint32_t grammar_accept(struct grammar *g, uint32_t state, const char *text, size_t n,
                        size_t *n_used);
uint32_t grammar_accept_token(struct grammar *g, uint32_t state, int32_t token);
bool grammar_ends(const struct grammar *g, uint32_t state); /* may the text end here? */
/* Set the bits of tokens that may come next; mask [(n_vocab + 63) / 64]. Tokens without bytes (special ones) are set only where a rule names
 * them; the end of the text is grammar_ends. */
bool grammar_mask(struct grammar *g, uint32_t state, uint64_t *mask);
/* Fill the masks of n sequences, in parallel over their grammars (those of one grammar one after another); pool may be NULL. The caller
 * owns all the grammars; unlike other work of the pool this may allocate. job.ok: as grammar_mask returns. */
struct pool;
struct grammar_job {
    struct grammar *g;
    uint32_t state;
    uint64_t *mask; /* [(n_vocab + 63) / 64] */
    bool ok;
};
void grammar_masks(struct grammar_job *job, int n, struct pool *pool);

/* Append the bytes that must come next, up to 512 of them; returns the state behind them. A token that a rule names ends the span. */
uint32_t grammar_forced(struct grammar *g, uint32_t state, struct buf *out);
/* Append the tokens that the tokenizer makes of the forced span, up to the first that later text could still change: to take them all
 * without asking a model gives the tokens that asking it would give, if it is held to them. ERR_MEMORY. */
int grammar_forced_tokens(struct grammar *g, uint32_t state, struct ids *out, struct err *e);
/* 0, or what stopped the grammar since it was opened (ERR_LIMIT, ERR_MEMORY): its states are no longer to be used. */
int grammar_failure(const struct grammar *g, struct err *e);
size_t grammar_bytes(const struct grammar *g); /* memory that it holds now */

/* The tokens of a tokenizer, ordered for masks. NULL: no memory. The tokenizer is borrowed. */
struct grammar_vocab *grammar_vocab_open(const struct tokenizer *t);
void grammar_vocab_close(struct grammar_vocab *v); /* NULL is fine */

#endif
