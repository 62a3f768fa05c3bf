/* engine_test.c - goal: each of many concurrent requests gets the answer that it gets alone. No
 * page and no memory leaks. A decode step allocates nothing. Method: the golden models under a
 * hand-stepped engine, with known greedy continuations. */
#include "../../tests/unit.h"

#include "base/os.h"
#include "base/rng.h"
#include "rig_test.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool no_prefix_cache;
static int64_t bytes_max;

static int rig_open(struct rig *r, const char *model, int n_page, int n_row, int n_seq,
                    struct err *e)
{
    struct rig_options o = {
        .model = model,
        .n_thread = 2,
        .m = {.kv_type = KV_F32,
              .page_rows = 16,
              .n_page = n_page,
              .context_max = 256,
              .batch = {.n_row = n_row, .n_seq = n_seq, .n_out = 16}},
        .e = {.queue_max = 32, .bytes_max = bytes_max, .no_prefix_cache = no_prefix_cache}};
    return golden_open(r, &o, e);
}

static struct buf golden_ids(const char *model, const char *file)
{
    struct buf b = {0};
    struct err e;
    char path[96];
    snprintf(path, sizeof path, "tests/golden/%s/%s", model, file);
    file_read(&b, repo_path(path), 1 << 20, &e);
    return b;
}

static struct request *make(const int32_t *ids, int n, int max_tokens, struct queue *q)
{
    struct err e;
    struct request *r = request_open(&e);
    for (int i = 0; i < n; i++) (void)!vec_push(&r->prompt, ids[i]);
    r->max_tokens = max_tokens;
    r->params.temperature = 0;
    r->reply = q;
    return r;
}

struct transcript {
    int32_t id[256];
    float logprob[256];
    int n, n_prompt, n_done;
    enum finish finish;
    struct usage usage;
};

static void drain(struct queue *q, struct transcript *t)
{
    struct event ev;
    while (queue_pop(q, &ev, 0)) {
        if (ev.kind == EVENT_TOKEN && t->n < 256)
            t->logprob[t->n] = ev.chosen.logprob, t->id[t->n++] = ev.token;
        if (ev.kind == EVENT_PROMPT) t->n_prompt++;
        if (ev.kind == EVENT_DONE) t->n_done++, t->finish = ev.finish, t->usage = ev.usage;
    }
}

static void compare_greedy(const char *model)
{
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, model, 64, 8, 4, &e), &e);
    struct buf ids = golden_ids(model, "tokens.i32"), want = golden_ids(model, "greedy.i32");
    struct queue *q = engine_reply_queue();
    struct transcript t = {0};
    NEED_OK(engine_submit(r.en, make((int32_t *)ids.data, 16, 24, q), &e), &e);
    while (engine_step(r.en)) drain(q, &t);
    drain(q, &t);
    if (t.n != 24 || t.finish != FINISH_LENGTH || want.n != sizeof t.id[0] * 24 ||
        memcmp(t.id, want.data, want.n) != 0)
        test_fail(__FILE__, __LINE__, "%s: %d tokens, which differ", model, t.n);
    golden_close(&r);
    queue_close(q);
    buf_deinit(&ids), buf_deinit(&want);
}

/* Each folder of tests/golden with greedy.i32 is compared. */
TEST(greedy_continuation_equals_transformers)
{
    const char *root = repo_path("tests/golden");
    DIR *d = root ? opendir(root) : NULL;
    if (!d) SKIP("tests/golden is not here");
    int n = 0;
    for (struct dirent *f; (f = readdir(d));) {
        char file[300];
        snprintf(file, sizeof file, "tests/golden/%s/greedy.i32", f->d_name);
        if (f->d_name[0] != '.' && repo_path(file)) compare_greedy(f->d_name), n++;
    }
    closedir(d);
    test_note("%d models", n);
    EXPECT(n >= N_GOLDEN);
}

TEST(the_context_is_what_the_pages_have_room_for)
{
    for (int n_page = 4; n_page <= 64; n_page *= 4) {
        struct rig r;
        struct err e;
        NEED_OK(rig_open(&r, "llama3", n_page, 8, 4, &e), &e);
        EXPECT_INT(engine_context(r.en), n_page * 16 < 256 ? n_page * 16 : 256);
        golden_close(&r);
    }
}

