/* llamacpp_completion.c - llama.cpp's /completion and /infill: texts that the model continues, or
 * fills in.
 *
 *   {"prompt":"1 + 1 =","n_predict":4}
 *   {"index":0,"content":" 2","tokens":[],"stop":true,"stop_type":"eos","timings":{...},...}
 *
 * The answer is a list if it has several prompts or choices. A stream has an event for each piece
 * of text, and one with all members at the end of each choice. The body has the fields of
 * completions under llama.cpp's names. Absent fields have the defaults of the server and the
 * model. */
#include "llamacpp.h"
#include "openai.h"

#include <string.h>

/* SELECTED_MAX, SELECTED_BYTES_MAX: maximum number and length of names in response_fields. */
enum { SELECTED_MAX = 64, SELECTED_BYTES_MAX = 256 };

/* Data of c->own. */
struct llamacpp {
    struct text_span settings;        /* object `generation_settings`, in the call's arena */
    const struct text_span *selected; /* names in response_fields, in the call's arena [n] */
    int n_selected;                   /* -1: the answer has all members */
};

static const struct llamacpp *own_of(const struct api_call *c)
{
    return c->own;
}

/* ---- the body ---- */

/* Open the request of a prompt (part_fn). Later prompts copy the first one's fields. */
static int open_part(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    int rc = part_read(p, c, body, e);
    if (rc != 0 || p > c->part) return rc;
    struct sample_params *params = &p->request->params;
    if (params->seed == (uint64_t)-1 || params->seed == UINT32_MAX) params->seeded = false;
    rc = openai_read_max_tokens(c, p->request, body, e);
    if (rc == 0) rc = read_probs(c, p->request, body, e);
    c->token_ends = c->probs && !c->stream;
    return rc;
}

/* Read the names of the members that the answer has. */
static int read_selected(struct api_call *c, const struct json *body, struct err *e)
{
    struct llamacpp *own = c->own;
    int n = 0,
        rc = body_texts(body, "response_fields", SELECTED_MAX, &c->arena, &own->selected, &n, e);
    own->n_selected = n > 0 ? n : -1;
    for (int i = 0; rc == 0 && i < n; i++)
        if (own->selected[i].n > SELECTED_BYTES_MAX)
            rc = err_field(e, ERR_LIMIT, "response_fields",
                           "[%d]: must have at most %d bytes, got %zu", i, SELECTED_BYTES_MAX,
                           own->selected[i].n);
    return rc;
}

/* Read the fields around the prompts. */
static int read_call(struct api_call *c, const struct json *body, struct err *e)
{
    int rc = call_own(c, sizeof(struct llamacpp), e);
    if (rc == 0) rc = call_model(c, body, e);
    if (rc == 0) rc = body_flag(body, "stream", &c->stream, e);
    if (rc == 0) rc = call_stream(c, e);
    if (rc == 0) rc = read_selected(c, body, e);
    if (rc == 0) rc = api_read_budget(c->api, body, &c->budget, e);
    c->text_back = true;
    return rc;
}

/* Write the settings, which the answer repeats. The engine owns the request afterwards. */
static int keep_settings(struct api_call *c, struct err *e)
{
    struct llamacpp *own = c->own;
    const struct part *p = c->part;
    const int context = c->api->session->info->context_max;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    llamacpp_put_settings(&o, &(struct llamacpp_settings){
                                  .params = &p->request->params,
                                  .n_predict = llamacpp_n_predict(c->api, p->request->max_tokens),
                                  .reply = &p->reply,
                                  .call = c});
    out_int(&o, "n_ctx", context);
    out_word(&o, "model", c->model);
    out_end(&o);
    const char *text = b.failed ? NULL : arena_text(&c->arena, b.data, b.n);
    own->settings = (struct text_span){text, b.n};
    buf_deinit(&b);
    return text ? 0 : err_memory(e, "the settings of an answer", b.n);
}

/* Return the prompt of an object {"prompt_string":TEXT}; another value unchanged. NULL after an
 * error. */
