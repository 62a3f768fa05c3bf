/* traffic_read.c - make the requests to send, from a trace of real requests or at random.
 *
 * A trace has no text, only times and lengths. Mooncake's trace also has the names of blocks of 512
 * tokens. Equal blocks have equal names. Tokens are derived from the names of blocks, so that equal
 * prefixes remain equal. */
#include "traffic.h"

#include "base/json.h"
#include "base/os.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void traffic_close(struct traffic *t)
{
    vec_deinit(&t->block);
    free(t->v);
    *t = (struct traffic){0};
}

/* Append a job. Traces contain lengths of 0, but the engine requires at least one token of prompt
 * and output. */
static int add(struct traffic *t, struct traffic_job j, struct err *e)
{
    if (j.n_prompt < 1) j.n_prompt = 1;
    if (j.n_output < 1) j.n_output = 1;
    return vec_push(t, j) ? 0 : err_memory(e, "a trace", t->n * sizeof j);
}

/* ---- files ---- */

/* maximum number of tokens of a prompt or answer; an int can represent the sum of two such
 * numbers */
enum { LENGTH_MAX = 1 << 24 };
static const int64_t MS_MAX = (int64_t)1 << 52;

/* Parse "374,44" and ignore any text after it. */
static bool read_lengths(const char *text, struct traffic_job *j)
{
    return sscanf(text, "%9d,%9d", &j->n_prompt, &j->n_output) == 2; /* check: width */
}

static bool are_lengths(int64_t n_prompt, int64_t n_output)
{
    return n_prompt >= 0 && n_prompt <= LENGTH_MAX && n_output >= 0 && n_output <= LENGTH_MAX;
}

/* Parse "2023-11-16 18:15:46.6805900" to microseconds since 1970; false if invalid. */
static bool read_time(const char *text, int64_t *us)
{
    struct tm tm = {0};
    double second;
    const int n = sscanf(text, "%4d-%2d-%2d %2d:%2d:%lf", /* check: widths; a double saturates */
                         &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &second);
    if (n != 6 || !(second >= 0 && second < 61)) return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *us = (int64_t)timegm(&tm) * 1000000 + (int64_t)(second * 1e6 + 0.5);
    return true;
}

/* State of reading a trace. Times are relative to the first line of the trace. Pointers are
 * borrowed. */
struct trace_reader {
    struct traffic *t;
    const char *path;
    int64_t begin_us; /* time of the first line */
};

/* Parse one line and append its job. `at` is the line's number, for errors. */
typedef int read_line_fn(struct trace_reader *s, const char *line, int at, struct err *e);

static int bad_line(const struct trace_reader *s, int at, const char *wanted, const char *found,
                    struct err *e)
{
    return err_set(e, ERR_FORMAT, "%s:%d: expected %s, got %.80s", s->path, at, wanted, found);
}

/* Parse a line of Azure's trace: "2023-11-16 18:15:46.6805900,374,44". */
static int azure_line(struct trace_reader *s, const char *line, int at, struct err *e)
{
    const char *comma = strchr(line, ',');
    int64_t us;
    struct traffic_job j = {0};
    if (!comma || !read_time(line, &us) || !read_lengths(comma + 1, &j) ||
        !are_lengths(j.n_prompt, j.n_output))
        return bad_line(s, at, "TIMESTAMP,ContextTokens,GeneratedTokens", line, e);
    if (s->t->n == 0) s->begin_us = us;
    j.arrival_us = us - s->begin_us;
    return add(s->t, j, e);
}

/* Parse a line of vidur's trace: "374,44". All jobs arrive at time 0, because vidur's trace has no
 * times. */
static int lengths_line(struct trace_reader *s, const char *line, int at, struct err *e)
{
    struct traffic_job j = {0};
    if (!read_lengths(line, &j) || !are_lengths(j.n_prompt, j.n_output))
        return bad_line(s, at, "num_prefill_tokens,num_decode_tokens", line, e);
    return add(s->t, j, e);
}

/* Parse an object of Mooncake's trace, with the time in milliseconds:
 *    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}
 * The blocks must cover the prompt, because the prompt's tokens are derived from the blocks. */
