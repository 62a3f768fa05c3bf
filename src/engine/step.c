/* step.c - a step's clock, laps, figures, trace event and checks, around its phases.
 *
 *   step_begin -> schedule -> step_planned -> forward, sample, commit -> step_end
 *                     '--nothing to compute--> step_skip
 *
 * Each phase ends with step_lap. These functions change no result. */
#include "engine_impl.h"

#include "base/check.h"

/* Debug builds check a pool with more pages proportionally less often, because the check would take
 * most of the time. A step checks at most 1024 pages on average. */
enum { CHECKED_PAGES = 1024 };

int step_check_period(const struct engine_options *o)
{
    return o->check ? 1 : check_steps ? 1 + o->executor.n_page / CHECKED_PAGES : 0;
}

static struct stats_level level_of(const struct engine *en)
{
    return (struct stats_level){.n_running = en->n_running,
                                .n_waiting = en->waiting.n,
                                .deferred = en->plan.deferred,
                                .n_page_held = pages_n_total(en->pages) - pages_n_free(en->pages),
                                .n_page_cached = pages_n_cached(en->pages),
                                .n_swapped = en->n_swapped};
}

/* Record the end of a step. b: NULL if nothing was computed. */
static void record_end(struct engine *en, const struct batch *b)
{
    struct stats_level l = level_of(en);
    if (en->executor.weights_use) {
        const struct weights_use use = en->executor.weights_use(en->executor.ctx);
        stats_weights(en->stats, &use);
    }
    record_step(en, b, &l);
    stats_step(en->stats, engine_now(en), b, &l);
}

static bool is_check_due(const struct engine *en)
{
    return en->check_period && en->n_unchecked >= en->check_period;
}

void step_begin(struct engine *en)
{
    en->now_us = engine_now(en);
    stats_begin(en->stats, en->now_us);
    pages_now(en->pages, en->now_us);
    if (en->states) pages_now(en->states, en->now_us);
}

void step_skip(struct engine *en)
{
    record_end(en, NULL);
}

void step_planned(struct engine *en)
{
    const struct executor *x = &en->executor;
    struct stats_level l = level_of(en);
    int64_t now_us = engine_now(en);
    stats_peak(en->stats, now_us, &l);
    stats_lap(en->stats, now_us);
    en->n_unchecked += en->check_period > 0;
    if (!is_check_due(en)) return;
    const char *wrong = batch_check(&en->batch, x->n_vocab, x->n_page, x->page_rows);
    CHECK(!wrong, "%s", wrong);
}

void step_lap(struct engine *en)
{
    stats_lap(en->stats, engine_now(en));
}

void step_end(struct engine *en)
{
    record_end(en, &en->batch);
    budget_observe(&en->budget, &en->load, engine_now(en) - en->now_us);
    if (!is_check_due(en)) return;
    en->n_unchecked = 0;
    const char *wrong = engine_check(en);
    CHECK(!wrong, "%s", wrong);
}
