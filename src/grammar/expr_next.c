/* expr_next.c - the lazy automaton of an expression: derivatives, rows of transitions, tags.
 *
 * A row has the transitions of all 256 bytes, which are computed together. Bytes that no operator
 * distinguishes form a class (Owens, Reppy, Turon 2009, section 4.2). All bytes of a class have the
 * same derivative. */
#include "expr.h"

#include <stdlib.h>
#include <string.h>

bool expr_nullable(const struct exprs *x, uint32_t e)
{
    return x->e[e].nullable;
}

/* ---- derivatives ---- */

/* Return the derivative of a concatenation p q. The derivative is p' q, or p' q | q' if p accepts
 * the empty text. The function has a loop instead of recursion, because a chain of concatenations
 * may be long. */
static uint32_t derive_cat(struct exprs *x, uint32_t e, uint8_t byte)
{
    size_t mark = x->work.n;
    bool more = true;
    while (more && !x->failed) { /* a round for each operand of the chain */
        bool cat = x->e[e].op == EX_CAT;
        uint32_t head = cat ? x->e[e].a : e, rest = cat ? x->e[e].b : EXPR_EPSILON;
        uint32_t d = expr_cat(x, expr_derive(x, head, byte), rest);
        if (d != EXPR_EMPTY && !vec_push(&x->work, d)) return expr_fail(x, EXPR_NO_MEMORY);
        more = cat && x->e[head].nullable;
        e = rest;
    }
    size_t n = x->work.n - mark;
    uint32_t d = n == 0 ? EXPR_EMPTY : x->work.v[mark];
    if (n > 1) { /* copy the operands, because expr_or_list pushes onto the same stack */
        uint32_t few[16], *v = n <= 16 ? few : malloc(n * sizeof *v);
        if (!v) return x->work.n = mark, expr_fail(x, EXPR_NO_MEMORY);
        memcpy(v, x->work.v + mark, n * sizeof *v);
        d = expr_or_list(x, v, n);
        if (v != few) free(v);
    }
    x->work.n = mark;
    return d;
}

/* Return the derivative of an alternation or intersection, which combines the derivatives of the
 * operands by the same operator. */
static uint32_t derive_list(struct exprs *x, uint32_t e, uint8_t byte)
{
    enum expr_op op = x->e[e].op;
    uint32_t at = x->e[e].a, n = x->e[e].b, m = 0, few[32];
    if (!expr_spend(x, n / 4)) return EXPR_EMPTY;
    uint32_t *v = n <= 32 ? few : malloc(n * sizeof *v), d = EXPR_EMPTY;
    if (!v) return expr_fail(x, EXPR_NO_MEMORY);
    bool empty = false;
    /* derive all operands, because their order depends on the order of requests (expr_alive.c) */
    for (uint32_t i = 0; i < n; i++) {
        d = expr_derive(x, x->list.v[at + i], byte);
        if (op == EX_AND) empty |= d == EXPR_EMPTY;
        if (op == EX_AND || d != EXPR_EMPTY) v[m++] = d;
    }
    if (empty)
        d = EXPR_EMPTY;
    else
        d = op == EX_OR ? expr_or_list(x, v, m) : expr_and_list(x, v, m);
    if (v != few) free(v);
    return d;
}

/* Return the derivative of a repetition: the derivative of one operand, then the remaining
 * repetitions. */
static uint32_t derive_rep(struct exprs *x, const struct expr *e, uint8_t byte)
{
    uint32_t max = e->c == EXPR_INF ? e->c : e->c - 1;
    uint32_t d = expr_derive(x, e->a, byte);
    return d == EXPR_EMPTY ? d : expr_cat(x, d, expr_rep(x, e->a, e->b ? e->b - 1 : 0, max));
}

/* Return true if n_digit zeros after a number of remainder r make a multiple of the divisor. */
static bool is_multiple(const struct divisor *d, uint64_t r, uint32_t n_digit)
{
    for (; n_digit > 0; n_digit--) r = r * 10 % d->m;
    return r % d->m == 0;
}

/* x further digits make a multiple of a number with remainder r if r 10^x + k is a multiple for
 * some k below 10^x. Before the point, a multiple is always reachable, because the number of digits
 * has no limit. */
