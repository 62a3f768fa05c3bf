/* seen.h - private to bench: what clients saw of their requests, and what that amounts to: vLLM's words and JSON
 * keys with vLLM's meanings. Who answered does not matter here: an engine in this process (traffic.h: quoth bench
 * latency, throughput, replay) or a server (served.h: quoth bench serve). */
#ifndef QUOTH_BENCH_SEEN_H
#define QUOTH_BENCH_SEEN_H

#include "measure.h"

/* One request. Times in microseconds after the run's beginning. */
struct seen {
    int64_t arrive_us, submit_us; /* when it was to be sent, and when it was                     */
    int64_t done_us;              /* its last token, or where it had none its end                 */
    int64_t *token_us;            /* [n_time] when tokens of its first choice came; borrowed      */
    int n_time, n_token;          /* n_token > n_time: some came together                         */
    int n_input, n_output;        /* tokens of its prompt, and of all its choices                 */
    int n_cached;                 /* of the prompt: found in the prefix cache                     */
    const char *error;            /* NULL: it was completed; else why not; borrowed               */
};

/* ---- latencies ---- */

enum latency { TTFT, TPOT, ITL, E2EL, PER_TOKEN, QUEUE, E2EL_QUEUE, N_LATENCY };
struct latency_kind {
    const char *name;  /* as in JSON: "ttft" */
    const char *word;  /* "TTFT"             */
    const char *title; /* "Time to First Token" */
};
extern const struct latency_kind latency_kind[N_LATENCY];

/* What a request must keep to count as good. */
struct slo {
    double ms[N_LATENCY]; /* 0: no limit */
};
/* "ttft:500", "tpot:50", "e2el:10000", "e2el_per_token:50" */
int slo_read(struct slo *s, const struct text_list *list, struct err *e);
bool slo_any(const struct slo *s);

/* ---- seen.c: all of them ---- */

struct seen_figures {
    struct samples ms[N_LATENCY]; /* owned, ascending; of what was completed */
    size_t n_completed, n_failed, n_good;
    bool has_slo;
    int64_t n_input, n_output, n_cached;
    int64_t begin_us; /* first submission */
    double seconds;   /* from then to the last token */
    double request_rate, output_rate, total_rate, good_rate;
    double offered_rate;      /* of arrivals; infinite: all at once */
    double most_tokens_per_s; /* of all seconds of the run          */
    int most_under_way;       /* requests at the same time          */
};
/* First submission to last token, of what was completed: 0 of none. *begin_us: of the first; may be NULL. */
int64_t seen_span_us(const struct seen *v, size_t n, int64_t *begin_us);
int seen_figures(struct seen_figures *f, const struct seen *v, size_t n, const struct slo *slo,
                 struct err *e);
void seen_figures_close(struct seen_figures *f);    /* safe on a zeroed one */
double latency_sd(const struct samples *ms);        /* numpy's: of all, not of a sample */
double goodput_share(const struct seen_figures *f); /* of all requests */

/* Members of a JSON object, without its braces, a comma before each. */
void seen_json(const struct seen_figures *f, const struct samples *percent, struct buf *b);
/* Of each request: input_lens, output_lens, ttfts, itls, latencies, start_times, queue_times, errors. */
void seen_json_detail(const struct seen *v, size_t n, struct buf *b);

/* ---- seen_plot.c: as curves ---- */

/* How busy the server was, looked at once a second. */
struct load_sample {
    int64_t us; /* after the run's beginning */
    int n_running, n_waiting, kv_ppm;
    int64_t memory; /* bytes beyond files; 0: not known */
};

/* Distributions of latencies; over time: latencies, tokens a second, requests under way. As SVG. */
void seen_plots(struct buf *b, const struct seen *v, size_t n, const struct seen_figures *f);
void load_plots(struct buf *b, const struct load_sample *v, size_t n);

/* All of that as one HTML file, without anything from outside; `table` stands as preformatted text. */
struct seen_page {
    const char *title, *table;
    const struct seen *seen; /* [n_seen] */
    size_t n_seen;
    const struct seen_figures *figures;
    const struct load_sample *load; /* [n_load] */
    size_t n_load;
};
int seen_page_write(const struct seen_page *p, const char *path, struct err *e);

#endif
