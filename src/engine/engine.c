/* engine.c - the loop, its thread, and the submission of requests. */
#include "engine_impl.h"

#include "base/check.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/os.h"

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

static struct stats_level level_of(const struct engine *en)
{
    return (struct stats_level){.n_running = en->n_running,
                                .n_waiting = en->waiting.n,
                                .deferred = en->plan.deferred,
                                .n_page_held = pages_n_total(en->pages) - pages_n_free(en->pages),
                                .n_page_cached = pages_n_cached(en->pages),
                                .n_swapped = en->n_swapped};
}

/* Record the end of a step; b NULL: it computed nothing. */
static void record_end_of_step(struct engine *en, const struct batch *b)
{
    struct stats_level l = level_of(en);
    record_step(en, b, &l);
    stats_step(en->stats, engine_now(en), b, &l);
}

static const char *check_batch(const struct engine *en)
{
    const struct executor *x = &en->executor;
    return batch_check(&en->batch, x->n_vocab, x->n_page, x->page_rows);
}

/* Debug builds check a pool with more pages proportionally less often: walking it would take most
 * of the time. */
enum { CHECKED_PAGES = 1024 };

bool engine_step(struct engine *en)
{
    en->now_us = engine_now(en);
    stats_begin(en->stats, en->now_us);
    pages_now(en->pages, en->now_us);
    if (en->states) pages_now(en->states, en->now_us);
    inbox_drain(en);
    bool some = sched_next(en); /* false: no events were emitted and there is nothing to compute */
    if (en->batch.n_row == 0 && en->batch.n_copy == 0) return record_end_of_step(en, NULL), some;
    struct stats_level l = level_of(en);
    int64_t now_us = engine_now(en);
    stats_peak(en->stats, now_us, &l);
    stats_lap(en->stats, now_us);
    bool check = en->check_period && ++en->n_unchecked >= en->check_period;
    const char *bad = check ? check_batch(en) : NULL;
    CHECK(!bad, "%s", bad);
    struct model_out out = en->executor.forward(en->executor.ctx, &en->batch);
    stats_lap(en->stats, engine_now(en));
    sample_rows(en, out);
    stats_lap(en->stats, engine_now(en));
    sched_commit(en);
    stats_lap(en->stats, engine_now(en));
    record_end_of_step(en, &en->batch);
    budget_observe(&en->budget, &en->load, engine_now(en) - en->now_us);
    const char *wrong = check ? engine_check(en) : NULL;
    if (check) en->n_unchecked = 0;
    CHECK(!wrong, "%s", wrong);
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
    CHECK(!en->started, "the engine runs already, with %d sequences", en->n_running);
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
    en->flat = calloc((size_t)n_vocab, sizeof *en->flat);
    return en->flat ? 0 : err_memory(e, "logits", (size_t)n_vocab * sizeof *en->flat);
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
    en->order = calloc(n, sizeof *en->order);
    en->constrained = calloc(n, sizeof *en->constrained);
    en->table = calloc(n, sizeof *en->table);
    en->n_table = calloc(n, sizeof *en->n_table);
    if (en->running && en->order && en->constrained && en->table && en->n_table) return 0;
    return err_memory(e, "the list of running sequences", n * 40);
}

static int open_states(struct engine *en, const struct engine_options *o, struct err *e)
{
    const struct executor *x = &o->executor;
    if (x->limits->n_state < states_least(1))
        return err_set(e, ERR_LIMIT, "a sequence needs %d recurrent states, but %d exist",
                       states_least(1), x->limits->n_state);
    int rc = pages_open(&en->states, x->limits->n_state, x->page_rows, !o->no_prefix_cache, e);
    return rc ? rc : spill_open(&en->state_spill, x->n_host_state, e);
}

