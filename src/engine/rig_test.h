/* rig_test.h - what engine tests open: a golden model and an engine over it, to be stepped by hand. */
#ifndef QUOTH_ENGINE_RIG_TEST_H
#define QUOTH_ENGINE_RIG_TEST_H

#include "engine_impl.h"

struct rig {
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
    struct engine *en;
    struct buf ids; /* i32: the model's tokens.i32 */
};

struct rig_options {
    const char *model; /* its folder in tests/golden */
    int n_thread;
    struct model_options m;  /* without a backend                                          */
    struct engine_options e; /* without an executor; copy_rate is that of the executor      */
    double copy_rate;        /* 0: preempted sequences compute again; 1e12: they are copied */
};

/* On failure close it too. */
int golden_open(struct rig *r, const struct rig_options *o, struct err *e);
void golden_close(struct rig *r);

#endif
