/* quoth.h - libquoth: run a language model inside a program.
 *
 *     quoth_model *m;                                       one per model: weights, KV pages, an engine on its
 *     char why[512];                                        own threads that computes many requests at once
 *     if (quoth_open(&m, "model.gguf", NULL, 0, why, sizeof why) != 0) ... why says what is wrong
 *
 *     quoth_queue *q = quoth_queue_open(m);                 where answers arrive
 *     quoth_request r = {0};
 *     r.size = sizeof r, r.prompt = "Once upon a time", r.n_prompt = 16;
 *     r.params = "{\"temperature\": 0.7, \"max_tokens\": 64}";
 *     if (quoth_submit(q, &r, NULL, why, sizeof why) != 0) ...
 *     const quoth_event *e;
 *     while ((e = quoth_poll(q, -1)) && e->kind != QUOTH_EVENT_DONE) fwrite(e->text, 1, e->n_text, stdout);
 *
 *     quoth_queue_close(q), quoth_close(m);
 *
 * A request's tokens and logprobs are the same bits whether it runs alone or among others.
 *
 * Threads. A quoth_model may be used by any threads at once, a quoth_queue by one thread at a time;
 * different queues of one model are independent. quoth_cancel may come from anywhere. A process
 * that has opened a model must not fork and go on using it in the child.
 *
 * Ownership. What a function returns through char ** or int32_t ** is the caller's, to be freed
 * with quoth_free. What an event points to belongs to its queue, until its next quoth_poll or
 * quoth_queue_close. All arguments are borrowed for the call.
 *
 * Errors. Functions that can fail return 0 or a negative quoth_status, and put a sentence into
 * error[0..n_error) (NUL-terminated, cut where it does not fit; NULL, 0: nobody reads it).
 * Sentences about parameters begin with the parameter's name. Nothing here prints, exits or aborts
 * on bad input.
 *
 * Binary compatibility. Structs that a caller fills begin with their size, so that they can grow;
 * structs that the library fills are its own memory, and grow at their end. Texts are UTF-8 and
 * carry a length, and a NUL behind it that does not count. */
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
    QUOTH_ERR_IO = -1,          /* the system refused: open, read, map                   */
    QUOTH_ERR_FORMAT = -2,      /* a file is not what its format says                    */
    QUOTH_ERR_UNSUPPORTED = -3, /* well-formed, but nothing here can handle it           */
    QUOTH_ERR_LIMIT = -4,       /* larger than a stated limit, e.g. than the context     */
    QUOTH_ERR_MEMORY = -5,      /* an allocation failed                                  */
    QUOTH_ERR_ARG = -6,         /* an argument or parameter is not what it may be        */
    QUOTH_ERR_BUSY = -7,        /* too many requests wait; poll, then try again          */
    QUOTH_ERR_MISSING = -8      /* a file or a part of the model that is needed is not there */
};

/* The library's version, "0.1.0"; QUOTH_VERSION is the header's. */
QUOTH_API const char *quoth_version(void);

QUOTH_API void quoth_free(void *p); /* NULL is fine */

/* ---- models ---- */

/* Options are named as on the command line, with `-` or `_` ("max-model-len", "kv_cache_dtype",
 * "threads", "max_num_seqs", "chat-template", ...; `quoth help batch` lists them), values written
 * as there. */
typedef struct quoth_option {
    const char *key, *value;
} quoth_option;

/* Open a model: a .gguf file, a Hugging Face folder, a llama2.c .bin file. On failure *out is NULL.
 */
QUOTH_API int quoth_open(quoth_model **out, const char *path, const quoth_option *options,
                         size_t n_option, char *error, size_t n_error);

/* Give it up. Queues that are still open keep it alive until they are closed. NULL is fine. */
QUOTH_API void quoth_close(quoth_model *m);

/* One JSON object each, the caller's; NULL: no memory. The model: name, arch, context_max, n_vocab,
 * n_param, weight_bytes, kv_bytes, bos_token_id, eos_token_id, chat_template, ... The statistics:
 * what the engine counts. */
QUOTH_API char *quoth_info(const quoth_model *m);
QUOTH_API char *quoth_stats(const quoth_model *m);

/* ---- text and tokens ---- */

enum quoth_encode {
    QUOTH_ADD_SPECIAL = 1,  /* the tokens that this tokenizer puts around a text              */
    QUOTH_PARSE_SPECIAL = 2 /* special tokens that are written in the text become their ids   */
};
QUOTH_API int quoth_tokenize(const quoth_model *m, const char *text, size_t n, unsigned flags,
                             int32_t **ids, size_t *n_id, char *error, size_t n_error);

