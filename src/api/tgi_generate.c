/* tgi_generate.c - /generate, /generate_stream and POST / of Text Generation Inference: one text
 * that the model continues.
 *
 *   {"inputs":"1 + 1 =","parameters":{"max_new_tokens":4,"details":true}}
 *   {"generated_text":" 2","details":{"finish_reason":"eos_token","generated_tokens":2,...}}
 *
 * A stream has an event for each token. The last event also has the whole text and its details. The
 * body is converted to the neutral form, a body of completions. Without do_sample and parameters of
 * sampling, the sampler takes the most likely tokens.
 *
 * The three dialects differ only in their data (struct tgi_form). As from TGI's router, an event
 * begins with "data:" without a blank. */
#include "openai.h"
#include "tei.h"
#include "tgi.h"

#include "base/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* TGI's default of max_new_tokens, and its limits of two parameters. */
enum { MAX_NEW_TOKENS = 100, TOP_TOKENS_MAX = 5, BEST_OF_MAX = 16 };

/* Data of c->own. */
struct tgi {
    bool details, prefill; /* prefill: true if the details have the prompt's tokens */
    bool has_seed;         /* true if the request has a seed, which is in `seed` */
    int64_t seed;
    int n_top; /* number of top tokens of each token */
};

/* Data of dialect.form: the answers that are streams, and the form of whole answers. */
struct tgi_form {
    enum { NEVER, ALWAYS, BY_BODY } stream;
    bool list;
};

/* Return the data that read_own has filled. */
static const struct tgi *tgi_of(const struct api_call *c)
{
    return c->own;
}

/* ---- the body ---- */

/* Members of `parameters`. neutral: name in the neutral form; NULL: read_own or put_grammar reads
 * it. samples: a value other than `off` requests sampling. A name with '!' is not supported. */
static const struct tgi_parameter {
    const char *name, *neutral; /* static */
    bool samples;
    double off;
} parameters[] = {
    {"temperature", "temperature", true, 1},
    {"top_k", "top_k", true, 0},
    {"top_p", "top_p", true, 1},
    {"typical_p", "typical_p", true, 1},
    {"repetition_penalty", "repetition_penalty", false, 0},
    {"frequency_penalty", "frequency_penalty", false, 0},
    {"seed", "seed", false, 0},
    {"stop", "stop", false, 0},
    {"max_new_tokens", "max_tokens", false, 0},
    {"truncate", "truncate_prompt_tokens", false, 0},
    {"best_of", "best_of", false, 0},
    {"adapter_id", "model", false, 0},
    {"do_sample", NULL, false, 0},
    {"details", NULL, false, 0},
    {"decoder_input_details", NULL, false, 0},
    {"return_full_text", NULL, false, 0},
    {"top_n_tokens", NULL, false, 0},
    {"grammar", NULL, false, 0},
    {"!watermark", NULL, false, 0},
};
enum { N_PARAMETER = sizeof parameters / sizeof *parameters };

/* Check the names of the members. */
static int check_names(const struct json *body, const struct json *given, struct err *e)
{
    static const char *const members[] = {"inputs", "parameters", "stream", NULL};
    const struct place top = {.field = "inputs"}, below = {.field = "parameters"};
    const char *known[N_PARAMETER + 1] = {0};
    for (int i = 0; i < N_PARAMETER; i++) known[i] = parameters[i].name;
    int rc = place_members(body, &top, members, e);
    return rc ? rc : place_members(given, &below, known, e);
}

