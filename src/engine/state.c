/* state.c - recurrent state: the slots of a sequence, for models with recurrent layers.
 *
 * A slot holds the state after some number of tokens. Slot numbers are page numbers of a separate
 * pool (en->states), with the transitions, names and evictions of KV pages (cache.h). A sequence
 * holds the slot of its n_kv tokens; -1 if none are computed. A step reads it and writes the states
 * after some rows:
 *
 *     tokens   . . . . | a b c d | e f     c..d: known tokens, the last one picks; e, f: a draft
 *     state_in       ^       | |   | |
 *     state_out              s 0   1 2     slots: 0 after the last known token, 1 and 2
 *                                          after the draft's tokens; s: a snapshot
 *
 * (1) Slot 0 is the sequence's current slot if no other sequence holds or finds it, else a new one.
 *     So shared states are never written and need no copies.
 * (2) After the step the sequence holds the slot of the last accepted row and drops the others.
 * (3) A state after a whole page of tokens is sealed under that page's name: a sequence that finds
 *     a prefix's pages finds a state there, or a shorter prefix. A snapshot is taken after the last
 *     page that ends inside a chunk, if a slot is free. */
#include "engine_impl.h"

#include "base/check.h"

#include <limits.h>

static const int32_t *page_tokens(const struct engine *en, const struct seq *s, int n)
{
    int rows = pages_rows(en->pages);
    return s->token + (n - 1) * rows;
}

bool state_is_cached(const struct engine *en, const struct seq *s, int n)
{
    return !en->states || n == 0 ||
           page_look(en->states, s->name[n - 1], page_tokens(en, s, n)) >= 0;
}

static void drop(struct engine *en, int32_t *slot)
{
    if (*slot >= 0) page_drop(en->states, *slot);
    *slot = -1;
}

void state_find(struct engine *en, struct seq *s, int n)
{
    if (!en->states) return;
    drop(en, &s->state_at);
    if (n == 0) return;
    s->state_at = page_find(en->states, s->name[n - 1], page_tokens(en, s, n));
    s->state_sealed = true;
    CHECK(s->state_at >= 0, "no state behind %d pages", n);
}

/* ---- a step ---- */

static bool may_write(const struct engine *en, const struct seq *s)
{
    return s->state_at >= 0 && !s->state_sealed && page_refs(en->states, s->state_at) == 1;
}

void state_own(struct engine *en, struct seq *s)
{
    if (!en->states || s->n_state_to > 0) return;
    int32_t slot = may_write(en, s) ? s->state_at : page_take(en->states);
    CHECK(slot >= 0, "no slot of %d is free", pages_n_total(en->states));
    s->state_to[s->n_state_to++] = slot;
}

bool state_may_own(const struct engine *en, const struct seq *s)
{
    return !en->states || s->n_state_to > 0 || may_write(en, s) || pages_n_free(en->states) > 0;
}

int state_more(struct engine *en, struct seq *s, int n)
{
    if (!en->states) return n;
    for (int i = 0; i < n; i++) {
        int32_t slot = page_take(en->states);
        if (slot < 0) return i;
        s->state_to[s->n_state_to++] = slot;
    }
    return n;
}

/* Take a snapshot after the last page that ends before the last of n known tokens from position
 * pos0 on. */
static void take_snapshot(struct engine *en, struct seq *s, int pos0, int n)
{
    int rows = pages_rows(en->pages), last = (pos0 + n - 1) / rows;
    if (!en->keep_prefixes || last * rows <= pos0) return;
    s->snapshot = page_take(en->states);
    s->n_snapshot = last;
}

void state_rows(struct engine *en, struct seq *s, int iseq)
{
    struct batch *b = &en->batch;
    int n = s->n_row - s->n_draft, rows = pages_rows(en->pages);
    if (!en->states) return;
    b->state_in[iseq] = s->state_at;
    for (int i = 0; i < s->n_row; i++) b->state_out[s->row0 + i] = -1;
    for (int i = 0; i <= s->n_draft; i++) b->state_out[s->row0 + n - 1 + i] = s->state_to[i];
    take_snapshot(en, s, s->pos0, n);
    if (s->snapshot >= 0) b->state_out[s->row0 + s->n_snapshot * rows - 1 - s->pos0] = s->snapshot;
}

