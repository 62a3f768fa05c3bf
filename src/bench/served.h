/* served.h - private to bench: requests as they come over time, sent to a server that speaks OpenAI's API, and what
 * their clients saw of it.
 *
 *   prompts_make (served_data.c) --> prompts --served_run--> server --> what each client saw (seen.h)
 *                                                                        |
 *   quoth bench serve <-- vLLM's table, JSON, a page (served_report.c) <-+
 *
 * All on one thread: an HTTP client (fetch/fetch.h) keeps the requests, and a token's time is that at which the
 * bytes that held it were read. */
#ifndef QUOTH_BENCH_SERVED_H
#define QUOTH_BENCH_SERVED_H

#include "flags.h"

#include "fetch/fetch.h"

/* ---- served_target.c: the server ---- */

/* --base-url, --host, --port, --uds, --endpoint, --backend, --model, --api-key, --header, --insecure, ... */
extern const struct option target_options[];

enum { N_HEADER_MAX = 32 }; /* of --header */
struct target {
    struct fetch *fetch;      /* owned */
    char *base, *url;         /* owned: "http://127.0.0.1:8000", and with the endpoint   */
    char *model, *root;       /* owned: what requests name, and the name of what it is   */
    VEC(char *) header;       /* owned, each too; at most one more than N_HEADER_MAX */
    const char *backend;      /* as it was named */
    bool chat;                /* messages, not prompts */
    bool as_content;          /* /tokenize wants its text under that name */
    int n_vocab, context_max; /* 0: the server does not say */
};
/* Connects to nobody yet. */
int target_open(struct target *t, struct err *e);
void target_close(struct target *t); /* safe on a zeroed one */
/* Ask the server which model it has: names it where no flag does. ERR_MISSING: no flag does, and it has none. */
int target_model(struct target *t, struct err *e);
/* Tokens of a text as the server counts them (/tokenize). ERR_UNSUPPORTED: it does not. */
int target_count(struct target *t, const char *text, size_t n, bool special, int *n_token,
                 struct err *e);

/* What a server tells about itself (/metrics, vLLM's names). NAN: it does not. */
struct server_view {
    double running, waiting, kv_usage;
    double cache_queries, cache_hits;
    double n_draft, draft_tokens, accepted_tokens;
    double flops, read_bytes;
    double preemptions;
};
void server_view_read(struct server_view *v, const char *metrics);
int target_view(struct target *t, struct server_view *v, struct err *e);
/* As what a request needs: GET `path`; headers are t's. `url` must live until it is over. */
struct fetch_request target_get(const struct target *t, const char *url);

/* ---- served_data.c: what is sent ---- */

/* --dataset-name, --tokenizer, --prefix-repetition-... and what is common to all (flags.h) */
extern const struct option data_options[];

struct prompts {
    struct traffic t; /* arrivals, lengths (n_prompt 0: not known), seed */
    char **text;      /* owned [t.n], each too; NULL: token ids */
    int n_vocab;      /* of those ids */
    size_t n_cut;     /* requests that were too long for the server's context */
    size_t n_inexact; /* texts that are not of the length asked for           */
    bool timed;       /* arrivals are the trace's */
    bool ignore_eos;  /* answers are to be as long as asked for */
};
int prompts_check(struct err *e); /* are the flags possible? */
/* The arrivals are all 0 unless it is `timed`. */
int prompts_make(struct prompts *p, struct target *t, struct err *e);
void prompts_close(struct prompts *p); /* safe on a zeroed one */
const char *prompts_tokenizer(void);   /* --tokenizer, or NULL */

/* ---- served_words.c: prompts of so many tokens ---- */

/* Who counts the tokens of a text. */
struct counter {
    struct tokenizer *own; /* owned; NULL: the server counts */
    struct target *server;
    bool none;         /* nobody counts */
    bool special;      /* with what the tokenizer adds to a prompt */
    double per_word;   /* tokens of a word, of the texts so far; 1 at first */
    struct ids ids;    /* owned: scratch */
    struct buf text;   /* owned: scratch */
    struct err excuse; /* why nobody does */
};
/* tokenizer: a model or tokenizer file that counts here; NULL: none. */
int counter_open(struct counter *c, const char *tokenizer, struct err *e);
void counter_close(struct counter *c); /* safe on a zeroed one */
/* -1: nobody counts. */
int counter_count(struct counter *c, const char *text, size_t n);
/* A text for each job of p->t, of as many tokens as its n_prompt says, which becomes the number that it really has (0:
 * nobody counts). */
