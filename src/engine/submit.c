/* submit.c - submission of requests, on clients' threads.
 *
 *   engine_submit: engine_validate -> group_open: memory of the sequences -> door_enter: a place
 *   -> the inbox, from which the engine's thread takes the group
 *
 * These functions read only fields of struct engine that do not change after engine_open. The door,
 * the statistics and the inbox are safe for several threads. */
#include "engine_impl.h"

#include "base/check.h"
#include "base/os.h"

#include <sched.h>

/* ---- validation ---- */

/* Check the values that do not depend on the length. The message contains the field of the API. */
static int check_request(const struct engine *en, const struct request *r, struct err *e)
{
    if (en->executor.whole && !r->pooling)
        return err_field(e, ERR_UNSUPPORTED, "model",
                         ": \"%.80s\" is an encoder, which generates no text; it answers "
                         "/v1/embeddings, /rerank or /classify",
                         en->executor.name ? en->executor.name : "");
    if (en->executor.headless && !r->pooling)
        return err_field(e, ERR_UNSUPPORTED, "model",
                         ": \"%.80s\" has no language model head, so it generates no text; it "
                         "answers /v1/embeddings, /rerank or /classify",
                         en->executor.name ? en->executor.name : "");
    if (en->executor.n_start > 0 && r->n_prompt_logprob >= 0)
        return err_field(
            e, ERR_UNSUPPORTED, "prompt_logprobs",
            ": not supported by \"%.80s\", which is a model of encoder and decoder: its "
            "prompt is a source, whose tokens have no logprobs",
            en->executor.name ? en->executor.name : "");
    const int n_vocab = en->executor.n_vocab, n_adapter = en->executor.limits->n_adapter;
    if (r->prompt.n == 0)
        return err_field(e, ERR_ARG, "prompt", ": must have at least 1 token, got 0");
    if (r->segment1 < 0 || (size_t)r->segment1 > r->prompt.n)
        return err_field(e, ERR_ARG, "segment1", ": must be in [0, %zu], got %d", r->prompt.n,
                         r->segment1);
    if (r->max_tokens < 0)
        return err_field(e, ERR_ARG, "max_tokens", ": must be at least 0, got %d", r->max_tokens);
    if (r->params.min_tokens > r->max_tokens)
        return err_field(e, ERR_ARG, "min_tokens", ": must be at most max_tokens, %d, got %d",
                         r->max_tokens, r->params.min_tokens);
    for (size_t i = 0; i < r->prompt.n; i++)
        if (r->prompt.v[i] < 0 || r->prompt.v[i] >= n_vocab)
            return err_field(e, ERR_ARG, "prompt", ": token ids must be in [0, %d], got %d",
                             n_vocab - 1, r->prompt.v[i]);
    if (r->adapter < 0 || r->adapter > n_adapter)
        return err_field(e, ERR_ARG, "adapter", ": must be in [0, %d], got %d", n_adapter,
                         r->adapter);
    if (r->n_prompt_logprob > TOP_LOGPROB_MAX || r->params.n_logprob > TOP_LOGPROB_MAX)
        return err_field(e, ERR_ARG, "logprobs", ": must be at most %d, got %d", TOP_LOGPROB_MAX,
                         r->n_prompt_logprob > r->params.n_logprob ? r->n_prompt_logprob
                                                                   : r->params.n_logprob);
    return sample_params_check(&r->params, n_vocab, e);
}

/* Return the advice for a prompt beyond `max` tokens. Recommend a flag only if raising it helps: a
 * context beyond the trained length gives worse text, and the positions of an encoder are fixed. */
static const char *advice_for(const struct engine *en, int64_t max)
{
    const struct executor *x = &en->executor;
    const bool source = x->n_start > 0 && max == x->limits->n_source;
    if (!source && engine_context(en) < x->context_max) return ", or raise --kv-cache-memory";
    if (max + x->n_start < x->context_max) return ""; /* the positions of the encoder */
    return x->context_max < x->context_train ? ", or raise --max-model-len" : "";
}

/* Report that the prompt is longer than `max` tokens. The message begins with the words of OpenAI's
 * message, because gateways search for these words. */
