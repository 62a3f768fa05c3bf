/* batch.c - quoth batch: a file of requests in, a file of answers out (OpenAI's batch format).
 *
 *   line --batch_line_read--> body --api_call_open--> call --api_call_submit--> engine
 *        (custom_id has an answer: skipped)                                       |
 *   line <--batch_out_put-- body <--api_call_put-- call <--bell, api_call_poll----+
 *
 * One thread reads, waits and writes. The engine computes. The number of calls in flight keeps the
 * engine's steps full while this thread is busy. An answer is written after it is complete. The
 * content of an answer does not depend on the order, because a request without a seed gets a seed
 * from its custom_id. */
#include "batch.h"

#include "answer.h"

#include "api/api.h"
#include "base/os.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* FLIGHT_MAX: calls in flight, eight times the default number of sequences. WAIT_US: maximum delay
 * of SIGINT. */
enum { FLIGHT_MAX = 512, WAIT_US = 100000 };

static const char *in_path, *out_path;
static bool as_json, quiet;
static int64_t seed;

static const struct option options[] = {
    TEXT_OPTION("input-file", "FILE", &in_path,
                "file of requests: lines of {\"custom_id\", \"method\", \"url\", \"body\"}",
                .letter = 'i'),
    TEXT_OPTION("output-file", "FILE", &out_path,
                "file for the answers; requests with an answer in this file are skipped",
                .letter = 'o'),
    INT_OPTION("seed", "N", &seed, 0, 9e18,
               "seed of requests without a seed, combined with their custom_id (default 0)"),
    FLAG_OPTION("json", &as_json, "print the summary as one JSON object"),
    FLAG_OPTION("quiet", &quiet, "no progress, no summary", .letter = 'q'),
    OPTIONS_OF(request_default_options),
    OPTIONS_OF(chat_options),
    OPTIONS_OF(chat_parser_options),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

struct line_call {         /* a line in flight */
    struct api_call *call; /* call of the line, owned */
    char *custom_id;       /* custom_id of the line, owned */
    size_t n_custom_id;
    uint64_t number;
};

/* A run. One thread uses it, so it has no lock. */
struct batch_run {
    const struct api *api; /* borrowed */
    struct batch_in in;
    struct batch_out out;
    struct batch_keys ids_read; /* custom_ids of the lines read so far */
    struct queue *bell;         /* queue that receives a byte for each event, owned */
    struct line_call flight[FLIGHT_MAX];
    int n_flight;
    struct line_call next; /* pending line, which waits for room in the engine's queue */
    /* n_skipped: lines with an answer of an earlier run. n_failed_before: skipped lines whose
     * answer is an error. */
    uint64_t n_skipped, n_failed_before, n_ok, n_failed, n_prompt, n_output;
    int64_t start_us;
};

static volatile sig_atomic_t stopped;

/* Record SIGINT or SIGTERM. The loop tests the flag at least each WAIT_US. */
static void on_stop(int sig)
{
    (void)sig;
    stopped = 1;
}

/* ---- answers ---- */

/* Write the error of a rejected body, or of a line that is not a request (status 0). */
static int put_refusal(struct batch_run *b, const struct batch_line *l, uint64_t number, int code,
                       int status, const struct err *why, struct err *e)
{
    struct buf body = {0};
    char id[40];
    snprintf(id, sizeof id, "batch_req_%llu", (unsigned long long)number);
    if (status) buf_add_text(&body, "{\"error\":");
    api_error_put(&body, code, why);
    if (status) buf_add_char(&body, '}');
    struct batch_answer a = {.id = id,
                             .custom_id = status ? l->custom_id : NULL,
                             .n_custom_id = l->n_custom_id,
                             .number = number,
                             .status = status,
                             .body = &body};
    int rc = body.failed ? err_memory(e, "an error", body.n) : batch_out_put(&b->out, &a, e);
    b->n_failed++;
    buf_deinit(&body);
    return rc;
}

/* Write the answer of a complete call: the model's answer, or an error in the body. A failed call
 * does not end the run. */
static int put_answer(struct batch_run *b, const struct line_call *f, struct err *e)
{
    struct buf body = {0};
    struct err why = {0};
    int n_prompt, failed = api_call_put(f->call, &body, &why);
    b->n_output += (uint64_t)api_call_n_token(f->call, &n_prompt);
    b->n_prompt += (uint64_t)n_prompt;
    if (failed) {
        buf_add_text(&body, "{\"error\":");
        api_error_put(&body, failed, &why);
        buf_add_char(&body, '}');
    }
    struct batch_answer a = {.id = api_call_id(f->call),
                             .custom_id = f->custom_id,
                             .n_custom_id = f->n_custom_id,
                             .number = f->number,
                             .status = api_status(failed),
                             .body = &body};
    int rc = body.failed ? err_memory(e, "an answer", body.n) : batch_out_put(&b->out, &a, e);
    if (failed)
        b->n_failed++;
    else
        b->n_ok++;
    buf_deinit(&body);
    return rc;
}

/* Free a flight, which may be zeroed. */
static void flight_close(struct line_call *f)
{
    api_call_close(f->call);
    free(f->custom_id);
    *f = (struct line_call){0};
}

/* Write complete answers. Set *any if at least one answer was written. */
static int write_complete(struct batch_run *b, bool *any, struct err *e)
{
    int rc = 0;
    *any = false;
    for (int i = 0; rc == 0 && i < b->n_flight;) {
        struct line_call *f = &b->flight[i];
        if (!api_call_poll(f->call)) {
            i++;
            continue;
        }
        rc = put_answer(b, f, e);
        flight_close(f);
        /* the last flight fills the gap, because the order of flights does not matter */
        *f = b->flight[--b->n_flight];
        *any = true;
    }
    return rc;
}

/* ---- requests ---- */

/* Make a call of the line and keep the call in b->next. A rejected body gets its error immediately.
 * The salt makes the seed of a request a function of its custom_id. */
static int take_off(struct batch_run *b, const struct batch_line *l, struct err *e)
{
    struct line_call f = {.number = b->in.number, .n_custom_id = l->n_custom_id};
    struct err why = {0};
    int rc = api_call_open(&f.call, b->api, l->url, l->body, b->bell, &why);
    if (rc != 0) return put_refusal(b, l, b->in.number, rc, api_status(rc), &why, e);
    api_call_salt(f.call, batch_key_id(l->custom_id, l->n_custom_id).hash[0]);
    f.custom_id = malloc(l->n_custom_id + 1);
    if (f.custom_id) {
        memcpy(f.custom_id, l->custom_id, l->n_custom_id + 1);
        b->next = f;
        return 0;
    }
    flight_close(&f);
    return err_memory(e, "a custom_id", l->n_custom_id);
}

/* Set a line's key: its custom_id, or its number if it has no custom_id. Set *known if the key
 * already has an answer. */
static int identify(struct batch_run *b, const struct batch_line *l, struct batch_key *k,
                    bool *known, struct err *why)
{
    struct batch_key id = batch_key_id(l->custom_id ? l->custom_id : "", l->n_custom_id);
    bool again = l->custom_id && batch_keys_has(&b->ids_read, id);
    *known = l->custom_id && !again;
    *k = *known ? id : batch_key_line(b->in.number);
    if (again)
        return err_field(why, ERR_ARG, "custom_id", ": must be unique, got \"%.60s\" again",
                         l->custom_id);
    return !*known || batch_keys_add(&b->ids_read, id)
               ? 0
               : err_memory(why, "custom_ids", b->ids_read.n_slot * sizeof id);
}

/* Process the line that batch_in_next has read. A line with an answer in the output is skipped. The
 * answer of a malformed line is its error. */
static int take_line(struct batch_run *b, struct err *e)
{
    struct batch_line l;
    struct batch_key key;
    struct err why = {0}, other = {0};
    bool known;
    const struct buf *text = &b->in.line;
    int refused = batch_line_read(&l, text->data, text->n, &why), rc = 0;
    if (text->failed) refused = err_memory(&why, "a line", text->n);
    if (text->limited)
        refused =
            err_set(&why, ERR_LIMIT, "the line: must have at most %zu bytes, got more", text->max);
    int twice = identify(b, &l, &key, &known, &other);
    /* report a duplicate custom_id first, because this reason is more useful */
    if (twice) refused = twice, why = other;
    if (refused == ERR_MEMORY)
        rc = err_set(e, ERR_MEMORY, "%s", why.text);
    else if (batch_keys_has(&b->out.found, key))
        b->n_skipped++, b->n_failed_before += batch_keys_has(&b->out.failed, key);
    else if (refused)
        rc = put_refusal(b, &l, b->in.number, refused, known ? api_status(refused) : 0, &why, e);
    else
        rc = take_off(b, &l, e);
    batch_line_close(&l);
    return rc;
}

/* Submit the next call. The engine may reject a well-formed request that can never fit. Set *full
 * if the engine's queue is full. */
static int submit(struct batch_run *b, bool *full, struct err *e)
{
    struct line_call *f = &b->next;
    struct err why = {0};
    int rc = api_call_submit(f->call, &why);
    *full = rc == ERR_BUSY;
    if (*full) return 0;
    if (rc == 0) {
        b->flight[b->n_flight++] = *f;
        *f = (struct line_call){0};
        return 0;
    }
    struct batch_line l = {.custom_id = f->custom_id, .n_custom_id = f->n_custom_id};
    rc = put_refusal(b, &l, f->number, rc, api_status(rc), &why, e);
    flight_close(f);
    return rc;
}

/* Start as many requests as permitted. */
static int submit_lines(struct batch_run *b, struct err *e)
{
    bool full = false;
    int rc = 0;
    while (rc == 0 && !full && !stopped && b->n_flight < FLIGHT_MAX) {
        if (b->next.call)
            rc = submit(b, &full, e);
        else if (batch_in_next(&b->in))
            rc = take_line(b, e);
        else
            return 0;
    }
    return rc;
}

/* ---- the command ---- */

/* Show the progress. Lines with an earlier answer count as done, but not in the rate. */
static void show(const struct batch_run *b)
{
    uint64_t done = b->n_ok + b->n_failed;
    double seconds = (double)(time_us() - b->start_us) * 1e-6;
    if (!quiet)
        progress_rate("requests", done + b->n_skipped, b->in.n_line,
                      seconds > 0 ? (double)done / seconds : 0);
}

/* Answer all lines. The loop waits only if the last round wrote nothing. The bell has room for one
 * byte, which also reports further events before the wait. */
static int answer_all(struct batch_run *b, struct err *e)
{
    bool any = false;
    int rc = submit_lines(b, e);
    while (rc == 0 && !stopped && (b->n_flight || b->next.call)) {
        char byte;
        if (!any) (void)queue_pop(b->bell, &byte, WAIT_US);
        rc = write_complete(b, &any, e);
        if (rc == 0) rc = submit_lines(b, e);
        show(b);
    }
    if (rc == 0) rc = batch_out_sync(&b->out, e);
    if (rc == 0 && stopped) rc = err_set(e, ERR_BUSY, "stopped; the same command resumes the run");
    return rc;
}

/* Print the summary: JSON on standard output, or a line on standard error. The rate counts only
 * tokens of this run. */
static void report(const struct batch_run *b)
{
    double seconds = (double)(time_us() - b->start_us) * 1e-6;
    double rate = seconds > 0 ? (double)b->n_output / seconds : 0;
    unsigned long long ok = b->n_ok, failed = b->n_failed, skipped = b->n_skipped,
                       before = b->n_failed_before, n_prompt = b->n_prompt, n_output = b->n_output;
    if (as_json)
        printf("{\"total\":%llu,\"skipped\":%llu,\"skipped_failed\":%llu,\"completed\":%llu,"
               "\"failed\":%llu,"
               "\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"seconds\":%.3f,"
               "\"tokens_per_second\":%.1f}\n",
               ok + failed + skipped, skipped, before, ok, failed, n_prompt, n_output, seconds,
               rate);
    else if (!quiet)
        fprintf(stderr,
                "%llu answered, %llu failed, %llu answered before, %llu failed before; %llu prompt "
                "tokens, %llu generated in %.1f s (%.0f/s)\n",
                ok, failed, skipped - before, before, n_prompt, n_output, seconds, rate);
}

/* Open the files of a run. The input is opened first, so that a wrong name of the input does not
 * create the output file. */
static int run_open(struct batch_run *b, const struct api *api, struct err *e)
{
    b->api = api;
    b->bell = queue_open(1, 1);
    int rc = b->bell ? 0 : err_memory(e, "a queue", 1);
    if (rc == 0) rc = batch_in_open(&b->in, in_path, e);
    if (rc == 0) rc = batch_out_open(&b->out, out_path, e);
    b->start_us = time_us();
    return rc;
}

/* Close a run. Calls in flight are cancelled, and the next run answers their lines. */
static void run_close(struct batch_run *b)
{
    /* all calls end at the same time, and flight_close waits for each */
    for (int i = 0; i < b->n_flight; i++) api_call_cancel(b->flight[i].call);
    flight_close(&b->next);
    while (b->n_flight) flight_close(&b->flight[--b->n_flight]);
    batch_in_close(&b->in);
    batch_out_close(&b->out);
    batch_keys_deinit(&b->ids_read);
    queue_close(b->bell);
    free(b);
}

/* Answer the requests of the input file. Set *all_failed if there are requests and all of them
 * failed. */
static int answer_file(const struct api *api, bool *all_failed, struct err *e)
{
    struct batch_run *b = calloc(1, sizeof *b);
    if (!b) return err_memory(e, "the requests in flight", sizeof *b);
    int rc = run_open(b, api, e);
    if (rc == 0) rc = answer_all(b, e);
    if (rc == 0 || stopped) report(b);
    const uint64_t n_line = b->n_ok + b->n_failed + b->n_skipped;
    *all_failed = rc == 0 && n_line > 0 && b->n_failed + b->n_failed_before == n_line;
    run_close(b);
    return rc;
}

/* Report the missing flag of a file. Return the exit status. */
static int usage(void)
{
    fprintf(stderr, "quoth batch: %s is missing; usage: quoth batch %s\n",
            in_path ? "-o OUT.jsonl" : "-i IN.jsonl", command_batch.usage);
    return 2;
}

/* Run the command. SIGINT and SIGTERM end the run after the current round. All written answers
 * remain, so the same command resumes. */
static int run(int n_arg, char **arg)
{
    if (!in_path || !out_path) return usage();
    if (strcmp(out_path, "-") == 0)
        return fprintf(stderr, "quoth batch: --output-file -: must be a file: it is also the state "
                               "from which a run resumes\n"),
               2;
    struct err e = {0};
    struct session s = {0};
    struct chat chat = {0};
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    session_flags.offline = true;
    bool all_failed = false;
    const char *model = n_arg ? arg[0] : session_bundled(NULL, &e);
    int rc = model ? session_open_sized(&s, model, &session_many, &e) : ERR_MISSING;
    if (rc == 0) rc = session_engine(&s, &e);
    if (rc == 0) rc = chat_open(&chat, &s, &session_flags, &e);
    struct api api = {.session = &s,
                      .chat = &chat,
                      .name = rc == 0 ? model_info(s.model)->name : NULL,
                      .seed = (uint64_t)seed,
                      .seeded = true};
    if (rc == 0) rc = request_defaults(&api, s.checkpoint, &e);
    if (rc == 0) rc = session_pooling(&api.pooling, &s, "auto", &e);
    if (rc == 0) rc = answer_file(&api, &all_failed, &e);
    chat_close(&chat);
    session_close(&s);
    return rc ? fail("batch", &e) : all_failed;
}

static const char detail[] =
    "Urls of requests: "
#define DIALECT(path, id) path ", "
#include "api/dialects.def"
#undef DIALECT
    "as for quoth serve. If a line is invalid, its answer is an error, and the other lines "
    "continue. Each complete answer is appended. After any interruption the same command resumes "
    "the run. The exit status is 1 if every line failed.";

const struct command command_batch = {
    .name = "batch",
    .summary = "answer a file of requests (OpenAI's batch format)",
    .usage = "[MODEL] -i IN.jsonl -o OUT.jsonl [OPTIONS]",
    .detail = detail,
    .options = options,
    .arg_max = 1,
    .run = run,
};
