/* sched.c - which sequences compute which rows in the next step.
 *
 * First come, first served over pages: a sequence is admitted when the pool has pages for its
 * whole length (those of a prefix that is already there are shared), so that it never has to be
 * preempted; the first one that does not fit blocks those behind it. Within a step, sequences
 * that decode get their row first, and prompts fill what is left of the batch, and of the time that
 * a step may take (budget.h), in chunks, oldest first. How a prompt is cut never changes a bit of
 * the result (docs/design.md 5). */
#include "engine_impl.h"

#include <assert.h>
#include <stdlib.h>

void sched_submit(struct engine *en, struct request *take_r)
{
    struct seq *s = seq_open(take_r);
    if (s) {
        s->turn = (struct turn){.arrival = en->n_arrived++,
                                .submit_us = take_r->submit_us,
                                .share_weight = 1,
                                .n_prompt = s->n_prompt,
                                .n_left = s->n_prompt};
        policy_arrive(en->policy, &s->turn, en->now_us);
        list_push(&en->waiting, s);
        return;
    }
    struct event ev = {
        .request_id = take_r->id, .kind = EVENT_DONE, .finish = FINISH_ERROR, .stop_id = -1};
    queue_push(take_r->reply, &ev);
    request_close(take_r);
    atomic_fetch_sub(&en->n_queued, 1);
}

static void finish(struct engine *en, struct seq_list *l, struct seq **at)
{
    struct seq *s = *at;
    if (s->state == SEQ_WAITING) atomic_fetch_sub(&en->n_queued, 1);
    list_remove(l, at);
    policy_leave(en->policy, &s->turn);
    emit_done(en, s);
    seq_close(s, en->pages);
}

static bool cancel_in(struct engine *en, struct seq_list *l, uint64_t request_id)
{
    for (struct seq **at = &l->head; *at; at = &(*at)->next) {
        if ((*at)->request->id != request_id) continue;
        (*at)->finish = FINISH_ABORT;
        finish(en, l, at);
        return true;
    }
    return false;
}

void sched_cancel(struct engine *en, uint64_t request_id)
{
    if (!cancel_in(en, &en->waiting, request_id)) cancel_in(en, &en->running, request_id);
}

static bool wants_prompt_logprobs(const struct seq *s)
{
    return s->request->n_prompt_logprob >= 0;
}

/* Share the pages of the longest prefix that is there already. The last token is always computed:
 * its logits are wanted. Prompt logprobs want all of them. */
static void share_prefix(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages);
    while ((s->n_page + 1) * rows < s->n_token && !wants_prompt_logprobs(s)) {
        const int32_t *tokens = s->token + s->n_page * rows;
        uint64_t name = page_name(en->pages, s->name, tokens, 0);
        int32_t page = page_find(en->pages, name, tokens);
        if (page < 0) break;
        s->page[s->n_page++] = page;
        s->name = name;
    }
    s->n_sealed = s->n_page;
    s->n_kv = s->n_cached = s->n_page * rows;
}

/* Pages for the whole length, or none at all. */
static bool take_pages(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages), need = (seq_len_max(s) + rows - 1) / rows;
    if (!s->page) s->page = malloc((size_t)need * sizeof *s->page);
    if (!s->page) return false;
    share_prefix(en, s);
    if (need - s->n_page <= pages_n_free(en->pages)) {
        while (s->n_page < need) s->page[s->n_page++] = page_take(en->pages);
        return true;
    }
    while (s->n_page > 0) page_drop(en->pages, s->page[--s->n_page]);
    s->name = PAGE_ROOT;
    s->n_sealed = s->n_kv = s->n_cached = 0;
    return false;
}

/* Full pages become findable. */
static void seal_pages(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages);
    for (; (s->n_sealed + 1) * rows <= s->n_kv; s->n_sealed++) {
        const int32_t *tokens = s->token + s->n_sealed * rows;
        s->name = page_name(en->pages, s->name, tokens, 0);
        page_seal(en->pages, s->page[s->n_sealed], s->name, tokens);
    }
}

/* The waiting sequence that ranks first. */
static struct seq **first_waiting(struct engine *en)
{
    struct seq **best = NULL;
    int64_t best_rank = 0;
    for (struct seq **at = &en->waiting.head; *at; at = &(*at)->next) {
        int64_t rank = policy_rank(en->policy, &(*at)->turn, en->now_us);
        if (best && (rank > best_rank ||
                     (rank == best_rank && (*at)->turn.arrival > (*best)->turn.arrival)))
            continue;
        best = at;
        best_rank = rank;
    }
    return best;
}

