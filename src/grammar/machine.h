/* machine.h - private to grammar: a recursive transition network over bytes, run with shared
 * stacks.
 *
 * A text is matched by rules. A rule is a list of alternatives. An alternative is a list of
 * symbols. A symbol is an expression (expr.h), a rule or a choice. A choice is an expression whose
 * tags select the following rule. A front end may make rules while the machine runs (`expand`), so
 * that states that no text reaches are not computed.
 *
 *   front end --expand--> alternatives --push--> stacks --closure--> config
 *   config --byte--> config --> mask
 *
 * A stack is a hash-consed list of symbols (equal stacks have equal numbers). A thread is an
 * expression in progress on a stack. A config is a hash-consed set of threads. A config's number is
 * therefore the complete state of a match. A fork copies the number, and a rollback uses an old
 * number. Every request that reaches a config uses the config's computed data (next configs,
 * masks).
 *
 * The limits of depth and of threads are parts of the language. No text reaches a stack deeper than
 * depth_max, or a config with more threads than thread_max. Therefore a text that reaches a limit
 * ends, and other texts of the machine continue. An alternative that cannot end within depth_max is
 * not offered (machine_need.c). The other limits are failures, which are permanent (x.failed).
 *
 * The front end must remove left recursion. One thread at a time. */
#ifndef QUOTH_GRAMMAR_MACHINE_H
#define QUOTH_GRAMMAR_MACHINE_H

#include "expr.h"

enum { CONFIG_DEAD = 0, CONFIG_UNKNOWN = UINT32_MAX, STACK_EMPTY = 0, NEED_UNKNOWN = UINT32_MAX };

enum symbol_kind { SYM_EXPR, SYM_RULE, SYM_CHOICE };

struct symbol {
    uint32_t kind;
    uint32_t id;  /* number of an expression (SYM_EXPR, SYM_CHOICE) or of a rule */
    uint32_t arg; /* argument of choose_fn (SYM_CHOICE) */
};

/* Alternatives of a rule, filled by alts_begin and alts_add. */
struct alts {
    VEC(struct symbol) sym;
    VEC(uint32_t) end; /* ends of the alternatives: alternative i is sym[end[i - 1], end[i]) */
};

struct machine;
/* Add the alternatives of a rule to `out`. After a failure, set m->x.failed and return false. The
 * machine calls the function once per rule, at the rule's first visit. */
typedef bool expand_fn(void *front, struct machine *m, uint32_t rule, struct alts *out);

/* Return the rule after a choice's expression that has reported `tag`; NO_RULE if the tag is not
 * allowed at this place. Places that exclude different alternatives, such as the names of an
 * object's members, can therefore share one expression and its automaton. */
typedef uint32_t choose_fn(void *front, uint32_t arg, uint32_t tag);
enum { NO_RULE = UINT32_MAX };

struct machine_limits {
    uint32_t config_max, stack_max; /* maximum numbers of configs and of stacks */
    /* maximum number of threads of a config; configs with more threads are dead */
    uint32_t thread_max;
    uint32_t depth_max; /* maximum depth of a stack; deeper stacks do not exist */
};

struct machine {
    struct exprs x;
    expand_fn *expand;
    choose_fn *choose; /* function for choices; NULL: no rule has a choice */
    void *front;       /* borrowed; argument of expand and choose */
    struct machine_limits limit;
    struct alts alts;
    VEC(struct rule_span) rule;        /* rules by number */
    VEC(struct stack_cell) cell;       /* cells of stacks; [0] is the empty stack */
    VEC(struct machine_config) config; /* configs by number; [0] is CONFIG_DEAD */
    VEC(struct thread) thread;
    uint32_t *cell_slot, n_cell_slot, *config_slot, n_config_slot; /* owned; open addressing */
    VEC(struct thread) next; /* threads of the config under construction */
    VEC(uint32_t) due, seen; /* stacks in a closure */
    size_t n_look;           /* number of look-ups in `seen` and `next` */
    bool accepts;
    /* true: the config under construction has more than thread_max threads */
    bool crowded;
    bool cut;            /* true after a limit of depth or threads removed a part of a config */
    uint32_t search_now; /* number of the latest search of machine_need.c */
    struct arena rows;
    int64_t late_at; /* value of exprs_work at which the work on a mask is interrupted; 0: never */
    bool late;       /* true: the work was interrupted, so the results are incomplete */
    bool frozen;     /* true: a transition that is not cached interrupts the work */
    struct {
        uint64_t *slot; /* owned; open addressing: expression << 32 | tag, + 1 */
        bool *open;     /* owned; results by slot */
        uint32_t n, n_slot;
    } open; /* for mask.c: expressions that accept any plain characters */
    struct {
        uint32_t *of, *to; /* owned; by expression: cached walk and its result */
        uint32_t now, cap;
    } walk; /* for mask.c: cached walks */
    struct {
        /* owned; by expression: fields of struct room (mask.c) + 1; 0: unknown */
        uint8_t *n_char, *need;
        uint32_t cap;
    } room;
    struct {
        /* owned; by expression: results of mask_clamp and of mask_peak (mask.h) + 1; 0: unknown */
        uint32_t *to[2], *peak;
        uint32_t cap;
    } clamp;
    VEC(struct short_mask) short_mask; /* for mask.c: masks of the short tokens of a string */
    size_t n_short_byte;               /* bytes of these masks */
};
enum clamp_range { CLAMP_SHORT, CLAMP_LONG };

