/* engine.h - many requests, one model: requests become batches, logits become events.
 *
 *   client threads   handlers of the server and threads of the library's callers. Client threads
 *                    build a request, compile its constraint, submit it, read its events and
 *                    detokenize them (struct reply). Client threads use no seqs and no pages.
 *   engine thread    scheduler, pages, batch, forward, sampler: engine_step in a loop. This thread
 *                    never uses a socket and never waits for a client.
 *   worker threads   slices of one op (base/pool.h), and masks of constraints. One worker fills
 *                    the masks with equal `shared`. Workers use no locks and no log.
 *   mask thread      masks with more work than a step's maximum (deferred.c). This thread has a low
 *                    priority. It uses its jobs' forks of constraints, and no seq.
 *   trace thread     writer of the ring of events to a file (trace.c).
 *
 * A further thread frees grammars after their last use (session/compiled.c).
 *
 * The threads share queues, the door (door.h, under its lock), the statistics and the ring of the
 * trace (atomics). One thread at a time uses the data that several constraints share. The sequences
 * of these constraints get no rows while the mask thread uses the data. A request's tokens and
 * logprobs do not depend on the other requests (docs/design.md 5). */
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
/* maximum number of ordinary choices of a request, or ordinary requests of a call; more are
 * extra */
enum { ORDINARY_MAX = 8 };

enum event_kind {
    EVENT_PROMPT, /* prompt token and its logprob; only with n_prompt_logprob >= 0 */
    /* number of prompt tokens so far, after a step without a picked token; only with `progress`,
     * and only if the reply queue has room */
    EVENT_PROGRESS,
    EVENT_TOKEN,  /* generated token */
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
    /* refused while queued: the queue or memory is full, and the request's holder has the largest
     * share */
    FINISH_REFUSED,
    FINISH_REPETITION, /* the last tokens repeat a pattern (request.repetition) */
};
/* cause of FINISH_ERROR */
enum cause {
    CAUSE_NONE,
    CAUSE_MODEL,  /* no logit of an allowed token is a number */
    CAUSE_FIELDS, /* the request's fields together allow no token */
    CAUSE_LIMIT,  /* the constraint exceeded a limit, or allows no token */
    CAUSE_MEMORY, /* memory is exhausted */
};
/* Return "stop", "length", "abort", "error", "timeout", "refused" or "repetition"; static. */
const char *finish_name(enum finish f);

/* Counts and times of a choice (EVENT_CHOICE) or of the whole request (EVENT_DONE). n_output of
 * EVENT_DONE counts the tokens of all computed choices. EVENT_TOKEN and EVENT_PROGRESS have the
 * counts and times so far. Times are in microseconds. */
struct usage {
    int n_prompt, n_output, n_cached; /* numbers of prompt, generated and cached tokens */
    int64_t queue_us;                 /* time from arrival to first scheduling */
    int64_t prefill_us;               /* time from first scheduling to first token */
    int64_t decode_us;                /* time from first token to last token */
};

struct event {
    uint64_t request_id;
    enum event_kind kind;
    int64_t time_us; /* engine clock time of the event, microseconds */
    int choice;      /* EVENT_TOKEN, EVENT_CHOICE: index of the choice, in [0, n) */
    /* EVENT_CHOICE: finish of the choice. EVENT_DONE: finish of the request if all choices ended
     * together, otherwise the finish of choice 0 */
    enum finish finish;
    enum cause cause;      /* EVENT_CHOICE, EVENT_DONE: cause of FINISH_ERROR */
    unsigned forbids;      /* EVENT_CHOICE, EVENT_DONE: fields of CAUSE_FIELDS, bits FORBIDS_* */
    int32_t stop_id;       /* EVENT_CHOICE, EVENT_DONE: token that ended the choice; -1 if none */
    int32_t token;         /* EVENT_PROMPT, EVENT_TOKEN: id of the token */
    float score;           /* EVENT_CHOICE: rank score of best_of or beam search, else 0 */
    struct logprob chosen; /* logprob of the token if logprobs are requested */
    int n_top;
    struct logprob top[TOP_LOGPROB_MAX];
    int n_done;         /* EVENT_PROGRESS: number of prompt tokens that are computed or cached */
    struct usage usage; /* all events except EVENT_PROMPT: counts and times */
};

