/* served.h - private to load: requests over time to a server with OpenAI's API, and what their clients
 * saw of it.
 *
 *   prompts_make (served_data.c) --> prompts --served_run--> server --> what each client saw (client_trace.h)
 *                                                                        |
 *   quoth bench serve <-- vLLM's table, JSON, a page (served_report.c) <-+
 *
 * All on one thread: an HTTP client (fetch/fetch.h) holds the requests. A token's time is when its
 * bytes were read. */
#ifndef QUOTH_LOAD_SERVED_H
#define QUOTH_LOAD_SERVED_H

#include "flags.h"

#include "fetch/fetch.h"

/* ---- served_target.c: the server ---- */

/* --base-url, --host, --port, --uds, --endpoint, --backend, --model, --api-key, --header, --insecure, ... */
extern const struct option target_options[];

enum { N_HEADER_MAX = 32 }; /* maximum number of --header */
struct target {
    struct fetch *fetch; /* owned */
    char *base, *url;    /* owned: base URL "http://127.0.0.1:8000", and URL of the endpoint */
    char *model, *root;  /* owned: the model's name in requests, and the name of its base model */
    VEC(char *) header;  /* owned, each too; at most one more than N_HEADER_MAX */
    const char *backend; /* as given */
    bool chat;           /* send messages instead of a prompt */
    bool as_content;     /* /tokenize takes the text as "content" */
    int n_vocab, context_max; /* 0: the server does not report it */
};
/* Initialize t without connecting. */
int target_open(struct target *t, struct err *e);
void target_close(struct target *t); /* safe on a zeroed one */
/* Read the model's name from the server, for use if no flag names one. ERR_MISSING: there is
 * neither. */
int target_model(struct target *t, struct err *e);
/* Count the tokens of a text with the server's /tokenize. ERR_UNSUPPORTED: it has none. */
int target_count(struct target *t, const char *text, size_t n, bool special, int *n_token,
                 struct err *e);

/* A server's own figures (/metrics, vLLM's names). NAN: not reported. */
struct server_view {
    double running, waiting, kv_usage;
    double running_max, waiting_max, kv_max; /* high-water marks of a window; quoth only */
    double cache_queries, cache_hits;
    double n_draft, draft_tokens, accepted_tokens;
    double flops, read_bytes;
    double peak_flops, peak_bytes; /* of the server's machine, per second */
    double preemptions;
};
void server_view_read(struct server_view *v, const char *metrics);
/* Read the server's figures. window_s: window of the high-water marks. */
int target_view(struct target *t, double window_s, struct server_view *v, struct err *e);
/* Append the URL of /metrics with that window. */
void target_metrics_url(const struct target *t, double window_s, struct buf *out);
/* Return a request for GET `url` with t's headers. `url` must live until the request is done. */
struct fetch_request target_get(const struct target *t, const char *url);

/* ---- served_data.c: what is sent ---- */

/* --dataset-name, --tokenizer, --prefix-repetition-... and the common ones (flags.h) */
extern const struct option data_options[];

struct prompts {
    struct traffic t; /* arrivals, lengths (n_prompt 0: unknown), seed */
    char **text;      /* owned [t.n], each too; NULL: token ids */
    int n_vocab;      /* size of the vocabulary of the ids */
    size_t n_cut;     /* number of requests too long for the server's context */
    size_t n_inexact; /* number of texts that differ from the requested length */
    bool timed;       /* arrivals are those of the trace */
    bool ignore_eos;  /* answers must have the requested length */
};
int prompts_check(struct err *e); /* check the flags */
/* Make the prompts. All arrivals are 0 unless `timed` is set. */
int prompts_make(struct prompts *p, struct target *t, struct err *e);
void prompts_close(struct prompts *p); /* safe on a zeroed one */
const char *prompts_tokenizer(void);   /* --tokenizer, or NULL */

/* ---- served_words.c: prompts of so many tokens ---- */

/* Counts the tokens of texts. */
struct counter {
    struct tokenizer *own; /* owned; NULL: the server counts */
    struct target *server;
    bool none;         /* no counter is available */
    bool special;      /* include the tokens that the tokenizer adds to a prompt */
    double per_word;   /* mean tokens per word of the texts so far; initially 1 */
    struct ids ids;    /* owned: scratch */
    struct buf text;   /* owned: scratch */
    struct err excuse; /* reason if none is available */
};
/* Open a counter. tokenizer: a model or tokenizer file that counts locally; NULL: none. */
int counter_open(struct counter *c, const char *tokenizer, struct err *e);
void counter_close(struct counter *c); /* safe on a zeroed one */
/* Return the number of tokens; -1 if no counter is available. */
int counter_count(struct counter *c, const char *text, size_t n);
/* Make a text for each job of p->t with n_prompt tokens, and set n_prompt to its actual number of
 * tokens (0: no counter is available). */
