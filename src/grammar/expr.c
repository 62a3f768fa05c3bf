/* expr.c - constructors of expressions. Each expression has one number, and is simplified when it
 * is made; see expr.h.
 *
 * Invariants:
 *   (1) Two expressions with equal op, a, b and c (or equal operand lists) have one number.
 *   (2) EXPR_EMPTY and EXPR_EPSILON are never operands of CAT. EXPR_EMPTY is never an operand of
 *       OR. The expression of all texts is never an operand of AND.
 *   (3) The first operand of a CAT is not a CAT.
 *   (4) Operand lists ascend without repetition. Union and intersection are therefore commutative
 *       and idempotent by construction.
 *   (5) No two operands of an OR begin with the same byte set, down to FACTOR_DEPTH_MAX bytes.
 * These identities make the number of derivatives finite, and small for usual expressions. */
#include "expr.h"

#include "base/hash.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { N_SLOT_FIRST = 1024, FACTOR_DEPTH_MAX = 256 };

uint32_t expr_fail(struct exprs *x, enum expr_failure why)
{
    if (x->failed == EXPR_OK) x->failed = why;
    x->n_step = 0; /* the next expr_spend calls exprs_check, which fails */
    return EXPR_EMPTY;
}

bool exprs_open(struct exprs *x, struct expr_limits limit)
{
    *x = (struct exprs){.limit = limit};
    x->arena.bytes_max = limit.bytes_max;
    exprs_resume(x);
    x->slot = calloc(N_SLOT_FIRST, sizeof *x->slot);
    x->n_slot = x->slot ? N_SLOT_FIRST : 0;
    if (!x->slot) return false;
    expr_make(x, (struct expr){.op = EX_EMPTY, .simple = true, .alive = ALIVE_NO});
    expr_make(x, (struct expr){.op = EX_EPSILON, .nullable = true, .simple = true});
    if (x->failed == EXPR_OK) return true;
    exprs_close(x);
    return false;
}

void exprs_close(struct exprs *x)
{
    arena_deinit(&x->arena);
    free(x->e);
    free(x->slot);
    free(x->set_slot);
    free(x->memo);
    free(x->memo_of);
    free(x->seen);
    vec_deinit(&x->list);
    vec_deinit(&x->set);
    vec_deinit(&x->divisor);
    vec_deinit(&x->work);
    vec_deinit(&x->reach);
    *x = (struct exprs){0};
}

/* ---- one number per expression ---- */

/* Return true if [a, a + b) are operands in x->list. */
static bool has_list(const struct expr *e)
{
    return e->op == EX_OR || e->op == EX_AND;
}

static uint64_t hash_of(const struct exprs *x, const struct expr *e)
{
    uint32_t key[4] = {e->op, e->a, e->b, e->c};
    if (!has_list(e)) return hash_bytes(key, sizeof key, 0);
    return hash_bytes(x->list.v + e->a, e->b * sizeof *x->list.v, e->op);
}

static bool same(const struct exprs *x, const struct expr *p, const struct expr *q)
{
    if (p->op != q->op || p->b != q->b || p->c != q->c) return false;
    if (!has_list(p)) return p->a == q->a;
    return memcmp(x->list.v + p->a, x->list.v + q->a, p->b * sizeof *x->list.v) == 0;
}

/* Double the hash table. Return false after a failure. */
static bool grow_slots(struct exprs *x)
{
    uint32_t n = 2 * x->n_slot, *slot = calloc(n, sizeof *slot);
    if (!slot) return expr_fail(x, EXPR_NO_MEMORY), false;
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t at = (uint32_t)hash_of(x, &x->e[i]) & (n - 1);
        while (slot[at]) at = (at + 1) & (n - 1);
        slot[at] = i + 1;
    }
    free(x->slot);
    x->slot = slot;
    x->n_slot = n;
    return true;
}

/* Double the capacity of all arrays by expression. Return false after a failure. */
static bool grow_exprs(struct exprs *x)
{
    uint32_t cap = x->cap ? 2 * x->cap : 512;
    if (x->limit.bytes_max && (size_t)cap * (sizeof *x->e + 12) > x->limit.bytes_max)
        return expr_fail(x, EXPR_BYTES), false;
    struct expr *e = realloc(x->e, cap * sizeof *e);
    if (e) x->e = e;
    uint32_t *memo = realloc(x->memo, cap * sizeof *memo);
    if (memo) x->memo = memo;
    uint32_t *of = realloc(x->memo_of, cap * sizeof *of);
    if (of) x->memo_of = of;
    uint32_t *seen = realloc(x->seen, cap * sizeof *seen);
    if (seen) x->seen = seen;
    if (!e || !memo || !of || !seen) return expr_fail(x, EXPR_NO_MEMORY), false;
    memset(of + x->cap, 0, (cap - x->cap) * sizeof *of);
    memset(seen + x->cap, 0, (cap - x->cap) * sizeof *seen);
    x->cap = cap;
    return true;
}

