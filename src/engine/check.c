/* check.c - the invariants of sequences and of what they hold, for tests: after every step of a
 * simulation. */
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

static const char *check_seq(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages);
    if (s->n_kv > s->n_token || s->n_token > s->n_token_max || s->n_token < s->n_prompt)
        return "a sequence's counts are out of order";
    if (s->n_sealed * rows > s->n_kv) return "a page is sealed before it is full";
    if (s->n_hole > s->n_page || s->n_page > s->n_page_max) return "a page table is out of order";
    if (s->state == SEQ_RUNNING && s->n_page * rows < s->n_kv)
        return "a running sequence lacks pages";
    if (s->state == SEQ_RUNNING && s->n_host) return "a running sequence holds host pages";
    if (s->state != SEQ_RUNNING && !s->n_host && (s->n_kv || s->n_page))
        return "a sequence that does not run holds pages";
    for (int i = s->n_kv / rows + 1; i < s->n_page && s->state == SEQ_RUNNING; i++)
        if (page_refs(en->pages, s->page[i]) != 1) return "a page to be written is shared";
    return check_host(en, s);
}

/* Which states its sequences are in, and that they are where these belong. */
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
    }
    n_state[SEQ_DONE + 1] += n_host;
    return n_live == g->n_live ? NULL : "a group's live sequences are not counted right";
}

const char *engine_check(const struct engine *en)
{
    int n_state[SEQ_DONE + 2] = {0};
    for (const struct group *g = en->groups; g; g = g->next) {
        const char *wrong = check_group(en, g, n_state);
        if (wrong) return wrong;
    }
    if (n_state[SEQ_RUNNING] != en->n_running) return "a running sequence is in no list, or in two";
    if (n_state[SEQ_WAITING] != en->waiting.n) return "a waiting sequence is in no list, or in two";
    if (n_state[SEQ_DONE + 1] != en->spill.n_page - en->spill.n_free) return "a host page leaked";
    for (int i = 0; i < en->n_running; i++) {
        if (en->running[i]->state != SEQ_RUNNING) return "a sequence runs that should not";
        en->table[i] = en->running[i]->page;
        en->n_table[i] = en->running[i]->n_page;
    }
    return pages_check(en->pages, en->table, en->n_table, en->n_running);
}
