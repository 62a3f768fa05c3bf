/* openai.h - private to src/api: what OpenAI's dialects (chat completions, completions, embeddings) share: openai.c. */
#ifndef QUOTH_API_OPENAI_H
#define QUOTH_API_OPENAI_H

#include "dialect.h"

/* dialect.form: a response is its head, a list of choices and the usage. */
struct openai_form {
    const char *object, *object_piece; /* what responses and frames call themselves */
    const char *list;                  /* the response's field of choices */
    bool
        prompt_in_response; /* the prompt's ids and log probabilities are the response's, as vLLM has them of chats */
    /* Write a choice's members between "index" and how it ended. *called: it ended in a tool call. */
    int (*put)(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct json_out *o, struct err *e);
};

/* c->own */
struct openai {
    bool include_usage,
        usage_always; /* of streams: at the end; in each piece, as far as it is known */
    /* of embeddings */
    int dimensions; /* 0: all */
    bool base64;
};
const struct openai *openai_of(const struct api_call *c);

extern const struct error_form openai_errors;
extern const char openai_no_memory[]; /* dialect.no_memory */

/* c->own, and the fields that all three have: model, request_id, stream, stream_options. */
int openai_read(struct api_call *c, const struct json *body, struct err *e);
/* What the answers are held to; once the parts are there. */
int openai_read_format(struct api_call *c, const struct json *body, struct err *e);
/* dialect.put, put_end and put_error */
int openai_put(const struct api_call *c, struct buf *b, struct err *e);
void openai_put_end(const struct api_call *c, struct buf *b);
void openai_put_error(struct buf *b, int rc, const struct err *e);

/* A frame of a choice: what is between these two are the choice's members. last: with how it ended. */
void openai_frame_begin(const struct api_call *c, int index, struct json_out *o, struct buf *b);
void openai_frame_end(const struct api_call *c, const struct part *p, struct choice *a, bool last,
                      struct json_out *o);
/* The log probabilities that the client does not have yet; they count as sent. */
struct answer_log log_unsent(struct choice *a);

/* ---- openai_logprobs.c: members of the object that is open ---- */

void put_logprobs_chat(struct json_out *o, const struct tokenizer *t, const struct answer_log *log);
/* Of the prompt's tokens (there may be none) and those behind it; the first one stands at text_offset. */
void put_logprobs_completion(struct json_out *o, const struct tokenizer *t,
                             const struct answer_log *prompt, const struct answer_log *log,
                             size_t text_offset);
/* vLLM's "prompt_logprobs": null for the first token, then an object by id each. */
void put_prompt_logprobs(struct json_out *o, const struct tokenizer *t,
                         const struct answer_log *log);
size_t log_bytes(const struct tokenizer *t,
                 const struct answer_log *log); /* of its tokens' texts */

#endif
