/* stats_text.c - a reading of the statistics as text: Prometheus' format for monitors, JSON for
 * programs, a line for a terminal. The code for Prometheus and JSON iterates over the table of
 * stats.def and contains no names of series. */
#include "stats_impl.h"

#include "base/json.h"

#include <stdio.h>

static double shown(const struct stat_info *i, int64_t x)
{
    return (double)x * stat_scale(i->unit);
}

/* ---- Prometheus ---- */

/* Append a label's value with backslash, quote and newline escaped. */
void stats_label(struct buf *out, const char *name, const char *value)
{
    buf_addf(out, "%s=\"", name);
    for (const char *c = value ? value : ""; *c; c++) {
        if (*c == '\n')
            buf_add_text(out, "\\n");
        else if (*c == '"' || *c == '\\')
            buf_addf(out, "\\%c", *c);
        else
            buf_add_char(out, *c);
    }
    buf_add_char(out, '"');
}

struct exposition {
    const struct stats *st;            /* engine of the current series, borrowed */
    const struct stats_engine *engine; /* [n], borrowed */
    int n;
    struct buf *out;    /* borrowed */
    const char *prefix; /* borrowed */
    const char *last;   /* static: name of the last written head */
};

static void put_name(struct exposition *p, const struct stat_info *i, const char *suffix)
{
    buf_addf(p->out, "%s%s%s", i->space == STAT_VLLM ? p->prefix : "quoth:", i->name, suffix);
}

/* Append name{model_name="...",engine="0",extra}. */
static void put_series(struct exposition *p, const struct stat_info *i, const char *suffix,
                       const char *extra)
{
    put_name(p, i, suffix);
    buf_add_text(p->out, "{engine=\"0\",");
    stats_label(p->out, "model_name", p->st->options.model_name);
    buf_addf(p->out, "%s%s} ", *extra ? "," : "", extra);
}

static void put_number(struct exposition *p, double x)
{
    buf_addf(p->out, "%.15g\n", x);
}

/* Append HELP and TYPE, once for all series of a name. */
static void put_head(struct exposition *p, const struct stat_info *i)
{
    static const char *const kind[] = {"gauge", "counter", "histogram"};
    if (p->last && strcmp(p->last, i->name) == 0) return;
    p->last = i->name;
    buf_add_text(p->out, "# HELP ");
    put_name(p, i, "");
    buf_addf(p->out, " %s\n# TYPE ", i->help);
    put_name(p, i, "");
    buf_addf(p->out, " %s\n", kind[i->kind]);
}

/* Append the values of all engines. */
static void put_values(struct exposition *p, const struct stat_info *i, enum stat_id id)
{
    put_head(p, i);
    for (int k = 0; k < p->n; k++) {
        p->st = p->engine[k].st;
        put_series(p, i, "", i->label);
        put_number(p, shown(i, p->engine[k].view.value[id]));
    }
}

static void put_histogram(struct exposition *p, const struct stat_info *i,
                          const struct histogram *h)
{
    uint64_t below = 0;
    for (int64_t k = 0; k <= h->n_bound; k++) {
        char le[48];
        below += h->count[k];
        if (k < h->n_bound)
            snprintf(le, sizeof le, "le=\"%.15g\"", shown(i, h->bound[k]));
        else
            snprintf(le, sizeof le, "le=\"+Inf\"");
        put_series(p, i, "_bucket", le);
        put_number(p, (double)below);
    }
    put_series(p, i, "_sum", "");
    put_number(p, shown(i, h->sum));
    put_series(p, i, "_count", "");
    put_number(p, (double)h->n);
}

/* Append the histograms of all engines. */
static void put_histograms(struct exposition *p, const struct stat_info *i, enum times_id id)
{
    put_head(p, i);
    for (int k = 0; k < p->n; k++) {
        p->st = p->engine[k].st;
        put_histogram(p, i, &p->engine[k].view.times[id]);
    }
}

/* Append the options of each pool: a gauge that is always 1, with labels. */
static void put_config(struct exposition *p)
{
    buf_addf(p->out,
             "# HELP %scache_config_info Options of the KV pages, as labels; always 1.\n"
             "# TYPE %scache_config_info gauge\n",
             p->prefix, p->prefix);
    for (int k = 0; k < p->n; k++) {
        const struct stats_options *o = &p->engine[k].st->options;
        const double n_longest = o->n_page_longest ? (double)o->n_page / o->n_page_longest : 0;
        buf_addf(p->out, "%scache_config_info{engine=\"0\",", p->prefix);
        stats_label(p->out, "model_name", o->model_name);
        buf_add_char(p->out, ',');
        stats_label(p->out, "cache_dtype", o->kv_type);
        buf_addf(p->out,
                 ",block_size=\"%d\",num_gpu_blocks=\"%d\",enable_prefix_caching=\"%s\","
                 "kv_cache_size_tokens=\"%lld\",kv_cache_max_concurrency=\"%.2f\"} 1\n",
                 o->page_rows, o->n_page, o->prefix_cache ? "True" : "False",
                 (long long)o->n_page * o->page_rows, n_longest);
    }
}

