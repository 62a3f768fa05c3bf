/* call.c - the life of one body: read, submitted, collected, written.
 *
 *   OPEN --api_call_submit--> RUNNING --api_call_poll: every part is done--> DONE --api_call_put--> (text)
 *     \________________________________ api_call_close ______________________________________/
 *
 * (1) part[0 .. n_part) have an id from the beginning, a request until it is submitted, and choices
 *     from then on. A small body that requests much needs little memory before its turn.
 * (2) n_open parts are not done. n_running of them are submitted, at most RUNNING_MAX, so that a
 *     call of many prompts fits into any queue.
 * (3) A part's queue outlives its request: close waits for its end. */
#include "dialect.h"

#include "base/os.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MODEL_MAX: each piece of an answer contains the model's name, and with --served-model-name '*'
 * the client chooses it. */
enum { PART_MAX = 2048, RUNNING_MAX = 128, ORDINARY = 8, MODEL_MAX = 4096 };

/* ---- reading ---- */

int call_parts(struct api_call *c, int n, struct err *e)
{
    if (n > PART_MAX)
        return err_field(e, ERR_ARG, c->dialect->prompt, ": must have at most %d prompts, got %d",
                         PART_MAX, n);
    c->part = calloc((size_t)n, sizeof *c->part);
    if (!c->part) return err_memory(e, "prompts", (size_t)n * sizeof *c->part);
    c->n_part = c->n_open = n;
    return 0;
}

/* Copy the parameters of the first prompt: the body is read once. The call owns the arrays of the
 * first one's lists (part_open). */
static void copy_settings(struct request *r, const struct request *first)
{
    struct request own = *r;
    *r = *first;
    r->id = own.id;
    r->arena = own.arena;
    r->prompt = own.prompt;
    r->share_id = own.share_id;
    r->cache_salt = own.cache_salt;
}

int part_open(struct part *p, struct api_call *c, const struct json *body, struct err *e)
{
    struct request *r = p->request = request_open(e);
    if (!r) return ERR_MEMORY;
    p->id = r->id;
    if (p > c->part) {
        copy_settings(r, c->part->request);
        p->reply = c->part->reply;
        return read_owner(r, body, e); /* may differ between prompts */
    }
    int rc = body_flag(body, "return_token_ids", &c->ids_back, e);
    if (rc == 0) rc = api_read_params(r, &p->reply, &c->arena, c->api, body, e);
    c->lists = r->arena; /* outlives the request */
    r->arena = (struct arena){0};
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
    c->own = arena_push0(&c->arena, 1, size);
    return c->own ? 0 : err_memory(e, "a call", size);
}

static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    if (json_kind(body) != JK_OBJECT)
        return err_field(e, ERR_ARG, "body", ": expected an object, got %s",
                         json_kind_name(json_kind(body)));
    int rc = c->dialect->fields ? fields_check(body, c->dialect->fields, e) : 0;
    return rc ? rc : c->dialect->read(c, body, e);
}

static void name_call(struct api_call *c)
{
    static _Atomic uint64_t n_call;
    snprintf(c->id, sizeof c->id, "%s%llx%04llx", c->dialect->id_prefix,
             (unsigned long long)time_wall_us(), (unsigned long long)(n_call++ & 0xFFFF));
    c->created = time_wall_us() / 1000000;
}

/* Check the requests before anything of the call is computed. The engine's errors name the prompt;
 * clients of this dialect use another field. */
static int validate_part(const struct api_call *c, struct part *p, struct err *e)
{
    struct engine *en = c->api->session->engine; /* NULL: bodies are only read */
    int rc = en ? engine_validate(en, p->request, e) : 0;
    if (rc == ERR_LIMIT) engine_refused(en);
    p->n_prompt = (int)p->request->prompt.n;
    return rc ? err_rename(e, rc, "prompt", c->dialect->prompt) : 0;
}

/* Prepare the first prompt's sampling parameters for all prompts: lists may be long, and prompts
 * many. */
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
    return d ? call_open(out, a, d, body, bell, e)
             : err_field(e, ERR_MISSING, "url", ": endpoint \"%.100s\" not found", url);
}

