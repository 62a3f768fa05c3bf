/* mask.c - token masks by walks over tries of tokens; see mask.h.
 *
 * Most configs have one thread whose expression does not accept yet. The walk follows the automaton
 * of the expression with one table look-up per byte. The walk makes a config only if the expression
 * accepts. Configs with several threads are walked as configs.
 *
 * The bound is the look-ups of a walk over the trie, 2 ns each from the L2 cache. The o200k
 * vocabulary has up to 200,000 tokens. Most masks do not walk: the mask of a visited state is
 * copied. Measured with 866 JSON schemas (docs/measurements.md, "Schemas and masks"): the median is
 * 1.9 us, the mean 22.9 us and the 99th percentile 248 us. These times are 0.17, 0.64 and 0.53 of
 * those of llguidance 1.9.1. In the earlier version strings with a limited length or a pattern
 * walked all tokens at every character, and the mean was 53 us.
 *
 * A plain character is one that a JSON string contains unescaped. The tokens of vocab.h's classes
 * are set together if a state allows any plain characters. */
#include "mask.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 1024, /* maximum bytes of a token, as ADDED_BYTES_MAX; longer ones never match */
    CHAIN_MAX = 64,   /* characters in a row; the longest class of vocab.h begins at 17 */
    NO_LIMIT = 254,   /* cached value of struct room's n_char that represents no limit */
    OPEN_STATES_MAX = 4096, /* at least a step of work each: 7 % of CONSTRAINT_STEP_WORK */
    OPEN_TAGS_MAX = 4,
    ROOM_STATES_MAX = 256,
    NEED_MAX = 8,
    LOOP_STEPS_MAX = 100,
    /* WALK_NODES look-ups count as WALK_STEPS steps of work: at 17 ns per step
     * (CONSTRAINT_STEP_WORK), 2 ns per look-up, an access to the L2 cache. */
    WALK_NODES = 128,
    WALK_STEPS = 16
};
static const uint32_t NO_TAG = UINT32_MAX;

static void set_values(const int32_t *token, uint32_t n, uint64_t *mask)
{
    for (uint32_t i = 0; i < n; i++) mask[token[i] >> 6] |= 1ull << (token[i] & 63);
}

static void or_mask(uint64_t *mask, const uint64_t *more, int n_word)
{
    for (int i = 0; i < n_word; i++) mask[i] |= more[i];
}

/* ---- places: an expression of the walked thread, or a config ---- */

/* State of a walk. id is a config if is_config, else an expression that does not accept. */
struct walk_place {
    uint32_t id;
    bool is_config;
};
static const struct walk_place DEAD = {CONFIG_DEAD, true};

/* Walk over a trie. The places of the walk in the expression of t, the first thread, differ from t
 * only in `expr`. Pointers are borrowed. */
struct walker {
    struct machine *m;
    struct thread t;
};

enum { WALK_DEAD = 0, WALK_INSIDE = UINT32_MAX }; /* other values: place in a config */

/* Grow walk.of and walk.to to all expressions. Return false if memory is exhausted. */
static bool walk_room(struct machine *m)
{
    if (m->walk.cap >= m->x.n) return true;
    uint32_t cap = m->x.cap, *of = realloc(m->walk.of, cap * sizeof *of);
    if (of) m->walk.of = of;
    uint32_t *to = realloc(m->walk.to, cap * sizeof *to);
    if (to) m->walk.to = to;
    if (!of || !to) return expr_fail(&m->x, EXPR_NO_MEMORY), false;
    memset(of + m->walk.cap, 0, (cap - m->walk.cap) * sizeof *of);
    m->walk.cap = cap;
    return true;
}

/* Return the place of the walked thread at expression e. Compute it once per walk. */
static struct walk_place place_at(const struct walker *w, uint32_t e)
{
    struct machine *m = w->m;
    if (!walk_room(m)) return DEAD;
    if (m->walk.of[e] != m->walk.now) {
        struct thread t = w->t;
        t.expr = e;
        uint32_t to = WALK_INSIDE;
        if (expr_nullable(&m->x, e))
            to = machine_config(m, t);
        else if (!machine_alive(m, t))
            to = WALK_DEAD;
        if (!walk_room(m)) return DEAD;
        m->walk.of[e] = m->walk.now;
        m->walk.to[e] = to;
    }
    uint32_t to = m->walk.to[e];
    return to == WALK_INSIDE ? (struct walk_place){e, false} : (struct walk_place){to, true};
}

