/* same_test.c - goal: a request's tokens and logprobs do not depend on anything but itself (docs/design.md 5):
 * the strongest test quoth has. Method: requests of mixed length and sampling settings on golden models,
 * first one at a time without caches, then in every other way of serving them: all at once, with a pool
 * that makes them preempt each other all the time, by copying and by computing again, with prefix
 * hits, under every policy, with every page size and with chunks of 16 to 8192 rows. All bits must be
 * equal. ./test takes a sample of requests and ways; QUOTH_LONG=1 takes 200 requests and all. */
#include "../../tests/unit.h"

#include "base/os.h"
#include "base/rng.h"
#include "rig_test.h"

#include <stdlib.h>

enum { N_REQUEST_MAX = 280, N_CHOICE = 3, CONTEXT = 200, D_MAX = 64 };

struct way {
    const char *policy;
    int page_rows, n_token, n_row, n_seq; /* n_token: of the pool */
    enum { AGAIN, SWAP } preempt;
    bool alone;
};

struct answers {
    struct {
        int n_token, n_done;
        int32_t token[CONTEXT];
        uint64_t logprobs; /* their hash */
    } choice[N_REQUEST_MAX][N_CHOICE];
    uint64_t prompt_logprobs[N_REQUEST_MAX];
    float pooled[N_REQUEST_MAX][D_MAX];
    struct stats_view stats;
    int64_t n_cached;
};

static uint64_t hash_on(uint64_t h, const void *data, size_t n)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i < n; i++) h = (h ^ byte[i]) * 0x100000001B3u;
    return h;
}

/* Every thirteenth is not answered but pooled. */
static void pool_instead(struct request *r, int i, float *pooled)
{
    r->pooling = i % 13 == 9 ? POOLING_MEAN + i % 3 : POOLING_NONE;
    if (!r->pooling) return;
    r->pooled = pooled;
    r->n = 1;
    r->max_tokens = r->best_of = 0;
    r->n_prompt_logprob = -1;
}

/* Request i. Its prompt begins like that of some others; its answer is long, so that sequences that
 * were admitted together outgrow the pool. */
static struct request *request_i(int i, const struct buf *ids, struct queue *q, struct answers *a)
{
    struct err e;
    struct request *r = request_open(&e);
    uint64_t rng = (uint64_t)i + 1;
    const int32_t *id = (const int32_t *)ids->data + i % 4 * 3;
    int n = 3 + (int)rng_below(&rng, i % 5 ? 10 : 60);
    for (int k = 0; k < n; k++)
        (void)!vec_push(&r->prompt, k < n * 3 / 4 ? id[k] : id[(k + i) % 60]);
    r->max_tokens = 10 + (int)rng_below(&rng, i % 4 == 1 ? 30 : 170);
    struct sample_params *p = &r->params;
    p->temperature = i % 4 ? 0.5f + 0.5f * rng_float(&rng) : 0;
    p->top_k = i % 6 == 1 ? 20 : -1;
    p->top_p = i % 3 ? 0.95f : 1;
    p->min_p = i % 7 == 2 ? 0.05f : 0;
    p->repetition_penalty = i % 5 == 3 ? 1.2f : 1;
    p->presence_penalty = i % 8 == 5 ? 0.5f : 0;
    p->dry_multiplier = i % 9 == 4 ? 0.8f : 0;
    p->mirostat = i % 11 == 6 ? 2 : 0;
    p->ignore_eos = i % 8;
    p->seed = (uint64_t)i * 77;
    p->seeded = true;
    p->n_logprob = i % 4 - 1;
    r->n_prompt_logprob = i % 10 == 7 ? 2 : -1;
    r->n = i % 12 == 8 ? N_CHOICE : 1;
    r->best_of = i % 24 == 8 ? N_CHOICE + 1 : 0;
    r->priority = i % 3;
    r->share_id = (uint64_t)(i % 4);
    pool_instead(r, i, a->pooled[i]);
    r->reply = q;
    return r;
}

static void listen(struct queue *q, struct answers *a, int i)
{
    struct event ev;
    while (queue_pop(q, &ev, 0)) {
        uint64_t *h =
            ev.kind == EVENT_PROMPT ? &a->prompt_logprobs[i] : &a->choice[i][ev.choice].logprobs;
        if (ev.kind == EVENT_TOKEN)
            a->choice[i][ev.choice].token[a->choice[i][ev.choice].n_token++] = ev.token;
        if (ev.kind == EVENT_DONE) a->n_cached += ev.usage.n_cached;
        if (ev.kind == EVENT_DONE) a->choice[i][0].n_done++;
        if (ev.kind != EVENT_TOKEN && ev.kind != EVENT_PROMPT) continue;
        *h = hash_on(*h, &ev.chosen, sizeof ev.chosen);
        *h = hash_on(*h, ev.top, (size_t)ev.n_top * sizeof *ev.top);
    }
}

static int rig_open(struct rig *r, const char *model, const struct way *w, struct err *e)
{
    struct rig_options o = {
        .model = model,
        .n_thread = 1,
        .m = {.kv_type = KV_F16,
              .page_rows = w->page_rows,
              .n_page = (w->n_token + w->page_rows - 1) / w->page_rows,
              .swap_bytes = 1 << 22,
              .context_max = CONTEXT,
              .batch = {.n_row = w->n_row, .n_seq = w->n_seq, .n_out = w->n_seq + 8}},
        .e = {.queue_max = N_REQUEST_MAX,
              .no_prefix_cache = w->alone,
              .scheduler = w->policy,
              .window_us = 1},
        .copy_rate = w->preempt == SWAP ? 1e12 : 0};
    return golden_open(r, &o, e);
}

