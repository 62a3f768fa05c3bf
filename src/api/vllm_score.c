/* vllm_score.c - vLLM's /score and /rerank: the relevance of texts to other texts.
 *
 *    /score    text_1 x text_2        {"data":[{"index":0,"object":"score","score":0.9}, ...]}
 *    /rerank   query x documents      {"results":[{"index":1,"document":{"text":"B"},
 *                                                  "relevance_score":0.9}, ...]}, best first
 *
 * A classifier of one label reads each pair as one text (a cross-encoder). A model of embeddings
 * reads each text once, and the score is the cosine of two vectors. Other models have no score,
 * because a number from their hidden states would have no meaning. */
#include "pooled.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS_MAX = 2048 };

/* Data of a call, in its arena. Part i of a cross-encoder is pair i. Other models have a part per
 * text: all first texts, then all second texts. */
struct scoring {
    const struct text_span *text[2]; /* [n[0]], [n[1]] texts, in the arena */
    int n[2];
    const char *name[2]; /* fields of the lists, static */
    bool cross;
    int top_n; /* maximum number of results; 0: all */
    bool bare; /* true: results without the texts of documents */
};

/* Return the call's data, which read_scoring has filled. */
static struct scoring *scoring_of(const struct api_call *c)
{
    return openai_of(c)->more;
}

/* ---- the body ---- */

/* Read the first present field of the list `name` as a text or a list of texts. NULL ends `name`.
 * An item may be {"text": ...}. */
static int read_texts(struct api_call *c, const struct json *body, const char *const *name, int k,
                      struct err *e)
{
    struct scoring *s = scoring_of(c);
    const char *const *at = name;
    while (at[1] && !body_field(body, *at)) at++;
    if (!body_field(body, *at)) at = name;
    const struct json *list = body_field(body, *at);
    const bool many = json_kind(list) == JK_LIST;
    const size_t n = many ? json_count(list) : 1;
    if (!list)
        return err_field(e, ERR_ARG, *at, ": expected a text or a list of texts, got nothing");
    if (n == 0 || n > TEXTS_MAX)
        return err_field(e, n ? ERR_LIMIT : ERR_ARG, *at, ": must have 1 to %d entries, got %zu",
                         TEXTS_MAX, n);
    struct text_span *text = arena_push0(&c->arena, n, sizeof *text);
    for (size_t i = 0; text && i < n; i++) {
        const struct json *item = many ? json_item(list, i) : list;
        if (json_kind(item) == JK_OBJECT) item = json_field(item, "text");
        const char *p = json_text(item, &text[i].n);
        if (!p)
            return err_field(e, ERR_ARG, *at, "[%zu]: expected a string, got %s", i,
                             json_kind_name(json_kind(item)));
        text[i].text = arena_text(&c->arena, p, text[i].n);
        if (!text[i].text) text = NULL;
    }
    if (!text) return err_memory(e, *at, n * sizeof *text);
    s->text[k] = text, s->n[k] = (int)n, s->name[k] = *at;
    return 0;
}

/* Tokenize the texts of part i. */
static int read_part(struct api_call *c, struct part *p, int64_t n_max, struct err *e)
{
    const struct tokenizer *t = c->api->session->tokenizer;
    const struct scoring *s = scoring_of(c);
    struct request *r = p->request;
    const int i = (int)(p - c->part), j = i - s->n[0];
    if (!s->cross) {
        const struct text_span *x = j < 0 ? &s->text[0][i] : &s->text[1][j];
        int rc = api_prompt_after(r, c->api, &c->before, x, true, e);
        if (rc == 0 && n_max >= 0) tokenizer_truncate(t, &r->prompt, (size_t)n_max, false);
        return rc;
    }
    const struct text_span *a = &s->text[0][s->n[0] == 1 ? 0 : i], *b = &s->text[1][i];
    pair_prompt_fn *prompt = pair_prompt_of(c->api->session);
    if (prompt) return prompt(t, a, b, n_max, &r->prompt, e);
    const int rc =
        api_pair_after(r, c->api, &c->before, (const struct text_span[]){*a, *b}, n_max, e);
    if (rc == ERR_ARG)
        return err_field(e, rc, "truncate_prompt_tokens",
                         ": must have room for the tokens that the tokenizer adds, got %lld",
                         (long long)n_max);
    return rc;
}

