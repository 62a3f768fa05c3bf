/* same_test.c - goal: a request's tokens and logprobs depend on the request only (docs/design.md
 * 5). This test is quoth's strongest test. Method: serve requests of mixed length and sampling
 * settings on golden models, one at a time without caches. Then serve the same requests in every
 * other way. Requests run concurrently, with prefix hits, under every policy. In a small pool,
 * requests preempt each other, by copying and by recomputing. Page sizes vary, and chunks have 16
 * to 8192 rows. All bits must be equal. The clock is virtual and jumps (rig_test.h), because a
 * policy depends on time. One clock is the same in every run, and a second clock has a new seed. A
 * failure prints its seed, which QUOTH_CLOCK repeats. ./test takes a sample of requests and ways;
 * QUOTH_LONG=1 runs 280 requests in all ways. Hashes of the answers are recorded, to show that a
 * refactoring changes none. */
#include "../../tests/levels.h"
#include "../../tests/recorded.h"
#include "../../tests/unit.h"

#include "base/os.h"
#include "base/rng.h"
#include "rig_test.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { REQUESTS_MAX = 280, N_CHOICE = 3, CONTEXT = 200, D_MAX = 64 };
/* a past bug: with this clock round_robin displaced more sequences than a step could copy */
enum { CLOCK = 1006 };

struct way {
    const char *policy;
    int page_rows, n_token, n_row, n_seq; /* n_token: number of tokens in the pool */
    enum { AGAIN, SWAP } preempt;
    bool alone;
    uint64_t clock;
    bool beams;        /* true: include beam searches */
    const char *level; /* level of kernels; NULL: the best */
    enum wrap wrap;    /* wrapper of the backend (tests/door/counting.h) */
};

/* Model that all ways serve. */
static struct {
    bool sources;      /* true: prompts are sources, whose rows have no results */
    const char *dummy; /* folder of a config.json, as in struct rig_options */
} kind;

/* Output of a choice, or logprobs of a prompt: tokens, and hashes of the output up to each. */
struct transcript {
    int n;
    int32_t token[CONTEXT];
    uint64_t logprobs[CONTEXT];
};

struct answers {
    struct transcript choice[REQUESTS_MAX][N_CHOICE], prompt[REQUESTS_MAX];
    int n_done[REQUESTS_MAX];
    float pooled[REQUESTS_MAX][D_MAX];
    struct stats_view stats;
    int64_t n_cached;
};

static uint64_t hash_logprob(uint64_t h, const struct logprob *p)
{
    h = recorded_hash(h, &p->id, sizeof p->id);
    h = recorded_hash(h, &p->logprob, sizeof p->logprob);
    return recorded_hash(h, &p->rank, sizeof p->rank);
}

/* Make every thirteenth request a pooled request. */
static void pool_instead(struct request *r, int i, float *pooled)
{
    r->pooling = i % 13 == 9 && !kind.sources ? POOLING_MEAN + i % 3 : POOLING_NONE;
    if (!r->pooling) return;
    r->pooled = pooled;
    r->n = 1;
    r->max_tokens = r->best_of = 0;
    r->n_prompt_logprob = -1;
}

/* Make every sixteenth request a beam search if it is short enough for any pool. */
static void search_instead(struct request *r, int i)
{
    if (i % 16 != 11 || i % 5 == 0 || r->pooling) return;
    r->beam_width = r->n = 2;
    if (r->max_tokens > 20) r->max_tokens = 20;
}

/* Make request i. The prompt has a common prefix with some other requests. The answer is long, so
 * that sequences admitted together outgrow the pool. */
static struct request *request_i(int i, const struct way *w, const struct buf *ids, struct queue *q,
                                 struct answers *a)
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
    r->n_prompt_logprob = i % 10 == 7 && !kind.sources ? 2 : -1;
    r->n = i % 12 == 8 ? N_CHOICE : 1;
    r->best_of = i % 24 == 8 ? N_CHOICE + 1 : 0;
    r->priority = i % 3;
    r->holder = (uint64_t)(i % 4);
    pool_instead(r, i, a->pooled[i]);
    if (w->beams) search_instead(r, i);
    r->reply = q;
    return r;
}

