/* hold.c - pages of a sequence: cached prefixes, growth, copy on write, and preemption.
 *
 *              hold_acquire: found by name (hold_catch_up: later), or copied in from host memory
 *   (nothing) ------------------------------------------------------> pages [n_hole, n_page)
 *       ^                                                              | hold_rows: one more, when
 *       '------ hold_drop; hold_preempt: dropped, or copied out -------'   a row needs it
 *
 * Preemption uses the method with the lower cost:
 *
 *   recomputing   (n_kv - tokens of its prefix that other sequences hold) / prefill_rate, measured
 *   copying       2 * n_page * page_bytes / copy_rate, a constant of the executor
 *
 * At its return, a sequence first looks up its full pages in the prefix cache. Neither method
 * changes a bit of the output (docs/design.md 5).
 *
 * Pages before the window are dropped and leave holes (-1) in the table if every layer has a
 * window. No later row of the sequence attends to these pages. With a window, a prefix is found if
 * the pages inside the window are cached. */
#include "engine_impl.h"

#include "base/check.h"

#include <string.h>

static int ceil_div(int n, int d)
{
    return (n + d - 1) / d;
}

/* Return the first page that a row at position pos attends to. */
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

static int32_t look_up(const struct engine *en, const struct seq *s, int i)
{
    return page_look(en->pages, s->name[i], tokens_of(en, s, i));
}

/* Return the number of leading pages of s that may come from the cache. Pages with wanted results
 * must not come from the cache, and at least one token must be left to compute. */
static int found_max(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages), max = (s->n_token - 1) / rows;
    int wanted = seq_wanted(s).from / rows;
    if (max > wanted) max = wanted;
    return max < s->n_name ? max : s->n_name;
}

/* Return n <= max, the number of leading pages of s that the cache has. The prefix needs only the
 * pages that row n * page_rows attends to, and, if with_state, the recurrent state before that
 * row. */
static int n_found_of(const struct engine *en, const struct seq *s, int max, bool with_state)
{
    int rows = pages_rows(en->pages);
    if (en->executor.window == 0) {
        int n = 0;
        while (n < max && look_up(en, s, n) >= 0) n++;
        while (with_state && !state_is_cached(en, s, n)) n--;
        return n;
    }
    for (int n = max; n > 0;) {
        int i = n - 1, first = first_page(en, n * rows);
        if (with_state && !state_is_cached(en, s, n)) {
            n--;
            continue;
        }
        while (i >= first && look_up(en, s, i) >= 0) i--;
        if (i < first) return n;
        n = i; /* page i is missing: try a prefix that ends before page i */
    }
    return 0;
}

/* Return the number of leading pages of s that come from the cache. */
static int n_found(const struct engine *en, const struct seq *s)
{
    return n_found_of(en, s, found_max(en, s), true);
}

/* Return an estimate of the number of cached tokens. Start from the last estimate to save time,
 * because every step calls this function for every waiting sequence. */
int hold_cached(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages), n = s->entity.n_cached / rows, max = (s->n_token - 1) / rows;
    if (max > s->n_name) max = s->n_name;
    while (n > 0 && look_up(en, s, n - 1) < 0) n--;
    while (n < max && look_up(en, s, n) >= 0) n++;
    while (!state_is_cached(en, s, n)) n--;
    return n * rows;
}

/* Count the reasons for which the tokens of the prompt after the first n pages are computed, when s
 * is first admitted. The cache lacks a state, results of the tokens are wanted, the cache lacks
 * their pages, or the tokens are not in a whole page with a token after it. If there is no state at
 * the end of pages that the cache has, s keeps one there. */
