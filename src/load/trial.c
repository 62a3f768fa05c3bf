/* trial.c - open a model and an engine for the jobs, measure peaks before and after the run, and
 * print the results.
 *
 *    trial_main -> measure -> jobs -> trial_open -> trial_run ... -> trial_figures -> trial_print
 *
 * `measure` differs between the commands: latency.c, throughput.c, replay.c. The commands append
 * their own results to b->text and b->json before trial_print. */
#include "trial.h"

#include "base/json.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_SEQ = 64 }; /* default of --max-num-seqs */

static bool no_detokenize, as_json;
static const char *json_path, *page_path;
bool prefix_cache_flag = true;

const struct option trial_options[] = {
    FLAG_OPTION("disable-detokenize", &no_detokenize, "do not convert answers to text"),
    OPTIONS_OF(sampling_options),
    OPTIONS_OF(figure_options),
    LIST_OPTION("goodput", "NAME:MS", &figure_flags.goodput,
                "an objective, may be repeated: ttft:500, tpot:50, e2el:10000, e2el_per_token:50",
                .form = objective_form),
    FLAG_OPTION("json", &as_json, "one JSON object"),
    TEXT_OPTION("output-json", "FILE", &json_path, "also write the JSON object to a file"),
    TEXT_OPTION("output", "FILE.html", &page_path, "also write a page with the table and curves",
                .letter = 'o'),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

const struct option cache_options[] = {
    FLAG_OPTION("enable-prefix-caching", &prefix_cache_flag,
                "reuse cached prefixes (default on; --no-enable-prefix-caching)"),
    OPTIONS_END,
};

/* ---- opening ---- */

/* Return the number of tokens of the longest job. The model is opened with room for this job. */
static int longest(const struct traffic *t)
{
    int max = 1;
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].n_prompt + t->v[i].n_output > max) max = t->v[i].n_prompt + t->v[i].n_output;
    return max;
}

/* Open and start the engine of the session. The log of steps replaces the executor. */
static int start_engine(struct trial *b, const struct trial_setup *o, struct err *e)
{
    struct engine_options eo;
    session_flags.offline = o->offline;
    session_engine_options(&eo, &b->s, &session_flags);
    int rc = 0;
    if (o->log_bytes) rc = step_log_open(&b->log, b->s.model, o->log_bytes, e);
    if (b->log) eo.executor = step_log_executor(b->log);
    eo.no_prefix_cache = !o->prefix_cache;
    eo.queue_max = b->t.n < 1024 ? 1024 : (int)b->t.n;
    if (rc == 0) rc = engine_open(&b->s.engine, &eo, e);
    return rc ? rc : engine_start(b->s.engine, e);
}

/* The jobs are made before the model is opened, because the size of the KV cache is computed from
 * the jobs. trial_close is called also after an error. */
int trial_open(struct trial *b, const char *model, const struct trial_setup *o, struct err *e)
{
    int rc = figures_read(&b->slo, &b->percent, "50,90,99", e);
    int n_seq = session_flags.max_num_seqs ? (int)session_flags.max_num_seqs : N_SEQ;
    struct session_size size = {.n_seq = n_seq,
                                .n_out = n_seq,
                                .n_row_min = n_seq,
                                .context = longest(&b->t) + 1,
                                .n_longest = n_seq};
    if (rc == 0) rc = session_open_sized(&b->s, model, &size, e);
    if (rc != 0) return rc;
    size_t n_cut = traffic_fit(&b->t, model_info(b->s.model)->context_max);
    if (n_cut)
        fprintf(stderr, "quoth %s: %zu of %zu requests are cut to a context of %d tokens\n",
                b->name, n_cut, b->t.n, model_info(b->s.model)->context_max);
    if (o->touch_pages) model_touch_pages(b->s.model);
    return start_engine(b, o, e);
}

void trial_close(struct trial *b)
{
    traffic_figures_close(&b->figures);
    traffic_result_close(&b->result);
    session_close(&b->s);
    step_log_close(b->log);
    traffic_close(&b->t);
    vec_deinit(&b->percent);
    buf_deinit(&b->json);
    buf_deinit(&b->text);
}

/* ---- running ---- */

/* Measure the machine's current peaks. The memory is freed afterwards, because otherwise it would
 * be measured as memory of the engine. */
static int measure_peaks(struct trial *b, struct traffic_peaks *p, struct err *e)
{
    struct limits *l = NULL;
    *p = (struct traffic_peaks){.flops = figure_flags.peak_tflops * 1e12,
                                .bytes = figure_flags.peak_gbs * 1e9};
    if (p->flops > 0 && p->bytes > 0) return 0;
    int rc = limits_open(&l, b->s.backend, e);
    struct limit now = {0};
    if (rc == 0) now = limits_now(l, arith_of_model(b->s.info));
    limits_close(l);
    if (p->flops <= 0) p->flops = now.ops;
    if (p->bytes <= 0) p->bytes = now.read;
    return rc;
}

/* The peaks are measured before the first run, and again by trial_figures. */
int trial_run(struct trial *b, int max_concurrency, int n_choice, struct err *e)
{
    struct sample_params params = sample_params_default;
    sampling_read(&params);
    struct traffic_options o = {.clock = &traffic_real_clock,
                                .n_vocab = model_info(b->s.model)->n_vocab,
                                .max_concurrency = max_concurrency,
                                .n_choice = n_choice,
                                .beams = choice_flags.beams,
                                .params = &params,
                                .tokenizer = no_detokenize ? NULL : b->s.tokenizer,
                                .progress = b->name};
    traffic_result_close(&b->result);
    int rc = b->peaks.n_thread ? 0 : measure_peaks(b, &b->peaks, e);
    b->peaks.n_thread = session_n_thread(&b->s);
    if (b->log) step_log_clear(b->log);
    return rc ? rc : traffic_run(&b->result, b->s.engine, &b->t, &o, e);
}

