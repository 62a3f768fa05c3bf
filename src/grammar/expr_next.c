/* expr_next.c - the lazy automaton of an expression: derivatives, rows of transitions, and the
 * states from which a text is accepted.
 *
 * A row has the transitions of all 256 bytes, which are computed together. Bytes that no operator
 * distinguishes form a class (Owens, Reppy, Turon 2009, section 4.2). One derivative serves a whole
 * class. */
#include "expr.h"

#include <stdlib.h>
#include <string.h>

bool expr_nullable(const struct exprs *x, uint32_t e)
{
    return x->e[e].nullable;
}

/* ---- derivatives ---- */

/* Return the derivative of a concatenation p q. The derivative is p' q, or also q' if p accepts the
 * empty text. The function is a loop, because a chain of concatenations may be long. */
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
    if (n > 1) { /* copy: expr_or_list pushes onto the same stack */
        uint32_t few[16], *v = n <= 16 ? few : malloc(n * sizeof *v);
        if (!v) return x->work.n = mark, expr_fail(x, EXPR_NO_MEMORY);
        memcpy(v, x->work.v + mark, n * sizeof *v);
        d = expr_or_list(x, v, n);
        if (v != few) free(v);
    }
    x->work.n = mark;
    return d;
}

/* Return the derivative of an alternation or intersection: its operator over the derivatives of its
 * operands. */