void state_adopt(struct engine *en, struct seq *s, int i)
{
    if (!en->states) return;
    int32_t slot = s->state_to[i];
    s->state_to[i] = -1;
    if (slot == s->state_at) return;
    drop(en, &s->state_at);
    s->state_at = slot;
    s->state_sealed = false;
}

void state_unplan(struct engine *en, struct seq *s)
{
    if (!en->states) return;
    for (int i = 0; i < s->n_state_to; i++)
        if (s->state_to[i] != s->state_at) drop(en, &s->state_to[i]);
    s->n_state_to = 0;
    drop(en, &s->snapshot);
}

void state_commit(struct engine *en, struct seq *s)
{
    if (!en->states) return;
    int rows = pages_rows(en->pages), n = s->n_kv / rows;
    if (s->snapshot >= 0)
        s->snapshot = page_seal(en->states, s->snapshot, s->name[s->n_snapshot - 1],
                                page_tokens(en, s, s->n_snapshot));
    state_unplan(en, s);
    if (!en->keep_prefixes || s->state_at < 0 || s->state_sealed || n * rows != s->n_kv) return;
    s->state_at = page_seal(en->states, s->state_at, s->name[n - 1], page_tokens(en, s, n));
    s->state_sealed = true;
}

void state_drop(struct engine *en, struct seq *s)
{
    if (!en->states) return;
    state_unplan(en, s);
    drop(en, &s->state_at);
}

/* ---- forks, admission ---- */

void state_fork(struct engine *en, struct seq *child, const struct seq *parent)
{
    if (!en->states) return;
    child->state_at = parent->state_at;
    child->state_sealed = parent->state_sealed;
    if (child->state_at >= 0) page_ref(en->states, child->state_at);
}

/* One to start with, new or found, and one to write if that is sealed. */
enum { SLOTS_EACH = 2 };

int states_left(const struct engine *en, int n_running)
{
    if (!en->states) return INT_MAX;
    int n = pages_n_free(en->states) - SLOTS_EACH;
    for (int i = 0; i < en->n_running; i++) {
        const struct seq *s = en->running[i];
        bool holds = s->state_at >= 0 && page_refs(en->states, s->state_at) == 1;
        n += i >= n_running ? holds : -(s->n_state_to == 0 && !may_write(en, s));
    }
    return n;
}

int states_least(int n_seq)
{
    return SLOTS_EACH * n_seq;
}

/* ---- to host memory and back ---- */

bool state_can_swap_out(const struct engine *en, const struct seq *s)
{
    return !en->states || s->state_at < 0 || en->state_spill.n_free > 0;
}

void state_swap_out(struct engine *en, struct seq *s)
{
    if (!en->states || s->state_at < 0) return;
    s->host_state = spill_take(&en->state_spill);
    hold_copy(en, COPY_STATE_OUT, s->state_at, s->host_state);
    drop(en, &s->state_at);
}

void state_swap_in(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages), n = s->n_kv / rows;
    if (s->host_state < 0) return;
    bool whole = n * rows == s->n_kv && n <= s->n_name;
    s->state_at = whole ? page_find(en->states, s->name[n - 1], page_tokens(en, s, n)) : -1;
    s->state_sealed = s->state_at >= 0;
    if (s->state_at < 0) {
        s->state_at = page_take(en->states);
        hold_copy(en, COPY_STATE_IN, s->host_state, s->state_at);
    }
    state_drop_host(en, s);
}

void state_drop_host(struct engine *en, struct seq *s)
{
    if (s->host_state >= 0) spill_give(&en->state_spill, s->host_state);
    s->host_state = -1;
}
