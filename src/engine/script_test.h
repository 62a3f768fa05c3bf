/* script_test.h - a constraint that follows a script. The allowed tokens derive from a hash of the
 * accepted tokens. Therefore a mask of another state is detected as a wrong token. A mask allows
 * all tokens, some, two, one, or only the last token. constraint.h defines the threads of a
 * constraint's functions. */
#ifndef QUOTH_ENGINE_SCRIPT_TEST_H
#define QUOTH_ENGINE_SCRIPT_TEST_H

#include "fake_test.h"

/* Data shared by several constraints, as sequences share a grammar. */
struct script_shared {
    _Atomic int n_inside; /* number of calls of mask in progress */
    _Atomic int64_t n_mask;
    const char *_Atomic wrong; /* error; NULL if none */
    bool slow;                 /* true: some masks need more work than a step's maximum */
    _Atomic int64_t n_late;
};

/* Open a script in its first state. `shared` is data shared with other scripts; NULL if none. The
 * mask fails after fail_at accepted tokens; 0: never; -1: immediately. Return NULL if memory is
 * exhausted. */
struct constraint *script_open(uint64_t seed, struct script_shared *shared, int fail_at);

#endif
