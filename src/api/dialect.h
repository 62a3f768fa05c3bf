/* dialect.h - private to src/api: one wire form of requests and answers, such as OpenAI's chat
 * completions. call.c and stream.c are neutral: a call has prompts (struct part), each has choices,
 * and a choice grows by events. A dialect reads a body into parts and writes their answers. It is
 * one file and its lines in dialects.def.
 *
 *   body --read--> parts --(engine)--> choices --put----------------------------------------> the whole answer
 *                                              --put_pieces, ... put_pieces, put_end--------> a stream
 *   a failure of any room                      --errors->put (before the answer), put_error-> (inside a stream)
 *
 * One thread at a time uses a call. A buf is checked once, at the end: a dialect whose allocation
 * fails sets b->failed, and the answer becomes a 503, or the stream ends with `no_memory`. */
#ifndef QUOTH_API_DIALECT_H
#define QUOTH_API_DIALECT_H

#include "api_impl.h"

#include "base/json_out.h"

/* The form of a failure before an answer has begun. net: of rejections without a handler (keys,
 * limits, sizes). */
struct error_form {
    struct net_errors net;                                   /* its media type, also of `put` */
    void (*put)(struct buf *b, int rc, const struct err *e); /* Append a whole body. */
};

struct dialect {
    unsigned
        fields; /* ENDPOINT_*: the rows of fields.def that bodies may have; 0: read checks them */
    const char *id_prefix; /* prefix of api_call_id: "cmpl-" */
    const char *prompt;    /* the body's field that errors on prompts name */
    /* true if data on a prompt are in each of its choices, false if they are in the answer once */
    bool prompt_per_choice;
    const struct error_form *errors;
    const void *form; /* the dialect's own: data shared by a family */

    /* Fill the call's parts. Returns ERR_ARG, ERR_LIMIT or ERR_UNSUPPORTED, with the field, if the
     * body is invalid. */
    int (*read)(struct api_call *c, const struct json *body, struct err *e);
    /* Append the whole answer of a complete call, each choice of which has one (check_choice). */
    int (*put)(const struct api_call *c, struct buf *b, struct err *e);

    /* Answers in pieces; stream_type NULL: not supported, and the rest is unused. */
    const char *stream_type; /* "text/event-stream" */
    const char *no_memory;   /* a whole last piece for a stream whose allocation failed */
    /* Append the unsent part of a choice. part->no_memory: some events could not be read. */
    void (*put_pieces)(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b);
    void (*put_end)(const struct api_call *c,
                    struct buf *b); /* after the last piece of the last choice */
    void (*put_error)(struct buf *b, int rc,
                      const struct err *e); /* instead of the remaining pieces */
};

/* Return the dialect of a path; NULL if none. */
const struct dialect *dialect_find(const char *path);
/* Return the dialect of a body that was posted to a path of several dialects. */
const struct dialect *dialect_of(const char *path, const struct json *body);

/* Do api_call_open for a dialect. */
int call_open(struct api_call **out, const struct api *a, const struct dialect *dialect,
              const struct json *body, struct queue *bell, struct err *e);

/* ---- call.c: for `read` of dialects ---- */

int call_model(struct api_call *c, const struct json *body, struct err *e); /* Read "model". */
/* Check that the client may have the answer in pieces, which it requests. */
int call_stream(struct api_call *c, struct err *e);
/* Allocate zeroed memory for the dialect, c->own, which lives as long as the call. */
int call_own(struct api_call *c, size_t size, struct err *e);

/* ---- conversation.c: messages to prompts, and generated text to messages ---- */

/* Make the part's prompt from a conversation: `messages` and related fields (api_render). */
int read_messages(struct api_call *c, struct part *p, const struct json *body, struct err *e);
/* Get the place in a message at which the answer begins. *content: the prompt contains some of the
 * message's content. */
int begun_place(const struct api_call *c, enum chat_place *out, bool *content, struct err *e);
/* Return the answer as a message in the zeroed *m, which the caller frees. An incomplete answer
 * gives an incomplete message. Contains hidden reasoning and calls, too. */
int choice_message(const struct api_call *c, const struct choice *a, struct chat_message *m,
                   struct err *e);
/* Prepare the first delta of a choice. Returns false if an allocation failed. */
bool choice_begin(const struct api_call *c, struct choice *a);
/* Emit the unsent part of a choice, limited to the requested kinds. Returns false if an allocation
 * failed. */
bool choice_deltas(const struct api_call *c, struct choice *a, chat_delta_fn *fn, void *ctx);

#endif
