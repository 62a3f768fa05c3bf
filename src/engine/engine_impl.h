/* engine_impl.h - private to src/engine: requests as groups of sequences, and the engine's state.
 *
 *   engine.c      the loop, its thread, opening and closing
 *   submit.c      submission of requests, on clients' threads
 *   door.c        admission of requests: queue places and memory, divided among holders
 *   group.c       a request and its sequences: choices, their forks, the last events
 *   seq.c         a sequence: memory, tokens, states, the waiting list
 *   step.c        clock, figures and checks of a step
 *   rank.c        the order of sequences in a step
 *   plan.c        rows of a step
 *   admit.c       admission of waiting sequences
 *   sched.c       the schedule of a step, and its commit
 *   portion.c     limits of one holder's rows and places while other holders are active
 *   hold.c        pages of a sequence: prefixes, growth, copy on write, preemption, swapping
 *   constraint.c  masks of the tokens that may come next
 *   deferred.c    masks with more work than a step's maximum
 *   draft.c       rows of draft tokens: several tokens of a sequence in one step
 *   state.c       recurrent state of a sequence
 *   emit.c        logits -> tokens -> events
 *   record.c      trace events
 *   pooling.c     hidden states of a prompt -> one vector
 *   beam.c        beam search
 *
 * Only the engine thread runs this code, except submit.c, group_open, and the functions for which
 * engine.h allows other threads. */
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
 * (1) n_kv <= n_token. Tokens [0, n_token) are known. K and V of positions [0, n_kv) are in pages
 *     while the sequence runs. The pages of a waiting sequence are in host memory (n_host > 0), or
 *     n_kv is 0.
 * (2) Only RUNNING sequences hold pages, which they acquire as they grow. page[n_hole, n_page)
 *     cover at least [0, n_kv). Pages before the window are -1.
 * (3) A sequence decodes (seq_decodes) while only the n_fresh tokens of its last step are left to
 *     compute. n_fresh is above 1 if a constraint forced tokens. Otherwise the sequence prefills or
 *     recomputes. A beam with n_token = n_kv waits for the other beams. A draft is not part of
 *     token. The rows of a draft follow n_token, and accepted tokens are picked again.
 * (4) Pages before n_sealed are full and sealed. Every sequence with the prefix shares these pages,
 *     and no sequence writes to them again. A group's sequences may share the open page. A sequence
 *     that writes to a shared open page copies it first.
 * (5) name[i] is the prefix cache's name of page i, for i < n_name.
 * (6) With LongRoPE, all rows of a text have the list of divisors that its length selects. is_long
 *     is true if n_token is above limits.n_short. A sequence that becomes longer drops its pages
 *     and is recomputed (seq_lengthen). */
enum { FORCED_MAX = 32 }; /* tokens that a constraint adds to one pick; KNOT_FEW of budget.c */
enum seq_state { SEQ_IDLE, SEQ_WAITING, SEQ_RUNNING, SEQ_DONE };

/* Reason for which a sequence gets no rows in a step and ranks after all others. */
enum stall {
    STALL_NONE,
    STALL_READER,  /* the reply queue has no room for an event, because the client does not read */
    STALL_PADDING, /* the sequence is padding (sched.c) */
    /* a job uses the sequence's constraint, or its mask waits for a job (deferred.c) */
    STALL_MASK,
    /* the sequence was admitted in this step, and its mask is made before the next step is
     * planned */
    STALL_ADMITTED,
};

/* Rows and results of a sequence in one step. plan_clear zeroes the struct: no rows. */
struct seq_plan {
    int n_row;            /* number of rows, rows of a draft included */
    int n_draft;          /* number of rows of a draft, which are the last rows */
    int n_out;            /* number of results */
    int n_logits;         /* number of results that are logits */
    int n_pick;           /* number of logits that pick a token */
    int n_event;          /* number of events that the results will cause */
    int n_more;           /* maximum number of further emitted tokens: forced tokens */
    bool decodes;         /* true: the rows are decoded rows, not prompt rows */
    int row0, out0;       /* index of the first row and of the first result in the batch */
    int logits0, hidden0; /* index of the first result of each kind in the batch */
    int pos0;             /* position of the first row */
};

