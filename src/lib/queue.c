/* queue.c - requests of the library and their events.
 *
 *   quoth_submit --> pending[] --engine--> its reply queue --bell--> quoth_poll
 *
 * quoth_poll returns the next event, round robin over the requests.
 *
 * (1) The requests in pending[0, n) are not done. The request that ended last is kept in `ended`
 *     until the next poll, because its last event points into the request.
 * (2) One thread at a time uses a queue, so there are no locks. The engine rings the bell until the
 *     reply queue is closed (base/queue.h).
 * (3) A request in pending has its queue and at least one reply. The last event of an `ending`
 *     request is EVENT_DONE.
 * (4) `ended` is not in pending.
 *
 * The states of a request:
 *
 *   submit --> pending --EVENT_DONE: take_last--> ended --next quoth_poll--> freed
 *                 |           ^
 *                 '-- ending: choices without an end get one event each, then as before
 *
 * Only `ending` keeps an event of the engine (`last`), because quoth_poll returns one event per
 * call and a cancellation of n choices gives n + 1 events. */
#include "lib_impl.h"

#include "base/check.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

struct pending_request {
    uint64_t id;
    struct queue *queue;          /* events of the request, owned */
    struct reply_options options; /* options with arrays in keep */
    struct arena keep;
    struct reply *reply; /* owned [n]: one per choice */
    int n;
    float *pooled; /* owned [n_pooled]; NULL: the request generates tokens */
    int n_pooled;
    bool needs_logprobs;
    /* true after the arrival of `last`, which is emitted after the end events of the remaining
     * choices */
    bool ending;
    struct event last;
};

struct pending_requests {
    struct pending_request **v; /* owned, with the objects that they point to */
    size_t n, cap;
};

struct quoth_queue {
    quoth_model *model; /* owned; a reference */
    struct queue *bell; /* queue that receives a byte for each event, owned */
    struct pending_requests pending;
    size_t turn;                   /* index of the request that is polled first */
    struct pending_request *ended; /* request that ended last, owned; NULL if none */
    quoth_event event;
    quoth_logprob logprob[1 + TOP_LOGPROB_MAX];
    struct buf text;
};

/* Free a request that is done, or was never submitted. NULL is allowed. */
static void pending_close(struct pending_request *p)
{
    if (!p) return;
    queue_close(p->queue);
    for (int i = 0; i < p->n; i++) reply_close(&p->reply[i]);
    free(p->reply);
    free(p->pooled);
    arena_deinit(&p->keep);
    free(p);
}

quoth_queue *quoth_queue_open(quoth_model *m)
{
    quoth_queue *q = calloc(1, sizeof *q);
    if (q) q->bell = queue_open(1, 1);
    if (!q || !q->bell) {
        free(q);
        return NULL;
    }
    atomic_fetch_add(&m->n_ref, 1);
    q->model = m;
    return q;
}

/* Wait for the engine's last event, because the engine writes to the queue until then. Do not wait
 * for a request that is ending, because it has already received the last event. */
static void wait_end(struct pending_request *p)
{
    struct event ev;
    while (!p->ending && queue_pop(p->queue, &ev, -1))
        if (ev.kind == EVENT_DONE) return;
}

/* The queue may have the last reference to the model. */
void quoth_queue_close(quoth_queue *q)
{
    if (!q) return;
    /* cancel all requests before the first wait, so that they end together */
    for (size_t i = 0; i < q->pending.n; i++) quoth_cancel(q->model, q->pending.v[i]->id);
    for (size_t i = 0; i < q->pending.n; i++) {
        wait_end(q->pending.v[i]);
        pending_close(q->pending.v[i]);
    }
    pending_close(q->ended);
    vec_deinit(&q->pending);
    queue_close(q->bell);
    buf_deinit(&q->text);
    model_drop(q->model);
    free(q);
}

size_t quoth_n_open(const quoth_queue *q)
{
    return q->pending.n;
}

void quoth_cancel(quoth_model *m, uint64_t id)
{
    engine_cancel(m->session.engine, id);
}

/* ---- submitting ---- */

/* Append the prompt of a conversation in JSON. Duplicate and unknown members are errors. */
int lib_render(const quoth_model *m, const char *chat, struct buf *out, struct err *e)
{
    static const struct json_limits limits = {.unique = true};
    struct json *body = NULL;
    int rc = chat ? json_parse(&body, chat, strlen(chat), &limits, e)
                  : err_set(e, ERR_ARG, "expected a string, got NULL");
    if (rc != 0) return err_prefix(e, rc, "chat");
    rc = api_check_conversation(body, e);
    if (rc == 0) rc = api_render(&m->api, body, out, NULL, e);
    json_drop(body);
    return rc;
}