static void run_until_idle(struct rig *r, struct queue **q, struct answers *a, int n)
{
    while (engine_n_waiting(r->en) + engine_n_running(r->en) > 0 || engine_step(r->en)) {
        engine_step(r->en);
        for (int i = 0; i < n; i++) listen(q[i], a, i);
    }
}

static void serve(const char *model, const struct way *w, int n, struct answers *a)
{
    struct rig r;
    struct err e;
    static struct queue *q[N_REQUEST_MAX];
    memset(a, 0, sizeof *a);
    NEED_OK(rig_open(&r, model, w, &e), &e);
    for (int i = 0; i < n; i++) {
        q[i] = engine_reply_queue();
        NEED_OK(engine_submit(r.en, request_i(i, &r.ids, q[i], a), &e), &e);
        if (w->alone) run_until_idle(&r, q, a, i + 1);
    }
    run_until_idle(&r, q, a, n);
    stats_read(engine_stats(r.en), &a->stats);
    EXPECT_INT(pages_n_free(r.en->pages), pages_n_total(r.en->pages));
    for (int i = 0; i < n; i++) queue_close(q[i]);
    golden_close(&r);
}

static bool same(const struct answers *a, const struct answers *b, int n)
{
    for (int i = 0; i < n; i++) {
        if (a->choice[i][0].n_done != 1 || b->choice[i][0].n_done != 1) return false;
        if (a->prompt_logprobs[i] != b->prompt_logprobs[i]) return false;
        if (memcmp(a->pooled[i], b->pooled[i], sizeof a->pooled[i]) != 0) return false;
        for (int k = 0; k < N_CHOICE; k++)
            if (a->choice[i][k].n_token != b->choice[i][k].n_token ||
                a->choice[i][k].logprobs != b->choice[i][k].logprobs ||
                memcmp(a->choice[i][k].token, b->choice[i][k].token,
                       sizeof a->choice[i][k].token) != 0)
                return false;
    }
    return true;
}

static struct answers want, got;
static int64_t n_preempted, n_swapped, n_way;

static void compare(const char *model, const struct way *w, int n)
{
    serve(model, w, n, &got);
    n_way++;
    n_preempted += got.stats.value[STAT_preemptions];
    n_swapped += got.stats.value[STAT_swapped];
    if (!same(&want, &got, n))
        test_fail(__FILE__, __LINE__,
                  "%s differs: %s, %d tokens in pages of %d, %d rows, %d sequences, %s", model,
                  w->policy, w->n_token, w->page_rows, w->n_row, w->n_seq,
                  w->preempt == SWAP ? "swapped" : "computed again");
}

/* Every policy, page size and chunk; pools from barely one request to all. */
static void compare_ways(const char *model, int n, int pool_part)
{
    static const int chunk[] = {16, 37, 128, 8192}, pool[] = {210, 300, 600, 8000};
    uint64_t rng = 9;
    int64_t preempted = n_preempted, swapped = n_swapped;
    for (int p = 0; policy_name(p); p++)
        for (int size = 0; size < 7; size++)
            for (int c = 0; c < 4; c++) {
                int i = (p + size + c) % 4;
                struct way w = {policy_name(p), 1 << size,        pool[i],
                                chunk[c],       i == 3 ? 64 : 12, rng_below(&rng, 2) ? SWAP : AGAIN,
                                false};
                w.n_token = w.n_token / pool_part + 3 * w.page_rows;
                if (test_long() || rng_below(&rng, 22) == 0) compare(model, &w, n);
            }
    test_note("%s: %d requests in %lld ways, preempted %lld times, %lld of them swapped", model, n,
              (long long)n_way, (long long)(n_preempted - preempted),
              (long long)(n_swapped - swapped));
}

/* qwen3 attends to everything; all layers of mistral have a window of 16, so that pages behind it are freed. */
TEST(answers_are_the_same_in_every_way_of_serving)
{
    if (!repo_path("tests/golden/qwen3")) SKIP("tests/golden is not here");
    static const char *const models[] = {"qwen3", "mistral"};
    int n = test_long() ? N_REQUEST_MAX : 60;
    n_preempted = n_swapped = 0;
    for (int i = 0; i < 2; i++) {
        struct way alone = {"fcfs", 32, 2 * CONTEXT, 512, N_CHOICE + 1, AGAIN, true};
        n_way = 0;
        serve(models[i], &alone, n, &want);
        EXPECT_INT(want.n_cached, 0);
        compare_ways(models[i], n, i ? 6 : 1);
    }
    EXPECT(n_preempted > (test_long() ? 10000 : 100));
    EXPECT(n_swapped > (test_long() ? 1000 : 30));
}

TEST(a_small_pool_preempts_hundreds_of_times_and_changes_nothing)
{
    if (!repo_path("tests/golden/qwen3")) SKIP("tests/golden is not here");
    int n = test_long() ? N_REQUEST_MAX : 80;
    struct way alone = {"fcfs", 32, 2 * CONTEXT, 512, N_CHOICE + 1, AGAIN, true};
    serve("qwen3", &alone, n, &want);
    for (int i = 0; i < 2; i++) {
        struct way w = {"fcfs", 2, CONTEXT, 64, 24, i ? SWAP : AGAIN, false};
        compare("qwen3", &w, n);
        EXPECT(got.n_cached > 0);
        int64_t again = got.stats.value[STAT_preemptions], swap = got.stats.value[STAT_swapped];
        test_note("%lld preemptions, %lld swapped", (long long)again, (long long)swap);
        EXPECT(again >= (test_long() ? 200 : 60));
        if (i) EXPECT(swap >= (test_long() ? 150 : 60));
    }
}
