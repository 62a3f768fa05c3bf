/* kernels_rows.c - the rows of quoth bench kernels: a model's prompts, generation and batches at
 * each depth, in tokens/s, and the division of the time. */
#include "kernels.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rows_table {
    const struct kernels_plan *plan; /* borrowed */
    struct session s;
    struct bench_model *b; /* owned */
    struct limits *limits; /* limits of the machine, owned; NULL: no comparison */
};

/* Figures of one run of a case. */
struct rows_figures {
    double tokens_per_s, sd; /* mean and standard deviation over the runs */
    double step_ms;          /* mean of a forward pass */
    double gb_per_s;         /* weights and KV that must be read */
    double top_per_s;        /* operations: 2 per multiply-add of weights */
    double n_phase;          /* number of phases of the thread pool per step */
    /* shares of the time with work for one thread only (serial) and of waits in phases (idle) */
    double serial, idle;
    struct limit before, after;
};

/* Compute the threads' shares for runs that took `seconds` together. */
static void count_threads(struct rows_figures *f, const struct pool_stats *stats, int n_thread,
                          double seconds, double n_step)
{
    f->n_phase = (double)stats->n_phase / n_step;
    f->serial = 1 - stats->run_us * 1e-6 / seconds;
    f->idle = stats->run_us > 0 ? 1 - stats->work_us / (n_thread * stats->run_us) : 0;
}

/* Return the number of forward passes of a case. */
static int n_step(const struct bench_case *c, int n_row)
{
    return c->prompt ? (c->n_token + n_row - 1) / n_row : c->n_token;
}

/* Compute the rates from the runs' durations. The rates count only the bytes and operations that a
 * step needs. */
static struct rows_figures figures_of(const struct rows_table *t, const struct bench_case *c,
                                      const struct samples *seconds)
{
    const struct model_info *info = model_info(t->s.model);
    int64_t n_row = (int64_t)c->n_token * c->n_seq;
    int n = n_step(c, model_batch_limits(t->s.model)->n_row);
    int64_t n_logits = c->prompt ? 1 : n_row;
    /* Each step reads the weights once. It also reads the KV of the cached tokens and, on average,
     * of half of the new tokens. */
    double kv = (double)info->kv_token_bytes * c->n_seq * n * (c->depth + 0.5 * c->n_token);
    double bytes =
        (double)info->layer_bytes * n + (double)info->head_bytes * (c->prompt ? 1 : n) + kv;
    double macs =
        (double)info->layer_macs * (double)n_row + (double)info->head_macs * (double)n_logits;
    double mean = samples_mean(seconds);
    struct rows_figures f = {.step_ms = 1e3 * mean / n,
                             .gb_per_s = 1e-9 * bytes / mean,
                             .top_per_s = 2e-12 * macs / mean};
    struct samples rate = {0};
    for (size_t i = 0; i < seconds->n; i++)
        if (!vec_push(&rate, (double)n_row / seconds->v[i])) break;
    f.tokens_per_s = samples_mean(&rate);
    f.sd = samples_sd(&rate);
    vec_deinit(&rate);
    return f;
}

/* Write a case's name in llama-bench's form: pp512, tg128, tg32 x 8. */
void kernels_case_name(char *out, size_t n, const struct bench_case *c)
{
    if (c->prompt)
        snprintf(out, n, "pp%d", c->n_token);
    else if (c->n_seq == 1)
        snprintf(out, n, "tg%d", c->n_token);
    else
        snprintf(out, n, "tg%d x %d", c->n_token, c->n_seq);
}

static void print_text(const struct bench_case *c, const struct rows_figures *f)
{
    char name[40], read[16], ops[16];
    kernels_case_name(name, sizeof name, c);
    share_text(read, f->gb_per_s * 1e9, f->before.read, f->after.read, IN_CACHE);
    share_text(ops, f->top_per_s * 1e12, f->before.ops, f->after.ops, ABOVE_PEAK);
    printf("%-14s %7d %10.2f %8.2f %10.3f %8.2f %8s %8.3f %7s %6.0f %6.1f%% %6.1f%%\n", name,
           c->depth, f->tokens_per_s, f->sd, f->step_ms, f->gb_per_s, read, f->top_per_s, ops,
           f->n_phase, f->serial * 100, f->idle * 100);
}

static void print_json(const struct rows_table *t, const struct bench_case *c,
                       const struct rows_figures *f, const struct samples *seconds)
{
    const struct model_info *i = model_info(t->s.model);
    struct buf b = {0};
    char name[40], read[16], ops[16];
    kernels_case_name(name, sizeof name, c);
    buf_add_text(&b, "{\"model\":");
    json_put_text(&b, i->name, strlen(i->name));
    buf_addf(&b, ",\"arch\":\"%s\",\"model_bytes\":%lld,\"n_param\":%lld,\"backend\":\"%s\"",
             i->arch, (long long)i->weight_bytes, (long long)i->n_param, t->s.backend->description);
    buf_addf(&b, ",\"threads\":%d,\"kv_type\":\"%s\",\"activation\":\"%s\"",
             session_n_thread(&t->s), kv_type_name(i->kv_type), session_act_name());
    buf_addf(&b, ",\"test\":\"%s\",\"n_prompt\":%d,\"n_gen\":%d,\"n_seq\":%d,\"depth\":%d", name,
             c->prompt ? c->n_token : 0, c->prompt ? 0 : c->n_token, c->n_seq, c->depth);
    buf_addf(&b, ",\"tokens_per_s\":%.4f,\"sd\":%.4f,\"step_ms\":%.4f,\"gb_per_s\":%.4f",
             f->tokens_per_s, f->sd, f->step_ms, f->gb_per_s);
    buf_addf(&b, ",\"top_per_s\":%.5f,\"phases_per_step\":%.1f,\"serial\":%.4f,\"idle\":%.4f",
             f->top_per_s, f->n_phase, f->serial, f->idle);
    buf_addf(&b, ",\"of_read\":%s,\"of_peak\":%s,\"seconds\":[",
             share_json(read, f->gb_per_s * 1e9, f->before.read, f->after.read),
             share_json(ops, f->top_per_s * 1e12, f->before.ops, f->after.ops));
    for (size_t k = 0; k < seconds->n; k++) buf_addf(&b, "%s%.6f", k ? "," : "", seconds->v[k]);
    buf_add_text(&b, "]}");
    if (!b.failed) printf("%s\n", b.data);
    buf_deinit(&b);
}

