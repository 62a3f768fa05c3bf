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
/* A text of at most n_max bytes (borrowed from the body), or *out stays what it was. */
int body_text(const struct json *body, const char *name, size_t n_max, const char **out,
              struct err *e);

/* ---- fields.c: is there one that asks for what cannot be given? where: the endpoint's kind ---- */

enum { ENDPOINT_CHAT = 1, ENDPOINT_TEXT = 2, ENDPOINT_EMBED = 4 };
int fields_check(const struct json *body, unsigned where, struct err *e);

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
    size_t n_text_sent, n_log_sent, n_id_sent, log_offset;
    bool begun, ids_begun, called, ended;
};

void put_logprobs_chat(struct buf *b, const struct tokenizer *t, const struct answer_log *log);
/* Of the prompt's tokens (there may be none) and those behind it; the first one stands at text_offset. */
void put_logprobs_completion(struct buf *b, const struct tokenizer *t,
                             const struct answer_log *prompt, const struct answer_log *log,
                             size_t text_offset);
/* vLLM's prompt_logprobs: null for the first token, then an object by id each. */
void put_prompt_logprobs(struct buf *b, const struct tokenizer *t, const struct answer_log *log);
size_t log_bytes(const struct tokenizer *t,
                 const struct answer_log *log);            /* of its tokens' texts */
void put_ids(struct buf *b, const int32_t *ids, size_t n); /* [1,2,3] */

/* ---- call.c ---- */

struct part {                /* one prompt of a call */
    struct request *request; /* owned until it is submitted, then NULL */
    uint64_t id;
    struct queue *queue;        /* owned */
    struct queue *bell;         /* borrowed; NULL: nobody waits for it */
    bool eager;                 /* the bell rings for each event        */
    unsigned n_heard;           /* engine thread: of others             */
    struct reply_options reply; /* arrays in the call's arena */
    struct choice *choice;      /* owned [n] */
    int n;
    bool wants_log; /* of generated tokens */
    bool ranked;    /* more is computed than told: best_of */
    /* of the prompt's, where they were asked for: its first token, which has none, and the others */
    struct answer_log prompt_log;
    struct ids prompt;  /* where it is wanted back */
    float *pooled;      /* owned [d_model], of embeddings; NULL: tokens are generated */
    struct usage usage; /* of the whole */
    bool done, no_memory;
    struct buf echo; /* the prompt's text, where it is wanted back */
};
/* What a part holds before there is anything of its answers. */
int64_t part_bytes(const struct part *p, const struct api *a);
int part_ready(struct part *p, const struct api_call *c, struct err *e);
void part_event(struct part *p, const struct event *ev);
void part_deinit(struct part *p); /* safe on a zeroed one; not while it runs */

struct api_call {
    const struct api *api; /* borrowed */
    const struct endpoint *endpoint;
    struct arena arena, lists; /* lists: what the params of all requests point to */
    struct queue *bell;        /* borrowed; NULL: none */
    int64_t n_byte;            /* reserved with the engine */
    char id[256];
    const char *model; /* arena, or borrowed from api */
    int64_t created;
    uint64_t salt;
    struct part *part;             /* owned [n_part] */
    int n_part, n_open, n_running; /* n_running: submitted, and not done */
    int rc;                        /* why the rest of them was given up, with its sentence */
    struct err why;
    bool logprobs, prompt_logprobs, echo, ids_back;
    bool stream, include_usage, stream_ended;
    /* of conversations: how the text is read, and what is told of it */
    const char *tool_parser, *reasoning_parser;
    bool one_tool_call, no_reasoning;
    char *begun; /* arena: what the prompt holds of the answer already */
    size_t n_begun;
    struct text_span told; /* arena: said before what the model says, of a message that is echoed */
    /* of embeddings */
    int dimensions; /* 0: all */
    bool base64;
};

struct endpoint {
    unsigned kind; /* ENDPOINT_* */
    const char *url, *object, *object_piece, *id_prefix;
    const char *list;   /* the response's field of choices         */
    const char *prompt; /* the body's field that becomes the prompt */
    /* Fill the call's parts from a body. */
    int (*read)(struct api_call *c, const struct json *body, struct err *e);
    /* Append a choice's members between "index" and how it ended. *called: it ended in a tool call. */
    int (*put)(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct buf *b, struct err *e);
    /* Append frames with what the client does not have yet of a choice. NULL: it comes as a whole. */
    void (*put_pieces)(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b);
};

/* Is there an answer? A negative code and a sentence where the model gave none. */
int check_choice(const struct part *p, const struct choice *a, struct err *e);
void put_usage(const struct api_call *c, struct buf *b);
/* A response up to the beginning of its list. */
void put_head(const struct api_call *c, const char *object, struct buf *b);
/* ,"token_ids":[...]: from ids[from] on, with the one that stopped it */
void put_token_ids(struct buf *b, const struct choice *a, size_t from);
void put_prompt_ids(const struct api_call *c, const struct part *p, struct buf *b); /* if wanted */

/* ---- stream.c: the frame of a piece, up to its choice's index and from its end on ---- */

void frame_begin(const struct api_call *c, int index, struct buf *b);
/* last: with how the choice ended */
void frame_end(const struct api_call *c, const struct part *p, struct choice *a, bool last,
               struct buf *b);
/* The log probabilities that the client does not have yet; they count as sent. */
struct answer_log log_unsent(struct choice *a);

/* ---- parts ---- */

int call_parts(struct api_call *c, int n, struct err *e);
/* ,"finish_reason":...,"stop_reason":...: what ended the answer, and which text or token of the
 * stop lists */
void put_finish(struct buf *b, const struct part *p, const struct choice *a, bool called);
/* A zeroed part of a call gets a request with the sampling fields of the body. */
int part_open(struct part *p, struct api_call *c, const struct json *body, struct err *e);
/* The fields that tell a request's payer, salt and rank. */
int read_owner(struct request *r, const struct json *body, struct err *e);
int read_format(const struct json *body, struct err *e); /* response_format: text alone */
int read_prompt_logprobs(struct api_call *c, struct request *r, const struct json *body,
                         struct err *e);

/* ---- prompt.c ---- */

/* The prompts in the endpoint's field: a text, a list of texts, a list of ids, or a list of lists of ids. Makes the
 * call's parts and calls open for each, then reads its prompt. */
typedef int part_fn(struct api_call *c, struct part *p, const struct json *body, struct err *e);
int read_prompts(struct api_call *c, const struct json *body, part_fn *open, struct err *e);
/* truncate_prompt_tokens and truncation_side. */
int cut_prompt(struct request *r, const struct api *a, const struct json *body, struct err *e);

/* ---- message.c ---- */

void put_message_members(struct buf *b, const struct chat_message *m); /* without its braces */

#endif