int engine_open(struct engine **out, const struct engine_options *o, struct err *e)
{
    *out = NULL;
    struct engine *en = calloc(1, sizeof *en);
    if (!en) return err_memory(e, "the engine", sizeof *en);
    const struct executor *x = &o->executor;
    en->executor = *x;
    en->tokenizer = o->tokenizer;
    en->keep_prefixes = !o->no_prefix_cache;
    en->prompt_max = o->prompt_max;
    en->drafter = o->drafter;
    en->no_jump_forward = o->no_jump_forward;
    en->check_period = o->check ? 1 : check_steps ? 1 + x->n_page / CHECKED_PAGES : 0;
    en->prefill_rate = x->prefill_rate > 0 ? x->prefill_rate : 1e-4;
    int rc = read_eog(en, e);
    if (o->tokenizer) {
        en->vocab.tokenizer = o->tokenizer;
        en->vocab.bytes = token_bytes;
    }
    if (rc == 0) rc = pages_open(&en->pages, x->n_page, x->page_rows, !o->no_prefix_cache, e);
    if (rc == 0) rc = spill_open(&en->spill, x->n_host_page, e);
    if (rc == 0 && x->limits->n_state) rc = open_states(en, o, e);
    if (rc == 0) rc = open_lists(en, e);
    if (rc == 0) rc = portion_open(en, e);
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
                                .window_us = o->window_us,
                                .window_min = o->window_min,
                                .window_max = o->window_max,
                                .slice_tokens = o->slice_tokens};
    if (rc == 0) rc = policy_open(&en->policy, &po, e);
    struct door_options d = {.queue_max = o->queue_max ? o->queue_max : QUEUE_MAX,
                             .queue_retry_max = x->limits->n_seq,
                             .byte_max = o->byte_max};
    if (rc == 0) rc = door_open(&en->door, &d, e);
    en->inbox = queue_open((size_t)d.queue_max * 2, sizeof(struct message));
    if (rc == 0 && !en->inbox)
        rc = err_memory(e, "the engine's inbox", (unsigned long long)d.queue_max * 48);
    if (rc == 0) rc = deferred_open(&en->deferred, 2 * x->limits->n_seq, en->inbox, e);
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
    if (l->n_state) page += pages_bytes(l->n_state, x->page_rows) + 5 * (int64_t)x->n_host_state;
    int64_t row = 5 * (int64_t)sizeof(int32_t) * l->n_row;
    int64_t seq = l->n_seq * (4 * (int64_t)sizeof(int32_t) + 40 + (int64_t)sizeof(struct portion) +
                              4 * (int64_t)l->page_stride);
    int64_t queue = 2 * (int64_t)queue_max * (int64_t)sizeof(struct message);
    return page + row + seq + queue + (int64_t)sizeof(struct batch_copy) * l->n_copy +
           8 * (int64_t)sizeof(float) * x->n_vocab;
}

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

/* ---- submission ---- */

static int refused(struct engine *en, int rc)
{
    stats_refused(en->stats, rc == ERR_LIMIT ? STAT_refused_long : STAT_refused_full);
    return rc;
}

void engine_refused(struct engine *en)
{
    refused(en, ERR_LIMIT);
}

static int check_request(const struct engine *en, const struct request *r, struct err *e)
{
    const int n_vocab = en->executor.n_vocab;
    if (r->prompt.n == 0)
        return err_field(e, ERR_ARG, "prompt", ": must have at least 1 token, got 0");
    if (r->max_tokens < 0)
        return err_field(e, ERR_ARG, "max_tokens", ": must be at least 0, got %d", r->max_tokens);
    if (r->params.min_tokens > r->max_tokens)
        return err_field(e, ERR_ARG, "min_tokens", ": must be at most max_tokens, %d, got %d",
                         r->max_tokens, r->params.min_tokens);
    for (size_t i = 0; i < r->prompt.n; i++)
        if (r->prompt.v[i] < 0 || r->prompt.v[i] >= n_vocab)
            return err_field(e, ERR_ARG, "prompt", ": token ids must be in [0, %d], got %d",
                             n_vocab - 1, r->prompt.v[i]);
    if (r->n_prompt_logprob > TOP_LOGPROB_MAX || r->params.n_logprob > TOP_LOGPROB_MAX)
        return err_field(e, ERR_ARG, "logprobs", ": must be at most %d, got %d", TOP_LOGPROB_MAX,
                         r->n_prompt_logprob > r->params.n_logprob ? r->n_prompt_logprob
                                                                   : r->params.n_logprob);
    return sample_params_check(&r->params, n_vocab, e);
}

/* Report that the prompt is longer than `most` tokens. The first words are OpenAI's: gateways look
 * for them. A flag is recommended only if raising it helps: a context beyond the trained one gives
 * worse text. */