/* Set s->cross. ERR_UNSUPPORTED if the model has no scores. */
static int choose_kind(const struct api_call *c, struct scoring *s, struct err *e)
{
    const struct model_info *info = c->api->session->info;
    const int n_label = info->head_out[HEAD_CLASS];
    s->cross = n_label == 1;
    if (n_label > 1)
        return err_field(e, ERR_UNSUPPORTED, "model",
                         ": a score requires a classifier of 1 label, but \"%.80s\" has %d",
                         info->name, n_label);
    if (n_label == 1 || info->headless || info->pooling_type != 0 || info->pooling) return 0;
    return err_field(e, ERR_UNSUPPORTED, "model",
                     ": must be a reranker or a model of embeddings, got \"%.80s\"", info->name);
}

/* Read both lists of texts and make the prompts. first, second: names of the lists, ended by NULL.
 * One first text is compared with all second texts; otherwise text i with text i. */
static int read_scoring(struct api_call *c, const struct json *body, const char *const *first,
                        const char *const *second, struct err *e)
{
    const int context = c->api->session->info->context_max;
    int64_t n_max = INT32_MAX;
    int rc = openai_read(c, body, e);
    struct openai *own = c->own;
    struct scoring *s = rc == 0 ? arena_push0(&c->arena, 1, sizeof *s) : NULL;
    if (rc == 0 && !s) rc = err_memory(e, "a call", sizeof *s);
    if (rc != 0) return rc;
    own->more = s;
    pooled_default_prompt(c);
    rc = pooled_read_activation(body, &own->activate, e);
    if (rc == 0) rc = choose_kind(c, s, e);
    if (rc == 0) rc = read_texts(c, body, first, 0, e);
    if (rc == 0) rc = read_texts(c, body, second, 1, e);
    if (rc == 0 && s->n[0] != 1 && s->n[0] != s->n[1])
        rc = err_field(e, ERR_ARG, first[0], ": must have 1 entry, or as many as %s (%d), got %d",
                       second[0], s->n[1], s->n[0]);
    if (rc == 0) rc = body_int(body, "truncate_prompt_tokens", -1, context, &n_max, e);
    if (rc == 0) rc = call_parts(c, s->cross ? s->n[1] : s->n[0] + s->n[1], e);
    const int64_t n = n_max == INT32_MAX ? -1 : n_max < 0 ? context : n_max;
    for (int i = 0; i < c->n_part && rc == 0; i++) {
        struct part *p = &c->part[i];
        rc = (s->cross ? pooled_open_class : pooled_open_embedding)(c, p, body, e);
        if (rc == 0) rc = read_part(c, p, n, e);
    }
    return rc;
}

static int read_score(struct api_call *c, const struct json *body, struct err *e)
{
    static const char *const first[] = {"text_1", "queries", "data_1", NULL};
    static const char *const second[] = {"text_2", "documents", "items", "data_2", NULL};
    return read_scoring(c, body, first, second, e);
}

int rerank_read(struct api_call *c, const struct json *body, struct err *e)
{
    static const char *const first[] = {"query", NULL};
    static const char *const second[] = {"documents", NULL};
    int64_t top_n = 0;
    bool documents = true;
    if (json_kind(body_field(body, "query")) == JK_LIST)
        return body_wrong("query", "a string", body_field(body, "query"), e);
    int rc = body_int(body, "top_n", -1, INT32_MAX, &top_n, e);
    if (rc == 0) rc = body_flag(body, "return_documents", &documents, e);
    if (rc == 0) rc = read_scoring(c, body, first, second, e);
    if (rc != 0) return rc;
    struct scoring *s = scoring_of(c);
    s->top_n = top_n > 0 ? (int)top_n : 0;
    s->bare = !documents;
    return 0;
}

/* Name the text of an error about its length: documents[3]. The first part of that length is the
 * one that the error describes, because the parts are checked in order. */
void rerank_name_text(const struct api_call *c, struct err *e)
{
    char place[80], field[sizeof e->field];
    const struct scoring *s = c->own ? scoring_of(c) : NULL;
    int i = 0;
    if (!s || e->n_max <= 0) return;
    while (i < c->n_part &&
           !(c->part[i].request && (long long)c->part[i].request->prompt.n == e->n_found))
        i++;
    if (i == c->n_part) return;
    const int k = s->cross || i >= s->n[0];
    snprintf(field, sizeof field, "%s", s->name[k]);
    snprintf(place, sizeof place, "%s[%d]", field, s->cross || !k ? i : i - s->n[0]);
    err_rename(e, ERR_LIMIT, e->field, place);
    snprintf(e->field, sizeof e->field, "%s", field);
}