/* Read the prompt, which must be given in exactly one of three forms. */
static int read_prompt(const quoth_model *m, struct request *r, const quoth_request *input,
                       struct err *e)
{
    int n_given = !!input->prompt + !!input->prompt_ids + !!input->chat;
    if (n_given != 1)
        return err_field(e, ERR_ARG, "prompt",
                         ": expected one of prompt, prompt_ids and chat, got %d", n_given);
    if (input->prompt && input->pooling) { /* as in /v1/embeddings */
        struct text_span before = {"", 0};
        const struct text_span text = {input->prompt, input->n_prompt};
        if (session_has_default_prompt(&m->session))
            before.text = session_prompt(&m->session, NULL, &before.n);
        return api_prompt_after(r, &m->api, &before, &text, true, e);
    }
    if (input->prompt) return api_prompt_text(r, &m->api, input->prompt, input->n_prompt, true, e);
    if (input->prompt_ids) return api_prompt_ids(r, input->prompt_ids, input->n_prompt_id, e);
    struct buf text = {0};
    int rc = lib_render(m, input->chat, &text, e);
    if (rc == 0) rc = api_prompt_text(r, &m->api, text.data ? text.data : "", text.n, true, e);
    buf_deinit(&text);
    return rc;
}

/* Read the parameters. Unknown parameters are errors, because a misspelled parameter would change
 * the answer without an error. */
static int read_params(const quoth_model *m, struct request *r, struct pending_request *p,
                       const char *params, int *budget, struct err *e)
{
    static const struct json_limits limits = {.unique = true};
    struct json *body = NULL;
    const char *text = params ? params : "{}";
    int rc = json_parse(&body, text, strlen(text), &limits, e);
    if (rc == 0 && json_kind(body) != JK_OBJECT)
        rc = err_set(e, ERR_ARG, "expected an object, got %s", json_kind_name(json_kind(body)));
    if (rc != 0) err_prefix(e, rc, "params");
    if (rc == 0) rc = api_check_params(body, e);
    if (rc == 0) rc = api_read_params(r, &p->options, &p->keep, &m->api, body, e);
    if (rc == 0) rc = api_read_logprobs(r, body, e);
    if (rc == 0) rc = api_constrain(r, &m->api, body, e);
    if (rc == 0) rc = api_read_budget(&m->api, body, budget, e);
    json_drop(body);
    return rc;
}

/* Read the pooling of an embedding request. */
static int read_pooling(const quoth_model *m, struct request *r, struct pending_request *p,
                        const char *pooling, struct err *e)
{
    if (!pooling) return 0;
    if (r->n != 1 || r->params.n_logprob >= 0 || r->n_prompt_logprob >= 0 || r->beam_width > 0 ||
        r->constraint)
        return err_field(e, ERR_ARG, "pooling",
                         ": must come without params, got n %d, logprobs %d, "
                         "prompt_logprobs %d, beam_width %d and %s constraint",
                         r->n, r->params.n_logprob, r->n_prompt_logprob, r->beam_width,
                         r->constraint ? "a" : "no");
    int rc = session_pooling(&r->pooling, &m->session, pooling, e);
    if (rc == ERR_ARG)
        return err_field(e, rc, "pooling", ": must be auto, mean, last or first, got \"%.40s\"",
                         pooling);
    if (rc != 0) return rc;
    p->n_pooled = m->session.info->head_out[HEAD_EMBED];
    p->pooled = r->pooled = calloc((size_t)p->n_pooled, sizeof *p->pooled);
    r->max_tokens = r->params.min_tokens = 0;
    if (r->pooling == POOLING_NONE) r->pooling = POOLING_LAST;
    return p->pooled ? 0 : err_memory(e, "an embedding", (size_t)p->n_pooled * sizeof *p->pooled);
}

/* Open one reply per choice. Each reply selects the events of its choice. */
static int open_replies(const quoth_model *m, struct pending_request *p, int n, struct err *e)
{
    int rc = 0;
    p->reply = calloc((size_t)n, sizeof *p->reply);
    if (!p->reply) return err_memory(e, "replies", (size_t)n * sizeof *p->reply);
    for (; rc == 0 && p->n < n; p->n++) {
        struct reply_options o = p->options;
        o.choice = p->n;
        rc = reply_open(&p->reply[p->n], m->session.engine, p->id, &o, e);
    }
    return rc;
}

/* Read a request and submit it to the engine. The caller frees p after a failure. All requests of a
 * queue ring one bell, so one wait is enough for all of them. */
