/* ollama.h - private to src/api: parts of the Ollama dialect. ollama_chat.c, ollama_generate.c and
 * ollama_embed.c read bodies. ollama_body.c and ollama_turns.c convert bodies to the neutral form
 * (openai_read_chat). ollama_names.c converts errors back to the client's names. ollama_answer.c
 * writes answers as one JSON object or as lines of JSON. A handler thread reads a call, then the
 * stream thread writes its answer. */
#ifndef QUOTH_API_OLLAMA_H
#define QUOTH_API_OLLAMA_H

#include "dialect.h"

/* Prefix that an answer adds to the ids of calls. */
#define OLLAMA_ID_PREFIX "call_"

/* Data of dialect.form: names of an answer's parts. All texts are static. */
struct ollama_form {
    const char *task;    /* "chat", "generate" */
    const char *message; /* object around the text; NULL if none */
    const char *text;    /* member with the text: "content", "response" */
};

/* Data of c->own. */
struct ollama {
    const char *without; /* static: done_reason of an answer without a prompt; NULL if none */
    /* place of each message of the prompt, with the index in `messages`; arena [n_place] */
    const struct message_place *place;
    size_t n_place;
    bool plain;     /* true: the text is not parsed */
    int64_t n_ctx;  /* options.num_ctx; 0: the server's context */
    bool truncate;  /* truncate, false if absent */
    int n_top;      /* top_logprobs, -1 without logprobs */
    int dimensions; /* length of vectors */
    /* state of a stream: the open call with its index, and its texts, owned */
    bool in_call, has_id;
    int i_call;
    struct buf name, id, arguments;
};

/* Read the fields around the prompt into c->own, and the model's name, which is required. Errors
 * contain the field; ERR_ARG, ERR_UNSUPPORTED, ERR_MEMORY. */
int ollama_read_own(struct api_call *c, const struct json *body, struct err *e);
/* Free the buffers of c->own (dialect.close). */
void ollama_close(struct api_call *c);
/* Check the prompt and its answer against num_ctx. ERR_LIMIT for a prompt that is too long. */
int ollama_limit(struct api_call *c, struct err *e);
/* Return the maximum number of tokens of a prompt, with room for one token of the answer. */
int64_t ollama_prompt_max(const struct api_call *c);

struct exchange;
struct server;
/* Read the body of a request about models, and the model's name from `model` or the older `name`.
 * Return the body, which the caller owns, and from which *name is borrowed. NULL if the exchange
 * was answered. Handler thread. */
struct json *ollama_read_named(const struct server *s, struct exchange *x, const char **name);

/* ---- ollama_body.c: fields of bodies to the neutral form ---- */

/* Read a prompt's text: "" if absent. ERR_ARG for another type. */
int ollama_text(const struct json *body, const char *field, const char **text, size_t *n,
                struct err *e);
/* Set *out to the neutral form of a body of /api/chat. first: index of the first message that is
 * kept. Earlier messages are dropped, except those of the system. The caller owns *out, which is
 * NULL after an error. The caller frees places->v also after an error. ERR_ARG with the client's
 * field for a wrong type or value, ERR_UNSUPPORTED for a member that is not supported, ERR_LIMIT,
 * ERR_MEMORY. */
int ollama_neutral_chat(struct json **out, struct message_places *places, const struct api *a,
                        const struct json *body, size_t first, struct err *e);
/* Set *out to the neutral form of a body of /api/generate: with `messages` of system and prompt, or
 * with `prompt` if `raw` is true. cut: number of tokens to which a longer prompt is truncated; 0: a
 * longer prompt is an error. Ownership and errors are those of ollama_neutral_chat. */
int ollama_neutral_generate(struct json **out, const struct api *a, const struct json *body,
                            bool raw, int64_t cut, struct err *e);
/* Reject names of options outside `options`. Ollama ignores these options, so the answer would
 * differ from the client's intention. ERR_ARG. */
int ollama_check_outside(const struct json *body, struct err *e);
/* Check the options of a body without a prompt, or of an embedding. Errors: those of
 * ollama_neutral_chat. */
int ollama_check_options(const struct json *body, struct err *e);
/* Read keep_alive, seconds; NAN if it is absent. ERR_ARG for another type or form. */
int ollama_keep_alive(const struct json *body, double *seconds, struct err *e);
/* Set the time after which the idle model of the call is unloaded, if the client may do this.
 * seconds: < 0: never; NAN: no change. */
void ollama_keep(const struct api_call *c, double seconds);
/* Set *out to an object with one option in the neutral form. The caller owns *out, NULL after an
 * error. ERR_ARG for another type or an unknown option, ERR_UNSUPPORTED, ERR_MEMORY. */
int ollama_neutral_option(struct json **out, const char *name, const struct json *value,
                          struct err *e);
/* Set p to one option of a model. p is unchanged after an error. ERR_ARG for another type, an
 * unknown option or a value outside of its range, ERR_UNSUPPORTED, ERR_MEMORY. */
int ollama_set_option(struct sample_params *p, const char *name, const struct json *value,
                      struct err *e);
/* Read options.num_ctx; *n is unchanged if it is absent. ERR_ARG. */
int ollama_num_ctx(const struct json *body, int64_t *n, struct err *e);

/* ---- ollama_turns.c ---- */

/* Append `messages` as member of the open object. *continues: the answer continues the last
 * message. Errors: those of ollama_neutral_chat. */
int ollama_put_messages(struct json_out *o, struct message_places *places, const struct json *body,
                        size_t first, bool *continues, struct err *e);

/* ---- ollama_modelfile.c ---- */

struct listed;
/* Append the texts of a loaded model to the open object: modelfile, parameters, license, template,
 * system, messages. Layers of a model of the stores are read from the disk. Errors: those of
 * hub_find and ollama_defaults_read. */
int ollama_put_texts(struct json_out *o, const struct listed *l, struct err *e);

/* ---- ollama_names.c ---- */

/* Rename a sampling parameter of the neutral form in an error to a member of `options`. */
void ollama_name_option(struct err *e);

/* Replace the fields of the neutral form in an error by the client's (dialect.name_error). */
void ollama_name_error(const struct api_call *c, struct err *e);

/* ---- ollama_answer.c: functions of struct dialect ---- */

/* Append the whole answer (dialect.put). */
int ollama_put(const struct api_call *c, struct buf *b, struct err *e);
void ollama_put_pieces(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b);
void ollama_put_end(const struct api_call *c, struct buf *b);
/* Append the time us (microseconds since 1970) in the form of RFC 3339, with nanoseconds. */
void ollama_put_time(struct json_out *o, const char *key, int64_t us);
/* Return true if a body has only a model and keep_alive 0, and no content of the member `input`
 * ("prompt", "messages"), and append the answer (dialect.unloads). */
bool ollama_unloads(const struct json *body, const char *input, struct buf *b);
/* Append total_duration and load_duration in nanoseconds. load_us: time before the computation. */
void ollama_put_durations(const struct api_call *c, struct json_out *o, int64_t load_us);

/* ---- ollama_error.c ---- */

extern const struct error_form ollama_errors;
extern const char ollama_no_memory[]; /* value of dialect.no_memory */

#endif