int call_open(struct api_call **out, const struct api *a, const struct dialect *dialect,
              const struct json *body, struct queue *bell, struct err *e)
{
    *out = NULL;
    struct api_call *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e, "a call", sizeof *c);
    c->api = a;
    c->dialect = dialect;
    c->unique = os_random();
    name_call(c);
    c->bell = bell;
    int rc = read_body(c, body, e);
    if (rc == 0) rc = call_hold_requests(c, e);
    for (int i = 0; rc == 0 && i < c->n_part; i++) {
        rc = validate_part(c, &c->part[i], e);
        if (rc == 0 && i == 0) rc = share_lists(c, e);
    }
    if (rc == 0)
        *out = c;
    else
        api_call_close(c);
    return rc;
}

uint64_t choice_seed(const struct api_call *c, int index)
{
    uint64_t state = c->api->seeded ? c->api->seed ^ c->salt : c->unique;
    state ^= (uint64_t)index * 0x9E3779B97F4A7C15u;
    return rng_next(&state);
}

void api_call_salt(struct api_call *c, uint64_t salt)
{
    c->salt = salt;
}

void api_call_share(struct api_call *c, uint64_t share_id, double weight, uint64_t cache_salt)
{
    for (int i = 0; i < c->n_part; i++) {
        struct request *r = c->part[i].request;
        if (!r) continue;
        r->share_id = share_id;
        r->share_weight = weight;
        r->cache_salt ^= cache_salt;
    }
}

void api_call_arrived(struct api_call *c, int64_t arrival_us)
{
    for (int i = 0; i < c->n_part; i++)
        if (c->part[i].request) c->part[i].request->arrival_us = arrival_us;
}

void api_call_name(struct api_call *c, const char *name)
{
    for (int i = 0; i < c->n_part; i++) {
        struct request *r = c->part[i].request;
        if (r) snprintf(r->name, sizeof r->name, "%s", name);
    }
}

/* ---- running ---- */

static int submit(struct api_call *c, struct part *p, struct err *e)
{
    struct sample_params *params = &p->request->params;
    if (!params->seeded && c->api->seeded) {
        params->seed = c->api->seed ^ (c->salt + (uint64_t)(p - c->part) * 0x9E3779B97F4A7C15u);
        params->seeded = true;
    }
    p->request->retry_silently = c->n_running > 0;
    p->request->extra = c->n_running >= ORDINARY;
    int rc = part_ready(p, c, e);
    if (rc == 0) rc = engine_submit(c->api->session->engine, p->request, e);
    if (rc != 0) return rc;
    p->request = NULL;
    c->n_running++;
    return 0;
}

/* Return the bytes of a prompt's tokens as JSON text: some are long, and a control character takes
 * six. */
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

/* Return the bytes of an answer's data on the prompt's tokens, as JSON: ids, and log probabilities
 * in each form. These contain the prompt's own tokens, and alternatives of ordinary length. */
static int64_t prompt_bytes(const struct api_call *c, const struct request *r)
{
    enum { ID_BYTES = 8, BY_ID_BYTES = 80, ECHO_BYTES = 40 };
    bool echoed = c->echo && c->logprobs, named = c->prompt_logprobs || echoed;
    int64_t n_logprob = (int64_t)r->prompt.n * (r->n_prompt_logprob + 2), n = 0;
    int64_t n_text = named ? token_bytes(c->api->session->tokenizer, &r->prompt) : 0;
    if (c->ids_back) n += ID_BYTES * (int64_t)r->prompt.n;
    if (c->prompt_logprobs) n += BY_ID_BYTES * n_logprob + n_text;
    if (echoed) n += ECHO_BYTES * n_logprob + 2 * n_text;
    return n;
}

static int64_t escaped_bytes(const char *text, size_t n)
{
    return n ? (int64_t)json_text_bytes(text, n) : 0;
}

/* Return the bytes of the request that each choice repeats: in the answer and in the connection's
 * buffer. Text that its parser reads again is held once. */