/* Return the number of e. Make a new number if e is new. The list of an OR or AND must be the last
 * list of x->list. Remove the list if the expression exists. */
uint32_t expr_make(struct exprs *x, struct expr e)
{
    if (!expr_spend(x, has_list(&e) ? 1 + e.b / 4 : 1)) return EXPR_EMPTY;
    if ((x->n + 1) * 2 > x->n_slot && !grow_slots(x)) return EXPR_EMPTY;
    uint32_t at = (uint32_t)hash_of(x, &e) & (x->n_slot - 1);
    for (; x->slot[at]; at = (at + 1) & (x->n_slot - 1))
        if (same(x, &x->e[x->slot[at] - 1], &e)) {
            if (has_list(&e)) x->list.n -= e.b;
            return x->slot[at] - 1;
        }
    if (x->n == x->cap && !grow_exprs(x)) return EXPR_EMPTY;
    if (e.simple && e.op != EX_EMPTY) e.alive = ALIVE_YES;
    e.least = expr_least(x, &e);
    e.weight = expr_weight(x, &e);
    x->e[x->n] = e;
    x->slot[at] = x->n + 1;
    return x->n++;
}

/* ---- leaves ---- */

/* Return the slot of a byte set, or the free slot for a new set. */
static uint32_t *set_slot_of(const struct exprs *x, const struct byteset *s)
{
    uint32_t mask = x->n_set_slot - 1, at = (uint32_t)hash_bytes(s, sizeof *s, 0) & mask;
    while (x->set_slot[at] && memcmp(&x->set.v[x->set_slot[at] - 1], s, sizeof *s) != 0)
        at = (at + 1) & mask;
    return &x->set_slot[at];
}

static bool grow_set_slots(struct exprs *x)
{
    uint32_t n = x->n_set_slot ? 2 * x->n_set_slot : 64, *slot = calloc(n, sizeof *slot);
    if (!slot) return expr_fail(x, EXPR_NO_MEMORY), false;
    free(x->set_slot);
    x->set_slot = slot;
    x->n_set_slot = n;
    for (size_t i = 0; i < x->set.n; i++) *set_slot_of(x, &x->set.v[i]) = (uint32_t)i + 1;
    return true;
}

uint32_t expr_set(struct exprs *x, const struct byteset *s)
{
    if (!(s->w[0] | s->w[1] | s->w[2] | s->w[3])) return EXPR_EMPTY;
    if (2 * (x->set.n + 1) > x->n_set_slot && !grow_set_slots(x)) return EXPR_EMPTY;
    uint32_t *at = set_slot_of(x, s);
    if (*at == 0) {
        if (!vec_push(&x->set, *s)) return expr_fail(x, EXPR_NO_MEMORY);
        *at = (uint32_t)x->set.n;
    }
    return expr_make(x, (struct expr){.op = EX_SET, .simple = true, .a = *at - 1});
}

uint32_t expr_range(struct exprs *x, uint8_t lo, uint8_t hi)
{
    struct byteset s = {0};
    if (lo == hi && x->one_byte[lo] && !x->failed) return x->one_byte[lo];
    for (int b = lo; b <= hi; b++) byteset_add(&s, (uint8_t)b);
    uint32_t e = expr_set(x, &s);
    if (lo == hi) x->one_byte[lo] = e;
    return e;
}

uint32_t expr_bytes(struct exprs *x, const void *text, size_t n)
{
    uint32_t e = EXPR_EPSILON;
    const uint8_t *b = text;
    for (size_t i = n; i > 0; i--) e = expr_cat(x, expr_range(x, b[i - 1], b[i - 1]), e);
    return x->failed ? EXPR_EMPTY : e;
}

uint32_t expr_tag(struct exprs *x, uint32_t tag)
{
    return expr_make(x, (struct expr){.op = EX_TAG, .nullable = true, .simple = true, .a = tag});
}

