/* state_test.c - goal: the cached recurrent states are those that save the most work, and an
 * eviction changes no answer. Method: requests one after the other to the fake model with recurrent
 * layers (fake_test.h), whose answers depend on the whole text, with few slots. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "fake_test.h"

#include <stdlib.h>

enum { ROWS = 16, N_PAGE = 40000, CONTEXT = 4096 };

struct rig {
    struct fake fake;
    struct engine *en;
    struct queue *q;
    int32_t text[CONTEXT]; /* text of the last request with its answer */
    int n;
    int n_logprob; /* n_prompt_logprob of the requests */
};

static void rig_open_sized(struct rig *r, int n_state, int n_page)
{
    struct err e;
    const bool no_kv = r->fake.no_kv;
    *r = (struct rig){.q = engine_reply_queue(), .n_logprob = -1};
    r->fake = (struct fake){.no_kv = no_kv,
                            .window = no_kv,
                            .n_page = n_page,
                            .page_rows = ROWS,
                            .now_us = 1000,
                            .limits = {.n_row = 256,
                                       .n_seq = 2,
                                       .n_out = 16,
                                       .n_copy = 64,
                                       .n_state = n_state,
                                       .page_stride = CONTEXT / ROWS}};
    NEED_OK(fake_open(&r->fake, &e), &e);
    struct executor x = fake_executor(&r->fake);
    x.context_max = CONTEXT;
    NEED_OK(engine_open(&r->en, &(struct engine_options){.executor = x}, &e), &e);
    r->fake.pages = r->en->pages, r->fake.states = r->en->states;
}

static void rig_open(struct rig *r, int n_state)
{
    rig_open_sized(r, n_state, N_PAGE);
}

static void rig_close(struct rig *r)
{
    if (r->fake.wrong) test_fail(__FILE__, __LINE__, "%s", r->fake.wrong);
    engine_close(r->en);
    queue_close(r->q);
    fake_close(&r->fake);
}

