/* engine.c - the loop, its thread, and the door for requests. */
#include "engine_impl.h"

#include "base/cpu.h"
#include "base/log.h"
#include "base/os.h"

#include <assert.h>
#include <stdlib.h>

int64_t engine_now(const struct engine *en)
{
    return en->executor.now_us(en->executor.ctx);
}

/* ---- the loop ---- */

static void inbox_drain(struct engine *en)
{
    struct message m;
    while (queue_pop(en->inbox, &m, 0)) {
        if (m.kind == MESSAGE_SUBMIT)
            sched_submit(en, m.request);
        else
            sched_cancel(en, m.request_id);
    }
}

/* The step is over; b NULL: it computed nothing. */
static void tell_step(struct engine *en, const struct batch *b)
{
    int n_page = pages_n_total(en->pages);
    struct stats_level l = {.n_running = en->running.n,
                            .n_waiting = en->waiting.n,
                            .deferred = sched_defers(en),
                            .n_page_held = n_page - pages_n_free(en->pages),
                            .n_page_cached = pages_n_cached(en->pages)};
    stats_step(en->stats, b, &l);
}

bool engine_step(struct engine *en)
{
    en->now_us = engine_now(en);
    stats_begin(en->stats, en->now_us);
    inbox_drain(en);
    if (!sched_next(en)) return tell_step(en, NULL), false;
    stats_lap(en->stats, engine_now(en));
    struct model_out out = en->executor.forward(en->executor.ctx, &en->batch);
    stats_lap(en->stats, engine_now(en));
    sample_rows(en, out);
    stats_lap(en->stats, engine_now(en));
    sched_commit(en);
    stats_lap(en->stats, engine_now(en));
    tell_step(en, &en->batch);
    budget_told(&en->budget, &en->load, engine_now(en) - en->now_us);
    assert(!engine_check(en));
    return true;
}