static void append(struct transcript *s, const struct event *ev)
{
    if (s->n == CONTEXT)
        test_fail(__FILE__, __LINE__, "more is emitted than fits into the context");
    if (s->n == CONTEXT) return;
    uint64_t h = hash_logprob(s->n > 0 ? s->logprobs[s->n - 1] : 0, &ev->chosen);
    for (int k = 0; k < ev->n_top; k++) h = hash_logprob(h, &ev->top[k]);
    s->token[s->n] = ev->token;
    s->logprobs[s->n] = h;
    s->n++;
}

static void drain(struct queue *q, struct answers *a, int i)
{
    struct event ev;
    while (queue_pop(q, &ev, 0)) {
        if (ev.kind == EVENT_TOKEN) append(&a->choice[i][ev.choice], &ev);
        if (ev.kind == EVENT_PROMPT) append(&a->prompt[i], &ev);
        if (ev.kind == EVENT_DONE) a->n_cached += ev.usage.n_cached;
        if (ev.kind == EVENT_DONE) a->n_done[i]++;
    }
}

static int rig_open(struct rig *r, const char *model, const struct way *w, struct err *e)
{
    struct rig_options o = {
        .model = model,
        .dummy = kind.dummy,
        .n_thread = 1,
        .clock_seed = w->clock,
        .level = w->level,
        .wrap = w->wrap,
        .m = {.kv_type = KV_F16,
              .page_rows = w->page_rows,
              .n_page = (w->n_token + w->page_rows - 1) / w->page_rows,
              .swap_bytes = 1 << 22,
              .context_max = CONTEXT,
              .batch = {.n_row = w->n_row, .n_seq = w->n_seq, .n_out = w->n_seq + 8}},
        .e = {.queue_max = REQUESTS_MAX,
              .no_prefix_cache = w->alone,
              .scheduler = w->policy,
              .window_us = 1},
        .copy_rate = w->preempt == SWAP ? 1e12 : 0};
    return golden_open(r, &o, e);
}

/* Run until idle, or until the engine has made no progress for many steps. */
static void run_until_idle(struct rig *r, struct queue **q, struct answers *a, int n)
{
    int n_still = 0;
    while (n_still < 100000 &&
           (engine_n_waiting(r->en) + engine_n_running(r->en) > 0 || engine_step(r->en))) {
        n_still = engine_step(r->en) ? 0 : n_still + 1;
        for (int i = 0; i < n; i++) drain(q[i], a, i);
    }
}

static void serve(const char *model, const struct way *w, int n, struct answers *a)
{
    struct rig r;
    struct err e;
    static struct queue *q[REQUESTS_MAX];
    memset(a, 0, sizeof *a);
    NEED_OK(rig_open(&r, model, w, &e), &e);
    for (int i = 0; i < n; i++) {
        q[i] = engine_reply_queue();
        NEED_OK(engine_submit(r.en, request_i(i, w, &r.ids, q[i], a), &e), &e);
        if (w->alone) run_until_idle(&r, q, a, i + 1);
    }
    run_until_idle(&r, q, a, n);
    stats_read(engine_stats(r.en), &a->stats);
    EXPECT_INT(pages_n_free(r.en->pages), pages_n_total(r.en->pages));
    for (int i = 0; i < n; i++) queue_close(q[i]);
    golden_close(&r);
}

/* Description of the first difference; "" if none. */
struct difference {
    char text[160];
};

static bool same_output(const struct transcript *want, const struct transcript *got,
                        const char *what, struct difference *d)
{
    int i = 0;
    while (i < want->n && i < got->n && want->token[i] == got->token[i] &&
           want->logprobs[i] == got->logprobs[i])
        i++;
    if (i == want->n && i == got->n) return true;
    if (i == want->n || i == got->n)
        snprintf(d->text, sizeof d->text, "%s has %d tokens, not %d", what, got->n, want->n);
    else if (want->token[i] != got->token[i])
        snprintf(d->text, sizeof d->text, "token %d of %s is %d, not %d", i, what, got->token[i],
                 want->token[i]);
    else
        snprintf(d->text, sizeof d->text, "logprobs of token %d of %s", i, what);
    return false;
}

