/* traffic_figures.c - what clients saw, as figures: vLLM's words and JSON keys with vLLM's meanings.
 *
 *   ttft  submission to first token               itl   one token to the next, each of them
 *   tpot  (last - first token) / (tokens - 1)     e2el  submission to last token
 *   e2el_per_token  e2el / tokens: what surveys call TPOT
 *   mfu   operations of the model (2 for each weight and row, 4 for each head, dimension and position
 *         attended to) a second, of the peak;  mbu  bytes of weights and KV that steps had to read
 *         a second, of the read bandwidth
 *
 * Rates are over the time from the first submission to the last token. */
#include "traffic.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TTFT, TPOT, ITL, E2EL, PER_TOKEN };
const char *const latency_name[N_LATENCY] = {"ttft", "tpot", "itl", "e2el", "e2el_per_token"};
const char *const latency_title[N_LATENCY] = {"time to first token", "time per output token",
                                              "inter-token latency", "end-to-end latency",
                                              "end to end, per token"};

/* ---- objectives ---- */

int traffic_slo_read(struct traffic_slo *s, const struct text_list *list, struct err *e)
{
    for (size_t i = 0; i < list->n; i++) {
        const char *colon = strchr(list->v[i], ':');
        size_t n = colon ? (size_t)(colon - list->v[i]) : 0;
        int k = 0;
        while (k < N_LATENCY &&
               (k == ITL || strlen(latency_name[k]) != n || memcmp(latency_name[k], list->v[i], n)))
            k++;
        char *end = NULL;
        double ms = colon ? strtod(colon + 1, &end) : 0;
        if (k == N_LATENCY || !end || *end || !(ms > 0))
            return err_set(e, ERR_ARG,
                           "--goodput: \"%.60s\" is not ttft:MS, tpot:MS, e2el:MS or "
                           "e2el_per_token:MS",
                           list->v[i]);
        s->ms[k] = ms;
    }
    return 0;
}

/* ---- each request ---- */

static bool push(struct traffic_figures *f, int k, double ms, const struct traffic_slo *slo,
                 bool *good)
{
    if (slo->ms[k] > 0 && ms > slo->ms[k]) *good = false;
    return vec_push(&f->ms[k], ms);
}

static bool count_request(struct traffic_figures *f, const struct traffic_seen *s,
                          const struct traffic_slo *slo)
{
    bool ok = true, good = true;
    double all = (double)(s->done_us - s->submit_us) * 1e-3;
    if (s->n_token) {
        ok &= push(f, TTFT, (double)(s->token_us[0] - s->submit_us) * 1e-3, slo, &good);
        ok &= push(f, PER_TOKEN, all / s->n_token, slo, &good);
    }
    for (int i = 1; i < s->n_token; i++)
        ok &= push(f, ITL, (double)(s->token_us[i] - s->token_us[i - 1]) * 1e-3, slo, &good);
    if (s->n_token > 1)
        ok &= push(f, TPOT, (double)(s->done_us - s->token_us[0]) * 1e-3 / (s->n_token - 1), slo,
                   &good);
    ok &= push(f, E2EL, all, slo, &good);
    f->n_good += good;
    return ok;
}

/* The most tokens that came within one second of the run, counted in whole seconds as vLLM does. */
static double busiest_second(const struct traffic_result *r)
{
    size_t n = (size_t)(r->duration_us / 1000000) + 2;
    uint32_t *count = calloc(n, sizeof *count), most = 0;
    for (size_t i = 0; count && i < r->n; i++)
        for (int k = 0; k < r->seen[i].n_token; k++) {
            size_t at = (size_t)(r->seen[i].token_us[k] / 1000000);
            if (at < n && ++count[at] > most) most = count[at];
        }
    free(count);
    return most;
}

static void count_rates(struct traffic_figures *f, const struct traffic *t,
                        const struct traffic_result *r, const struct traffic_peaks *p)
{
    const int64_t *v = r->stats.value;
    double s = f->seconds = (double)r->duration_us * 1e-6, last = 0;
    if (t->n) last = (double)t->v[t->n - 1].arrival_us * 1e-6;
    f->offered_rate = last > 0 ? (double)(t->n - 1) / last : INFINITY;
    f->hit_rate =
        v[STAT_cache_queries] ? (double)v[STAT_cache_hits] / (double)v[STAT_cache_queries] : 0;
    f->host_share = stats_host_share(&r->stats);
    f->most_tokens_per_s = busiest_second(r);
    if (s <= 0) return;
    f->request_rate = (double)f->n_completed / s;
    f->good_rate = (double)f->n_good / s;
    f->output_rate = (double)f->n_output / s;
    f->total_rate = (double)(f->n_input + f->n_output) / s;
    f->flops = (double)v[STAT_flops] / s;
    f->bytes = (double)v[STAT_read_bytes] / s;
    f->mfu = p->flops > 0 ? f->flops / p->flops : 0;
    f->mbu = p->bytes > 0 ? f->bytes / p->bytes : 0;
    f->cpu_share = p->n_thread ? (double)r->cpu_us * 1e-6 / s / p->n_thread : 0;
    f->watts = r->energy_uj > 0 ? (double)r->energy_uj * 1e-6 / s : 0;
}

