/* rig_test.c - goal: one way of opening models in engine tests (rig_test.h). */
#include "rig_test.h"

#include "../../tests/unit.h"
#include "base/os.h"
#include "base/rng.h"

static const char *golden(const char *model, const char *file)
{
    char path[96];
    snprintf(path, sizeof path, "tests/golden/%s/%s", model, file);
    return repo_path(path);
}

const char *const golden_models[N_GOLDEN] = {"llama3", "llama-untied", "mistral",
                                             "qwen2",  "qwen3",        "smollm3"};

/* ---- a clock that jumps ---- */

/* Return the length of a jump. A few readings in a hundred jump; most jumps are short, few are
 * seconds long. */
static int64_t jump_us(struct jumpy *c)
{
    if (rng_below(&c->rng, 40) > 0) return 0;
    return (int64_t)rng_below(&c->rng, 1000u << rng_below(&c->rng, 12));
}

static int64_t jumpy_now(void *ctx)
{
    struct jumpy *c = ctx;
    c->now_us += (int64_t)rng_below(&c->rng, 3) + jump_us(c);
    return c->now_us;
}

static struct model_out jumpy_forward(void *ctx, const struct batch *b)
{
    struct jumpy *c = ctx;
    if (rng_below(&c->rng, 200) == 0) c->pace = 0.01 * (double)(1 << rng_below(&c->rng, 14));
    c->now_us += (int64_t)(c->pace * (400 + 100 * b->n_row));
    return c->model.forward(c->model.ctx, b);
}

static void jumpy_head(void *ctx, enum head h, const float *x, float *y)
{
    struct jumpy *c = ctx;
    c->model.head(c->model.ctx, h, x, y);
}

static void set_clock(struct jumpy *c, struct executor *x, uint64_t seed)
{
    *c = (struct jumpy){.rng = seed, .now_us = 1000000, .pace = 1, .model = *x};
    x->ctx = c;
    x->forward = jumpy_forward;
    x->head = jumpy_head;
    x->now_us = jumpy_now;
}

/* ---- a golden model ---- */

/* Open a model of random Q8_0 weights. */
static int open_dummy(struct rig *r, const char *folder, struct err *e)
{
    struct backend *b = NULL;
    int rc = backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, e);
    const struct dummy_options o = {.model = folder,
                                    .quant = "Q8_0",
                                    .seed = 1,
                                    .tensors = model_list_random,
                                    .tensors_ctx = b};
    if (rc == 0) rc = checkpoint_open_dummy(&r->c, &o, e);
    backend_close(b);
    return rc;
}

int golden_open(struct rig *r, const struct rig_options *o, struct err *e)
{
    *r = (struct rig){0};
    const char *gguf = golden(o->model, "model.gguf");
    int rc = o->dummy ? open_dummy(r, o->dummy, e)
                      : checkpoint_open(&r->c, gguf ? gguf : golden(o->model, ""), e);
    struct backend_options bo = {.n_thread = o->n_thread,
                                 .cpu_level = o->level,
                                 .act = o->dummy ? ACT_CHOICE_INT8 : ACT_CHOICE_F32};
    if (rc == 0) rc = test_backend(&r->b, o->wrap, &bo, e);
    struct model_options mo = o->m;
    mo.backend = r->b;
    if (rc == 0) rc = model_open(&r->m, r->c, &mo, e);
    if (rc == 0) rc = file_read(&r->ids, golden(o->model, "tokens.i32"), 1 << 20, e);
    if (rc != 0) return rc;
    struct engine_options eo = o->e;
    eo.executor = executor_of_model(r->m);
    eo.executor.copy_rate = o->copy_rate;
    if (o->clock_seed) set_clock(&r->clock, &eo.executor, o->clock_seed);
    eo.check = true;
    return engine_open(&r->en, &eo, e);
}

void golden_close(struct rig *r)
{
    engine_close(r->en);
    model_close(r->m);
    backend_close(r->b);
    checkpoint_close(r->c);
    buf_deinit(&r->ids);
}

/* ---- an executor without a model ---- */

static struct model_out slow_forward(void *ctx, const struct batch *b)
{
    struct slow *s = ctx;
    s->now_us += SLOW_STEP_US + (int64_t)SLOW_ROW_US * b->n_row;
    return (struct model_out){.logits = s->logits};
}

static int64_t slow_now(void *ctx)
{
    return ((struct slow *)ctx)->now_us;
}

int slow_open_how(struct slow_rig *r, int n_page, int n_row, int n_seq,
                  const struct engine_options *how, struct err *e)
{
    memset(r, 0, sizeof *r);
    r->slow.limits = (struct batch_limits){
        .n_row = n_row, .n_seq = n_seq, .n_out = n_seq, .page_stride = 64, .n_copy = n_seq};
    r->slow.now_us = 1000000;
    for (int i = 0; i < 64 * SLOW_VOCAB; i++) r->slow.logits[i] = i % SLOW_VOCAB == 3;
    struct executor x = {.ctx = &r->slow,
                         .n_vocab = SLOW_VOCAB,
                         .n_page = n_page,
                         .page_rows = 16,
                         .context_max = 1000,
                         .limits = &r->slow.limits,
                         .name = "slow \"quoted\" \\ model",
                         .kv_type = "float32",
                         .cost = {.row_macs = 100,
                                  .output_macs = 10,
                                  .pair_macs = 1,
                                  .layer_bytes = 1000,
                                  .head_bytes = 100,
                                  .kv_row_bytes = 8},
                         .forward = slow_forward,
                         .now_us = slow_now};
    struct engine_options eo = *how;
    eo.executor = x;
    eo.queue_max = how->queue_max ? how->queue_max : 8;
    eo.check = true;
    return engine_open(&r->engine, &eo, e);
}

int slow_open_traced(struct slow_rig *r, int n_page, int n_row, int n_seq, const char *trace,
                     struct err *e)
{
    return slow_open_how(r, n_page, n_row, n_seq, &(struct engine_options){.trace_path = trace}, e);
}

int slow_open(struct slow_rig *r, int n_page, int n_row, int n_seq, struct err *e)
{
    return slow_open_traced(r, n_page, n_row, n_seq, NULL, e);
}

void slow_close(struct slow_rig *r)
{
    engine_close(r->engine);
    for (int i = 0; i < 40; i++) queue_close(r->queue[i]);
}

struct request *slow_request(struct slow_rig *r, int i, int n_prompt, int n_output, struct err *e)
{
    struct request *q = request_open(e);
    if (!q) return NULL;
    for (int k = 0; k < n_prompt; k++) (void)!vec_push(&q->prompt, (k * 5 + i) % SLOW_VOCAB);
    q->max_tokens = n_output;
    q->params.temperature = 0;
    q->params.ignore_eos = true;
    snprintf(q->name, sizeof q->name, "name-%d", i);
    q->reply = r->queue[i] ? r->queue[i] : (r->queue[i] = engine_reply_queue());
    return q;
}

int slow_submit(struct slow_rig *r, int i, int n_prompt, int n_output, struct err *e)
{
    struct request *q = slow_request(r, i, n_prompt, n_output, e);
    int rc = q ? engine_submit(r->engine, q, e) : ERR_MEMORY;
    if (rc != 0) request_close(q);
    return rc;
}

void slow_run(struct slow_rig *r)
{
    while (engine_step(r->engine)) {
    }
    stats_read(engine_stats(r->engine), &r->view);
}