/* Return the place after a byte; DEAD also if the machine is late. */
static struct walk_place step(const struct walker *w, struct walk_place p, uint8_t byte)
{
    struct machine *m = w->m;
    if (machine_late(m)) return DEAD;
    if (p.is_config) {
        const uint32_t *row = m->config.v[p.id].row;
        uint32_t next = row ? row[byte] : CONFIG_UNKNOWN;
        return (struct walk_place){next == CONFIG_UNKNOWN ? machine_next(m, p.id, byte) : next,
                                   true};
    }
    uint32_t e = expr_next(&m->x, p.id, byte);
    return e == EXPR_EMPTY ? DEAD : place_at(w, e);
}

static bool is_dead(struct walk_place p)
{
    return p.is_config && p.id == CONFIG_DEAD;
}

/* Return the place after a byte. A known place needs only look-ups. This function is the inner loop
 * of every walk. */
static inline struct walk_place quick_step(const struct walker *w, struct walk_place p,
                                           uint8_t byte)
{
    const struct machine *m = w->m;
    const uint32_t *row = p.is_config ? m->config.v[p.id].row : m->x.e[p.id].row;
    uint32_t next = row ? row[byte] : CONFIG_UNKNOWN;
    if (p.is_config)
        return next == CONFIG_UNKNOWN ? step(w, p, byte) : (struct walk_place){next, true};
    if (row && next == EXPR_EMPTY) return DEAD;
    bool known = row && next < m->walk.cap && m->walk.of[next] == m->walk.now;
    if (known && m->walk.to[next] == WALK_INSIDE) return (struct walk_place){next, false};
    return step(w, p, byte);
}

/* Set the tokens of a trie that may follow a place. Return early if a limit is reached. The caller
 * checks x.failed and m->late. */
static void walk(const struct walker *w, const struct vocab_trie *t, struct walk_place from,
                 uint64_t *mask)
{
    struct level {
        struct walk_place place;
        uint32_t at, end; /* siblings that remain */
    } level[DEPTH_MAX], *l = level;
    *l = (struct level){from, 0, t->n_root};
    for (uint32_t n = 0;; n++) {
        while (l->at == l->end)
            if (l-- == level) return;
        const struct trie_node *d = &t->node[l->at++];
        if (n % WALK_NODES == 0 && (!expr_spend(&w->m->x, WALK_STEPS) || machine_late(w->m)))
            return;
        struct walk_place next = quick_step(w, l->place, (uint8_t)d->byte);
        if (is_dead(next) || l + 1 == level + DEPTH_MAX) continue;
        if (d->n == 1) {
            int32_t token = t->value[d->first];
            mask[token >> 6] |= 1ull << (token & 63);
        } else if (d->n > 1) {
            set_values(t->value + d->first, d->n, mask);
        }
        if (d->n_child > 0) *++l = (struct level){next, d->child, d->child + d->n_child};
    }
}

/* ---- expressions that accept any plain characters ---- */

/* Ranges of lead bytes and of their second bytes, before n more continuation bytes. UTF-8 restricts
 * the second byte after E0, ED, F0 and F4. */
static const struct {
    uint8_t lo, hi, second_lo, second_hi, n;
} LEAD[] = {{0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1}, {0xe1, 0xec, 0x80, 0xbf, 1},
            {0xed, 0xed, 0x80, 0x9f, 1}, {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2},
            {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2}};
enum { N_LEAD = sizeof LEAD / sizeof *LEAD };

/* Search of the states that plain characters lead to. Pointers are borrowed. */
struct plain_search {
    struct machine *m; /* borrowed */
    uint32_t tag, now;
    /* true: states of a decoded string, which may accept; false: states of a string's spelling */
    bool decoded;
    VEC(uint32_t) found; /* states between characters */
};

