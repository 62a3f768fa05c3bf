/* budget.h - how many rows of prompts a step may take while other sequences decode. Engine thread.
 *
 * Whoever decodes gets a token per step, so a step's time is the time between two tokens: the target
 * bounds it, and prompts get what is left. What a step will take is estimated from the steps before
 * (budget.c). The budget decides how a prompt is cut, which changes no bit of the result. */
#ifndef QUOTH_ENGINE_BUDGET_H
#define QUOTH_ENGINE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* What a step computes, as far as its time depends on it. Zeroed, then step_load_add. */
struct step_load {
    int n_row, n_prompt_row;  /* rows; of these rows of prompts                             */
    double n_kv, n_prompt_kv; /* positions whose K and V are read, a sequence at a time     */
    double n_pair;            /* (a prompt's row, a position before it): the quadratic part */
};
/* A sequence computes n_row rows from position pos on: of its prompt, or (n_row is 1) decoding. */
void step_load_add(struct step_load *l, int pos, int n_row, bool prompt);

struct budget_options {
    double target_us; /* what a step may take while sequences decode (INFINITY: any); 0: ...  */
    double multiple;  /* ... so many times what it would take without any prompt (0: 2); ...  */
    double most;      /* up to so many (0: multiple) where prompts are more than decodes; ... */
    double least_us;  /* ... and this, if all that is less: whoever reads cannot tell          */
};

enum { BUDGET_N_TERM = 7, BUDGET_N_KIND = 3 };

/* Plain data: nothing to close. */
struct budget {
    struct budget_options options;         /* defaults filled in                                */
    double multiple;                       /* in force                                          */
    double weight[BUDGET_N_TERM];          /* us per unit of each term                          */
    double speed;                          /* how much slower the machine is than that just now */
    double margin;                         /* what mixed steps take, 99 of 100 times, at most   */
    int n_told[BUDGET_N_KIND], n_row_most; /* steps told; most rows of prompts in one of them   */
    int n_since_idle;                      /* mixed steps since one without prompts             */
    /* sums over the steps of each kind, old ones fading: of products of terms, and with times */
    double xx[BUDGET_N_KIND][BUDGET_N_TERM][BUDGET_N_TERM], xy[BUDGET_N_KIND][BUDGET_N_TERM];
};
void budget_init(struct budget *b, const struct budget_options *o);

/* Rows that a prompt at position pos may have in the step that holds `l` so far (all who decode are
 * in it already): at most n_most; at least 1 while the step has none of any prompt, so that no
 * target stops prompts altogether. Without anyone who decodes, or a target: n_most. 0 in one step of 64, for
 * every prompt, so that what a step takes without them stays known. */
int budget_rows(const struct budget *b, const struct step_load *l, int pos, int n_most);
/* So many sequences decode in the steps that come, and so many have some of their prompt to compute. */
void budget_share(struct budget *b, int n_decode, int n_prompt);
/* The step took us microseconds. */
void budget_told(struct budget *b, const struct step_load *l, int64_t us);
double budget_us(const struct budget *b, const struct step_load *l); /* what it would take */

#endif
