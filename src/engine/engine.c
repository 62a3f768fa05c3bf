/* engine.c - the loop, its thread, opening and closing. submit.c has the functions for clients. */
#include "engine_impl.h"

#include "base/check.h"
#include "base/cpu.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

/* default number of waiting requests */
enum { QUEUE_MAX = 1024 };
/* Rows per microsecond of prompts until the first measurement: a sixth of llama-1b's 590 tokens/s
 * (docs/measurements.md). The rate only determines the kind of preemption. */
static const double PREFILL_RATE = 1e-4;

int64_t engine_now(const struct engine *en)
{
    return en->executor.now_us(en->executor.ctx);
}

/* ---- the loop ---- */

/* Handle a message of the inbox. MESSAGE_MASK only wakes the engine, because constraint_prepare
 * collects the finished mask. */
static void take_message(struct engine *en, const struct message *m)
{
    switch (m->kind) {
    case MESSAGE_SUBMIT:
        group_submit(en, m->group);
        break;
    case MESSAGE_CANCEL:
        group_cancel(en, m->request_id, m->choice);
        break;
    case MESSAGE_MASK:
        break;
    case MESSAGE_RESET_PREFIX_CACHE:
        pages_clear(en->pages);
        if (en->states) pages_clear(en->states);
        break;
    }
}

static void inbox_drain(struct engine *en)
{
    struct message m;
    while (queue_pop(en->inbox, &m, 0)) take_message(en, &m);
}

/* Return true if sched_next found rows or copies for this step. */
static bool has_work(const struct engine *en)
{
    return en->batch.n_row > 0 || en->batch.n_copy > 0;
}

/* Run the model. The end of the lap separates the time of the model from the time of the engine. */
static struct model_out forward(struct engine *en)
{
    struct model_out out = en->executor.forward(en->executor.ctx, &en->batch);
    step_lap(en);
    return out;
}

/* Run one iteration. Return false if there was no work, so that the caller may wait for a message.
 * A step without work does not count in the statistics. */
bool engine_step(struct engine *en)
{
    step_begin(en);
    inbox_drain(en);
    bool progress = sched_next(en);
    if (!has_work(en)) return step_skip(en), progress;
    step_planned(en);
    struct model_out out = forward(en);
    sample_rows(en, out);
    sched_commit(en);
    step_end(en);
    return true;
}

/* Run steps until engine_close. The engine waits for its inbox only. The engine wakes each
 * millisecond while groups exist, because no message reports the reading of replies. */
static void *engine_main(void *arg)
{
    struct engine *en = arg;
    cpu_float_canonical();
    while (!atomic_load(&en->quit)) {
        if (engine_step(en)) continue;
        /* There is nothing to compute. Wait for a message, for a client that reads its replies, or
         * for the end of the policy's delay. */
        struct message m;
        if (queue_pop(en->inbox, &m, en->groups ? 1000 : -1)) take_message(en, &m);
    }
    return NULL;
}

int engine_start(struct engine *en, struct err *e)
{
    CHECK(!en->started, "the engine already runs, with %d sequences", en->n_running);
    if (!deferred_start(en->deferred)) return os_thread_error("the mask thread", e);
    en->started = os_thread_start(&en->thread, engine_main, en);
    if (en->started) return 0;
    return os_thread_error("the engine thread", e);
}

/* ---- open and close ---- */

static const char *token_bytes(const void *tokenizer, int32_t id, size_t *n)
{
    return tokenizer_bytes(tokenizer, id, n);
}

/* Set the vocabulary of samplers: its end-of-generation ids, and the bytes of its tokens. */
static int open_vocab(struct engine *en, struct err *e)
{
    int n_vocab = en->executor.n_vocab;
    en->eog = tokenizer_eog_detach(en->tokenizer, n_vocab, &en->vocab.n_eog);
    if (!en->eog)
        return err_memory(e, "the list of end tokens",
                          (unsigned long long)en->vocab.n_eog * sizeof *en->eog);
    en->vocab.eog = en->eog;
    en->vocab.n_vocab = n_vocab;
    en->vocab.tokenizer = en->tokenizer;
    en->vocab.bytes = en->tokenizer ? token_bytes : NULL;
    en->flat = calloc((size_t)n_vocab, sizeof *en->flat);
    return en->flat ? 0 : err_memory(e, "logits", (size_t)n_vocab * sizeof *en->flat);
}

static void page_evicted(void *en, int64_t life_us, int64_t idle_us)
{
    stats_page_evicted(((struct engine *)en)->stats, life_us, idle_us);
}

static void page_found(void *en, int64_t gap_us)
{
    stats_page_found(((struct engine *)en)->stats, gap_us);
}

