/* sample_impl.h - what the files of src/sample share: the scratch, the stage, the sampler.
 *
 * A pick runs in phases over one struct sample_work:
 *
 *   logits --edits--> row --survey--> all tokens --cuts--> some candidates --draw--> id
 *
 * (1) At first every token of the row is a candidate, and nothing is copied; the first cut gathers
 *     those that reach its floor into a list. The list stays in ascending id order, and a later cut
 *     is a filter that keeps this order. So every sum has one written order, and ties go to the
 *     lower id without anything being sorted.
 * (2) Forbidden means -inf (or NaN); such a token weighs 0 and never enters the list. An edit that
 *     lowers a token never forbids it: it stops at -FLT_MAX.
 * (3) A pick changes nothing that the next pick sees. Only accepting a token does.
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
#include <stdint.h>
#include <string.h>

/* ---- scratch and candidates: cand.c ---------------------------------------------------------- */

struct sample_work {
    struct kern kern;
    int n_vocab;
    struct arena mem;
    float *block_max; /* [ceil(n_vocab / ROW_BLOCK)] of the row, by cand_survey            */
    float *block_sum; /* [ceil(n_vocab / ROW_BLOCK)] of the weights, by cand_weigh         */
    float *edited;    /* [n_vocab] the logits after the edits, where there are any         */
    float *key;       /* [n_vocab] scratch of one stage: what it cuts by                   */
    int32_t *index;   /* [n_vocab] scratch of one stage or search                          */
    float *found;     /* [n_vocab] scratch of one search                                   */
    /* The candidates: all of row[n], forbidden ones included, or, when row is NULL, a list. */
    const float *row;
    int n;
    int32_t *id;   /* [n] of the list, ascending                                          */
    float *logit;  /* [n] of the list: finite, before temperature                         */
    float *weight; /* [n] of the list: exp((logit - max) / temperature), while `weighed`  */
    bool weighed;
    float scale;  /* 1 / temperature, as of the last cand_weigh                           */
    double total; /* sum of the weights, likewise                                         */
    float max;    /* highest logit of the row                                             */
};

/* The row becomes the candidates. false: nothing may be picked. */
bool cand_survey(struct sample_work *w, const float *row, int n);
/* After cand_survey of the same row: all of it again. */
static inline void cand_restart(struct sample_work *w, const float *row, int n)
{
    w->weighed = w->weighed && w->row == row;
    w->row = row;
    w->n = n;
}
/* The id of the row's highest logit, ties to the lower id; after cand_survey, all still there. */
int32_t cand_best(struct sample_work *w);
/* Candidates with logit >= floor stay, in a list. */
void cand_gather(struct sample_work *w, double floor);
/* A floor that k tokens of the row reach, from the block maxima alone: the k highest blocks have
 * one each. */
float cand_floor_of_k(struct sample_work *w, int k);
/* Compute the sums of the weights, and of a list the weights. */
void cand_weigh(struct sample_work *w, double temperature_inverse);
/* The candidate that u in [0, 1) falls on; needs cand_weigh. */
int cand_draw(struct sample_work *w, double u);
static inline int32_t cand_id(const struct sample_work *w, int at)
{
    return w->row ? at : w->id[at];
}
/* The k highest stay, ties to the lower id. */
void cand_keep_top(struct sample_work *w, int k);
/* Filters of a list. */
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

/* Candidates with a key above `floor` stay, and the first n_tie of those whose key is equal. */
struct cut {
    float floor;
    int n_tie;
};

/* The shortest prefix of key f32 [n], highest first and the lower index among equals, whose weights
 * (f32 [n]; NULL: 1 each) reach target > 0. If all together fall short of it (by rounding), the
 * shortest that weighs as much as all. Overwrites w->block_sum, w->index and w->found.
 * key may be w->block_max; finite keys alone count. */
struct cut rank_cut(struct sample_work *w, const float *key, const float *weight, int n,
                    double target);

/* ---- the chain: chain.c ---------------------------------------------------------------------- */

enum stage_kind {
    STAGE_EDIT,  /* changes w->edited[n_vocab] in place                            */
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

/* Everything but the draw: the candidates of this position are in `w`, a list or still the whole
 * row. false: there are none. */
bool chain_candidates(const struct sampler *s, struct sample_work *w, const float *logits,
                      const uint32_t *mask);
/* The edit stages and the mask alone: the edited logits, which are `logits` itself if there is no
 * edit. */
const float *chain_edit(const struct sampler *s, struct sample_work *w, const float *logits,
                        const uint32_t *mask);

/* Logprobs of the row that was surveyed, all of which are candidates: logprob.c. */
void logprobs_of_row(struct sample_work *w, int32_t id, int n_logprob, struct pick *out);

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
