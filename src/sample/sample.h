/* sample.h - logits -> the next token: one sampler per sequence.
 *
 * A chain of stages, in this order (each a file, listed in stages.def):
 *     logit_bias, bad_words, allowed_token_ids, min_tokens               (permitted tokens)
 *     repetition, frequency, presence penalty, DRY                       (from the history)
 *     temperature; top-n-sigma, top-k, typical-p, top-p, min-p, XTC (truncate the distribution)
 *     adaptive-p (changes the distribution that remains)
 *     mirostat 2 (in place of the cuts), then the draw, or greedy if temperature is 0
 * A request may choose another order from the penalties on (sample_params.order).
 * Random numbers depend only on (seed, choice, position, token id), so tokens do not depend on
 * other sequences. The position is the number of accepted output tokens. A pick changes no state.
 * The acceptance of a token changes the state. All results are deterministic: float operations have
 * one defined order (kern.h), and the lower id has precedence in ties.
 *
 * Any thread may call these functions. One thread at a time uses a sampler, a scratch or a search
 * for stop strings. Lists are immutable and their references atomic, so threads share them. */
#ifndef QUOTH_SAMPLE_H
#define QUOTH_SAMPLE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/range.h"

struct token_bias {
    int32_t id;
    float bias;
};
/* Some bytes, borrowed. */
struct text_span {
    const char *text;
    size_t n;
};

enum { SAMPLER_MAX = 16 }; /* maximum number of samplers in an order */

/* Sampling parameters of a request. The struct is plain data, and its pointers are borrowed from
 * the request. A zeroed struct is NOT the default: start from sample_params_default. The numbers
 * are rows of params.def, with their ranges. */
struct sample_params {
#define REAL(name, ...)     float name;
#define INT(name, ...)      int32_t name;
#define ONE_INT(name, ...)  int32_t name;
#define ONE_FLAG(name, ...) bool name;
#include "sample/params.def"
    const struct text_span *dry_breaker; /* sequence breakers of DRY [n_dry_breaker] */
    int n_dry_breaker;                   /* -1: default breakers, which are \n : " * */
    /* additions to logits [n_bias], in [-100, 100]; -100 forbids the token (logit -inf) */
    const struct token_bias *bias;
    int n_bias;
    const int32_t *allowed; /* permitted tokens i32 [n_allowed]; n_allowed 0: all */
    int n_allowed;
    const struct ids *bad_word; /* token sequences that an answer never completes [n_bad_word] */
    int n_bad_word;
    /* stop tokens in addition to the end tokens of the model, i32 [n_stop_id] */
    const int32_t *stop_id;
    int n_stop_id;
    /* indices of stages in stages.def, from the penalties on; n_order -1: the default order. Stages
     * that are not in the order are off. */
    uint8_t order[SAMPLER_MAX];
    int8_t n_order;
    uint64_t seed;
    bool seeded; /* false: the engine chooses a seed */
    /* number of logprobs in addition to the picked token's, at most 100 (20 in the API); -1: no
     * logprobs */
    int32_t n_logprob;
    /* true: the logprobs are of the distribution after all stages, from which the token is drawn */
    bool post_logprob;
    /* tokens whose logprobs are returned instead of the most likely tokens, i32 [n_logprob_id];
     * n_logprob is then equal to n_logprob_id. n_logprob_id 0 if none */
    const int32_t *logprob_id;
    int n_logprob_id;
    /* Prepared lists, borrowed; NULL if none. With lists, all parameters are valid. The object
     * contains the lists from bias to bad_word, stop_id, dry_breaker and logprob_id. Samplers do
     * not read the fields of these lists. */
    struct sample_lists *lists;
};

extern const struct sample_params sample_params_default;

/* Set the order of p by llama.cpp's names (stages.def) text[n]. Return ERR_ARG with the field
 * `samplers` for an unknown name or a penalty after a cut. Return ERR_LIMIT for more than
 * SAMPLER_MAX names. */
int sample_params_order(struct sample_params *p, const struct text_span *text, int n,
                        struct err *e);
/* Return llama.cpp's name of item i of the order of p, or of the default order; NULL after the last
 * item. The text is static. */