/* snapshots of a step: at a branch of the text, and after the step's last page */
enum { SNAPSHOTS = 2 };
/* Slots of the recurrent state of a sequence. Without recurrent state: -1, and n_to is 0. */
struct seq_slots {
    int32_t at;   /* slot of the state after n_kv tokens; -1 if none */
    int32_t host; /* place of that state in host memory; -1 if none */
    bool sealed;  /* true: the state in `at` is final */
    int32_t *to;  /* arena [1 + draft_max] slots that this step writes; the first n_to are set */
    int n_to;
    /* snapshots of this step: slots of the states after n_after pages; -1 if none */
    struct seq_snapshot {
        int32_t slot;
        int n_after;
    } snapshot[SNAPSHOTS];
    /* number of leading pages that the cache had at the admission, without a state after them; 0 if
     * none */
    int n_branch;
    /* numbers of pages of the sequence's last sealed or found state, and of the state before it; 0
     * if none */
    int n_last, n_before;
};

struct group;
/* Sequence of a group. "arena" in a comment: memory in the group's arena, freed with the arena. */
struct seq {
    struct group *group; /* borrowed: group that contains the sequence */
    int choice;
    enum seq_state state;
    struct sched_entity entity; /* fields of the sequence for the policy */
    int64_t rank;               /* rank in this step */
    /* true: the sequence ranks after other sequences of equal rank, which may displace it */
    bool extra;
    bool late;        /* true: the sequence waited for EXTRA_US, so it is not extra */
    int n_before;     /* number of unfinished choices of the group before this choice */
    enum stall stall; /* reason for which the sequence gets no rows in this step */
    /* number of the sequence's last decoded row, among the rows of all sequences (plan.c) */
    uint64_t row_no;
    struct sampler *sampler;       /* owned; NULL if the sequence picks no tokens */
    struct constraint *constraint; /* fork of the request's constraint, owned; NULL if none */
    /* arena [1 + draft_max, n_mask_word]: masks of constraint before each token that this step may
     * pick */
    uint32_t *mask;
    size_t n_mask_word;
    int n_masked; /* number of filled rows of mask */
    /* Result of mask_within for the sequence's state, called before the step. MADE: row 0 of mask
     * is filled. LATER: the mask is not made yet. */
    enum constraint_made mask_made;
    /* Job for masks that need more work than the maximum of a step (deferred.c). `job` is borrowed
     * while the job makes the sequence's mask. Otherwise the job is idle_job, owned. At most one of
     * the two pointers is not NULL. */
    struct mask_job *job, *idle_job;
    /* arena [draft_max] draft of next tokens: the last plan.n_draft rows of the step */
    int32_t *draft;
    int draft_max;
    int n_fresh; /* number of tokens that the sequence's last step made, at least 1 */
    int n_prompt, n_token, n_kv;
    int n_output;   /* number of tokens generated so far, the stop token included */
    int32_t *token; /* arena [token_max] known tokens */
    int token_max;
    int n_emitted; /* number of prompt rows whose wanted results were emitted */

    int32_t *page;  /* arena [page_max] numbers of the sequence's pages */
    int32_t *host;  /* arena [page_max] host page of page i, -1 if none */
    uint64_t *name; /* arena [page_max] names of the sequence's pages in the prefix cache */
    int page_max, n_page, n_hole, n_sealed, n_name, n_host;
    /* number of leading tokens that one step must compute (an encoder's text); 0: none */
    int n_whole;
    bool is_long;           /* true: the pages and their names are for the long list of divisors */
    struct seq_slots slots; /* recurrent state (state.c) */
    /* number of tokens found in the cache at first admission or while the sequence waited for
     * rows */
    int n_cached;

    struct seq_plan plan; /* rows and results in the step that is planned or computed */

    enum finish finish; /* reason of the end; NONE: not ended. seq_end follows at the end of the
                           step */
    enum cause cause;   /* cause of FINISH_ERROR */
    unsigned forbids;   /* fields of CAUSE_FIELDS, bits FORBIDS_* */
    /* true: the sequence is done, and stays until its batch is done. Each step recomputes its last
     * row. */
    bool padding;
    int32_t stop_id;
    double sum_logprob; /* sum of the logprobs of its output, for ranking */
    /* arena [max_tokens, 1 + n_logprob] logprobs of its output; NULL if the group is not ranked */
    struct logprob *record;
    struct pick *pick; /* candidates of a beam, in the arena; NULL: no beam search */
    bool picked;       /* true: the candidates are set */
    int n_reached;     /* maximum of n_kv so far */
    int64_t sched_us, first_us, last_us;
    int64_t admit_us; /* time of the last admission, microseconds */
    struct {
        int lane;                    /* lane of the trace, valid while the sequence runs */
        int64_t since_us, decode_us; /* start times of waiting or running, and of decoding */
        int n_decoded;               /* number of tokens decoded since the start of running */
    } traced;                        /* data for the trace */
    struct seq *next;                /* borrowed: next in the waiting list, oldest first */
};

struct seq_list {
    struct seq *head, **tail; /* ends of the list; sequences are borrowed from their groups */
    int n;
};

