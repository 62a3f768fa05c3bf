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
 * A request's tokens and logprobs have the same bits, alone and with other requests.
 *
 * Threads. Several threads may use a quoth_model concurrently. Only one thread at a time may use a
 * quoth_queue. Different queues of one model are independent. Any thread may call quoth_cancel, and
 * functions without a quoth_model argument. A process that has opened a model must not use it in a
 * forked child.
 *
 * Ownership. The caller owns memory that is returned through char ** or int32_t **, and frees it
 * with quoth_free. Pointers in an event are valid until the next quoth_poll or quoth_queue_close of
 * its queue. All arguments are borrowed for the call.
 *
 * Errors. A function that can fail returns 0 or a negative quoth_status, and writes a sentence to
 * error[0, n_error). The sentence is NUL-terminated, and truncated if it does not fit. error NULL
 * and n_error 0: no sentence. Sentences about parameters begin with the parameter's name, which
 * quoth_error_field returns. No function prints, exits or aborts on bad input.
 *
 * Binary compatibility. A struct filled by the caller begins with its size, so it can grow. A
 * struct filled by the library is in the library's memory, and grows at its end. Texts are UTF-8
 * with a length. A NUL follows each text; the length does not include the NUL. */
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
    QUOTH_ERR_IO = -1,          /* a failed system call: open, read, map */
    QUOTH_ERR_FORMAT = -2,      /* a file with an error in its format */
    QUOTH_ERR_UNSUPPORTED = -3, /* well-formed input that is not supported */
    QUOTH_ERR_LIMIT = -4,       /* a value above a limit, such as the context length */
    QUOTH_ERR_MEMORY = -5,      /* a failed allocation */
    QUOTH_ERR_ARG = -6,         /* an invalid argument or parameter */
    QUOTH_ERR_BUSY = -7,        /* too many pending requests: poll, then retry */
    QUOTH_ERR_MISSING = -8      /* a missing file or part of the model that is required */
};

/* Return the library's version, such as "0.1.0", static. QUOTH_VERSION is the header's version. */
QUOTH_API const char *quoth_version(void);

QUOTH_API void quoth_free(void *p); /* free memory of the library; NULL is allowed */

/* Return the name of the field that caused the last failure on this thread. The field is an option,
 * a parameter or a member of a conversation; "" if none. The text is valid until the next call on
 * this thread. */
QUOTH_API const char *quoth_error_field(void);

/* Return the sampling parameters as a JSON list of objects, owned by the caller, for quoth_free;
 * NULL if memory is exhausted. Each object has name, type (JSON Schema's, a text or a list of
 * texts), default (null: no default) and description. The object of a list also has items, the type
 * of its items. The object of a number may also have range (a text such as "in (0,
 * 1]"), minimum or exclusiveMinimum, and maximum. The member `also` is another legal value,
 * outside the range. */
QUOTH_API char *quoth_params(void);

/* ---- models ---- */

/* An option, with the name and the value of a flag of the command line. Names have `-` or `_`, such
 * as "max-model-len" or "kv_cache_dtype". `quoth help batch` lists all options. */
typedef struct quoth_option {
    const char *key, *value;
} quoth_option;

/* Open a model: a .gguf file, a Hugging Face folder, or a llama2.c .bin file. The caller owns *out,
 * for quoth_close; NULL after a failure. After a success, the model is ready for requests.
 *   options   [n_option]; a later option replaces an earlier option of the same key
 * Return QUOTH_ERR_ARG for an unknown option, a value out of range, or another kind of file.
 * Return QUOTH_ERR_MISSING if a file, tensor or key is absent, or QUOTH_ERR_FORMAT if a file
 * violates its format. Return QUOTH_ERR_UNSUPPORTED for an architecture, number format or device
 * that is not supported. Return QUOTH_ERR_LIMIT if the model or its KV pages do not fit in memory.
 * Other errors are QUOTH_ERR_IO and QUOTH_ERR_MEMORY. Any thread; concurrent calls may plan for the
 * same free memory. */
QUOTH_API int quoth_open(quoth_model **out, const char *path, const quoth_option *options,
                         size_t n_option, char *error, size_t n_error);

/* Release m. Open queues keep the model until they are closed. m: NULL is allowed. Any thread. */
QUOTH_API void quoth_close(quoth_model *m);

/* Return a description of the model as a JSON object, owned by the caller, for quoth_free; NULL if
 * memory is exhausted. The object's members are name, arch, context_max, n_vocab, n_param,
 * weight_bytes, kv_bytes, bos_token_id, eos_token_id, chat_template, warnings (the warnings of
 * quoth_open) and others. Any thread. */
QUOTH_API char *quoth_info(const quoth_model *m);
/* Return the engine's statistics as a JSON object, owned by the caller, for quoth_free; NULL if
 * memory is exhausted. Any thread. */
