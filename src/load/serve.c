/* serve.c - quoth bench serve: measure a server with OpenAI's API over time. Options, table and
 * JSON keys are those of vllm bench serve.
 *
 *   flags -> target_open, target_model -> prompts_open -> (until the server is ready)
 *         -> (warm-up) -> served_run -> report
 *
 * The command exits with 1 in two cases, so that scripts can detect a failure. In the first case,
 * no request was answered. In the second case, fewer than --goodput-share of the requests meet the
 * objectives of --goodput. */
#include "served.h"

#include "base/json.h"
#include "base/os.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t n_warmup, ready_s;
static const char *percentile_metrics = "ttft,tpot,itl,e2el", *label, *result_dir, *result_name,
                  *page_path, *id_prefix = "bench-";
static struct text_list metadata;
static bool as_json, save, append, detail, no_progress, server_metrics = true;

/* Return the allowed names of --percentile-metrics; NULL at the end. */
static const char *latency_names(int i)
{
    return i < N_LATENCY ? latency_kind[i].name : NULL;
}

static const struct option options[] = {
    OPTIONS_OF(target_options),
    OPTIONS_OF(data_options),
    OPTIONS_OF(arrival_options),
    OPTIONS_OF(figure_options),
    OPTIONS_OF(body_options),
    INT_OPTION("num-warmups", "N", &n_warmup, 0, 1 << 20,
               "requests before the measurement (default 0)"),
    INT_OPTION(
        "ready-check-timeout-sec", "S", &ready_s, 0, 1 << 20,
        "maximum time to wait until a first request is answered (default 0: no first request)"),
    TEXT_OPTION("request-id-prefix", "TEXT", &id_prefix,
                "prefix of X-Request-Id, before a number (default bench-)"),
    WORDS_OPTION("goodput", "NAME:MS...", &figure_flags.goodput,
                 "objectives: ttft:500, tpot:50, e2el:10000, e2el_per_token:50",
                 .form = objective_form),
    NAME_OPTION("percentile-metrics", "NAME,...", &percentile_metrics, latency_names,
                "latencies in the table; a wrong name lists all (default ttft,tpot,itl,e2el)",
                .many = true),
    FLAG_OPTION("server-metrics", &server_metrics,
                "read the server's /metrics, once a second (default on; --no-server-metrics)"),
    FLAG_OPTION("save-result", &save, "write the JSON object to a file"),
    FLAG_OPTION("append-result", &append, "append the JSON object to the file of --save-result"),
    FLAG_OPTION("save-detailed", &detail, "add each request's lengths, times and text to the JSON"),
    TEXT_OPTION("result-dir", "FOLDER", &result_dir,
                "folder of the file of --save-result (default: the current folder)"),
    TEXT_OPTION("result-filename", "FILE", &result_name,
                "name of the file of --save-result (default LABEL-RATEqps-MODEL-DATE.json)"),
    TEXT_OPTION("label", "TEXT", &label,
                "label in the JSON and in the name of its file (default: the backend)"),
    WORDS_OPTION("metadata", "KEY=VALUE...", &metadata, "further members of the JSON object",
                 .form = flags_pair_form),
    TEXT_OPTION("html", "FILE", &page_path, "also write a page with the table and curves"),
    FLAG_OPTION("json", &as_json, "print the JSON object, not the table"),
    FLAG_OPTION("disable-tqdm", &no_progress, "no progress bar"),
    OPTIONS_END,
};

/* ---- the requested run ---- */

static const char *latency_name(int i)
{
    return i < N_LATENCY ? latency_kind[i].name : NULL;
}

/* Set in_table[k] for each name of --percentile-metrics. The table therefore has latencies in the
 * order of latency_kind, not in the order of the flag. */