const char *sample_params_sampler(const struct sample_params *p, int i);

/* A row of params.def. All texts are static. */
struct sample_param {
    const char *name;
    enum sample_kind { SAMPLE_REAL, SAMPLE_INT, SAMPLE_FLAG, SAMPLE_OTHER } kind;
    const char *type;   /* JSON Schema types, with blanks between them */
    const char *items;  /* type of an array's items; NULL: no array */
    size_t at;          /* offset in struct sample_params; OTHER: 0 */
    double fallback;    /* default value */
    struct range range; /* legal values; for REAL and INT only */
    const char *key;    /* key in the model's metadata; NULL if none */
    const char *alias;  /* another name of the field of a body; NULL if none */
    const char *help;
};
enum sample_param_id {
#define REAL(name, ...)     SAMPLE_##name,
#define INT(name, ...)      SAMPLE_##name,
#define ONE_INT(name, ...)  SAMPLE_##name,
#define ONE_FLAG(name, ...) SAMPLE_##name,
#define OTHER(name, ...)    SAMPLE_##name,
#include "sample/params.def"
    N_SAMPLE_PARAM
};
extern const struct sample_param sample_param[N_SAMPLE_PARAM];

/* Get or set the value of a REAL, INT or FLAG. A value that a float cannot represent becomes an
 * infinity, which no range contains. */
double sample_param_get(const struct sample_params *p, const struct sample_param *which);
/* Set the value of a REAL, INT or FLAG. */
void sample_param_set(struct sample_params *p, const struct sample_param *which, double value);

/* Validate p. Return 0, or ERR_ARG with the field, its range and its value. engine_submit validates
 * each request once. The parameters are already valid if p->lists is set. Any thread. */
int sample_params_check(const struct sample_params *p, int n_vocab, struct err *e);

struct sampler;      /* opaque sampler of one sequence, owned by the engine */
struct sample_lists; /* opaque, immutable lists of a request; any thread */

/* Data of the vocabulary for samplers, created once per model. All pointers are borrowed until the
 * last sampler is closed. */
struct sample_vocab {
    int n_vocab;
    const int32_t *eog; /* i32 [n_eog] the model's end-of-generation ids */
    int n_eog;
    const void *tokenizer; /* argument of bytes() */
    /* bytes of a token, for DRY's breakers; NULL if none */
    const char *(*bytes)(const void *tokenizer, int32_t id, size_t *n);
};

struct sample_work; /* scratch of one thread for n_vocab tokens; opaque */
/* Open scratch. cpu_level is a level of kern_open; NULL: the best level. The level never changes a
 * token. The caller owns *out, which is NULL after an error. Return ERR_ARG if n_vocab < 1 or the
 * level is unknown, or ERR_MEMORY. */
int sample_work_open(struct sample_work **out, int n_vocab, const char *cpu_level, struct err *e);
/* Return the bytes of the scratch for n_vocab tokens. */
int64_t sample_work_bytes(int n_vocab);
/* Free the scratch; NULL is allowed. */
void sample_work_close(struct sample_work *w);

/* Copy the lists of p once for all samplers that use them. p must have passed sample_params_check.
 * Samplers may have a lower min_tokens than p. min_tokens of the samplers must be 0 if it is 0 in
 * p. The caller owns the reference *out and drops it by sample_lists_drop. *out is NULL after an
 * error. Return ERR_ARG if the lists permit no token, or ERR_MEMORY. */
int sample_lists_open(struct sample_lists **out, const struct sample_params *p,
                      const struct sample_vocab *v, struct err *e);
/* Add a reference, which the caller owns, and return l; NULL is allowed. */
struct sample_lists *sample_lists_ref(struct sample_lists *l);
/* Drop a reference. The last drop frees l; NULL is allowed. */
void sample_lists_drop(struct sample_lists *l);
/* Return the number of bytes of l; NULL is allowed. */
int64_t sample_lists_bytes(const struct sample_lists *l);
/* Return true if bias, bad words or allowed ids forbid a token independently of its logit. */
bool sample_lists_forbid(const struct sample_lists *l);

