/* api.h - OpenAI's request and response bodies over a session, for their callers: quoth
 * batch, the server, and the parameters of the library.
 *
 *   body (JSON) --api_call_open--> requests --api_call_submit--> engine
 *                                  events   --api_call_poll----> answers --api_call_put--> body (JSON)
 *
 * Unknown fields are ignored, null is as if a field were not there, and a field of the wrong kind
 * or range is refused with a sentence that begins with its name: "temperature: expected a number,
 * found a string". Names are OpenAI's, and vLLM's beyond them. */
#ifndef QUOTH_API_H
#define QUOTH_API_H

#include "server.h"

#include "session/session.h"

/* A model as clients see it; plain data that the server's owner fills in. Any thread may use one.
 */
struct api {
    const struct session *session; /* borrowed, with an engine that runs */
    const struct chat *chat;       /* borrowed */
    const char *name;        /* borrowed: what responses call the model where a body does not */
    const char *fingerprint; /* borrowed: responses' "system_fingerprint"; NULL: they have none */
    enum pooling pooling;    /* of embeddings */
    struct sample_params defaults; /* of fields that a body does not have */
    uint64_t seed;                 /* of requests without one, mixed with what api_call_salt said */
    bool seeded;                   /* false: they get random ones */
    bool streams;                  /* who asks can take answers in pieces ("stream": true) */
};

/* ---- errors ---- */

int api_status(int rc); /* the HTTP status of an ERR_* code; 0: 200 */
/* {"message":...,"type":...,"param":...,"code":...}: e->field is param */
void api_error_put(struct buf *b, int rc, const struct err *e);

/* ---- one body ---- */

struct api_call; /* opaque; one thread at a time */

/* Read a body that was sent to `url` ("/v1/chat/completions"; tail "?..." is not expected). Nothing
 * of it is borrowed. bell (borrowed, or NULL): a queue of bytes that gets one when there is
 * something to poll. ERR_MISSING: no such endpoint; ERR_ARG, ERR_LIMIT, ERR_UNSUPPORTED: the body.
 */
int api_call_open(struct api_call **out, const struct api *a, const char *url,
                  const struct json *body, struct queue *bell, struct err *e);
/* What makes the random numbers of this call differ from another's where the body has no seed and
 * the api is seeded. Before api_call_submit. */
void api_call_salt(struct api_call *c, uint64_t salt);
/* Accounting: the key or client charged (0: none), its weight, and which cached prefixes it may share: see
 * struct request. Before api_call_submit. */
void api_call_share(struct api_call *c, uint64_t share_id, double weight, uint64_t cache_salt);
/* When its body was complete (time_us): latencies and `timeout` count from then on, else from api_call_submit. Before that. */
void api_call_arrived(struct api_call *c, int64_t arrival_us);
/* What a trace calls its requests. Before api_call_submit. */
void api_call_name(struct api_call *c, const char *name);
/* ERR_BUSY: the engine's queue is full; call again when something else is done. Of a call with many prompts the
 * first ones are submitted, and the others as they are done (api_call_poll). */
int api_call_submit(struct api_call *c, struct err *e);
/* Take the events there are. true: complete. */
bool api_call_poll(struct api_call *c);
/* How many tokens, log probabilities and components the response will have: microseconds each. */
int64_t api_call_size(const struct api_call *c);
/* Append the response's body. A negative code: the model gave no answer, and the sentence says why.
 */
int api_call_put(const struct api_call *c, struct buf *out, struct err *e);
/* Does the body want its answer in pieces? Then append the frames (server-sent events) of what came
 * since the last time, and the last one when it is complete. */
bool api_call_streams(const struct api_call *c);
void api_call_stream(struct api_call *c, struct buf *out);
/* Is there something to tell other than a refusal or an error? */
bool api_call_has_output(const struct api_call *c);
/* Have what runs stopped; poll until it is complete. */
void api_call_cancel(struct api_call *c);
const char *api_call_id(const struct api_call *c); /* the response's "id" */
int api_call_n_token(const struct api_call *c,
                     int *n_prompt);     /* generated so far; n_prompt may be NULL */
void api_call_close(struct api_call *c); /* cancels what runs and waits for it; NULL is fine */

/* ---- parts, for other forms of requests ---- */

/* The sampling fields of a body into a request (arrays into its arena) and what its reply needs
 * (arrays into `keep`, which lives as long as the reply). r->max_tokens stays what it was where the
 * body has none; logprobs, which endpoints read in different ways, are left to the caller. */
int api_read_params(struct request *r, struct reply_options *ro, struct arena *keep,
                    const struct api *a, const struct json *body, struct err *e);
/* Refuse a field that api_read_params and the library's other readers do not know, or cannot keep: ERR_ARG, ERR_UNSUPPORTED. */
int api_check_params(const struct json *params, struct err *e);
/* The same of a conversation for api_render. */
int api_check_conversation(const struct json *body, struct err *e);
/* Hold a request's answers to the constraint of a body (response_format, structured_outputs, guided_*, grammar, json_schema), which
 * is compiled on the calling thread. After api_read_params. */
int api_hold(struct request *r, const struct api *a, const struct json *body, struct err *e);
/* "logprobs" and "prompt_logprobs" as numbers of alternatives. */
int api_read_logprobs(struct request *r, const struct json *body, struct err *e);

/* The prompt of a request: a text (tail and head as the tokenizer asks for), or ids. */
int api_prompt_text(struct request *r, const struct api *a, const char *text, size_t n,
                    bool add_special, struct err *e);
int api_prompt_ids(struct request *r, const int32_t *ids, size_t n, struct err *e);

/* A conversation: `messages`, `tools`, `documents`, `chat_template_kwargs`, `add_generation_prompt`
 * and `continue_final_message` of a body. The rendered text is appended to `prompt`. */
int api_render(const struct api *a, const struct json *body, struct buf *prompt,
               struct chat_turn *turn, struct err *e);

/* Bring a pooled vector to length 1 (zeros stay zeros). false: it has no finite length. */
bool api_normalize(float *v, int n);

/* Token sequences that write `text` at a text's start and after a space (vLLM's bad_words):
 * word[0..1]. */
int api_bad_word(struct ids word[2], const struct tokenizer *t, const char *text, size_t n,
                 struct arena *a, struct err *e);

/* {"role":"assistant","content":...,"reasoning_content":...,"tool_calls":[...]}. The ids of calls
 * that the model gave none are made of id_seed: another for each message, os_random() for a new one. */
void message_put(struct buf *b, const struct chat_message *m, uint64_t id_seed);

#endif