bool multiple_alive(const struct exprs *x, const struct expr *e)
{
    const struct divisor *d = &x->divisor.v[e->a];
    if (e->c < 2) return true;
    uint64_t r = e->b, ten = 1;
    for (uint32_t i = e->c - 2; i < d->scale; i++) r = r * 10 % d->m, ten *= 10;
    return (d->m - r % d->m) % d->m < ten;
}

/* Return the derivative of digits with a remainder. EX_MULTIPLE in expr.h describes the stages
 * (e->c). */
static uint32_t derive_multiple(struct exprs *x, const struct expr *e, uint8_t byte)
{
    const struct divisor *d = &x->divisor.v[e->a];
    struct expr next = *e;
    next.row = NULL;
    next.alive = ALIVE_UNKNOWN;
    if (byte == '.' && e->c == 1) {
        next.c = 2;
        next.nullable = false;
        return expr_make(x, next);
    }
    if (byte < '0' || byte > '9') return EXPR_EMPTY;
    /* number of fractional digits, this digit included */
    uint32_t n_fraction = e->c < 2 ? 0 : e->c - 1;
    /* only zeros may follow, because these digits are finer than the divisor */
    if (n_fraction > d->scale) {
        next.nullable = is_multiple(d, e->b, 0);
        next.c = d->scale + 3;
        return byte == '0' ? expr_make(x, next) : EXPR_EMPTY;
    }
    next.b = (uint32_t)(((uint64_t)e->b * 10 + (uint64_t)(byte - '0')) % d->m);
    next.c = e->c < 2 ? 1 : e->c + 1;
    next.nullable = is_multiple(d, next.b, d->scale - n_fraction);
    return expr_make(x, next);
}

/* Return the derivative of e by a byte: the rest of all texts that begin with it (Brzozowski
 * 1964). */
static uint32_t derive(struct exprs *x, uint32_t e, uint8_t byte)
{
    const struct expr it = x->e[e]; /* copy, because expr_make may move x->e */
    switch ((enum expr_op)it.op) {
    case EX_SET:
        return byteset_has(&x->set.v[it.a], byte) ? EXPR_EPSILON : EXPR_EMPTY;
    case EX_CAT:
        return derive_cat(x, e, byte);
    case EX_OR:
    case EX_AND:
        return derive_list(x, e, byte);
    case EX_NOT:
        return expr_not(x, expr_derive(x, it.a, byte));
    case EX_REP:
        return derive_rep(x, &it, byte);
    case EX_STRING:
    case EX_ESCAPE:
    case EX_HEX:
        return string_derive(x, &it, byte);
    case EX_MULTIPLE:
        return derive_multiple(x, &it, byte);
    case EX_LEAP:
        return leap_derive(x, &it, byte);
    case EX_SCIENTIFIC_INTEGER:
        return scientific_derive(x, &it, byte);
    case EX_EMPTY:
    case EX_EPSILON:
    case EX_TAG:
        break;
    }
    return EXPR_EMPTY;
}

/* Return the weight of an expression without a memo. */
uint16_t expr_weight(const struct exprs *x, const struct expr *e)
{
    enum { STRING_STEPS = 3, ESCAPE_STEPS = 6 }; /* the row of a string's text exists already */
    size_t n = 1;
    switch ((enum expr_op)e->op) {
    case EX_CAT:
        n += x->e[e->a].weight;
        if (x->e[e->a].nullable) n += x->e[e->b].weight;
        break;
    case EX_OR:
    case EX_AND:
        n += e->b / 4;
        for (uint32_t i = 0; i < e->b; i++) n += x->e[x->list.v[e->a + i]].weight;
        break;
    case EX_NOT:
    case EX_REP:
        n += x->e[e->a].weight;
        break;
    case EX_STRING:
        n = STRING_STEPS;
        break;
    case EX_ESCAPE:
    case EX_HEX:
        n = ESCAPE_STEPS;
        break;
    default:
        break;
    }
    return n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
}

/* Return the derivative of e by a byte. Compute it once per generation of the memo, because
 * expressions share operands. A cached row counts as saved work. */
