/* openai.h - private to src/api: common parts of OpenAI's dialects (chat completions, completions,
 * embeddings). A handler thread reads a call, then the stream thread writes its answer. One thread
 * at a time uses a call. */
#ifndef QUOTH_API_OPENAI_H
#define QUOTH_API_OPENAI_H

#include "dialect.h"

/* Data of dialect.form. A response is its head, a list of choices and the usage. All texts are
 * static. */
struct openai_form {
    const char *object, *object_piece; /* "object" of responses and of frames */
    const char *list;                  /* name of the list of choices */
    /* true if the response contains the prompt's ids and log probabilities, as in vLLM's chats */
    bool prompt_in_response;
    /* function that writes a choice's members between "index" and the reason for its end. *called
     * is set if the choice ended in a tool call. The function returns ERR_MEMORY, or ERR_IO for
     * embeddings that are not finite. */
    int (*put)(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct json_out *o, struct err *e);
};

/* Form of the numbers of a vector (encoded.c). */
struct vector_form {
    int dtype;        /* index of the number format in base64 */
    bool base64, big; /* base64: bytes, not a list. big: the most significant byte is first */
};

/* Data of c->own. */
struct openai {
    /* include_usage: usage at the end of a stream. usage_always: usage with the tokens so far in
     * each piece. */
    bool include_usage, usage_always;
    /* fields of embeddings */
    int dimensions;            /* length of the returned vectors; 0: all components */
    struct vector_form vector; /* form of the vectors' numbers */
    bool normalize;            /* true to scale vectors to length 1 */
    /* fields of classes and scores. activate: apply the activation. classify: logits of labels.
     * score: the activation is that of scores. tokens: vectors of all tokens. */
    bool activate, classify, score, tokens;
    void *more; /* data of the dialect, in the call's arena; NULL if none */
};
/* Return the OpenAI options of a call. */
const struct openai *openai_of(const struct api_call *c);

extern const struct error_form openai_errors;
/* Return OpenAI's code of an error at a field, static; NULL if none. */
const char *openai_error_code(int rc, const char *field);
extern const char openai_no_memory[]; /* value of dialect.no_memory */

/* Allocate c->own and read the fields of all three dialects: model, request_id, stream,
 * stream_options. ERR_ARG with the field, ERR_UNSUPPORTED for "stream" (call_stream),
 * ERR_MEMORY. */
int openai_read(struct api_call *c, const struct json *body, struct err *e);
/* Read the constraint of the answers into c->spec. Call after the parts exist. ERR_ARG for a wrong
 * type or two constraints, ERR_UNSUPPORTED for an unknown kind or an inexact number, ERR_MEMORY. */
int openai_read_format(struct api_call *c, const struct json *body, struct err *e);
/* Read the prompts of a body that is not a conversation, and its constraint. The body of
 * completions is the neutral form of all dialects of texts. ERR_UNSUPPORTED for a model that
 * generates no text. Also the errors of read_prompts, openai_read_format and
 * call_constrain_text. */
int openai_read_plain(struct api_call *c, const struct json *body, part_fn *open, struct err *e);
/* Convert a body with `functions` or `function_call` to `tools` and `tool_choice`. The caller owns
 * *out. *out is NULL for a body without these fields, and after an error. ERR_ARG if the body also
 * has the new fields or a wrong type, ERR_MEMORY. */
int openai_read_functions(struct json **out, const struct json *body, struct err *e);
/* Check the calls of all messages (prompt.c). Call before openai_read_custom, so that errors
 * contain the client's members. ERR_ARG. */
int openai_check_calls(const struct json *body, struct err *e);
/* Return ERR_UNSUPPORTED for a model that generates no chats, with a better reason than its missing
 * template. Such a model has no logits, or is one of encoder and decoder without a template. */
int openai_check_generates(const struct api *a, struct err *e);
/* ERR_UNSUPPORTED if the model generates no text. */
int openai_check_text(const struct api *a, struct err *e);
/* Set the request's maximum length from max_tokens, max_completion_tokens or n_predict. The default
 * is the length that the context allows. ERR_ARG. */
int openai_read_max_tokens(const struct api_call *c, struct request *r, const struct json *body,
                           struct err *e);
