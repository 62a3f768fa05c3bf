/* dialect.h - private to src/api: one wire form of requests and answers, such as OpenAI's chat
 * completions. call.c and stream.c do not depend on a dialect. A call has prompts (struct part), a
 * prompt has choices, and a choice grows by events. A dialect reads a body into parts and writes
 * their answers. A dialect is one file and its lines in dialects.def.
 *
 *   body --read--> parts --(engine)--> choices --put--> the whole answer
 *                                      choices --put_pieces, ... put_pieces, put_end--> a stream
 *   a failure of any room, before the answer  --errors->put-->
 *   a failure of any room, inside a stream    --put_error-->
 *
 * One thread at a time uses a call. A dialect whose allocation fails sets b->failed. The caller
 * checks b->failed once, at the end; the answer is then a 503, or the stream ends with
 * `no_memory`. */
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
    const char *before, *after; /* static: texts around the body in a stream (call_put_error) */
};

enum { NO_MEMORY_BYTES = 300 };

/* A wire form. All pointers are static. */
struct dialect {
    /* rows of fields.def that bodies may have, ENDPOINT_*; 0: `read` checks them */
    unsigned fields;
    const char *id_prefix; /* prefix of api_call_id: "cmpl-" */
    const char *prompt;    /* name of the body's field with prompts, for errors */
    bool mixes;            /* true if a prompt may be a list of ids and texts, as in llama.cpp */
    /* true if each choice has the data on its prompt, false if the answer has these data once */
    bool prompt_per_choice;
    const struct error_form *errors;
    const void *form; /* data that several dialects share, of a type that they define */
    /* true if the answer depends on the prompts only, so the call ends without the engine */
    bool counts;
    /* function that gives an error of a later stage the names of the client's fields; NULL: they
     * have OpenAI's names */
    void (*name_error)(const struct api_call *c, struct err *e);

    /* function that returns true if a body does nothing but unload its model, and appends the
     * answer. A model that is not loaded is then not loaded first. NULL: no such bodies */
    bool (*unloads)(const struct json *body, struct buf *b);
    /* function that fills the call's parts. A call without parts ends without the engine. The
     * function borrows nothing from the body. The function returns ERR_ARG, ERR_LIMIT, ERR_FORMAT
     * or ERR_UNSUPPORTED, with the field, if the body is invalid. Further errors are ERR_BUSY and
     * ERR_MEMORY. */
    int (*read)(struct api_call *c, const struct json *body, struct err *e);
    /* function that appends the whole answer of a complete call. check_choice must accept each
     * choice. The function returns ERR_MEMORY, or ERR_IO for embeddings that are not finite. */
    int (*put)(const struct api_call *c, struct buf *b, struct err *e);
    /* function that frees the data of c->own outside of the arena, also of a half-read call; NULL:
     * there are none */
    void (*close)(struct api_call *c);

    /* fields of answers in pieces, which are not supported if stream_type is NULL */
    const char *stream_type; /* "text/event-stream" */
    /* function that returns true if a valid body requests a stream (dialect_streams); NULL: its
     * `stream` is true. It agrees with `stream` of the call that `read` fills. */
    bool (*streams)(const struct json *body);
    const char *no_memory; /* whole last piece of a stream after a failed allocation */
    /* function that writes this piece for a call, for dialects whose pieces have numbers; NULL:
     * no_memory is the piece of all calls */
    void (*write_no_memory)(const struct api_call *c, char out[static NO_MEMORY_BYTES]);
    /* function that appends the unsent part of a choice. part->no_memory is true if some events
     * could not be read */
    void (*put_pieces)(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b);
    /* function that appends the progress of a part's prompt (put_progress); NULL: the dialect has
     * no such piece. index: index of the part's first choice */
    void (*put_progress)(const struct api_call *c, struct part *p, int index, struct buf *b);
    /* function that appends the text after the last piece of the last choice */
    void (*put_end)(const struct api_call *c, struct buf *b);
    /* function that appends an error in place of the remaining pieces; NULL: the body of `errors`
     * in its frame */
    void (*put_error)(const struct api_call *c, struct buf *b, int rc, const struct err *e);
    /* function that appends an error of a stream that began before its call was opened (early.c);
     * NULL: the body of `errors` in its frame */
    void (*put_early_error)(struct buf *b, int rc, const struct err *e);
};

