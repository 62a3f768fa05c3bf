/* stats_text.c - a reading of the statistics as text: Prometheus' format for monitors, JSON for
 * programs. Both walk the table of stats.def and contain no names of series. */
#include "stats_impl.h"

#include "base/json.h"

#include <stdio.h>

static double shown(const struct stat_info *i, int64_t x)
{
    return (double)x * stat_scale(i->unit);
}

/* ---- Prometheus ---- */

/* Append a label with its value; backslash, quote and newline are escaped. */
static void put_label(struct buf *out, const char *name, const char *value)
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
    const struct stats *st; /* borrowed */
    struct buf *out;        /* borrowed */
    const char *prefix;     /* borrowed */
    const char *last;       /* static: name of the last written head */
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
    put_label(p->out, "model_name", p->st->options.model_name);
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

static void put_value(struct exposition *p, const struct stat_info *i, int64_t x)
{
    put_head(p, i);
    put_series(p, i, "", i->label);
    put_number(p, shown(i, x));
}

static void put_histogram(struct exposition *p, const struct stat_info *i,
                          const struct histogram *h)
{
    uint64_t below = 0;
    put_head(p, i);
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

/* Append the pool's options: a gauge that is always 1, with labels. */
static void put_config(struct exposition *p)
{
    const struct stats_options *o = &p->st->options;
    buf_addf(p->out,
             "# HELP %scache_config_info How the KV pages were set up.\n"
             "# TYPE %scache_config_info gauge\n%scache_config_info{engine=\"0\",",
             p->prefix, p->prefix, p->prefix);
    put_label(p->out, "model_name", o->model_name);
    buf_add_char(p->out, ',');
    put_label(p->out, "cache_dtype", o->kv_type);
    double n_longest = o->n_page_longest ? (double)o->n_page / o->n_page_longest : 0;
    buf_addf(p->out,
             ",block_size=\"%d\",num_gpu_blocks=\"%d\",enable_prefix_caching=\"%s\","
             "kv_cache_size_tokens=\"%lld\",kv_cache_max_concurrency=\"%.2f\"} 1\n",
             o->page_rows, o->n_page, o->prefix_cache ? "True" : "False",
             (long long)o->n_page * o->page_rows, n_longest);
}

/* Append names that vLLM has dropped, for dashboards that still use them. */
static void put_old_names(struct exposition *p, const struct stats_view *v)
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
        put_value(p, &i, v->value[old[k].id]);
    }
    i = times_info[TIMES_itl];
    i.name = "time_per_output_token_seconds";
    put_histogram(p, &i, &v->times[TIMES_itl]);
}

void stats_prometheus(const struct stats *st, const struct stats_view *v, const char *prefix,
                      struct buf *out)
{
    struct exposition p = {.st = st, .out = out, .prefix = prefix ? prefix : "vllm:"};
    for (int i = 0; i < STAT_COUNT; i++) put_value(&p, &stat_info[i], v->value[i]);
    for (int i = 0; i < TIMES_COUNT; i++) put_histogram(&p, &times_info[i], &v->times[i]);
    put_old_names(&p, v);
    put_config(&p);
}

void stats_prometheus_marks(const struct stats *st, const struct stats_marks *m, double window_s,
                            struct buf *out)
{
    const struct {
        const char *name, *what; /* static */
        double x;
    } mark[] = {
        {"num_requests_running_max", "Sequences that ran", (double)m->n_running},
        {"num_requests_waiting_max", "Sequences that waited", (double)m->n_waiting},
        {"num_requests_swapped_max", "Sequences that waited in host memory", (double)m->n_swapped},
        {"kv_cache_usage_perc_max", "Share of the KV pages that sequences held",
         (double)m->kv_ppm * 1e-6},
    };
    for (size_t i = 0; i < sizeof mark / sizeof *mark; i++) {
        buf_addf(out,
                 "# HELP quoth:%s %s, at most, in the last %g s (/metrics?window=S).\n"
                 "# TYPE quoth:%s gauge\nquoth:%s{engine=\"0\",",
                 mark[i].name, mark[i].what, window_s, mark[i].name, mark[i].name);
        put_label(out, "model_name", st->options.model_name);
        buf_addf(out, "} %.15g\n", mark[i].x);
    }
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
