/* api.h - request and response bodies of OpenAI, Anthropic and others over a session. The server,
 * quoth batch and the library use it.
 *
 *   body (JSON) --api_call_open--> requests --api_call_submit--> engine
 *   events --api_call_poll--> answers --api_call_put--> body (JSON)
 *
 * Unknown fields are ignored. null means absent. A field of the wrong type or range is rejected
 * with an error that begins with its name: "temperature: expected a number, got a string". Names
 * are OpenAI's, or vLLM's if OpenAI has no name.
 *
 * Any thread may call these functions. One thread at a time uses a call, a request or a buffer. In
 * the server, a handler thread opens and submits a call. The stream thread then polls, writes and
 * closes the call. Threads share a struct api and parsed bodies, because no thread changes
 * these. */
#ifndef QUOTH_API_H
#define QUOTH_API_H

#include "batch_line.h"
#include "models.h"
#include "server.h"

#include "session/session.h"
#include "store/store.h"

/* A model that clients can use. The owner of the server fills in the fields. Any thread may use a
 * struct api. */
struct api {
    const struct session *session; /* borrowed, with a running engine */
    const struct chat *chat;       /* borrowed; chat template and parsers */
    /* borrowed; name of the model in responses if the request has no name */
    const char *name;
    struct served *model;          /* entry of the model in a registry, borrowed; NULL if none */
    const char *fingerprint;       /* "system_fingerprint" of responses, borrowed; NULL: absent */
    enum pooling pooling;          /* pooling of embeddings */
    struct sample_params defaults; /* defaults of absent fields */
    int max_tokens;                /* maximum of the default of max_tokens; 0: none */
    const struct text_span *stop;  /* stop texts of requests without `stop`, borrowed [n_stop] */
    int n_stop;
    int64_t n_ctx; /* default of options.num_ctx of Ollama's API; 0: none */
    /* seed of requests without a seed, mixed with the value of api_call_salt */
    uint64_t seed;
    bool seeded; /* true if `seed` applies; false: requests without a seed get random seeds */
    /* store of responses, files and batches, borrowed; NULL: nothing is stored */
    struct store *store;
    /* true if the caller supports answers in pieces ("stream": true) */
    bool streams;
    bool patient; /* true: its reference to the model is of a patient request (served_waiter) */
    /* properties of every constraint: true if JSON has no white space; true if an absent
     * additionalProperties is false */
    bool no_white_space, no_additional;
    /* true if a constraint of a message also applies to its reasoning */
    bool constrain_reasoning;
};

/* ---- errors ---- */

int api_status(int rc); /* return the HTTP status of an ERR_* code; 200 for 0 */
/* Append {"message":...,"type":...,"param":...,"code":...}; e->field is param. */
void api_error_put(struct buf *b, int rc, const struct err *e);

/* ---- one body ---- */

struct api_call; /* opaque; used by one thread at a time */

/* Read a body that was sent to `url` ("/v1/chat/completions", without "?..."). The call borrows
 * nothing from the body. `bell` (borrowed, or NULL) is a queue of bytes. `bell` receives one byte
 * if there are events to poll, and must outlive the call. a is borrowed until api_call_close. The
 * caller owns *out, which is NULL after an error. Errors contain the field. ERR_MISSING if the
 * endpoint does not exist. ERR_ARG, ERR_LIMIT, ERR_FORMAT or ERR_UNSUPPORTED if the body is
 * invalid. ERR_BUSY if grammars hold too much memory, or the client has disconnected.
 * ERR_MEMORY. */
int api_call_open(struct api_call **out, const struct api *a, const char *url,
                  const struct json *body, struct queue *bell, struct err *e);
/* Set the salt of this call's random numbers. The salt has an effect if only the api has a seed.
 * Call before api_call_submit. */
void api_call_salt(struct api_call *c, uint64_t salt);
/* Set the holder. holder: number of the key or client (0 if none). cache_salt: salt of the cached
 * prefixes that the call may share (see struct request). Call before api_call_submit. */
void api_call_set_holder(struct api_call *c, uint64_t holder, double weight, uint64_t cache_salt);
/* Set the priority of the call's requests for policies that use it; lower values first. Call before
 * api_call_submit. */
void api_call_set_priority(struct api_call *c, int priority);
/* Set the name of the call's requests in a trace. Call before api_call_submit. */
void api_call_name(struct api_call *c, const char *name);
/* Submit the requests. The function submits only the first of many prompts. api_call_poll submits
 * the remaining prompts as requests end. ERR_BUSY if the engine's queue or memory is full. The
 * function may be called again after another call has ended. ERR_LIMIT if the answers can never fit
 * in memory or a stop string is too long. ERR_ARG of engine_submit. ERR_MEMORY. */
