/* sample_impl.h - shared by the files of src/sample: the scratch, the stage, the sampler.
 *
 * A pick runs in phases over one struct sample_work:
 *
 *   logits --edits--> row --survey--> all tokens --cuts--> some candidates --draw--> id
 *
 * (1) At first every token of the row is a candidate, and nothing is copied. The first cut gathers
 *     the tokens that reach its floor into a list. The list stays in ascending id order, and later
 *     cuts filter it in that order. So every sum has one written order, and ties go to the lower id
 *     without sorting.
 * (2) Forbidden means -inf (or NaN); such a token has weight 0 and never enters the list. An edit
 *     that lowers a token never forbids it: it stops at -FLT_MAX.
 * (3) A pick changes nothing that the next pick uses. Only accepting a token does.
 *
 * All passes over the vocabulary are kernels (kern.h): f32, one written order, the same bits on
 * every level. */
#ifndef QUOTH_SAMPLE_IMPL_H
#define QUOTH_SAMPLE_IMPL_H

#include "sample.h"
#include "base/rng.h"
#include "kern/kern.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/* ---- scratch and candidates: cand.c ---------------------------------------------------------- */

struct sample_work {
    struct kern kern;
    int n_vocab;
    struct arena mem;
    float *block_max; /* [ceil(n_vocab / ROW_BLOCK)] of the row, by cand_survey */
    float *block_sum; /* [ceil(n_vocab / ROW_BLOCK)] of the weights, by cand_weigh */
    float *edited;    /* [n_vocab] the logits after the edits, if there are any */
    float *key;       /* [n_vocab] scratch of one stage: its cut key */
    int32_t *index;   /* [n_vocab] scratch of one stage or search */
    float *found;     /* [n_vocab] scratch of one search */
    /* The candidates: all of row[n], forbidden ones included, or a list if row is NULL. */
    const float *row;
    int n;
    int32_t *id;   /* [n] of the list, ascending */
    float *logit;  /* [n] of the list: finite, before temperature */
    float *weight; /* [n] of the list: exp((logit - max) / temperature), valid if `weighed` */
    bool weighed;
    float scale;  /* 1 / temperature of the last cand_weigh */
    double total; /* sum of the weights of the last cand_weigh */
    float max;    /* highest logit of the row */
};

/* Make the row the candidates. Returns false if no token may be picked. */
bool cand_survey(struct sample_work *w, const float *row, int n);
/* Make the whole row the candidates again, after cand_survey of it. */
static inline void cand_restart(struct sample_work *w, const float *row, int n)
{
    w->weighed = w->weighed && w->row == row;
    w->row = row;
    w->n = n;
}
/* Return the id of the row's highest logit, ties to the lower id. Only while the candidates are the
 * whole row. */
int32_t cand_best(struct sample_work *w);
/* Keep the candidates with logit >= floor, in a list. */
void cand_gather(struct sample_work *w, double floor);
/* Return a floor that at least k tokens of the row reach, from the block maxima alone: each of the
 * k highest blocks has one. */
float cand_floor_of_k(struct sample_work *w, int k);
/* Compute the sums of the weights, and of a list the weights. */
void cand_weigh(struct sample_work *w, double temperature_inverse);
static inline int32_t cand_id(const struct sample_work *w, int at)
{
    return w->row ? at : w->id[at];
}
/* Keep the k highest candidates, ties to the lower id. */
void cand_keep_top(struct sample_work *w, int k);
/* Keep part of a list: by key, by weight, or one candidate. */
struct cut;
void cand_keep_cut(struct sample_work *w, const float *key, struct cut cut);
void cand_keep_weight(struct sample_work *w, double floor); /* weight >= floor */
void cand_keep_one(struct sample_work *w, int at);

/* Write an edited logit back: a forbidden token stays forbidden, an allowed one stays finite. */
static inline void logit_set(float *logit, float edited)
{
    if (!(*logit >= -FLT_MAX)) return;
    if (edited > FLT_MAX) edited = FLT_MAX;
    *logit = edited >= -FLT_MAX ? edited : -FLT_MAX;
}

/* ---- where to cut: rank.c -------------------------------------------------------------------- */

/* A cut keeps candidates with a key above `floor`, and the first n_tie of those with an equal
 * key. */
struct cut {
    float floor;
    int n_tie;
};

