/* constraint.h - restricts the next token of a sequence: a grammar's state, or a test's script.
 *
 * A request owns a constraint in its first state. Each of its sequences has a fork of it, made on
 * the client's thread at submission: a step allocates nothing.
 *
 *     mask --a token is picked--> accept --forced: no alternative--> accept ... --> mask
 *        ^--- rollback: undo tokens of a draft, which were accepted to fill the masks after them
 *
 * What it allows depends on its state only. So a sequence's tokens do not depend on other sequences
 * or on the number of tokens per step. The end of the text is a stop token that the mask allows.
 *
 * Forced tokens: where the text has no alternative, a constraint may choose its spelling, so that one
 * token is left. The mask before it then allows that token alone, whether or not the engine calls
 * `forced`. So an engine that takes forced tokens without running the model, and one that does not
 * (no_jump_forward), give the same tokens. */
#ifndef QUOTH_ENGINE_CONSTRAINT_H
#define QUOTH_ENGINE_CONSTRAINT_H

#include <stdbool.h>
#include <stdint.h>

struct constraint;

enum constraint_made { CONSTRAINT_LATER, CONSTRAINT_MADE, CONSTRAINT_FAILED };
/* work that a step does for one mask: about a millisecond */
enum { CONSTRAINT_STEP_WORK = 60000 };

/* mask, mask_within, accept and rollback run on any worker of the pool or on the thread of deferred.c,
 * one call at a time for all constraints with equal `shared`. fork and close run on any thread,
 * concurrently with the rest. follow and forced run on the engine's thread. */
struct constraint_ops {
    /* Return a new constraint in the same state; NULL if there is no memory. */
    struct constraint *(*fork)(const struct constraint *c);
    void (*close)(struct constraint *c);
    /* Take the state of `from`, a fork of the same request's constraint. Cannot fail. */
    void (*follow)(struct constraint *c, const struct constraint *from);
    /* Set the bits of the tokens that may come next, mask u32 [ceil(n_vocab / 32)], overwritten.
     * false: it failed, which ends the sequence. */
    bool (*mask)(struct constraint *c, uint32_t *mask);
    /* Do what mask does if about n_work units of work suffice. LATER: they do not; the mask is
     * undefined, and another call needs less. The mask does not depend on n_work. NULL: mask is
     * quick. */
    enum constraint_made (*mask_within)(struct constraint *c, uint32_t *mask, int64_t n_work);
    /* Advance by the token. Returns false, without a change, if the token is not allowed or the
     * constraint failed. */
    bool (*accept)(struct constraint *c, int32_t token);
    /* Undo the last n accepted tokens, n <= CONSTRAINT_BACK_MAX. Cannot fail. */
    void (*rollback)(struct constraint *c, int n);
    /* Get up to n tokens that must come next, without accepting them: the mask before each allows
     * it alone. Returns how many (0: none, or none found). NULL: it never finds any. */
    int (*forced)(struct constraint *c, int32_t *token, int n);
};
enum { CONSTRAINT_BACK_MAX = 32 };

struct constraint {
    const struct constraint_ops *op;
    /* data shared by several constraints, used by one thread at a time; NULL: none */
    const void *shared;
    int64_t n_byte; /* bytes that it holds */
    /* Set by the engine before the first mask: the request forbids some tokens whatever their
     * logits, so no spelling may be chosen for it. */
    bool any_spelling;
};

#endif