/* ---- the answer ---- */

/* Set *score to the score of pair i. ERR_IO if it is not finite. */
static int score_of(const struct api_call *c, int i, double *score, struct err *e)
{
    const struct scoring *s = scoring_of(c);
    float *a, *b = NULL;
    const struct part *p = &c->part[s->cross || s->n[0] > 1 ? i : 0];
    int rc = pooled_logits(p, pooled_score_act(c, s->cross && openai_of(c)->activate), &a, e);
    if (rc != 0) return rc;
    if (!s->cross) rc = pooled_logits(&c->part[s->n[0] + i], CLASS_IDENTITY, &b, e);
    if (rc == 0) *score = s->cross ? (double)a[0] : pooled_cosine(a, b, (int)p->n_pooled);
    free(a);
    free(b);
    return rc;
}

/* Compare by score, highest first, then by index. */
static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->index - y->index;
}

void scored_sort(struct scored *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_score);
}

/* Set *out to the scores of all pairs [n], owned by the caller. */
static int all_scores(const struct api_call *c, struct scored **out, struct err *e)
{
    const int n = scoring_of(c)->n[1];
    struct scored *v = *out = malloc((size_t)n * sizeof *v);
    if (!v) return err_memory(e, "scores", (size_t)n * sizeof *v);
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++) {
        v[i].index = i;
        rc = score_of(c, i, &v[i].score, e);
    }
    if (rc == 0) return 0;
    free(v);
    *out = NULL;
    return rc;
}

/* Write the scores in the order of the pairs (dialect.put). */
static int put_score(const struct api_call *c, struct buf *b, struct err *e)
{
    struct json_out o = {.b = b};
    struct scored *v;
    int rc = all_scores(c, &v, e);
    if (rc != 0) return rc;
    openai_put_head(c, "list", "data", &o);
    for (int i = 0; i < scoring_of(c)->n[1]; i++) {
        out_object(&o, NULL);
        out_int(&o, "index", i);
        out_word(&o, "object", "score");
        out_float(&o, "score", (float)v[i].score);
        out_end(&o);
    }
    out_end(&o);
    openai_put_usage(c, &o);
    out_end(&o);
    free(v);
    return 0;
}

int rerank_scores(const struct api_call *c, struct scored **out, int *n, struct err *e)
{
    const struct scoring *s = scoring_of(c);
    int rc = all_scores(c, out, e);
    if (rc != 0) return rc;
    scored_sort(*out, s->n[1]);
    *n = s->top_n > 0 && s->top_n < s->n[1] ? s->top_n : s->n[1];
    return 0;
}

const struct text_span *rerank_document(const struct api_call *c, int i)
{
    const struct scoring *s = scoring_of(c);
    return s->bare ? NULL : &s->text[1][i];
}

/* Write the best documents (dialect.put). The index is the document's place in the body. */
static int put_rerank(const struct api_call *c, struct buf *b, struct err *e)
{
    struct json_out o = {.b = b};
    struct scored *v;
    int n, rc = rerank_scores(c, &v, &n, e);
    if (rc != 0) return rc;
    openai_put_head(c, "list", "results", &o);
    for (int i = 0; i < n; i++) {
        const struct text_span *text = rerank_document(c, v[i].index);
        out_object(&o, NULL);
        out_int(&o, "index", v[i].index);
        if (text) {
            out_object(&o, "document");
            out_text(&o, "text", text->text, text->n);
            out_end(&o);
        }
        out_float(&o, "relevance_score", (float)v[i].score);
        out_end(&o);
    }
    out_end(&o);
    openai_put_usage(c, &o);
    out_end(&o);
    free(v);
    return 0;
}

const struct dialect dialect_vllm_score = {
    .fields = ENDPOINT_SCORE,
    .id_prefix = "score-",
    .prompt = "text_2",
    .errors = &openai_errors,
    .name_error = rerank_name_text,
    .read = read_score,
    .put = put_score,
};

const struct dialect dialect_vllm_rerank = {
    .fields = ENDPOINT_SCORE,
    .id_prefix = "rerank-",
    .prompt = "documents",
    .errors = &openai_errors,
    .name_error = rerank_name_text,
    .read = rerank_read,
    .put = put_rerank,
};
