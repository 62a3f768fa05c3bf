/* budget.h - limits the rows of prompts in a step while other sequences decode. Engine thread.
 *
 * A sequence that decodes gets one token per step, so a step's time is the time between two tokens.
 * The target limits the time of a step, and prompts use the remainder. The budget estimates a
 * step's time from earlier steps (budget.c). The budget divides prompts into chunks, which changes
 * no bit of the result. */
#ifndef QUOTH_ENGINE_BUDGET_H
#define QUOTH_ENGINE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* The part of a step's work that determines its time. Zero the struct, then call step_load_add. */
struct step_load {
    int n_row, n_prompt_row; /* number of all rows; number of rows of prompts */
    /* numbers of positions whose K and V are read: the sum over all sequences, and over prompts */
    double n_kv, n_prompt_kv;
    /* number of pairs (prompt row, earlier position): the quadratic part */
    double n_pair;
};
/* Add a sequence with n_row rows at positions [pos, pos + n_row): prompt rows, or one decoded
 * row. */
void step_load_add(struct step_load *l, int pos, int n_row, bool prompt);

struct budget_options {
    /* time limit of a step with decodes in microseconds; INFINITY: no limit; 0: the next three
     * fields give the limit */
    double target_us;
    double multiple;     /* limit as a multiple of the time of the step without prompts; 0: 2 */
    double multiple_max; /* maximum multiple if prompts outnumber decodes; 0: multiple */
    double us_min;       /* minimum of the limit that follows from the multiple */
};

enum { BUDGET_N_TERM = 7, BUDGET_N_KIND = 3 };

/* Budget of a step's time. The struct is plain data without a close function. */
struct budget {
    struct budget_options options; /* options with defaults filled in */
    double multiple;               /* current multiple */
    bool contended;                /* true: the limit also holds for steps of prompts only */
    double weight[BUDGET_N_TERM];  /* microseconds per unit of each term */
    double speed;                  /* current slowdown of the machine, relative to the weights */
    double margin;                 /* 99th percentile of time / estimate in mixed steps */
    /* number of observed steps, and maximum number of prompt rows in a step */
    int n_observed[BUDGET_N_KIND], prompt_row_max;
    /* number of mixed steps since the last step without prompts */
    int n_since_idle;
    struct step_load idle; /* load of the last step without prompts */
    /* decayed sums over the steps of each kind: products of terms, products of terms and times */
    double xx[BUDGET_N_KIND][BUDGET_N_TERM][BUDGET_N_TERM], xy[BUDGET_N_KIND][BUDGET_N_TERM];
};
/* Set b to a budget without observations. */
void budget_init(struct budget *b, const struct budget_options *o);

/* Return the number of rows that a prompt at position pos may have in a step with load `l` so far
 * (all decodes included). The result is in [row_min, row_max]. The result is at least 1 in a step
 * without a prompt row, so that no target stops prompts. Return row_max if no sequence decodes or
 * there is no target. Return 0 for every prompt in one step of 64, so that the time of steps
 * without prompts stays known. After a change of the sequences that decode, the result is 0 in one
 * step of 16. */
int budget_rows(const struct budget *b, const struct step_load *l, int pos, int row_min,
                int row_max);
/* Set the number of sequences that will decode, and the number of sequences with remaining prompt
 * tokens, for the next steps. */
void budget_share(struct budget *b, int n_decode, int n_prompt);
/* Set `contended` to true if other requests arrive. A step of prompts only must also be short if
 * other requests arrive. */
void budget_contended(struct budget *b, bool contended);
/* Record that a step with load l took us microseconds. */
void budget_observe(struct budget *b, const struct step_load *l, int64_t us);
/* Return the estimated microseconds of a step with load l. */
double budget_us(const struct budget *b, const struct step_load *l);
/* Return true if the number of observed steps suffices for an estimate. */
bool budget_is_fitted(const struct budget *b);

#endif
