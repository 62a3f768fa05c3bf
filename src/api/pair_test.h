/* pair_test.h - private to tests of src/api: one conversation in the form of a dialect and in the
 * form of chat completions. The bundled model answers both bodies. The test's thread only. */
#ifndef QUOTH_API_PAIR_TEST_H
#define QUOTH_API_PAIR_TEST_H

#include "dialect.h"
#include "rig_test.h"

#include "base/os.h"
#include "base/rng.h"

#include <string.h>

/* Writers of both forms. */
struct pair {
    struct json_out a, o; /* writers of the dialect's and of OpenAI's form */
    uint64_t rng;
    bool tools;
    int n_call; /* number of calls so far */
};

/* Ids of a prompt and its answer, and the body of the answer. */
struct result {
    struct ids prompt, answer;
    struct buf body;
    struct err e;
    int rc;
};

/* A test of a dialect. */
struct pair_test {
    const char *url;
    const char *whole, *streamed; /* last members of the body of a whole and of a streamed answer */
    uint64_t seed;                /* seed of the sample */
    int n_case, n_quick;          /* numbers of conversations, of all and of a sample */
    void (*put)(struct pair *p);  /* function that writes a random conversation in both forms */
    /* function that compares answers; NULL: only ids are compared */
    void (*same_answer)(const struct result *a, const struct result *o);
    void (*same_stream)(const struct result *whole, const struct result *stream, const char *body);
};

static inline bool chance(struct pair *p, int percent)
{
    return rng_below(&p->rng, 100) < (uint64_t)percent;
}

/* Return a random text, which the caller frees. */
static inline char *text_of(struct pair *p)
{
    static const char *const word[] = {"cat", "What", "is 4",   "\"x\"", "\n",    "é漢",
                                       "the", "a\\b", "<tool>", "{}",    "Paris", " "};
    struct buf b = {0};
    int n = 1 + (int)rng_below(&p->rng, 5);
    for (int i = 0; i < n; i++)
        buf_addf(&b, "%s%s", i ? " " : "", word[rng_below(&p->rng, sizeof word / sizeof *word)]);
    return buf_detach(&b);
}

/* Post a body. Store its ids and its answer, which result_deinit releases. */
static inline void run(struct result *r, const char *url, const char *text, bool stream)
{
    struct api_call *c = NULL;
    struct json *sent = NULL;
    struct queue *bell = queue_open(1, 1);
    char byte;
    *r = (struct result){0};
    r->rc = json_parse(&sent, text, strlen(text), NULL, &r->e);
    if (r->rc == 0) r->rc = api_call_open(&c, &rig.api, url, sent, bell, &r->e);
    if (r->rc == 0) {
        const struct ids *ids = &c->part->request->prompt;
        for (size_t i = 0; i < ids->n; i++) vec_push(&r->prompt, ids->v[i]);
        r->rc = api_call_submit(c, &r->e);
    }
    for (bool done = r->rc != 0; !done;) {
        (void)queue_pop(bell, &byte, -1);
        done = api_call_poll(c);
        if (stream) api_call_stream(c, &r->body);
    }
    if (r->rc == 0 && !stream) r->rc = api_call_put(c, &r->body, &r->e);
    for (size_t i = 0; r->rc == 0 && i < c->part->choice[0].ids.n; i++)
        vec_push(&r->answer, c->part->choice[0].ids.v[i]);
    api_call_close(c);
    json_drop(sent);
    queue_close(bell);
}

static inline void result_deinit(struct result *r)
{
    vec_deinit(&r->prompt);
    vec_deinit(&r->answer);
    buf_deinit(&r->body);
}

static inline bool same_ids(const struct ids *a, const struct ids *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->v, b->v, a->n * sizeof *a->v) == 0);
}

/* Compare the answers to one conversation in both forms, whole and streamed. Return true if the
 * engine answered, false if both forms were rejected. */
static inline bool pair_compare(const struct pair_test *t, uint64_t rng)
{
    struct buf a = {0}, o = {0}, whole = {0}, streamed = {0};
    struct pair p = {.a = {.b = &a}, .o = {.b = &o}, .rng = rng};
    struct result ra, ro, rs;
    t->put(&p);
    buf_addf(&whole, "%.*s%s}", (int)a.n - 1, a.data, t->whole);
    buf_addf(&streamed, "%.*s%s}", (int)a.n - 1, a.data, t->streamed);
    run(&ra, t->url, whole.data, false);
    run(&ro, "/v1/chat/completions", o.data, false);
    if (ra.rc != ro.rc || !same_ids(&ra.prompt, &ro.prompt) || !same_ids(&ra.answer, &ro.answer))
        test_fail(__FILE__, __LINE__, "%s\n%s: %d %s, %d %s, %zu and %zu tokens", a.data, o.data,
                  ra.rc, ra.e.text, ro.rc, ro.e.text, ra.prompt.n, ro.prompt.n);
    const bool answered = ra.rc == 0 && ro.rc == 0;
    if (answered) {
        if (t->same_answer) t->same_answer(&ra, &ro);
        run(&rs, t->url, streamed.data, true);
        EXPECT_INT(rs.rc, 0);
        t->same_stream(&ra, &rs, streamed.data);
        result_deinit(&rs);
    }
    result_deinit(&ra);
    result_deinit(&ro);
    buf_deinit(&a);
    buf_deinit(&o);
    buf_deinit(&whole);
    buf_deinit(&streamed);
    return answered;
}

/* Compare all conversations of a test, or a sample. Return the number of compared conversations. */
static inline int pair_run(const struct pair_test *t)
{
    uint64_t rng = t->seed;
    const uint64_t each = (uint64_t)(t->n_case / t->n_quick);
    int n_done = 0, n_run = 0;
    if (!rig_open_context(&rig, 1024)) return 0;
    rig.api.seeded = true; /* equal ids of calls */
    for (uint64_t i = test_stride(&rng, each) - 1; i < (uint64_t)t->n_case;
         i += test_stride(&rng, each), n_run++)
        n_done += pair_compare(t, i * 977 + 1);
    test_note("%d answered, %d refused by both", n_done, n_run - n_done);
    EXPECT(n_done > n_run / 2);
    test_sampled(n_run, t->n_case, "conversations");
    rig_close(&rig);
    return n_run;
}

#endif