/* Answer of a ranked group, emitted after all its sequences are done. */
struct ranked_answer {
    const int32_t *token; /* borrowed [n] tokens, from the answer's seq or beam */
    /* borrowed [n, 1 + n_logprob] logprobs, from the answer's seq or beam */
    const struct logprob *record;
    int n, n_output;
    enum finish finish;
    enum cause cause;
    unsigned forbids; /* bits FORBIDS_*, as in its seq */
    int32_t stop_id;
    float score;
};

/* A request and its sequences: one sequence per choice or beam. The first sequence computes the
 * prompt. The other sequences are forked after the first logits are available. */
struct group {
    struct arena arena;      /* memory of its sequences except their samplers */
    int64_t n_byte;          /* bytes of arena, lists, constraints and samplers, once submitted */
    struct request *request; /* owned; request of the group */
    struct sample_lists *lists; /* prepared lists, owned; NULL if the request has other lists */
    struct seq *seq;            /* arena [n_seq] sequences of the group */
    int n_seq, n_live;          /* number of sequences, and number of sequences before DONE */
    struct door_place door;
    int n_preempted; /* number of preemptions of all its sequences */
    bool forked;
    /* reason for which all remaining sequences ended together: cancelled, timed out */
    enum finish ended;
    /* true: best_of > n, or beams; the group emits no token before all sequences are done */
    bool ranked;
    int n_reserved;    /* number of events that the planned rows will cause: sum of n_event */
    float *row;        /* arena [n_method, d_hidden]: the pooled rows; NULL if one row is used */
    double *sum;       /* arena [n_method, d_hidden]: sums or maxima of the rows; NULL as row */
    int n_pooled;      /* number of the prompt's first rows that are pooled */
    struct beam *beam; /* arena; NULL: no beam search */
    struct ranked_answer
        *answer; /* arena [n_answer]; valid if n_live is 0 and the group is ranked */
    int n_answer, i_answer, i_token;
    struct group *next, **at; /* links in engine.groups, which owns the groups */
    struct group *next_ended; /* next group in engine.ended, whose n_live is 0, borrowed */
};

/* Kinds of messages. MESSAGE_MASK: a deferred mask is made. */
enum message_kind { MESSAGE_SUBMIT, MESSAGE_CANCEL, MESSAGE_RESET_PREFIX_CACHE, MESSAGE_MASK };
struct message {
    enum message_kind kind;
    struct group *group; /* SUBMIT: owned; group to submit */
    uint64_t request_id; /* CANCEL: id of the request */
    int choice;          /* CANCEL: index of the choice; -1: all choices */
};

/* Rows and places of one holder's running sequences in the step that is being planned. */
struct portion {
    uint64_t holder;
    int n_running;
    bool has_prompt;       /* true: one of the sequences does not decode yet */
    bool barred;           /* true: the holder's waiting sequences get no place in this step */
    double worth;          /* cost of the holder's rows, in rows at position 0 */
    struct step_load load; /* load of the holder's rows */
};
struct submission {
    uint64_t holder;
    int64_t us; /* time of the submission, microseconds; 0: never */
};