static int read_table(bool in_table[N_LATENCY], struct err *e)
{
    for (const char *at = percentile_metrics; *at;) {
        char one[64];
        const char *name;
        size_t n = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        int rc = name_choose(&name, "--percentile-metrics", latency_name, one, e);
        if (rc != 0) return rc;
        for (int k = 0; k < N_LATENCY; k++) in_table[k] |= strcmp(latency_kind[k].name, name) == 0;
        at += n + (at[n] == ',');
    }
    return 0;
}

/* ---- before the measurement ---- */

/* Send n requests, one after the other, with prompt 0. Set `error` to the reason of the first
 * failure, or to "" if no request failed. */
static int try_first(struct served_target *t, const struct prompts *p, struct served_options o,
                     size_t n, struct err *why, struct err *e)
{
    struct served_result r;
    why->text[0] = '\0';
    o.n_first = n;
    o.no_samples = true;
    int rc = served_run(&r, t, p, &o, e);
    for (size_t i = 0; rc == 0 && i < r.n && !why->text[0]; i++)
        if (r.trace[i].error) err_set(why, ERR_IO, "%s", r.trace[i].error);
    served_result_close(&r);
    return rc;
}

/* Send one request per second until a request succeeds. ERR_IO with the reason of the last failure
 * after --ready-check-timeout-sec. */