struct short_mask {
    uint32_t string; /* expression of the string */
    uint64_t *mask;  /* owned [n_word] */
};

struct rule_span {
    uint32_t first, n; /* alternatives [first, first + n); n = UINT32_MAX: not expanded yet */
    /* depth that the rule's shortest text needs, or NEED_UNKNOWN (machine_need.c) */
    uint32_t need;
    uint32_t search; /* generation of the search that reached the rule (machine_need.c) */
};

/* One possible match of the text so far, like a thread of Pike's matcher of regular expressions. */
struct thread {
    /* numbers of the thread's expression and stack. A choice itself is on top of the stack. */
    uint32_t expr, stack;
    bool choice;
};

struct stack_cell {
    struct symbol sym;
    uint32_t below, depth;
};

struct machine_config {
    uint32_t thread, n_thread; /* range of the config's threads: machine.thread[thread ..] */
    bool accepts;              /* true if the text may end in this config */
    /* arena [256]: next configs, CONFIG_UNKNOWN if not computed; NULL if none is computed */
    uint32_t *row;
};

bool machine_open(struct machine *m, struct expr_limits x, struct machine_limits limit,
                  expand_fn *expand, void *front);
void machine_close(struct machine *m); /* free the memory; a zeroed struct is allowed */

/* Return the config before the first byte of a text of `rule`. CONFIG_DEAD if the rule has no text,
 * or after a failure. */
uint32_t machine_begin(struct machine *m, uint32_t rule);
/* Return the config after a byte; CONFIG_DEAD if no text continues with the byte, or after a
 * failure. */
uint32_t machine_next(struct machine *m, uint32_t config, uint8_t byte);
/* Return true if a text continues from a thread. The text of a choice must have an allowed tag. */
bool machine_alive(struct machine *m, struct thread t);
/* Return the config of a thread, and of its continuation if its expression matches the empty
 * text. */
uint32_t machine_config(struct machine *m, struct thread t);
/* Return the config with the threads of configs a and b, so that a text of either config may
 * continue. */
uint32_t machine_union(struct machine *m, uint32_t a, uint32_t b);
static inline bool machine_accepts(const struct machine *m, uint32_t config)
{
    return m->config.v[config].accepts;
}

/* Return true if the work on a mask must be interrupted. */
static inline bool machine_late(struct machine *m)
{
    if (m->late_at && exprs_work(&m->x) > m->late_at) m->late = true;
    return m->late;
}
/* Interrupt the work on a mask after n_work more steps; 0: never. */
static inline void machine_limit(struct machine *m, int64_t n_work)
{
    m->late = false;
    m->late_at = n_work ? exprs_work(&m->x) + n_work : 0;
}

/* ---- private to machine*.c ---- */
/* Ensure that the alternatives of a rule are in m->alts. Return false after a failure. */
bool machine_expand(struct machine *m, uint32_t rule);
/* Return true if alternative i of a rule can end on top of a stack of this depth within
 * depth_max. */
bool machine_fits(struct machine *m, uint32_t rule, uint32_t i, uint32_t depth);

/* Begin an alternative, then add its symbols, in an expand_fn. Return false if memory is
 * exhausted. */
bool alts_begin(struct alts *a);
bool alts_add(struct alts *a, enum symbol_kind kind, uint32_t id);
bool alts_add_choice(struct alts *a, uint32_t expr, uint32_t arg);

#endif
