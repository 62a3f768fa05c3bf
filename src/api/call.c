/* call.c - the states of one body: read, submitted, collected, written.
 *
 *   OPEN --api_call_submit--> RUNNING --api_call_poll: every part is done--> DONE
 *     \___________________________________________________________ api_call_close __/
 *
 * api_call_put writes the answer of a call that is DONE.
 *
 * (1) Each part in part[0, n_part) has an id from the beginning, a request until its submission,
 *     and choices after it. A small body with many prompts therefore needs little memory before its
 *     requests run.
 * (2) n_open parts are not done. n_running of them are submitted, at most RUNNING_MAX, so that a
 *     call of many prompts fits into any queue.
 * (3) A part's queue outlives its request, because api_call_close waits for its end. */
#include "dialect.h"

#include "base/check.h"
#include "base/os.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PART_MAX: maximum number of prompts, so that one body does not fill the engine's queue.
 * RUNNING_MAX: maximum number of submitted prompts of a call; each end of a prompt permits another
 * submission.
 * MODEL_MAX: maximum length of the model's name, which each piece of an answer contains. The client
 * may send any name if --served-model-name is '*'. */
enum { PART_MAX = 2048, RUNNING_MAX = 128, MODEL_MAX = 4096 };

/* ---- reading ---- */

/* Allocate n parts. ERR_LIMIT if n is too large. The parts are zeroed, so api_call_close accepts
 * them at any time. */
int call_parts(struct api_call *c, int n, struct err *e)
{
    CHECK(!c->part, "the call has %d parts already", c->n_part);
    if (n > PART_MAX)
        return err_field(e, ERR_ARG, c->dialect->prompt, ": must have at most %d prompts, got %d",
                         PART_MAX, n);
    c->part = calloc((size_t)n, sizeof *c->part);
    if (!c->part) return err_memory(e, "prompts", (size_t)n * sizeof *c->part);
    c->n_part = c->n_open = n;
    return 0;
}

/* Copy the parameters of the first prompt, because the body is read only once. The call owns the
 * arrays of the first prompt's lists (part_read). */
static void copy_settings(struct request *r, const struct request *first)
{
    struct request own = *r;
    *r = *first;
    r->id = own.id;
    r->arena = own.arena;
    r->prompt = own.prompt;
    r->holder = own.holder;
    r->cache_salt = own.cache_salt;
}

int part_read(struct part *p, struct api_call *c, const struct json *body, struct err *e)
{
    CHECK(p >= c->part && p < c->part + c->n_part, "part %td of %d", p - c->part, c->n_part);
    struct request *r = p->request = request_open(e);
    if (!r) return ERR_MEMORY;
    p->id = r->id;
    if (p > c->part) {
        copy_settings(r, c->part->request);
        p->reply = c->part->reply;
        return read_holder(r, body, e); /* prompts may have different holders */
    }
    int rc = body_flag(body, "return_token_ids", &c->ids_back, e);
    if (rc == 0) rc = body_flag(body, "return_tokens", &c->tokens_back, e);
    if (rc == 0) rc = body_flag(body, "return_prompt_text", &c->text_back, e);
    if (rc == 0) rc = read_figures(c, r, body, e);
    if (rc == 0) rc = api_read_params(r, &p->reply, &c->arena, c->api, body, e);
    c->lists = r->arena; /* the queue outlives the request */
    r->arena = (struct arena){0};
    return rc;
}

int part_error(const struct api_call *c, const struct part *p, int rc, struct err *e)
{
    char index[24];
    if (rc == 0 || !e || !c->listed || strcmp(e->field, c->dialect->prompt) != 0) return rc;
    snprintf(index, sizeof index, "[%td]", p - c->part);
    rename_field(e, 0, c->dialect->prompt, index);
    return rc;
}

int call_model(struct api_call *c, const struct json *body, struct err *e)
{
    const char *name = c->api->name;
    int rc = body_text(body, "model", MODEL_MAX, &name, e);
    if (rc != 0) return rc;
    c->model = arena_text(&c->arena, name, strlen(name));
    return c->model ? 0 : err_memory(e, "model", strlen(name));
}

int call_stream(struct api_call *c, struct err *e)
{
    if (!c->stream || (c->api->streams && c->dialect->stream_type)) return 0;
    return err_field(e, ERR_UNSUPPORTED, "stream", ": not supported by this endpoint");
}

int call_own(struct api_call *c, size_t size, struct err *e)
{
    CHECK(!c->own, "%zu bytes", size);
    c->own = arena_push0(&c->arena, 1, size);
    return c->own ? 0 : err_memory(e, "a call", size);
}

