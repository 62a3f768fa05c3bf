/* orca.c - the load of the server, in the head of an answer, for load balancers that send
 * `endpoint-load-metrics-format: text` or `json`. ORCA is the open request cost aggregation of xDS.
 * Envoy's client-side weighted round robin uses rps_fractional, eps and application_utilization, or
 * cpu_utilization if application_utilization is absent:
 *
 *   application_utilization  the maximum of two shares: KV pages in use, and running and waiting
 *                            sequences per sequence of a step; requests wait if it is above 1
 *   cpu_utilization          CPU time of this process, per CPU that it may use
 *   mem_utilization          used share of the memory of this machine, or of its control group
 *   rps_fractional           requests for answers per second
 *   eps                      requests for answers per second that failed (5xx) or that a full
 *                            queue rejected
 *   named_metrics            two figures of vLLM under vLLM's names
 *
 * Rates are averages of the last seconds. Each report adds a sample for later reports to a ring, at
 * most one sample per second. Any thread may add a sample. A rate begins at the oldest sample of
 * the last RATE_US, or at the newest sample if all samples are older. */
#include "server_impl.h"

#include "base/cores.h"
#include "base/os.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>

/* Time between two samples, and number of samples: enough for a rate over the last ten seconds. */
enum { N_SAMPLE = 16, RATE_US = 10 * 1000 * 1000, SAMPLE_US = 1000 * 1000 };

/* Counters at a time: requests, failures, CPU time of the process. */
struct sample {
    int64_t us, n_request, n_error, cpu_us;
};

struct orca {
    int n_cpu;
    _Atomic int64_t slot; /* index of the newest sample */
    struct {
        _Atomic int64_t us; /* time of the sample; 0 while a thread writes the sample */
        _Atomic int64_t n_request, n_error, cpu_us;
    } ring[N_SAMPLE];
};

/* ---- samples ---- */

/* Count only the routes of calls, because health checks and metrics do not count as load. s->net is
 * NULL during orca_open. */
static struct sample sample_now(const struct server *s, const struct server_load *l)
{
    struct sample now = {.us = time_us(), .n_error = l->n_refused, .cpu_us = os_cpu_us()};
    for (int i = 0; s->net && i < s->o.net.n_route; i++) {
        struct net_answers a;
        if (s->o.net.route[i].handle != post_call) continue;
        net_answers(s->net, i, &a);
        for (int k = 0; k < 6; k++) now.n_request += a.n_status[k];
        now.n_error += a.n_status[5];
    }
    return now;
}

/* Add a sample to the ring, at most one per SAMPLE_US. The exchange lets one thread write a slot.
 * The time is written last, so a sample with a time is complete. */
static void add_sample(struct orca *o, const struct sample *now)
{
    int64_t slot = now->us / SAMPLE_US, newest = atomic_load(&o->slot);
    if (slot <= newest || !atomic_compare_exchange_strong(&o->slot, &newest, slot)) return;
    atomic_store(&o->ring[slot % N_SAMPLE].us, 0);
    atomic_store(&o->ring[slot % N_SAMPLE].n_request, now->n_request);
    atomic_store(&o->ring[slot % N_SAMPLE].n_error, now->n_error);
    atomic_store(&o->ring[slot % N_SAMPLE].cpu_us, now->cpu_us);
    atomic_store(&o->ring[slot % N_SAMPLE].us, now->us);
}

/* Return true if a is a better beginning of a rate than b. The best sample is the oldest sample in
 * the window, or the newest sample if the window is empty. */
static bool is_better(int64_t a, int64_t b, int64_t now)
{
    bool a_recent = now - a <= RATE_US, b_recent = now - b <= RATE_US;
    if (b == 0 || a_recent != b_recent) return b == 0 || a_recent;
    return a_recent ? a < b : a > b;
}

