/* door_test.c - goal: a holder that uses at most its share gets a place and memory next to any
 * number of requests of another holder. A refused request gets one event, and is not counted later.
 * Method: an engine over an executor without a model, stepped by hand; then threads that submit
 * while it runs. */
#include "rig_test.h"

#include "../../tests/unit.h"
#include "base/rng.h"

#include <unistd.h>

enum { N_QUEUE = 8, N_SUBMIT = 40 }; /* slow_open's queue; a rig's reply queues */

struct shape {
    uint64_t holder;
    int n_prompt, n, max_tokens;
    bool retry_silently;
};

static int submit(struct slow_rig *r, int i, const struct shape *a, struct err *e)
{
    struct request *q = request_open(e);
    for (int k = 0; k < a->n_prompt; k++) (void)!vec_push(&q->prompt, (k * 5 + i) % SLOW_VOCAB);
    q->max_tokens = a->max_tokens ? a->max_tokens : 4;
    q->n = a->n ? a->n : 1;
    q->params.temperature = 0;
    q->params.ignore_eos = true;
    q->holder = a->holder;
    q->retry_silently = a->retry_silently;
    q->reply = r->queue[i] ? r->queue[i] : (r->queue[i] = engine_reply_queue());
    int rc = engine_submit(r->engine, q, e);
    if (rc != 0) request_close(q);
    return rc;
}

/* Return how request i ended; FINISH_NONE if it has not ended. */
static enum finish finish_of(struct slow_rig *r, int i)
{
    struct event ev;
    enum finish f = FINISH_NONE;
    int n_done = 0;
    while (queue_pop(r->queue[i], &ev, 0))
        if (ev.kind == EVENT_DONE) f = ev.finish, n_done++;
    EXPECT(n_done <= 1);
    return f;
}

static void expect_empty(struct slow_rig *r)
{
    EXPECT_INT(share_total(r->engine->door.place), 0);
    EXPECT_INT(share_n_holder(r->engine->door.place), 0);
    EXPECT_INT(door_bytes(&r->engine->door), 0);
    EXPECT(!r->engine->door.newest);
    EXPECT(!r->engine->groups);
}

TEST(a_small_holder_gets_a_place_beside_a_flood)
{
    static struct slow_rig r;
    struct err e;
    const struct shape flood = {.holder = 1, .n_prompt = 20}, small = {.holder = 2, .n_prompt = 5};
    NEED_OK(slow_open(&r, 40, 32, 2, &e), &e);
    for (int i = 0; i < N_QUEUE; i++) NEED_OK(submit(&r, i, &flood, &e), &e);
    EXPECT_INT(submit(&r, N_QUEUE, &flood, &e), ERR_BUSY);
    for (int i = 20; i < 24; i++) NEED_OK(submit(&r, i, &small, &e), &e);
    /* the share of the holder is half of the queue */
    EXPECT_INT(submit(&r, 24, &small, &e), ERR_BUSY);
    EXPECT_INT(submit(&r, 9, &flood, &e), ERR_BUSY);
    engine_step(r.engine);
    /* the newest requests are refused */
    for (int i = 4; i < N_QUEUE; i++) EXPECT_INT(finish_of(&r, i), FINISH_REFUSED);
    slow_run(&r);
    for (int i = 0; i < 4; i++) EXPECT_INT(finish_of(&r, i), FINISH_LENGTH);
    for (int i = 20; i < 24; i++) EXPECT_INT(finish_of(&r, i), FINISH_LENGTH);
    EXPECT_INT(r.view.value[STAT_rejected_evicted], 4);
    EXPECT_INT(r.view.value[STAT_rejected_queue], 3);
    EXPECT_INT(r.view.value[STAT_refused_full], 7);
    EXPECT_INT(r.view.value[STAT_done_length], 8);
    EXPECT_INT(r.view.times[TIMES_e2el].n, 8); /* refusals are not part of the latencies */
    expect_empty(&r);
    slow_close(&r);
}

