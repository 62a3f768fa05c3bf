/* engine_impl.h - private to src/engine: requests as groups of sequences, and the engine's state.
 *
 *   seq.c      their memory, all of it taken when a request is submitted: a step allocates nothing
 *   sched.c    who is admitted, who computes which rows
 *   hold.c     who holds which pages: prefixes, growth, copy on write, preemption, swapping
 *   emit.c     logits -> tokens -> events
 *   record.c   what a trace tells of all that
 *   pooling.c  hidden states of a prompt -> one vector
 *   group.c    several choices of a request: forking, ranking, telling the best ones
 *   beam.c     beam search
 * Engine thread only, but for group_open and what engine.h says. */
#ifndef QUOTH_ENGINE_IMPL_H
#define QUOTH_ENGINE_IMPL_H

#include "budget.h"
#include "engine.h"
#include "policy.h"
#include "trace.h"

#include <pthread.h>
#include <stdatomic.h>

/* A sequence being generated.
 *
 *   IDLE --seq_wait--> WAITING --admit--> RUNNING --seq_end--> DONE
 *                         ^ <----preempt----' |
 *                         '------------------ | ------seq_end--> DONE
 *
 * (1) n_kv <= n_token: tokens [0, n_token) are known. K and V of positions [0, n_kv) are in pages
 *     while it runs; while it waits, in host memory (n_host > 0) or nowhere (n_kv = 0).
 * (2) Only RUNNING sequences hold pages, and they take them as they grow: page[n_hole .. n_page) cover
 *     at least [0, n_kv), but for those behind the window, which are -1.
 * (3) n_token - n_kv is 1 while decoding, more while prefilling or computing again, 0 while a beam
 *     waits for the others.
 * (4) Pages below n_sealed are full and sealed: shared with whoever has the same prefix, and never
 *     written again. The open page may be shared by a group's sequences; the writer copies it first.
 * (5) name[i] is the name of page i, for i < n_name: what the prefix cache knows it by. */
enum seq_state { SEQ_IDLE, SEQ_WAITING, SEQ_RUNNING, SEQ_DONE };

struct group;
struct seq {
    struct group *group;
    int choice;
    enum seq_state state;
    struct turn turn;        /* its place among the others */
    int64_t rank;            /* as of this step            */
    bool stuck;              /* its client does not read, or it is spent: behind all others */
    struct sampler *sampler; /* owned; NULL: it picks none */
    int n_prompt, n_token, n_kv;
    int n_output;   /* generated so far, the stop token included */
    int32_t *token; /* [n_token_max] */
    int n_token_max;
    int n_told; /* rows of the prompt whose results are out, of those that are wanted */

    int32_t *page;  /* [n_page_max]                                              */
    int32_t *host;  /* [n_page_max] where page i waits in host memory, -1: it does not */
    uint64_t *name; /* [n_page_max]                                              */
    int n_page_max, n_page, n_hole, n_sealed, n_name, n_host;
    int n_cached; /* tokens found in the cache when it was first admitted or while it waited for rows */

    int row0, n_row; /* rows of this step's batch          */
    int out0, n_out; /* its results of this step           */
    int result0;     /* the first among those of its kind  */
    int n_logits;    /* how many of them are logits        */
    int n_event;     /* events that they will make         */

    enum finish finish; /* set: seq_end at the step's end     */
    bool spent; /* done, but kept until its batch is: its last row is computed again and again */
    int32_t stop_id;
    double sum_logprob; /* of its output; where the group is ranked */
    struct logprob
        *record;       /* [max_tokens, 1 + n_logprob] where the group tells at the end, else NULL */
    struct pick *pick; /* a beam's candidates, NULL: no beam search */
    bool picked;       /* they are there                            */
    int n_reached;     /* the most that n_kv ever was               */
    int64_t sched_us, first_us, last_us;
    int64_t admit_us; /* admitted last */
    struct {
        int lane;                    /* while it runs                             */
        int64_t since_us, decode_us; /* since when it waits or runs; when it began to decode */
        int n_decoded;               /* tokens, since it runs                     */
    } traced;                        /* for a trace */
    struct seq *next;                /* in the waiting list, oldest first */
};

struct seq_list {
    struct seq *head, **tail;
    int n;
};

/* What a ranked group tells when all its sequences are done. */
struct answer {
    const int32_t *token;         /* [n] */
    const struct logprob *record; /* [n, 1 + n_logprob] */
    int n, n_output;
    enum finish finish;
    int32_t stop_id;
    float score;
};

