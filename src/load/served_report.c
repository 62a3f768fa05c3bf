/* served_report.c - the report of a measured server; see served.h. The report has the table and
 * JSON keys of vllm bench serve, quoth's own keys, and a page with curves.
 *
 * The server's own figures are differences of two readings of its /metrics. Figures that the server
 * does not report are null, or absent if vLLM omits them (spec_decode_...). Power is the power of
 * this machine with all its programs. */
#include "served.h"

#include "base/json.h"
#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool served_slo_met(const struct served_report *r)
{
    return goodput_share(&r->figures) >= arrival_flags.good_share;
}

/* ---- figures of the server and the machine ---- */

struct server_figures { /* NAN: unknown */
    double hit_rate, accept_rate, accept_length, n_draft, draft_tokens, accepted_tokens;
    double flops, bytes, mfu, bandwidth_share, preemptions;
    double kv_max, running_max, waiting_max;
    double watts, client_cpu;
};

/* Return the ratio part / all; NAN if all is 0 or a figure is unknown. */
static double per(double part, double all)
{
    return all > 0 ? part / all : NAN;
}

/* Return the server's figures. Counters are differences of two readings. Gauges (fields …_max) are
 * the maxima of the run. NAN propagates through all operations, so results of unknown figures are
 * also unknown. */
static struct server_figures server_figures(const struct served_report *r)
{
    const struct server_view *a = &r->before, *b = &r->after;
    double s = r->figures.seconds;
    struct server_figures f = {
        .hit_rate = per(b->cache_hits - a->cache_hits, b->cache_queries - a->cache_queries),
        .n_draft = b->n_draft - a->n_draft,
        .draft_tokens = b->draft_tokens - a->draft_tokens,
        .accepted_tokens = b->accepted_tokens - a->accepted_tokens,
        .flops = per(b->flops - a->flops, s),
        .bytes = per(b->read_bytes - a->read_bytes, s),
        .preemptions = b->preemptions - a->preemptions,
        .kv_max = r->result->kv_max,
        .running_max = r->result->running_max,
        .waiting_max = r->result->waiting_max,
        .watts = r->result->energy_uj >= 0 ? per((double)r->result->energy_uj * 1e-6, s) : NAN,
        .client_cpu = per((double)r->result->cpu_us * 1e-6, s),
    };
    f.accept_rate = per(f.accepted_tokens, f.draft_tokens);
    /* 1 is added, because each draft also gives one token of the model itself */
    f.accept_length = 1 + per(f.accepted_tokens, f.n_draft);
    f.mfu = per(f.flops, r->peak_flops > 0 ? r->peak_flops : b->peak_flops);
    f.bandwidth_share = per(f.bytes, r->peak_bytes > 0 ? r->peak_bytes : b->peak_bytes);
    return f;
}

/* ---- the table ---- */

/* Width of the table. Width and labels are those of vLLM's table. */
enum { WIDTH = 50 };

/* Append the title in the middle of a line of c. */
static void put_rule(struct buf *b, const char *title, char c)
{
    int n = (int)strlen(title), left = n < WIDTH ? (WIDTH - n) / 2 : 0;
    for (int i = 0; i < left; i++) buf_add_char(b, c);
    buf_add_text(b, title);
    for (int i = left + n; i < WIDTH; i++) buf_add_char(b, c);
    buf_add_char(b, '\n');
}

static void put_count(struct buf *b, const char *name, int64_t x)
{
    buf_addf(b, "%-40s %-10lld\n", name, (long long)x);
}

/* Append a line with a figure. An unknown figure has no line. */
static void put_real(struct buf *b, const char *name, double x)
{
    if (!isnan(x)) buf_addf(b, "%-40s %-10.2f\n", name, x);
}

/* Append the figures of the whole run. Labels and order are those of vLLM's table. */
static void put_totals(struct buf *b, const struct served_report *r)
{
    const struct client_figures *f = &r->figures;
    put_count(b, "Successful requests:", (int64_t)f->n_completed);
    put_count(b, "Failed requests:", (int64_t)f->n_failed);
    if (arrival_flags.max_concurrency)
        put_count(b, "Maximum request concurrency:", arrival_flags.max_concurrency);
    if (arrival_flags.rate > 0 && isfinite(arrival_flags.rate))
        put_real(b, "Request rate configured (RPS):", arrival_flags.rate);
    put_real(b, "Benchmark duration (s):", f->seconds);
    put_count(b, "Total input tokens:", f->n_input);
    put_count(b, "Total generated tokens:", f->n_output);
    put_real(b, "Request throughput (req/s):", f->request_rate);
    if (f->has_slo) put_real(b, "Request goodput (req/s):", f->good_rate);
    put_real(b, "Output token throughput (tok/s):", f->output_rate);
    put_real(b, "Peak output token throughput (tok/s):", client_figures_peak_rate(f));
    put_real(b, "Peak concurrent requests:", f->under_way_max);
    put_real(b, "Total token throughput (tok/s):", f->total_rate);
}