struct engine {
    struct executor executor;
    const struct tokenizer *tokenizer; /* borrowed; NULL if none */
    struct pages *pages;               /* owned; pool of KV pages */
    struct spill spill;
    /* pool of slots (state.c), owned; NULL if the model has no recurrent state */
    struct pages *states;
    struct spill state_spill;
    int n_swapped;  /* number of waiting sequences that have pages in host memory */
    int prompt_max; /* maximum number of prompt tokens; 0: the context */
    bool keep_prefixes;
    /* number of steps between two full checks, 0: never; number of steps since the last full
     * check */
    int check_period, n_unchecked;
    struct policy *policy; /* owned */
    struct stats *stats;   /* owned */
    struct {
        struct trace *trace; /* owned; NULL if there is no trace */
        bool *taken;         /* owned [limits.n_seq]; true: the lane is in use */
        int64_t n_dropped;   /* number of dropped events, equal to the counter of the statistics */
    } traced;
    struct budget budget;  /* limit of the rows of prompts in a step with decodes */
    struct step_load load; /* load of the step in the batch */
    uint64_t n_arrived;
    int64_t now_us;      /* time of the start of the step, microseconds */
    double prefill_rate; /* rows per microsecond, a running mean */
    struct batch batch;  /* owned; batch of the step */
    struct {
        int n_row, n_logits;        /* numbers of rows and of logits planned for this step */
        int n_draft;                /* number of rows of drafts among the planned rows */
        int n_whole;                /* number of rows of whole texts among the planned rows */
        int n_hidden, n_out_logits; /* numbers of results in the batch, by kind */
        int n_late;                 /* number of running sequences that are late */
        /* number of copies of the batch reserved for a sequence that returns from host memory */
        int n_copy_kept;
        bool preempted; /* true: a sequence was preempted, so no sequence is admitted */
        bool idle;      /* true: no running sequence can continue */
        bool blocked;   /* true: the step has no rows, and running beams wait for waiting beams */
        bool unmasked;  /* true: an admitted sequence gets its mask in the next step */
        bool deferred;  /* true: the policy keeps sequences waiting although there may be room */
    } plan;
    struct sample_work *work; /* owned; scratch of sampling */
    struct drafter drafter;
    bool no_jump_forward;
    float *flat; /* owned f32 [n_vocab] zeros: logits for picks whose constraint allows one token */
    /* vocabulary of samplers; its pointers to eog and the tokenizer are borrowed */
    struct sample_vocab vocab;
    int32_t *eog;              /* owned [vocab.n_eog] end-of-generation ids */
    struct queue *inbox;       /* owned queue of struct message */
    struct deferred *deferred; /* owned; masks with more work than a step's maximum */
    struct seq_list waiting;
    struct {
        /* owned [limits.n_seq], [n] used: portions of the holders of running sequences */
        struct portion *v;
        int n;
        /* times of the last submission, and of the last submission of another holder */
        struct submission recent[2];
        double per_position; /* cost of one position for a row that attends to it */
    } portions;
    /* Owned arrays [limits.n_seq] of borrowed sequences: the running sequences in rank order,
     * scratch of planning, and scratch of sampling. */
    struct seq **running, **order, **constrained;
    int64_t forced_work;  /* remaining work of this step for forced tokens */
    uint64_t n_row_given; /* number of rows given to sequences that decode */
    int n_running;
    struct group *groups; /* owned: list of the submitted groups that are not freed */
    /* borrowed; list of the groups whose last events are pending (group.c) */
    struct group *ended;
    const int32_t **table; /* owned [limits.n_seq]: scratch of engine_check */
    int *n_table;          /* owned [limits.n_seq]: scratch of engine_check */
    struct door door;
    int64_t contended_us; /* time of the last submission while other requests were open; 0: never */
    pthread_t thread;
    bool started;
    _Atomic bool quit;
};

/* Return the time of the engine's clock, microseconds. Any thread. */
int64_t engine_now(const struct engine *en);

/* ---- step.c ---- */

/* Return the number of steps between two full checks; 0: no checks. */
int step_check_period(const struct engine_options *o);
/* Begin a step: set en->now_us and the clocks of the pools and the statistics. */
void step_begin(struct engine *en);
/* End a step that computes nothing. */
void step_skip(struct engine *en);
/* Record the planned batch, and check it if a check is due. */
void step_planned(struct engine *en);
/* End a phase of the step: schedule (in step_planned), forward, sample, commit. */
void step_lap(struct engine *en);
/* Record the step, train the budget, and check the engine if a check is due. */
void step_end(struct engine *en);

/* ---- seq.c ---- */

/* Allocate the memory of s in the arena of g. Return false if memory or the arena's limit is
 * exhausted. Any thread. */
bool seq_open(struct seq *s, const struct engine *en, struct group *g);
/* Open the sampler of s. Return ERR_ARG if the lists allow no token or a parameter is out of range,
 * or ERR_MEMORY. Any thread. */
int seq_open_sampler(struct seq *s, const struct engine *en, struct err *e);
/* Positions [from, to) of the prompt whose results (logits or hidden states) are still wanted; from
 * is n_token if none. K and V before `from` may come from the cache. */
struct wanted {
    int from, to;
};
/* Return the wanted positions of the prompt of s. */
struct wanted seq_wanted(const struct seq *s);
/* Return the name of page i. name[i - 1] must be set. */
uint64_t seq_page_name(const struct engine *en, const struct seq *s, int i);
/* Name the full pages of the known tokens of s. */
void seq_name_pages(const struct engine *en, struct seq *s);
/* Drop the pages of s if its text has outgrown the short list of divisors. In this case s is
 * recomputed with the long list. s must be running or waiting, without planned rows. */
void seq_lengthen(struct engine *en, struct seq *s);
/* Return the number of tokens that s must compute in its next step, which is all of an encoder's
 * text; 0: any number. */