/* A request and its sequences, one for each choice or beam. The first one computes the prompt; the
 * others are forked from it when its first logits are there. */
struct group {
    struct arena arena;      /* all memory of its sequences but their samplers' */
    int64_t n_byte;          /* of both, once it is submitted                   */
    struct request *request; /* owned */
    struct seq *seq;         /* [n_seq] */
    int n_seq, n_live;       /* n_live: not yet DONE */
    bool queued;             /* counted in engine.n_queued */
    int n_preempted;         /* times that any of them was */
    bool forked;
    enum finish ended; /* all that were left of it at once: cancelled, too late */
    bool held;         /* tells nothing before all is done: best_of > n, beams */
    int n_reserved;    /* events that this step's rows will make               */
    double *sum;       /* [d_hidden] of the rows that were pooled, for their mean */
    struct beam *beam;
    struct answer *answer; /* [n], when it tells: n_live = 0 */
    int n_answer, i_answer, i_token;
    struct group *next, **at; /* in engine.groups */
};

enum message_kind { MESSAGE_SUBMIT, MESSAGE_CANCEL, MESSAGE_FORGET };
struct message {
    enum message_kind kind;
    struct group *group; /* SUBMIT: owned */
    uint64_t request_id; /* CANCEL        */
    int choice;          /* CANCEL; -1: all */
};

struct engine {
    struct executor executor;
    const struct tokenizer *tokenizer;
    struct pages *pages; /* owned */
    struct spill spill;
    bool keep_prefixes, check;
    struct policy *policy; /* owned */
    struct stats *stats;   /* owned */
    struct {
        struct trace *trace; /* owned; NULL: there is none */
        bool *taken;         /* owned [limits.n_seq]: lanes */
        int64_t n_dropped;   /* events, as the statistics have it */
    } traced;
    struct budget budget;  /* rows that prompts get beside decodes */
    struct step_load load; /* of the step in the batch             */
    uint64_t n_arrived;
    int64_t now_us;      /* at the step's beginning                     */
    double prefill_rate; /* rows a microsecond, a running mean          */
    struct batch batch;  /* owned */
    struct {
        int n_row, n_logits; /* planned for this step */
        int n_result[2];     /* in the batch, by kind */
        bool preempted;      /* somebody was: admit nobody        */
        bool idle;           /* nobody who runs has anything to compute */
        bool blocked;        /* besides, some of them wait for ones that wait: beams */
        bool deferred;       /* the policy lets those who wait wait, though there may be room */
    } plan;
    struct sample_work *work;  /* owned */
    struct sample_vocab vocab; /* eog owned */
    int32_t *eog;
    struct queue *inbox; /* owned, of struct message */
    struct seq_list waiting;
    struct seq **running; /* owned [limits.n_seq], those that rank first at the front */
    int n_running;
    struct group *groups;
    const int32_t **table; /* scratch of engine_check [limits.n_seq] */
    int *n_table;
    int queue_max;
    int64_t byte_max;        /* of requests, 0: any                   */
    _Atomic int64_t n_byte;  /* that they hold                        */
    _Atomic int64_t n_byte_reserved; /* for their answers (engine_reserve) */
    _Atomic int n_queued; /* requests submitted and not yet scheduled */
    _Atomic int n_open;   /* requests submitted and not yet done      */
    _Atomic bool draining;
    pthread_t thread;
    bool started;
    _Atomic bool quit;
};

int64_t engine_now(const struct engine *en);

/* ---- seq.c ---- */

/* Any thread. On failure the request stays the caller's; ERR_LIMIT: it needs more than byte_max
 * (0: any). */
int group_open(struct group **out, const struct engine *en, struct request *take_r,
               int64_t byte_max, struct err *e);
void group_close(struct group *g); /* its sequences hold no pages any more */
void list_push(struct seq_list *l, struct seq *s);
void list_remove(struct seq_list *l, struct seq *s);
/* Positions [from, to) of its prompt whose results (logits or hidden states) are still wanted; from is its
 * length where none are. What was computed before `from` may come from anywhere. */
struct wanted {
    int from, to;
};
struct wanted seq_wanted(const struct seq *s);
uint64_t seq_page_name(const struct engine *en, const struct seq *s, int i); /* needs name[i - 1] */

/* ---- sched.c ---- */

