/* api_impl.h - private to src/api: typed fields of a body, and a call with its answers. This header
 * does not depend on wire forms (dialect.h). */
#ifndef QUOTH_API_IMPL_H
#define QUOTH_API_IMPL_H

#include "api.h"

#include "base/json_out.h"
#include "telemetry/telemetry.h"

struct dialect;

/* ---- body.c: fields. *out is unchanged if the field is absent or null, and after an error. Errors
 * contain the field's name. Any thread. ---- */

/* Return the field, borrowed from the body; NULL if it is absent or null. */
const struct json *body_field(const struct json *body, const char *name);
/* Return ERR_ARG with "name: expected EXPECTED, got KIND of found". */
int body_wrong(const char *name, const char *expected, const struct json *found, struct err *e);
/* Read a number, an integer in [lo, hi], or a boolean. ERR_ARG for another type or value. 16.0 is
 * an integer. */
int body_real(const struct json *body, const char *name, double *out, struct err *e);
int body_int(const struct json *body, const char *name, int64_t lo, int64_t hi, int64_t *out,
             struct err *e);
int body_flag(const struct json *body, const char *name, bool *out, struct err *e);
/* Read a list of ids into the arena: *out i32 [*n]. ERR_ARG for another type or an item that is not
 * an id, ERR_LIMIT for more than 2^20 items, ERR_MEMORY. */
int body_ids(const struct json *body, const char *name, struct arena *a, const int32_t **out,
             int *n, struct err *e);
/* Copy a string, or a list of at most n_max strings, into the arena: *out [*n]. ERR_ARG for another
 * type, ERR_LIMIT for more strings, ERR_MEMORY. */
int body_texts(const struct json *body, const char *name, int n_max, struct arena *a,
               const struct text_span **out, int *n, struct err *e);
/* Read a string of at most n_max bytes, borrowed from the body. ERR_ARG for another type, a longer
 * string or a NUL in it. */
int body_text(const struct json *body, const char *name, size_t n_max, const char **out,
              struct err *e);

/* ---- fields.c: unsupported fields. where: type of the endpoint ---- */

enum {
#define ENDPOINT(letter, NAME, named, aliased, generates) ENDPOINT_INDEX_##NAME,
#include "endpoints.def"
#undef ENDPOINT
#define ENDPOINT(letter, NAME, named, aliased, generates)                                          \
    ENDPOINT_##NAME = 1 << ENDPOINT_INDEX_##NAME,
#include "endpoints.def"
#undef ENDPOINT
};
/* A row of fields.def or of sample/params.def. All pointers are static. */
struct field_row {
    const char *name; /* NULL for the absent alias of a parameter */
    unsigned where;   /* endpoints that have the field; 0: an endpoint with its own list */
    /* SUPPORTED: read or harmless. IF_UNSET: accepted only with a value that means "not set".
     * IF_IDLE: a field of another endpoint, accepted only with a value that has no effect at that
     * endpoint. IF_TRUE, IF_NULL: such a field whose default is true, or whose values all have an
     * effect. */
    enum support { SUPPORTED, IF_UNSET, IF_IDLE, IF_TRUE, IF_NULL } support;
    const char *why; /* reason for having no effect, or for being rejected; NULL: none */
    const struct sample_param *param; /* sampling parameter; NULL if none */
};
/* Return row i, from 0; NULL after the last. */
const struct field_row *fields_at(size_t i);
/* Check all fields of a body. ERR_UNSUPPORTED for a known field that is not supported. Unknown
 * fields are ignored. */
int fields_check(const struct json *body, unsigned where, struct err *e);
/* Return true if the list has a row of the field for one of these endpoints. */
bool fields_know(const char *name, unsigned where);
bool body_is_set(const struct json *value); /* return false for null, false, 0, "", [] and {} */

/* ---- answers ---- */

struct token_logprobs {
    int n_top;
    struct logprob chosen, top[TOP_LOGPROB_MAX];
};

