/* constraint.h - an object that restricts the next token of a sequence: a grammar's state, or a
 * test's script.
 *
 * A request owns a constraint in its first state. Each sequence of the request has two forks of the
 * constraint: its state, and a fork for deferred masks (deferred.c). The client's thread makes the
 * forks at submission. A step allocates nothing, except in a grammar's caches.
 *
 *     mask --a token is picked--> accept --forced: no alternative--> accept ... --> mask
 *        ^--- rollback: undo tokens of a draft, which were accepted to fill the masks after them
 *
 * The allowed tokens depend on the constraint's state only. Therefore a sequence's tokens do not
 * depend on other sequences or on the number of tokens per step. A stop token that the mask allows
 * ends the text.
 *
 * A constraint may choose the spelling of a text without an alternative, so that only one token is
 * allowed: a forced token. The mask before a forced token allows that token alone, even if the
 * engine does not call `forced`. Therefore the tokens are the same if the engine runs the model for
 * forced tokens (no_jump_forward). */
#ifndef QUOTH_ENGINE_CONSTRAINT_H
#define QUOTH_ENGINE_CONSTRAINT_H

#include <stdbool.h>
#include <stdint.h>

struct constraint;

enum constraint_made { CONSTRAINT_LATER, CONSTRAINT_MADE, CONSTRAINT_FAILED };
/* maximum work of a step for one mask: 1.0 ms, at 17 ns a unit on an AMD EPYC (constraint.c) */
enum { CONSTRAINT_STEP_WORK = 60000 };

/* mask, mask_within, accept, accept_within and rollback run on any worker of the pool or on the
 * mask thread (deferred.c). Only one call at a time runs for all constraints with equal `shared`.
 * Any thread may call fork and close, concurrently with the other functions. The engine's thread
 * calls follow and forced. */
struct constraint_ops {
    /* Return a new constraint in the state of c; NULL if memory is exhausted. */
    struct constraint *(*fork)(const struct constraint *c);
    void (*close)(struct constraint *c);
    /* Copy the state of `from`, another fork of the request's constraint. Do not copy `text`. The
     * function cannot fail. */
    void (*follow)(struct constraint *c, const struct constraint *from);
    /* Set the bits of the tokens that may come next: mask u32 [ceil(n_vocab / 32)], overwritten.
     * Return false if the constraint failed, which ends the sequence. */
    bool (*mask)(struct constraint *c, uint32_t *mask);
    /* Fill the mask u32 [ceil(n_vocab / 32)] if about n_work units of work suffice. Otherwise
     * return LATER: the mask is undefined, and the next call needs less work. The mask does not
     * depend on n_work. The pointer is NULL if `mask` is always within the work of a step. */
    enum constraint_made (*mask_within)(struct constraint *c, uint32_t *mask, int64_t n_work);
    /* Advance by the token. Return false, without a change, if the token is not allowed or the
     * constraint failed. The next mask may do the work for the new state and fail, if the last mask
     * allows the token or the token is forced. */
    bool (*accept)(struct constraint *c, int32_t token);
    /* Advance by the token if about n_work units of work suffice. Otherwise return LATER, without a
     * change. FAILED: accept would return false. The pointer is NULL if `accept` is always within
     * the work of a step. */
    enum constraint_made (*accept_within)(struct constraint *c, int32_t token, int64_t n_work);
    /* Return true if the constraint failed because memory is exhausted. The pointer is NULL if the
     * constraint never fails for lack of memory. */
    bool (*no_memory)(const struct constraint *c);
    /* Undo the last n accepted tokens, n <= CONSTRAINT_BACK_MAX. The function cannot fail. */
    void (*rollback)(struct constraint *c, int n);
    /* Write up to n tokens that must come next to token i32 [n], without accepting them. The mask
     * before each of these tokens allows only this token. Return the number of tokens; 0 if no
     * forced token was found. The pointer is NULL if the constraint never forces tokens. *n_work is
     * the maximum work, and the function subtracts the work done. */
    int (*forced)(struct constraint *c, int32_t *token, int n, int64_t *n_work);
};
enum {
    CONSTRAINT_BACK_MAX = 32
}; /* maximum of n, not less than the drafts of a step or FORCED (seq.c) */

struct constraint {
    const struct constraint_ops *op; /* static */
    /* data of several constraints, used by one thread at a time; NULL if none. The implementation
     * owns the data; the engine only compares the address. */
    const void *shared;
    int64_t n_byte; /* number of bytes that the constraint holds */
    /* Borrowed: accepted tokens, without the last CONSTRAINT_BACK_MAX tokens. The user of the
     * constraint sets the field, so that the constraint can replay the tokens. NULL: unknown. */
    const int32_t *text;
    /* True: the request forbids some tokens with any logits, so the constraint may choose no
     * spelling. The engine sets the field before the first mask. */
    bool any_spelling;
};

#endif