static void *engine_main(void *arg)
{
    struct engine *en = arg;
    cpu_float_canonical();
    while (!atomic_load(&en->quit)) {
        if (engine_step(en)) continue;
        /* Nothing to compute: wait for a message, for a client to read its replies, or for a
         * policy that waits for its batch to fill. */
        struct message m;
        if (!queue_pop(en->inbox, &m, en->running.n + en->waiting.n ? 1000 : -1)) continue;
        if (m.kind == MESSAGE_SUBMIT)
            sched_submit(en, m.request);
        else
            sched_cancel(en, m.request_id);
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
    return stats_open(&en->stats, &so, e);
}

static const char *token_bytes(const void *tokenizer, int32_t id, size_t *n)
{
    return tokenizer_bytes(tokenizer, id, n);
}

int engine_open(struct engine **out, const struct engine_options *o, struct err *e)
{
    *out = NULL;
    struct engine *en = calloc(1, sizeof *en);
    if (!en) return err_memory(e, "the engine", sizeof *en);
    const struct executor *x = &o->executor;
    en->executor = *x;
    en->tokenizer = o->tokenizer;
    en->queue_max = o->queue_max ? o->queue_max : 1024;
    int rc = read_eog(en, e);
    if (o->tokenizer) {
        en->vocab.tokenizer = o->tokenizer;
        en->vocab.bytes = token_bytes;
    }
    if (rc == 0) rc = pages_open(&en->pages, x->n_page, x->page_rows, !o->no_prefix_cache, e);
    if (rc == 0) rc = batch_open(&en->batch, x->limits, e);
    if (rc == 0) rc = sample_work_open(&en->work, x->n_vocab, o->cpu_level, e);
    if (rc == 0) rc = open_stats(en, o, e);
    budget_init(&en->budget, &(struct budget_options){.target_us = o->itl_target_ms * 1e3,
                                                      .multiple = o->itl_multiple});
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

static void drop_all(struct seq_list *l, struct pages *p)
{
    while (l->head) {
        struct seq *s = l->head;
        list_remove(l, &l->head);
        seq_close(s, p);
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
        if (m.kind == MESSAGE_SUBMIT) request_close(m.request);
    drop_all(&en->waiting, en->pages);
    drop_all(&en->running, en->pages);
    queue_close(en->inbox);
    sample_work_close(en->work);
    batch_close(&en->batch);
    policy_close(en->policy);
    stats_close(en->stats);
    pages_close(en->pages);
    free(en->eog);
    free(en);
}

/* ---- the door ---- */

static int refused(struct engine *en, int rc)
{
    stats_refused(en->stats);
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
    int64_t most = (int64_t)x->n_page * x->page_rows;
    if (most > x->context_max) most = x->context_max;
    if ((int64_t)r->prompt.n + (r->max_tokens > 0) > most)
        return err_set(e, ERR_LIMIT,
                       "prompt: %zu tokens do not fit into the context of %lld tokens (raise "
                       "--max-model-len, or shorten the prompt)",
                       r->prompt.n, (long long)most);
    if (r->max_tokens > most - (int64_t)r->prompt.n)
        r->max_tokens = (int)(most - (int64_t)r->prompt.n);
    return 0;
}

int engine_submit(struct engine *en, struct request *take_r, struct err *e)
{
    struct request *r = take_r;
    int rc = check_request(en, r, e);
    if (rc == 0) rc = fit_length(en, r, e);
    if (rc == ERR_LIMIT) return refused(en, rc);
    if (rc == 0 && !r->params.seeded) r->params.seed = (uint64_t)time_wall_us() ^ r->id << 48;
    if (rc == 0)
        rc = sampler_open(&r->sampler, &r->params, &en->vocab, 0, (int)r->prompt.n + r->max_tokens,
                          e);
    if (rc != 0) return rc;
    sampler_accept_prompt(r->sampler, r->prompt.v, (int)r->prompt.n);
    r->submit_us = engine_now(en);
    if (atomic_fetch_add(&en->n_queued, 1) < en->queue_max &&
        queue_push(en->inbox, &(struct message){.kind = MESSAGE_SUBMIT, .request = r}))
        return 0;
    atomic_fetch_sub(&en->n_queued, 1);
    sampler_close(r->sampler);
    r->sampler = NULL;
    return refused(en, err_set(e, ERR_BUSY, "the queue of %d requests is full; try again later",
                               en->queue_max));
}

void engine_cancel(struct engine *en, uint64_t request_id)
{
    struct message m = {.kind = MESSAGE_CANCEL, .request_id = request_id};
    /* drained every step */
    while (!queue_push(en->inbox, &m) && !atomic_load(&en->quit)) sched_yield();
}

/* ---- invariants ---- */

static const char *check_seq(const struct engine *en, const struct seq *s)
{
    if (s->n_kv > s->n_token || s->n_token > s->n_token_max)
        return "a sequence's counts are out of order";
    if (s->state == SEQ_RUNNING && s->n_page * pages_rows(en->pages) < s->n_token_max)
        return "a running sequence lacks pages";
    if (s->state == SEQ_WAITING && s->n_page) return "a waiting sequence holds pages";
    if (s->n_sealed * pages_rows(en->pages) > s->n_kv) return "a page is sealed before it is full";
    return NULL;
}

const char *engine_check(const struct engine *en)
{
    enum { N_MAX = 1024 };
    const int32_t *table[N_MAX];
    int n_page[N_MAX], n = 0;
    for (const struct seq *s = en->waiting.head; s; s = s->next)
        if (check_seq(en, s)) return check_seq(en, s);
    for (const struct seq *s = en->running.head; s; s = s->next) {
        if (check_seq(en, s)) return check_seq(en, s);
        if (n == N_MAX) return NULL; /* more than the check has room for */
        table[n] = s->page;
        n_page[n++] = s->n_page;
    }
    return pages_check(en->pages, table, n_page, n);
}

int engine_n_running(const struct engine *en)
{
    return en->running.n;
}

int engine_n_waiting(const struct engine *en)
{
    return en->waiting.n;
}

struct stats *engine_stats(const struct engine *en)
{
    return en->stats;
}