static int open_stats(struct engine *en, const struct engine_options *o, struct err *e)
{
    const struct executor *x = &o->executor;
    struct stats_options so = {.model_name = x->name,
                               .kv_type = x->kv_type,
                               .context_max = x->context_max,
                               .page_rows = x->page_rows,
                               .n_page = x->n_page,
                               .n_page_longest = hold_least(en, x->context_max),
                               .prefix_cache = en->keep_prefixes,
                               .cost = x->cost};
    int rc = stats_open(&en->stats, &so, e);
    if (rc == 0)
        pages_watch(en->pages, &(struct page_watch){.ctx = en,
                                                    .evicted = page_evicted,
                                                    .found = page_found,
                                                    .gone = state_page_gone});
    return rc;
}

/* Return the number of bytes of the lists that open_lists allocates for one sequence. `en` is used
 * only in sizeof, which does not evaluate its operand. */
static int64_t list_bytes(void)
{
    const struct engine *en = NULL;
    return sizeof *en->running + sizeof *en->order + sizeof *en->constrained + sizeof *en->table +
           sizeof *en->n_table;
}

static int open_lists(struct engine *en, struct err *e)
{
    size_t n = (size_t)en->executor.limits->n_seq;
    en->running = calloc(n, sizeof *en->running);
    en->order = calloc(n, sizeof *en->order);
    en->constrained = calloc(n, sizeof *en->constrained);
    en->table = calloc(n, sizeof *en->table);
    en->n_table = calloc(n, sizeof *en->n_table);
    if (en->running && en->order && en->constrained && en->table && en->n_table) return 0;
    return err_memory(e, "the list of running sequences", n * (size_t)list_bytes());
}

static int open_states(struct engine *en, const struct engine_options *o, struct err *e)
{
    const struct executor *x = &o->executor;
    if (x->limits->n_state < states_least(1))
        return err_set(e, ERR_LIMIT,
                       "n_state: must be at least %d, the states of a sequence, got %d",
                       states_least(1), x->limits->n_state);
    int rc = pages_open(&en->states, x->limits->n_state, x->page_rows, en->keep_prefixes, e);
    return rc ? rc : spill_open(&en->state_spill, x->n_host_state, e);
}

/* Return the capacity of the inbox: submissions, and as many other messages. */
static size_t inbox_max(int queue_max)
{
    return 2 * (size_t)queue_max;
}

static int64_t inbox_bytes(int queue_max)
{
    return (int64_t)(inbox_max(queue_max) * sizeof(struct message));
}

static int open_policy(struct engine *en, const struct engine_options *o, struct err *e)
{
    struct policy_options po = {.name = o->scheduler,
                                .n_seq = o->executor.limits->n_seq,
                                .starvation_us = o->starvation_us,
                                .window_us = o->window_us,
                                .window_min = o->window_min,
                                .window_max = o->window_max,
                                .slice_tokens = o->slice_tokens};
    budget_init(&en->budget, &(struct budget_options){.target_us = o->itl_target_ms * 1e3,
                                                      .multiple = o->itl_multiple,
                                                      .multiple_max = o->itl_multiple_max,
                                                      .us_min = o->itl_ms_min * 1e3});
    return policy_open(&en->policy, &po, e);
}

/* Open the door, the inbox, and the deferred masks, whose jobs send messages to the inbox. */
static int open_door(struct engine *en, const struct engine_options *o, struct err *e)
{
    int n_seq = o->executor.limits->n_seq;
    struct door_options d = {.queue_max = o->queue_max ? o->queue_max : QUEUE_MAX,
                             .queue_retry_max = n_seq,
                             .bytes_max = o->bytes_max};
    int rc = door_open(&en->door, &d, e);
    if (rc != 0) return rc;
    en->inbox = queue_open(inbox_max(d.queue_max), sizeof(struct message));
    if (!en->inbox)
        return err_memory(e, "the engine's inbox", (unsigned long long)inbox_bytes(d.queue_max));
    return deferred_open(&en->deferred, 2 * n_seq, en->inbox, e);
}

/* Open the pools of pages and of states. */
static int open_pages(struct engine *en, const struct engine_options *o, struct err *e)
{
    const struct executor *x = &o->executor;
    int rc = pages_open(&en->pages, x->n_page, x->page_rows, en->keep_prefixes, e);
    if (rc == 0) rc = spill_open(&en->spill, x->n_host_page, e);
    if (rc == 0 && x->limits->n_state) rc = open_states(en, o, e);
    return rc;
}

/* Allocate the scratch of a step, because a step must not allocate. */
static int open_step(struct engine *en, const struct engine_options *o, struct err *e)
{
    const struct executor *x = &o->executor;
    int rc = open_lists(en, e);
    if (rc == 0) rc = portion_open(en, e);
    if (rc == 0) rc = batch_open(&en->batch, x->limits, e);
    if (rc == 0) rc = sample_work_open(&en->work, x->n_vocab, o->cpu_level, e);
    return rc;
}

