/* regex_piece.c - alternation, concatenation and repetition of pieces; see regex_piece.h. */
#include "regex_piece.h"

#include <string.h>

/* STATES_MAX: maximum number of states of a piece with \b, ^ or $ inside. The time to eliminate
 * states grows with the cube of this number. UNROLL_MAX: maximum number of copies of a repeated
 * piece. */
enum { STATES_MAX = 32, UNROLL_MAX = 64, CTX_CHAR = CTX_ANY & ~CTX_EDGE };

bool piece_is_plain(const struct regex_piece *a)
{
    return a->n == 0 || (a->n == 1 && a->v[0].left == CTX_ANY && a->v[0].right == CTX_ANY);
}

/* Add an item to a piece. Merge the item with an existing item that differs only in `left` or only
 * in the expression. Drop the item if it has no text or no context. */
static void add_item(struct pieces *p, struct regex_piece *out, uint8_t left, uint8_t right,
                     uint32_t e)
{
    if (e == EXPR_EMPTY || !left || !right) return;
    for (uint32_t i = 0; i < out->n; i++) {
        struct piece_item *it = &out->v[i];
        if (it->right == right && it->e == e) return (void)(it->left |= left);
        if (it->left == left && it->right == right) return (void)(it->e = expr_or(p->x, it->e, e));
    }
    if (out->n == PIECE_ITEMS_MAX)
        p->too_many = true;
    else
        out->v[out->n++] = (struct piece_item){left, right, e};
}

struct regex_piece piece_plain(uint32_t e)
{
    return (struct regex_piece){.n = e != EXPR_EMPTY, .v = {{CTX_ANY, CTX_ANY, e}}};
}

struct regex_piece piece_between(uint8_t left, uint8_t right)
{
    return (struct regex_piece){.n = 1, .v = {{left, right, EXPR_EPSILON}}};
}

struct regex_piece piece_either(struct pieces *p, const struct regex_piece *a,
                                const struct regex_piece *b)
{
    struct regex_piece out = *a;
    for (uint32_t i = 0; i < b->n; i++) add_item(p, &out, b->v[i].left, b->v[i].right, b->v[i].e);
    return out;
}

/* ---- contexts within a piece ---- */

static uint32_t all_texts(struct pieces *p)
{
    return expr_not(p->x, EXPR_EMPTY);
}

/* Return the expression of a character of these contexts. */
static uint32_t chars_of(struct pieces *p, uint8_t contexts)
{
    uint32_t e = EXPR_EMPTY;
    for (int i = 1; i < N_CONTEXT; i++)
        if (contexts >> i & 1) e = expr_or(p->x, e, p->of[i]);
    return e;
}

/* Return e without the empty text. */
static uint32_t not_empty(struct pieces *p, uint32_t e)
{
    return expr_nullable(p->x, e) ? expr_and(p->x, e, expr_not(p->x, EXPR_EPSILON)) : e;
}

/* Return the texts of e that begin with a character of these contexts. e must not match the empty
 * text. */
static uint32_t beginning(struct pieces *p, uint32_t e, uint8_t contexts)
{
    if ((contexts & CTX_CHAR) == CTX_CHAR || e == EXPR_EMPTY) return e;
    return expr_and(p->x, e, expr_cat(p->x, chars_of(p, contexts), all_texts(p)));
}

/* Return the texts of e that end with a character of these contexts. e must not match the empty
 * text. */
static uint32_t ending(struct pieces *p, uint32_t e, uint8_t contexts)
{
    if ((contexts & CTX_CHAR) == CTX_CHAR || e == EXPR_EMPTY) return e;
    return expr_and(p->x, e, expr_cat(p->x, all_texts(p), chars_of(p, contexts)));
}

/* Add the concatenation of two items. The empty texts of a and of b are separate cases. The
 * conditions on both sides of an empty text apply to the same place. */
static void join_items(struct pieces *p, const struct piece_item *a, const struct piece_item *b,
                       struct regex_piece *out)
{
    struct exprs *x = p->x;
    if (a->right == CTX_ANY && b->left == CTX_ANY)
        return add_item(p, out, a->left, b->right, expr_cat(x, a->e, b->e));
    uint32_t head = not_empty(p, a->e), tail = not_empty(p, b->e);
    uint8_t left = a->left & b->left, right = a->right & b->right;
    bool no_head = expr_nullable(x, a->e), no_tail = expr_nullable(x, b->e);
    uint32_t both = expr_cat(x, ending(p, head, b->left), beginning(p, tail, a->right));
    add_item(p, out, a->left, b->right, both);
    if (no_head) add_item(p, out, left, b->right, beginning(p, tail, a->right));
    if (no_tail) add_item(p, out, a->left, right, ending(p, head, b->left));
    if (no_head && no_tail) add_item(p, out, left, right, EXPR_EPSILON);
}

struct regex_piece piece_join(struct pieces *p, const struct regex_piece *a,
                              const struct regex_piece *b)
{
    struct regex_piece out = {0};
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < b->n; k++) join_items(p, &a->v[i], &b->v[k], &out);
    return out;
}

