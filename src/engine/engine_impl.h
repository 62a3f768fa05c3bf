/* engine_impl.h - private to src/engine: requests as groups of sequences, and the engine's
 * state.
 *
 *   door.c        admission of requests: queue places and memory, divided among holders
 *   seq.c         memory of sequences, allocated at submission: a step allocates nothing
 *   sched.c       admission of sequences, rows of a step
 *   portion.c     limits of one holder's rows and places while other holders are active
 *   hold.c        pages of a sequence: prefixes, growth, copy on write, preemption, swapping
 *   constraint.c  masks of the tokens that may come next
 *   deferred.c        masks that take more work than a step may
 *   draft.c       rows of guesses: several tokens of a sequence in one step
 *   state.c       recurrent state of a sequence
 *   emit.c        logits -> tokens -> events
 *   record.c      trace events
 *   pooling.c     hidden states of a prompt -> one vector
 *   group.c       several choices of a request: forking, ranking, returning the best
 *   beam.c        beam search
 * Engine thread only, except group_open and what engine.h allows. */
#ifndef QUOTH_ENGINE_IMPL_H
#define QUOTH_ENGINE_IMPL_H

#include "budget.h"
#include "door.h"
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
 * (2) Only RUNNING sequences hold pages; they acquire them as they grow. page[n_hole .. n_page)
 *     cover at least [0, n_kv), except pages before the window, which are -1.
 * (3) It decodes (seq_decodes) while only the n_fresh tokens of its last step are left to compute:
 *     one, or more if a constraint forced some. Else it prefills or recomputes; or n_token = n_kv,
 *     and a beam waits for the others. A draft is not part of token: its rows follow n_token, and
 *     the accepted ones are picked again.
 * (4) Pages before n_sealed are full and sealed: shared with every sequence that has the prefix,
 *     and never written again. A group's sequences may share the open page; the writer copies it.
 * (5) name[i] is the prefix cache's name of page i, for i < n_name. */
enum { FORCED_MAX = 32 }; /* tokens that a constraint adds to one pick */
enum seq_state { SEQ_IDLE, SEQ_WAITING, SEQ_RUNNING, SEQ_DONE };

struct group;
struct seq {
    struct group *group;
    int choice;
    enum seq_state state;
    struct sched_entity entity; /* the policy's view of it */
    int64_t rank;               /* in this step */
    bool extra;                 /* ranks after sequences of equal rank, which may displace it */
    bool late;                  /* would be extra, but has waited for EXTRA_US */
    int n_before;               /* unfinished choices of its group before it */
    bool stalled;    /* its client does not read events, or it is padding: ranks after all others */
    uint64_t row_no; /* number of its last decoded row, among the rows of all sequences (sched.c) */
    struct sampler *sampler;       /* owned; NULL: it picks no tokens */
    struct constraint *constraint; /* owned, a fork of the request's; NULL: none */
    /* [1 + n_draft_max, n_mask_word] of constraint: before each token that this step may pick */
    uint32_t *mask;
    size_t n_mask_word;
    int n_masked; /* rows of mask that are filled */
    /* mask_within of its state, called before the step. MADE: row 0 of mask. LATER: it is not made yet */
    enum constraint_made mask_made;
    struct job *job; /* borrowed: makes its mask (deferred.c); NULL: none */
    int32_t *draft;  /* [n_draft_max] guessed next tokens: the last n_draft rows of this step */
    int n_draft_max, n_draft;
    int n_fresh;  /* tokens that its last step made, at least 1 */
    bool decodes; /* its rows of this step are decoded ones, not a prompt's */
    int n_prompt, n_token, n_kv;
    int n_output;   /* tokens generated so far, the stop token included */
    int32_t *token; /* [n_token_max] */
    int n_token_max;
    int n_emitted; /* prompt rows whose wanted results have been emitted */