int traffic_figures(struct traffic_figures *f, const struct traffic *t,
                    const struct traffic_result *r, const struct traffic_slo *slo,
                    const struct traffic_peaks *p, struct err *e)
{
    bool ok = true;
    *f = (struct traffic_figures){0};
    for (size_t i = 0; i < r->n; i++) {
        const struct traffic_seen *s = &r->seen[i];
        if (s->finish != FINISH_LENGTH && s->finish != FINISH_STOP) {
            f->n_failed++;
            continue;
        }
        f->n_completed++;
        f->n_input += t->v[i].n_prompt;
        f->n_output += s->n_output;
        f->n_cached += s->n_cached;
        ok &= count_request(f, s, slo);
    }
    for (int k = 0; k < N_LATENCY; k++) bench_sort(&f->ms[k]);
    count_rates(f, t, r, p);
    return ok ? 0 : err_memory(e, "latencies", r->n * sizeof(double));
}

void traffic_figures_close(struct traffic_figures *f)
{
    for (int k = 0; k < N_LATENCY; k++) vec_deinit(&f->ms[k]);
}

/* ---- the table ---- */

static void print_latencies(const struct traffic_figures *f, const struct ids *percent, FILE *out)
{
    fprintf(out, "\n%-24s %10s %10s", "milliseconds", "mean", "sd");
    for (size_t i = 0; i < percent->n; i++) fprintf(out, "       p%02d", percent->v[i]);
    fprintf(out, "\n");
    for (int k = 0; k < N_LATENCY; k++) {
        fprintf(out, "%-24s %10.2f %10.2f", latency_title[k], bench_mean(&f->ms[k]),
                bench_sd(&f->ms[k]));
        for (size_t i = 0; i < percent->n; i++)
            fprintf(out, " %9.2f", bench_percentile(&f->ms[k], percent->v[i]));
        fprintf(out, "\n");
    }
}

static double phase(const struct traffic_result *r, enum stat_id s)
{
    int64_t all = 0;
    for (int i = STAT_schedule_us; i <= STAT_commit_us; i++) all += r->stats.value[i];
    return all ? 100 * (double)r->stats.value[s] / (double)all : 0;
}

static void print_engine(const struct traffic_figures *f, const struct traffic_result *r, FILE *out)
{
    const int64_t *v = r->stats.value;
    fprintf(out,
            "\n%lld steps of %.1f rows; schedule %.2f %%, forward %.2f %%, sample %.2f %%, "
            "commit %.2f %% of their time\n",
            (long long)v[STAT_steps],
            v[STAT_steps] ? (double)v[STAT_rows] / (double)v[STAT_steps] : 0,
            phase(r, STAT_schedule_us), phase(r, STAT_forward_us), phase(r, STAT_sample_us),
            phase(r, STAT_commit_us));
    fprintf(out, "prefix cache %.1f %%, %lld preemptions, most under way %d\n", 100 * f->hit_rate,
            (long long)v[STAT_preemptions], r->most_under_way);
    fprintf(out, "%.2f GFLOP/s", f->flops * 1e-9);
    if (f->mfu > 0) fprintf(out, " (%.1f %% of the peak)", 100 * f->mfu);
    fprintf(out, ", %.2f GB/s of weights and KV", f->bytes * 1e-9);
    if (f->mbu > 0) fprintf(out, " (%.1f %% of the bandwidth)", 100 * f->mbu);
    fprintf(out, ", processors %.0f %%", 100 * f->cpu_share);
    if (f->watts > 0) fprintf(out, ", %.1f W", f->watts);
    fprintf(out, "\n");
}

void traffic_print(const struct traffic_figures *f, const struct traffic_result *r,
                   const struct ids *percent, FILE *out)
{
    fprintf(out, "%zu requests in %.2f s (%zu failed): %lld prompt tokens, %lld generated\n",
            f->n_completed, f->seconds, f->n_failed, (long long)f->n_input, (long long)f->n_output);
    fprintf(out, "%10.3f requests/s", f->request_rate);
    if (isfinite(f->offered_rate)) fprintf(out, " of %.3f offered", f->offered_rate);
    if (f->n_good < f->n_completed)
        fprintf(out, ", %.3f within the objectives (%zu)", f->good_rate, f->n_good);
    fprintf(out,
            "\n%10.2f generated tokens/s (%.0f in the busiest second)\n%10.2f tokens/s with "
            "prompts\n",
            f->output_rate, f->most_tokens_per_s, f->total_rate);
    print_latencies(f, percent, out);
    print_engine(f, r, out);
}

/* ---- JSON ---- */

static void put(struct buf *b, const char *key, double x)
{
    buf_addf(b, ",\"%s\":", key);
    json_put_real(b, x);
}