uint32_t expr_multiple(struct exprs *x, struct divisor d)
{
    size_t i = 0;
    while (i < x->divisor.n && (x->divisor.v[i].m != d.m || x->divisor.v[i].scale != d.scale)) i++;
    if (i == x->divisor.n && !vec_push(&x->divisor, d)) return expr_fail(x, EXPR_NO_MEMORY);
    return expr_make(x, (struct expr){.op = EX_MULTIPLE, .a = (uint32_t)i});
}

/* ---- concatenation, repetition, complement ---- */

uint32_t expr_cat(struct exprs *x, uint32_t a, uint32_t b)
{
    if (x->failed || a == EXPR_EMPTY || b == EXPR_EMPTY) return EXPR_EMPTY;
    if (a == EXPR_EPSILON) return b;
    if (b == EXPR_EPSILON) return a;
    size_t mark = x->work.n; /* (p q) r = p (q r), in a loop, because a chain may be long */
    for (; x->e[a].op == EX_CAT; a = x->e[a].b)
        if (!vec_push(&x->work, x->e[a].a)) return expr_fail(x, EXPR_NO_MEMORY);
    if (!vec_push(&x->work, a)) return expr_fail(x, EXPR_NO_MEMORY);
    while (x->work.n > mark && !x->failed) {
        a = x->work.v[--x->work.n];
        b = expr_make(x, (struct expr){.op = EX_CAT,
                                       .nullable = x->e[a].nullable && x->e[b].nullable,
                                       .simple = x->e[a].simple && x->e[b].simple,
                                       .a = a,
                                       .b = b});
    }
    x->work.n = mark;
    return x->failed ? EXPR_EMPTY : b;
}

uint32_t expr_rep(struct exprs *x, uint32_t a, uint32_t min, uint32_t max)
{
    if (x->failed) return EXPR_EMPTY;
    if (max == 0 || a == EXPR_EPSILON) return EXPR_EPSILON;
    if (a == EXPR_EMPTY) return min == 0 ? EXPR_EPSILON : EXPR_EMPTY;
    if (min == 1 && max == 1) return a;
    const struct expr *e = &x->e[a];
    if (e->op == EX_REP && e->b == 0 && e->c == EXPR_INF) return a; /* (p*){m,n} = p* if n > 0 */
    /* equal expressions, with fewer states if min is 0 */
    if (e->nullable) min = 0;
    return expr_make(
        x,
        (struct expr){
            .op = EX_REP, .nullable = min == 0, .simple = e->simple, .a = a, .b = min, .c = max});
}

uint32_t expr_not(struct exprs *x, uint32_t a)
{
    if (x->failed) return EXPR_EMPTY;
    if (x->e[a].op == EX_NOT) return x->e[a].a;
    return expr_make(x, (struct expr){.op = EX_NOT, .nullable = !x->e[a].nullable, .a = a});
}

/* Return true if e is the complement of EXPR_EMPTY, the expression of all texts. */
static bool is_universal(const struct exprs *x, uint32_t e)
{
    return x->e[e].op == EX_NOT && x->e[e].a == EXPR_EMPTY;
}

/* ---- union and intersection ---- */

static int ascending(const void *p, const void *q)
{
    uint32_t a = *(const uint32_t *)p, b = *(const uint32_t *)q;
    return (a > b) - (a < b);
}

/* Push e onto x->work, or its operands if its operator is `op`. Return false if memory is
 * exhausted. */
static bool push_flat(struct exprs *x, enum expr_op op, uint32_t e)
{
    if (x->e[e].op != op) return vec_push(&x->work, e);
    for (uint32_t i = 0; i < x->e[e].b; i++)
        if (!vec_push(&x->work, x->list.v[x->e[e].a + i])) return false;
    return true;
}

/* Replace the byte sets in work[mark..] by one set: their union or intersection. */
static void merge_sets(struct exprs *x, enum expr_op op, size_t mark)
{
    struct byteset all = {{0}};
    size_t n = mark, n_set = 0;
    for (size_t i = mark; i < x->work.n; i++) {
        const struct expr *e = &x->e[x->work.v[i]];
        if (e->op != EX_SET) {
            x->work.v[n++] = x->work.v[i];
            continue;
        }
        const struct byteset *s = &x->set.v[e->a];
        for (int w = 0; w < 4; w++)
            all.w[w] = n_set == 0 ? s->w[w] : op == EX_OR ? all.w[w] | s->w[w] : all.w[w] & s->w[w];
        n_set++;
    }
    x->work.n = n;
    if (n_set > 0) vec_push(&x->work, expr_set(x, &all)); /* cannot fail: room is reserved */
}