    int32_t *page;  /* [n_page_max] */
    int32_t *host;  /* [n_page_max] host page of page i, -1 if none */
    uint64_t *name; /* [n_page_max] */
    int n_page_max, n_page, n_hole, n_sealed, n_name, n_host;
    /* With recurrent state (state.c): slot of the state after n_kv tokens, -1 if none;
     * state_sealed: it is not written again. */
    int32_t state_at, host_state;
    bool state_sealed;
    /* [1 + n_draft_max] slots that this step writes; the first n_state_to are set */
    int32_t *state_to;
    int n_state_to;
    int32_t snapshot; /* slot of the state after n_snapshot pages, -1 if none */
    int n_snapshot;
    int n_cached; /* tokens found in the cache at first admission or while it waited for rows */

    int row0, n_row;      /* rows in this step's batch */
    int pos0;             /* position of the first one */
    int out0, n_out;      /* results in this step's batch */
    int logits0, hidden0; /* index of its first result of each kind in the batch */
    int n_logits;         /* results that are logits */
    int n_pick;           /* logits that pick a token */
    int n_event;          /* events that the results will make */
    int n_more;           /* further tokens that may be emitted: forced ones */

    enum finish finish; /* not NONE: seq_end at the end of the step */
    /* done, but kept until its batch is done: its last row is recomputed in each step */
    bool padding;
    int32_t stop_id;
    double sum_logprob; /* of its output; for ranking */
    struct logprob
        *record;       /* [max_tokens, 1 + n_logprob] if the group emits at its end, else NULL */
    struct pick *pick; /* candidates of a beam; NULL: no beam search */
    bool picked;       /* the candidates are set */
    int n_reached;     /* maximum of n_kv so far */
    int64_t sched_us, first_us, last_us;
    int64_t admit_us; /* time of the last admission */
    struct {
        int lane;                    /* valid while it runs */
        int64_t since_us, decode_us; /* start of waiting or running; start of decoding */
        int n_decoded;               /* tokens decoded since it runs */
    } traced;                        /* for the trace */
    struct seq *next;                /* next in the waiting list, oldest first */
};

struct seq_list {
    struct seq *head, **tail;
    int n;
};

/* Answer of a ranked group, emitted when all its sequences are done. */
struct answer {
    const int32_t *token;         /* [n] */
    const struct logprob *record; /* [n, 1 + n_logprob] */
    int n, n_output;
    enum finish finish;
    int32_t stop_id;
    float score;
};

/* A request and its sequences, one per choice or beam. The first one computes the prompt; the
 * others are forked from it when its first logits are available. */
struct group {
    struct arena arena;      /* memory of its sequences except their samplers */
    int64_t n_byte;          /* bytes of arena, lists, constraints and samplers, once submitted */
    struct request *request; /* owned */
    struct sample_lists *lists; /* owned; NULL: the request has lists already */
    struct seq *seq;            /* [n_seq] */
    int n_seq, n_live;          /* n_live: not yet DONE */
    struct door_place door;
    int n_preempted; /* preemptions of all its sequences */
    bool forked;
    /* reason for which all remaining sequences ended at once: cancelled, timed out */
    enum finish ended;
    bool held;      /* emits nothing before all is done: best_of > n, beams */
    int n_reserved; /* events that this step's rows will make */
    double *sum;    /* [d_hidden] sum of the pooled rows, for their mean */
    struct beam *beam;
    struct answer *answer; /* [n_answer]; valid when n_live is 0 and the group is ranked */
    int n_answer, i_answer, i_token;
    struct group *next, **at; /* in engine.groups */
    struct group *next_ended; /* in engine.ended: n_live is 0 */
};

/* MASK: a deferred mask is made */
enum message_kind { MESSAGE_SUBMIT, MESSAGE_CANCEL, MESSAGE_RESET_PREFIX_CACHE, MESSAGE_MASK };
struct message {
    enum message_kind kind;
    struct group *group; /* SUBMIT: owned */
    uint64_t request_id; /* CANCEL        */
    int choice;          /* CANCEL; -1: all */
};

