/* answer.c - one answer: a request to the engine, its events until the end, and its cost.
 *
 *    answer_generate --engine_submit--> events --follow--> text, ids, log probabilities
 *                                         ^ Ctrl-C: engine_cancel; the end event follows
 *
 * The main thread waits for events. Output is written by the caller's answer_fn as it arrives.
 *
 * One request is in flight at a time, so a static flag is enough for Ctrl-C. The report separates
 * prefill and decoding, because a step of a prefill has many rows. */
#include "answer.h"

#include "base/os.h"

#include "base/json.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* max_tokens: INT64_MIN if the flag is not given */
static int64_t max_tokens = INT64_MIN, n_logprob = -1, n_prompt_logprob = -1;

const struct option answer_options[] = {
    INT_OPTION("max-tokens", "N", &max_tokens, -1, 1 << 30,
               "maximum number of generated tokens; -1: no limit (default max_new_tokens of the "
               "model, or -1)",
               .letter = 'n'),
    INT_OPTION(
        "logprobs", "N", &n_logprob, -1, TOP_LOGPROB_MAX,
        "with --json: log probabilities of each token and of the N most likely (default -1: none)"),
    INT_OPTION("prompt-logprobs", "N", &n_prompt_logprob, -1, TOP_LOGPROB_MAX,
               "with --json: log probabilities of each prompt token and the N most likely (default "
               "-1: none)"),
    OPTIONS_OF(sample_options),
    OPTIONS_END,
};

/* ---- log probabilities ---- */

/* Append {"id":5,"token":" a","logprob":-0.1,"rank":1}. A token's bytes may be a part of a UTF-8
 * character. */
static void put_logprob(struct buf *b, const struct tokenizer *t, const struct logprob *p)
{
    size_t n;
    const char *text = tokenizer_bytes(t, p->id, &n);
    buf_addf(b, "{\"id\":%d,\"token\":", p->id);
    json_put_text(b, text ? text : "", text ? n : 0);
    buf_add_text(b, ",\"logprob\":");
    json_put_real(b, (double)p->logprob);
    buf_addf(b, ",\"rank\":%d}", p->rank);
}

/* Append an event's token and its likely alternatives. */
static void note_logprobs(struct buf *b, const struct tokenizer *t, const struct event *ev)
{
    buf_add_text(b, b->n ? ",{\"chosen\":" : "{\"chosen\":");
    put_logprob(b, t, &ev->chosen);
    buf_add_text(b, ",\"top\":[");
    for (int i = 0; i < ev->n_top; i++) {
        if (i) buf_add_char(b, ',');
        put_logprob(b, t, &ev->top[i]);
    }
    buf_add_text(b, "]}");
}

/* ---- generating ---- */

/* true after Ctrl-C: set by the signal handler, cleared by answer_take_interrupt */
static volatile sig_atomic_t interrupted;

/* Record Ctrl-C. `follow` cancels the request, which no function for signal handlers can do. */
static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

void answer_catch_interrupt(void)
{
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt, .sa_flags = SA_RESTART},
              NULL);
}

/* Return true if Ctrl-C was pressed since the last call. */
bool answer_take_interrupt(void)
{
    bool was = interrupted;
    interrupted = 0;
    return was;
}

/* Read events until the answer is complete. Ctrl-C cancels the request, and its end event
 * follows. */
static void follow(struct session *s, struct queue *q, struct answer *a, answer_fn *fn, void *ctx)
{
    struct event ev;
    bool done = false, cancelled = false;
    while (!done) {
        /* wait at most 50 ms, because Ctrl-C has no effect during the wait */
        bool got = queue_pop(q, &ev, 50000);
        if (!cancelled && answer_take_interrupt()) {
            engine_cancel(s->engine, a->reply.request_id);
            cancelled = true;
        }
        if (!got) continue;
        size_t from = a->text.n;
        /* tokens after a stop text are not part of the answer */
        bool shown = ev.kind == EVENT_TOKEN && !a->reply.matched;
        if (shown) a->reply.failed |= !vec_push(&a->ids, ev.token);
        if (shown && n_logprob >= 0) note_logprobs(&a->logprob, s->tokenizer, &ev);
        if (ev.kind == EVENT_PROMPT) note_logprobs(&a->prompt_logprob, s->tokenizer, &ev);
        done = reply_event(&a->reply, &ev, &a->text);
        if (a->text.n > from) fn(ctx, a->text.data + from, a->text.n - from);
    }
}