struct answer_log {           /* grows by one per token */
    struct token_logprobs *v; /* log probabilities of the tokens, owned */
    size_t n, cap;
};

/* State of the reader of a custom tool's arguments, which are read byte by byte (openai_custom.c).
 * Zeroed before the first byte. */
struct custom_text {
    unsigned char place, n_hex, n_held;
    uint16_t hex, high; /* digits of \u so far, and high surrogate before the next character */
    char held[64];      /* [n_held] bytes before the text */
};
/* Append the part of the call's text that n more bytes of its arguments contain. */
void custom_push(struct custom_text *t, const char *text, size_t n, struct buf *out);

struct choice { /* One answer to a prompt. */
    struct reply reply;
    struct buf text;
    struct ids ids; /* ids of the answer, without the token that stopped it */
    struct answer_log log;
    VEC(uint32_t) ends; /* length of `text` after each token, if the call has token_ends */
    int32_t stop_id;    /* token that stopped the answer, or -1 */
    /* fields of answers in pieces: the amounts already sent */
    struct chat_parser *parser; /* parser of the text, owned; NULL if not a conversation */
    size_t n_text_sent, n_log_sent, n_id_sent, n_token_sent, log_offset;
    bool begun, ids_begun, called, ended;
    bool in_custom;            /* true: the last call of the stream is of a custom tool */
    struct custom_text custom; /* place in the arguments of this call */
};

/* Append [1,2,3], in a list or as a member. */
void put_ids(struct json_out *o, const char *key, const int32_t *ids, size_t n);

/* ---- call.c ---- */

struct part {                /* one prompt of a call */
    struct request *request; /* owned until it is submitted, then NULL */
    uint64_t id;
    struct queue *queue; /* events of the request, owned */
    struct queue *bell;  /* queue that receives a byte for each event, borrowed; NULL: no bell */
    bool eager;          /* true: each event rings the bell */
    unsigned n_event;    /* number of events that did not ring the bell; engine thread */
    struct reply_options reply; /* options with arrays in the call's arena */
    struct choice *choice;      /* choices, owned [n] */
    int n;
    int n_prompt;    /* tokens of the prompt; 0 before the prompt is checked */
    int max_tokens;  /* maximum number of tokens of a choice */
    bool needs_ends; /* true if the ends of tokens in the text are needed */
    bool needs_log;  /* true if log probabilities of generated tokens are needed */
    bool ranked;     /* true if more choices are computed than returned (best_of) */
    /* name of the field of its constraint, static; NULL if none */
    const char *constraint_field;
    /* requested log probabilities of the prompt's tokens except the first */
    struct answer_log prompt_log;
    struct ids prompt;  /* ids of the prompt, if they are returned */
    float *pooled;      /* result of a pooled text, owned [n_pooled]; NULL before part_ready */
    int64_t n_pooled;   /* values of the result; 0: tokens are generated */
    struct usage usage; /* usage of the whole answer; before its end: so far */
    /* progress of the prompt (return_progress): number of computed or cached tokens, and the number
     * that was sent */
    int n_done, n_done_sent;
    bool done, no_memory;
    struct buf echo; /* text of the prompt, if it precedes the answer */
    struct buf text; /* text of the prompt, if it is returned in addition to the answer */
};
/* Return the number of bytes that a part needs before its answers begin. */
int64_t part_bytes(const struct part *p);
/* Allocate a part's choices and queue before the engine receives its request. A second call has no
 * effect. ERR_MEMORY, ERR_LIMIT or ERR_ARG for stop strings (reply_open). */
int part_ready(struct part *p, const struct api_call *c, struct err *e);
/* Add an event to the part's choices. Only the thread that uses the call. */
void part_event(struct part *p, const struct event *ev);
void part_deinit(struct part *p); /* free a part that is not running; a zeroed part is allowed */

