/* served_body.c - a request's body, in OpenAI's format with the fields of vLLM's clients; see
 * served.h.
 *
 * The order of members is fixed, so that equal options give equal bytes:
 *
 *   stream, model, stream_options, max_tokens, ignore_eos, sampling, --extra-body, prompt
 *
 * A member of --extra-body replaces the usual member of its name, because some servers reject
 * duplicate names. */
#include "served.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static int64_t logprobs = -1;
static const char *extra_body;

const struct option body_options[] = {
    OPTIONS_OF(sampling_options),
    INT_OPTION("logprobs", "N", &logprobs, 0, 1000,
               "number of log probabilities to request for each token"),
    FORM_OPTION("extra-body", "JSON", &extra_body, json_object_form,
                "JSON object whose members are added to each request"),
    OPTIONS_END,
};

/* Return the members of --extra-body, owned by the caller; *extra is NULL if the option is not
 * set. */
int body_extra(struct json **extra, struct err *e)
{
    *extra = NULL;
    return extra_body ? json_parse(extra, extra_body, strlen(extra_body), NULL, e) : 0;
}

/* Append the sampling options of the command line that --extra-body does not replace. */
void body_sampling(struct buf *b, const struct json *extra)
{
    sampling_put(b, extra);
    if (logprobs >= 0 && !json_field(extra, "logprobs")) json_member_int(b, "logprobs", logprobs);
}

/* Append a prompt as token ids: [1,15043,...]. */
static void put_ids(struct buf *b, const struct ids *ids)
{
    buf_add_char(b, '[');
    for (size_t i = 0; i < ids->n; i++) buf_addf(b, i ? ",%d" : "%d", ids->v[i]);
    buf_add_char(b, ']');
}

/* Append the prompt of job i: a chat of one user message, a text, or ids of the trace. Prompts of
 * ids do not need the server's tokenizer, so they have exactly the planned lengths. */
static int put_prompt(struct buf *b, const struct served_target *t, const struct prompts *p,
                      size_t i, struct err *e)
{
    struct ids ids = {0};
    if (t->chat) {
        buf_add_text(b, ",\"messages\":[{\"role\":\"user\",\"content\":");
        json_put_text(b, p->text[i], strlen(p->text[i]));
        buf_add_text(b, "}]");
        return 0;
    }
    buf_add_text(b, ",\"prompt\":");
    if (p->text) {
        json_put_text(b, p->text[i], strlen(p->text[i]));
        return 0;
    }
    int rc = traffic_prompt(&p->t, i, p->n_vocab, &ids, e);
    if (rc == 0) put_ids(b, &ids);
    vec_deinit(&ids);
    return rc;
}

/* Return true if --extra-body has the member. */
static bool is_given(const struct served_options *o, const char *key)
{
    return json_field(o->extra, key) != NULL;
}

/* Append the members of --extra-body unchanged. */
static void put_extra(struct buf *b, const struct json *extra)
{
    for (void *it = json_kind(extra) == JK_OBJECT ? json_first(extra) : NULL; it;
         it = json_next(extra, it)) {
        size_t n = 0;
        const char *key = json_it_key(it, &n);
        buf_add_char(b, ',');
        json_put_text(b, key, n);
        buf_add_char(b, ':');
        json_put(b, json_it_value(it));
    }
}

/* include_usage requests the server's own token counts, because a chunk of a stream may contain
 * several tokens. */
int served_body(struct buf *b, const struct served_target *t, const struct prompts *p,
                const struct served_options *o, size_t i, struct err *e)
{
    const char *most = t->chat ? "max_completion_tokens" : "max_tokens";
    buf_add_text(b, "{\"stream\":true");
    if (!is_given(o, "model")) {
        buf_add_text(b, ",\"model\":");
        json_put_text(b, t->model, strlen(t->model));
    }
    if (!is_given(o, "stream_options"))
        buf_add_text(b, ",\"stream_options\":{\"include_usage\":true}");
    if (!is_given(o, most)) buf_addf(b, ",\"%s\":%d", most, p->t.v[i].n_output);
    if (o->ignore_eos && !is_given(o, "ignore_eos")) buf_add_text(b, ",\"ignore_eos\":true");
    if (o->member) buf_add_text(b, o->member);
    put_extra(b, o->extra);
    int rc = put_prompt(b, t, p, i, e);
    buf_add_char(b, '}');
    return rc == 0 && b->failed ? err_memory(e, "a request", b->n) : rc;
}
