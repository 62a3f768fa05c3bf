/* swap_test.c - goal: a sequence that returns from host memory has all of its pages, with any
 * sequences displaced for it in the same step. Method: the fake model (fake_test.h), which
 * immediately detects K and V of another sequence. There are few copies per step, and clocks on
 * which every sequence has run for long enough to be displaced. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "fake_test.h"

enum { ROWS = 16, CONTEXT = 192, N_MAX = 24 };

struct rig {
    struct fake fake;
    struct engine *en;
    struct queue *queue[N_MAX];
    int n, n_done;
    struct stats_view stats;
};

struct shape {
    const char *policy;
    /* n_swap_copy: number of copies of a step, in addition to one per sequence */
    int page_rows, n_page, n_seq, n_swap_copy;
    uint64_t seed;        /* seed of a clock that jumps; 0: no jumps */
    bool no_prefix_cache; /* true, so that each page has to be copied */
    int64_t starvation_us;
};

static void rig_open(struct rig *r, const struct shape *s)
{
    struct err e;
    *r = (struct rig){.fake = {.n_page = s->n_page,
                               .page_rows = s->page_rows,
                               .n_host_page = 8 * s->n_page,
                               .jump_every = s->seed > 0 ? 4 : 0,
                               .rng = s->seed,
                               .now_us = 1000,
                               .limits = {.n_row = 64,
                                          .n_seq = s->n_seq,
                                          .n_out = s->n_seq,
                                          .n_copy = s->n_seq + s->n_swap_copy,
                                          .page_stride = CONTEXT / s->page_rows}}};
    NEED_OK(fake_open(&r->fake, &e), &e);
    struct executor x = fake_executor(&r->fake);
    x.context_max = CONTEXT;
    x.copy_rate = 1e9;
    struct engine_options o = {.executor = x,
                               .scheduler = s->policy,
                               .slice_tokens = 8,
                               .queue_max = N_MAX,
                               .no_prefix_cache = s->no_prefix_cache,
                               .starvation_us = s->starvation_us};
    NEED_OK(engine_open(&r->en, &o, &e), &e);
    r->fake.pages = r->en->pages;
}

/* Submit a prompt of n_shared tokens, common to a third of all prompts, and n_own other tokens.
 * With `beams`, it has two beams if there is room for them. */
static void submit(struct rig *r, int n_shared, int n_own, int n_output, bool beams)
{
    struct err e;
    struct request *q = request_open(&e);
    uint64_t rng = (uint64_t)r->n + 1;
    for (int i = 0; i < n_shared + n_own; i++)
        (void)!vec_push(&q->prompt, i < n_shared ? (i + r->n % 3) % FAKE_VOCAB
                                                 : (int)rng_below(&rng, FAKE_VOCAB));
    q->max_tokens = n_output;
    int n_page = hold_least(r->en, n_shared + n_own + n_output) + 1;
    if (beams && r->fake.limits.n_seq >= 2 && 2 * n_page <= r->fake.n_page) q->beam_width = 2;
    q->params.temperature = 0;
    q->params.ignore_eos = true;
    q->priority = r->n % 3;
    q->holder = 1 + (uint64_t)(r->n % 4);
    q->reply = r->queue[r->n++] = engine_reply_queue();
    NEED_OK(engine_submit(r->en, q, &e), &e);
}

/* Run to the end. Return the error, NULL if none. */
static const char *run(struct rig *r)
{
    const char *wrong = NULL;
    for (int step = 0; r->n_done < r->n && step < 100000 && !wrong; step++) {
        if (!engine_step(r->en)) r->fake.now_us += 1000;
        wrong = r->fake.wrong ? r->fake.wrong : engine_check(r->en);
        struct event ev;
        for (int i = 0; i < r->n; i++)
            while (queue_pop(r->queue[i], &ev, 0))
                r->n_done += ev.kind == EVENT_DONE && ev.finish == FINISH_LENGTH;
    }
    stats_read(engine_stats(r->en), &r->stats);
    return wrong ? wrong : r->n_done < r->n ? "a request is lost" : NULL;
}

static void rig_close(struct rig *r)
{
    engine_close(r->en);
    fake_close(&r->fake);
    for (int i = 0; i < r->n; i++) queue_close(r->queue[i]);
}

/* Method: two sequences that take turns for lack of a place or of pages. Each sequence has few
 * enough pages to be swapped. The two sequences together have more pages than a step may copy. */
TEST(a_returning_sequence_is_copied_in_whole_beside_those_displaced)
{
    static const struct {
        struct shape shape;
        int n_own[2], n_output[2];
    } two[] = {{{"round_robin", ROWS, 40, 1, 8, 0, true, 0}, {40, 40}, {80, 80}},
               {{"round_robin", ROWS, 10, 4, 10, 0, true, 0}, {40, 100}, {80, 60}}};
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++) {
        struct rig r;
        rig_open(&r, &two[i].shape);
        for (int k = 0; k < 2; k++) submit(&r, 0, two[i].n_own[k], two[i].n_output[k], false);
        const char *wrong = run(&r);
        if (wrong) test_fail(__FILE__, __LINE__, "without %s: %s", i ? "pages" : "a place", wrong);
        EXPECT(r.stats.value[STAT_pages_in] > 0);
        /* no copy was left for one of the two sequences */
        EXPECT(r.stats.value[STAT_displaced] > r.stats.value[STAT_swapped]);
        rig_close(&r);
    }
}

static struct shape shape_of(const char *policy, uint64_t seed, uint64_t *rng)
{
    struct shape s = {.policy = policy, .page_rows = 1 << rng_below(rng, 6), .seed = seed};
    int longest = CONTEXT / s.page_rows;
    s.n_page = longest + (int)rng_below(rng, (uint64_t)longest);
    s.n_seq = 1 + (int)rng_below(rng, 8);
    s.n_swap_copy = 1 + (int)rng_below(rng, 2 * (uint64_t)longest);
    s.starvation_us = rng_below(rng, 2) ? 100000 : 0;
    return s;
}

/* Run sequences and beams that are constantly displaced and starve. Prompts have long common
 * prefixes, so a displaced sequence holds pages of the returning sequence. The seed determines the
 * whole run. */
static bool storm(const char *policy, uint64_t seed, int64_t n[2])
{
    uint64_t rng = seed;
    struct shape s = shape_of(policy, seed, &rng);
    struct rig r;
    rig_open(&r, &s);
    int n_shared = (int)rng_below(&rng, 60), n_submitted = 2 + (int)rng_below(&rng, 10);
    for (int k = 0; k < n_submitted; k++)
        submit(&r, n_shared, 1 + (int)rng_below(&rng, 20), 1 + (int)rng_below(&rng, 110),
               rng_below(&rng, 4) == 0);
    const char *wrong = run(&r);
    if (wrong)
        test_fail(__FILE__, __LINE__, "%s, seed %llu: %s", policy, (unsigned long long)seed, wrong);
    n[0] += r.stats.value[STAT_displaced];
    n[1] += r.stats.value[STAT_pages_in];
    rig_close(&r);
    return !wrong;
}

TEST(a_storm_of_swapping_mixes_no_pages_up)
{
    int64_t n[2] = {0};
    uint64_t rng = 5;
    int n_storm = test_long() ? 2000 : 40;
    for (int i = 0; i < n_storm; i++)
        for (int p = 0; policy_name(p); p++)
            if (!storm(policy_name(p), rng_next(&rng), n)) return;
    test_note("%lld displaced, %lld pages copied in", (long long)n[0], (long long)n[1]);
    EXPECT(n[0] > 10 * n_storm && n[1] > 100 * n_storm);
}
