/* grammar_constraint.h - structured output: a grammar as the constraint of an engine's sequences
 * (engine/constraint.h).
 *
 *   a client's schema, expression ... --grammar_constraint_open--> constraint of a request
 *                                                                  --engine--> a fork per sequence
 *
 * A sequence's state is a number, so a fork is a copy. All forks, and requests with an equal
 * constraint (compiled.h), share the grammar and its cached results. The engine ensures that one
 * thread at a time uses the grammar (constraint.shared).
 *
 * Bytes without an alternative are a forced span. The tokenizer encodes the span to forced tokens,
 * up to the first token that later text could change (grammar_forced_tokens). The mask allows only
 * the forced tokens. Other tokens may spell the rest of the span, so masks are computed for the
 * rest.
 *
 * A token that ends the model's answers ends the text. The mask contains an end token only if the
 * text may end. */
#ifndef QUOTH_SESSION_GRAMMAR_CONSTRAINT_H
#define QUOTH_SESSION_GRAMMAR_CONSTRAINT_H

#include "engine/constraint.h"
#include "grammar/grammar.h"

struct session;

/* Data of a model's tokenizer that all grammars share. The first compilation of a grammar makes
 * this data in a fraction of a second. */
struct constraint_vocab;
/* Prepare the data. t is borrowed and must outlive *out, which the caller owns. n_vocab: size of
 * the model's vocabulary. Return 0 or ERR_MEMORY. The thread that opens the session calls this
 * function. */
int constraint_vocab_open(struct constraint_vocab **out, const struct tokenizer *t, int n_vocab,
                          struct err *e);
/* Free the data, which no constraint may use; NULL is allowed. The thread that closes the session
 * calls this function. */
void constraint_vocab_close(struct constraint_vocab *cv);

/* Compile n bytes of a constraint on the calling thread, within o->limits. The caller owns *out and
 * closes it with op->close. holder: account to which the memory is charged (base/share.h); 0 if
 * none. The function sets o->vocab and o->plain. The compilation ends early if the flag of
 * base/cancel.h is set. Return the errors of grammar_open, or ERR_UNSUPPORTED for a model without
 * end tokens. Any thread. */
int grammar_constraint_open(struct constraint **out, struct constraint_vocab *w, uint64_t holder,
                            enum grammar_kind kind, const char *text, size_t n,
                            const struct grammar_options *o, struct err *e);

#endif
