/* client_trace.h - private to load: what clients saw of their requests, and the figures computed from it,
 * with vLLM's terms, JSON keys and meanings. Used for an engine in this process (traffic.h: quoth
 * bench latency, throughput, replay) and for a server (served.h: quoth bench serve). */
#ifndef QUOTH_LOAD_CLIENT_TRACE_H
#define QUOTH_LOAD_CLIENT_TRACE_H

#include "bench/bench.h"

/* One request. Times in microseconds since the run's beginning. */
struct client_trace {
    int64_t arrive_us, submit_us; /* scheduled and actual time of sending                        */
    int64_t done_us;              /* time of its last token, or of its end if it had none         */
    int64_t *token_us;            /* [n_time] times of its first choice's tokens; borrowed        */
    int n_time, n_token;          /* n_token > n_time: some tokens arrived together               */
    int n_input, n_output;        /* number of prompt tokens, and of tokens of all choices        */
    int n_cached;                 /* prompt tokens found in the prefix cache                      */
    const char *error;            /* NULL: completed; else the reason; borrowed                   */
};

/* ---- latencies ---- */

enum latency { TTFT, TPOT, ITL, E2EL, PER_TOKEN, QUEUE, E2EL_QUEUE, N_LATENCY };
struct latency_kind {
    const char *name;  /* JSON name: "ttft" */
    const char *word;  /* "TTFT"             */
    const char *title; /* "Time to First Token" */
};
extern const struct latency_kind latency_kind[N_LATENCY];

/* Objectives for a good request. */
struct slo {
    double ms[N_LATENCY]; /* 0: no limit */
};
/* "ttft:500", "tpot:50", "e2el:10000", "e2el_per_token:50" */
int objective_form(const char *text, struct err *e); /* checks one objective; a form_fn */
int slo_read(struct slo *s, const struct text_list *list, struct err *e);
bool slo_any(const struct slo *s);

/* ---- client_trace.c: all of them ---- */

struct client_figures {
    struct samples ms[N_LATENCY]; /* owned, ascending; of completed requests */
    size_t n_completed, n_failed, n_good;
    bool has_slo;
    int64_t n_input, n_output, n_cached;
    int64_t begin_us; /* first submission */
    double seconds;   /* from first submission to last token */
    double request_rate, output_rate, total_rate, good_rate;
    double offered_rate;      /* rate of arrivals; infinite: all at once */
    double most_tokens_per_s; /* maximum over the run's whole seconds */
    int most_under_way;       /* maximum concurrent requests        */
};
/* Return the microseconds from first submission to last token of completed requests; 0 if there are
 * none. *begin_us: time of the first submission; may be NULL. */
int64_t client_trace_span_us(const struct client_trace *v, size_t n, int64_t *begin_us);
int client_figures(struct client_figures *f, const struct client_trace *v, size_t n,
                   const struct slo *slo, struct err *e);
void client_figures_close(struct client_figures *f); /* safe on a zeroed one */
/* Return the highest tokens per second; NAN if that is below the mean rate, because the run is too
 * short. */
double client_figures_peak_rate(const struct client_figures *f);
double latency_sd(const struct samples *ms);          /* of the population, as numpy */
double goodput_share(const struct client_figures *f); /* share of all requests */

/* Append members of a JSON object, without its braces, each after a comma. */
void client_figures_json(const struct client_figures *f, const struct samples *percent,
                         struct buf *b);
/* Append the figures of each request: input_lens, output_lens, ttfts, itls, latencies, start_times,
 * queue_times, errors. */
void client_trace_json(const struct client_trace *v, size_t n, struct buf *b);

/* ---- client_trace_plot.c: as curves ---- */

/* The server's load, sampled once a second. */
struct load_sample {
    int64_t us; /* since the run's beginning */
    int n_running, n_waiting, kv_ppm;
    int64_t memory; /* bytes without file mappings; 0: unknown */
};

/* Append SVG plots: distributions of latencies; over time: latencies, tokens per second, concurrent
 * requests. */
void client_plots(struct buf *b, const struct client_trace *v, size_t n,
                  const struct client_figures *f);
void load_plots(struct buf *b, const struct load_sample *v, size_t n);

/* All figures as one HTML file without external files; `table` is preformatted text. */
struct client_page {
    const char *title, *table;
    const struct client_trace *trace; /* [n_trace] */
    size_t n_trace;
    const struct client_figures *figures;
    const struct load_sample *load; /* [n_load] */
    size_t n_load;
};
int client_page_write(const struct client_page *p, const char *path, struct err *e);

#endif