int seq_n_whole(const struct seq *s);
/* Return true if only tokens of the last step of s have no computed rows. */
bool seq_decodes(const struct seq *s);
/* Return the number of tokens of s that are not computed; 1 while s decodes. */
int seq_n_left(const struct seq *s);
void seq_wait(struct engine *en, struct seq *s); /* move s to WAITING */
/* Move s to RUNNING, for which there must be room. */
void seq_run(struct engine *en, struct seq *s);
/* Move the running s to WAITING, or end it if it is padding. */
void seq_preempt(struct engine *en, struct seq *s);
/* Move s to IDLE and release its pages, state and slots. s may continue later. */
void seq_idle(struct engine *en, struct seq *s);
void seq_end(struct engine *en, struct seq *s, enum finish f); /* move s to DONE */
/* End the batch if all running sequences are padding. */
void seq_end_padding(struct engine *en);
/* Copy the tokens and the state of the parent to the child. */
void seq_copy(struct seq *child, const struct seq *parent);
/* Run the child on its parent's pages, or move it to WAITING if there is no place. */
void seq_follow(struct engine *en, struct seq *child, const struct seq *parent);

/* ---- group.c ---- */

/* Open the group of take_r and its sequences. The caller owns *out. On failure the caller keeps
 * take_r. Return ERR_LIMIT if the group needs more than bytes_max bytes (0: no limit), or
 * ERR_MEMORY. Any thread. */
int group_open(struct group **out, const struct engine *en, struct request *take_r,
               int64_t bytes_max, struct err *e);
void group_close(struct group *g); /* close g, whose sequences must hold no pages */
void group_submit(struct engine *en, struct group *take_g);
/* Cancel one choice of a request, or all choices if choice is -1. */
void group_cancel(struct engine *en, uint64_t request_id, int choice);
/* End the live sequences of g with finish f. */
void group_end(struct engine *en, struct group *g, enum finish f);
/* End the requests that are past their deadline or refused. */
void group_end_expired(struct engine *en);
/* Fork the choices of g.
 *   logits  f32 [n_vocab] of the first sequence
 *   mask    u32 [n_mask_word] of the first sequence; NULL: all tokens are allowed */
void group_fork(struct engine *en, struct group *g, const float *logits, const uint32_t *mask);
/* End all choices except the first with an error, before they are forked. */
void group_fail(struct engine *en, struct group *g);
/* Emit the last events of groups without live sequences, and free the groups whose events had room.
 * Return true if the queues had room for some events. */
bool group_reap_all(struct engine *en);

/* ---- rank.c ---- */

/* Set s's rank for this step. */
void rank_seq(struct engine *en, struct seq *s);
/* Return the reason for which s cannot have rows in this step. */
enum stall rank_stall(const struct engine *en, const struct seq *s);
/* Return true if a ranks before b in this step. */
bool rank_before(const struct seq *a, const struct seq *b);
/* Insert s into the running sequences in rank order. */
void rank_insert(struct engine *en, struct seq *s);
/* Rank the running sequences for a new step. */
void rank_running(struct engine *en);

/* ---- plan.c ---- */

/* Clear the planned rows of s, and the events reserved for them. */
void plan_clear(struct seq *s);
void plan_undo(struct engine *en, struct seq *s); /* remove the rows of s from the step */
/* Plan the rows of sequences that decode. The plan may preempt sequences of a worse rank. */
void plan_decodes(struct engine *en);
/* Compute the load of the planned decodes. */
void plan_load(struct engine *en);
/* Plan up to half of the rows for prompts that are shorter than the first prompt. */
void plan_short(struct engine *en);
/* Plan prompts, and sequences that were admitted with one token left. */
void plan_prompts(struct engine *en);
/* Plan rows of padding sequences in the remaining room of the step. */
void plan_padding(struct engine *en);

/* ---- admit.c ---- */

/* Admit waiting sequences in rank order while there is room. */
void admit_waiting(struct engine *en);

/* ---- sched.c ---- */

/* Fill en->batch. Return false if there is nothing to compute or copy. */
bool sched_next(struct engine *en);
void sched_commit(struct engine *en); /* finish the step after its events were pushed */

/* ---- portion.c ---- */

/* Allocate the portions of en. The caller calls portion_close also after ERR_MEMORY. */
int portion_open(struct engine *en, struct err *e);
/* Free the portions of en, also after a failure of portion_open. */
void portion_close(struct engine *en);
void portion_submitted(struct engine *en, uint64_t holder); /* record a submission of the holder */
/* Count s, which begins to run, in the portion of its holder. */
void portion_run(struct engine *en, const struct seq *s);
/* Remove s, which stops running, from the portion of its holder. */
void portion_run_end(struct engine *en, const struct seq *s);
void portion_begin(struct engine *en); /* start the plan of a step */
/* Return true if holders other than the holder of s are active. */
bool portion_bounded(const struct engine *en, const struct seq *s);
/* Return the number of rows in [0, n] that s may have in this step next to the other rows of its
 * holder. Return n if no other holder is active. */
