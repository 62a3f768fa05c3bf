/* served.h - private to load: requests over time to a server with OpenAI's API, and their clients'
 * records.
 *
 *   prompts_open (served_data.c) --> prompts --served_run--> server --> clients' records
 *                                                                        | (client_trace.h)
 *   quoth bench serve <-- vLLM's table, JSON, a page (served_report.c) <-+
 *
 * One thread does all this work with an HTTP client (fetch/fetch.h). A token's time is the time of
 * reading its bytes. */
#ifndef QUOTH_LOAD_SERVED_H
#define QUOTH_LOAD_SERVED_H

#include "flags.h"

#include "fetch/fetch.h"

/* ---- served_target.c: the server ---- */

/* --base-url, --host, --port, --uds, --endpoint, --backend, --model, --api-key, --header,
 * --insecure, ... */
extern const struct option target_options[];

enum { HEADERS_MAX = 32 }; /* maximum number of --header flags */
struct served_target {
    struct fetch *fetch; /* HTTP client, owned */
    /* base URL, such as "http://127.0.0.1:8000", and URL of the endpoint; owned */
    char *base, *url;
    char *model, *root;  /* name of the model in requests, and name of its base model; owned */
    VEC(char *) header;  /* headers, owned, with owned texts; at most HEADERS_MAX + 1 */
    const char *backend; /* value of --backend, borrowed from the arguments */
    bool chat;           /* true: send messages instead of a prompt */
    bool as_content;     /* true: /tokenize reads the text from the member "content" */
    /* sizes of the vocabulary and the context; 0: not reported by the server */
    int n_vocab, context_max;
};
/* Initialize t from the flags, without connecting. Call target_close also after an error. ERR_LIMIT
 * for more than HEADERS_MAX headers, ERR_UNSUPPORTED without libcurl, ERR_MEMORY. One thread uses
 * t. */
int target_open(struct served_target *t, struct err *e);
void target_close(struct served_target *t); /* free the memory; a zeroed struct is allowed */
/* Read the model's root, vocabulary and context from the server. Also read the model's name if no
 * flag gives the name. A failed request is not an error if a flag gives the name. ERR_MISSING if
 * neither a flag nor the server gives the name. ERR_FORMAT for an answer that is not JSON,
 * ERR_MEMORY, and the errors of target_view. */
int target_model(struct served_target *t, struct err *e);
/* Count the tokens of a text of n bytes with the server's /tokenize. special: include the tokens
 * that the tokenizer adds. ERR_UNSUPPORTED if the server has no /tokenize. Also the errors of
 * target_model. */
int target_count(struct served_target *t, const char *text, size_t n, bool special, int *n_token,
                 struct err *e);

/* A server's own figures (/metrics, with vLLM's names). NAN: not reported. */
struct server_view {
    double running, waiting, kv_usage;
    /* high-water marks of a window; only quoth reports these figures */
    double running_max, waiting_max, kv_max;
    double cache_queries, cache_hits;
    double n_draft, draft_tokens, accepted_tokens;
    double flops, read_bytes;
    double peak_flops, peak_bytes; /* peaks of the server's machine, per second */
    double preemptions;
};
void server_view_read(struct server_view *v, const char *metrics);
/* Read the server's figures. window_s is the window of the high-water marks, in seconds. All
 * figures are NAN after an error. ERR_UNSUPPORTED for a status other than 200, ERR_IO for an
 * incomplete answer, ERR_LIMIT for an answer that is too long. ERR_ARG for an invalid URL,
 * ERR_MEMORY. */
int target_view(struct served_target *t, double window_s, struct server_view *v, struct err *e);
/* Append the URL of /metrics with a window of window_s seconds. */
void target_metrics_url(const struct served_target *t, double window_s, struct buf *out);
/* Return a GET request for `url`. The request borrows `url` and t's headers until fetch_start
 * returns. */
struct fetch_request target_get(const struct served_target *t, const char *url);

/* ---- served_data.c: prompts ---- */

/* --dataset-name, --tokenizer, --prefix-repetition-... and the common flags (flags.h) */
extern const struct option data_options[];

