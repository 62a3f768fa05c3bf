/* mask.c - token masks by walks over tries of tokens; see mask.h.
 *
 * Most configs have one thread whose expression does not accept yet. The walk follows the automaton
 * of the expression with one table look-up per byte. The walk makes a config only if the expression
 * accepts. Configs with several threads are walked as configs.
 *
 * The bound is the look-ups of a walk over the trie, 2 ns each from the L2 cache. The o200k
 * vocabulary has up to 200,000 tokens. Most masks need no walk: the mask of a visited state is
 * copied. Measured with 866 JSON schemas (docs/measurements.md, "Schemas and masks"): the median is
 * 1.9 us, the mean 22.9 us and the 99th percentile 248 us. These times are 0.17, 0.64 and 0.53
 * times those of llguidance 1.9.1. The earlier version had a mean of 53 us. It walked over all
 * tokens at every character of a string with a limited length or a pattern.
 *
 * A plain character is a character that a JSON string contains unescaped. The tokens of vocab.h's
 * classes are set together if a state allows any plain characters. */
#include "mask.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 1024,     /* maximum bytes of a token, like ADDED_BYTES_MAX */
    WORD_STEPS_MAX = 4,   /* a label of a host name has two states before its loop */
    SHORT_MASKS_MAX = 64, /* cached masks of short tokens: 25 kB each with the o200k vocabulary */
    /* WALK_NODES look-ups count as WALK_STEPS steps of work: at 17 ns per step
     * (CONSTRAINT_STEP_WORK), 2 ns per look-up, an access to the L2 cache. */
    WALK_NODES = 128,
    WALK_STEPS = 16
};

static void set_values(const int32_t *token, uint32_t n, uint64_t *mask)
{
    for (uint32_t i = 0; i < n; i++) mask[token[i] >> 6] |= 1ull << (token[i] & 63);
}

static void or_mask(uint64_t *mask, const uint64_t *more, int n_word)
{
    for (int i = 0; i < n_word; i++) mask[i] |= more[i];
}

/* ---- places: an expression of the walked thread, or a config ---- */

/* State of a walk. id is a config if is_config is true; otherwise id is an expression that does not
 * accept. */
struct walk_place {
    uint32_t id;
    bool is_config;
};
static const struct walk_place DEAD = {CONFIG_DEAD, true};

/* Walk over a trie. t is the first thread. The walk's places in the expression of t differ from t
 * only in `expr`. Pointers are borrowed. */
