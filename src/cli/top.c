/* top.c - quoth top: a running server's state on the screen once a second, or one report for a file
 * or a program.
 *
 *   reader thread   GET /metrics --> a queue of pages, and a byte that wakes the main thread's poll
 *   main thread     keys, the window's size, pages --> struct top --> the screen
 *
 * A server that does not answer blocks only the reader, and keys still work. The reader retries
 * until the server answers. */
#include "cli.h"
#include "term.h"
#include "top.h"

#include "base/os.h"
#include "base/queue.h"
#include "base/text.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static double interval = 1;
static bool once, as_json, insecure;
static const char *api_key, *uds, *ca_file;

static const struct option options[] = {
    REAL_OPTION("interval", "S", &interval, 0.1, 3600, "seconds between two readings (default 1)",
                .letter = 'd'),
    FLAG_OPTION(
        "once", &once,
        "print one report of two readings (the default if standard output is not a terminal)"),
    FLAG_OPTION("json", &as_json, "print the report of --once as a JSON object"),
    TEXT_OPTION("api-key", "KEY", &api_key, "API key of the server (default: $OPENAI_API_KEY)"),
    TEXT_OPTION("uds", "PATH", &uds, "unix socket of the server"),
    TEXT_OPTION("ca-cert", "FILE", &ca_file,
                "file of trusted certificates, PEM (default: the system's certificates)"),
    FLAG_OPTION("insecure", &insecure, "accept any certificate", .letter = 'k'),
    OPTIONS_END,
};

/* ---- reading ---- */

/* The server: URL of its metrics, header with the key ("" if none), options of requests. */
struct top_target {
    char url[600], header[600];
    struct fetch_options how;
};

/* Parse "host:8000", "http://host:8000/", "unix:/path", or the URL of the metrics. */
static int find_target(struct top_target *t, const char *url, struct err *e)
{
    static const char unix_scheme[] = "unix:", tail[] = "/metrics";
    const char *key = api_key ? api_key : getenv("OPENAI_API_KEY");
    t->how = (struct fetch_options){.unix_socket = uds,
                                    .ca_file = ca_file,
                                    .insecure = insecure,
                                    .connect_ms = 2000,
                                    .total_ms = 5000,
                                    .bytes_max = 16 << 20};
    char server[sizeof t->url - sizeof tail];
    int rc = server_address(server, sizeof server, url, e);
    if (rc != 0) return rc;
    if (strncmp(url, unix_scheme, sizeof unix_scheme - 1) == 0) {
        t->how.unix_socket = url + sizeof unix_scheme - 1;
        snprintf(server, sizeof server, "http://localhost");
    }
    snprintf(t->url, sizeof t->url, "%s%s", server, text_ends_with(server, tail) ? "" : tail);
    if (key) snprintf(t->header, sizeof t->header, "Authorization: Bearer %.500s", key);
    return 0;
}

/* Request one page of metrics. The error contains the reason for a failure. */
static int read_sample(const struct top_target *t, struct top_sample *s, struct err *e)
{
    struct buf page = {0};
    const char *header = t->header;
    int status = 0;
    int64_t sent_us = time_us();
    int rc = fetch_get(t->url, &header, t->header[0] != 0, &t->how, &page, &status, e);
    /* the middle of the request is the best estimate of the time at which the server made the
     * page */
    s->time_us = sent_us + (time_us() - sent_us) / 2;
    if (rc == 0 && status == 401)
        rc = err_set(e, ERR_ARG, "%s requires an API key; give --api-key", t->url);
    else if (rc == 0 && status != 200)
        rc = err_set(e, ERR_IO, "%s: expected status 200, got %d", t->url, status);
    else if (rc == 0 && top_sample_read(s, page.data ? page.data : "", page.n, e) != 0)
        rc = err_prefix(e, ERR_FORMAT, "%s", t->url);
    buf_deinit(&page);
    return rc;
}

/* ---- one report ---- */

/* Print one report of two readings, because rates need an interval. */
static int report(const struct top_target *t, struct top *top, struct err *e)
{
    struct top_sample *s = calloc(1, sizeof *s);
    struct buf out = {0};
    int rc = s ? 0 : err_memory(e, "a reading", sizeof *s);
    for (int i = 0; i < 2 && rc == 0; i++) {
        if (i) usleep((useconds_t)(interval * 1e6));
        rc = read_sample(t, s, e);
        if (rc == 0) top_add(top, s);
    }
    struct top_look look = {.size.n_column = 1 << 20, .wall_s = time_wall_us() / 1000000};
    if (rc == 0 && as_json)
        top_json(top, &out);
    else if (rc == 0)
        top_page(top, &look, &out);
    if (rc == 0 && out.failed) rc = err_memory(e, "a report", out.n);
    if (rc == 0) fwrite(out.data, 1, out.n, stdout);
    buf_deinit(&out);
    free(s);
    return rc;
}