static bool same_request(const struct answers *want, const struct answers *got, int i,
                         struct difference *d)
{
    char what[40];
    if (want->n_done[i] != 1 || got->n_done[i] != 1) {
        snprintf(d->text, sizeof d->text, "the request ends %d times, and %d times alone",
                 got->n_done[i], want->n_done[i]);
        return false;
    }
    if (memcmp(want->pooled[i], got->pooled[i], sizeof want->pooled[i]) != 0) {
        snprintf(d->text, sizeof d->text, "its pooled vector");
        return false;
    }
    if (!same_output(&want->prompt[i], &got->prompt[i], "the prompt", d)) return false;
    for (int k = 0; k < N_CHOICE; k++) {
        snprintf(what, sizeof what, "choice %d", k);
        if (!same_output(&want->choice[i][k], &got->choice[i][k], what, d)) return false;
    }
    return true;
}

/* Way that is the reference for all other ways. */
static const struct way alone = {"fcfs", 32,    2 * CONTEXT, 512,  N_CHOICE + 1, AGAIN,
                                 true,   CLOCK, true,        NULL, WRAP_NONE};
static struct answers want, got;
static int64_t n_preempted, n_swapped, n_displaced, n_way;

static void compare(const char *model, const struct way *w, int n)
{
    struct difference d;
    serve(model, w, n, &got);
    n_way++;
    n_preempted += got.stats.value[STAT_preemptions];
    n_swapped += got.stats.value[STAT_swapped];
    n_displaced += got.stats.value[STAT_displaced];
    for (int i = 0, n_reported = 0; i < n && n_reported < 3; i++) {
        if (same_request(&want, &got, i, &d)) continue;
        n_reported++;
        test_fail(__FILE__, __LINE__,
                  "%s, %s, %d tokens in pages of %d, %d rows, %d sequences, %s, QUOTH_CLOCK=%llu: "
                  "request %d: %s",
                  model, w->policy, w->n_token, w->page_rows, w->n_row, w->n_seq,
                  w->preempt == SWAP ? "swapped" : "computed again", (unsigned long long)w->clock,
                  i, d.text);
    }
}

static uint64_t fresh_clock(void)
{
    const char *text = getenv("QUOTH_CLOCK");
    return text ? strtoull(text, NULL, 10) : os_random() | 1;
}

/* Compare every policy, page size and chunk; pools with room for one request up to all requests. */
static void compare_ways(const char *model, int n, int pool_part)
{
    static const int chunk[] = {16, 37, 128, 8192}, pool[] = {210, 300, 600, 8000};
    uint64_t rng = 9, fresh = fresh_clock();
    for (int p = 0; policy_name(p); p++)
        for (int size = 0; size < 7; size++)
            for (int c = 0; c < 4; c++) {
                int i = (p + size + c) % 4;
                struct way w = {policy_name(p),
                                1 << size,
                                pool[i],
                                chunk[c],
                                i == 3 ? 64 : 12,
                                rng_below(&rng, 2) ? SWAP : AGAIN,
                                false,
                                CLOCK,
                                true,
                                NULL,
                                WRAP_NONE};
                w.n_token = w.n_token / pool_part + 3 * w.page_rows;
                if (test_long() || rng_below(&rng, 30) == 0) compare(model, &w, n);
                w.clock = fresh;
                if (test_long() || rng_below(&rng, 60) == 0) compare(model, &w, n);
            }
    test_note("%s: %d requests in %lld ways, clocks %d and %llu; preempted %lld times, %lld of "
              "them swapped, %lld displaced",
              model, n, (long long)n_way, CLOCK, (unsigned long long)fresh, (long long)n_preempted,
              (long long)n_swapped, (long long)n_displaced);
}

/* qwen3 attends to all positions. All layers of mistral have a window of 16, so pages before it are
 * freed. */