void sched_submit(struct engine *en, struct group *take_g);
void sched_cancel(struct engine *en, uint64_t request_id, int choice);
bool sched_next(struct engine *en);   /* fills en->batch; false: nothing to compute or copy */
void sched_commit(struct engine *en); /* after the step's events are out                    */
/* IDLE -> WAITING, and -> RUNNING if there is room (it then takes pages by itself). */
void seq_wait(struct engine *en, struct seq *s);
void seq_run(struct engine *en, struct seq *s);
void seq_preempt(struct engine *en, struct seq *s);
void seq_idle(struct engine *en, struct seq *s); /* gives everything up; it may go on some day */
void seq_end(struct engine *en, struct seq *s, enum finish f);
void sched_end_group(struct engine *en, struct group *g,
                     enum finish f); /* it is gone then, or telling */

/* ---- hold.c ---- */

/* Pages for the next n rows of s, its open page its own; sequences that rank behind it are preempted
 * for them. Returns for how many rows there are pages. */
int hold_rows(struct engine *en, struct seq *s, int n);
/* Pages that admitting s would take from the free ones now, as much as it still may need for its known
 * tokens; and what running sequences still need for theirs. */
int hold_need(const struct engine *en, const struct seq *s);
int hold_reserved(const struct engine *en, const struct seq *s);
int hold_private(const struct engine *en, const struct seq *s); /* pages that s alone holds */
/* The fewest pages with which a sequence of n tokens can be computed. */
int hold_least(const struct engine *en, int n);
void hold_begin(struct engine *en,
                struct seq *s); /* s is admitted: its prefix, or its pages from host memory */
int hold_catch_up(struct engine *en,
                  struct seq *s); /* tokens that others have computed for it since then */
bool hold_can_begin(const struct engine *en,
                    const struct seq *s); /* the batch has room for its copies */
void hold_commit(struct engine *en,
                 struct seq *s); /* full pages become findable; those behind the window free */
void hold_drop(struct engine *en, struct seq *s); /* all of it */
void hold_preempt(struct engine *en,
                  struct seq *s); /* by swap or recompute, whichever costs less */
void hold_fork(struct engine *en, struct seq *child,
               const struct seq *parent); /* shares its pages */
int hold_cached(const struct engine *en,
                const struct seq *s); /* tokens that the cache has of it now */
int64_t hold_return_us(const struct engine *en,
                       const struct seq *s); /* what preempting it would cost */

/* ---- emit.c ---- */

int emit_room(const struct group *g); /* events its reply queue can still take in this step */
int emit_events(const struct seq *s, int n_prompt_out, int n_pick); /* that outputs will make */
void sample_rows(struct engine *en, struct model_out out);
void emit_choice(const struct engine *en, const struct seq *s);
bool emit_answers(const struct engine *en, struct group *g); /* true: all are told */
void emit_done(struct engine *en, const struct group *g);
void emit_count(struct engine *en, struct seq *s); /* a token of it came to be */
void emit_pick(struct engine *en, struct seq *s, const float *logits);
bool emit_is_stop(const struct engine *en, const struct request *r, int32_t id);

/* ---- record.c: events for a trace ---- */

int record_open(struct engine *en, const struct engine_options *o, struct err *e);
void record_close(struct engine *en);
void record_wait(struct engine *en, struct seq *s);           /* it begins to wait          */
void record_wait_end(struct engine *en, const struct seq *s); /* it runs next, or is done   */
void record_run(struct engine *en, struct seq *s);
void record_run_end(struct engine *en, struct seq *s); /* it is done, or waits again */
void record_rows(struct engine *en, struct seq *s);    /* its rows of this step are computed */
void record_done(struct engine *en, const struct group *g, const struct event *done);
void record_step(struct engine *en, const struct batch *b, const struct stats_level *l);

/* ---- pooling.c ---- */

int pooling_check(const struct engine *en, const struct request *r, struct err *e);
bool pooling_open(struct group *g, const struct engine *en); /* false: no memory */
/* hidden f32 [d_hidden] of the row at pos, the next one that is wanted */
void pooling_row(const struct engine *en, struct seq *s, int pos, const float *hidden);

/* ---- group.c ---- */

void seq_copy(struct seq *child, const struct seq *parent);
void seq_follow(struct engine *en, struct seq *child, const struct seq *parent);
void group_fork(struct engine *en, struct group *g, const float *logits);
void group_rank(struct engine *en, struct group *g); /* all done: what it tells */

/* ---- beam.c ---- */

int beam_check(const struct engine *en, const struct request *r, struct err *e);
bool beam_open(struct group *g, const struct engine *en); /* false: no memory */
void beam_pick(struct engine *en, struct seq *s, const float *logits);
void beam_advance(struct engine *en); /* every group whose beams all have their continuations */

#endif
