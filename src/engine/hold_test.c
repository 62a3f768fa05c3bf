/* hold_test.c - goal: salts separate prefixes, prompt logprobs cover every token, and windows free
 * pages. Deadlines and drains end requests, preemption allocates nothing, and little of a page is
 * wasted. Method: an engine over a model that computes nothing, on a virtual clock. */
#include "../../tests/unit.h"

#include "base/os.h"
#include "engine_impl.h"

#include <stdlib.h>

enum { N_VOCAB = 32 };

/* Model that always generates token 1. */
struct idle_model {
    struct batch_limits limits;
    float *logits; /* [n_out, N_VOCAB] */
    int64_t now_us;
    int64_t n_row;
};

static struct model_out forward(void *ctx, const struct batch *b)
{
    struct idle_model *m = ctx;
    for (int i = 0; i < b->n_out; i++)
        for (int k = 0; k < N_VOCAB; k++) m->logits[i * N_VOCAB + k] = k == 1 ? 9 : 0;
    m->n_row += b->n_row;
    m->now_us += 1000;
    return (struct model_out){.logits = m->logits};
}

static int64_t now_us(void *ctx)
{
    return ((struct idle_model *)ctx)->now_us;
}

/* Propose the tokens that the model generates. */
static int propose(void *ctx, const struct request *r, int choice, const int32_t *token,
                   int n_token, int32_t *draft, int n)
{
    (void)ctx, (void)r, (void)choice, (void)token, (void)n_token;
    for (int i = 0; i < n; i++) draft[i] = 1;
    return n;
}

struct rig {
    struct idle_model m;
    struct engine *en;
    struct queue *q;
};

struct shape {
    int page_rows, n_page, n_row, n_seq, context, window, n_host_page, n_short, n_draft;
    double copy_rate;
    const char *policy;
    int64_t starvation_us;
};

static void rig_open(struct rig *r, const struct shape *s)
{
    struct err e;
    *r = (struct rig){.q = engine_reply_queue(), .m.now_us = 1000};
    r->m.limits =
        (struct batch_limits){.n_row = s->n_row,
                              .n_seq = s->n_seq,
                              .n_out = s->n_seq + 8,
                              .n_copy = s->n_seq + s->n_page,
                              .n_adapter = 2,
                              .n_short = s->n_short,
                              .page_stride = (s->context + s->page_rows - 1) / s->page_rows};
    r->m.logits = calloc((size_t)r->m.limits.n_out * N_VOCAB, sizeof *r->m.logits);
    struct executor x = {.ctx = &r->m,
                         .n_vocab = N_VOCAB,
                         .n_page = s->n_page,
                         .page_rows = s->page_rows,
                         .context_max = s->context,
                         .window = s->window,
                         .n_host_page = s->n_host_page,
                         .page_bytes = 1,
                         .copy_rate = s->copy_rate,
                         .limits = &r->m.limits,
                         .forward = forward,
                         .now_us = now_us};
    struct engine_options o = {.executor = x,
                               .check = true,
                               .drafter = {.n_max = s->n_draft, .propose = propose},
                               .queue_max = 20000,
                               .scheduler = s->policy,
                               .starvation_us = s->starvation_us};
    NEED_OK(engine_open(&r->en, &o, &e), &e);
}

static void rig_close(struct rig *r)
{
    engine_close(r->en);
    queue_close(r->q);
    free(r->m.logits);
}

static struct request *make(const struct rig *r, int n_prompt, int max_tokens)
{
    struct err e;
    struct request *rq = request_open(&e);
    for (int i = 0; i < n_prompt; i++) (void)!vec_push(&rq->prompt, 2 + i * i % 29);
    rq->max_tokens = max_tokens;
    rq->params.temperature = 0;
    rq->reply = r->q;
    return rq;
}