struct prompts {
    /* arrivals, lengths and seed; n_prompt 0: the length of the prompt is unknown */
    struct traffic t;
    char **text;      /* texts of the prompts, owned [t.n]; NULL: the prompts are token ids */
    int n_vocab;      /* size of the vocabulary of the ids */
    size_t n_cut;     /* number of requests that are too long for the server's context */
    size_t n_inexact; /* number of texts that differ from the requested length */
    bool timed;       /* true: arrivals are the arrivals of the trace */
    bool ignore_eos;  /* true: answers must have the requested length */
};
/* Check the flags. ERR_ARG for a dataset without its file, or a file without such a dataset. */
int prompts_check(struct err *e);
/* Open the prompts. All arrivals are 0 unless `timed` is true. Call prompts_close also after an
 * error. Errors of --dataset-path: ERR_FORMAT with the line, or if the file has no prompts; ERR_IO,
 * ERR_LIMIT. Errors of --tokenizer: those of tokenizer_open_file. ERR_MEMORY. */
int prompts_open(struct prompts *p, struct served_target *t, struct err *e);
/* Add the prompt of a line of a custom dataset: {"prompt":"...","output_tokens":100}. ERR_FORMAT
 * for a line of another form, ERR_MEMORY, and errors of json_parse. */
int prompts_add_line(struct prompts *p, const char *line, struct err *e);
void prompts_close(struct prompts *p); /* free the memory; a zeroed struct is allowed */
/* Return the value of --tokenizer, borrowed from the arguments; NULL if none. */
const char *prompts_tokenizer(void);

/* ---- served_words.c: prompts of a given length ---- */

/* A counter of the tokens of texts. */
struct counter {
    struct tokenizer *own;        /* local tokenizer, owned; NULL: the server counts */
    struct served_target *server; /* borrowed */
    bool none;                    /* true: no counter is available */
    bool special;                 /* true: include the tokens that the tokenizer adds to a prompt */
    /* mean number of tokens per word of all texts made before; initially 1 */
    double per_word;
    struct ids ids;    /* owned: scratch */
    struct buf text;   /* owned: scratch */
    struct err excuse; /* reason if no counter is available */
};
/* Open a counter. The caller has set its server and flags. tokenizer: model or tokenizer file for
 * counting locally; NULL: the server counts. Errors: those of tokenizer_open_file. */
int counter_open(struct counter *c, const char *tokenizer, struct err *e);
void counter_close(struct counter *c); /* free the memory; a zeroed struct is allowed */
/* Return the number of tokens; -1 if no counter is available. */
int counter_count(struct counter *c, const char *text, size_t n);
/* Add a text for each job of p->t with n_prompt tokens. Set n_prompt to the actual number of
 * tokens; 0 if no counter is available. ERR_MEMORY. prompts_close frees the texts, also after an
 * error. */
int prompts_add_words(struct prompts *p, struct counter *c, struct err *e);

/* ---- served_body.c, served_answer.c: one request ---- */

/* Options of served_run and served_body. All pointers are borrowed for the call. */
struct served_options {
    int max_concurrency; /* maximum number of requests in flight; 0: no limit */
    const char *member;  /* JSON members to add to each body: ",\"top_k\":5"; NULL if none */
    /* object whose members override the usual members of each body; NULL if none */
    const struct json *extra;
    bool ignore_eos, keep_text;
    const char *id_prefix; /* prefix of X-Request-Id; NULL if none */
    const char *progress;  /* label of the progress bar; NULL if none */
    /* number of simultaneous requests with prompt 0, in place of all prompts; 0: send all
     * prompts */
    size_t n_first;
    bool no_samples; /* true: do not read /metrics during the run */
};

/* --top-p, --top-k, ... --logprobs, --extra-body */
extern const struct option body_options[];
/* Read --extra-body into *extra, which the caller owns; NULL if the flag is not given, and after an
 * error. Errors: those of json_parse. */
int body_extra(struct json **extra, struct err *e);
/* Append the flags of body_options except --extra-body as members of a body. Omit members that
 * `extra` also has. */