/* Check all fields, then read those of the dialect. The check precedes the reading, so that an
 * unsupported field is reported before the work of tokenizing. */
static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    if (json_kind(body) != JK_OBJECT)
        return err_field(e, ERR_ARG, "body", ": expected an object, got %s",
                         json_kind_name(json_kind(body)));
    int rc = c->dialect->fields ? fields_check(body, c->dialect->fields, e) : 0;
    return rc ? rc : c->dialect->read(c, body, e);
}

/* Set the id of the answer: the dialect's prefix, microseconds since 1970, and a counter for calls
 * of the same microsecond. */
static void name_call(struct api_call *c)
{
    static _Atomic uint64_t n_call;
    snprintf(c->id, sizeof c->id, "%s%llx%04llx", c->dialect->id_prefix,
             (unsigned long long)time_wall_us(), (unsigned long long)(n_call++ & 0xFFFF));
    c->created = time_wall_us() / 1000000;
}

/* Check all requests before the engine computes the first one. The engine's errors contain the
 * field "prompt", which may have another name in this dialect. */
static int validate_part(const struct api_call *c, struct part *p, struct err *e)
{
    /* the model's engine; NULL: bodies are only validated */
    struct engine *en = c->api->session->engine;
    int rc = en ? engine_validate(en, p->request, e) : 0;
    if (rc == ERR_LIMIT) engine_refused(en);
    p->n_prompt = (int)p->request->prompt.n;
    /* the number of beams is n or best_of (read_beams) */
    if (rc != 0)
        err_rename(e, rc, "beam_width", p->request->beam_width > p->request->n ? "best_of" : "n");
    if (rc != 0) err_rename(e, rc, "prompt", c->dialect->prompt);
    return part_error(c, p, rc, e);
}

/* Prepare the sampling parameters once for all prompts, because there may be long lists and many
 * prompts. */
static int share_lists(struct api_call *c, struct err *e)
{
    struct engine *en = c->api->session->engine;
    int rc = en ? engine_share_lists(en, &c->part->request->params, &c->sample_lists, e) : 0;
    for (int i = 0; i < c->n_part; i++) c->part[i].request->params.lists = c->sample_lists;
    return rc;
}

int api_call_open(struct api_call **out, const struct api *a, const char *url,
                  const struct json *body, struct queue *bell, struct err *e)
{
    const struct dialect *d = dialect_find(url);
    *out = NULL;
    return d ? call_open(out, a, d, body, (struct call_origin){0}, bell, e)
             : err_field(e, ERR_MISSING, "url", ": endpoint \"%.100s\" not found", url);
}

/* Replace OpenAI's names in an error by those of the dialect. Return rc. */
static int named(const struct api_call *c, int rc, struct err *e)
{
    if (rc != 0 && e && c->dialect->name_error) c->dialect->name_error(c, e);
    return rc;
}

/* End all parts, because the answer depends on their prompts only. */
static void end_counted(struct api_call *c)
{
    for (int i = 0; i < c->n_part; i++) {
        struct part *p = &c->part[i];
        p->n_prompt = (int)p->request->prompt.n;
        p->done = true;
        request_close(p->request);
        p->request = NULL;
    }
    c->n_open = 0;
}

/* Validate the requests of all prompts, with their constraint. */
static int complete(struct api_call *c, struct err *e)
{
    int rc = call_constrain_requests(c, e);
    const int adapter = rc == 0 ? session_adapter(c->api->session, c->model) : 0;
    for (int i = 0; rc == 0 && i < c->n_part; i++) {
        c->part[i].request->adapter = adapter;
        c->part[i].request->arrival_us = c->arrival_us;
        rc = validate_part(c, &c->part[i], e);
        if (rc == 0 && i == 0) rc = share_lists(c, e);
    }
    return rc;
}

/* Set limits with which the requests end without a token, because the requests have no constraint.
 * max_tokens 0 is necessary because deadlines are compared with the beginning of a step, which may
 * precede the request's arrival. */
static void end_late(struct api_call *c)
{
    for (int i = 0; i < c->n_part; i++) {
        struct request *r = c->part[i].request;
        r->deadline_us = 1;
        r->max_tokens = r->params.min_tokens = 0;
    }
}

/* The body is read first, then the constraint for all prompts is made, and then the engine checks
 * each request. The lists of the parameters are shared after the first request was validated. */
