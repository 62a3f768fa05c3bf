/* rig_test.h - what engine tests open: a golden model and an engine over it, to be stepped by hand; or an engine over an
 * executor without a model, whose steps take a known time on a virtual clock. */
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

/* Folders of tests/golden: a model of each architecture, and one whose head has weights of its own. */
enum { N_GOLDEN = 6 };
extern const char *const golden_models[N_GOLDEN];

/* On failure close it too. */
int golden_open(struct rig *r, const struct rig_options *o, struct err *e);
void golden_close(struct rig *r);

/* ---- an executor whose steps take 10 ms and 1 ms for each row; token 3 always wins ---- */

enum { SLOW_VOCAB = 16, SLOW_STEP_US = 10000, SLOW_ROW_US = 1000 };

struct slow {
    struct batch_limits limits;
    float logits[64 * SLOW_VOCAB];
    int64_t now_us;
};

struct slow_rig {
    struct slow slow;
    struct engine *engine;
    struct queue *queue[40];
    struct stats_view view;
};

int slow_open(struct slow_rig *r, int n_page, int n_row, int n_seq, struct err *e);
int slow_open_traced(struct slow_rig *r, int n_page, int n_row, int n_seq, const char *trace,
                     struct err *e);
void slow_close(struct slow_rig *r);
/* Request i: n_prompt tokens of its own, n_output tokens wanted. */
int slow_ask(struct slow_rig *r, int i, int n_prompt, int n_output, struct err *e);
void slow_run(
    struct slow_rig *r); /* until nothing is left; r->view is what the statistics say then */

#endif