static int too_long(const struct engine *en, const struct request *r, int64_t max, struct err *e)
{
    const char *advice = advice_for(en, max);
    int rc = err_field(e, ERR_LIMIT, "prompt",
                       ": This model's maximum context length is %lld tokens. However, the "
                       "request has %zu prompt tokens%s, which is too large. Shorten the prompt%s.",
                       (long long)max, r->prompt.n,
                       (int64_t)r->prompt.n == max ? " and needs at least one more" : "", advice);
    return err_figures(e, rc, (long long)r->prompt.n, max);
}

int engine_context(const struct engine *en)
{
    const struct executor *x = &en->executor;
    int max = x->context_max;
    if (x->whole && max > x->limits->n_row) max = x->limits->n_row;
    /* a pool that is too small for max tokens has fewer slots, so the product fits */
    return hold_least(en, max) > x->n_page ? x->n_page * x->page_rows : max;
}

int engine_max_tokens(const struct engine *en, const struct request *r)
{
    const struct executor *x = &en->executor;
    int64_t left = engine_context(en) - (int64_t)r->prompt.n;
    if (x->side_max > 0 && left > x->side_max) left = x->side_max;
    left -= x->n_start;
    return r->max_tokens < left ? r->max_tokens : (int)left;
}

/* Clamp max_tokens to the context length, as OpenAI's servers do. */
static void cut_length(const struct engine *en, struct request *r)
{
    r->max_tokens = engine_max_tokens(en, r);
    if (r->params.min_tokens > r->max_tokens) r->params.min_tokens = r->max_tokens;
}

/* Check the length of the prompt. A request without output needs no room for a token. */
static int check_length(const struct engine *en, const struct request *r, struct err *e)
{
    const struct executor *x = &en->executor;
    const int max = engine_context(en) - x->n_start;
    if (x->n_start > 0 && r->prompt.n > (size_t)x->limits->n_source)
        return too_long(en, r, x->limits->n_source, e);
    if (en->prompt_max && r->prompt.n > (size_t)en->prompt_max)
        return err_field(e, ERR_LIMIT, "prompt",
                         ": must have at most %d tokens (--max-input-length), got %zu",
                         en->prompt_max, r->prompt.n);
    if ((int64_t)r->prompt.n + (r->max_tokens > 0) > max) return too_long(en, r, max, e);
    return 0;
}

