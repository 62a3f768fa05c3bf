/* dialect.h - private to src/api: one wire form of requests and answers, such as OpenAI's chat completions. call.c and stream.c
 * are neutral: a call has prompts (struct part), each has choices, and a choice grows by events. A dialect reads a body into
 * parts and writes what became of them; it is one file and its lines in dialects.def.
 *
 *   body --read--> parts --(engine)--> choices --put----------------------------------------> the whole answer
 *                                              --put_pieces, ... put_pieces, put_end--------> a stream
 *   a failure, wherever it comes up            --errors->put (before the answer), put_error-> (inside a stream)
 *
 * One thread at a time has a call. What is appended to a buf is checked once, at the end: a dialect that loses memory in
 * between sets b->failed, and the answer becomes a 503, or the stream ends with `no_memory`. */
#ifndef QUOTH_API_DIALECT_H
#define QUOTH_API_DIALECT_H

#include "api_impl.h"

#include "base/json_out.h"

/* How a failure is told before an answer has begun. net: of refusals that no handler saw (keys, limits, sizes). */
struct error_form {
    struct net_errors net;                                   /* its type is that of `put`, too */
    void (*put)(struct buf *b, int rc, const struct err *e); /* append a whole body */
};

struct dialect {
    unsigned
        fields; /* ENDPOINT_*: the rows of fields.def that bodies may have; 0: read checks them */
    const char *id_prefix;  /* of api_call_id: "cmpl-" */
    const char *prompt;     /* the body's field that sentences about prompts name */
    bool prompt_per_choice; /* what is told of a prompt stands in each of its choices, not once */
    const struct error_form *errors;
    const void *form; /* the dialect's own: what several of a family share */

    /* Fill the call's parts. ERR_ARG, ERR_LIMIT, ERR_UNSUPPORTED: the body, under the field's name. */
    int (*read)(struct api_call *c, const struct json *body, struct err *e);
    /* Append the whole answer of a call that is complete; each choice has one (check_choice). */
    int (*put)(const struct api_call *c, struct buf *b, struct err *e);

    /* Answers in pieces; stream_type NULL: there are none, and the rest is unused. */
    const char *stream_type; /* "text/event-stream" */
    const char *no_memory;   /* a whole last piece for a stream that lost one */
    /* Append what the client does not have yet of a choice. part->no_memory: what was there could not be read. */
    void (*put_pieces)(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b);
    void (*put_end)(const struct api_call *c,
                    struct buf *b); /* behind the last choice's last piece */
    void (*put_error)(struct buf *b, int rc,
                      const struct err *e); /* instead of what would follow */
};

/* The dialect of a path; NULL: none. */
const struct dialect *dialect_find(const char *path);
/* The dialect of a body that was posted to a path that takes several. */
const struct dialect *dialect_of(const char *path, const struct json *body);

/* api_call_open of a dialect. */
int call_open(struct api_call **out, const struct api *a, const struct dialect *dialect,
              const struct json *body, struct queue *bell, struct err *e);

/* ---- call.c: for dialects' read ---- */

int call_model(struct api_call *c, const struct json *body, struct err *e); /* "model" */
/* The client wants pieces: may it have them? */
int call_stream(struct api_call *c, struct err *e);
/* Zeroed memory of the dialect's own, for as long as the call: c->own. */
int call_own(struct api_call *c, size_t size, struct err *e);

/* ---- conversation.c: reading messages, and messages out of what was generated ---- */

/* The part's prompt from a conversation: `messages` and what belongs to them (api_render). */
int read_messages(struct api_call *c, struct part *p, const struct json *body, struct err *e);
/* Does the answer begin inside the model's reasoning, which the prompt began? */
int begins_reasoning(const struct api_call *c, bool *out, struct err *e);
/* The answer as a message; zeroed *m, which the caller frees. As far as it was said: hidden reasoning and calls are in it. */
int choice_message(const struct api_call *c, const struct choice *a, struct chat_message *m,
                   struct err *e);
/* Before the first delta of a choice: false: no memory. */
bool choice_begin(const struct api_call *c, struct choice *a);
/* Tell what is new of a choice, without what the client did not ask for. false: memory ran out. */
bool choice_deltas(const struct api_call *c, struct choice *a, chat_delta_fn *fn, void *ctx);

#endif