/* ---- repetition ---- */

/* Rounds of a repetition as a graph. A state consists of the context of the last character and the
 * contexts that may follow the character. An edge has the texts of rounds from one state to
 * another. The first N_CONTEXT states are before the first round. */
struct rounds {
    struct pieces *p; /* borrowed */
    uint32_t n;
    struct {
        uint8_t at, right; /* at: bit number of a context. right: CTX_*. */
    } state[STATES_MAX];
    uint32_t edge[STATES_MAX][STATES_MAX]; /* expressions; [from][to] */
};

/* Return the number of a state. Add the state if it is new. Set too_many and return 0 if the graph
 * is full. */
static uint32_t state_of(struct rounds *r, uint8_t at, uint8_t right)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->state[i].at == at && r->state[i].right == right) return i;
    if (r->n == STATES_MAX) return r->p->too_many = true, 0;
    r->state[r->n].at = at, r->state[r->n].right = right;
    return r->n++;
}

/* Add the texts of e to the edge to a state. Do nothing if e has no text, or if no context may
 * follow e. */
static void add_edge(struct rounds *r, uint32_t from, uint8_t at, uint8_t right, uint32_t e)
{
    if (e == EXPR_EMPTY || !right || !expr_alive(r->p->x, e)) return;
    uint32_t to = state_of(r, at, right);
    r->edge[from][to] = expr_or(r->p->x, r->edge[from][to], e);
}

/* Add the edges of one more round with an item, from each state whose context the item allows. */
static void add_round(struct rounds *r, uint32_t from, const struct piece_item *it)
{
    uint8_t at = r->state[from].at, right = r->state[from].right;
    if (!(it->left >> at & 1)) return;
    if (expr_nullable(r->p->x, it->e)) add_edge(r, from, at, right & it->right, EXPR_EPSILON);
    uint32_t e = beginning(r->p, not_empty(r->p, it->e), right);
    for (uint8_t last = 1; last < N_CONTEXT; last++)
        add_edge(r, from, last, it->right, ending(r->p, e, (uint8_t)(1 << last)));
}

/* Replace each edge by the texts of all paths between its states (Kleene's algorithm). */
static void close_ways(struct rounds *r)
{
    struct exprs *x = r->p->x;
    for (uint32_t k = 0; k < r->n; k++) {
        uint32_t loop = expr_rep(x, r->edge[k][k], 0, EXPR_INF);
        for (uint32_t i = 0; i < r->n; i++)
            for (uint32_t j = 0; j < r->n && r->edge[i][k] != EXPR_EMPTY; j++) {
                if (r->edge[k][j] == EXPR_EMPTY || i == k || j == k) continue;
                uint32_t way = expr_cat(x, r->edge[i][k], expr_cat(x, loop, r->edge[k][j]));
                r->edge[i][j] = expr_or(x, r->edge[i][j], way);
            }
        for (uint32_t i = 0; i < r->n; i++) {
            if (i == k) continue;
            r->edge[i][k] = expr_cat(x, r->edge[i][k], loop);
            r->edge[k][i] = expr_cat(x, loop, r->edge[k][i]);
        }
        r->edge[k][k] = loop;
    }
}

/* Return any number of repetitions of a. */
static struct regex_piece star(struct pieces *p, const struct regex_piece *a)
{
    struct rounds r = {.p = p};
    struct regex_piece out = piece_plain(EXPR_EPSILON);
    for (uint8_t i = 0; i < N_CONTEXT; i++) state_of(&r, i, CTX_ANY);
    for (uint32_t i = 0; i < r.n && !p->too_many; i++)
        for (uint32_t k = 0; k < a->n; k++) add_round(&r, i, &a->v[k]);
    if (p->too_many) return out;
    close_ways(&r);
    for (uint32_t i = 0; i < N_CONTEXT; i++)
        for (uint32_t k = 0; k < r.n; k++)
            add_item(p, &out, (uint8_t)(1 << i), r.state[k].right, r.edge[i][k]);
    return out;
}

struct regex_piece piece_repeat(struct pieces *p, const struct regex_piece *a, uint32_t min,
                                uint32_t max)
{
    if (piece_is_plain(a))
        return piece_plain(expr_rep(p->x, a->n ? a->v[0].e : EXPR_EMPTY, min, max));
    struct regex_piece out = piece_plain(EXPR_EPSILON), none = out;
    uint32_t n_more = max == EXPR_INF ? 0 : max - min;
    if (min > UNROLL_MAX || n_more > UNROLL_MAX) return p->too_many = true, out;
    if (max == EXPR_INF) out = star(p, a);
    for (uint32_t i = 0; i < n_more; i++) {
        out = piece_join(p, a, &out);
        out = piece_either(p, &out, &none);
    }
    for (uint32_t i = 0; i < min; i++) out = piece_join(p, a, &out);
    return out;
}

uint32_t piece_whole(struct pieces *p, const struct regex_piece *a)
{
    uint32_t e = EXPR_EMPTY;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->v[i].left & a->v[i].right & CTX_EDGE) e = expr_or(p->x, e, a->v[i].e);
    return e;
}
