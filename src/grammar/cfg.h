/* cfg.h - private to grammar: context-free rules that are known in advance (GBNF, Lark), for a
 * machine.
 *
 * A piece of a rule is an expression if possible: literals, classes, repetitions of those, rules
 * that do not lead back to themselves. So most of a grammar runs as automata, and only real nesting
 * uses the stack. */
#ifndef QUOTH_GRAMMAR_CFG_H
#define QUOTH_GRAMMAR_CFG_H

#include "base/err.h"
#include "base/hash.h"
#include "machine.h"

/* An expression, or a rule. */
struct part {
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
    struct arena arena; /* names */
    struct strmap name_of;
    VEC(struct cfg_rule) rule;     /* [0] is the start, or undefined */
    VEC(struct symbol) sym;        /* of alternatives */
    VEC(uint32_t) end;             /* alternative i is sym[end[i - 1] .. end[i]) */
    VEC(struct cfg_graft *) graft; /* owned */
    VEC(struct cfg_choice) choice;
};

struct cfg_rule {
    const char *name;  /* in cfg.arena; NULL: made for a piece of another rule */
    VEC(uint32_t) alt; /* alternatives */
    bool defined, productive, nullable;
    uint8_t mark;               /* mark of searches */
    uint32_t graft, graft_rule; /* graft: 0, or the index of its graft + 1 */
};

bool cfg_open(struct cfg *g, struct expr_limits x, struct machine_limits limits);
void cfg_close(struct cfg *g); /* Safe on a zeroed struct. */

uint32_t cfg_rule_named(struct cfg *g, const char *name,
                        size_t n);    /* Return the rule's number, a new one if there is none. */
uint32_t cfg_rule_new(struct cfg *g); /* Make a rule without a name. */
/* Add an alternative of n parts to a rule. */
bool cfg_add(struct cfg *g, uint32_t rule, const struct part *part, size_t n);

/* Combine parts into an expression if all of them are expressions, else into a new rule. A failure
 * is sticky (m.x.failed). */
struct part cfg_sequence(struct cfg *g, const struct part *part, size_t n);
struct part cfg_either(struct cfg *g, const struct part *part, size_t n);
struct part cfg_repeat(struct cfg *g, struct part p, uint32_t min, uint32_t max);

/* Check the rules and prepare the machine: every rule must be defined; left recursion is removed,
 * and alternatives without a text are dropped. ERR_FORMAT names the rule. Then machine_begin(&g->m,
 * 0) starts a text. */
int cfg_finish(struct cfg *g, struct err *e);

/* Make a part of a rule of another machine, which its front end has opened. `owned` is closed with
 * the cfg, or at once if this fails. */
struct part cfg_graft(struct cfg *g, struct machine *from, uint32_t root, void *owned,
                      void (*close)(void *owned));

/* Private to cfg*.c */
void cfg_graft_close(struct cfg_graft *t);
bool cfg_graft_expand(struct cfg *g, uint32_t rule, struct alts *out);
uint32_t cfg_graft_choose(struct cfg *g, uint32_t arg, uint32_t tag);
/* Rewrite rules that begin with themselves; `productive` and `nullable` are known. */
int cfg_remove_left(struct cfg *g, struct err *e);

#endif