bool sched_defers(const struct engine *en)
{
    return en->waiting.head && !policy_admits(en->policy, en->running.n, en->waiting.n,
                                              en->waiting.head->turn.submit_us, en->now_us);
}

static bool may_admit(const struct engine *en)
{
    return en->waiting.head && en->running.n < en->batch.limits.n_seq && !sched_defers(en);
}

static void admit(struct engine *en)
{
    while (may_admit(en)) {
        struct seq **at = first_waiting(en), *s = *at;
        if (!take_pages(en, s)) return;
        list_remove(&en->waiting, at);
        s->state = SEQ_RUNNING;
        policy_admitted(en->policy, &s->turn, en->now_us);
        s->sched_us = en->now_us;
        if (!wants_prompt_logprobs(s)) stats_queried(en->stats, s->n_prompt, s->n_cached);
        list_push(&en->running, s);
        atomic_fetch_sub(&en->n_queued, 1);
    }
}

/* How many rows s may have in this step, given what is left of the batch and of its reply queue. */
static int rows_for(const struct engine *en, const struct seq *s)
{
    const struct batch *b = &en->batch;
    int n = s->n_token - s->n_kv, room = b->limits.n_row - b->n_row,
        out = b->limits.n_out - b->n_out;
    if (out < 1 || emit_room(s) < 2) return 0;
    if (n > room) n = room;
    if (!wants_prompt_logprobs(s)) return n;
    if (n > out) n = out;
    return n > emit_room(s) - 2 ? emit_room(s) - 2 : n;
}

static void add_out(struct batch *b, struct seq *s, int row)
{
    b->out_row[b->n_out] = row;
    b->out_kind[b->n_out++] = OUT_LOGITS;
    s->n_out++;
}

static void add_rows(struct engine *en, struct seq *s, int n)
{
    struct batch *b = &en->batch;
    int page_rows = pages_rows(en->pages), iseq = b->n_seq++;
    int32_t *table = b->page + (int64_t)iseq * b->page_stride;
    for (int i = 0; i < s->n_page; i++) table[i] = s->page[i];
    s->row0 = b->n_row;
    s->n_row = n;
    s->out0 = b->n_out;
    s->n_out = 0;
    for (int i = 0; i < n; i++) {
        int row = b->n_row++, pos = s->n_kv + i;
        b->token[row] = s->token[pos];
        b->pos[row] = pos;
        b->slot[row] = s->page[pos / page_rows] * page_rows + pos % page_rows;
        bool last = pos == s->n_token - 1;
        if ((last && s->request->max_tokens > 0) ||
            (wants_prompt_logprobs(s) && pos < s->n_prompt - 1))
            add_out(b, s, row);
    }
    b->row0[iseq + 1] = b->n_row;
    b->kv_len[iseq] = s->n_kv + n;
    b->state[iseq] = b->adapter[iseq] = -1;
}

static void add_pass(struct engine *en, bool decoding)
{
    for (struct seq *s = en->running.head; s; s = s->next) {
        if ((s->n_token - s->n_kv == 1) != decoding) continue;
        int n = rows_for(en, s);
        if (n > 0 && !decoding) n = budget_rows(&en->budget, &en->load, s->n_kv, n);
        if (n <= 0) continue;
        step_load_add(&en->load, s->n_kv, n, !decoding);
        add_rows(en, s, n);
    }
}

bool sched_next(struct engine *en)
{
    admit(en);
    batch_clear(&en->batch);
    en->load = (struct step_load){0};
    for (struct seq *s = en->running.head; s; s = s->next) s->n_row = s->n_out = 0;
    add_pass(en, true);
    add_pass(en, false);
    return en->batch.n_row > 0;
}

void sched_commit(struct engine *en)
{
    int64_t us = engine_now(en) - en->now_us;
    for (struct seq **at = &en->running.head; *at;) {
        struct seq *s = *at;
        seal_pages(en, s);
        s->turn.n_left = s->n_token - s->n_kv;
        policy_served(en->policy, &s->turn, s->n_row, en->batch.n_row, us);
        if (s->finish == FINISH_NONE && s->request->max_tokens == 0 && s->n_kv == s->n_prompt)
            s->finish = FINISH_LENGTH;
        if (s->finish != FINISH_NONE)
            finish(en, &en->running, at);
        else
            at = &s->next;
    }
}