TEST(answers_are_the_same_in_every_way_of_serving)
{
    if (!repo_path("tests/golden/qwen3")) SKIP("tests/golden is not here");
    static const char *const models[] = {"qwen3", "mistral"};
    int n = test_long() ? REQUESTS_MAX : 36;
    int64_t preempted = 0, swapped = 0, displaced = 0;
    for (int i = 0; i < 2; i++) {
        n_way = n_preempted = n_swapped = n_displaced = 0;
        serve(models[i], &alone, n, &want);
        EXPECT_INT(want.n_cached, 0);
        compare_ways(models[i], n, i ? 6 : 1);
        preempted += n_preempted, swapped += n_swapped, displaced += n_displaced;
    }
    EXPECT(preempted > (test_long() ? 10000 : 60));
    EXPECT(swapped > (test_long() ? 1000 : 10));
    EXPECT(displaced > (test_long() ? 1000 : 10));
}

/* Models of encoder and decoder: sources and texts of others in one step, also with int8
 * activations. Pages of a source are never those of another request. */
TEST(answers_to_sources_are_the_same_in_every_way_of_serving)
{
    static const char *const config[] = {
        "{\"model_type\": \"t5\", \"d_model\": 64, \"d_kv\": 16, \"num_heads\": 4, \"d_ff\": 96, "
        "\"num_layers\": 3, \"num_decoder_layers\": 2, \"vocab_size\": 100, "
        "\"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false}",
        "{\"model_type\": \"bart\", \"d_model\": 64, \"encoder_layers\": 2, \"decoder_layers\": 2, "
        "\"encoder_attention_heads\": 4, \"encoder_ffn_dim\": 96, \"vocab_size\": 100}"};
    static const char *const models[] = {"cross/t5", "cross/mt5", "cross/bart"};
    char folder[200];
    struct err e;
    if (!repo_path("tests/golden/cross")) SKIP("tests/golden is not here");
    snprintf(folder, sizeof folder, "%s", temp_path("t5"));
    NEED(mkdir(folder, 0700) == 0);
    kind.sources = true;
    int n = test_long() ? REQUESTS_MAX : 24;
    int64_t preempted = 0, swapped = 0;
    for (int i = 0; i < 5; i++) {
        if (!test_long() && i % 3 == 1) continue; /* mt5 has t5's layers */
        const char *model = models[i % 3], *text = i < 3 ? "" : config[i - 3];
        NEED_OK(file_write(temp_path("t5/config.json"), text, strlen(text), &e), &e);
        kind.dummy = i < 3 ? NULL : folder;
        n_way = n_preempted = n_swapped = n_displaced = 0;
        serve(model, &alone, n, &want);
        compare_ways(model, n, 1);
        preempted += n_preempted, swapped += n_swapped;
        EXPECT_INT(got.n_cached, 0);
    }
    kind.sources = false, kind.dummy = NULL;
    EXPECT(preempted > (test_long() ? 10000 : 30));
    EXPECT(swapped > (test_long() ? 1000 : 10));
}

/* Sequences are displaced and return by copying, some concurrently. The number and the combinations
 * of displaced sequences depend on time. */
TEST(answers_are_the_same_on_any_clock)
{
    if (!repo_path("tests/golden/qwen3")) SKIP("tests/golden is not here");
    const int n = test_long() ? 60 : 28;
    uint64_t fresh = fresh_clock();
    serve("qwen3", &alone, n, &want);
    n_displaced = 0;
    for (int p = 0; policy_name(p); p++)
        for (int i = 0; i < (test_long() ? 200 : 2); i++) {
            struct way w = {policy_name(p),
                            2,
                            216,
                            37,
                            12,
                            SWAP,
                            false,
                            i ? fresh + (uint64_t)i : CLOCK,
                            true,
                            NULL,
                            WRAP_NONE};
            compare("qwen3", &w, n);
        }
    test_note("clocks from %llu, %lld displaced", (unsigned long long)fresh + 1,
              (long long)n_displaced);
    EXPECT(n_displaced > (test_long() ? 50 : 25));
}

