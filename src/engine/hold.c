/* hold.c - which pages a sequence holds: what a prefix already has, growth as it goes on, copies on
 * write, and preemption when there are none left.
 *
 *              hold_begin: found by name (hold_catch_up: later), or copied in from host memory
 *   (nothing) ------------------------------------------------------> pages [n_hole, n_page)
 *       ^                                                              | hold_rows: one more, when
 *       '------ hold_drop; hold_preempt: dropped, or copied out -------'   a row needs it
 *
 * Preemption costs what is cheaper: computing the tokens again, (n_kv - what others keep alive of its
 * prefix) / prefill_rate, or copying its pages out and in, 2 * n_page * page_bytes / copy_rate. The
 * first rate is measured, the second the executor's. A sequence that comes back looks its full pages
 * up in the prefix cache before anything is computed or copied. Neither changes a bit of its output
 * (docs/design.md 5).
 *
 * Where every layer has a window, pages behind it are dropped and leave holes (-1) in the table: no
 * row of the sequence sees them any more. A prefix is then found by the pages inside the window. */
#include "engine_impl.h"

#include <assert.h>
#include <string.h>

static int ceil_div(int n, int d)
{
    return (n + d - 1) / d;
}

/* The first page that a row at position pos sees. */
static int first_page(const struct engine *en, int pos)
{
    int w = en->executor.window, from = w > 0 && pos >= w ? pos - w + 1 : 0;
    return from / pages_rows(en->pages);
}

int hold_least(const struct engine *en, int n)
{
    int rows = pages_rows(en->pages), all = ceil_div(n, rows), w = en->executor.window;
    int in_window = w > 0 ? ceil_div(w - 1, rows) + 1 : all;
    return all < in_window ? all : in_window;
}

/* ---- the prefix cache ---- */

static const int32_t *tokens_of(const struct engine *en, const struct seq *s, int i)
{
    return s->token + i * pages_rows(en->pages);
}

static int32_t look(const struct engine *en, const struct seq *s, int i)
{
    return page_look(en->pages, s->name[i], tokens_of(en, s, i));
}

/* Leading pages of s that may be found: no row's result is wanted of them, and one token at least is left over. */
static int most_found(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages), most = (s->n_token - 1) / rows;
    int wanted = seq_wanted(s).from / rows;
    if (most > wanted) most = wanted;
    return most < s->n_name ? most : s->n_name;
}

/* How many leading pages of s need not be computed: those that the cache has. Only pages that row n * page_rows sees have
 * to be there. */
static int n_found(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages), most = most_found(en, s);
    if (en->executor.window == 0) {
        int n = 0;
        while (n < most && look(en, s, n) >= 0) n++;
        return n;
    }
    for (int n = most; n > 0;) {
        int i = n - 1, first = first_page(en, n * rows);
        while (i >= first && look(en, s, i) >= 0) i--;
        if (i < first) return n;
        n = i; /* page i is missing: a prefix that ends before it */
    }
    return 0;
}

/* An estimate, from the one before: it is asked for every waiting sequence in every step. */
int hold_cached(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages), n = s->turn.n_cached / rows, most = (s->n_token - 1) / rows;
    if (most > s->n_name) most = s->n_name;
    while (n > 0 && look(en, s, n - 1) < 0) n--;
    while (n < most && look(en, s, n) >= 0) n++;
    return n * rows;
}

static void find_prefix(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages), n = n_found(en, s), first = first_page(en, n * rows);
    for (int i = 0; i < n; i++)
        s->page[i] = i < first ? -1 : page_find(en->pages, s->name[i], tokens_of(en, s, i));
    s->n_page = s->n_sealed = n;
    s->n_hole = first < n ? first : n;
    s->n_kv = n * rows;
}

/* What others have sealed of s's prompt since it was admitted, in the place of what it has of the next page: requests that come
 * at once with one system prompt wait behind the first one's rows, and find its pages when they get theirs. */
int hold_catch_up(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages), most = most_found(en, s), i = s->n_kv / rows, before = s->n_kv;
    if (s->n_sealed != i || s->n_page > i + (s->n_kv % rows > 0)) return 0;
    for (; i < most; i++) {
        int32_t page = page_find(en->pages, s->name[i], tokens_of(en, s, i));
        if (page < 0) break;
        if (i < s->n_page) page_drop(en->pages, s->page[i]);
        s->page[i] = page;
        s->n_page = s->n_sealed = i + 1;
        s->n_kv = s->n_page * rows;
    }
    return s->n_kv - before;
}

