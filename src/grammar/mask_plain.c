/* mask_plain.c - the plain characters that may follow a state of a string; see mask.h.
 *
 * A plain character is a character that a JSON string contains unescaped. The results depend only
 * on the expression, so they are cached by expression. */
#include "mask.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* maximum number of states; each takes at least a step of work: 7 % of CONSTRAINT_STEP_WORK in
     * total */
    OPEN_STATES_MAX = 4096,
    OPEN_TAGS_MAX = 4,
    ROOM_STATES_MAX = 256,
    NO_LIMIT = 254, /* cached value of struct room's n_char that represents no limit */
    NEED_MAX = 8,
    LOOP_STEPS_MAX = 100
};
static const uint32_t NO_TAG = UINT32_MAX;

/* ---- expressions that accept any plain characters ---- */

const struct lead_bytes mask_lead[N_LEAD] = {
    {0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1}, {0xe1, 0xec, 0x80, 0xbf, 1},
    {0xed, 0xed, 0x80, 0x9f, 1}, {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2},
    {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2}};

/* Search of the states that plain characters lead to. Pointers are borrowed. */
struct plain_search {
    struct machine *m; /* borrowed */
    uint32_t tag, now;
    /* true: states of a decoded string, which may accept; false: states of a string's spelling */
    bool decoded;
    VEC(uint32_t) found; /* states between characters */
};

/* Add e, a state between characters, to the states found. Return false if no text (with the tag)
 * continues from e. Also return false at the end of a spelling, and if the limit of states is
 * exceeded. */
static bool add_plain_state(struct plain_search *s, uint32_t e)
{
    struct exprs *x = &s->m->x;
    if (e == EXPR_EMPTY || (!s->decoded && expr_nullable(x, e))) return false;
    if (x->seen[e] == s->now) return true;
    if (s->tag == NO_TAG) {
        if (!expr_alive(x, e)) return false;
    } else {
        const uint32_t *reach = expr_reach(x, e);
        bool has = false;
        for (uint32_t i = reach ? reach[0] : 0; i > 0 && !has; i--) has = reach[i] == s->tag;
        if (!has) return false;
    }
    x->seen[e] = s->now;
    return s->found.n < OPEN_STATES_MAX && vec_push(&s->found, e);
}

/* Add the states after a byte in [lo, hi] and n continuation bytes. Return false if one of these
 * sequences is rejected. */
static bool find_after(struct plain_search *s, uint32_t e, int lo, int hi, int n)
{
    const uint32_t *row = expr_row(&s->m->x, e);
    uint32_t last = EXPR_EMPTY;
    for (int b = lo; row && b <= hi; b++) {
        uint32_t d = row[b];
        if (d == EXPR_EMPTY) return false;
        if (d == last) continue;
        last = d;
        if (n == 0 ? !add_plain_state(s, d) : !find_after(s, d, 0x80, 0xbf, n - 1)) return false;
    }
    return row != NULL;
}

/* Add the states after each plain character. Return false if one of the characters is rejected. */
static bool find_all(struct plain_search *s, uint32_t e)
{
    const uint32_t *row = machine_late(s->m) ? NULL : expr_row(&s->m->x, e);
    uint32_t last = EXPR_EMPTY;
    for (int b = ' '; row && b < 0x80; b++) {
        if (b == '"' || b == '\\' || (row[b] == last && last != EXPR_EMPTY)) continue;
        last = row[b];
        if (!add_plain_state(s, last)) return false;
    }
    for (int i = 0; row && i < N_LEAD; i++)
        for (int b = mask_lead[i].lo; b <= mask_lead[i].hi; b++) {
            uint32_t d = row[b];
            if (d == EXPR_EMPTY) return false;
            if (d != last &&
                !find_after(s, d, mask_lead[i].second_lo, mask_lead[i].second_hi, mask_lead[i].n))
                return false;
            last = d;
        }
    return row != NULL;
}

/* Return the slot of a key, or the free slot for a new key. Set *known if the key is present. */
static uint32_t open_slot(const struct machine *m, uint64_t key, bool *known)
{
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 40) & (m->open.n_slot - 1);
    while (m->open.slot[at] && m->open.slot[at] != key) at = (at + 1) & (m->open.n_slot - 1);
    *known = m->open.slot[at] != 0;
    return at;
}

