/* engine.h - many requests, one model: requests become batches, logits become events.
 *
 *   client threads   build a request, engine_submit it, read events from their own queue,
 *                    detokenize (struct reply)
 *   engine thread    scheduler, pages, batch, forward, sampler: engine_step in a loop;
 *                    never uses a socket, never blocks on a client
 *   worker threads   slices of one op (base/pool.h)
 *
 * The threads share nothing but queues. A request's tokens and logprobs do not depend on the other
 * requests (docs/design.md 5). */
#ifndef QUOTH_ENGINE_H
#define QUOTH_ENGINE_H

#include "base/arena.h"
#include "base/pool.h"
#include "base/queue.h"
#include "base/share.h"
#include "constraint.h"
#include "model/model.h"
#include "sample/sample.h"
#include "stats.h"
#include "token/token.h"

enum { TOP_LOGPROB_MAX = 20 };

enum event_kind {
    EVENT_PROMPT, /* a prompt token and its logprob; only with n_prompt_logprob >= 0 */
    EVENT_TOKEN,  /* a generated token */
    EVENT_CHOICE, /* end of a choice; only if the request has several */
    EVENT_DONE,   /* last event of a request */
};

enum finish {
    FINISH_NONE,
    FINISH_STOP,
    FINISH_LENGTH,
    FINISH_ABORT,
    FINISH_ERROR,
    FINISH_TIMEOUT,
    /* refused while queued: the queue or memory is full and its holder has the largest share */
    FINISH_REFUSED,
};
const char *
finish_name(enum finish f); /* "stop", "length", "abort", "error", "timeout", "refused" */

/* Counts and times of a choice (EVENT_CHOICE) or of the whole request (EVENT_DONE; n_output: tokens
 * of all computed choices). Times in microseconds. */
struct usage {
    int n_prompt, n_output, n_cached; /* tokens */
    int64_t queue_us;                 /* arrival to first scheduling */
    int64_t prefill_us;               /* first scheduling to first token */
    int64_t decode_us;                /* first token to last token */
};

struct event {
    uint64_t request_id;
    enum event_kind kind;
    int64_t time_us; /* engine clock time of the event, microseconds */
    int choice;      /* EVENT_TOKEN, EVENT_CHOICE: in [0, n) */
    /* EVENT_CHOICE; EVENT_DONE: of the whole request if it ended at once, else of choice 0 */
    enum finish finish;
    int32_t stop_id;       /* EVENT_CHOICE, EVENT_DONE: the token that ended it, -1 if none */
    int32_t token;         /* EVENT_PROMPT, EVENT_TOKEN */
    float score;           /* EVENT_CHOICE: rank score of best_of or beam search, else 0 */
    struct logprob chosen; /* if logprobs are requested */
    int n_top;
    struct logprob top[TOP_LOGPROB_MAX];
    struct usage usage; /* EVENT_CHOICE, EVENT_DONE */
};

/* When to stop a beam search that has beam_width finished sequences. STOP: at once. HEURISTIC: when
 * the best running one, ended now, would not beat the worst finished one. NEVER: when no length
 * could make it better. transformers' True, False and "never". */
enum beam_stop { BEAM_HEURISTIC, BEAM_STOP, BEAM_NEVER };
enum { CHOICES_MAX = 128 };

/* Pooling of a prompt's final hidden states (after the output norm) into one vector: their mean, or
 * the last or first token's. POOLING_NONE generates tokens. */
enum pooling { POOLING_NONE, POOLING_MEAN, POOLING_LAST, POOLING_FIRST };

/* A client's request. Open it with request_open, fill it in, hand it over with engine_submit. */
struct request {
    uint64_t id;                   /* unique, set by request_open */
    char name[64];                 /* client's identifier, for traces; "" if none */
    struct arena arena;            /* owns the memory that params points to */
    struct ids prompt;             /* owned; at least one token */
    struct sample_params params;   /* pointers into arena; lists: borrowed until engine_submit */
    struct constraint *constraint; /* owned: restricts the tokens; NULL: none */
    int max_tokens;                /* >= 0; 0: compute the prompt only */
    int n_prompt_logprob;          /* -1: none; else top N per prompt token */
    int n;                         /* choices returned, in [1, CHOICES_MAX] */
    int best_of;    /* choices computed; the n with the highest mean logprob are returned; 0: n */
    int beam_width; /* > 0: beam search instead of sampling; the best n are returned */
    float length_penalty; /* scores are divided by length ^ length_penalty */
    enum beam_stop beam_stop;
    enum pooling pooling; /* not NONE: max_tokens is 0, n is 1, no logprobs */
    /* f32 [d_hidden], borrowed, used by this request only, outlives it; complete at
     * FINISH_LENGTH */
    float *pooled;
    int64_t deadline_us; /* limit from arrival to FINISH_TIMEOUT, microseconds; 0: none */
    uint64_t cache_salt; /* requests share cached prefixes only if it is equal */
    int priority;        /* for policies that use it: lower goes first */
    uint64_t share_id;   /* holder: the key or peer charged; 0: none */
    double share_weight; /* > 0 */
    bool extra;          /* one of many from one call: requests of equal rank go first */
    /* the caller retries on ERR_BUSY: refused, uncounted, while a batch of requests is queued */
    bool retry_silently;
    /* borrowed; from engine_reply_queue, used by this request only, outlives it */
    struct queue *reply;
    /* engine clock time at which the client had sent the whole request; latencies count from here.
     * 0: set by engine_submit. */
    int64_t arrival_us;
    int64_t submit_us; /* set by engine_submit */
};
struct request *request_open(struct err *e); /* NULL: no memory */
void request_close(struct request *r);       /* r may be NULL */

