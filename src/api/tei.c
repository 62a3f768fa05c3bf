/* tei.c - Text Embeddings Inference's /embed, /predict and /rerank, also as POST / if the model
 * generates no text.
 *
 *   /embed    {"inputs":["a","b"]}                  [[0.1,...],[0.2,...]]
 *   /predict  {"inputs":"a"}                        [{"score":0.9,"label":"A"},...], best first
 *   /rerank   {"query":"a","texts":["b","c"]}       [{"index":1,"score":0.9},...], best first
 *
 * A body of /rerank with `documents` is vLLM's (vllm_score.c). A text that is too long is an error,
 * unless `truncate` is true. */
#include "tei.h"
#include "pooled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Data of c->own of /embed and /predict. */
struct tei {
    int dimensions; /* length of vectors */
    bool normalize; /* true to scale vectors to length 1 */
    bool activate;  /* true: probabilities, not logits */
    bool batch;     /* true: the answer is a list with an item per text */
};

/* ---- errors ---- */

static void put_error(struct buf *b, const char *text, const char *type)
{
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_word(&o, "error", text);
    out_word(&o, "error_type", type);
    out_end(&o);
}

static const char *type_of(int status)
{
    if (status == 429) return "Overloaded";
    return status == 503 ? "Unhealthy" : status < 500 ? "Validation" : "Backend";
}

/* Append the body of a failed request. */
static void put_body(struct buf *b, int rc, const struct err *e, const char *id)
{
    (void)id;
    put_error(b, e->text, type_of(api_status(rc)));
}

/* Append the body of a rejection by the HTTP server (net_errors). */
static void put_refusal(struct buf *b, const struct net_error *e)
{
    put_error(b, e->text, type_of(e->status));
}

static const struct error_form errors = {
    .net = {.type = "application/json", .put = put_refusal},
    .put = put_body,
};

/* Give errors about the neutral form the client's names (dialect.name_error). */
static void name_error(const struct api_call *c, struct err *e)
{
    static const struct rename names[] = {
        {"documents", "", "texts", ""},
        {"truncate_prompt_tokens", "", "truncate", ""},
        {"truncation_side", "", "truncation_direction", ""},
        {"use_activation", "", "raw_scores", ""},
    };
    if (strcmp(c->dialect->prompt, "documents") == 0) rerank_name_text(c, e);
    (void)rename_by(e, names, sizeof names / sizeof *names);
}

/* ---- common fields ---- */

/* Read `truncate` and `truncation_direction`, "Right" by default. *left: remove the first
 * tokens. */
static int read_truncation(const struct json *body, bool *truncate, bool *left, struct err *e)
{
    const char *side = "right";
    *truncate = false;
    int rc = body_flag(body, "truncate", truncate, e);
    if (rc == 0) rc = body_text(body, "truncation_direction", 16, &side, e);
    if (rc != 0) return rc;
    *left = strcasecmp(side, "left") == 0;
    if (*left || strcasecmp(side, "right") == 0) return 0;
    return err_field(e, ERR_ARG, "truncation_direction",
                     ": must be \"Left\" or \"Right\", got \"%.16s\"", side);
}

/* Reject the truncation of pairs at their beginning. */
static int check_right(bool left, struct err *e)
{
    if (!left) return 0;
    return err_field(e, ERR_UNSUPPORTED, "truncation_direction",
                     ": must be \"Right\" for pairs of texts, got \"Left\"");
}

