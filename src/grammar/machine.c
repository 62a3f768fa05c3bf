/* machine.c - threads, stacks and configs; see machine.h.
 *
 * Invariants:
 *   (1) The expression of every thread is alive (machine_alive). Therefore every config except
 *       CONFIG_DEAD has a thread or accepts. A thread's stack can be completed, because the front
 *       end adds no alternative without a text.
 *   (2) The threads of a config are sorted by expression and stack, without repetition. */
#include "machine.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* initial size of the tables of configs, in slots of 4 bytes: a page of memory. A full table is
 * doubled. */
enum { N_SLOT = 1024 };

bool machine_open(struct machine *m, struct expr_limits x, struct machine_limits limit,
                  expand_fn *expand, void *front)
{
    *m = (struct machine){.limit = limit, .expand = expand, .front = front};
    m->rows.bytes_max = x.bytes_max;
    m->cell_slot = calloc(N_SLOT, sizeof *m->cell_slot);
    m->config_slot = calloc(N_SLOT, sizeof *m->config_slot);
    m->n_cell_slot = m->n_config_slot = N_SLOT;
    bool ok = m->cell_slot && m->config_slot && exprs_open(&m->x, x) &&
              vec_push(&m->cell, ((struct stack_cell){0})) &&
              vec_push(&m->config, ((struct machine_config){0}));
    if (!ok) machine_close(m);
    return ok;
}

void machine_close(struct machine *m)
{
    exprs_close(&m->x);
    arena_deinit(&m->rows);
    free(m->cell_slot);
    free(m->config_slot);
    vec_deinit(&m->alts.sym);
    vec_deinit(&m->alts.end);
    vec_deinit(&m->rule);
    vec_deinit(&m->cell);
    vec_deinit(&m->config);
    vec_deinit(&m->thread);
    vec_deinit(&m->next);
    vec_deinit(&m->due);
    vec_deinit(&m->seen);
    free(m->open.slot);
    free(m->open.open);
    free(m->walk.of);
    free(m->walk.to);
    free(m->room.n_char);
    free(m->room.need);
    free(m->clamp.to[CLAMP_SHORT]);
    free(m->clamp.to[CLAMP_LONG]);
    free(m->clamp.peak);
    for (size_t i = 0; i < m->short_mask.n; i++) free(m->short_mask.v[i].mask);
    vec_deinit(&m->short_mask);
    *m = (struct machine){0};
}

static bool no_memory(struct machine *m)
{
    expr_fail(&m->x, EXPR_NO_MEMORY);
    return false;
}

/* ---- stacks ---- */

static uint64_t cell_hash(const struct stack_cell *c)
{
    return hash_bytes(c, offsetof(struct stack_cell, depth), 0);
}

static bool grow_cell_slots(struct machine *m)
{
    uint32_t n = 2 * m->n_cell_slot, *slot = calloc(n, sizeof *slot);
    if (!slot) return no_memory(m);
    for (uint32_t i = 1; i < m->cell.n; i++) {
        uint32_t at = (uint32_t)cell_hash(&m->cell.v[i]) & (n - 1);
        while (slot[at]) at = (at + 1) & (n - 1);
        slot[at] = i;
    }
    free(m->cell_slot);
    m->cell_slot = slot;
    m->n_cell_slot = n;
    return true;
}

/* Return the stack with sym on top of `below`; STACK_EMPTY after a failure. */
static uint32_t push(struct machine *m, struct symbol sym, uint32_t below)
{
    if (m->x.failed) return STACK_EMPTY;
    struct stack_cell c = {.sym = sym, .below = below, .depth = m->cell.v[below].depth + 1};
    if (m->cell.n >= m->limit.stack_max) return expr_fail(&m->x, EXPR_STATES);
    if (m->cell.n * 2 > m->n_cell_slot && !grow_cell_slots(m)) return STACK_EMPTY;
    uint32_t at = (uint32_t)cell_hash(&c) & (m->n_cell_slot - 1);
    for (; m->cell_slot[at]; at = (at + 1) & (m->n_cell_slot - 1))
        if (memcmp(&m->cell.v[m->cell_slot[at]], &c, offsetof(struct stack_cell, depth)) == 0)
            return m->cell_slot[at];
    if (!vec_push(&m->cell, c)) return no_memory(m), STACK_EMPTY;
    m->x.n_byte_other += 2 * (sizeof c + sizeof *m->cell_slot);
    return m->cell_slot[at] = (uint32_t)m->cell.n - 1;
}

