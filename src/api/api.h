/* api.h - OpenAI's request and response bodies over a session, for their callers: quoth
 * batch, the server, and the parameters of the library.
 *
 *   body (JSON) --api_call_open--> requests --api_call_submit--> engine
 *                                  events   --api_call_poll----> answers --api_call_put--> body (JSON)
 *
 * Unknown fields are ignored. A null field counts as absent. A field of the wrong type or range is
 * rejected with an error that begins with its name: "temperature: expected a number, got a
 * string". Names are OpenAI's, else vLLM's. */
#ifndef QUOTH_API_H
#define QUOTH_API_H

#include "server.h"

#include "session/session.h"

/* A model as clients see it: plain data, filled in by the owner of the server. Any thread may use
 * one. */
struct api {
    const struct session *session; /* borrowed, with a running engine */
    const struct chat *chat;       /* borrowed */
    const char *name;        /* borrowed: name of the model in responses whose request gives none */
    const char *fingerprint; /* borrowed: "system_fingerprint" of responses; NULL: absent */
    enum pooling pooling;    /* pooling of embeddings */
    struct sample_params defaults; /* defaults of absent fields */
    /* seed of requests without one, mixed with the value of api_call_salt */
    uint64_t seed;
    bool seeded; /* false: requests without a seed get random ones */
    /* true if the caller supports answers in pieces ("stream": true) */
    bool streams;
};

/* ---- errors ---- */

int api_status(int rc); /* Return the HTTP status of an ERR_* code; 200 for 0. */
/* Append {"message":...,"type":...,"param":...,"code":...}; e->field is param. */
void api_error_put(struct buf *b, int rc, const struct err *e);

/* ---- one body ---- */

struct api_call; /* opaque; used by one thread at a time */

/* Read a body that was sent to `url` ("/v1/chat/completions", without a "?..." tail). Borrows
 * nothing from it. bell (borrowed, or NULL): a queue of bytes that receives one byte if there is
 * something to poll. Returns ERR_MISSING if the endpoint does not exist, and ERR_ARG, ERR_LIMIT or
 * ERR_UNSUPPORTED if the body is invalid. */
int api_call_open(struct api_call **out, const struct api *a, const char *url,
                  const struct json *body, struct queue *bell, struct err *e);
/* Set the salt of this call's random numbers, used if the body has no seed and the api has one.
 * Call before api_call_submit. */
void api_call_salt(struct api_call *c, uint64_t salt);
/* Set the accounting: the key or client charged (0: none), its weight, and the salt of the cached
 * prefixes that it may share (see struct request). Call before api_call_submit. */
void api_call_share(struct api_call *c, uint64_t share_id, double weight, uint64_t cache_salt);
/* Set the time (time_us) at which the body was complete. Latencies and `timeout` count from it,
 * else from api_call_submit. Call before api_call_submit. */
void api_call_arrived(struct api_call *c, int64_t arrival_us);
/* Set the name of the call's requests in a trace. Call before api_call_submit. */
void api_call_name(struct api_call *c, const char *name);
/* Submit the requests. Returns ERR_BUSY if the engine's queue is full; call again after another
 * call has ended. Of a call with many prompts the first ones are submitted here, and the others by
 * api_call_poll as these end. */
int api_call_submit(struct api_call *c, struct err *e);
/* Take the pending events. Returns true if the call is complete. */
bool api_call_poll(struct api_call *c);
/* Return the number of tokens, log probabilities and components in the response: each takes
 * microseconds to write. */
int64_t api_call_size(const struct api_call *c);
/* Append the body of the response. Returns a negative code, with the reason in *e, if the model
 * returned no answer. */
int api_call_put(const struct api_call *c, struct buf *out, struct err *e);
/* Return true if the body requests its answer in pieces. Then append the frames (server-sent
 * events) of everything since the previous call, and the final frame if the call is complete. */
bool api_call_streams(const struct api_call *c);
void api_call_stream(struct api_call *c, struct buf *out);
/* Return true if there is output other than an error. */
bool api_call_has_output(const struct api_call *c);
/* Cancel the running requests; poll until the call is complete. */
void api_call_cancel(struct api_call *c);
const char *api_call_id(const struct api_call *c); /* Return the "id" of the response. */
int api_call_n_token(
    const struct api_call *c,
    int *n_prompt); /* Return the number of generated tokens so far; n_prompt may be NULL. */
/* Cancel the running requests, wait for them and free the call; NULL is fine. */
void api_call_close(struct api_call *c);

/* ---- parts, for other forms of requests ---- */

/* Read the sampling fields of a body into a request (arrays into its arena), and the data that its
 * reply needs (arrays into `keep`, which lives as long as the reply). r->max_tokens is unchanged if
 * the body has none. The caller reads logprobs, because endpoints differ in them. */
int api_read_params(struct request *r, struct reply_options *ro, struct arena *keep,
                    const struct api *a, const struct json *body, struct err *e);
/* Reject a field that is unknown to api_read_params and the library's other readers, or not
 * supported: ERR_ARG, ERR_UNSUPPORTED. */
int api_check_params(const struct json *params, struct err *e);
/* Reject such a field of a conversation for api_render. */
int api_check_conversation(const struct json *body, struct err *e);
/* Constrain a request's answers by the fields of a body (response_format, structured_outputs,
 * guided_*, grammar, json_schema). The constraint is compiled on the calling thread. Call after
 * api_read_params. */
int api_hold(struct request *r, const struct api *a, const struct json *body, struct err *e);
/* The same of the answer to a conversation, whose reasoning comes before what is held; begun [n_begun]: the prompt's part of the
 * answer. a->chat NULL: a completion. *out: owned by the caller, NULL: no constraint. *parser: for the answer's text, which gets the
 * prompt's part first. */
int api_hold_message(struct constraint **out, const struct api *a, const struct json *body,
                     const char *begun, size_t n_begun, struct chat_parser_options *parser,
                     struct err *e);
/* Read "logprobs" and "prompt_logprobs" as numbers of alternatives. */
int api_read_logprobs(struct request *r, const struct json *body, struct err *e);

/* Set the prompt of a request: a text (with the tail and head that the tokenizer requires), or ids.
 */
int api_prompt_text(struct request *r, const struct api *a, const char *text, size_t n,
                    bool add_special, struct err *e);
int api_prompt_ids(struct request *r, const int32_t *ids, size_t n, struct err *e);

/* Render a conversation: `messages`, `tools`, `documents`, `chat_template_kwargs`,
 * `add_generation_prompt` and `continue_final_message` of a body. Appends the text to `prompt`. */
int api_render(const struct api *a, const struct json *body, struct buf *prompt,
               struct chat_turn *turn, struct err *e);

/* Scale a pooled vector to length 1 (zeros are unchanged). Returns false if its length is not
 * finite. */
bool api_normalize(float *v, int n);

/* Return the token sequences that write `text` at the start of a text and after a space (vLLM's
 * bad_words): word[0..1]. */
int api_bad_word(struct ids word[2], const struct tokenizer *t, const char *text, size_t n,
                 struct arena *a, struct err *e);

/* Append {"role":"assistant","content":...,"reasoning_content":...,"tool_calls":[...]}. Calls
 * without an id from the model get one made of id_seed, which differs between messages; os_random()
 * gives a new one. */
void message_put(struct buf *b, const struct chat_message *m, uint64_t id_seed);

#endif
