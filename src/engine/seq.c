/* seq.c - memory of a request's sequences, and the waiting list. All of it is allocated on the
 * client's thread at submission, in one arena: a step allocates nothing. */
#include "engine_impl.h"

#include <stdlib.h>
#include <string.h>

/* Hash of what changes the content of a page besides its tokens and earlier ones. */
static uint64_t extra_of(const struct request *r)
{
    return r->cache_salt * 0xD6E8FEB86659FD93u;
}

uint64_t seq_page_name(const struct engine *en, const struct seq *s, int i)
{
    return page_name(en->pages, i ? s->name[i - 1] : PAGE_ROOT,
                     s->token + i * pages_rows(en->pages), extra_of(s->group->request));
}

/* Forced tokens whose logits are wanted are checked as drafts are, a few at a time: a mask for
 * each. */
static bool open_drafts(struct seq *s, const struct engine *en)
{
    enum { FORCED = 8 };
    const struct request *r = s->group->request;
    s->n_draft_max = s->group->beam || r->pooling ? 0 : en->drafter.n_max;
    if (r->constraint && emit_needs_logits(s) && s->n_draft_max < FORCED) s->n_draft_max = FORCED;
    s->n_mask_word = r->constraint ? ((size_t)en->vocab.n_vocab + 31) / 32 : 0;
    size_t n = (size_t)s->n_draft_max, n_word = (n + 1) * s->n_mask_word;
    if (n > 0) s->draft = arena_push(&s->group->arena, n * sizeof *s->draft, 64);
    if (n_word > 0) s->mask = arena_push(&s->group->arena, n_word * sizeof *s->mask, 64);
    if (en->states) s->state_to = arena_push(&s->group->arena, (n + 1) * sizeof *s->state_to, 64);
    return (n == 0 || s->draft) && (n_word == 0 || s->mask) && (!en->states || s->state_to);
}

static bool seq_init(struct seq *s, const struct engine *en, struct group *g)
{
    const struct request *r = g->request;
    int rows = pages_rows(en->pages);
    s->group = g;
    s->choice = (int)(s - g->seq);
    s->stop_id = -1;
    s->n_fresh = 1;
    s->state_at = s->host_state = s->snapshot = -1;
    s->n_prompt = s->n_token = (int)r->prompt.n;
    s->n_token_max = s->n_prompt + r->max_tokens;
    s->n_page_max = (s->n_token_max + rows - 1) / rows;
    size_t n_page = (size_t)s->n_page_max;
    s->token = arena_push(&g->arena, (size_t)s->n_token_max * sizeof *s->token, 64);
    s->page = arena_push(&g->arena, n_page * sizeof *s->page, 64);
    s->host = arena_push(&g->arena, n_page * sizeof *s->host, 64);
    s->name = arena_push(&g->arena, n_page * sizeof *s->name, 64);
    if (!s->token || !s->page || !s->host || !s->name) return false;
    if (!open_drafts(s, en)) return false;
    memcpy(s->token, r->prompt.v, r->prompt.n * sizeof *s->token);
    memset(s->host, 0xFF, n_page * sizeof *s->host);
    if (g->held) {
        size_t n = 1 + (size_t)(r->params.n_logprob > 0 ? r->params.n_logprob : 0);
        s->record = arena_push0(&g->arena, (size_t)r->max_tokens * n, sizeof *s->record);
        if (!s->record) return false;
    }
    return true;
}

static int open_sampler(struct seq *s, const struct engine *en, struct err *e)
{
    struct sample_params p = s->group->request->params;
    if (!p.lists) p.lists = s->group->lists;
    if (s->group->held && p.n_logprob < 0) p.n_logprob = 0; /* what ranks it */
    int rc = sampler_open(&s->sampler, &p, &en->vocab, (uint32_t)s->choice, s->n_token_max, e);
    if (rc == 0) sampler_accept_prompt(s->sampler, s->token, s->n_prompt);
    return rc;
}

static int fail_limit(const struct group *g, struct err *e)
{
    return err_field(e, ERR_LIMIT, "n",
                     ": %d sequences of up to %d tokens need more memory than a request may have",
                     g->n_seq, (int)g->request->prompt.n + g->request->max_tokens);
}