uint32_t expr_derive(struct exprs *x, uint32_t e, uint8_t byte)
{
    if (!expr_spend(x, 1)) return EXPR_EMPTY;
    if (x->e[e].row) {
        *(e == x->served ? &x->served_steps : &x->spent.saved) += x->e[e].row[ROW_COST];
        return x->e[e].row[byte];
    }
    if (x->memo_of[e] == x->memo_now) return x->memo[e];
    uint32_t d = derive(x, e, byte);
    x->memo[e] = d;
    x->memo_of[e] = x->memo_now;
    return d;
}

/* ---- classes of bytes ---- */

/* Partition of the 256 bytes into n classes. n_node: number of operators examined. */
struct classes {
    struct byteset v[256];
    int n;
    size_t n_node;
};

static int byteset_count(const struct byteset *s)
{
    int n = 0;
    for (int w = 0; w < 4; w++) n += __builtin_popcountll(s->w[w]);
    return n;
}

/* Split each class into its bytes in s and its bytes outside of s. */
static void split(struct classes *c, const struct byteset *s)
{
    for (int i = 0, n = c->n; i < n; i++) {
        struct byteset in, out;
        uint64_t any_in = 0, any_out = 0;
        for (int w = 0; w < 4; w++) {
            any_in |= in.w[w] = c->v[i].w[w] & s->w[w];
            any_out |= out.w[w] = c->v[i].w[w] & ~s->w[w];
        }
        if (!any_in || !any_out) continue;
        c->v[i] = in;
        c->v[c->n++] = out;
    }
}

/* Split the classes by each single byte of a string. */
static void split_each(struct classes *c, const char *bytes)
{
    for (; *bytes; bytes++) {
        struct byteset s = {{0}};
        byteset_add(&s, (uint8_t)*bytes);
        split(c, &s);
    }
}

/* Split the classes by every byte set that can change the derivative of e. All bytes of a class
 * then have the same derivative. */
static void classify(struct exprs *x, uint32_t e, struct classes *c)
{
    const struct expr *it = &x->e[e];
    for (; it->op == EX_CAT && !x->failed; it = &x->e[it->b]) {
        classify(x, it->a, c);
        if (!x->e[it->a].nullable) return;
    }
    c->n_node++;
    if (!expr_spend(x, 1)) return;
    static const struct byteset control = {{0xffffffff}};
    switch ((enum expr_op)it->op) {
    case EX_SET:
        split(c, &x->set.v[it->a]);
        break;
    case EX_OR:
    case EX_AND:
        for (uint32_t i = 0; i < it->b; i++) classify(x, x->list.v[it->a + i], c);
        break;
    case EX_NOT:
    case EX_REP:
        classify(x, it->a, c);
        break;
    case EX_STRING:
        classify(x, it->a, c);
        split(c, &control);
        split_each(c, "\"\\");
        break;
    case EX_ESCAPE:
        split_each(c, "\"\\/bfnrtu");
        break;
    case EX_HEX:
        split_each(c, "0123456789abcdefABCDEF\\u");
        break;
    case EX_LEAP:
        split_each(c, "0123456789:.zZ+-");
        break;
    case EX_MULTIPLE:
    case EX_SCIENTIFIC_INTEGER:
        split_each(c, "0123456789.eE");
        break;
    default:
        break;
    }
}

/* Set *c to the classes of bytes of e. The cost of the splits is charged at the end, so that it
 * does not depend on the order of operands. */
static void classes_of(struct exprs *x, uint32_t e, struct classes *c)
{
    c->v[0] = (struct byteset){{~0ull, ~0ull, ~0ull, ~0ull}};
    c->n = 1;
    c->n_node = 0;
    classify(x, e, c);
    expr_spend(x, c->n_node * (size_t)c->n / 8);
}

/* Return the derivative of e by the bytes of class k. Raise *cost to the number of steps with a
 * cold cache, in which a row is not computed before the row of its user. */
static uint32_t derive_class(struct exprs *x, uint32_t e, const struct classes *c, int k,
                             uint32_t *cost)
{
    const int64_t before = exprs_work(x) + x->spent.saved + x->served_steps;
    x->memo_now++;
    const uint32_t d = expr_derive(x, e, byteset_first(&c->v[k]));
    const int64_t n = exprs_work(x) + x->spent.saved + x->served_steps - before;
    if (n > *cost) *cost = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    return d;
}

