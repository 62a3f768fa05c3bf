/* sample.h - logits -> the next token: one sampler per sequence.
 *
 * A chain of stages, in this order (each a file, listed in stages.def):
 *     logit_bias, bad_words, allowed_token_ids, min_tokens               (which may be picked)
 *     repetition, frequency, presence penalty, DRY                       (from the history)
 *     temperature; top-n-sigma, top-k, typical-p, top-p, min-p, XTC      (cut the distribution)
 *     mirostat 2 (replaces the cuts), then the draw, or greedy if temperature is 0
 * The random numbers are functions of (seed, choice, position, token id) only, so the tokens do not
 * depend on other sequences. Position is the number of output tokens accepted so far; a pick changes
 * no state, accepting does. Everything here is deterministic: float operations in one written order
 * (kern.h), ties go to the lower id. */
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
struct text_span {
    const char *text;
    size_t n;
};

/* Sampling parameters of a request; plain data, pointers borrowed from the request. A zeroed one is
 * NOT the default: start from sample_params_default. The numbers are rows of params.def, with their
 * ranges. */
struct sample_params {
#define REAL(name, ...)     float name;
#define INT(name, ...)      int32_t name;
#define ONE_INT(name, ...)  int32_t name;
#define ONE_FLAG(name, ...) bool name;
#include "sample/params.def"
    const struct text_span *dry_breaker; /* sequence breakers of DRY [n_dry_breaker] */
    int n_dry_breaker;                   /* -1: the usual four: \n : " * */
    const struct token_bias *bias;       /* in [-100, 100]; -100 forbids (becomes -inf) */
    int n_bias;
    const int32_t *allowed; /* only these are picked; n_allowed 0: all */
    int n_allowed;
    const struct ids *bad_word; /* token sequences that are never completed */
    int n_bad_word;
    const int32_t *stop_id; /* stop tokens besides the model's own */
    int n_stop_id;
    uint64_t seed;
    bool seeded; /* false: the engine chooses a seed */
    /* -1: none; else the picked token's and the top N (<= 20 by the API, <= 100 here) */
    int32_t n_logprob;
    /* borrowed. If not NULL, everything here was checked and the lists above (bias to bad_word,
     * stop_id, dry_breaker) are in it and not read any more. */
    struct sample_lists *lists;
};

extern const struct sample_params sample_params_default;

