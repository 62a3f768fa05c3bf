/* pooling_test.c - goal: a pooled vector equals the vector from transformers' hidden states, is
 * independent of other requests, and excludes other outputs. Method: the golden models with their
 * hidden states (tests/golden/make.py), in chunks of every size, and next to requests that take
 * their pages away. same_test.c includes pooled requests. */
#include "../../tests/unit.h"

#include "base/os.h"
#include "rig_test.h"

#include <math.h>

enum { D_MAX = 64, N_TOKEN = 80 };

static int open_rig(struct rig *r, const char *model, int n_row, int n_page, struct err *e)
{
    struct rig_options o = {.model = model,
                            .n_thread = 1,
                            .m = {.kv_type = KV_F32,
                                  .page_rows = 16,
                                  .n_page = n_page,
                                  .context_max = 160,
                                  .batch = {.n_row = n_row, .n_seq = 4, .n_out = 4}},
                            .e = {.queue_max = 16}};
    return golden_open(r, &o, e);
}

static struct request *make_request(struct rig *r, enum pooling pooling, float *out,
                                    struct queue *q)
{
    struct err e;
    struct request *a = request_open(&e);
    const int32_t *ids = (const int32_t *)r->ids.data;
    for (size_t i = 0; i < N_TOKEN && i < r->ids.n / sizeof *ids; i++)
        (void)!vec_push(&a->prompt, ids[i]);
    a->max_tokens = 0;
    a->pooling = pooling;
    a->pooled = out;
    a->reply = q;
    return a;
}

static enum finish pool(struct rig *r, enum pooling pooling, float *out)
{
    struct err e;
    struct event ev = {0};
    struct queue *q = engine_reply_queue();
    int rc = engine_submit(r->en, make_request(r, pooling, out, q), &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    while (engine_step(r->en)) continue;
    EXPECT_INT(queue_len(q), 1);
    EXPECT(queue_pop(q, &ev, 0));
    EXPECT_INT(ev.kind, EVENT_DONE);
    EXPECT_INT(ev.usage.n_prompt, N_TOKEN);
    EXPECT_INT(ev.usage.n_output, 0);
    queue_close(q);
    return ev.finish;
}

/* Compare with the vector from transformers' hidden states f32 [N_TOKEN, d]. */
static void expect_vector(const char *model, enum pooling pooling, const float *got,
                          const float *hidden, int d)
{
    double apart = 0, top = 0;
    for (int i = 0; i < d; i++) {
        double want = 0;
        for (int t = 0; t < N_TOKEN; t++) want += (double)hidden[t * d + i] / N_TOKEN;
        if (pooling == POOLING_LAST) want = (double)hidden[(N_TOKEN - 1) * d + i];
        if (pooling == POOLING_FIRST) want = (double)hidden[i];
        apart = fmax(apart, fabs((double)got[i] - want));
        top = fmax(top, fabs(want));
    }
    if (!(apart <= 1e-4 * top))
        test_fail(__FILE__, __LINE__, "%s, pooling %d: %.2e is above 1e-4", model, pooling,
                  apart / top);
}

TEST(pooled_vectors_are_those_of_transformers)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_GOLDEN; i++) {
        struct rig r;
        struct err e;
        struct buf hidden = {0};
        char path[96];
        float got[D_MAX];
        snprintf(path, sizeof path, "tests/golden/%s/hidden.f32", golden_models[i]);
        NEED_OK(file_read(&hidden, repo_path(path), 1 << 20, &e), &e);
        NEED_OK(open_rig(&r, golden_models[i], 32, 16, &e), &e);
        int d = r.en->executor.d_hidden;
        NEED(hidden.n == (size_t)d * N_TOKEN * sizeof(float));
        for (enum pooling p = POOLING_MEAN; p <= POOLING_FIRST; p++) {
            EXPECT_INT(pool(&r, p, got), FINISH_LENGTH);
            expect_vector(golden_models[i], p, got, (const float *)hidden.data, d);
        }
        golden_close(&r);
        buf_deinit(&hidden);
    }
}

TEST(pooled_vectors_do_not_depend_on_chunks_or_caches)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    static const int chunk[] = {128, 7, 1, 33};
    static float want[POOLING_FIRST + 1][D_MAX], got[D_MAX];
    for (int i = 0; i < 4; i++) {
        struct rig r;
        struct err e;
        NEED_OK(open_rig(&r, "llama3", chunk[i], 32, &e), &e);
        for (int again = 0; again < 2; again++) /* the prefix is cached the second time */
            for (enum pooling p = POOLING_MEAN; p <= POOLING_FIRST; p++) {
                float *to = i + again ? got : want[p];
                pool(&r, p, to);
                EXPECT_BITS(to, want[p], (size_t)r.en->executor.d_hidden * sizeof *to);
            }
        golden_close(&r);
    }
}