/* Count another state with a row. Return false if a limit is reached. */
static bool count_row(struct exprs *x)
{
    if (x->limit.row_max && x->n_row >= x->limit.row_max) return expr_fail(x, EXPR_STATES), false;
    x->n_row++;
    return expr_spend(x, 20);
}

/* Store the row of e: next[k] for each byte of class k, and its cost. Return the row; NULL after a
 * failure. Most bytes belong to the largest class, so its successor is stored for all bytes
 * first. */
static const uint32_t *keep_row(struct exprs *x, uint32_t e, const struct classes *c,
                                const uint32_t *next, uint32_t cost)
{
    uint32_t *row = x->failed ? NULL : arena_push(&x->arena, (ROW_COST + 1) * sizeof *row, 64);
    if (!row) return expr_fail(x, x->arena.limited ? EXPR_BYTES : EXPR_NO_MEMORY), NULL;
    int most = 0, n_most = 0;
    for (int k = 0; k < c->n; k++) {
        int n = byteset_count(&c->v[k]);
        if (n > n_most) most = k, n_most = n;
    }
    row[ROW_COST] = cost;
    for (int b = 0; b < 256; b++) row[b] = next[most];
    for (int k = 0; k < c->n; k++)
        for (int w = 0; w < 4 && k != most; w++)
            for (uint64_t bits = c->v[k].w[w]; bits; bits &= bits - 1)
                row[64 * w + __builtin_ctzll(bits)] = next[k];
    return x->e[e].row = row;
}

/* Return true if e is a repetition of any character, such as the limit of a string's length. */
static bool is_length(const struct exprs *x, uint32_t e)
{
    return x->e[e].op == EX_REP && x->e[e].a == x->any_char;
}

/* Return the expression whose row serves the row of e: the text of a string, or the pattern of a
 * string of limited length. EXPR_EMPTY if none. The states of a string with a limit differ after
 * each character, but the states of the pattern do not. A row of the pattern therefore serves many
 * states of the string. */
static uint32_t served_by(const struct exprs *x, uint32_t e)
{
    if (x->e[e].op == EX_CAT) e = x->e[e].a;
    if (x->e[e].op == EX_STRING) return x->e[e].a;
    if (x->e[e].op != EX_AND || x->e[e].b != 2) return EXPR_EMPTY;
    const uint32_t *v = x->list.v + x->e[e].a;
    bool first = is_length(x, v[0]), second = is_length(x, v[1]);
    return first == second ? EXPR_EMPTY : first ? v[1] : v[0];
}

/* Compute the successors of e for all bytes, once per class of bytes that e cannot distinguish. */
static const uint32_t *make_row(struct exprs *x, uint32_t e)
{
    struct classes c;
    uint32_t next[256], cost = 0, before = x->served, by = served_by(x, e);
    if (by != EXPR_EMPTY) expr_row(x, by);
    if (!count_row(x)) return NULL;
    x->served = by;
    classes_of(x, e, &c);
    for (int k = 0; k < c.n; k++) next[k] = derive_class(x, e, &c, k, &cost);
    x->served = before;
    return keep_row(x, e, &c, next, cost);
}

const uint32_t *expr_row(struct exprs *x, uint32_t e)
{
    if (x->e[e].row || x->failed) return x->failed ? NULL : x->e[e].row;
    struct expr_task t;
    exprs_begin(x, &t);
    const uint32_t *row = make_row(x, e);
    exprs_end(x, &t, true);
    return row;
}

uint32_t expr_next(struct exprs *x, uint32_t e, uint8_t byte)
{
    const uint32_t *row = x->e[e].row ? x->e[e].row : expr_row(x, e);
    return row ? row[byte] : EXPR_EMPTY;
}

/* ---- whole texts ---- */

bool expr_matches(struct exprs *x, uint32_t e, const void *text, size_t n)
{
    const uint8_t *b = text;
    for (size_t i = 0; i < n && e != EXPR_EMPTY; i++) {
        x->memo_now++; /* use a derivative instead of a row, because only one byte is needed */
        e = expr_derive(x, e, b[i]);
    }
    return !x->failed && expr_nullable(x, e);
}

/* ---- tags ---- */

