/* quoth.h - libquoth: run a language model inside a program.
 *
 *     quoth_model *m;                   one per model: weights, KV pages, and an engine on its own
 *     char why[512];                    threads, which computes many requests at once
 *     if (quoth_open(&m, "model.gguf", NULL, 0, why, sizeof why) != 0) ... the reason is in why
 *
 *     quoth_queue *q = quoth_queue_open(m);                 receives events
 *     quoth_request r = {0};
 *     r.size = sizeof r, r.prompt = "Once upon a time", r.n_prompt = 16;
 *     r.params = "{\"temperature\": 0.7, \"max_tokens\": 64}";
 *     if (quoth_submit(q, &r, NULL, why, sizeof why) != 0) ...
 *     const quoth_event *e;
 *     while ((e = quoth_poll(q, -1)) && e->kind != QUOTH_EVENT_DONE)
 *         fwrite(e->text, 1, e->n_text, stdout);
 *
 *     quoth_queue_close(q), quoth_close(m);
 *
 * A request's tokens and logprobs are the same bits whether it runs alone or with other requests.
 *
 * Threads. A quoth_model may be used by any threads concurrently, a quoth_queue by one thread at a
 * time; different queues of one model are independent. quoth_cancel may be called on any thread. A
 * process that has opened a model must not fork and continue to use it in the child.
 *
 * Ownership. Memory returned through char ** or int32_t ** is owned by the caller and freed with
 * quoth_free. Pointers in an event are valid until the next quoth_poll or quoth_queue_close of its
 * queue. All arguments are borrowed for the call.
 *
 * Errors. Functions that can fail return 0 or a negative quoth_status, and write a sentence to
 * error[0..n_error) (NUL-terminated, truncated if it does not fit; NULL, 0: not wanted). Sentences
 * about parameters begin with the parameter's name, which quoth_error_field returns. No function prints, exits or aborts on bad
 * input.
 *
 * Binary compatibility. Structs filled by the caller begin with their size, so they can grow;
 * structs filled by the library are in its own memory, and grow at their end. Texts are UTF-8 with
 * a length, followed by a NUL that the length does not count. */
#ifndef QUOTH_H
#define QUOTH_H

#include <stddef.h>
#include <stdint.h>

#define QUOTH_VERSION "0.1.0"

#if defined(__GNUC__)
#define QUOTH_API __attribute__((visibility("default")))
#else
#define QUOTH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quoth_model quoth_model;
typedef struct quoth_queue quoth_queue;

enum quoth_status {
    QUOTH_OK = 0,
    QUOTH_ERR_IO = -1,          /* a system call failed: open, read, map                 */
    QUOTH_ERR_FORMAT = -2,      /* a file violates its format                            */
    QUOTH_ERR_UNSUPPORTED = -3, /* well-formed, but not supported                        */
    QUOTH_ERR_LIMIT = -4,       /* above a stated limit, e.g. the context length         */
    QUOTH_ERR_MEMORY = -5,      /* an allocation failed                                  */
    QUOTH_ERR_ARG = -6,         /* an argument or parameter is invalid                   */
    QUOTH_ERR_BUSY = -7,        /* too many pending requests; poll, then retry           */
    QUOTH_ERR_MISSING = -8      /* a required file or part of the model is missing */
};

/* Return the library's version, "0.1.0"; QUOTH_VERSION is the header's. */
QUOTH_API const char *quoth_version(void);

QUOTH_API void quoth_free(void *p); /* p may be NULL */

/* Return the name of the option, parameter or member of a conversation at fault in the last call that failed on this thread; ""
 * if none. Valid until the next call on this thread. */
QUOTH_API const char *quoth_error_field(void);

/* Return the sampling parameters as a JSON list of objects, owned by the caller; NULL if out of
 * memory. Each has name, type (JSON Schema's), default (null: none) and description. Numbers also
 * have range (a text: "in (0, 1]"), minimum or exclusiveMinimum, maximum (absent: none) and also (a
 * legal value outside the range; absent: none). */
QUOTH_API char *quoth_params(void);

/* ---- models ---- */

/* An option with the name and the form of value of the command line, with `-` or `_`
 * ("max-model-len", "kv_cache_dtype", "threads", "max_num_seqs", "chat-template", ...; `quoth help
 * batch` lists them). */
typedef struct quoth_option {
    const char *key, *value;
} quoth_option;

/* Open a model: a .gguf file, a Hugging Face folder, a llama2.c .bin file. On failure *out is NULL.
 */
QUOTH_API int quoth_open(quoth_model **out, const char *path, const quoth_option *options,
                         size_t n_option, char *error, size_t n_error);

/* Release m. Open queues keep the model alive until they are closed. m may be NULL. */
QUOTH_API void quoth_close(quoth_model *m);

/* Return a JSON object, owned by the caller; NULL if out of memory. quoth_info describes the model:
 * name, arch, context_max, n_vocab, n_param, weight_bytes, kv_bytes, bos_token_id, eos_token_id,
 * chat_template, warnings (a list of the warnings of quoth_open), ... quoth_stats returns the
 * engine's statistics. */
QUOTH_API char *quoth_info(const quoth_model *m);
QUOTH_API char *quoth_stats(const quoth_model *m);

/* Return the statistics in Prometheus' text format, under vLLM's names; owned by the caller, NULL
 * if out of memory. */
QUOTH_API char *quoth_metrics(const quoth_model *m);

/* Remove cached prefixes: later requests compute their prompts again. Running requests are not
 * affected. Any thread. */
QUOTH_API void quoth_reset_prefix_cache(quoth_model *m);

/* ---- text and tokens ---- */

