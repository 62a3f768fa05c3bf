/* crowd_test.c - goal: requests that wait next to large requests get rows and places soon, if their
 * holders are equal and if they differ. Method: an engine over an executor without a model, stepped
 * by hand. The test counts steps. */
#include "rig_test.h"

#include "../../tests/unit.h"

enum { N_SEQ = 16, N_ROW = 32, LONG = 900, SHORT = 12, MANY = 64 };

struct crowd {
    struct slow_rig r;
    int n_step, first[40],
        /* numbers of steps up to the first token of request i, and up to its last token; 0 if
         * pending */
        done[40];
};

static int crowd_open_wide(struct crowd *c, const char *scheduler, int n_page, int n_row, int n_seq,
                           double target_ms, struct err *e)
{
    memset(c, 0, sizeof *c);
    struct engine_options o = {.scheduler = scheduler, .queue_max = 40, .itl_target_ms = target_ms};
    return slow_open_how(&c->r, n_page, n_row, n_seq, &o, e);
}

static int crowd_open(struct crowd *c, const char *scheduler, int n_page, struct err *e)
{
    return crowd_open_wide(c, scheduler, n_page, N_ROW, N_SEQ, 1e6, e);
}

static bool extra; /* value of request.extra */

static void crowd_submit(struct crowd *c, int i, uint64_t holder, int n_prompt, int n,
                         int max_tokens)
{
    struct err e;
    struct request *q = request_open(&e);
    for (int k = 0; k < n_prompt; k++)
        (void)!vec_push(&q->prompt, (k * 7 + i * 3 + k / 16) % SLOW_VOCAB);
    q->max_tokens = max_tokens;
    q->n = n;
    q->params.temperature = 0;
    q->params.ignore_eos = true;
    q->holder = holder;
    q->extra = extra;
    q->reply = c->r.queue[i] = engine_reply_queue();
    int rc = engine_submit(c->r.engine, q, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text), request_close(q);
}

static void crowd_steps(struct crowd *c, int n)
{
    struct event ev;
    for (; n > 0 && engine_step(c->r.engine); n--) {
        c->n_step++;
        for (int i = 0; i < 40; i++)
            while (c->r.queue[i] && queue_pop(c->r.queue[i], &ev, 0)) {
                if (ev.kind == EVENT_TOKEN && !c->first[i]) c->first[i] = c->n_step;
                if (ev.kind == EVENT_DONE) c->done[i] = c->n_step;
            }
    }
}

/* Run a long prompt while short prompts arrive. Return the number of steps until the last short
 * prompt has its first token. */
static int wait_beside_a_prompt(const char *scheduler, uint64_t other, int n_short)
{
    static struct crowd c;
    struct err e;
    if (crowd_open(&c, scheduler, 400, &e) != 0)
        return test_fail(__FILE__, __LINE__, "%s", e.text), 0;
    crowd_submit(&c, 0, 1, LONG, 1, 4);
    crowd_steps(&c, 2);
    int from = c.n_step, last = 0;
    for (int i = 1; i <= n_short; i++) crowd_submit(&c, i, other, SHORT, 1, 4);
    crowd_steps(&c, 1000);
    for (int i = 1; i <= n_short; i++) last = c.first[i] > last ? c.first[i] : last;
    EXPECT(c.first[0] > 0 && last > 0);
    /* the prompt takes 29 steps alone, and keeps half of the rows next to shorter prompts */
    EXPECT(c.first[0] <= 29 + n_short * SHORT / N_ROW * 2 + 32);
    slow_close(&c.r);
    return last - from;
}

TEST(short_prompts_get_rows_beside_a_long_one)
{
    EXPECT_INT(wait_beside_a_prompt("fcfs", 1, 1), 1);
    EXPECT_INT(wait_beside_a_prompt("fair", 1, 1), 1);
    EXPECT_INT(wait_beside_a_prompt("fair", 2, 1), 1);
    EXPECT(wait_beside_a_prompt("fcfs", 1, 8) <= 8 * SHORT / (N_ROW / 2) + 2);
    EXPECT(wait_beside_a_prompt("fair", 2, 8) <= 8 * SHORT / (N_ROW / 2) + 2);
}

TEST(prompts_of_one_length_go_by_arrival)
{
    static struct crowd c;
    struct err e;
    NEED_OK(crowd_open(&c, "fair", 400, &e), &e);
    for (int i = 0; i < 6; i++) crowd_submit(&c, i, 1, 3 * N_ROW, 1, 1);
    crowd_steps(&c, 1000);
    for (int i = 0; i < 6; i++) /* no prompt has computed half of its rows before another one */
        EXPECT_INT(c.first[i], 3 * (i + 1));
    slow_close(&c.r);
}