/* A row of params.def. */
struct sample_param {
    const char *name;
    enum sample_kind { SAMPLE_REAL, SAMPLE_INT, SAMPLE_FLAG, SAMPLE_OTHER } kind;
    const char *type;   /* JSON Schema type */
    size_t at;          /* offset in struct sample_params; OTHER: 0 */
    double fallback;    /* the default */
    struct range range; /* REAL and INT only */
    const char *key;    /* of the model's metadata; NULL: none */
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

/* Get or set the value of a REAL, INT or FLAG. A value that a float cannot hold becomes an
 * infinity, which no range contains. */
double sample_param_get(const struct sample_params *p, const struct sample_param *which);
void sample_param_set(struct sample_params *p, const struct sample_param *which, double value);

/* Check p. Returns 0, or ERR_ARG with the field, its range and its value. engine_submit checks each
 * request once; with p->lists there is nothing left to check. Any thread. */
int sample_params_check(const struct sample_params *p, int n_vocab, struct err *e);

struct sampler;      /* one per sequence; opaque; owned by the engine */
struct sample_lists; /* the lists of a request, prepared; opaque; immutable, any thread */

/* The sampler's view of the vocabulary, made once per model. */
struct sample_vocab {
    int n_vocab;
    const int32_t *eog;
    int n_eog;             /* the model's end-of-generation ids */
    const void *tokenizer; /* passed to bytes() */
    /* for DRY's breakers; may be NULL */
    const char *(*bytes)(const void *tokenizer, int32_t id, size_t *n);
};

/* Memory of a sampler is allocated at open (scratch for n_vocab candidates is shared through
 * `work`), none later. Nothing of `p` is read afterwards; what `v` points to is borrowed for the
 * sampler's life. Without p->lists, p is checked (ERR_ARG). context_max: the longest sequence,
 * prompt and output. */
struct sample_work; /* scratch for one thread, sized for n_vocab */
/* cpu_level: as for kern_open, NULL: the best; it never changes a token. */
int sample_work_open(struct sample_work **out, int n_vocab, const char *cpu_level, struct err *e);
void sample_work_close(struct sample_work *w);

/* Copy the lists of p, which sample_params_check has accepted, once for all samplers that use them.
 * ERR_ARG: they leave no token to pick. min_tokens may be lower for some samplers, but 0 if it is 0
 * here. sample_lists_close releases a reference returned by this or by sample_lists_ref; NULL is
 * allowed. */
int sample_lists_open(struct sample_lists **out, const struct sample_params *p,
                      const struct sample_vocab *v, struct err *e);
struct sample_lists *sample_lists_ref(struct sample_lists *l);
void sample_lists_close(struct sample_lists *l);
int64_t sample_lists_bytes(const struct sample_lists *l); /* bytes; l may be NULL */
/* Return whether bias, bad words or allowed ids forbid a token whatever its logit. */
bool sample_lists_forbid(const struct sample_lists *l);

int sampler_open(struct sampler **out, const struct sample_params *p, const struct sample_vocab *v,
                 uint32_t choice, int context_max, struct err *e);
void sampler_close(struct sampler *s);          /* s may be NULL */
int64_t sampler_bytes(const struct sampler *s); /* bytes, without borrowed lists */

/* Add to the history: tokens of the prompt (before the first pick), then every accepted token. */
void sampler_accept_prompt(struct sampler *s, const int32_t *ids, int n);
void sampler_accept(struct sampler *s, int32_t id);

struct logprob {
    int32_t id;
    float logprob;
    int32_t rank;
}; /* rank 1: most likely */

struct pick {
    int32_t id; /* the token; -1 if every token is forbidden */
    /* from the model's own distribution: log-softmax of the raw logits, before any stage; id only
     * if n_logprob is -1; -inf and rank 0 if id is -1 */
    struct logprob chosen;
    /* entries of top[]: n_logprob (fewer only if fewer logits are finite), descending, ties to the
     * lower id */
    int n_top;
    struct logprob top[100];
};

/* Pick from logits f32 [n_vocab] (read only). mask: bit i set = token i allowed, [ceil(n_vocab /
 * 32)]; NULL: no mask. No allocation. Engine thread, or any thread with its own `work`. */
void sampler_pick(struct sampler *s, struct sample_work *w, const float *logits,
                  const uint32_t *mask, struct pick *out);

/* Compute the log-softmax of the raw logits for `id` and the top n_logprob, without sampling
 * (prompt logprobs, beams). mask as for sampler_pick; the top are of the allowed tokens. */
void sample_logprobs(struct sample_work *w, const float *logits, int n_vocab, const uint32_t *mask,
                     int32_t id, int n_logprob, struct pick *out);

/* Stop strings: text is withheld while it could be the beginning of one. */
struct stop_match; /* opaque */
/* Copy the strings. ERR_ARG: one is empty; ERR_LIMIT: more than 1 MiB in total. */
int stop_match_open(struct stop_match **out, const struct text_span *stop, int n_stop,
                    struct err *e);
void stop_match_close(struct stop_match *m);
/* Process new text and append to `out` what is safe to show now. Returns the index of the completed
 * stop string, or -1. The earliest completed one wins, then the longest; its own text is included
 * only if `include`. After that no more text comes out and every push returns that index. Allocates
 * in `out` only. */
int stop_match_push(struct stop_match *m, const char *text, size_t n, bool include,
                    struct buf *out);
/* Release the withheld text when generation ended otherwise. */
void stop_match_flush(struct stop_match *m, struct buf *out);

#endif
