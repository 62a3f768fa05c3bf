/* forced.c - forced spans, as bytes and as tokens (jump-forward), and the masks of many sequences;
 * see grammar.h.
 *
 * A later text X can change the last tokens of a forced span F. At most one token of F X crosses
 * the end of F. The token begins at an offset s such that F[s..] is a prefix of a token of the
 * vocabulary. s is |F| if no token crosses the end. Text before a token boundary is encoded like
 * the text alone, so the tokens before s are the tokens of F[0, s). No later text can change the
 * common prefix of the encodings for all possible s. */
#include "grammar_in.h"

#include "base/pool.h"
#include "base/utf8.h"
#include "gbnf.h"

#include <stdlib.h>
#include <string.h>

/* SPAN_BYTES_MAX: maximum length of a span. The rest of a longer text becomes the next span.
 * TOKENS_MAX: maximum number of cached tokens of all spans (4 MB). */
enum { SPAN_BYTES_MAX = 512, TOKENS_MAX = 1 << 20 };

/* ---- bytes ---- */

/* Return the only byte that may follow; -1 if several bytes may follow or the text may end. */
static int only_byte(struct machine *m, uint32_t state)
{
    const struct machine_config c = m->config.v[state];
    int only = -1;
    if (c.accepts) return -1;
    for (int b = 0; b < 256; b++) {
        bool may = false;
        if (machine_late(m)) return -1;
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

/* Return the length of the longest prefix of whole characters, in bytes. */
static size_t whole_characters(const char *s, size_t n)
{
    size_t at = 0;
    uint32_t cp;
    for (int k; at < n && (k = utf8_decode(s + at, n - at, &cp)) > 0;) at += (size_t)k;
    return at;
}

/* Return true if the tokens have exactly this text. The texts may differ if the tokenizer
 * normalizes. */
static bool spells_text(const struct tokenizer *t, const struct ids *ids, const char *s, size_t n)
{
    size_t at = 0, n_one;
    for (size_t i = 0; i < ids->n; i++) {
        const char *one = tokenizer_bytes(t, ids->v[i], &n_one);
        if (!one || n_one == 0 || n_one > n - at || memcmp(one, s + at, n_one) != 0) return false;
        at += n_one;
    }
    return at == n;
}

/* Return the length of the common prefix of two lists of tokens, at most n. */
static size_t common(const struct ids *a, const struct ids *b, size_t n)
{
    size_t i = 0;
    while (i < n && i < a->n && i < b->n && a->v[i] == b->v[i]) i++;
    return i;
}

/* Set *n_settled to the number of first tokens of s[0, n) that no later text changes. ids: tokens
 * of s[0, n) alone. */
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

/* Return the number of tokens, from the first, that the grammar accepts as text. The result is n
 * unless a token is missing from the vocabulary of masks. */
static size_t count_taken(struct grammar *g, uint32_t state, const int32_t *id, size_t n)
{
    size_t i = 0;
    while (i < n && (state = grammar_accept_token(g, state, id[i])) != GRAMMAR_DEAD) i++;
    return i;
}

/* Append the settled tokens of a span to g->forced_token. */
static int tokens_of(struct grammar *g, uint32_t state, const struct buf *span, struct err *e)
{
    struct ids ids = {0};
    size_t n_settled = 0, n = span->n > 0 ? whole_characters(span->data, span->n) : 0;
    int rc = 0;
    if (n > 0) rc = tokenizer_encode(g->vocab->t, span->data, n, ENCODE_CONTINUE, &ids, e);
    if (rc == 0 && n > 0 && spells_text(g->vocab->t, &ids, span->data, n))
        rc = count_settled(g->vocab, span->data, n, &ids, &n_settled, e);
    if (rc == 0 && n_settled > 0) n_settled = count_taken(g, state, ids.v, n_settled);
    for (size_t i = 0; rc == 0 && i < n_settled; i++)
        if (!vec_push(&g->forced_token, ids.v[i])) rc = err_memory(e, "tokens", n_settled);
    vec_deinit(&ids);
    return rc ? rc : grammar_failure(g, e);
}

/* Reserve memory for the tokens of a state. Drop all cached tokens if there are too many, because
 * they can be computed again. Return false if memory is exhausted. */
static bool reserve(struct grammar *g, uint32_t state)
{
    size_t cap = g->cap_forced;
    if (g->forced_token.n > TOKENS_MAX) {
        for (size_t i = 0; i < cap; i++) g->forced[i].n = -1;
        g->forced_token.n = 0;
    }
    while (cap <= state) cap = cap ? 2 * cap : 256;
    if (cap == g->cap_forced) return true;
    struct forced_span *more = realloc(g->forced, cap * sizeof *more);
    if (!more) return false;
    for (size_t i = g->cap_forced; i < cap; i++) more[i] = (struct forced_span){0, -1};
    g->forced = more;
    g->cap_forced = cap;
    return true;
}

/* Set the grammar's failure if memory is exhausted. Return rc. Otherwise the engine would report a
 * limit instead of exhausted memory. */
static int fail_if_memory(struct grammar *g, int rc)
{
    if (rc == ERR_MEMORY) expr_fail(&g->m->x, EXPR_NO_MEMORY);
    return rc;
}

/* Compute and cache the forced tokens at a state. Cache no tokens if the work was interrupted
 * (m->late). */
static int find_tokens(struct grammar *g, uint32_t state, struct err *e)
{
    struct buf b = {0};
    if (!reserve(g, state)) return fail_if_memory(g, err_memory(e, "forced tokens", state));
    const size_t first = g->forced_token.n;
    grammar_forced(g, state, &b);
    if (g->m->late) return buf_deinit(&b), 0;
    int rc = b.failed ? err_memory(e, "a forced span", SPAN_BYTES_MAX) : tokens_of(g, state, &b, e);
    buf_deinit(&b);
    if (rc == 0 && !g->m->late)
        g->forced[state] =
            (struct forced_span){(uint32_t)first, (int32_t)(g->forced_token.n - first)};
    else
        g->forced_token.n = first;
    return fail_if_memory(g, rc);
}

enum grammar_made grammar_forced_within(struct grammar *g, uint32_t state, int64_t n_work)
{
    struct err why;
    if (state < g->cap_forced && g->forced[state].n >= 0) return GRAMMAR_MADE;
    if (n_work <= 0) return GRAMMAR_LATER;
    machine_limit(g->m, n_work);
    int rc = find_tokens(g, state, &why);
    bool late = g->m->late;
    machine_limit(g->m, 0);
    if (rc != 0 || grammar_failure(g, &why) != 0) return GRAMMAR_FAILED;
    return late ? GRAMMAR_LATER : GRAMMAR_MADE;
}

int grammar_forced_tokens(struct grammar *g, uint32_t state, const int32_t **token, struct err *e)
{
    if (state >= g->cap_forced || g->forced[state].n < 0) {
        int rc = find_tokens(g, state, e);
        if (rc != 0) return rc;
    }
    *token = g->forced[state].n > 0 ? g->forced_token.v + g->forced[state].first : NULL;
    return g->forced[state].n;
}
