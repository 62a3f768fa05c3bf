/* sample_impl.h - shared by the files of src/sample: the scratch, the stage, the sampler.
 *
 * A pick runs in phases over one struct sample_work:
 *
 *   logits --edits--> row --survey--> all tokens --cuts--> some candidates --draw--> id
 *
 * (1) At first every token of the row is a candidate, and nothing is copied. The first cut gathers
 *     the tokens that reach its floor into a list. The list stays in ascending id order, and later
 *     cuts filter it in that order. Therefore every sum has one defined order, and the lower id has
 *     precedence in ties without sorting.
 * (2) A forbidden token has the logit -inf (or NaN). A forbidden token has weight 0, and is never
 * in the list.
 *     An edit that lowers a logit never forbids the token: the minimum is -FLT_MAX.
 * (3) A pick changes no state that the next pick uses. Only the acceptance of a token changes this
 *     state.
 *
 * All passes over the vocabulary are kernels (kern.h) in f32, with one defined order and equal bits
 * on every level. */
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

/* Scratch of one thread. The arrays are in the arena `mem`. */
struct sample_work {
    struct kern kern;
    int n_vocab;
    struct arena mem;
    float *block_max; /* [ceil(n_vocab / ROW_BLOCK)] maxima of the row's blocks, by cand_survey */
    float *block_sum; /* [ceil(n_vocab / ROW_BLOCK)] sums of the blocks' weights, by cand_weigh */
    float *edited;    /* [n_vocab] logits after the edits; unused without edits */
    float *key;       /* [n_vocab] scratch of one stage: keys of its cut */
    int32_t *index;   /* [n_vocab] scratch of one stage or search */
    float *found;     /* [n_vocab] scratch of one search */
    /* The candidates are all tokens of row[n], also forbidden tokens, or a list if row is NULL. row
     * is the caller's logits or `edited`, borrowed for the pick. */
    const float *row;
    int n;
    int32_t *id;  /* [n] ids of the list, ascending */
    float *logit; /* [n] logits of the list: finite, before temperature */
    /* [n] weights of the list: exp((logit - max) / temperature); valid if `weighed` is true */
    float *weight;
    bool weighed;
    float scale;  /* 1 / temperature of the last cand_weigh */
    double total; /* sum of the weights of the last cand_weigh */
    /* highest logit of the row; reference of the weights: the highest logit of the row or of the
     * candidates (cand_raise) */
    float row_max, max;
    /* temperature of the next stage, and 1 / temperature (infinite if the temperature is 0) */
    double temperature, temperature_inverse;
};

/* Position of a cut. The cut keeps candidates with a key above `floor`, and the first n_tie
 * candidates with a key equal to it. */
struct cut {
    float floor;
    int n_tie;
};

/* Make all tokens of row f32 [n] candidates. Return false if every token is forbidden. */
bool cand_survey(struct sample_work *w, const float *row, int n);
/* Make all tokens of row f32 [n] candidates again, after cand_survey of the row. */
static inline void cand_restart(struct sample_work *w, const float *row, int n)
{
    w->weighed = w->weighed && w->row == row;
    w->row = row;
    w->n = n;
    w->max = w->row_max;
}
/* Use the highest logit of a list as the reference of the weights. The row's highest logit may be
 * so much higher, at a low temperature, that all weights are 0. */
void cand_raise(struct sample_work *w);
/* Return the id of the row's highest logit; the lowest id of equal logits. The candidates must be
 * the whole row. */
int32_t cand_best(struct sample_work *w);
float cand_float_at_least(double x); /* return the lowest f32 >= x */
/* Keep the candidates with logit >= floor, in a list. */
void cand_gather(struct sample_work *w, double floor);
/* Return a floor that at least k tokens of the row reach. The floor depends only on the block
 * maxima, because each of the k highest blocks contains a token that reaches it. */