static void note_misses(struct engine *en, struct seq *s, int n)
{
    const int rows = pages_rows(en->pages), whole = (s->n_token - 1) / rows;
    const int max = whole < s->n_name ? whole : s->n_name;
    if (!en->keep_prefixes || s->sched_us != 0) return;
    const int end = n_found_of(en, s, found_max(en, s), false), all = n_found_of(en, s, max, false);
    const int wanted = all > end ? all : end;
    if (en->executor.window == 0) state_branch(s, end > n ? end : 0);
    stats_count(en->stats, STAT_missed_state, (end - n) * rows);
    stats_count(en->stats, STAT_missed_results, (wanted - end) * rows);
    stats_count(en->stats, STAT_missed_pages, (whole - wanted) * rows);
    stats_count(en->stats, STAT_missed_rest, s->n_token - whole * rows);
}

static void find_prefix(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages), n = n_found(en, s), first = first_page(en, n * rows);
    note_misses(en, s, n);
    for (int i = 0; i < n; i++)
        s->page[i] = i < first ? -1 : page_find(en->pages, s->name[i], tokens_of(en, s, i));
    s->n_page = s->n_sealed = n;
    s->n_hole = first < n ? first : n;
    s->n_kv = n * rows;
    state_find(en, s, n);
}

/* Adopt prompt pages that other sequences sealed after s was admitted. The adopted pages replace
 * the partial page of s. Therefore concurrent requests with the same system prompt compute it
 * once. */