TEST(a_small_pool_preempts_hundreds_of_times_and_changes_nothing)
{
    if (!repo_path("tests/golden/qwen3")) SKIP("tests/golden is not here");
    int n = test_long() ? REQUESTS_MAX : 80;
    serve("qwen3", &alone, n, &want);
    for (int i = 0; i < 2; i++) {
        struct way w = {"fcfs", 2,     CONTEXT, 64,   24,       i ? SWAP : AGAIN,
                        false,  CLOCK, true,    NULL, WRAP_NONE};
        compare("qwen3", &w, n);
        EXPECT(got.n_cached > 0);
        int64_t again = got.stats.value[STAT_preemptions], swap = got.stats.value[STAT_swapped];
        test_note("%lld preemptions, %lld swapped", (long long)again, (long long)swap);
        EXPECT(again >= (test_long() ? 200 : 60));
        if (i) EXPECT(swap >= (test_long() ? 150 : 60));
    }
}

/* Serve a model to many requests with small pools of pages, and compare the answers with those of
 * each request alone. wrap: wrapper of every fourth backend. At least min_swapped preempted
 * sequences must have been swapped. Return the number of requests. */
static int compare_crowded(const char *model, int n_short, enum wrap wrap, int min_swapped)
{
    static const struct {
        int page_rows, n_token, n_row;
    } shape[] = {{2, CONTEXT, 64}, {4, CONTEXT, 16}, {16, 600, 37}, {8, 216, 8192}};
    int n = test_long() ? REQUESTS_MAX : n_short;
    serve(model, &alone, n, &want);
    n_preempted = n_swapped = 0;
    int64_t n_cached = 0;
    for (int i = 0; i < (test_long() ? 8 : 4); i++) {
        struct way w = alone;
        w.policy = policy_name(i % 3);
        w.page_rows = shape[i % 4].page_rows, w.n_token = shape[i % 4].n_token;
        w.n_row = shape[i % 4].n_row, w.n_seq = 12;
        w.preempt = i % 2 ? SWAP : AGAIN;
        w.alone = false;
        w.wrap = i % 4 == 3 ? wrap : WRAP_NONE;
        compare(model, &w, n);
        n_cached += got.n_cached;
    }
    test_note("%s: %lld preemptions, %lld of them swapped, %lld tokens found", model,
              (long long)n_preempted, (long long)n_swapped, (long long)n_cached);
    EXPECT(n_cached > 0 && n_preempted > 30 && n_swapped >= min_swapped);
    return n;
}

/* Goal: a text has the rope of its length (LongRoPE) in every way of serving. Texts of phi3 change
 * their rope after 24 tokens, beams and choices as well. */
TEST(answers_that_outgrow_the_short_rope_are_the_same)
{
    if (!repo_path("tests/golden/phi3")) SKIP("tests/golden is not here");
    const int n = compare_crowded("phi3", 60, WRAP_NONE, 6);
    if (test_long()) compare_ways("phi3", n, 3); /* phi3 frees no pages */
}

/* Goal: recurrent states follow a text through every way of serving. Their slots are shared by
 * choices and beams, found at the ends of prefixes, swapped and computed again. mamba2,
 * falcon_mamba and the versions of RWKV have no K and V. */
TEST(answers_of_recurrent_layers_are_the_same)
{
    if (!repo_path("tests/golden/qwen3_5")) SKIP("tests/golden is not here");
    compare_crowded("qwen3_5", 40, WRAP_COUNTING, 6);
    compare_crowded("mamba2", 40, WRAP_COUNTING, 0);
    compare_crowded("falcon_mamba", 40, WRAP_COUNTING, 0);
    compare_crowded("rwkv", 40, WRAP_COUNTING, 0);
    compare_crowded("rwkv5", 40, WRAP_NONE, 0);
    compare_crowded("rwkv6", 40, WRAP_COUNTING, 0);
    compare_crowded("rwkv7", 40, WRAP_COUNTING, 0);
    static const char *const hybrid[] = {"bamba",      "falcon_h1",  "granitemoehybrid",
                                         "jamba",      "nemotron_h", "nemotron_h-moe",
                                         "kimi_linear"};
    for (size_t i = 0; i < sizeof hybrid / sizeof hybrid[0]; i++)
        compare_crowded(hybrid[i], 40, WRAP_NONE, 3);
}