float cand_floor_of_k(struct sample_work *w, int k);
/* Compute the sums of the weights, and the weights if the candidates are a list. */
void cand_weigh(struct sample_work *w, double temperature_inverse);
static inline int32_t cand_id(const struct sample_work *w, int at)
{
    return w->row ? at : w->id[at];
}
/* Keep the k highest candidates. The lower id has precedence in ties. */
void cand_keep_top(struct sample_work *w, int k);
/* Return a cut that also keeps the n_min first candidates of a list, in the order of key
 * f32 [w->n]. */
struct cut cand_cut_at_least(struct sample_work *w, const float *key, struct cut cut, int n_min);
/* Keep the candidates of a list that the cut selects by key f32 [w->n]. */
void cand_keep_cut(struct sample_work *w, const float *key, struct cut cut);
/* Keep the candidates with weight >= floor. */
void cand_keep_weight(struct sample_work *w, double floor);
void cand_keep_one(struct sample_work *w, int at); /* keep candidate `at` of a list */

/* Store an edited logit. A forbidden token remains forbidden. The logit of a permitted token
 * remains finite. */
static inline void logit_set(float *logit, float edited)
{
    if (!(*logit >= -FLT_MAX)) return;
    if (edited > FLT_MAX) edited = FLT_MAX;
    *logit = edited >= -FLT_MAX ? edited : -FLT_MAX;
}

/* ---- positions of cuts: rank.c -------------------------------------------------------------- */

/* Find the shortest prefix of key f32 [n] whose weights (f32 [n]; NULL: 1 each) sum to at least
 * target > 0. The order is highest first, ties by ascending index. Find the shortest prefix with
 * the sum of all weights if rounding makes this sum less than target. Overwrite w->block_sum,
 * w->index and w->found. key may be w->block_max. Only finite keys are considered. */
struct cut rank_cut(struct sample_work *w, const float *key, const float *weight, int n,
                    double target);

/* ---- the chain: chain.c ---------------------------------------------------------------------- */

enum stage_kind {
    STAGE_EDIT,  /* edits w->edited[n_vocab] in place */
    STAGE_CUT,   /* removes candidates, but never all of them */
    STAGE_SCALE, /* sets the temperature of later stages */
    STAGE_STEER, /* replaces the cuts and adapts to the picked tokens */
};

struct stage {
    enum stage_kind kind;
    bool needs_history;
    unsigned forbids; /* bit FORBIDS_* of a stage that forbids tokens; 0: the stage forbids none */
    bool (*wanted)(const struct sample_params *p);
    /* Return the stage's state, allocated in s->mem; NULL if memory is exhausted. `open` is NULL
     * for a stage without state. */
    void *(*open)(struct sampler *s);
    /* Update the state for the accepted token id, which is history[s->n_history - 1]. */
    void (*accept)(void *state, const struct sampler *s, int32_t id);
    void (*apply)(void *state, const struct sampler *s, struct sample_work *w);
    /* Update the state for the drawn candidate `at`. */
    void (*drawn)(void *state, const struct sampler *s, const struct sample_work *w, int at);
};

#define STAGE(name, sampler) extern const struct stage stage_##name;
#include "stages.def"
#undef STAGE

#define STAGE(name, sampler) +1
enum {
    N_STAGE = 0
#include "stages.def"
};
#undef STAGE

/* ---- random numbers and the draw: race.c ----------------------------------------------------- */

/* Uses of random numbers at a position: the upper 32 bits of the draw number (rng.h). Each stage
 * that draws random numbers has a separate use. */
enum random_use {
    RANDOM_BLOCK, /* a block of 64 ids; the lower bits are its number / 4 */
    RANDOM_TOKEN, /* an id; the lower bits are id / 4 */
    RANDOM_FINE,  /* addend of RANDOM_BLOCK or RANDOM_TOKEN, for further bits of one block or id */
    RANDOM_XTC = 4,
};

/* Draw a candidate by weight, after cand_weigh. Return its index. Overwrite w->weight if the
 * candidates are the row. The result depends only on the key and on the ids and weights of the
 * candidates. */
int race_draw(struct sample_work *w, const struct rng_key *key);

