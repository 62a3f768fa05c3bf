/* engine_impl.h - private to src/engine: sequences and the engine's state. Engine thread only. */
#ifndef QUOTH_ENGINE_IMPL_H
#define QUOTH_ENGINE_IMPL_H

#include "budget.h"
#include "engine.h"
#include "policy.h"

#include <pthread.h>
#include <stdatomic.h>

/* A sequence being generated.
 *
 *   WAITING --sched: pages for its whole length--> RUNNING --seq_finish--> (gone)
 *      \____________________ cancel ___________________________/
 *
 * (1) n_kv <= n_token: K and V of positions [0, n_kv) are in pages; tokens [0, n_token) are known.
 * (2) RUNNING: page[] covers every position it may ever reach, so that it never waits for memory.
 * (3) n_token - n_kv is 1 while decoding, more while prefilling.
 * (4) Pages [0, n_sealed) are full and sealed: shared with whoever has the same prefix, and never
 *     written again. */
enum seq_state { SEQ_WAITING, SEQ_RUNNING };

struct seq {
    struct request *request; /* owned */
    enum seq_state state;
    struct turn turn; /* its place among the others */
    int n_prompt, n_token, n_kv;
    int n_output;   /* generated so far            */
    int32_t *token; /* owned [n_token_max]         */
    int n_token_max;
    int32_t *page; /* owned [n_page]              */
    int n_page;
    int n_sealed, n_cached; /* pages sealed, or found sealed; tokens found in the cache */
    uint64_t name;          /* of the last sealed page */
    int row0, n_row;        /* rows of this step's batch   */
    int out0, n_out;        /* its outputs of this step    */
    enum finish finish;     /* set: seq_finish at the step's end */
    int32_t stop_id;
    int64_t sched_us, first_us, last_us;
    struct seq *next; /* in its list, oldest first   */
};

struct seq_list {
    struct seq *head, **tail;
    int n;
};

enum message_kind { MESSAGE_SUBMIT, MESSAGE_CANCEL };
struct message {
    enum message_kind kind;
    struct request *request; /* SUBMIT: owned */
    uint64_t request_id;     /* CANCEL */
};

struct engine {
    struct executor executor;
    const struct tokenizer *tokenizer;
    struct pages *pages;   /* owned */
    struct policy *policy; /* owned */
    struct stats *stats;   /* owned */
    struct budget budget;  /* rows that prompts get beside decodes */
    struct step_load load; /* of the step in the batch             */
    uint64_t n_arrived;
    int64_t now_us;            /* at the step's beginning */
    struct batch batch;        /* owned */
    struct sample_work *work;  /* owned */
    struct sample_vocab vocab; /* eog owned */
    int32_t *eog;
    struct queue *inbox; /* owned, of struct message */
    struct seq_list waiting, running;
    int queue_max;
    _Atomic int n_queued; /* submitted and not yet running */
    pthread_t thread;
    bool started;
    _Atomic bool quit;
};

void list_push(struct seq_list *l, struct seq *s);
void list_remove(struct seq_list *l, struct seq **at);

int64_t engine_now(const struct engine *en);

/* sched.c: pages and rows */
void sched_submit(struct engine *en, struct request *take_r);
void sched_cancel(struct engine *en, uint64_t request_id);
bool sched_next(struct engine *en);         /* fills en->batch; false: nothing to compute */
void sched_commit(struct engine *en);       /* after the step's events are out            */
bool sched_defers(const struct engine *en); /* who waits waits for the policy, not for room */

/* emit.c: results -> events */
int emit_room(const struct seq *s); /* events its reply queue can still take */
void sample_rows(struct engine *en, struct model_out out);
void emit_done(const struct engine *en, struct seq *s);

struct seq *seq_open(struct request *take_r);
void seq_close(struct seq *s, struct pages *p); /* drops its pages */
int seq_len_max(const struct seq *s);           /* tokens it may reach */

#endif