static uint32_t derive_list(struct exprs *x, uint32_t e, uint8_t byte)
{
    enum expr_op op = x->e[e].op;
    uint32_t at = x->e[e].a, n = x->e[e].b, m = 0, few[32];
    if (!expr_spend(x, n / 4)) return EXPR_EMPTY;
    uint32_t *v = n <= 32 ? few : malloc(n * sizeof *v), d = EXPR_EMPTY;
    if (!v) return expr_fail(x, EXPR_NO_MEMORY);
    bool empty = false;
    for (uint32_t i = 0; i < n && !empty; i++) {
        d = expr_derive(x, x->list.v[at + i], byte);
        if (op == EX_AND) empty = d == EXPR_EMPTY;
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

/* Return the derivative of digits with a remainder. Stages (e->c): see EX_MULTIPLE in expr.h. */
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

/* Return the derivative of e by a byte. Compute it once per generation of the memo, because
 * expressions share operands. */
uint32_t expr_derive(struct exprs *x, uint32_t e, uint8_t byte)
{
    if (!expr_spend(x, 1)) return EXPR_EMPTY;
    if (x->e[e].row) return x->e[e].row[byte];
    if (x->memo_of[e] == x->memo_now) return x->memo[e];
    uint32_t d = derive(x, e, byte);
    x->memo[e] = d;
    x->memo_of[e] = x->memo_now;
    return d;
}

/* ---- classes of bytes ---- */

/* Partition of the 256 bytes into n classes. */
struct classes {
    struct byteset v[256];
    int n;
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

/* Split the classes by every byte set that can decide the derivative of e. All bytes of a class
 * then have the same derivative. */
static void classify(struct exprs *x, uint32_t e, struct classes *c)
{
    const struct expr *it = &x->e[e];
    for (; it->op == EX_CAT && !x->failed; it = &x->e[it->b]) {
        classify(x, it->a, c);
        if (!x->e[it->a].nullable) return;
    }
    if (!expr_spend(x, 1 + (size_t)c->n / 8)) return;
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

/* Set *c to the classes of bytes of e. */
static void classes_of(struct exprs *x, uint32_t e, struct classes *c)
{
    c->v[0] = (struct byteset){{~0ull, ~0ull, ~0ull, ~0ull}};
    c->n = 1;
    classify(x, e, c);
}

/* Return the derivative of e by the bytes of class k. */
static uint32_t derive_class(struct exprs *x, uint32_t e, const struct classes *c, int k)
{
    x->memo_now++;
    return expr_derive(x, e, byteset_first(&c->v[k]));
}

/* Count another state with a row. Return false if a limit is reached. */
static bool count_row(struct exprs *x)
{
    if (x->limit.row_max && x->n_row >= x->limit.row_max) return expr_fail(x, EXPR_STATES), false;
    x->n_row++;
    return expr_spend(x, 20);
}

/* Store the row of e: next[k] for each byte of class k. Return the row; NULL after a failure. Most
 * bytes belong to the largest class, so its successor is stored for all bytes first. */
static const uint32_t *keep_row(struct exprs *x, uint32_t e, const struct classes *c,
                                const uint32_t *next)
{
    uint32_t *row = x->failed ? NULL : arena_push(&x->arena, 256 * sizeof *row, 64);
    if (!row) return expr_fail(x, x->arena.limited ? EXPR_BYTES : EXPR_NO_MEMORY), NULL;
    int most = 0, n_most = 0;
    for (int k = 0; k < c->n; k++) {
        int n = byteset_count(&c->v[k]);
        if (n > n_most) most = k, n_most = n;
    }
    for (int b = 0; b < 256; b++) row[b] = next[most];
    for (int k = 0; k < c->n; k++)
        for (int w = 0; w < 4 && k != most; w++)
            for (uint64_t bits = c->v[k].w[w]; bits; bits &= bits - 1)
                row[64 * w + __builtin_ctzll(bits)] = next[k];
    return x->e[e].row = row;
}

/* Return true if e repeats any character, as the limit of a string's length does. */
static bool is_length(const struct exprs *x, uint32_t e)
{
    return x->e[e].op == EX_REP && x->e[e].a == x->any_char;
}

/* Compute the row of the pattern of e if e is a string of limited length. The states of e differ
 * after each character, but those of the pattern do not. So a row of the pattern serves many states
 * of e. */
static void row_of_pattern(struct exprs *x, uint32_t e)
{
    if (x->e[e].op == EX_CAT) e = x->e[e].a;
    if (x->e[e].op == EX_STRING) e = x->e[e].a;
    if (x->e[e].op != EX_AND || x->e[e].b != 2) return;
    const uint32_t *v = x->list.v + x->e[e].a;
    uint32_t a = v[0], b = v[1];
    if (is_length(x, a)) expr_row(x, b);
    if (is_length(x, b)) expr_row(x, a);
}

const uint32_t *expr_row(struct exprs *x, uint32_t e)
{
    struct classes c;
    uint32_t next[256];
    if (x->e[e].row || x->failed) return x->failed ? NULL : x->e[e].row;
    row_of_pattern(x, e);
    if (!count_row(x)) return NULL;
    classes_of(x, e, &c);
    for (int k = 0; k < c.n; k++) next[k] = derive_class(x, e, &c, k);
    return keep_row(x, e, &c, next);
}

uint32_t expr_next(struct exprs *x, uint32_t e, uint8_t byte)
{
    const uint32_t *row = x->e[e].row ? x->e[e].row : expr_row(x, e);
    return row ? row[byte] : EXPR_EMPTY;
}

/* ---- states from which a text is accepted ---- */

/* Return ALIVE_YES or ALIVE_NO if the known states of the operands determine the result, else
 * ALIVE_UNKNOWN. Do not search. */
static int alive_of_list(struct exprs *x, const struct expr *e)
{
    int all = e->op == EX_OR ? ALIVE_NO : ALIVE_UNKNOWN;
    expr_spend(x, e->b / 16);
    for (uint32_t i = 0; i < e->b; i++) {
        int k = x->e[x->list.v[e->a + i]].alive;
        if (e->op == EX_OR && k == ALIVE_YES) return ALIVE_YES;
        if (e->op == EX_AND && k == ALIVE_NO) return ALIVE_NO;
        if (k == ALIVE_UNKNOWN) all = ALIVE_UNKNOWN;
    }
    return all;
}

/* A depth-first search over states. Arrays v and from are parallel. */
struct state_search {
    /* states in the order in which the search found them */
    VEC(uint32_t) v;
    /* for each state of v: index of the state from which it was reached */
    VEC(uint32_t) from;
    /* stack of the indexes of states whose successors are not examined yet */
    VEC(uint32_t) due;
};

/* Add state e, reached from v[from]. Return false if memory is exhausted. */
static bool push_state(struct exprs *x, struct state_search *s, uint32_t e, uint32_t from)
{
    x->seen[e] = x->seen_now;
    uint32_t i = (uint32_t)s->v.n;
    if (vec_push(&s->v, e) && vec_push(&s->from, from) && vec_push(&s->due, i)) return true;
    return expr_fail(x, EXPR_NO_MEMORY), false;
}

/* Return true if e is known to match a text without a search of its states. The operands of e may
 * be searched. */
static bool is_goal(struct exprs *x, uint32_t e)
{
    const struct expr *it = &x->e[e];
    if (it->nullable || it->alive == ALIVE_YES) return true;
    return it->op != EX_AND && it->op != EX_NOT && it->op != EX_MULTIPLE && expr_alive(x, e);
}

/* Store the result of a search and free it. The states on the path to v[last] are alive if the
 * search found a goal. No reached state is alive if the search examined all states without a
 * goal. */
static void search_end(struct exprs *x, struct state_search *s, bool found, uint32_t last)
{
    if (found)
        for (uint32_t i = last;; i = s->from.v[i]) {
            x->e[s->v.v[i]].alive = ALIVE_YES;
            if (i == 0) break;
        }
    else if (!x->failed) /* the search has examined all reachable states */
        for (size_t i = 0; i < s->v.n; i++) x->e[s->v.v[i]].alive = ALIVE_NO;
    vec_deinit(&s->v);
    vec_deinit(&s->from);
    vec_deinit(&s->due);
}

/* Return true if state d, reached from v[from], is a goal. Otherwise add d to the search if it is
 * new. `now` is the generation of this search. */
static bool visit_state(struct exprs *x, struct state_search *s, uint32_t now, uint32_t d,
                        uint32_t from)
{
    if (d == EXPR_EMPTY || x->e[d].alive == ALIVE_NO || x->seen[d] == now) return false;
    bool goal = is_goal(x, d);
    x->seen_now = now; /* is_goal possibly started other generations */
    if (!goal && x->e[d].alive != ALIVE_NO) push_state(x, s, d, from);
    return goal;
}

/* Return true if a successor of v[i] is a goal; stop at the first goal. Compute a missing row on
 * the way, and store it if it is complete. */
static bool look_behind(struct exprs *x, struct state_search *s, uint32_t now, uint32_t i)
{
    struct classes c;
    uint32_t next[256], e = s->v.v[i];
    const uint32_t *row = x->e[e].row;
    if (!expr_spend(x, 20)) return false;
    for (int b = 0; row && b < 256; b++)
        if ((b == 0 || row[b] != row[b - 1]) && visit_state(x, s, now, row[b], i)) return true;
    if (row || !count_row(x)) return false;
    classes_of(x, e, &c);
    for (int k = 0; k < c.n && !x->failed; k++) {
        next[k] = derive_class(x, e, &c, k);
        if (visit_state(x, s, now, next[k], i)) return true;
    }
    keep_row(x, e, &c, next);
    return false;
}

/* Return true if a text is accepted from e: search its states, depth first. */
static bool search(struct exprs *x, uint32_t e)
{
    struct state_search s = {0};
    uint32_t now = ++x->seen_now, i = 0;
    bool found = false;
    push_state(x, &s, e, 0);
    while (s.due.n > 0 && !x->failed && !found) {
        i = s.due.v[--s.due.n];
        found = look_behind(x, &s, now, i);
    }
    search_end(x, &s, found, i);
    return found;
}

/* Return true if e matches a text. Operands decide most operators; intersection, complement and
 * multiples need a search. */
static bool matches_some(struct exprs *x, uint32_t e)
{
    const struct expr it = x->e[e];
    if (it.nullable) return true;
    switch ((enum expr_op)it.op) {
    case EX_CAT: /* this case is a loop, because a chain may be long */
        while (x->e[e].op == EX_CAT && x->e[e].alive == ALIVE_UNKNOWN) {
            if (!expr_alive(x, x->e[e].a)) return false;
            e = x->e[e].b;
        }
        return expr_alive(x, e);
    case EX_OR:
        for (uint32_t i = 0; i < it.b; i++)
            if (expr_alive(x, x->list.v[it.a + i])) return true;
        return false;
    case EX_REP: /* the expression is not nullable, so at least one operand is needed */
    case EX_STRING:
        return expr_alive(x, it.a);
    case EX_ESCAPE:
    case EX_HEX:
        return string_alive(x, &it);
    case EX_AND:
        return alive_of_list(x, &it) != ALIVE_NO && search(x, e);
    default:
        return search(x, e);
    }
}

bool expr_alive(struct exprs *x, uint32_t e)
{
    if (!expr_spend(x, 1)) return false;
    if (x->e[e].alive == ALIVE_UNKNOWN) {
        bool alive = matches_some(x, e);
        if (!x->failed) x->e[e].alive = alive ? ALIVE_YES : ALIVE_NO;
    }
    return !x->failed && x->e[e].alive == ALIVE_YES;
}

bool expr_matches(struct exprs *x, uint32_t e, const void *text, size_t n)
{
    const uint8_t *b = text;
    for (size_t i = 0; i < n && e != EXPR_EMPTY; i++) {
        x->memo_now++; /* use a derivative, not a row, because only one byte is needed */
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
 * its first character. Factoring (expr.c) can put alternatives within a character. So the
 * character's first n_head bytes, at most 3, move to `head`. */
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
        struct tags tags = {0};
        bool ok = add_reach(x, e, &tags);
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
