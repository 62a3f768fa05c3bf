/* api_impl.h - private to src/api: typed fields of a body, and a call with its answers, independent
 * of wire forms (dialect.h). */
#ifndef QUOTH_API_IMPL_H
#define QUOTH_API_IMPL_H

#include "api.h"

#include "base/json_out.h"

struct dialect;

/* ---- body.c: fields. *out is unchanged if the field is absent or null. ---- */

/* Return the field; NULL if it is absent or null. */
const struct json *body_field(const struct json *body, const char *name);
int body_wrong(const char *name, const char *expected, const struct json *found, struct err *e);
int body_real(const struct json *body, const char *name, double *out, struct err *e);
int body_int(const struct json *body, const char *name, int64_t lo, int64_t hi, int64_t *out,
             struct err *e);
int body_flag(const struct json *body, const char *name, bool *out, struct err *e);
/* Read a list of ids into the arena. */
int body_ids(const struct json *body, const char *name, struct arena *a, const int32_t **out,
             int *n, struct err *e);
/* Copy a string, or a list of at most n_max strings, into the arena. */
int body_texts(const struct json *body, const char *name, int n_max, struct arena *a,
               const struct text_span **out, int *n, struct err *e);
/* Read a string of at most n_max bytes, borrowed from the body. */
int body_text(const struct json *body, const char *name, size_t n_max, const char **out,
              struct err *e);

/* ---- fields.c: unsupported fields. where: the type of endpoint ---- */

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
    int32_t stop_id; /* token that stopped it, or -1 */
    /* of answers in pieces: amount already sent */
    struct chat_parser *parser; /* owned; conversations only */
    size_t n_text_sent, n_log_sent, n_id_sent, log_offset;
    bool begun, ids_begun, called, ended;
};

/* Append [1,2,3], in a list or as a member. */
void put_ids(struct json_out *o, const char *key, const int32_t *ids, size_t n);

/* ---- call.c ---- */

struct part {                /* one prompt of a call */
    struct request *request; /* owned until submitted, then NULL */
    uint64_t id;
    struct queue *queue;        /* owned */
    struct queue *bell;         /* borrowed; NULL: no listener */
    bool eager;                 /* rung for each event */
    unsigned n_event;           /* of the others, on the engine thread */
    struct reply_options reply; /* its arrays are in the call's arena */
    struct choice *choice;      /* owned [n] */
    int n;
    int n_prompt;   /* tokens of its prompt; 0 before it is checked */
    int max_tokens; /* maximum of a choice */
    bool needs_log; /* true: log probabilities of generated tokens */
    bool ranked;    /* best_of: more choices are computed than returned */
    bool held;      /* true if it has a constraint */
    /* requested log probabilities of the prompt: of its first token, which has none, and of the
     * others */
    struct answer_log prompt_log;
    struct ids prompt;  /* the prompt's ids, if they are returned */
    float *pooled;      /* owned [d_model], of embeddings; NULL: tokens are generated */
    struct usage usage; /* usage of the whole answer */
    bool done, no_memory;
    struct buf echo; /* text of the prompt, if it is returned */
};
/* Return the bytes that a part holds before its answers begin. */
int64_t part_bytes(const struct part *p, const struct api *a);
int part_ready(struct part *p, const struct api_call *c, struct err *e);
void part_event(struct part *p, const struct event *ev);
void part_deinit(struct part *p); /* Free a part that is not running. Safe on a zeroed one. */

/* A constraint that a body's field requests. */
struct constraint_spec {
    /* static: the body's field, and the place in it ("" or ".json_schema.schema") for errors */
    const char *field, *place;
    enum grammar_kind kind;
    const char *text; /* [n], borrowed */
    size_t n;
    struct grammar_options options;
};

struct api_call {
    const struct api *api; /* borrowed */
    const struct dialect *dialect;
    void *own;                         /* the dialect's own, in the arena */
    struct arena arena, lists;         /* lists: arrays shared by the params of all requests */
    struct sample_lists *sample_lists; /* a reference: engine data shared by all its requests */
    struct constraint *constraint;     /* owned: constraint of the answers; NULL: none */
    const char *constraint_field;      /* static: name of the field that requested it */
    struct constraint_spec spec;       /* of the constraint; text in the arena; field NULL: none */
    struct queue *bell;                /* borrowed; NULL: none */
    int64_t n_byte;                    /* bytes reserved with the engine ... */
    uint64_t share_id;                 /* ... for this holder */
    char id[256];
    const char *model; /* in the arena, or borrowed from api */
    int64_t created;
    uint64_t salt;
    struct part *part;             /* owned [n_part] */
    int n_part, n_open, n_running; /* n_running: submitted and not done */
    int rc;                        /* reason for which the remaining requests were dropped */
    struct err why;
    bool logprobs, prompt_logprobs, echo, ids_back; /* contents of answers besides the text */
    bool stream, stream_ended;
    uint64_t unique; /* random number, unique to this call */
    /* of conversations: reading and contents of the text */
    const char *tool_parser, *reasoning_parser;
    /* owned: tools of the request, for their schemas; NULL: no calls are read */
    struct json *tools;
    bool one_tool_call, no_reasoning, requests_reasoning, function_call;
    struct chat_expected expected; /* facts about a constrained text, for its parser */
    char *begun;                   /* arena: the part of the answer that the prompt contains */
    size_t n_begun;
    struct text_span
        echoed; /* arena: text of the last message, emitted before the generated text */
};

