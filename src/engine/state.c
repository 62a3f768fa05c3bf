/* state.c - recurrent state: the slots of a sequence, for models with recurrent layers.
 *
 * A slot holds the state after some number of tokens. Slot numbers are page numbers of a separate
 * pool (en->states), with the transitions, names and evictions of KV pages (cache.h). A sequence
 * holds the slot of its n_kv tokens; -1 if no token is computed. A step reads this slot and writes
 * the states after some rows:
 *
 *     tokens   . . . . | a b c d | e f     c..d: known tokens, the last one picks; e, f: a draft
 *     state_in       ^       | |   | |
 *     state_out              s 0   1 2     slots: 0 after the last known token, 1 and 2
 *                                          after the draft's tokens; s: a snapshot
 *
 * (1) Slot 0 is the sequence's current slot if no other sequence holds or finds it, otherwise a new
 *     slot. Therefore shared states are never written and need no copies.
 * (2) After the step the sequence holds the slot of the last accepted row, and drops all other
 *     slots.
 * (3) A state after a whole page of tokens is sealed under that page's name. Therefore a prefix can
 *     be continued at each page that has a state. A snapshot is taken after the last page that ends
 *     inside a chunk, if a slot is free.
 * (4) If the cache has more pages of a prompt than states, the prompt leaves another text at the
 *     end of these pages. Its sequence takes a snapshot there, for the third text.
 * (5) All slots have equal bytes, so the states that save the fewest tokens are evicted first, by
 *     the priority L + tokens * (1 + hits) of GreedyDual-Size-Frequency, where L is the priority of
 *     the last evicted state at the last use (Cherkasova, "Improving WWW Proxies Performance with
 *     Greedy-Dual-Size-Frequency Caching Policy", HPL-98-69). The last
 *     state of a text saves all its tokens. A state before it saves only the tokens after the next
 *     earlier state, because the text continues at the last one. While a sequence decodes, the
 *     states before the last therefore save one page each.
 * (6) A state without the page of K and V at its end is not found, and is evicted next. */
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

/* Return the number of pages, below n, after which the next earlier state of s is cached. */
static int state_before(const struct engine *en, const struct seq *s, int n)
{
    for (n--; n > 0 && !state_is_cached(en, s, n);) n--;
    return n > 0 ? n : 0;
}

/* Set the tokens that a hit of the state after n pages of s saves, if the state is cached: those
 * after the first n_before pages. */
static void value_state(struct engine *en, const struct seq *s, int n, int n_before)
{
    const int32_t slot = n ? page_look(en->states, s->name[n - 1], page_tokens(en, s, n)) : -1;
    if (slot >= 0) page_value(en->states, slot, (n - n_before) * pages_rows(en->pages));
}

/* A text continues at the state after n pages, so the state before it is worth less. */
void state_find(struct engine *en, struct seq *s, int n)
{
    if (!en->states) return;
    drop(en, &s->slots.at);
    s->slots.n_last = n;
    s->slots.n_before = state_before(en, s, n);
    if (n == 0) return;
    value_state(en, s, s->slots.n_before, state_before(en, s, s->slots.n_before));
    s->slots.at = page_find(en->states, s->name[n - 1], page_tokens(en, s, n));
    s->slots.sealed = true;
    CHECK(s->slots.at >= 0, "no state after %d pages", n);
}

/* ---- a step ---- */

static bool may_write(const struct engine *en, const struct seq *s)
{
    return s->slots.at >= 0 && !s->slots.sealed && page_refs(en->states, s->slots.at) == 1;
}

void state_own(struct engine *en, struct seq *s)
{
    if (!en->states || s->slots.n_to > 0) return;
    int32_t slot = may_write(en, s) ? s->slots.at : page_take(en->states);
    CHECK(slot >= 0, "no slot of %d is free", pages_n_total(en->states));
    s->slots.to[s->slots.n_to++] = slot;
}

bool state_may_own(const struct engine *en, const struct seq *s)
{
    return !en->states || s->slots.n_to > 0 || may_write(en, s) || pages_n_free(en->states) > 0;
}

int state_more(struct engine *en, struct seq *s, int n)
{
    if (!en->states) return n;
    for (int i = 0; i < n; i++) {
        int32_t slot = page_take(en->states);
        if (slot < 0) return i;
        s->slots.to[s->slots.n_to++] = slot;
    }
    return n;
}

void state_branch(struct seq *s, int n)
{
    s->slots.n_branch = n;
}

/* Take snapshot i after n_after pages, if these pages end before the last of the tokens [pos0, pos0
 * + n), and if a slot is free. */
static void take_snapshot(struct engine *en, struct seq *s, int i, int n_after, int pos0, int n)
{
    const int end = n_after * pages_rows(en->pages);
    struct batch *b = &en->batch;
    struct seq_snapshot *shot = &s->slots.snapshot[i];
    if (!en->keep_prefixes || end <= pos0 || end >= pos0 + n) return;
    if ((shot->slot = page_take(en->states)) < 0) return;
    shot->n_after = n_after;
    b->state_out[s->plan.row0 + end - 1 - pos0] = shot->slot;
}