/* skip_special: leave out special tokens. The text may be no UTF-8 where the ids end inside a
 * character. */
QUOTH_API int quoth_detokenize(const quoth_model *m, const int32_t *ids, size_t n, int skip_special,
                               char **text, size_t *n_text, char *error, size_t n_error);

/* The prompt of a conversation: `chat` is JSON, {"messages": [...]} in OpenAI's form, with tools,
 * documents, chat_template_kwargs, add_generation_prompt and continue_final_message where wanted.
 */
QUOTH_API int quoth_apply_chat_template(const quoth_model *m, const char *chat, char **text,
                                        size_t *n_text, char *error, size_t n_error);

/* ---- requests ---- */

/* One of prompt, prompt_ids and chat; the rest zero. */
typedef struct quoth_request {
    size_t size;               /* sizeof(quoth_request) */
    const char *prompt;        /* a text [n_prompt] to go on with */
    size_t n_prompt;
    const int32_t *prompt_ids; /* [n_prompt_id] */
    size_t n_prompt_id;
    const char *chat;          /* as for quoth_apply_chat_template */
    /* A JSON object of sampling parameters under vLLM's names, or NULL: temperature (1), top_p,
     * top_k, min_p, n (1), best_of, use_beam_search, length_penalty, max_tokens (16), min_tokens,
     * seed, stop, stop_token_ids, ignore_eos, logprobs, prompt_logprobs (0 .. 20),
     * presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words,
     * allowed_token_ids, skip_special_tokens, include_stop_str_in_output, timeout (seconds after
     * which the answer is what there is), ... Unknown names are ignored, null is as if not there. Defaults are those that the model's authors recommend, else
     * vLLM's. */
    const char *params;
} quoth_request;

/* NULL: no memory. */
QUOTH_API quoth_queue *quoth_queue_open(quoth_model *m);
/* Cancels what is under way and waits for it, a step at most. NULL is fine. */
QUOTH_API void quoth_queue_close(quoth_queue *q);

/* On success the request will have exactly one QUOTH_EVENT_DONE, unless the queue is closed before;
 * *id (may be NULL) names it in its events. */
QUOTH_API int quoth_submit(quoth_queue *q, const quoth_request *r, uint64_t *id, char *error,
                           size_t n_error);

/* End a request early: its QUOTH_EVENT_DONE comes with finish_reason "abort". Ids that are done or
 * unknown are ignored. Any thread. */
QUOTH_API void quoth_cancel(quoth_model *m, uint64_t id);

enum quoth_event_kind {
    QUOTH_EVENT_PROMPT = 0, /* a token of the prompt behind its first, where prompt_logprobs were asked for */
    QUOTH_EVENT_TOKEN = 1,  /* a generated token, and the text that may be shown now                        */
    QUOTH_EVENT_DONE = 2,   /* the end, with the rest of the text                                           */
    QUOTH_EVENT_CHOICE = 3  /* where n > 1: the end of one answer, with the rest of its text; DONE follows all */
};

typedef struct quoth_logprob {
    int32_t id;
    float logprob;
    int32_t rank; /* 1: the most likely */
} quoth_logprob;

typedef struct quoth_event {
    uint64_t id;    /* whose */
    int32_t kind;   /* quoth_event_kind */
    int32_t choice; /* which of the request's answers, from 0 */
    int32_t token;  /* PROMPT, TOKEN */
    /* DONE, CHOICE: which of stop_token_ids ended it, or -1 */
    int32_t stop_token;
    /* [n_text], never NULL: text that is complete (no character is cut, no stop text begun) */
    const char *text;
    size_t n_text;
    /* [n_logprob]: the token itself, then the most likely ones; where they were asked for */
    const quoth_logprob *logprobs;
    size_t n_logprob;
    /* DONE, CHOICE: "stop", "length", "timeout", "abort" or "error"; which of `stop` ended it, or NULL */
    const char *finish_reason, *stop_text;
    /* DONE (of all answers), CHOICE: tokens, and seconds: submitted .. begun .. first token .. last
     * token */
    int32_t n_prompt_token, n_cached_token, n_output_token;
    double queue_s, prefill_s, decode_s;
} quoth_event;

/* The next event of any request of this queue; NULL: none came in timeout_ms (0: at once, < 0: as
 * long as there is a request), or there is no request. */
QUOTH_API const quoth_event *quoth_poll(quoth_queue *q, int timeout_ms);

/* Requests that have not had their QUOTH_EVENT_DONE. */
QUOTH_API size_t quoth_n_open(const quoth_queue *q);

#ifdef __cplusplus
}
#endif
#endif
