/* cfg.h - private to grammar: context-free rules that are known in advance (GBNF, Lark), for a
 * machine.
 *
 * A piece of a rule is an expression if possible. Examples are literals, classes, their
 * repetitions, and rules that do not refer to themselves. Most of a grammar therefore runs as
 * automata, and only nesting uses the stack. Any thread; the rules belong to one thread at a time,
 * like their machine. */
#ifndef QUOTH_GRAMMAR_CFG_H
#define QUOTH_GRAMMAR_CFG_H

#include "base/err.h"
#include "base/hash.h"
#include "machine.h"

/* Part of an alternative: an expression or a rule. */
struct cfg_item {
    bool is_rule;
    uint32_t id;
};

struct cfg_graft;

/* A choice of a grafted rule. */
struct cfg_choice {
    uint32_t graft, arg;
};

struct cfg {
    struct machine m;
    struct arena arena; /* memory of the names */
    struct strmap name_of;
    VEC(struct cfg_rule) rule; /* rules by number; [0] is the start rule, which may be undefined */
    VEC(struct symbol) sym;    /* symbols of all alternatives */
    /* ends of the alternatives: alternative i is sym[end[i - 1], end[i]) */
    VEC(uint32_t) end;
    VEC(struct cfg_graft *) graft; /* owned; grafts of other machines */
    VEC(struct cfg_choice) choice;
};

struct cfg_rule {
    /* name in cfg.arena; NULL for the rule of a piece of another rule */
    const char *name;
    VEC(uint32_t) alt; /* indexes of the alternatives */
    bool defined, productive, nullable;
    uint8_t mark; /* state of a depth-first search: NEW, OPEN or DONE (cfg.c) */
    /* graft: index of the rule's graft + 1, or 0. graft_rule: number of the rule in the graft. */
    uint32_t graft, graft_rule;
};

/* Open an empty cfg. Return false if memory is exhausted. Call cfg_close also after a failure. */
bool cfg_open(struct cfg *g, struct expr_limits x, struct machine_limits limits);
void cfg_close(struct cfg *g); /* free the memory; a zeroed struct is allowed */

/* Return the number of the rule with this name. Make the rule if it is new. */
uint32_t cfg_rule_named(struct cfg *g, const char *name, size_t n);
uint32_t cfg_rule_new(struct cfg *g); /* make a rule without a name; return its number */
/* Add an alternative of n parts to a rule. */
bool cfg_add(struct cfg *g, uint32_t rule, const struct cfg_item *part, size_t n);

/* Combine parts into an expression if all of them are expressions, otherwise into a new rule. A
 * failure is permanent (m.x.failed). */
struct cfg_item cfg_sequence(struct cfg *g, const struct cfg_item *part, size_t n);
/* Return a part that matches any of the n parts. */
struct cfg_item cfg_either(struct cfg *g, const struct cfg_item *part, size_t n);
/* Return a part that repeats p, at least min and at most max times. */
struct cfg_item cfg_repeat(struct cfg *g, struct cfg_item p, uint32_t min, uint32_t max);

/* Check the rules and prepare the machine. Return ERR_FORMAT and the name of the rule if a rule is
 * not defined. Remove left recursion, and drop alternatives without a text. After success,
 * machine_begin(&g->m, 0) starts a text. Other errors are those of cfg_remove_left. */
int cfg_finish(struct cfg *g, struct err *e);

/* Return the spelling of an expression of a graft, for example with JSON's escapes. */
typedef uint32_t cfg_spell_fn(struct exprs *x, uint32_t e);
/* Make a part from a rule of another machine, which its front end has opened. `owned` is closed
 * with the cfg, or immediately on failure. spell: function that changes each expression; NULL: no
 * change. */
struct cfg_item cfg_graft(struct cfg *g, struct machine *from, uint32_t root, void *owned,
                          void (*close)(void *owned), cfg_spell_fn *spell);

/* Private to cfg*.c */
void cfg_graft_close(struct cfg_graft *t);
bool cfg_graft_expand(struct cfg *g, uint32_t rule, struct alts *out);
uint32_t cfg_graft_choose(struct cfg *g, uint32_t arg, uint32_t tag);
/* Rewrite rules that begin with themselves; `productive` and `nullable` must be known. ERR_LIMIT
 * for too many rules, and the errors of exprs_error. */
int cfg_remove_left(struct cfg *g, struct err *e);

#endif