/* Write the constraint: {"type":"json","value":SCHEMA}, "json_schema" or "regex". */
static int put_grammar(struct json_out *o, const struct json *grammar, struct err *e)
{
    static const char *const members[] = {"type", "value", NULL};
    const struct place at = {.field = "parameters", .path = ".grammar"};
    const struct json *value = body_field(grammar, "value");
    const char *type;
    char shown[80];
    if (json_kind(grammar) != JK_OBJECT) return place_wrong(&at, "", "an object", grammar, e);
    int rc = place_word(grammar, "type", &at, &type, e);
    if (rc == 0) rc = place_only(grammar, &at, members, e);
    if (rc != 0) return rc;
    const bool json = strcmp(type, "json") == 0, named = strcmp(type, "json_schema") == 0;
    if (!json && !named && strcmp(type, "regex") != 0)
        return err_field(e, ERR_ARG, at.field,
                         "%s.type: must be json, json_schema or regex, got %s", at.path,
                         json_value_text(body_field(grammar, "type"), shown));
    if (json || named) {
        out_object(o, "response_format");
        out_word(o, "type", "json_schema");
        if (json_kind(value) != JK_OBJECT) return place_wrong(&at, ".value", "an object", value, e);
        if (named) {
            openai_put_json(o, "json_schema", value);
        } else {
            out_object(o, "json_schema");
            out_word(o, "name", "grammar");
            openai_put_json(o, "schema", value);
            out_end(o);
        }
    } else {
        out_object(o, "structured_outputs");
        if (json_kind(value) != JK_TEXT) return place_wrong(&at, ".value", "a string", value, e);
        openai_put_json(o, "regex", value);
    }
    out_end(o);
    return 0;
}

/* Return true if the parameters request sampling. */
static bool samples(const struct json *given)
{
    bool yes = json_bool(body_field(given, "do_sample"), false);
    for (int i = 0; i < N_PARAMETER; i++) {
        const struct json *value = body_field(given, parameters[i].name);
        if (parameters[i].samples && value) yes |= json_real(value, 1) != parameters[i].off;
    }
    return yes;
}

/* Write the sampling parameters. A generation_config.json has no effect, as in TGI. */
static int put_parameters(struct json_out *o, const struct json *given, struct err *e)
{
    const struct json *grammar = body_field(given, "grammar");
    const bool random = samples(given);
    if (!random) out_int(o, "temperature", 0);
    for (int i = 0; i < N_PARAMETER; i++) {
        const struct tgi_parameter *p = &parameters[i];
        const struct json *value = body_field(given, p->name);
        if (!p->neutral || (p->samples && !random)) continue;
        if (value)
            openai_put_json(o, p->neutral, value);
        else if (p->samples)
            out_float(o, p->neutral, (float)p->off);
    }
    if (!body_field(given, "max_new_tokens")) out_int(o, "max_tokens", MAX_NEW_TOKENS);
    out_int(o, "min_tokens", 0);
    out_flag(o, "include_stop_str_in_output", true); /* as in TGI */
    return grammar ? put_grammar(o, grammar, e) : 0;
}

/* Read the parameters that change the answer's form. */
static int read_own(struct api_call *c, const struct json *given, struct err *e)
{
    struct tgi *own = c->own;
    int64_t n_top = 0, best_of = 1;
    bool sampled = false, full_text = false;
    int rc = body_flag(given, "details", &own->details, e);
    if (rc == 0) rc = body_flag(given, "decoder_input_details", &own->prefill, e);
    if (rc == 0) rc = body_flag(given, "return_full_text", &full_text, e);
    if (rc == 0) rc = body_flag(given, "do_sample", &sampled, e);
    if (rc == 0) rc = body_int(given, "top_n_tokens", 0, TOP_TOKENS_MAX, &n_top, e);
    if (rc == 0) rc = body_int(given, "best_of", 1, BEST_OF_MAX, &best_of, e);
    if (rc == 0) rc = body_int(given, "seed", 0, INT64_MAX, &own->seed, e);
    if (rc != 0) return rc;
    if (own->prefill && c->stream)
        return err_field(e, ERR_ARG, "decoder_input_details", ": must not come with a stream");
    if (best_of > 1 && c->stream)
        return err_field(e, ERR_ARG, "best_of", ": must not come with a stream");
    if (best_of > 1 && !samples(given))
        return err_field(e, ERR_ARG, "best_of", ": needs do_sample, got best_of %lld",
                         (long long)best_of);
    own->n_top = (int)n_top;
    own->prefill &= own->details;
    c->prompt_logprobs = own->prefill;
    c->token_ends = c->stream || own->details;
    c->echo = full_text;
    own->has_seed = body_field(given, "seed") != NULL;
    return 0;
}