/* Open a sampler and allocate all its memory.
 *   p            borrowed for the call
 *   v            its data is borrowed until sampler_close
 *   choice       index of the choice, part of the key of its random numbers
 *   context_max  maximum number of tokens of the sequence, prompt and output
 * The caller owns *out, which is NULL after an error. Return ERR_ARG if p->lists is NULL and p is
 * invalid, or ERR_MEMORY. */
int sampler_open(struct sampler **out, const struct sample_params *p, const struct sample_vocab *v,
                 uint32_t choice, int context_max, struct err *e);
void sampler_close(struct sampler *s); /* close s; NULL is allowed */
/* Return the number of bytes of s, without borrowed lists. */
int64_t sampler_bytes(const struct sampler *s);

/* Add ids i32 [n], the tokens of the prompt, to the history before the first pick. */
void sampler_accept_prompt(struct sampler *s, const int32_t *ids, int n);
/* Add an accepted token to the history. The position of the random numbers advances. */
void sampler_accept(struct sampler *s, int32_t id);

struct logprob {
    int32_t id;
    float logprob;
    int32_t rank;
}; /* token, its log probability and its rank; rank 1 is the most likely token */

struct pick {
    int32_t id; /* picked token; -1 if every token is forbidden */
    /* Logprob of the picked token: the log-softmax of the raw logits, before any stage, or after
     * all stages with post_logprob. Only the id is set if n_logprob is -1. The logprob is -inf and
     * the rank 0 if id is -1. */
    struct logprob chosen;
    /* Number of entries in top[]: n_logprob, or fewer if fewer logits are finite. The entries are
     * in descending order. Ties are in ascending order of ids. */
    int n_top;
    struct logprob top[100];
};

/* Pick a token from logits f32 [n_vocab]. mask u32 [ceil(n_vocab / 32)] has bit i set if token i is
 * permitted; NULL: no mask. The function does not allocate. */
void sampler_pick(struct sampler *s, struct sample_work *w, const float *logits,
                  const uint32_t *mask, struct pick *out);

/* Fields that forbid tokens, as bits. */
enum {
    FORBIDS_BIAS = 1,    /* logit_bias */
    FORBIDS_WORDS = 2,   /* bad_words */
    FORBIDS_ALLOWED = 4, /* allowed_token_ids */
    FORBIDS_ENDS = 8,    /* min_tokens */
};
/* Return the fields of s that forbid a token with a logit that the mask permits: bits FORBIDS_*.
 * The arguments are the arguments of sampler_pick. */
unsigned sampler_forbidding(const struct sampler *s, struct sample_work *w, const float *logits,
                            const uint32_t *mask);

/* Compute the log-softmax of the raw logits f32 [n_vocab] for `id` and the top n_logprob tokens,
 * without sampling. Prompt logprobs and beams use this function. Only permitted tokens, mask u32
 * [ceil(n_vocab / 32)], can be top tokens; NULL: all tokens. */
void sample_logprobs(struct sample_work *w, const float *logits, int n_vocab, const uint32_t *mask,
                     int32_t id, int n_logprob, struct pick *out);

/* A search for stop strings in a text. Text that may be the beginning of a stop string stays
 * pending. */
struct stop_match; /* opaque */
/* Open a search for n_stop stop strings, which are copied. The caller owns *out, which is NULL
 * after an error. Return ERR_ARG if a string is empty, ERR_LIMIT if the sum of the lengths exceeds
 * 1 MiB, or ERR_MEMORY. */
int stop_match_open(struct stop_match **out, const struct text_span *stop, int n_stop,
                    struct err *e);
/* Free the matcher; NULL is allowed. */
void stop_match_close(struct stop_match *m);
/* Process new text and append to `out` the part that cannot belong to a stop string. Return the
 * index of the completed stop string; -1 if none. The string that is completed first ends the
 * search. The longest string counts if several strings are completed together. The text of the stop
 * string is emitted only if `include` is true. Later pushes emit no text and return the same index.
 * The function allocates only in `out`. */
int stop_match_push(struct stop_match *m, const char *text, size_t n, bool include,
                    struct buf *out);
/* Emit the pending text of a generation that did not end at a stop string. */
void stop_match_flush(struct stop_match *m, struct buf *out);

#endif