static void seal(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages);
    for (; (s->n_sealed + 1) * rows <= s->n_kv; s->n_sealed++) {
        int i = s->n_sealed;
        if (i == s->n_name) s->name[s->n_name++] = seq_page_name(en, s, i);
        if (i >= s->n_hole)
            s->page[i] = page_seal(en->pages, s->page[i], s->name[i], tokens_of(en, s, i));
    }
}

void hold_commit(struct engine *en, struct seq *s)
{
    seal(en, s);
    bool stays = s->finish != FINISH_NONE && policy_holds(en->policy); /* its last row again */
    int first = first_page(en, s->n_kv - stays);
    for (; s->n_hole < first && s->n_hole < s->n_page; s->n_hole++) {
        page_drop(en->pages, s->page[s->n_hole]);
        s->page[s->n_hole] = -1;
    }
}

/* ---- growth ---- */

/* A page for s; the last of the running sequences that holds some gives its own up. -1: none behind s
 * does. */
static int32_t take_page(struct engine *en, struct seq *s)
{
    for (;;) {
        int32_t page = page_take(en->pages);
        if (page >= 0) return page;
        int i = en->n_running - 1;
        while (en->running[i] != s && en->running[i]->n_page == 0) i--;
        if (en->running[i] == s) return -1;
        seq_preempt(en, en->running[i]);
    }
}

static bool copy_add(struct engine *en, int kind, int32_t src, int32_t dst)
{
    struct batch *b = &en->batch;
    if (b->n_copy == b->limits.n_copy) return false;
    b->copy[b->n_copy++] = (struct batch_copy){.src = src, .dst = dst, .kind = kind};
    return true;
}

/* The open page becomes the sequence's own. */
static bool own_page(struct engine *en, struct seq *s, int i)
{
    if (en->batch.n_copy == en->batch.limits.n_copy) return false;
    int32_t own = take_page(en, s);
    if (own < 0) return false;
    /* those who shared it may have been preempted for it */
    if (page_refs(en->pages, s->page[i]) == 1) {
        page_drop(en->pages, own);
        return true;
    }
    if (!copy_add(en, COPY_KV, s->page[i], own)) {
        page_drop(en->pages, own);
        return false;
    }
    page_drop(en->pages, s->page[i]);
    s->page[i] = own;
    stats_count(en->stats, STAT_pages_copied, 1);
    return true;
}

int hold_rows(struct engine *en, struct seq *s, int n)
{
    int rows = pages_rows(en->pages), open = s->n_kv / rows;
    if (open < s->n_page && page_refs(en->pages, s->page[open]) > 1 && !own_page(en, s, open))
        return 0;
    while (s->n_page * rows < s->n_kv + n) {
        int32_t page = take_page(en, s);
        if (page < 0) break;
        s->page[s->n_page++] = page;
    }
    int room = s->n_page * rows - s->n_kv;
    return n < room ? n : room;
}

/* ---- what admission asks ---- */

/* Pages that s holds at most while it computes its known tokens. */
static int most_pages(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages), w = en->executor.window, chunk = en->batch.limits.n_row;
    int n = s->n_token < s->n_token_max ? s->n_token + 1 : s->n_token, most = ceil_div(n, rows);
    int in_window = w > 0 && chunk < n - w ? ceil_div(w - 1 + chunk, rows) + 1 : most;
    if (most > in_window) most = in_window;
    if (most < s->n_page - s->n_hole) most = s->n_page - s->n_hole;
    return most < pages_n_total(en->pages) ? most
                                           : pages_n_total(en->pages); /* in smaller chunks */
}

int hold_need(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages), need = most_pages(en, s);
    int n = s->n_host ? (s->n_name < s->n_page ? s->n_name : s->n_page) : n_found(en, s);
    int first = s->n_host ? s->n_hole : first_page(en, n * rows);
    for (int i = first; i < n; i++) {
        int32_t page = look(en, s, i);
        need -= page >= 0 && page_refs(en->pages, page) > 0;
    }
    return need > 0 ? need : 0;
}

int hold_reserved(const struct engine *en, const struct seq *s)
{
    int n = most_pages(en, s) - (s->n_page - s->n_hole);
    return n > 0 ? n : 0;
}

int hold_private(const struct engine *en, const struct seq *s)
{
    int n = 0;
    for (int i = s->n_hole; i < s->n_page; i++) n += page_refs(en->pages, s->page[i]) == 1;
    return n;
}

