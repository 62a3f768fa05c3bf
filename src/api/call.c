/* call.c - the life of one body: read, submitted, gathered, written.
 *
 *   OPEN --api_call_submit--> RUNNING --api_call_poll: every part is done--> DONE --api_call_put--> (text)
 *     \________________________________ api_call_close ______________________________________/
 *
 * (1) part[0 .. n_part) have a request until it is submitted, and an id from the beginning; choices from then on, so
 *     that a small body that asks for much does not take much memory before its turn.
 * (2) n_open parts are not done; n_running of them have been submitted, RUNNING_MAX at most, so that a call
 *     of many prompts fits into any queue. A part's queue outlives its request: close waits for its end. */
#include "api_impl.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_MAX = 2048, RUNNING_MAX = 128, ID_MAX = 200 };

#define ENDPOINT(id) extern const struct endpoint endpoint_##id;
#include "endpoints.def"
#undef ENDPOINT
static const struct endpoint *const endpoints[] = {
#define ENDPOINT(id) &endpoint_##id,
#include "endpoints.def"
#undef ENDPOINT
};

static const struct endpoint *find_endpoint(const char *url)
{
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++)
        if (strcmp(endpoints[i]->url, url) == 0) return endpoints[i];
    return NULL;
}

/* ---- reading ---- */

int call_parts(struct api_call *c, int n, struct err *e)
{
    if (n > PART_MAX)
        return err_set(e, ERR_ARG, "%s: %d prompts are above the limit of %d", c->endpoint->prompt,
                       n, PART_MAX);
    c->part = calloc((size_t)n, sizeof *c->part);
    if (!c->part) return err_memory(e, "prompts", (size_t)n * sizeof *c->part);
    c->n_part = c->n_open = n;
    return 0;
}

/* A prompt behind the first asks for the same: the body is read once. What the lists of the first point to is the call's
 * (part_open). */
static void ask_alike(struct request *r, const struct request *first)
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
        ask_alike(r, c->part->request);
        p->reply = c->part->reply;
        return read_owner(r, body, e); /* it may be each prompt's own */
    }
    int rc = body_flag(body, "return_token_ids", &c->ids_back, e);
    if (rc == 0) rc = api_read_params(r, &p->reply, &c->arena, c->api, body, e);
    c->lists = r->arena; /* outlives the request */
    r->arena = (struct arena){0};
    return rc;
}

static int read_model(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *j = body_field(body, "model");
    size_t n;
    const char *name = json_text(j, &n);
    c->model = c->api->name;
    if (!j) return 0;
    if (!name) return body_wrong("model", "a text", j, e);
    c->model = arena_text(&c->arena, name, n);
    return c->model ? 0 : err_memory(e, "model", n);
}

/* The client's own name of the request becomes the answer's id, as it is if it may stand in a header. */
static int read_id(struct api_call *c, const struct json *body, struct err *e)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
    const char *id = NULL;
    int rc = body_text(body, "request_id", ID_MAX, &id, e);
    if (rc != 0 || !id) return rc;
    if (!*id || id[strspn(id, letters)])
        return err_set(e, ERR_ARG, "request_id: it may have letters, digits and -_.: alone");
    snprintf(c->id, sizeof c->id, "%s-%s", c->endpoint->id_prefix, id);
    return 0;
}

/* Does the client want the answer in pieces? */
static int read_stream(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *options = body_field(body, "stream_options");
    int rc = body_flag(body, "stream", &c->stream, e);
    if (rc == 0 && c->stream && !(c->api->streams && c->endpoint->put_pieces))
        rc = err_set(e, ERR_UNSUPPORTED, "stream: answers come as a whole here");
    if (rc != 0 || !options) return rc;
    if (json_kind(options) != JK_OBJECT)
        return body_wrong("stream_options", "an object", options, e);
    if (!c->stream) return err_set(e, ERR_ARG, "stream_options: stream must be true with it");
    return body_flag(options, "include_usage", &c->include_usage, e);
}

static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    if (json_kind(body) != JK_OBJECT)
        return err_set(e, ERR_ARG, "body: expected an object, found %s",
                       json_kind_name(json_kind(body)));
    int rc = fields_check(body, c->endpoint->kind, e);
    if (rc == 0) rc = read_model(c, body, e);
    if (rc == 0) rc = read_id(c, body, e);
    if (rc == 0) rc = read_stream(c, body, e);
    return rc ? rc : c->endpoint->read(c, body, e);
}