static int submit(quoth_queue *q, struct pending_request *p, const quoth_request *input,
                  struct err *e)
{
    const quoth_model *m = q->model;
    struct request *r = request_open(e);
    if (!r) return ERR_MEMORY;
    int budget = -1;
    p->id = r->id;
    p->queue = r->reply = engine_reply_queue();
    int rc = p->queue ? 0 : err_memory(e, "a reply queue", sizeof *p);
    if (rc == 0) queue_ring(p->queue, q->bell);
    if (rc == 0) rc = read_params(m, r, p, input->params, &budget, e);
    if (rc == 0) rc = read_pooling(m, r, p, input->pooling, e); /* before the prompt's tokens */
    if (rc == 0) rc = read_prompt(m, r, input, e);
    if (rc == 0) rc = api_limit_reasoning(&r->constraint, &m->api, budget, NULL, &r->prompt, e);
    if (rc == 0) rc = open_replies(m, p, r->n, e);
    p->needs_logprobs = r->params.n_logprob >= 0;
    /* memory is reserved first, because a submitted request must be in the list */
    if (rc == 0 && !vec_reserve(&q->pending, q->pending.n + 1))
        rc = err_memory(e, "requests", sizeof p);
    if (rc == 0) rc = engine_submit(m->session.engine, r, e);
    if (rc == 0)
        q->pending.v[q->pending.n++] = p;
    else
        request_close(r);
    return rc;
}

/* Copy the request to a struct of this version's size. Callers for an older version fill a shorter
 * struct. Callers for a newer version may set only fields of this version. */
static int known_part(quoth_request *out, const quoth_request *input, struct err *e)
{
    *out = (quoth_request){0};
    if (!input || input->size < offsetof(quoth_request, params) + sizeof input->params)
        return err_field(e, ERR_ARG, "size", ": must be sizeof(quoth_request), %zu, got %zu",
                         sizeof *input, input ? input->size : 0);
    const unsigned char *rest = (const unsigned char *)input + sizeof *out;
    for (size_t i = 0; i + sizeof *out < input->size; i++)
        if (rest[i])
            return err_field(e, ERR_UNSUPPORTED, "size",
                             ": the request has fields of a newer library; update the library");
    memcpy(out, input, input->size < sizeof *out ? input->size : sizeof *out);
    return 0;
}

/* The id is set only after success. */
int quoth_submit(quoth_queue *q, const quoth_request *r, uint64_t *id, char *error, size_t n_error)
{
    struct err e = {0};
    quoth_request input;
    struct pending_request *p = NULL;
    int rc = known_part(&input, r, &e);
    if (rc == 0 && !(p = calloc(1, sizeof *p))) rc = err_memory(&e, "a request", sizeof *p);
    if (rc == 0) rc = submit(q, p, &input, &e);
    if (rc != 0)
        pending_close(p);
    else if (id)
        *id = p->id;
    return report_error(rc, &e, error, n_error);
}

/* ---- polling ---- */

/* Set the log probabilities of q->event: the chosen token first, then the alternatives. The log
 * probabilities are stored in q, so they are valid until the next poll. */
static void fill_logprobs(quoth_queue *q, const struct event *ev)
{
    const struct logprob *c = &ev->chosen;
    q->logprob[0] = (quoth_logprob){c->id, c->logprob, c->rank};
    for (int i = 0; i < ev->n_top; i++)
        q->logprob[1 + i] = (quoth_logprob){ev->top[i].id, ev->top[i].logprob, ev->top[i].rank};
    q->event.logprobs = q->logprob;
    q->event.n_logprob = 1 + (size_t)ev->n_top;
}

/* Fill the end of an answer with the reply r. The usage is that of the event if the request has one
 * choice. */
static void fill_end(quoth_event *out, const struct pending_request *p, const struct reply *r,
                     const struct event *ev, const struct usage *u)
{
    bool listed = ev->stop_id >= 0 && !tokenizer_is_eog(p->options.tokenizer, ev->stop_id);
    out->finish_reason = finish_name(r->finish);
    out->stop_text = r->stop_index >= 0 ? p->options.stop[r->stop_index].text : NULL;
    out->stop_token = !r->matched && listed ? ev->stop_id : -1;
    out->end_token = r->matched ? -1 : ev->stop_id;
    out->n_prompt_token = u->n_prompt;
    out->n_cached_token = u->n_cached;
    out->n_output_token = u->n_output;
    out->queue_s = (double)u->queue_us * 1e-6;
    out->prefill_s = (double)u->prefill_us * 1e-6;
    out->decode_s = (double)u->decode_us * 1e-6;
}

/* Begin the event that quoth_poll returns. Text and pointers are valid until the next poll. */
static void begin_event(quoth_queue *q, const struct pending_request *p, int kind,
                        const struct event *ev, int choice)
{
    q->event = (quoth_event){.id = p->id,
                             .kind = kind,
                             .choice = choice,
                             .token = ev->token,
                             .stop_token = -1,
                             .end_token = -1,
                             .text = q->text.data ? q->text.data : "",
                             .n_text = q->text.n};
}