static const struct json *plain_prompt(const struct json *prompt, struct err *e)
{
    if (json_kind(prompt) != JK_OBJECT) return prompt;
    const struct json *text = body_field(prompt, "prompt_string");
    if (body_is_set(body_field(prompt, "multimodal_data"))) {
        err_field(e, ERR_UNSUPPORTED, "prompt", ".multimodal_data: not supported yet");
        return NULL;
    }
    if (json_kind(text) == JK_TEXT) return text;
    err_field(e, ERR_ARG, "prompt", ".prompt_string: expected a string, got %s",
              text ? json_kind_name(json_kind(text)) : "nothing");
    return NULL;
}

/* Convert a body with objects as prompts to one with their texts. The caller owns *out, which is
 * NULL for another body, and after an error. */
static int read_objects(struct json **out, const struct json *body, struct err *e)
{
    static const char *const without[] = {"prompt", NULL};
    const struct json *given = body_field(body, "prompt");
    const bool list = json_kind(given) == JK_LIST;
    bool objects = json_kind(given) == JK_OBJECT;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    struct err why = {0};
    *out = NULL;
    for (size_t i = 0; list && i < json_count(given); i++)
        objects |= json_kind(json_item(given, i)) == JK_OBJECT;
    if (!objects) return 0;
    out_object(&o, NULL);
    openai_put_members(&o, body, without);
    if (list) out_list(&o, "prompt");
    for (size_t i = 0; why.text[0] == 0 && i < (list ? json_count(given) : 1); i++) {
        const struct json *plain = plain_prompt(list ? json_item(given, i) : given, &why);
        openai_put_json(&o, list ? NULL : "prompt", plain);
    }
    if (list) out_end(&o);
    out_end(&o);
    int rc = why.text[0] ? why.code : b.failed ? err_memory(&why, "a body", b.n) : 0;
    if (rc == 0) rc = json_parse(out, b.data, b.n, NULL, &why);
    if (rc != 0) *e = why;
    buf_deinit(&b);
    return rc;
}

/* Read a body of /completion. */
static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    struct json *plain = NULL;
    int rc = read_call(c, body, e);
    if (rc == 0) rc = read_objects(&plain, body, e);
    if (rc == 0) rc = openai_read_plain(c, plain ? plain : body, open_part, e);
    json_drop(plain);
    return rc ? rc : keep_settings(c, e);
}

/* Read a body of /infill, which has one prompt. */
static int read_infill(struct api_call *c, const struct json *body, struct err *e)
{
    const struct tokenizer *t = c->api->session->tokenizer;
    const struct llamacpp_marks marks = llamacpp_marks(t);
    int rc = read_call(c, body, e);
    if (rc == 0) rc = openai_check_generates(c->api, e);
    if (rc == 0) rc = call_parts(c, 1, e);
    struct part *p = c->part;
    if (rc == 0) rc = open_part(c, p, body, e);
    if (rc == 0) rc = llamacpp_infill(p->request, c->api, &marks, body, &c->lists, e);
    if (rc == 0 && !tokenizer_decode(t, p->request->prompt.v, p->request->prompt.n, 0, &p->text))
        rc = err_memory(e, "the prompt's text", p->request->prompt.n);
    if (rc == 0) rc = openai_read_format(c, body, e);
    if (rc == 0) rc = call_constrain_text(c, e);
    return rc ? rc : keep_settings(c, e);
}

/* ---- answers ---- */

/* Return true if the context's length ended the answer. */
static bool is_truncated(const struct api_call *c, const struct part *p, const struct choice *a)
{
    return a->reply.finish == FINISH_LENGTH && a->reply.limit == FINISH_NONE &&
           p->n_prompt + choice_n_token(p, a) >= engine_context(c->api->session->engine);
}