int hold_catch_up(struct engine *en, struct seq *s)
{
    int rows = pages_rows(en->pages), max = found_max(en, s), i = s->n_kv / rows, before = s->n_kv,
        n = i;
    if (s->n_sealed != i || s->n_page > i + (s->n_kv % rows > 0)) return 0;
    for (int k = i; k < max && look_up(en, s, k) >= 0; k++)
        if (state_is_cached(en, s, k + 1)) n = k + 1;
    if (n > i) state_find(en, s, n);
    for (; i < n; i++) {
        int32_t page = page_find(en->pages, s->name[i], tokens_of(en, s, i));
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

void hold_give_back(struct engine *en, struct seq *s)
{
    int n = ceil_div(s->n_kv, pages_rows(en->pages));
    while (s->n_page > n && s->n_page > s->n_hole) page_drop(en->pages, s->page[--s->n_page]);
}

void hold_commit(struct engine *en, struct seq *s)
{
    if (s->plan.n_draft > 0) hold_give_back(en, s);
    seal(en, s);
    state_commit(en, s);
    /* the last row of s is recomputed */
    bool stays = s->finish != FINISH_NONE && policy_holds(en->policy);
    int first = first_page(en, s->n_kv - stays);
    for (; s->n_hole < first && s->n_hole < s->n_page; s->n_hole++) {
        page_drop(en->pages, s->page[s->n_hole]);
        s->page[s->n_hole] = -1;
    }
}

/* ---- growth ---- */

/* Return the number of copies for which the step has room. Copies that are reserved for a returning
 * sequence do not count. */
static int copies_left(const struct engine *en)
{
    return en->batch.limits.n_copy - en->batch.n_copy - en->plan.n_copy_kept;
}

/* Add a copy to the step. The caller must have checked that there is room. Without this copy, a
 * page would keep the K and V of another sequence. */
void hold_copy(struct engine *en, int kind, int32_t src, int32_t dst)
{
    struct batch *b = &en->batch;
    CHECK(src >= 0 && dst >= 0 && b->n_copy < b->limits.n_copy, "from %d to %d, %d copies", src,
          dst, b->n_copy);
    b->copy[b->n_copy++] = (struct batch_copy){.src = src, .dst = dst, .kind = kind};
}

/* Replace the shared open page by a copy that only s holds. */
static bool own_page(struct engine *en, struct seq *s, int i, bool *lacks)
{
    if (copies_left(en) == 0) return false;
    int32_t own = page_take(en->pages);
    *lacks = own < 0;
    if (*lacks) return false;
    hold_copy(en, COPY_KV, s->page[i], own);
    page_drop(en->pages, s->page[i]);
    s->page[i] = own;
    stats_count(en->stats, STAT_pages_copied, 1);
    return true;
}

/* Acquire pages for up to n rows at positions [from, from + n). Return the number of rows that have
 * pages. */
static int grow(struct engine *en, struct seq *s, int from, int n)
{
    int rows = pages_rows(en->pages);
    CHECK(from + n <= s->page_max * rows, "%d rows from %d", n, from);
    while (s->n_page * rows < from + n) {
        int32_t page = page_take(en->pages);
        if (page < 0) break;
        s->page[s->n_page++] = page;
    }
    int room = s->n_page * rows - from;
    return n < room ? n : room;
}

int hold_rows(struct engine *en, struct seq *s, int n, bool *lacks)
{
    int open = s->n_kv / pages_rows(en->pages);
    CHECK(s->state == SEQ_RUNNING && n > 0, "state %d, %d rows", (int)s->state, n);
    *lacks = false;
    if (open < s->n_page && page_refs(en->pages, s->page[open]) > 1 &&
        !own_page(en, s, open, lacks))
        return 0;
    *lacks = !state_may_own(en, s);
    if (*lacks) return 0;
    int n_has = grow(en, s, s->n_kv, n);
    if (n_has > 0) state_own(en, s);
    *lacks = n_has < n;
    return n_has;
}

int hold_more(struct engine *en, struct seq *s, int n)
{
    return grow(en, s, s->n_kv + s->plan.n_row, state_more(en, s, n));
}

/* ---- for admission ---- */

/* Return the maximum number of pages that s holds while it computes its known tokens. */
static int pages_max(const struct engine *en, const struct seq *s)
{
    int rows = pages_rows(en->pages), w = en->executor.window, chunk = en->batch.limits.n_row;
    int n = s->n_token < s->token_max ? s->n_token + 1 : s->n_token, max = ceil_div(n, rows);
    int in_window = w > 0 && chunk < n - w ? ceil_div(w - 1 + chunk, rows) + 1 : max;
    if (max > in_window) max = in_window;
    if (max < s->n_page - s->n_hole) max = s->n_page - s->n_hole;
    /* the rows may be computed in smaller chunks */
    return max < pages_n_total(en->pages) ? max : pages_n_total(en->pages);
}

/* Return the end of the pages [*first, end) that an admission of s would look up now. */
static int lookup_end(const struct engine *en, const struct seq *s, int *first)
{
    int n = s->n_host ? (s->n_name < s->n_page ? s->n_name : s->n_page) : n_found(en, s);
    *first = s->n_host ? s->n_hole : first_page(en, n * pages_rows(en->pages));
    return n;
}

int hold_need(const struct engine *en, const struct seq *s)
{
    int need = pages_max(en, s), first, n = lookup_end(en, s, &first);
    for (int i = first; i < n; i++) {
        int32_t page = look_up(en, s, i);
        need -= page >= 0 && page_refs(en->pages, page) > 0;
    }
    /* If no running sequence advances, s computes its rows in chunks for which the free pages
     * suffice. Otherwise a beam search would wait forever for a beam that needs more pages than the
     * other beams leave. */
    const int n_free = pages_n_free(en->pages);
    if (en->plan.idle && need > n_free && hold_least(en, s->n_token) <= n_free) need = n_free;
    return need > 0 ? need : 0;
}

int hold_reserved(const struct engine *en, const struct seq *s)
{
    int n = pages_max(en, s) - (s->n_page - s->n_hole);
    return n > 0 ? n : 0;
}

bool hold_holds(const struct seq *s)
{
    return s->n_page > 0 || s->slots.at >= 0;
}

int hold_freed(const struct engine *en, const struct seq *last, const struct seq *s)
{
    int n_freed = 0, first, n = lookup_end(en, s, &first);
    for (int i = last->n_hole; i < last->n_page; i++)
        n_freed += page_refs(en->pages, last->page[i]) == 1 &&
                   !(i >= first && i < n && look_up(en, s, i) == last->page[i]);
    return n_freed;
}

int hold_copies(const struct seq *s)
{
    return s->n_host + (s->slots.host >= 0);
}

bool hold_can_acquire(const struct engine *en, const struct seq *s)
{
    return hold_copies(s) <= copies_left(en);
}

/* ---- begin, preempt, end ---- */

/* Restore the pages of s from the cache. Pages that the cache does not have are copied from host
 * memory. */
static void swap_in(struct engine *en, struct seq *s)
{
    int n = s->n_page;
    for (int i = s->n_hole; i < n; i++) {
        int32_t page = i < s->n_name ? page_find(en->pages, s->name[i], tokens_of(en, s, i)) : -1;
        if (page < 0) {
            page = page_take(en->pages);
            hold_copy(en, COPY_IN, s->host[i], page);
            stats_count(en->stats, STAT_pages_in, 1);
        }
        s->page[i] = page;
        spill_give(&en->spill, s->host[i]);
        s->host[i] = -1;
    }
    s->n_host = 0;
    en->n_swapped--;
    s->n_sealed = s->n_hole; /* the pages are sealed after the copies are complete */
    state_swap_in(en, s);
}

void hold_acquire(struct engine *en, struct seq *s)
{
    CHECK(s->state == SEQ_WAITING, "state %d", (int)s->state);
    if (s->n_host)
        swap_in(en, s);
    else
        find_prefix(en, s);
}

static void drop_host(struct engine *en, struct seq *s)
{
    en->n_swapped -= s->n_host > 0;
    for (int i = 0; i < s->n_page && s->n_host; i++)
        if (s->host[i] >= 0) spill_give(&en->spill, s->host[i]), s->host[i] = -1, s->n_host--;
    state_drop_host(en, s);
}

static void drop_pages(struct engine *en, struct seq *s)
{
    for (int i = s->n_page - 1; i >= s->n_hole; i--) page_drop(en->pages, s->page[i]);
    state_drop(en, s);
}

void hold_drop(struct engine *en, struct seq *s)
{
    if (s->state == SEQ_RUNNING)
        drop_pages(en, s);
    else
        drop_host(en, s);
    s->n_page = s->n_hole = s->n_sealed = s->n_kv = 0;
}

/* Return the number of pages of s that hold K and V. A page acquired for rows that were not
 * computed is empty. */
static int n_full(const struct engine *en, const struct seq *s)
{
    return ceil_div(s->n_kv, pages_rows(en->pages));
}

/* Return the cost in microseconds of recomputing the tokens of s, except tokens in pages that other
 * sequences hold. */
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
    if (n == 0 || n > en->spill.n_free || x->copy_rate <= 0 || !state_can_swap_out(en, s))
        return -1;
    /* room for copying pages out now and back later, in addition to one copy on write per
     * sequence */
    const struct batch_limits *l = &en->batch.limits;
    int n_copy = n + (s->slots.at >= 0);
    if (n_copy > copies_left(en) || n_copy > l->n_copy - l->n_seq) return -1;
    double n_byte = n * (double)x->page_bytes + (s->slots.at >= 0 ? (double)x->state_bytes : 0);
    return 2.0 * n_byte / x->copy_rate;
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
        hold_copy(en, COPY_OUT, s->page[i], s->host[i]);
        s->n_host++;
    }
    state_swap_out(en, s);
    drop_pages(en, s);
    s->n_page = n;
    en->n_swapped += s->n_host > 0;
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

/* ---- sequences of a group ---- */

void hold_fork(struct engine *en, struct seq *child, const struct seq *parent)
{
    int n = n_full(en, parent);
    CHECK(child->n_page == 0 && n <= child->page_max, "%d pages, then %d", child->n_page, n);
    child->n_page = n;
    child->n_hole = parent->n_hole;
    child->n_sealed = parent->n_sealed;
    child->n_kv = parent->n_kv;
    for (int i = 0; i < n; i++) {
        child->page[i] = parent->page[i];
        if (i >= parent->n_hole) page_ref(en->pages, child->page[i]);
    }
    state_fork(en, child, parent);
}