/* ---- the live screen ---- */

/* A message of the reader. s is valid if rc is 0, else e is valid. */
struct top_reading {
    int rc;
    struct err e;
    struct top_sample s;
};

/* The reader's thread and its data. The main thread owns it, and joins the thread before closing
 * it. */
struct top_reader {
    const struct top_target *target; /* borrowed */
    /* owned queues: quit of bytes, readings of struct top_reading */
    struct queue *quit, *readings;
    int event; /* descriptor that is readable if there is a reading */
    pthread_t thread;
};

/* Read until `quit` has a byte. Readings are due once per interval, or later if an answer is
 * slower. */
static void *read_on(void *arg)
{
    struct top_reader *r = arg;
    struct top_reading *one = calloc(1, sizeof *one);
    uint64_t bell = 1;
    char byte;
    for (int64_t due = time_us(); one;) {
        one->e = (struct err){0};
        one->rc = read_sample(r->target, &one->s, &one->e);
        (void)queue_push(r->readings,
                         /* drop the reading, because the main thread is stopped and the queue is
                          * full */
                         one);
        (void)!write(r->event, &bell, sizeof bell);
        int64_t period = (int64_t)(interval * 1e6), now = time_us();
        due += period;
        /* rates of shorter intervals are noisy */
        if (due < now + period / 2) due = now + period / 2;
        if (queue_pop(r->quit, &byte, due - now)) break;
    }
    free(one);
    return NULL;
}

/* Open the queues and the event. The caller closes the queues and the event also after a
 * failure. */
static int reader_open(struct top_reader *r, struct err *e)
{
    r->quit = queue_open(1, 1);
    r->readings = queue_open(4, sizeof(struct top_reading));
    r->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool ok = r->quit && r->readings && r->event >= 0 && os_thread_start(&r->thread, read_on, r);
    return ok ? 0 : err_memory(e, "a reader", sizeof *r);
}

/* Draw the whole screen for its current size. The old screen remains if memory runs out. */
static void show(const struct top *top, bool utf8, bool colour)
{
    struct buf out = {0};
    struct top_look look = {
        .size = term_size(), .utf8 = utf8, .colour = colour, .wall_s = time_wall_us() / 1000000};
    top_page(top, &look, &out);
    if (!out.failed) term_show(out.data, out.n);
    buf_deinit(&out);
}

/* Receive all waiting readings. The event counts readings, and one read resets the count. */
static void take_readings(struct top_reader *r, struct top *top, struct top_reading *one)
{
    uint64_t n;
    (void)!read(r->event, &n, sizeof n);
    while (queue_pop(r->readings, one, 0))
        if (one->rc == 0)
            top_add(top, &one->s);
        else
            top_miss(top, one->e.text);
}

/* Run the screen until a quit key. The reader is joined before its queues are closed. */
static int live(const struct top_target *t, struct top *top, struct err *e)
{
    enum { CTRL_C = 3, CTRL_D = 4 };
    struct top_reader r = {.target = t, .event = -1};
    bool utf8 = term_utf8(), colour = term_colour();
    struct top_reading *one = calloc(1, sizeof *one);
    int rc = one ? reader_open(&r, e) : err_memory(e, "a reading", sizeof *one), key = 0;
    bool running = rc == 0;
    if (running && term_begin()) {
        while (key != 'q' && key != 'Q' && key != CTRL_C && key != CTRL_D) {
            take_readings(&r, top, one);
            show(top, utf8, colour);
            key = term_wait(r.event, 1000);
        }
        term_end();
    }
    if (running) {
        queue_push(r.quit, "");
        pthread_join(r.thread, NULL); /* the reader ends within the timeout of a request */
    }
    queue_close(r.quit);
    queue_close(r.readings);
    if (r.event >= 0) close(r.event);
    free(one);
    return rc;
}

/* ---- the command ---- */

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct top_target t = {0};
    const char *term = getenv("TERM"), *url = n_arg ? arg[0] : "http://127.0.0.1:8000";
    bool screen = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
    struct top *top = calloc(1, sizeof *top);
    int rc = top ? find_target(&t, url, &e) : err_memory(&e, "the figures", sizeof *top);
    if (rc == 0) {
        top->url = url;
        rc = once || as_json || !screen ? report(&t, top, &e) : live(&t, top, &e);
    }
    free(top);
    return rc ? fail("top", &e) : 0;
}

const struct command command_top = {
    .name = "top",
    .summary = "watch a running server",
    .usage = "[URL] [OPTIONS]",
    .detail =
        "Show queues, tokens/s, KV pages, cache hits and latencies of URL "
        "(default http://127.0.0.1:8000). The server may be any server whose /metrics have vLLM's "
        "names. Latencies before the vertical bar are of the last seconds, latencies after the bar "
        "since the start of the server. q quits.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