/* A constraint that a field of a body requests. */
struct constraint_spec {
    /* static names for errors: field of the body, and place in the field ("" or
     * ".json_schema.schema") */
    const char *field, *place;
    enum grammar_kind kind;
    const char *text; /* text of the constraint [n], borrowed */
    size_t n;
    struct grammar_options options;
};

struct api_call {
    const struct api *api; /* model of the call, borrowed */
    bool keeps_model;      /* true: the client may set the idle time of the model (keep_alive) */
    bool holds; /* true: the call has a reference to the model, which it drops (models.h) */
    const struct dialect *dialect;     /* static */
    void *own;                         /* data of the dialect, in the arena; NULL if none */
    struct arena arena, lists;         /* lists: arrays that the params of all requests share */
    struct sample_lists *sample_lists; /* owned: a reference to data that all requests share */
    struct constraint *constraint;     /* constraint of the answers, owned; NULL if none */
    struct template *template;         /* template of the request, owned; NULL: the model's */
    const char *constraint_field;      /* static: name of the field that requested the constraint */
    /* spec of the constraint, with its text in the arena; field NULL if none */
    struct constraint_spec spec;
    int budget;             /* maximum number of tokens of reasoning; -1: no limit */
    bool is_message;        /* true: the answers are messages; false: texts */
    bool without_reasoning; /* true: the constraint permits no reasoning */
    struct queue *bell;     /* queue that receives a byte for each event, borrowed; NULL: no bell */
    int64_t n_byte;         /* bytes reserved with the engine */
    int64_t arrival_us;     /* time (time_us) at which the body was complete; 0: unknown */
    bool late;       /* true: the timeout passed while the constraint was compiled (end_late) */
    uint64_t holder; /* holder of the constraint and of n_byte; 0 if none */
    uint64_t owner;  /* owner of stored responses */
    char id[256];
    const char *model; /* name of the model, in the arena or borrowed from api */
    int64_t created;
    uint64_t salt;
    struct part *part; /* prompts of the call, owned [n_part] */
    /* numbers of parts: all parts, parts that are not done, and submitted parts that are not
     * done */
    int n_part, n_open, n_running;
    bool listed; /* true if the parts are items of a list in the dialect's field of prompts */
    int rc;      /* code of the failure that dropped the remaining requests */
    struct err why;
    struct span *span; /* span of the call, owned; NULL if none */
    int status;        /* HTTP status of the call for its span; 0: that of its choices */
    /* true: answers contain these data in addition to the text */
    bool logprobs, prompt_logprobs, echo, ids_back;
    /* probs: the log probabilities have llama.cpp's form. post: the log probabilities are those
     * after the samplers.
     * tokens_as_ids: tokens of the log
     * probabilities are "token_id:ID" instead of their texts. tokens_back: ids of the answer, in
     * llama.cpp's form. text_back: texts of the prompts. */
    bool probs, post, tokens_as_ids, tokens_back, text_back;
    /* timings: answers contain llama.cpp's timings. progress: streams contain the progress of the
     * prompt. */
    bool timings, progress;
    int ping_s;          /* interval of pings of a stream in seconds; -1: none, 0: the server's */
    int stream_interval; /* number of tokens per piece of a stream, except the first and last */
    struct text_span before; /* text before each prompt, borrowed from the checkpoint */
    bool stream, stream_ended;
    bool background; /* true: the answer is generated after the exchange has ended */
    bool token_ends; /* true: choices have `ends` */
    /* true: a text follows the prompts (suffix), so marks in the prompts' texts are text */
    bool has_gap;
    uint64_t unique; /* random number, unique to this call */
    /* fields of conversations: names of the parsers of the text, borrowed from api->chat; NULL:
     * none */
    const char *tool_parser, *reasoning_parser;
    /* tools of the request, for their schemas, owned; NULL: calls are not parsed */
    struct json *tools;
    const char **custom; /* names of the custom tools, in the arena [n_custom] */
    size_t n_custom;
    bool one_tool_call, no_reasoning, requests_reasoning, function_call;
    struct chat_expected expected; /* guaranteed properties of a constrained text, for its parser */
    char *begun;                   /* part of the answer that the prompt contains, in the arena */
    size_t n_begun;
    struct text_span
        echoed; /* text of the last message, emitted before the generated text; in the arena */
};