int call_open(struct api_call **out, const struct api *a, const struct dialect *dialect,
              const struct json *body, struct call_origin from, struct queue *bell, struct err *e)
{
    *out = NULL;
    struct api_call *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e, "a call", sizeof *c);
    c->api = a;
    c->dialect = dialect;
    c->holder = from.holder;
    c->owner = from.owner;
    c->arrival_us = from.arrival_us;
    c->keeps_model = from.keeps_model;
    c->unique = os_random();
    c->budget = -1;
    name_call(c);
    c->bell = bell;
    int rc = read_body(c, body, e);
    if (rc == 0 && dialect->counts)
        end_counted(c);
    else if (rc == 0)
        rc = complete(c, e);
    if (rc == 0 && c->late) end_late(c);
    named(c, rc, e);
    if (rc == 0)
        *out = c;
    else
        api_call_close(c);
    return rc;
}

/* Return a seed for ids of tool calls in choice `index`. The seed differs between calls, unless the
 * api has a seed. The constant is 2^64 divided by the golden ratio. */
uint64_t choice_seed(const struct api_call *c, int index)
{
    CHECK(index >= 0, "choice %d", index);
    uint64_t state = c->api->seeded ? c->api->seed ^ c->salt : c->unique;
    state ^= (uint64_t)index * 0x9E3779B97F4A7C15u;
    return rng_next(&state);
}

void api_call_salt(struct api_call *c, uint64_t salt)
{
    c->salt = salt;
}

void api_call_set_holder(struct api_call *c, uint64_t holder, double weight, uint64_t cache_salt)
{
    for (int i = 0; i < c->n_part; i++) {
        struct request *r = c->part[i].request;
        if (!r) continue;
        r->holder = holder;
        r->holder_weight = weight;
        /* the client's cache_salt keeps its effect */
        r->cache_salt ^= cache_salt;
    }
}

void api_call_set_priority(struct api_call *c, int priority)
{
    for (int i = 0; i < c->n_part; i++)
        if (c->part[i].request) c->part[i].request->priority = priority;
}

void api_call_name(struct api_call *c, const char *name)
{
    for (int i = 0; i < c->n_part; i++) {
        struct request *r = c->part[i].request;
        if (r) snprintf(r->name, sizeof r->name, "%s", name);
    }
}

/* ---- running ---- */

/* Submit one part. Return ERR_BUSY, without a change of the part, if the engine's queue is full.
 * The function may then be called again. A part beyond ORDINARY_MAX is extra, so other requests
 * have precedence. */
static int submit(struct api_call *c, struct part *p, struct err *e)
{
    struct sample_params *params = &p->request->params;
    if (!params->seeded && c->api->seeded) {
        params->seed = c->api->seed ^ (c->salt + (uint64_t)(p - c->part) * 0x9E3779B97F4A7C15u);
        params->seeded = true;
    }
    p->request->retry_silently = c->n_running > 0;
    p->request->extra = c->n_running >= ORDINARY_MAX;
    int rc = part_ready(p, c, e);
    if (rc == 0) rc = engine_submit(c->api->session->engine, p->request, e);
    if (rc != 0) return rc;
    p->request = NULL;
    c->n_running++;
    return 0;
}

/* Return the number of bytes of a prompt's tokens as JSON text. Some tokens are long, and a control
 * character takes six bytes. */
static int64_t token_bytes(const struct tokenizer *t, const struct ids *ids)
{
    int64_t sum = 0;
    for (size_t i = 0; i < ids->n; i++) {
        size_t n = 0;
        const char *text = tokenizer_bytes(t, ids->v[i], &n);
        if (text) sum += (int64_t)json_text_bytes(text, n);
    }
    return sum;
}

/* Return the number of bytes of an answer's data on the prompt, as JSON. The data are text, ids,
 * and log probabilities in each form. The estimate uses the prompt's own tokens, and alternatives
 * of ordinary length. */
static int64_t prompt_bytes(const struct api_call *c, const struct part *p)
{
    const struct request *r = p->request;
    enum { ID_BYTES = 8, BY_ID_BYTES = 80, ECHO_BYTES = 40 };
    bool echoed = c->echo && c->logprobs, named = c->prompt_logprobs || echoed;
    int64_t n_logprob = (int64_t)r->prompt.n * (r->n_prompt_logprob + 2), n = 0;
    int64_t n_text = named ? token_bytes(c->api->session->tokenizer, &r->prompt) : 0;
    if (c->ids_back) n += ID_BYTES * (int64_t)r->prompt.n;
    if (p->text.n) n += (int64_t)json_text_bytes(p->text.data, p->text.n);
    if (c->prompt_logprobs) n += BY_ID_BYTES * n_logprob + n_text;
    if (echoed) n += ECHO_BYTES * n_logprob + 2 * n_text;
    return n;
}

