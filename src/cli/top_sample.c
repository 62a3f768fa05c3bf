/* top_sample.c - convert pages of metrics to readings, and readings to rates; see top.h.
 *
 * Two readings give a rate: the difference of a counter, divided by the time between them. A
 * counter that decreases, or another time of the start, means a restart. A figure that the server
 * does not report is NAN, and NAN spreads through all computations up to the "-" on the screen. */
#include "top.h"

#include "base/utf8.h"

#include <math.h>
#include <string.h>

/* Names of histograms, in order of preference. quoth's histograms have finer buckets. The last name
 * is that of an older version of vLLM. */
enum { N_NAME = 3 };
static const char *const times_name[TOP_TIMES][N_NAME] = {
    [TOP_TTFT] = {"vllm:time_to_first_token_seconds"},
    [TOP_ITL] = {"quoth:inter_token_seconds", "vllm:inter_token_latency_seconds",
                 "vllm:time_per_output_token_seconds"},
    [TOP_QUEUE] = {"quoth:request_queue_seconds", "vllm:request_queue_time_seconds"},
    [TOP_E2EL] = {"quoth:request_e2e_seconds", "vllm:e2e_request_latency_seconds"},
};

/* Read the first histogram of the names that the page has. */
static void read_times(struct scrape_times *t, const struct scrape *p, const char *const *name)
{
    for (int i = 0; i < N_NAME && name[i] && t->n_bound == 0; i++) scrape_times(p, name[i], t);
}

int top_sample_read(struct top_sample *s, const char *page, size_t n, struct err *e)
{
    static const struct {
        const char *name, *label; /* static */
    } series[] = {
#define TOP(id, name, label) {name, label},
#include "top.def"
#undef TOP
    };
    struct scrape p = {0};
    int64_t time_us = s->time_us;
    bool ok = scrape_read(&p, page, n);
    *s = (struct top_sample){.time_us = time_us};
    for (int i = 0; i < TOP_COUNT; i++) s->v[i] = scrape_sum(&p, series[i].name, series[i].label);
    for (int i = 0; i < TOP_TIMES; i++) read_times(&s->times[i], &p, times_name[i]);
    scrape_label(&p, "vllm:num_requests_running", "model_name", s->model, sizeof s->model);
    /* replace control characters, because the text is printed on a terminal */
    utf8_show(s->model, strlen(s->model));
    scrape_deinit(&p);
    if (!ok) return err_memory(e, "a page of metrics", n);
    if (isnan(s->v[TOP_running]))
        return err_set(e, ERR_FORMAT,
                       "expected a metrics page of a model server, got another text");
    return 0;
}

/* ---- the last minutes ---- */

/* Return true if the server was restarted: a counter decreased, or the time of the start differs. A
 * difference up to 2 s is allowed, because a clock may be adjusted. */
static bool began_anew(const struct top_sample *a, const struct top_sample *b)
{
    return b->v[TOP_generation] < a->v[TOP_generation] || b->v[TOP_prompt] < a->v[TOP_prompt] ||
           fabs(b->v[TOP_start] - a->v[TOP_start]) > 2;
}

/* Return the increase of a counter per second; NAN if the server does not report it. */
static double rate(const struct top_sample *a, const struct top_sample *b, enum top_id i)
{
    return (b->v[i] - a->v[i]) / ((double)(b->time_us - a->time_us) * 1e-6);
}

/* Return part / whole; NAN if the whole is 0. */
static double share(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

/* Append a point to the curves. Drop the oldest point if the curves are full. */
static void add_point(struct top *t, const float *point)
{
    if (t->n_point == TOP_POINTS)
        memmove(t->point, t->point + 1, sizeof t->point[0] * (size_t)--t->n_point);
    memcpy(t->point[t->n_point++], point, sizeof t->point[0]);
}

/* Add a point to each curve. Without an earlier reading, curves of rates get no point. */
static void plot_sample(struct top *t, const struct top_sample *before, const struct top_sample *s)
{
    float p[TOP_CURVES] = {[TOP_CURVE_GENERATION] = NAN,
                           [TOP_CURVE_PROMPT] = NAN,
                           [TOP_CURVE_HITS] = NAN,
                           [TOP_CURVE_RUNNING] = (float)s->v[TOP_running],
                           [TOP_CURVE_WAITING] = (float)s->v[TOP_waiting],
                           [TOP_CURVE_KV] = (float)s->v[TOP_kv]};
    if (before) {
        p[TOP_CURVE_GENERATION] = (float)rate(before, s, TOP_generation);
        p[TOP_CURVE_PROMPT] = (float)rate(before, s, TOP_prompt);
        p[TOP_CURVE_HITS] = (float)share(s->v[TOP_hits] - before->v[TOP_hits],
                                         s->v[TOP_queries] - before->v[TOP_queries]);
    }
    add_point(t, p);
}

/* A restart begins a new window, because differences across a restart are wrong. The curves
 * continue. */
void top_add(struct top *t, const struct top_sample *s)
{
    const struct top_sample *before = t->n_sample ? &t->sample[t->n_sample - 1] : NULL;
    if (before && s->time_us <= before->time_us) return;
    t->restarted = before && began_anew(before, s);
    if (t->restarted) t->n_sample = 0, before = NULL;
    plot_sample(t, before, s);
    if (t->n_sample == TOP_WINDOW + 1)
        memmove(t->sample, t->sample + 1, sizeof t->sample[0] * (size_t)--t->n_sample);
    t->sample[t->n_sample++] = *s;
    t->trouble[0] = 0;
}

/* A failed reading is a gap in the curves. */
void top_miss(struct top *t, const char *why)
{
    float none[TOP_CURVES];
    for (int i = 0; i < TOP_CURVES; i++) none[i] = NAN;
    add_point(t, none);
    snprintf(t->trouble, sizeof t->trouble, "%s", why);
}

/* ---- figures ---- */

void top_figures(const struct top *t, struct top_figures *f)
{
    *f = (struct top_figures){0};
    if (t->n_sample == 0) return;
    const struct top_sample *a = &t->sample[0], *b = &t->sample[t->n_sample - 1];
    f->now = b;
    f->seconds = (double)(b->time_us - a->time_us) * 1e-6;
    bool window = t->n_sample > 1;
    for (int i = 0; i < TOP_COUNT; i++) f->per_s[i] = window ? rate(a, b, i) : NAN;
    for (int i = 0; i < TOP_TIMES; i++)
        f->recent[i] = window ? scrape_since(&a->times[i], &b->times[i]) : b->times[i];
    double of[TOP_COUNT]; /* use the increase over the window, or totals if there is no window */
    for (int i = 0; i < TOP_COUNT; i++) of[i] = window ? f->per_s[i] : b->v[i];
    double all = of[TOP_schedule] + of[TOP_forward] + of[TOP_sample] + of[TOP_commit];
    f->forward = share(of[TOP_forward], all);
    f->sample = share(of[TOP_sample], all);
    f->hit_rate = share(of[TOP_hits], of[TOP_queries]);
    f->accept_rate = share(of[TOP_accepted], of[TOP_drafted]);
    f->rows_per_step = share(of[TOP_rows], of[TOP_steps]);
    f->cpu = f->per_s[TOP_cpu];
}