static int wait_ready(struct served_target *t, const struct prompts *p,
                      const struct served_options *o, struct err *e)
{
    struct err why;
    int64_t until = time_us() + 1000000 * ready_s;
    for (;;) {
        struct served_options quiet = *o;
        quiet.progress = NULL;
        int rc = try_first(t, p, quiet, 1, &why, e);
        if (rc != 0 || !why.text[0]) return rc;
        if (time_us() >= until)
            return err_set(e, ERR_IO, "not ready in %lld s: %s", (long long)ready_s, why.text);
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}

/* Find the model's name. A server that is not ready may report its models later. */
static int find_model(struct served_target *t, struct err *e)
{
    int64_t until = time_us() + 1000000 * ready_s;
    for (;;) {
        int rc = target_model(t, e);
        if (rc != ERR_IO || time_us() >= until) return rc;
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}

/* Send the requests of the warm-up. A failure ends the command, because the requests of the
 * measurement would probably fail, too. */
static int warm_up(struct served_target *t, const struct prompts *p, const struct served_options *o,
                   struct err *e)
{
    struct err why = {0};
    struct served_options warm = *o;
    if (warm.progress) warm.progress = "warm-up";
    int rc = ready_s ? wait_ready(t, p, o, e) : 0;
    if (rc == 0 && n_warmup) rc = try_first(t, p, warm, (size_t)n_warmup, &why, e);
    return rc == 0 && why.text[0] ? err_set(e, ERR_IO, "warm-up: %s", why.text) : rc;
}

/* ---- results ---- */

/* Append the last part of a path, because names of models often contain a slash. */
static void put_part(struct buf *b, const char *text)
{
    buf_add_text(b, path_name(text));
}

/* Return the path of --result-filename, or vLLM's name
 * (label-rateqps[-concurrencyN]-model-date.json). */
static char *result_path(const struct served_report *r)
{
    const struct arrival_flags *f = &arrival_flags;
    struct buf b = {0};
    if (result_dir) buf_addf(&b, "%s/", result_dir);
    if (result_name) {
        buf_add_text(&b, result_name);
        return buf_detach(&b);
    }
    buf_addf(&b, "%s-", label ? label : r->target->backend);
    if (f->ramp)
        buf_addf(&b, "ramp-up-%s-%gqps-%gqps", f->ramp, f->ramp_from, f->ramp_to);
    else
        buf_addf(&b, "%gqps", f->rate > 0 ? f->rate : INFINITY);
    if (f->max_concurrency) buf_addf(&b, "-concurrency%lld", (long long)f->max_concurrency);
    buf_add_char(&b, '-');
    put_part(&b, r->target->model);
    buf_addf(&b, "-%s.json", r->date);
    return buf_detach(&b);
}

/* Write the JSON, or append the JSON as another line (--append-result). The file is replaced as a
 * whole, so the old file remains after a failure. */
static int save_json(const struct served_report *r, const struct buf *json, struct err *e)
{
    struct buf all = {0};
    int rc = result_dir ? dir_make(result_dir, DIR_SHARED, e) : 0;
    char *path = result_path(r);
    if (rc == 0 && !path) rc = err_memory(e, "a file's name", 64);
    if (rc == 0 && append && file_exists(path)) rc = file_read(&all, path, (size_t)1 << 31, e);
    buf_add(&all, json->data, json->n);
    if (rc == 0 && all.failed) rc = err_memory(e, path, json->n);
    if (rc == 0) rc = file_write(path, all.data, all.n, e);
    if (rc == 0) fprintf(stderr, "quoth bench serve: the result is in %s\n", path);
    buf_deinit(&all);
    free(path);
    return rc;
}

/* Print the report. The table and the JSON are always made, because the page needs the table and
 * the file needs the JSON. */
static int print(struct served_report *r, struct err *e)
{
    struct buf table = {0}, json = {0};
    int rc = served_table(r, &table, e);
    if (rc == 0) rc = served_json(r, detail, &json, e);
    if (rc == 0) fputs(as_json ? json.data : table.data, stdout);
    if (rc == 0 && (save || append)) rc = save_json(r, &json, e);
    if (rc == 0 && page_path) rc = served_page(r, page_path, table.data, e);
    buf_deinit(&table);
    buf_deinit(&json);
    return rc;
}

/* Print warnings about the figures. */
static void print_warnings(const struct served_report *r)
{
    const struct prompts *p = r->prompts;
    double cpu = (double)r->result->cpu_us * 1e-6, s = r->figures.seconds;
    int n_shown = 0;
    if (p->n_cut)
        fprintf(stderr,
                "quoth bench serve: %zu of %zu requests are cut to a context of %d tokens\n",
                p->n_cut, p->t.n, r->target->context_max);
    if (p->n_inexact)
        fprintf(stderr,
                "quoth bench serve: %zu of %zu prompts do not have exactly the requested length\n",
                p->n_inexact, p->t.n);
    if (s > 1 && cpu > 0.8 * s)
        fprintf(stderr,
                "quoth bench serve: this client used %.0f %% of a core and may limit the figures\n",
                100 * cpu / s);
    for (size_t i = 0; i < r->result->n && n_shown < 10; i++)
        if (r->result->trace[i].error)
            fprintf(stderr, "quoth bench serve: request %zu: %s\n", i, r->result->trace[i].error),
                n_shown++;
}

/* Write the report. The date is the local time of the report, because vLLM's file names use local
 * time. */
static int report(struct served_report *r, struct err *e)
{
    time_t t = (time_t)(time_wall_us() / 1000000);
    struct tm tm;
    strftime(r->date, sizeof r->date, "%Y%m%d-%H%M%S", localtime_r(&t, &tm));
    int rc = client_figures(&r->figures, r->result->trace, r->result->n, &r->slo, e);
    if (rc != 0) return rc;
    print_warnings(r);
    return print(r, e);
}

/* ---- the command ---- */

/* Validate all flags before the first request, so that the command fails at once if a flag is
 * wrong. */
static int check_flags(struct served_report *r, struct traffic_arrivals *a, struct json **extra,
                       struct err *e)
{
    int rc = figures_read(&r->slo, &r->percent, "99", e);
    if (rc == 0) rc = read_table(r->in_table, e);
    if (rc == 0) rc = prompts_check(e);
    if (rc == 0) rc = arrivals_read(a, e);
    if (rc == 0) rc = body_extra(extra, e);
    return rc;
}

/* Read the server's figures. The figures are NAN if the server has no /metrics or reading fails. */
static void read_view(struct served_target *t, double window_s, struct server_view *v)
{
    struct err e;
    server_view_read(v, "");
    if (server_metrics) target_view(t, window_s, v, &e);
}

/* Read the server's figures after the run. A server may send the last answers before it counts
 * their step. */
static void read_last_view(struct served_target *t, struct served_result *result,
                           struct server_view *v)
{
    for (int i = 0; i < 5; i++) {
        read_view(t, (double)(time_us() - result->begin_us) * 1e-6, v);
        served_result_marks(result, v);
        if (!(v->running > 0)) return;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

/* Run warm-up and measurement. The first view is read after the warm-up, so that the warm-up's work
 * is not counted. */
static int run_all(struct served_target *t, struct prompts *p, struct served_result *result,
                   struct served_report *r, struct served_options *o, struct err *e)
{
    int rc = warm_up(t, p, o, e);
    if (rc != 0) return rc;
    read_view(t, 0, &r->before);
    rc = served_run(result, t, p, o, e);
    if (rc != 0) return rc;
    read_last_view(t, result, &r->after);
    return report(r, e);
}

/* Measure a server. The result and the prompts belong to this function. r borrows both, so r is
 * printed before the result and the prompts are closed. */
static int measure(struct served_report *r, struct err *e)
{
    struct served_target t = {0};
    struct prompts p = {0};
    struct served_result result = {0};
    struct traffic_arrivals a;
    struct json *extra = NULL;
    struct buf member = {0};
    int rc = check_flags(r, &a, &extra, e);
    if (rc == 0) rc = target_open(&t, e);
    if (rc == 0) rc = find_model(&t, e);
    if (rc == 0) rc = prompts_open(&p, &t, e);
    if (rc == 0 && (!p.timed || has_arrivals())) traffic_arrive(&p.t, &a);
    body_sampling(&member, extra);
    if (rc == 0 && member.failed) rc = err_memory(e, "a request", member.n);
    struct served_options o = {.max_concurrency = (int)arrival_flags.max_concurrency,
                               .member = member.data,
                               .extra = extra,
                               .ignore_eos = p.ignore_eos,
                               .keep_text = detail,
                               .id_prefix = id_prefix,
                               .progress = no_progress ? NULL : "bench serve",
                               .no_samples = !server_metrics};
    r->target = &t;
    r->prompts = &p;
    r->result = &result;
    if (rc == 0) rc = run_all(&t, &p, &result, r, &o, e);
    buf_deinit(&member);
    json_drop(extra);
    served_result_close(&result);
    prompts_close(&p);
    target_close(&t);
    return rc;
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct served_report r = {.peak_flops = figure_flags.peak_tflops * 1e12,
                              .peak_bytes = figure_flags.peak_gbs * 1e9,
                              .label = label,
                              .metadata = &metadata};
    (void)n_arg, (void)arg;
    int rc = measure(&r, &e);
    bool good = r.figures.n_completed > 0 && served_slo_met(&r);
    client_figures_close(&r.figures);
    vec_deinit(&r.percent);
    if (rc != 0) return fail("bench serve", &e);
    return good ? 0 : 1;
}

const struct command command_bench_serve = {
    .name = "bench serve",
    .summary = "latencies and throughput of a server",
    .usage = "[--base-url URL] [OPTIONS]",
    .detail =
        "Measure any server with OpenAI's API. Options, table and JSON keys are those of vllm "
        "bench serve. The report also has the server's /metrics (prefix cache, pages, speculation, "
        "FLOPs) and this machine's power. Random prompts are token ids if the vocabulary's size is "
        "known: quoth's and llama.cpp's servers report it, and --tokenizer supplies it. Otherwise "
        "random prompts are words, and --tokenizer or the server's /tokenize counts the tokens. "
        "Sampling parameters without a flag are not sent, so the server's defaults apply.",
    .options = options,
    .arg_max = 0,
    .run = run,
};
