/* engine.c - the loop, its thread, and the door for requests. */
#include "engine_impl.h"

#include "base/cpu.h"
#include "base/log.h"
#include "base/os.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum { QUEUE_MAX = 1024 };

int64_t engine_now(const struct engine *en)
{
    return en->executor.now_us(en->executor.ctx);
}

/* ---- the loop ---- */

static void take_message(struct engine *en, const struct message *m)
{
    switch (m->kind) {
    case MESSAGE_SUBMIT:
        sched_submit(en, m->group);
        break;
    case MESSAGE_CANCEL:
        sched_cancel(en, m->request_id, m->choice);
        break;
    case MESSAGE_FORGET:
        pages_forget(en->pages);
        break;
    }
}

static void inbox_drain(struct engine *en)
{
    struct message m;
    while (queue_pop(en->inbox, &m, 0)) take_message(en, &m);
}

/* The step is over; b NULL: it computed nothing. */
static void tell_step(struct engine *en, const struct batch *b)
{
    int n_page = pages_n_total(en->pages);
    struct stats_level l = {.n_running = en->n_running,
                            .n_waiting = en->waiting.n,
                            .deferred = en->plan.deferred,
                            .n_page_held = n_page - pages_n_free(en->pages),
                            .n_page_cached = pages_n_cached(en->pages)};
    record_step(en, b, &l);
    stats_step(en->stats, b, &l);
}

bool engine_step(struct engine *en)
{
    en->now_us = engine_now(en);
    stats_begin(en->stats, en->now_us);
    pages_now(en->pages, en->now_us);
    inbox_drain(en);
    bool some = sched_next(en); /* answers may have been told, and nothing to compute */
    if (en->batch.n_row == 0 && en->batch.n_copy == 0) return tell_step(en, NULL), some;
    stats_lap(en->stats, engine_now(en));
    struct model_out out = en->executor.forward(en->executor.ctx, &en->batch);
    stats_lap(en->stats, engine_now(en));
    sample_rows(en, out);
    stats_lap(en->stats, engine_now(en));
    sched_commit(en);
    stats_lap(en->stats, engine_now(en));
    tell_step(en, &en->batch);
    budget_told(&en->budget, &en->load, engine_now(en) - en->now_us);
    assert(!en->check || !engine_check(en));
    return true;
}

static void *engine_main(void *arg)
{
    struct engine *en = arg;
    cpu_float_canonical();
    while (!atomic_load(&en->quit)) {
        if (engine_step(en)) continue;
        /* Nothing to compute: wait for a message, for a client to read its replies, or for a policy
         * that lets requests wait. */
        struct message m;
        if (queue_pop(en->inbox, &m, en->groups ? 1000 : -1)) take_message(en, &m);
    }
    return NULL;
}

int engine_start(struct engine *en, struct err *e)
{
    if (pthread_create(&en->thread, NULL, engine_main, en) != 0)
        return err_set(e, ERR_MEMORY, "cannot start the engine thread");
    en->started = true;
    return 0;
}

/* ---- open and close ---- */

static int read_eog(struct engine *en, struct err *e)
{
    int n_vocab = en->executor.n_vocab, n = 0;
    int n_token = en->tokenizer ? tokenizer_n_vocab(en->tokenizer) : 0;
    for (int id = 0; id < n_token && id < n_vocab; id++) n += tokenizer_is_eog(en->tokenizer, id);
    en->eog = calloc((size_t)n + 1, sizeof *en->eog);
    if (!en->eog)
        return err_memory(e, "the list of end tokens", (unsigned long long)n * sizeof *en->eog);
    for (int id = 0; id < n_token && id < n_vocab; id++)
        if (tokenizer_is_eog(en->tokenizer, id)) en->eog[en->vocab.n_eog++] = id;
    en->vocab.eog = en->eog;
    en->vocab.n_vocab = n_vocab;
    return 0;
}

static int open_stats(struct engine *en, const struct engine_options *o, struct err *e)
{
    const struct executor *x = &o->executor;
    struct stats_options so = {.model_name = x->name,
                               .kv_type = x->kv_type,
                               .context_max = x->context_max,
                               .page_rows = x->page_rows,
                               .n_page = x->n_page,
                               .prefix_cache = !o->no_prefix_cache,
                               .cost = x->cost};
    int rc = stats_open(&en->stats, &so, e);
    if (rc == 0)
        pages_watch(en->pages, &(struct page_watch){.ctx = en->stats,
                                                    .evicted = stats_page_evicted,
                                                    .found = stats_page_found});
    return rc;
}