static void name_call(struct api_call *c)
{
    static _Atomic uint64_t n_call;
    snprintf(c->id, sizeof c->id, "%s-%llx%04llx", c->endpoint->id_prefix,
             (unsigned long long)time_wall_us(), (unsigned long long)(n_call++ & 0xFFFF));
    c->created = time_wall_us() / 1000000;
}

/* What the engine will not take is refused before anything of the call is computed. The engine speaks of prompts; this
 * endpoint's clients called theirs something else. */
static int may_submit(const struct api_call *c, struct part *p, struct err *e)
{
    static const char said[] = "prompt";
    struct engine *en = c->api->session->engine; /* NULL: bodies are only read */
    int rc = en ? engine_may_take(en, p->request, e) : 0;
    if (rc == 0 || strncmp(e->text, said, sizeof said - 1) != 0) return rc;
    struct err own = *e;
    return err_set(e, rc, "%s%s", c->endpoint->prompt, own.text + sizeof said - 1);
}

int api_call_open(struct api_call **out, const struct api *a, const char *url,
                  const struct json *body, struct queue *bell, struct err *e)
{
    *out = NULL;
    const struct endpoint *endpoint = find_endpoint(url);
    if (!endpoint) return err_set(e, ERR_MISSING, "url: there is no endpoint \"%.100s\"", url);
    struct api_call *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e, "a call", sizeof *c);
    c->api = a;
    c->endpoint = endpoint;
    name_call(c);
    c->bell = bell;
    int rc = read_body(c, body, e);
    for (int i = 0; rc == 0 && i < c->n_part; i++) rc = may_submit(c, &c->part[i], e);
    if (rc == 0)
        *out = c;
    else
        api_call_close(c);
    return rc;
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
    p->request->patient = c->n_running > 0;
    int rc = part_ready(p, c, e);
    if (rc == 0) rc = engine_submit(c->api->session->engine, p->request, e);
    if (rc != 0) return rc;
    p->request = NULL;
    c->n_running++;
    return 0;
}

/* Room for all answers, before there is one. */
static int reserve(struct api_call *c, struct err *e)
{
    int64_t n_byte = 0;
    if (c->n_byte) return 0;
    for (int i = 0; i < c->n_part; i++) n_byte += part_bytes(&c->part[i], c->api);
    int rc = engine_reserve(c->api->session->engine, n_byte, e);
    if (rc == 0) c->n_byte = n_byte;
    return rc;
}

int api_call_submit(struct api_call *c, struct err *e)
{
    int rc = reserve(c, e);
    for (int i = 0; rc == 0 && i < c->n_part && c->n_running < RUNNING_MAX; i++)
        if (c->part[i].request) rc = submit(c, &c->part[i], e);
    return rc == ERR_BUSY && c->n_running > 0 ? 0 : rc;
}