/* Rows and places of one holder's running sequences in the step that is being planned. */
struct portion {
    uint64_t share_id;
    int n_running;
    bool has_prompt;       /* one of them does not decode yet */
    bool barred;           /* its waiting sequences get no place in this step */
    double worth;          /* cost of its rows, in rows at position 0 */
    struct step_load load; /* its rows */
};
struct submission {
    uint64_t share_id;
    int64_t us; /* 0: never */
};

struct engine {
    struct executor executor;
    const struct tokenizer *tokenizer;
    struct pages *pages; /* owned */
    struct spill spill;
    struct pages *states; /* owned, slots (state.c); NULL: no recurrent state */
    struct spill state_spill;
    int n_swapped;  /* waiting sequences that have pages in host memory */
    int prompt_max; /* maximum number of prompt tokens; 0: the context */
    bool keep_prefixes;
    /* steps between two full checks, 0: never; steps since the last one */
    int check_period, n_unchecked;
    struct policy *policy; /* owned */
    struct stats *stats;   /* owned */
    struct {
        struct trace *trace; /* owned; NULL: no trace */
        bool *taken;         /* owned [limits.n_seq]: lanes in use */
        int64_t n_dropped;   /* events counted in the statistics */
    } traced;
    struct budget budget;  /* rows of prompts in a step with decodes */
    struct step_load load; /* load of the step in the batch */
    uint64_t n_arrived;
    int64_t now_us;      /* start of the step */
    double prefill_rate; /* rows per microsecond, a running mean */
    struct batch batch;  /* owned */
    struct {
        int n_row, n_logits;        /* planned for this step */
        int n_draft;                /* rows of drafts among these */
        int n_hidden, n_out_logits; /* results in the batch, by kind */
        int n_late;                 /* running sequences that are late */
        /* copies of the batch reserved for a sequence that returns from host memory */
        int n_copy_kept;
        bool preempted; /* a sequence was preempted: admit none */
        bool idle;      /* no running sequence can continue */
        bool blocked;   /* idle, and running beams wait for waiting ones */
        bool unmasked;  /* a sequence was admitted whose mask is made in the next step */
        bool deferred;  /* the policy keeps sequences waiting although there may be room */
    } plan;
    struct sample_work *work; /* owned */
    struct drafter drafter;
    bool no_jump_forward;
    float *flat; /* owned f32 [n_vocab] zeros: logits for picks that a constraint decides alone */
    struct sample_vocab vocab; /* eog owned */
    int32_t *eog;
    struct queue *inbox;       /* owned, of struct message */
    struct deferred *deferred; /* owned: masks that take longer than a step may */
    struct seq_list waiting;
    struct {
        struct portion *v; /* owned [limits.n_seq]; [n]: the holders of running sequences */
        int n;
        struct submission recent[2]; /* the last holder that submitted, and the last other one */
        double per_position;         /* what a position that a row attends to adds to its worth */
    } portions;
    struct seq **running;     /* owned [limits.n_seq], in rank order */
    struct seq **order;       /* scratch of planning [limits.n_seq] */
    struct seq **constrained; /* scratch of sampling [limits.n_seq] */
    uint64_t n_row_given;     /* rows given to sequences that decode */
    int n_running;
    /* ended: groups whose events of the end are pending, freed when no sequence list is walked */
    struct group *groups, *ended;
    const int32_t **table; /* scratch of engine_check [limits.n_seq] */
    int *n_table;
    struct door door;
    int64_t contended_us; /* time of the last submission while other requests were open; 0: never */
    _Atomic int n_open;   /* requests submitted and not yet done */
    _Atomic bool draining;
    pthread_t thread;
    bool started;
    _Atomic bool quit;
};

int64_t engine_now(const struct engine *en);

/* ---- seq.c ---- */

/* Open the group of take_r and its sequences. On failure take_r stays the caller's; ERR_LIMIT: it
 * needs more than byte_max bytes (0: no limit). Any thread. */
int group_open(struct group **out, const struct engine *en, struct request *take_r,
               int64_t byte_max, struct err *e);
void group_close(struct group *g); /* Close g, whose sequences must hold no pages. */
void list_push(struct seq_list *l, struct seq *s);
void list_remove(struct seq_list *l, struct seq *s);
/* Positions [from, to) of the prompt whose results (logits or hidden states) are still wanted; from
 * is n_token if none. K and V before `from` may come from the cache. */