/* Store a result of is_open. Return false if memory is exhausted. */
static bool open_put(struct machine *m, uint64_t key, bool value)
{
    bool known;
    if (2 * (m->open.n + 1) > m->open.n_slot) {
        uint32_t n = m->open.n_slot ? 2 * m->open.n_slot : 1024, n_old = m->open.n_slot;
        uint64_t *slot = calloc(n, sizeof *slot), *old = m->open.slot;
        bool *open = calloc(n, sizeof *open), *old_open = m->open.open;
        if (!slot || !open) return free(slot), free(open), expr_fail(&m->x, EXPR_NO_MEMORY), false;
        m->open.slot = slot, m->open.open = open, m->open.n_slot = n;
        for (uint32_t i = 0; i < n_old; i++) {
            if (!old[i]) continue;
            uint32_t at = open_slot(m, old[i], &known);
            slot[at] = old[i], open[at] = old_open[i];
        }
        free(old), free(old_open);
    }
    uint32_t at = open_slot(m, key, &known);
    m->open.n += !known;
    m->open.slot[at] = key, m->open.open[at] = value;
    return true;
}

/* Return true if the repetition of one character reaches a state that it does not leave. The number
 * of characters is limited if the result is false, and a search of all states would exceed its
 * limits. */
static bool has_loop(struct machine *m, uint32_t e)
{
    for (int i = 0; i < LOOP_STEPS_MAX && e != EXPR_EMPTY; i++) {
        uint32_t next = expr_next(&m->x, e, 'a');
        if (next == e) return true;
        e = next;
    }
    return false;
}

/* Return true if a text continues from e after any plain characters (is_open), and cache the
 * result. A result of true also holds for all states that plain characters lead to. */
static bool search_open(struct machine *m, uint32_t e, uint32_t tag, uint64_t key)
{
    expr_row(&m->x, e);
    struct plain_search s = {.m = m, .tag = tag, .now = ++m->x.seen_now};
    bool open = !m->x.failed && has_loop(m, e) && add_plain_state(&s, e);
    for (size_t i = 0; open && i < s.found.n; i++) open = find_all(&s, s.found.v[i]);
    for (size_t i = 0; open && i < s.found.n; i++)
        open_put(m, (uint64_t)(s.found.v[i] + 1) << 32 | tag, true);
    if (!open && !m->late) open_put(m, key, false);
    vec_deinit(&s.found);
    return open && !m->x.failed;
}

/* Return true if a text continues from e after any plain characters. The text must report the tag,
 * unless `tag` is NO_TAG. The result depends only on e and the tag, so it is cached by e and
 * tag. */
static bool is_open(struct machine *m, uint32_t e, uint32_t tag)
{
    uint64_t key = (uint64_t)(e + 1) << 32 | tag;
    bool known = false;
    uint32_t at = m->open.n_slot ? open_slot(m, key, &known) : 0;
    if (known) return m->open.open[at];
    struct expr_task t;
    exprs_begin(&m->x, &t);
    bool open = search_open(m, e, tag, key);
    exprs_end(&m->x, &t, !m->late);
    return open;
}

/* Return true if any plain characters may follow in a thread. */
bool mask_has_plain(struct machine *m, struct thread t)
{
    if (!t.choice) return is_open(m, t.expr, NO_TAG);
    const uint32_t *reach = expr_reach(&m->x, t.expr);
    uint32_t arg = m->cell.v[t.stack].sym.arg, tag[OPEN_TAGS_MAX], n = 0;
    for (uint32_t i = reach ? reach[0] : 0; i > 0 && n < OPEN_TAGS_MAX;
         i--) /* classes of names have the highest tags */
        if (m->choose(m->front, arg, reach[i]) != NO_RULE) tag[n++] = reach[i];
    for (uint32_t i = 0; i < n; i++)
        if (is_open(m, t.expr, tag[i])) return true;
    return false;
}

/* ---- strings of limited length ----
 *
 * The state of a string of at most n characters with a pattern is an intersection. This state
 * differs after every character, so no cached walk serves the next state. The operands of the
 * intersection are examined separately: the number of remaining characters, and the number of
 * arbitrary characters that the pattern accepts. */

/* Return the minimum number of bytes that complete e; NEED_MAX + 1 if more than NEED_MAX. The
 * result may be too large if more than ROOM_STATES_MAX states are reached. */
static int shortest(struct machine *m, uint32_t e)
{
    uint32_t v[ROOM_STATES_MAX], n = 1, from = 0;
    v[0] = e;
    for (int bytes = 0; bytes <= NEED_MAX; bytes++) {
        uint32_t to = n;
        for (uint32_t i = from; i < to; i++) {
            if (expr_nullable(&m->x, v[i])) return bytes;
            const uint32_t *row = expr_row(&m->x, v[i]);
            for (int b = 0; row && b < 256; b++) {
                uint32_t k = from;
                if (row[b] == EXPR_EMPTY || (b > 0 && row[b] == row[b - 1])) continue;
                while (k < n && v[k] != row[b]) k++;
                if (k == n && n < ROOM_STATES_MAX) v[n++] = row[b];
            }
        }
        from = to;
    }
    return NEED_MAX + 1;
}

