/* budget.h - how many rows of prompts a step may have while other sequences decode. Engine
 * thread.
 *
 * A sequence that decodes gets one token per step, so a step's time is the time between two tokens.
 * The target limits it; prompts use the remainder. A step's time is estimated from earlier steps
 * (budget.c). The budget decides how prompts are cut, which changes no bit of the result. */
#ifndef QUOTH_ENGINE_BUDGET_H
#define QUOTH_ENGINE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* The part of a step's work that determines its time. Zero it, then call step_load_add. */
struct step_load {
    int n_row, n_prompt_row;  /* all rows; rows of prompts */
    double n_kv, n_prompt_kv; /* positions whose K and V are read, per sequence */
    double n_pair;            /* (prompt row, earlier position) pairs: the quadratic part */
};
/* Add a sequence that computes n_row rows from position pos on: prompt rows, or one decoded row. */
void step_load_add(struct step_load *l, int pos, int n_row, bool prompt);

struct budget_options {
    /* time limit of a step with decodes (INFINITY: none); 0: from the next three */
    double target_us;
    double multiple; /* the limit as a multiple of the step without prompts (0: 2) */
    double most;     /* largest multiple, if prompts outnumber decodes (0: multiple) */
    double least_us; /* minimum of the limit from the multiple */
};

enum { BUDGET_N_TERM = 7, BUDGET_N_KIND = 3 };

/* Plain data: nothing to close. */
struct budget {
    struct budget_options options; /* with defaults filled in */
    double multiple;               /* the one in force */
    bool contended;                /* steps of prompts only are limited too */
    double weight[BUDGET_N_TERM];  /* microseconds per unit of each term */
    double speed;                  /* current slowdown of the machine against the weights */
    double margin;                 /* 99th percentile of time / estimate in mixed steps */
    int n_observed[BUDGET_N_KIND], n_row_most; /* steps observed; most prompt rows in one of them */
    int n_since_idle;                          /* mixed steps since the last step without prompts */
    struct step_load idle;                     /* load of that step */
    /* decayed sums over the steps of each kind: products of terms, products of terms and times */
    double xx[BUDGET_N_KIND][BUDGET_N_TERM][BUDGET_N_TERM], xy[BUDGET_N_KIND][BUDGET_N_TERM];
};
void budget_init(struct budget *b, const struct budget_options *o);

/* Return the rows that a prompt at position pos may have in a step that holds `l` so far (all
 * decodes included). The result is at most n_most and at least n_least, and at least 1 if the step
 * has no prompt row yet, so that no target stops prompts. Returns n_most if no sequence decodes or
 * there is no target. Returns 0 for every prompt in one step of 64 (16 if other sequences decode
 * than in the last one of them), so that the time of steps without prompts stays known. */
int budget_rows(const struct budget *b, const struct step_load *l, int pos, int n_least,
                int n_most);
/* Set how many sequences will decode and how many still have prompt tokens, for the coming
 * steps. */
void budget_share(struct budget *b, int n_decode, int n_prompt);
/* Set whether other requests arrive: a step of prompts only must then be short as well. */
void budget_contended(struct budget *b, bool contended);
/* Record that a step with load l took us microseconds. */
void budget_observe(struct budget *b, const struct step_load *l, int64_t us);
double budget_us(const struct budget *b, const struct step_load *l); /* estimate of its time */
bool budget_is_fitted(
    const struct budget *b); /* whether enough steps were observed for an estimate */

#endif
