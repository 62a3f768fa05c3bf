/* engine.h - many requests, one model: requests become batches, logits become events.
 *
 *   client threads   build a request, engine_submit it, read events from their own queue,
 *                    detokenize (struct reply)
 *   engine thread    scheduler, pages, batch, forward, sampler: engine_step, again and again;
 *                    never a socket, never blocks on a client
 *   worker threads   slices of one op (base/pool.h)
 *
 * They share nothing but queues. A request's tokens and logprobs do not depend on what else runs
 * (docs/design.md 5). */
#ifndef QUOTH_ENGINE_H
#define QUOTH_ENGINE_H

#include "base/arena.h"
#include "base/queue.h"
#include "model/model.h"
#include "sample/sample.h"
#include "stats.h"
#include "token/token.h"

enum { TOP_LOGPROB_MAX = 20 };

enum event_kind {
    EVENT_PROMPT, /* a prompt token and its logprob (only where prompt_logprobs were asked for) */
    EVENT_TOKEN,  /* a generated token                                                            */
    EVENT_CHOICE, /* a choice is complete (only where a request has several)                      */
    EVENT_DONE,   /* the last event of a request                                                  */
};

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_ABORT, FINISH_ERROR, FINISH_TIMEOUT };
const char *finish_name(enum finish f); /* "stop", "length", "abort", "error", "timeout" */

/* What EVENT_CHOICE tells about a choice and EVENT_DONE about the whole request (n_output: of all
 * choices that were computed); times in microseconds. */
struct usage {
    int n_prompt, n_output, n_cached; /* tokens */
    int64_t queue_us;                 /* submit .. first scheduled          */
    int64_t prefill_us;               /* first scheduled .. first token     */
    int64_t decode_us;                /* first token .. last token          */
};

struct event {
    uint64_t request_id;
    enum event_kind kind;
    int64_t time_us;       /* of the engine's clock, when it came to be */
    int choice;            /* EVENT_TOKEN, EVENT_CHOICE: 0 .. n - 1 */
    enum finish finish;    /* EVENT_CHOICE, EVENT_DONE (of all at once, or the first) */
    int32_t stop_id;       /* the same: the token that stopped it, or -1 */
    int32_t token;         /* EVENT_PROMPT, EVENT_TOKEN */
    float score;           /* EVENT_CHOICE: what best_of or beam search ranked it by, else 0 */
    struct logprob chosen; /* where logprobs were asked for */
    int n_top;
    struct logprob top[TOP_LOGPROB_MAX];
    struct usage usage; /* EVENT_CHOICE, EVENT_DONE */
};

/* When a beam search has width finished sequences: STOP at once; HOPE while the best running one would
 * beat the worst finished one if it ended now; NEVER as long as any length could. transformers' True,
 * False and "never". */
enum beam_stop { BEAM_HOPE, BEAM_STOP, BEAM_NEVER };
enum { CHOICES_MAX = 128 };
#define SHARE_WEIGHT_MIN 1e-3
#define SHARE_WEIGHT_MAX 1e6

/* What becomes of a prompt that is not answered but pooled: one vector of its final hidden states (behind the
 * output norm), their mean, or the last or first token's. */
enum pooling { POOLING_NONE, POOLING_MEAN, POOLING_LAST, POOLING_FIRST };