/* Find the shortest prefix of key f32 [n], highest first and ties to the lower index, whose weights
 * (f32 [n]; NULL: 1 each) sum to at least target > 0. If the sum of all is below target (by
 * rounding), find the shortest with that sum. Overwrites w->block_sum, w->index and w->found. key
 * may be w->block_max; only finite keys count. */
struct cut rank_cut(struct sample_work *w, const float *key, const float *weight, int n,
                    double target);

/* ---- the chain: chain.c ---------------------------------------------------------------------- */

enum stage_kind {
    STAGE_EDIT,  /* changes w->edited[n_vocab] in place */
    STAGE_CUT,   /* removes candidates, never all */
    STAGE_STEER, /* a cut that replaces the others and learns from the picked tokens */
};

struct stage {
    enum stage_kind kind;
    bool needs_history;
    bool (*wanted)(const struct sample_params *p);
    /* Allocate the state in s->mem; NULL: no memory. NULL for a stage without state. */
    void *(*open)(struct sampler *s);
    /* Token id was added to the history as number s->n_history - 1. */
    void (*accept)(void *state, const struct sampler *s, int32_t id);
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

/* ---- random numbers and the draw: race.c ----------------------------------------------------- */

/* What a random number of a position is for: the upper 32 bits of its draw number (rng.h). Each
 * stage that draws has its own. */
enum random_use {
    RANDOM_BLOCK, /* lower bits: a block of 64 ids, / 4 */
    RANDOM_TOKEN, /* lower bits: an id, / 4 */
    RANDOM_FINE,  /* added to these two: the further bits of one block or id */
    RANDOM_XTC = 4,
};

/* Draw a candidate by weight; needs cand_weigh. Overwrites w->weight if the candidates are the row.
 * The result depends on the key and on the candidates' ids and weights alone. */
int race_draw(struct sample_work *w, const struct rng_key *key);

/* Lists shared by samplers: lists.c. */
struct bad_word {
    int32_t before; /* the token before the last one */
    int n;          /* >= 2 */
    const int32_t *v;
};
struct match;
struct sample_lists {
    atomic_int n_ref;
    struct arena mem;
    struct token_bias *bias; /* [n_bias] */
    int32_t *single;         /* [n_single] bad words of one token */
    struct bad_word *word;   /* [n_word] all other bad words, ascending by `before` */
    uint32_t *allowed;       /* [ceil(n_vocab / 32)] a bit each */
    int32_t *ending;         /* [n_ending] the model's own and the request's stop tokens */
    struct match *breaker;   /* [n_breaker] of DRY, in their start state */
    int n_bias, n_single, n_word, n_ending, n_breaker;
};

struct sampler {
    struct sample_params p;     /* its lists are not read: see `lists` */
    struct sample_lists *lists; /* a reference */
    bool own_lists;
    struct sample_vocab v;
    struct arena mem; /* for the stages and the history */
    double temperature_inverse;
    struct rng_key key; /* position: tokens of output accepted so far */
    struct link {
        const struct stage *stage;
        void *state;
    } edit[N_STAGE], cut[N_STAGE];
    int n_edit, n_cut;
    int context_max;
    int32_t *history; /* [n_history] prompt, then output; NULL if no stage needs it */
    int n_history, n_prompt, n_out;
};

/* Run all stages before the draw: w holds the candidates, a list or still the whole row. Returns
 * false if there are none. */
bool chain_candidates(const struct sampler *s, struct sample_work *w, const float *logits,
                      const uint32_t *mask);
/* Apply the edit stages and the mask. Returns the edited logits, or `logits` itself if there is no
 * edit. */
const float *chain_edit(const struct sampler *s, struct sample_work *w, const float *logits,
                        const uint32_t *mask);

/* Compute logprobs of the surveyed row, all of which are candidates: logprob.c. */
void logprobs_of_row(struct sample_work *w, int32_t id, int n_logprob, struct pick *out);

/* ---- one string in a stream of bytes: match.c (Knuth, Morris, Pratt) ------------------------- */

struct match {
    const char *text; /* [n] a copy */
    int32_t *border;  /* [n] length of the longest proper border of text[0..i] */
    int n;
    int at; /* length of the longest prefix of `text` that the stream ends with */
};

/* false: no memory */
bool match_init(struct match *m, struct arena *mem, const char *text, size_t n);
bool match_step(struct match *m, char c); /* true: complete */

#endif
