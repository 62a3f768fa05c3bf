/* grammar.h - structured output: the texts that a constraint allows, and the tokens that may follow.
 *
 *   JSON Schema, regular expression, GBNF, Lark, structural tag, choice --grammar_open--> grammar
 *   grammar --grammar_begin--> state --grammar_accept--> state ...
 *                              state --grammar_mask----> a bit for each token
 *
 * A state is a number of a grammar: to fork a sequence, copy it; to roll back, use an older one. A
 * grammar caches computed states and masks for its next caller.
 *
 * A grammar is enforced exactly, or grammar_open rejects it with the place of the problem. No state
 * leads into a dead end: if a state is not GRAMMAR_DEAD, some text completes it.
 *
 * For a sequence: mask, pick, grammar_accept_token. Keep the states of tokens that may be rolled
 * back. Nothing is counted per sequence, so any number of sequences and requests share one grammar,
 * its states and its masks (at most 32 MiB of them, then all are dropped).
 *
 * Threads: a grammar belongs to one thread at a time, because every call except grammar_ends may
 * write its caches. Different grammars are independent (grammar_masks fills theirs on a pool). A
 * grammar_vocab is immutable and may be shared. */
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
    GRAMMAR_REGEX,  /* text: a regular expression for the whole text */
    GRAMMAR_GBNF,   /* text: llama.cpp's GBNF, from the rule `root` */
    GRAMMAR_CHOICE, /* text: a JSON list of strings                 */
    GRAMMAR_LARK,   /* text: a Lark grammar, from the rule `start`          */
    GRAMMAR_TAG,    /* text: a structural tag, JSON                         */
};

/* Read the file that a Lark grammar imports (%import .a.b.NAME: "a/b.lark") into *text, allocated.
 * *text stays NULL if the file does not exist. */
typedef int grammar_import_fn(const void *arg, const char *path, char **text, size_t *n,
                              struct err *e);

/* Limits of one grammar; 0: the default of GRAMMAR_LIMITS. Beyond a limit compilation fails, or the
 * run does (grammar_failure), with ERR_LIMIT and the limit's name; with ERR_BUSY if base/cancel.h's
 * flag is set meanwhile. */
struct grammar_limits {
    size_t n_text_max;  /* bytes of the constraint */
    size_t n_byte_max;  /* memory of the grammar, without its cached masks */
    size_t n_state_max; /* states of its automata */
    int64_t us_max;     /* this thread's processor time to compile */
    int64_t
        n_work_max; /* steps of work for each mask or text after that, about 60 million a second */
};

struct grammar_options {
    /* JSON members in any order; else in the order of `properties`, others after them */
    bool any_order;
    bool no_white_space; /* JSON without white space between tokens */
    bool no_additional;  /* additionalProperties is false if it is absent */
    /* JSON in its usual spelling if there is a choice: integers without a point, numbers of at most
     * 19 + 17 digits; names and constant strings without needless escapes */
    bool plain;
    struct grammar_limits limits;
    const struct grammar_vocab
        *vocab; /* borrowed; for token names in grammars, and for masks; NULL: none of these */
    const char *start;         /* Lark: name of the start rule; NULL: `start`, or the first one */
    grammar_import_fn *import; /* Lark: NULL: only its own library can be imported */
    const void *import_arg;
};

/* Compile n bytes of a constraint. Returns ERR_FORMAT if it is malformed or no text matches,
 * ERR_UNSUPPORTED if it cannot be enforced exactly, ERR_LIMIT or ERR_MEMORY. The error names the
 * place (JSON pointer, byte, line). */
int grammar_open(struct grammar **out, enum grammar_kind kind, const char *text, size_t n,
                 const struct grammar_options *o, struct err *e);
void grammar_close(struct grammar *g); /* NULL is fine. */

uint32_t grammar_begin(struct grammar *g);
/* Return the state after n bytes, or GRAMMAR_DEAD. *n_used (may be NULL) is the number of bytes
 * that begin some text of the grammar. */
uint32_t grammar_accept(struct grammar *g, uint32_t state, const char *text, size_t n,
                        size_t *n_used);
uint32_t grammar_accept_token(struct grammar *g, uint32_t state, int32_t token);
/* Return whether the text may end here. */
bool grammar_ends(const struct grammar *g, uint32_t state);
/* Set the bits of tokens that may follow; mask [(n_vocab + 63) / 64]. Tokens without bytes (special
 * ones) are set only if a rule names them. The end of the text is grammar_ends. */
bool grammar_mask(struct grammar *g, uint32_t state, uint64_t *mask);
/* Fill the mask as grammar_mask does, in about n_work steps of work at most (0: only a cached mask).
 * GRAMMAR_LATER: these do not suffice. Then the mask is undefined, and another call needs fewer, because
 * computed states are cached. A mask does not depend on n_work. */
enum grammar_made { GRAMMAR_FAILED, GRAMMAR_MADE, GRAMMAR_LATER };
enum grammar_made grammar_mask_within(struct grammar *g, uint32_t state, uint64_t *mask,
                                      int64_t n_work);
int64_t grammar_work(const struct grammar *g); /* Return the steps of work since it was opened. */
/* Fill the masks of n sequences, in parallel over their grammars and in order within one; pool may
 * be NULL. The caller owns all the grammars. Unlike other work of the pool this may allocate.
 * job.ok: the result of grammar_mask. */
struct pool;
struct grammar_job {
    struct grammar *g;
    uint32_t state;
    uint64_t *mask; /* [(n_vocab + 63) / 64] */
    bool ok;
};
void grammar_masks(struct grammar_job *job, int n, struct pool *pool);

/* Append the bytes that must follow, at most 512; return the state after them. A token that a rule
 * names ends the span. */
uint32_t grammar_forced(struct grammar *g, uint32_t state, struct buf *out);
/* Get the tokens of the forced span that begins at `state`, up to the first that later text could
 * still change, as the tokenizer makes them. They are kept by state. *token is borrowed until the next
 * call. Returns their count, 0 if none, or ERR_MEMORY or ERR_LIMIT. */
int grammar_forced_tokens(struct grammar *g, uint32_t state, const int32_t **token, struct err *e);
/* Compute what grammar_forced_tokens returns, in about n_work steps at most, as grammar_mask_within. */
enum grammar_made grammar_forced_within(struct grammar *g, uint32_t state, int64_t n_work);
/* Return 0, or the failure of the grammar since it was opened (ERR_LIMIT, ERR_MEMORY), after which
 * its states must not be used. */
int grammar_failure(const struct grammar *g, struct err *e);
size_t grammar_bytes(const struct grammar *g); /* Return the memory that it holds. */
/* Return true if it failed, or used more than half of its memory or states: a new text should get a
 * new grammar. */
bool grammar_worn(const struct grammar *g);

/* Order the tokens of a tokenizer, which is borrowed, for masks. NULL if memory is exhausted. */
struct grammar_vocab *grammar_vocab_open(const struct tokenizer *t);
void grammar_vocab_close(struct grammar_vocab *v); /* NULL is fine. */

#endif