static int mooncake_job(struct trace_reader *s, const struct json *j, int at, struct err *e)
{
    const struct json *ids = json_field(j, "hash_ids");
    int64_t n_prompt = json_int(json_field(j, "input_length"), -1),
            n_output = json_int(json_field(j, "output_length"), -1),
            ms = json_int(json_field(j, "timestamp"), -1), n_block = (int64_t)json_count(ids);
    if (ms < 0 || ms > MS_MAX || !are_lengths(n_prompt, n_output) ||
        n_block * BLOCK_TOKENS < n_prompt) {
        char found[80];
        snprintf(found, sizeof found, "{%lld, %lld, %lld, %lld blocks}", (long long)ms,
                 (long long)n_prompt, (long long)n_output, (long long)n_block);
        return bad_line(s, at, "{timestamp, input_length, output_length, hash_ids}", found, e);
    }
    struct traffic_job job = {.n_prompt = (int)n_prompt,
                              .n_output = (int)n_output,
                              .block0 = s->t->block.n,
                              .n_block = (int)n_block};
    for (int i = 0; i < job.n_block; i++) {
        int64_t id = json_int(json_item(ids, (size_t)i), -1);
        if (id < 0 || id > INT32_MAX) {
            char found[80];
            return bad_line(s, at, "hash_ids: integers in [0, 2^31)",
                            json_value_text(json_item(ids, (size_t)i), found), e);
        }
        if (!vec_push(&s->t->block, (int32_t)id))
            return err_memory(e, "a trace", s->t->block.n * sizeof(int32_t));
    }
    if (s->t->n == 0) s->begin_us = ms * 1000;
    job.arrival_us = ms * 1000 - s->begin_us;
    return add(s->t, job, e);
}

/* Parse a line as JSON. An error names file and line. */
static int mooncake_line(struct trace_reader *s, const char *line, int at, struct err *e)
{
    struct json *j;
    int rc = json_parse(&j, line, strlen(line), NULL, e);
    if (rc != 0) return err_prefix(e, rc, "%s:%d", s->path, at);
    rc = mooncake_job(s, j, at, e);
    json_drop(j);
    return rc;
}

/* Select the format by the first line, which is a heading unless it is an object. */
static read_line_fn *format_of(const char *first)
{
    if (strncmp(first, "TIMESTAMP,ContextTokens,GeneratedTokens", 39) == 0) return azure_line;
    if (strncmp(first, "num_prefill_tokens,num_decode_tokens", 36) == 0) return lengths_line;
    return first[0] == '{' ? mooncake_line : NULL;
}

static int by_arrival(const void *a, const void *b)
{
    int64_t x = ((const struct traffic_job *)a)->arrival_us,
            y = ((const struct traffic_job *)b)->arrival_us;
    return (x > y) - (x < y);
}

int traffic_read(struct traffic *t, const char *path, size_t n_max, struct err *e)
{
    struct trace_reader s = {.t = t, .path = path};
    struct buf text = {0};
    int rc = file_read(&text, path, (size_t)1 << 30, e), at = 1;
    read_line_fn *read_line = rc == 0 && text.n ? format_of(text.data) : NULL;
    if (rc == 0 && !read_line)
        rc = err_set(
            e, ERR_FORMAT,
            "%s: unknown trace: its first line must be TIMESTAMP,ContextTokens,GeneratedTokens, or "
            "num_prefill_tokens,num_decode_tokens, or a JSON object, got \"%.60s\"",
            path, text.n ? text.data : "");
    /* the last line may lack a newline, and the first line of a csv is the heading */
    for (char *line = text.data, *end; rc == 0 && line && *line && t->n < n_max;
         line = end + 1, at++) {
        end = strchrnul(line, '\n');
        bool last = !*end, head = at == 1 && read_line != mooncake_line;
        *end = '\0';
        if (!head && *line) rc = read_line(&s, line, at, e);
        if (last) break;
    }
    buf_deinit(&text);
    if (rc == 0 && t->n == 0) rc = err_set(e, ERR_FORMAT, "%s: requests not found", path);
    /* a trace is nearly in order, but the clients require the exact order and a first time of 0 */
    if (rc == 0) {
        qsort(t->v, t->n, sizeof *t->v, by_arrival);
        const int64_t begin_us = t->v[0].arrival_us;
        for (size_t i = 0; i < t->n; i++) t->v[i].arrival_us -= begin_us;
    }
    return rc;
}

/* ---- random ---- */

