/* api_impl.h - private to src/api: typed fields of a body, and a call with its answers, which know no wire form
 * (dialect.h). */
#ifndef QUOTH_API_IMPL_H
#define QUOTH_API_IMPL_H

#include "api.h"

#include "base/json_out.h"

struct dialect;

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

enum {
    ENDPOINT_CHAT = 1,
    ENDPOINT_TEXT = 2,
    ENDPOINT_EMBED = 4,
    ENDPOINT_RENDER = 8,
    ENDPOINT_LIBRARY = 16
};
int fields_check(const struct json *body, unsigned where, struct err *e);
bool body_is_set(const struct json *value); /* false for null, false, 0, "", [] and {} */

/* ---- answers ---- */

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

/* [1,2,3], in a list or as a member */
void put_ids(struct json_out *o, const char *key, const int32_t *ids, size_t n);

/* ---- call.c ---- */

struct part {                /* one prompt of a call */
    struct request *request; /* owned until it is submitted, then NULL */
    uint64_t id;
    struct queue *queue;        /* owned */
    struct queue *bell;         /* borrowed; NULL: no listener */
    bool eager;                 /* the bell rings for each event        */
    unsigned n_event;           /* engine thread: of others             */
    struct reply_options reply; /* arrays in the call's arena */
    struct choice *choice;      /* owned [n] */
    int n;
    int n_prompt;   /* tokens of its prompt; 0 before it was checked */
    int max_tokens; /* of a choice */
    bool needs_log; /* of generated tokens */
    bool ranked;    /* more is computed than told: best_of */
    bool held;      /* to a constraint */
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
    const struct dialect *dialect;
    void *own;                 /* arena: the dialect's */
    struct arena arena, lists; /* lists: what the params of all requests point to */
    struct sample_lists
        *sample_lists;             /* a reference; what all its requests share of the engine's */
    struct constraint *constraint; /* owned: what the answers are held to; NULL: nothing */
    const char *constraint_field;  /* static: that asked for it */
    struct queue *bell;            /* borrowed; NULL: none */
    int64_t n_byte;                /* reserved with the engine ... */
    uint64_t share_id;             /* ... for this holder          */
    char id[256];
    const char *model; /* arena, or borrowed from api */
    int64_t created;
    uint64_t salt;
    struct part *part;             /* owned [n_part] */
    int n_part, n_open, n_running; /* n_running: submitted, and not done */
    int rc;                        /* why the rest of them was given up, with its sentence */
    struct err why;
    bool logprobs, prompt_logprobs, echo, ids_back; /* what answers tell beside the text */
    bool stream, stream_ended;
    uint64_t unique; /* a random number, which no other call has */
    /* of conversations: how the text is read, and what is told of it */
    const char *tool_parser, *reasoning_parser;
    struct json *tools; /* owned: the request's, for their schemas; NULL: no calls are read */
    bool one_tool_call, no_reasoning;
    char *begun; /* arena: what the prompt holds of the answer already */
    size_t n_begun;
    struct text_span
        echoed; /* arena: text of the last message, emitted before the generated text */
};

/* Return 0 if the choice has an answer, else a negative code and a sentence. */
int check_choice(const struct part *p, const struct choice *a, struct err *e);
/* Return the number of a choice's tokens so far. With best_of, only tokens already returned count. */
int choice_n_token(const struct part *p, const struct choice *a);
/* Return the number that the names of a choice's tool calls are made of (message.c): another for each choice,
 * the same whole and in pieces. */
uint64_t choice_seed(const struct api_call *c, int index);

/* ---- parts ---- */

int call_parts(struct api_call *c, int n, struct err *e);
/* A zeroed part of a call gets a request with the sampling fields of the body. */
int part_open(struct part *p, struct api_call *c, const struct json *body, struct err *e);
/* The fields that tell a request's payer, salt and rank. */
int read_owner(struct request *r, const struct json *body, struct err *e);
int read_prompt_logprobs(struct api_call *c, struct request *r, const struct json *body,
                         struct err *e);

/* ---- constrain.c ---- */

struct constraint_spec {
    const char *field,
        *place; /* static: the body's field, and what in it ("" or ".json_schema.schema") sentences name */
    enum grammar_kind kind;
    const char *text; /* [n], borrowed for the call */
    size_t n;
    struct grammar_options options;
};
/* Compile what the answers are held to: once per call, on the caller's thread, which it may take as long as the limits allow. */
int call_constrain(struct api_call *c, const struct constraint_spec *spec, struct err *e);
/* The same of a value: a text is it, another one is written as JSON. */
int call_constrain_json(struct api_call *c, const struct constraint_spec *spec,
                        const struct json *value, struct err *e);
/* Give each request its fork. */
int call_hold_requests(struct api_call *c, struct err *e);

/* ---- prompt.c ---- */

/* Count the time since begin_us (stats_time), if there is an engine. */
void count_time(const struct api *a, enum times_id which, int64_t begin_us);

/* The prompts in the dialect's field: a text, a list of texts, a list of ids, or a list of lists of ids. Makes the
 * call's parts and calls open for each, then reads its prompt. */
typedef int part_fn(struct api_call *c, struct part *p, const struct json *body, struct err *e);
/* Refuse a text of n bytes that cannot fit into the context, before it takes seconds to tokenize. */
int check_text_fits(const struct api_call *c, const struct json *body, size_t n, struct err *e);
int read_prompts(struct api_call *c, const struct json *body, part_fn *open, struct err *e);
/* Append a prompt's ids: a text, or a list of ids and texts (llama.cpp's form). flags: ENCODE_*, of the
 * first item. Sentences call it `name`. */
int read_mixed(struct ids *ids, const struct api *a, const char *name, const struct json *prompt,
               unsigned flags, struct err *e);
/* truncate_prompt_tokens and truncation_side. */
int cut_prompt(struct request *r, const struct api *a, const struct json *body, struct err *e);

/* ---- message.c ---- */

/* The members of a message, in the object that is open; id_seed as of put_call_id. */
void put_message_members(struct json_out *o, const struct chat_message *m, uint64_t id_seed);
/* The id of a message's i-th tool call: the model's own (NULL: none), else nine letters and digits made of id_seed. Mistral's
 * templates refuse every other form when the client sends it back. */
void put_call_id(struct json_out *o, const char *key, const char *own, uint64_t id_seed, int i);

#endif