enum quoth_encode {
    QUOTH_ADD_SPECIAL = 1,  /* add the tokens that this tokenizer puts around a text          */
    QUOTH_PARSE_SPECIAL = 2 /* convert special tokens written in the text to their ids        */
};
QUOTH_API int quoth_tokenize(const quoth_model *m, const char *text, size_t n, unsigned flags,
                             int32_t **ids, size_t *n_id, char *error, size_t n_error);

/* Convert ids to text. skip_special: omit special tokens. The text may end in an incomplete UTF-8
 * sequence if the ids end inside a character. */
QUOTH_API int quoth_detokenize(const quoth_model *m, const int32_t *ids, size_t n, int skip_special,
                               char **text, size_t *n_text, char *error, size_t n_error);

/* Render the prompt of a conversation. `chat` is JSON, {"messages": [...]} in OpenAI's form,
 * optionally with tools, documents, chat_template_kwargs, add_generation_prompt and
 * continue_final_message. */
QUOTH_API int quoth_apply_chat_template(const quoth_model *m, const char *chat, char **text,
                                        size_t *n_text, char *error, size_t n_error);

/* ---- requests ---- */

/* Set one of prompt, prompt_ids and chat; the rest is zero. */
typedef struct quoth_request {
    size_t size;        /* sizeof(quoth_request) */
    const char *prompt; /* text to continue [n_prompt] */
    size_t n_prompt;
    const int32_t *prompt_ids; /* [n_prompt_id] */
    size_t n_prompt_id;
    const char *chat; /* as for quoth_apply_chat_template */
    /* JSON object, or NULL: the sampling parameters that quoth_params lists, and n (default 1),
     * best_of, use_beam_search, length_penalty, max_tokens (default 16), stop, logprobs,
     * prompt_logprobs [0, 20], skip_special_tokens, include_stop_str_in_output, timeout (seconds;
     * the answer then ends with the tokens generated so far), ... and one of response_format,
     * structured_outputs ({"json": SCHEMA}, regex, choice, grammar or json_object), json_schema and
     * grammar, to which answers are held; quoth_submit compiles it. Names and defaults are vLLM's,
     * except for defaults that the model's authors recommend. Unknown names are an error; null
     * means absent. */
    const char *params;
    /* NULL: generate. Otherwise return an embedding of the prompt (params may contain no sampling):
     * the pooled final hidden states, by "mean", "last", "first", or "auto" (the model file's, else
     * last) */
    const char *pooling;
} quoth_request;

/* Return a queue; NULL if out of memory. */
QUOTH_API quoth_queue *quoth_queue_open(quoth_model *m);
/* Cancel the queue's requests and wait until they have ended, at most one step. q may be NULL. */
QUOTH_API void quoth_queue_close(quoth_queue *q);

/* Submit r. On success the request gets exactly one QUOTH_EVENT_DONE, unless the queue is closed
 * before; *id (may be NULL) identifies it in events. */
QUOTH_API int quoth_submit(quoth_queue *q, const quoth_request *r, uint64_t *id, char *error,
                           size_t n_error);

/* End a request early: its QUOTH_EVENT_DONE has finish_reason "abort". Finished and unknown ids are
 * ignored. Any thread. */
QUOTH_API void quoth_cancel(quoth_model *m, uint64_t id);

enum quoth_event_kind {
    /* a prompt token after the first, if prompt_logprobs was requested */
    QUOTH_EVENT_PROMPT = 0,
    /* a generated token, and the text that may be shown now */
    QUOTH_EVENT_TOKEN = 1,
    /* the end of the request, with the rest of the text */
    QUOTH_EVENT_DONE = 2,
    /* n > 1: the end of one choice, with the rest of its text; DONE follows all */
    QUOTH_EVENT_CHOICE = 3
};

typedef struct quoth_logprob {
    int32_t id;
    float logprob;
    int32_t rank; /* 1: the most likely */
} quoth_logprob;

typedef struct quoth_event {
    uint64_t id;    /* of the request */
    int32_t kind;   /* quoth_event_kind */
    int32_t choice; /* index of the request's choice, from 0 */
    int32_t token;  /* PROMPT, TOKEN */
    /* DONE, CHOICE: the one of stop_token_ids that ended it, or -1 */
    int32_t stop_token;
    /* [n_text], never NULL: complete text (no partial character, no beginning of a stop text) */
    const char *text;
    size_t n_text;
    /* [n_logprob]: the token itself, then the most likely ones, if requested */
    const quoth_logprob *logprobs;
    size_t n_logprob;
    /* DONE, CHOICE: "stop", "length", "timeout", "abort" or "error"; the text of `stop` that ended
     * it, or NULL */
    const char *finish_reason, *stop_text;
    /* DONE (all choices), CHOICE: number of tokens, and seconds from submission to first rows, to
     * first token, to last token */
    int32_t n_prompt_token, n_cached_token, n_output_token;
    /* DONE, CHOICE: the token that ended it, including the model's own end token, or -1. It has no
     * TOKEN event, but counts in n_output_token */
    int32_t end_token;
    double queue_s, prefill_s, decode_s;
    /* DONE with finish_reason "length" of a request with `pooling`: [n_embedding], normalized to
     * length 1; else NULL */
    const float *embedding;
    size_t n_embedding;
} quoth_event;

/* Return the next event of any request of this queue; NULL if none arrived within timeout_ms (0: do
 * not wait, < 0: no time limit), or if no request is pending. */
QUOTH_API const quoth_event *quoth_poll(quoth_queue *q, int timeout_ms);

/* Make the quoth_poll that waits now, or else the next one that would wait, return NULL. Any
 * thread. */
QUOTH_API void quoth_wake(quoth_queue *q);

/* Return the number of requests without QUOTH_EVENT_DONE. */
QUOTH_API size_t quoth_n_open(const quoth_queue *q);

#ifdef __cplusplus
}
#endif
#endif