/* Make the event of a choice. Return false for an event that clients must not get: a token after a
 * stop text, or a second end. */
static bool take_choice(quoth_queue *q, struct pending_request *p, const struct event *ev,
                        int choice)
{
    struct reply *r = &p->reply[choice];
    bool late = ev->kind == EVENT_TOKEN ? r->matched : r->finish != FINISH_NONE;
    buf_clear(&q->text);
    bool done = reply_event(r, ev, &q->text);
    if (late) return false;
    begin_event(q, p, done ? QUOTH_EVENT_CHOICE : QUOTH_EVENT_TOKEN, ev, choice);
    if (ev->kind == EVENT_TOKEN && p->needs_logprobs) fill_logprobs(q, ev);
    if (done) fill_end(&q->event, p, r, ev, &r->usage);
    return true;
}

/* Handle the last event: end the remaining choices, then the request. A cancellation ends all
 * choices together. */
static bool take_last(quoth_queue *q, size_t at)
{
    struct pending_request *p = q->pending.v[at];
    for (int i = 0; p->n > 1 && i < p->n; i++)
        if (p->reply[i].finish == FINISH_NONE && take_choice(q, p, &p->last, i)) return true;
    buf_clear(&q->text);
    if (p->n == 1) reply_event(&p->reply[0], &p->last, &q->text);
    begin_event(q, p, QUOTH_EVENT_DONE, &p->last, 0);
    fill_end(&q->event, p, &p->reply[0], &p->last, p->n == 1 ? &p->reply[0].usage : &p->last.usage);
    if (p->pooled && p->last.finish == FINISH_LENGTH) {
        if (api_scale(p->pooled, p->n_pooled, q->model->session.info->normalize)) {
            q->event.embedding = p->pooled;
            q->event.n_embedding = (size_t)p->n_pooled;
        } else {
            q->event.finish_reason = "error";
        }
    }
    q->ended = p;
    q->pending.v[at] = q->pending.v[--q->pending.n];
    return true;
}

/* Convert an event of the engine. Return false if the event is not for clients. */
static bool convert_event(quoth_queue *q, size_t at, const struct event *ev)
{
    struct pending_request *p = q->pending.v[at];
    if (ev->kind == EVENT_DONE) {
        p->ending = true;
        p->last = *ev;
        return take_last(q, at);
    }
    if (ev->kind != EVENT_PROMPT) return take_choice(q, p, ev, ev->choice);
    buf_clear(&q->text);
    begin_event(q, p, QUOTH_EVENT_PROMPT, ev, 0);
    fill_logprobs(q, ev);
    return true;
}

/* Return true if an event was taken. `turn` remains at a request until its queue is empty, and then
 * moves to the next request. */
static bool poll_requests(quoth_queue *q)
{
    struct event ev;
    for (size_t i = 0; i < q->pending.n; i++) {
        if (q->turn >= q->pending.n) q->turn = 0;
        size_t at = q->turn;
        if (q->pending.v[at]->ending) return take_last(q, at);
        while (queue_pop(q->pending.v[at]->queue, &ev, 0))
            if (convert_event(q, at, &ev)) return true;
        q->turn++;
    }
    return false;
}

/* Return NULL, or the violated invariant. */
static const char *check(const quoth_queue *q)
{
    for (size_t i = 0; i < q->pending.n; i++) {
        const struct pending_request *p = q->pending.v[i];
        if (!p->queue || p->n < 1) return "a request in flight has no queue or no reply (3)";
        if (p->ending && p->last.kind != EVENT_DONE) return "an ending request has no end (3)";
        if (p == q->ended) return "an ended request is in flight (4)";
    }
    return NULL;
}

/* The loop waits again if the bell rang for an event that was already read. quoth_wake ends the
 * wait even if the bell does not ring. */
const quoth_event *quoth_poll(quoth_queue *q, int timeout_ms)
{
    int64_t until = time_us() + (int64_t)timeout_ms * 1000;
    pending_close(q->ended);
    q->ended = NULL;
    const char *wrong = check_steps ? check(q) : NULL;
    CHECK(!wrong, "%s", wrong);
    while (q->pending.n) {
        char byte;
        if (poll_requests(q)) return &q->event;
        int64_t left = timeout_ms < 0 ? -1 : until - time_us();
        if (timeout_ms >= 0 && left <= 0) return NULL;
        if (!queue_pop(q->bell, &byte, left)) return poll_requests(q) ? &q->event : NULL;
    }
    return NULL;
}

void quoth_wake(quoth_queue *q)
{
    queue_wake(q->bell);
}