/* Return the dialect of a path; NULL if the path has no dialect. */
const struct dialect *dialect_find(const char *path);
/* Return the dialect of a body for a path of several dialects. */
const struct dialect *dialect_of(const char *path, const struct json *body);
/* Return true if the body requests a stream, before the body is read. An invalid body may give any
 * result. */
bool dialect_streams(const struct dialect *d, const struct json *body);

/* Data of a call that are not in its body: those of its connection, or of its batch. */
struct call_origin {
    uint64_t holder; /* holder that the constraint is charged to; 0 if none */
    uint64_t owner;  /* owner of stored responses: number of the key; 0: no key */
    /* time (time_us) at which the body was complete, the beginning of latencies and `timeout`; 0:
     * api_call_submit is the beginning */
    int64_t arrival_us;
    bool keeps_model; /* true: the client may set the idle time of the model */
};
/* Open a call as api_call_open does, with a known dialect. The caller owns *out, which is NULL
 * after an error. Errors: those of api_call_open, except ERR_MISSING. */
int call_open(struct api_call **out, const struct api *a, const struct dialect *dialect,
              const struct json *body, struct call_origin from, struct queue *bell, struct err *e);

/* ---- call.c: for `read` of dialects ---- */

/* Copy "model" to c->model; the api's name if it is absent. ERR_ARG for another type or a name of
 * more than 4096 bytes, ERR_MEMORY. */
int call_model(struct api_call *c, const struct json *body, struct err *e);
/* Return ERR_UNSUPPORTED if the client requests a stream and the caller does not support
 * streams. */
int call_stream(struct api_call *c, struct err *e);
/* Allocate c->own: `size` zeroed bytes in the call's arena, once per call. ERR_MEMORY. */
int call_own(struct api_call *c, size_t size, struct err *e);

/* ---- conversation.c: messages to prompts, and generated text to messages ---- */

/* Make the part's prompt from a conversation: `messages` and related fields. Errors: those of
 * api_render, check_text_fits, api_prompt_text and cut_prompt. */
int read_messages(struct api_call *c, struct part *p, const struct json *body, struct err *e);
/* Set *out to the place in a message at which the answer begins. *content: true if the prompt
 * contains a part of the message's content. ERR_MEMORY, ERR_ARG for an unknown parser's name. */
int begun_place(const struct api_call *c, enum chat_place *out, bool *content, struct err *e);
/* Return the answer as a message in the zeroed *m, which the caller frees. An incomplete answer
 * gives an incomplete message. The message also contains hidden reasoning and calls. ERR_MEMORY.
 * The caller frees *m also after an error. */
int choice_message(const struct api_call *c, const struct choice *a, struct chat_message *m,
                   struct err *e);
/* Emit the requested kinds of deltas of a complete choice. Each delta equals the joined deltas of a
 * stream. ERR_MEMORY. */
int choice_parse(const struct api_call *c, struct choice *a, chat_delta_fn *fn, void *ctx,
                 struct err *e);
/* Return the number of the choice's tokens that are reasoning or its marks. */
int choice_n_reasoning(const struct api_call *c, const struct choice *a);
/* Prepare the first delta of a choice. Return false if an allocation failed. */
bool choice_begin(const struct api_call *c, struct choice *a);
/* Emit the requested kinds of deltas for the unsent part of a choice. Return false if an allocation
 * failed. */
bool choice_deltas(const struct api_call *c, struct choice *a, chat_delta_fn *fn, void *ctx);
/* Emit deltas as choice_deltas does, for the text before byte `end`, without the end of the
 * message. */
bool choice_deltas_to(const struct api_call *c, struct choice *a, size_t end, chat_delta_fn *fn,
                      void *ctx);

/* ---- place.c: members of a body that a dialect converts. Errors contain field and place. ---- */

/* A place in the body: field, and path below it. */
struct place {
    const char *field; /* static */
    char path[80];
};
/* Return ERR_ARG for a value of another type at the place, with a member below it ("" or ".x"). */
int place_wrong(const struct place *at, const char *member, const char *expected,
                const struct json *found, struct err *e);