static int too_long(const struct engine *en, const struct request *r, int64_t most, struct err *e)
{
    const struct executor *x = &en->executor;
    const char *advice = most < x->context_max               ? ", or raise --kv-cache-memory"
                         : x->context_max < x->context_train ? ", or raise --max-model-len"
                                                             : "";
    int rc = err_field(e, ERR_LIMIT, "prompt",
                       ": This model's maximum context length is %lld tokens. However, the "
                       "request has %zu prompt tokens%s, which is too large. Shorten the prompt%s.",
                       (long long)most, r->prompt.n,
                       (int64_t)r->prompt.n == most ? " and needs at least one more" : "", advice);
    return err_figures(e, rc, (long long)r->prompt.n, most);
}

/* Return the most tokens that a request can have, prompt included. */
static int64_t longest(const struct engine *en)
{
    const struct executor *x = &en->executor;
    int64_t most = x->context_max, pool = (int64_t)x->n_page * x->page_rows;
    return hold_least(en, (int)most) > x->n_page ? pool : most;
}

int engine_max_tokens(const struct engine *en, const struct request *r)
{
    int64_t left = longest(en) - (int64_t)r->prompt.n;
    return r->max_tokens < left ? r->max_tokens : (int)left;
}

/* Clamp max_tokens to the context length, as OpenAI's servers do. */
static void cut_length(const struct engine *en, struct request *r)
{
    r->max_tokens = engine_max_tokens(en, r);
    if (r->params.min_tokens > r->max_tokens) r->params.min_tokens = r->max_tokens;
}

static int check_length(const struct engine *en, const struct request *r, struct err *e)
{
    const int64_t most = longest(en);
    if (en->prompt_max && r->prompt.n > (size_t)en->prompt_max)
        return err_field(e, ERR_LIMIT, "prompt",
                         ": must have at most %d tokens (--max-input-length), got %zu",
                         en->prompt_max, r->prompt.n);
    if ((int64_t)r->prompt.n + (r->max_tokens > 0) > most) return too_long(en, r, most, e);
    return 0;
}

static int check_choices(const struct request *r, struct err *e)
{
    if (r->n < 1 || r->n > CHOICES_MAX)
        return err_field(e, ERR_ARG, "n", ": must be in [1, %d], got %d", CHOICES_MAX, r->n);
    if (r->best_of != 0 && (r->best_of < r->n || r->best_of > CHOICES_MAX))
        return err_field(e, ERR_ARG, "best_of", ": must be in [%d, %d] (from n), got %d", r->n,
                         CHOICES_MAX, r->best_of);
    if (r->deadline_us < 0)
        return err_field(e, ERR_ARG, "timeout", ": must be at least 0 us, got %lld",
                         (long long)r->deadline_us);
    if (!(r->share_weight >= SHARE_WEIGHT_MIN && r->share_weight <= SHARE_WEIGHT_MAX))
        return err_field(e, ERR_ARG, "share_weight", ": must be in [%g, %g], got %g",
                         SHARE_WEIGHT_MIN, SHARE_WEIGHT_MAX, r->share_weight);
    return 0;
}

int engine_validate(const struct engine *en, const struct request *r, struct err *e)
{
    int rc = check_request(en, r, e);
    if (rc == 0) rc = check_choices(r, e);
    if (rc == 0) rc = check_length(en, r, e);
    if (rc == 0 && r->beam_width) rc = beam_check(en, r, e);
    if (rc == 0 && r->pooling) rc = pooling_check(en, r, e);
    return rc;
}

int engine_share_lists(const struct engine *en, const struct sample_params *p,
                       struct sample_lists **out, struct err *e)
{
    return sample_lists_open(out, p, &en->vocab, e);
}

/* Reject r for now. Rejections with retry_silently are not counted, since the client does not see
 * them. */
static int busy(struct engine *en, const struct request *r, enum door_answer a, struct err *e)
{
    const struct door_options *o = &en->door.options;
    int rc = a == DOOR_FULL
                 ? err_set(e, ERR_BUSY, "the queue of %d requests is full; try again later",
                           o->queue_max)
                 : err_set(e, ERR_BUSY,
                           "the requests in flight hold the maximum of %lld MiB; try again later",
                           (long long)o->byte_max >> 20);
    if (r->retry_silently) return rc;
    stats_refused(en->stats, a == DOOR_FULL ? STAT_rejected_queue : STAT_rejected_memory);
    return refused(en, rc);
}

