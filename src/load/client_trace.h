/* client_trace.h - private to load: clients' records of their requests, and the figures computed
 * from them. Terms, JSON keys and their meanings are vLLM's. quoth bench latency, throughput and
 * replay send the requests to an engine in this process (traffic.h). quoth bench serve sends the
 * requests to a server (served.h). Main thread only. */
#ifndef QUOTH_LOAD_CLIENT_TRACE_H
#define QUOTH_LOAD_CLIENT_TRACE_H

#include "bench/bench.h"

/* Record of one request. Times are in microseconds since the beginning of the run. */
struct client_trace {
    int64_t arrive_us, submit_us; /* scheduled and actual time of sending */
    /* time of the last token, or of the end of a request without a token */
    int64_t done_us;
    int64_t *token_us; /* times of the tokens of the first choice, borrowed [n_time] */
    /* numbers of times and of tokens; n_token > n_time if some tokens arrived together */
    int n_time, n_token;
    int n_input, n_output; /* numbers of prompt tokens and of tokens of all choices */
    int n_cached;          /* number of prompt tokens found in the prefix cache */
    const char *error;     /* reason of a failure, borrowed; NULL: completed */
};

/* ---- latencies ---- */

enum latency { TTFT, TPOT, ITL, E2EL, PER_TOKEN, QUEUE, E2EL_QUEUE, N_LATENCY };
struct latency_kind {  /* all texts are static */
    const char *name;  /* JSON name: "ttft" */
    const char *word;  /* "TTFT" */
    const char *title; /* "Time to First Token" */
};
extern const struct latency_kind latency_kind[N_LATENCY];

/* Objectives of a good request. */
struct slo {
    double ms[N_LATENCY]; /* limits in milliseconds; 0: no limit */
};
/* Parse objectives: "ttft:500", "tpot:50", "e2el:10000", "e2el_per_token:50". Set the parsed limits
 * in *s. All other limits are unchanged. objective_form checks one objective, as a form_fn. The
 * texts are borrowed for the call. ERR_ARG for another form. */
int objective_form(const char *text, struct err *e);
int slo_read(struct slo *s, const struct text_list *list, struct err *e);
bool slo_any(const struct slo *s); /* return true if there is a limit */

/* ---- client_trace.c: figures ---- */

struct client_figures {
    struct samples ms[N_LATENCY]; /* latencies of completed requests, owned, ascending */
    size_t n_completed, n_failed, n_good;
    bool has_slo;
    int64_t n_input, n_output, n_cached;
    int64_t begin_us; /* first submission */
    double seconds;   /* time from the first submission to the last token */
    double request_rate, output_rate, total_rate, good_rate;
    double offered_rate;   /* rate of arrivals; infinite: all requests arrive at the beginning */
    double token_rate_max; /* maximum number of tokens in one of the run's whole seconds */
    int under_way_max;     /* maximum number of concurrent requests */
};
/* Return the microseconds from the first submission to the last token of completed requests; 0 if
 * none. Set *begin_us (may be NULL) to the time of the first submission. */
int64_t client_trace_span_us(const struct client_trace *v, size_t n, int64_t *begin_us);
/* Compute the figures of n requests. v and slo are borrowed for the call. ERR_MEMORY. Call
 * client_figures_close also after an error. */
int client_figures(struct client_figures *f, const struct client_trace *v, size_t n,
                   const struct slo *slo, struct err *e);
/* Free the memory. A zeroed struct is allowed. */
void client_figures_close(struct client_figures *f);
/* Return the maximum number of tokens per second. NAN if the run is too short, so that the result
 * is below the mean rate. */
double client_figures_peak_rate(const struct client_figures *f);
/* Return the standard deviation of the population, as in numpy. */
double latency_sd(const struct samples *ms);
/* Return the number of good requests divided by the number of all requests. */
double goodput_share(const struct client_figures *f);

/* Append the figures as members of a JSON object, without braces, each after a comma. */
void client_figures_json(const struct client_figures *f, const struct samples *percent,
                         struct buf *b);
/* Append lists with the figures of each request: input_lens, output_lens, ttfts, itls, latencies,
 * start_times, queue_times, errors. */
void client_trace_json(const struct client_trace *v, size_t n, struct buf *b);

/* ---- client_trace_plot.c: curves ---- */

/* The server's load, sampled once a second. */
struct load_sample {
    int64_t us; /* microseconds since the run's beginning */
    int n_running, n_waiting, kv_ppm;
    int64_t memory; /* memory in bytes, without file mappings; 0: unknown */
};

/* Append SVG plots: distributions of latencies, and latencies, tokens per second and concurrent
 * requests over time. */
void client_plots(struct buf *b, const struct client_trace *v, size_t n,
                  const struct client_figures *f);
void load_plots(struct buf *b, const struct load_sample *v, size_t n);

/* Contents of an HTML page with all figures, without external files. `table` is preformatted text.
 * All pointers are borrowed for client_page_write. */
struct client_page {
    const char *title, *table;
    const struct client_trace *trace; /* records of the requests [n_trace] */
    size_t n_trace;
    const struct client_figures *figures;
    const struct load_sample *load; /* samples of the server's load [n_load] */
    size_t n_load;
};
/* Write the page to a file. ERR_IO for a failed write, ERR_ARG for a path that is too long,
 * ERR_MEMORY. */
int client_page_write(const struct client_page *p, const char *path, struct err *e);

#endif
