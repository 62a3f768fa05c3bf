/* sim_test.c - goal: whatever comes, every request gets its own right answer, no page leaks, nobody
 * starves and none is lost. Method: a seeded simulation. The fake model's K and V are the tokens, their
 * positions and a hash of all tokens to there, stored at the slots of the batch; its logits are a hash of the prefix as the
 * page table shows it, so that wrong K and V give a wrong token. A page that others hold must not be written. Its clock is virtual. Clients arrive
 * at random, with shared prefixes, abort, and read their replies late; pools are tiny. After every step
 * all invariants are checked. QUOTH_LONG=1 runs a million steps. */
#include "../../tests/unit.h"

#include "base/hash.h"
#include "base/rng.h"
#include "engine_impl.h"

#include <stdlib.h>

enum { N_VOCAB = 24, LEN_MAX = 160, N_CLIENT = 14, N_STEM = 4, N_CHOICE = 5 };

/* ---- the fake model ---- */

struct cell {
    int32_t token, pos;
    uint64_t prefix; /* hash of all tokens to here: as K and V depend on all of them */
};

struct fake {
    struct batch_limits limits;
    int n_page, page_rows, n_host_page, window;
    struct cell *cell; /* [n_page * page_rows] */
    struct cell *host; /* [n_host_page * page_rows] */
    float *logits;     /* [n_out, N_VOCAB]     */
    int64_t now_us;
    int64_t n_row, n_step;
    const struct pages *pages; /* borrowed */
    const char *wrong;         /* what a batch should not have held */
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
    for (int i = 0; i < 4; i++) logits[(h >> (i * 8)) % (N_VOCAB - 1)] += 5.0f - (float)i * 0.7f;
}

static void do_copies(struct fake *f, const struct batch *b)
{
    for (int i = 0; i < b->n_copy; i++) {
        const struct batch_copy *c = &b->copy[i];
        struct cell *from = c->kind == COPY_IN ? f->host : f->cell;
        struct cell *to = c->kind == COPY_OUT ? f->host : f->cell;
        memcpy(to + c->dst * f->page_rows, from + c->src * f->page_rows,
               (size_t)f->page_rows * sizeof *to);
    }
}

static int first_seen(const struct fake *f, int pos)
{
    return f->window && pos >= f->window ? pos - f->window + 1 : 0;
}

/* The cell of position p of sequence s; NULL: a hole. */
static struct cell *cell_at(const struct fake *f, const struct batch *b, int s, int p)
{
    int32_t page = b->page[s * b->page_stride + p / f->page_rows];
    return page < 0 ? NULL : &f->cell[page * f->page_rows + p % f->page_rows];
}

/* What the row of sequence s at pos sees, as its pages hold it. */
static uint64_t read_prefix(struct fake *f, const struct batch *b, int s, int pos)
{
    uint64_t h = 1;
    const struct cell *before = NULL;
    for (int p = first_seen(f, pos); p <= pos; p++) {
        const struct cell *c = cell_at(f, b, s, p);
        if (!c) {
            f->wrong = "a row sees a hole";
            return 0;
        }
        if (c->pos != p) f->wrong = "a slot holds another position";
        if (before && c->prefix != mix(before->prefix, c->token)) f->wrong = "a page follows another one than its own";
        h = mix(h, c->token);
        before = c;
    }
    return h;
}

static void write_row(struct fake *f, const struct batch *b, int s, int row)
{
    int pos = b->pos[row];
    const struct cell *before = pos > first_seen(f, pos) ? cell_at(f, b, s, pos - 1) : NULL;
    if (page_refs(f->pages, b->slot[row] / f->page_rows) != 1) f->wrong = "a page is written that others hold";
    f->cell[b->slot[row]] = (struct cell){b->token[row], pos, mix(before ? before->prefix : 1, b->token[row])};
}