void body_sampling(struct buf *b, const struct json *extra);
/* Append the body of prompt i's request. ERR_MEMORY. */
int served_body(struct buf *b, const struct served_target *t, const struct prompts *p,
                const struct served_options *o, size_t i, struct err *e);

/* Memory of a request, to which its struct client_trace points. */
struct served_memory {
    int64_t *token_us; /* times of tokens, owned */
    char *text;        /* text of the first choice, owned, if requested */
    char *error;       /* reason of a failure, owned; NULL: completed */
};

/* A response that is being received. */
struct served_answer {
    bool chat, keep_text;
    struct sse sse;
    /* texts of the first choice and of an error response, owned */
    struct buf text, error;
    VEC(int64_t) token_us; /* times of the tokens of the first choice, owned */
    int64_t now_us;        /* arrival time of the current bytes */
    /* number of tokens in the reported usage; -1: not reported */
    int64_t n_input, n_output, n_cached;
    int n_event;   /* number of events of all choices */
    bool finished; /* true after a finish reason or the end of the stream */
    bool several;  /* true if there are several choices */
};
void served_answer_begin(struct served_answer *a, bool chat, bool keep_text);
/* Parse the next n bytes, which arrived at now_us. Return false if no more bytes are needed. */
bool served_answer_feed(struct served_answer *a, int status, const char *data, size_t n,
                        int64_t now_us);
/* End a response. Set `own`, and all fields of `s` except arrival and submission. Free all other
 * memory. n_input is unchanged if the response has no usage. */
void served_answer_end(struct served_answer *a, const struct fetch_result *f, int64_t now_us,
                       struct client_trace *s, struct served_memory *own);

/* ---- served_run.c: sending ---- */

struct served_result {
    struct client_trace *trace; /* records of the requests, owned [n] */
    struct served_memory *own;  /* memory of the records, owned [n] */
    size_t n;
    /* samples of the server's load, owned; empty if the server does not report its load */
    VEC(struct load_sample) sample;
    double running_max, waiting_max, kv_max; /* high-water marks of the server; NAN: not reported */
    int64_t begin_us;                        /* beginning of the run, on the clock of time_us */
    /* CPU time of this process; energy of this machine, -1 if not readable */
    int64_t cpu_us, energy_uj;
};
/* Send all prompts at their times, and wait for all responses. A failed request is not an error;
 * its record has the reason. Call served_result_close also after an error. ERR_ARG for an invalid
 * URL, ERR_MEMORY. */
int served_run(struct served_result *r, struct served_target *t, const struct prompts *p,
               const struct served_options *o, struct err *e);
/* Raise each high-water mark of r to the mark of v if the mark of v is higher. */
void served_result_marks(struct served_result *r, const struct server_view *v);
void served_result_close(struct served_result *r); /* free the memory; a zeroed struct is allowed */

/* ---- served_report.c: report ---- */

/* Data of a report. All pointers are borrowed as long as the report is used. */
struct served_report {
    const struct served_target *target;
    const struct prompts *prompts;
    const struct served_result *result;
    struct client_figures figures; /* figures of the requests, owned */
    struct slo slo;
    struct samples percent; /* percentiles to report, owned */
    struct server_view before, after;
    bool in_table[N_LATENCY];
    double peak_flops, peak_bytes;    /* peaks of the server's machine, per second; 0: unknown */
    const char *label;                /* label of the result; NULL: the backend's name */
    const struct text_list *metadata; /* metadata of the result, KEY=VALUE */
    char date[32];                    /* date of the run, such as "20261122-021500" */
};
/* Return true if at least --goodput-share of the requests met the objectives. */
bool served_slo_met(const struct served_report *r);
/* Append vLLM's table. ERR_MEMORY. */
int served_table(const struct served_report *r, struct buf *b, struct err *e);
/* Append one JSON object and a newline to b, which must be empty. detail: include each request's
 * figures. ERR_MEMORY. */
int served_json(const struct served_report *r, bool detail, struct buf *b, struct err *e);
/* Write an HTML page with `table` as preformatted text. Errors: those of client_page_write. */
int served_page(const struct served_report *r, const char *path, const char *table, struct err *e);

#endif