static int check_choices(const struct request *r, struct err *e)
{
    if (r->n < 1 || r->n > CHOICES_MAX)
        return err_field(e, ERR_ARG, "n", ": must be in [1, %d], got %d", CHOICES_MAX, r->n);
    if (r->best_of != 0 && (r->best_of < r->n || r->best_of > CHOICES_MAX))
        return err_field(e, ERR_ARG, "best_of", ": must be in [%d, %d] (from n), got %d", r->n,
                         CHOICES_MAX, r->best_of);
    const struct repetition *p = &r->repetition;
    if (p->size_max < 0 || p->size_max > PATTERN_MAX)
        return err_field(e, ERR_ARG, "repetition_detection",
                         ".max_pattern_size: must be in [0, %d], got %d", PATTERN_MAX, p->size_max);
    if (p->size_max && (p->size_min < 1 || p->size_min > p->size_max))
        return err_field(e, ERR_ARG, "repetition_detection",
                         ".min_pattern_size: must be in [1, %d] (max_pattern_size), got %d",
                         p->size_max, p->size_min);
    if (p->size_max && p->count < 2)
        return err_field(e, ERR_ARG, "repetition_detection",
                         ".min_count: must be at least 2, got %d", p->count);
    if (p->size_max && r->beam_width)
        return err_field(e, ERR_UNSUPPORTED, "repetition_detection",
                         ": must not come with use_beam_search");
    if (r->deadline_us < 0)
        return err_field(e, ERR_ARG, "timeout", ": must be at least 0 us, got %lld",
                         (long long)r->deadline_us);
    if (!(r->holder_weight >= SHARE_WEIGHT_MIN && r->holder_weight <= SHARE_WEIGHT_MAX))
        return err_field(e, ERR_ARG, "holder_weight", ": must be in [%g, %g], got %g",
                         SHARE_WEIGHT_MIN, SHARE_WEIGHT_MAX, r->holder_weight);
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

/* ---- a place and memory ---- */

/* Count a rejection and return rc. */
static int refused(struct engine *en, int rc)
{
    stats_refused(en->stats, rc == ERR_LIMIT ? STAT_refused_long : STAT_refused_full);
    return rc;
}

void engine_refused(struct engine *en)
{
    refused(en, ERR_LIMIT);
}

/* Reject r with ERR_BUSY. Rejections with retry_silently are not counted, because they do not reach
 * the client. */
static int busy(struct engine *en, const struct request *r, enum door_answer a, struct err *e)
{
    const struct door_options *o = &en->door.options;
    int rc = a == DOOR_FULL
                 ? err_set(e, ERR_BUSY, "the queue of %d requests is full; try again later",
                           o->queue_max)
                 : err_set(e, ERR_BUSY,
                           "the requests in flight hold the maximum of %lld MiB; try again later",
                           (long long)o->bytes_max >> 20);
    if (r->retry_silently) return rc;
    stats_refused(en->stats, a == DOOR_FULL ? STAT_rejected_queue : STAT_rejected_memory);
    return refused(en, rc);
}

/* Open the group of r with its sequences, unless places or memory are insufficient. */
static int open_group(struct group **out, struct engine *en, struct request *r, struct err *e)
{
    int64_t room;
    enum door_answer a = door_may_enter(&en->door, r, &room);
    if (a != DOOR_OPEN) return busy(en, r, a, e);
    int rc = group_open(out, en, r, room < 0 ? 0 : room, e);
    if (rc != ERR_LIMIT) return rc;
    return door_bytes(&en->door) > 0 ? busy(en, r, DOOR_NO_MEMORY, e) : refused(en, rc);
}

/* Count n evictions. Waiting requests that the door evicted for this request are also
 * rejections. */
static void count_evicted(struct engine *en, int n)
{
    for (int i = 0; i < n; i++) {
        stats_refused(en->stats, STAT_refused_full);
        stats_refused(en->stats, STAT_rejected_evicted);
    }
}

/* Put g into the inbox. */
static int enqueue(struct engine *en, struct group *g, struct err *e)
{
    int n_evicted;
    CHECK(g->request->reply, "request %llu has no reply queue", (unsigned long long)g->request->id);
    enum door_answer a = door_enter(&en->door, g, &n_evicted);
    count_evicted(en, n_evicted);
    if (a == DOOR_OPEN &&
        !queue_push(en->inbox, &(struct message){.kind = MESSAGE_SUBMIT, .group = g}))
        a = DOOR_FULL;
    if (a == DOOR_OPEN) return 0;
    int rc = busy(en, g->request, a, e);
    door_leave(&en->door, g);
    g->request = NULL; /* the caller keeps the request */
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

/* ---- memory of answers ---- */

int engine_reserve(struct engine *en, const struct request *r, int64_t n_byte, struct err *e)
{
    int64_t max = door_reserve_bytes_max(&en->door);
    CHECK(n_byte >= 0, "%lld bytes", (long long)n_byte);
    if (door_reserve(&en->door, r, n_byte)) return 0;
    stats_refused(en->stats, STAT_rejected_memory);
    if (n_byte > max)
        return refused(
            en, err_field(e, ERR_LIMIT, "n",
                          ": the answers may need %lld MiB, above a request's maximum of %lld MiB",
                          (long long)n_byte >> 20, (long long)max >> 20));
    return refused(
        en, err_set(e, ERR_BUSY,
                    "the answers of the requests in flight hold %lld of %lld MiB; try again later",
                    (long long)door_answer_bytes(&en->door) >> 20,
                    (long long)door_answer_bytes_max(&en->door) >> 20));
}

void engine_unreserve(struct engine *en, uint64_t holder, int64_t n_byte)
{
    door_unreserve(&en->door, holder, n_byte);
}

/* ---- messages ---- */

/* Send a message. Wait if the inbox is full, because every step drains it. */
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