int words_make(struct prompts *p, struct counter *c, struct err *e);

/* ---- served_body.c, served_answer.c: one request ---- */

struct served_options {
    int max_concurrency; /* 0: no limit */
    const char *member; /* JSON members of each body beside the usual: ",\"top_k\":5"; NULL: none */
    const struct json
        *extra; /* an object whose members are in each body, in the place of the usual; NULL */
    bool ignore_eos, keep_text;
    const char *id_prefix; /* of X-Request-Id; NULL: none                            */
    const char *progress;  /* what the bar on the terminal says; NULL: none          */
    size_t n_first;        /* not 0: prompt 0, so many times, at once, instead of all */
    bool no_samples;       /* do not ask for /metrics meanwhile                      */
};

/* --top-p, --top-k, ... --logprobs, --extra-body */
extern const struct option body_options[];
int body_extra(struct json **extra, struct err *e); /* --extra-body, to be dropped; NULL: none */
/* The others, and --temperature, as members of each body, but for those in extra. */
void body_sampling(struct buf *b, const struct json *extra);
/* Prompt i's request. */
int served_body(struct buf *b, const struct target *t, const struct prompts *p,
                const struct served_options *o, size_t i, struct err *e);

/* A request's own memory, which what its client saw points into. */
struct served {
    int64_t *token_us; /* owned */
    char *text;        /* owned: of its first choice, where wanted */
    char *error;       /* owned; NULL: none */
};

/* An answer that is coming in. */
struct served_answer {
    bool chat, keep_text;
    struct sse sse;
    struct buf text, error;              /* owned: of the first choice; an answer that is none */
    VEC(int64_t) token_us;               /* owned: of the first choice */
    int64_t now_us;                      /* when the bytes that are being read came */
    int64_t n_input, n_output, n_cached; /* of the usage; -1: it does not say */
    int n_event;                         /* of all choices */
    bool finished;                       /* a choice said why it ended, or the stream did */
    bool several;                        /* choices */
};
void served_answer_init(struct served_answer *a, bool chat, bool keep_text);
/* The next n bytes, which came then; false: the rest is not wanted. */
bool served_answer_feed(struct served_answer *a, int status, const char *data, size_t n,
                        int64_t now_us);
/* Its end: fills `s` beside its arrival and submission (n_input stays where no usage came), and `own`; frees the rest. */
void served_answer_end(struct served_answer *a, const struct fetch_result *f, int64_t now_us,
                       struct seen *s, struct served *own);

/* ---- served_run.c: sending all of them ---- */

struct served_result {
    struct seen *seen; /* owned [n] */
    struct served *own;
    size_t n;
    VEC(struct load_sample) sample; /* owned; empty: the server does not tell */
    int64_t cpu_us, energy_uj;      /* of this process; of this machine, -1: cannot be read */
};
int served_run(struct served_result *r, struct target *t, const struct prompts *p,
               const struct served_options *o, struct err *e);
void served_result_close(struct served_result *r); /* safe on a zeroed one */

/* ---- served_report.c: what it amounts to ---- */

struct served_report {
    const struct target *target;
    const struct prompts *prompts;
    const struct served_result *result;
    struct seen_figures figures; /* owned */
    struct slo slo;
    struct samples percent; /* owned */
    struct server_view before, after;
    bool in_table[N_LATENCY];
    double peak_flops, peak_bytes;    /* 0: not known */
    const char *label;                /* NULL: the backend's name */
    const struct text_list *metadata; /* KEY=VALUE */
    char date[32];                    /* "20261122-021500" */
};
bool served_slo_met(const struct served_report *r);
int served_table(const struct served_report *r, struct buf *b, struct err *e);
/* One object and a newline. detail: each request's too. */
int served_json(const struct served_report *r, bool detail, struct buf *b, struct err *e);
int served_page(const struct served_report *r, const char *path, const char *table, struct err *e);

#endif
