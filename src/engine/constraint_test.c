/* constraint_test.c - goal: the constraint of a sequence allows all its tokens, also in beams, if
 * min_tokens forbids the end, and if the constraint fails. Method: scripts (script_test.h) over the
 * fake model. sim_test.c tests constraints under load. */
#include "../../tests/unit.h"

#include "script_test.h"

struct scripted {
    struct fake fake;
    struct engine *engine;
    struct queue *queue;
};

static void scripted_open(struct scripted *s, struct err *e)
{
    *s = (struct scripted){
        .fake = {.n_page = 200,
                 .page_rows = 4,
                 .limits = {.n_row = 40, .n_seq = 8, .n_out = 8, .n_copy = 8, .page_stride = 20}}};
    NEED_OK(fake_open(&s->fake, e), e);
    struct executor x = fake_executor(&s->fake);
    x.context_max = 80;
    NEED_OK(engine_open(&s->engine, &(struct engine_options){.executor = x, .check = true}, e), e);
    s->fake.pages = s->engine->pages;
    s->queue = engine_reply_queue();
}

static void scripted_close(struct scripted *s)
{
    engine_close(s->engine);
    queue_close(s->queue);
    fake_close(&s->fake);
}

/* Return a request with a script as its constraint. The request's stop token is the last token of
 * the vocabulary. */
static struct request *scripted_request(struct scripted *s, uint64_t seed, int fail_at)
{
    static const int32_t stop[] = {FAKE_VOCAB - 1};
    struct err e;
    struct request *r = request_open(&e);
    for (int i = 0; i < 9; i++) (void)!vec_push(&r->prompt, (i + (int)seed) % FAKE_VOCAB);
    r->params.temperature = 0;
    r->params.stop_id = stop;
    r->params.n_stop_id = 1;
    r->max_tokens = 30;
    r->constraint = script_open(seed, NULL, fail_at);
    r->reply = s->queue;
    return r;
}

struct scripted_answer {
    int32_t token[CHOICES_MAX][64];
    int n[CHOICES_MAX];
    struct event done;
};

static void scripted_run(struct scripted *s, struct request *r, struct scripted_answer *a)
{
    struct err e;
    struct event ev;
    *a = (struct scripted_answer){0};
    NEED_OK(engine_submit(s->engine, r, &e), &e);
    while (engine_step(s->engine)) {
    }
    while (queue_pop(s->queue, &ev, 0)) {
        if (ev.kind == EVENT_TOKEN) a->token[ev.choice][a->n[ev.choice]++] = ev.token;
        if (ev.kind == EVENT_DONE) a->done = ev;
    }
    EXPECT(!s->fake.wrong);
}

/* Return true if the script of this seed allows the tokens in sequence. */
static bool script_allows(uint64_t seed, const int32_t *token, int n)
{
    struct constraint *c = script_open(seed, NULL, 0);
    int i = 0;
    while (i < n && c->op->accept(c, token[i])) i++;
    c->op->close(c);
    return i == n;
}

TEST(beams_follow_their_constraint)
{
    struct scripted s;
    struct scripted_answer a, b;
    struct err e;
    int n_differ = 0;
    scripted_open(&s, &e);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct request *r = scripted_request(&s, seed, 0);
        r->beam_width = r->n = 3;
        r->params.n_logprob = 2;
        scripted_run(&s, r, &a);
        EXPECT(a.done.finish == FINISH_STOP || a.done.finish == FINISH_LENGTH);
        for (int i = 0; i < 3; i++) EXPECT(script_allows(seed, a.token[i], a.n[i]));
        r = scripted_request(&s, seed, 0);
        r->constraint->op->close(r->constraint);
        r->constraint = NULL;
        scripted_run(&s, r, &b);
        n_differ += !script_allows(seed, b.token[0], b.n[0]);
    }
    EXPECT(n_differ > 20); /* the scripts restrict the tokens */
    scripted_close(&s);
}

TEST(a_constraint_that_fails_ends_the_answer_with_an_error)
{
    struct scripted s;
    struct scripted_answer a;
    struct err e;
    scripted_open(&s, &e);
    for (int how = 0; how < 8; how++) {
        struct request *r = scripted_request(&s, 3, how < 4 ? 4 : -1);
        r->n = how % 4 == 1 ? 2 : 1;
        r->beam_width = how % 4 == 2 ? 2 : 0;
        r->best_of = how % 4 == 3 ? 3 : 0;
        scripted_run(&s, r, &a);
        EXPECT_INT(a.done.finish, FINISH_ERROR);
        EXPECT_INT(a.done.cause, CAUSE_LIMIT);
        EXPECT(a.n[0] <= 4);
    }
    struct stats_view v;
    stats_read(engine_stats(s.engine), &v);
    EXPECT_INT(v.value[STAT_done_error], 8);
    EXPECT_INT(v.value[STAT_corrupted], 0); /* the model is not the cause */
    EXPECT_INT(pages_n_free(s.engine->pages), 200);
    scripted_close(&s);
}

