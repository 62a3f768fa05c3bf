/* sample.h - logits -> the next token: one sampler per sequence.
 *
 * A chain of stages, in this order (each a file, listed in stages.def):
 *     logit_bias, bad_words, allowed_token_ids, min_tokens / ignore_eos  (what may be picked at all)
 *     repetition, frequency, presence penalty, DRY                       (from the history)
 *     temperature; top-n-sigma, top-k, typical-p, top-p, min-p, XTC      (cut the distribution)
 *     mirostat 2 (replaces the cuts), then the draw, or greedy when temperature is 0
 * The random stream is a function of (seed, choice, position) alone: the same tokens whatever
 * else runs. Position is the number of output tokens accepted so far; a pick changes nothing,
 * only accepting does. Everything here is deterministic: float operations in one written order
 * (kern.h), ties go to the lower id. */
#ifndef QUOTH_SAMPLE_H
#define QUOTH_SAMPLE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct token_bias {
    int32_t id;
    float bias;
};
struct text_span {
    const char *text;
    size_t n;
};

/* What a request asks for; plain data, pointers borrowed from the request. A zeroed one is NOT
 * the default: start from sample_params_default. Ranges in brackets are checked by
 * sample_params_check. */
struct sample_params {
    float temperature;                   /* [0, 100]; 0 = greedy                                 */
    int32_t top_k;                       /* -1 or 0 = off, else >= 1                             */
    float top_p;                         /* (0, 1]; 1 = off                                      */
    float min_p;                         /* [0, 1]; 0 = off                                      */
    float typical_p;                     /* (0, 1]; 1 = off                                      */
    float top_n_sigma;                   /* > 0, or -1 = off                                     */
    float xtc_probability;               /* [0, 1]; 0 = off                                      */
    float xtc_threshold;                 /* [0, 1]; above 0.5 = off                              */
    float dry_multiplier;                /* >= 0; 0 = off                                        */
    float dry_base;                      /* >= 1, default 1.75                                   */
    int32_t dry_allowed_length;          /* >= 0, default 2                                    */
    int32_t dry_penalty_last_n;          /* -1 = whole context, 0 = off                        */
    const struct text_span *dry_breaker; /* sequence breakers [n_dry_breaker]         */
    int n_dry_breaker;                   /* -1 = the usual four: \n : " *                        */
    int32_t mirostat;                    /* 0 or 2                                               */
    float mirostat_tau;                  /* > 0, default 5                                       */
    float mirostat_eta;                  /* (0, 1], default 0.1                                  */
    float repetition_penalty;            /* > 0; 1 = off; over prompt and output                 */
    float frequency_penalty;             /* [-2, 2]; over output only                            */
    float presence_penalty;              /* [-2, 2]; over output only                            */
    int32_t repeat_last_n;               /* window of the three penalties: -1 = all (default)    */
    /* bias in [-100, 100]; -100 bans (becomes -inf) */
    const struct token_bias *bias;
    int n_bias;
    const int32_t *allowed;
    int n_allowed; /* n_allowed 0 = all             */
    const struct ids *bad_word;
    int n_bad_word;     /* token sequences never to be completed */
    int32_t min_tokens; /* no end-of-generation or stop token before it         */
    bool ignore_eos;
    const int32_t *stop_id;
    int n_stop_id; /* stop tokens besides the model's own */
    uint64_t seed;
    bool seeded; /* false: the engine chooses a seed                     */
    /* -1 = none wanted; else the picked one and top N (<= 20 by the API, <= 100 here) */
    int32_t n_logprob;
};

extern const struct sample_params sample_params_default;

/* 0, or ERR_ARG naming the field, its value and its range. */
int sample_params_check(const struct sample_params *p, int n_vocab, struct err *e);

struct sampler; /* one per sequence; opaque; owned by the engine */

/* What the sampler must know of the vocabulary, made once per model. */
struct sample_vocab {
    int n_vocab;
    const int32_t *eog;
    int n_eog;             /* the model's end-of-generation ids */
    const void *tokenizer; /* passed to bytes()                 */
    /* for DRY's breakers; may be NULL */
    const char *(*bytes)(const void *tokenizer, int32_t id, size_t *n);
};

/* All memory is taken here (scratch for n_vocab candidates is shared through `work`), none later;
 * nothing of `p` is read afterwards, what `v` points to is borrowed for the sampler's life. p is
 * checked (ERR_ARG). context_max: the longest sequence it will see, prompt and output. */
struct sample_work; /* scratch for one thread, sized for n_vocab */
/* cpu_level as for kern_open, NULL: the best; it never changes a token. */
int sample_work_open(struct sample_work **out, int n_vocab, const char *cpu_level, struct err *e);
void sample_work_close(struct sample_work *w);

int sampler_open(struct sampler **out, const struct sample_params *p, const struct sample_vocab *v,
                 uint32_t choice, int context_max, struct err *e);
void sampler_close(struct sampler *s); /* NULL is fine */
int64_t sampler_bytes(const struct sampler *s); /* that it holds */

/* Tell the history: tokens of the prompt (before the first pick), then every accepted token. */
void sampler_accept_prompt(struct sampler *s, const int32_t *ids, int n);
void sampler_accept(struct sampler *s, int32_t id);

struct logprob {
    int32_t id;
    float logprob;
    int32_t rank;
}; /* rank 1 = most likely */

struct pick {
    int32_t id; /* the token; -1 if nothing may be picked (all masked) */
    struct logprob
        chosen; /* of the model's own distribution: log-softmax of the raw logits, before any stage;
                              its id alone when n_logprob is -1; -inf and rank 0 when id is -1 */
    int n_top;  /* filled entries of top[]: n_logprob of them (fewer only where fewer tokens have a
                              finite logit), descending, ties to the lower id */
    struct logprob top[100];
};

/* Pick from logits f32 [n_vocab] (read only). `mask`: bit i set = token i allowed,
 * [ceil(n_vocab/32)], or NULL
 * (a grammar's). No allocation. Engine thread, or any thread with its own `work`. */
void sampler_pick(struct sampler *s, struct sample_work *w, const float *logits,
                  const uint32_t *mask, struct pick *out);

/* log-softmax of the raw logits for `id` and the top n_logprob, without sampling (prompt
 * logprobs). */
void sample_logprobs(struct sample_work *w, const float *logits, int n_vocab, int32_t id,
                     int n_logprob, struct pick *out);

/* Stop strings: text is withheld while it could still be the beginning of one. */
struct stop_match; /* opaque */
/* ERR_ARG for an empty string, ERR_LIMIT beyond 1 MiB of them. The strings are copied. */
int stop_match_open(struct stop_match **out, const struct text_span *stop, int n_stop,
                    struct err *e);
void stop_match_close(struct stop_match *m);
/* Feed new text; appends to `out` what is safe to show now. Returns the index of the stop string
 * that was completed
 * (the earliest to be complete, of several the longest; its own text is included only if
 * `include`), or -1. From then on nothing more comes out, and every push returns that index.
 * Allocates in `out` only. */
int stop_match_push(struct stop_match *m, const char *text, size_t n, bool include,
                    struct buf *out);
/* generation ended otherwise: release the rest */
void stop_match_flush(struct stop_match *m, struct buf *out);

#endif