/* Add e, a state between characters, to the states found. Return false if no text (with the tag)
 * continues from e. Return false also at the end of a spelling, and if there are too many
 * states. */
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
        for (int b = LEAD[i].lo; b <= LEAD[i].hi; b++) {
            uint32_t d = row[b];
            if (d == EXPR_EMPTY) return false;
            if (d != last && !find_after(s, d, LEAD[i].second_lo, LEAD[i].second_hi, LEAD[i].n))
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

/* Return true if the repetition of one character reaches a state that it does not leave. Otherwise
 * the number of characters is limited. A search of all states would then exceed its limits. */
static bool has_loop(struct machine *m, uint32_t e)
{
    for (int i = 0; i < LOOP_STEPS_MAX && e != EXPR_EMPTY; i++) {
        uint32_t next = expr_next(&m->x, e, 'a');
        if (next == e) return true;
        e = next;
    }
    return false;
}

/* Return true if a text continues from e after any plain characters. Unless `tag` is NO_TAG, that
 * text must report the tag. The result depends only on the expression, so it is cached for every
 * place where e occurs. A result of true also holds for all states that plain characters lead
 * to. */
static bool is_open(struct machine *m, uint32_t e, uint32_t tag)
{
    uint64_t key = (uint64_t)(e + 1) << 32 | tag;
    bool known = false;
    uint32_t at = m->open.n_slot ? open_slot(m, key, &known) : 0;
    if (known) return m->open.open[at];
    expr_row(&m->x, e);
    struct plain_search s = {.m = m, .tag = tag, .now = ++m->x.seen_now};
    bool open = !m->x.failed && has_loop(m, e) && add_plain_state(&s, e);
    for (size_t i = 0; open && i < s.found.n; i++) {
        m->x.seen_now = s.now > m->x.seen_now ? s.now : m->x.seen_now;
        open = find_all(&s, s.found.v[i]);
    }
    for (size_t i = 0; open && i < s.found.n; i++)
        open_put(m, (uint64_t)(s.found.v[i] + 1) << 32 | tag, true);
    if (!open && !m->late) open_put(m, key, false);
    vec_deinit(&s.found);
    return open && !m->x.failed;
}

/* Return true if any plain characters may follow in a thread. */
static bool thread_open(struct machine *m, struct thread t)
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

/* ---- limited numbers of plain characters ---- */

/* Return the place after a plain ASCII character if all of them lead to one place; else DEAD. */
static struct walk_place after_plain(const struct walker *w, struct walk_place p)
{
    struct walk_place next = step(w, p, 'a');
    for (int b = ' '; !is_dead(next) && b < 0x80; b++) {
        if (b == '"' || b == '\\') continue;
        struct walk_place other = step(w, p, (uint8_t)b);
        if (other.id != next.id || other.is_config != next.is_config) return DEAD;
    }
    return next;
}

/* Return true if every byte in [lo, hi] with n continuation bytes leads from p to `next`. */
static bool wide_too(const struct walker *w, struct walk_place p, struct walk_place next, int n,
                     int lo, int hi)
{
    struct walk_place last = DEAD;
    for (int b = lo; b <= hi; b++) {
        struct walk_place to = step(w, p, (uint8_t)b);
        if (is_dead(to)) return false;
        if (to.id == last.id && to.is_config == last.is_config) continue;
        if (n == 0 ? to.id != next.id || to.is_config != next.is_config
                   : !wide_too(w, to, next, n - 1, 0x80, 0xbf))
            return false;
        last = to;
    }
    return true;
}

/* Return true if every character of several bytes leads from p to `next`. */
static bool wide_chars(const struct walker *w, struct walk_place p, struct walk_place next)
{
    uint32_t last = UINT32_MAX;
    for (int i = 0; i < N_LEAD; i++)
        for (int b = LEAD[i].lo; b <= LEAD[i].hi; b++) {
            struct walk_place to = step(w, p, (uint8_t)b);
            if (is_dead(to)) return false;
            if (to.id != last &&
                !wide_too(w, to, next, LEAD[i].n, LEAD[i].second_lo, LEAD[i].second_hi))
                return false;
            last = to.id;
        }
    return true;
}

/* Return the number of arbitrary plain characters that may follow a place, at most CHAIN_MAX. Set
 * *same if each of these characters leads back to p. */
static int plain_chain(const struct walker *w, struct walk_place p, bool *same)
{
    *same = false;
    for (int n = 0; n < CHAIN_MAX; n++) {
        struct walk_place next = after_plain(w, p);
        if (is_dead(next) || !wide_chars(w, p, next)) return n;
        if (next.id == p.id && next.is_config == p.is_config) return *same = n == 0, CHAIN_MAX;
        p = next;
    }
    return CHAIN_MAX;
}

/* ---- strings of limited length ----
 *
 * The state of a string of at most n characters with a pattern is an intersection. This state
 * differs after every character, so no cached walk serves the next state. The operands of the
 * intersection are examined separately: the number of remaining characters, and the number of
 * arbitrary characters that the pattern accepts. */

struct room {
    int n_char; /* number of arbitrary plain characters that may follow */
    int need;   /* maximum number of bytes that complete the text after each of these characters */
    bool ends;  /* true: the text may end before and after each of these characters */
    /* true: the string has a maximum length */
    bool limited;
};

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
        search_room(m, e, out);
        if (m->x.failed || m->late) return false;
        m->room.n_char[e] = (uint8_t)(out->n_char + 1), m->room.need[e] = (uint8_t)out->need;
    }
    *out = (struct room){.n_char = m->room.n_char[e] - 1, .need = m->room.need[e]};
    return true;
}

