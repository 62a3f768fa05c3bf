/* rig_test.h - opens engines that tests step by hand. One rig uses a golden model. The other rig
 * uses an executor without a model, whose steps take a known time on a virtual clock. A golden
 * model may also have a virtual clock, whose jumps follow from a seed. With this clock, the
 * engine's behaviour depends on the seed only, so a failure can be repeated. */
#ifndef QUOTH_ENGINE_RIG_TEST_H
#define QUOTH_ENGINE_RIG_TEST_H

#include "../../tests/door/counting.h"
#include "engine_impl.h"

/* Clock that advances by the cost of a step and its rows, times a pace. The pace changes at random
 * times, from far too fast to far too slow. A few readings in a hundred jump ahead, as if another
 * program used the machine for some time. */
struct jumpy {
    uint64_t rng;
    int64_t now_us;
    double pace;
    struct executor model;
};

struct rig {
    struct jumpy clock;
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
    struct engine *en;
    struct buf ids; /* i32: the model's tokens.i32 */
};

struct rig_options {
    const char *model; /* folder in tests/golden */
    /* folder with a config.json, whose model has random Q8_0 weights, and int8 activations; NULL:
     * the model of `model`, with f32 activations */
    const char *dummy;
    const char *level; /* level of kernels; NULL: the best */
    int n_thread;
    struct model_options m;  /* options of the model, without a backend */
    struct engine_options e; /* options of the engine, without an executor */
    uint64_t clock_seed;     /* seed of a jumpy clock; 0: the machine's clock */
    /* 0: preempted sequences are recomputed; 1e12: preempted sequences are copied */
    double copy_rate;
    enum wrap wrap; /* wrapper of the backend (tests/door/counting.h) */
};

/* Number of folders of tests/golden: a model of each architecture, and a model whose head has
 * separate weights. */
enum { N_GOLDEN = 6 };
extern const char *const golden_models[N_GOLDEN];

/* Open the rig. The caller closes the rig, also after a failure. */
int golden_open(struct rig *r, const struct rig_options *o, struct err *e);
void golden_close(struct rig *r);

/* ---- an executor whose steps take 10 ms and 1 ms for each row; token 3 always has the highest
 * logit ---- */

enum { SLOW_VOCAB = 16, SLOW_STEP_US = 10000, SLOW_ROW_US = 1000 };

struct slow {
    struct batch_limits limits;
    float logits[64 * SLOW_VOCAB];
    _Atomic int64_t now_us; /* time of the clock; client threads read it */
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
/* Open a rig. how: options without an executor. */
int slow_open_how(struct slow_rig *r, int n_page, int n_row, int n_seq,
                  const struct engine_options *how, struct err *e);
void slow_close(struct slow_rig *r);
/* Make greedy request i with the reply queue queue[i], n_prompt tokens that differ from those of
 * other requests, and n_output requested tokens. Do not submit the request. Return NULL if memory
 * is exhausted. */
struct request *slow_request(struct slow_rig *r, int i, int n_prompt, int n_output, struct err *e);
int slow_submit(struct slow_rig *r, int i, int n_prompt, int n_output, struct err *e);
void slow_run(struct slow_rig *r); /* run steps until no group is left; set r->view */

#endif