struct engine; /* opaque */

/* Computes batches: a model, or a substitute of tests and simulations. Engine thread. */
struct executor {
    void *ctx; /* borrowed */
    int n_vocab, n_page, page_rows, context_max;
    int context_train; /* tokens that the model was trained for; 0: unknown */
    int d_hidden;      /* width of a row's hidden state; 0: not available */
    int n_host_page;   /* pages that fit into host memory (COPY_OUT, COPY_IN); 0: none */
    /* recurrent states that fit into host memory (COPY_STATE_OUT, COPY_STATE_IN) */
    int n_host_state;
    int64_t state_bytes; /* bytes of one state, all layers */
    int64_t page_bytes;  /* bytes of one page, all layers */
    double copy_rate;    /* bytes per microsecond between pages and host memory; 0: no swapping */
    double prefill_rate; /* rows per microsecond, initial value; the engine measures it */
    int window; /* positions visible to a row in every layer, its own included; 0: no such limit */
    /* borrowed; n_state: 0, or slots (two per sequence of a step suffice) */
    const struct batch_limits *limits;
    const char *name, *kv_type; /* borrowed, names in statistics; NULL: "" */
    struct step_cost cost;      /* zeros: unknown */
    /* borrowed; the engine fills masks with it between calls of forward; NULL: none */
    struct pool *pool;
    struct model_out (*forward)(void *ctx, const struct batch *b);
    int64_t (*now_us)(void *ctx); /* the engine's clock */
};
struct executor executor_of_model(struct model *m);

/* Guesses the next tokens of a sequence, so that one step can verify several. A guess never changes
 * a token or its logprobs, only the number of steps. Engine thread. */
struct drafter {
    void *ctx; /* borrowed */
    int n_max; /* tokens of a guess, at most DRAFT_MAX; 0: no drafter */
    /* Guess up to n <= n_max tokens that follow token [0, n_token) of a choice of r. Returns the
     * number of tokens. */
    int (*guess)(void *ctx, const struct request *r, int choice, const int32_t *token, int n_token,
                 int32_t *draft, int n);
};
enum { DRAFT_MAX = 16 };

struct engine_options {
    struct executor executor;
    struct drafter drafter;
    bool no_jump_forward;              /* run the model also for tokens that a constraint forces */
    const struct tokenizer *tokenizer; /* borrowed; for the vocabulary's end-of-generation ids */
    const char *cpu_level;             /* kernel level of sampling; NULL: the best */
    int queue_max;                     /* maximum number of waiting requests; 0: 1024 */
    int64_t byte_max;                  /* bytes that requests may hold besides pages; 0: no limit */
    int prompt_max;                    /* maximum number of prompt tokens; 0: the context */
    bool no_prefix_cache;              /* forget pages when their sequence ends */
    const char *scheduler;             /* name of a policy; NULL: fcfs */
    /* time limit of a step while sequences decode (INFINITY: none); 0: from the next three */
    double itl_target_ms;
    double itl_multiple; /* the limit as a multiple of a step without prompts (0: 2) */
    double itl_most;     /* largest multiple, if more prompts than decodes run (0: itl_multiple) */
    double itl_least_ms; /* minimum of the limit from the multiple */
    int64_t starvation_us; /* sequences that wait longer go first, under every policy; 0: 120 s */
    int64_t window_us;     /* window: see policy.h; 0: 10 ms */
    int window_min, window_max; /* window: see policy.h; 0: as many as fit */
    int slice_tokens;           /* round_robin: see policy.h; 0: 128 */
    const char *trace_path;     /* path of the trace file; NULL: no trace */
    int64_t trace_bytes_max;    /* maximum size of the trace file; 0: no limit */
    bool check; /* assert engine_check after every step, whatever it costs: for tests */
};

/* Return name and help text of policy i of policies.def; NULL after the last. */
const char *policy_name(int i);
const char *policy_help(int i);

/* Open an engine. The model's batch limits are the maximum sequences and rows of a step. */
int engine_open(struct engine **out, const struct engine_options *o, struct err *e);
void engine_close(struct engine *en); /* stops the thread and drops all requests; en may be NULL */

/* Reject further requests (ERR_BUSY) and wait up to wait_us (0: do not wait, < 0: no limit) until
 * all accepted requests are done. Returns whether they are. Any thread but the engine's. */
