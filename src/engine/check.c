/* check.c - the invariants of sequences and of what they hold: after every step of builds with
 * DEBUG or SAN, and of tests that set engine_options.check.
 *
 * (1) Counts are ordered: n_prompt <= n_token <= n_token_max, n_kv <= n_token, n_hole <= n_page
 *     <= n_page_max.
 * (2) Sealed pages are full: n_sealed * rows <= n_kv.
 * (3) A running sequence has pages for its n_kv rows, no more, and none in host memory. Another one
 *     has host pages, or nothing.
 * (4) A host page named by a sequence is held, and n_host counts them. Every held one is named.
 * (5) Every sequence is in exactly the list of its state: running, waiting. n_live of a group
 *     counts those not done.
 * (6) The invariants of pages.c for the tables of running sequences (pages_check).
 * (7) With recurrent state: a running sequence holds the slot of its n_kv rows, one with host pages
 *     a host state, and the invariants of pages.c hold for slots. */
#include "engine_impl.h"

static const char *check_host(const struct engine *en, const struct seq *s)
{
    int n = 0;
    for (int i = 0; i < s->n_page_max; i++) {
        if (s->host[i] < 0) continue;
        if (s->host[i] >= en->spill.n_page || !en->spill.held[s->host[i]])
            return "a sequence waits in a host page that is free";
        n++;
    }
    return n == s->n_host ? NULL : "host pages are not counted right";
}

static const char *check_state(const struct engine *en, const struct seq *s)
{
    bool runs = s->state == SEQ_RUNNING;
    if (s->snapshot >= 0 || s->n_state_to > 0)
        return "a sequence holds slots of a step that is over";
    if (!en->states)
        return s->state_at >= 0 || s->host_state >= 0 ? "a state of a model without any" : NULL;
    if ((s->state_at >= 0) != (runs && s->n_kv > 0))
        return "a sequence goes on without its state, or holds it for nothing";
    if ((s->host_state >= 0) != (s->n_host > 0))
        return "pages wait in host memory without their state";
    if (s->host_state >= 0 && !en->state_spill.held[s->host_state])
        return "a state waits in a place that is free";
    if (runs && s->state_sealed && s->state_at >= 0 && s->n_kv % pages_rows(en->pages))
        return "a state is sealed inside a page";
    return NULL;
}

static const char *check_seq(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages);
    if (s->n_kv > s->n_token || s->n_token > s->n_token_max || s->n_token < s->n_prompt)
        return "a sequence's counts are out of order";
    if (s->n_sealed * rows > s->n_kv) return "a page is sealed before it is full";
    if (s->n_hole > s->n_page || s->n_page > s->n_page_max) return "a page table is out of order";
    if (s->state == SEQ_RUNNING && s->n_page * rows < s->n_kv)
        return "a running sequence lacks pages";
    if (s->state == SEQ_RUNNING && s->n_page > s->n_hole && (s->n_page - 1) * rows >= s->n_kv)
        return "a running sequence holds a page without rows";
    if (s->state == SEQ_RUNNING && s->n_host) return "a running sequence holds host pages";
    if (s->state != SEQ_RUNNING && !s->n_host && (s->n_kv || s->n_page))
        return "a sequence that does not run holds pages";
    const char *wrong = check_state(en, s);
    return wrong ? wrong : check_host(en, s);
}

/* Count the states of g's sequences and check each sequence. */
static const char *check_group(const struct engine *en, const struct group *g, int *n_state)
{
    int n_live = 0, n_host = 0;
    for (int i = 0; i < g->n_seq; i++) {
        const struct seq *s = &g->seq[i];
        const char *wrong = check_seq(en, s);
        if (wrong) return wrong;
        n_state[s->state]++;
        n_live += s->state != SEQ_DONE;
        n_host += s->n_host;
        n_state[SEQ_DONE + 2] += s->n_host > 0;
    }
    n_state[SEQ_DONE + 1] += n_host;
    return n_live == g->n_live ? NULL : "a group's live sequences are not counted right";
}

static const char *check_states(const struct engine *en)
{
    int n_host = 0;
    for (const struct group *g = en->groups; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++) n_host += g->seq[i].host_state >= 0;
    if (n_host != en->state_spill.n_page - en->state_spill.n_free)
        return "a state in host memory leaked";
    for (int i = 0; i < en->n_running; i++) {
        en->table[i] = &en->running[i]->state_at;
        en->n_table[i] = 1;
    }
    return pages_check(en->states, en->table, en->n_table, en->n_running);
}

const char *engine_check(const struct engine *en)
{
    /* followed by the number of host pages, and of sequences that have some */
    int n_state[SEQ_DONE + 3] = {0};
    for (const struct group *g = en->groups; g; g = g->next) {
        const char *wrong = check_group(en, g, n_state);
        if (wrong) return wrong;
    }
    if (n_state[SEQ_RUNNING] != en->n_running) return "a running sequence is in no list, or in two";
    if (n_state[SEQ_WAITING] != en->waiting.n) return "a waiting sequence is in no list, or in two";
    if (n_state[SEQ_DONE + 1] != en->spill.n_page - en->spill.n_free) return "a host page leaked";
    if (n_state[SEQ_DONE + 2] != en->n_swapped) return "swapped sequences are not counted right";
    for (int i = 0; i < en->n_running; i++) {
        if (en->running[i]->state != SEQ_RUNNING) return "a sequence runs that should not";
        en->table[i] = en->running[i]->page;
        en->n_table[i] = en->running[i]->n_page;
    }
    const char *wrong = pages_check(en->pages, en->table, en->n_table, en->n_running);
    return wrong || !en->states ? wrong : check_states(en);
}