/* Return the length of the text as JSON. */
static int64_t escaped_bytes(const char *text, size_t n)
{
    return n ? (int64_t)json_text_bytes(text, n) : 0;
}

/* Return the number of bytes of the request that each choice repeats, in the answer and in the
 * connection's buffer. The sum counts each text once, although the parser reads some texts
 * twice. */
static int64_t repeated_bytes(const struct api_call *c, const struct part *p)
{
    const struct request *r = p->request;
    bool of_choice = c->dialect->prompt_per_choice;
    int64_t n_text =
        2 * (escaped_bytes(p->echo.data, p->echo.n) + escaped_bytes(c->echoed.text, c->echoed.n)) +
        (int64_t)c->n_begun;
    return r->n * n_text + (of_choice ? r->n : 1) * 2 * prompt_bytes(c, p);
}

/* Reserve memory for all answers before the first answer. */
static int reserve(struct api_call *c, struct err *e)
{
    int64_t n_byte = 0;
    if (c->n_byte) return 0;
    for (int i = 0; i < c->n_part; i++)
        n_byte += part_bytes(&c->part[i]) + repeated_bytes(c, &c->part[i]);
    n_byte += sample_lists_bytes(c->sample_lists);
    if (c->constraint) n_byte += c->constraint->n_byte;
    const struct request *first = c->part[0].request; /* no request is submitted yet */
    int rc = engine_reserve(c->api->session->engine, first, n_byte, e);
    if (rc == 0) c->n_byte = n_byte, c->holder = first->holder;
    return rc;
}

/* Submit as many parts as permitted. A full queue is an error only if no part runs. Otherwise
 * api_call_poll continues after the end of a part. */
int api_call_submit(struct api_call *c, struct err *e)
{
    if (c->n_open == 0) { /* no event of the engine will ring the bell */
        if (c->bell) queue_push(c->bell, "");
        return 0;
    }
    int rc = reserve(c, e);
    for (int i = 0; rc == 0 && i < c->n_part && c->n_running < RUNNING_MAX; i++)
        if (c->part[i].request) rc = submit(c, &c->part[i], e);
    return rc == ERR_BUSY && c->n_running > 0 ? 0 : named(c, rc, e);
}

/* Read the events of a submitted part. The queue is freed with the last event. A queue is larger
 * than most answers, and a call may have thousands of parts. */
static void part_poll(struct api_call *c, struct part *p, int64_t wait_us)
{
    struct event ev;
    if (p->done) return;
    while (!p->done && queue_pop(p->queue, &ev, wait_us)) part_event(p, &ev);
    if (!p->done) return;
    c->n_open--;
    c->n_running--;
    queue_close(p->queue);
    p->queue = NULL;
}

/* A failed submission of later parts cancels the call. The loop then continues until all submitted
 * parts have ended. */
bool api_call_poll(struct api_call *c)
{
    int n_running = c->n_running;
    for (int i = 0; i < c->n_part && c->n_running > 0; i++)
        if (!c->part[i].request) part_poll(c, &c->part[i], 0);
    if (c->n_running < n_running && c->n_open > c->n_running) {
        c->rc = api_call_submit(c, &c->why);
        if (c->rc != 0) api_call_cancel(c);
    }
    return c->n_open == 0;
}

/* Parts without a submission are done immediately. Submitted parts are done after the engine's end
 * event. */
void api_call_cancel(struct api_call *c)
{
    for (int i = 0; i < c->n_part; i++) {
        struct part *p = &c->part[i];
        if (p->done) continue;
        if (p->request) { /* true if the part was never submitted */
            request_close(p->request);
            p->request = NULL;
            p->done = true;
            c->n_open--;
        } else {
            engine_cancel(c->api->session->engine, p->id);
        }
    }
}

/* Wait for the end of a running part, because the engine writes to its queue until the end
 * event. */
static void part_stop(struct api_call *c, struct part *p)
{
    bool running = p->queue && !p->request && !p->done;
    if (running) {
        engine_cancel(c->api->session->engine, p->id);
        part_poll(c, p, -1);
    }
    part_deinit(p);
}

void api_call_close(struct api_call *c)
{
    if (!c) return;
    call_end_span(c);
    for (int i = 0; i < c->n_part; i++) part_stop(c, &c->part[i]);
    free(c->part);
    if (c->dialect->close) c->dialect->close(c);
    json_drop(c->tools);
    sample_lists_drop(c->sample_lists);
    if (c->constraint) c->constraint->op->close(c->constraint);
    template_close(c->template);
    if (c->api->session->engine) engine_unreserve(c->api->session->engine, c->holder, c->n_byte);
    if (c->holds) served_drop(c->api);
    arena_deinit(&c->lists);
    arena_deinit(&c->arena); /* the arena contains the api of a call with a separate template */
    free(c);
}