/* The text ends if only the end is allowed. */
TEST(min_tokens_lengthen_no_text_that_its_constraint_completed)
{
    struct scripted s;
    struct scripted_answer a;
    struct err e;
    int n_short = 0;
    scripted_open(&s, &e);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct request *r = scripted_request(&s, seed, 0);
        r->params.min_tokens = 25;
        scripted_run(&s, r, &a);
        EXPECT(a.done.finish == FINISH_STOP || a.done.finish == FINISH_LENGTH);
        EXPECT(script_allows(seed, a.token[0], a.n[0]));
        n_short += a.n[0] < 25;
    }
    EXPECT(n_short > 5);
    scripted_close(&s);
}

/* Masks that need more than a step's work do not change tokens, and other sequences continue
 * meanwhile. */
TEST(slow_masks_are_waited_for_by_their_sequences_only)
{
    struct scripted s;
    struct scripted_answer quick, slow;
    struct err e;
    struct script_shared shared = {.slow = true};
    scripted_open(&s, &e);
    for (int how = 0; how < 4; how++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct scripted_answer *a[] = {&quick, &slow};
            for (int k = 0; k < 2; k++) {
                struct request *r = scripted_request(&s, seed, 0);
                r->n = how == 1 ? 3 : 1;
                r->beam_width = how == 2 ? 2 : 0;
                if (how == 3) r->params.n_logprob = 0; /* forced tokens are drafts */
                r->constraint->op->close(r->constraint);
                r->constraint = script_open(seed, k ? &shared : NULL, 0);
                scripted_run(&s, r, a[k]);
            }
            EXPECT_INT(slow.done.finish, quick.done.finish);
            for (int i = 0; i < (how == 1 ? 3 : 1); i++) {
                EXPECT_INT(slow.n[i], quick.n[i]);
                EXPECT(memcmp(slow.token[i], quick.token[i], sizeof quick.token[i]) == 0);
            }
        }
    }
    EXPECT(atomic_load(&shared.n_late) > 100);
    EXPECT(!shared.wrong);
    EXPECT_INT(pages_n_free(s.engine->pages), 200);
    scripted_close(&s);
}

/* Run requests with constraints to their end. Return the allocations of their steps. */
static int64_t steps_malloc(struct scripted *s, struct script_shared *shared)
{
    struct err e;
    struct event ev;
    int64_t n = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct request *r = scripted_request(s, seed, 0);
        r->constraint->op->close(r->constraint);
        r->constraint = script_open(seed, shared, 0);
        if (engine_submit(s->engine, r, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
        uint64_t before = test_n_malloc();
        while (engine_step(s->engine)) {
        }
        n += (int64_t)(test_n_malloc() - before);
        while (queue_pop(s->queue, &ev, 0)) {
        }
    }
    return n;
}

/* Goal: the steps of a constrained sequence allocate nothing, also for deferred masks. */
TEST(steps_with_a_constraint_do_not_allocate)
{
    struct scripted s;
    struct err e;
    struct script_shared quick = {0}, slow = {.slow = true};
    scripted_open(&s, &e);
    EXPECT_INT(steps_malloc(&s, NULL), 0);
    EXPECT_INT(steps_malloc(&s, &quick), 0);
    EXPECT_INT(steps_malloc(&s, &slow), 0);
    EXPECT_INT(quick.n_late, 0);
    EXPECT(atomic_load(&slow.n_late) > 20);
    scripted_close(&s);
}

/* Slow masks with the engine's threads, and with clients that disconnect. */
TEST(slow_masks_are_made_by_a_thread)
{
    enum { N = 24 };
    struct scripted s;
    struct err e;
    struct event ev;
    struct script_shared shared[2] = {{.slow = true}, {.slow = true}};
    int n_done = 0, n_token = 0;
    scripted_open(&s, &e);
    NEED_OK(engine_start(s.engine, &e), &e);
    for (int i = 0; i < N; i++) {
        struct request *r = scripted_request(&s, 100 + (uint64_t)i, 0);
        r->constraint->op->close(r->constraint);
        r->constraint = script_open((uint64_t)i, &shared[i % 2], 0);
        uint64_t id = r->id;
        NEED_OK(engine_submit(s.engine, r, &e), &e);
        if (i % 5 == 4) engine_cancel(s.engine, id);
    }
    while (n_done < N && queue_pop(s.queue, &ev, 20 * 1000 * 1000)) {
        n_done += ev.kind == EVENT_DONE;
        n_token += ev.kind == EVENT_TOKEN;
    }
    EXPECT_INT(n_done, N);
    EXPECT(n_token > N && !shared[0].wrong && !shared[1].wrong);
    scripted_close(&s);
}