struct wanted {
    int from, to;
};
struct wanted seq_wanted(const struct seq *s);
uint64_t seq_page_name(const struct engine *en, const struct seq *s, int i); /* needs name[i - 1] */

/* ---- sched.c ---- */

void sched_submit(struct engine *en, struct group *take_g);
void sched_cancel(struct engine *en, uint64_t request_id, int choice);
/* Fill en->batch. Returns false if there is nothing to compute or copy. */
bool sched_next(struct engine *en);
void sched_commit(struct engine *en); /* Finish the step after its events have been pushed. */
/* seq_wait: move s to WAITING. seq_run: move s to RUNNING, for which there must be room; it
 * acquires further pages as it grows. */
void seq_wait(struct engine *en, struct seq *s);
void seq_run(struct engine *en, struct seq *s);
void seq_preempt(struct engine *en, struct seq *s);
/* Release everything that s holds; s may continue later. */
void seq_idle(struct engine *en, struct seq *s);
void seq_end(struct engine *en, struct seq *s, enum finish f);
void sched_end_group(struct engine *en, struct group *g, enum finish f);

/* ---- portion.c ---- */

int portion_open(struct engine *en, struct err *e);
void portion_close(struct engine *en);
void portion_submitted(struct engine *en,
                       uint64_t share_id); /* Record a submission of the holder. */
void portion_run(struct engine *en, const struct seq *s);
void portion_run_end(struct engine *en, const struct seq *s);
void portion_begin(struct engine *en); /* Start the plan of a step. */
/* Return whether other holders are active. */
bool portion_bounded(const struct engine *en, const struct seq *s);
/* Return how many of n rows s may have in this step, given the other rows of its holder; n if no
 * other holder is active. */
int portion_rows(const struct engine *en, const struct seq *s, int n, bool prompt);
/* Return the rows of its prompt that the budget may not cut. */
int portion_free(const struct engine *en, const struct seq *s);
void portion_take(struct engine *en, const struct seq *s, int n_row, bool prompt);
/* Return whether its holder has all its places. */
bool portion_full(const struct engine *en, const struct seq *s);
/* Skip the waiting sequences of its holder in this step. */
void portion_bar(struct engine *en, const struct seq *s);
bool portion_barred(const struct engine *en, const struct seq *s);

/* ---- hold.c ---- */

/* Acquire pages for the next n rows of s and make its open page exclusive. Returns the number of
 * rows that have pages; *lacks: preempting another sequence would allow more. */
int hold_rows(struct engine *en, struct seq *s, int n, bool *lacks);
/* Acquire pages for up to n rows after those planned, without preempting. Returns for how many
 * rows. */
int hold_more(struct engine *en, struct seq *s, int n);
/* Return the pages that admitting s would take from the free ones, as far as its known tokens need
 * them (hold_need), and the pages that a running s still needs for them (hold_reserved). */
int hold_need(const struct engine *en, const struct seq *s);
int hold_reserved(const struct engine *en, const struct seq *s);
/* Return the pages that preempting `last` would free for s: held by `last` alone and not in s's
 * prefix. */
int hold_freed(const struct engine *en, const struct seq *last, const struct seq *s);
/* Return the fewest pages with which a sequence of n tokens can be computed. */
int hold_least(const struct engine *en, int n);
/* Find the prefix of s on admission, or return its pages from host memory. */
void hold_acquire(struct engine *en, struct seq *s);
/* Adopt prompt pages that other sequences sealed since admission. Returns the number of their
 * tokens. */