enum { N_REQUEST = 20 };

/* Make request i, with a part of the tokens, length, temperature and seed that depend on i. */
static struct request *request_i(int i, const struct buf *ids, struct queue *q)
{
    struct request *r = make((const int32_t *)ids->data + i, 3 + i * 7 % 50, 5 + i % 13, q);
    r->params.temperature = i % 3 ? 0.9f : 0;
    r->params.top_p = 0.95f;
    r->params.seed = (uint64_t)i;
    r->params.seeded = true;
    r->params.n_logprob = i % 4 - 1;
    r->n_prompt_logprob = i % 5 == 0 ? 2 : -1;
    return r;
}

static void answers(const char *model, int n_page, int n_row, int n_seq, bool together,
                    struct transcript *t)
{
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, model, n_page, n_row, n_seq, &e), &e);
    struct buf ids = golden_ids(model, "tokens.i32");
    struct queue *q[N_REQUEST];
    for (int i = 0; i < N_REQUEST; i++) {
        q[i] = engine_reply_queue();
        NEED_OK(engine_submit(r.en, request_i(i, &ids, q[i]), &e), &e);
        while (!together && engine_step(r.en)) EXPECT(!engine_check(r.en));
    }
    while (engine_step(r.en)) EXPECT(!engine_check(r.en));
    for (int i = 0; i < N_REQUEST; i++) {
        drain(q[i], &t[i]);
        EXPECT_INT(t[i].n_done, 1);
        EXPECT_INT(t[i].n_prompt, i % 5 == 0 ? t[i].usage.n_prompt - 1 : 0);
        queue_close(q[i]);
    }
    EXPECT_INT(pages_n_free(r.en->pages), n_page);
    golden_close(&r);
    buf_deinit(&ids);
}

TEST(many_requests_together_equal_each_alone)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    static struct transcript alone[N_REQUEST], other[N_REQUEST];
    static const struct {
        int n_page, n_row, n_seq;
    } way[] = {{64, 64, 8}, {64, 5, 8}, {8, 16, 3}, {200, 512, 20}, {5, 1, 1}};
    memset(alone, 0, sizeof alone);
    no_prefix_cache = true;
    answers("qwen3", 64, 512, 1, false, alone);
    no_prefix_cache = false;
    for (size_t w = 0; w < sizeof way / sizeof way[0]; w++) {
        memset(other, 0, sizeof other);
        answers("qwen3", way[w].n_page, way[w].n_row, way[w].n_seq, true, other);
        for (int i = 0; i < N_REQUEST; i++) {
            EXPECT_INT(other[i].n, alone[i].n);
            EXPECT_BITS(other[i].id, alone[i].id, sizeof alone[i].id);
            EXPECT_BITS(other[i].logprob, alone[i].logprob, sizeof alone[i].logprob);
        }
    }
}

TEST(a_static_batch_computes_everyone_until_the_last_is_done)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    struct rig_options o = {.model = "llama3",
                            .n_thread = 1,
                            .m = {.kv_type = KV_F32,
                                  .page_rows = 16,
                                  .n_page = 64,
                                  .context_max = 256,
                                  .batch = {.n_row = 64, .n_seq = 4, .n_out = 16}},
                            .e = {.queue_max = 32, .scheduler = "static", .no_prefix_cache = true}};
    NEED_OK(golden_open(&r, &o, &e), &e);
    static const int length[] = {3, 20, 9, 5, 4}; /* the last request waits for the next batch */
    struct queue *q[5];
    static struct transcript t[5];
    memset(t, 0, sizeof t);
    for (int i = 0; i < 5; i++) {
        q[i] = engine_reply_queue();
        NEED_OK(engine_submit(r.en, make((int32_t *)r.ids.data + i, 10, length[i], q[i]), &e), &e);
    }
    int n_full = 0, n_done = 0;
    while (engine_step(r.en)) {
        EXPECT(!engine_check(r.en));
        n_full += r.en->batch.n_row == 4;
        for (int i = 0; i < 5; i++)
            drain(q[i], &t[i]), n_done += i < 4 && t[i].n_done && n_full < 19;
    }
    EXPECT_INT(n_full, 19); /* steps after the prompts' step, until the longest request is done */
    EXPECT_INT(n_done, 0);  /* no earlier request is complete */
    for (int i = 0; i < 5; i++) {
        EXPECT(t[i].n == length[i] && t[i].n_done == 1 && t[i].finish == FINISH_LENGTH);
        queue_close(q[i]);
    }
    EXPECT_INT(pages_n_free(r.en->pages), 64);
    golden_close(&r);
}