struct walker {
    struct machine *m;
    struct thread t;
    bool skip_words; /* true: the words are set already */
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

/* Return the place of the walked thread at expression e. Compute each place once per walk. */
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

/* Return the place after a byte; DEAD if the byte is not allowed, or if the work was interrupted
 * (m->late). */
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

/* Return the place after a byte. Only look-ups are needed if the result is cached. This function is
 * the inner loop of every walk. */
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
        if (d->word && w->skip_words) continue;
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
/* ---- limited numbers of plain characters ---- */

/* Return the place after a plain ASCII character if all plain ASCII characters lead to one place;
 * otherwise DEAD. */
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
        for (int b = mask_lead[i].lo; b <= mask_lead[i].hi; b++) {
            struct walk_place to = step(w, p, (uint8_t)b);
            if (is_dead(to)) return false;
            if (to.id != last && !wide_too(w, to, next, mask_lead[i].n, mask_lead[i].second_lo,
                                           mask_lead[i].second_hi))
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

/* ---- strings with counts ----
 *
 * The states of a pattern with counts, such as a host name, differ after each character. The
 * clamped state has the same mask if the tokens are too short to reach a limit (mask_clamp.c). The
 * masks of the short tokens, which are nearly all tokens, are cached by clamped state. */

/* Return the clamped string for tokens of at most n_char characters: without counts above n_char,
 * and without the string's maximum length. EXPR_EMPTY if tokens of n_char characters can reach the
 * maximum length. */
static uint32_t clamped(struct machine *m, const struct text_shape *s, enum clamp_range range,
                        int n_char)
{
    uint32_t p = mask_clamp(m, s->pattern, range, (uint32_t)n_char);
    if (p == EXPR_EMPTY) return p;
    uint64_t need = (uint64_t)n_char + mask_peak(m, p);
    if (s->max != EXPR_INF && s->max < need) return EXPR_EMPTY;
    return expr_string_like(&m->x, &m->x.e[s->string], p);
}

/* Return the place after a letter or digit if all letters and digits lead to one place; otherwise
 * DEAD. */
static struct walk_place after_letter(const struct walker *w, struct walk_place p)
{
    struct walk_place next = step(w, p, 'a');
    for (int b = '0'; !is_dead(next) && b <= 'z'; b++) {
        if (!vocab_is_word((uint8_t)b)) continue;
        struct walk_place other = step(w, p, (uint8_t)b);
        if (other.id != next.id || other.is_config != next.is_config) return DEAD;
    }
    return next;
}

/* Return true if all words may follow a place: after at most WORD_STEPS_MAX letters, each letter
 * and digit leads back to one place. */
static bool words_follow(const struct walker *w, struct walk_place p)
{
    for (int i = 0; i < WORD_STEPS_MAX && !is_dead(p); i++) {
        struct walk_place next = after_letter(w, p);
        if (next.id == p.id && next.is_config == p.is_config) return true;
        p = next;
    }
    return false;
}

static void drop_short_masks(struct machine *m)
{
    for (size_t i = 0; i < m->short_mask.n; i++) free(m->short_mask.v[i].mask);
    m->short_mask.n = m->n_short_byte = 0;
}

/* Return the mask of the short tokens at a clamped string, cached. NULL after a failure, or if
 * machine_late interrupted the work. The short tokens have no quote, so they do not leave the
 * string. */
static const uint64_t *short_mask_of(const struct walker *w, const struct vocab *v, uint32_t string)
{
    struct machine *m = w->m;
    for (size_t i = 0; i < m->short_mask.n; i++)
        if (m->short_mask.v[i].string == string) return m->short_mask.v[i].mask;
    const size_t n_byte = (size_t)v->n_word * sizeof(uint64_t);
    const struct walk_place from = {string, false};
    struct short_mask made = {string, calloc((size_t)v->n_word, sizeof(uint64_t))};
    struct walker near = *w;
    struct expr_task t;
    exprs_begin(&m->x, &t);
    near.skip_words = words_follow(&near, from);
    for (int k = 0; k < PLAIN_CLASSES - 1 && made.mask; k++) {
        for (int i = 0; near.skip_words && i < v->n_word; i++)
            made.mask[i] |= v->plain[k].mask[i] & v->word[i];
        walk(&near, &v->plain[k].trie, from, made.mask);
    }
    exprs_end(&m->x, &t, !m->late);
    if (m->short_mask.n == SHORT_MASKS_MAX) drop_short_masks(m);
    bool ok = made.mask && !m->x.failed && !m->late;
    if (ok && vec_push(&m->short_mask, made)) {
        m->n_short_byte += n_byte;
        return made.mask;
    }
    if (ok || !made.mask) expr_fail(&m->x, EXPR_NO_MEMORY);
    free(made.mask);
    return NULL;
}

/* Fill the mask of a string with counts in clamped states. Return false, without a change, if the
 * state has no clamped state. */
static bool fill_clamped(const struct walker *w, const struct vocab *v, const struct text_shape *s,
                         uint64_t *mask)
{
    struct machine *m = w->m;
    if (s->pattern == EXPR_EMPTY || s->min > 0) return false;
    uint32_t near = clamped(m, s, CLAMP_SHORT, v->short_max), far = EXPR_EMPTY, e = w->t.expr;
    if (near == EXPR_EMPTY || near == s->string) return false;
    const uint64_t *part = short_mask_of(w, v, near);
    if (!part) return true;
    or_mask(mask, part, v->n_word);
    far = clamped(m, s, CLAMP_LONG, v->long_max);
    if (far != EXPR_EMPTY) e = m->x.e[e].op == EX_CAT ? expr_cat(&m->x, far, m->x.e[e].b) : far;
    if (m->x.failed) return true;
    const struct walk_place from = {e, false};
    walk(w, &v->plain[PLAIN_CLASSES - 1].trie, from, mask);
    walk(w, &v->closing, from, mask);
    walk(w, &v->other, from, mask);
    return true;
}

/* ---- masks ---- */

/* Fill the mask (mask.h). One walk of all tokens suffices if no plain character is certain to
 * follow, unless the string has counts. Other tokens are set without a walk in three cases:
 *   open   any plain characters may follow: all plain tokens
 *   room   n_char plain characters may follow: plain tokens of at most n_char characters
 *   same   any number of plain characters may follow, each leads back, and a quote leads to one
 *          place: closing tokens, by their rests alone */
bool mask_fill(struct machine *m, const struct vocab *v, uint32_t config, uint64_t *mask)
{
    memset(mask, 0, (size_t)v->n_word * sizeof *mask);
    if (config == CONFIG_DEAD || m->x.failed) return !m->x.failed;
    const struct machine_config c = m->config.v[config];
    struct walker w = {.m = m};
    struct walk_place from = {config, true};
    struct text_shape shape = {0};
    struct room room = {0};
    bool same = false, open = false, known = false;
    m->walk.now++;
    if (c.n_thread == 1) {
        w.t = m->thread.v[c.thread];
        if (!expr_nullable(&m->x, w.t.expr)) from = (struct walk_place){w.t.expr, false};
        known = !from.is_config && !w.t.choice && mask_shape(m, w.t.expr, &shape) &&
                mask_room(m, &shape, &room);
        open = !from.is_config && !room.limited && mask_has_plain(m, w.t);
    }
    int n_char = known ? room.n_char : plain_chain(&w, from, &same);
    same |= known && room.ends && n_char >= v->closing_max;
    if (n_char == 0 && !open && !same) {
        if (known && fill_clamped(&w, v, &shape, mask)) return !m->x.failed && !m->late;
        w.skip_words = words_follow(&w, from);
        if (w.skip_words) or_mask(mask, v->word, v->n_word);
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
    for (size_t i = 0; i < n && config != CONFIG_DEAD && !machine_late(m); i++)
        config = machine_next(m, config, (uint8_t)text[i]);
    return config;
}