static void put_int(struct buf *b, const char *key, int64_t x)
{
    buf_addf(b, ",\"%s\":%lld", key, (long long)x);
}

static void put_latency(struct buf *b, const struct bench_samples *ms, const char *name,
                        const struct ids *percent)
{
    char key[64];
    snprintf(key, sizeof key, "mean_%s_ms", name);
    put(b, key, bench_mean(ms));
    snprintf(key, sizeof key, "median_%s_ms", name);
    put(b, key, bench_percentile(ms, 50));
    snprintf(key, sizeof key, "std_%s_ms", name);
    put(b, key, bench_sd(ms));
    for (size_t i = 0; i < percent->n; i++) {
        snprintf(key, sizeof key, "p%d_%s_ms", percent->v[i], name);
        put(b, key, bench_percentile(ms, percent->v[i]));
    }
}

static void put_rates(struct buf *b, const struct traffic_figures *f)
{
    put(b, "request_throughput", f->request_rate);
    put(b, "request_goodput", f->good_rate);
    put(b, "output_throughput", f->output_rate);
    put(b, "total_token_throughput", f->total_rate);
    put(b, "max_output_tokens_per_s", f->most_tokens_per_s);
    put(b, "request_rate_offered", f->offered_rate); /* infinite: null */
    put(b, "requests_per_minute", 60 * f->request_rate);
    put(b, "goodput_share",
        f->n_completed ? (double)f->n_good / (double)(f->n_completed + f->n_failed) : 0);
}

static void put_use(struct buf *b, const struct traffic_figures *f, const struct traffic_result *r)
{
    put(b, "flops_per_s", f->flops);
    put(b, "bytes_per_s", f->bytes);
    put(b, "mfu", f->mfu);
    put(b, "bandwidth_share", f->mbu);
    put(b, "cpu_share", f->cpu_share);
    buf_addf(b, ",\"watts\":");
    if (r->energy_uj < 0)
        buf_add_text(b, "null");
    else
        json_put_real(b, f->watts);
    put(b, "prefix_cache_hit_rate", f->hit_rate);
    put(b, "host_share", f->host_share);
    int64_t most = 0;
    for (size_t i = 0; i < r->sample.n; i++)
        if (r->sample.v[i].memory > most) most = r->sample.v[i].memory;
    put_int(b, "memory_bytes_max", most);
    put_int(b, "memory_growth_bytes", traffic_growth(r));
}

void traffic_json(const struct traffic_figures *f, const struct traffic_result *r,
                  const struct ids *percent, struct buf *b)
{
    put(b, "duration", f->seconds);
    put_int(b, "completed", (int64_t)f->n_completed);
    put_int(b, "failed", (int64_t)f->n_failed);
    put_int(b, "total_input_tokens", f->n_input);
    put_int(b, "total_output_tokens", f->n_output);
    put_int(b, "max_concurrent_requests", r->most_under_way);
    put_rates(b, f);
    for (int k = 0; k < N_LATENCY; k++) put_latency(b, &f->ms[k], latency_name[k], percent);
    put_use(b, f, r);
    buf_add_text(b, ",\"stats\":");
    stats_json(&r->stats, b);
}

static void put_itls(struct buf *b, const struct traffic_seen *s)
{
    buf_add_char(b, '[');
    for (int k = 1; k < s->n_token; k++)
        buf_addf(b, "%s%.6f", k > 1 ? "," : "",
                 (double)(s->token_us[k] - s->token_us[k - 1]) * 1e-6);
    buf_add_char(b, ']');
}

void traffic_json_detail(const struct traffic *t, const struct traffic_result *r, struct buf *b)
{
    static const char *const key[] = {"input_lens", "output_lens", "ttfts", "itls", "errors"};
    for (int k = 0; k < 5; k++) {
        buf_addf(b, ",\"%s\":[", key[k]);
        for (size_t i = 0; i < r->n; i++) {
            const struct traffic_seen *s = &r->seen[i];
            if (i) buf_add_char(b, ',');
            if (k == 0) buf_addf(b, "%d", t->v[i].n_prompt);
            if (k == 1) buf_addf(b, "%d", s->n_token);
            if (k == 2)
                buf_addf(b, "%.6f",
                         s->n_token ? (double)(s->token_us[0] - s->submit_us) * 1e-6 : 0.0);
            if (k == 3) put_itls(b, s);
            if (k == 4)
                buf_addf(b, "\"%s\"",
                         s->finish == FINISH_LENGTH || s->finish == FINISH_STOP ? ""
                         : s->finish == FINISH_NONE                             ? "refused"
                                                    : finish_name(s->finish));
        }
        buf_add_char(b, ']');
    }
}

/* ---- memory ---- */

int64_t traffic_growth(const struct traffic_result *r)
{
    if (r->sample.n < 4) return 0;
    size_t quarter = r->sample.n / 4;
    return r->sample.v[r->sample.n - 1].memory - r->sample.v[quarter].memory;
}