/* ---- writing ---- */

const char *api_call_id(const struct api_call *c)
{
    return c->id;
}

/* A ranked choice (best_of) counts its own tokens, because the usage counts all candidates. */
int choice_n_token(const struct part *p, const struct choice *a)
{
    if (p->ranked) return (int)a->ids.n + (a->stop_id >= 0);
    return a->reply.finish ? a->reply.usage.n_output : a->reply.n_token;
}

int api_call_n_token(const struct api_call *c, int *n_prompt)
{
    int n = 0, prompt = 0;
    for (int i = 0; i < c->n_part; i++) {
        const struct part *p = &c->part[i];
        for (int k = 0; k < p->n; k++) n += choice_n_token(p, &p->choice[k]);
        prompt += p->n_prompt;
    }
    if (n_prompt) *n_prompt = prompt;
    return n;
}

/* Set the error of fields that together allow no token. Only fields that forbid a token are named,
 * because a client can change these. */
static int fail_by_fields(const char *field, unsigned forbids, struct err *e)
{
    static const char *const names[] = {"logit_bias", "bad_words", "allowed_token_ids",
                                        "min_tokens"};
    char list[64] = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (forbids >> i & 1)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", names[i]);
    if (!field) return err_set(e, ERR_ARG, "%s: no token may follow", list);
    return err_field(e, ERR_ARG, field, ": contradicts %s: no token may follow", list);
}

/* Set the error of a choice that ended with FINISH_ERROR. A limit of the constraint is a client's
 * error, because an equal request would also exceed the limit. */
static int fail_by(const struct part *p, const struct reply *r, struct err *e)
{
    const char *field = p->constraint_field;
    if (r->cause == CAUSE_MEMORY)
        return err_set(e, ERR_MEMORY, "out of memory: the constraint of an answer");
    if (r->cause == CAUSE_FIELDS) return fail_by_fields(field, r->forbids, e);
    if (r->cause == CAUSE_LIMIT && field)
        return err_field(e, ERR_LIMIT, field,
                         ": allows no token, or exceeds its limit of work or size");
    return err_set(e, ERR_IO, "the model's output allows no token");
}

int check_choice(const struct part *p, const struct choice *a, struct err *e)
{
    if (p->no_memory) return err_memory(e, "an answer", a->text.n);
    if (a->reply.finish == FINISH_ERROR) return fail_by(p, &a->reply, e);
    if (a->reply.finish == FINISH_REFUSED)
        return err_set(
            e, ERR_BUSY,
            "the queue is full, mostly with requests of this key or address; try again later");
    if (a->reply.finish == FINISH_ABORT) return err_set(e, ERR_IO, "the request was cancelled");
    return 0;
}

/* Return the number of log probabilities, by the last token's number of alternatives. */
static int64_t log_size(const struct answer_log *log)
{
    return (int64_t)log->n * (log->n ? 1 + log->v[log->n - 1].n_top : 0);
}

int64_t api_call_size(const struct api_call *c)
{
    int64_t n = 0;
    for (int i = 0; i < c->n_part; i++) {
        const struct part *p = &c->part[i];
        n += (int64_t)p->prompt.n + log_size(&p->prompt_log);
        n += p->n_pooled;
        for (int k = 0; k < p->n; k++)
            n += (int64_t)p->choice[k].ids.n + log_size(&p->choice[k].log);
    }
    return n;
}

/* Return 0 if every prompt has an answer. */
static int check_choices(const struct api_call *c, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < c->n_part; i++)
        for (int k = 0; rc == 0 && k < c->part[i].n; k++)
            rc = check_choice(&c->part[i], &c->part[i].choice[k], e);
    return rc;
}

/* b is unchanged after a failure, so the caller can replace the answer by an error. */
int api_call_put(const struct api_call *c, struct buf *b, struct err *e)
{
    size_t before = b->n;
    int rc = c->rc;
    if (rc != 0) {
        *e = c->why;
        return rc;
    }
    rc = check_choices(c, e);
    if (rc != 0) named(c, rc, e);
    if (rc == 0) rc = c->dialect->put(c, b, e);
    if (rc == 0 && b->failed) rc = err_memory(e, "a response", b->n);
    if (rc != 0 && b->data) b->data[b->n = before] = 0;
    return rc;
}
