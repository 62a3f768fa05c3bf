/* threads_test.c - goal: text is made and read on clients' threads only, and no queue grows without
 * bound. Method: the linker puts a counter before every function of the tokenizer that takes time
 * (Makefile, -Wl,--wrap). Clients mark their threads, so a call on any other thread, such as the
 * engine's thread or a worker, is detected. The engine cannot use templates, because
 * scripts/deps.txt does not let it include src/chat. */
#include "../../tests/unit.h"

#include "base/os.h"
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Thread_local bool is_client;
static _Atomic bool armed;
static _Atomic int n_here, n_elsewhere;

static void seen(void)
{
    if (!atomic_load(&armed)) return;
    atomic_fetch_add(is_client ? &n_here : &n_elsewhere, 1);
}

#define WRAPPED(type, name, params, args)                                                          \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        seen();                                                                                    \
        return __real_##name args;                                                                 \
    }
WRAPPED(int, tokenizer_encode,
        (const struct tokenizer *t, const char *text, size_t n, unsigned flags, struct ids *out,
         struct err *e),
        (t, text, n, flags, out, e))
WRAPPED(bool, tokenizer_decode,
        (const struct tokenizer *t, const int32_t *ids, size_t n, unsigned flags, struct buf *out),
        (t, ids, n, flags, out))
WRAPPED(bool, detok_push, (struct detok * d, int32_t id, struct buf *out), (d, id, out))
WRAPPED(bool, detok_flush, (struct detok * d, struct buf *out), (d, out))

struct rig {
    struct checkpoint *c;
    struct tokenizer *tok;
    struct backend *b;
    struct model *m;
    struct engine *en;
};

static int rig_open(struct rig *r, struct err *e)
{
    *r = (struct rig){0};
    int rc = checkpoint_open(&r->c, repo_path("models/quoth-tiny/quoth-tiny-q8_0.gguf"), e);
    if (rc == 0) rc = tokenizer_open(&r->tok, r->c, e);
    if (rc == 0) rc = backend_open(&r->b, "cpu", &(struct backend_options){.n_thread = 2}, e);
    struct model_options mo = {.backend = r->b,
                               .n_page = 128,
                               .context_max = 1024,
                               .batch = {.n_row = 64, .n_seq = 4, .n_out = 8}};
    if (rc == 0) rc = model_open(&r->m, r->c, &mo, e);
    struct engine_options eo = {.executor = executor_of_model(r->m), .tokenizer = r->tok};
    return rc ? rc : engine_open(&r->en, &eo, e);
}

static void rig_close(struct rig *r)
{
    engine_close(r->en);
    model_close(r->m);
    backend_close(r->b);
    tokenizer_close(r->tok);
    checkpoint_close(r->c);
}

static struct request *make_request(const struct rig *r, const char *text, int max_tokens,
                                    struct queue *q, struct err *e)
{
    struct request *rq = request_open(e);
    if (tokenizer_encode(r->tok, text, strlen(text), 0, &rq->prompt, e) != 0) return NULL;
    rq->max_tokens = max_tokens;
    rq->params.ignore_eos = true;
    rq->params.dry_multiplier = 0.8f; /* DRY's breakers are texts */
    rq->params.n_logprob = 2;
    rq->reply = q;
    return rq;
}

static void *client(void *arg)
{
    const struct rig *r = arg;
    is_client = true;
    struct err e;
    struct queue *q = engine_reply_queue();
    struct request *rq = make_request(r, "Once upon a time there was a cat and", 40, q, &e);
    struct reply reply;
    struct buf text = {0};
    struct event ev;
    static const struct text_span stop = {"never here", 10};
    struct reply_options o = {.tokenizer = r->tok, .stop = &stop, .n_stop = 1};
    if (!rq || reply_open(&reply, r->en, rq->id, &o, &e) != 0) return "cannot submit";
    if (engine_submit(r->en, rq, &e) != 0) return "refused";
    while (queue_pop(q, &ev, 30 * 1000 * 1000) && !reply_event(&reply, &ev, &text)) {
    }
    const char *wrong = text.n > 20 ? NULL : "no text came";
    reply_close(&reply);
    queue_close(q);
    buf_deinit(&text);
    return (void *)wrong;
}

TEST(text_is_made_and_read_on_clients_threads_alone)
{
    if (!repo_path("models/quoth-tiny")) SKIP("the bundled model is not here");
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, &e), &e);
    is_client = true;
    atomic_store(&armed, true);
    NEED_OK(engine_start(r.en, &e), &e);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) NEED(pthread_create(&thread[i], NULL, client, &r) == 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        if (wrong) test_fail(__FILE__, __LINE__, "%s", (const char *)wrong);
    }
    atomic_store(&armed, false);
    EXPECT(n_here >= 4 * (1 + 40)); /* encoding, and each token's text */
    EXPECT_INT(n_elsewhere, 0);
    rig_close(&r);
}

TEST(a_client_that_does_not_read_blocks_no_others_and_fills_one_queue)
{
    if (!repo_path("models/quoth-tiny")) SKIP("the bundled model is not here");
    struct rig r;
    struct err e;
    NEED_OK(rig_open(&r, &e), &e);
    is_client = true;
    struct queue *deaf = engine_reply_queue(), *other = engine_reply_queue();
    NEED_OK(engine_submit(r.en, make_request(&r, "A", 900, deaf, &e), &e), &e);
    NEED_OK(engine_submit(r.en, make_request(&r, "B", 300, other, &e), &e), &e);
    while (engine_step(r.en)) {
    }
    size_t n = queue_len(deaf);
    EXPECT(n > 300 && n < 900);
    EXPECT_INT(queue_len(other), 301); /* events of its tokens and of its end */
    EXPECT_INT(engine_n_running(r.en), 1);
    struct event ev;
    int n_token = 0;
    /* a request continues to its end if its events are read late */
    for (bool done = false; !done;) {
        engine_step(r.en);
        while (queue_pop(deaf, &ev, 0)) {
            n_token += ev.kind == EVENT_TOKEN;
            done |= ev.kind == EVENT_DONE;
        }
    }
    EXPECT_INT(n_token, 900);
    rig_close(&r);
    queue_close(deaf);
    queue_close(other);
}