static void print_head(const struct session *s)
{
    const struct model_info *i = model_info(s->model);
    printf("%s: %s, %.2f MiB, %.2f M parameters\n", i->name, i->arch,
           (double)i->weight_bytes / 1048576.0, (double)i->n_param * 1e-6);
    printf("%s, activations %s, KV %s in pages of %d\n\n", s->backend->description,
           session_act_name(), kv_type_name(i->kv_type), i->page_rows);
    printf("%-14s %7s %10s %8s %10s %8s %8s %8s %7s %6s %7s %7s\n", "test", "depth", "tokens/s",
           "+/-", "ms/step", "GB/s", "of read", "TOP/s", "of peak", "phases", "serial", "idle");
    fflush(stdout);
}

/* Measure a case. The limits are measured immediately before and after it (limit.c). */
static int measure_case(const struct rows_table *t, const struct bench_case *c, struct err *e)
{
    struct samples seconds = {0};
    char name[40];
    kernels_case_name(name, sizeof name, c);
    progress_note(name);
    enum arith kind = arith_of_model(t->s.info);
    struct limit before = limits_now(t->limits, kind);
    int rc = bench_model_run(t->b, c, t->plan->n_repeat, &seconds, e);
    struct limit after = limits_now(t->limits, kind);
    progress_note(NULL);
    if (rc == 0) {
        struct rows_figures f = figures_of(t, c, &seconds);
        f.before = before, f.after = after;
        struct pool_stats stats = bench_model_threads(t->b);
        count_threads(&f, &stats, session_n_thread(&t->s),
                      samples_mean(&seconds) * (double)seconds.n,
                      (double)seconds.n * n_step(c, model_batch_limits(t->s.model)->n_row));
        if (t->plan->as_json)
            print_json(t, c, &f, &seconds);
        else
            print_text(c, &f);
        fflush(stdout);
    }
    vec_deinit(&seconds);
    return rc;
}

/* Write the cases of one depth to out. Return their number. */
int kernels_cases(struct bench_case *out, int n_max, const struct kernels_plan *p, int depth)
{
    int n = 0;
    for (size_t i = 0; i < p->prompt.n && n < n_max; i++)
        out[n++] = (struct bench_case){true, p->prompt.v[i], 1, depth};
    for (size_t i = 0; i < p->gen.n && n < n_max; i++)
        out[n++] = (struct bench_case){false, p->gen.v[i], 1, depth};
    for (size_t i = 0; i < p->batch.n && n < n_max; i++)
        out[n++] = (struct bench_case){false, p->n_batch_gen, p->batch.v[i], depth};
    return n;
}

/* Open a model with exactly the pages that the largest case uses. Copies fill the prefixes of other
 * sequences. */
int kernels_session(struct session *s, const struct kernels_plan *p, const char *model,
                    struct err *e)
{
    int pages_each = (p->context + session_page_rows() - 1) / session_page_rows();
    struct session_size size = {
        .n_seq = p->n_seq,
        .n_out = p->n_seq,
        .context = p->context,
        .n_row_min = p->n_seq,
        .n_page = p->n_seq * pages_each,
        .n_copy = p->n_seq * pages_each,
    };
    return session_open_sized(s, model, &size, e);
}

static int measure_depth(const struct rows_table *t, int depth, struct err *e)
{
    struct bench_case c[KERNELS_CASES_MAX];
    int n = kernels_cases(c, KERNELS_CASES_MAX, t->plan, depth), rc = 0;
    for (int i = 0; i < n && rc == 0; i++) rc = measure_case(t, &c[i], e);
    return rc;
}

int kernels_rows(const char *model, const struct kernels_plan *p, struct err *e)
{
    struct rows_table t = {.plan = p};
    progress_note("opening the model");
    int rc = kernels_session(&t.s, p, model, e);
    progress_note(NULL);
    if (rc == 0 && !p->as_json) print_head(&t.s);
    if (p->limits) progress_note("measuring the machine's limits");
    if (rc == 0) rc = bench_model_open(&t.b, &t.s, p->n_seq, e);
    if (rc == 0 && p->limits) rc = limits_open(&t.limits, t.s.backend, e);
    progress_note(NULL);
    for (size_t i = 0; i < p->depth.n && rc == 0; i++) rc = measure_depth(&t, p->depth.v[i], e);
    limits_close(t.limits);
    bench_model_close(t.b);
    session_close(&t.s);
    return rc;
}
