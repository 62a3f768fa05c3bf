/* beam_test.c - goal: with every pool, beam search returns the answers of transformers. best_of
 * returns the same answers as a computation and ranking of all choices. Method: golden answers
 * (tests/golden/make_beam.py), with room for all requests, with room for few requests, and with
 * forced preemption. */
#include "../../tests/unit.h"

#include "base/os.h"
#include "base/rng.h"
#include "rig_test.h"

#include <math.h>
#include <stdlib.h>

enum preempt { AGAIN, SWAP };
enum { CONTEXT = 128, PAGE_ROWS = 4 };
static const char *policy; /* policy of rigs; NULL: the default */

static int rig_open(struct rig *r, const char *model, int n_page, int n_seq, enum preempt how,
                    struct err *e)
{
    struct rig_options o = {.model = model,
                            .n_thread = 1,
                            .m = {.kv_type = KV_F32,
                                  .page_rows = PAGE_ROWS,
                                  .n_page = n_page,
                                  .swap_bytes = 1 << 20,
                                  .context_max = CONTEXT,
                                  .batch = {.n_row = 64, .n_seq = n_seq, .n_out = n_seq}},
                            .e = {.scheduler = policy, .window_us = 1},
                            .copy_rate = how == SWAP ? 1e12 : 0};
    return golden_open(r, &o, e);
}

static struct request *make(const struct rig *r, int n_prompt, int max_tokens, struct queue *q)
{
    struct err e;
    struct request *rq = request_open(&e);
    for (int i = 0; i < n_prompt; i++) (void)!vec_push(&rq->prompt, ((int32_t *)r->ids.data)[i]);
    rq->max_tokens = max_tokens;
    rq->params.temperature = 0;
    rq->reply = q;
    return rq;
}

/* ---- beam search ---- */

struct beam_case {
    int n_stop;
    const int32_t *stop, *head, *answer; /* head: width, n, max_tokens, penalty, early, n_prompt */
};

static const int32_t *read_case(struct beam_case *c, const int32_t *at)
{
    c->n_stop = *at++;
    c->stop = at;
    c->head = at += c->n_stop;
    c->answer = at += 6;
    for (int i = 0; i < c->head[1]; i++) at += 2 + at[0];
    return at;
}

static struct request *beam_request(const struct rig *r, const struct beam_case *c, struct queue *q)
{
    struct request *rq = make(r, c->head[5], c->head[2], q);
    rq->beam_width = c->head[0];
    rq->n = c->head[1];
    rq->length_penalty = (float)c->head[3] / 1000;
    rq->beam_stop = c->head[4] == 1 ? BEAM_STOP : c->head[4] == 2 ? BEAM_NEVER : BEAM_HEURISTIC;
    rq->params.stop_id = c->stop;
    rq->params.n_stop_id = c->n_stop;
    rq->params.n_logprob = 1;
    return rq;
}

struct transcript {
    int32_t token[CONTEXT];
    int n;
    double sum;
};

static bool close_to(float a, float b)
{
    return fabsf(a - b) <= 1e-4f * (1 + fabsf(b));
}

/* Compare the sequences with the golden sequences, with the stop token at the end. */
static void check_beams(const struct beam_case *c, struct queue *q)
{
    static struct transcript t[16];
    struct event ev, end[16] = {0};
    memset(t, 0, sizeof t);
    while (queue_pop(q, &ev, 0)) {
        if (ev.kind == EVENT_TOKEN) {
            t[ev.choice].token[t[ev.choice].n++] = ev.token;
            t[ev.choice].sum += (double)ev.chosen.logprob;
            EXPECT_INT(ev.chosen.id, ev.token);
            EXPECT_INT(ev.n_top, 1);
        } else {
            end[ev.kind == EVENT_CHOICE ? ev.choice : 15] = ev;
        }
    }
    if (c->head[1] == 1) end[0] = end[15];
    EXPECT_INT(end[15].kind, EVENT_DONE);
    const int32_t *at = c->answer;
    for (int i = 0; i < c->head[1]; i++, at += 2 + at[0]) {
        float score;
        memcpy(&score, at + 1 + at[0], sizeof score);
        if (end[i].finish == FINISH_STOP) t[i].token[t[i].n++] = end[i].stop_id;
        EXPECT_INT(t[i].n, at[0]);
        EXPECT_INT(end[i].usage.n_output, at[0]);
        EXPECT_BITS(t[i].token, at + 1, (size_t)at[0] * sizeof *at);
        if (!close_to(end[i].score, score))
            test_fail(__FILE__, __LINE__, "score %g, not %g", (double)end[i].score, (double)score);
        double mean = t[i].sum / pow(at[0], c->head[3] / 1000.0);
        if (end[i].finish == FINISH_LENGTH) EXPECT(close_to((float)mean, score));
    }
}

