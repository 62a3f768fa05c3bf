/* script_test.h - a constraint that follows a script: the allowed tokens derive from a hash of the
 * accepted tokens, so a mask of another state is detected as a wrong token. It may allow all
 * tokens, some, two, one, or only the last one. */
#ifndef QUOTH_ENGINE_SCRIPT_TEST_H
#define QUOTH_ENGINE_SCRIPT_TEST_H

#include "fake_test.h"

/* Data shared by several constraints, as sequences share a grammar. */
struct script_shared {
    _Atomic int n_inside; /* calls of mask in progress */
    _Atomic int64_t n_mask;
    const char *_Atomic wrong; /* NULL: no error */
    bool slow;                 /* some of its masks need more work than a step's */
    _Atomic int64_t n_late;
};

/* Open a script in its first state. shared NULL: it shares nothing. fail_at: its mask fails once
 * that many tokens are accepted; 0: never; -1: at once. Returns NULL if there is no memory. */
struct constraint *script_open(uint64_t seed, struct script_shared *shared, int fail_at);

#endif
