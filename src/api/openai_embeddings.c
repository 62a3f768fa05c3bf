/* openai_embeddings.c - /v1/embeddings: each text (or list of ids) becomes a vector. Each text is a
 * request that generates no tokens. The engine pools its hidden states (engine/pooling.c). This
 * file truncates the vector to `dimensions` and scales it to length 1, unless the model's modules
 * do not normalize.
 *
 *    {"data":[{"object":"embedding","index":0,"embedding":[0.1,...]}],"usage":{...}}
 *
 * encoding_format base64 gives the floats as bytes (encoded.c), which is shorter. */
#include "pooled.h"

#include "base/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Read a body of embeddings. Read `dimensions` before tokenizing the prompts, to detect an
 * error in this field early. */
static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    int64_t dimensions = 0;
    const struct model_info *info = c->api->session->info;
    int d = info->head_out[HEAD_EMBED];
    int rc = openai_read(c, body, e);
    if (rc == 0) rc = body_int(body, "dimensions", 1, d, &dimensions, e);
    if (rc != 0) return rc;
    struct openai *own = c->own;
    rc = vector_form_read(&own->vector, body, e);
    if (rc != 0) return rc;
    own->normalize = info->normalize;
    rc = pooled_read_normalize(body, &own->normalize, e);
    if (rc == 0) rc = pooled_read_prompt_name(c, body, e);
    if (rc != 0) return rc;
    own->dimensions = dimensions ? (int)dimensions : d;
    return read_prompts(c, body, pooled_open_embedding, e);
}

/* The sum is f64, so that long vectors lose no precision. */
bool api_scale(float *v, int n, bool normalize)
{
    CHECK(n >= 1, "%d numbers", n);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)v[i] * (double)v[i];
    double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (int i = 0; i < n && normalize; i++) v[i] = (float)((double)v[i] * scale);
    return isfinite(sum);
}

/* Append one vector. The vector is truncated to `dimensions` before it is scaled, so its length is
 * 1 for any `dimensions` if it is scaled. */
static int put(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct json_out *o, struct err *e)
{
    (void)a, (void)called;
    const struct openai *own = openai_of(c);
    size_t n_byte = (size_t)own->dimensions * sizeof(float);
    float *v = malloc(n_byte);
    if (!v) return err_memory(e, "an embedding", n_byte);
    memcpy(v, p->pooled, n_byte);
    int rc = api_scale(v, own->dimensions, own->normalize)
                 ? 0
                 : err_set(e, ERR_IO, "the model returned no finite numbers");
    out_word(o, "object", "embedding");
    vector_put(o, "embedding", &own->vector, v, own->dimensions);
    free(v);
    return rc;
}

static const struct openai_form form = {.object = "list", .list = "data", .put = put};

const struct dialect dialect_openai_embeddings = {
    .fields = ENDPOINT_EMBED,
    .id_prefix = "embd-",
    .prompt = "input",
    .errors = &openai_errors,
    .form = &form,
    .read = read_body,
    .put = openai_put,
};