static const char *token_bytes(const void *tokenizer, int32_t id, size_t *n)
{
    return tokenizer_bytes(tokenizer, id, n);
}

static int open_lists(struct engine *en, struct err *e)
{
    size_t n = (size_t)en->executor.limits->n_seq;
    en->running = calloc(n, sizeof *en->running);
    en->table = calloc(n, sizeof *en->table);
    en->n_table = calloc(n, sizeof *en->n_table);
    if (en->running && en->table && en->n_table) return 0;
    return err_memory(e, "the list of running sequences", n * 24);
}

int engine_open(struct engine **out, const struct engine_options *o, struct err *e)
{
    *out = NULL;
    struct engine *en = calloc(1, sizeof *en);
    if (!en) return err_memory(e, "the engine", sizeof *en);
    const struct executor *x = &o->executor;
    en->executor = *x;
    en->tokenizer = o->tokenizer;
    en->queue_max = o->queue_max ? o->queue_max : QUEUE_MAX;
    en->byte_max = o->byte_max;
    en->keep_prefixes = !o->no_prefix_cache;
    en->check = o->check;
    en->prefill_rate = x->prefill_rate > 0 ? x->prefill_rate : 1e-4;
    int rc = read_eog(en, e);
    if (o->tokenizer) {
        en->vocab.tokenizer = o->tokenizer;
        en->vocab.bytes = token_bytes;
    }
    if (rc == 0) rc = pages_open(&en->pages, x->n_page, x->page_rows, !o->no_prefix_cache, e);
    if (rc == 0) rc = spill_open(&en->spill, x->n_host_page, e);
    if (rc == 0) rc = open_lists(en, e);
    if (rc == 0) rc = batch_open(&en->batch, x->limits, e);
    if (rc == 0) rc = sample_work_open(&en->work, x->n_vocab, o->cpu_level, e);
    if (rc == 0) rc = open_stats(en, o, e);
    if (rc == 0) rc = record_open(en, o, e);
    budget_init(&en->budget, &(struct budget_options){.target_us = o->itl_target_ms * 1e3,
                                                      .multiple = o->itl_multiple,
                                                      .most = o->itl_most,
                                                      .least_us = o->itl_least_ms * 1e3});
    struct policy_options po = {.name = o->scheduler,
                                .n_seq = x->limits->n_seq,
                                .starvation_us = o->starvation_us,
                                .window_us = o->window_us};
    if (rc == 0) rc = policy_open(&en->policy, &po, e);
    en->inbox = queue_open((size_t)en->queue_max * 2, sizeof(struct message));
    if (rc == 0 && !en->inbox)
        rc = err_memory(e, "the engine's inbox", (unsigned long long)en->queue_max * 48);
    if (rc != 0) {
        engine_close(en);
        return rc;
    }
    *out = en;
    return 0;
}

int64_t engine_bytes(const struct executor *x, int queue_max)
{
    const struct batch_limits *l = x->limits;
    if (queue_max == 0) queue_max = QUEUE_MAX;
    int64_t page = pages_bytes(x->n_page, x->page_rows) + 5 * (int64_t)x->n_host_page;
    int64_t row = 5 * (int64_t)sizeof(int32_t) * l->n_row;
    int64_t seq = l->n_seq * (4 * (int64_t)sizeof(int32_t) + 24 + 4 * (int64_t)l->page_stride);
    int64_t queue = 2 * (int64_t)queue_max * (int64_t)sizeof(struct message);
    return page + row + seq + queue + (int64_t)sizeof(struct batch_copy) * l->n_copy +
           7 * (int64_t)sizeof(float) * x->n_vocab;
}

static void drop_all(struct engine *en)
{
    while (en->groups) {
        struct group *g = en->groups;
        en->groups = g->next;
        for (int i = 0; i < g->n_seq; i++) {
            if (g->seq[i].state == SEQ_RUNNING || g->seq[i].state == SEQ_WAITING)
                policy_leave(en->policy, &g->seq[i].turn);
            hold_drop(en, &g->seq[i]);
        }
        group_close(g);
    }
}

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
    drop_all(en);
    record_close(en);
    queue_close(en->inbox);
    sample_work_close(en->work);
    batch_close(&en->batch);
    policy_close(en->policy);
    stats_close(en->stats);
    pages_close(en->pages);
    spill_close(&en->spill);
    free(en->running);
    free(en->table);
    free(en->n_table);
    free(en->eog);
    free(en);
}

