/* embeddings.c - /v1/embeddings: texts (or ids) in, a vector for each out. Each is a request that generates nothing; the
 * engine pools its hidden states (engine/pooling.c), and here the vector is cut to `dimensions` and brought to length 1. */
#include "api_impl.h"

#include "base/base64.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int open_part(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    const struct api *a = c->api;
    p->request = request_open(e);
    p->pooled = calloc((size_t)model_info(a->session->model)->d_model, sizeof *p->pooled);
    if (!p->request || !p->pooled) return err_memory(e, "an embedding", sizeof *p->request);
    p->id = p->request->id;
    p->reply.tokenizer = a->session->tokenizer;
    p->request->max_tokens = 0;
    p->request->pooling = a->pooling ? a->pooling : POOLING_LAST;
    p->request->pooled = p->pooled;
    return read_owner(p->request, body, e);
}

static int read(struct api_call *c, const struct json *body, struct err *e)
{
    const char *format = "float";
    int64_t dimensions = 0;
    int d = model_info(c->api->session->model)->d_model;
    int rc = body_text(body, "encoding_format", 16, &format, e);
    if (rc == 0 && strcmp(format, "float") != 0 && strcmp(format, "base64") != 0)
        rc = err_set(e, ERR_ARG, "encoding_format: it is \"float\" or \"base64\"");
    if (rc == 0) rc = body_int(body, "dimensions", 1, d, &dimensions, e);
    c->base64 = strcmp(format, "base64") == 0;
    c->dimensions = dimensions ? (int)dimensions : d;
    return rc ? rc : read_prompts(c, body, open_part, e);
}

/* Of length 1, unless it is nothing at all. false: those are no numbers. */
static bool normalize(float *v, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)v[i] * (double)v[i];
    double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (int i = 0; i < n; i++) v[i] = (float)((double)v[i] * scale);
    return isfinite(sum);
}

static void put_numbers(struct buf *b, const float *v, int n)
{
    for (int i = 0; i < n; i++) {
        buf_add_char(b, i ? ',' : '[');
        json_put_float(b, v[i]);
    }
    buf_add_char(b, ']');
}

/* Little-endian floats, as every client expects them. */
static void put_base64(struct buf *b, const float *v, int n)
{
    struct buf bytes = {0};
    for (int i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &v[i], sizeof u);
        for (int k = 0; k < 4; k++) buf_add_char(&bytes, (char)(u >> 8 * k));
    }
    buf_add_char(b, '"');
    base64_encode(bytes.data, bytes.n, b);
    buf_add_char(b, '"');
    b->failed |= bytes.failed;
    buf_deinit(&bytes);
}

static int put(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct buf *b, struct err *e)
{
    (void)a, (void)called;
    size_t n_byte = (size_t)c->dimensions * sizeof(float);
    float *v = malloc(n_byte);
    if (!v) return err_memory(e, "an embedding", n_byte);
    memcpy(v, p->pooled, n_byte);
    int rc = normalize(v, c->dimensions) ? 0 : err_set(e, ERR_IO, "the model gave no numbers");
    buf_add_text(b, ",\"object\":\"embedding\",\"embedding\":");
    if (c->base64)
        put_base64(b, v, c->dimensions);
    else
        put_numbers(b, v, c->dimensions);
    free(v);
    return rc;
}

const struct endpoint endpoint_embeddings = {
    .kind = ENDPOINT_EMBED,
    .url = "/v1/embeddings",
    .object = "list",
    .id_prefix = "embd",
    .list = "data",
    .prompt = "input",
    .read = read,
    .put = put,
};
