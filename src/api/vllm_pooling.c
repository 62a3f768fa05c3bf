/* vllm_pooling.c - vLLM's /classify and /pooling: each text (or list of ids) becomes probabilities
 * of labels, an embedding, or the hidden states of its tokens.
 *
 *    {"data":[{"index":0,"label":"A","probs":[0.9,0.1],"num_classes":2}],"usage":{...}}
 *    {"data":[{"index":0,"object":"pooling","data":[...]}],"usage":{...}}
 *
 * The task of /pooling is "classify" if the model has a classifier, and "embed" if not. */
#include "pooled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- /classify ---- */

static int read_classify(struct api_call *c, const struct json *body, struct err *e)
{
    int rc = openai_read(c, body, e);
    struct openai *own = c->own;
    if (rc == 0) rc = pooled_read_activation(body, &own->activate, e);
    if (rc == 0) pooled_default_prompt(c);
    return rc ? rc : read_prompts(c, body, pooled_open_class, e);
}

/* Append the members of one text: its most probable label and all probabilities. An activation
 * keeps the order of the logits, so the label does not depend on `activation`. */
static int put_class(const struct api_call *c, const struct part *p, const struct choice *a,
                     bool *called, struct json_out *o, struct err *e)
{
    (void)a, (void)called;
    const int n = (int)p->n_pooled;
    size_t n_label;
    float *v;
    int best = 0, rc = pooled_logits(p, pooled_class_act(c, openai_of(c)->activate), &v, e);
    if (rc != 0) return rc;
    for (int i = 1; i < n; i++)
        if (v[i] > v[best]) best = i;
    char own_name[24]; /* as in transformers */
    const char *label = session_label(c->api->session, best, &n_label);
    snprintf(own_name, sizeof own_name, "LABEL_%d", best);
    out_text(o, "label", label ? label : own_name, label ? n_label : strlen(own_name));
    vector_put(o, "probs", &(struct vector_form){0}, v, n);
    out_int(o, "num_classes", n);
    free(v);
    return 0;
}

/* ---- /pooling ---- */

/* Open a text whose results are all its rows. The vectors need memory for each token of the
 * text. */
static int open_tokens(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    return pooled_open(c, p, body, POOLING_ALL, HEAD_EMBED, e);
}

/* Read a body of /pooling. The tasks differ in what a text becomes: one vector of labels, one
 * embedding, or a vector per token. In the last case, the size of the result is only known after
 * the prompts are read. */
static int read_pooling(struct api_call *c, const struct json *body, struct err *e)
{
    const struct model_info *info = c->api->session->info;
    const bool has_class = info->head_out[HEAD_CLASS] > 0;
    const char *task = has_class ? "classify" : "embed";
    int rc = openai_read(c, body, e);
    struct openai *own = c->own;
    if (rc == 0) rc = pooled_read_activation(body, &own->activate, e);
    if (rc == 0) rc = vector_form_read(&own->vector, body, e);
    if (rc == 0) own->normalize = info->normalize;
    if (rc == 0) rc = pooled_read_normalize(body, &own->normalize, e);
    if (rc == 0) rc = body_text(body, "task", 32, &task, e);
    if (rc != 0) return rc;
    pooled_default_prompt(c);
    own->score = strcmp(task, "score") == 0;
    if (own->score || strcmp(task, "classify") == 0)
        return own->classify = true, read_prompts(c, body, pooled_open_class, e);
    if (strcmp(task, "embed") == 0) return read_prompts(c, body, pooled_open_embedding, e);
    if (strcmp(task, "token_embed") != 0)
        return err_field(e, ERR_UNSUPPORTED, "task",
                         ": must be embed, classify, score or token_embed, got \"%.32s\"", task);
    own->tokens = true;
    rc = read_prompts(c, body, open_tokens, e);
    for (int i = 0; i < c->n_part && rc == 0; i++)
        c->part[i].n_pooled = (int64_t)c->part[i].request->prompt.n * info->d_hidden;
    return rc;
}

/* Append a list of vectors, one vector per token. In base64, all vectors are one text. */
static void put_rows(struct json_out *o, const struct vector_form *f, const float *v, int64_t n,
                     int d)
{
    if (f->base64) {
        vector_put(o, "data", f, v, n);
        return;
    }
    out_list(o, "data");
    for (int64_t i = 0; i < n; i += d) vector_put(o, NULL, f, v + i, d);
    out_end(o);
}

/* Append the result of one text. `normalize` applies to embeddings only. The other tasks return
 * numbers of the model itself. */
static int put_pooling(const struct api_call *c, const struct part *p, const struct choice *a,
                       bool *called, struct json_out *o, struct err *e)
{
    (void)a, (void)called;
    const struct openai *own = openai_of(c);
    float *v;
    const bool activate = own->classify && own->activate;
    const enum class_act act =
        own->score ? pooled_score_act(c, activate) : pooled_class_act(c, activate);
    int rc = pooled_logits(p, act, &v, e);
    if (rc != 0) return rc;
    out_word(o, "object", "pooling");
    if (!own->classify && !own->tokens) api_scale(v, (int)p->n_pooled, own->normalize);
    if (own->tokens)
        put_rows(o, &own->vector, v, p->n_pooled, c->api->session->info->d_hidden);
    else
        vector_put(o, "data", &own->vector, v, p->n_pooled);
    free(v);
    return 0;
}

static const struct openai_form class_form = {.object = "list", .list = "data", .put = put_class},
                                pooling_form = {
                                    .object = "list", .list = "data", .put = put_pooling};

const struct dialect dialect_vllm_classify = {
    .fields = ENDPOINT_POOL,
    .id_prefix = "classify-",
    .prompt = "input",
    .errors = &openai_errors,
    .form = &class_form,
    .read = read_classify,
    .put = openai_put,
};

const struct dialect dialect_vllm_pooling = {
    .fields = ENDPOINT_POOL,
    .id_prefix = "pool-",
    .prompt = "input",
    .errors = &openai_errors,
    .form = &pooling_form,
    .read = read_pooling,
    .put = openai_put,
};
