/* sim_test.c - goal: every request gets the correct answer under any load. No page leaks, and no
 * request starves or is lost. Method: a seeded simulation over the fake model (fake_test.h), whose
 * clock is virtual and jumps. Clients arrive at random, with shared prefixes. Some clients belong
 * to holders with many requests in a short queue. Clients also abort requests, and read their
 * replies late. Pools are tiny. All invariants are checked after every step. QUOTH_LONG=1 runs a
 * million steps. */
#include "../../tests/unit.h"

#include "base/hash.h"
#include "base/rng.h"
#include "script_test.h"

enum { LEN_MAX = 160, N_CLIENT = 14, N_STEM = 4, N_CHOICE = 5, N_SHARED = 3 };
enum {
    FLOOD_QUEUE = 6,
    FLOOD_OTHERS = 3
}; /* a short queue, and clients of holders with one request each */

/* ---- clients ---- */

/* The expected tokens of a choice, and the number received. */
struct choice {
    int32_t want[LEN_MAX];
    int n_want, n_output, n_got;
    int draft_at, n_draft; /* numbers of tokens before the last draft and in the draft */
    double sum_logprob;
    bool done;
};

struct client {
    struct queue *queue;
    uint64_t id;
    bool busy, aborted, slow, may_expire, refused, ranked;
    struct choice choice[N_CHOICE];
    /* numbers of returned choices, of prompt tokens, of received prompt tokens */
    int n_choice, n_prompt, n_prompt_got;
    int64_t submit_us;
};