/* Append names that vLLM has dropped, for dashboards that still use them. */
static void put_old_names(struct exposition *p)
{
    static const struct {
        enum stat_id id;
        const char *name; /* static */
    } old[] = {{STAT_kv_usage, "gpu_cache_usage_perc"},
               {STAT_cache_queries, "gpu_prefix_cache_queries_total"},
               {STAT_cache_hits, "gpu_prefix_cache_hits_total"}};
    struct stat_info i;
    for (size_t k = 0; k < sizeof old / sizeof old[0]; k++) {
        i = stat_info[old[k].id];
        i.name = old[k].name;
        put_values(p, &i, old[k].id);
    }
    i = times_info[TIMES_itl];
    i.name = "time_per_output_token_seconds";
    put_histograms(p, &i, TIMES_itl);
}

void stats_prometheus(const struct stats_engine *engine, int n, const char *prefix, struct buf *out)
{
    struct exposition p = {
        .engine = engine, .n = n, .out = out, .prefix = prefix ? prefix : "vllm:"};
    for (int i = 0; i < STAT_COUNT; i++) put_values(&p, &stat_info[i], (enum stat_id)i);
    for (int i = 0; i < TIMES_COUNT; i++) put_histograms(&p, &times_info[i], (enum times_id)i);
    put_old_names(&p);
    put_config(&p);
}

/* Return mark i of an engine, in the order of stats_prometheus_marks. */
static double mark_of(const struct stats_marks *m, int i)
{
    const double x[] = {(double)m->n_running, (double)m->n_waiting, (double)m->n_swapped,
                        (double)m->kv_ppm * 1e-6};
    return x[i];
}

void stats_prometheus_marks(const struct stats_engine *engine, int n, double window_s,
                            struct buf *out)
{
    static const struct {
        const char *name, *what; /* static */
    } mark[] = {
        {"num_requests_running_max", "running sequences"},
        {"num_requests_waiting_max", "waiting sequences"},
        {"num_requests_swapped_max", "waiting sequences with pages in host memory"},
        {"kv_cache_usage_perc_max", "share of the KV pages that sequences hold"},
    };
    for (int i = 0; i < (int)(sizeof mark / sizeof *mark); i++) {
        buf_addf(out,
                 "# HELP quoth:%s Maximum of %s in the last %g s (/metrics?window=S).\n"
                 "# TYPE quoth:%s gauge\n",
                 mark[i].name, mark[i].what, window_s, mark[i].name);
        for (int k = 0; k < n; k++) {
            buf_addf(out, "quoth:%s{engine=\"0\",", mark[i].name);
            stats_label(out, "model_name", engine[k].st->options.model_name);
            buf_addf(out, "} %.15g\n", mark_of(&engine[k].marks, i));
        }
    }
}

/* ---- a line for a terminal ---- */

void stats_weights_text(const struct stats_view *view, struct buf *out)
{
    const int64_t *v = view->value;
    const double mib = 1.0 / 1048576;
    const int64_t uses = v[STAT_weights_dense_uses] + v[STAT_weights_expert_uses],
                  hits = v[STAT_weights_dense_hits] + v[STAT_weights_expert_hits];
    if (v[STAT_weights_limit] == 0) return;
    buf_addf(out,
             "weights in memory %.1f of %.1f MiB, %.1f %% of uses; %lld reads of %.1f MiB, %lld "
             "evictions, %lld waits of %.3f s",
             (double)v[STAT_weights_bytes] * mib, (double)v[STAT_weights_limit] * mib,
             uses ? 100 * (double)hits / (double)uses : 0, (long long)v[STAT_weights_reads],
             (double)v[STAT_weights_bytes_read] * mib, (long long)v[STAT_weights_drops],
             (long long)v[STAT_weights_waits], (double)v[STAT_weights_wait_us] * 1e-6);
}

/* ---- JSON ---- */

/* Append the name, a colon and the value of its label: "request_success_total:stop". */
static void put_key(struct buf *out, const struct stat_info *i)
{
    const char *open = strchr(i->label, '"');
    buf_addf(out, "\"%s", i->name);
    if (open) buf_addf(out, ":%.*s", (int)strcspn(open + 1, "\""), open + 1);
    buf_add_text(out, "\":");
}

static void put_quantiles(struct buf *out, const struct stat_info *i, const struct histogram *h)
{
    static const int percent[] = {50, 90, 99};
    buf_addf(out, "{\"count\":%llu,\"sum\":", (unsigned long long)h->n);
    json_put_real(out, shown(i, h->sum));
    buf_add_text(out, ",\"mean\":");
    json_put_real(out, histogram_mean(h) * stat_scale(i->unit));
    for (int k = 0; k < 3; k++) {
        buf_addf(out, ",\"p%d\":", percent[k]);
        json_put_real(out, histogram_quantile(h, percent[k] / 100.0) * stat_scale(i->unit));
    }
    buf_add_char(out, '}');
}

void stats_json(const struct stats_view *v, struct buf *out)
{
    for (int i = 0; i < STAT_COUNT; i++) {
        buf_add_char(out, i ? ',' : '{');
        put_key(out, &stat_info[i]);
        if (stat_info[i].unit == STAT_ONE)
            buf_addf(out, "%lld", (long long)v->value[i]);
        else
            json_put_real(out, shown(&stat_info[i], v->value[i]));
    }
    for (int i = 0; i < TIMES_COUNT; i++) {
        buf_add_char(out, ',');
        put_key(out, &times_info[i]);
        put_quantiles(out, &times_info[i], &v->times[i]);
    }
    buf_addf(out, ",\"host_share\":");
    json_put_real(out, stats_host_share(v));
    buf_add_char(out, '}');
}