int hold_catch_up(struct engine *en, struct seq *s);
int hold_copies(const struct seq *s); /* Return the copies that bring it back from host memory. */
/* Return whether the batch has room for its copies. */
bool hold_can_acquire(const struct engine *en, const struct seq *s);
/* Seal full pages and drop pages before the window. */
void hold_commit(struct engine *en, struct seq *s);
void hold_drop(struct engine *en, struct seq *s); /* Release all pages. */
/* Preempt by swap or by recomputation, whichever costs less. */
void hold_preempt(struct engine *en, struct seq *s);
/* Share the parent's pages with child. */
void hold_fork(struct engine *en, struct seq *child, const struct seq *parent);
/* Estimate how many of its tokens the cache has. */
int hold_cached(const struct engine *en, const struct seq *s);
/* Return what bringing it back after a preemption would cost. */
int64_t hold_return_us(const struct engine *en, const struct seq *s);

/* Add a copy to the step; the caller has checked that there is room. */
void hold_copy(struct engine *en, int kind, int32_t src, int32_t dst);

/* ---- state.c; for a model without recurrent state: no effect, always room ---- */

/* Return whether the state after n pages of s is cached (true for n = 0). */
bool state_is_cached(const struct engine *en, const struct seq *s, int n);
/* Continue s from that state, which state_is_cached has found. */
void state_find(struct engine *en, struct seq *s, int n);
/* Return false if s lacks a slot. */
bool state_may_own(const struct engine *en, const struct seq *s);
/* Plan the slot that receives the state after its known tokens. */
void state_own(struct engine *en, struct seq *s);
/* Plan slots for up to n rows of a draft. Returns for how many. */
int state_more(struct engine *en, struct seq *s, int n);
/* Write the planned slots into the batch. */
void state_rows(struct engine *en, struct seq *s, int iseq);
/* Adopt the state after row i of the draft (0: after the known tokens). */
void state_adopt(struct engine *en, struct seq *s, int i);
/* Drop the slots of rows that will not be computed. */
void state_unplan(struct engine *en, struct seq *s);
/* Make states after whole pages findable and drop unused slots. */
void state_commit(struct engine *en, struct seq *s);
void state_drop(struct engine *en, struct seq *s);
void state_fork(struct engine *en, struct seq *child, const struct seq *parent);
/* Return the free slots left after admitting one more sequence if only the first n_running running
 * ones stayed. */
int states_left(const struct engine *en, int n_running);
int states_least(int n_seq); /* Return the slots that n_seq sequences need. */
/* Return whether host memory has room for its state. */
bool state_can_swap_out(const struct engine *en, const struct seq *s);
void state_swap_out(struct engine *en, struct seq *s);
void state_swap_in(struct engine *en, struct seq *s);
void state_drop_host(struct engine *en, struct seq *s); /* Release its state in host memory. */

/* ---- constraint.c ---- */

/* Fork the request's constraint, which must exist. */
int constraint_open(struct seq *s, struct err *e);
void constraint_close(struct seq *s);
/* Make the masks of running sequences before the step is planned: each within a step's work, or by
 * a job (deferred.c). Returns true if a job made progress on this thread. */
bool constraint_prepare(struct engine *en);
/* Make the mask of s, which was admitted. Returns false if it needs a job, in the next step. */
bool constraint_admit(const struct engine *en, struct seq *s);
/* Return whether s may have no rows in this step: a job may be using its constraint. */
bool constraint_waits(const struct engine *en, const struct seq *s);
bool constraint_accept(struct seq *s, int32_t token); /* true if s has none */
void constraint_follow(struct seq *s, const struct seq *from);
/* Fill the masks of those of v [n] that pick in this step. */
void constraint_masks(struct engine *en, struct seq **v, int n);
bool constraint_lacks(const struct seq *s,
                      int i); /* Return whether the mask before pick i failed. */
/* Return whether pick i > 0 is left to the next step: its mask may need too much work for this one. */
bool constraint_defers(const struct seq *s, int i);
/* Return the mask before pick i; NULL: s has no constraint. */
const uint32_t *constraint_mask(const struct seq *s, int i);
/* Return a mask of token alone, in the memory of mask 0. */
const uint32_t *constraint_mask_of(const struct seq *s, int32_t token);
int constraint_forced(const struct engine *en, const struct seq *s, int32_t *token, int n);
/* Return how many of the tokens are allowed one after another. */
int constraint_allows(struct seq *s, const int32_t *token, int n);