static void follow_up(const char *model)
{
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, model, 16, 64, 2, &e), &e);
    struct buf ids = golden_ids(model, "tokens.i32");
    int32_t history[256];
    int n = 20;
    memcpy(history, ids.data, 20 * sizeof *history);
    for (int turn = 0; turn < 6; turn++) {
        struct queue *q = engine_reply_queue();
        struct transcript t = {0};
        NEED_OK(engine_submit(r.en, make(history, n, 17, q), &e), &e);
        while (engine_step(r.en)) drain(q, &t);
        drain(q, &t);
        /* 5 new tokens, the open page of the last answer, and its last token */
        if (turn > 0) EXPECT(t.usage.n_prompt - t.usage.n_cached <= 5 + 16 + 1);
        memcpy(history + n, t.id, (size_t)t.n * sizeof *history);
        n += t.n;
        for (int i = 0; i < 5; i++) history[n++] = 7 * i + turn;
        queue_close(q);
    }
    golden_close(&r);
    buf_deinit(&ids);
}

/* A model with recurrent layers continues at the last whole page of the last answer, too. */
TEST(a_follow_up_computes_its_new_tokens_and_one_page_at_most)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    follow_up("llama3");
    follow_up("qwen3_5");
}

/* Goal: from the third text on, texts with a common beginning find at least 90 % of it, although a
 * prefix needs a recurrent state at its end. The second text keeps this state (state.c). Tokens
 * with K and V but without a state are counted. */
TEST(a_common_beginning_is_found_with_its_recurrent_state)
{
    enum { SHARED = 107, OWN = 40, N = 12 };
    if (!repo_path("tests/golden/qwen3_5")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    struct stats_view v;
    NEED_OK(rig_open(&r, "qwen3_5", 64, 200, 2, &e), &e);
    struct buf ids = golden_ids("qwen3_5", "tokens.i32");
    for (int i = 0; i < N; i++) {
        int32_t text[SHARED + OWN];
        struct queue *q = engine_reply_queue();
        struct transcript t = {0};
        for (int k = 0; k < SHARED + OWN; k++)
            text[k] = ((const int32_t *)ids.data)[k % 80] ^ (k < SHARED ? 0 : 1 + i % 3);
        text[SHARED] = 5 + i;
        NEED_OK(engine_submit(r.en, make(text, SHARED + OWN, 4, q), &e), &e);
        while (engine_step(r.en)) drain(q, &t);
        drain(q, &t);
        EXPECT_INT(t.usage.n_cached, i < 2 ? 0 : SHARED / 16 * 16);
        queue_close(q);
    }
    stats_read(engine_stats(r.en), &v);
    EXPECT_INT(v.value[STAT_missed_state], SHARED / 16 * 16);
    golden_close(&r);
    buf_deinit(&ids);
}

TEST(a_decode_step_allocates_nothing)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, "llama3", 64, 64, 8, &e), &e);
    struct buf ids = golden_ids("llama3", "tokens.i32");
    struct queue *q[4];
    for (int i = 0; i < 4; i++) {
        q[i] = engine_reply_queue();
        struct request *rq = make((int32_t *)ids.data + i, 10, 60, q[i]);
        rq->params.temperature = i ? 0.8f : 0;
        rq->params.top_k = i == 1 ? 5 : -1;
        rq->params.top_p = i == 2 ? 0.9f : 1;
        rq->params.repetition_penalty = i == 3 ? 1.2f : 1;
        rq->params.dry_multiplier = i == 3 ? 0.8f : 0;
        rq->params.ignore_eos = true;
        rq->params.n_logprob = 5;
        NEED_OK(engine_submit(r.en, rq, &e), &e);
    }
    for (int i = 0; i < 5; i++) engine_step(r.en);
    uint64_t before = test_n_malloc();
    for (int i = 0; i < 40; i++) EXPECT(engine_step(r.en));
    EXPECT_INT(test_n_malloc() - before, 0);
    golden_close(&r);
    for (int i = 0; i < 4; i++) queue_close(q[i]);
    buf_deinit(&ids);
}

