/* seq.c - a sequence: its memory, its tokens, its states, and the waiting list.
 *
 * The client's thread allocates all memory of a request at submission, in one arena. Therefore a
 * step allocates nothing. engine_impl.h has a diagram of the states of a sequence.
 *
 * (1) A WAITING sequence is in engine.waiting, a RUNNING sequence in engine.running. All other
 * sequences are in no list. The entities of the policy are exactly the sequences of these two
 * lists. (2) The n_before of a live sequence is the number of live choices before it in its
 * group. */
#include "engine_impl.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

/* ---- memory ---- */

/* Return the hash of the properties of a sequence that change a page's content, except its
 * tokens. */
static uint64_t extra_of(const struct seq *s)
{
    const struct request *r = s->group->request;
    const uint64_t of[] = {r->cache_salt, (uint64_t)r->adapter, s->is_long};
    return r->adapter || s->is_long ? hash_bytes(of, sizeof of, 0)
                                    : r->cache_salt * 0xD6E8FEB86659FD93u;
}

uint64_t seq_page_name(const struct engine *en, const struct seq *s, int i)
{
    CHECK(i >= 0 && i <= s->n_name && i < s->page_max, "page %d, %d of %d have names", i, s->n_name,
          s->page_max);
    return page_name(en->pages, i ? s->name[i - 1] : PAGE_ROOT,
                     s->token + i * pages_rows(en->pages), extra_of(s));
}

void seq_name_pages(const struct engine *en, struct seq *s)
{
    for (; (s->n_name + 1) * pages_rows(en->pages) <= s->n_token; s->n_name++)
        s->name[s->n_name] = seq_page_name(en, s, s->n_name);
}

/* Allocate the memory of drafts. Forced tokens are checked like drafts if their logits are wanted:
 * up to FORCED per step, with a mask for each token. */
static bool open_drafts(struct seq *s, const struct engine *en)
{
    /* FORCED: number of forced tokens of a step, with a mask for each token (25 kB for 200 k
     * tokens). A step of 8 rows takes 1.5 times as long as a step of one row. Therefore 8 forced
     * tokens are 5 times as fast (Q4_0: 216 and 40 tokens/s in docs/measurements.md). */
    enum { FORCED = 8 };
    const struct request *r = s->group->request;
    s->draft_max = s->group->beam || r->pooling ? 0 : en->drafter.n_max;
    if (r->constraint && emit_needs_logits(s) && s->draft_max < FORCED) s->draft_max = FORCED;
    s->n_mask_word = r->constraint ? ((size_t)en->vocab.n_vocab + 31) / 32 : 0;
    size_t n = (size_t)s->draft_max, n_word = (n + 1) * s->n_mask_word;
    if (n > 0) s->draft = arena_push(&s->group->arena, n * sizeof *s->draft, 64);
    if (n_word > 0) s->mask = arena_push(&s->group->arena, n_word * sizeof *s->mask, 64);
    if (en->states) s->slots.to = arena_push(&s->group->arena, (n + 1) * sizeof *s->slots.to, 64);
    return (n == 0 || s->draft) && (n_word == 0 || s->mask) && (!en->states || s->slots.to);
}

bool seq_open(struct seq *s, const struct engine *en, struct group *g)
{
    const struct request *r = g->request;
    const struct executor *x = &en->executor;
    int rows = pages_rows(en->pages);
    s->group = g;
    s->choice = (int)(s - g->seq);
    s->stop_id = -1;
    s->n_fresh = 1;
    s->slots.at = s->slots.host = -1;
    for (int i = 0; i < SNAPSHOTS; i++) s->slots.snapshot[i].slot = -1;
    s->n_prompt = s->n_token = (int)r->prompt.n + x->n_start;
    s->n_whole = x->whole || x->n_start > 0 ? (int)r->prompt.n : 0;
    s->is_long = batch_is_long(x->limits, s->n_prompt);
    s->token_max = s->n_prompt + r->max_tokens;
    s->page_max = (s->token_max + rows - 1) / rows;
    size_t n_page = (size_t)s->page_max;
    s->token = arena_push(&g->arena, (size_t)s->token_max * sizeof *s->token, 64);
    s->page = arena_push(&g->arena, n_page * sizeof *s->page, 64);
    s->host = arena_push(&g->arena, n_page * sizeof *s->host, 64);
    s->name = arena_push(&g->arena, n_page * sizeof *s->name, 64);
    if (!s->token || !s->page || !s->host || !s->name) return false;
    if (!open_drafts(s, en)) return false;
    memcpy(s->token, r->prompt.v, r->prompt.n * sizeof *s->token);
    for (int i = 0; i < x->n_start; i++) s->token[(int)r->prompt.n + i] = x->start[i];
    memset(s->host, 0xFF, n_page * sizeof *s->host);
    if (g->ranked) {
        size_t n = 1 + (size_t)(r->params.n_logprob > 0 ? r->params.n_logprob : 0);
        s->record = arena_push0(&g->arena, (size_t)r->max_tokens * n, sizeof *s->record);
        if (!s->record) return false;
    }
    return true;
}