TEST(a_door_with_violated_invariants_is_reported)
{
    static struct slow_rig r;
    struct err e;
    const struct shape a = {.holder = 1, .n_prompt = 20}, b = {.holder = 2, .n_prompt = 5};
    NEED_OK(slow_open(&r, 40, 32, 2, &e), &e);
    for (int i = 0; i < 3; i++) NEED_OK(submit(&r, i, i == 1 ? &b : &a, &e), &e);
    struct door *d = &r.engine->door;
    struct group *g = d->newest;
    NEED(g && g->door.older && !engine_check(r.engine));
    EXPECT(!door_check(d, 0) && (!d->byte || door_check(d, 1)));
    g->door.older->door.newer = NULL;
    EXPECT(door_check(d, 0));
    g->door.older->door.newer = g;
    atomic_store(&g->door.state, DOOR_INSIDE);
    EXPECT(door_check(d, 0));
    atomic_store(&g->door.state, DOOR_QUEUED);
    d->newest = g->door.older; /* the list lacks one group */
    EXPECT(engine_check(r.engine));
    d->newest = g;
    slow_run(&r);
    EXPECT(!engine_check(r.engine));
    expect_empty(&r);
    slow_close(&r);
}

/* Between its refusal and the step that ends it, a request may be the first request to schedule. */
TEST(a_refused_request_is_not_scheduled)
{
    static struct slow_rig r;
    struct err e;
    const struct shape flood = {.holder = 1, .n_prompt = 20}, small = {.holder = 2, .n_prompt = 5};
    NEED_OK(slow_open(&r, 40, 32, 16, &e), &e);
    for (int i = 0; i < N_QUEUE; i++) NEED_OK(submit(&r, i, &flood, &e), &e);
    struct message m;
    while (queue_pop(r.engine->inbox, &m, 0)) group_submit(r.engine, m.group);
    NEED_OK(submit(&r, 20, &small, &e), &e);
    EXPECT(!door_pass(&r.engine->door, r.engine->groups)); /* the newest group */
    engine_step(r.engine);
    EXPECT_INT(finish_of(&r, N_QUEUE - 1), FINISH_REFUSED);
    NEED_OK(submit(&r, 21, &flood, &e), &e); /* running requests are in no queue */
    slow_run(&r);
    EXPECT_INT(r.view.value[STAT_done_length], N_QUEUE + 1);
    expect_empty(&r);
    slow_close(&r);
}

TEST(silent_retries_wait_outside_while_a_batch_of_others_is_queued)
{
    static struct slow_rig r;
    struct err e;
    const struct shape part = {.holder = 1, .n_prompt = 9, .retry_silently = true},
                       one = {.holder = 1, .n_prompt = 9};
    NEED_OK(slow_open(&r, 40, 32, 2, &e), &e);
    NEED_OK(submit(&r, 0, &one, &e), &e);
    NEED_OK(submit(&r, 1, &part, &e), &e);
    EXPECT_INT(submit(&r, 2, &part, &e), ERR_BUSY);
    NEED_OK(submit(&r, 3, &one, &e), &e);
    slow_run(&r);
    /* a request whose caller retries is not counted as a refusal */
    EXPECT_INT(r.view.value[STAT_refused_full], 0);
    expect_empty(&r);
    slow_close(&r);
}

TEST(a_small_holder_gets_memory_beside_a_flood)
{
    static struct slow_rig r;
    struct err e;
    const struct shape flood = {.holder = 1, .n_prompt = 20, .n = 16, .max_tokens = 30},
                       small = {.holder = 2, .n_prompt = 5};
    enum { LIMIT = 124000 };
    NEED_OK(slow_open_how(&r, 40, 32, 2, &(struct engine_options){.bytes_max = LIMIT}, &e), &e);
    int n = 0, rc = 0, n_refused = 0;
    for (; rc == 0 && n < N_QUEUE; n += rc == 0) rc = submit(&r, n, &flood, &e);
    EXPECT_INT(rc, ERR_BUSY);
    EXPECT(strstr(e.text, "MiB") && n > 2);
    test_note("%d of %lld bytes", n, (long long)door_bytes(&r.engine->door) / n);
    /* the holder leaves some memory for other holders */
    EXPECT(door_bytes(&r.engine->door) <= LIMIT - LIMIT / 8);
    const struct shape more = {.holder = 2, .n_prompt = 50, .n = 8, .max_tokens = 30};
    for (int i = 20; i < 23; i++) NEED_OK(submit(&r, i, &more, &e), &e);
    EXPECT(door_bytes(&r.engine->door) <= LIMIT);
    engine_step(r.engine);
    for (int i = 0; i < n; i++) n_refused += finish_of(&r, i) == FINISH_REFUSED;
    EXPECT(n_refused > 0 && n_refused < n);
    EXPECT_INT(submit(&r, 30, &flood, &e), ERR_BUSY);
    NEED_OK(submit(&r, 26, &small, &e), &e);
    for (int i = 0; i < 2000 && engine_step(r.engine); i++) /* replies are read */
        for (int k = 0; k < N_SUBMIT; k++)
            if (r.queue[k]) finish_of(&r, k);
    slow_run(&r);
    EXPECT(r.view.value[STAT_rejected_memory] == 2);
    expect_empty(&r);
    slow_close(&r);
}