/* Sort work[mark..], and remove repetitions and the neutral element. Return true if the operands
 * contain the absorbing element, which is then the result. */
static bool normalize(struct exprs *x, enum expr_op op, size_t mark)
{
    uint32_t *v = x->work.v + mark;
    size_t n = x->work.n - mark, m = 0;
    qsort(v, n, sizeof *v, ascending);
    for (size_t i = 0; i < n; i++) {
        bool empty = v[i] == EXPR_EMPTY, all = is_universal(x, v[i]);
        if (op == EX_OR ? all : empty) return true;
        if (op == EX_OR ? empty : all) continue;
        if (m == 0 || v[m - 1] != v[i]) v[m++] = v[i];
    }
    x->work.n = mark + m;
    return false;
}

/* Return an OR or AND of the operands work[mark..], which must be normalized. */
static uint32_t make_list(struct exprs *x, enum expr_op op, size_t mark)
{
    size_t n = x->work.n - mark;
    struct expr e = {.op = op,
                     .nullable = op == EX_AND,
                     .simple = op == EX_OR,
                     .a = (uint32_t)x->list.n,
                     .b = (uint32_t)n};
    for (size_t i = mark; i < x->work.n; i++) {
        const struct expr *o = &x->e[x->work.v[i]];
        e.nullable = op == EX_OR ? e.nullable || o->nullable : e.nullable && o->nullable;
        e.simple = e.simple && o->simple;
        if (!vec_push(&x->list, x->work.v[i])) return expr_fail(x, EXPR_NO_MEMORY);
    }
    return expr_make(x, e);
}

/* An alternative: whole = head rest. head is a byte set. */
struct headed {
    uint32_t head, rest, whole;
};

static int by_head(const void *p, const void *q)
{
    const struct headed *a = p, *b = q;
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    return (a->rest > b->rest) - (a->rest < b->rest);
}

/* Return the alternation of v[0, n), which have one head: a p | a q = a (p | q). */
static uint32_t join_rests(struct exprs *x, const struct headed *v, size_t n)
{
    uint32_t few[32], *rest = n <= 32 ? few : malloc(n * sizeof *rest);
    if (n == 1) return v->whole;
    if (!rest) return expr_fail(x, EXPR_NO_MEMORY);
    for (size_t i = 0; i < n; i++) rest[i] = v[i].rest;
    x->factoring++;
    uint32_t e = expr_cat(x, v->head, expr_or_list(x, rest, n));
    x->factoring--;
    if (rest != few) free(rest);
    return e;
}

/* Join the alternatives of work[mark..] that begin with the same byte set, so that a list of names
 * or values becomes a tree. The derivative of the tree examines only the possible bytes, not every
 * name. */
static void factor(struct exprs *x, size_t mark)
{
    size_t n = x->work.n - mark, m = 0, kept = mark;
    if (n < 2 || x->factoring >= FACTOR_DEPTH_MAX) return;
    struct headed few[32], *v = n <= 32 ? few : malloc(n * sizeof *v);
    for (size_t i = mark; v && i < x->work.n; i++) {
        const struct expr *e = &x->e[x->work.v[i]];
        if (e->op == EX_CAT && x->e[e->a].op == EX_SET)
            v[m++] = (struct headed){e->a, e->b, x->work.v[i]};
        else
            x->work.v[kept++] = x->work.v[i];
    }
    if (v && m > 1) qsort(v, m, sizeof *v, by_head);
    x->work.n = kept;
    for (size_t i = 0, end; v && i < m; i = end) {
        for (end = i; end < m && v[end].head == v[i].head;) end++;
        uint32_t one = join_rests(x, v + i, end - i);
        vec_push(&x->work, one); /* cannot fail: room is reserved */
    }
    if (!v) expr_fail(x, EXPR_NO_MEMORY);
    if (v != few) free(v);
}

/* Pop the operands work[mark..]. Return their union or intersection. */
static uint32_t combine(struct exprs *x, enum expr_op op, size_t mark)
{
    uint32_t all = op == EX_OR ? EXPR_EMPTY : expr_not(x, EXPR_EMPTY), e = EXPR_EMPTY;
    merge_sets(x, op, mark);
    if (op == EX_OR) factor(x, mark);
    if (normalize(x, op, mark))
        e = op == EX_OR ? expr_not(x, EXPR_EMPTY) : EXPR_EMPTY;
    else if (x->work.n == mark)
        e = all;
    else if (x->work.n == mark + 1)
        e = x->work.v[mark];
    else
        e = make_list(x, op, mark);
    x->work.n = mark;
    return x->failed ? EXPR_EMPTY : e;
}

