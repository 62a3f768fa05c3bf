/* machine.h - private to grammar: a recursive transition network over bytes, run with shared stacks.
 *
 * A text is matched by rules. A rule is a list of alternatives, an alternative a list of symbols, a
 * symbol an expression (expr.h), a rule, or a choice: an expression whose tags select the following
 * rule. A front end may make rules while the machine runs (`expand`), so that states that no text
 * reaches cost nothing.
 *
 *   front end --expand--> alternatives --push--> stacks --closure--> config --byte--> config --> mask
 *
 * A stack is a hash-consed list of symbols (equal stacks have equal numbers). A thread is an
 * expression in progress on a stack. A config is a set of threads, hash-consed, too. So a config's
 * number is the whole state of a match: to fork, copy it; to roll back, use an old one. Its computed
 * data (next configs, masks) serve every request that reaches it.
 *
 * Left recursion must be removed by the front end: the closure of a left-recursive rule exceeds
 * `stack_max` and fails. A failure is sticky (x.failed). One thread at a time. */
#ifndef QUOTH_GRAMMAR_MACHINE_H
#define QUOTH_GRAMMAR_MACHINE_H

#include "expr.h"

enum { CONFIG_DEAD = 0, CONFIG_UNKNOWN = UINT32_MAX, STACK_EMPTY = 0 };

enum symbol_kind { SYM_EXPR, SYM_RULE, SYM_CHOICE };

struct symbol {
    uint32_t kind;
    uint32_t id;  /* an expression (SYM_EXPR, SYM_CHOICE) or a rule */
    uint32_t arg; /* SYM_CHOICE: argument of choose_fn */
};

/* Alternatives of a rule, filled by alts_begin and alts_add. */
struct alts {
    VEC(struct symbol) sym;
    VEC(uint32_t) end; /* alternative i is sym[end[i - 1] .. end[i]) */
};

struct machine;
/* Add the alternatives of a rule to `out`. Returns false if it failed (set m->x.failed). Called
 * once per rule, when it is first reached. */
typedef bool expand_fn(void *front, struct machine *m, uint32_t rule, struct alts *out);

/* Return the rule that follows a choice's expression that has reported `tag`; NO_RULE if this tag
 * is not allowed here. So one expression, and its automaton, serves all places that exclude some of
 * its alternatives (the names of an object's members). */
typedef uint32_t choose_fn(void *front, uint32_t arg, uint32_t tag);
enum { NO_RULE = UINT32_MAX };

struct machine_limits {
    uint32_t n_config_max, n_stack_max; /* maximum of numbers handed out */
    uint32_t n_thread_max;              /* of one config */
    uint32_t depth_max;                 /* of the stack */
};

struct machine {
    struct exprs x;
    expand_fn *expand;
    choose_fn *choose; /* NULL: no rule has a choice */
    void *front;       /* borrowed */
    struct machine_limits limit;
    struct alts alts;
    VEC(struct rule_span) rule;  /* by rule number */
    VEC(struct stack_cell) cell; /* [0] is the empty stack */
    VEC(struct config) config;   /* [0] is dead */
    VEC(struct thread) thread;
    uint32_t *cell_slot, n_cell_slot, *config_slot, n_config_slot; /* owned; open addressing */
    VEC(struct thread) next; /* the config under construction */
    VEC(uint32_t) due, seen; /* stacks in a closure */
    bool accepts;
    struct arena rows;
    int64_t late_at; /* exprs_work at which a mask is given up for now; 0: never */
    bool late;       /* it was: what was found on the way is not a result */
    struct {
        uint64_t *slot; /* owned; open addressing: expression << 32 | tag, + 1 */
        bool *open;     /* owned; by slot */
        uint32_t n, n_slot;
    } open; /* of mask.c: expressions that take any plain characters */
    struct {
        uint32_t *of, *to; /* owned; by expression: the cached walk, and its result */
        uint32_t now, cap;
    } walk; /* mask.c's */
    struct {
        uint8_t *n_char, *need; /* owned; by expression: mask.c's struct room + 1, 0: unknown */
        uint32_t cap;
    } room;
};

struct thread {
    uint32_t expr, stack; /* of a choice: the stack with the choice on top */
    bool choice;
};

struct stack_cell {
    struct symbol sym;
    uint32_t below, depth;
};

struct config {
    uint32_t thread, n_thread; /* machine.thread[thread ..] */
    bool accepts;              /* true if the text may end here */
    uint32_t *row; /* [256] next configs, CONFIG_UNKNOWN if not computed; NULL: none is */
};

bool machine_open(struct machine *m, struct expr_limits x, struct machine_limits limit,
                  expand_fn *expand, void *front);
void machine_close(struct machine *m); /* Safe on a zeroed struct. */

/* Return the config before the first byte of a text of `rule`. CONFIG_DEAD if there is no such
 * text, or it failed. */
uint32_t machine_begin(struct machine *m, uint32_t rule);
uint32_t machine_next(struct machine *m, uint32_t config, uint8_t byte);
/* Return whether a text continues from a thread; of a choice, one with an allowed tag. */
bool machine_alive(struct machine *m, struct thread t);
/* Return the config of a thread, and of its continuation if its expression matches the empty text.
 */
uint32_t machine_config(struct machine *m, struct thread t);
/* Return the config of the threads of both: either may continue. */
uint32_t machine_union(struct machine *m, uint32_t a, uint32_t b);
static inline bool machine_accepts(const struct machine *m, uint32_t config)
{
    return m->config.v[config].accepts;
}

/* Begin an alternative, then add its symbols, in an expand_fn. Returns false if memory is
 * exhausted. */
/* Return true if the work for a mask is to be given up for now. */
static inline bool machine_late(struct machine *m)
{
    if (m->late_at && exprs_work(&m->x) > m->late_at) m->late = true;
    return m->late;
}
/* Give up after n_work more steps; 0: never. */
static inline void machine_limit(struct machine *m, int64_t n_work)
{
    m->late = false;
    m->late_at = n_work ? exprs_work(&m->x) + n_work : 0;
}

bool alts_begin(struct alts *a);
bool alts_add(struct alts *a, enum symbol_kind kind, uint32_t id);
bool alts_add_choice(struct alts *a, uint32_t expr, uint32_t arg);

#endif