int api_call_submit(struct api_call *c, struct err *e);
/* Read the pending events. Return true if the call is complete. */
bool api_call_poll(struct api_call *c);
/* Return the number of tokens, log probabilities and components in the response. Each item takes
 * microseconds to write. */
int64_t api_call_size(const struct api_call *c);
/* Append the body of the response to a complete call. *out is unchanged after an error. ERR_BUSY if
 * the request was rejected in the queue. ERR_ARG if its fields allow no token. ERR_IO if the answer
 * was cancelled, or the model's output or the constraint allows no token. ERR_LIMIT if a constraint
 * exceeded its limits. ERR_MEMORY. */
int api_call_put(const struct api_call *c, struct buf *out, struct err *e);
/* Return true if the body requests its answer in pieces. api_call_stream then appends the
 * pieces. */
bool api_call_streams(const struct api_call *c);
/* Append frames (server-sent events) with all output since the previous call to `out`, if
 * api_call_streams is true. The final frame follows after the call is complete. */
void api_call_stream(struct api_call *c, struct buf *out);
/* Return true if there is output other than an error. */
bool api_call_has_output(const struct api_call *c);
/* Cancel the running requests. The caller then polls until the call is complete. */
void api_call_cancel(struct api_call *c);
/* Return the "id" of the response, borrowed from c. */
const char *api_call_id(const struct api_call *c);
/* Return the number of generated tokens so far. Set *n_prompt (may be NULL) to the number of prompt
 * tokens. */
int api_call_n_token(const struct api_call *c, int *n_prompt);
/* Cancel the running requests, wait for them and free the call. NULL is allowed. */
void api_call_close(struct api_call *c);

/* ---- ollama_defaults.c: layers of a model of Ollama's store ---- */

struct hub_model;

/* Layers that change a model's answers. Initialize with zeros. */
struct ollama_defaults {
    struct buf system;              /* system prompt, NUL-terminated, owned; empty if none */
    struct json *params, *messages; /* owned; NULL if none */
    struct text_span *stop;         /* stop texts, owned [n_stop]; their bytes are in params */
    int n_stop;
};
/* Read the layers of a model. ERR_FORMAT, ERR_LIMIT, ERR_IO, ERR_MEMORY. */
int ollama_defaults_read(struct ollama_defaults *d, const struct hub_model *m, struct err *e);
/* Set the defaults of a and c, which borrow d. Log a warning for each parameter that is not
 * supported. A system prompt of c stays. */
void ollama_defaults_apply(const struct ollama_defaults *d, struct api *a, struct chat *c);
void ollama_defaults_deinit(struct ollama_defaults *d); /* accepts a zeroed struct */

/* ---- parts, for other forms of requests ---- */

/* Read the sampling fields of a body into a request (arrays into its arena). Arrays of the reply's
 * data are in `keep`, which must outlive the reply. r->max_tokens is at most a->max_tokens if the
 * body has no maximum. The caller reads logprobs, because endpoints differ in them. Nothing is
 * borrowed from the body. ERR_ARG for a wrong type or range, ERR_LIMIT for too many or too long
 * entries, ERR_MEMORY, ERR_BUSY if the client disconnects. */
int api_read_params(struct request *r, struct reply_options *ro, struct arena *keep,
                    const struct api *a, const struct json *body, struct err *e);
/* Read the numbers of params.def and the seed of a body into *p. Absent ones are unchanged. ERR_ARG
 * for another type. */
int api_read_numbers(struct sample_params *p, const struct json *body, struct err *e);
/* Reject a field that is not supported, or unknown to api_read_params and the library's other
 * readers. Return ERR_ARG or ERR_UNSUPPORTED. */
int api_check_params(const struct json *params, struct err *e);
/* Reject a field of a conversation that is unknown to api_render or not supported. Return ERR_ARG
 * or ERR_UNSUPPORTED. */
int api_check_conversation(const struct json *body, struct err *e);
/* Constrain a request's answers by the fields of a body: response_format, structured_outputs,
 * guided_*, grammar, json_schema. The constraint is compiled on the calling thread. Call after
 * api_read_params. r owns the constraint, also after an error. ERR_ARG for a wrong type or two
 * constraints, ERR_UNSUPPORTED for an unknown kind or with ignore_eos. Also the errors of
 * grammar_constraint_open. Errors contain the field. */