static void put_latency(struct buf *b, const struct served_report *r, int k)
{
    const struct samples *ms = &r->figures.ms[k];
    const char *word = latency_kind[k].word;
    char name[80];
    put_rule(b, latency_kind[k].title, '-');
    snprintf(name, sizeof name, "Mean %s (ms):", word);
    put_real(b, name, samples_mean(ms));
    snprintf(name, sizeof name, "Median %s (ms):", word);
    put_real(b, name, samples_percentile(ms, 50));
    for (size_t i = 0; i < r->percent.n; i++) {
        snprintf(name, sizeof name, "P%g %s (ms):", r->percent.v[i], word);
        put_real(b, name, samples_percentile(ms, r->percent.v[i]));
    }
}

/* Append a share. A share above 1 means that a cache supplied some of the bytes. */
static void put_share(struct buf *b, const char *name, double x)
{
    if (x > 1)
        buf_addf(b, "%-40s in cache\n", name);
    else
        put_real(b, name, 100 * x);
}

/* Append the server's figures. Remove the heading if the server reported no figures. */
static void put_server(struct buf *b, const struct server_figures *f)
{
    size_t before = b->n;
    put_rule(b, "Server", '-');
    size_t head = b->n;
    put_real(b, "Prefix cache hit rate (%):", 100 * f->hit_rate);
    put_real(b, "KV cache usage, most (%):", 100 * f->kv_max);
    put_real(b, "Running requests, most:", f->running_max);
    put_real(b, "Waiting requests, most:", f->waiting_max);
    put_real(b, "Preemptions:", f->preemptions);
    put_real(b, "GFLOP/s:", f->flops * 1e-9);
    put_share(b, "Model FLOPs utilization (%):", f->mfu);
    put_real(b, "GB/s read:", f->bytes * 1e-9);
    put_share(b, "Bandwidth utilization (%):", f->bandwidth_share);
    put_real(b, "Power of this machine (W):", f->watts);
    if (b->n == head && !b->failed)
        b->data[b->n = before] = '\0'; /* the server reported no figure of this section */
}

/* Append the figures of speculation, if the server drafted tokens. */
static void put_speculation(struct buf *b, const struct server_figures *f)
{
    if (!(f->draft_tokens > 0)) return;
    put_rule(b, "Speculative Decoding", '-');
    put_real(b, "Acceptance rate (%):", 100 * f->accept_rate);
    put_real(b, "Acceptance length:", f->accept_length);
    put_count(b, "Drafts:", (int64_t)f->n_draft);
    put_count(b, "Draft tokens:", (int64_t)f->draft_tokens);
    put_count(b, "Accepted tokens:", (int64_t)f->accepted_tokens);
}

/* Append the share of requests within the objectives. Append the result of the check if a share is
 * required. */
static void put_verdict(struct buf *b, const struct served_report *r)
{
    if (!r->figures.has_slo) return;
    put_rule(b, "Objectives", '-');
    put_real(b, "Requests within them (%):", 100 * goodput_share(&r->figures));
    if (!(arrival_flags.good_share > 0)) return;
    put_real(b, "Wanted (%):", 100 * arrival_flags.good_share);
    buf_addf(b, "%-40s %s\n", "Verdict:", served_slo_met(r) ? "met" : "MISSED");
}

int served_table(const struct served_report *r, struct buf *b, struct err *e)
{
    struct server_figures f = server_figures(r);
    put_rule(b, " Serving Benchmark Result ", '=');
    put_totals(b, r);
    for (int k = 0; k < N_LATENCY; k++)
        if (r->in_table[k]) put_latency(b, r, k);
    put_server(b, &f);
    put_speculation(b, &f);
    put_verdict(b, r);
    put_rule(b, "", '=');
    return b->failed ? err_memory(e, "the table", b->n) : 0;
}

/* ---- JSON ---- */

/* Append "key":"value" for each KEY=VALUE. Each text contains '=', because flags_pair_form has
 * checked it. */
