/* roofline.c - quoth bench roofline: the limits of the machine's memory and arithmetic, and a
 * model's share of them.
 *
 *   decode   must read every weight, and the keys and values of all previous tokens, for each
 *            token: bytes / bandwidth is the minimum time
 *   prefill  must do two operations for each weight and token, at the peak of the instruction that
 *            multiplies activations of that type
 *
 * Other programs, the clock and the host of a virtual machine change these limits from one second
 * to the next. Therefore a round measures the limit, the model and the limit again. A share is
 * relative to the mean of the two limits, and the result is the median of all rounds. The result
 * for the machine itself is that of the best round. */
#include "measure.h"

#include "base/cpu.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t n_round = 5, n_prompt = 512, n_gen = 32, depth, read_mib = 1024;
static bool as_json;

static const struct option options[] = {
    INT_OPTION("prompt", "N", &n_prompt, 1, 1 << 20, "tokens of the prompt (default 512)",
               .letter = 'p'),
    INT_OPTION("gen", "N", &n_gen, 1, 1 << 20, "tokens to generate in sequence (default 32)",
               .letter = 'n'),
    INT_OPTION("depth", "N", &depth, 0, 1 << 20, "tokens in the cache before the run (default 0)",
               .letter = 'd'),
    INT_OPTION("repeat", "N", &n_round, 1, 1000, "rounds (default 5)", .letter = 'r'),
    INT_OPTION("read", "MIB", &read_mib, 1, 1 << 20,
               "memory to read for the bandwidth, at most a quarter of the free memory (default "
               "1024)"),
    FLAG_OPTION("json", &as_json, "one JSON object"),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

/* ---- the machine ---- */

/* READ_US and PEAK_US: duration of one measurement. */
enum { N_LEVEL = 16, READ_US = 60000, PEAK_US = 15000 };

struct roofline {
    /* pool of one thread, owned, and pool of all threads, borrowed from the backend */
    struct pool *pool[2];
    struct reading reading;
    const struct peak *level[N_LEVEL]; /* static [n_level] */
    int n_level;
    /* rates per second; 0: the instruction does not exist */
    double read[2], peak[N_LEVEL][N_ARITH][2];
};

/* Return the name of the multiplying instruction of a level. */
static const char *instruction_of(const struct peak *p, enum arith k)
{
    return k == ARITH_INT8 ? p->int8_name : k == ARITH_BF16 ? p->bf16_name : p->f32_name;
}

static void machine_close(struct roofline *m)
{
    reading_close(&m->reading);
    pool_close(m->pool[0]);
}

/* Open one thread and the memory to read. The backend's pool has all threads. */
static int machine_open(struct roofline *m, struct pool *pool, struct err *e)
{
    *m = (struct roofline){.pool[1] = pool};
    m->n_level = peak_list(m->level, N_LEVEL);
    int rc = pool_open(&m->pool[0], 1, e);
    if (rc == 0) rc = reading_open(&m->reading, pool, (uint64_t)read_mib, e);
    if (rc != 0) machine_close(m);
    return rc;
}

static void keep_best(double *best, double x)
{
    if (x > *best) *best = x;
}

/* Keep the best rates of all rounds, for one thread and for all threads. */
static void machine_measure(struct roofline *m)
{
    for (int round = 0; round < n_round; round++)
        for (int t = 0; t < 2; t++) {
            keep_best(&m->read[t], reading_rate(&m->reading, m->pool[t], READ_US));
            for (int i = 0; i < m->n_level; i++)
                for (enum arith k = 0; k < N_ARITH; k++) {
                    peak_fn *fn = arith_peak(m->level[i], k);
                    if (fn) keep_best(&m->peak[i][k][t], peak_rate(m->pool[t], fn, PEAK_US));
                }
        }
}

/* Print the rates of the machine, with a row for each arithmetic and level. */
static void machine_print(const struct roofline *m)
{
    printf("%-28s %12s %9d threads\n", cpu_name(), "1 thread", pool_n_thread(m->pool[1]));
    printf("%-28s %12.2f %9.2f GB/s, of %zu MiB\n", "read", m->read[0] * 1e-9, m->read[1] * 1e-9,
           m->reading.n_byte >> 20);
    for (enum arith k = 0; k < N_ARITH; k++)
        for (int i = 0; i < m->n_level; i++) {
            if (!arith_peak(m->level[i], k)) continue;
            char name[64];
            snprintf(name, sizeof name, "%s %s, %s", arith_name[k], m->level[i]->name,
                     instruction_of(m->level[i], k));
            printf("%-28s %12.3f %9.3f TOP/s\n", name, m->peak[i][k][0] * 1e-12,
                   m->peak[i][k][1] * 1e-12);
        }
}

/* Append the machine's peaks as JSON. Each list has two rates: of one thread and of all threads. */
static void machine_json(const struct roofline *m, struct buf *b)
{
    buf_add_text(b, "\"cpu\":");
    json_put_text(b, cpu_name(), strlen(cpu_name()));
    buf_addf(b, ",\"threads\":%d,\"read_bytes\":%zu,\"read\":[%.4g,%.4g],\"peaks\":[",
             pool_n_thread(m->pool[1]), m->reading.n_byte, m->read[0], m->read[1]);
    bool first = true;
    for (enum arith k = 0; k < N_ARITH; k++)
        for (int i = 0; i < m->n_level; i++) {
            if (!arith_peak(m->level[i], k)) continue;
            buf_addf(b, "%s{\"kind\":\"%s\",\"level\":\"%s\",\"ops_per_s\":[%.4g,%.4g]}",
                     first ? "" : ",", arith_name[k], m->level[i]->name, m->peak[i][k][0],
                     m->peak[i][k][1]);
            first = false;
        }
    buf_add_text(b, "]");
}

/* ---- a model on the machine ---- */

struct reached {
    enum arith kind;
    double step_bytes,
        token_ops; /* bytes of a decode step, and operations per prompt token without the head */
    /* tokens per second, and as a share of the bandwidth in the same round */
    double decode, decode_share;
    double prefill;        /* tokens per second */
    double share[N_LEVEL]; /* shares of each level's peak in the same round; 0 if none */
};

/* Return the seconds of a case. On failure set *rc and return 0. */
static double time_case(struct bench_model *b, const struct bench_case *c, int *rc, struct err *e)
{
    struct samples seconds = {0};
    if (*rc == 0) *rc = bench_model_run(b, c, 1, &seconds, e);
    double s = samples_mean(&seconds);
    vec_deinit(&seconds);
    return s;
}

/* Return the current read rate of all threads. */
static double bandwidth(const struct roofline *m)
{
    return reading_rate(&m->reading, m->pool[1], READ_US);
}

/* Measure decoding. The rate after a round is also the rate before the next round. */
static int decode_rounds(struct reached *r, const struct roofline *m, struct bench_model *b,
                         struct err *e)
{
    struct bench_case c = {.n_token = (int)n_gen, .n_seq = 1, .depth = (int)depth};
    struct samples rate = {0}, share = {0};
    double before = bandwidth(m);
    int rc = 0;
    for (int i = 0; i < n_round && rc == 0; i++) {
        progress_note("decode");
        double per_s = (double)n_gen / time_case(b, &c, &rc, e), after = bandwidth(m);
        if (!vec_push(&rate, per_s) ||
            !vec_push(&share, per_s * r->step_bytes * 2 / (before + after)))
            rc = err_memory(e, "samples", sizeof per_s);
        before = after;
    }
    r->decode = samples_median(&rate);
    r->decode_share = samples_median(&share);
    vec_deinit(&rate);
    vec_deinit(&share);
    return rc;
}

/* Measure prompts: the median rate, then the median share of each level's peak. */
static int prefill_rounds(struct reached *r, const struct roofline *m, struct bench_model *b,
                          struct err *e)
{
    struct bench_case c = {
        .prompt = true, .n_token = (int)n_prompt, .n_seq = 1, .depth = (int)depth};
    struct samples rate = {0}, share[N_LEVEL] = {0};
    int rc = 0;
    for (int i = 0; i < n_round && rc == 0; i++) {
        progress_note("prefill");
        double per_s = (double)n_prompt / time_case(b, &c, &rc, e);
        bool ok = vec_push(&rate, per_s);
        for (int k = 0; k < m->n_level && ok; k++) {
            peak_fn *fn = arith_peak(m->level[k], r->kind);
            if (fn)
                ok = vec_push(&share[k], per_s * r->token_ops / peak_rate(m->pool[1], fn, PEAK_US));
        }
        if (!ok) rc = err_memory(e, "samples", sizeof per_s);
    }
    r->prefill = samples_median(&rate);
    vec_deinit(&rate);
    for (int k = 0; k < m->n_level; k++) {
        r->share[k] = samples_median(&share[k]);
        vec_deinit(&share[k]);
    }
    return rc;
}

/* Measure the model's share of the limits. A decode step reads the KV of half of its run on
 * average. */
static int measure_share(struct reached *r, const struct roofline *m, struct session *s,
                         struct err *e)
{
    const struct model_info *i = model_info(s->model);
    /* a step reads and writes the recurrent state once */
    double kv = (double)i->kv_token_bytes * ((double)depth + 0.5 * (double)n_gen) +
                2 * (double)i->state_bytes;
    *r = (struct reached){
        .kind = arith_of_model(s->info),
        .step_bytes = (double)(i->layer_bytes + i->head_bytes) + kv,
        .token_ops = 2.0 * (double)i->layer_macs,
    };
    struct bench_model *b;
    int rc = bench_model_open(&b, s, 1, e);
    if (rc == 0) rc = decode_rounds(r, m, b, e);
    if (rc == 0) rc = prefill_rounds(r, m, b, e);
    progress_note(NULL);
    bench_model_close(b);
    return rc;
}

/* Omit levels slower than the measured rate, because these levels are not limits. */
static void reached_print(const struct reached *r, const struct roofline *m, struct session *s)
{
    const struct model_info *i = model_info(s->model);
    printf("\n%s: %s, %.2f M parameters; %s, activations %s\n", i->name, i->arch,
           (double)i->n_param * 1e-6, s->backend->description, arith_name[r->kind]);
    printf("decode   %10.2f tokens/s at %.1f MB a token, of %.2f: ", r->decode,
           r->step_bytes * 1e-6, r->decode / r->decode_share);
    if (r->decode_share > 1)
        printf("in cache\n"); /* some bytes come from a cache */
    else
        printf("%.1f %% of the bandwidth\n", r->decode_share * 100);
    printf("prefill  %10.2f tokens/s at %.1f MOP a token, of", r->prefill, r->token_ops * 1e-6);
    bool first = true;
    for (int k = m->n_level - 1; k >= 0; k--)
        if (r->share[k] > 0 &&
            (r->share[k] <= 1 || first)) { /* ignore a level that is slower than the rate */
            char share[16];
            printf("%s %.2f: %s of %s", first ? "" : ",", r->prefill / r->share[k],
                   share_text(share, r->share[k], 1, 1, ABOVE_PEAK), m->level[k]->name);
            first = false;
        }
    printf("\n");
}

static void reached_json(const struct reached *r, const struct roofline *m, struct session *s,
                         struct buf *b)
{
    const struct model_info *i = model_info(s->model);
    buf_add_text(b, ",\"model\":");
    json_put_text(b, i->name, strlen(i->name));
    buf_addf(b, ",\"n_param\":%lld,\"backend\":\"%s\",\"activation\":\"%s\",\"depth\":%lld",
             (long long)i->n_param, s->backend->description, arith_name[r->kind], (long long)depth);
    buf_addf(b, ",\"decode\":{\"tokens\":%lld,\"tokens_per_s\":%.4f,\"bytes_per_token\":%.0f",
             (long long)n_gen, r->decode, r->step_bytes);
    buf_addf(b, ",\"share_of_bandwidth\":%.4f},\"prefill\":{\"tokens\":%lld", r->decode_share,
             (long long)n_prompt);
    buf_addf(b, ",\"tokens_per_s\":%.4f,\"ops_per_token\":%.0f,\"share_of\":{", r->prefill,
             r->token_ops);
    bool first = true;
    for (int k = 0; k < m->n_level; k++)
        if (r->share[k] > 0) {
            buf_addf(b, "%s\"%s\":%.4f", first ? "" : ",", m->level[k]->name, r->share[k]);
            first = false;
        }
    buf_add_text(b, "}}");
}

/* ---- the command ---- */

/* Open a model with room for the longest case. */
static int open_session(struct session *s, const char *model, struct err *e)
{
    int64_t longest = depth + (n_prompt > n_gen ? n_prompt : n_gen) + 1;
    struct session_size size = {.n_seq = 1, .n_out = 1, .context = (int)longest};
    return session_open_sized(s, model, &size, e);
}

/* Measure with s: a backend, and optionally a model. */
static int measure(struct session *s, struct err *e)
{
    struct roofline m;
    struct reached r = {0};
    struct buf b = {0};
    int rc = machine_open(&m, s->backend->pool, e);
    if (rc != 0) return rc;
    progress_note("machine");
    machine_measure(&m);
    progress_note(NULL);
    if (!as_json) machine_print(&m);
    if (s->model) rc = measure_share(&r, &m, s, e);
    if (rc == 0 && s->model && !as_json) reached_print(&r, &m, s);
    if (rc == 0 && as_json) {
        buf_add_text(&b, "{");
        machine_json(&m, &b);
        if (s->model) reached_json(&r, &m, s, &b);
        buf_add_text(&b, "}");
        if (!b.failed) printf("%s\n", b.data);
    }
    buf_deinit(&b);
    machine_close(&m);
    return rc;
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct session s = {0};
    const char *model = n_arg == 1 ? arg[0] : session_flags.shape;
    int rc = model ? open_session(&s, model, &e) : session_backend(&s, &e);
    if (rc == 0) rc = measure(&s, &e);
    session_close(&s);
    return rc ? fail("bench roofline", &e) : 0;
}

const struct command command_bench_roofline = {
    .name = "bench roofline",
    .summary = "limits of memory and arithmetic, and a model's share of them",
    .usage = "[MODEL] [OPTIONS]",
    .detail =
        "Read memory and multiply at the machine's limits, on one thread and on all. With MODEL or "
        "--shape, also report the shares of decoding and prefill. Decoding: bytes that a token "
        "must read, as a share of the bandwidth. Prefill: operations of the linear layers, as a "
        "share of the peak of each instruction set.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
