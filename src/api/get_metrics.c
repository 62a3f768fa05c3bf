/* get_metrics.c - GET /metrics, for Prometheus. The engine's figures have vLLM's names
 * (engine/stats.def). Figures of the HTTP server and the process have the names of Python's web
 * servers. quoth's own figures follow. */
#include "server_impl.h"

#include "base/os.h"
#include "base/process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Append the two comment lines of a metric in Prometheus's text format. */
static void head(struct buf *b, const char *name, const char *kind, const char *help)
{
    buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

/* Append a metric without labels. */
static void one(struct buf *b, const char *name, const char *kind, const char *help, double x)
{
    head(b, name, kind, help);
    buf_addf(b, "%s %.15g\n", name, x);
}

/* ---- answers, by route ---- */

/* Pointers are borrowed. */
struct answers {
    const struct net_route *route; /* [n] routes of the server */
    int n;
    struct net_answers *of; /* [n + 1] counters of each route */
};

/* Return the number of answers of a route. Each answer is in one bucket of n_time. */
static int64_t n_of(const struct net_answers *a)
{
    int64_t n = 0;
    for (int i = 0; i <= NET_TIMES; i++) n += a->n_time[i];
    return n;
}

/* Return the labels of route i, such as handler="/v1/models",method="GET". */
static const char *labels(const struct answers *a, int i, char out[160])
{
    bool known = i < a->n;
    snprintf(out, 160, "handler=\"%s\",method=\"%s\"", known ? a->route[i].path : "none",
             known ? a->route[i].method : "none");
    return out;
}

/* Append the answers by class of status. Classes without an answer are omitted, because most routes
 * never have one. */
static void put_status(struct buf *b, const struct answers *a)
{
    char label[160];
    head(b, "http_requests_total", "counter", "Answers by route and class of status.");
    for (int i = 0; i <= a->n; i++)
        for (int k = 1; k < 6; k++)
            if (a->of[i].n_status[k])
                buf_addf(b, "http_requests_total{%s,status=\"%dxx\"} %lld\n", labels(a, i, label),
                         k, (long long)a->of[i].n_status[k]);
}

/* Append a summary of sizes: sum and count per route. out: true for bytes of answers, false for
 * bytes of requests. */
static void put_sizes(struct buf *b, const struct answers *a, const char *name, const char *help,
                      bool out)
{
    char label[160];
    head(b, name, "summary", help);
    for (int i = 0; i <= a->n; i++) {
        const struct net_answers *r = &a->of[i];
        if (n_of(r) == 0) continue;
        labels(a, i, label);
        buf_addf(b, "%s_sum{%s} %lld\n%s_count{%s} %lld\n", name, label,
                 (long long)(out ? r->n_byte_out : r->n_byte_in), name, label, (long long)n_of(r));
    }
}

/* Append the times of a route's answers. label: "" or the text of labels(). coarse: append only
 * three of the bucket bounds. */
static void put_times(struct buf *b, const char *name, const char *label,
                      const struct net_answers *r, bool coarse)
{
    /* buckets of Prometheus are cumulative */
    int64_t below = 0;
    const char *comma = *label ? "," : "", *open = *label ? "{" : "", *close = *label ? "}" : "";
    for (int k = 0; k < NET_TIMES; k++) {
        int64_t at = net_time_bound[k];
        below += r->n_time[k];
        if (coarse && at != 100000 && at != 500000 && at != 1000000) continue;
        buf_addf(b, "%s_bucket{%s%sle=\"%.15g\"} %lld\n", name, label, comma, (double)at * 1e-6,
                 (long long)below);
    }
    buf_addf(b, "%s_bucket{%s%sle=\"+Inf\"} %lld\n", name, label, comma, (long long)n_of(r));
    buf_addf(b, "%s_sum%s%s%s %.15g\n", name, open, label, close, (double)r->time_us * 1e-6);
    buf_addf(b, "%s_count%s%s%s %lld\n", name, open, label, close, (long long)n_of(r));
}

/* Append two histograms: a coarse histogram per route, and a fine histogram over all routes. Their
 * names and bucket bounds are those of prometheus-fastapi-instrumentator, which vLLM uses. */
static void put_durations(struct buf *b, const struct answers *a)
{
    static const char fine[] = "http_request_duration_highr_seconds",
                      coarse[] = "http_request_duration_seconds";
    char label[160];
    struct net_answers all = {0};
    head(b, coarse, "histogram", "From a request's head to the last byte of its answer, by route.");
    for (int i = 0; i <= a->n; i++) {
        const struct net_answers *r = &a->of[i];
        for (int k = 0; k <= NET_TIMES; k++) all.n_time[k] += r->n_time[k];
        all.time_us += r->time_us;
        if (n_of(r) == 0) continue;
        put_times(b, coarse, labels(a, i, label), r, true);
    }
    head(b, fine, "histogram",
         "From a request's head to the last byte of its answer, over all routes.");
    put_times(b, fine, "", &all, false);
}

/* Append the metrics of answers. The counters are copied first, so that all metrics of a page
 * agree. */
static void put_answers(struct buf *b, const struct server *s)
{
    struct answers a = {.route = s->o.net.route, .n = s->o.net.n_route};
    a.of = calloc((size_t)a.n + 1, sizeof *a.of);
    if (!a.of) {
        b->failed = true;
        return;
    }
    for (int i = 0; i <= a.n; i++) net_answers(s->net, i, &a.of[i]);
    put_status(b, &a);
    put_sizes(b, &a, "http_request_size_bytes", "Bodies of requests, by route.", false);
    put_sizes(b, &a, "http_response_size_bytes", "Answers with their heads, by route.", true);
    put_durations(b, &a);
    free(a.of);
}

/* ---- the server and the process ---- */

/* Append the figures of the HTTP server. */
static void put_server(struct buf *b, const struct net_stats *n)
{
    one(b, "quoth:http_connections", "gauge", "Open connections.", n->n_conn);
    one(b, "quoth:http_requests_running", "gauge",
        "Requests in flight, except those of quick paths such as /metrics.", n->n_answer);
    one(b, "quoth:http_hangups_total", "counter",
        "Clients that disconnected before their answer was complete.", (double)n->n_hangup);
    one(b, "quoth:log_lines_lost_total", "counter",
        "Dropped lines of the access log, which could not be written in time.",
        (double)n->n_log_lost);
    one(b, "quoth:http_cpu_seconds_total", "counter", "CPU time of the server's own threads.",
        (double)(n->loop_us + n->handler_us + n->stream_us) * 1e-6);
}

/* Append the counters of spans, if there are traces. */
static void put_spans(struct buf *b, const struct telemetry *t)
{
    if (!t) return;
    const struct telemetry_stats n = telemetry_stats(t);
    one(b, "quoth:otlp_spans_sent_total", "counter", "Spans that the collector accepted.",
        (double)n.n_sent);
    one(b, "quoth:otlp_spans_dropped_total", "counter",
        "Spans that the collector rejected, or that did not fit into the queue.",
        (double)n.n_dropped);
    one(b, "quoth:otlp_requests_failed_total", "counter",
        "Requests to the collector that failed, including repeated ones.", (double)n.n_failed);
}

/* Append the metrics of the process, under the names of Prometheus's client libraries. */
static void put_process(struct buf *b)
{
    struct process_usage u;
    process_usage(&u);
    one(b, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.",
        (double)u.virtual_bytes);
    one(b, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
        (double)u.resident_bytes);
    one(b, "process_start_time_seconds", "gauge", "Start time of the process since 1970.",
        (double)u.start_s);
    one(b, "process_cpu_seconds_total", "counter", "CPU time of all threads.",
        (double)u.cpu_us * 1e-6);
    one(b, "process_open_fds", "gauge", "Open file descriptors.", (double)u.n_fd);
    one(b, "process_max_fds", "gauge", "Maximum number of open file descriptors.",
        (double)u.fd_max);
}

/* Append the peak rates of the machine, and their utilization in the window by the only model. */
static void put_use(struct buf *b, const struct server *s, const struct stats_rates *r)
{
    struct machine_peaks peak;
    if (!peaks_get(s->o.peaks, &peak)) return;
    head(b, "quoth:peak_flops", "gauge",
         "Peak rate of operations per second of this machine with the model's type of activations, "
         "measured once.");
    buf_addf(b, "quoth:peak_flops{activation=\"%s\"} %.15g\n", peak.arith_name,
             peak.ops[peak.arith]);
    if (peak.ops[peak.arith] > 0)
        one(b, "quoth:model_flops_utilization", "gauge",
            "FLOPs of the model in the window, as a share of the peak (MFU).",
            r->flops / peak.ops[peak.arith]);
    if (!(peak.read_bytes > 0)) return;
    one(b, "quoth:peak_read_bytes_per_second", "gauge",
        "Peak rate of bytes per second that all threads can read from memory, measured once.",
        peak.read_bytes);
    one(b, "quoth:memory_bandwidth_utilization", "gauge",
        "Bytes that steps had to read in the window, as a share of the peak; above 1: from a "
        "cache.",
        r->read_bytes / peak.read_bytes);
}

/* ---- the models ---- */

/* Append a metric of each model of a server with several models. value: function of a status. */
static void put_each(struct buf *b, const struct server *s, const char *name, const char *kind,
                     const char *help, double (*value)(const struct served_status *m))
{
    head(b, name, kind, help);
    for (int i = 0; i < models_n(s->models); i++) {
        struct served *m = models_at(s->models, i);
        const struct served_status now = served_status(m);
        if (served_gone(m)) continue;
        buf_addf(b, "%s{", name);
        stats_label(b, "model_name", served_spec(m)->name[0]);
        buf_addf(b, "} %.15g\n", value(&now));
    }
}

/* Return 1 for a draining model too, because it still uses its memory. */
static double is_loaded(const struct served_status *m)
{
    return m->state == SERVED_READY || m->state == SERVED_DRAINING;
}

static double planned_bytes(const struct served_status *m)
{
    return (double)m->n_byte;
}

/* Return the number of loads. A growing number shows that models displace each other. */
static double n_load(const struct served_status *m)
{
    return (double)m->n_load;
}

static double n_waiting(const struct served_status *m)
{
    return m->n_waiting;
}

static double load_seconds(const struct served_status *m)
{
    return (double)m->load_us * 1e-6;
}

/* Append the states of the models that are loaded on demand. */
static void put_models(struct buf *b, const struct server *s)
{
    if (s->only) return;
    put_each(b, s, "quoth:model_loaded", "gauge", "1 if the model is in memory.", is_loaded);
    put_each(b, s, "quoth:model_planned_bytes", "gauge",
             "Memory of the model's plan; 0 if the model is not in memory.", planned_bytes);
    put_each(b, s, "quoth:model_requests_waiting", "gauge",
             "Requests that wait until the model is loaded.", n_waiting);
    put_each(b, s, "quoth:model_loads_total", "counter", "Loads of the model.", n_load);
    put_each(b, s, "quoth:model_load_seconds", "gauge", "Duration of the model's last load.",
             load_seconds);
}

/* Models in memory, with references. */
struct loaded {
    const struct api **api;      /* owned [n] */
    struct stats_engine *engine; /* owned [n] */
    int n;
};

static void loaded_deinit(struct loaded *l)
{
    for (int i = 0; i < l->n; i++) served_unpeek(l->api[i]);
    free(l->api);
    free(l->engine);
}

/* Read the figures of all models in memory. Return false if memory is exhausted. */
static bool loaded_read(struct loaded *l, const struct server *s, double window_s)
{
    const int n = models_n(s->models);
    const int64_t now = time_us();
    *l = (struct loaded){.api = calloc((size_t)n + 1, sizeof *l->api),
                         .engine = calloc((size_t)n + 1, sizeof *l->engine)};
    for (int i = 0; l->api && l->engine && i < n; i++) {
        struct served *m = models_at(s->models, i);
        const struct api *a = served_gone(m) ? NULL : served_peek(m);
        if (!a) continue;
        struct stats_engine *e = &l->engine[l->n];
        l->api[l->n++] = a;
        e->st = engine_stats(a->session->engine);
        e->marks = stats_marks(e->st, now, (int64_t)(window_s * 1e6));
        stats_read(e->st, &e->view);
    }
    return l->api && l->engine;
}

/* Append the shares of time in steps, and the use of the machine. */
static void put_utilization(struct buf *b, const struct server *s, const struct loaded *l,
                            double window_s)
{
    static const char name[] = "quoth:engine_utilization";
    struct stats_rates r = {0};
    head(b, name, "gauge",
         "Share of the window (60 s; /metrics?window=S) in which the engine computed steps.");
    for (int i = 0; i < l->n; i++) {
        const struct stats_engine *e = &l->engine[i];
        r = stats_rates(e->st, &e->view, time_us(), (int64_t)(window_s * 1e6));
        buf_add_text(b, name);
        if (!s->only) {
            buf_add_char(b, '{');
            stats_label(b, "model_name", served_spec(l->api[i]->model)->name[0]);
            buf_add_char(b, '}');
        }
        buf_addf(b, " %.15g\n", r.busy);
    }
    if (s->only) put_use(b, s, &r);
}

/* Return the query's `window` in seconds, for high-water marks. */
static int read_window(double *window, const struct exchange *x, struct err *e)
{
    /* a window cannot be longer than the engine's record */
    const double max = STATS_WINDOW_US * 1e-6;
    struct buf text = {0};
    double s = 60;
    char *end = NULL;
    int found = exchange_query(x, "window", &text);
    if (found > 0) s = strtod(text.data ? text.data : "", &end);
    bool ok = found >= 0 && s >= 0 && s <= 1e9 && (!end || (*end == 0 && end != text.data)),
         no_memory = text.failed;
    char got[61];
    snprintf(got, sizeof got, "%s", text.data ? text.data : "");
    buf_deinit(&text);
    *window = ok ? fmin(s, max) : 0;
    if (no_memory) return err_memory(e, "the window of high-water marks", 0);
    return ok ? 0
              : err_field(e, ERR_ARG, "window", ": expected a number of seconds, got \"%s\"", got);
}

void get_metrics(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct net_stats n = net_stats(s->net);
    struct loaded l;
    struct buf b = {0};
    struct err e = {0};
    double window;
    int rc = read_window(&window, x, &e);
    if (rc != 0) {
        server_fail(x, rc, &e);
        return;
    }
    b.failed = !loaded_read(&l, s, window);
    stats_prometheus(l.engine, l.n, NULL, &b);
    stats_prometheus_marks(l.engine, l.n, window, &b);
    put_utilization(&b, s, &l, window);
    put_models(&b, s);
    loaded_deinit(&l);
    put_answers(&b, s);
    put_server(&b, &n);
    put_spans(&b, s->o.telemetry);
    put_process(&b);
    if (b.failed)
        exchange_no_memory(x);
    else
        exchange_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.n);
    buf_deinit(&b);
}