/* Return the maximum number of tokens of an answer: --max-tokens, the model's default, or the
 * context. */
static int length_max(const struct session *s)
{
    const int own = session_max_tokens(s->checkpoint);
    if (max_tokens >= 0) return (int)max_tokens;
    return max_tokens == INT64_MIN && own > 0 ? own : model_info(s->model)->context_max;
}

/* Fill the request. The request takes ownership of the constraint. Lists of parameters are in its
 * arena, so they are valid as long as the request. */
static int fill_request(struct request *r, struct answer *a, struct session *s,
                        const struct ids *prompt, bool raw_text, struct err *e)
{
    int rc = vec_reserve(&r->prompt, prompt->n)
                 ? 0
                 : err_memory(e, "a prompt", prompt->n * sizeof *prompt->v);
    if (rc == 0 && prompt->n) memcpy(r->prompt.v, prompt->v, prompt->n * sizeof *prompt->v);
    if (rc == 0) r->prompt.n = prompt->n;
    r->max_tokens = length_max(s);
    if (rc == 0) rc = sample_params_read(&r->params, s, r->max_tokens, &r->arena, e);
    if (rc != 0) return rc;
    r->params.n_logprob = (int32_t)n_logprob;
    r->n_prompt_logprob = (int)n_prompt_logprob;
    struct reply_options o = reply_options_read(s, &r->arena);
    o.keep_special |= raw_text;
    if (constraint_is_set() && r->params.ignore_eos)
        return err_field(e, ERR_ARG, "--ignore-eos",
                         ": must not come with a constraint, which ends the answer, got one");
    /* ownership moves to the request, so answer_deinit must not close the constraint again */
    r->constraint = a->constraint;
    a->constraint = NULL;
    return reply_open(&a->reply, s->engine, r->id, &o, e);
}

/* Return the message for an answer that ended with FINISH_ERROR. */
static const char *why_failed(enum cause cause)
{
    switch (cause) {
    case CAUSE_FIELDS:
        return "the constraint and the lists of tokens together forbid every token";
    case CAUSE_LIMIT:
        return "the constraint allows no token, or exceeds its limit of work or size";
    case CAUSE_MEMORY:
        return "out of memory: the constraint of an answer";
    case CAUSE_NONE:
    case CAUSE_MODEL:
        break;
    }
    return "no token can be sampled from the model's logits";
}

/* The engine owns the request after a successful engine_submit. The engine writes to the queue
 * until the end event, so the queue is closed after it. */
int answer_generate(struct answer *a, struct session *s, const struct ids *prompt, bool raw_text,
                    answer_fn *fn, void *ctx, struct err *e)
{
    struct request *r = request_open(e);
    struct queue *q = engine_reply_queue();
    int rc = r && q ? 0 : err_memory(e, "a request", sizeof *r);
    interrupted = 0;
    if (rc == 0) rc = fill_request(r, a, s, prompt, raw_text, e);
    if (rc == 0) r->reply = q;
    if (rc == 0) rc = engine_submit(s->engine, r, e);
    if (rc == 0)
        follow(s, q, a, fn, ctx);
    else
        request_close(r);
    if (rc == 0 && (a->reply.failed || a->logprob.failed || a->prompt_logprob.failed))
        rc = err_memory(e, "an answer", a->text.n);
    if (rc == 0 && a->reply.finish == FINISH_ERROR)
        rc = err_set(e, ERR_FORMAT, "%s", why_failed(a->reply.cause));
    queue_close(q);
    return rc;
}

void answer_deinit(struct answer *a)
{
    reply_close(&a->reply);
    buf_deinit(&a->text);
    buf_deinit(&a->logprob);
    buf_deinit(&a->prompt_logprob);
    vec_deinit(&a->ids);
    flags_close_constraint(a->constraint);
}