int portion_rows(const struct engine *en, const struct seq *s, int n, bool prompt);
/* Return the number of rows of the prompt of s that the budget must not divide. */
int portion_undivided(const struct engine *en, const struct seq *s);
/* Add n_row planned rows of s to the portion of its holder. */
void portion_take(struct engine *en, const struct seq *s, int n_row, bool prompt);
/* Return true if the holder of s has all its places. */
bool portion_full(const struct engine *en, const struct seq *s);
/* Skip the waiting sequences of the holder of s in this step. */
void portion_bar(struct engine *en, const struct seq *s);
/* Return true if the holder of s is skipped in this step (portion_bar). */
bool portion_barred(const struct engine *en, const struct seq *s);

/* ---- hold.c ---- */

/* Acquire pages for the next n rows of s and make its open page exclusive. Return the number of
 * rows that have pages. Set *lacks to true if preempting another sequence would allow more. */
int hold_rows(struct engine *en, struct seq *s, int n, bool *lacks);
/* Acquire pages for up to n rows after the planned rows, without preemption. Return the number of
 * rows that have pages. */
int hold_more(struct engine *en, struct seq *s, int n);
/* Release the pages of s after its computed rows. */
void hold_give_back(struct engine *en, struct seq *s);
/* Return the number of free pages that admitting s would take for its known tokens. */
int hold_need(const struct engine *en, const struct seq *s);
/* Return the number of pages that the running s still needs for its known tokens. */
int hold_reserved(const struct engine *en, const struct seq *s);
bool hold_holds(const struct seq *s); /* return true if the running s holds pages or a state */
/* Return the number of pages that preempting `last` would free for s: pages held by `last` alone
 * and not in s's prefix. */
int hold_freed(const struct engine *en, const struct seq *last, const struct seq *s);
/* Return the minimum number of pages with which a sequence of n tokens can be computed. */
int hold_least(const struct engine *en, int n);
/* Find the prefix of s on admission, or copy its pages back from host memory. */
void hold_acquire(struct engine *en, struct seq *s);
/* Adopt prompt pages that other sequences sealed since the admission of s. Return the number of
 * tokens in these pages. */
int hold_catch_up(struct engine *en, struct seq *s);
/* Return the number of copies that bring s back from host memory. */
int hold_copies(const struct seq *s);
/* Return true if the batch has room for the copies of s. */
bool hold_can_acquire(const struct engine *en, const struct seq *s);
/* Seal the full pages of s and drop its pages before the window. */
void hold_commit(struct engine *en, struct seq *s);
void hold_drop(struct engine *en, struct seq *s); /* release all pages of s */
/* Preempt s by swap or by recomputation, by the lower cost. */
void hold_preempt(struct engine *en, struct seq *s);
/* Share the parent's pages with child. */
void hold_fork(struct engine *en, struct seq *child, const struct seq *parent);
/* Return an estimate of the number of tokens of s that the cache has. */
int hold_cached(const struct engine *en, const struct seq *s);
/* Return the cost of bringing s back after a preemption, in microseconds. */
int64_t hold_return_us(const struct engine *en, const struct seq *s);

/* Add a copy to the step; the caller must have checked that there is room. */
void hold_copy(struct engine *en, int kind, int32_t src, int32_t dst);

/* ---- state.c: for a model without recurrent state, these functions have no effect and report
 * enough room ---- */

/* Return true if the state after n pages of s is cached (true for n = 0). */
bool state_is_cached(const struct engine *en, const struct seq *s, int n);
/* Continue s from the state after n of its pages, which state_is_cached has found. */
void state_find(struct engine *en, struct seq *s, int n);
/* Note that the cache has n pages of s, more than those after which there is a state. s keeps the
 * state after the n pages, because further requests may have the same beginning. */
void state_branch(struct seq *s, int n);
/* Return true if s has or can get a slot for its next state. */
bool state_may_own(const struct engine *en, const struct seq *s);
/* Plan the slot that receives the state after the known tokens of s. */
void state_own(struct engine *en, struct seq *s);
/* Plan slots for up to n rows of a draft. Return the number of rows that have slots. */
int state_more(struct engine *en, struct seq *s, int n);
/* Write the planned slots of s into the batch. */
void state_rows(struct engine *en, struct seq *s, int iseq);
/* Adopt the state after row i of the draft (0: after the known tokens). */
void state_adopt(struct engine *en, struct seq *s, int i);
/* Drop the planned slots of s, whose rows will not be computed. */
void state_unplan(struct engine *en, struct seq *s);
/* Make states after whole pages findable and drop unused slots. */
void state_commit(struct engine *en, struct seq *s);
/* Let the state at the end of a page that the cache of K and V evicted be evicted next. A prefix
 * cannot be found without this page. name and tokens are those of the page. en: a struct engine.
 * The function is a callback of page_watch. */