/* Stop condition of a beam search with beam_width finished sequences. STOP: immediately. HEURISTIC:
 * if the best running beam, ended now, would not rank before the worst finished beam. NEVER: if
 * this condition is true for every length. In transformers, these values are True, False and
 * "never". */
enum beam_stop { BEAM_HEURISTIC, BEAM_STOP, BEAM_NEVER };
enum { CHOICES_MAX = 128 };
enum { PATTERN_MAX = 256 }; /* maximum of request.repetition.size_max */

/* Pooling of a prompt's final hidden states (after the output norm) into one vector: the mean of
 * the states, or the state of the last or first token. POOLING_MAX is the maximum of each element.
 * POOLING_SQRT is the sum divided by the root of the number of tokens. POOLING_WEIGHTED is the mean
 * with the weights 1, 2, 3 ... POOLING_ALL returns the states of all tokens. POOLING_NONE generates
 * tokens. The results of several methods are concatenated: each method has POOLING_BITS bits, and
 * the lowest bits have the first method (pooling_join). */
enum pooling {
    POOLING_NONE,
    POOLING_MEAN,
    POOLING_LAST,
    POOLING_FIRST,
    POOLING_ALL,
    POOLING_MAX,
    POOLING_SQRT,
    POOLING_WEIGHTED,
    POOLING_LIST_MAX = (1 << 24) - 1
};
enum { POOLING_BITS = 4 };
/* Return the list of methods `list` with another method at its end. The list must have less than
 * POOLINGS_MAX methods. */
enum pooling pooling_join(enum pooling list, enum pooling last);
/* Return method i of a list; POOLING_NONE after the last method. */
enum pooling pooling_part(enum pooling list, int i);

/* A client's request. The client opens it with request_open, sets its fields, and transfers it with
 * engine_submit. */
struct request {
    uint64_t id;        /* unique, set by request_open */
    char name[64];      /* client's identifier, for traces; "" if none */
    struct arena arena; /* memory to which params points */
    struct ids prompt;  /* owned; at least one token */
    /* sampling parameters; pointers into arena, lists borrowed until engine_submit */
    struct sample_params params;
    struct constraint *constraint; /* constraint of the tokens, owned; NULL if none */
    /* maximum number of generated tokens, >= 0; 0: compute the prompt only */
    int max_tokens;
    /* number of top logprobs per prompt token; -1: no prompt logprobs */
    int n_prompt_logprob;
    int n; /* number of returned choices, in [1, CHOICES_MAX] */
    /* number of computed choices, of which the n with the highest mean logprob are returned; 0:
     * n */
    int best_of;
    int beam_width;       /* number of beams, of which the best n are returned; 0: sampling */
    float length_penalty; /* exponent; scores are divided by length ^ length_penalty */
    enum beam_stop beam_stop;
    /* pooling; NONE: tokens are generated. With another value, max_tokens is 0, n is 1, and there
     * are no logprobs. */
    enum pooling pooling;
    /* number of first tokens that the pooling leaves out, below prompt.n; without effect for
     * POOLING_ALL */
    int pool_from;
    /* position of the first token of the second segment, in [0, prompt.n]; 0: one segment */
    int segment1;
    enum head head; /* layers after the pooling; without effect for POOLING_ALL */
    /* f32 [head_out[head]], or [prompt.n, d_hidden] for POOLING_ALL. Borrowed by this request only;
     * must outlive the request. The values are complete at FINISH_LENGTH */
    float *pooled;
    /* An answer ends if its last tokens are a pattern of [size_min, size_max] tokens, count times
     * in succession. size_max 0: off. */
    struct repetition {
        int size_min, size_max, count;
    } repetition;
    bool progress;       /* true: emit EVENT_PROGRESS */
    int64_t deadline_us; /* limit from arrival to FINISH_TIMEOUT, microseconds; 0 if none */
    uint64_t cache_salt; /* salt; requests share cached prefixes only if their salts are equal */
    /* adapter of the model, in [0, limits.n_adapter]; 0 if none selected. Requests share cached
     * prefixes only if their adapters are equal. */
    int adapter;
    int priority;         /* priority for policies that use it; lower values first */
    uint64_t holder;      /* number of the holder, a key or a peer; 0 if none */
    double holder_weight; /* share of the holder relative to others, > 0 */
    /* true: the request is one of many requests of a call, and ranks after other requests of equal
     * rank */
    bool extra;
    /* true: the caller retries on ERR_BUSY. The request is refused while a batch of requests is
     * queued, and the refusal is not counted */
    bool retry_silently;
    /* borrowed from engine_reply_queue; must outlive the request. Used by this request only. */
    struct queue *reply;
    /* Engine clock time at which the client had sent the whole request, microseconds. Latencies are
     * measured from this time. 0: engine_submit sets the time. */
    int64_t arrival_us;
    int64_t submit_us; /* engine clock time of the submission, set by engine_submit */
};
/* Return a request with the default fields, owned by the caller until engine_submit; NULL after
 * ERR_MEMORY. Any thread. */