/* Return the union or intersection of v[0, n). Flatten nested lists of the operator first. */
static uint32_t combine_list(struct exprs *x, enum expr_op op, const uint32_t *v, size_t n)
{
    if (x->failed) return EXPR_EMPTY;
    size_t mark = x->work.n;
    for (size_t i = 0; i < n; i++)
        if (!push_flat(x, op, v[i])) return x->work.n = mark, expr_fail(x, EXPR_NO_MEMORY);
    bool more = expr_spend(x, 2 * (x->work.n - mark));
    if (more && !vec_reserve(&x->work, x->work.n + 1)) expr_fail(x, EXPR_NO_MEMORY);
    if (x->failed) return x->work.n = mark, EXPR_EMPTY;
    return combine(x, op, mark);
}

uint32_t expr_or_list(struct exprs *x, const uint32_t *v, size_t n)
{
    return combine_list(x, EX_OR, v, n);
}

uint32_t expr_and_list(struct exprs *x, const uint32_t *v, size_t n)
{
    return combine_list(x, EX_AND, v, n);
}

uint32_t expr_or(struct exprs *x, uint32_t a, uint32_t b)
{
    if (a == b || b == EXPR_EMPTY) return x->failed ? EXPR_EMPTY : a;
    if (a == EXPR_EMPTY) return x->failed ? EXPR_EMPTY : b;
    return combine_list(x, EX_OR, (uint32_t[]){a, b}, 2);
}

uint32_t expr_and(struct exprs *x, uint32_t a, uint32_t b)
{
    if (a == b) return x->failed ? EXPR_EMPTY : a;
    return combine_list(x, EX_AND, (uint32_t[]){a, b}, 2);
}

/* ---- characters ---- */

/* Return an alternation of byte ranges for the characters from lo to hi in UTF-8. lo and hi have n
 * bytes left, and equal earlier bytes. */
static uint32_t chars_of_length(struct exprs *x, const uint8_t *lo, const uint8_t *hi, int n)
{
    if (n == 0) return EXPR_EPSILON;
    static const uint8_t first[3] = {0x80, 0x80, 0x80}, last[3] = {0xbf, 0xbf, 0xbf};
    if (*lo == *hi)
        return expr_cat(x, expr_range(x, *lo, *hi), chars_of_length(x, lo + 1, hi + 1, n - 1));
    uint8_t from = *lo, to = *hi;
    uint32_t part[3], n_part = 0;
    if (memcmp(lo + 1, first, (size_t)n - 1) != 0) {
        part[n_part++] =
            expr_cat(x, expr_range(x, from, from), chars_of_length(x, lo + 1, last, n - 1));
        from++;
    }
    if (memcmp(hi + 1, last, (size_t)n - 1) != 0) {
        part[n_part++] =
            expr_cat(x, expr_range(x, to, to), chars_of_length(x, first, hi + 1, n - 1));
        to--;
    }
    if (from <= to)
        part[n_part++] =
            expr_cat(x, expr_range(x, from, to), chars_of_length(x, first, last, n - 1));
    return expr_or_list(x, part, n_part);
}

uint32_t expr_chars(struct exprs *x, uint32_t lo, uint32_t hi)
{
    static const uint32_t border[] = {0, 0x80, 0x800, 0xd800, 0xe000, 0x10000, 0x110000};
    uint32_t e = EXPR_EMPTY;
    for (size_t i = 0; i + 1 < sizeof border / sizeof *border; i++) {
        uint32_t from = lo > border[i] ? lo : border[i];
        uint32_t to = hi < border[i + 1] - 1 ? hi : border[i + 1] - 1;
        if (from > to || border[i] == 0xd800) continue;
        char a[4], b[4];
        int n = utf8_encode(a, from);
        utf8_encode(b, to);
        e = expr_or(x, e, chars_of_length(x, (const uint8_t *)a, (const uint8_t *)b, n));
    }
    return e;
}

uint32_t expr_any_char(struct exprs *x)
{
    if (x->any_char == 0) x->any_char = expr_chars(x, 0, 0x10ffff);
    return x->failed ? EXPR_EMPTY : x->any_char;
}
