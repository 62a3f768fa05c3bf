/* check.c - the invariants of sequences and of their pages, states and places. The invariants are
 * checked after every step of builds with DEBUG or SAN, and of tests that set engine_options.check.
 *
 * (1) Counts are ordered: n_prompt <= n_token <= token_max, n_kv <= n_token, n_hole <= n_page <=
 *     page_max.
 * (2) Sealed pages are full: n_sealed * rows <= n_kv.
 * (3) A running sequence has exactly the pages for its n_kv rows, and no pages in host memory. Any
 *     other sequence has host pages, or no pages.
 * (4) A host page in a sequence's table is taken, and n_host is the number of these pages. Every
 *     taken host page is in one table.
 * (5) Every sequence is in the list of its state (running, waiting) and in no other. n_live of a
 *     group counts the sequences that are not done.
 * (6) The invariants of pages.c for the tables of running sequences (pages_check).
 * (7) The invariants of door.h.
 * (8) With recurrent state, a running sequence holds the slot of its n_kv rows. A sequence with
 *     host pages holds a host state. The invariants of pages.c hold for slots.
 * (9) The length of a sequence's text determines the list of divisors of its pages (LongRoPE). A
 *     finished sequence that is padding keeps its list.
 * (10) No rows are planned after a step: n_row and n_event of each sequence and n_reserved of each
 *     group are 0. */
#include "engine_impl.h"

static const char *check_host(const struct engine *en, const struct seq *s)
{
    int n = 0;
    for (int i = 0; i < s->page_max; i++) {
        if (s->host[i] < 0) continue;
        if (s->host[i] >= en->spill.n_page || !en->spill.held[s->host[i]])
            return "a waiting sequence has a host page that is free";
        n++;
    }
    return n == s->n_host ? NULL : "the number of host pages is wrong";
}

/* Return the violated invariant of the list of divisors of a sequence's pages; NULL if none. */
static const char *check_rope(const struct engine *en, const struct seq *s)
{
    if (s->state != SEQ_RUNNING && s->state != SEQ_WAITING) return NULL;
    if (s->finish != FINISH_NONE || s->is_long == batch_is_long(en->executor.limits, s->n_token))
        return NULL;
    return "a sequence's pages have the rope of a text of another length";
}

/* Return the violated invariant of a sequence's recurrent state; NULL if none. */
static const char *check_state(const struct engine *en, const struct seq *s)
{
    bool runs = s->state == SEQ_RUNNING;
    if (s->slots.snapshot[0].slot >= 0 || s->slots.snapshot[1].slot >= 0 || s->slots.n_to > 0)
        return "a sequence holds slots of a finished step";
    if (!en->states)
        return s->slots.at >= 0 || s->slots.host >= 0
                   ? "a sequence has a state, but the model has no recurrent layers"
                   : NULL;
    if ((s->slots.at >= 0) != (runs && s->n_kv > 0))
        return "a running sequence lacks its state, or a sequence without rows holds a state";
    if ((s->slots.host >= 0) != (s->n_host > 0))
        return "a sequence has pages in host memory without a state, or a state without pages";
    if (s->slots.host >= 0 && !en->state_spill.held[s->slots.host])
        return "a state in host memory has a place that is free";
    if (runs && s->slots.sealed && s->slots.at >= 0 && s->n_kv % pages_rows(en->pages))
        return "a state is sealed inside a page";
    return NULL;
}

static const char *check_seq(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages);
    if (s->n_kv > s->n_token || s->n_token > s->token_max || s->n_token < s->n_prompt)
        return "a sequence's counts have a wrong order";
    if (s->n_sealed * rows > s->n_kv) return "a page is sealed before it is full";
    if (s->n_hole > s->n_page || s->n_page > s->page_max)
        return "the counts of a page table have a wrong order";
    if (s->state == SEQ_RUNNING && s->n_page * rows < s->n_kv)
        return "a running sequence lacks pages";
    if (s->state == SEQ_RUNNING && s->n_page > s->n_hole && (s->n_page - 1) * rows >= s->n_kv)
        return "a running sequence holds a page without rows";
    if (s->state == SEQ_RUNNING && s->n_host) return "a running sequence holds host pages";
    if (s->state != SEQ_RUNNING && !s->n_host && (s->n_kv || s->n_page))
        return "a sequence that does not run holds pages";
    if (s->plan.n_row || s->plan.n_event) return "a sequence has planned rows after a step";
    const char *wrong = check_state(en, s);
    if (!wrong) wrong = check_rope(en, s);
    return wrong ? wrong : check_host(en, s);
}

