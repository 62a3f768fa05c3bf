/* portion.c - limits of one holder's rows and places while other holders are active. A holder is a
 * key, or an address if there are no keys.
 *
 *   group_submit --portion_submitted--> recent holders
 *   sched_next   --portion_begin--> rows: portion_rows, portion_take; places: portion_full
 *
 * The first token of a new request waits for the running step and then for its own step. Therefore
 * a holder can delay other holders by long steps. A single holder may use every whole step. A
 * holder has the following limits if another holder runs a sequence, or has submitted within
 * COMPANY_US:
 *
 *   rows    worth half of the places (at least WORTH_MIN). The cost of a decoded row is 1 plus the
 *           cost of its positions, in multiply-adds. Therefore long sequences have higher costs.
 *           The holder has more rows if the budget expects the step to take at most LITTLE_US.
 *           Decodes have half of the rows if there are prompts. Sequences that decode take turns.
 *   places  all except an eighth, so that a new holder gets a place without a preemption.
 *
 * The budget does not divide prompts of up to ROWS_FREE rows. Each holder may have ROWS_FREE such
 * rows, while the step has few rows of prompts. This rule applies with and without other holders,
 * because the budget's estimate may be far off and its minimum is one row. Only policies that
 * divide among holders use these limits (policy.h). These limits change the rows of a step, but no
 * bit of a result (docs/design.md 5). */
#include "engine_impl.h"

#include "base/check.h"

#include <stdlib.h>

enum {
    COMPANY_US = 10 * 1000 * 1000, /* a holder counts as absent after the same time as EXTRA_US */
    LITTLE_US = 30 * 1000, /* equal to ALONE_US: a first token waits for at most two steps, 60 ms */
    WORTH_MIN = 32, /* 32 rows have 438 of the 590 tokens/s of prompts (docs/measurements.md) */
    PART_FREE = 8,  /* an eighth of the places stays free, so a step has at most 12 % fewer rows */
    /* 16 more rows take about LITTLE_US: llama-1b takes 106 ms for 48 rows, 73 ms for 32 */
    ROWS_FREE = 16
};

int portion_open(struct engine *en, struct err *e)
{
    const struct step_cost *c = &en->executor.cost;
    size_t n = (size_t)en->executor.limits->n_seq;
    int64_t row = c->row_macs + c->output_macs;
    en->portions.per_position = row > 0 ? (double)c->pair_macs / (double)row : 0;
    en->portions.v = calloc(n, sizeof *en->portions.v);
    return en->portions.v ? 0 : err_memory(e, "the portions of a step", n * sizeof *en->portions.v);
}

void portion_close(struct engine *en)
{
    free(en->portions.v);
}

void portion_submitted(struct engine *en, uint64_t holder)
{
    struct submission *last = en->portions.recent;
    if (last[0].us == 0 || last[0].holder != holder) last[1] = last[0];
    last[0] = (struct submission){.holder = holder, .us = en->now_us};
}

/* ---- other holders ---- */

static struct portion *find(const struct engine *en, uint64_t holder)
{
    for (int i = 0; i < en->portions.n; i++)
        if (en->portions.v[i].holder == holder) return &en->portions.v[i];
    return NULL;
}

static bool is_recent(const struct engine *en, const struct submission *a)
{
    return a->us > 0 && en->now_us - a->us < COMPANY_US;
}

static bool has_company(const struct engine *en, uint64_t holder)
{
    const struct submission *last = en->portions.recent;
    if (!policy_divides(en->policy)) return false;
    if (en->portions.n > 1 || (en->portions.n == 1 && en->portions.v[0].holder != holder))
        return true;
    return is_recent(en, &last[last[0].holder == holder]);
}

void portion_run(struct engine *en, const struct seq *s)
{
    struct portion *p = find(en, s->entity.holder);
    if (!p) {
        CHECK(en->portions.n < en->batch.limits.n_seq, "%d portions", en->portions.n);
        p = &en->portions.v[en->portions.n++];
        *p = (struct portion){.holder = s->entity.holder};
    }
    p->n_running++;
}

void portion_run_end(struct engine *en, const struct seq *s)
{
    struct portion *p = find(en, s->entity.holder);
    CHECK(p && p->n_running > 0, "holder %llx runs nothing", (unsigned long long)s->entity.holder);
    if (--p->n_running == 0) *p = en->portions.v[--en->portions.n];
}

void portion_begin(struct engine *en)
{
    for (int i = 0; i < en->portions.n; i++) {
        struct portion *p = &en->portions.v[i];
        *p = (struct portion){.holder = p->holder, .n_running = p->n_running};
    }
    for (int i = 0; i < en->n_running; i++) {
        const struct seq *s = en->running[i];
        if (!s->stall && seq_n_left(s) > 1) find(en, s->entity.holder)->has_prompt = true;
    }
}

bool portion_bounded(const struct engine *en, const struct seq *s)
{
    return has_company(en, s->entity.holder);
}

/* ---- rows ---- */

static double worth(const struct engine *en, int pos, int n_row)
{
    return n_row * (1 + en->portions.per_position * (pos + (n_row + 1) / 2.0));
}

/* Return true if the holder of s, with portion p, may have n_row more rows for s. */
static bool within(const struct engine *en, const struct portion *p, const struct seq *s, int n_row,
                   bool prompt)
{
    struct step_load l = p->load;
    int half = en->batch.limits.n_seq / 2, max = half < WORTH_MIN ? WORTH_MIN : half;
    double part = !prompt && p->has_prompt ? 0.5 : 1;
    if (p->worth + worth(en, s->n_kv, n_row) <= part * max) return true;
    step_load_add(&l, s->n_kv, n_row, prompt);
    return budget_is_fitted(&en->budget) && budget_us(&en->budget, &l) <= part * LITTLE_US;
}

int portion_rows(const struct engine *en, const struct seq *s, int n, bool prompt)
{
    const struct portion *p = find(en, s->entity.holder);
    if (!has_company(en, s->entity.holder)) return n;
    int lo = prompt ? p->load.n_prompt_row == 0 : p->load.n_row == 0;
    while (lo < n) {
        int mid = lo + (n - lo + 1) / 2;
        if (within(en, p, s, mid, prompt))
            lo = mid;
        else
            n = mid - 1;
    }
    return n;
}

int portion_undivided(const struct engine *en, const struct seq *s)
{
    const struct portion *p = find(en, s->entity.holder);
    int n = en->batch.limits.n_seq - en->load.n_prompt_row, own = ROWS_FREE - p->load.n_prompt_row;
    if (s->n_token - s->n_kv > ROWS_FREE || !policy_divides(en->policy)) return 0;
    if (n > own) n = own;
    return n > 0 ? n : 0;
}

void portion_take(struct engine *en, const struct seq *s, int n_row, bool prompt)
{
    struct portion *p = find(en, s->entity.holder);
    p->worth += worth(en, s->n_kv, n_row);
    step_load_add(&p->load, s->n_kv, n_row, prompt);
}

/* ---- places ---- */

bool portion_full(const struct engine *en, const struct seq *s)
{
    const struct portion *p = find(en, s->entity.holder);
    int n_seq = en->batch.limits.n_seq;
    return p && p->n_running >= n_seq - n_seq / PART_FREE && has_company(en, s->entity.holder);
}

void portion_bar(struct engine *en, const struct seq *s)
{
    find(en, s->entity.holder)->barred = true;
}

bool portion_barred(const struct engine *en, const struct seq *s)
{
    const struct portion *p = find(en, s->entity.holder);
    return p && p->barred;
}