/* Method: a backend whose memory the host cannot read. Forks, preemption, swapping and pooling also
 * use the backend's functions. */
TEST(answers_through_a_counting_backend_are_the_same)
{
    if (!repo_path("tests/golden/qwen3")) SKIP("tests/golden is not here");
    int n = test_long() ? REQUESTS_MAX : 8;
    serve("qwen3", &alone, n, &want);
    for (int i = 0; i < 2; i++) {
        struct way w = {"fcfs",
                        2,
                        CONTEXT,
                        64,
                        24,
                        i ? SWAP : AGAIN,
                        false,
                        CLOCK,
                        true,
                        NULL,
                        i ? WRAP_COUNTING : WRAP_PLAIN};
        compare("qwen3", &w, n);
        EXPECT(got.stats.value[STAT_preemptions] > 0);
        if (i) EXPECT(got.stats.value[STAT_swapped] > 0);
    }
}

static uint64_t hash_output(uint64_t h, const struct transcript *s)
{
    uint64_t all = s->n > 0 ? s->logprobs[s->n - 1] : 0;
    return recorded_hash(h, &all, sizeof all);
}

static uint64_t hash_answers(const struct answers *a, int n)
{
    uint64_t h = RECORDED_BEGIN;
    for (int i = 0; i < n; i++) {
        h = hash_output(h, &a->prompt[i]);
        h = recorded_hash(h, a->pooled[i], sizeof a->pooled[i]);
        for (int k = 0; k < N_CHOICE; k++) {
            size_t n_token = (size_t)a->choice[i][k].n;
            h = recorded_hash(h, &n_token, sizeof n_token);
            h = recorded_hash(h, a->choice[i][k].token, n_token * sizeof(int32_t));
            h = hash_output(h, &a->choice[i][k]);
        }
    }
    return h;
}

/* Compare hashes with the recorded hashes, of level `only`; -1: of every level. */
static void compare_recorded(struct recorded *r, const char *model, int n, int only)
{
    char key[96];
    snprintf(key, sizeof key, "%s, %d requests", model, n);
    for (const char *const *level = kern_levels(); *level; level++) {
        if (only >= 0 && level != kern_levels() + only) continue;
        struct way w = {"fcfs", 16, 8000, 512, 64, AGAIN, false, CLOCK, false, *level, WRAP_NONE};
        serve(model, &w, n, &got);
        for (int i = 0; i < n; i++) EXPECT_INT(got.n_done[i], 1);
        recorded_compare(r, key, hash_answers(&got, n), *level);
    }
}

TEST(recorded_answers)
{
    static struct recorded r;
    if (!repo_path("tests/golden/qwen3")) SKIP("tests/golden is not here");
    int n_level = 0;
    while (kern_levels()[n_level]) n_level++;
    recorded_open(&r, "answers.txt");
    for (int i = 0; i < N_GOLDEN; i++) /* the sample has one level per model, alternately */
        compare_recorded(&r, golden_models[i], 24, test_long() ? -1 : i % n_level);
    for (int i = 0; i < N_GOLDEN && test_long(); i++)
        compare_recorded(&r, golden_models[i], REQUESTS_MAX, -1);
    recorded_close(&r, !test_long());
}

/* Goal: a preempted beam returns although it needs more pages at once than the other beams of its
 * group leave, because it can compute its rows in small chunks. */
TEST(a_beam_returns_to_a_small_pool)
{
    if (!repo_path("tests/golden/mistral")) SKIP("tests/golden is not here");
    const struct way w = {"priority", 1, 38, 8192, 12, AGAIN, false, CLOCK, true, NULL, WRAP_NONE};
    serve("mistral", &alone, REQUESTS_MAX, &want);
    compare("mistral", &w, REQUESTS_MAX);
}