int tgi_neutral(struct json **out, const struct json *body, struct err *e)
{
    const struct json *given = body_field(body, "parameters");
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    openai_put_json(&o, "inputs", body_field(body, "inputs"));
    int rc = put_parameters(&o, given, e);
    if (rc == 0) out_end(&o);
    if (rc == 0) rc = b.failed ? err_memory(e, "a body", b.n) : 0;
    if (rc == 0) rc = json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

/* Read the adapter's name, which becomes the field `model` of the neutral form. */
static int read_adapter(struct api_call *c, const struct json *neutral, struct err *e)
{
    int rc = call_model(c, neutral, e);
    if (rc == 0 && body_field(neutral, "model") && !session_adapter(c->api->session, c->model))
        rc = err_field(e, ERR_MISSING, "model", ": \"%.80s\" not found", c->model);
    return rc;
}

/* Open the request of the prompt (part_fn). */
static int open_part(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    const struct tgi *own = c->own;
    int rc = part_read(p, c, body, e);
    if (rc != 0) return rc;
    p->request->params.n_logprob = c->token_ends ? own->n_top : -1;
    p->request->n_prompt_logprob = own->prefill ? 0 : -1;
    return 0;
}

/* Read a body (dialect.read). The form of the answer is read before the parameters, because some
 * parameters must not come with a stream. */
static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    const struct tgi_form *form = c->dialect->form;
    const struct json *given = body_field(body, "parameters"), *text = body_field(body, "inputs");
    struct json *neutral = NULL;
    int rc = call_own(c, sizeof(struct tgi), e);
    if (rc == 0) rc = body_flag(body, "stream", &c->stream, e);
    if (form->stream != BY_BODY) c->stream = form->stream == ALWAYS;
    if (rc == 0) rc = call_stream(c, e);
    if (rc != 0) return rc;
    if (json_kind(text) != JK_TEXT) return body_wrong("inputs", "a string", text, e);
    if (given && json_kind(given) != JK_OBJECT)
        return body_wrong("parameters", "an object", given, e);
    rc = check_names(body, given, e);
    if (rc == 0) rc = read_own(c, given, e);
    if (rc == 0) rc = tgi_neutral(&neutral, body, e);
    if (rc == 0) rc = read_adapter(c, neutral, e);
    if (rc == 0) rc = openai_read_plain(c, neutral, open_part, e);
    json_drop(neutral);
    return rc;
}

/* Read a body of POST /, which is that of Text Embeddings Inference if the model generates no
 * text. */
static int read_root(struct api_call *c, const struct json *body, struct err *e)
{
    if (!c->api->session->info->headless) return read_body(c, body, e);
    c->dialect = tei_root(c->api->session, body);
    return c->dialect->read(c, body, e);
}

/* ---- answers ---- */

/* Return TGI's name of the reason for the end. All limits have the name "length". */
static const char *finish_of(const struct choice *a)
{
    if (a->reply.finish != FINISH_STOP) return "length";
    return a->reply.matched ? "stop_sequence" : "eos_token";
}

/* Append a token. text: its part of the answer's text [n]. */
static void put_token(const struct api_call *c, struct json_out *o, const struct logprob *p,
                      const char *text, size_t n)
{
    out_int(o, "id", p->id);
    out_text(o, "text", n ? text : "", n);
    out_double(o, "logprob", (double)p->logprob); /* null if NAN */
    out_flag(o, "special", tokenizer_is_special(c->api->session->tokenizer, p->id));
}

/* Append a token of a prompt or of a list of top tokens, with its own text. */
static void put_piece(const struct api_call *c, struct json_out *o, const struct logprob *p)
{
    size_t n = 0;
    const char *text = tokenizer_bytes(c->api->session->tokenizer, p->id, &n);
    out_object(o, NULL);
    put_token(c, o, p, text, text ? n : 0);
    out_end(o);
}