/* Append fields of the holder, which quoth adds to this API. */
static void put_holder(struct json_out *o, const struct json *body)
{
    static const char *const same[] = {"priority", "cache_salt", "cache_prompt", "user"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        openai_put_json(o, same[i], body_field(body, same[i]));
}

/* Parse the neutral form, and free its text. */
static int parse_neutral(struct json **out, struct buf *b, struct err *e)
{
    int rc = b->failed ? err_memory(e, "a body", b->n) : json_parse(out, b->data, b->n, NULL, e);
    buf_deinit(b);
    return rc;
}

/* ---- /embed ---- */

/* Open the requests of all texts. */
static int read_texts(struct api_call *c, const struct json *body, struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    struct json *neutral = NULL;
    bool truncate = false, left = false;
    int rc = read_truncation(body, &truncate, &left, e);
    if (rc != 0) return rc;
    out_object(&o, NULL);
    openai_put_json(&o, "inputs", body_field(body, "inputs"));
    put_holder(&o, body);
    if (truncate) {
        out_int(&o, "truncate_prompt_tokens", c->api->session->info->context_max);
        out_word(&o, "truncation_side", left ? "left" : "right");
    }
    out_end(&o);
    rc = parse_neutral(&neutral, &b, e);
    if (rc == 0) rc = read_prompts(c, neutral, pooled_open_embedding, e);
    json_drop(neutral);
    return rc;
}

static int read_embed(struct api_call *c, const struct json *body, struct err *e)
{
    const int d = c->api->session->info->head_out[HEAD_EMBED];
    int64_t dimensions = 0;
    int rc = call_own(c, sizeof(struct tei), e);
    struct tei *own = c->own;
    if (rc == 0) rc = call_model(c, body, e);
    if (rc == 0) rc = body_int(body, "dimensions", 1, d, &dimensions, e);
    if (rc == 0) own->normalize = true;
    if (rc == 0) rc = body_flag(body, "normalize", &own->normalize, e);
    if (rc == 0) rc = pooled_read_prompt_name(c, body, e);
    if (rc != 0) return rc;
    own->dimensions = dimensions ? (int)dimensions : d;
    return read_texts(c, body, e);
}

/* Append the vectors. A vector is truncated to `dimensions` before it is scaled, so its length is 1
 * for any `dimensions`. */
static int put_embed(const struct api_call *c, struct buf *b, struct err *e)
{
    const struct tei *own = c->own;
    struct json_out o = {.b = b};
    int rc = 0;
    out_list(&o, NULL);
    for (int i = 0; rc == 0 && i < c->n_part; i++) {
        float *v;
        rc = pooled_logits(&c->part[i], CLASS_IDENTITY, &v, e);
        if (rc != 0) break;
        if (!api_scale(v, own->dimensions, own->normalize))
            rc = err_set(e, ERR_IO, "the model returned no finite numbers");
        vector_put(&o, NULL, &(struct vector_form){0}, v, own->dimensions);
        free(v);
    }
    out_end(&o);
    return rc;
}

/* ---- /predict ---- */

/* A text, or a pair of texts, borrowed from the body. */
struct sequence {
    const char *text[2];
    size_t n_byte[2];
    int n; /* number of texts */
};

/* Read a text, or a list of one or two texts. i: index of the sequence for errors; -1: the whole
 * field. */
static int read_sequence(struct sequence *s, const struct json *value, int i, struct err *e)
{
    const struct place field = {.field = "inputs"},
                       at = i < 0 ? field : place_below(&field, "", (size_t)i);
    const bool list = json_kind(value) == JK_LIST;
    s->n = list ? (int)json_count(value) : 1;
    if (json_count(value) > 2 || s->n < 1)
        return err_field(e, ERR_ARG, "inputs", "%s: must have 1 or 2 texts, got %zu", at.path,
                         json_count(value));
    for (int k = 0; k < s->n; k++) {
        const struct json *text = list ? json_item(value, (size_t)k) : value;
        s->text[k] = json_text(text, &s->n_byte[k]);
        if (!s->text[k]) return place_wrong(&at, "", "a text or a pair of texts", text, e);
    }
    return 0;
}

/* Set the request's prompt. Without `truncate`, long texts are rejected before they are
 * tokenized. */
static int encode(const struct api_call *c, struct request *r, const struct sequence *s,
                  bool truncate, bool left, struct err *e)
{
    const int64_t n_max = truncate ? c->api->session->info->context_max : -1;
    int rc = s->n == 2 && truncate ? check_right(left, e) : 0;
    for (int k = 0; rc == 0 && k < s->n; k++)
        if (!truncate) rc = check_text_fits(c, NULL, s->n_byte[k], e);
    if (rc == 0 && s->n == 2) {
        const struct text_span pair[2] = {{s->text[0], s->n_byte[0]}, {s->text[1], s->n_byte[1]}};
        return api_pair_after(r, c->api, &c->before, pair, n_max, e);
    }
    if (rc == 0) {
        const struct text_span text = {s->text[0], s->n_byte[0]};
        rc = api_prompt_after(r, c->api, &c->before, &text, true, e);
    }
    return rc == 0 && truncate ? api_cut_prompt(r, c->api, (size_t)n_max, left, e) : rc;
}

/* Read a body of /predict (dialect.read). A list of lists is a batch; any other value is one
 * sequence. */
static int read_predict(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *inputs = body_field(body, "inputs");
    bool truncate = false, left = false, raw = false;
    int rc = call_own(c, sizeof(struct tei), e);
    struct tei *own = c->own;
    if (rc == 0) rc = call_model(c, body, e);
    if (rc == 0) rc = body_flag(body, "raw_scores", &raw, e);
    if (rc == 0) rc = read_truncation(body, &truncate, &left, e);
    if (rc != 0) return rc;
    if (json_kind(inputs) != JK_LIST && json_kind(inputs) != JK_TEXT)
        return body_wrong("inputs", "a text, a pair of texts, or a list of lists of texts", inputs,
                          e);
    pooled_default_prompt(c);
    own->activate = !raw;
    own->batch = json_kind(json_item(inputs, 0)) == JK_LIST;
    c->listed = own->batch;
    const size_t n = own->batch ? json_count(inputs) : 1;
    rc = call_parts(c, n < INT32_MAX ? (int)n : INT32_MAX, e);
    for (int i = 0; rc == 0 && i < c->n_part; i++) {
        struct sequence s;
        rc = read_sequence(&s, own->batch ? json_item(inputs, (size_t)i) : inputs,
                           own->batch ? i : -1, e);
        if (rc == 0) rc = pooled_open_class(c, &c->part[i], body, e);
        if (rc == 0)
            rc =
                part_error(c, &c->part[i], encode(c, c->part[i].request, &s, truncate, left, e), e);
    }
    return rc;
}

/* Append the labels of a text, best first. Labels without a name have that of transformers. */
static int put_labels(const struct api_call *c, const struct part *p, struct json_out *o,
                      struct err *e)
{
    const struct tei *own = c->own;
    const int n = (int)p->n_pooled;
    struct scored *best = malloc((size_t)n * sizeof *best);
    float *v = NULL;
    int rc = best ? pooled_logits(p, pooled_class_act(c, own->activate), &v, e)
                  : err_memory(e, "labels", (size_t)n);
    for (int i = 0; rc == 0 && i < n; i++) best[i] = (struct scored){(double)v[i], i};
    if (rc == 0) scored_sort(best, n);
    out_list(o, NULL);
    for (int i = 0; rc == 0 && i < n; i++) {
        char own_name[24];
        size_t n_label;
        const char *label = session_label(c->api->session, best[i].index, &n_label);
        snprintf(own_name, sizeof own_name, "LABEL_%d", best[i].index);
        out_object(o, NULL);
        out_float(o, "score", (float)best[i].score);
        out_text(o, "label", label ? label : own_name, label ? n_label : strlen(own_name));
        out_end(o);
    }
    out_end(o);
    free(best);
    free(v);
    return rc;
}

static int put_predict(const struct api_call *c, struct buf *b, struct err *e)
{
    const struct tei *own = c->own;
    struct json_out o = {.b = b};
    int rc = 0;
    if (own->batch) out_list(&o, NULL);
    for (int i = 0; rc == 0 && i < c->n_part; i++) rc = put_labels(c, &c->part[i], &o, e);
    if (own->batch) out_end(&o);
    return rc;
}

/* ---- /rerank ---- */

static int read_rerank(struct api_call *c, const struct json *body, struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    struct json *neutral = NULL;
    bool truncate = false, left = false, raw = false, text = false;
    int rc = read_truncation(body, &truncate, &left, e);
    if (rc == 0 && truncate) rc = check_right(left, e);
    if (rc == 0) rc = body_flag(body, "raw_scores", &raw, e);
    if (rc == 0) rc = body_flag(body, "return_text", &text, e);
    if (rc != 0) return rc;
    out_object(&o, NULL);
    openai_put_json(&o, "model", body_field(body, "model"));
    openai_put_json(&o, "query", body_field(body, "query"));
    openai_put_json(&o, "documents", body_field(body, "texts"));
    out_flag(&o, "use_activation", !raw);
    out_flag(&o, "return_documents", text);
    put_holder(&o, body);
    if (truncate) out_int(&o, "truncate_prompt_tokens", -1);
    out_end(&o);
    rc = parse_neutral(&neutral, &b, e);
    if (rc == 0) rc = rerank_read(c, neutral, e);
    json_drop(neutral);
    return rc;
}

static int put_rerank(const struct api_call *c, struct buf *b, struct err *e)
{
    struct json_out o = {.b = b};
    struct scored *v;
    int n, rc = rerank_scores(c, &v, &n, e);
    if (rc != 0) return rc;
    out_list(&o, NULL);
    for (int i = 0; i < n; i++) {
        const struct text_span *text = rerank_document(c, v[i].index);
        out_object(&o, NULL);
        out_int(&o, "index", v[i].index);
        if (text) out_text(&o, "text", text->text, text->n);
        out_float(&o, "score", (float)v[i].score);
        out_end(&o);
    }
    out_end(&o);
    free(v);
    return 0;
}

/* ---- the dialects ---- */

#define TEI_DIALECT .id_prefix = "tei-", .errors = &errors, .name_error = name_error

const struct dialect dialect_tei_embed = {TEI_DIALECT, .prompt = "inputs", .read = read_embed,
                                          .put = put_embed};
const struct dialect dialect_tei_predict = {TEI_DIALECT, .prompt = "inputs", .read = read_predict,
                                            .put = put_predict};
const struct dialect dialect_tei_rerank = {TEI_DIALECT, .prompt = "documents", .read = read_rerank,
                                           .put = put_rerank};

const struct dialect *tei_root(const struct session *s, const struct json *body)
{
    if (body_field(body, "texts")) return &dialect_tei_rerank;
    return s->info->head_out[HEAD_CLASS] > 0 ? &dialect_tei_predict : &dialect_tei_embed;
}