/* ---- the door ---- */

static int refused(struct engine *en, int rc)
{
    stats_refused(en->stats, rc == ERR_LIMIT ? STAT_refused_long : STAT_refused_full);
    return rc;
}

static int check_request(const struct engine *en, const struct request *r, struct err *e)
{
    const int n_vocab = en->executor.n_vocab;
    if (r->prompt.n == 0) return err_set(e, ERR_ARG, "prompt: it has no tokens");
    if (r->max_tokens < 0) return err_set(e, ERR_ARG, "max_tokens: %d is negative", r->max_tokens);
    for (size_t i = 0; i < r->prompt.n; i++)
        if (r->prompt.v[i] < 0 || r->prompt.v[i] >= n_vocab)
            return err_set(e, ERR_ARG, "prompt: token %d is not in the vocabulary of %d",
                           r->prompt.v[i], n_vocab);
    if (r->n_prompt_logprob > TOP_LOGPROB_MAX || r->params.n_logprob > TOP_LOGPROB_MAX)
        return err_set(e, ERR_ARG, "logprobs: %d is above the limit of %d",
                       r->n_prompt_logprob > r->params.n_logprob ? r->n_prompt_logprob
                                                                 : r->params.n_logprob,
                       TOP_LOGPROB_MAX);
    return sample_params_check(&r->params, n_vocab, e);
}

/* The longest a request may become; what it asked beyond that is cut, as OpenAI's servers do. */
static int fit_length(const struct engine *en, struct request *r, struct err *e)
{
    const struct executor *x = &en->executor;
    int64_t most = x->context_max, pool = (int64_t)x->n_page * x->page_rows;
    if (hold_least(en, (int)most) > x->n_page) most = pool;
    if ((int64_t)r->prompt.n + (r->max_tokens > 0) > most)
        return err_set(e, ERR_LIMIT,
                       "prompt: %zu tokens do not fit into the %s of %lld tokens (raise "
                       "--max-model-len%s, or shorten the prompt)",
                       r->prompt.n, most < x->context_max ? "KV cache" : "context", (long long)most,
                       most < x->context_max ? " and --kv-cache-memory" : "");
    if (r->max_tokens > most - (int64_t)r->prompt.n)
        r->max_tokens = (int)(most - (int64_t)r->prompt.n);
    return 0;
}

static int check_choices(const struct request *r, struct err *e)
{
    if (r->n < 1 || r->n > CHOICES_MAX)
        return err_set(e, ERR_ARG, "n: %d is not from 1 to %d", r->n, CHOICES_MAX);
    if (r->best_of != 0 && (r->best_of < r->n || r->best_of > CHOICES_MAX))
        return err_set(e, ERR_ARG, "best_of: %d is not from n = %d to %d", r->best_of, r->n,
                       CHOICES_MAX);
    if (r->deadline_us < 0)
        return err_set(e, ERR_ARG, "timeout: %lld us is negative", (long long)r->deadline_us);
    if (!(r->share_weight >= SHARE_WEIGHT_MIN && r->share_weight <= SHARE_WEIGHT_MAX))
        return err_set(e, ERR_ARG, "share weight: %g is not from %g to %g", r->share_weight,
                       SHARE_WEIGHT_MIN, SHARE_WEIGHT_MAX);
    return 0;
}

static int check_all(const struct engine *en, struct request *r, struct err *e)
{
    int rc = check_request(en, r, e);
    if (rc == 0) rc = check_choices(r, e);
    if (rc == 0) rc = fit_length(en, r, e);
    if (rc == 0 && r->beam_width) rc = beam_check(en, r, e);
    if (rc == 0 && r->pooling) rc = pooling_check(en, r, e);
    return rc;
}

int engine_may_take(struct engine *en, struct request *r, struct err *e)
{
    int rc = check_all(en, r, e);
    return rc == ERR_LIMIT ? refused(en, rc) : rc;
}

/* There is no room for r now; rc says so. */
static int full(struct engine *en, const struct request *r, int rc)
{
    return r->patient ? rc : refused(en, rc);
}