/* Open the sequences of r if there may be a place and memory for them. */
static int open_group(struct group **out, struct engine *en, struct request *r, struct err *e)
{
    int64_t room;
    enum door_answer a = door_check(&en->door, r, &room);
    if (a != DOOR_OPEN) return busy(en, r, a, e);
    int rc = group_open(out, en, r, room < 0 ? 0 : room, e);
    if (rc != ERR_LIMIT) return rc;
    return door_bytes(&en->door) > 0 ? busy(en, r, DOOR_NO_MEMORY, e) : refused(en, rc);
}

int engine_reserve(struct engine *en, const struct request *r, int64_t n_byte, struct err *e)
{
    int64_t most = door_answer_most(&en->door);
    if (door_reserve(&en->door, r, n_byte)) return 0;
    stats_refused(en->stats, STAT_rejected_memory);
    if (n_byte > most)
        return refused(
            en, err_field(e, ERR_LIMIT, "n",
                          ": the answers may need %lld MiB, above a request's maximum of %lld MiB",
                          (long long)n_byte >> 20, (long long)most >> 20));
    return refused(
        en, err_set(e, ERR_BUSY,
                    "the answers of the requests in flight hold %lld of %lld MiB; try again later",
                    (long long)door_answer_bytes(&en->door) >> 20,
                    (long long)door_answer_max(&en->door) >> 20));
}

void engine_unreserve(struct engine *en, uint64_t share_id, int64_t n_byte)
{
    door_unreserve(&en->door, share_id, n_byte);
}

static void count_evicted(struct engine *en, int n)
{
    for (int i = 0; i < n; i++) {
        stats_refused(en->stats, STAT_refused_full);
        stats_refused(en->stats, STAT_rejected_evicted);
    }
}

/* Put g into the inbox. n_open is incremented before `draining` is read, and engine_drain does it
 * in the opposite order, so at least one of the two sees the other. */
static int enqueue(struct engine *en, struct group *g, struct err *e)
{
    int rc = 0, n_evicted = 0;
    enum door_answer a = DOOR_OPEN;
    atomic_fetch_add(&en->n_open, 1);
    if (atomic_load(&en->draining))
        rc = err_set(e, ERR_BUSY, "the engine is stopping and accepts no more requests");
    else
        a = door_enter(&en->door, g, &n_evicted);
    count_evicted(en, n_evicted);
    if (rc == 0 && a == DOOR_OPEN &&
        !queue_push(en->inbox, &(struct message){.kind = MESSAGE_SUBMIT, .group = g}))
        a = DOOR_FULL;
    if (rc == 0 && a != DOOR_OPEN) rc = busy(en, g->request, a, e);
    if (rc == 0) return 0;
    door_leave(&en->door, g);
    atomic_fetch_sub(&en->n_open, 1);
    g->request = NULL; /* stays the caller's */
    group_close(g);
    return rc;
}

int engine_submit(struct engine *en, struct request *take_r, struct err *e)
{
    struct request *r = take_r;
    struct group *g;
    int rc = engine_validate(en, r, e);
    if (rc == ERR_LIMIT) return refused(en, rc);
    if (rc == 0) cut_length(en, r);
    if (rc == 0 && !r->params.seeded) r->params.seed = (uint64_t)time_wall_us() ^ r->id << 48;
    if (rc == 0) rc = open_group(&g, en, r, e);
    if (rc != 0) return rc;
    r->submit_us = engine_now(en);
    if (r->arrival_us <= 0 || r->arrival_us > r->submit_us) r->arrival_us = r->submit_us;
    return enqueue(en, g, e);
}

/* Send a message without a reply; the inbox is drained in every step. */
static void post(struct engine *en, const struct message *m)
{
    while (!queue_push(en->inbox, m) && !atomic_load(&en->quit)) sched_yield();
}

void engine_cancel_choice(struct engine *en, uint64_t request_id, int choice)
{
    post(en, &(struct message){.kind = MESSAGE_CANCEL, .request_id = request_id, .choice = choice});
}

void engine_cancel(struct engine *en, uint64_t request_id)
{
    engine_cancel_choice(en, request_id, -1);
}

void engine_reset_prefix_cache(struct engine *en)
{
    post(en, &(struct message){.kind = MESSAGE_RESET_PREFIX_CACHE});
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

int engine_n_seq_max(const struct engine *en)
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
