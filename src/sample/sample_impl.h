/* sample_impl.h - what the files of src/sample share: the scratch, the stage, the sampler.
 *
 * A pick runs in three phases over one struct sample_work:
 *
 *   logits --edits--> logit[n_vocab] --gather--> candidates --cuts--> fewer --draw--> id
 *
 * (1) Candidates stay in ascending id order; a cut is a filter that keeps this order. So every sum
 *     has one written order, and ties go to the lower id without anything being sorted.
 * (2) Forbidden means -inf (or NaN); such a token never becomes a candidate. An edit that lowers a
 *     token never forbids it: it stops at -FLT_MAX.
 * (3) A pick changes nothing that the next pick sees. Only accepting a token does. */
#ifndef QUOTH_SAMPLE_IMPL_H
#define QUOTH_SAMPLE_IMPL_H

#include "sample.h"
#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- scratch and candidates: cand.c ---------------------------------------------------------- */

enum {
    BLOCK_TOKENS = 64,  /* logits under one block maximum                        */
    CHUNK_CANDS = 64,   /* candidates under one partial sum of the weights       */
    N_BUCKET = 1 << 11, /* of rank_cut's radix search                            */
};

struct sample_work {
    int n_vocab;
    struct arena mem;
    float *block_max;  /* [ceil(n_vocab / BLOCK_TOKENS)] of the logits, NaN left out; -inf: nothing
                          there */
    double *chunk_sum; /* [ceil(n_vocab / CHUNK_CANDS)] sums of weight                  */
    double *bucket;    /* [N_BUCKET]                                                    */
    uint32_t *rank;    /* [n_vocab] scratch of one stage; for candidates: lower = better */
    /* The candidates. Before the gather, logit[] is the edited copy of all n_vocab logits. */
    int n;
    int32_t *id;    /* [n] ascending                                                    */
    float *logit;   /* [n] finite, before temperature                                   */
    double *weight; /* [n] exp((logit - max) / temperature), valid while `weighed`      */
    bool weighed;
    double total; /* sum of weight, as of the last cand_weigh                           */
    float max;    /* highest logit of all that were gathered                            */
};

/* Candidates better than `rank` stay, and the first n_tie of those equal to it. */
struct cut {
    uint32_t rank;
    int n_tie;
};

/* Logits [n_vocab] -> block_max and max. false: nothing may be picked. */
bool cand_survey(struct sample_work *w, const float *logits, int n_vocab);
/* The id of the highest logit, ties to the lower id; after cand_survey. */
int32_t cand_best(const struct sample_work *w, const float *logits, int n_vocab);
/* A logit that at least k tokens reach, from the block maxima alone: the k highest blocks have one
 * each. */
float cand_floor_of_k(struct sample_work *w, int n_vocab, int k);
/* The tokens with logit >= floor become the candidates. `logits` may be w->logit itself. */
void cand_gather(struct sample_work *w, const float *logits, int n_vocab, float floor);
/* Compute the weights (once) and their total. */
void cand_weigh(struct sample_work *w, double temperature_inverse);
/* x[0] + ... + x[n-1] in the written order of cand.c. */
double sum_lanes(const double *x, int n);
/* The candidate that u in [0, 1) falls on; needs weights and total. */
int cand_draw(const struct sample_work *w, double u);

void cand_rank_by_logit(struct sample_work *w);
void cand_keep_cut(struct sample_work *w, struct cut cut);
void cand_keep_logit(struct sample_work *w, double floor);  /* logit >= floor  */
void cand_keep_weight(struct sample_work *w, double floor); /* weight >= floor */
void cand_keep_one(struct sample_work *w, int at);

/* Keep what `mask` allows (bit i = token i); the rest becomes -inf. */
void logits_mask(float *logit, const uint32_t *mask, int n_vocab);

/* Write an edited logit back: a forbidden token stays forbidden, an allowed one stays finite. */
static inline void logit_set(float *logit, float edited)
{
    if (!(*logit >= -FLT_MAX)) return;
    if (edited > FLT_MAX) edited = FLT_MAX;
    *logit = edited >= -FLT_MAX ? edited : -FLT_MAX;
}