/* The peaks are means of the values before and after the run, which reduces the effect of a
 * changing clock rate. */
int trial_figures(struct trial *b, struct err *e)
{
    struct traffic_peaks after;
    int rc = measure_peaks(b, &after, e);
    if (rc != 0) return rc;
    b->peaks.flops = (b->peaks.flops + after.flops) / 2;
    b->peaks.bytes = (b->peaks.bytes + after.bytes) / 2;
    return traffic_figures(&b->figures, &b->result, &b->slo, &b->peaks, e);
}

/* ---- results ---- */

/* Return the model's maximum number of sequences, which may be less than requested. */
static int n_seq(const struct trial *b)
{
    return model_batch_limits(b->s.model)->n_seq;
}

/* Return the scheduler's name. "auto" is resolved for requests without keys. */
static const char *scheduler(void)
{
    const char *name = session_flags.scheduler;
    return strcmp(name, "auto") == 0 ? policy_name(0) : name;
}

/* Append the model, the settings and the machine. */
static void put_subject(struct trial *b, struct buf *out)
{
    const struct model_info *i = model_info(b->s.model);
    char date[32];
    time_t t = (time_t)(time_wall_us() / 1000000);
    struct tm tm;
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", gmtime_r(&t, &tm));
    json_member_text(out, "date", date);
    json_member_text(out, "backend", "quoth");
    json_member_text(out, "model_id", i->name);
    buf_addf(out, ",\"num_prompts\":%zu,\"max_num_seqs\":%d,\"kv_pages\":%d,\"block_size\":%d",
             b->t.n, n_seq(b), i->n_page, i->page_rows);
    json_member_text(out, "device", b->s.backend->description);
    json_member_text(out, "scheduler", scheduler());
    json_member_text(out, "version", QUOTH_VERSION);
}

/* Print the model and the settings above the table. */
static void print_subject(struct trial *b, FILE *f)
{
    const struct model_info *i = model_info(b->s.model);
    fprintf(f, "%s: %s, %.2f M parameters; %s, activations %s, KV %s\n", i->name, i->arch,
            (double)i->n_param * 1e-6, b->s.backend->description, session_act_name(),
            kv_type_name(i->kv_type));
    fprintf(f, "%d pages of %d tokens, at most %d sequences, scheduler %s\n\n", i->n_page,
            i->page_rows, n_seq(b), scheduler());
}

/* Prepend the table to b->text. traffic_print writes to a FILE, so the text needs a stream in
 * memory. */
static int compose_text(struct trial *b, struct err *e)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return err_memory(e, "the table", 4096);
    print_subject(b, f);
    traffic_print(&b->figures, &b->result, &b->percent, f);
    if (b->text.n) fputs(b->text.data, f);
    const bool whole = fclose(f) == 0;
    buf_clear(&b->text);
    if (whole) buf_add(&b->text, text, n);
    free(text);
    return !whole || b->text.failed ? err_memory(e, "the table", n) : 0;
}

/* Move the command's own members after the members that all trials have. */
static int compose_json(struct trial *b, bool detail, struct err *e)
{
    struct buf own = b->json;
    b->json = (struct buf){0};
    put_subject(b, &b->json);
    traffic_json(&b->figures, &b->result, &b->percent, &b->json);
    if (own.n) buf_add(&b->json, own.data, own.n);
    if (detail) client_trace_json(b->result.trace, b->result.n, &b->json);
    buf_add_text(&b->json, "}\n");
    b->json.failed |= own.failed;
    buf_deinit(&own);
    if (b->json.failed) return err_memory(e, "the result", b->json.n);
    b->json.data[0] = '{'; /* this brace replaces the first comma */
    return 0;
}

static int write_page(const struct trial *b, struct err *e)
{
    char title[80];
    snprintf(title, sizeof title, "quoth %s: %.50s", b->name, model_info(b->s.model)->name);
    struct client_page page = {.title = title,
                               .table = b->text.data,
                               .trace = b->result.trace,
                               .n_trace = b->result.n,
                               .figures = &b->figures.client,
                               .load = b->result.sample.v,
                               .n_load = b->result.sample.n};
    return client_page_write(&page, page_path, e);
}

/* Standard output gets the text or the JSON. The files get both forms. */
int trial_print(struct trial *b, bool detail, struct err *e)
{
    int rc = compose_text(b, e);
    if (rc == 0) rc = compose_json(b, detail, e);
    if (rc == 0) fputs(as_json ? b->json.data : b->text.data, stdout);
    if (rc == 0 && json_path) rc = file_write(json_path, b->json.data, b->json.n, e);
    return rc == 0 && page_path ? write_page(b, e) : rc;
}

/* Run a measurement as a command. Return the exit status: 0, or 1 if it failed or b.good is
 * false. */
int trial_main(const char *name, int (*measure)(struct trial *b, const char *model, struct err *e),
               int n_arg, char **arg)
{
    struct err e = {0};
    struct trial b = {.name = name, .good = true};
    const char *model = n_arg == 1 ? arg[0] : session_bundled(NULL, &e);
    int rc = model ? measure(&b, model, &e) : ERR_MISSING;
    trial_close(&b);
    if (rc != 0) return fail(name, &e);
    return b.good ? 0 : 1;
}
