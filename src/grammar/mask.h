/* mask.h - private to grammar: the tokens that may follow. See vocab.h for the division of tokens.
 * Any thread; a grammar belongs to one thread at a time. */
#ifndef QUOTH_GRAMMAR_MASK_H
#define QUOTH_GRAMMAR_MASK_H

#include "machine.h"
#include "vocab.h"

/* Set the bits of the tokens that may continue a text in state `config`; mask [v->n_word] is
 * overwritten. The caller adds the end of the text (machine_accepts). Return false after a failure
 * (m->x.failed), or if the work was interrupted (m->late). The mask is then incomplete. */
bool mask_fill(struct machine *m, const struct vocab *v, uint32_t config, uint64_t *mask);

/* Return the config after a token's bytes; CONFIG_DEAD if the token is not allowed. */
uint32_t mask_accept(struct machine *m, const struct vocab *v, uint32_t config, int32_t token);

#endif
