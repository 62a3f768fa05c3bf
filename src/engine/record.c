/* record.c - the engine's trace events (trace.h). The functions have no effect if there is no
 * trace.
 *
 * seq.c records changes of a sequence's state. step.c records the end of a step, and emit.c the end
 * of a request.
 *
 *   waits                 runs in lane L                        done
 *   |---- TRACE_WAIT ----||-- TRACE_PREFILL --||-- TRACE_DECODE --|
 *                         |--------------- TRACE_RUN -------------|
 *
 * A lane is a line of the timeline. A sequence takes the lowest free lane, so that few lanes are
 * used. Decode steps become one event per run, because one event per token would dominate the
 * file. */
#include "engine_impl.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof((struct request *)0)->name == TRACE_NAME, "a name as it is");

static void put(struct engine *en, const struct trace_event *e)
{
    (void)trace_put(en->traced.trace, e);
}

int record_open(struct engine *en, const struct engine_options *o, struct err *e)
{
    if (!o->trace_path) return 0;
    struct trace_options to = {.path = o->trace_path, .bytes_max = o->trace_bytes_max};
    en->traced.taken = calloc((size_t)en->batch.limits.n_seq, sizeof *en->traced.taken);
    if (!en->traced.taken) return err_memory(e, "lanes", (size_t)en->batch.limits.n_seq);
    return trace_open(&en->traced.trace, &to, e);
}

void record_close(struct engine *en)
{
    trace_close(en->traced.trace);
    free(en->traced.taken);
}

/* ---- a sequence: it waits, computes in a lane, and waits again or is done ---- */

static struct trace_event event_of(const struct seq *s, enum trace_kind kind, int64_t begin_us,
                                   int64_t end_us)
{
    return (struct trace_event){.kind = kind,
                                .lane = s->traced.lane,
                                .choice = s->choice,
                                .request_id = s->group->request->id,
                                .begin_us = begin_us,
                                .end_us = end_us};
}

void record_wait(struct engine *en, struct seq *s)
{
    if (!en->traced.trace) return;
    bool first = s->choice == 0 && s->sched_us == 0;
    s->traced.since_us = first ? s->group->request->arrival_us : engine_now(en);
}

void record_wait_end(struct engine *en, const struct seq *s)
{
    if (!en->traced.trace) return;
    struct trace_event e = event_of(s, TRACE_WAIT, s->traced.since_us, engine_now(en));
    e.arg[0] = s->n_prompt;
    e.arg[1] = s->n_reached > 0;
    put(en, &e);
}

void record_run(struct engine *en, struct seq *s)
{
    if (!en->traced.trace) return;
    int lane = 0;
    while (lane < en->batch.limits.n_seq && en->traced.taken[lane]) lane++;
    CHECK(lane < en->batch.limits.n_seq, "all %d lanes are taken", lane);
    en->traced.taken[lane] = true;
    s->traced.lane = lane;
    s->traced.since_us = engine_now(en);
    s->traced.n_decoded = 0;
}

void record_rows(struct engine *en, struct seq *s)
{
    if (!en->traced.trace || s->plan.n_row == 0) return;
    int from = s->plan.pos0;
    int64_t begin = en->now_us > s->traced.since_us ? en->now_us : s->traced.since_us;
    if (s->plan.decodes && from >= s->n_prompt) {
        if (s->traced.n_decoded == 0) s->traced.decode_us = begin;
        s->traced.n_decoded += s->n_kv - from;
        return;
    }
    struct trace_event e = event_of(s, TRACE_PREFILL, begin, engine_now(en));
    int again = (s->n_kv < s->n_reached ? s->n_kv : s->n_reached) - from;
    e.arg[0] = from;
    e.arg[1] = s->plan.n_row;
    e.arg[2] = again > 0 ? again : 0;
    put(en, &e);
}

void record_run_end(struct engine *en, struct seq *s)
{
    if (!en->traced.trace) return;
    const struct request *r = s->group->request;
    int64_t now = engine_now(en);
    if (s->traced.n_decoded > 0) {
        struct trace_event e = event_of(s, TRACE_DECODE, s->traced.decode_us, now);
        e.arg[0] = s->traced.n_decoded;
        put(en, &e);
    }
    struct trace_event e = event_of(s, TRACE_RUN, s->traced.since_us, now);
    e.arg[0] = s->n_prompt;
    e.arg[1] = s->n_cached;
    e.arg[2] = s->n_output;
    memcpy(e.name, r->name, sizeof e.name);
    put(en, &e);
    en->traced.taken[s->traced.lane] = false;
}

/* ---- a request, a step ---- */

static int32_t us_of(int64_t us)
{
    return (int32_t)(us < 0 ? 0 : us > INT32_MAX ? INT32_MAX : us);
}

void record_done(struct engine *en, const struct group *g, const struct event *done)
{
    if (!en->traced.trace) return;
    const struct seq *s = &g->seq[0];
    const struct usage *u = &done->usage;
    struct trace_event e = event_of(s, TRACE_DONE, done->time_us, done->time_us);
    e.arg[0] = u->n_prompt;
    e.arg[1] = u->n_cached;
    e.arg[2] = u->n_output;
    e.arg[3] = us_of(u->queue_us);
    e.arg[4] = us_of(s->first_us ? s->first_us - g->request->arrival_us : 0);
    e.arg[5] = us_of(done->time_us - g->request->arrival_us);
    e.finish = finish_name(done->finish);
    memcpy(e.name, g->request->name, sizeof e.name);
    put(en, &e);
}

void record_step(struct engine *en, const struct batch *b, const struct stats_level *l)
{
    if (!en->traced.trace || !b) return;
    int64_t n_dropped = trace_n_dropped(en->traced.trace);
    stats_count(en->stats, STAT_trace_dropped, n_dropped - en->traced.n_dropped);
    en->traced.n_dropped = n_dropped;
    struct trace_event e = {.kind = TRACE_STEP, .begin_us = en->now_us, .end_us = engine_now(en)};
    const int32_t level[] = {b->n_row,     b->n_seq,       b->n_out,         l->n_running,
                             l->n_waiting, l->n_page_held, l->n_page_cached, b->n_copy};
    memcpy(e.arg, level, sizeof level);
    for (int i = 0; i < STATS_LAPS; i++) e.arg[8 + i] = us_of(stats_lap_us(en->stats, i));
    put(en, &e);
}
