/* ollama_embed.c - Ollama's /api/embed and the older /api/embeddings: texts become vectors of
 * length 1, as in openai_embeddings.c.
 *
 *   {"model":...,"embeddings":[[0.1,...]],"total_duration":...,"prompt_eval_count":8}
 *   {"embedding":[0.1,...]}
 *
 * /api/embed truncates a text that is too long, unless `truncate` is false. The older endpoint
 * rejects it. */
#include "ollama.h"
#include "openai.h"
#include "pooled.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Write the fields of an embedding, around its texts. An embedding needs no room for a generated
 * token, so its text may fill the context. The end is cut, as in Ollama. */
static void put_fields(struct json_out *o, const struct api_call *c, const struct json *body,
                       bool truncate)
{
    static const char *const same[] = {"priority", "cache_salt", "cache_prompt", "user"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        openai_put_json(o, same[i], body_field(body, same[i]));
    if (!truncate) return;
    out_int(o, "truncate_prompt_tokens", ollama_prompt_max(c) + 1);
    out_word(o, "truncation_side", "right");
}

/* Check the texts against num_ctx, because the engine only checks the server's context. */
static int check_limit(const struct api_call *c, struct err *e)
{
    const struct ollama *own = c->own;
    for (int i = 0; i < c->n_part; i++) {
        const long long n = (long long)c->part[i].request->prompt.n;
        if (own->n_ctx == 0 || n <= own->n_ctx) continue;
        int rc = err_field(e, ERR_LIMIT, c->dialect->prompt,
                           "[%d]: must have at most %lld tokens (options.num_ctx), got %lld", i,
                           (long long)own->n_ctx, n);
        return err_figures(e, rc, n, own->n_ctx);
    }
    return 0;
}

/* Open the requests of all texts, which the neutral body has in the dialect's field. */
static int read_texts(struct api_call *c, const struct json *body, bool truncate, struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    struct json *neutral = NULL;
    out_object(&o, NULL);
    openai_put_json(&o, c->dialect->prompt, body_field(body, c->dialect->prompt));
    put_fields(&o, c, body, truncate);
    out_end(&o);
    int rc = b.failed ? err_memory(e, "input", b.n) : json_parse(&neutral, b.data, b.n, NULL, e);
    pooled_default_prompt(c);
    if (rc == 0) rc = read_prompts(c, neutral, pooled_open_embedding, e);
    if (rc == 0) rc = check_limit(c, e);
    json_drop(neutral);
    buf_deinit(&b);
    return rc;
}

/* Read the fields of both endpoints. */
static int read_own(struct api_call *c, const struct json *body, struct err *e)
{
    double keep_s = NAN;
    int64_t dimensions = 0;
    const int d = c->api->session->info->head_out[HEAD_EMBED];
    int rc = ollama_read_own(c, body, e);
    struct ollama *own = c->own;
    if (rc == 0) rc = ollama_keep_alive(body, &keep_s, e);
    if (rc == 0) ollama_keep(c, keep_s);
    if (rc == 0) rc = ollama_check_options(body, e);
    if (rc == 0) rc = body_int(body, "dimensions", 0, d, &dimensions, e);
    if (rc == 0) own->dimensions = dimensions ? (int)dimensions : d;
    return rc;
}

/* Read a body (dialect.read). A body without a text only loads the model. */
static int read_embed(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *input = body_field(body, "input");
    const enum json_kind kind = json_kind(input);
    bool truncate = true;
    int rc = read_own(c, body, e);
    if (rc == 0) rc = body_flag(body, "truncate", &truncate, e);
    if (rc == 0 && input && kind != JK_TEXT && kind != JK_LIST)
        rc = err_set(e, ERR_ARG, "invalid input type");
    for (size_t i = 0; rc == 0 && kind == JK_LIST && i < json_count(input); i++)
        if (json_kind(json_item(input, i)) != JK_TEXT)
            rc = err_set(e, ERR_ARG, "invalid input type");
    if (rc != 0 || !body_is_set(input)) return rc;
    return read_texts(c, body, truncate, e);
}

/* Read a body of the older endpoint, which has one text and no `truncate`. A text that is too long
 * is therefore an error. */
static int read_embeddings(struct api_call *c, const struct json *body, struct err *e)
{
    const char *prompt;
    size_t n;
    int rc = read_own(c, body, e);
    if (rc == 0) rc = ollama_text(body, "prompt", &prompt, &n, e);
    return rc || n == 0 ? rc : read_texts(c, body, false, e);
}

/* Append a vector. The vector is truncated before it is scaled, so its length is 1 for any
 * `dimensions`. */
static int put_vector(struct json_out *o, const char *key, const struct api_call *c,
                      const struct part *p, struct err *e)
{
    const struct ollama *own = c->own;
    const size_t n_byte = (size_t)own->dimensions * sizeof(float);
    float *v = malloc(n_byte);
    if (!v) return err_memory(e, "an embedding", n_byte);
    memcpy(v, p->pooled, n_byte);
    const bool finite = api_scale(v, own->dimensions, true);
    out_list(o, key);
    for (int i = 0; finite && i < own->dimensions; i++) out_float(o, NULL, v[i]);
    out_end(o);
    free(v);
    return finite ? 0 : err_set(e, ERR_IO, "the model returned no finite numbers");
}

/* Append the answer. load_duration is the first text's wait in the queue, as in /api/generate. */
static int put_embed(const struct api_call *c, struct buf *b, struct err *e)
{
    struct json_out o = {.b = b};
    int rc = 0, n = 0;
    out_object(&o, NULL);
    out_word(&o, "model", c->model);
    out_list(&o, "embeddings");
    for (int i = 0; rc == 0 && i < c->n_part; i++) {
        rc = put_vector(&o, NULL, c, &c->part[i], e);
        n += c->part[i].n_prompt;
    }
    out_end(&o);
    ollama_put_durations(c, &o, c->n_part ? c->part[0].usage.queue_us : 0);
    out_int(&o, "prompt_eval_count", n);
    out_end(&o);
    return rc;
}

/* Append the answer of the older endpoint: an empty vector if the body only loaded the model. */
static int put_embeddings(const struct api_call *c, struct buf *b, struct err *e)
{
    struct json_out o = {.b = b};
    int rc = 0;
    out_object(&o, NULL);
    if (c->n_part) {
        rc = put_vector(&o, "embedding", c, c->part, e);
    } else {
        out_list(&o, "embedding");
        out_end(&o);
    }
    out_end(&o);
    return rc;
}

const struct dialect dialect_ollama_embed = {
    .fields = ENDPOINT_OLLAMA_EMBED,
    .id_prefix = "ollama-",
    .prompt = "input",
    .errors = &ollama_errors,
    .close = ollama_close,
    .read = read_embed,
    .put = put_embed,
};

const struct dialect dialect_ollama_embeddings = {
    .fields = ENDPOINT_OLLAMA_EMBED,
    .id_prefix = "ollama-",
    .prompt = "prompt",
    .errors = &ollama_errors,
    .close = ollama_close,
    .read = read_embeddings,
    .put = put_embeddings,
};