static void put_metadata(const struct served_report *r, struct buf *b)
{
    for (size_t i = 0; i < r->metadata->n; i++) {
        const char *text = r->metadata->v[i], *equals = strchr(text, '=');
        buf_add_char(b, ',');
        json_put_text(b, text, (size_t)(equals - text));
        buf_add_char(b, ':');
        json_put_text(b, equals + 1, strlen(equals + 1));
    }
}

/* Append the model and the settings of the measurement. */
static void put_settings(const struct served_report *r, struct buf *b)
{
    json_member_text(b, "date", r->date);
    json_member_text(b, "endpoint_type", r->target->backend);
    json_member_text(b, "backend", r->target->backend);
    json_member_text(b, "label", r->label);
    json_member_text(b, "model_id", r->target->model);
    json_member_text(b, "tokenizer_id",
                     prompts_tokenizer() ? prompts_tokenizer() : r->target->root);
    json_member_int(b, "num_prompts", (int64_t)r->result->n);
    put_metadata(r, b);
    arrivals_json(b);
}

/* Append the server's figures as JSON. Like vLLM, omit the members of speculation if the server did
 * not speculate. All other unknown figures are null. */
static void put_server_json(const struct served_report *r, struct buf *b)
{
    struct server_figures f = server_figures(r);
    if (f.draft_tokens > 0) {
        json_member_real(b, "spec_decode_acceptance_rate", 100 * f.accept_rate);
        json_member_real(b, "spec_decode_acceptance_length", f.accept_length);
        json_member_int(b, "spec_decode_num_drafts", (int64_t)f.n_draft);
        json_member_int(b, "spec_decode_draft_tokens", (int64_t)f.draft_tokens);
        json_member_int(b, "spec_decode_accepted_tokens", (int64_t)f.accepted_tokens);
    }
    json_member_int(b, "total_cached_tokens", r->figures.n_cached);
    json_member_real(b, "prefix_cache_hit_rate", f.hit_rate);
    json_member_real(b, "kv_cache_usage_max", f.kv_max);
    json_member_real(b, "running_max", f.running_max);
    json_member_real(b, "waiting_max", f.waiting_max);
    json_member_real(b, "preemptions", f.preemptions);
    json_member_real(b, "flops_per_s", f.flops);
    json_member_real(b, "bytes_per_s", f.bytes);
    json_member_real(b, "mfu", f.mfu);
    json_member_real(b, "bandwidth_share", f.bandwidth_share);
    json_member_real(b, "watts", f.watts);
    json_member_real(b, "client_cpu_share", f.client_cpu);
}

/* Append the generated texts, one per request; "" for a failed request. */
static void put_texts(const struct served_result *r, struct buf *b)
{
    buf_add_text(b, ",\"generated_texts\":[");
    for (size_t i = 0; i < r->n; i++) {
        const char *text = r->own[i].text ? r->own[i].text : "";
        if (i) buf_add_char(b, ',');
        json_put_text(b, text, strlen(text));
    }
    buf_add_char(b, ']');
}

/* Each member begins with a comma, so that any member can be the first one. */
int served_json(const struct served_report *r, bool detail, struct buf *b, struct err *e)
{
    put_settings(r, b);
    client_figures_json(&r->figures, &r->percent, b);
    put_server_json(r, b);
    if (arrival_flags.good_share > 0)
        buf_addf(b, ",\"slo_met\":%s", served_slo_met(r) ? "true" : "false");
    else
        json_member_text(b, "slo_met", NULL);
    if (detail) {
        client_trace_json(r->result->trace, r->result->n, b);
        put_texts(r->result, b);
    }
    buf_add_text(b, "}\n");
    if (b->failed) return err_memory(e, "the result", b->n);
    b->data[0] = '{'; /* this brace replaces the first comma */
    return 0;
}

/* ---- a page ---- */

int served_page(const struct served_report *r, const char *path, const char *table, struct err *e)
{
    struct buf title = {0};
    buf_addf(&title, "quoth bench serve: %.60s at %.60s", r->target->model, r->target->base);
    struct client_page page = {.title = title.data ? title.data : "quoth bench serve",
                               .table = table,
                               .trace = r->result->trace,
                               .n_trace = r->result->n,
                               .figures = &r->figures,
                               .load = r->result->sample.v,
                               .n_load = r->result->sample.n};
    int rc = client_page_write(&page, path, e);
    buf_deinit(&title);
    return rc;
}
