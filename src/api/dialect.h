/* dialect.h - private to src/api: one wire form of requests and answers, such as OpenAI's chat
 * completions. call.c and stream.c do not depend on a dialect. A call has prompts (struct part), a
 * prompt has choices, and a choice grows by events. A dialect reads a body into parts and writes
 * their answers. It is one file and its lines in dialects.def.
 *
 *   body --read--> parts --(engine)--> choices --put--> the whole answer
 *                                      choices --put_pieces, ... put_pieces, put_end--> a stream
 *   a failure of any room, before the answer  --errors->put-->
 *   a failure of any room, inside a stream    --put_error-->
 *
 * One thread at a time uses a call. A dialect whose allocation fails sets b->failed, which is
 * checked once, at the end. The answer then becomes a 503, or the stream ends with `no_memory`. */
#ifndef QUOTH_API_DIALECT_H
#define QUOTH_API_DIALECT_H

#include "api_impl.h"

#include "base/json_out.h"

/* Form of a failure before an answer has begun. net: form of rejections without a handler (keys,
 * limits, sizes). */
struct error_form {
    struct net_errors net; /* errors of the HTTP server; its media type also applies to `put` */
    /* function that appends a whole body. id: id of the exchange, borrowed; NULL if none */
    void (*put)(struct buf *b, int rc, const struct err *e, const char *id);
};

/* A wire form. All pointers are static. */
struct dialect {
    /* rows of fields.def that bodies may have, ENDPOINT_*; 0: `read` checks them */
    unsigned fields;
    const char *id_prefix; /* prefix of api_call_id: "cmpl-" */
    const char *prompt;    /* name of the body's field with prompts, for errors */
    /* true if each choice has the data on its prompt, false if the answer has these data once */
    bool prompt_per_choice;
    const struct error_form *errors;
    const void *form; /* data that several dialects share, of a type that they define */
    /* true if the answer depends on the prompts only: the call ends without the engine */
    bool counts;
    /* function that gives an error of a later stage the names of the client's fields; NULL: they
     * have OpenAI's names */
    void (*name_error)(const struct api_call *c, struct err *e);

    /* function that fills the call's parts. The function borrows nothing from the body. It returns
     * ERR_ARG, ERR_LIMIT, ERR_FORMAT or ERR_UNSUPPORTED, with the field, if the body is invalid;
     * ERR_BUSY; ERR_MEMORY */
    int (*read)(struct api_call *c, const struct json *body, struct err *e);
    /* function that appends the whole answer of a complete call. check_choice must accept each
     * choice. It returns ERR_MEMORY; ERR_IO for embeddings that are not finite. */
    int (*put)(const struct api_call *c, struct buf *b, struct err *e);

    /* fields of answers in pieces, which are not supported if stream_type is NULL */
    const char *stream_type; /* "text/event-stream" */
    const char *no_memory;   /* whole last piece of a stream after a failed allocation */
    /* function that appends the unsent part of a choice. part->no_memory: some events could not be
     * read */
    void (*put_pieces)(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b);
    /* function that appends the text after the last piece of the last choice */
    void (*put_end)(const struct api_call *c, struct buf *b);
    /* function that appends an error in place of the remaining pieces */
    void (*put_error)(struct buf *b, int rc, const struct err *e);
};

/* Return the dialect of a path; NULL if the path has no dialect. */
const struct dialect *dialect_find(const char *path);
/* Return the dialect of a body for a path of several dialects. */
const struct dialect *dialect_of(const char *path, const struct json *body);

/* Where a call comes from. */
struct call_origin {
    uint64_t holder; /* holder that the constraint is charged to; 0: none */
    /* time (time_us) at which the body was complete: latencies and `timeout` begin at this time; 0:
     * they begin at api_call_submit */
    int64_t arrival_us;
};
/* Open a call of a known dialect, otherwise like api_call_open. The caller owns *out, which is NULL
 * after an error. Errors: those of api_call_open, except ERR_MISSING. */
int call_open(struct api_call **out, const struct api *a, const struct dialect *dialect,
              const struct json *body, struct call_origin from, struct queue *bell, struct err *e);

/* ---- call.c: for `read` of dialects ---- */

/* Copy "model" to c->model; the api's name if it is absent. ERR_ARG for another type or a name of
 * more than 4096 bytes, ERR_MEMORY. */
int call_model(struct api_call *c, const struct json *body, struct err *e);
/* Return ERR_UNSUPPORTED if the client requests answers in pieces and they are not supported. */
int call_stream(struct api_call *c, struct err *e);
/* Allocate c->own: `size` zeroed bytes in the call's arena, once per call. ERR_MEMORY. */
int call_own(struct api_call *c, size_t size, struct err *e);

/* ---- conversation.c: messages to prompts, and generated text to messages ---- */

/* Make the part's prompt from a conversation: `messages` and related fields. Errors: those of
 * api_render, check_text_fits, api_prompt_text and cut_prompt. */
int read_messages(struct api_call *c, struct part *p, const struct json *body, struct err *e);
/* Set *out to the place in a message at which the answer begins. *content: true if the prompt
 * contains a part of the message's content. ERR_MEMORY; ERR_ARG for an unknown parser's name. */
int begun_place(const struct api_call *c, enum chat_place *out, bool *content, struct err *e);
/* Return the answer as a message in the zeroed *m, which the caller frees. An incomplete answer
 * gives an incomplete message. The message also contains hidden reasoning and calls. ERR_MEMORY.
 * The caller frees *m in any case. */
int choice_message(const struct api_call *c, const struct choice *a, struct chat_message *m,
                   struct err *e);
/* Emit the requested kinds of deltas of a complete choice. They equal those of a stream, joined.
 * ERR_MEMORY. */
int choice_parse(const struct api_call *c, struct choice *a, chat_delta_fn *fn, void *ctx,
                 struct err *e);
/* Prepare the first delta of a choice. Return false if an allocation failed. */
bool choice_begin(const struct api_call *c, struct choice *a);
/* Emit the requested kinds of deltas for the unsent part of a choice. Return false if an allocation
 * failed. */
bool choice_deltas(const struct api_call *c, struct choice *a, chat_delta_fn *fn, void *ctx);

#endif