/* Sums over all sequences. */
struct tally {
    int n_state[SEQ_DONE + 1];   /* number of sequences in each state */
    int n_host_page, n_host_seq; /* number of host pages, and of sequences that have some */
    int n_host_state;            /* number of states in host memory */
};

/* Check g and its sequences, and add them to t. */
static const char *check_group(const struct engine *en, const struct group *g, struct tally *t)
{
    int n_live = 0;
    for (int i = 0; i < g->n_seq; i++) {
        const struct seq *s = &g->seq[i];
        const char *wrong = check_seq(en, s);
        if (wrong) return wrong;
        n_live += s->state != SEQ_DONE;
        t->n_state[s->state]++;
        t->n_host_page += s->n_host;
        t->n_host_seq += s->n_host > 0;
        t->n_host_state += s->slots.host >= 0;
    }
    if (g->n_reserved != 0) return "a group has reserved events after a step";
    return n_live == g->n_live ? NULL : "a group's number of live sequences is wrong";
}

static const char *check_tally(const struct engine *en, const struct tally *t)
{
    if (t->n_state[SEQ_RUNNING] != en->n_running)
        return "a running sequence is not in exactly one list";
    if (t->n_state[SEQ_WAITING] != en->waiting.n)
        return "a waiting sequence is not in exactly one list";
    if (t->n_host_page != en->spill.n_page - en->spill.n_free) return "a host page leaked";
    if (t->n_host_seq != en->n_swapped) return "the number of swapped sequences is wrong";
    if (en->states && t->n_host_state != en->state_spill.n_page - en->state_spill.n_free)
        return "a state in host memory leaked";
    return NULL;
}

static const char *check_waiting(const struct seq_list *l)
{
    struct seq *const *end = &l->head;
    int n = 0;
    for (; *end; end = &(*end)->next) {
        if ((*end)->state != SEQ_WAITING)
            return "the waiting list has a sequence that is not waiting";
        if (++n > l->n) break;
    }
    if (n != l->n) return "the length of the waiting list is wrong";
    return n == 0 || l->tail == end ? NULL : "the tail of the waiting list is not its end";
}

static const char *check_running(const struct engine *en)
{
    for (int i = 0; i < en->n_running; i++) {
        if (en->running[i]->state != SEQ_RUNNING)
            return "the running list has a sequence that is not running";
        en->table[i] = en->running[i]->page;
        en->n_table[i] = en->running[i]->n_page;
    }
    return pages_check(en->pages, en->table, en->n_table, en->n_running);
}

static const char *check_states(const struct engine *en)
{
    for (int i = 0; i < en->n_running; i++) {
        en->table[i] = &en->running[i]->slots.at;
        en->n_table[i] = 1;
    }
    return pages_check(en->states, en->table, en->n_table, en->n_running);
}

static const char *check_door(struct engine *en)
{
    int64_t n_byte = 0;
    for (const struct group *g = en->groups; g; g = g->next)
        if (atomic_load(&g->door.state) == DOOR_INSIDE) n_byte += g->n_byte;
    return door_check(&en->door, n_byte);
}

const char *engine_check(struct engine *en)
{
    struct tally t = {0};
    const char *wrong = NULL;
    for (const struct group *g = en->groups; g && !wrong; g = g->next)
        wrong = check_group(en, g, &t);
    if (!wrong) wrong = check_tally(en, &t);
    if (!wrong) wrong = check_waiting(&en->waiting);
    if (!wrong) wrong = check_running(en);
    if (!wrong && en->states) wrong = check_states(en);
    return wrong ? wrong : check_door(en);
}