QUOTH_API char *quoth_stats(const quoth_model *m);

/* Return the engine's statistics in Prometheus' text format, under vLLM's names. The caller owns
 * the text and frees it by quoth_free; NULL if memory is exhausted. Any thread. */
QUOTH_API char *quoth_metrics(const quoth_model *m);

/* Remove the cached prefixes, so later requests recompute their prompts. Running requests are not
 * affected. Any thread. */
QUOTH_API void quoth_reset_prefix_cache(quoth_model *m);

/* ---- text and tokens ---- */

enum quoth_encode {
    /* add the tokens that this tokenizer requires at the beginning and end of a text */
    QUOTH_ADD_SPECIAL = 1,
    QUOTH_PARSE_SPECIAL = 2 /* convert special tokens in the text to their ids */
};
/* Convert a text to tokens.
 *   text    [n] bytes; every text is valid. NULL if n is 0
 *   flags   bits of quoth_encode; 0 if none
 *   *ids    i32 [*n_id], owned by the caller, for quoth_free; not NULL if *n_id is 0; NULL after a
 *           failure
 * Return QUOTH_ERR_LIMIT if n > 2^31 - 1, or QUOTH_ERR_MEMORY. Any thread. */
QUOTH_API int quoth_tokenize(const quoth_model *m, const char *text, size_t n, unsigned flags,
                             int32_t **ids, size_t *n_id, char *error, size_t n_error);

/* Convert tokens to a text.
 *   ids            i32 [n]; ids outside the vocabulary add nothing
 *   skip_special   not 0: omit special tokens
 *   *text          [*n_text] bytes, owned by the caller, for quoth_free; NULL after a failure. The
 *                  text ends in an incomplete UTF-8 sequence if the ids end inside a character.
 * QUOTH_ERR_MEMORY. Any thread. */
QUOTH_API int quoth_detokenize(const quoth_model *m, const int32_t *ids, size_t n, int skip_special,
                               char **text, size_t *n_text, char *error, size_t n_error);

/* Render the prompt of a conversation.
 *   chat    JSON: {"messages": [...]} in OpenAI's form. Other members may be tools, documents,
 *           chat_template_kwargs, add_generation_prompt and continue_final_message.
 *   *text   [*n_text] bytes, owned by the caller, for quoth_free; NULL after a failure
 * Return QUOTH_ERR_FORMAT if `chat` is not JSON. Return QUOTH_ERR_ARG for an unknown member, a
 * wrong type, or a conversation that the template rejects. Return QUOTH_ERR_UNSUPPORTED if the
 * model has no template, or its template does not support a part of a message. Return
 * QUOTH_ERR_LIMIT beyond a limit of JSON or of the rendering, or QUOTH_ERR_MEMORY. Any thread. */
QUOTH_API int quoth_apply_chat_template(const quoth_model *m, const char *chat, char **text,
                                        size_t *n_text, char *error, size_t n_error);

/* ---- bodies of the HTTP API ---- */

/* Compute a body of an endpoint that generates no text, and wait for the answer.
 *   url     "/v1/score", "/v1/rerank", "/classify", "/pooling", "/v1/embeddings"
 *   body    JSON, as a client sends it to `quoth serve`
 *   *text   the answer's JSON, owned by the caller, for quoth_free; NULL after a failure
 * Any thread. Return QUOTH_ERR_MISSING for another url, QUOTH_ERR_BUSY if too many requests wait,
 * or the errors of the endpoint. */
QUOTH_API int quoth_pool(const quoth_model *m, const char *url, const char *body, char **text,
                         size_t *n_text, char *error, size_t n_error);

/* ---- requests ---- */

/* A request. Exactly one of prompt, prompt_ids and chat is set. All other fields may be zero. */
typedef struct quoth_request {
    size_t size;        /* sizeof(quoth_request) */
    const char *prompt; /* text to continue, [n_prompt] bytes */
    size_t n_prompt;
    const int32_t *prompt_ids; /* token ids to continue [n_prompt_id] */
    size_t n_prompt_id;
    const char *chat; /* conversation in the form of quoth_apply_chat_template */
    /* JSON object of parameters; NULL: no parameters. Names and defaults are the same as in vLLM,
     * except for defaults that the model's authors recommend. Unknown names are an error. A value
     * of null has the effect of an absent member. The object may have the sampling parameters of
     * quoth_params, and:
     *   n (default 1), best_of, use_beam_search, length_penalty
     *   max_tokens (default 16), stop, skip_special_tokens, include_stop_str_in_output
     *   logprobs, prompt_logprobs [0, 20]
     *   timeout: seconds after which the answer ends with the tokens generated so far
     *   one of response_format, structured_outputs ({"json": SCHEMA}, regex, choice, grammar or
     *   json_object), json_schema and grammar, which constrains answers; quoth_submit compiles
     *   it */
    const char *params;
    /* Pooling method of an embedding request; NULL: the request generates tokens. params of an
     * embedding request may contain no sampling parameters. The embedding is the pooled final
     * hidden states. Methods are "mean", "last", "first" and "auto" (the model file's pooling,
     * otherwise last). */
    const char *pooling;
} quoth_request;

