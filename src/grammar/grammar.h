/* grammar.h - structured output: the texts that a constraint allows, and the tokens that may
 * follow.
 *
 *   JSON Schema, regular expression, GBNF, Lark, structural tag, choice --grammar_open--> grammar
 *   grammar --grammar_begin--> state --grammar_accept--> state ...
 *                              state --grammar_mask----> a bit for each token
 *
 * A state is a number. A fork of a sequence copies the number, and a rollback uses an older number.
 * A grammar caches computed states and masks for its next caller.
 *
 * A grammar is enforced exactly, or grammar_open rejects it with the place of the problem. Every
 * state except GRAMMAR_DEAD can be completed to a text.
 *
 * A sequence repeats these steps: mask, pick, grammar_accept_token. The sequence keeps the states
 * of tokens that a rollback may remove. A grammar has no data per sequence, so that any number of
 * sequences and requests can share a grammar with its states and masks. All masks are dropped if
 * they exceed 32 MiB.
 *
 * Threads: a grammar belongs to one thread at a time, because every call except grammar_ends may
 * write its caches. Different grammars are independent. A grammar_vocab is
 * immutable and may be shared. */
#ifndef QUOTH_GRAMMAR_H
#define QUOTH_GRAMMAR_H

#include "base/err.h"
#include "token/token.h"

struct grammar;
struct grammar_vocab;

enum { GRAMMAR_DEAD = 0 };

enum grammar_kind {
    GRAMMAR_SCHEMA, /* JSON Schema */
    GRAMMAR_OBJECT, /* any JSON object; the text is ignored */
    GRAMMAR_REGEX,  /* regular expression of the whole text */
    GRAMMAR_GBNF,   /* llama.cpp's GBNF, from the rule `root` */
    GRAMMAR_CHOICE, /* JSON list of strings */
    GRAMMAR_LARK,   /* Lark grammar, from the rule `start` */
    GRAMMAR_TAG,    /* structural tag in JSON */
};

/* Read the file that a Lark grammar imports (%import .a.b.NAME: "a/b.lark") into *text, which the
 * grammar frees. *text remains NULL if the file does not exist. An ERR_* code fails
 * grammar_open. */
typedef int grammar_import_fn(const void *arg, const char *path, char **text, size_t *n,
                              struct err *e);

/* Limits of one grammar; 0: the default of GRAMMAR_LIMITS. The compilation or the run
 * (grammar_failure) fails with ERR_LIMIT and the limit's name if a limit is exceeded. It fails with
 * ERR_BUSY if the flag of base/cancel.h is set. */
struct grammar_limits {
    size_t text_max;  /* maximum bytes of the constraint */
    size_t bytes_max; /* maximum bytes of the grammar, without its cached masks */
    size_t state_max; /* maximum number of states of its automata */
    /* maximum processor time of this thread for the compilation, microseconds */
    int64_t us_max;
    /* maximum number of steps of work for each later mask, token or text, about 60 million per
     * second. The work ends with a failure if it exceeds the maximum by a sixteenth. */
    int64_t work_max;
    /* Callback for the size of the grammar in bytes, without its cached masks. The callback is
     * called regularly. The grammar fails with ERR_BUSY if `grow` returns false. NULL: no
     * callback. */
    bool (*grow)(void *arg, size_t n_byte);
    void *grow_arg; /* borrowed until grammar_close: argument of grow */
};

/* Options of a grammar. Pointers are borrowed for grammar_open, except vocab. */
struct grammar_options {
    /* true: JSON members in any order; false: in the order of `properties`, then other members */
    bool any_order;
    bool no_white_space; /* true: JSON without white space between tokens */
    /* borrowed; expression of the whole white space at each place between two tokens of JSON. Only
     * blanks, tabs and ends of lines are generated. NULL: the usual white space */
    const char *white_space;
    bool no_additional; /* true: additionalProperties is false if it is absent */
    /* true: JSON must have its usual spelling if a value has one. Integers are written without a
     * decimal point. Numbers have at most 19 + 17 digits. Names and constant strings contain no
     * unnecessary escapes. */
    bool plain;
    struct grammar_limits limits;
    /* vocabulary for masks and for token names in grammars, borrowed until grammar_close; NULL:
     * neither is available */
    const struct grammar_vocab *vocab;
    const char *start; /* Lark: name of the start rule; NULL: `start`, or the first rule */
    /* Lark: function that reads imports; NULL: only imports of Lark's own library */
    grammar_import_fn *import;
    const void *import_arg; /* argument of import */
};

/* Compile n bytes of a constraint, which are borrowed for the call. The caller owns *out, which is
 * NULL after an error. Return ERR_FORMAT if the constraint is malformed or no text matches. Return
 * ERR_UNSUPPORTED for a constraint that cannot be enforced exactly, ERR_LIMIT beyond a limit,
 * ERR_BUSY if `grow` returned false or the client disconnected, ERR_MEMORY. The error contains the
 * place (JSON pointer, byte, line). */