/* ---- rules ---- */

bool alts_begin(struct alts *a)
{
    return vec_push(&a->end, (uint32_t)a->sym.n);
}

static bool add_symbol(struct alts *a, struct symbol s)
{
    if (!vec_push(&a->sym, s)) return false;
    a->end.v[a->end.n - 1] = (uint32_t)a->sym.n;
    return true;
}

bool alts_add(struct alts *a, enum symbol_kind kind, uint32_t id)
{
    return add_symbol(a, (struct symbol){kind, id, 0});
}

bool alts_add_choice(struct alts *a, uint32_t expr, uint32_t arg)
{
    return add_symbol(a, (struct symbol){SYM_CHOICE, expr, arg});
}

bool machine_expand(struct machine *m, uint32_t rule)
{
    while (m->rule.n <= rule)
        if (!vec_push(&m->rule, ((struct rule_span){0, UINT32_MAX, NEED_UNKNOWN, 0})))
            return no_memory(m);
    if (m->rule.v[rule].n != UINT32_MAX) return true;
    struct rule_span s = {.first = (uint32_t)m->alts.end.n, .need = NEED_UNKNOWN};
    struct expr_task t;
    exprs_begin(&m->x, &t);
    bool ok = m->expand(m->front, m, rule, &m->alts);
    exprs_end(&m->x, &t, true);
    if (!ok) {
        if (!m->x.failed) no_memory(m);
        return false;
    }
    s.n = (uint32_t)m->alts.end.n - s.first;
    m->rule.v[rule] = s;
    return true;
}

/* Return the stack of the symbols of alternative i on top of `below`. */
static uint32_t push_alt(struct machine *m, uint32_t i, uint32_t below)
{
    uint32_t first = i == 0 ? 0 : m->alts.end.v[i - 1];
    for (uint32_t k = m->alts.end.v[i]; k > first; k--)
        below = push(m, m->alts.sym.v[k - 1], below);
    return below;
}

/* ---- closure ---- */

/* Schedule a stack for the closure, unless it is already scheduled. Return false after a
 * failure. */
static bool schedule_stack(struct machine *m, uint32_t stack)
{
    m->n_look++;
    if (!expr_spend(&m->x, 2)) return false;
    for (size_t i = 0; i < m->seen.n; i++)
        if (m->seen.v[i] == stack) return true;
    return (vec_push(&m->seen, stack) && vec_push(&m->due, stack)) || no_memory(m);
}

static bool add_thread(struct machine *m, struct thread t);

/* Schedule the alternatives of a rule that fit on top of `below`. */
static bool enter_rule(struct machine *m, uint32_t rule, uint32_t below)
{
    if (!machine_expand(m, rule)) return false;
    struct rule_span s = m->rule.v[rule];
    for (uint32_t i = 0; i < s.n && !m->x.failed; i++)
        if (!machine_fits(m, rule, s.first + i, m->cell.v[below].depth))
            m->cut = true;
        else if (!schedule_stack(m, push_alt(m, s.first + i, below)))
            return false;
    return !m->x.failed;
}

/* Process the top of a stack: expand a rule, or add a thread for an expression or choice. An empty
 * stack accepts. */
static bool enter_top(struct machine *m, uint32_t stack)
{
    if (stack == STACK_EMPTY) return m->accepts = true;
    const struct stack_cell c = m->cell.v[stack];
    if (c.sym.kind == SYM_RULE) return enter_rule(m, c.sym.id, c.below);
    bool choice = c.sym.kind == SYM_CHOICE;
    return add_thread(m, (struct thread){c.sym.id, choice ? stack : c.below, choice});
}

/* Continue after a thread whose expression matches the empty text. A choice continues with the
 * rules that its tags select. Other threads continue with their stack. */
static bool follow_thread(struct machine *m, struct thread t)
{
    if (!t.choice) return schedule_stack(m, t.stack);
    const struct stack_cell top = m->cell.v[t.stack];
    struct tags tags = {0};
    bool ok = expr_tags(&m->x, t.expr, &tags) || no_memory(m);
    for (size_t i = 0; ok && i < tags.n; i++) {
        uint32_t rule = m->choose(m->front, top.sym.arg, tags.v[i]);
        ok = rule == NO_RULE || enter_rule(m, rule, top.below);
    }
    vec_deinit(&tags);
    return ok;
}