struct request *request_open(struct err *e);
void request_close(struct request *r); /* free r; NULL is allowed */

struct engine; /* opaque */

/* Object that computes batches: a model, or a substitute for tests and simulations. Engine
 * thread. */
struct executor {
    void *ctx; /* borrowed; argument of the functions */
    int n_vocab, n_page, page_rows, context_max;
    int context_train; /* context length in training, in tokens; 0: unknown */
    int d_hidden;      /* width of a row's hidden state; 0: not available */
    /* true: rows attend to later rows. In this case all rows of a sequence are computed in one
     * step, pages are not shared, and there are no logits */
    bool whole;
    /* Tokens that follow each prompt, borrowed [n_start]; 0: the model has no encoder and decoder.
     * With n_start, the prompt is a source: its rows attend to later rows of the source, and one
     * step computes all these rows, without results. Pages are not shared between requests. */
    const int32_t *start;
    int n_start;
    int side_max;    /* maximum number of tokens after a source; 0: no separate maximum */
    bool headless;   /* true: there are no logits */
    int n_host_page; /* number of pages that fit into host memory (COPY_OUT, COPY_IN) */
    /* number of recurrent states that fit into host memory (COPY_STATE_OUT, COPY_STATE_IN) */
    int n_host_state;
    int64_t state_bytes; /* number of bytes of one state, all layers */
    int64_t page_bytes;  /* number of bytes of one page, all layers */
    double copy_rate;    /* bytes per microsecond between pages and host memory; 0: no swapping */
    double prefill_rate; /* initial rows per microsecond; 0: PREFILL_RATE (engine.c) */
    /* number of positions visible to a row in every layer, the row's position included; 0: no
     * limit */
    int window;
    /* limits of a batch, borrowed; n_state is 0 or a number of slots (two per sequence suffice) */
    const struct batch_limits *limits;
    const char *name, *kv_type; /* borrowed, names in statistics; NULL: "" */
    struct step_cost cost;      /* cost of a step; zeros: unknown */
    /* pool that fills masks between calls of forward, borrowed; NULL if none */
    struct pool *pool;
    struct model_out (*forward)(void *ctx, const struct batch *b);
    /* Number of values of each head's result; 0: the model lacks this head. */
    int head_out[N_HEAD];
    /* Token of padding, borrowed: POOLING_LAST gives HEAD_CLASS the last row of another token.
     * NULL: none. */
    const int32_t *class_pad;
    /* Compute head h: x f32 [d_hidden] is a pooled row, y f32 [head_out[h]] the result. NULL: the
     * result of HEAD_EMBED is the pooled row. */
    void (*head)(void *ctx, enum head h, const float *x, float *y);
    int64_t (*now_us)(void *ctx); /* Return the time of the engine's clock, microseconds. */
    /* Return the figures of the limit of the weights in memory; NULL: there is no limit. */
    struct weights_use (*weights_use)(void *ctx);
};
/* Return the executor that runs m, which it borrows. */
struct executor executor_of_model(struct model *m);