/* Append the top tokens of one place as a list. key NULL: an item of a list. */
static void put_top(const struct api_call *c, struct json_out *o, const char *key,
                    const struct token_logprobs *v)
{
    out_list(o, key);
    for (int k = 0; k < v->n_top; k++) put_piece(c, o, &v->top[k]);
    out_end(o);
}

/* Append token i of the answer. The last token also has text that follows it. */
static void put_answer_token(const struct api_call *c, struct json_out *o, const struct choice *a,
                             size_t i)
{
    const size_t begin = i ? a->ends.v[i - 1] : 0,
                 end = a->reply.finish && i + 1 == a->ends.n ? a->text.n : a->ends.v[i];
    CHECK(begin <= end && end <= a->text.n, "bytes %zu to %zu of %zu", begin, end, a->text.n);
    put_token(c, o, &a->log.v[i].chosen, a->text.data + begin, end - begin);
}

/* Append the members that details of whole answers and of streams have. */
static void put_details(const struct api_call *c, struct json_out *o, const struct choice *a)
{
    const struct tgi *own = tgi_of(c);
    out_word(o, "finish_reason", finish_of(a));
    out_int(o, "generated_tokens", choice_n_token(c->part, a));
    if (own->has_seed)
        out_int(o, "seed", own->seed);
    else
        out_null(o, "seed");
}

/* Append "generated_text". With return_full_text, the prompt precedes it. */
static void put_text(const struct api_call *c, struct json_out *o, const struct choice *a)
{
    struct buf whole = {0};
    if (c->echo) buf_add(&whole, c->part->echo.data, c->part->echo.n);
    buf_add(&whole, a->text.n ? a->text.data : "", a->text.n);
    out_text(o, "generated_text", whole.n ? whole.data : "", whole.n);
    o->b->failed |= whole.failed;
    buf_deinit(&whole);
}

/* Append the details of a whole answer: tokens of the prompt and of the answer. */
static void put_all_details(const struct api_call *c, struct json_out *o, const struct choice *a)
{
    const struct tgi *own = tgi_of(c);
    const struct answer_log *prompt = &c->part->prompt_log;
    out_object(o, "details");
    put_details(c, o, a);
    out_list(o, "prefill");
    for (size_t i = 0; own->prefill && i < prompt->n; i++) put_piece(c, o, &prompt->v[i].chosen);
    out_end(o);
    out_list(o, "tokens");
    for (size_t i = 0; i < a->log.n; i++) {
        out_object(o, NULL);
        put_answer_token(c, o, a, i);
        out_end(o);
    }
    out_end(o);
    if (own->n_top) out_list(o, "top_tokens");
    for (size_t i = 0; own->n_top && i < a->log.n; i++) put_top(c, o, NULL, &a->log.v[i]);
    if (own->n_top) out_end(o);
    out_end(o);
}

/* Append the answer (dialect.put). */
static int put(const struct api_call *c, struct buf *b, struct err *e)
{
    const struct choice *a = &c->part->choice[0];
    const struct tgi_form *form = c->dialect->form;
    struct json_out o = {.b = b};
    (void)e;
    if (form->list) out_list(&o, NULL);
    out_object(&o, NULL);
    put_text(c, &o, a);
    if (tgi_of(c)->details) put_all_details(c, &o, a);
    out_end(&o);
    if (form->list) out_end(&o);
    return 0;
}

/* Begin event i, from 0, up to the members of its token. */
static void event_begin(struct json_out *o, size_t i, struct buf *b)
{
    *o = (struct json_out){.b = b};
    buf_add_text(b, "data:");
    out_object(o, NULL);
    out_int(o, "index", (int64_t)i + 1);
    out_object(o, "token");
}

/* End an event after its token. last: the event also has the whole text. */
static void event_end(const struct api_call *c, struct json_out *o, const struct choice *a,
                      bool last)
{
    if (last) {
        put_text(c, o, a);
        out_object(o, "details");
        put_details(c, o, a);
        out_int(o, "input_length", c->part->n_prompt);
        out_end(o);
    } else {
        out_null(o, "generated_text");
        out_null(o, "details");
    }
    out_end(o);
    buf_add_text(o->b, "\n\n");
}