/* Return a queue, for quoth_queue_close; NULL if memory is exhausted. Any thread. */
QUOTH_API quoth_queue *quoth_queue_open(quoth_model *m);
/* Cancel the queue's requests, wait at most one step until the requests have ended, and free q. q
 * may be NULL. The queue's thread. */
QUOTH_API void quoth_queue_close(quoth_queue *q);

/* Submit r, which is copied. A submitted request gets exactly one QUOTH_EVENT_DONE, except if the
 * queue is closed first. *id identifies the request in events. *id is set on success only. id may
 * be NULL. Return QUOTH_ERR_BUSY if too many requests wait, or requests or grammars hold too much
 * memory: poll, then retry. Return QUOTH_ERR_LIMIT if the request can never fit, such as a prompt
 * longer than the context. Return QUOTH_ERR_ARG for an invalid field or parameter, or
 * QUOTH_ERR_FORMAT for a malformed JSON or grammar. Return QUOTH_ERR_UNSUPPORTED for parameters or
 * combinations that are not supported, or QUOTH_ERR_MEMORY. The queue's thread. */
QUOTH_API int quoth_submit(quoth_queue *q, const quoth_request *r, uint64_t *id, char *error,
                           size_t n_error);

/* End a request early. The QUOTH_EVENT_DONE of the request has finish_reason "abort". Finished and
 * unknown ids are ignored. Any thread. */
QUOTH_API void quoth_cancel(quoth_model *m, uint64_t id);

enum quoth_event_kind {
    /* a prompt token after the first one, if prompt_logprobs was requested */
    QUOTH_EVENT_PROMPT = 0,
    /* a generated token, with the text that may be shown now */
    QUOTH_EVENT_TOKEN = 1,
    /* the end of the request, with the remaining text */
    QUOTH_EVENT_DONE = 2,
    /* the end of one choice, with its remaining text, if n > 1; DONE follows the ends of all
     * choices */
    QUOTH_EVENT_CHOICE = 3
};

typedef struct quoth_logprob {
    int32_t id;
    float logprob;
    int32_t rank; /* rank of the token; 1: the most likely token */
} quoth_logprob;

typedef struct quoth_event {
    uint64_t id;    /* id of the request */
    int32_t kind;   /* kind of the event (quoth_event_kind) */
    int32_t choice; /* index of the choice in [0, n) */
    int32_t token;  /* PROMPT, TOKEN: id of the token */
    /* DONE, CHOICE: id in stop_token_ids that ended the answer; -1 if none */
    int32_t stop_token;
    /* text [n_text], never NULL, without a partial character or the beginning of a stop text */
    const char *text;
    size_t n_text;
    /* log probabilities of the token, then of the most likely tokens, [n_logprob], if requested */
    const quoth_logprob *logprobs;
    size_t n_logprob;
    /* DONE, CHOICE: finish_reason is "stop", "length", "timeout", "repetition", "abort" or "error".
     * stop_text is the stop text that ended the answer; NULL if none. */
    const char *finish_reason, *stop_text;
    /* DONE (all choices), CHOICE: numbers of tokens, and consecutive times in seconds. queue_s ends
     * at the first rows, prefill_s at the first token, decode_s at the last token. */
    int32_t n_prompt_token, n_cached_token, n_output_token;
    /* DONE, CHOICE: token that ended the answer, such as the model's end token; -1 if none. The
     * token that ended the answer has no TOKEN event, but n_output_token includes it. */
    int32_t end_token;
    double queue_s, prefill_s, decode_s;
    /* embedding, [n_embedding], normalized to length 1 if the model's vectors are (modules.json of
     * sentence-transformers, or no such file). Set only for DONE with finish_reason
     * "length" of a request with `pooling`; otherwise NULL */
    const float *embedding;
    size_t n_embedding;
} quoth_event;

/* Return the next event of any request of this queue, valid until the next quoth_poll. Return NULL
 * if no event arrived within timeout_ms (0: do not wait, < 0: no limit), if no request is pending,
 * or after quoth_wake. The queue's thread. */
QUOTH_API const quoth_event *quoth_poll(quoth_queue *q, int timeout_ms);

/* Make the waiting call of quoth_poll return NULL, or the next call that would wait. Any thread. */
QUOTH_API void quoth_wake(quoth_queue *q);

/* Return the number of requests without QUOTH_EVENT_DONE. The queue's thread. */
QUOTH_API size_t quoth_n_open(const quoth_queue *q);

#ifdef __cplusplus
}
#endif
#endif