/* Return a random integer in [n (1 - spread), n (1 + spread)]. */
static int uniform(uint64_t *rng, int n, double spread)
{
    double lo = floor(n * (1 - spread)), hi = floor(n * (1 + spread));
    return (int)lo + (int)rng_below(rng, (uint64_t)(hi - lo) + 1);
}

int traffic_random(struct traffic *t, size_t n, int n_input, int n_output, double spread,
                   struct err *e)
{
    uint64_t rng = t->seed;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        int input = uniform(&rng, n_input, spread), output = uniform(&rng, n_output, spread);
        rc = add(t,
                 (struct traffic_job){
                     .n_prompt = t->n_prefix + input, .n_output = output, .n_prefix = t->n_prefix},
                 e);
    }
    return rc;
}

/* Return a random number of the gamma distribution with this shape and mean 1. The method is from
 * Marsaglia and Tsang (2000), with their boost for a shape below 1. The shape is the burstiness: 1
 * gives exponential intervals, and a smaller shape gives bursts. */
static double gamma_unit(uint64_t *rng, double shape)
{
    double boost = shape < 1 ? pow(1.0 - (double)rng_float(rng), 1 / shape) : 1;
    double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double u = 1.0 - (double)rng_float(rng), angle = 6.283185307179586 * (double)rng_float(rng);
        double x = sqrt(-2 * log(u)) * cos(angle), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(1.0 - (double)rng_float(rng)) < 0.5 * x * x + d - d * v + d * log(v))
            return boost * d * v / shape;
    }
}

/* As in vLLM, the rate of request i is interpolated between rate and rate_end by i, not by time.
 * The first request arrives at 0. */
void traffic_arrive(struct traffic *t, const struct traffic_arrivals *a)
{
    uint64_t rng = t->seed + 1;
    double at = 0;
    for (size_t i = 0; i < t->n; i++) {
        double part = t->n > 1 ? (double)i / (double)(t->n - 1) : 0;
        double rate = a->exponential ? a->rate * pow(a->rate_end / a->rate, part)
                                     : a->rate + (a->rate_end - a->rate) * part;
        t->v[i].arrival_us = (int64_t)(at * 1e6);
        if (isfinite(rate)) at += gamma_unit(&rng, a->burstiness) / rate;
    }
}

void traffic_faster(struct traffic *t, double factor)
{
    for (size_t i = 0; i < t->n; i++)
        t->v[i].arrival_us = (int64_t)((double)t->v[i].arrival_us / factor);
}

/* Shorten jobs that exceed the context of `token_max` tokens. At least half of the context remains
 * for the prompt. */
size_t traffic_fit(struct traffic *t, int token_max)
{
    size_t n_cut = 0;
    for (size_t i = 0; i < t->n; i++) {
        struct traffic_job *j = &t->v[i];
        if (j->n_prompt + j->n_output <= token_max) continue;
        n_cut++;
        if (j->n_output > token_max / 2) j->n_output = token_max / 2;
        if (j->n_output < 1) j->n_output = 1;
        if (j->n_prompt > token_max - j->n_output) j->n_prompt = token_max - j->n_output;
    }
    return n_cut;
}

/* ---- tokens ---- */

/* Each token is a hash of its source and its position in that source:
 *    block of a trace    name of the block, position in the block
 *    shared prefix       2^32 + number of the prefix, position
 *    other tokens number of the job, position
 * Equal sources give equal tokens, also across runs with the same seed. */
int traffic_prompt(const struct traffic *t, size_t i, int n_vocab, struct ids *out, struct err *e)
{
    const struct traffic_job *j = &t->v[i];
    for (int k = 0; k < j->n_prompt; k++) {
        uint64_t source = i + 1; /* source of the tokens of a prompt without shared tokens */
        if (j->n_block) source = (uint64_t)t->block.v[j->block0 + (size_t)(k / BLOCK_TOKENS)];
        if (!j->n_block && k < j->n_prefix) source = ((uint64_t)1 << 32) + (uint64_t)j->prefix;
        uint64_t state = t->seed ^ (source << 24) ^ (uint64_t)(j->n_block ? k % BLOCK_TOKENS : k);
        if (!vec_push(out, (int32_t)(rng_next(&state) % (uint64_t)n_vocab)))
            return err_memory(e, "a prompt", (unsigned long long)j->n_prompt * sizeof(int32_t));
    }
    return 0;
}