/* Run all cases of a model concurrently. */
static void check_model(const char *model, int n_page, enum preempt how, bool force,
                        int64_t *n_preempted)
{
    uint64_t rng = 3;
    struct rig r;
    struct err e;
    char path[64];
    struct buf golden = {0};
    struct queue *q[64];
    struct beam_case c[64];
    int n = 0;
    NEED_OK(rig_open(&r, model, n_page, 12, how, &e), &e);
    snprintf(path, sizeof path, "tests/golden/%s/beam.i32", model);
    NEED_OK(file_read(&golden, repo_path(path), 1 << 20, &e), &e);
    for (const int32_t *at = (int32_t *)golden.data, *end = at + golden.n / 4; at < end; n++) {
        at = read_case(&c[n], at);
        q[n] = engine_reply_queue();
        NEED_OK(engine_submit(r.en, beam_request(&r, &c[n], q[n]), &e), &e);
    }
    for (int i = 0; i < 20000 && (engine_step(r.en) || engine_n_running(r.en)); i++)
        if (force && r.en->n_running && rng_below(&rng, 3) == 0)
            seq_preempt(r.en, r.en->running[rng_below(&rng, (uint64_t)r.en->n_running)]);
    EXPECT_INT(engine_n_running(r.en) + engine_n_waiting(r.en), 0);
    for (int i = 0; i < n; i++) {
        check_beams(&c[i], q[i]);
        queue_close(q[i]);
    }
    EXPECT_INT(pages_n_free(r.en->pages), n_page);
    struct stats_view v;
    stats_read(engine_stats(r.en), &v);
    *n_preempted += v.value[STAT_preemptions];
    EXPECT(v.value[STAT_pages_copied] > 0);
    EXPECT_INT(n, 16);
    buf_deinit(&golden);
    golden_close(&r);
}

TEST(beams_are_those_of_transformers)
{
    if (!repo_path("tests/golden/qwen3")) SKIP("tests/golden is not here");
    static const char *const models[] = {"llama3", "qwen3", "mistral"};
    int64_t n_preempted = 0, few = 0;
    for (int i = 0; i < 3; i++) {
        check_model(models[i], 1000, AGAIN, false, &few);
        check_model(models[i], 57, SWAP, false, &few);
        check_model(models[i], 1000, AGAIN, true, &n_preempted);
    }
    test_note("%lld beams were preempted by force, %lld without room", (long long)n_preempted,
              (long long)few);
    EXPECT(n_preempted > 100 && few > 0);
}

TEST(beams_wait_for_each_other_under_every_policy_and_not_for_ever)
{
    if (!repo_path("tests/golden/qwen3")) SKIP("tests/golden is not here");
    int64_t few = 0;
    for (int i = 0; policy_name(i); i++) {
        policy = policy_name(i);
        check_model("qwen3", 57, i % 2 ? SWAP : AGAIN, false, &few);
    }
    policy = NULL;
    EXPECT(few > 0);
}

