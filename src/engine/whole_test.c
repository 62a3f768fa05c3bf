/* whole_test.c - goal: an encoder's sequence is computed in one step, and its result depends on its
 * text only. Method: an executor whose result is a hash of all rows of the sequence in the step.
 * Texts of many lengths run together, with few rows per step and few pages. Texts with a common
 * beginning must not share pages. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "engine_impl.h"

#include <stdlib.h>

enum { N_ROW = 48, N_SEQ = 8, PAGE_ROWS = 4, N_PAGE = 24, N_TEXT = 200, VOCAB = 50, TEXT_MAX = 48 };

struct whole {
    struct batch_limits limits;
    int64_t now_us, n_row, n_step;
    int n_cut; /* sequences without all their rows */
    float hidden[N_ROW];
};

/* Return the hash of a text, exact in f32. */
static float hash_of(const int32_t *token, int n)
{
    uint32_t h = (uint32_t)n;
    for (int i = 0; i < n; i++) h = h * 31 + (uint32_t)token[i];
    return (float)(h % 65536);
}

static struct model_out forward(void *ctx, const struct batch *b)
{
    struct whole *w = ctx;
    int n_out = 0;
    w->now_us += 1000, w->n_row += b->n_row, w->n_step++;
    for (int s = 0; s < b->n_seq; s++) {
        const int row0 = b->row0[s], n = b->row0[s + 1] - row0;
        w->n_cut += n != b->kv_len[s];
        for (; n_out < b->n_out && b->out_row[n_out] < row0 + n; n_out++)
            w->hidden[n_out] = hash_of(b->token + row0, n) + (float)b->segment[b->out_row[n_out]];
    }
    return (struct model_out){.hidden = w->hidden, .n_hidden = n_out};
}

static int64_t now_us(void *ctx)
{
    return ((struct whole *)ctx)->now_us;
}

static int open_engine(struct engine **out, struct whole *w, struct err *e)
{
    *w = (struct whole){.limits = {.n_row = N_ROW,
                                   .n_seq = N_SEQ,
                                   .n_out = N_SEQ,
                                   .page_stride = TEXT_MAX / PAGE_ROWS,
                                   .n_copy = N_SEQ,
                                   .n_segment = 2}};
    struct engine_options o = {.queue_max = N_TEXT + 1, .check = true};
    o.executor = (struct executor){.ctx = w,
                                   .n_vocab = VOCAB,
                                   .n_page = N_PAGE,
                                   .page_rows = PAGE_ROWS,
                                   .context_max = TEXT_MAX,
                                   .d_hidden = 1,
                                   .whole = true,
                                   .limits = &w->limits,
                                   .name = "encoder",
                                   .forward = forward,
                                   .now_us = now_us};
    return engine_open(out, &o, e);
}

static struct request *text_of(uint64_t *rng, int n, float *pooled, struct queue *reply)
{
    struct err e;
    struct request *r = request_open(&e);
    for (int i = 0; i < n; i++)
        (void)!vec_push(&r->prompt, i < 8 ? i : (int32_t)rng_below(rng, VOCAB));
    r->max_tokens = 0;
    r->pooling = POOLING_MEAN;
    r->pooled = pooled;
    r->reply = reply;
    r->holder = rng_below(rng, 3);
    return r;
}

TEST(sequences_of_an_encoder_are_computed_whole)
{
    static float got[N_TEXT], want[N_TEXT];
    static struct queue *reply[N_TEXT];
    struct engine *en;
    struct whole w;
    struct err e;
    struct event ev;
    uint64_t rng = 5;
    int64_t n_token = 0;
    int n_done = 0, n_wrong = 0;
    NEED_OK(open_engine(&en, &w, &e), &e);
    for (int i = 0; i < N_TEXT; i++) {
        const int n = i % 5 ? 1 + (int)rng_below(&rng, TEXT_MAX) : 1 + i % 3;
        reply[i] = engine_reply_queue();
        struct request *r = text_of(&rng, n, &got[i], reply[i]);
        want[i] = hash_of(r->prompt.v, n);
        n_token += n;
        NEED_OK(engine_submit(en, r, &e), &e);
        if (i % 3 == 0) engine_step(en);
    }
    for (int i = 0; i < 10 * N_TEXT && engine_step(en); i++) continue;
    for (int i = 0; i < N_TEXT; i++) {
        n_done += queue_pop(reply[i], &ev, 0) && ev.finish == FINISH_LENGTH;
        n_wrong += got[i] != want[i];
        queue_close(reply[i]);
    }
    EXPECT_INT(n_done, N_TEXT);
    EXPECT_INT(n_wrong, 0);
    EXPECT_INT(w.n_cut, 0);
    EXPECT_INT(w.n_row, n_token); /* no row is computed twice */
    test_note("%lld rows in %lld steps of %d", (long long)w.n_row, (long long)w.n_step, N_ROW);
    engine_close(en);
}

TEST(requests_that_an_encoder_cannot_compute_are_refused)
{
    struct engine *en;
    struct whole w;
    struct err e;
    uint64_t rng = 6;
    float out;
    NEED_OK(open_engine(&en, &w, &e), &e);
    struct request *r = text_of(&rng, TEXT_MAX, &out, NULL);
    EXPECT_INT(engine_validate(en, r, &e), 0);
    r->pooling = POOLING_NONE, r->max_tokens = 1;
    EXPECT_INT(engine_validate(en, r, &e), ERR_UNSUPPORTED);
    EXPECT(strstr(e.text, "encoder") != NULL);
    r->pooling = POOLING_MEAN, r->max_tokens = 0;
    r->head = HEAD_CLASS;
    EXPECT_INT(engine_validate(en, r, &e), ERR_UNSUPPORTED);
    r->head = HEAD_EMBED;
    r->segment1 = TEXT_MAX + 1;
    EXPECT_INT(engine_validate(en, r, &e), ERR_ARG);
    r->segment1 = 0;
    (void)!vec_push(&r->prompt, 1);
    EXPECT_INT(engine_validate(en, r, &e), ERR_LIMIT);
    request_close(r);
    engine_close(en);
}