/* Append an event per token. The engine reports the end after the last token. The event of the last
 * possible token, or of a token with a stop string, is therefore appended only after the end is
 * reported. The last event has the end token if one ended the answer; its probability is not
 * known. */
static void put_pieces(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    const struct tgi *own = tgi_of(c);
    const bool ended = a->reply.finish != FINISH_NONE;
    bool closed = false;
    struct json_out o;
    (void)index;
    for (; a->n_log_sent < a->log.n; a->n_log_sent++) {
        const size_t i = a->n_log_sent;
        const bool last = i + 1 == a->log.n;
        if (!ended && last && ((int)i + 1 == p->max_tokens || a->reply.matched)) return;
        closed = ended && last && a->stop_id < 0;
        event_begin(&o, i, b);
        put_answer_token(c, &o, a, i);
        out_end(&o);
        if (own->n_top) put_top(c, &o, "top_tokens", &a->log.v[i]);
        event_end(c, &o, a, closed);
    }
    if (!ended || closed) return;
    event_begin(&o, a->log.n, b);
    const int32_t id = a->stop_id >= 0 ? a->stop_id : a->ids.n ? a->ids.v[a->ids.n - 1] : 0;
    put_token(c, &o, &(struct logprob){.id = id, .logprob = NAN}, "", 0);
    out_end(&o);
    event_end(c, &o, a, true);
}

/* Append nothing (dialect.put_end), because the event of the last token is the end of TGI's
 * streams. */
static void put_end(const struct api_call *c, struct buf *b)
{
    (void)c, (void)b;
}

/* Members of `parameters` with the names of the neutral form. */
static const struct rename names[] = {
    {"max_tokens", "", "parameters", ".max_new_tokens"},
    {"truncate_prompt_tokens", "", "parameters", ".truncate"},
    {"model", "", "parameters", ".adapter_id"},
    {"response_format", ".json_schema.schema", "parameters", ".grammar.value"},
    {"response_format", ".json_schema", "parameters", ".grammar.value"},
    {"response_format", "", "parameters", ".grammar"},
    {"structured_outputs", ".regex", "parameters", ".grammar.value"},
    {"structured_outputs", "", "parameters", ".grammar"},
};

/* Replace the field of an error by the client's name (dialect.name_error). A field without a row
 * has the same name in `parameters`. */
static void name_error(const struct api_call *c, struct err *e)
{
    char path[sizeof e->field + 1];
    (void)c;
    if (!e->field[0] || strcmp(e->field, "inputs") == 0 || strcmp(e->field, "parameters") == 0 ||
        strcmp(e->field, "stream") == 0)
        return;
    if (rename_by(e, names, sizeof names / sizeof *names)) return;
    snprintf(path, sizeof path, ".%s", e->field);
    rename_field(e, 0, "parameters", path);
}

static bool always(const struct json *body)
{
    (void)body;
    return true;
}

static bool never(const struct json *body)
{
    (void)body;
    return false;
}

#define TGI_DIALECT                                                                                \
    .id_prefix = "tgi-", .prompt = "inputs", .errors = &tgi_errors, .name_error = name_error,      \
    .put = put, .stream_type = "text/event-stream", .no_memory = tgi_no_memory,                    \
    .put_pieces = put_pieces, .put_end = put_end

static const struct tgi_form whole = {.stream = NEVER}, stream = {.stream = ALWAYS},
                             root = {.stream = BY_BODY, .list = true};
const struct dialect dialect_tgi_generate = {TGI_DIALECT, .form = &whole, .read = read_body,
                                             .streams = never};
const struct dialect dialect_tgi_stream = {TGI_DIALECT, .form = &stream, .read = read_body,
                                           .streams = always};
const struct dialect dialect_tgi_root = {TGI_DIALECT, .form = &root, .read = read_root};