TEST(cancelling_frees_pages_within_a_step)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, "llama3", 16, 4, 8, &e), &e);
    struct buf ids = golden_ids("llama3", "tokens.i32");
    struct queue *q[3];
    struct request *rq[3];
    uint64_t id[3];
    for (int i = 0; i < 3; i++) {
        q[i] = engine_reply_queue();
        rq[i] = make((int32_t *)ids.data, 60, 60, q[i]);
        id[i] = rq[i]->id;
        NEED_OK(engine_submit(r.en, rq[i], &e), &e);
    }
    /* all requests are admitted, and the prompt of request 0 has the whole step */
    engine_step(r.en);
    EXPECT_INT(pages_n_free(r.en->pages), 15);
    EXPECT_INT(engine_n_running(r.en), 3);
    engine_cancel(r.en, id[0]);
    engine_cancel(r.en, id[2]);
    engine_cancel(r.en, id[2]);
    engine_cancel(r.en, 999999);
    engine_step(r.en);
    EXPECT_INT(pages_n_free(r.en->pages), 15); /* pages of request 1 */
    EXPECT_INT(engine_n_running(r.en), 1);
    EXPECT_INT(engine_n_waiting(r.en), 0);
    for (int i = 0; i < 3; i++) {
        struct transcript t = {0};
        if (i == 1)
            while (engine_step(r.en)) {
            }
        drain(q[i], &t);
        EXPECT_INT(t.n_done, 1);
        EXPECT_INT(t.finish, i == 1 ? FINISH_LENGTH : FINISH_ABORT);
        queue_close(q[i]);
    }
    EXPECT_INT(pages_n_free(r.en->pages), 16);
    golden_close(&r);
    buf_deinit(&ids);
}

TEST(requests_that_cannot_be_are_refused_by_name)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, "llama3", 4, 8, 8, &e), &e);
    struct queue *q = engine_reply_queue();
    int32_t ids[80] = {0};
    struct {
        int n, max_tokens;
        int32_t first;
        int rc;
        const char *field;
    } bad[] = {{0, 5, 0, ERR_ARG, "prompt"},    {65, 5, 0, ERR_LIMIT, "prompt"},
               {64, 1, 0, ERR_LIMIT, "prompt"}, {5, -1, 0, ERR_ARG, "max_tokens"},
               {5, 5, 260, ERR_ARG, "prompt"},  {5, 5, -1, ERR_ARG, "prompt"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ids[0] = bad[i].first;
        struct request *rq = make(ids, bad[i].n, bad[i].max_tokens, q);
        int rc = engine_submit(r.en, rq, &e);
        if (rc != bad[i].rc || e.code != rc || strcmp(e.field, bad[i].field) != 0)
            test_fail(__FILE__, __LINE__, "case %zu: %d %s", i, rc, e.text);
        request_close(rq);
    }
    ids[0] = 0;
    struct request *rq = make(ids, 5, 5, q);
    rq->params.top_p = 7;
    EXPECT_INT(engine_submit(r.en, rq, &e), ERR_ARG);
    EXPECT(strcmp(e.field, "top_p") == 0);
    rq->params.top_p = 1;
    for (int i = -1; i < 2; i += 2) { /* the model has no adapter */
        rq->adapter = i;
        EXPECT_INT(engine_submit(r.en, rq, &e), ERR_ARG);
        EXPECT(strcmp(e.field, "adapter") == 0);
    }
    request_close(rq);
    for (int i = 0; i < 32; i++) NEED_OK(engine_submit(r.en, make(ids, 5, 1, q), &e), &e);
    rq = make(ids, 5, 1, q);
    EXPECT_INT(engine_submit(r.en, rq, &e), ERR_BUSY);
    request_close(rq);
    golden_close(&r); /* close while all requests are in the inbox */
    queue_close(q);
}