TEST(beams_that_cannot_be_are_refused)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, "llama3", 32, 4, AGAIN, &e), &e);
    struct {
        int width, n, best_of, max_tokens;
        float penalty;
        int code;
        const char *field;
    } bad[] = {
        {5, 1, 0, 5, 1, ERR_LIMIT, "beam_width"},     {2, 3, 0, 5, 1, ERR_ARG, "beam_width"},
        {4, 1, 0, 90, 1, ERR_LIMIT, "beam_width"},    {3, 1, 3, 5, 1, ERR_ARG, "best_of"},
        {3, 1, 0, 5, NAN, ERR_ARG, "length_penalty"}, {-1, 1, 0, 5, 1, ERR_ARG, "beam_width"},
        {60, 1, 0, 5, 1, ERR_LIMIT, "beam_width"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct request *rq = make(&r, 8, bad[i].max_tokens, NULL);
        rq->beam_width = bad[i].width, rq->n = bad[i].n, rq->best_of = bad[i].best_of;
        rq->length_penalty = bad[i].penalty;
        if (engine_submit(r.en, rq, &e) != bad[i].code || strcmp(e.field, bad[i].field) != 0)
            test_fail(__FILE__, __LINE__, "case %zu: %s", i, e.text);
        request_close(rq);
    }
    golden_close(&r);
}

/* ---- n and best_of ---- */

static void drain(struct queue *q, struct transcript *t, struct event *done)
{
    struct event ev;
    while (queue_pop(q, &ev, 0)) {
        if (ev.kind == EVENT_TOKEN) t[ev.choice].token[t[ev.choice].n++] = ev.token;
        if (ev.kind == EVENT_TOKEN) t[ev.choice].sum += (double)ev.chosen.logprob;
        if (ev.kind == EVENT_DONE) *done = ev;
    }
}

static struct request *sampled(const struct rig *r, int n, int best_of, struct queue *q)
{
    struct request *rq = make(r, 30, 24, q);
    rq->params.temperature = 1;
    rq->params.seed = 5;
    rq->params.seeded = true;
    rq->params.ignore_eos = true;
    rq->params.n_logprob = 0;
    rq->n = n;
    rq->best_of = best_of;
    return rq;
}

TEST(best_of_is_the_best_of_all)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    static struct transcript all[8], best[3];
    struct event done = {0};
    NEED_OK(rig_open(&r, "llama3", 200, 8, AGAIN, &e), &e);
    struct queue *q = engine_reply_queue();
    memset(all, 0, sizeof all), memset(best, 0, sizeof best);
    NEED_OK(engine_submit(r.en, sampled(&r, 8, 0, q), &e), &e);
    while (engine_step(r.en)) drain(q, all, &done);
    drain(q, all, &done);
    EXPECT_INT(done.usage.n_output, 8 * 24);
    NEED_OK(engine_submit(r.en, sampled(&r, 3, 8, q), &e), &e);
    while (engine_step(r.en)) drain(q, best, &done);
    drain(q, best, &done);
    for (int i = 0; i < 3; i++) {
        int k = 0;
        for (int j = 1; j < 8; j++)
            if (all[j].sum > all[k].sum) k = j;
        EXPECT_INT(best[i].n, 24);
        EXPECT_BITS(best[i].token, all[k].token, 24 * sizeof(int32_t));
        if (i == 0) EXPECT(close_to(done.score, (float)(all[k].sum / 24)));
        all[k].sum = -INFINITY;
    }
    queue_close(q);
    golden_close(&r);
}

TEST(four_choices_share_the_pages_of_their_prompt)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    static struct transcript t[4];
    struct event done = {0};
    int most = 0, prompt = (30 + PAGE_ROWS - 1) / PAGE_ROWS, output = 24 / PAGE_ROWS;
    NEED_OK(rig_open(&r, "llama3", 200, 4, AGAIN, &e), &e);
    struct queue *q = engine_reply_queue();
    NEED_OK(engine_submit(r.en, sampled(&r, 4, 0, q), &e), &e);
    while (engine_step(r.en)) {
        int held = 200 - pages_n_free(r.en->pages);
        most = held > most ? held : most;
        drain(q, t, &done);
    }
    test_note("%d pages: prompt %d, each output %d", most, prompt, output);
    EXPECT(most < prompt + 4 * (output + 1));
    for (int i = 1; i < 4; i++) EXPECT(memcmp(t[i].token, t[0].token, sizeof t[i].token) != 0);
    queue_close(q);
    golden_close(&r);
}