static int64_t repeated_bytes(const struct api_call *c, const struct part *p)
{
    const struct request *r = p->request;
    bool of_choice = c->dialect->prompt_per_choice;
    int64_t n_text =
        2 * (escaped_bytes(p->echo.data, p->echo.n) + escaped_bytes(c->echoed.text, c->echoed.n)) +
        (int64_t)c->n_begun;
    return r->n * n_text + (of_choice ? r->n : 1) * 2 * prompt_bytes(c, r);
}

/* Reserve room for all answers before the first one. */
static int reserve(struct api_call *c, struct err *e)
{
    int64_t n_byte = 0;
    if (c->n_byte) return 0;
    for (int i = 0; i < c->n_part; i++)
        n_byte += part_bytes(&c->part[i], c->api) + repeated_bytes(c, &c->part[i]);
    n_byte += sample_lists_bytes(c->sample_lists);
    if (c->constraint) n_byte += c->constraint->n_byte;
    const struct request *first = c->part[0].request; /* nothing is submitted yet */
    int rc = engine_reserve(c->api->session->engine, first, n_byte, e);
    if (rc == 0) c->n_byte = n_byte, c->share_id = first->share_id;
    return rc;
}

int api_call_submit(struct api_call *c, struct err *e)
{
    int rc = reserve(c, e);
    for (int i = 0; rc == 0 && i < c->n_part && c->n_running < RUNNING_MAX; i++)
        if (c->part[i].request) rc = submit(c, &c->part[i], e);
    return rc == ERR_BUSY && c->n_running > 0 ? 0 : rc;
}

/* Read the events of a submitted part. The queue is freed with the last event: it is larger than
 * most answers, and a call may have thousands of parts. */
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

void api_call_cancel(struct api_call *c)
{
    for (int i = 0; i < c->n_part; i++) {
        struct part *p = &c->part[i];
        if (p->done) continue;
        if (p->request) { /* never submitted to the engine */
            request_close(p->request);
            p->request = NULL;
            p->done = true;
            c->n_open--;
        } else {
            engine_cancel(c->api->session->engine, p->id);
        }
    }
}

static void part_close(struct api_call *c, struct part *p)
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
    for (int i = 0; i < c->n_part; i++) part_close(c, &c->part[i]);
    free(c->part);
    json_drop(c->tools);
    arena_deinit(&c->arena);
    arena_deinit(&c->lists);
    sample_lists_close(c->sample_lists);
    if (c->constraint) c->constraint->op->close(c->constraint);
    if (c->api->session->engine) engine_unreserve(c->api->session->engine, c->share_id, c->n_byte);
    free(c);
}

/* ---- writing ---- */

const char *api_call_id(const struct api_call *c)
{
    return c->id;
}

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

int check_choice(const struct part *p, const struct choice *a, struct err *e)
{
    if (p->no_memory) return err_memory(e, "an answer", a->text.n);
    if (a->reply.finish == FINISH_ERROR)
        return err_set(e, ERR_IO, "the model's output allows no token%s",
                       p->held ? ", or its constraint exceeded its limit of time or memory" : "");
    if (a->reply.finish == FINISH_REFUSED)
        return err_set(
            e, ERR_BUSY,
            "the queue is full, mostly with requests of this key or address; try again later");
    if (a->reply.finish == FINISH_ABORT) return err_set(e, ERR_IO, "the request was cancelled");
    return 0;
}

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
        if (p->pooled) n += c->api->session->info->d_model;
        for (int k = 0; k < p->n; k++)
            n += (int64_t)p->choice[k].ids.n + log_size(&p->choice[k].log);
    }
    return n;
}

/* Return whether every prompt has an answer. */
static int check_choices(const struct api_call *c, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < c->n_part; i++)
        for (int k = 0; rc == 0 && k < c->part[i].n; k++)
            rc = check_choice(&c->part[i], &c->part[i].choice[k], e);
    return rc;
}

int api_call_put(const struct api_call *c, struct buf *b, struct err *e)
{
    size_t before = b->n;
    int rc = c->rc;
    if (rc != 0) {
        *e = c->why;
        return rc;
    }
    rc = check_choices(c, e);
    if (rc == 0) rc = c->dialect->put(c, b, e);
    if (rc == 0 && b->failed) rc = err_memory(e, "a response", b->n);
    if (rc != 0 && b->data) b->data[b->n = before] = 0;
    return rc;
}