/* ---- order: rank.c --------------------------------------------------------------------------- */

/* Unsigned order of the ranks = descending order of the logits; -0 and 0 are equal. */
static inline uint32_t rank_of_logit(float logit)
{
    uint32_t u;
    logit += 0.0f;
    memcpy(&u, &logit, sizeof u);
    return u >> 31 ? u : ~u & 0x7fffffffu;
}

static inline float logit_of_rank(uint32_t rank)
{
    float logit;
    uint32_t u = rank >> 31 ? rank : ~rank & 0x7fffffffu;
    memcpy(&logit, &u, sizeof logit);
    return logit;
}

/* The shortest prefix, in the order of (w->rank, index), whose weights reach `target` > 0; weight
 * NULL counts each as 1. If all together fall short of it (by rounding), the cut is behind the last
 * weight above 0. */
struct cut rank_cut(struct sample_work *w, const double *weight, int n, double target);

/* ---- the chain: chain.c ---------------------------------------------------------------------- */

enum stage_kind {
    STAGE_EDIT,  /* changes w->logit[n_vocab] in place                             */
    STAGE_CUT,   /* removes candidates, never all                                  */
    STAGE_STEER, /* a cut that replaces the others and learns from what was picked */
};

struct stage {
    enum stage_kind kind;
    bool needs_history;
    bool (*wanted)(const struct sample_params *p);
    /* Its state, from s->mem; NULL: no memory. A stage without state leaves this out. */
    void *(*open)(struct sampler *s);
    /* The token id just joined the history, as number s->n_history - 1. */
    void (*accept)(void *state, const struct sampler *s, int32_t id);
    /* A logit below which nothing survives this cut when it is the first one. Optional: saves
     * gathering. */
    float (*floor)(const struct sampler *s, struct sample_work *w);
    void (*apply)(void *state, const struct sampler *s, struct sample_work *w);
    /* Candidate `at` was drawn. */
    void (*drawn)(void *state, const struct sampler *s, const struct sample_work *w, int at);
};

#define STAGE(name) extern const struct stage stage_##name;
#include "stages.def"
#undef STAGE

#define STAGE(name) +1
enum {
    N_STAGE = 0
#include "stages.def"
};
#undef STAGE

enum {
    DRAW_TOKEN,
    DRAW_XTC
}; /* which random number of a position; each stage that draws has its own */

struct sampler {
    struct sample_params p; /* its lists are borrowed, and read during sampler_open only */
    struct sample_vocab v;
    struct arena mem; /* of the stages, and the history */
    double temperature_inverse;
    struct rng_key key; /* position = tokens of output accepted so far */
    struct link {
        const struct stage *stage;
        void *state;
    } edit[N_STAGE], cut[N_STAGE];
    int n_edit, n_cut;
    int context_max;
    int32_t *history; /* [n_history] prompt, then output; NULL if no stage needs it */
    int n_history, n_prompt, n_out;
};

/* Everything but the draw: the candidates of this position are in `w` (w->n may be 0). */
void chain_candidates(const struct sampler *s, struct sample_work *w, const float *logits,
                      const uint32_t *mask);
/* The edit stages and the mask alone: the edited logits, which are `logits` itself if there is no
 * edit. */
const float *chain_edit(const struct sampler *s, struct sample_work *w, const float *logits,
                        const uint32_t *mask);

/* ---- one string in a stream of bytes: match.c (Knuth, Morris, Pratt) ------------------------- */

struct match {
    const char *text; /* [n] a copy */
    int32_t *border;  /* [n] length of the longest proper border of text[0..i] */
    int n;
    int at; /* how many bytes of `text` the stream now ends with (the longest such) */
};

bool match_init(struct match *m, struct arena *mem, const char *text,
                size_t n);                /* false: no memory */
bool match_step(struct match *m, char c); /* true: complete   */

#endif