/* What a client asks. Made with request_open, filled in, given away with engine_submit. */
struct request {
    uint64_t id;                 /* unique, set by request_open                              */
    char name[64];               /* what its client knows it by, for traces; "": nothing     */
    struct arena arena;          /* owns what params points to                               */
    struct ids prompt;           /* owned; at least one token                                */
    struct sample_params params; /* pointers into arena                                      */
    int max_tokens;              /* >= 0; 0 only computes the prompt                         */
    int n_prompt_logprob;        /* -1: none; else top N per prompt token                    */
    int n;                       /* choices told, 1 .. CHOICES_MAX                           */
    int best_of;                 /* computed, the n of highest mean logprob are told; 0: n   */
    int beam_width;              /* > 0: beam search instead of sampling, the best n are told */
    float length_penalty;        /* scores are divided by length ^ this                      */
    enum beam_stop beam_stop;
    enum pooling pooling; /* not NONE: max_tokens is 0, n 1, and no logprobs are wanted       */
    /* borrowed f32 [d_hidden], of this request alone, outlives it: complete at FINISH_LENGTH */
    float *pooled;
    int64_t deadline_us; /* after submission; 0: none. Then it ends: FINISH_TIMEOUT  */
    uint64_t cache_salt; /* prefixes are shared among equal ones alone               */
    int adapter;         /* LoRA number, -1: none                                    */
    int priority;        /* for policies that heed it: lower goes first              */
    uint64_t share_id;   /* the key or user who pays, 0: nobody in particular        */
    double share_weight; /* > 0                                                      */
    bool patient; /* who asks tries again by itself when the queue is full: that is no refusal */
    /* borrowed; from engine_reply_queue, of this request alone, outlives it */
    struct queue *reply;
    int64_t submit_us; /* set by engine_submit */
};
struct request *request_open(struct err *e); /* NULL: no memory */
void request_close(struct request *r);       /* NULL is fine    */

struct engine; /* opaque */

/* What computes batches: a model, or what tests and simulations put in its place. Engine thread. */
struct executor {
    void *ctx; /* borrowed */
    int n_vocab, n_page, page_rows, context_max;
    int d_hidden;        /* of a row's hidden state; 0: there are none to be had                */
    int n_host_page;     /* pages that fit into host memory (COPY_OUT, COPY_IN), 0: none        */
    int64_t page_bytes;  /* of all layers                                                       */
    double copy_rate;    /* bytes a microsecond between pages and host memory; 0: no swapping   */
    double prefill_rate; /* rows a microsecond, a first guess: the engine measures it           */
    int window;          /* no layer sees more positions than this, own one included; 0: some do */
    const struct batch_limits *limits; /* borrowed */
    const char *name, *kv_type;        /* borrowed: what statistics call them; NULL: "" */
    struct step_cost cost;             /* zeros: not known */
    struct model_out (*forward)(void *ctx, const struct batch *b);
    int64_t (*now_us)(void *ctx); /* the clock the engine goes by */
};
struct executor executor_of_model(struct model *m);

struct engine_options {
    struct executor executor;
    const struct tokenizer *tokenizer; /* borrowed; for the vocabulary's end-of-generation ids */
    const char *cpu_level;             /* of the kernels that sample; NULL: the best */
    int queue_max;                     /* requests waiting at most; 0: 1024 */
    int64_t byte_max;                  /* that requests may hold besides pages; 0: any */
    bool no_prefix_cache;              /* forget pages when their sequence ends */
    const char *scheduler;             /* a policy's name; NULL: fcfs */
    double itl_target_ms;              /* of a step while sequences decode (INFINITY: any); 0: ... */
    double itl_multiple;               /* ... so many times the step without prompts (0: 2),  */
    double itl_most;                   /* up to so many (0: as many) where more wait for theirs, */
    double itl_least_ms;               /* or this, if that is less                            */
    int64_t starvation_us;             /* waiting longer goes first, under any policy; 0: 120 s */
    int64_t window_us;                 /* window: see policy.h; 0: 10 ms                       */
    const char *trace_path;  /* write what happens when, for trace viewers; NULL: do not */
    int64_t trace_bytes_max; /* of that file; 0: no limit */
    bool check;              /* assert engine_check after every step: for tests */
};

/* The policies there are (policies.def), for help and comparisons; NULL behind the last. */
const char *policy_name(int i);
const char *policy_help(int i);

/* The model's batch limits decide how many sequences and rows a step may hold. */
int engine_open(struct engine **out, const struct engine_options *o, struct err *e);
void engine_close(struct engine *en); /* stops the thread, drops every request; NULL is fine */