bool hold_can_begin(const struct engine *en, const struct seq *s)
{
    return s->n_host <= en->batch.limits.n_copy - en->batch.n_copy;
}

/* ---- begin, preempt, end ---- */

/* Its pages again: those that the cache still has as they are, the others from host memory. */
static void swap_in(struct engine *en, struct seq *s)
{
    int n = s->n_page;
    for (int i = s->n_hole; i < n; i++) {
        int32_t page = i < s->n_name ? page_find(en->pages, s->name[i], tokens_of(en, s, i)) : -1;
        if (page < 0) {
            page = page_take(en->pages);
            copy_add(en, COPY_IN, s->host[i], page);
            stats_count(en->stats, STAT_pages_in, 1);
        }
        s->page[i] = page;
        spill_give(&en->spill, s->host[i]);
        s->host[i] = -1;
    }
    s->n_host = 0;
    s->n_sealed = s->n_hole; /* sealed again once the copies are done */
}

void hold_begin(struct engine *en, struct seq *s)
{
    if (s->n_host)
        swap_in(en, s);
    else
        find_prefix(en, s);
}

static void drop_host(struct engine *en, struct seq *s)
{
    for (int i = 0; i < s->n_page && s->n_host; i++)
        if (s->host[i] >= 0) spill_give(&en->spill, s->host[i]), s->host[i] = -1, s->n_host--;
}

static void drop_pages(struct engine *en, struct seq *s)
{
    for (int i = s->n_page - 1; i >= s->n_hole; i--) page_drop(en->pages, s->page[i]);
}

void hold_drop(struct engine *en, struct seq *s)
{
    if (s->state == SEQ_RUNNING)
        drop_pages(en, s);
    else
        drop_host(en, s);
    s->n_page = s->n_hole = s->n_sealed = s->n_kv = 0;
}

/* Pages that hold something: a page taken for rows that were not computed is empty. */
static int n_full(const struct engine *en, const struct seq *s)
{
    return ceil_div(s->n_kv, pages_rows(en->pages));
}

/* Tokens that would have to be computed again: those in pages that nobody else holds. */
static double recompute_us(const struct engine *en, const struct seq *s)
{
    int n = 0;
    while (n < s->n_sealed && (n < s->n_hole || page_refs(en->pages, s->page[n]) > 1)) n++;
    return (s->n_kv - n * pages_rows(en->pages)) / en->prefill_rate;
}

static double swap_us(const struct engine *en, const struct seq *s)
{
    const struct executor *x = &en->executor;
    int n = n_full(en, s) - s->n_hole;
    if (n == 0 || n > en->spill.n_free || x->copy_rate <= 0) return -1;
    /* out now, and in some day, beside a copy on write of every sequence */
    const struct batch_limits *l = &en->batch.limits;
    if (n > l->n_copy - en->batch.n_copy || n > l->n_copy - l->n_seq) return -1;
    return 2.0 * n * (double)x->page_bytes / x->copy_rate;
}

int64_t hold_return_us(const struct engine *en, const struct seq *s)
{
    double again = recompute_us(en, s), copy = swap_us(en, s);
    return (int64_t)(copy >= 0 && copy < again ? copy : again);
}

static void swap_out(struct engine *en, struct seq *s)
{
    int n = n_full(en, s);
    for (int i = s->n_hole; i < n; i++) {
        s->host[i] = spill_take(&en->spill);
        copy_add(en, COPY_OUT, s->page[i], s->host[i]);
        s->n_host++;
    }
    drop_pages(en, s);
    s->n_page = n;
    stats_count(en->stats, STAT_pages_out, s->n_host);
    stats_count(en->stats, STAT_swapped, 1);
}

void hold_preempt(struct engine *en, struct seq *s)
{
    double copy = swap_us(en, s);
    if (copy >= 0 && copy < recompute_us(en, s)) {
        swap_out(en, s);
        return;
    }
    hold_drop(en, s);
}

/* ---- several sequences of a group ---- */

void hold_fork(struct engine *en, struct seq *child, const struct seq *parent)
{
    int n = n_full(en, parent);
    child->n_page = n;
    child->n_hole = parent->n_hole;
    child->n_sealed = parent->n_sealed;
    child->n_kv = parent->n_kv;
    for (int i = 0; i < n; i++) {
        child->page[i] = parent->page[i];
        if (i >= parent->n_hole) page_ref(en->pages, child->page[i]);
    }
}