/* Set *out to the number of arbitrary plain characters that a pattern accepts. The search adds one
 * character per round. The search ends at a rejected character, or if no new state is found. */
static void search_room(struct machine *m, uint32_t e, struct room *out)
{
    struct plain_search s = {.m = m, .tag = NO_TAG, .now = ++m->x.seen_now, .decoded = true};
    size_t from = 0;
    bool ok = true;
    *out = (struct room){0};
    while (ok && out->n_char < CHAIN_MAX) {
        size_t to = s.found.n;
        if (out->n_char == 0)
            ok = find_all(&s, e); /* e is counted only if a character leads back to it */
        for (size_t i = from; ok && i < to; i++) ok = find_all(&s, s.found.v[i]);
        for (size_t i = to; ok && i < s.found.n; i++) {
            int need = shortest(m, s.found.v[i]);
            if (need > out->need) out->need = need;
            ok = need <= NEED_MAX && i < ROOM_STATES_MAX;
        }
        out->n_char += ok;
        from = to;
        if (ok && s.found.n == to) { /* no new state was found, so the number has no limit */
            out->n_char = NO_LIMIT;
            break;
        }
    }
    vec_deinit(&s.found);
}

/* Set *out to the result of search_room, which is cached by expression. Return false after a
 * failure, or if the work was interrupted (m->late). */
static bool room_of_pattern(struct machine *m, uint32_t e, struct room *out)
{
    if (m->room.cap < m->x.n) {
        uint32_t cap = m->x.cap, old = m->room.cap;
        uint8_t *n_char = realloc(m->room.n_char, cap), *need;
        if (n_char) m->room.n_char = n_char;
        need = realloc(m->room.need, cap);
        if (need) m->room.need = need;
        if (!n_char || !need) return expr_fail(&m->x, EXPR_NO_MEMORY), false;
        memset(n_char + old, 0, cap - old);
        m->room.cap = cap;
    }
    if (m->room.n_char[e] == 0) {
        struct expr_task t;
        exprs_begin(&m->x, &t);
        search_room(m, e, out);
        exprs_end(&m->x, &t, !m->late);
        if (m->x.failed || m->late) return false;
        m->room.n_char[e] = (uint8_t)(out->n_char + 1), m->room.need[e] = (uint8_t)out->need;
    }
    *out = (struct room){.n_char = m->room.n_char[e] - 1, .need = m->room.need[e]};
    return true;
}

/* Set *out to the shape of e. Return false for states without a shape. */
bool mask_shape(const struct machine *m, uint32_t e, struct text_shape *out)
{
    const struct exprs *x = &m->x;
    if (x->e[e].op == EX_CAT) e = x->e[e].a;
    *out = (struct text_shape){.string = e, .pattern = EXPR_EMPTY, .max = EXPR_INF};
    if (x->e[e].op != EX_STRING || expr_is_string_part(&x->e[e])) return false;
    const uint32_t *v = &x->e[e].a;
    uint32_t n = 1;
    if (x->e[*v].op == EX_AND) n = x->e[*v].b, v = x->list.v + x->e[*v].a;
    for (uint32_t i = 0; i < n; i++) {
        const struct expr *it = &x->e[v[i]];
        bool counts = it->op == EX_REP && it->a == x->any_char;
        if (!counts && (out->pattern != EXPR_EMPTY || !it->simple)) return false;
        if (!counts) out->pattern = v[i];
        if (counts && it->c < out->max) out->max = it->c;
        if (counts && it->b > out->min) out->min = it->b;
    }
    return true;
}

/* Set *out for a state of a string. Return false for a pattern with a minimum length, or after a
 * failure. */
bool mask_room(struct machine *m, const struct text_shape *s, struct room *out)
{
    const uint32_t max = s->max;
    if (s->pattern != EXPR_EMPTY && (s->min > 0 || !room_of_pattern(m, s->pattern, out)))
        return false;
    if (s->pattern == EXPR_EMPTY) *out = (struct room){.n_char = INT32_MAX, .ends = s->min == 0};
    uint32_t left = max > (uint32_t)out->need ? max - (uint32_t)out->need : 0;
    out->limited = max != EXPR_INF;
    if (out->n_char == NO_LIMIT) out->n_char = INT32_MAX;
    if (left < (uint32_t)out->n_char) out->n_char = (int)left;
    return true;
}
