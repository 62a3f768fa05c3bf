/* Goal: prompts do not slow down decodes beyond the target and still make progress. The goal
 * applies to any machine, also if its speed changes. Method: a machine whose step time is a known
 * function of the step, with noise and hiccups. The engine's loop runs 8 sequences that decode,
 * then a prompt of 16 k tokens arrives. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "budget.h"

#include <math.h>
#include <stdlib.h>

/* us = slow * max(weights + row * rows + few rows' bonus, floor) + kv + pairs, times noise */
struct machine {
    /* costs in microseconds; `least` is the minimum time of a step with few rows */
    double fixed, row, least, kv, pair;
    double slow, noise;
    int hiccup; /* one step in this number takes four times as long; 0 if none */
    uint64_t rng;
};

/* Machine with the times of llama-1b Q4_0 on two cores (docs/measurements.md). */
static const struct machine cores = {
    .fixed = 30000, .row = 2000, .kv = 1.7, .pair = 0.85, .slow = 1, .noise = 0.05};
/* Machine like a device on which 200 rows are free. */
static const struct machine wide = {
    .fixed = 1000, .row = 40, .least = 9000, .kv = 0.02, .pair = 0.005, .slow = 1, .noise = 0.03};

static double exact_us(const struct machine *m, const struct step_load *l)
{
    double us = m->fixed + m->row * l->n_row;
    if (us < m->least) us = m->least;
    return m->slow * (us + m->kv * l->n_kv + m->pair * l->n_pair);
}

static int64_t run_step(struct machine *m, struct budget *b, const struct step_load *l)
{
    double us = exact_us(m, l) * (1 + m->noise * (2 * (double)rng_float(&m->rng) - 1));
    if (m->hiccup && rng_below(&m->rng, (uint64_t)m->hiccup) == 0) us *= 4;
    budget_observe(b, l, (int64_t)us);
    return (int64_t)us;
}

static struct step_load decodes(int n_seq, int pos)
{
    struct step_load l = {0};
    for (int i = 0; i < n_seq; i++) step_load_add(&l, pos, 1, false);
    return l;
}

