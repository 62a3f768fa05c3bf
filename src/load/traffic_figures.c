/* traffic_figures.c - figures of an engine in this process: its clients' records (client_trace.c),
 * and the work of the engine and the machine:
 *
 *   mfu   operations of the model (2 for each weight and row, 4 for each head, dimension and
 *         position attended to) per second, as a share of the peak
 *   mbu   bytes of weights and KV that steps had to read per second, as a share of the read
 *         bandwidth */
#include "traffic.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double share_of(int64_t part, int64_t all)
{
    return all ? (double)part / (double)all : 0;
}

int traffic_figures(struct traffic_figures *f, const struct traffic_result *r,
                    const struct slo *slo, const struct traffic_peaks *p, struct err *e)
{
    const int64_t *v = r->stats.value;
    *f = (struct traffic_figures){0};
    int rc = client_figures(&f->client, r->trace, r->n, slo, e);
    double s = f->client.seconds;
    f->hit_rate = share_of(v[STAT_cache_hits], v[STAT_cache_queries]);
    f->host_share = stats_host_share(&r->stats);
    /* the time is 0 if no request was completed */
    if (s <= 0) return rc;
    f->flops = (double)v[STAT_flops] / s;
    f->bytes = (double)v[STAT_read_bytes] / s;
    f->mfu = p->flops > 0 ? f->flops / p->flops : 0;
    f->mbu = p->bytes > 0 ? f->bytes / p->bytes : 0;
    f->cpu_share = p->n_thread ? (double)r->cpu_us * 1e-6 / s / p->n_thread : 0;
    f->watts = r->energy_uj > 0 ? (double)r->energy_uj * 1e-6 / s : 0;
    return rc;
}

void traffic_figures_close(struct traffic_figures *f)
{
    client_figures_close(&f->client);
}

/* ---- the table ---- */

/* Return false for waiting times at the client if no request waited. */
static bool is_printed(const struct client_figures *f, int k)
{
    return (k != QUEUE && k != E2EL_QUEUE) || samples_percentile(&f->ms[QUEUE], 100) > 10;
}

static void print_latencies(const struct client_figures *f, const struct samples *percent,
                            FILE *out)
{
    fprintf(out, "\n%-24s %10s %10s", "milliseconds", "mean", "sd");
    for (size_t i = 0; i < percent->n; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%g", percent->v[i]);
        fprintf(out, " %9s", name);
    }
    fprintf(out, "\n");
    for (int k = 0; k < N_LATENCY; k++) {
        if (!is_printed(f, k)) continue;
        fprintf(out, "%-24s %10.2f %10.2f", latency_kind[k].word, samples_mean(&f->ms[k]),
                latency_sd(&f->ms[k]));
        for (size_t i = 0; i < percent->n; i++)
            fprintf(out, " %9.2f", samples_percentile(&f->ms[k], percent->v[i]));
        fprintf(out, "\n");
    }
}

/* Return the share of a phase in the time of the engine's steps, in percent. */
static double phase(const struct traffic_result *r, enum stat_id s)
{
    int64_t all = 0;
    for (int i = STAT_schedule_us; i <= STAT_commit_us; i++) all += r->stats.value[i];
    return all ? 100 * (double)r->stats.value[s] / (double)all : 0;
}

/* Print the engine's figures. A share of an unknown peak is not printed. */
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
    fprintf(out, "prefix cache %.1f %%, %lld preemptions, at most %d in flight\n",
            100 * f->hit_rate, (long long)v[STAT_preemptions], f->client.under_way_max);
    fprintf(out, "%.2f GFLOP/s", f->flops * 1e-9);
    if (f->mfu > 0) fprintf(out, " (%.1f %% of the peak)", 100 * f->mfu);
    fprintf(out, ", %.2f GB/s of weights and KV", f->bytes * 1e-9);
    if (f->mbu > 0) fprintf(out, " (%.1f %% of the bandwidth)", 100 * f->mbu);
    fprintf(out, ", processors %.0f %%", 100 * f->cpu_share);
    if (f->watts > 0) fprintf(out, ", %.1f W", f->watts);
    fprintf(out, "\n");
    struct buf line = {0};
    stats_weights_text(&r->stats, &line);
    if (line.n > 0) fprintf(out, "%.*s\n", (int)line.n, line.data);
    buf_deinit(&line);
}

void traffic_print(const struct traffic_figures *figures, const struct traffic_result *r,
                   const struct samples *percent, FILE *out)
{
    const struct client_figures *f = &figures->client;
    fprintf(out, "%zu requests in %.2f s (%zu failed): %lld prompt tokens, %lld generated\n",
            f->n_completed, f->seconds, f->n_failed, (long long)f->n_input, (long long)f->n_output);
    fprintf(out, "%10.3f requests/s", f->request_rate);
    if (isfinite(f->offered_rate)) fprintf(out, " of %.3f offered", f->offered_rate);
    if (f->n_good < f->n_completed)
        fprintf(out, ", %.3f within the objectives (%zu)", f->good_rate, f->n_good);
    fprintf(out, "\n%10.2f generated tokens/s", f->output_rate);
    if (!isnan(client_figures_peak_rate(f)))
        fprintf(out, " (%.0f in the busiest second)", client_figures_peak_rate(f));
    fprintf(out, "\n%10.2f tokens/s with prompts\n", f->total_rate);
    print_latencies(f, percent, out);
    print_engine(figures, r, out);
}

/* ---- JSON ---- */

static void put_use(struct buf *b, const struct traffic_figures *f, const struct traffic_result *r)
{
    json_member_real(b, "flops_per_s", f->flops);
    json_member_real(b, "bytes_per_s", f->bytes);
    json_member_real(b, "mfu", f->mfu);
    json_member_real(b, "bandwidth_share", f->mbu);
    json_member_real(b, "cpu_share", f->cpu_share);
    /* null if the power is not readable */
    json_member_real(b, "watts", r->energy_uj < 0 ? NAN : f->watts);
    json_member_real(b, "prefix_cache_hit_rate", f->hit_rate);
    json_member_real(b, "host_share", f->host_share);
    int64_t max = 0;
    for (size_t i = 0; i < r->sample.n; i++)
        if (r->sample.v[i].memory > max) max = r->sample.v[i].memory;
    json_member_int(b, "memory_bytes_max", max);
    json_member_int(b, "memory_growth_bytes", traffic_growth(r));
}

void traffic_json(const struct traffic_figures *f, const struct traffic_result *r,
                  const struct samples *percent, struct buf *b)
{
    client_figures_json(&f->client, percent, b);
    put_use(b, f, r);
    buf_add_text(b, ",\"stats\":");
    stats_json(&r->stats, b);
}

/* ---- memory ---- */

/* The first quarter of the samples is excluded, because caches and arenas grow in the first
 * quarter. */
int64_t traffic_growth(const struct traffic_result *r)
{
    if (r->sample.n < 4) return 0;
    size_t quarter = r->sample.n / 4;
    return r->sample.v[r->sample.n - 1].memory - r->sample.v[quarter].memory;
}