/* Run the request to its end. Return its last event. */
static struct event answer(struct rig *r, struct request *rq)
{
    struct err e;
    struct event ev = {0};
    if (engine_submit(r->en, rq, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    for (int i = 0; i < 10000 && ev.kind != EVENT_DONE; i++) {
        engine_step(r->en);
        while (ev.kind != EVENT_DONE && queue_pop(r->q, &ev, 0)) {
        }
    }
    return ev;
}

static const struct shape plain = {
    .page_rows = 16, .n_page = 64, .n_row = 64, .n_seq = 4, .context = 512};

/* ---- two lists of divisors (LongRoPE) ---- */

/* Goal: a text is computed again once, after its length exceeds the length of the short list. 30
 * tokens grow to 50: rows 0 to 39 have the short list, then rows 0 to 48 have the long list. The
 * maximum length that a client allows has no effect. */
TEST(a_text_that_outgrows_the_short_list_is_computed_again_once)
{
    for (int n_draft = 0; n_draft < 8; n_draft += 7)
        for (int policy = 0; policy < 2; policy++) {
            struct rig r;
            struct stats_view v;
            struct shape s = plain;
            s.n_short = 40, s.n_draft = n_draft;
            s.policy = policy ? "static" : NULL;
            rig_open(&r, &s);
            EXPECT_INT(answer(&r, make(&r, 30, 11)).usage.n_output, 11);
            EXPECT_INT(r.m.n_row, 40); /* the last token has no row */
            engine_reset_prefix_cache(r.en);
            r.m.n_row = 0;
            EXPECT_INT(answer(&r, make(&r, 30, 20)).usage.n_output, 20);
            EXPECT_INT(r.m.n_row, 40 + 49);
            stats_read(engine_stats(r.en), &v);
            EXPECT_INT(v.value[STAT_recomputed], 40);
            engine_reset_prefix_cache(r.en);
            r.m.n_row = 0;
            EXPECT_INT(answer(&r, make(&r, 41, 9)).usage.n_output, 9); /* long from the start */
            EXPECT_INT(r.m.n_row, 49);
            rig_close(&r);
        }
}

/* Goal: texts share pages only with texts of the same list of divisors. */
TEST(a_long_text_finds_pages_of_long_texts_only)
{
    static const struct {
        int n_prompt, max_tokens, n_cached;
    } turn[] = {{30, 1, 0},  {30, 1, 16}, {100, 1, 0},  {100, 1, 96},
                {40, 1, 16}, {41, 1, 32}, {40, 20, 32}, {300, 1, 96}};
    struct rig r;
    struct shape s = plain;
    s.n_short = 40;
    rig_open(&r, &s);
    for (size_t i = 0; i < sizeof turn / sizeof turn[0]; i++)
        EXPECT_INT(answer(&r, make(&r, turn[i].n_prompt, turn[i].max_tokens)).usage.n_cached,
                   turn[i].n_cached);
    rig_close(&r);
}

TEST(prefixes_of_other_salts_and_adapters_are_not_found)
{
    struct rig r;
    rig_open(&r, &plain);
    static const struct {
        uint64_t salt;
        int adapter, n_cached;
    } turn[] = {{0, 0, 0},  {0, 0, 96}, {7, 0, 0}, {7, 0, 96}, {8, 0, 0},  {0, 0, 96},
                {0, 1, 0},  {0, 2, 0},  {7, 1, 0}, {0, 1, 96}, {0, 2, 96}, {7, 1, 96},
                {0, 0, 96}, {1, 0, 0},  {2, 0, 0}, {7, 0, 96}};
    enum { N = sizeof turn / sizeof turn[0] };
    int n_cached = 0;
    for (int i = 0; i < N; i++) {
        struct request *rq = make(&r, 100, 2);
        rq->cache_salt = turn[i].salt;
        rq->adapter = turn[i].adapter;
        EXPECT_INT(answer(&r, rq).usage.n_cached, turn[i].n_cached);
        n_cached += turn[i].n_cached;
    }
    struct stats_view v;
    stats_read(engine_stats(r.en), &v);
    EXPECT_INT(v.value[STAT_cache_queries], N * 100); /* the statistics count tokens */
    EXPECT_INT(v.value[STAT_cache_hits], n_cached);
    rig_close(&r);
}

TEST(requests_at_once_compute_their_common_prefix_once)
{
    /* Method: four requests in one step's inbox with 150 equal first tokens. Chunks of 32 rows also
     * end inside pages. */
    enum { N = 4, SHARED = 150, OWN = 20 };
    for (int n_row = 32; n_row <= 44; n_row += 6) {
        struct rig r;
        struct shape shape = plain;
        struct err e;
        shape.n_row = n_row;
        rig_open(&r, &shape);
        for (int i = 0; i < N; i++) {
            struct request *rq = make(&r, SHARED, 1);
            for (int k = 0; k < OWN; k++) (void)!vec_push(&rq->prompt, 2 + (k * k + i) % 29);
            NEED_OK(engine_submit(r.en, rq, &e), &e);
        }
        int n_done = 0, n_cached = 0;
        struct event ev;
        for (int i = 0; i < 100 && n_done < N; i++) {
            engine_step(r.en);
            while (queue_pop(r.q, &ev, 0))
                if (ev.kind == EVENT_DONE) n_done++, n_cached += ev.usage.n_cached;
        }
        struct stats_view v;
        stats_read(engine_stats(r.en), &v);
        EXPECT_INT(n_done, N);
        /* 9 pages are common; at most one chunk of these is computed twice, plus the end of the
         * first prompt */
        EXPECT(r.m.n_row <= SHARED + N * OWN + (N - 1) * (SHARED - 144) + n_row);
        EXPECT(n_cached >= (N - 1) * 144 - n_row && v.value[STAT_cache_hits] == n_cached);
        rig_close(&r);
    }
}

TEST(prompt_logprobs_compute_what_the_cache_has)
{
    struct rig r;
    rig_open(&r, &plain);
    answer(&r, make(&r, 100, 1));
    int64_t before = r.m.n_row;
    struct request *rq = make(&r, 100, 1);
    rq->n_prompt_logprob = 0;
    EXPECT_INT(answer(&r, rq).usage.n_cached, 0);
    EXPECT_INT(r.m.n_row - before, 100);
    before = r.m.n_row;
    EXPECT_INT(answer(&r, make(&r, 100, 1)).usage.n_cached, 96);
    EXPECT_INT(r.m.n_row - before, 4);
    rig_close(&r);
}

/* Method: a sequence ten times as long as its pool, and a follow-up that finds its remaining
 * pages. */
TEST(pages_behind_the_window_are_free)
{
    struct shape s = {
        .page_rows = 8, .n_page = 12, .n_row = 16, .n_seq = 2, .context = 1024, .window = 40};
    struct rig r;
    struct err e;
    rig_open(&r, &s);
    NEED_OK(engine_submit(r.en, make(&r, 900, 60), &e), &e);
    int most = 0;
    while (engine_step(r.en)) {
        int held = s.n_page - pages_n_free(r.en->pages);
        most = held > most ? held : most;
    }
    EXPECT(most <= (40 + 16 + 7) / 8 + 1);
    struct event ev = {0};
    while (queue_pop(r.q, &ev, 0)) {
    }
    EXPECT_INT(ev.usage.n_output, 60);
    EXPECT_INT(answer(&r, make(&r, 900, 1)).usage.n_cached,
               0); /* the last pages are those of the answer */
    EXPECT_INT(answer(&r, make(&r, 900, 1)).usage.n_cached, 896);
    rig_close(&r);
}

/* ---- order ---- */

/* Return the number of steps until a running long prompt is answered. Short prompts, one for each
 * finished short prompt, take all rows of a step and rank before the long prompt. */
static int steps_behind_short_ones(const char *policy, int n_step)
{
    struct shape s = plain;
    struct rig r;
    struct err e;
    s.policy = policy, s.n_seq = 8, s.starvation_us = 200 * 1000;
    rig_open(&r, &s);
    answer(&r, make(&r, 60, 1)); /* the first pages of this prompt are cached from this step */
    struct request *rq = make(&r, 400, 1);
    rq->prompt.v[0] = 31;
    rq->priority = 5;
    uint64_t id = rq->id;
    int n_short = 0, step = 0;
    struct event ev = {0};
    if (engine_submit(r.en, rq, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    for (bool done = false; step < n_step && !done; step++) {
        engine_step(r.en);
        while (queue_pop(r.q, &ev, 0))
            if (ev.kind == EVENT_DONE) done |= ev.request_id == id, n_short -= ev.request_id != id;
        for (; n_short < s.n_seq - 1; n_short++)
            if (engine_submit(r.en, make(&r, 60, 1), &e) != 0)
                test_fail(__FILE__, __LINE__, "%s", e.text);
    }
    rig_close(&r);
    return step;
}

TEST(a_prompt_that_runs_does_not_starve_behind_shorter_ones)
{
    static const char *const policy[] = {"fcfs", "priority", "mlfq", "sjf", "lpm", "fair"};
    for (int i = 0; i < 6; i++) {
        int n = steps_behind_short_ones(policy[i], 1000);
        if (n > 200 + 20) test_fail(__FILE__, __LINE__, "%s: %d steps", policy[i], n);
    }
}

TEST(what_the_cache_has_is_not_paid_for_in_advance)
{
    struct shape s = plain;
    struct rig r;
    struct err e;
    s.policy = "fair", s.n_row = 16;
    rig_open(&r, &s);
    answer(&r, make(&r, 400, 1));
    /* prompts of this length leave no rows for the other request */
    struct request *other = make(&r, 60, 1);
    other->prompt.v[0] = 31;
    NEED_OK(engine_submit(r.en, other, &e), &e);
    NEED_OK(engine_submit(r.en, make(&r, 400, 1), &e), &e);
    engine_step(r.en);
    const struct seq *first = r.en->running[0], *second = r.en->running[1];
    EXPECT(r.en->n_running == 2 && first->n_kv == 16 && second->n_kv == 384);
    /* the charges of 44 and of 16 rows */
    EXPECT(second->entity.fair.prepaid_us > 0 &&
           second->entity.fair.prepaid_us * 2.5 < first->entity.fair.prepaid_us);
    rig_close(&r);
}

TEST(weights_of_shares_are_bounded)
{
    struct rig r;
    struct err e;
    rig_open(&r, &plain);
    static const double bad[] = {0, -1, 1e-300, 1e300};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct request *rq = make(&r, 10, 1);
        rq->holder_weight = bad[i];
        EXPECT_INT(engine_submit(r.en, rq, &e), ERR_ARG);
        EXPECT(strcmp(e.field, "holder_weight") == 0);
        request_close(rq);
    }
    rig_close(&r);
}

TEST(a_request_that_is_late_ends_with_what_it_has)
{
    struct rig r;
    rig_open(&r, &plain);
    struct request *rq = make(&r, 10, 400);
    rq->deadline_us = 50 * 1000; /* fifty steps */
    struct event ev = answer(&r, rq);
    EXPECT_INT(ev.finish, FINISH_TIMEOUT);
    EXPECT(ev.usage.n_output >= 48 && ev.usage.n_output <= 51);
    EXPECT_TEXT(finish_name(ev.finish), "timeout");
    EXPECT_INT(pages_n_free(r.en->pages), 64);
    rig_close(&r);
}

TEST(a_cancelled_prompt_is_gone_within_a_step)
{
    struct rig r;
    struct err e;
    rig_open(&r, &plain);
    struct request *rq = make(&r, 500, 5);
    uint64_t id = rq->id;
    NEED_OK(engine_submit(r.en, rq, &e), &e);
    for (int i = 0; i < 3; i++) engine_step(r.en);
    EXPECT_INT(r.m.n_row, 3 * 64);
    engine_cancel(r.en, id);
    engine_step(r.en);
    EXPECT_INT(r.m.n_row, 3 * 64);
    EXPECT_INT(pages_n_free(r.en->pages), 64);
    rig_close(&r);
}

static void preempt_without_malloc(const struct shape *s, enum stat_id what)
{
    struct rig r;
    struct err e;
    struct stats_view v[2];
    rig_open(&r, s);
    for (int i = 0; i < 12; i++) {
        struct request *rq = make(&r, 5 + i, 100);
        rq->params.seed = (uint64_t)i;
        NEED_OK(engine_submit(r.en, rq, &e), &e);
    }
    for (int i = 0; i < 20; i++) engine_step(r.en);
    struct event ev;
    stats_read(engine_stats(r.en), &v[0]);
    uint64_t before = test_n_malloc();
    for (int i = 0; i < 150; i++) {
        engine_step(r.en);
        while (queue_pop(r.q, &ev, 0)) {
        }
    }
    EXPECT_INT(test_n_malloc() - before, 0);
    stats_read(engine_stats(r.en), &v[1]);
    EXPECT(v[1].value[what] - v[0].value[what] > 5);
    rig_close(&r);
}

TEST(preemption_allocates_nothing)
{
    struct shape s = {.page_rows = 4, .n_page = 75, .n_row = 64, .n_seq = 12, .context = 128};
    preempt_without_malloc(&s, STAT_preemptions);
    s.n_host_page = 200, s.copy_rate = 1e9;
    preempt_without_malloc(&s, STAT_swapped);
}

/* ---- waste ---- */

/* Goal: few positions of pages are beyond a sequence's tokens, averaged over its life. Method: all
 * prompts and answers of the Azure conversation trace, at page sizes in [1, 64]. */
TEST(little_of_a_page_is_wasted_on_real_lengths)
{
    const char *path = data_path("traces/AzureLLMInferenceTrace_conv.csv");
    if (!path) SKIP("the traces are not here");
    struct buf b = {0};
    struct err e;
    NEED_OK(file_read(&b, path, 1 << 24, &e), &e);
    double used[7] = {0}, held[7] = {0};
    buf_add(&b, "", 1);
    char *line = strchr(b.data, '\n');
    int n = 0;
    for (; line && line[1]; line = strchr(line + 1, '\n'), n++) {
        const char *at = strchr(line + 1, ',');
        if (!at) break;
        char *next;
        long prompt = strtol(at + 1, &next, 10), output = strtol(next + 1, NULL, 10);
        for (int k = 0; k < 7; k++)
            for (long len = prompt; len <= prompt + output; len++) {
                used[k] += (double)len;
                held[k] += (double)((len + (1 << k) - 1) >> k << k);
            }
    }
    for (int k = 0; k < 7; k++)
        test_note("pages of %2d: %.2f %% wasted", 1 << k, 100 * (1 - used[k] / held[k]));
    EXPECT(n > 19000);
    EXPECT(1 - used[5] / held[5] <= 0.04); /* the default */
    buf_deinit(&b);
}