/* Return true if later requests may find the pages of earlier requests. Pages of rows that attend
 * to later rows cannot be found, because their K and V depend on the whole text. */
static bool keeps_prefixes(const struct engine_options *o)
{
    return !o->no_prefix_cache && !o->executor.whole && o->executor.n_start == 0;
}

/* Open the parts in the order of their dependencies. Statistics observe the pages, records need the
 * batch's limits, and deferred masks need the inbox. engine_close accepts an engine of which only
 * some parts are open. */
int engine_open(struct engine **out, const struct engine_options *o, struct err *e)
{
    const struct executor *x = &o->executor;
    CHECK(x->limits && x->limits->n_seq > 0 && x->forward && x->now_us && x->n_vocab > 0,
          "an executor of %d tokens", x->n_vocab);
    *out = NULL;
    struct engine *en = calloc(1, sizeof *en);
    if (!en) return err_memory(e, "the engine", sizeof *en);
    *en = (struct engine){.executor = o->executor,
                          .tokenizer = o->tokenizer,
                          .keep_prefixes = keeps_prefixes(o),
                          .prompt_max = o->prompt_max,
                          .drafter = o->drafter,
                          .no_jump_forward = o->no_jump_forward,
                          .check_period = step_check_period(o)};
    en->prefill_rate = o->executor.prefill_rate > 0 ? o->executor.prefill_rate : PREFILL_RATE;
    int rc = open_vocab(en, e);
    if (rc == 0) rc = open_pages(en, o, e);
    if (rc == 0) rc = open_step(en, o, e);
    if (rc == 0) rc = open_stats(en, o, e);
    if (rc == 0) rc = record_open(en, o, e);
    if (rc == 0) rc = open_policy(en, o, e);
    if (rc == 0) rc = open_door(en, o, e);
    if (rc != 0) {
        engine_close(en);
        return rc;
    }
    *out = en;
    return 0;
}

/* Add up the allocations in the order of the open_* functions. A new allocation in an open_*
 * function needs a term in this sum. */
int64_t engine_bytes(const struct executor *x, int queue_max)
{
    const struct batch_limits *l = x->limits;
    int64_t page = pages_bytes(x->n_page, x->page_rows) + spill_bytes(x->n_host_page);
    if (l->n_state) page += pages_bytes(l->n_state, x->page_rows) + spill_bytes(x->n_host_state);
    int64_t seq = l->n_seq * (list_bytes() + (int64_t)sizeof(struct portion));
    int64_t flat = (int64_t)sizeof(float) * x->n_vocab;
    return page + seq + flat + batch_bytes(l) + sample_work_bytes(x->n_vocab) +
           inbox_bytes(queue_max ? queue_max : QUEUE_MAX);
}

/* Free the groups that are still in the engine. Only running or waiting sequences are entities of
 * the policy. */
static void drop_all(struct engine *en)
{
    while (en->groups) {
        struct group *g = en->groups;
        en->groups = g->next;
        for (int i = 0; i < g->n_seq; i++) {
            if (g->seq[i].state == SEQ_RUNNING || g->seq[i].state == SEQ_WAITING)
                policy_leave(en->policy, &g->seq[i].entity);
            hold_drop(en, &g->seq[i]);
        }
        group_close(g);
    }
}

/* End the engine thread first, so that the other steps need no lock. deferred_close ends the mask
 * thread before the groups are freed. */
void engine_close(struct engine *en)
{
    if (!en) return;
    atomic_store(&en->quit, true);
    if (en->started) {
        queue_wake(en->inbox);
        pthread_join(en->thread, NULL);
    }
    struct message m;
    while (en->inbox && queue_pop(en->inbox, &m, 0))
        if (m.kind == MESSAGE_SUBMIT) group_close(m.group);
    deferred_close(en->deferred);
    drop_all(en);
    record_close(en);
    queue_close(en->inbox);
    door_close(&en->door);
    sample_work_close(en->work);
    batch_close(&en->batch);
    policy_close(en->policy);
    stats_close(en->stats);
    pages_close(en->pages);
    spill_close(&en->spill);
    pages_close(en->states);
    spill_close(&en->state_spill);
    portion_close(en);
    free(en->running);
    free(en->order);
    free(en->constrained);
    free(en->table);
    free(en->n_table);
    free(en->eog);
    free(en->flat);
    free(en);
}

/* ---- figures ---- */

int engine_seq_max(const struct engine *en)
{
    return en->executor.limits->n_seq;
}

int engine_n_running(const struct engine *en)
{
    return en->n_running;
}

int engine_n_waiting(const struct engine *en)
{
    return en->waiting.n;
}

struct stats *engine_stats(const struct engine *en)
{
    return en->stats;
}