/* Object that proposes the next tokens of a sequence, so that one step can verify several tokens. A
 * draft never changes a token or its logprobs, only the number of steps. Engine thread. */
struct drafter {
    void *ctx; /* borrowed; argument of propose */
    int n_max; /* maximum number of tokens of a draft, at most DRAFT_MAX; 0: no drafter */
    /* Write up to n <= n_max tokens to draft i32 [n] that may follow token i32 [n_token] of a
     * choice of r. Return the number of tokens. */
    int (*propose)(void *ctx, const struct request *r, int choice, const int32_t *token,
                   int n_token, int32_t *draft, int n);
};
enum { DRAFT_MAX = 16 };

struct engine_options {
    struct executor executor;
    struct drafter drafter;
    /* true: the model also runs for tokens that a constraint forces */
    bool no_jump_forward;
    /* source of the vocabulary's end-of-generation ids, borrowed */
    const struct tokenizer *tokenizer;
    const char *cpu_level; /* kernel level of sampling, borrowed; NULL: the best */
    int queue_max;         /* maximum number of waiting requests; 0: QUEUE_MAX of engine.c */
    /* maximum bytes that requests hold in addition to pages; 0: no limit */
    int64_t bytes_max;
    int prompt_max;        /* maximum number of prompt tokens; 0: the context */
    bool no_prefix_cache;  /* true: pages are forgotten at the end of their sequence */
    const char *scheduler; /* name of a policy, borrowed; NULL: fcfs */
    /* time limit of a step while sequences decode, milliseconds; INFINITY: no limit; 0: the next
     * three fields give the limit */
    double itl_target_ms;
    double itl_multiple; /* limit as a multiple of the time of a step without prompts; 0: 2 */
    /* maximum multiple if more prompts than decodes run; 0: itl_multiple */
    double itl_multiple_max;
    double itl_ms_min; /* minimum of the limit that follows from the multiple, milliseconds */
    /* maximum wait before a sequence ranks first, under every policy; 0: 120 s */
    int64_t starvation_us;
    int64_t window_us; /* maximum wait of the policy window (policy.h); 0: 10 ms */
    /* sizes of a batch of the policy window (policy.h); 0: as many as fit */
    int window_min, window_max;
    int slice_tokens;        /* slice of the policy round_robin (policy.h); 0: 128 */
    const char *trace_path;  /* path of the trace file, borrowed; NULL: no trace */
    int64_t trace_bytes_max; /* maximum size of the trace file; 0: no limit */
    bool check;              /* true: engine_check is asserted after every step; for tests */
};

/* Return the name of policy i of policies.def, static; NULL after the last. Any thread. */
const char *policy_name(int i);

/* Open an engine. The model's batch limits are the maximum sequences and rows of a step. Pointers
 * of *o are borrowed until engine_close. The caller owns *out, which is NULL after an error.
 * Return ERR_ARG for an unknown scheduler or kernel level, or ERR_LIMIT if a sequence needs more
 * recurrent states than exist. Return ERR_IO if the trace cannot be opened, or ERR_MEMORY. Any
 * thread. */
int engine_open(struct engine **out, const struct engine_options *o, struct err *e);
/* End the engine's threads, drop all requests without an event, and free en. NULL is allowed. No
 * other thread may use the engine. Any thread except the engine's own. */
void engine_close(struct engine *en);