/* Return 0 if the choice has an answer. ERR_BUSY if the request was rejected in the queue. ERR_ARG
 * if the request's fields allow no token. ERR_IO if the answer was cancelled, or no token is
 * allowed. ERR_MEMORY. */
int check_choice(const struct part *p, const struct choice *a, struct err *e);
/* Return the number of a choice's tokens so far. With best_of the number includes only returned
 * tokens. */
int choice_n_token(const struct part *p, const struct choice *a);
/* Return the seed of the ids of a choice's tool calls (message.c). The seed differs between
 * choices. Whole answers and streams have equal seeds. */
uint64_t choice_seed(const struct api_call *c, int index);

/* ---- spans.c ---- */

enum { CLIENT_CLOSED = 499 }; /* status of a request whose client disconnected, as in the log */

/* Set the call's span (NULL if none), and add the attributes of its requests. api_call_close ends
 * it. Call after call_open. */
void call_take_span(struct api_call *c, struct span *take_span);
/* Add the results of the call to its span and end it, before the choices are freed. */
void call_end_span(struct api_call *c);
/* End a span with an HTTP status. NULL is allowed. */
void span_end_status(struct span *take_span, int status);

/* Return true if a tool of the request with this name is custom. */
bool call_is_custom(const struct api_call *c, const char *name);

/* ---- parts ---- */

/* Allocate n zeroed parts, n > 0, once per call. ERR_ARG for more than 2048 prompts, ERR_MEMORY. */
int call_parts(struct api_call *c, int n, struct err *e);
/* Read the body's sampling fields into the request of a zeroed part. The parts are read in their
 * order, because later parts copy the fields of the first. Errors: those of api_read_params. */
int part_read(struct part *p, struct api_call *c, const struct json *body, struct err *e);
/* Insert the index of the part into the error rc of its prompt if the prompts are a list: input[3].
 * Return rc. */
int part_error(const struct api_call *c, const struct part *p, int rc, struct err *e);
/* Read the fields that set a request's holder, salt and priority. ERR_ARG with the field. */
int read_holder(struct request *r, const struct json *body, struct err *e);
/* Read "prompt_logprobs" into c and r. ERR_ARG for another type or range, or with "stream". */
int read_prompt_logprobs(struct api_call *c, struct request *r, const struct json *body,
                         struct err *e);
/* ---- picks.c ---- */

/* Read "samplers" into the order of p. ERR_ARG for another type or an unknown name, ERR_LIMIT for
 * too many names, ERR_UNSUPPORTED for an order that cannot be computed. */
int read_samplers(struct sample_params *p, const struct json *body, struct err *e);
/* Read "logprob_token_ids" into the arena, after logprobs and beams. ERR_ARG for another type, a
 * wrong number of ids, or no logprobs; ERR_MEMORY. */
int read_logprob_ids(struct request *r, struct arena *a, const struct json *body, struct err *e);
/* Read the fields of log probabilities that are not OpenAI's into c and r, after OpenAI's. ERR_ARG
 * with the field, ERR_MEMORY. */
int read_probs(struct api_call *c, struct request *r, const struct json *body, struct err *e);
/* Append llama.cpp's list of tokens with their probabilities. post: the list has probabilities
 * after the samplers. */
void put_probs(struct json_out *o, const char *key, const struct tokenizer *t,
               const struct answer_log *log, bool post);

/* ---- budget.c ---- */