/* Set *out for state e of a JSON string: a STRING of repetitions of any character and at most one
 * pattern. Return false for other states, or after a failure. */
static bool room_of(struct machine *m, uint32_t e, struct room *out)
{
    struct exprs *x = &m->x;
    if (x->e[e].op == EX_CAT) e = x->e[e].a;
    if (x->e[e].op != EX_STRING || expr_is_string_part(&x->e[e])) return false;
    uint32_t a = x->e[e].a, n = 1, max = EXPR_INF, min = 0, pattern = EXPR_EMPTY;
    const uint32_t *v = &a;
    if (x->e[a].op == EX_AND) v = x->list.v + x->e[a].a, n = x->e[a].b;
    for (uint32_t i = 0; i < n; i++) {
        const struct expr *it = &x->e[v[i]];
        bool counts = it->op == EX_REP && it->a == x->any_char;
        if (!counts && (pattern != EXPR_EMPTY || !it->simple)) return false;
        if (!counts) pattern = v[i];
        if (counts && it->c < max) max = it->c;
        if (counts && it->b > min) min = it->b;
    }
    if (pattern != EXPR_EMPTY && (min > 0 || !room_of_pattern(m, pattern, out))) return false;
    if (pattern == EXPR_EMPTY) *out = (struct room){.n_char = INT32_MAX, .ends = min == 0};
    uint32_t left = max > (uint32_t)out->need ? max - (uint32_t)out->need : 0;
    out->limited = max != EXPR_INF;
    if (out->n_char == NO_LIMIT) out->n_char = INT32_MAX;
    if (left < (uint32_t)out->n_char) out->n_char = (int)left;
    return true;
}

/* ---- masks ---- */

/* Fill the mask (mask.h). One walk of all tokens suffices if no plain character is certain to
 * follow. Otherwise tokens are set without a walk in three cases:
 *   open   any plain characters may follow: all plain tokens
 *   room   n_char plain characters may follow: plain tokens of at most n_char characters
 *   same   any number may follow, each leads back, and a quote leads to one place: closing
 *          tokens by their rests alone */
bool mask_fill(struct machine *m, const struct vocab *v, uint32_t config, uint64_t *mask)
{
    memset(mask, 0, (size_t)v->n_word * sizeof *mask);
    if (config == CONFIG_DEAD || m->x.failed) return !m->x.failed;
    const struct machine_config c = m->config.v[config];
    struct walker w = {.m = m};
    struct walk_place from = {config, true};
    struct room room = {0};
    bool same = false, open = false, known = false;
    m->walk.now++;
    if (c.n_thread == 1) {
        w.t = m->thread.v[c.thread];
        if (!expr_nullable(&m->x, w.t.expr)) from = (struct walk_place){w.t.expr, false};
        known = !from.is_config && !w.t.choice && room_of(m, w.t.expr, &room);
        open = !from.is_config && !room.limited && thread_open(m, w.t);
    }
    int n_char = known ? room.n_char : plain_chain(&w, from, &same);
    same |= known && room.ends && n_char >= v->closing_max;
    if (n_char == 0 && !open && !same) {
        walk(&w, &v->all, from, mask);
        return !m->x.failed && !m->late;
    }
    for (int k = 0; k < PLAIN_CLASSES; k++)
        if (open || (same && !known) || v->plain[k].char_max <= n_char)
            or_mask(mask, v->plain[k].mask, v->n_word);
        else
            walk(&w, &v->plain[k].trie, from, mask);
    struct walk_place closed = same ? step(&w, from, '"') : DEAD;
    if (same && !is_dead(closed)) {
        set_values(v->closing_rests.value, v->closing_rests.n_empty, mask);
        walk(&w, &v->closing_rests, closed, mask);
    } else if (!same) {
        walk(&w, &v->closing, from, mask);
    }
    walk(&w, &v->other, from, mask);
    return !m->x.failed && !m->late;
}

uint32_t mask_accept(struct machine *m, const struct vocab *v, uint32_t config, int32_t token)
{
    size_t n;
    const char *text = vocab_bytes(v, token, &n);
    if (n == 0) return CONFIG_DEAD;
    for (size_t i = 0; i < n && config != CONFIG_DEAD; i++)
        config = machine_next(m, config, (uint8_t)text[i]);
    return config;
}
