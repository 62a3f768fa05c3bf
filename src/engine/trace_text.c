/* trace_text.c - events of a trace in the JSON array format of Chrome's trace viewer, one per line.
 * Times are microseconds of the system's monotonic clock.
 *
 *   process 1, engine    steps, ends of requests, and curves: sequences, KV pages
 *   process 2, running   a lane for each sequence that runs concurrently
 *   process 3, waiting   a lane for each sequence that waits concurrently */
#include "trace.h"

#include "base/json.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENGINE = 1, RUNNING, WAITING };
enum { STEPS = 1, ENDS };

/* Names of an event's numbers, ended by NULL. */
static const struct {
    const char *name, *arg[TRACE_ARGS]; /* static */
} form[TRACE_KINDS] = {
    [TRACE_STEP] = {"step",
                    {"rows", "sequences", "outputs", "running", "waiting", "pages_held",
                     "pages_cached", "page_copies", "schedule_us", "forward_us", "sample_us",
                     "commit_us"}},
    [TRACE_WAIT] = {"wait", {"prompt_tokens", "preempted"}},
    [TRACE_PREFILL] = {"prefill", {"from", "tokens", "again"}},
    [TRACE_DECODE] = {"decode", {"tokens"}},
    [TRACE_RUN] = {"request", {"prompt_tokens", "cached_tokens", "output_tokens"}},
    [TRACE_DONE] = {"done",
                    {"prompt_tokens", "cached_tokens", "output_tokens", "queue_us",
                     "first_token_us", "all_us"}},
};

/* Begin an event of phase "PH" in a lane. Each event except the first begins with the comma that
 * separates it from the previous event. */
static void begin(struct trace_text *t, struct buf *out, const char *phase, int process, int lane)
{
    buf_addf(out, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", t->begun ? ",\n" : "[\n", phase,
             process, lane);
    t->begun = true;
}

/* Append a metadata event that names a process or a lane. */
static void put_named(struct trace_text *t, struct buf *out, const char *what, int process,
                      int lane, const char *name)
{
    begin(t, out, "M", process, lane);
    buf_addf(out, ",\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}", what, name);
}

void trace_text_begin(struct trace_text *t, struct buf *out)
{
    static const char *const process[] = {"engine", "running", "waiting"};
    for (int i = 0; i < 3; i++) {
        put_named(t, out, "process_name", ENGINE + i, 0, process[i]);
        begin(t, out, "M", ENGINE + i, 0);
        buf_addf(out, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", i);
    }
    put_named(t, out, "thread_name", ENGINE, STEPS, "steps");
    put_named(t, out, "thread_name", ENGINE, ENDS, "requests done");
    begin(t, out, "i", ENGINE, STEPS); /* wall clock time of the start */
    buf_addf(out, ",\"name\":\"begin\",\"s\":\"g\",\"ts\":%lld,\"args\":{\"unix_time_us\":%lld}}",
             (long long)time_us(), (long long)time_wall_us());
}

/* ---- lanes ---- */

/* Name lanes up to `lane` at their first use. Viewers otherwise show a number. */
static void name_lanes(struct trace_text *t, struct buf *out, int lane)
{
    for (char name[16]; t->n_lane <= lane; t->n_lane++) {
        snprintf(name, sizeof name, "lane %d", t->n_lane);
        put_named(t, out, "thread_name", RUNNING, t->n_lane + 1, name);
    }
}

/* Return the lane of a finished wait: the first lane that was free during the wait. */
static int wait_lane(struct trace_text *t, const struct trace_event *e)
{
    size_t i = 0;
    while (i < t->wait_end.n && t->wait_end.v[i] > e->begin_us) i++;
    if (i < t->wait_end.n)
        t->wait_end.v[i] = e->end_us;
    else if (!vec_push(&t->wait_end, e->end_us))
        return 0;
    return (int)i;
}

/* ---- events ---- */

/* Append the arguments of an event. Arguments without a name in `form` are not written. */
static void put_args(struct buf *out, const struct trace_event *e)
{
    buf_add_text(out, ",\"args\":{");
    const char *comma = "";
    for (int i = 0; i < TRACE_ARGS && form[e->kind].arg[i]; i++, comma = ",")
        buf_addf(out, "%s\"%s\":%d", comma, form[e->kind].arg[i], e->arg[i]);
    if (e->finish) buf_addf(out, ",\"finish_reason\":\"%s\"", e->finish);
    if (e->name[0]) {
        buf_add_text(out, ",\"id\":");
        json_put_text(out, e->name, strlen(e->name));
    }
    buf_add_text(out, "}}");
}

static void put_name(struct buf *out, const struct trace_event *e)
{
    buf_addf(out, ",\"name\":\"%s", form[e->kind].name);
    if (e->kind != TRACE_STEP && e->kind != TRACE_PREFILL && e->kind != TRACE_DECODE)
        buf_addf(out, " %llu", (unsigned long long)e->request_id);
    if (e->choice > 0 && e->kind == TRACE_RUN) buf_addf(out, ".%d", e->choice);
    buf_add_char(out, '"');
}

/* Curves of TRACE_STEP. The first argument of curve i is FIRST_LEVEL + 2 * i. */
enum { FIRST_LEVEL = 3, N_CURVE = 2 };
static const struct {
    const char *name, *value[2]; /* static */
} curve[N_CURVE] = {{"sequences", {"running", "waiting"}}, {"KV pages", {"held", "cached"}}};

/* Append the values of curve i if they changed. */
static void put_curve(struct trace_text *t, struct buf *out, const struct trace_event *e, int i)
{
    const int32_t *now = e->arg + FIRST_LEVEL + 2 * i;
    int32_t *last = t->level + 2 * i;
    if (last[0] == now[0] && last[1] == now[1]) return;
    last[0] = now[0];
    last[1] = now[1];
    begin(t, out, "C", ENGINE, 0);
    buf_addf(out, ",\"name\":\"%s\",\"ts\":%lld,\"args\":{\"%s\":%d,\"%s\":%d}}", curve[i].name,
             (long long)e->begin_us, curve[i].value[0], now[0], curve[i].value[1], now[1]);
}

void trace_text_event(struct trace_text *t, const struct trace_event *e, struct buf *out)
{
    if (e->kind == TRACE_STEP) {
        for (int i = 0; i < N_CURVE; i++) put_curve(t, out, e, i);
        begin(t, out, "X", ENGINE, STEPS);
    } else if (e->kind == TRACE_DONE) {
        begin(t, out, "i", ENGINE, ENDS);
        buf_add_text(out, ",\"s\":\"t\"");
    } else if (e->kind == TRACE_WAIT) {
        begin(t, out, "X", WAITING, wait_lane(t, e) + 1);
    } else {
        name_lanes(t, out, e->lane);
        begin(t, out, "X", RUNNING, e->lane + 1);
    }
    put_name(out, e);
    buf_addf(out, ",\"ts\":%lld", (long long)e->begin_us);
    if (e->kind != TRACE_DONE) buf_addf(out, ",\"dur\":%lld", (long long)(e->end_us - e->begin_us));
    put_args(out, e);
}

void trace_text_end(struct trace_text *t, int64_t n_dropped, struct buf *out)
{
    begin(t, out, "i", ENGINE, STEPS);
    buf_addf(out,
             ",\"name\":\"end\",\"s\":\"g\",\"ts\":%lld,\"args\":{\"events_dropped\":%lld}}\n]\n",
             (long long)time_us(), (long long)n_dropped);
}

void trace_text_deinit(struct trace_text *t)
{
    vec_deinit(&t->wait_end);
}