/* Return the maximum number of tokens of reasoning for the body's reasoning_effort, if the chat
 * template cannot use that variable; -1: no limit. The result is also -1 if the body has a budget,
 * the marks of reasoning are not known, or constraints apply to the reasoning. */
int effort_budget(const struct api *a, const struct json *body);

/* ---- timings.c: figures of an answer in llama.cpp's form ---- */

/* Read the fields of figures and pings into c, and those of the engine's events into r. ERR_ARG
 * with the field. */
int read_figures(struct api_call *c, struct request *r, const struct json *body, struct err *e);
/* Return the counts and times of all parts of a call so far: sums of counts, and the longest times.
 * n_output counts the tokens of the returned choices. */
struct usage call_usage(const struct api_call *c);
/* Append the member `timings`. */
void put_timings(struct json_out *o, const struct usage *u);
/* Return true if the client requests progress, and a part has some that was not sent. */
bool progress_is_due(const struct api_call *c, const struct part *p);
/* Append the member `prompt_progress`, and mark it as sent. */
void put_progress(struct json_out *o, struct part *p);

/* ---- params.c ---- */

/* Return the default of max_tokens: max_new_tokens of the model, or the context. Any thread. */
int api_max_tokens(const struct api *a);
/* Read llama.cpp's "n_predict" into *n. *n is unchanged if the body has no such field. The value -1
 * means the context's length. ERR_ARG for another type or range. */
int api_read_n_predict(const struct api *a, const struct json *body, int64_t *n, struct err *e);

/* ---- constrain.c ---- */

/* Set c->spec, the constraint of the answers. The text is copied to the call's arena. ERR_ARG if
 * the answers already have a constraint. ERR_MEMORY. */
int call_constrain(struct api_call *c, const struct constraint_spec *spec, struct err *e);
/* Set the constraint from a JSON value. A string is used unchanged, and another value as JSON text.
 * Errors: those of call_constrain and check_numbers. */
int call_constrain_json(struct api_call *c, const struct constraint_spec *spec,
                        const struct json *value, struct err *e);
/* Compile a constraint into c->constraint, once per call and within the limits. The calling thread
 * compiles it. Set c->late and return 0 without a constraint if the request times out first. The
 * error contains neither field nor place. ERR_UNSUPPORTED if the endpoint has no model, and the
 * errors of grammar_constraint_open. */
int call_compile(struct api_call *c, const struct constraint_spec *spec, struct err *why);
/* Compile c->spec as the constraint of the whole text of each answer. Do nothing without a spec.
 * Errors: those of call_compile, with field and place. */
int call_constrain_text(struct api_call *c, struct err *e);
/* Set the constraint of each request to a fork of the call's constraint, with the limit of its
 * reasoning. The request owns the fork. ERR_UNSUPPORTED for a request with ignore_eos, and the
 * errors of api_limit_reasoning. */
int call_constrain_requests(struct api_call *c, struct err *e);
/* Check that all numbers of a schema are exact. ERR_UNSUPPORTED for a number beyond 64 bits. */
int check_numbers(const struct json *schema, struct err *e);

/* ---- constrain_message.c: messages with a constraint, or with constrained calls ---- */

/* Calls that the tools of a request allow and require. */
struct tools_spec {
    struct chat_tool *tool; /* functions that may be called; arena [n] */
    size_t n;
    /* must: true if the answer consists of calls. one: true if the answer has at most one call. */
    bool must, one;
    /* static; field that requires these names and arguments by their schema; NULL: calls are not
     * constrained */
    const char *field;
};
/* Constrain the messages of a call by c->spec and its tools. A message consists of reasoning, calls
 * and content as in chat_answer_tag. Call after the parsers and the prompt are read.
 * ERR_UNSUPPORTED if the constraint and the tools cannot be combined, or the prompt ends inside a
 * mark or after content. ERR_ARG for two constraints, and the errors of call_compile. Errors
 * contain the field. */