/* Return the microseconds of a prompt of n tokens without decodes, in chunks of 512. */
static double prompt_alone(const struct machine *m, struct budget *b, int n)
{
    double us = 0;
    struct machine copy = *m;
    for (int pos = 0; pos < n; pos += 512) {
        struct step_load l = {0};
        step_load_add(&l, pos, 512, true);
        us += (double)run_step(&copy, b, &l);
    }
    return us;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { STEPS_MAX = 1 << 16 };
struct course {
    /* microseconds of each step; exact microseconds of its decodes alone */
    double step_us[STEPS_MAX], idle_us[STEPS_MAX];
    int n_step;
    double us, rate; /* total time, and rate relative to the prompt alone */
};

static int n_prompt = 1; /* number of waiting prompts; only the first prompt is computed */

/* Run a prompt next to n_seq sequences that decode at 1 k. `slow` is a factor on times from step
 * `slow_from` on. */
static void course_run(struct course *c, struct machine m, const struct budget_options *o,
                       int n_seq, int slow_from, double slow)
{
    enum { PROMPT = 16384 };
    struct budget b;
    budget_init(&b, o);
    double alone = prompt_alone(&m, &b, PROMPT);
    for (int i = 0; i < 40; i++) {
        struct step_load l = decodes(n_seq, 1024 + i);
        run_step(&m, &b, &l);
    }
    c->n_step = 0;
    c->us = 0;
    for (int pos = 0; pos < PROMPT && c->n_step < STEPS_MAX; c->n_step++) {
        if (c->n_step == slow_from) m.slow *= slow;
        struct step_load l = decodes(n_seq, 1064 + c->n_step);
        c->idle_us[c->n_step] = exact_us(&m, &l);
        budget_share(&b, n_seq, n_prompt);
        int left = PROMPT - pos, n = budget_rows(&b, &l, pos, 0, left < 512 ? left : 512);
        EXPECT(n >= 0 && n <= 512);
        if (n) step_load_add(&l, pos, n, true);
        pos += n;
        c->step_us[c->n_step] = (double)run_step(&m, &b, &l);
        c->us += c->step_us[c->n_step];
    }
    c->rate = alone / c->us;
}

/* Return the 99th percentile of step time / idle time, from step `from` on. */
static double p99(const struct course *c, int from)
{
    static double ratio[STEPS_MAX];
    int n = c->n_step - from;
    for (int i = 0; i < n; i++) ratio[i] = c->step_us[from + i] / c->idle_us[from + i];
    qsort(ratio, (size_t)n, sizeof *ratio, by_size);
    return ratio[(int)ceil(0.99 * n) - 1];
}

static struct course course;

TEST(a_long_prompt_leaves_others_their_pace)
{
    static const struct {
        double multiple, itl, rate;
    } bar[] = {{2, 2, 0.25}, {4, 4, 0.50}};
    const struct machine *const all[] = {&cores, &wide};
    for (int k = 0; k < 2; k++)
        for (int n_seq = 1; n_seq <= 32; n_seq *= 2)
            for (int i = 0; i < 2; i++) {
                struct budget_options o = {.multiple = bar[i].multiple};
                course_run(&course, *all[k], &o, n_seq, -1, 1);
                double slowest = p99(&course, 0);
                if (n_seq == 8)
                    test_note(
                        "%s, at most %.0f times: p99 %.2f times idle, %.0f %% of the prompt's "
                        "rate alone, %d steps",
                        k ? "wide" : "cores", bar[i].multiple, slowest, course.rate * 100,
                        course.n_step);
                EXPECT(slowest <= bar[i].itl);
                if (n_seq == 8) EXPECT(course.rate >= bar[i].rate);
            }
}

TEST(hiccups_do_not_change_the_pace)
{
    struct machine m = cores;
    struct budget_options o = {.multiple = 2};
    course_run(&course, m, &o, 8, -1, 1);
    double rate = course.rate;
    m.hiccup = 100;
    course_run(&course, m, &o, 8, -1, 1);
    EXPECT(course.rate > 0.85 * rate);
    int late = 0;
    for (int i = 0; i < course.n_step; i++) late += course.step_us[i] > 2.1 * course.idle_us[i];
    EXPECT(late <= course.n_step * 2 / 100);
}

/* Use a limit in milliseconds, and a machine that suddenly becomes three times slower. */
TEST(a_sudden_slowdown_is_followed_within_a_few_steps)
{
    struct budget_options o = {.target_us = 600000};
    enum { FROM = 60 };
    course_run(&course, cores, &o, 8, FROM, 3);
    int n_late = 0, last = FROM;
    for (int i = FROM; i < course.n_step; i++)
        if (course.step_us[i] > o.target_us * 1.03) n_late++, last = i < FROM + 40 ? i : last;
    test_note("%d of %d steps later than the target, the last of the first ones %d after it",
              n_late, course.n_step - FROM, last - FROM);
    EXPECT(last - FROM <= 12);
    EXPECT(n_late <= 12 + (course.n_step - FROM) / 50);
    /* the limit as a multiple, which follows the machine's speed */
    o = (struct budget_options){.multiple = 2};
    course_run(&course, cores, &o, 8, FROM, 3);
    EXPECT(p99(&course, FROM + 12) <= 2);
    EXPECT(course.rate > 0.25 / 3);
}

TEST(nothing_is_known_at_first)
{
    struct budget b;
    budget_init(&b, &(struct budget_options){0});
    struct step_load none = {0}, one = decodes(1, 0);
    EXPECT_INT(budget_rows(&b, &none, 0, 0, 512), 512); /* no sequence decodes: no limit */
    int n = budget_rows(&b, &one, 0, 0, 512);
    EXPECT_INT(n, 0);            /* the budget must observe a step without prompts first */
    budget_observe(&b, &one, 0); /* an observation of 0 us: a clock that does not advance */
    budget_observe(&b, &none, 100);
    EXPECT(budget_us(&b, &one) == 0);
    /* the first prompts arrive while other sequences decode: chunks grow up to the target */
    struct machine m = cores;
    struct step_load l = {0};
    for (int i = 0, pos = 0; i < 60; i++, pos += n) {
        l = decodes(8, 100 + i);
        n = budget_rows(&b, &l, pos, 0, 512);
        if (n) step_load_add(&l, pos, n, true);
        run_step(&m, &b, &l);
    }
    struct step_load idle = decodes(8, 160);
    double ratio = exact_us(&m, &l) / exact_us(&m, &idle);
    EXPECT(ratio > 1.5 && ratio < 2.1);
}

TEST(no_target_stops_prompts_altogether)
{
    struct budget_options o = {.target_us = 1};
    course_run(&course, cores, &o, 8, -1, 1);
    EXPECT(course.n_step < STEPS_MAX && course.rate > 0.04);
    EXPECT(p99(&course, 40) < 1.6);
}

TEST(without_a_target_prompts_get_all_rows)
{
    struct budget b;
    budget_init(&b, &(struct budget_options){.target_us = INFINITY});
    for (int i = 0; i < 200; i++) {
        struct step_load l = decodes(8, 100 + i);
        EXPECT_INT(budget_rows(&b, &l, 512 * i, 0, 512), 512);
        step_load_add(&l, 512 * i, 512, true);
        budget_observe(&b, &l, 1000 * (i + 1));
    }
}

/* Steps of 1 ms may take 10 ms with prompts. The difference is too small for a reader, and prompts
 * make progress. */
TEST(small_models_need_not_hurry)
{
    double rate[2];
    for (int i = 0; i < 2; i++) {
        struct machine quick = cores;
        quick.slow = 0.01;
        struct budget_options o = {.multiple = 2, .us_min = i * 10000};
        course_run(&course, quick, &o, 8, -1, 1);
        rate[i] = course.rate;
        for (int k = 40; i && k < course.n_step; k++) EXPECT(course.step_us[k] < 10500);
    }
    EXPECT(rate[1] > 1.5 * rate[0]);
}

/* Time per sequence, between the two multiples. */
TEST(many_prompts_get_more_than_half_of_the_time)
{
    static const struct {
        int n_decode, n_prompt;
        double multiple;
    } case_[] = {{0, 9, 2}, {8, 0, 2}, {8, 1, 2}, {8, 8, 2}, {8, 16, 3}, {2, 9, 5.5}, {1, 31, 8}};
    struct budget b, strict;
    budget_init(&b, &(struct budget_options){.multiple_max = 8});
    budget_init(&strict, &(struct budget_options){.multiple = 3});
    for (size_t i = 0; i < sizeof case_ / sizeof *case_; i++) {
        budget_share(&b, case_[i].n_decode, case_[i].n_prompt);
        budget_share(&strict, case_[i].n_decode, case_[i].n_prompt);
        EXPECT(fabs(b.multiple - case_[i].multiple) < 1e-9);
        EXPECT(strict.multiple >= 3 && strict.multiple <= 3);
    }
    double rate[2];
    for (int i = 0; i < 2; i++) {
        struct budget_options o = {.multiple = 2, .multiple_max = 4};
        n_prompt = i ? 24 : 1;
        course_run(&course, cores, &o, 8, -1, 1);
        rate[i] = course.rate;
        EXPECT(p99(&course, 40) <= (i ? 4 : 2));
    }
    n_prompt = 1;
    EXPECT(rate[1] > 1.5 * rate[0]);
}

/* The budget stays within its bounds for any observations. Equal observations give equal
 * results. */
TEST(any_clock_is_survived)
{
    static const int64_t odd[] = {0, 1, 17, 1000, 33333, 1000000, 1000000000000, -5};
    struct budget b[2];
    for (int k = 0; k < 2; k++) {
        budget_init(&b[k], &(struct budget_options){.multiple = 3});
        uint64_t rng = 9;
        for (int i = 0; i < 20000; i++) {
            struct step_load l = decodes((int)rng_below(&rng, 40), (int)rng_below(&rng, 1 << 20));
            int pos = (int)rng_below(&rng, 1 << 20), n = budget_rows(&b[k], &l, pos, 0, 2048);
            if (n < 0 || n > 2048 || !isfinite(budget_us(&b[k], &l))) {
                test_fail(__FILE__, __LINE__, "step %d: %d rows", i, n);
                return;
            }
            if (rng_below(&rng, 2))
                if (n) step_load_add(&l, pos, n, true);
            budget_observe(&b[k], &l, odd[rng_below(&rng, 8)]);
        }
    }
    EXPECT_BITS(b[0].weight, b[1].weight, sizeof b[0].weight);
    EXPECT(b[0].speed == b[1].speed && b[0].margin == b[1].margin);
}

TEST(prompts_alone_take_short_steps_while_others_come)
{
    for (int i = 0; i < 2; i++) {
        struct machine m = i ? wide : cores;
        struct budget b;
        budget_init(&b, &(struct budget_options){0});
        double whole = prompt_alone(&m, &b, 1 << 13), all = 0, most = 0;
        const struct step_load none = {0};
        EXPECT_INT(budget_rows(&b, &none, 0, 0, 512), 512);
        budget_contended(&b, true);
        EXPECT_INT(budget_rows(&b, &none, 0, 0, 5), 5);
        for (int pos = 0, n; pos < 1 << 13; pos += n) {
            struct step_load step = {0};
            int left = (1 << 13) - pos;
            n = budget_rows(&b, &none, pos, 0, left < 512 ? left : 512);
            NEED(n > 0);
            step_load_add(&step, pos, n, true);
            most = fmax(most, exact_us(&m, &step));
            all += (double)run_step(&m, &b, &step);
        }
        test_note("%.0f ms at most, %.0f %% of the prompt's rate alone", most * 1e-3,
                  100 * whole / all);
        EXPECT(most <= (i ? 40e3 : 700e3)); /* 64 rows take this long on cores, 512 rows 5 s */
        EXPECT(all <= 1.5 * whole);
    }
}

/* Run 1 to 32 sequences of 64 to 8 k tokens that decode and are replaced every `every` steps.
 * Prompts of 2 k tokens are present always (`always`), or sometimes. */
static void sizes_run(struct course *c, struct machine m, int every, bool always)
{
    enum { N_STEP = 6000, PROMPT = 2048 };
    struct budget b;
    uint64_t rng = 3;
    int n_seq = 1, at = 64, pos = 0;
    budget_init(&b, &(struct budget_options){.multiple = 2});
    prompt_alone(&m, &b, 8192);
    for (c->n_step = 0; c->n_step < N_STEP; c->n_step++) {
        int i = c->n_step;
        if (i % every == 0) n_seq = 1 << rng_below(&rng, 6), at = 64 << rng_below(&rng, 8);
        struct step_load l = decodes(n_seq, at + i % every);
        c->idle_us[i] = exact_us(&m, &l);
        bool here = always || i / 40 % 4 == 0;
        int n = here ? budget_rows(&b, &l, pos, 0, 512) : 0;
        if (n) step_load_add(&l, pos, n, true);
        pos = (pos + n) % PROMPT;
        c->step_us[i] = (double)run_step(&m, &b, &l);
    }
}

TEST(decodes_of_changing_sizes_keep_their_pace)
{
    const struct machine *const all[] = {&cores, &wide};
    for (int k = 0; k < 2; k++)
        for (int every = 5; every <= 500; every *= 10)
            for (int always = 0; always < 2; always++) {
                sizes_run(&course, *all[k], every, always);
                double slowest = p99(&course, 100);
                test_note("%s, others every %d steps, prompts %s: p99 %.2f times idle",
                          k ? "wide" : "cores", every, always ? "always" : "now and then", slowest);
                EXPECT(slowest <= (every == 500 ? 2.2 : 2));
            }
}