/* Return the sample at which a rate begins; *now if there is no sample. */
static struct sample sample_before(const struct orca *o, const struct sample *now)
{
    struct sample best = {0};
    for (int i = 0; i < N_SAMPLE; i++) {
        struct sample s = {.us = atomic_load(&o->ring[i].us),
                           .n_request = atomic_load(&o->ring[i].n_request),
                           .n_error = atomic_load(&o->ring[i].n_error),
                           .cpu_us = atomic_load(&o->ring[i].cpu_us)};
        /* another thread writes the sample */
        if (s.us == 0 || s.us != atomic_load(&o->ring[i].us)) continue;
        if (s.us < now->us && is_better(s.us, best.us, now->us)) best = s;
    }
    return best.us ? best : *now;
}

/* ---- opening and closing ---- */

/* The first sample makes rates available in the first report. */
int orca_open(struct server *s, struct err *e)
{
    struct cores *c = calloc(1, sizeof *c);
    s->orca = calloc(1, sizeof *s->orca);
    if (c && s->orca) {
        const struct server_load l = server_load(s);
        cores_read(c);
        s->orca->n_cpu = c->n_cpu < c->n_quota ? c->n_cpu : c->n_quota;
        struct sample now = sample_now(s, &l);
        add_sample(s->orca, &now);
    }
    free(c);
    return c && s->orca ? 0 : err_memory(e, "load reports", sizeof *s->orca);
}

void orca_close(struct server *s)
{
    free(s->orca);
}

/* ---- the report ---- */

/* Return the quotient; 0 for an unknown or negative quotient. */
static double share(double part, double all)
{
    return all > 0 && part > 0 ? part / all : 0;
}

/* Return application_utilization, as defined in the file's head. */
static double demand(const struct server_load *l)
{
    return fmax(l->kv_usage, share((double)(l->n_running + l->n_waiting), (double)l->n_seq));
}

/* A figure of the report and its name in ORCA. */
struct figure {
    const char *name; /* static */
    double x;
};

/* Append the report in the text format: "TEXT named_metrics.a=1, eps=0". */
static void put_text(struct buf *b, const struct figure *f, int n, int n_named)
{
    buf_add_text(b, "TEXT ");
    for (int i = 0; i < n; i++)
        buf_addf(b, "%s%s%s=%.6g", i ? ", " : "", i < n_named ? "named_metrics." : "", f[i].name,
                 f[i].x);
}

/* Append the report in the JSON format. The named metrics precede all other metrics. */
static void put_json(struct buf *b, const struct figure *f, int n, int n_named)
{
    buf_add_text(b, "JSON {\"named_metrics\": {");
    for (int i = 0; i < n; i++) {
        if (i) buf_add_text(b, i == n_named ? "}, " : ", ");
        buf_addf(b, "\"%s\": %.6g", f[i].name, f[i].x);
    }
    buf_add_char(b, '}');
}

/* Without the header, or with an unknown format, the answer has no report. */
void orca_put(struct exchange *x, const struct server *s)
{
    const char *format = exchange_header(x, "endpoint-load-metrics-format");
    bool json = format && strcasecmp(format, "json") == 0,
         text = format && strcasecmp(format, "text") == 0;
    if (!json && !text) return;
    const struct server_load l = server_load(s);
    struct sample now = sample_now(s, &l), before = sample_before(s->orca, &now);
    double seconds = (double)(now.us - before.us) * 1e-6, memory = (double)os_memory_bytes();
    enum { N_NAMED = 2 };
    const struct figure f[] = {
        {"kv_cache_usage_perc", l.kv_usage},
        {"num_requests_waiting", (double)l.n_waiting},
        {"application_utilization", demand(&l)},
        {"cpu_utilization",
         share((double)(now.cpu_us - before.cpu_us) * 1e-6, seconds * s->orca->n_cpu)},
        {"mem_utilization", fmin(share(memory - (double)os_memory_free(), memory), 1)},
        {"rps_fractional", share((double)(now.n_request - before.n_request), seconds)},
        {"eps", share((double)(now.n_error - before.n_error), seconds)},
    };
    struct buf report = {0};
    (json ? put_json : put_text)(&report, f, sizeof f / sizeof *f, N_NAMED);
    if (!report.failed) exchange_add_header(x, "endpoint-load-metrics", report.data);
    buf_deinit(&report);
    add_sample(s->orca, &now);
}
