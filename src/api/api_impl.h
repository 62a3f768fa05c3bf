/* api_impl.h - private to src/api: typed fields of a body, what an endpoint does, and a call's
 * answers. */
#ifndef QUOTH_API_IMPL_H
#define QUOTH_API_IMPL_H

#include "api.h"

/* ---- body.c: fields. All leave *out alone where the field is not there or null. ---- */

const struct json *body_field(const struct json *body, const char *name); /* NULL: null too */
int body_wrong(const char *name, const char *expected, const struct json *found, struct err *e);
int body_real(const struct json *body, const char *name, double *out, struct err *e);
int body_int(const struct json *body, const char *name, int64_t lo, int64_t hi, int64_t *out,
             struct err *e);
int body_flag(const struct json *body, const char *name, bool *out, struct err *e);
/* A list of ids into the arena. */
int body_ids(const struct json *body, const char *name, struct arena *a, const int32_t **out,
             int *n, struct err *e);
/* A text, or a list of at most n_max texts, copied into the arena. */
int body_texts(const struct json *body, const char *name, int n_max, struct arena *a,
               const struct text_span **out, int *n, struct err *e);

/* ---- log probabilities: logprobs.c ---- */

struct token_logprobs {
    int n_top;
    struct logprob chosen, top[TOP_LOGPROB_MAX];
};

struct answer_log {           /* grows by one per token */
    struct token_logprobs *v; /* owned */
    size_t n, cap;
};

struct choice { /* one answer to a prompt */
    struct reply reply;
    struct buf text;
    struct ids ids; /* without the token that stopped it */
    struct answer_log log;
    int32_t stop_id; /* the token that stopped it, or -1 */
    /* of answers in pieces: what the client has */
    struct chat_parser *parser; /* owned; of conversations */
    size_t n_text_sent, n_log_sent, log_offset;
    bool begun, called, ended;
};

void put_logprobs_chat(struct buf *b, const struct tokenizer *t, const struct answer_log *log);
void put_logprobs_completion(struct buf *b, const struct tokenizer *t, const struct answer_log *log,
                             size_t text_offset);
/* vLLM's prompt_logprobs: null for the first token, then an object by id each. */
void put_prompt_logprobs(struct buf *b, const struct tokenizer *t, const struct answer_log *log);

/* ---- call.c ---- */

struct part {                /* one prompt of a call */
    struct request *request; /* owned until it is submitted, then NULL */
    uint64_t id;
    struct queue *queue;        /* owned */
    struct reply_options reply; /* arrays in the call's arena */
    struct choice *choice;      /* owned [n] */
    int n;
    bool wants_log;               /* of generated tokens */
    struct answer_log prompt_log; /* of the prompt's, where they were asked for */
    struct usage usage;           /* of the whole */
    bool done, no_memory;
    struct buf echo; /* the prompt's text, where it is wanted back */
};
int part_ready(struct part *p, const struct api_call *c, struct queue *bell, struct err *e);
void part_event(struct part *p, const struct event *ev);
void part_deinit(struct part *p); /* safe on a zeroed one; not while it runs */

struct api_call {
    const struct api *api; /* borrowed */
    const struct endpoint *endpoint;
    struct arena arena;
    char id[40];
    const char *model; /* arena, or borrowed from api */
    int64_t created;
    uint64_t salt;
    struct part *part; /* owned [n_part] */
    int n_part, n_open;
    bool logprobs, echo;
    bool stream, include_usage, stream_ended;
    /* of conversations: how the text is read */
    const char *tool_parser, *reasoning_parser;
    char *begun; /* arena: what the prompt holds of the answer already */
    size_t n_begun;
};

struct endpoint {
    const char *url, *object, *object_piece, *id_prefix;
    /* Fill the call's parts from a body. */
    int (*read)(struct api_call *c, const struct json *body, struct err *e);
    /* Append a choice's members behind "index". */
    int (*put)(const struct api_call *c, const struct part *p, const struct choice *a,
               struct buf *b, struct err *e);
    /* Append frames with what the client does not have yet of a choice. */
    void (*put_pieces)(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b);
};

/* Is there an answer? A negative code and a sentence where the model gave none. */
int check_choice(const struct part *p, const struct choice *a, struct err *e);
void put_usage(const struct api_call *c, struct buf *b);

/* ---- stream.c: the frame of a piece, up to its choice's index and from its end on ---- */

void frame_begin(const struct api_call *c, int index, struct buf *b);
void frame_end(const struct api_call *c, struct buf *b);
/* The log probabilities that the client does not have yet; they count as sent. */
struct answer_log log_unsent(struct choice *a);

/* ---- parts ---- */

int call_parts(struct api_call *c, int n, struct err *e);
/* ,"finish_reason":...,"stop_reason":...: what ended the answer, and which text or token of the
 * stop lists */
void put_finish(struct buf *b, const struct part *p, const struct choice *a, bool called);
/* A zeroed part of a call gets a request with the sampling fields of the body. */
int part_open(struct part *p, struct api_call *c, const struct json *body, struct err *e);

#endif