int seq_open_sampler(struct seq *s, const struct engine *en, struct err *e)
{
    struct sample_params p = s->group->request->params;
    if (!p.lists) p.lists = s->group->lists;
    /* the rank of an answer is its mean logprob */
    if (s->group->ranked && p.n_logprob < 0) p.n_logprob = 0;
    int rc = sampler_open(&s->sampler, &p, &en->vocab, (uint32_t)s->choice, s->token_max, e);
    /* penalties are for repetitions of the target, not of the source */
    if (rc == 0) sampler_accept_prompt(s->sampler, s->token + s->n_whole, s->n_prompt - s->n_whole);
    return rc;
}

/* ---- tokens ---- */

/* Return the wanted positions of the prompt. Pooled requests have no logprobs. The prompt results
 * of a forked choice are already emitted. */
struct wanted seq_wanted(const struct seq *s)
{
    const struct request *r = s->group->request;
    int from = s->n_emitted, to = 0;
    if (r->n_prompt_logprob >= 0 && s->choice == 0) to = s->n_prompt - 1;
    if (r->pooling) to = r->pooling == POOLING_FIRST ? r->pool_from + 1 : s->group->n_pooled;
    if (r->pooling && r->pooling != POOLING_ALL && from < r->pool_from) from = r->pool_from;
    if (r->pooling == POOLING_LAST && from < to - 1) from = to - 1;
    return to > from ? (struct wanted){from, to} : (struct wanted){s->n_token, s->n_token};
}

int seq_n_whole(const struct seq *s)
{
    return s->n_kv < s->n_whole ? s->n_whole : 0;
}

bool seq_decodes(const struct seq *s)
{
    int n = s->n_token - s->n_kv;
    return n > 0 && n <= s->n_fresh;
}

int seq_n_left(const struct seq *s)
{
    return seq_decodes(s) ? 1 : s->n_token - s->n_kv;
}

/* Compute K and V again with the other list, because they depend on the list of divisors. The names
 * of pages change with the list. A finished sequence, which is padding, keeps its pages. */
void seq_lengthen(struct engine *en, struct seq *s)
{
    if (s->is_long || s->finish != FINISH_NONE || !batch_is_long(en->executor.limits, s->n_token))
        return;
    hold_drop(en, s);
    s->is_long = true;
    s->n_name = 0;
    seq_name_pages(en, s);
}

/* ---- the waiting list ---- */

/* Append s at the end of the list. */
static void list_push(struct seq_list *l, struct seq *s)
{
    if (!l->tail) l->tail = &l->head;
    s->next = NULL;
    *l->tail = s;
    l->tail = &s->next;
    l->n++;
}

/* Remove s. A linear search is sufficient, because only admissions and ends remove sequences. */
static void list_remove(struct seq_list *l, struct seq *s)
{
    struct seq **at = &l->head;
    CHECK(l->n > 0 && s->state == SEQ_WAITING, "%d wait, state %d", l->n, (int)s->state);
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    if (l->tail == &s->next) l->tail = at;
    s->next = NULL;
    l->n--;
}

/* ---- states ---- */

/* Register s with the policy. A sequence that was IDLE is new to the policy, with zeroed counts. */
static void arrive(struct engine *en, struct seq *s)
{
    const struct request *r = s->group->request;
    s->entity = (struct sched_entity){.arrival = s->entity.arrival,
                                      .submit_us = r->submit_us,
                                      .priority = r->priority,
                                      .holder = r->holder,
                                      .holder_weight = r->holder_weight,
                                      .n_prompt = s->n_prompt,
                                      .n_left = s->n_token};
    policy_arrive(en->policy, &s->entity, en->now_us);
}

void seq_wait(struct engine *en, struct seq *s)
{
    CHECK(s->state == SEQ_IDLE || s->state == SEQ_RUNNING, "state %d", (int)s->state);
    if (s->state == SEQ_IDLE) arrive(en, s);
    s->state = SEQ_WAITING;
    record_wait(en, s);
    list_push(&en->waiting, s);
}

/* Remove s from the running sequences. Keep the order of the other sequences, because it is the
 * rank order. */