/* Goal: the error for a source that is too long recommends a flag only if the flag helps. */
TEST(long_sources_name_the_flag_that_helps)
{
    if (!repo_path("tests/golden/cross/bart")) SKIP("tests/golden is not here");
    static const struct {
        int context_max, n_page, n; /* n: length of the source */
        const char *flag;           /* NULL: none, because the encoder has 128 positions */
    } row[] = {{256, 64, 200, NULL}, {64, 64, 100, "--max-model-len"}, {256, 4, 100, "--kv-cache"}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct rig r;
        struct err e;
        int32_t id[200] = {0};
        struct rig_options o = {.model = "cross/bart",
                                .n_thread = 1,
                                .m = {.kv_type = KV_F32,
                                      .page_rows = 16,
                                      .n_page = row[i].n_page,
                                      .context_max = row[i].context_max,
                                      .batch = {.n_row = 64, .n_seq = 2, .n_out = 16}},
                                .e = {.queue_max = 8}};
        NEED_OK(golden_open(&r, &o, &e), &e);
        struct request *q = make(id, row[i].n, 4, NULL);
        EXPECT_INT(engine_validate(r.en, q, &e), ERR_LIMIT);
        EXPECT(strstr(e.text, "Shorten the prompt"));
        EXPECT(row[i].flag ? strstr(e.text, row[i].flag) != NULL : !strstr(e.text, "raise"));
        test_note("%s", e.text);
        request_close(q);
        golden_close(&r);
    }
}

/* Goal: validation has no effect. max_tokens beyond the context is clamped at submission. */
TEST(whether_a_request_may_come_changes_nothing)
{
    static struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 8, 64, 2, &e), &e); /* 128 tokens */
    struct request *fits = slow_request(&r, 0, 20, 200, &e),
                   *too_long = slow_request(&r, 1, 128, 1, &e);
    fits->params.min_tokens = 150;
    NEED_OK(engine_validate(r.engine, fits, &e), &e);
    EXPECT_INT(fits->max_tokens, 200);
    EXPECT_INT(fits->params.min_tokens, 150);
    EXPECT_INT(engine_max_tokens(r.engine, fits), 108);
    EXPECT_INT(engine_validate(r.engine, too_long, &e), ERR_LIMIT);
    request_close(too_long);
    slow_run(&r);
    EXPECT_INT(r.view.value[STAT_refused_long], 0);
    NEED_OK(engine_submit(r.engine, fits, &e), &e);
    EXPECT_INT(fits->max_tokens, 108);
    EXPECT_INT(fits->params.min_tokens, 108);
    slow_run(&r);
    slow_close(&r);
}

TEST(requests_hold_so_much_memory_at_most)
{
    /* Goal: memory of requests, without pages, is bounded for every n, and released. A request that
     * alone needs more is rejected with ERR_LIMIT. The limit applies before the memory is
     * allocated. */
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    enum { LIMIT = 40000 };
    bytes_max = LIMIT;
    NEED_OK(rig_open(&r, "llama3", 64, 8, 8, &e), &e);
    bytes_max = 0;
    struct queue *q = engine_reply_queue();
    int32_t ids[5] = {0};
    struct request *rq = make(ids, 5, 200, q);
    rq->n = 128;
    EXPECT_INT(engine_submit(r.en, rq, &e), ERR_LIMIT);
    EXPECT(strstr(e.text, "got 128 sequences"));
    rq->n = 1;
    rq->best_of = 2; /* answers emitted at the end are kept until then */
    rq->params.n_logprob = 20;
    EXPECT_INT(engine_submit(r.en, rq, &e), ERR_LIMIT);
    request_close(rq);
    EXPECT_INT(door_bytes(&r.en->door), 0);
    int n = 0, rc = 0;
    for (; rc == 0; n += rc == 0) {
        rq = make(ids, 5, 200, q);
        rc = engine_submit(r.en, rq, &e);
        if (rc != 0) request_close(rq);
        EXPECT(door_bytes(&r.en->door) <= LIMIT);
        if (rc == 0) engine_cancel(r.en, rq->id);
    }
    EXPECT_INT(rc, ERR_BUSY);
    EXPECT(strstr(e.text, "MiB") && n > 1 && n < 32);
    while (engine_step(r.en)) continue;
    EXPECT_INT(door_bytes(&r.en->door), 0);
    NEED_OK(engine_submit(r.en, make(ids, 5, 200, q), &e), &e);
    EXPECT(door_bytes(&r.en->door) > 0);
    const struct request own = {.holder = 1, .holder_weight = 1},
                         other = {.holder = 2, .holder_weight = 1};
    enum { ANSWERS = LIMIT / 4, OWN_MAX = ANSWERS - ANSWERS / 8 }; /* limits of the answers */
    EXPECT_INT(engine_reserve(r.en, &own, ANSWERS + 1, &e), ERR_LIMIT);
    NEED_OK(engine_reserve(r.en, &own, OWN_MAX, &e), &e);
    EXPECT_INT(engine_reserve(r.en, &own, 1, &e), ERR_BUSY);
    NEED_OK(engine_reserve(r.en, &other, ANSWERS - OWN_MAX, &e),
            &e); /* the limit of one holder, which leaves room to others */
    engine_unreserve(r.en, 1, OWN_MAX);
    engine_unreserve(r.en, 2, ANSWERS - OWN_MAX);
    EXPECT_INT(door_answer_bytes(&r.en->door), 0);
    golden_close(&r);
    queue_close(q);
}