bool machine_alive(struct machine *m, struct thread t)
{
    if (!t.choice) return expr_alive(&m->x, t.expr);
    const uint32_t *reach = expr_reach(&m->x, t.expr);
    uint32_t arg = m->cell.v[t.stack].sym.arg;
    for (uint32_t i = 1; reach && i <= reach[0]; i++)
        if (m->choose(m->front, arg, reach[i]) != NO_RULE) return true;
    return false;
}

/* Add a thread to the config under construction if the thread is alive. Also add the thread's
 * continuation if its expression is nullable. Return false after a failure, or if the config is
 * crowded. */
static bool add_thread(struct machine *m, struct thread t)
{
    uint8_t op = m->x.e[t.expr].op;
    /* true: the expression matches only the empty text */
    bool over = op == EX_EPSILON || op == EX_TAG;
    if (!over && machine_alive(m, t)) {
        m->n_look++;
        if (!expr_spend(&m->x, 2)) return false;
        for (size_t i = 0; i < m->next.n; i++)
            if (m->next.v[i].expr == t.expr && m->next.v[i].stack == t.stack) return true;
        if (m->next.n >= m->limit.thread_max) return m->crowded = m->cut = true, false;
        if (!vec_push(&m->next, t)) return no_memory(m);
    }
    return !m->x.failed && (!expr_nullable(&m->x, t.expr) || follow_thread(m, t));
}

/* Process scheduled stacks until none is left. Return false after a failure, or if the config is
 * crowded. The cost of the look-ups is charged at the end, so that it does not depend on their
 * order. */
static bool close_over(struct machine *m)
{
    while (m->due.n > 0)
        if (!enter_top(m, m->due.v[--m->due.n])) return false;
    return expr_spend(&m->x, m->n_look * (m->seen.n + m->next.n) / 32);
}

static void begin_config(struct machine *m)
{
    m->next.n = m->due.n = m->seen.n = m->n_look = 0;
    m->accepts = m->crowded = false;
}

/* ---- configs ---- */

static int by_expr(const void *p, const void *q)
{
    const struct thread *a = p, *b = q;
    if (a->expr != b->expr) return a->expr < b->expr ? -1 : 1;
    return (a->stack > b->stack) - (a->stack < b->stack);
}

static uint64_t config_hash(const struct thread *t, uint32_t n, bool accepts)
{
    uint64_t h = accepts;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key[2] = {t[i].expr, t[i].stack};
        h = hash_bytes(key, sizeof key, h);
    }
    return h;
}

/* Return true if *c equals the config under construction. */
static bool is_config(const struct machine *m, const struct machine_config *c)
{
    if (c->n_thread != m->next.n || c->accepts != m->accepts) return false;
    for (uint32_t i = 0; i < c->n_thread; i++) {
        const struct thread *a = &m->thread.v[c->thread + i], *b = &m->next.v[i];
        if (a->expr != b->expr || a->stack != b->stack) return false;
    }
    return true;
}

static bool grow_config_slots(struct machine *m)
{
    uint32_t n = 2 * m->n_config_slot, *slot = calloc(n, sizeof *slot);
    if (!slot) return no_memory(m);
    for (uint32_t i = 1; i < m->config.n; i++) {
        const struct machine_config *c = &m->config.v[i];
        uint32_t at =
            (uint32_t)config_hash(m->thread.v + c->thread, c->n_thread, c->accepts) & (n - 1);
        while (slot[at]) at = (at + 1) & (n - 1);
        slot[at] = i;
    }
    free(m->config_slot);
    m->config_slot = slot;
    m->n_config_slot = n;
    return true;
}

/* Return the number of the config under construction. Equal configs have the same number. Return
 * CONFIG_DEAD if the config is crowded. The result does not depend on the order in which threads
 * were found. */
