/* openai.h - private to src/api: openai.c, shared by OpenAI's dialects (chat completions,
 * completions, embeddings). */
#ifndef QUOTH_API_OPENAI_H
#define QUOTH_API_OPENAI_H

#include "dialect.h"

/* dialect.form: a response is its head, a list of choices and the usage. */
struct openai_form {
    const char *object, *object_piece; /* "object" of responses and of frames */
    const char *list;                  /* name of the list of choices */
    /* true if the prompt's ids and log probabilities are members of the response, as in vLLM's
     * chats */
    bool prompt_in_response;
    /* Write a choice's members between "index" and the reason for its end. *called: it ended in a
     * tool call. */
    int (*put)(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct json_out *o, struct err *e);
};

/* c->own */
struct openai {
    /* usage in streams: at the end; in each piece, as far as it is known */
    bool include_usage, usage_always;
    /* of embeddings */
    int dimensions; /* 0: all */
    bool base64;
};
const struct openai *openai_of(const struct api_call *c);

extern const struct error_form openai_errors;
extern const char openai_no_memory[]; /* dialect.no_memory */

/* Allocate c->own and read the fields of all three dialects: model, request_id, stream,
 * stream_options. */
int openai_read(struct api_call *c, const struct json *body, struct err *e);
/* Read the constraint of the answers. Call after the parts exist. */
int openai_read_format(struct api_call *c, const struct json *body, struct err *e);
/* Convert a body with `functions` or `function_call` to `tools` and `tool_choice`. *out is owned by the
 * caller, NULL if the body has neither. */
int openai_read_functions(struct json **out, const struct json *body, struct err *e);
/* Read tools, tool_choice and parallel_tool_calls. Sets c->tool_parser. */
int openai_read_tools(struct api_call *c, struct tools_spec *out, const struct json *body,
                      struct err *e);
/* dialect.put, put_end and put_error */
int openai_put(const struct api_call *c, struct buf *b, struct err *e);
void openai_put_end(const struct api_call *c, struct buf *b);
void openai_put_error(struct buf *b, int rc, const struct err *e);

/* Begin and end a frame of a choice; the caller writes the choice's members in between. last: with
 * the reason for the end. */
void openai_frame_begin(const struct api_call *c, int index, struct json_out *o, struct buf *b);
void openai_frame_end(const struct api_call *c, const struct part *p, struct choice *a, bool last,
                      struct json_out *o);
/* Append the log probabilities that are not sent yet, and count them as sent. */
struct answer_log log_unsent(struct choice *a);

/* ---- openai_logprobs.c: members of the object that is open ---- */

void put_logprobs_chat(struct json_out *o, const struct tokenizer *t, const struct answer_log *log);
/* Append log probabilities of the prompt's tokens (maybe none) and of those after it. The first
 * token is at text_offset. */
void put_logprobs_completion(struct json_out *o, const struct tokenizer *t,
                             const struct answer_log *prompt, const struct answer_log *log,
                             size_t text_offset);
/* Append vLLM's "prompt_logprobs": null for the first token, then an object by id for each. */
void put_prompt_logprobs(struct json_out *o, const struct tokenizer *t,
                         const struct answer_log *log);
/* Return the bytes of the log's texts of tokens. */
size_t log_bytes(const struct tokenizer *t, const struct answer_log *log);

#endif