/* Append the reason for the end, and the stop string that matched. */
static void put_stop(struct json_out *o, const struct part *p, const struct choice *a)
{
    const int i = a->reply.stop_index;
    const char *type = a->reply.finish != FINISH_STOP ? "limit" : i >= 0 ? "word" : "eos";
    out_word(o, "stop_type", type);
    out_text(o, "stopping_word", i >= 0 ? p->reply.stop[i].text : "",
             i >= 0 ? p->reply.stop[i].n : 0);
}

/* Members that each event has. All pointers are borrowed. */
struct event_head {
    int index, n_predicted;
    bool stop;
    struct text_span text;
    const int32_t *ids; /* [n_id] */
    size_t n_id;
};

static void put_head(struct json_out *o, const struct part *p, const struct event_head *h)
{
    out_int(o, "index", h->index);
    out_text(o, "content", h->text.n ? h->text.text : "", h->text.n);
    put_ids(o, "tokens", h->ids, h->n_id);
    out_int(o, "id_slot", 0); /* there are no slots */
    out_flag(o, "stop", h->stop);
    out_int(o, "tokens_predicted", h->n_predicted);
    out_int(o, "tokens_evaluated", p->n_prompt);
}

/* Return the log of the tokens that have text in the answer: those before a stop string. llama.cpp
 * omits as many tokens as the stop string has. */
static struct answer_log log_of_text(const struct choice *a)
{
    struct answer_log log = {.v = a->log.v, .n = a->log.n};
    while (a->reply.matched && log.n > 0 && (log.n > 1 ? a->ends.v[log.n - 2] : 0) >= a->text.n)
        log.n--;
    return log;
}

/* Append the whole answer of a choice, or the last piece of its stream, which has no text. */
static void put_whole(const struct api_call *c, struct json_out *o, const struct part *p,
                      const struct choice *a, int index)
{
    const struct llamacpp *own = own_of(c);
    const struct event_head head = {.index = index,
                                    .n_predicted = choice_n_token(p, a),
                                    .stop = true,
                                    .text = {a->text.data, c->stream ? 0 : a->text.n},
                                    .ids = a->ids.v,
                                    .n_id = c->tokens_back && !c->stream ? a->ids.n : 0};
    out_object(o, NULL);
    put_head(o, p, &head);
    out_word(o, "model", c->model);
    out_raw(o, "generation_settings", own->settings.text, own->settings.n);
    out_text(o, "prompt", p->text.n ? p->text.data : "", p->text.n);
    out_flag(o, "has_new_line", a->text.n && memchr(a->text.data, '\n', a->text.n));
    out_flag(o, "truncated", is_truncated(c, p, a));
    put_stop(o, p, a);
    out_int(o, "tokens_cached", a->reply.usage.n_cached);
    put_timings(o, &a->reply.usage);
    if (c->probs && !c->stream) {
        const struct answer_log log = log_of_text(a);
        put_probs(o, "completion_probabilities", c->api->session->tokenizer, &log, c->post);
    }
    out_end(o);
}

/* Append the member at path i, such as "generation_settings/n_predict", under the whole path. A
 * path without a member has no effect, and neither has a repeated one. */
static void put_member(struct json_out *o, const struct json *answer,
                       const struct text_span *selected, int i)
{
    const struct text_span *path = &selected[i];
    for (int k = 0; k < i; k++)
        if (selected[k].n == path->n && memcmp(selected[k].text, path->text, path->n) == 0) return;
    const struct json *j = answer;
    const char *at = path->text, *end = at + path->n;
    while (j && at <= end) {
        const char *slash = at < end ? memchr(at, '/', (size_t)(end - at)) : NULL;
        const char *stop = slash ? slash : end;
        j = json_field_n(j, at, (size_t)(stop - at));
        at = stop + 1;
    }
    if (!j) return;
    out_key(o, path->text, path->n);
    openai_put_json(o, NULL, j);
}