static uint32_t end_config(struct machine *m)
{
    if (m->crowded || !close_over(m) || m->x.failed) return CONFIG_DEAD;
    uint32_t n = (uint32_t)m->next.n;
    if (n == 0 && !m->accepts) return CONFIG_DEAD;
    if (n > 1) qsort(m->next.v, n, sizeof *m->next.v, by_expr);
    if (m->config.n * 2 > m->n_config_slot && !grow_config_slots(m)) return CONFIG_DEAD;
    uint32_t at = (uint32_t)config_hash(m->next.v, n, m->accepts) & (m->n_config_slot - 1);
    for (; m->config_slot[at]; at = (at + 1) & (m->n_config_slot - 1))
        if (is_config(m, &m->config.v[m->config_slot[at]])) return m->config_slot[at];
    if (m->config.n >= m->limit.config_max) return expr_fail(&m->x, EXPR_STATES), CONFIG_DEAD;
    m->x.n_byte_other +=
        sizeof(struct machine_config) + 4 * sizeof(uint32_t) + n * sizeof *m->next.v;
    struct machine_config c = {
        .thread = (uint32_t)m->thread.n,
        .n_thread = n,
        .accepts = m->accepts,
    };
    for (uint32_t i = 0; i < n; i++)
        if (!vec_push(&m->thread, m->next.v[i])) return no_memory(m), CONFIG_DEAD;
    if (!vec_push(&m->config, c)) return no_memory(m), CONFIG_DEAD;
    return m->config_slot[at] = (uint32_t)m->config.n - 1;
}

uint32_t machine_begin(struct machine *m, uint32_t rule)
{
    begin_config(m);
    m->cut = false;
    uint32_t config = enter_rule(m, rule, STACK_EMPTY) ? end_config(m) : CONFIG_DEAD;
    if (config == CONFIG_DEAD && m->cut) expr_fail(&m->x, EXPR_TOO_DEEP);
    return config;
}

uint32_t machine_config(struct machine *m, struct thread t)
{
    begin_config(m);
    return add_thread(m, t) ? end_config(m) : CONFIG_DEAD;
}

uint32_t machine_union(struct machine *m, uint32_t a, uint32_t b)
{
    const struct machine_config c[2] = {m->config.v[a], m->config.v[b]};
    if (a == b) return a;
    begin_config(m);
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < c[k].n_thread && !m->x.failed && !m->crowded; i++)
            add_thread(m, m->thread.v[c[k].thread + i]);
    m->accepts |= c[0].accepts || c[1].accepts;
    return end_config(m);
}

/* Return the config after a byte: the derivatives of all threads, and their closure. */
static uint32_t compute_next(struct machine *m, uint32_t config, uint8_t byte)
{
    const struct machine_config c = m->config.v[config];
    begin_config(m);
    for (uint32_t i = 0; i < c.n_thread && !m->x.failed; i++) {
        struct thread t = m->thread.v[c.thread + i];
        t.expr = expr_next(&m->x, t.expr, byte);
        if (t.expr != EXPR_EMPTY && !add_thread(m, t)) return CONFIG_DEAD;
    }
    return end_config(m);
}

/* Make the row of a config. Bytes that no thread accepts, which are most bytes in most configs,
 * lead to CONFIG_DEAD. The other bytes are unknown. NULL after a failure. */
static uint32_t *make_row(struct machine *m, uint32_t config)
{
    const struct machine_config c = m->config.v[config];
    uint32_t *row = arena_push(&m->rows, 256 * sizeof *row, 64), any[256] = {0};
    if (!row) return expr_fail(&m->x, m->rows.limited ? EXPR_BYTES : EXPR_NO_MEMORY), NULL;
    m->x.n_byte_other += 256 * sizeof *row;
    for (uint32_t i = 0; i < c.n_thread; i++) {
        const uint32_t *next = expr_row(&m->x, m->thread.v[c.thread + i].expr);
        if (!next) return NULL;
        for (int b = 0; b < 256; b++) any[b] |= next[b]; /* EXPR_EMPTY is 0 */
    }
    for (int b = 0; b < 256; b++) row[b] = any[b] ? CONFIG_UNKNOWN : CONFIG_DEAD;
    return m->config.v[config].row = row;
}

uint32_t machine_next(struct machine *m, uint32_t config, uint8_t byte)
{
    uint32_t *row = m->config.v[config].row;
    if (row && row[byte] != CONFIG_UNKNOWN) return row[byte];
    if (m->x.failed || config == CONFIG_DEAD) return CONFIG_DEAD;
    if (m->frozen) return m->late = true, CONFIG_DEAD;
    if (!row && !(row = make_row(m, config))) return CONFIG_DEAD;
    if (row[byte] != CONFIG_UNKNOWN) return row[byte];
    struct expr_task t;
    exprs_begin(&m->x, &t);
    uint32_t next = compute_next(m, config, byte);
    exprs_end(&m->x, &t, true);
    if (!m->x.failed) row[byte] = next;
    return next;
}
