/* pooled.c - requests without generated tokens: the engine pools the rows of a text and applies a
 * head (engine/pooling.c). The result is an embedding, or the logits of a classifier.
 *
 * An answer is copied and finished on the thread that writes it, not on the engine's thread. Sums
 * are f64, in the order of the elements. */
#include "pooled.h"

#include "base/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int pooled_open(struct api_call *c, struct part *p, const struct json *body, enum pooling pooling,
                enum head head, struct err *e)
{
    const struct api *a = c->api;
    const int n = a->session->info->head_out[head];
    p->request = request_open(e);
    if (!p->request) return ERR_MEMORY;
    p->id = p->request->id;
    p->reply.tokenizer = a->session->tokenizer;
    p->request->max_tokens = 0;
    p->request->pooling = pooling;
    p->request->head = head;
    p->n_pooled = n > 0 ? n : 1; /* the engine rejects the request if there is no head */
    return read_holder(p->request, body, e);
}

int pooled_open_embedding(struct api_call *c, struct part *p, const struct json *body,
                          struct err *e)
{
    const enum pooling own = c->api->pooling;
    return pooled_open(c, p, body, own ? own : POOLING_LAST, HEAD_EMBED, e);
}

int pooled_open_class(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    enum { MEAN = 1, LAST = 3 }; /* GGUF's numbers */
    const int type = c->api->session->info->class_pooling;
    const enum pooling pooling = type == MEAN   ? POOLING_MEAN
                                 : type == LAST ? POOLING_LAST
                                                : POOLING_FIRST;
    return pooled_open(c, p, body, pooling, HEAD_CLASS, e);
}

/* An empty name selects no prompt. */
int pooled_read_prompt_name(struct api_call *c, const struct json *body, struct err *e)
{
    const struct session *s = c->api->session;
    const char *name = NULL;
    int rc = body_text(body, "prompt_name", 64, &name, e);
    if (rc != 0 || (name ? !*name : !session_has_default_prompt(s))) return rc;
    c->before.text = session_prompt(s, name, &c->before.n);
    if (c->before.text) return 0;
    return err_field(e, ERR_ARG, "prompt_name", ": prompt \"%.64s\" not found in the model",
                     name ? name : "default_prompt_name");
}

void pooled_default_prompt(struct api_call *c)
{
    const struct session *s = c->api->session;
    if (session_has_default_prompt(s)) c->before.text = session_prompt(s, NULL, &c->before.n);
}

/* use_activation is vLLM's name of the field, activation is vLLM's older name. */
int pooled_read_activation(const struct json *body, bool *use, struct err *e)
{
    *use = true;
    int rc = body_flag(body, "activation", use, e);
    if (rc == 0) rc = body_flag(body, "softmax", use, e);
    return rc ? rc : body_flag(body, "use_activation", use, e);
}

/* vLLM's newer name of the field is use_activation, because normalization is the activation of an
 * embedding. */
int pooled_read_normalize(const struct json *body, bool *normalize, struct err *e)
{
    int rc = body_flag(body, "normalize", normalize, e);
    bool use = *normalize;
    if (rc == 0) rc = body_flag(body, "use_activation", &use, e);
    if (rc == 0 && body_field(body, "normalize") && use != *normalize)
        rc = err_field(e, ERR_ARG, "normalize", ": must not come with use_activation: %s",
                       use ? "true" : "false");
    *normalize = use;
    return rc;
}

/* Apply a classifier's activation to n logits. The sums are f64. The largest logit is subtracted
 * first, so that no exponential overflows. */
static void apply_activation(enum class_act act, float *v, int n)
{
    CHECK(n >= 1, "%d logits", n);
    if (act == CLASS_AUTO) act = n == 1 ? CLASS_SIGMOID : CLASS_SOFTMAX;
    if (act == CLASS_IDENTITY) return;
    double top = (double)v[0], sum = 0;
    for (int i = 1; i < n; i++) top = (double)v[i] > top ? (double)v[i] : top;
    for (int i = 0; i < n; i++) sum += exp((double)v[i] - top);
    for (int i = 0; i < n; i++)
        v[i] = act == CLASS_SIGMOID ? (float)(1 / (1 + exp(-(double)v[i])))
                                    : (float)(exp((double)v[i] - top) / sum);
}

enum class_act pooled_class_act(const struct api_call *c, bool activate)
{
    return activate ? c->api->session->info->class_act : CLASS_IDENTITY;
}

enum class_act pooled_score_act(const struct api_call *c, bool activate)
{
    return activate ? c->api->session->info->score_act : CLASS_IDENTITY;
}

int pooled_logits(const struct part *p, enum class_act act, float **out, struct err *e)
{
    const size_t n_byte = (size_t)p->n_pooled * sizeof(float);
    float *v = *out = malloc(n_byte);
    if (!v) return err_memory(e, "a result", n_byte);
    memcpy(v, p->pooled, n_byte);
    for (int64_t i = 0; i < p->n_pooled; i++)
        if (!isfinite(v[i])) {
            free(v);
            *out = NULL;
            return err_set(e, ERR_IO, "the model returned no finite numbers");
        }
    apply_activation(act, v, (int)p->n_pooled);
    return 0;
}

double pooled_cosine(const float *a, const float *b, int n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa) / sqrt(bb) : 0;
}