/* ---- reports ---- */

/* Return n per second; 0 for a time that is too short to measure. */
static double rate(int n, int64_t us)
{
    return us > 0 ? (double)n * 1e6 / (double)us : 0;
}

/* Return the tokens per second of decoding. The count omits the first token, because it is a result
 * of the prefill. */
static double decode_rate(const struct usage *u)
{
    return rate(u->n_output > 1 ? u->n_output - 1 : 0, u->decode_us);
}

/* Return the time from the submission to the first token, with the wait in the queue. */
static double first_token_ms(const struct usage *u)
{
    return (double)(u->queue_us + u->prefill_us) * 1e-3;
}

/* Print the figures of --weights-memory since the model was opened. Print nothing without a
 * limit. */
static void note_weights(const struct session *s)
{
    struct stats_view v;
    struct buf line = {0};
    stats_read(engine_stats(s->engine), &v);
    stats_weights_text(&v, &line);
    if (line.n > 0) view_note(0, "%.*s\n", (int)line.n, line.data);
    buf_deinit(&line);
}

void answer_report(const struct answer *a, const struct session *s, bool in_chat)
{
    const struct usage *u = &a->reply.usage;
    const struct model_info *info = model_info(s->model);
    const int max = length_max(s);
    const bool by_length = a->reply.finish == FINISH_LENGTH,
               by_max = by_length && u->n_output >= max;
    if (by_max && max_tokens >= 0)
        view_note(0, "[length: truncated at --max-tokens %d]\n", max);
    else if (by_max)
        view_note(0,
                  "[length: truncated at the model's max_new_tokens %d; --max-tokens gives more]\n",
                  max);
    else if (by_length)
        view_note(0, "[length: the context of %d tokens is full%s%s]\n", info->context_max,
                  in_chat ? ". /clear begins a new conversation" : "",
                  info->context_max < info->context_train ? "; --max-model-len gives more" : "");
    double prompt = rate(u->n_prompt - u->n_cached, u->prefill_us), decode = decode_rate(u);
    const bool dim = view_may_style(stderr);
    if (dim) fputs("\033[2m", stderr);
    view_note(0,
              /* print rates of less than 100/s with one decimal */
              "%d prompt tokens (%d cached), %.*f/s; %d generated, %.*f/s; first after %.0f ms\n",
              u->n_prompt, u->n_cached, prompt < 100, prompt, u->n_output, decode < 100, decode,
              first_token_ms(u));
    note_weights(s);
    if (dim) fputs("\033[22m", stderr);
}

int answer_print_json(const struct answer *a, const struct chat_message *message, struct err *e)
{
    const struct usage *u = &a->reply.usage;
    struct buf b = {0};
    buf_add_text(&b, "{\"text\":");
    json_put_text(&b, a->text.data ? a->text.data : "", a->text.n);
    if (message) {
        buf_add_text(&b, ",\"message\":");
        message_put(&b, message, os_random());
    }
    buf_add_text(&b, ",\"token_ids\":[");
    for (size_t i = 0; i < a->ids.n; i++) buf_addf(&b, "%s%d", i ? "," : "", a->ids.v[i]);
    buf_addf(&b,
             "],\"finish_reason\":\"%s\",\"prompt_tokens\":%d,\"cached_tokens\":%d,\"completion_"
             "tokens\":%d",
             finish_name(a->reply.finish), u->n_prompt, u->n_cached, u->n_output);
    if (a->logprob.n) buf_addf(&b, ",\"logprobs\":[%s]", a->logprob.data);
    if (a->prompt_logprob.n) buf_addf(&b, ",\"prompt_logprobs\":[%s]", a->prompt_logprob.data);
    buf_add_text(&b, ",\"time_to_first_token_ms\":");
    json_put_real(&b, first_token_ms(u));
    buf_add_text(&b, ",\"prompt_tokens_per_second\":");
    json_put_real(&b, rate(u->n_prompt - u->n_cached, u->prefill_us));
    buf_add_text(&b, ",\"tokens_per_second\":");
    json_put_real(&b, decode_rate(u));
    buf_add_text(&b, "}\n");
    return print_out(&b, e);
}