int words_make(struct prompts *p, struct counter *c, struct err *e);

/* ---- served_body.c, served_answer.c: one request ---- */

struct served_options {
    int max_concurrency; /* 0: no limit */
    const char *member;  /* JSON members to add to each body: ",\"top_k\":5"; NULL: none */
    /* an object whose members override the usual ones in each body; NULL: none */
    const struct json *extra;
    bool ignore_eos, keep_text;
    const char *id_prefix; /* prefix of X-Request-Id; NULL: none                     */
    const char *progress;  /* label of the progress bar; NULL: none                  */
    size_t n_first;  /* not 0: send prompt 0 that many times at once, instead of all prompts */
    bool no_samples; /* do not read /metrics during the run                    */
};

/* --top-p, --top-k, ... --logprobs, --extra-body */
extern const struct option body_options[];
int body_extra(struct json **extra, struct err *e); /* --extra-body, owned by the caller */
/* Append the other flags as members of a body, except those in extra. */
void body_sampling(struct buf *b, const struct json *extra);
/* Append the body of prompt i's request. */
int served_body(struct buf *b, const struct target *t, const struct prompts *p,
                const struct served_options *o, size_t i, struct err *e);

/* A request's own memory, referenced by its struct client_trace. */
struct served {
    int64_t *token_us; /* owned */
    char *text;        /* owned: text of its first choice, if requested */
    char *error;       /* owned; NULL: none */
};

/* A response that is being received. */
struct served_answer {
    bool chat, keep_text;
    struct sse sse;
    struct buf text, error;              /* owned: of the first choice; of an error response */
    VEC(int64_t) token_us;               /* owned: times of the first choice's tokens */
    int64_t now_us;                      /* arrival time of the current bytes */
    int64_t n_input, n_output, n_cached; /* from the usage; -1: not reported */
    int n_event;                         /* events of all choices */
    bool finished;                       /* a finish reason or the end of the stream was received */
    bool several;                        /* there are several choices */
};
void served_answer_init(struct served_answer *a, bool chat, bool keep_text);
/* Parse the next n bytes, which arrived at now_us; false if the rest is not needed. */
bool served_answer_feed(struct served_answer *a, int status, const char *data, size_t n,
                        int64_t now_us);
/* End a response: set the fields of `s` except arrival and submission (n_input is kept if there was
 * no usage) and `own`; free the rest. */
void served_answer_end(struct served_answer *a, const struct fetch_result *f, int64_t now_us,
                       struct client_trace *s, struct served *own);

/* ---- served_run.c: sending all of them ---- */

struct served_result {
    struct client_trace *trace; /* owned [n] */
    struct served *own;
    size_t n;
    VEC(struct load_sample) sample;          /* owned; empty if the server does not report it */
    double running_max, waiting_max, kv_max; /* the server's high-water marks; NAN: not reported */
    int64_t begin_us;                        /* on time_us's clock */
    int64_t cpu_us, energy_uj; /* of this process; of this machine, -1: not readable */
};
int served_run(struct served_result *r, struct target *t, const struct prompts *p,
               const struct served_options *o, struct err *e);
/* Keep the maximum of r's and v's high-water marks. */
void served_result_marks(struct served_result *r, const struct server_view *v);
void served_result_close(struct served_result *r); /* safe on a zeroed one */

/* ---- served_report.c: what it amounts to ---- */

struct served_report {
    const struct target *target;
    const struct prompts *prompts;
    const struct served_result *result;
    struct client_figures figures; /* owned */
    struct slo slo;
    struct samples percent; /* owned */
    struct server_view before, after;
    bool in_table[N_LATENCY];
    double peak_flops, peak_bytes;    /* 0: unknown */
    const char *label;                /* NULL: the backend's name */
    const struct text_list *metadata; /* KEY=VALUE */
    char date[32];                    /* "20261122-021500" */
};
bool served_slo_met(const struct served_report *r);
int served_table(const struct served_report *r, struct buf *b, struct err *e);
/* Append one object and a newline. detail: with each request's figures. */
int served_json(const struct served_report *r, bool detail, struct buf *b, struct err *e);
int served_page(const struct served_report *r, const char *path, const char *table, struct err *e);

#endif