/* Lists shared by samplers: lists.c. */
struct bad_word {
    int32_t before;   /* second-to-last token */
    int n;            /* number of tokens, >= 2 */
    const int32_t *v; /* [n] tokens, in the arena of the lists */
};
struct match;
/* Prepared lists of a request. The arrays are in the arena `mem`, NULL if the list is empty.
 * The lists are immutable, and the last sample_lists_drop frees them. */
struct sample_lists {
    atomic_int n_ref;
    struct arena mem;
    struct token_bias *bias; /* [n_bias] */
    int32_t *single;         /* [n_single] bad words of one token */
    struct bad_word *word;   /* [n_word] all other bad words, ascending by `before` */
    uint32_t *allowed;       /* [ceil(n_vocab / 32)] one bit per token */
    int32_t *ending;         /* [n_ending] stop tokens of the model and of the request */
    struct match *breaker;   /* [n_breaker] automata of DRY's breakers, in their start state */
    int32_t *logprob_id;     /* [n_logprob_id] tokens whose logprobs are returned */
    int n_bias, n_single, n_word, n_ending, n_breaker, n_logprob_id;
};

struct sampler {
    struct sample_params p;     /* parameters; their lists are not read, because `lists` has them */
    struct sample_lists *lists; /* owned reference */
    bool own_lists;
    struct sample_vocab v;
    struct arena mem; /* memory of the stages and the history */
    bool greedy;      /* true: the most likely token is picked, without a draw */
    /* key of random numbers; its position is the number of accepted output tokens */
    struct rng_key key;
    struct link { /* a stage, static, and its state, in the arena `mem`; NULL: no state */
        const struct stage *stage;
        void *state;
    } edit[N_STAGE + SAMPLER_MAX], cut[N_STAGE + SAMPLER_MAX];
    int n_edit, n_cut;
    int context_max;
    /* [n_history] tokens of the prompt, then of the output, in the arena `mem`; NULL if no stage
     * needs them */
    int32_t *history;
    int n_history, n_prompt, n_out;
};

/* Run all stages before the draw. logits are f32 [n_vocab]. mask is u32 [ceil(n_vocab / 32)]; NULL:
 * no mask. After the call, w has the candidates, as a list or as the whole row. Return false if no
 * candidate is left. */
bool chain_candidates(const struct sampler *s, struct sample_work *w, const float *logits,
                      const uint32_t *mask);
/* Apply the edit stages and the mask u32 [ceil(n_vocab / 32)] (NULL: no mask). Return the edited
 * logits f32 [n_vocab], or `logits` itself if no stage edits. */
const float *chain_edit(const struct sampler *s, struct sample_work *w, const float *logits,
                        const uint32_t *mask);

/* Compute logprobs of the surveyed row. All tokens of the row must be candidates (logprob.c). l:
 * lists with the tokens whose logprobs are wanted; NULL if none. */
void logprobs_of_row(struct sample_work *w, const struct sample_lists *l, int32_t id, int n_logprob,
                     struct pick *out);
/* Compute logprobs of the candidates after all stages, of which id was drawn. */
void logprobs_of_draw(struct sample_work *w, int32_t id, int n_logprob, struct pick *out);
/* Return true if p picks the most likely token, without a draw. */
bool order_is_greedy(const struct sample_params *p); /* order.c */
/* Return true if an order may contain the stage, the i-th of stages.def. */
bool order_places(int i);
/* Set the temperature of the first stage after the edits (temperature.c). */
void temperature_begin(const struct sampler *s, struct sample_work *w);

/* ---- one string in a stream of bytes: match.c (Knuth, Morris, Pratt) ------------------------- */

/* State of the search for one string. The arrays are in the arena of match_make. */
struct match {
    const char *text; /* [n] copy of the string */
    int32_t *border;  /* [n] length of the longest proper border of text[0..i] */
    int n;
    int at; /* length of the longest prefix of `text` that is a suffix of the stream */
};

/* Copy the text and compute its borders. Return false if memory is exhausted. */
bool match_make(struct match *m, struct arena *mem, const char *text, size_t n);
/* Process a byte. Return true if the byte completes the text. */
bool match_step(struct match *m, char c);

#endif