static void leave_running(struct engine *en, struct seq *s)
{
    int i = 0;
    record_run_end(en, s);
    portion_run_end(en, s);
    while (en->running[i] != s) i++;
    memmove(en->running + i, en->running + i + 1,
            (size_t)(--en->n_running - i) * sizeof(struct seq *));
}

/* Remove s from the waiting list. */
static void leave_waiting(struct engine *en, struct seq *s)
{
    record_wait_end(en, s);
    list_remove(&en->waiting, s);
}

/* Move s from IDLE or WAITING to RUNNING. */
void seq_run(struct engine *en, struct seq *s)
{
    CHECK(s->state == SEQ_IDLE || s->state == SEQ_WAITING, "state %d", (int)s->state);
    if (s->state == SEQ_IDLE) arrive(en, s);
    if (s->state == SEQ_WAITING) leave_waiting(en, s);
    s->state = SEQ_RUNNING;
    record_run(en, s);
    portion_run(en, s);
    policy_admitted(en->policy, &s->entity, en->now_us);
    s->admit_us = en->now_us;
    plan_clear(s);
    en->plan.n_late += s->late;
    rank_seq(en, s);
    rank_insert(en, s);
}

/* Preempt s. End s instead if it is padding, because its answer is complete. */
void seq_preempt(struct engine *en, struct seq *s)
{
    CHECK(s->state == SEQ_RUNNING, "state %d", (int)s->state);
    plan_undo(en, s);
    en->plan.preempted = true;
    if (s->padding) {
        seq_end(en, s, s->finish);
        return;
    }
    s->group->n_preempted++;
    stats_count(en->stats, STAT_preemptions, 1);
    hold_preempt(en, s);
    leave_running(en, s);
    s->entity.n_left = s->n_token - s->n_kv;
    policy_preempted(en->policy, &s->entity, en->now_us);
    seq_wait(en, s);
}

/* Drop the pages and states of s, and leave the policy. The tokens stay. */
void seq_idle(struct engine *en, struct seq *s)
{
    if (s->state == SEQ_IDLE) return;
    plan_clear(s);
    hold_drop(en, s);
    if (s->state == SEQ_RUNNING)
        leave_running(en, s);
    else
        leave_waiting(en, s);
    policy_leave(en->policy, &s->entity);
    s->state = SEQ_IDLE;
}

/* End s. The last sequence of a group puts the group into engine.ended. */
void seq_end(struct engine *en, struct seq *s, enum finish f)
{
    struct group *g = s->group;
    CHECK(s->state != SEQ_DONE && g->n_live > 0, "state %d, %d live", (int)s->state, g->n_live);
    seq_idle(en, s);
    s->finish = f;
    s->state = SEQ_DONE;
    for (int i = s->choice + 1; i < g->n_seq; i++) g->seq[i].n_before--;
    g->n_live--;
    if (!g->ranked && g->n_seq > 1) emit_choice(en, s);
    if (g->n_live > 0) return;
    g->next_ended = en->ended;
    en->ended = g;
}

/* End the batch if all running sequences are padding. */
void seq_end_padding(struct engine *en)
{
    for (int i = 0; i < en->n_running; i++)
        if (!en->running[i]->padding) return;
    while (en->n_running > 0) seq_end(en, en->running[0], en->running[0]->finish);
}

/* ---- a copy of another sequence ---- */

/* Copy the tokens and the state of the parent to the child. */
void seq_copy(struct seq *child, const struct seq *parent)
{
    CHECK(child->group == parent->group && child->state == SEQ_IDLE, "state %d", (int)child->state);
    child->n_token = parent->n_token;
    child->n_output = parent->n_output;
    child->n_name = parent->n_name;
    child->is_long = parent->is_long;
    child->first_us = parent->first_us;
    child->last_us = parent->last_us;
    child->n_cached = parent->n_cached;
    constraint_follow(child, parent);
    memcpy(child->token, parent->token, (size_t)parent->n_token * sizeof *child->token);
    memcpy(child->name, parent->name, (size_t)parent->n_name * sizeof *child->name);
}

/* Run the child on its parent's pages, or move it to WAITING if there is no place. */
void seq_follow(struct engine *en, struct seq *child, const struct seq *parent)
{
    bool beam = child->group->beam; /* beams advance together */
    if (parent->state == SEQ_RUNNING && en->n_running < en->batch.limits.n_seq &&
        (beam || !portion_full(en, parent))) {
        hold_fork(en, child, parent);
        seq_run(en, child);
    } else {
        seq_wait(en, child);
    }
}