/* Return an estimate of the bytes of an engine without its executor: page table, batch, queues,
 * sampling. queue_max: the field of engine_options. Any thread. */
int64_t engine_bytes(const struct executor *x, int queue_max);

/* Return a queue for the replies of a request, with room for the events of a step; NULL if memory
 * is exhausted. The caller owns the queue, and closes it by queue_close after its requests are
 * done. Any thread. */
struct queue *engine_reply_queue(void);

/* Validate and submit take_r. On success the engine owns the request and emits exactly one
 * EVENT_DONE for its id. On failure the caller keeps the request. Return ERR_ARG with the name of a
 * field if the field is invalid. Return ERR_LIMIT if the request can never fit. Return ERR_BUSY if
 * the queue is full, or accepted requests hold bytes_max. Return ERR_UNSUPPORTED for fields that
 * cannot be combined, or ERR_MEMORY. Any thread. */
int engine_submit(struct engine *en, struct request *take_r, struct err *e);
/* Validate r without a change. Return the result of engine_submit for a queue and memory with room:
 * 0, or ERR_ARG, ERR_LIMIT or ERR_UNSUPPORTED with the field. Any thread. */
int engine_validate(const struct engine *en, const struct request *r, struct err *e);
/* Return the maximum number of tokens of a request, prompt included. The maximum is the context of
 * the model, or less if the KV pages have no room for the whole context. Any thread. */
int engine_context(const struct engine *en);
/* Return the maximum number of tokens that the valid request r can generate: max_tokens clamped to
 * the context length. Any thread. */
int engine_max_tokens(const struct engine *en, const struct request *r);
/* Count a request that the caller rejects as too long and does not submit. Any thread. */
void engine_refused(struct engine *en);
/* Set *out to the prepared lists of p, for all requests with equal lists (sample_params.lists). The
 * caller owns the reference *out, which is NULL after an error. Return ERR_ARG if the lists allow
 * no token, or ERR_MEMORY. Any thread. */
int engine_share_lists(const struct engine *en, const struct sample_params *p,
                       struct sample_lists **out, struct err *e);
/* Reserve n_byte for response buffers held by the client of r. The limit of all reservations is
 * bytes_max / 4. A single holder cannot reserve the last eighth of this limit. Return ERR_BUSY if
 * too much is in use, ERR_LIMIT if n_byte can never fit. Any thread. */
int engine_reserve(struct engine *en, const struct request *r, int64_t n_byte, struct err *e);
/* Release n_byte bytes that engine_reserve has reserved. Any thread. */
void engine_unreserve(struct engine *en, uint64_t holder, int64_t n_byte);
/* Cancel a request. The call is idempotent and takes effect within a step. Any thread. */
void engine_cancel(struct engine *en, uint64_t request_id);
/* Evict the cached prefixes: later requests recompute them, except pages that running sequences
 * complete afterwards. Any thread. */
void engine_reset_prefix_cache(struct engine *en);
/* Cancel one choice of a request; its other choices continue. The call is idempotent and takes
 * effect within a step. Any thread. */
void engine_cancel_choice(struct engine *en, uint64_t request_id, int choice);

/* Run the loop on a separate thread until engine_close. Return ERR_MEMORY if the thread cannot
 * start. The thread of engine_open calls this function. */
int engine_start(struct engine *en, struct err *e);
/* Run one iteration. Return false if there was nothing to do. For engines without engine_start,
 * always the same thread calls this function, and this thread is the engine thread. */
bool engine_step(struct engine *en);

/* Check the invariants of pages.c and of the sequences. Return NULL or a description of the
 * violation, static. Engine thread, between steps. */
const char *engine_check(struct engine *en);
/* Return the maximum number of sequences of a step. Any thread. */
int engine_seq_max(const struct engine *en);
/* Return the number of running sequences. Engine thread, between steps. */
int engine_n_running(const struct engine *en);
/* Return the number of waiting sequences. Engine thread, between steps. */
int engine_n_waiting(const struct engine *en);
/* Return the engine's statistics, borrowed until engine_close. Any thread may call this function
 * and stats_read. */