/* Run a request with many choices that has all places. Then other requests arrive. */
static void beside_many_choices(uint64_t other)
{
    static struct crowd c;
    struct err e;
    NEED_OK(crowd_open(&c, "fair", 400, &e), &e);
    crowd_submit(&c, 0, 1, 8, MANY, 60);
    crowd_steps(&c, 5);
    EXPECT_INT(engine_n_running(c.r.engine), N_SEQ);
    int from = c.n_step;
    for (int i = 1; i <= 4; i++) crowd_submit(&c, i, other, SHORT, 1, 8);
    crowd_steps(&c, 5000);
    for (int i = 1; i <= 4; i++) EXPECT(c.first[i] > from && c.first[i] <= from + 8);
    EXPECT(c.done[0] > 0 && c.done[0] <= 5 + (MANY / (N_SEQ - N_SEQ / 8) + 1) * 60 +
                                             60); /* the large request ends almost as early */
    slow_close(&c.r);
}

TEST(a_request_of_many_choices_starves_no_other)
{
    beside_many_choices(1);
    beside_many_choices(2);
}

/* A holder with many requests has all places and a long queue. Another holder submits rarely. */
TEST(a_small_holder_waits_few_steps_beside_a_flood)
{
    static struct crowd c;
    struct err e;
    NEED_OK(crowd_open(&c, "fair", 400, &e), &e);
    for (int i = 0; i < 30; i++) crowd_submit(&c, i, 1, 40 + i, 1, 300);
    crowd_steps(&c, 60);
    EXPECT_INT(engine_n_running(c.r.engine), N_SEQ);
    int most = 0;
    for (int i = 30; i < 38; i++) {
        int from = c.n_step;
        crowd_submit(&c, i, 2, SHORT, 1, 8);
        crowd_steps(&c, 20);
        NEED(c.first[i] > 0);
        most = c.first[i] - from > most ? c.first[i] - from : most;
    }
    test_note("%d steps at most", most);
    EXPECT(most <= 3);
    stats_read(engine_stats(c.r.engine), &c.r.view);
    EXPECT(c.r.view.value[STAT_displaced] <= 8); /* one displacement per request */
    slow_close(&c.r);
}

/* Two holders with many requests reach equal numbers of places, and displacement ends. */
TEST(two_floods_share_places_without_displacing_each_other)
{
    static struct crowd c;
    struct err e;
    NEED_OK(crowd_open(&c, "fair", 400, &e), &e);
    for (int i = 0; i < 18; i++) crowd_submit(&c, i, 1, 20, 1, 500);
    crowd_steps(&c, 20);
    for (int i = 18; i < 36; i++) crowd_submit(&c, i, 2, 20, 1, 500);
    crowd_steps(&c, 300);
    int n[3] = {0};
    for (int i = 0; i < c.r.engine->n_running; i++) n[c.r.engine->running[i]->entity.holder]++;
    EXPECT_INT(n[1], N_SEQ / 2);
    EXPECT_INT(n[2], N_SEQ / 2);
    stats_read(engine_stats(c.r.engine), &c.r.view);
    EXPECT(c.r.view.value[STAT_displaced] <= N_SEQ / 2 + 4);
    slow_close(&c.r);
}

/* The prompts of one call have all places, and more prompts of the call wait. */
TEST(many_prompts_of_a_call_starve_no_other_request_and_end)
{
    static struct crowd c;
    struct err e;
    NEED_OK(crowd_open(&c, "fair", 400, &e), &e);
    for (int i = 0; i < 30; i++) {
        extra = i >= 8;
        crowd_submit(&c, i, 1, 20, 1, 200);
    }
    extra = false;
    crowd_steps(&c, 60);
    int from = c.n_step;
    for (int i = 30; i < 34; i++) crowd_submit(&c, i, 1, SHORT, 1, 8);
    crowd_steps(&c, 5000);
    for (int i = 30; i < 34; i++) EXPECT(c.first[i] > from && c.first[i] <= from + 8);
    for (int i = 0; i < 30; i++) EXPECT(c.done[i] > 0);
    slow_close(&c.r);
}

/* Extra requests progress next to any number of ordinary requests. */
TEST(extra_requests_do_not_starve)
{
    static struct crowd c;
    struct err e;
    NEED_OK(crowd_open(&c, "fair", 400, &e), &e);
    extra = true;
    crowd_submit(&c, 0, 1, 20, 1, 100);
    extra = false;
    for (int i = 1; i < 40; i++) crowd_submit(&c, i, 1, SHORT, 1, 40);
    for (int round = 0; round < 400 && !c.done[0]; round++) {
        crowd_steps(&c, 10);
        for (int i = 1; i < 40; i++) {
            if (!c.done[i]) continue;
            queue_close(c.r.queue[i]);
            c.done[i] = 0;
            crowd_submit(&c, i, 1, SHORT, 1, 40);
        }
    }
    EXPECT(c.done[0] > 0);
    test_note("done after %d steps", c.done[0]);
    slow_close(&c.r);
}

