/* answer.c - one prompt of a call. The events of its request become one answer per choice, with
 * text, ids, log probabilities and the reason for the end. */
#include "api_impl.h"

#include "base/check.h"

#include <math.h>
#include <stdlib.h>

enum { EVENTS_PER_WAKE = 128 }; /* number of events: a quarter of a reply queue */

/* Append an event's log probabilities to a log. A failure sets no_memory, because the handling of
 * an event cannot return an error. */
static void append_logprobs(struct part *p, struct answer_log *log, const struct event *ev)
{
    CHECK(ev->n_top >= 0 && ev->n_top <= (int)(sizeof ev->top / sizeof *ev->top), "%d logprobs",
          ev->n_top);
    struct token_logprobs t = {.n_top = ev->n_top, .chosen = ev->chosen};
    for (int i = 0; i < ev->n_top; i++) t.top[i] = ev->top[i];
    p->no_memory |= !vec_push(log, t);
}

/* Keep the prompt if the answer returns it, because the engine owns the request after its
 * submission. */
static bool keep_prompt(struct part *p, const struct api_call *c)
{
    const struct ids *ids = &p->request->prompt;
    if (ids->n && p->request->n_prompt_logprob >= 0)
        /* the first token of a prompt has no log probability, so it is NAN */
        append_logprobs(p, &p->prompt_log,
                        &(struct event){.chosen = {.id = ids->v[0], .logprob = NAN}});
    if (!c->ids_back) return true;
    for (size_t i = 0; i < ids->n; i++)
        if (!vec_push(&p->prompt, ids->v[i])) return false;
    return true;
}

/* Handle an event, on the engine thread. An event wakes the stream if text is sent immediately or
 * the answer may end. In other cases, only the last event and a quarter-full queue wake the stream,
 * because a wake-up interrupts the engine on its core. */
static void on_event(void *part, const void *event)
{
    struct part *p = part;
    const struct event *ev = event;
    bool last = ev->kind == EVENT_DONE;
    if (last || p->eager || ++p->n_event % EVENTS_PER_WAKE == 0) queue_push(p->bell, "");
}

/* Return the bytes that a part may need until its end, for engine_reserve. The sum includes all
 * choices of the request. */
int64_t part_bytes(const struct part *p)
{
    /* memory of a choice's first texts and ids, in an arena */
    enum { BEGUN_BYTES = 1 << 10, STOP_BYTES = 64 << 10 };
    int64_t n = (int64_t)sizeof *p->choice + BEGUN_BYTES;
    if (p->reply.n_stop) n += STOP_BYTES;
    for (int i = 0; i < p->reply.n_stop; i++) n += 5 * (int64_t)p->reply.stop[i].n; /* match.c */
    n += p->n_pooled * (int64_t)sizeof *p->pooled;
    int64_t n_log = p->request->n_prompt_logprob < 0 ? 0 : (int64_t)p->request->prompt.n;
    return p->request->n * n + (int64_t)(sizeof *p + sizeof *p->request) +
           n_log * (int64_t)sizeof *p->prompt_log.v;
}

/* Reserve all memory before the engine receives the request. A second call has no effect. */
int part_ready(struct part *p, const struct api_call *c, struct err *e)
{
    if (p->queue) return 0;
    p->choice = calloc((size_t)p->request->n, sizeof *p->choice);
    p->queue = engine_reply_queue();
    if (p->n_pooled && !p->pooled)
        p->pooled = p->request->pooled = calloc((size_t)p->n_pooled, sizeof *p->pooled);
    if (p->n_pooled && !p->pooled)
        return err_memory(e, "a result", (size_t)p->n_pooled * sizeof *p->pooled);
    if (!p->queue || !p->choice) return err_memory(e, "a request", sizeof *p->choice);
    p->bell = c->bell;
    /* read each event immediately, because a stop string or a limit of lines may end the answer
     * between two tokens */
    p->eager = c->stream || p->reply.n_stop > 0 || p->reply.indent_min || p->reply.lines_us;
    if (c->bell) queue_listen(p->queue, on_event, p);
    p->request->reply = p->queue;
    p->needs_ends = c->token_ends;
    p->needs_log = p->request->params.n_logprob >= 0;
    p->ranked = p->request->best_of > 0;
    p->max_tokens = engine_max_tokens(c->api->session->engine, p->request);
    int rc = keep_prompt(p, c) ? 0 : err_memory(e, "a prompt", p->request->prompt.n);
    for (; rc == 0 && p->n < p->request->n; p->n++) {
        struct reply_options o = p->reply;
        o.choice = p->n;
        rc = reply_open(&p->choice[p->n].reply, c->api->session->engine, p->id, &o, e);
    }
    return rc;
}

/* Add an event to a choice. Tokens after a stop string do not belong to the answer, even if the
 * engine generated them. */
static void choice_event(struct part *p, struct choice *a, const struct event *ev)
{
    CHECK(a >= p->choice && a < p->choice + p->n, "choice %td of %d", a - p->choice, p->n);
    bool belongs = ev->kind == EVENT_TOKEN && !a->reply.matched, open = !a->reply.finish;
    if (belongs) p->no_memory |= !vec_push(&a->ids, ev->token);
    if (belongs && p->needs_log) append_logprobs(p, &a->log, ev);
    bool ends = reply_event(&a->reply, ev, &a->text) && open;
    if (belongs && p->needs_ends) p->no_memory |= !vec_push(&a->ends, (uint32_t)a->text.n);
    /* a stop token after a stop string does not belong to the answer */
    if (ends) a->stop_id = a->reply.matched ? -1 : ev->stop_id;
    p->no_memory |= a->reply.failed;
}

/* The end event has the reason for the end of each choice of the request. */
void part_event(struct part *p, const struct event *ev)
{
    if (ev->kind == EVENT_PROMPT) {
        append_logprobs(p, &p->prompt_log, ev);
    } else if (ev->kind == EVENT_PROGRESS) {
        p->n_done = ev->n_done;
        p->usage = ev->usage;
    } else if (ev->kind != EVENT_DONE) {
        choice_event(p, &p->choice[ev->choice], ev);
    }
    if (ev->kind != EVENT_DONE) return;
    for (int i = 0; i < p->n; i++) choice_event(p, &p->choice[i], ev);
    p->usage = ev->usage;
    p->done = true;
}

/* The pointer is NULL after a submission, because the engine owns the request from then on. */
void part_deinit(struct part *p)
{
    for (int i = 0; i < p->n; i++) {
        reply_close(&p->choice[i].reply);
        buf_deinit(&p->choice[i].text);
        vec_deinit(&p->choice[i].ids);
        vec_deinit(&p->choice[i].log);
        vec_deinit(&p->choice[i].ends);
        chat_parser_close(p->choice[i].parser);
    }
    free(p->choice);
    vec_deinit(&p->prompt_log);
    vec_deinit(&p->prompt);
    free(p->pooled);
    buf_deinit(&p->echo);
    buf_deinit(&p->text);
    queue_close(p->queue);
    request_close(p->request);
}

void put_ids(struct json_out *o, const char *key, const int32_t *ids, size_t n)
{
    out_list(o, key);
    for (size_t i = 0; i < n; i++) out_int(o, NULL, ids[i]);
    out_end(o);
}