/* Method: compare with the reference logits, which are for positions 4, 9, 14 ... */
TEST(prompt_logprobs_equal_log_softmax_of_the_scores)
{
    if (!repo_path("tests/golden/qwen2")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, "qwen2", 64, 64, 8, &e), &e);
    struct buf ids = golden_ids("qwen2", "tokens.i32"), logits = golden_ids("qwen2", "logits.f32");
    struct queue *q = engine_reply_queue();
    struct request *rq = make((int32_t *)ids.data, 40, 0, q);
    rq->n_prompt_logprob = 3;
    NEED_OK(engine_submit(r.en, rq, &e), &e);
    while (engine_step(r.en)) {
    }
    struct event ev;
    int n_vocab = model_info(r.m)->n_vocab, pos = 1;
    for (; queue_pop(q, &ev, 0) && ev.kind == EVENT_PROMPT; pos++) {
        EXPECT_INT(ev.n_top, 3);
        EXPECT(ev.top[0].logprob >= ev.top[1].logprob && ev.top[0].rank == 1);
        if (pos % 5 != 0) continue;
        const float *x = (const float *)logits.data + (int64_t)(pos / 5 - 1) * n_vocab;
        double sum = 0;
        for (int i = 0; i < n_vocab; i++) sum += exp(x[i]);
        EXPECT(fabs(ev.chosen.logprob - (x[ev.token] - log(sum))) < 1e-3);
    }
    EXPECT_INT(pos, 40);
    EXPECT_INT(ev.finish, FINISH_LENGTH);
    EXPECT_INT(ev.usage.n_output, 0);
    golden_close(&r);
    queue_close(q);
    buf_deinit(&ids), buf_deinit(&logits);
}

TEST(a_started_engine_serves_several_threads_worth_of_requests)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, "llama3", 32, 32, 4, &e), &e);
    NEED_OK(engine_start(r.en, &e), &e);
    struct buf ids = golden_ids("llama3", "tokens.i32");
    struct queue *q[12];
    for (int i = 0; i < 12; i++) {
        q[i] = engine_reply_queue();
        struct request *rq = make((int32_t *)ids.data + i, 8, 20, q[i]);
        uint64_t id = rq->id;
        NEED_OK(engine_submit(r.en, rq, &e), &e);
        if (i % 3 == 0) engine_cancel(r.en, id);
    }
    for (int i = 0; i < 12; i++) {
        struct event ev = {0};
        while (queue_pop(q[i], &ev, 10000000) && ev.kind != EVENT_DONE) {
        }
        EXPECT_INT(ev.kind, EVENT_DONE);
    }
    golden_close(&r);
    for (int i = 0; i < 12; i++) queue_close(q[i]);
    buf_deinit(&ids);
}
