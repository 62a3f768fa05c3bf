/* held.h - structured output: a grammar as the constraint of an engine's sequences (engine/constraint.h).
 *
 *   a client's schema, expression ... --held_open--> constraint --request--> engine: a fork for each sequence
 *
 * A sequence's state is a number, so a fork is a copy. All forks, and requests with an equal constraint
 * (compiled.h), share the grammar and its cached results. They belong to one thread at a time, which the engine ensures (constraint.shared).
 *
 * Bytes without an alternative are a forced span. It becomes the tokens that the tokenizer makes of
 * it, up to the first that later text could change (grammar_forced_tokens); the mask allows these
 * alone. After them, another spelling of the rest is possible and a mask decides.
 *
 * The end of the text is a token that ends the model's answers: the mask contains these tokens only where
 * the text may end. */
#ifndef QUOTH_SESSION_HELD_H
#define QUOTH_SESSION_HELD_H

#include "engine/constraint.h"
#include "grammar/grammar.h"

struct session;

/* A grammar's data about a model's tokenizer. It is made when the first grammar is compiled, which
 * takes a fraction of a second, and is shared. */
struct words;
int words_open(struct words **out, const struct tokenizer *t, int n_vocab,
               struct err *e);     /* n_vocab: the model's */
void words_close(struct words *w); /* w may be NULL; not while a constraint exists */

/* Compile n bytes of a constraint on the calling thread, within o->limits; ends early when
 * base/cancel.h's flag is set. *out is owned by the caller and closed with op->close. o->vocab and
 * o->plain are set here. Errors: as grammar_open, and ERR_UNSUPPORTED for a model without
 * end tokens. Any thread. */
int held_open(struct constraint **out, struct words *w, enum grammar_kind kind, const char *text,
              size_t n, const struct grammar_options *o, struct err *e);

#endif