/* Compute the class of n tokens, the last n_pad of which are padding, and the class of row `row` of
 * the same tokens. */
static void classify(struct rig *r, int n, int n_pad, int row, float *got, float *want)
{
    static float rows[N_TOKEN * D_MAX];
    const struct executor *x = &r->en->executor;
    for (int i = 0; i < 2; i++) {
        struct err e;
        struct event ev = {0};
        struct queue *q = engine_reply_queue();
        struct request *a = make_request(r, i ? POOLING_ALL : POOLING_LAST, i ? rows : got, q);
        a->prompt.n = (size_t)n;
        for (int k = n - n_pad; k < n; k++) a->prompt.v[k] = *x->class_pad;
        a->head = i ? HEAD_EMBED : HEAD_CLASS;
        NEED_OK(engine_submit(r->en, a, &e), &e);
        while (engine_step(r->en)) continue;
        EXPECT(queue_pop(q, &ev, 0) && ev.usage.n_prompt == n);
        queue_close(q);
    }
    x->head(x->ctx, HEAD_CLASS, rows + (int64_t)row * x->d_hidden, want);
}

/* A decoder, and an encoder whose rows attend to the padding. */
TEST(a_class_comes_from_the_last_row_without_padding)
{
    static const char *const model[] = {"encoders/llama-class", "encoders/gemma-class"};
    if (!repo_path("tests/golden/encoders")) SKIP("tests/golden is not here");
    for (int i = 0; i < 2; i++) {
        static const struct {
            int n, n_pad, row;
        } text[] = {{20, 0, 19}, {20, 1, 18}, {20, 19, 0}, {3, 3, 0}};
        struct rig r;
        struct err e;
        NEED_OK(open_rig(&r, model[i], 32, 16, &e), &e);
        NEED(r.en->executor.class_pad && *r.en->executor.class_pad == 1);
        for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
            float got[D_MAX], want[D_MAX];
            classify(&r, text[k].n, text[k].n_pad, text[k].row, got, want);
            EXPECT_BITS(got, want, 3 * sizeof *got);
        }
        golden_close(&r);
    }
}

TEST(pooling_refuses_what_cannot_be_beside_it)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    float out[D_MAX];
    struct queue *q = engine_reply_queue();
    NEED_OK(open_rig(&r, "llama3", 32, 16, &e), &e);
    for (int i = 0; i < 5; i++) {
        struct request *a = make_request(&r, POOLING_MEAN, out, q);
        if (i == 0) a->max_tokens = 1;
        if (i == 1) a->n = 2;
        if (i == 2) a->n_prompt_logprob = 0;
        if (i == 3) a->beam_width = 2, a->max_tokens = 4;
        if (i == 4) r.en->executor.d_hidden = 0;
        EXPECT_INT(engine_submit(r.en, a, &e), i == 4 ? ERR_UNSUPPORTED : ERR_ARG);
        EXPECT(strncmp(e.text, "pooling: ", 9) == 0);
        request_close(a);
    }
    golden_close(&r);
    queue_close(q);
}

/* Return the number of cached tokens of a request for the golden text. */
static int n_cached(struct rig *r)
{
    struct err e;
    struct event ev = {0};
    struct queue *q = engine_reply_queue();
    struct request *a = make_request(r, POOLING_NONE, NULL, q);
    a->max_tokens = 1;
    EXPECT_INT(engine_submit(r->en, a, &e), 0);
    while (engine_step(r->en)) continue;
    while (queue_pop(q, &ev, 0)) continue;
    EXPECT_INT(ev.kind, EVENT_DONE);
    queue_close(q);
    return ev.usage.n_cached;
}

TEST(forgotten_prefixes_are_computed_anew)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct rig r;
    struct err e;
    struct queue *q = engine_reply_queue();
    NEED_OK(open_rig(&r, "llama3", 128, 32, &e), &e);
    EXPECT_INT(n_cached(&r), 0);
    EXPECT_INT(n_cached(&r), 64);
    engine_reset_prefix_cache(r.en);
    EXPECT_INT(n_cached(&r), 0);
    EXPECT_INT(n_cached(&r), 64);
    /* the cache also has pages that a running sequence holds */
    struct request *a = make_request(&r, POOLING_NONE, NULL, q);
    a->max_tokens = 40;
    a->params.ignore_eos = true;
    NEED_OK(engine_submit(r.en, a, &e), &e);
    engine_step(r.en);
    EXPECT_INT(engine_n_running(r.en), 1);
    engine_reset_prefix_cache(r.en);
    EXPECT_INT(n_cached(&r), 0);
    EXPECT_INT(queue_len(q), 41);
    EXPECT_INT(pages_n_free(r.en->pages), pages_n_total(r.en->pages));
    golden_close(&r);
    queue_close(q);
}
