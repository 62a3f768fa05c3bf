/* forced.c - jump-forward: what must come next, as bytes and as tokens; the masks of many sequences at once. See grammar.h.
 *
 * Which tokens of a forced span F can later text X still change? In the tokens of F X one token may cross the end of F; it begins at some
 * s where F[s..] begins a token of the vocabulary (or none crosses: s = |F|). What lies before a border between tokens is encoded as if
 * it stood alone, so the tokens before s are those of F[0..s). What all these encodings begin with is what no later text changes. */
#include "grammar_in.h"

#include "base/pool.h"
#include "base/utf8.h"
#include "gbnf.h"

#include <stdlib.h>
#include <string.h>

enum { SPAN_BYTES_MAX = 512 };

/* ---- bytes ---- */

/* The only byte that may come, or -1. */
static int only_byte(struct machine *m, uint32_t state)
{
    const struct config c = m->config.v[state];
    int only = -1;
    if (c.accepts) return -1;
    for (int b = 0; b < 256; b++) {
        bool may = false;
        for (uint32_t i = 0; i < c.n_thread && !may; i++)
            may = expr_next(&m->x, m->thread.v[c.thread + i].expr, (uint8_t)b) != EXPR_EMPTY;
        if (!may || machine_next(m, state, (uint8_t)b) == CONFIG_DEAD) continue;
        if (only >= 0) return -1;
        only = b;
    }
    return m->x.failed || only == TOKEN_MARK ? -1 : only;
}

uint32_t grammar_forced(struct grammar *g, uint32_t state, struct buf *out)
{
    size_t first = out->n;
    exprs_resume(&g->m->x);
    while (state != GRAMMAR_DEAD && !g->m->x.failed && out->n - first < SPAN_BYTES_MAX) {
        int b = only_byte(g->m, state);
        if (b < 0) break;
        buf_add_char(out, (char)b);
        state = machine_next(g->m, state, (uint8_t)b);
    }
    return state;
}

/* ---- tokens ---- */

/* How many bytes at the start are whole characters. */
static size_t whole_characters(const char *s, size_t n)
{
    size_t at = 0;
    uint32_t cp;
    for (int k; at < n && (k = utf8_decode(s + at, n - at, &cp)) > 0;) at += (size_t)k;
    return at;
}

/* Do the ids stand for exactly this text? Where a tokenizer normalizes they may not. */
static bool spell(const struct tokenizer *t, const struct ids *ids, const char *s, size_t n)
{
    size_t at = 0, n_one;
    for (size_t i = 0; i < ids->n; i++) {
        const char *one = tokenizer_bytes(t, ids->v[i], &n_one);
        if (!one || n_one == 0 || n_one > n - at || memcmp(one, s + at, n_one) != 0) return false;
        at += n_one;
    }
    return at == n;
}

static size_t common(const struct ids *a, const struct ids *b, size_t n)
{
    size_t i = 0;
    while (i < n && i < a->n && i < b->n && a->v[i] == b->v[i]) i++;
    return i;
}

/* How many of ids, the tokens of s[0..n), does no later text change? */
static int count_settled(const struct grammar_vocab *v, const char *s, size_t n,
                         const struct ids *ids, size_t *n_settled, struct err *e)
{
    struct ids other = {0};
    int rc = 0;
    *n_settled = ids->n;
    for (size_t at = 0; rc == 0 && at<n && * n_settled> 0; at++) {
        if (!vocab_has_prefix(&v->v, s + at, n - at)) continue;
        other.n = 0;
        rc = tokenizer_encode(v->t, s, at, ENCODE_CONTINUE, &other, e);
        if (rc == 0) *n_settled = common(ids, &other, *n_settled);
    }
    vec_deinit(&other);
    return rc;
}

int grammar_forced_tokens(struct grammar *g, uint32_t state, struct ids *out, struct err *e)
{
    struct buf b = {0};
    struct ids ids = {0};
    size_t n_settled = 0;
    grammar_forced(g, state, &b);
    int rc = b.failed ? err_memory(e, "a forced span", SPAN_BYTES_MAX) : 0;
    size_t n = rc == 0 && b.n > 0 ? whole_characters(b.data, b.n) : 0;
    if (n > 0) rc = tokenizer_encode(g->vocab->t, b.data, n, ENCODE_CONTINUE, &ids, e);
    if (rc == 0 && n > 0 && spell(g->vocab->t, &ids, b.data, n))
        rc = count_settled(g->vocab, b.data, n, &ids, &n_settled, e);
    for (size_t i = 0; rc == 0 && i < n_settled; i++)
        if (!vec_push(out, ids.v[i])) rc = err_memory(e, "tokens", n_settled);
    vec_deinit(&ids);
    buf_deinit(&b);
    return rc;
}

/* ---- masks of many sequences ---- */

struct fill {
    struct grammar_job *job;
    int n;
};

/* Jobs of one grammar belong to the first of them: a grammar is one thread's. */
static void fill_chunk(void *ctx, int chunk, int worker)
{
    const struct fill *f = ctx;
    struct grammar *g = f->job[chunk].g;
    (void)worker;
    for (int i = 0; i < chunk; i++)
        if (f->job[i].g == g) return;
    for (int i = chunk; i < f->n; i++)
        if (f->job[i].g == g) f->job[i].ok = grammar_mask(g, f->job[i].state, f->job[i].mask);
}

void grammar_masks(struct grammar_job *job, int n, struct pool *pool)
{
    struct fill f = {job, n};
    if (pool)
        pool_run(pool, fill_chunk, &f, n);
    else
        for (int i = 0; i < n; i++) fill_chunk(&f, i, 0);
}