/* Take no more requests (submits are refused with ERR_BUSY); wait up to wait_us (0: not, < 0: for
 * ever) until all that were taken are done. true: they are. Any thread but the engine's. */
bool engine_drain(struct engine *en, int64_t wait_us);

/* Bytes that an engine takes besides its executor's: page table, batch, queues, sampling; about. */
int64_t engine_bytes(const struct executor *x, int queue_max);

/* A queue for replies, big enough for a step of a request. Close with queue_close when its
 * requests are done. */
struct queue *engine_reply_queue(void);

/* Check the request and hand it over. On success the engine owns it and its id will see exactly
 * one EVENT_DONE; on failure (ERR_ARG with the field's name, ERR_LIMIT: can never fit, ERR_BUSY:
 * the queue is full, or those that were taken hold as much memory as they may) it stays the
 * caller's. Any thread. */
int engine_submit(struct engine *en, struct request *take_r, struct err *e);
/* Would engine_submit take it, if its queue were not full? What it asks beyond the context is cut. Any thread. */
int engine_may_take(struct engine *en, struct request *r, struct err *e);
/* Bytes that whoever asks will hold for the answers, beside what requests hold here: a quarter of byte_max may be reserved
 * at once. ERR_BUSY: not now; ERR_LIMIT: never. Any thread. */
int engine_reserve(struct engine *en, int64_t n_byte, struct err *e);
void engine_unreserve(struct engine *en, int64_t n_byte);
/* any thread; idempotent; takes effect within a step */
void engine_cancel(struct engine *en, uint64_t request_id);
/* Forget the prefixes that are cached: requests submitted later compute theirs anew, but for pages that sequences
 * complete which run now. Any thread. */
void engine_forget_prefixes(struct engine *en);
/* One choice of it alone: the others go on. */
void engine_cancel_choice(struct engine *en, uint64_t request_id, int choice);

/* Run the loop on a thread of its own ... */
int engine_start(struct engine *en, struct err *e);
/* ... or step by hand. One iteration: false when there was nothing to do. */
bool engine_step(struct engine *en);

/* Invariants of pages.c and of the sequences' states; NULL or what is wrong. Engine thread, between
 * steps. */
const char *engine_check(const struct engine *en);
int engine_n_running(const struct engine *en);
int engine_n_waiting(const struct engine *en);
/* What it counts about itself; stats_read from any thread. */
struct stats *engine_stats(const struct engine *en);

/* ---- reply: one request's events -> text, on the client's thread ---- */

struct reply {
    struct detok detok;
    struct stop_match *stop; /* owned */
    struct buf piece;        /* owned scratch */
    struct engine *engine;   /* borrowed; told when a stop string ends the answer */
    uint64_t request_id;
    int choice; /* the events of this one count */
    bool include_stop, matched;
    int stop_index;     /* which stop string ended it, or -1 */
    int n_token;        /* tokens whose text belongs to the answer */
    enum finish finish; /* set when reply_event returned true */
    struct usage usage;
};
struct reply_options {
    const struct tokenizer *tokenizer;
    const struct text_span *stop;
    int n_stop;
    bool include_stop, keep_special;
    int choice; /* of a request with several: a struct reply for each */
};
int reply_open(struct reply *r, struct engine *en, uint64_t request_id,
               const struct reply_options *o, struct err *e);
void reply_close(struct reply *r);
/* Take one event of this request; new text that is safe to show is appended to `text`. true: the
 * answer is complete. */
bool reply_event(struct reply *r, const struct event *ev, struct buf *text);

/* ---- score: the model applied to a known text ---- */

/* Called for each position: logits f32 [n_vocab] that follow ids[0..pos]. */
typedef void score_fn(void *ctx, int pos, const float *logits);
/* ids [n], n <= the model's context. Rows go through in chunks of at most `chunk` (0: the batch's
 * limit). Uses the model's pages from number 0: not while an engine runs on it. */
int score_tokens(struct model *m, const int32_t *ids, int n, int chunk, score_fn *fn, void *ctx,
                 struct err *e);

#endif