/* Return the place of item i of the member's list. */
struct place place_below(const struct place *at, const char *member, size_t i);
/* Check the members of an object by a list of known names, which ends with NULL. ERR_UNSUPPORTED
 * for a set member whose name in the list begins with '!'. Other members are ignored. */
int place_members(const struct json *object, const struct place *at, const char *const *members,
                  struct err *e);
/* Reject a member that is not null and not in the list, which ends with NULL. ERR_UNSUPPORTED with
 * the member. */
int place_only(const struct json *object, const struct place *at, const char *const *members,
               struct err *e);
/* Check `allowed_callers` of a tool: ERR_UNSUPPORTED for a caller other than "direct", because the
 * server runs no code. */
int place_callers(const struct json *tool, const struct place *at, struct err *e);
/* Set *text to a member that is a string [n], borrowed. ERR_ARG for another type. */
int place_text(const struct json *object, const char *member, const struct place *at,
               const char **text, size_t *n, struct err *e);
/* Set *text as place_text does, to a text without NUL. ERR_ARG for a NUL. */
int place_word(const struct json *object, const char *member, const struct place *at,
               const char **text, struct err *e);

/* ---- turn.c: messages of the neutral form, from blocks or items of other forms ---- */

/* Origin of a message of the neutral form: index in the client's list, and index of the part in its
 * content; -1: the whole content. */
struct message_place {
    int message, block;
};
struct message_places {
    struct message_place *v; /* place of each message, owned */
    size_t n, cap;
};

/* A turn of the conversation, before it is written as one message. All bufs are owned. */
struct turn {
    const char *role; /* static; NULL: no turn is open */
    struct message_place place;
    struct buf parts; /* items of the list of text parts [n_part] */
    size_t n_part;
    size_t text_at, n_text; /* place of the first part's text, as JSON, in `parts` */
    struct buf reasoning, calls;
    bool reasons; /* true if the turn has reasoning */
};
/* Writer of messages. A zeroed `turn` means that no turn is open. */
struct turns {
    struct json_out *o;            /* list of messages, borrowed */
    struct message_places *places; /* borrowed */
    struct turn turn;
    bool failed; /* true if memory for a place ran out */
};
/* Continue the open turn of `role` (static), or begin a turn. */
void turns_role(struct turns *t, const char *role, struct message_place place);
/* Write the open turn as a message. No effect if no turn is open. */
void turns_end(struct turns *t);
/* Write a message of the role tool with the text of `content`. End the open turn before it. */
void turns_result(struct turns *t, const char *call_id, const struct turn *content,
                  struct message_place place);
/* Add a text [n] to a turn. `first` precedes the text. */
void turn_text(struct turn *t, const char *first, const char *text, size_t n);
/* Add reasoning [n] to a turn. */
void turn_reasoning(struct turn *t, const char *text, size_t n);
/* Begin a call in the turn, up to the object of its type ("function" or "custom"). The caller
 * appends the members of this object, then calls turn_call_end. */
void turn_call(struct turn *t, struct json_out *o, const char *id, const char *type,
               const char *name);
void turn_call_end(struct json_out *o);
void turn_deinit(struct turn *t); /* free the memory; a zeroed turn is allowed */
/* Return an id of a call without the prefix that answers add. Some templates accept only ids of one
 * form. The result is borrowed from id. */
const char *call_own_id(const char *id, const char *prefix);

/* ---- rename.c: fields of the neutral form in errors become the client's ---- */

/* Names of both forms: field, and beginning of the path below it. All texts are static. */
struct rename {
    const char *field, *path, *to, *to_path;
};
/* Replace field and path by the first matching row of [n] rows. Return false if no row matches. */
bool rename_by(struct err *e, const struct rename *row, size_t n);
/* Replace the field by `to`, and the first n_old bytes after it in the sentence by `path`. */
void rename_field(struct err *e, size_t n_old, const char *to, const char *path);
/* Return the length of "[123]" after the field's name, and set *i; 0 if none. */
size_t rename_index(const struct err *e, size_t *i);
/* Replace names below an item of `tools` by the first of [n] rows that matches the text after the
 * index. */
void rename_tool(struct err *e, const struct rename *row, size_t n);

#endif
