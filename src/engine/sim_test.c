/* sim_test.c - goal: whatever comes, every request gets its own right answer, no page leaks, nobody
 * starves and none is lost. Method: a seeded simulation. The fake model's K and V are the tokens and
 * positions themselves, stored at the slots of the batch; its logits are a hash of the prefix as the
 * page table shows it, so that wrong K and V give a wrong token. Its clock is virtual. Clients arrive
 * at random, with shared prefixes, abort, and read their replies late; pools are tiny. After every step
 * all invariants are checked. QUOTH_LONG=1 runs a million steps. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "engine_impl.h"

#include <stdlib.h>

enum { N_VOCAB = 24, LEN_MAX = 160, N_CLIENT = 14, N_STEM = 4 };

/* ---- the fake model ---- */

struct cell {
    int32_t token, pos;
};

struct fake {
    struct batch_limits limits;
    int n_page, page_rows;
    struct cell *cell; /* [n_page * page_rows] */
    float *logits;     /* [n_out, N_VOCAB]     */
    int64_t now_us;
    int64_t n_row, n_step;
    const char *wrong; /* what a batch should not have held */
};

static uint64_t mix(uint64_t h, int32_t token)
{
    h = (h ^ (uint64_t)(token + 1)) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* A few likely tokens, so that sampling has something to choose from. */
static void logits_of(uint64_t h, float *logits)
{
    for (int i = 0; i < N_VOCAB; i++) logits[i] = -4;
    for (int i = 0; i < 4; i++) logits[(h >> (i * 8)) % N_VOCAB] += 5.0f - (float)i * 0.7f;
}

static void do_copies(struct fake *f, const struct batch *b)
{
    for (int i = 0; i < b->n_copy; i++)
        memcpy(f->cell + b->copy[i].dst * f->page_rows, f->cell + b->copy[i].src * f->page_rows,
               (size_t)f->page_rows * sizeof *f->cell);
}

/* The prefix of sequence s up to pos, as its pages hold it. */
static uint64_t read_prefix(struct fake *f, const struct batch *b, int s, int pos)
{
    uint64_t h = 1;
    for (int p = 0; p <= pos; p++) {
        int32_t page = b->page[s * b->page_stride + p / f->page_rows];
        const struct cell *c = &f->cell[page * f->page_rows + p % f->page_rows];
        if (c->pos != p) f->wrong = "a slot holds another position";
        h = mix(h, c->token);
    }
    return h;
}

static struct model_out fake_forward(void *ctx, const struct batch *b)
{
    struct fake *f = ctx;
    const char *wrong = batch_check(b, N_VOCAB, f->n_page, f->page_rows);
    if (wrong) f->wrong = wrong;
    do_copies(f, b);
    for (int i = 0; i < b->n_row; i++)
        f->cell[b->slot[i]] = (struct cell){b->token[i], b->pos[i]};
    for (int i = 0, s = 0; i < b->n_out; i++) {
        while (b->out_row[i] >= b->row0[s + 1]) s++;
        logits_of(read_prefix(f, b, s, b->pos[b->out_row[i]]), f->logits + i * N_VOCAB);
    }
    f->now_us += 1000 + 100 * b->n_row;
    f->n_row += b->n_row;
    f->n_step++;
    return (struct model_out){.logits = f->logits};
}

static int64_t fake_now(void *ctx)
{
    return ((struct fake *)ctx)->now_us;
}

/* ---- clients ---- */

struct client {
    struct queue *queue;
    uint64_t id;
    bool busy, aborted, slow;
    int32_t want[LEN_MAX];
    int n_want, n_got;
    int64_t submit_us;
};

struct way {
    const char *policy;
    int page_rows, n_page, n_row, n_seq;
    uint64_t seed;
};

struct sim {
    struct way way;
    struct fake fake;
    struct engine *engine;
    struct client client[N_CLIENT];
    int32_t stem[N_STEM][LEN_MAX]; /* prompts begin with a part of one of these */
    uint64_t rng;
    int len_max;
    int64_t n_done, n_aborted, n_cached, wait_us_max;
    bool failed;
};

static int below(struct sim *s, int n)
{
    return (int)rng_below(&s->rng, (uint64_t)n);
}

static void fail(struct sim *s, const char *why)
{
    if (!s->failed)
        test_fail(__FILE__, __LINE__, "%s, %d pages of %d, %d rows, seed %llu, step %lld: %s",
                  s->way.policy, s->way.n_page, s->way.page_rows, s->way.n_row,
                  (unsigned long long)s->way.seed, (long long)s->fake.n_step, why);
    s->failed = true;
}

/* What the request must be answered, computed without an engine. */
static void foretell(const struct request *r, struct client *c)
{
    static const struct sample_vocab vocab = {.n_vocab = N_VOCAB};
    struct sample_work *work;
    struct sampler *sampler;
    struct err e;
    struct pick pick;
    float logits[N_VOCAB];
    uint64_t h = 1;
    int n_prompt = (int)r->prompt.n;
    c->n_want = 0;
    NEED_OK(sample_work_open(&work, N_VOCAB, "ref", &e), &e);
    NEED_OK(sampler_open(&sampler, &r->params, &vocab, 0, LEN_MAX, &e), &e);
    sampler_accept_prompt(sampler, r->prompt.v, n_prompt);
    for (int i = 0; i < n_prompt; i++) h = mix(h, r->prompt.v[i]);
    while (c->n_want < r->max_tokens) {
        logits_of(h, logits);
        sampler_pick(sampler, work, logits, NULL, &pick);
        if (pick.id == r->params.stop_id[0]) break;
        sampler_accept(sampler, pick.id);
        h = mix(h, c->want[c->n_want++] = pick.id);
    }
    sampler_close(sampler);
    sample_work_close(work);
}

static struct request *invent(struct sim *s)
{
    static const int32_t stop[] = {0};
    struct err e;
    struct request *r = request_open(&e);
    const int32_t *stem = s->stem[below(s, N_STEM)];
    int n = 1 + below(s, s->len_max - 1), n_stem = below(s, n + 1);
    for (int i = 0; i < n; i++)
        (void)!vec_push(&r->prompt, i < n_stem ? stem[i] : below(s, N_VOCAB));
    r->max_tokens = below(s, s->len_max - n + 1);
    r->params.temperature = below(s, 2) ? 0 : 1;
    r->params.seed = rng_next(&s->rng);
    r->params.seeded = true;
    r->params.stop_id = stop;
    r->params.n_stop_id = 1;
    return r;
}

static void arrive(struct sim *s, struct client *c)
{
    struct err e;
    struct request *r = invent(s);
    r->reply = c->queue;
    c->id = r->id;
    c->busy = true;
    c->aborted = false;
    c->slow = below(s, 4) == 0;
    c->n_got = 0;
    c->submit_us = s->fake.now_us;
    foretell(r, c);
    if (engine_submit(s->engine, r, &e) == 0) return;
    fail(s, e.text);
    request_close(r);
}

static void finished(struct sim *s, struct client *c, const struct event *ev)
{
    c->busy = false;
    if (ev->finish == FINISH_ABORT && !c->aborted) fail(s, "aborted by nobody");
    if (ev->finish == FINISH_ERROR) fail(s, "an error");
    if (ev->finish != FINISH_ABORT && c->n_got != c->n_want) fail(s, "tokens are missing");
    int64_t us = s->fake.now_us - c->submit_us;
    if (us > s->wait_us_max) s->wait_us_max = us;
    s->n_done++;
    s->n_aborted += ev->finish == FINISH_ABORT;
    s->n_cached += ev->usage.n_cached;
}

static void listen(struct sim *s, struct client *c)
{
    struct event ev;
    while (queue_pop(c->queue, &ev, 0)) {
        if (!c->busy || ev.request_id != c->id) fail(s, "an event for a request that is done");
        if (ev.kind == EVENT_DONE)
            finished(s, c, &ev);
        else if (c->n_got >= c->n_want || ev.token != c->want[c->n_got++])
            fail(s, "a wrong token");
    }
}

static void live(struct sim *s, struct client *c, bool arrivals)
{
    if (c->busy && !c->aborted && below(s, 400) == 0) {
        c->aborted = true;
        engine_cancel(s->engine, c->id);
    }
    if (!c->slow || below(s, 20) == 0) listen(s, c);
    if (!c->busy && arrivals && below(s, 30) == 0) arrive(s, c);
}

/* ---- one simulation ---- */

static void sim_open(struct sim *s, const struct way *w)
{
    struct err e;
    *s = (struct sim){.way = *w, .rng = w->seed};
    int n = w->n_page * w->page_rows;
    s->len_max = n < LEN_MAX ? n : LEN_MAX;
    struct fake *f = &s->fake;
    f->n_page = w->n_page;
    f->page_rows = w->page_rows;
    f->limits = (struct batch_limits){.n_row = w->n_row,
                                      .n_seq = w->n_seq,
                                      .n_out = w->n_seq,
                                      .n_copy = w->n_seq,
                                      .page_stride = (s->len_max + w->page_rows - 1) / w->page_rows};
    f->cell = calloc((size_t)n, sizeof *f->cell);
    f->logits = calloc((size_t)w->n_seq * N_VOCAB, sizeof *f->logits);
    struct executor x = {.ctx = f,
                         .n_vocab = N_VOCAB,
                         .n_page = f->n_page,
                         .page_rows = f->page_rows,
                         .context_max = s->len_max,
                         .limits = &f->limits,
                         .forward = fake_forward,
                         .now_us = fake_now};
    struct engine_options o = {.executor = x, .scheduler = w->policy, .queue_max = 2 * N_CLIENT};
    for (int i = 0; i < N_STEM; i++)
        for (int k = 0; k < LEN_MAX; k++) s->stem[i][k] = below(s, N_VOCAB);
    for (int i = 0; i < N_CLIENT; i++) s->client[i].queue = engine_reply_queue();
    NEED_OK(engine_open(&s->engine, &o, &e), &e);
}

static void sim_step(struct sim *s, bool arrivals)
{
    for (int i = 0; i < N_CLIENT; i++) live(s, &s->client[i], arrivals);
    if (!engine_step(s->engine)) s->fake.now_us += 1000;
    const char *wrong = engine_check(s->engine);
    if (wrong) fail(s, wrong);
    if (s->fake.wrong) fail(s, s->fake.wrong);
}

static bool any_busy(const struct sim *s)
{
    for (int i = 0; i < N_CLIENT; i++)
        if (s->client[i].busy) return true;
    return false;
}

/* Nobody may wait longer than this: what is there when a request arrives, at the worst pace, after
 * the time in which policies let nobody starve. */
enum { WAIT_US_MAX = 90 * 1000 * 1000 };

static void sim_run(struct sim *s, const struct way *w, int n_step)
{
    sim_open(s, w);
    for (int i = 0; i < n_step && !s->failed; i++) sim_step(s, true);
    for (int i = 0; i < 100000 && any_busy(s) && !s->failed; i++) sim_step(s, false);
    if (any_busy(s)) fail(s, "a request is lost");
    if (pages_n_free(s->engine->pages) != w->n_page) fail(s, "a page leaked");
    if (s->wait_us_max > WAIT_US_MAX) fail(s, "a request starved");
    engine_close(s->engine);
    for (int i = 0; i < N_CLIENT; i++) queue_close(s->client[i].queue);
    free(s->fake.cell);
    free(s->fake.logits);
}

/* Pools from barely one sequence to plenty, pages of 1 to 64, chunks from one row to many. */
static struct way way_of(const char *policy, int i, uint64_t *rng)
{
    struct way w = {.policy = policy, .page_rows = 1 << (i % 7), .seed = rng_next(rng)};
    int n = LEN_MAX / 4 << rng_below(rng, 6); /* tokens the pool holds: 40 .. 1280 */
    w.n_page = n / w.page_rows > 0 ? n / w.page_rows : 1;
    w.n_seq = 1 + (int)rng_below(rng, 10);
    w.n_row = w.n_seq + (int)rng_below(rng, 3) * (int)rng_below(rng, 60);
    return w;
}

TEST(simulated_requests_get_their_own_answers)
{
    static struct sim s;
    uint64_t rng = 42;
    int64_t n_step = 0, n_done = 0, n_aborted = 0, n_cached = 0;
    int64_t most = test_long() ? 1000000 : 100000;
    for (int i = 0; n_step < most; i++)
        for (int p = 0; policy_name(p); p++) {
            struct way w = way_of(policy_name(p), i, &rng);
            sim_run(&s, &w, test_long() ? 5000 : 400);
            if (s.failed) return;
            n_step += s.fake.n_step;
            n_done += s.n_done, n_aborted += s.n_aborted, n_cached += s.n_cached;
        }
    test_note("%lld steps, %lld requests, %lld of them aborted, %lld tokens found in the cache",
              (long long)n_step, (long long)n_done, (long long)n_aborted, (long long)n_cached);
    EXPECT(n_done - n_aborted > most / 100);
    EXPECT(n_aborted > most / 1000);
    EXPECT(n_cached > most / 10);
}

/* A check that cannot fail checks nothing: one wrong cell of K and V is a wrong token. */
TEST(the_simulation_notices_wrong_kv)
{
    static struct sim s;
    struct way w = {.policy = "fcfs", .page_rows = 4, .n_page = 100, .n_row = 20, .n_seq = 4, .seed = 1};
    sim_open(&s, &w);
    struct client *c = &s.client[0];
    struct err e;
    struct request *r = request_open(&e);
    for (int i = 0; i < 8; i++) (void)!vec_push(&r->prompt, i);
    static const int32_t stop[] = {-1};
    r->params.stop_id = stop;
    r->params.temperature = 0;
    r->max_tokens = 8;
    r->reply = c->queue;
    foretell(r, c);
    NEED_OK(engine_submit(s.engine, r, &e), &e);
    for (int i = 0; i < 3; i++) engine_step(s.engine);
    for (int i = 0; i < w.n_page * w.page_rows; i++) s.fake.cell[i].token ^= 1;
    while (engine_step(s.engine)) {
    }
    struct event ev;
    int n_wrong = 0;
    for (int i = 0; queue_pop(c->queue, &ev, 0) && ev.kind == EVENT_TOKEN; i++) {
        n_wrong += ev.token != c->want[i];
        if (i < 3) EXPECT_INT(ev.token, c->want[i]);
    }
    EXPECT(n_wrong > 0);
    engine_close(s.engine);
    for (int i = 0; i < N_CLIENT; i++) queue_close(s.client[i].queue);
    free(s.fake.cell);
    free(s.fake.logits);
}