int api_constrain(struct request *r, const struct api *a, const struct json *body, struct err *e);
/* Constrain the answer to a conversation by the fields of a body. Reasoning precedes the
 * constrained text.
 *   begun   [n_begun] the part of the answer that the prompt contains
 *   parser  set to the parser of the answer's text, which receives the part in `begun` first.
 *           The parser's names are borrowed from a->chat.
 *   *out    owned by the caller, also after an error; NULL: no constraint
 * The answer is a completion if a->chat is NULL. Errors: those of api_constrain. */
int api_constrain_message(struct constraint **out, const struct api *a, const struct json *body,
                          const char *begun, size_t n_begun, struct chat_parser_options *parser,
                          struct err *e);
/* Set *budget to the maximum number of tokens of reasoning, from thinking_token_budget or
 * llama.cpp's names of this field; -1: no limit. ERR_ARG for another type. ERR_UNSUPPORTED if the
 * marks of the model's reasoning are not known. Errors contain the field. */
int api_read_budget(const struct api *a, const struct json *body, int *budget, struct err *e);
/* Limit the reasoning of an answer to `budget` tokens; -1: no effect. *c: constraint of the answer;
 * NULL if none. The new *c contains the old constraint. The caller owns *c, also after an error.
 *   begun   part of the answer that the prompt contains; NULL: the answer is not a message
 *   prompt  ids of the prompt, searched for reasoning if `begun` is NULL. Reasoning may then begin
 *           anywhere.
 * ERR_UNSUPPORTED with the field, ERR_MEMORY. */
int api_limit_reasoning(struct constraint **c, const struct api *a, int budget,
                        const struct text_span *begun, const struct ids *prompt, struct err *e);
/* Read "logprobs" and "prompt_logprobs" as numbers of alternatives. ERR_ARG for another type or a
 * number outside [0, TOP_LOGPROB_MAX]. */
int api_read_logprobs(struct request *r, const struct json *body, struct err *e);

/* Set the prompt of a request to a copy of ids i32 [n], or to the tokens of a text of n bytes. Add
 * the tokens that the tokenizer requires at the ends of a text, if add_special is true. ERR_MEMORY,
 * ERR_LIMIT if the text is too long, ERR_BUSY if the client disconnects. */
int api_prompt_text(struct request *r, const struct api *a, const char *text, size_t n,
                    bool add_special, struct err *e);
/* Set the prompt of a request to the tokens of the text `before` followed by `text`. If the model's
 * pooling leaves the tokens of `before` out, set r->pool_from. Errors: those of api_prompt_text. */
int api_prompt_after(struct request *r, const struct api *a, const struct text_span *before,
                     const struct text_span *text, bool add_special, struct err *e);
/* Set the prompt of a request to the tokens of a pair of texts. `before` precedes only the first
 * text, as in sentence-transformers. Set r->segment1. Errors: those of tokenizer_encode_pair. */
int api_pair_after(struct request *r, const struct api *a, const struct text_span *before,
                   const struct text_span pair[2], int64_t n_max, struct err *e);
/* Set the prompt of a request to a copy of ids i32 [n]. ERR_MEMORY. */
int api_prompt_ids(struct request *r, const int32_t *ids, size_t n, struct err *e);

/* Render a conversation of a body: `messages`, `tools`, `documents`, `chat_template_kwargs`,
 * `add_generation_prompt` and `continue_final_message`. Append the text to `prompt`, which is
 * unchanged after an error. Set *turn (template_render). ERR_UNSUPPORTED if the model has no
 * template, ERR_ARG with the field for a wrong type, and the errors of template_render. */
int api_render(const struct api *a, const struct json *body, struct buf *prompt,
               struct chat_turn *turn, struct err *e);

/* Scale a pooled vector v f32 [n] to length 1 if `normalize` is true; zeros are unchanged. Return
 * false if its length is not finite. */
bool api_scale(float *v, int n, bool normalize);

/* Set word[0] and word[1] to the token sequences of `text` at the start of a text and after a space
 * (vLLM's bad_words). The sequences are in the arena a. ERR_LIMIT, ERR_MEMORY, ERR_BUSY if the
 * client disconnects. */
int api_bad_word(struct ids word[2], const struct tokenizer *t, const char *text, size_t n,
                 struct arena *a, struct err *e);

/* Append {"role":"assistant","content":...,"reasoning_content":...,"tool_calls":[...]}. A call
 * without an id from the model gets an id made from id_seed. The seed differs between messages;
 * os_random() returns a new seed. */
void message_put(struct buf *b, const struct chat_message *m, uint64_t id_seed);

#endif
