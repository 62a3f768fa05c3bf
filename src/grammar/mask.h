/* mask.h - private to grammar: which tokens may come next. See vocab.h for how tokens are divided. */
#ifndef QUOTH_GRAMMAR_MASK_H
#define QUOTH_GRAMMAR_MASK_H

#include "machine.h"
#include "vocab.h"

/* Set the bits of the tokens with which a text in state `config` may go on; mask [v->n_word] is overwritten. The end of the text
 * (machine_accepts) is the caller's to add. false: failed (m->x.failed). */
bool mask_fill(struct machine *m, const struct vocab *v, uint32_t config, uint64_t *mask);

/* The config after a token's bytes; CONFIG_DEAD: the token may not come. */
uint32_t mask_accept(struct machine *m, const struct vocab *v, uint32_t config, int32_t token);

#endif