/* ---- deferred.c ---- */

struct job;
/* n_max: maximum number of jobs */
int deferred_open(struct deferred **out, int n_max, struct queue *inbox, struct err *e);
void deferred_close(struct deferred *w); /* NULL is allowed */
/* Make the mask of s in a job. Returns false if there is no memory or place for it. */
bool deferred_put(struct engine *en, struct seq *s);
/* Give the masks that are made to their sequences. Returns true if a job was worked on here. */
bool deferred_collect(struct engine *en);
/* Return whether a job uses `shared`, of a constraint. */
bool deferred_uses(const struct engine *en, const void *shared);
void deferred_cancel(struct job *j); /* Its sequence ends; NULL is allowed. */

/* ---- draft.c ---- */

bool seq_decodes(const struct seq *s);
int seq_n_left(const struct seq *s); /* Return the tokens left to compute; 1 while it decodes. */
/* Plan rows of guesses in the rest of the step. Preempts no sequence. */
void draft_plan(struct engine *en);

/* ---- emit.c ---- */

/* Return how many events its reply queue can still take in this step. */
int emit_room(const struct group *g);
/* Return how many events these results will make. */
int emit_events(const struct seq *s, int n_prompt_out, int n_pick);
/* Return the part of emit_room of one of its group's live sequences. */
int emit_part(const struct seq *s);
/* Return whether each token that it picks needs logits. */
bool emit_needs_logits(const struct seq *s);
void sample_rows(struct engine *en, struct model_out out);
void emit_choice(const struct engine *en, const struct seq *s);
bool emit_answers(const struct engine *en, struct group *g); /* Returns true if all are emitted. */
void emit_done(struct engine *en, const struct group *g);
void emit_count(struct engine *en, struct seq *s); /* Count a generated token. */
/* mask: allowed tokens; NULL: all */
void emit_pick(struct engine *en, struct seq *s, const float *logits, const uint32_t *mask);
/* Pick the tokens that are forced after its pick. */
void emit_forced(struct engine *en, struct seq *s);
bool emit_is_stop(const struct engine *en, const struct request *r, int32_t id);

/* ---- record.c: events for a trace ---- */

int record_open(struct engine *en, const struct engine_options *o, struct err *e);
void record_close(struct engine *en);
void record_wait(struct engine *en, struct seq *s);           /* It starts to wait. */
void record_wait_end(struct engine *en, const struct seq *s); /* It runs next, or is done. */
void record_run(struct engine *en, struct seq *s);
void record_run_end(struct engine *en, struct seq *s); /* It is done, or waits again. */
void record_rows(struct engine *en, struct seq *s);    /* Its rows of this step are computed. */
void record_done(struct engine *en, const struct group *g, const struct event *done);
void record_step(struct engine *en, const struct batch *b, const struct stats_level *l);

/* ---- pooling.c ---- */

int pooling_check(const struct engine *en, const struct request *r, struct err *e);
bool pooling_open(struct group *g, const struct engine *en); /* false: no memory */
/* hidden: f32 [d_hidden] of the row at pos, which is the next wanted one */
void pooling_row(const struct engine *en, struct seq *s, int pos, const float *hidden);

/* ---- group.c ---- */

void seq_copy(struct seq *child, const struct seq *parent);
void seq_follow(struct engine *en, struct seq *child, const struct seq *parent);
/* logits, mask: of the first sequence */
void group_fork(struct engine *en, struct group *g, const float *logits, const uint32_t *mask);
/* End all choices but the first one with an error, before they are forked. */
void group_fail(struct engine *en, struct group *g);
void group_rank(struct engine *en, struct group *g); /* Set the answers of a group that is done. */

/* ---- beam.c ---- */

int beam_check(const struct engine *en, const struct request *r, struct err *e);
bool beam_open(struct group *g, const struct engine *en); /* false: no memory */
void beam_pick(struct engine *en, struct seq *s, const float *logits);
/* Advance every group whose beams all have their continuations. */
void beam_advance(struct engine *en);

#endif