/* Append the answer of a choice, with the members that the client has selected. */
static void put_selected(const struct api_call *c, struct json_out *o, const struct part *p,
                         const struct choice *a, int index)
{
    const struct llamacpp *own = own_of(c);
    struct buf b = {0};
    struct json *all = NULL;
    if (own->n_selected < 0) {
        put_whole(c, o, p, a, index);
        return;
    }
    put_whole(c, &(struct json_out){.b = &b}, p, a, index);
    o->b->failed |= b.failed || json_parse(&all, b.data, b.n, NULL, NULL) != 0;
    out_object(o, NULL);
    for (int i = 0; i < own->n_selected; i++) put_member(o, all, own->selected, i);
    out_end(o);
    json_drop(all);
    buf_deinit(&b);
}

/* Append the answer (dialect.put): an object, or a list for several choices. */
static int put(const struct api_call *c, struct buf *b, struct err *e)
{
    struct json_out o = {.b = b};
    const bool list = c->n_part > 1 || c->part->n > 1;
    (void)e;
    if (list) out_list(&o, NULL);
    for (int i = 0, index = 0; i < c->n_part; i++)
        for (int k = 0; k < c->part[i].n; k++)
            put_selected(c, &o, &c->part[i], &c->part[i].choice[k], index++);
    if (list) out_end(&o);
    return 0;
}

/* Append the event of the unsent text and tokens. Tokens without text wait for the next text. */
static void put_piece(const struct api_call *c, const struct part *p, struct choice *a, int index,
                      struct buf *b)
{
    const size_t n = a->text.n - a->n_text_sent, n_id = a->ids.n - a->n_id_sent;
    const struct event_head head = {.index = index,
                                    .n_predicted = choice_n_token(p, a),
                                    .text = {n ? a->text.data + a->n_text_sent : "", n},
                                    .ids = n_id ? a->ids.v + a->n_id_sent : NULL,
                                    .n_id = n_id};
    struct json_out o = {.b = b};
    if (n == 0 && (n_id == 0 || !a->reply.finish)) return;
    buf_add_text(b, "data: ");
    out_object(&o, NULL);
    put_head(&o, p, &head);
    if (c->timings) put_timings(&o, &a->reply.usage);
    if (c->probs) {
        const struct answer_log log = log_unsent(a);
        put_probs(&o, "completion_probabilities", c->api->session->tokenizer, &log, c->post);
    }
    out_end(&o);
    buf_add_text(b, "\n\n");
    a->n_text_sent = a->text.n;
    a->n_id_sent = a->ids.n;
}

/* Append the events of the unsent part (dialect.put_pieces). */
static void put_pieces(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    put_piece(c, p, a, index, b);
    if (!a->reply.finish) return;
    buf_add_text(b, "data: ");
    put_selected(c, &(struct json_out){.b = b}, p, a, index);
    buf_add_text(b, "\n\n");
}

/* Append an event without text that has the progress of the prompt (dialect.put_progress). */
static void put_progress_piece(const struct api_call *c, struct part *p, int index, struct buf *b)
{
    struct json_out o = {.b = b};
    buf_add_text(b, "data: ");
    out_object(&o, NULL);
    put_head(&o, p, &(struct event_head){.index = index});
    put_progress(&o, p);
    out_end(&o);
    buf_add_text(b, "\n\n");
    (void)c;
}

/* Append nothing (dialect.put_end), because the last event of a choice ends its stream. */
static void put_end(const struct api_call *c, struct buf *b)
{
    (void)c, (void)b;
}

#define LLAMACPP_DIALECT                                                                           \
    .id_prefix = "cmpl-", .prompt = "prompt", .mixes = true, .prompt_per_choice = true,            \
    .errors = &llamacpp_errors, .put = put, .stream_type = "text/event-stream",                    \
    .no_memory = llamacpp_no_memory, .put_pieces = put_pieces, .put_progress = put_progress_piece, \
    .put_end = put_end

const struct dialect dialect_llamacpp_completion = {LLAMACPP_DIALECT, .fields = ENDPOINT_LLAMACPP,
                                                    .read = read_body};
const struct dialect dialect_llamacpp_infill = {
    LLAMACPP_DIALECT, .fields = ENDPOINT_LLAMACPP_INFILL, .read = read_infill};