/* Run a request with text[0, n), and append its answer. Return the number of its cached tokens. */
static int run(struct rig *r, int n_output)
{
    struct err e;
    struct event ev = {0};
    struct request *rq = request_open(&e);
    for (int i = 0; i < r->n; i++) (void)!vec_push(&rq->prompt, r->text[i]);
    rq->max_tokens = n_output;
    rq->params.temperature = 0;
    rq->n_prompt_logprob = r->n_logprob;
    rq->reply = r->q;
    if (engine_submit(r->en, rq, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    while (ev.kind != EVENT_DONE) {
        engine_step(r->en);
        while (ev.kind != EVENT_DONE && queue_pop(r->q, &ev, 0))
            if (ev.kind == EVENT_TOKEN) r->text[r->n++] = ev.token;
    }
    return ev.usage.n_cached;
}

/* Append n tokens that follow from a number. */
static void append(struct rig *r, uint64_t number, int n)
{
    uint64_t rng = number * 2 + 1;
    for (int i = 0; i < n; i++) r->text[r->n++] = (int32_t)rng_below(&rng, FAKE_VOCAB);
}

/* Run a text of n tokens that follow from a number. Return the number of its cached tokens. */
static int run_text(struct rig *r, uint64_t number, int n)
{
    r->n = 0;
    append(r, number, n);
    return run(r, 1);
}

/* ---- reasons of misses ---- */

/* Set miss to the numbers of tokens that a request with text[0, n) does not find, by reason:
 * recurrent state, results, not cached, rest. Return their sum with the cached tokens. */
static int misses_of(struct rig *r, uint64_t number, int n, int64_t miss[4])
{
    static const enum stat_id reason[] = {STAT_missed_state, STAT_missed_results, STAT_missed_pages,
                                          STAT_missed_rest};
    static struct stats_view v[2];
    r->n = 0;
    append(r, number, n);
    stats_read(engine_stats(r->en), &v[0]);
    int64_t sum = run(r, 1);
    stats_read(engine_stats(r->en), &v[1]);
    for (int i = 0; i < 4; i++) {
        miss[i] = v[1].value[reason[i]] - v[0].value[reason[i]];
        sum += miss[i];
    }
    return (int)sum;
}

static void expect_misses(struct rig *r, int line, int n, const int64_t want[4])
{
    int64_t miss[4];
    EXPECT_INT(misses_of(r, 1, n, miss), n);
    for (int i = 0; i < 4; i++)
        if (miss[i] != want[i])
            test_fail(__FILE__, line, "text %d, %d tokens: reason %d has %d tokens, not %d", 1, n,
                      i, (int)miss[i], (int)want[i]);
}

/* Goal: each token of a prompt is found in the cache, or counted with the reason why not: with K
 * and V, and in a model that has only recurrent state. */
TEST(every_prompt_token_is_found_or_has_a_reason)
{
    enum { N = 200, WHOLE = 192 };
    /* without K and V, only the state is missing */
    static const int64_t no_state[] = {WHOLE, 0, 0, N - WHOLE},
                         no_page[] = {0, 0, WHOLE, N - WHOLE};
    for (int no_kv = 0; no_kv < 2; no_kv++) {
        struct rig *r = calloc(1, sizeof *r);
        r->fake.no_kv = no_kv;
        rig_open(r, 6);
        expect_misses(r, __LINE__, 10, (int64_t[]){0, 0, 0, 10});
        expect_misses(r, __LINE__, N, no_kv ? no_state : no_page);
        expect_misses(r, __LINE__, N, (int64_t[]){0, 0, 0, N - WHOLE});
        r->n_logprob = 2;
        expect_misses(r, __LINE__, N, (int64_t[]){0, WHOLE, 0, N - WHOLE});
        r->n_logprob = -1;
        for (uint64_t i = 0; i < 40; i++) run_text(r, 1000 + i, N);
        expect_misses(r, __LINE__, N, no_state);
        engine_reset_prefix_cache(r->en);
        expect_misses(r, __LINE__, N, no_kv ? no_state : no_page);
        rig_close(r);
        free(r);
    }
}

/* ---- a mixed load ---- */

enum { N_CHAT = 8, N_DOCUMENT = 5 };

struct chat {
    int32_t text[CONTEXT];
    int n;
};

/* Run one request of the load: a turn of a chat, a question about a document, a text with a common
 * beginning, or a text of its own. Return the number of its cached tokens. */
static int run_one(struct rig *r, struct chat *chat, uint64_t *rng, uint64_t number)
{
    const int kind = (int)rng_below(rng, 10);
    struct chat *c = &chat[rng_below(rng, N_CHAT)];
    r->n = 0;
    if (kind < 3) { /* a chat of some turns */
        if (c->n > 1500) c->n = 0;
        memcpy(r->text, c->text, (size_t)c->n * sizeof *c->text);
        r->n = c->n;
        append(r, number, c->n ? 20 + (int)rng_below(rng, 100) : 200);
    } else if (kind < 5) {
        append(r, 1 + rng_below(rng, N_DOCUMENT), 2000);
        append(r, number, 30);
    } else if (kind < 8) {
        append(r, 100, 300);
        append(r, number, 50 + (int)rng_below(rng, 200));
    } else
        append(r, number, 50 + (int)rng_below(rng, 1500));
    const int n = run(r, 40);
    if (kind < 3) memcpy(c->text, r->text, (size_t)r->n * sizeof *c->text), c->n = r->n;
    return n;
}

/* Return the share of the tokens of prompts that the cache has. */
static double mixed_share(int n_state, uint64_t seed)
{
    enum { N = 800 };
    struct rig *r = calloc(1, sizeof *r);
    struct chat *chat = calloc(N_CHAT, sizeof *chat);
    uint64_t rng = seed;
    double n_found = 0, n_all = 0;
    rig_open(r, n_state);
    for (int i = 0; i < N; i++) {
        const int n = run_one(r, chat, &rng, 1000 + (uint64_t)i);
        if (i < N / 4) continue;
        n_found += n, n_all += r->n - 40;
    }
    rig_close(r);
    free(r);
    free(chat);
    return n_found / n_all;
}

/* Goal: of the prompts' tokens, the cache has many more than with an LRU, which has 0.09, 0.30 and
 * 0.51 (docs/measurements.md). */
TEST(a_mixed_load_finds_its_prefixes)
{
    static const int n_state[] = {16, 64, 128};
    static const double least[] = {0.105, 0.55, 0.65};
    for (int i = 0; i < 3; i++) {
        const double share = mixed_share(n_state[i], 3);
        test_note("%d states: %.3f of the prompts' tokens are cached", n_state[i], share);
        EXPECT(share >= least[i]);
    }
}

/* ---- single cases ---- */

/* Goal: a long text stays while short texts, each used once, need more states than there are. An
 * LRU evicts the long text. */
TEST(a_long_text_stays_in_the_cache_while_short_ones_pass)
{
    enum { LONG = 1200, SHORT = 100 };
    struct rig *r = calloc(1, sizeof *r);
    rig_open(r, 12);
    EXPECT_INT(run_text(r, 1, LONG), 0);
    for (int i = 0; i < 40; i++) run_text(r, 1000 + (uint64_t)i, SHORT);
    EXPECT_INT(run_text(r, 1, LONG), (LONG - 1) / ROWS * ROWS);
    rig_close(r);
    free(r);
}

/* Goal: a long text without further requests leaves the cache in the end. */
TEST(an_unused_long_text_leaves_the_cache)
{
    enum { LONG = 1200, SHORT = 100 };
    struct rig *r = calloc(1, sizeof *r);
    rig_open(r, 12);
    EXPECT_INT(run_text(r, 1, LONG), 0);
    for (int i = 0; i < 400; i++) run_text(r, 1000 + (uint64_t)i, SHORT);
    EXPECT_INT(run_text(r, 1, LONG), 0);
    rig_close(r);
    free(r);
}

/* Goal: of texts with equal lengths and one use each, the last used ones stay, as in an LRU. */
TEST(equal_texts_leave_the_cache_in_the_order_of_their_uses)
{
    enum { N = 30, N_STATE = 14, LENGTH = 100 };
    struct rig *r = calloc(1, sizeof *r);
    int n_kept = 0;
    rig_open(r, N_STATE);
    for (int i = 0; i < N; i++) run_text(r, 1000 + (uint64_t)i, LENGTH);
    /* from the newest to the oldest, so that a hit evicts no state of a newer text */
    for (int i = N - 1; i >= 0; i--) {
        const int n = run_text(r, 1000 + (uint64_t)i, LENGTH);
        EXPECT(n == 0 || n == (LENGTH - 1) / ROWS * ROWS);
        EXPECT(n == 0 || n_kept == N - 1 - i); /* no older text is kept after a lost one */
        n_kept += n > 0;
    }
    test_note("%d texts kept with %d states", n_kept, N_STATE);
    EXPECT(n_kept >= N_STATE - 4);
    rig_close(r);
    free(r);
}

/* Goal: states whose pages of K and V are evicted do not displace states that can be found. */
TEST(a_state_without_its_pages_leaves_first)
{
    enum { N_SHORT = 6 };
    struct rig *r = calloc(1, sizeof *r);
    rig_open_sized(r, 14, 80);
    for (uint64_t i = 1; i <= 4; i++) run_text(r, i, 1100); /* of 80 pages, each takes 69 */
    for (uint64_t i = 0; i < 2 * N_SHORT; i++) {
        const int n = run_text(r, 1000 + i % N_SHORT, 150);
        EXPECT_INT(n, i < N_SHORT ? 0 : 144);
    }
    rig_close(r);
    free(r);
}