static int memory_full(struct engine *en, const struct request *r, struct err *e)
{
    return full(
        en, r,
        err_set(e, ERR_BUSY,
                "the requests that were taken hold the %lld MiB that they may; try again later",
                (long long)en->byte_max >> 20));
}

/* The sequences of r, if what all requests hold stays within the limit. */
static int open_group(struct group **out, struct engine *en, struct request *r, struct err *e)
{
    int64_t held = atomic_load(&en->n_byte), most = en->byte_max;
    if (most && held >= most) return memory_full(en, r, e);
    int rc = group_open(out, en, r, most ? most - held : 0, e);
    if (rc == ERR_LIMIT) return held ? memory_full(en, r, e) : refused(en, rc);
    if (rc == 0) atomic_fetch_add(&en->n_byte, (*out)->n_byte);
    return rc;
}

int engine_reserve(struct engine *en, int64_t n_byte, struct err *e)
{
    int64_t most = en->byte_max / 4;
    int64_t held = atomic_fetch_add(&en->n_byte_reserved, n_byte);
    if (!most || held + n_byte <= most) return 0;
    atomic_fetch_sub(&en->n_byte_reserved, n_byte);
    if (n_byte > most)
        return refused(en, err_set(e, ERR_LIMIT, "n: so many answers take %lld MiB, and there are %lld for all requests",
                                   (long long)n_byte >> 20, (long long)most >> 20));
    return refused(en, err_set(e, ERR_BUSY, "the answers of the requests that were taken hold %lld of %lld MiB; try again later",
                               (long long)held >> 20, (long long)most >> 20));
}

void engine_unreserve(struct engine *en, int64_t n_byte)
{
    if (n_byte) atomic_fetch_sub(&en->n_byte_reserved, n_byte);
}

/* Into the inbox. It counts as open before anybody asks whether the engine is being stopped, and engine_drain goes the
 * other way round, so one of the two sees the other. */
static int enqueue(struct engine *en, struct group *g, struct err *e)
{
    int rc = 0;
    atomic_fetch_add(&en->n_open, 1);
    bool fits = atomic_fetch_add(&en->n_queued, 1) < en->queue_max;
    if (atomic_load(&en->draining))
        rc = err_set(e, ERR_BUSY, "the engine takes no more requests: it is being stopped");
    else if (!fits || !queue_push(en->inbox, &(struct message){.kind = MESSAGE_SUBMIT, .group = g}))
        rc = full(en, g->request,
                  err_set(e, ERR_BUSY, "the queue of %d requests is full; try again later",
                          en->queue_max));
    if (rc == 0) return 0;
    atomic_fetch_sub(&en->n_queued, 1);
    atomic_fetch_sub(&en->n_open, 1);
    atomic_fetch_sub(&en->n_byte, g->n_byte);
    g->request = NULL; /* stays the caller's */
    group_close(g);
    return rc;
}

int engine_submit(struct engine *en, struct request *take_r, struct err *e)
{
    struct request *r = take_r;
    struct group *g;
    int rc = engine_may_take(en, r, e);
    if (rc == ERR_LIMIT) return rc;
    if (rc == 0 && !r->params.seeded) r->params.seed = (uint64_t)time_wall_us() ^ r->id << 48;
    if (rc == 0) rc = open_group(&g, en, r, e);
    if (rc != 0) return rc;
    r->submit_us = engine_now(en);
    return enqueue(en, g, e);
}

/* Something that has no answer; the inbox is drained every step. */
static void tell(struct engine *en, const struct message *m)
{
    while (!queue_push(en->inbox, m) && !atomic_load(&en->quit)) sched_yield();
}

void engine_cancel_choice(struct engine *en, uint64_t request_id, int choice)
{
    tell(en, &(struct message){.kind = MESSAGE_CANCEL, .request_id = request_id, .choice = choice});
}

void engine_cancel(struct engine *en, uint64_t request_id)
{
    engine_cancel_choice(en, request_id, -1);
}

void engine_forget_prefixes(struct engine *en)
{
    tell(en, &(struct message){.kind = MESSAGE_FORGET});
}

bool engine_drain(struct engine *en, int64_t wait_us)
{
    atomic_store(&en->draining, true);
    int64_t until = time_us() + wait_us;
    while (atomic_load(&en->n_open) > 0) {
        if (wait_us >= 0 && time_us() >= until) return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    return true;
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