struct stats *engine_stats(const struct engine *en);

/* ---- reply: events of one request -> text. Client threads use a reply one at a time. ---- */

struct reply {
    struct detok detok;
    struct stop_match *stop; /* owned */
    struct buf piece;        /* owned scratch */
    /* engine of the request, borrowed; a matching stop string cancels the choice in this engine */
    struct engine *engine;
    uint64_t request_id;
    int choice; /* index of the choice; the reply ignores events of other choices */
    bool include_stop, matched, skip_ends;
    /* true: memory is exhausted, and the text has a gap; the answer ends with FINISH_ERROR */
    bool failed;
    int stop_index; /* index of the stop string that ended the answer; -1 if none */
    /* limits of lines (reply_options), and the limit that ended the answer; FINISH_NONE if none */
    int indent_min;
    int64_t lines_us;
    enum finish limit;
    int indent; /* number of blanks at the beginning of the line; -1: after other characters */
    int64_t first_us;   /* time of the first token; 0 before it */
    int n_token;        /* number of tokens whose text belongs to the answer */
    enum finish finish; /* reason of the end, valid after reply_event returned true */
    enum cause cause;   /* cause of FINISH_ERROR */
    unsigned forbids;   /* fields of CAUSE_FIELDS, bits FORBIDS_* */
    struct usage usage; /* counts and times so far */
};
struct reply_options {
    const struct tokenizer *tokenizer; /* borrowed until reply_close */
    const struct text_span *stop;      /* stop strings; borrowed [n_stop] while reply_open runs */
    int n_stop;
    bool include_stop, keep_special;
    bool keep_marks; /* true: the text has special tokens, except end-of-generation tokens */
    /* minimum number of blanks and tabs at the beginning of each line except the first; 0: no
     * limit. The answer ends before the next character of a line with fewer. */
    int indent_min;
    /* time after the first token, in microseconds; the answer ends with the first later token that
     * ends a line; 0: no limit */
    int64_t lines_us;
    /* index of the choice; a request with several choices needs a struct reply for each choice */
    int choice;
};
/* Open the reply of one choice. en: engine of the request, borrowed until reply_close. Return
 * ERR_ARG for an empty stop string, ERR_LIMIT for too many bytes of stop strings, or ERR_MEMORY. r
 * needs no close after an error. */
int reply_open(struct reply *r, struct engine *en, uint64_t request_id,
               const struct reply_options *o, struct err *e);
/* Close r, also before the end of its events. r may be zeroed. */
void reply_close(struct reply *r);
/* Process an event of the reply's request. Append to `text` the text that can no longer become part
 * of a stop string. Return true if the answer is complete. */
bool reply_event(struct reply *r, const struct event *ev, struct buf *text);

/* ---- score: logits of a given text ---- */

/* Receive the logits f32 [n_vocab] after ids[0..pos], for each position. */
typedef void score_fn(void *ctx, int pos, const float *logits);
struct score_options {
    int chunk;    /* maximum number of rows of a step; 0: the batch limit */
    score_fn *fn; /* callback */
    void *ctx;    /* borrowed; argument of fn */
    int n_source; /* number of first ids that are the source, for a model of encoder and decoder */
};
/* Compute the logits of ids i32 [n], and call o->fn for each position after the source, in
 * order, on this thread. The function uses the model's pages from number 0. Therefore no engine may
 * use the model during the call. Return ERR_LIMIT if n exceeds the context, or ERR_ARG for an id
 * outside the vocabulary. Return ERR_UNSUPPORTED if the model has no logits or lacks a source, or
 * ERR_MEMORY. The thread that opened the model calls this function. */
int score_tokens(struct model *m, const int32_t *ids, int n, const struct score_options *o,
                 struct err *e);

#endif