/* Read a conversation into the call's only part. The body is the neutral form of all dialects of
 * conversations: a body of chat completions with functions as its only tools. given: tools as in
 * openai_read_tools. ERR_UNSUPPORTED for a model that generates no text. Also the errors of
 * openai_read_tools, call_parts, part_read, read_messages and call_constrain_message. */
int openai_read_chat(struct api_call *c, const struct json *body, const struct json *given,
                     struct err *e);
/* Append a value as member `key`. Append nothing if the value is NULL. */
void openai_put_json(struct json_out *o, const char *key, const struct json *value);
/* Append the members of an object, except the members in `without`, a list that ends with NULL. */
void openai_put_members(struct json_out *o, const struct json *object, const char *const *without);
/* Convert a body with custom tools or their calls to a body with functions of one argument,
 * `input`. The caller owns *out, which is NULL if there are no custom tools, and after an error.
 * ERR_ARG or ERR_UNSUPPORTED with the field, ERR_MEMORY. */
int openai_read_custom(struct json **out, const struct json *body, struct err *e);
/* Set *out to the text of a custom tool, as the member "input" of a structural tag. The text is in
 * the arena; "" if `tool` is a function. ERR_MEMORY. */
int openai_custom_input(struct arena *a, const struct json *tool, struct text_span *out,
                        struct err *e);
/* Read tools, tool_choice and parallel_tool_calls. Set c->tool_parser. out->tool is in the call's
 * arena. given: tools as the client sent them, with custom tools. ERR_ARG with the field, ERR_LIMIT
 * for too many tools, ERR_UNSUPPORTED for a kind of tool or choice, ERR_MEMORY. */
int openai_read_tools(struct api_call *c, struct tools_spec *out, const struct json *body,
                      const struct json *given, struct err *e);
/* Append a response up to the beginning of its list. */
void openai_put_head(const struct api_call *c, const char *object, const char *list,
                     struct json_out *o);
void openai_put_usage(const struct api_call *c, struct json_out *o);
/* Append a whole response (dialect.put). Errors: those of the form's `put`. */
int openai_put(const struct api_call *c, struct buf *b, struct err *e);
/* Append the last frames of a stream: the usage if it was requested, and [DONE]. */
void openai_put_end(const struct api_call *c, struct buf *b);
/* Append a frame without choices that has the progress of a part's prompt. */
void openai_put_progress(const struct api_call *c, struct part *p, int index, struct buf *b);

/* Begin and end a frame of a choice. The caller writes the choice's members between these calls.
 * last: the frame contains the reason for the end. */
void openai_frame_begin(const struct api_call *c, int index, struct json_out *o, struct buf *b);
/* Append the end of a frame: new token ids, and the reason of the end if it is the last frame. */
void openai_frame_end(const struct api_call *c, const struct part *p, struct choice *a, bool last,
                      struct json_out *o);
/* Return the unsent log probabilities, and mark them as sent. */
struct answer_log log_unsent(struct choice *a);

/* ---- openai_logprobs.c: members of the object that is open ---- */

/* Names of tokens in log probabilities: their texts, or "token_id:ID" if `ids` is true. */
struct token_names {
    const struct tokenizer *tokenizer; /* borrowed */
    bool ids;
};
/* Append a list of n tokens as member `key`. */
void put_logprobs_list(struct json_out *o, const char *key, const struct token_names *t,
                       const struct token_logprobs *v, size_t n);
void put_logprobs_chat(struct json_out *o, const struct token_names *t,
                       const struct answer_log *log);
/* Append log probabilities of the prompt's tokens, if there are any, and of later tokens.
 * text_offset: offset of the first token in the text. */
void put_logprobs_completion(struct json_out *o, const struct token_names *t,
                             const struct answer_log *prompt, const struct answer_log *log,
                             size_t text_offset);
/* Append vLLM's "prompt_logprobs": null for the first token, then an object with ids as names for
 * each later token. */
void put_prompt_logprobs(struct json_out *o, const struct tokenizer *t,
                         const struct answer_log *log);
/* Return the total size of the texts of the log's tokens. */
size_t log_bytes(const struct tokenizer *t, const struct answer_log *log);

#endif