int grammar_open(struct grammar **out, enum grammar_kind kind, const char *text, size_t n,
                 const struct grammar_options *o, struct err *e);
void grammar_close(struct grammar *g); /* free g; NULL is allowed */

/* Return the state before the first byte, or GRAMMAR_DEAD after a failure. */
uint32_t grammar_begin(struct grammar *g);
/* Return the state after n bytes, or GRAMMAR_DEAD. Set *n_used, which may be NULL, to the number of
 * first bytes that are the beginning of a text of the grammar. */
uint32_t grammar_accept(struct grammar *g, uint32_t state, const char *text, size_t n,
                        size_t *n_used);
/* Return the state after a token, or GRAMMAR_DEAD if the token must not follow. */
uint32_t grammar_accept_token(struct grammar *g, uint32_t state, int32_t token);
/* Return true if the mask of the state is cached and contains the token. */
bool grammar_allows(const struct grammar *g, uint32_t state, int32_t token);
/* Return true if the text may end in this state. */
bool grammar_ends(const struct grammar *g, uint32_t state);
/* Set the bits of tokens that may follow; mask [(n_vocab + 63) / 64]. Tokens without bytes (special
 * tokens) are set only if a rule names them. Use grammar_ends for the end of the text. */
bool grammar_mask(struct grammar *g, uint32_t state, uint64_t *mask);
enum grammar_made { GRAMMAR_FAILED, GRAMMAR_MADE, GRAMMAR_LATER };
/* Fill the mask as grammar_mask does, in at most about n_work steps of work (0: only a cached
 * mask). Return GRAMMAR_LATER if n_work steps do not suffice. The mask is then undefined. Another
 * call needs fewer steps, because computed states are cached. A mask does not depend on n_work. */
enum grammar_made grammar_mask_within(struct grammar *g, uint32_t state, uint64_t *mask,
                                      int64_t n_work);
/* Set *next to the result of grammar_accept_token, in at most about n_work steps (0: only with
 * cached transitions), like grammar_mask_within. A single transition is not interrupted.
 * GRAMMAR_FAILED if the token may not follow, or after a failure. */
enum grammar_made grammar_accept_within(struct grammar *g, uint32_t state, int32_t token,
                                        int64_t n_work, uint32_t *next);
/* Return the number of steps of work since g was opened. */
int64_t grammar_work(const struct grammar *g);

/* ---- limits that do not depend on cached states ----
 *
 * Cached states make masks and tokens cheaper, but a limit must end a text at the same token for
 * every content of the caches. The result for the next mask of a text is that of a new grammar that
 * has accepted only the tokens of the text. The functions of this section compare other grammars of
 * the same constraint with the new grammar. "The last piece" is the last mask or token that was not
 * cached. */

/* Return true if the last piece needed more than work_max. The piece would also exceed work_max in
 * a new grammar, which has fewer cached states. */
bool grammar_exceeds(struct grammar *g);
/* Return true if the last piece and all states since grammar_forget needed more than 15/16 of
 * work_max. The piece might need more than work_max in a new grammar if the result is true. */
bool grammar_spent(struct grammar *g);
bool grammar_full(const struct grammar *g); /* return true if g has more than bytes_max bytes */
void grammar_forget(struct grammar *g); /* do not count the states made so far in grammar_spent */
/* Fail g as if the last piece had reached its limit of work. */
void grammar_fail(struct grammar *g);

/* Append the bytes that must follow, at most 512. Return the state after these bytes. A token that
 * a rule names ends the span. */
uint32_t grammar_forced(struct grammar *g, uint32_t state, struct buf *out);
/* Get the tokens of the forced span at `state`, up to the first token that later text could change.
 * The tokens are cached by state. *token is borrowed until the next call. Return the number of
 * tokens, ERR_MEMORY, or an error of grammar_failure. */
int grammar_forced_tokens(struct grammar *g, uint32_t state, const int32_t **token, struct err *e);
/* Compute the result of grammar_forced_tokens in at most about n_work steps, like
 * grammar_mask_within. */
enum grammar_made grammar_forced_within(struct grammar *g, uint32_t state, int64_t n_work);
/* Return 0, or the reason of a failure: ERR_LIMIT beyond a limit, ERR_BUSY if `grow` returned false
 * or the client disconnected, ERR_MEMORY. The states of a failed grammar must not be used. */
int grammar_failure(const struct grammar *g, struct err *e);
size_t grammar_bytes(const struct grammar *g); /* return the number of bytes that g holds */
/* Return true if g failed, or used more than half of its memory, states, configs, stack cells or
 * work (grammar_spent). A new text should use a new grammar if the result is true. */
bool grammar_worn(struct grammar *g);

/* Open a vocabulary for masks from the tokens of t, which is borrowed. NULL if memory is
 * exhausted. */
struct grammar_vocab *grammar_vocab_open(const struct tokenizer *t);
void grammar_vocab_close(struct grammar_vocab *v); /* free v; NULL is allowed */

#endif