void state_page_gone(void *en, uint64_t name, const int32_t *tokens);
/* Release the slots of s. */
void state_drop(struct engine *en, struct seq *s);
/* Share the state of the parent with the child. */
void state_fork(struct engine *en, struct seq *child, const struct seq *parent);
/* Return the number of free slots left after admitting one more sequence if only the first
 * n_running running sequences stay. */
int states_left(const struct engine *en, int n_running);
int states_least(int n_seq); /* return the number of slots that n_seq sequences need */
/* Return true if host memory has room for the state of s. */
bool state_can_swap_out(const struct engine *en, const struct seq *s);
/* Copy the state of s to host memory. state_can_swap_out has found room. */
void state_swap_out(struct engine *en, struct seq *s);
/* Restore the state of s from the cache, or from host memory. */
void state_swap_in(struct engine *en, struct seq *s);
void state_drop_host(struct engine *en, struct seq *s); /* release the state of s in host memory */

/* ---- constraint.c ---- */

/* Fork the request's constraint, which must exist, for s and for its job (deferred.c). s owns the
 * forks. Return 0 or ERR_MEMORY. Any thread. */
int constraint_open(struct seq *s, struct err *e);
/* Close the constraint of s and cancel its job. The function has no effect if s has no
 * constraint. */
void constraint_close(struct seq *s);
/* Make the masks of running sequences before the step is planned. A mask that exceeds the work of a
 * step needs a job (deferred.c). Return true if a job made progress on this thread. */
bool constraint_prepare(struct engine *en);
/* Make the mask of s, which was admitted. Return false if the mask needs a job in the next step. */
bool constraint_admit(const struct engine *en, struct seq *s);
/* Return true if s must not have rows in this step, because a job may be using the constraint of
 * s. */
bool constraint_waits(const struct engine *en, const struct seq *s);
/* Accept the token in the constraint of s. Return false if the constraint failed; true if s has no
 * constraint. */
bool constraint_accept(struct seq *s, int32_t token);
/* Return the cause of a failure of the constraint of s. */
enum cause constraint_cause(const struct seq *s);
/* Return true if the request's lists, or min_tokens with stop token ids, forbid tokens that a text
 * may contain. The model's end tokens do not count, because no text contains them. */
bool constraint_lists_forbid(const struct group *g);
/* Copy the state of the constraint of `from`, another sequence of the group. */
void constraint_follow(struct seq *s, const struct seq *from);
/* Fill the masks of the sequences in v [n] that pick in this step. */
void constraint_masks(struct engine *en, struct seq **v, int n);
/* Return true if the mask before pick i failed. */
bool constraint_lacks(const struct seq *s, int i);
/* Return true if pick i > 0 is deferred to the next step, because its mask may exceed the work of
 * this step. */
bool constraint_defers(const struct seq *s, int i);
/* Return the mask before pick i, u32 [s->n_mask_word]; NULL if s has no constraint. */
const uint32_t *constraint_mask(const struct seq *s, int i);
/* Return a mask of token alone, u32 [s->n_mask_word], in the memory of mask 0. */
const uint32_t *constraint_mask_of(const struct seq *s, int32_t token);
/* Set token i32 [n] to the tokens that must come next. Return the number of tokens, in [0, n]. */
int constraint_forced(struct engine *en, const struct seq *s, int32_t *token, int n);
/* Return the number of leading tokens of token i32 [n] that are allowed one after the other. */
int constraint_allows(struct seq *s, const int32_t *token, int n);

/* ---- deferred.c ---- */

struct mask_job;
/* Open the list of deferred masks. n_max: maximum number of jobs in it. inbox is borrowed until
 * deferred_close, which the caller calls also after ERR_MEMORY. */
int deferred_open(struct deferred **out, int n_max, struct queue *inbox, struct err *e);
void deferred_close(struct deferred *w); /* close w; NULL is allowed */
/* Start the mask thread. Return false with errno if the thread cannot start. The thread that steps
 * the engine, or the thread of engine_start, calls this function. */
bool deferred_start(struct deferred *w);
/* Open a job for a sequence, with a fork of c, a mask of n_mask_word words and room for an output
 * of n_text_max tokens. Add the bytes of the job to *n_byte. The caller owns *out, also after
 * ERR_MEMORY. Any thread. */
int deferred_job_open(struct mask_job **out, const struct constraint *c, size_t n_mask_word,
                      size_t n_text_max, int64_t *n_byte, struct err *e);