int call_constrain_message(struct api_call *c, const struct tools_spec *tools, struct err *e);

/* ---- prompt.c ---- */

/* Append an error in place of the remaining pieces of a stream. */
void call_put_error(const struct api_call *c, struct buf *b, int rc, const struct err *e);
/* Count the time since begin_us (stats_time), if there is an engine. */
void count_time(const struct api *a, enum times_id which, int64_t begin_us);

/* Compile the template in "chat_template" of a body. The caller owns *out. *out is NULL if the body
 * has none, if it equals `known` (NULL if none), and after an error. ERR_ARG with the line for an
 * invalid template, ERR_LIMIT, ERR_MEMORY. */
int api_template(struct template **out, const struct template *known, const struct json *body,
                 struct err *e);
/* Report that the model has no default chat template, which the field needs. ERR_UNSUPPORTED with
 * the names of the model's other templates. */
int api_no_template(const struct api *a, const char *field, struct err *e);
/* Limit the model's default of min_tokens to r->max_tokens, because a default is no error of a
 * request. No effect if the body has min_tokens. */
void api_settle_min_tokens(struct request *r, const struct api *a, const struct json *body);
/* Read a part for read_prompts. Errors: those of part_read and of the dialect's own fields. */
typedef int part_fn(struct api_call *c, struct part *p, const struct json *body, struct err *e);
/* Return ERR_LIMIT for a text of n bytes that cannot fit into the context. Tokenizing a very long
 * text would take seconds. field: static name for the error. */
int check_bytes_fit(const struct api_call *c, const char *field, size_t n, struct err *e);
/* Return ERR_LIMIT for texts of a prompt, n bytes together, that cannot fit into the context.
 * Return 0 if the body requests that the prompt is truncated. body: NULL if none. */
int check_text_fits(const struct api_call *c, const struct json *body, size_t n, struct err *e);
/* Read the prompts in the dialect's field: a string, a list of strings, a list of ids, or a list of
 * lists of ids. Make the call's parts. Call `open` for each part, then read its prompt. Errors:
 * those of call_parts, `open`, check_text_fits, read_mixed and cut_prompt. */
int read_prompts(struct api_call *c, const struct json *body, part_fn *open, struct err *e);
/* Append a prompt's ids: a string, or a list of ids and strings (llama.cpp's form). flags: ENCODE_*
 * for the first item. name: the field in errors. ERR_ARG for another type or an id outside the
 * vocabulary, ERR_LIMIT, ERR_MEMORY, ERR_BUSY if the client disconnects. */
int read_mixed(struct ids *ids, const struct api *a, const char *name, const struct json *prompt,
               unsigned flags, struct err *e);
/* Truncate r->prompt to at most `max` tokens. The tokens that the tokenizer of an encoder adds
 * remain. left: true to remove the first tokens. ERR_UNSUPPORTED for `left` if r->pool_from > 0. */
int api_cut_prompt(struct request *r, const struct api *a, size_t max, bool left, struct err *e);
/* Apply truncate_prompt_tokens and truncation_side to r->prompt. ERR_ARG for another type or range,
 * and the errors of api_cut_prompt. */
int cut_prompt(struct request *r, const struct api *a, const struct json *body, struct err *e);

/* ---- message.c ---- */

/* Append the members of a message to the open object. id_seed: seed of put_call_id. */
void put_message_members(struct json_out *o, const struct chat_message *m, uint64_t id_seed);
/* Write an id of a message's i-th tool call: nine letters and digits from id_seed. Mistral's
 * templates reject other forms. */
enum { CALL_ID_LETTERS = 9 };
void call_id(char id[static CALL_ID_LETTERS + 1], uint64_t id_seed, int i);
/* Append the id of a message's i-th tool call: the model's own, or that of call_id if `own` is
 * NULL. */
void put_call_id(struct json_out *o, const char *key, const char *own, uint64_t id_seed, int i);

#endif