/* Return 0 if the choice has an answer, else a negative code and a sentence. */
int check_choice(const struct part *p, const struct choice *a, struct err *e);
/* Return the number of a choice's tokens so far. With best_of, only tokens already returned count.
 */
int choice_n_token(const struct part *p, const struct choice *a);
/* Return the seed of the ids of a choice's tool calls (message.c). It differs between choices and
 * is equal for whole answers and streams. */
uint64_t choice_seed(const struct api_call *c, int index);

/* ---- parts ---- */

int call_parts(struct api_call *c, int n, struct err *e);
/* Give a zeroed part of a call a request with the sampling fields of the body. */
int part_open(struct part *p, struct api_call *c, const struct json *body, struct err *e);
/* Read the fields that set a request's account, salt and priority. */
int read_owner(struct request *r, const struct json *body, struct err *e);
int read_prompt_logprobs(struct api_call *c, struct request *r, const struct json *body,
                         struct err *e);

/* ---- constrain.c ---- */

/* Set the constraint of the answers, c->spec. ERR_ARG: there is another one. */
int call_constrain(struct api_call *c, const struct constraint_spec *spec, struct err *e);
/* Set the constraint in a JSON value: a string is used as it is, another value as JSON text. */
int call_constrain_json(struct api_call *c, const struct constraint_spec *spec,
                        const struct json *value, struct err *e);
/* Compile a constraint into c->constraint: once per call, on the calling thread, within the limits.
 * The error names neither field nor place. */
int call_compile(struct api_call *c, const struct constraint_spec *spec, struct err *why);
/* Compile c->spec, if there is one, as the constraint of the whole text of each answer. */
int call_hold_text(struct api_call *c, struct err *e);
/* Give each request its fork of the constraint. */
int call_hold_requests(struct api_call *c, struct err *e);
/* Check that all numbers of a schema are exact. */
int check_numbers(const struct json *schema, struct err *e);

/* ---- hold.c: messages held to a constraint, or to calls ---- */

/* Calls that the tools of a request allow and require. */
struct tools_spec {
    struct chat_tool *tool; /* arena [n]: functions that may be called */
    size_t n;
    bool must, one; /* the answer consists of calls; has at most one call */
    /* static: the field that requires calls to have these names, and the arguments of their schema;
     * NULL: calls are not constrained */
    const char *field;
};
/* Constrain the messages of a call by c->spec and its tools: to reasoning, calls and content as of
 * chat_answer_tag. After the parsers and the prompt are read. */
int call_hold_message(struct api_call *c, const struct tools_spec *tools, struct err *e);

/* ---- prompt.c ---- */

/* Count the time since begin_us (stats_time), if there is an engine. */
void count_time(const struct api *a, enum times_id which, int64_t begin_us);

/* Read the prompts in the dialect's field: a string, a list of strings, a list of ids, or a list of
 * lists of ids. Makes the call's parts, calls open for each, then reads its prompt. */
typedef int part_fn(struct api_call *c, struct part *p, const struct json *body, struct err *e);
/* Reject a text of n bytes that cannot fit into the context, because tokenizing it would take
 * seconds. */
int check_text_fits(const struct api_call *c, const struct json *body, size_t n, struct err *e);
int read_prompts(struct api_call *c, const struct json *body, part_fn *open, struct err *e);
/* Append a prompt's ids: a string, or a list of ids and strings (llama.cpp's form). flags:
 * ENCODE_*, of the first item. name: the field in errors. */
int read_mixed(struct ids *ids, const struct api *a, const char *name, const struct json *prompt,
               unsigned flags, struct err *e);
/* Apply truncate_prompt_tokens and truncation_side. */
int cut_prompt(struct request *r, const struct api *a, const struct json *body, struct err *e);

/* ---- message.c ---- */

/* Append the members of a message to the open object; id_seed as in put_call_id. */
void put_message_members(struct json_out *o, const struct chat_message *m, uint64_t id_seed);
/* Append the id of a message's i-th tool call: the model's own (NULL: none), else nine letters and
 * digits made of id_seed. Mistral's templates reject other forms. */
void put_call_id(struct json_out *o, const char *key, const char *own, uint64_t id_seed, int i);

#endif