void state_rows(struct engine *en, struct seq *s, int iseq)
{
    struct batch *b = &en->batch;
    int n = s->plan.n_row - s->plan.n_draft, rows = pages_rows(en->pages);
    if (!en->states) return;
    b->state_in[iseq] = s->slots.at;
    for (int i = 0; i < s->plan.n_row; i++) b->state_out[s->plan.row0 + i] = -1;
    for (int i = 0; i <= s->plan.n_draft; i++)
        b->state_out[s->plan.row0 + n - 1 + i] = s->slots.to[i];
    const int last = (s->plan.pos0 + n - 1) / rows;
    take_snapshot(en, s, 0, last, s->plan.pos0, n);
    if (s->slots.n_branch != last) take_snapshot(en, s, 1, s->slots.n_branch, s->plan.pos0, n);
}

void state_adopt(struct engine *en, struct seq *s, int i)
{
    if (!en->states) return;
    CHECK(i >= 0 && i < s->slots.n_to, "row %d of %d", i, s->slots.n_to);
    int32_t slot = s->slots.to[i];
    s->slots.to[i] = -1;
    if (slot == s->slots.at) return;
    drop(en, &s->slots.at);
    s->slots.at = slot;
    s->slots.sealed = false;
}

void state_unplan(struct engine *en, struct seq *s)
{
    if (!en->states) return;
    for (int i = 0; i < s->slots.n_to; i++)
        if (s->slots.to[i] != s->slots.at) drop(en, &s->slots.to[i]);
    s->slots.n_to = 0;
    for (int i = 0; i < SNAPSHOTS; i++) drop(en, &s->slots.snapshot[i].slot);
}

/* Seal a slot as the state after n pages of s, which saves all their tokens. The state that s
 * sealed or found before is worth less from now on, except the last state that an equal prompt
 * finds. Return the slot that s holds afterwards. */
static int32_t seal_state(struct engine *en, struct seq *s, int32_t slot, int n)
{
    const int last = s->slots.n_last, n_prompt = (s->n_prompt - 1) / pages_rows(en->pages);
    const int32_t own = page_seal(en->states, slot, s->name[n - 1], page_tokens(en, s, n));
    if (own == slot) value_state(en, s, n, 0);
    if (n <= last) return own;
    if (last > n_prompt || n <= n_prompt) value_state(en, s, last, s->slots.n_before);
    s->slots.n_before = last;
    s->slots.n_last = n;
    return own;
}

void state_page_gone(void *engine, uint64_t name, const int32_t *tokens)
{
    struct engine *en = engine;
    const int32_t slot = en->states ? page_look(en->states, name, tokens) : -1;
    if (slot >= 0) page_value(en->states, slot, 0);
}

void state_commit(struct engine *en, struct seq *s)
{
    if (!en->states) return;
    int rows = pages_rows(en->pages), n = s->n_kv / rows;
    for (int i = SNAPSHOTS - 1; i >= 0; i--) { /* in the order of the text */
        struct seq_snapshot *shot = &s->slots.snapshot[i];
        if (shot->slot >= 0) shot->slot = seal_state(en, s, shot->slot, shot->n_after);
    }
    state_unplan(en, s);
    if (!en->keep_prefixes || s->slots.at < 0 || s->slots.sealed || n * rows != s->n_kv) return;
    s->slots.at = seal_state(en, s, s->slots.at, n);
    s->slots.sealed = true;
}

void state_drop(struct engine *en, struct seq *s)
{
    if (!en->states) return;
    state_unplan(en, s);
    drop(en, &s->slots.at);
}

/* ---- forks, admission ---- */

void state_fork(struct engine *en, struct seq *child, const struct seq *parent)
{
    if (!en->states) return;
    child->slots.at = parent->slots.at;
    child->slots.sealed = parent->slots.sealed;
    child->slots.n_last = parent->slots.n_last;
    child->slots.n_before = parent->slots.n_before;
    if (child->slots.at >= 0) page_ref(en->states, child->slots.at);
}

/* slots of a new sequence: one for its first state, and one to write if the first slot is sealed */
enum { SLOTS_EACH = 2 };

int states_left(const struct engine *en, int n_running)
{
    if (!en->states) return INT_MAX;
    int n = pages_n_free(en->states) - SLOTS_EACH;
    for (int i = 0; i < en->n_running; i++) {
        const struct seq *s = en->running[i];
        bool holds = s->slots.at >= 0 && page_refs(en->states, s->slots.at) == 1;
        n += i >= n_running ? holds : -(s->slots.n_to == 0 && !may_write(en, s));
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
    return !en->states || s->slots.at < 0 || en->state_spill.n_free > 0;
}

void state_swap_out(struct engine *en, struct seq *s)
{
    if (!en->states || s->slots.at < 0) return;
    s->slots.host = spill_take(&en->state_spill);
    hold_copy(en, COPY_STATE_OUT, s->slots.at, s->slots.host);
    drop(en, &s->slots.at);
}

void state_swap_in(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages), n = s->n_kv / rows;
    if (s->slots.host < 0) return;
    bool whole = n * rows == s->n_kv && n <= s->n_name;
    s->slots.at = whole ? page_find(en->states, s->name[n - 1], page_tokens(en, s, n)) : -1;
    s->slots.sealed = s->slots.at >= 0;
    if (s->slots.at < 0) {
        s->slots.at = page_take(en->states);
        hold_copy(en, COPY_STATE_IN, s->slots.host, s->slots.at);
    }
    state_drop_host(en, s);
}

void state_drop_host(struct engine *en, struct seq *s)
{
    if (s->slots.host >= 0) spill_give(&en->state_spill, s->slots.host);
    s->slots.host = -1;
}