/* ---- one holder's part of a step (portion.c) ---- */

enum { WIDE = 64, HALF = WIDE / 2 };

/* Return the maximum number of rows that holder 1 had in one of n steps. Set *apart to the largest
 * difference between the tokens of its running sequences. */
static int rows_of_the_flood(struct crowd *c, int n, int *apart)
{
    const struct engine *en = c->r.engine;
    int most = 0, before[WIDE * 2] = {0}, low = 1 << 20, high = 0;
    const struct group *g = en->groups;
    while (g->request->holder != 1) g = g->next;
    for (int i = 0; i < g->n_seq; i++) before[i] = g->seq[i].n_output;
    for (; n > 0; n--) {
        crowd_steps(c, 1);
        most = en->batch.n_row > most ? en->batch.n_row : most;
    }
    for (int i = 0; i < g->n_seq; i++) {
        int more = g->seq[i].n_output - before[i];
        if (g->seq[i].state != SEQ_RUNNING) continue;
        low = more < low ? more : low;
        high = more > high ? more : high;
    }
    *apart = high - low;
    return most;
}

/* A request of 128 choices without competitors has all of each step. After another holder submits,
 * the request has half of a step, its sequences take turns, and some places stay free. */
TEST(a_flood_has_half_of_the_steps_while_others_submit)
{
    static struct crowd c;
    struct err e;
    int apart;
    NEED_OK(crowd_open_wide(&c, "fair", 2000, 128, WIDE, 1e6, &e), &e);
    crowd_submit(&c, 0, 1, 8, 2 * WIDE, 900);
    crowd_steps(&c, 5);
    EXPECT_INT(rows_of_the_flood(&c, 20, &apart), WIDE);
    EXPECT_INT(apart, 0);
    int worst = 0;
    for (int i = 1; i <= 20; i++) {
        int from = c.n_step;
        crowd_submit(&c, i, 2, SHORT, 1, 2);
        crowd_steps(&c, 8);
        NEED(c.first[i] > 0);
        worst = c.first[i] - from > worst ? c.first[i] - from : worst;
    }
    EXPECT_INT(worst, 1);
    EXPECT_INT(c.r.engine->n_running, WIDE - 1); /* the other request needed only one place */
    stats_read(engine_stats(c.r.engine), &c.r.view);
    EXPECT_INT(c.r.view.value[STAT_displaced], 1); /* a displacement for the first request only */
    EXPECT(rows_of_the_flood(&c, 20, &apart) <= HALF);
    EXPECT(apart <= 1);
    c.r.slow.now_us += 11 * 1000 * 1000;
    crowd_steps(&c, 4);
    EXPECT_INT(rows_of_the_flood(&c, 4, &apart), WIDE);
    slow_close(&c.r);
}

/* Under a policy without holders, each step has all sequences that decode. */
TEST(a_policy_without_holders_divides_no_step)
{
    static struct crowd c;
    struct err e;
    int apart;
    NEED_OK(crowd_open_wide(&c, "fcfs", 2000, 128, WIDE, 1e6, &e), &e);
    crowd_submit(&c, 0, 1, 8, 2 * WIDE, 900);
    crowd_submit(&c, 1, 2, 8, 1, 100);
    crowd_steps(&c, 5);
    EXPECT_INT(rows_of_the_flood(&c, 20, &apart), WIDE);
    slow_close(&c.r);
}

/* Long prompts of one holder fill the step's time. A short prompt of another holder is still not
 * divided. */
TEST(a_short_prompt_is_not_cut_beside_long_ones)
{
    static struct crowd c;
    struct err e;
    NEED_OK(crowd_open_wide(&c, "fair", 2000, 128, WIDE, 0, &e), &e);
    for (int i = 0; i < 8; i++) crowd_submit(&c, i, 1, LONG, 1, 50);
    crowd_steps(&c, 40);
    int worst = 0, n_slow = 0;
    for (int i = 8; i < 38; i++) {
        int from = c.n_step;
        crowd_submit(&c, i, 2, SHORT, 1, 2);
        crowd_steps(&c, 4);
        NEED(c.first[i] > 0);
        /* more than one step, because one step in 64 has no prompts */
        n_slow += c.first[i] - from > 1;
        worst = c.first[i] - from > worst ? c.first[i] - from : worst;
    }
    test_note("%d steps at most, %d of 30 more than one", worst, n_slow);
    EXPECT(worst <= 2 && n_slow <= 3);
    slow_close(&c.r);
}