struct way {
    const char *policy;
    int page_rows, n_page, n_row, n_seq, n_host_page, window;
    int n_short;     /* tokens of the longest text with the rope's short list; 0: one list */
    int n_swap_copy; /* number of copies of a step, in addition to one per sequence */
    double copy_rate;
    bool jumps; /* true: the clock jumps */
    /* true: one holder has all clients except FLOOD_OTHERS, and submits again immediately */
    bool floods;
    /* several tokens of a sequence are verified per step: right, wrong and random drafts */
    int n_draft; /* number of tokens of a draft; 0: no drafts */
    bool no_jump_forward;
    /* numbers of slots and of host states; 0: the model has no recurrent state */
    int n_state, n_host_state;
    bool no_kv;  /* true: the model has only recurrent state */
    int n_start; /* number of tokens after a source; 0: the prompt is not a source */
    /* true: half of the requests follow scripts, whose masks a pool fills */
    bool constrained;
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
    struct script_shared shared[N_SHARED];
    int64_t n_proposed, n_accepted; /* number of draft tokens, and number of accepted ones */
    int64_t n_done, n_aborted, n_expired, n_cached, wait_us_max, n_refused, n_evicted;
    int64_t n_lengthened; /* number of choices that outgrow the rope's short list */
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

/* Compute the expected tokens of a choice without an engine. */
static void predict_choice(const struct sim *s, const struct request *r, int i, struct choice *c)
{
    static const struct sample_vocab vocab = {.n_vocab = FAKE_VOCAB};
    struct sample_work *work;
    struct sampler *sampler;
    struct sample_params params = r->params;
    struct err e;
    struct pick pick;
    float logits[FAKE_VOCAB];
    int32_t token[LEN_MAX + 1];
    int n = (int)r->prompt.n, n_start = s->way.n_start;
    *c = (struct choice){0};
    params.n_logprob = 0;
    NEED_OK(sample_work_open(&work, FAKE_VOCAB, "ref", &e), &e);
    NEED_OK(sampler_open(&sampler, &params, &vocab, (uint32_t)i, LEN_MAX, &e), &e);
    struct constraint *held = r->constraint ? r->constraint->op->fork(r->constraint) : NULL;
    uint32_t mask[(FAKE_VOCAB + 31) / 32];
    memcpy(token, r->prompt.v, (size_t)n * sizeof *token);
    memcpy(token + n, fake_start, (size_t)n_start * sizeof *token);
    n += n_start;
    sampler_accept_prompt(sampler, n_start ? fake_start : token, n_start ? n_start : n);
    while (c->n_output < r->max_tokens) {
        fake_logits(fake_meaning(&s->fake, token, n), logits);
        if (held) held->op->mask(held, mask);
        sampler_pick(sampler, work, logits, held ? mask : NULL, &pick);
        c->n_output++;
        c->sum_logprob += (double)pick.chosen.logprob;
        if (pick.id == r->params.stop_id[0]) break;
        sampler_accept(sampler, pick.id);
        if (held) held->op->accept(held, pick.id);
        token[n++] = c->want[c->n_want++] = pick.id;
    }
    if (held) held->op->close(held);
    sampler_close(sampler);
    sample_work_close(work);
}

static float mean_logprob(const struct choice *c)
{
    return c->n_output ? (float)(c->sum_logprob / c->n_output) : 0;
}

/* Compute the expected tokens of all choices; with best_of, of the n best choices, best first. */
static void predict(const struct sim *s, const struct request *r, struct client *c)
{
    int n = r->best_of ? r->best_of : r->n;
    for (int i = 0; i < n; i++) predict_choice(s, r, i, &c->choice[i]);
    for (int i = 0; i < r->n && n > r->n; i++)
        for (int k = n - 1; k > i; k--)
            if (mean_logprob(&c->choice[k]) > mean_logprob(&c->choice[k - 1])) {
                struct choice swap = c->choice[k];
                c->choice[k] = c->choice[k - 1];
                c->choice[k - 1] = swap;
            }
    c->ranked = n > r->n;
    c->n_choice = r->n;
    c->n_prompt = r->n_prompt_logprob >= 0 ? (int)r->prompt.n - 1 : 0;
    c->n_prompt_got = 0;
    c->may_expire = r->deadline_us > 0;
}

/* Return true if this client belongs to the flooding holder. */
static bool floods(const struct sim *s, const struct client *c)
{
    return s->way.floods && c - s->client < N_CLIENT - FLOOD_OTHERS;
}

static uint64_t holder_of(struct sim *s, const struct client *c)
{
    if (!s->way.floods) return (uint64_t)below(s, 3);
    return floods(s, c) ? 1 : 2 + (uint64_t)(c - s->client);
}

static struct request *invent(struct sim *s, const struct client *c)
{
    static const int32_t stop[] = {FAKE_VOCAB - 1, 0};
    struct err e;
    struct request *r = request_open(&e);
    const int32_t *stem = s->stem[below(s, N_STEM)];
    const int len = s->len_max - s->way.n_start;
    int n = 1 + below(s, below(s, 3) ? len / 4 : len - 1), n_stem = below(s, n + 1);
    if (below(s, 6) == 0) n_stem = n; /* a whole stem, so that prefixes are found often */
    for (int i = 0; i < n; i++)
        (void)!vec_push(&r->prompt, i < n_stem ? stem[i] : below(s, FAKE_VOCAB));
    r->max_tokens = below(s, 2) ? len - n : below(s, len - n + 1);
    r->params.temperature = below(s, 2) ? 0 : 1;
    r->params.seed = rng_next(&s->rng);
    r->params.seeded = true;
    r->params.stop_id = stop + below(s, 2); /* the first stop token is very improbable */
    r->params.n_stop_id = 1;
    r->priority = below(s, 3);
    r->holder = holder_of(s, c);
    r->n_prompt_logprob = below(s, 10) || s->way.n_start ? -1 : 2;
    if (below(s, 5) == 0) r->n = 1 + below(s, N_CHOICE);
    if (below(s, 10) == 0) r->best_of = r->n + below(s, N_CHOICE - r->n + 1);
    if (below(s, 10) == 0) r->deadline_us = 1 + below(s, 2000000);
    int shared = below(s, N_SHARED + 1);
    if (s->way.constrained && below(s, 2))
        r->constraint =
            script_open(rng_next(&s->rng), shared < N_SHARED ? &s->shared[shared] : NULL, 0);
    return r;
}

static void arrive(struct sim *s, struct client *c)
{
    struct err e;
    struct request *r = invent(s, c);
    r->reply = c->queue;
    c->id = r->id;
    c->busy = true;
    c->aborted = false;
    c->slow = below(s, 4) == 0;
    c->submit_us = s->fake.now_us;
    predict(s, r, c);
    for (int i = 0, n = (int)r->prompt.n; i < c->n_choice && n <= s->way.n_short; i++)
        s->n_lengthened += n + c->choice[i].n_want > s->way.n_short;
    int rc = engine_submit(s->engine, r, &e);
    if (rc == 0) return;
    bool full = rc == ERR_BUSY && floods(s, c);
    if (!full) fail(s, e.text);
    s->n_refused += full;
    c->busy = false;
    request_close(r);
}

static void choice_done(struct sim *s, const struct client *c, struct choice *x, enum finish f)
{
    if (x->done) fail(s, "a choice ends twice");
    x->done = true;
    if (f == FINISH_ABORT && !c->aborted) fail(s, "aborted without a reason");
    if (f == FINISH_TIMEOUT && !c->may_expire) fail(s, "a deadline that was not set");
    if (f == FINISH_ERROR) fail(s, "an error");
    if ((f == FINISH_STOP || f == FINISH_LENGTH) && x->n_got != x->n_want)
        fail(s, "tokens are missing");
}

static void finished(struct sim *s, struct client *c, const struct event *ev)
{
    c->busy = false;
    if (ev->finish == FINISH_REFUSED && !floods(s, c))
        fail(s, "a holder within its share is refused");
    if (ev->finish == FINISH_REFUSED) {
        s->n_evicted++;
        return;
    }
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

static void on_event(struct sim *s, struct client *c, const struct event *ev)
{
    struct choice *x = &c->choice[ev->choice];
    if (!c->busy || ev->request_id != c->id) fail(s, "an event for a request that is done");
    if (ev->choice < 0 || ev->choice >= c->n_choice) fail(s, "an event without a choice");
    switch (ev->kind) {
    case EVENT_PROMPT:
        c->n_prompt_got++;
        break;
    case EVENT_PROGRESS:
        fail(s, "progress that no request wants");
        break;
    case EVENT_TOKEN:
        if (x->n_got >= x->n_want || ev->token != x->want[x->n_got++]) fail(s, "a wrong token");
        break;
    case EVENT_CHOICE:
        if (ev->finish != FINISH_REFUSED) choice_done(s, c, x, ev->finish);
        break;
    case EVENT_DONE:
        finished(s, c, ev);
    }
}

static void drain(struct sim *s, struct client *c)
{
    struct event ev;
    while (!s->failed && queue_pop(c->queue, &ev, 0)) on_event(s, c, &ev);
}

static void step_client(struct sim *s, struct client *c, bool arrivals)
{
    if (c->busy && !c->aborted && below(s, 400) == 0) {
        c->aborted = true;
        engine_cancel(s->engine, c->id);
    }
    if (!c->slow || below(s, 20) == 0) drain(s, c);
    if (!c->busy && arrivals && (floods(s, c) || below(s, 10) == 0)) arrive(s, c);
}

/* ---- drafts ---- */

/* Return the expected tokens [at, at + n), or fewer at the end. */
static int propose_right(const struct choice *x, int at, int32_t *draft, int n)
{
    int i = 0;
    for (; i < n && at + i < x->n_want; i++) draft[i] = x->want[at + i];
    return i;
}

/* Propose tokens by the number of the request: the expected tokens, the expected tokens with a
 * mistake, or any tokens, including invalid ones. */
static int propose(void *ctx, const struct request *r, int choice, const int32_t *token,
                   int n_token, int32_t *draft, int n)
{
    struct sim *s = ctx;
    struct client *c = s->client;
    int at = n_token - (int)r->prompt.n - s->way.n_start, i = 0, how = (int)(r->params.seed % 4);
    (void)token;
    while (c->id != r->id) c++;
    if (how == 3 || c->ranked) {
        for (; i < n; i++) draft[i] = below(s, FAKE_VOCAB + 1) - (below(s, 50) == 0);
        return below(s, n + 1);
    }
    struct choice *x = &c->choice[choice];
    i = propose_right(x, at, draft, n);
    if (how == 2 && i > 0) draft[below(s, i)] += 1;
    if (x->n_draft > 0 && at > x->draft_at + 1) s->n_accepted += at - x->draft_at - 1;
    x->draft_at = at;
    x->n_draft = i;
    s->n_proposed += i;
    return i;
}

/* ---- one simulation ---- */

static struct pool *pool; /* pool of the running simulation; NULL if none */

static void sim_open(struct sim *s, const struct way *w)
{
    struct err e;
    *s = (struct sim){.way = *w, .rng = w->seed, .fake.now_us = 1000};
    s->shared[0].slow = s->shared[1].slow = true;
    int n = w->n_page * w->page_rows;
    s->len_max = n < LEN_MAX ? n : LEN_MAX;
    struct fake *f = &s->fake;
    f->n_page = w->n_page;
    f->page_rows = w->page_rows;
    f->n_host_page = w->n_host_page;
    f->window = w->window;
    f->n_host_state = w->n_host_state;
    f->no_kv = w->no_kv;
    f->jump_every = w->jumps ? 50 : 0;
    f->rng = w->seed;
    f->pool = w->constrained ? pool : NULL;
    f->n_start = w->n_start;
    f->limits =
        (struct batch_limits){.n_row = w->n_row + (w->n_start ? s->len_max : 0),
                              .n_seq = w->n_seq,
                              .n_out = w->n_seq + w->n_draft,
                              .n_state = w->n_state,
                              .n_copy = w->n_seq + w->n_swap_copy,
                              .n_short = w->n_short,
                              .n_source = w->n_start ? s->len_max - w->n_start : 0,
                              .page_stride = (s->len_max + w->page_rows - 1) / w->page_rows};
    NEED_OK(fake_open(f, &e), &e);
    struct executor x = fake_executor(f);
    x.context_max = s->len_max;
    x.copy_rate = w->copy_rate;
    struct drafter d = {.ctx = s, .n_max = w->n_draft, .propose = propose};
    struct engine_options o = {.executor = x,
                               .drafter = d,
                               .no_jump_forward = w->no_jump_forward,
                               .scheduler = w->policy,
                               .queue_max = w->floods ? FLOOD_QUEUE : 2 * N_CLIENT};
    for (int i = 0; i < N_STEM; i++)
        for (int k = 0; k < LEN_MAX; k++) s->stem[i][k] = below(s, FAKE_VOCAB);
    for (int i = 0; i < N_CLIENT; i++) s->client[i].queue = engine_reply_queue();
    NEED_OK(engine_open(&s->engine, &o, &e), &e);
    f->pages = s->engine->pages;
    f->states = s->engine->states;
}

static void sim_close(struct sim *s)
{
    engine_close(s->engine);
    for (int i = 0; i < N_CLIENT; i++) queue_close(s->client[i].queue);
    fake_close(&s->fake);
}

static void sim_step(struct sim *s, bool arrivals)
{
    for (int i = 0; i < N_CLIENT; i++) step_client(s, &s->client[i], arrivals);
    if (!engine_step(s->engine)) s->fake.now_us += 1000;
    const char *wrong = engine_check(s->engine);
    if (wrong) fail(s, wrong);
    if (s->fake.wrong) fail(s, s->fake.wrong);
    for (int i = 0; i < N_SHARED; i++)
        if (s->shared[i].wrong) fail(s, s->shared[i].wrong);
}

static bool any_busy(const struct sim *s)
{
    for (int i = 0; i < N_CLIENT; i++)
        if (s->client[i].busy) return true;
    return false;
}

/* Maximum wait of a client. It is the work present at the arrival of a request, at the worst pace,
 * after the starvation bound of the policies. */
enum { WAIT_US_MAX = 90 * 1000 * 1000 };

static void sim_run(struct sim *s, const struct way *w, int n_step)
{
    sim_open(s, w);
    for (int i = 0; i < n_step && !s->failed; i++) sim_step(s, true);
    for (int i = 0; i < 100000 && any_busy(s) && !s->failed; i++) sim_step(s, false);
    if (any_busy(s)) fail(s, "a request is lost");
    if (pages_n_free(s->engine->pages) != w->n_page) fail(s, "a page leaked");
    if (w->n_state && pages_n_free(s->engine->states) != w->n_state) fail(s, "a state leaked");
    if (share_total(s->engine->door.place) || s->engine->door.newest) fail(s, "a place leaked");
    if (s->wait_us_max > WAIT_US_MAX) fail(s, "a request starved");
    stats_read(engine_stats(s->engine), &s->stats);
    sim_close(s);
}

/* Optional parts of a sequence in addition to K and V: drafts, scripts, recurrent state. */
enum { KIND_DRAFT = 1, KIND_CONSTRAINT = 2, KIND_STATE = 4, N_KIND = 8 };

/* Return random options: pools for one sequence up to many sequences, pages of 1 to 64 tokens,
 * chunks of one row up to many rows. */
static struct way way_of(const char *policy, int i, int kind, uint64_t *rng)
{
    struct way w = {.policy = policy, .page_rows = 1 << (i % 7), .seed = rng_next(rng)};
    int n = LEN_MAX / 4 << rng_below(rng, 5); /* number of tokens in the pool, in [40, 640] */
    w.n_page = n / w.page_rows > 0 ? n / w.page_rows : 1;
    w.n_seq = 1 + (int)rng_below(rng, 16);
    w.n_row = w.n_seq + (int)rng_below(rng, 3) * (int)rng_below(rng, 60);
    w.n_host_page = rng_below(rng, 2) ? (int)rng_below(rng, (uint64_t)w.n_page + 1) : 0;
    w.n_swap_copy =
        rng_below(rng, 2) ? (int)rng_below(rng, (uint64_t)w.n_host_page + 1) : w.n_host_page;
    w.copy_rate = rng_below(rng, 2) ? 5 : 40; /* 20: as fast as computing */
    w.window = rng_below(rng, 4) ? 0 : 1 + (int)rng_below(rng, 40);
    w.floods = rng_below(rng, 3) == 0;
    w.jumps = rng_below(rng, 2);
    w.constrained = kind & KIND_CONSTRAINT;
    if (kind & KIND_STATE) {
        w.n_state = 2 + (int)rng_below(rng, 3) * (int)rng_below(rng, 4 * (uint64_t)w.n_seq + 20);
        w.n_host_state = 2 * (int)rng_below(rng, 8);
        w.no_kv = rng_below(rng, 3) == 0;
        if (w.no_kv) w.window = 1;
    }
    w.no_jump_forward = rng_below(rng, 3) == 0;
    w.n_short = w.seed % 3 ? 0 : 1 + (int)(w.seed / 3 % LEN_MAX);
    w.n_draft = kind & KIND_DRAFT ? 1 + (int)rng_below(rng, DRAFT_MAX) : 0;
    return w;
}

TEST(simulated_requests_get_their_own_answers)
{
    static struct sim s;
    int64_t sum[STAT_COUNT] = {0};
    struct err e;
    uint64_t rng = test_long() ? 42 : 3; /* the sample's seed has many swaps */
    NEED_OK(pool_open(&pool, 2, &e), &e);
    int64_t n_of[N_KIND] = {0}, n_found_state = 0, n_state_in = 0;
    int64_t n_mask = 0, n_proposed = 0, n_accepted = 0, n_done = 0, n_aborted = 0, n_expired = 0,
            n_cached = 0, n_refused = 0, n_evicted = 0, n_lengthened = 0;
    int64_t most = test_long() ? 1000000 : 14000;
    int n_run = 0;
    for (int i = 0; sum[STAT_steps] < most; i++)
        for (int p = 0; policy_name(p); p++) {
            int kind = n_run++ % N_KIND;
            struct way w = way_of(policy_name(p), i, kind, &rng);
            sim_run(&s, &w, test_long() ? 5000 : 400);
            if (s.failed) return;
            for (int k = 0; k < STAT_COUNT; k++) sum[k] += s.stats.value[k];
            n_done += s.n_done, n_aborted += s.n_aborted, n_cached += s.n_cached;
            n_expired += s.n_expired;
            n_lengthened += s.n_lengthened;
            n_refused += s.n_refused, n_evicted += s.n_evicted;
            n_of[kind] += s.n_done - s.n_aborted - s.n_expired;
            n_state_in += s.fake.n_state_in;
            n_found_state += w.n_state > 0 ? s.n_cached : 0;
            n_proposed += s.n_proposed, n_accepted += s.n_accepted;
            for (int k = 0; k < N_SHARED; k++) n_mask += s.shared[k].n_mask;
        }
    pool_close(pool);
    pool = NULL;
    test_note("%lld steps of %lld rows, %lld requests, %lld of them aborted, %lld too late, %lld "
              "tokens found",
              (long long)sum[STAT_steps], (long long)sum[STAT_rows], (long long)n_done,
              (long long)n_aborted, (long long)n_expired, (long long)n_cached);
    test_note("%lld preemptions, %lld of them swapped, %lld to displace; pages: %lld out, %lld in, "
              "%lld copied",
              (long long)sum[STAT_preemptions], (long long)sum[STAT_swapped],
              (long long)sum[STAT_displaced], (long long)sum[STAT_pages_out],
              (long long)sum[STAT_pages_in], (long long)sum[STAT_pages_copied]);
    test_note("with recurrent state: %lld tokens found, %lld states back from host memory",
              (long long)n_found_state, (long long)n_state_in);
    test_note("%lld masks; %lld draft tokens, %lld of them accepted", (long long)n_mask,
              (long long)n_proposed, (long long)n_accepted);
    test_note("%lld choices outgrow the short list", (long long)n_lengthened);
    EXPECT(n_lengthened > most / 500);
    test_note("%lld refused of holders that flood, %lld after they were queued",
              (long long)n_refused, (long long)n_evicted);
    EXPECT(n_refused > most / 100 && n_evicted > most / 1000);
    EXPECT(n_done - n_aborted - n_expired > most / 100);
    EXPECT(n_aborted > most / 1000 && n_expired > most / 10000);
    EXPECT(n_cached > most / 10);
    for (int i = 0; i < N_KIND; i++) EXPECT(n_of[i] > most / 1000);
    EXPECT(n_found_state > most / 200 && n_state_in > most / 10000);
    EXPECT(n_mask > most / 4);
    EXPECT(n_proposed > most / 4 && n_accepted > most / 10);
    EXPECT(sum[STAT_preemptions] > most / 200 && sum[STAT_displaced] > most / 5000);
    EXPECT(sum[STAT_swapped] > most / 2000 && sum[STAT_pages_in] > most / 1000);
    EXPECT(sum[STAT_pages_copied] > most / 1000);
}

/* Goal: requests of a model of encoder and decoder get the correct answers. A source is computed in
 * one step, and never read from the pages of another request. */
TEST(simulated_sources_get_their_own_answers)
{
    static struct sim s;
    int64_t sum[STAT_COUNT] = {0}, n_done = 0, n_aborted = 0, n_cached = 0, n_proposed = 0;
    struct err e;
    uint64_t rng = 43;
    const int64_t most = test_long() ? 300000 : 20000;
    int n_run = 0;
    NEED_OK(pool_open(&pool, 2, &e), &e);
    for (int i = 0; sum[STAT_steps] < most; i++)
        for (int p = 0; policy_name(p); p++) {
            struct way w = way_of(policy_name(p), i, n_run++ % KIND_STATE, &rng);
            w.window = 0;
            w.n_start = 1 + n_run % 2;
            if (w.n_page * w.page_rows < 4) w.n_page = 4 / w.page_rows;
            sim_run(&s, &w, test_long() ? 5000 : 400);
            if (s.failed) return;
            for (int k = 0; k < STAT_COUNT; k++) sum[k] += s.stats.value[k];
            n_done += s.n_done, n_aborted += s.n_aborted, n_cached += s.n_cached;
            n_proposed += s.n_proposed;
        }
    pool_close(pool);
    pool = NULL;
    test_note(
        "%lld steps of %lld rows, %lld requests, %lld aborted, %lld preemptions, %lld of them "
        "swapped, %lld pages copied, %lld draft tokens",
        (long long)sum[STAT_steps], (long long)sum[STAT_rows], (long long)n_done,
        (long long)n_aborted, (long long)sum[STAT_preemptions], (long long)sum[STAT_swapped],
        (long long)sum[STAT_pages_copied], (long long)n_proposed);
    EXPECT(n_done - n_aborted > most / 100 && n_aborted > most / 1000);
    EXPECT_INT(n_cached, 0);
    EXPECT(sum[STAT_preemptions] > most / 200 && sum[STAT_swapped] > most / 2000);
    EXPECT(sum[STAT_pages_copied] > most / 1000 && n_proposed > most / 10);
}

/* The check can fail: wrong K and V give a wrong token. */
TEST(the_simulation_detects_wrong_kv)
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
    predict(&s, r, c);
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

/* A static batch recomputes the last row of finished sequences in each step. */
TEST(padding_writes_no_page_that_others_hold)
{
    enum { ROWS = 16 };
    static const int32_t stop[] = {-1};
    static struct sim s;
    struct way w = {
        .policy = "static", .page_rows = ROWS, .n_page = 20, .n_row = 100, .n_seq = 4, .seed = 1};
    struct err e;
    sim_open(&s, &w);
    for (int i = 0; i < 2; i++) {
        struct client *c = &s.client[i];
        struct request *r = request_open(&e);
        for (int k = 0; k < 2 * ROWS; k++) (void)!vec_push(&r->prompt, k % FAKE_VOCAB);
        r->params.stop_id = stop;
        r->params.temperature = 0;
        r->max_tokens = i ? 8 : 1;
        r->reply = c->queue;
        c->id = r->id;
        c->busy = true;
        predict(&s, r, c);
        NEED_OK(engine_submit(s.engine, r, &e), &e);
    }
    while (engine_step(s.engine)) continue;
    for (int i = 0; i < 2; i++) {
        drain(&s, &s.client[i]);
        EXPECT(!s.client[i].busy);
    }
    if (s.fake.wrong) fail(&s, s.fake.wrong);
    sim_close(&s);
}

/* Goal: the continuation of a page is not found after another page whose tokens have an equal XXH3
 * hash from seed 0. A generalized birthday search finds such pages in a second (Wagner, 2002). It
 * needs eight lists of 2^18 entries, one for each 16 bytes. */
TEST(pages_whose_tokens_have_equal_hashes_differ)
{
    enum { ROWS = 32 };
    static const int32_t stop[] = {-1},
                         alike[2][ROWS] = {
                             {17, 6,  23, 10, 3,  19, 2,  11, 1,  7, 6, 20, 22, 15, 16, 21,
                              13, 18, 20, 5,  21, 0,  11, 19, 19, 7, 8, 6,  11, 12, 13, 13},
                             {21, 23, 9,  21, 8,  17, 13, 13, 4,  12, 23, 4, 15, 19, 2,  4,
                              13, 13, 11, 3,  16, 12, 4,  9,  11, 21, 13, 0, 8,  14, 14, 17}};
    static struct sim s;
    struct way w = {
        .policy = "fcfs", .page_rows = ROWS, .n_page = 20, .n_row = 100, .n_seq = 4, .seed = 1};
    struct err e;
    EXPECT(hash_bytes(alike[0], sizeof alike[0], 0) == hash_bytes(alike[1], sizeof alike[1], 0));
    sim_open(&s, &w);
    for (int i = 0; i < 2; i++) {
        struct client *c = &s.client[i];
        struct request *r = request_open(&e);
        for (int k = 0; k < 2 * ROWS + 1; k++)
            (void)!vec_push(&r->prompt, k < ROWS ? alike[i][k] : k % FAKE_VOCAB);
        r->params.stop_id = stop;
        r->params.temperature = 0;
        r->max_tokens = 8;
        r->reply = c->queue;
        c->id = r->id;
        c->busy = true;
        predict(&s, r, c);
        NEED_OK(engine_submit(s.engine, r, &e), &e);
        while (engine_step(s.engine)) {
        }
        drain(&s, c);
        EXPECT(!c->busy);
        if (s.fake.wrong) fail(&s, s.fake.wrong);
    }
    sim_close(&s);
}