static int open_seqs(struct group *g, const struct engine *en, int64_t byte_max, struct err *e)
{
    int rc = 0;
    g->seq = arena_push0(&g->arena, (size_t)g->n_seq, sizeof *g->seq);
    bool ok = g->seq;
    for (int i = 0; i < g->n_seq && ok; i++) ok = seq_init(&g->seq[i], en, g);
    if (g->held && ok)
        g->answer = arena_push0(&g->arena, (size_t)g->n_answer, sizeof *g->answer), ok = g->answer;
    if (ok && g->request->beam_width) ok = beam_open(g, en);
    if (ok && g->request->pooling) ok = pooling_open(g, en);
    if (!ok && g->arena.limited) return fail_limit(g, e);
    if (!ok) return err_memory(e, "a request's sequences", g->arena.n_byte);
    struct seq *first = &g->seq[0];
    for (; (first->n_name + 1) * pages_rows(en->pages) <= first->n_prompt; first->n_name++)
        first->name[first->n_name] = seq_page_name(en, first, first->n_name);
    g->n_byte = (int64_t)g->arena.n_byte;
    bool samples = !g->beam && !g->request->pooling;
    if (samples && !g->request->params.lists)
        rc = sample_lists_open(&g->lists, &g->request->params, &en->vocab, e);
    g->n_byte += sample_lists_bytes(g->lists);
    for (int i = 0; i < g->n_seq && rc == 0 && g->request->constraint; i++) {
        rc = constraint_open(&g->seq[i], e);
        if (rc == 0 && byte_max && g->n_byte > byte_max) rc = fail_limit(g, e);
    }
    for (int i = 0; i < g->n_seq && rc == 0 && samples; i++) {
        rc = open_sampler(&g->seq[i], en, e);
        if (rc == 0) g->n_byte += sampler_bytes(g->seq[i].sampler);
        if (rc == 0 && byte_max && g->n_byte > byte_max) rc = fail_limit(g, e);
    }
    return rc;
}

int group_open(struct group **out, const struct engine *en, struct request *take_r,
               int64_t byte_max, struct err *e)
{
    struct group *g = calloc(1, sizeof *g);
    if (!g) return err_memory(e, "a request", sizeof *g);
    g->arena.n_byte_max = (size_t)byte_max;
    g->request = take_r;
    g->n_seq = take_r->best_of > take_r->n ? take_r->best_of : take_r->n;
    if (take_r->beam_width) g->n_seq = take_r->beam_width;
    g->held = g->n_seq > take_r->n || take_r->beam_width;
    g->n_answer = take_r->n;
    g->n_live = g->n_seq;
    int rc = open_seqs(g, en, byte_max, e);
    if (rc == 0) {
        *out = g;
        return 0;
    }
    g->request = NULL;
    group_close(g);
    return rc;
}

void group_close(struct group *g)
{
    if (!g) return;
    for (int i = 0; i < g->n_seq && g->seq; i++) {
        sampler_close(g->seq[i].sampler);
        constraint_close(&g->seq[i]);
    }
    sample_lists_close(g->lists);
    request_close(g->request);
    arena_deinit(&g->arena);
    free(g);
}

/* Pooled requests have no logprobs. A forked choice has its prompt emitted already. */
struct wanted seq_wanted(const struct seq *s)
{
    const struct request *r = s->group->request;
    int from = s->n_emitted, to = 0;
    if (r->n_prompt_logprob >= 0 && s->choice == 0) to = s->n_prompt - 1;
    if (r->pooling) to = r->pooling == POOLING_FIRST ? 1 : s->n_prompt;
    if (r->pooling == POOLING_LAST && from < to - 1) from = to - 1;
    return to > from ? (struct wanted){from, to} : (struct wanted){s->n_token, s->n_token};
}

void list_push(struct seq_list *l, struct seq *s)
{
    if (!l->tail) l->tail = &l->head;
    s->next = NULL;
    *l->tail = s;
    l->tail = &s->next;
    l->n++;
}

void list_remove(struct seq_list *l, struct seq *s)
{
    struct seq **at = &l->head;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    if (l->tail == &s->next) l->tail = at;
    s->next = NULL;
    l->n--;
}