static struct model_out fake_forward(void *ctx, const struct batch *b)
{
    struct fake *f = ctx;
    const char *wrong = batch_check(b, N_VOCAB, f->n_page, f->page_rows);
    if (wrong) f->wrong = wrong;
    do_copies(f, b);
    for (int s = 0; s < b->n_seq; s++)
        for (int row = b->row0[s]; row < b->row0[s + 1]; row++) write_row(f, b, s, row);
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

/* What a choice must be, and how much of it came. */
struct choice {
    int32_t want[LEN_MAX];
    int n_want, n_output, n_got;
    double sum_logprob;
    bool done;
};

struct client {
    struct queue *queue;
    uint64_t id;
    bool busy, aborted, slow, may_expire;
    struct choice choice[N_CHOICE];
    int n_choice, n_prompt, n_prompt_got; /* choices told */
    int64_t submit_us;
};

struct way {
    const char *policy;
    int page_rows, n_page, n_row, n_seq, n_host_page, window;
    double copy_rate;
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
    int64_t n_done, n_aborted, n_expired, n_cached, wait_us_max;
    struct stats_view stats;
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

/* What a choice of the request must be, computed without an engine. */
static void foretell_choice(const struct sim *s, const struct request *r, int i, struct choice *c)
{
    static const struct sample_vocab vocab = {.n_vocab = N_VOCAB};
    struct sample_work *work;
    struct sampler *sampler;
    struct sample_params params = r->params;
    struct err e;
    struct pick pick;
    float logits[N_VOCAB];
    int32_t token[LEN_MAX + 1];
    int n = (int)r->prompt.n;
    *c = (struct choice){0};
    params.n_logprob = 0;
    NEED_OK(sample_work_open(&work, N_VOCAB, "ref", &e), &e);
    NEED_OK(sampler_open(&sampler, &params, &vocab, (uint32_t)i, LEN_MAX, &e), &e);
    sampler_accept_prompt(sampler, r->prompt.v, n);
    memcpy(token, r->prompt.v, (size_t)n * sizeof *token);
    while (c->n_output < r->max_tokens) {
        uint64_t h = 1;
        for (int p = first_seen(&s->fake, n - 1); p < n; p++) h = mix(h, token[p]);
        logits_of(h, logits);
        sampler_pick(sampler, work, logits, NULL, &pick);
        c->n_output++;
        c->sum_logprob += (double)pick.chosen.logprob;
        if (pick.id == r->params.stop_id[0]) break;
        sampler_accept(sampler, pick.id);
        token[n++] = c->want[c->n_want++] = pick.id;
    }
    sampler_close(sampler);
    sample_work_close(work);
}

static float mean_logprob(const struct choice *c)
{
    return c->n_output ? (float)(c->sum_logprob / c->n_output) : 0;
}

/* All choices, and of best_of the n best, best first. */
static void foretell(const struct sim *s, const struct request *r, struct client *c)
{
    int n = r->best_of ? r->best_of : r->n;
    for (int i = 0; i < n; i++) foretell_choice(s, r, i, &c->choice[i]);
    for (int i = 0; i < r->n && n > r->n; i++)
        for (int k = n - 1; k > i; k--)
            if (mean_logprob(&c->choice[k]) > mean_logprob(&c->choice[k - 1])) {
                struct choice swap = c->choice[k];
                c->choice[k] = c->choice[k - 1];
                c->choice[k - 1] = swap;
            }
    c->n_choice = r->n;
    c->n_prompt = r->n_prompt_logprob >= 0 ? (int)r->prompt.n - 1 : 0;
    c->n_prompt_got = 0;
    c->may_expire = r->deadline_us > 0;
}

static struct request *invent(struct sim *s)
{
    static const int32_t stop[] = {N_VOCAB - 1, 0};
    struct err e;
    struct request *r = request_open(&e);
    const int32_t *stem = s->stem[below(s, N_STEM)];
    int n = 1 + below(s, below(s, 3) ? s->len_max / 4 : s->len_max - 1), n_stem = below(s, n + 1);
    for (int i = 0; i < n; i++)
        (void)!vec_push(&r->prompt, i < n_stem ? stem[i] : below(s, N_VOCAB));
    r->max_tokens = below(s, 2) ? s->len_max - n : below(s, s->len_max - n + 1);
    r->params.temperature = below(s, 2) ? 0 : 1;
    r->params.seed = rng_next(&s->rng);
    r->params.seeded = true;
    r->params.stop_id = stop + below(s, 2); /* the first is hardly ever said */
    r->params.n_stop_id = 1;
    r->priority = below(s, 3);
    r->share_id = (uint64_t)below(s, 3);
    r->n_prompt_logprob = below(s, 10) ? -1 : 2;
    if (below(s, 5) == 0) r->n = 1 + below(s, N_CHOICE);
    if (below(s, 10) == 0) r->best_of = r->n + below(s, N_CHOICE - r->n + 1);
    if (below(s, 10) == 0) r->deadline_us = 1 + below(s, 2000000);
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
    c->submit_us = s->fake.now_us;
    foretell(s, r, c);
    if (engine_submit(s->engine, r, &e) == 0) return;
    fail(s, e.text);
    request_close(r);
}

static void choice_done(struct sim *s, const struct client *c, struct choice *x, enum finish f)
{
    if (x->done) fail(s, "a choice ends twice");
    x->done = true;
    if (f == FINISH_ABORT && !c->aborted) fail(s, "aborted by nobody");
    if (f == FINISH_TIMEOUT && !c->may_expire) fail(s, "a deadline that nobody set");
    if (f == FINISH_ERROR) fail(s, "an error");
    if ((f == FINISH_STOP || f == FINISH_LENGTH) && x->n_got != x->n_want)
        fail(s, "tokens are missing");
}

static void finished(struct sim *s, struct client *c, const struct event *ev)
{
    c->busy = false;
    bool whole = ev->finish == FINISH_STOP || ev->finish == FINISH_LENGTH;
    if (c->n_choice == 1) choice_done(s, c, &c->choice[0], ev->finish);
    for (int i = 0; i < c->n_choice && whole; i++)
        if (!c->choice[i].done) fail(s, "a choice has no end");
    if (whole && c->n_prompt_got != c->n_prompt) fail(s, "prompt tokens are missing");
    int64_t us = s->fake.now_us - c->submit_us;
    if (us > s->wait_us_max && !c->slow) s->wait_us_max = us;
    s->n_done++;
    s->n_aborted += ev->finish == FINISH_ABORT;
    s->n_expired += ev->finish == FINISH_TIMEOUT;
    s->n_cached += ev->usage.n_cached;
}

static void hear(struct sim *s, struct client *c, const struct event *ev)
{
    struct choice *x = &c->choice[ev->choice];
    if (!c->busy || ev->request_id != c->id) fail(s, "an event for a request that is done");
    if (ev->choice < 0 || ev->choice >= c->n_choice) fail(s, "an event of no choice");
    switch (ev->kind) {
    case EVENT_PROMPT:
        c->n_prompt_got++;
        break;
    case EVENT_TOKEN:
        if (x->n_got >= x->n_want || ev->token != x->want[x->n_got++]) fail(s, "a wrong token");
        break;
    case EVENT_CHOICE:
        choice_done(s, c, x, ev->finish);
        break;
    case EVENT_DONE:
        finished(s, c, ev);
    }
}

static void listen(struct sim *s, struct client *c)
{
    struct event ev;
    while (!s->failed && queue_pop(c->queue, &ev, 0)) hear(s, c, &ev);
}

static void live(struct sim *s, struct client *c, bool arrivals)
{
    if (c->busy && !c->aborted && below(s, 400) == 0) {
        c->aborted = true;
        engine_cancel(s->engine, c->id);
    }
    if (!c->slow || below(s, 20) == 0) listen(s, c);
    if (!c->busy && arrivals && below(s, 10) == 0) arrive(s, c);
}

/* ---- one simulation ---- */

static void sim_open(struct sim *s, const struct way *w)
{
    struct err e;
    *s = (struct sim){.way = *w, .rng = w->seed, .fake.now_us = 1000};
    int n = w->n_page * w->page_rows;
    s->len_max = n < LEN_MAX ? n : LEN_MAX;
    struct fake *f = &s->fake;
    f->n_page = w->n_page;
    f->page_rows = w->page_rows;
    f->n_host_page = w->n_host_page;
    f->window = w->window;
    f->limits =
        (struct batch_limits){.n_row = w->n_row,
                              .n_seq = w->n_seq,
                              .n_out = w->n_seq,
                              .n_copy = w->n_seq + w->n_host_page,
                              .page_stride = (s->len_max + w->page_rows - 1) / w->page_rows};
    f->cell = calloc((size_t)n, sizeof *f->cell);
    f->host = calloc((size_t)(w->n_host_page * w->page_rows) + 1, sizeof *f->host);
    f->logits = calloc((size_t)w->n_seq * N_VOCAB, sizeof *f->logits);
    struct executor x = {.ctx = f,
                         .n_vocab = N_VOCAB,
                         .n_page = f->n_page,
                         .page_rows = f->page_rows,
                         .context_max = s->len_max,
                         .n_host_page = f->n_host_page,
                         .page_bytes = 1000 * f->page_rows,
                         .copy_rate = w->copy_rate,
                         .prefill_rate = 0.01,
                         .window = f->window,
                         .limits = &f->limits,
                         .forward = fake_forward,
                         .now_us = fake_now};
    struct engine_options o = {.executor = x, .scheduler = w->policy, .queue_max = 2 * N_CLIENT};
    for (int i = 0; i < N_STEM; i++)
        for (int k = 0; k < LEN_MAX; k++) s->stem[i][k] = below(s, N_VOCAB);
    for (int i = 0; i < N_CLIENT; i++) s->client[i].queue = engine_reply_queue();
    NEED_OK(engine_open(&s->engine, &o, &e), &e);
    f->pages = s->engine->pages;
}

static void sim_close(struct sim *s)
{
    engine_close(s->engine);
    for (int i = 0; i < N_CLIENT; i++) queue_close(s->client[i].queue);
    free(s->fake.cell);
    free(s->fake.host);
    free(s->fake.logits);
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
    stats_read(engine_stats(s->engine), &s->stats);
    sim_close(s);
}

/* Pools from barely one sequence to plenty, pages of 1 to 64, chunks from one row to many. */
static struct way way_of(const char *policy, int i, uint64_t *rng)
{
    struct way w = {.policy = policy, .page_rows = 1 << (i % 7), .seed = rng_next(rng)};
    int n = LEN_MAX / 4 << rng_below(rng, 5); /* tokens the pool holds: 40 .. 640 */
    w.n_page = n / w.page_rows > 0 ? n / w.page_rows : 1;
    w.n_seq = 1 + (int)rng_below(rng, 16);
    w.n_row = w.n_seq + (int)rng_below(rng, 3) * (int)rng_below(rng, 60);
    w.n_host_page = rng_below(rng, 2) ? (int)rng_below(rng, (uint64_t)w.n_page + 1) : 0;
    w.copy_rate = rng_below(rng, 2) ? 5 : 40; /* 20: as fast as computing */
    w.window = rng_below(rng, 4) ? 0 : 1 + (int)rng_below(rng, 40);
    return w;
}

TEST(simulated_requests_get_their_own_answers)
{
    static struct sim s;
    int64_t sum[STAT_COUNT] = {0};
    uint64_t rng = 42;
    int64_t n_done = 0, n_aborted = 0, n_expired = 0, n_cached = 0;
    int64_t most = test_long() ? 1000000 : 60000;
    for (int i = 0; sum[STAT_steps] < most; i++)
        for (int p = 0; policy_name(p); p++) {
            struct way w = way_of(policy_name(p), i, &rng);
            sim_run(&s, &w, test_long() ? 5000 : 400);
            if (s.failed) return;
            for (int k = 0; k < STAT_COUNT; k++) sum[k] += s.stats.value[k];
            n_done += s.n_done, n_aborted += s.n_aborted, n_cached += s.n_cached;
            n_expired += s.n_expired;
        }
    test_note("%lld steps of %lld rows, %lld requests, %lld of them aborted, %lld too late, %lld "
              "tokens found",
              (long long)sum[STAT_steps], (long long)sum[STAT_rows], (long long)n_done,
              (long long)n_aborted, (long long)n_expired, (long long)n_cached);
    test_note("%lld preemptions, %lld of them swapped, %lld to displace; pages: %lld out, %lld in, "
              "%lld copied",
              (long long)sum[STAT_preemptions], (long long)sum[STAT_swapped],
              (long long)sum[STAT_displaced], (long long)sum[STAT_pages_out],
              (long long)sum[STAT_pages_in], (long long)sum[STAT_pages_copied]);
    EXPECT(n_done - n_aborted - n_expired > most / 100);
    EXPECT(n_aborted > most / 1000 && n_expired > most / 10000);
    EXPECT(n_cached > most / 10);
    EXPECT(sum[STAT_preemptions] > most / 200 && sum[STAT_displaced] > most / 5000);
    EXPECT(sum[STAT_swapped] > most / 2000 && sum[STAT_pages_in] > most / 1000);
    EXPECT(sum[STAT_pages_copied] > most / 1000);
}

/* A check that cannot fail checks nothing: wrong K and V are a wrong token. */
TEST(the_simulation_notices_wrong_kv)
{
    static struct sim s;
    struct way w = {
        .policy = "fcfs", .page_rows = 4, .n_page = 100, .n_row = 20, .n_seq = 4, .seed = 1};
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
    foretell(&s, r, c);
    NEED_OK(engine_submit(s.engine, r, &e), &e);
    for (int i = 0; i < 3; i++) engine_step(s.engine);
    for (int i = 0; i < w.n_page * w.page_rows; i++) s.fake.cell[i].token ^= 1;
    while (engine_step(s.engine)) {
    }
    struct event ev;
    int n_wrong = 0;
    for (int i = 0; queue_pop(c->queue, &ev, 0) && ev.kind == EVENT_TOKEN; i++) {
        n_wrong += ev.token != c->choice[0].want[i];
        if (i < 3) EXPECT_INT(ev.token, c->choice[0].want[i]);
    }
    EXPECT(n_wrong > 0);
    sim_close(&s);
}

/* A static batch computes the last row of those that are done again and again. */
TEST(who_is_spent_writes_no_page_that_others_hold)
{
    enum { ROWS = 16 };
    static const int32_t stop[] = {-1};
    static struct sim s;
    struct way w = {.policy = "static", .page_rows = ROWS, .n_page = 20, .n_row = 100, .n_seq = 4, .seed = 1};
    struct err e;
    sim_open(&s, &w);
    for (int i = 0; i < 2; i++) {
        struct client *c = &s.client[i];
        struct request *r = request_open(&e);
        for (int k = 0; k < 2 * ROWS; k++) (void)!vec_push(&r->prompt, k % N_VOCAB);
        r->params.stop_id = stop;
        r->params.temperature = 0;
        r->max_tokens = i ? 8 : 1;
        r->reply = c->queue;
        c->id = r->id;
        c->busy = true;
        foretell(&s, r, c);
        NEED_OK(engine_submit(s.engine, r, &e), &e);
    }
    while (engine_step(s.engine)) continue;
    for (int i = 0; i < 2; i++) {
        listen(&s, &s.client[i]);
        EXPECT(!s.client[i].busy);
    }
    if (s.fake.wrong) fail(&s, s.fake.wrong);
    sim_close(&s);
}

/* Two pages of tokens that XXH3 hashes alike from 0, as anyone can find in a second by a generalized birthday search
 * (Wagner, 2002: eight lists of 2^18, one for each 16 bytes): what follows one of them must not be found behind the other. */
TEST(pages_whose_tokens_hash_alike_are_told_apart)
{
    enum { ROWS = 32 };
    static const int32_t stop[] = {-1}, alike[2][ROWS] = {
        {17, 6, 23, 10, 3, 19, 2, 11, 1, 7, 6, 20, 22, 15, 16, 21,
         13, 18, 20, 5, 21, 0, 11, 19, 19, 7, 8, 6, 11, 12, 13, 13},
        {21, 23, 9, 21, 8, 17, 13, 13, 4, 12, 23, 4, 15, 19, 2, 4,
         13, 13, 11, 3, 16, 12, 4, 9, 11, 21, 13, 0, 8, 14, 14, 17}};
    static struct sim s;
    struct way w = {.policy = "fcfs", .page_rows = ROWS, .n_page = 20, .n_row = 100, .n_seq = 4, .seed = 1};
    struct err e;
    EXPECT(hash_bytes(alike[0], sizeof alike[0], 0) == hash_bytes(alike[1], sizeof alike[1], 0));
    sim_open(&s, &w);
    for (int i = 0; i < 2; i++) {
        struct client *c = &s.client[i];
        struct request *r = request_open(&e);
        for (int k = 0; k < 2 * ROWS + 1; k++)
            (void)!vec_push(&r->prompt, k < ROWS ? alike[i][k] : k % N_VOCAB);
        r->params.stop_id = stop;
        r->params.temperature = 0;
        r->max_tokens = 8;
        r->reply = c->queue;
        c->id = r->id;
        c->busy = true;
        foretell(&s, r, c);
        NEED_OK(engine_submit(s.engine, r, &e), &e);
        while (engine_step(s.engine)) {
        }
        listen(&s, c);
        EXPECT(!c->busy);
        if (s.fake.wrong) fail(&s, s.fake.wrong);
    }
    sim_close(&s);
}