/* ---- threads ---- */

enum { N_THREAD = 4, N_EACH = 400 };

struct flooder {
    struct slow_rig *rig;
    uint64_t holder;
    int n_at_once, n_busy, n_refused, n_done, n_wrong;
};

static void *flooder_run(void *arg)
{
    struct flooder *f = arg;
    struct queue *queue[16];
    for (int i = 0; i < f->n_at_once; i++) queue[i] = engine_reply_queue();
    for (int round = 0; round < N_EACH / f->n_at_once; round++) {
        bool open[16] = {false};
        for (int i = 0; i < f->n_at_once; i++) {
            struct err e;
            struct request *q = request_open(&e);
            (void)!vec_push(&q->prompt, i % SLOW_VOCAB);
            q->max_tokens = 2;
            q->params.temperature = 0;
            q->holder = f->holder;
            q->reply = queue[i];
            int rc = engine_submit(f->rig->engine, q, &e);
            open[i] = rc == 0;
            f->n_busy += rc == ERR_BUSY;
            f->n_wrong += rc != 0 && rc != ERR_BUSY;
            if (rc != 0) request_close(q);
        }
        struct event ev;
        for (int i = 0; i < f->n_at_once; i++)
            while (open[i] && queue_pop(queue[i], &ev, 20 * 1000 * 1000)) {
                if (ev.kind != EVENT_DONE) continue;
                open[i] = false;
                f->n_refused += ev.finish == FINISH_REFUSED;
                f->n_done += ev.finish != FINISH_REFUSED;
            }
        for (int i = 0; i < f->n_at_once; i++) f->n_wrong += open[i];
    }
    for (int i = 0; i < f->n_at_once; i++) queue_close(queue[i]);
    return NULL;
}

/* The reported maximum of one request is available if there is no other request. */
TEST(an_idle_door_gives_a_request_the_most_of_answers)
{
    struct door d;
    struct err e;
    struct request r = {.holder = 1, .holder_weight = 1};
    NEED_OK(
        door_open(&d,
                  &(struct door_options){.queue_max = 8, .queue_retry_max = 8, .bytes_max = 64000},
                  &e),
        &e);
    int64_t max = door_reserve_bytes_max(&d);
    EXPECT(max < door_answer_bytes_max(&d) && !door_reserve(&d, &r, max + 1));
    EXPECT(door_reserve(&d, &r, max));
    door_unreserve(&d, r.holder, max);
    EXPECT_INT(door_answer_bytes(&d), 0);
    door_close(&d);
}

TEST(threads_that_flood_hold_no_other_out)
{
    static struct slow_rig r;
    struct err e;
    struct flooder f[N_THREAD];
    pthread_t thread[N_THREAD];
    NEED_OK(slow_open_how(&r, 40, 32, 2, &(struct engine_options){.bytes_max = 1 << 30}, &e), &e);
    NEED_OK(engine_start(r.engine, &e), &e);
    for (int i = 0; i < N_THREAD; i++) {
        /* three threads of one holder with 48 requests at a time, one thread with one */
        bool small = i == N_THREAD - 1;
        f[i] = (struct flooder){.rig = &r, .holder = small ? 2 : 1, .n_at_once = small ? 1 : 16};
        NEED(pthread_create(&thread[i], NULL, flooder_run, &f[i]) == 0);
    }
    int64_t n_done = 0, n_refused = 0, n_busy = 0;
    for (int i = 0; i < N_THREAD; i++) {
        pthread_join(thread[i], NULL);
        EXPECT_INT(f[i].n_wrong, 0);
        n_done += f[i].n_done, n_refused += f[i].n_refused, n_busy += f[i].n_busy;
    }
    EXPECT_INT(f[N_THREAD - 1].n_done, N_EACH);
    EXPECT(n_busy + n_refused > 0);
    for (int i = 0; i < 10000 && door_bytes(&r.engine->door) > 0; i++) usleep(1000);
    test_note("%lld done, %lld refused at the door, %lld later", (long long)n_done,
              (long long)n_busy, (long long)n_refused);
    expect_empty(&r);
    slow_close(&r);
}