/* Insert a tag into an ascending list without repetition. Return false if memory is exhausted. */
static bool add_tag(struct tags *out, uint32_t tag)
{
    size_t i = out->n;
    while (i > 0 && out->v[i - 1] > tag) i--;
    if (i > 0 && out->v[i - 1] == tag) return true;
    if (!vec_push(out, tag)) return false;
    memmove(out->v + i + 1, out->v + i, (out->n - 1 - i) * sizeof *out->v);
    out->v[i] = tag;
    return true;
}

bool expr_tags(const struct exprs *x, uint32_t e, struct tags *out)
{
    const struct expr *it = &x->e[e];
    for (; it->op == EX_CAT && it->nullable; it = &x->e[it->b])
        if (!expr_tags(x, it->a, out)) return false;
    if (!it->nullable) return true;
    if (it->op == EX_TAG) return add_tag(out, it->a);
    if (it->op != EX_OR && it->op != EX_AND) return true;
    for (uint32_t i = 0; i < it->b; i++)
        if (!expr_tags(x, x->list.v[it->a + i], out)) return false;
    return true;
}

static bool add_reach(struct exprs *x, uint32_t e, struct tags *out);

/* Add the tags of the texts `head rest`, whose first character an ESCAPE or HEX `state` is
 * spelling. Each alternative of `rest` is checked alone, because the digits read so far may exclude
 * its first character. Factoring (expr.c) can put alternatives within a character. Therefore the
 * first n_head bytes of the character, at most 3, are moved to `head`. */
static bool reach_escaped(struct exprs *x, const struct expr *state, uint32_t head, uint32_t rest,
                          int n_head, struct tags *out)
{
    const struct expr r = x->e[rest];
    bool ok = true;
    if (r.op == EX_OR) {
        for (uint32_t i = 0; ok && i < r.b; i++)
            ok = reach_escaped(x, state, head, x->list.v[r.a + i], n_head, out);
        return ok;
    }
    bool wide = r.op == EX_CAT && x->e[r.a].op == EX_SET && n_head < 3 &&
                byteset_first(&x->set.v[x->e[r.a].a]) >= 0x80;
    if (wide) return reach_escaped(x, state, expr_cat(x, head, r.a), r.b, n_head + 1, out);
    uint32_t with = string_with(x, state, expr_cat(x, head, rest));
    return with == EXPR_EMPTY || !expr_alive(x, with) || add_reach(x, rest, out);
}

/* Add the tags that texts of e report. Return false if memory is exhausted or a limit is
 * reached. */
static bool add_reach(struct exprs *x, uint32_t e, struct tags *out)
{
    while (x->e[e].op == EX_CAT && expr_alive(x, x->e[e].a)) e = x->e[e].b;
    const struct expr it = x->e[e];
    bool ok = expr_spend(x, 1);
    switch ((enum expr_op)it.op) {
    case EX_TAG:
        return add_tag(out, it.a);
    case EX_CAT: /* the first operand matches no text */
        return true;
    case EX_STRING:
        return add_reach(x, it.a, out);
    case EX_OR:
        for (uint32_t i = 0; ok && i < it.b; i++) ok = add_reach(x, x->list.v[it.a + i], out);
        return ok;
    case EX_ESCAPE:
    case EX_HEX:
        return reach_escaped(x, &it, EXPR_EPSILON, it.a, 0, out);
    default:
        return true;
    }
}

const uint32_t *expr_reach(struct exprs *x, uint32_t e)
{
    if (x->e[e].reach == 0 && !x->failed) {
        struct expr_task t;
        struct tags tags = {0};
        exprs_begin(x, &t);
        bool ok = add_reach(x, e, &tags);
        exprs_end(x, &t, true);
        if (ok && x->reach.n == 0) ok = vec_push(&x->reach, 0);
        uint32_t at = (uint32_t)x->reach.n;
        ok = ok && vec_push(&x->reach, (uint32_t)tags.n);
        for (size_t i = 0; ok && i < tags.n; i++) ok = vec_push(&x->reach, tags.v[i]);
        vec_deinit(&tags);
        if (!ok) return expr_fail(x, EXPR_NO_MEMORY), NULL;
        x->e[e].reach = at;
    }
    return x->failed ? NULL : x->reach.v + x->e[e].reach;
}