bool engine_drain(struct engine *en, int64_t wait_us);

/* Return about how many bytes an engine takes besides its executor's: page table, batch, queues,
 * sampling. */
int64_t engine_bytes(const struct executor *x, int queue_max);

/* Open a queue for the replies of a request, with room for the events of a step. Close it with
 * queue_close after its requests are done. */
struct queue *engine_reply_queue(void);

/* Validate take_r and hand it over. On success the engine owns it and emits exactly one EVENT_DONE
 * for its id. On failure it stays the caller's: ERR_ARG (names the field), ERR_LIMIT (can never
 * fit), ERR_BUSY (the queue is full, or accepted requests hold byte_max). Any thread. */
int engine_submit(struct engine *en, struct request *take_r, struct err *e);
/* Validate r: return what engine_submit would return if the queue and memory had room. r is not
 * changed. Any thread. */
int engine_validate(const struct engine *en, const struct request *r, struct err *e);
/* Return the most tokens that the valid request r can generate: max_tokens clamped to the context
 * length. Any thread. */
int engine_max_tokens(const struct engine *en, const struct request *r);
/* Count a request that the caller rejected as too long and does not submit. Any thread. */
void engine_refused(struct engine *en);
/* Prepare the lists of p once for all requests with equal lists (sample_params.lists). Any
 * thread. */
int engine_share_lists(const struct engine *en, const struct sample_params *p,
                       struct sample_lists **out, struct err *e);
/* Reserve n_byte for response buffers held by the client of r. All reservations are limited to
 * byte_max / 4; one holder leaves an eighth of that to others. Returns ERR_BUSY if the rest is in
 * use, ERR_LIMIT if n_byte can never fit. Any thread. */
int engine_reserve(struct engine *en, const struct request *r, int64_t n_byte, struct err *e);
void engine_unreserve(struct engine *en, uint64_t share_id, int64_t n_byte);
/* Cancel a request. Idempotent; takes effect within a step. Any thread. */
void engine_cancel(struct engine *en, uint64_t request_id);
/* Forget the cached prefixes: later requests recompute them, except pages that running sequences
 * complete afterwards. Any thread. */
void engine_reset_prefix_cache(struct engine *en);
/* Cancel one choice; the request's other choices continue. */
void engine_cancel_choice(struct engine *en, uint64_t request_id, int choice);

/* Run the loop on a thread of its own. */
int engine_start(struct engine *en, struct err *e);
/* Run one iteration on the caller's thread. Returns false if there was nothing to do. */
bool engine_step(struct engine *en);

/* Check the invariants of pages.c and of the sequences. Returns NULL or a description of the
 * violation. Engine thread, between steps. */
const char *engine_check(const struct engine *en);
int engine_n_seq_max(const struct engine *en); /* maximum sequences of a step; any thread */
int engine_n_running(const struct engine *en);
int engine_n_waiting(const struct engine *en);
/* Return the engine's statistics; stats_read works from any thread. */
struct stats *engine_stats(const struct engine *en);

/* ---- reply: events of one request -> text, on the client's thread ---- */

struct reply {
    struct detok detok;
    struct stop_match *stop; /* owned */
    struct buf piece;        /* owned scratch */
    struct engine *engine;   /* borrowed; the choice is cancelled when a stop string matches */
    uint64_t request_id;
    int choice; /* events of other choices are not for this reply */
    bool include_stop, matched, skip_ends;
    bool failed;        /* out of memory: the text has a gap; the answer ends with FINISH_ERROR */
    int stop_index;     /* index of the stop string that ended the answer, or -1 */
    int n_token;        /* number of tokens whose text belongs to the answer */
    enum finish finish; /* valid after reply_event returned true */
    struct usage usage;
};
struct reply_options {
    const struct tokenizer *tokenizer;
    const struct text_span *stop;
    int n_stop;
    bool include_stop, keep_special;
    bool keep_marks; /* as keep_special, but without the text of end-of-generation tokens */
    int choice;      /* index of the choice; a request with several needs a struct reply for each */
};
int reply_open(struct reply *r, struct engine *en, uint64_t request_id,
               const struct reply_options *o, struct err *e);
void reply_close(struct reply *r);
/* Process one event of this request and append the text that is now safe to show to `text`. Returns
 * true when the answer is complete. */
bool reply_event(struct reply *r, const struct event *ev, struct buf *text);

/* ---- score: logits of a given text ---- */

/* Callback for each position: logits f32 [n_vocab] after ids[0..pos]. */
typedef void score_fn(void *ctx, int pos, const float *logits);
/* Compute the logits of ids [n], n <= the model's context, in chunks of at most `chunk` rows (0:
 * the batch limit). Uses the model's pages from number 0: must not run while an engine uses the
 * model. */
int score_tokens(struct model *m, const int32_t *ids, int n, int chunk, score_fn *fn, void *ctx,
                 struct err *e);

#endif