void deferred_job_close(struct mask_job *j); /* close an idle job; NULL is allowed */
/* Return true if there is no place for another job. */
bool deferred_full(const struct engine *en);
/* Make the mask of s by its idle job. The list of jobs must have a place. */
void deferred_put(struct engine *en, struct seq *s);
/* Move the finished masks to their sequences. Return true if this call made progress on a job. */
bool deferred_collect(struct engine *en);
/* Return true if a job uses `shared` of a constraint. */
bool deferred_uses(const struct engine *en, const void *shared);
void deferred_cancel(struct mask_job *j); /* cancel j, whose sequence ends; NULL is allowed */

/* ---- draft.c ---- */

/* Plan rows of draft tokens in the remaining room of the step. Preempt no sequence. */
void draft_plan(struct engine *en);

/* ---- emit.c ---- */

/* Return the number of events for which the reply queue of g has room in this step. */
int emit_room(const struct group *g);
/* Return the number of events that n_prompt_out prompt results and n_pick picks will make. */
int emit_events(const struct seq *s, int n_prompt_out, int n_pick);
/* Return the share of emit_room of each live sequence in the group of s. */
int emit_part(const struct seq *s);
/* Return true if each token that s picks needs logits. */
bool emit_needs_logits(const struct seq *s);
/* Pick the tokens of the step from its results, and emit the tokens. out: results of forward. */
void sample_rows(struct engine *en, struct model_out out);
/* Emit EVENT_CHOICE of s, which has ended. */
void emit_choice(const struct engine *en, const struct seq *s);
/* Emit the answers of g for which its queue has room. Return true if all answers are emitted. */
bool emit_answers(const struct engine *en, struct group *g);
/* Emit EVENT_DONE of g, and count its answer. */
void emit_done(struct engine *en, const struct group *g);
void emit_count(struct engine *en, struct seq *s); /* count a generated token */
/* Pick a token of s by logits f32 [n_vocab], and emit it. mask u32 [s->n_mask_word] has the allowed
 * tokens; NULL: all tokens. */
void emit_pick(struct engine *en, struct seq *s, const float *logits, const uint32_t *mask);
/* Pick the tokens that are forced after the pick of s. */
void emit_forced(struct engine *en, struct seq *s);
/* Return true if the token ends a choice of r. */
bool emit_is_stop(const struct engine *en, const struct request *r, int32_t id);

/* ---- record.c: events for a trace ---- */

/* Open the trace of o. The function has no effect if o has no path. Return ERR_IO if the file
 * cannot be opened or written, or ERR_MEMORY. */
int record_open(struct engine *en, const struct engine_options *o, struct err *e);
/* Close the trace, also after a failure of record_open. */
void record_close(struct engine *en);
void record_wait(struct engine *en, struct seq *s); /* record that s starts to wait */
/* Record the end of the wait of s, which then runs or is done. */
void record_wait_end(struct engine *en, const struct seq *s);
/* Record that s begins to run, and take a lane for it. */
void record_run(struct engine *en, struct seq *s);
/* Record the end of the run of s, which is then done or waiting. */
void record_run_end(struct engine *en, struct seq *s);
/* Record that the rows of s in this step are computed. */
void record_rows(struct engine *en, struct seq *s);
/* Record the end of the request of g. done: its last event. */
void record_done(struct engine *en, const struct group *g, const struct event *done);
/* Record the end of a step. b: NULL if nothing was computed. */
void record_step(struct engine *en, const struct batch *b, const struct stats_level *l);

/* ---- pooling.c ---- */

/* Validate the pooling of r. Return ERR_UNSUPPORTED if the model returns no hidden states. */
int pooling_check(const struct engine *en, const struct request *r, struct err *e);
/* Allocate the sum of g for pooling. Return false if memory is exhausted. */
bool pooling_open(struct group *g, const struct engine *en);
/* Add a row of s. hidden: f32 [d_hidden] of the row at pos, which is the next wanted row. */
void pooling_row(const struct engine *en, struct seq *s, int pos, const float *hidden);

/* ---- beam.c ---- */

/* Validate the beam search of r. Return ERR_LIMIT if the beams do not fit together. Any thread. */
int beam_check(const struct engine *en, const struct request *r, struct err *e);
/* Open the beam search of g. Return false if memory is exhausted. */
bool beam_open(struct group *g, const struct engine *en);
/* Store the best continuations of s. logits: f32 [n_vocab] after its last token. */
void beam_pick(struct engine *en, struct seq *s, const float *logits);
/* Advance every group whose beams all have their continuations. */
void beam_advance(struct engine *en);

#endif