static void part_poll(struct api_call *c, struct part *p, int64_t wait_us)
{
    struct event ev;
    while (!p->done && queue_pop(p->queue, &ev, wait_us)) {
        part_event(p, &ev);
        c->n_open -= p->done;
        c->n_running -= p->done;
    }
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
        if (p->request) { /* the engine never heard of it */
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
    arena_deinit(&c->arena);
    arena_deinit(&c->lists);
    if (c->api->session->engine) engine_unreserve(c->api->session->engine, c->n_byte);
    free(c);
}

/* ---- writing ---- */

const char *api_call_model(const struct api_call *c)
{
    return c->model;
}

const char *api_call_id(const struct api_call *c)
{
    return c->id;
}

void put_head(const struct api_call *c, const char *object, struct buf *b)
{
    buf_addf(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id, object,
             (long long)c->created);
    json_put_text(b, c->model, strlen(c->model));
    if (c->api->fingerprint) {
        buf_add_text(b, ",\"system_fingerprint\":");
        json_put_text(b, c->api->fingerprint, strlen(c->api->fingerprint));
    }
    buf_addf(b, ",\"%s\":[", c->endpoint->list);
}

void put_token_ids(struct buf *b, const struct choice *a, size_t from)
{
    bool stopped = a->reply.finish && a->stop_id >= 0;
    buf_add_text(b, ",\"token_ids\":");
    put_ids(b, a->ids.v + from, a->ids.n - from);
    if (!stopped) return;
    b->n -= b->n > 0; /* the bracket */
    buf_addf(b, a->ids.n > from ? ",%d]" : "%d]", a->stop_id);
}

/* Of completions they are a choice's, of a chat the response's: as vLLM has them. */
void put_prompt_ids(const struct api_call *c, const struct part *p, struct buf *b)
{
    if (!c->ids_back) return;
    buf_add_text(b, ",\"prompt_token_ids\":");
    put_ids(b, p->prompt.v, p->prompt.n);
}

/* Of best_of answers only those that are told count, as far as they are told. */
int api_call_n_token(const struct api_call *c, int *n_prompt)
{
    int n = 0, prompt = 0;
    for (int i = 0; i < c->n_part; i++) {
        const struct part *p = &c->part[i];
        for (int k = 0; k < p->n; k++) {
            const struct choice *a = &p->choice[k];
            n += p->ranked ? (int)a->ids.n + (a->stop_id >= 0) : a->reply.usage.n_output;
        }
        prompt += p->usage.n_prompt;
    }
    if (n_prompt) *n_prompt = prompt;
    return n;
}

int check_choice(const struct part *p, const struct choice *a, struct err *e)
{
    if (p->no_memory) return err_memory(e, "an answer", a->text.n);
    if (a->reply.finish == FINISH_ERROR)
        return err_set(e, ERR_IO, "the model gave no token that may be picked");
    if (a->reply.finish == FINISH_ABORT) return err_set(e, ERR_IO, "the request was cancelled");
    return 0;
}

void put_usage(const struct api_call *c, struct buf *b)
{
    int n_prompt = 0, n = api_call_n_token(c, &n_prompt), n_cached = 0;
    for (int i = 0; i < c->n_part; i++) n_cached += c->part[i].usage.n_cached;
    buf_addf(b,
             "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
             "\"prompt_tokens_details\":{\"cached_tokens\":%d}}",
             n_prompt, n, n_prompt + n, n_cached);
}

/* What all endpoints say behind the choice itself: the tokens, where they are wanted, and how it ended. */
static void put_end(const struct api_call *c, const struct part *p, const struct choice *a,
                    bool called, struct buf *b)
{
    if (c->prompt_logprobs) {
        buf_add_text(b, ",\"prompt_logprobs\":");
        put_prompt_logprobs(b, c->api->session->tokenizer, &p->prompt_log);
    }
    if (c->endpoint->kind == ENDPOINT_TEXT) put_prompt_ids(c, p, b);
    if (c->ids_back) put_token_ids(b, a, 0);
    if (!p->pooled) put_finish(b, p, a, called);
}

/* The choices of one prompt behind those of the others. */
static int put_part(const struct api_call *c, const struct part *p, int *index, struct buf *b,
                    struct err *e)
{
    int rc = 0;
    for (int k = 0; rc == 0 && k < p->n; k++) {
        const struct choice *a = &p->choice[k];
        bool called = false;
        rc = check_choice(p, a, e);
        buf_addf(b, "%s{\"index\":%d", *index ? "," : "", *index);
        if (rc == 0) rc = c->endpoint->put(c, p, a, &called, b, e);
        put_end(c, p, a, called, b);
        buf_add_char(b, '}');
        ++*index;
    }
    return rc;
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
        if (p->pooled) n += model_info(c->api->session->model)->d_model;
        for (int k = 0; k < p->n; k++)
            n += (int64_t)p->choice[k].ids.n + log_size(&p->choice[k].log);
    }
    return n;
}

int api_call_put(const struct api_call *c, struct buf *b, struct err *e)
{
    size_t before = b->n;
    int rc = c->rc;
    if (rc != 0) return err_set(e, rc, "%s", c->why.text);
    put_head(c, c->endpoint->object, b);
    for (int i = 0, index = 0; rc == 0 && i < c->n_part; i++)
        rc = put_part(c, &c->part[i], &index, b, e);
    buf_add_char(b, ']');
    if (c->endpoint->kind == ENDPOINT_CHAT) put_prompt_ids(c, c->part, b);
    buf_add_text(b, ",\"usage\":");
    put_usage(c, b);
    buf_add_char(b, '}');
    if (rc == 0 && b->failed) rc = err_memory(e, "a response", b->n);
    if (rc != 0 && b->data) b->data[b->n = before] = 0;
    return rc;
}
