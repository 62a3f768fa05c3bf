/* schema.h - private to grammar: JSON Schema, drafts 4 to 2020-12, as rules of a machine.
 *
 * The conditions on a value are a set of literals: "is valid by subschema s" or "is not". A set is a
 * number (sets are interned), and so is the rule that matches the JSON texts of its values:
 *
 *   literals --schema_scalar.c--> one expression for null, true, false, numbers and strings: boolean combinations are and, or, not
 *            --schema_form.c----> forms: alternatives free of boolean operators, for arrays and for objects
 *            --schema_rule.c----> states of an array or object (index, names found ...), made when a text first reaches them
 *
 * A negated literal is a literal like others, so not, oneOf, if and dependencies have no special
 * cost. A recursive $ref is a set that occurs again. An alternative without a value (schema_plan.c)
 * is never offered, so a mask never leads into a dead end.
 *
 * schema_open rejects what it cannot enforce exactly, with the JSON pointer of the keyword. */
#ifndef QUOTH_GRAMMAR_SCHEMA_H
#define QUOTH_GRAMMAR_SCHEMA_H

#include "base/hash.h"
#include "base/json.h"
#include "machine.h"

enum draft { DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019, DRAFT_2020 };

/* Kinds of JSON value, as bits. */
enum {
    T_NULL = 1,
    T_BOOL = 2,
    T_NUMBER = 4,
    T_STRING = 8,
    T_ARRAY = 16,
    T_OBJECT = 32,
    T_ALL = 63
};

enum { LIT_TRUE = 0, LIT_FALSE = 1, SET_ANY = 0, NONE = UINT32_MAX };

/* A subschema. The literal 2 x its number means that a value is valid by it, 2 x its number + 1
 * that it is not. */
struct sub {
    const struct json *j; /* borrowed from the document */
    const char *path;     /* JSON pointer, in schema.arena */
    uint32_t resource;    /* index of the enclosing schema resource ($id) */
    bool is_const;        /* not a schema: a value that must be equal */
    uint32_t lang[4];     /* by scalar type: NONE until computed */
    bool busy[6];         /* being computed: a second visit means a $ref that leads to itself */
};

/* One alternative of an array, without boolean operators. */
struct items_atom {
    uint32_t from, to; /* items [from, to) */
    uint32_t lit;
};
struct count_atom {
    uint32_t from;     /* of the items from here on ... */
    uint32_t lit;      /* ... those with this literal ... */
    uint32_t min, max; /* ... the number is in this range */
};

/* Members of some names, in one alternative of an object. */
struct name_atom {
    uint32_t name; /* one name; NONE: the names in lang */
    uint32_t lang; /* decoded names, but not ... */
    uint32_t lit;  /* all such members satisfy it; of a witness: some such member does */
    const struct json *except; /* ... the keys of this object; NULL: all in lang */
};

struct form {
    bool is_object;
    uint32_t min, max; /* items or members; max may be NONE: no limit */
    VEC(struct items_atom) item;
    VEC(struct count_atom) count;
    uint32_t unique;        /* the subschema that requires unique items; NONE */
    VEC(uint32_t) required; /* names */
    VEC(struct name_atom) member;
    VEC(struct name_atom) witness;
    /* evaluated items and members, for unevaluatedItems and unevaluatedProperties */
    uint32_t n_evaluated; /* leading items */
    uint32_t evaluated;   /* names */
};

struct forms {
    struct form *v; /* owned */
    size_t n, cap;
};

struct schema_options {
    bool
        any_order; /* members may be in any order; else in the order of `properties`, others after them */
    bool
        no_white_space; /* JSON without white space between tokens; else with the usual white space */
    bool no_additional; /* additionalProperties is false if it is absent */
    bool plain;         /* in their usual spelling, if there is a choice */
    bool check_format;  /* `format` is an assertion for the supported formats */
    enum draft draft;   /* used if there is no $schema */
};

struct schema {
    struct machine m;
    struct arena arena;
    struct json *root; /* owned */
    enum draft draft;
    bool draft_named; /* by $schema */
    struct schema_options opt;
    VEC(struct sub) sub;      /* [0] is `true` */
    struct strmap sub_of;     /* address of a value -> number */
    VEC(const char *) number; /* numbers of the document that are no int64, in their spelling */
    struct strmap number_of;  /* address of a value -> number */
    bool scientific; /* numbers may be in scientific notation, except if multiples are required */
    uint32_t universe[4]; /* of scalar types; 0: not made yet */
    VEC(struct resource) resource;
    struct strmap anchor;   /* "resource#name" -> subschema */
    VEC(const char *) name; /* names of members in schemas */
    VEC(uint32_t) name_n;
    struct strmap name_of;
    VEC(uint32_t) lit; /* of sets */
    VEC(struct lit_set) set;
    struct strmap set_of;
    VEC(struct rule) rule;
    VEC(struct choices) choices; /* by rule */
    VEC(struct choice) choice;
    struct strmap rule_of;
    VEC(struct form) form;      /* of sets */
    VEC(struct form_plan) plan; /* by form */
    VEC(struct state) state;    /* of arrays and objects */
    struct strmap state_of;
    /* schema_plan.c: number of times that a set was met again while it was being decided */
    uint32_t n_assumed;
    uint32_t ws; /* expression: white space */
    uint32_t root_set;
    uint32_t at; /* the subschema whose forms are being made: the place of a failure */
    int depth;
    int exact; /* schema_form.c: below an unevaluated keyword */
    int rc;    /* of the first failure; its text is in e */
    struct err *e;
};

struct resource {
    const char *uri; /* absolute, without fragment; "" for a document without $id */
    uint32_t sub;    /* its root */
};

struct lit_set {
    uint32_t first, n; /* schema.lit[first ..], ascending */
    uint8_t sat;       /* SAT_* */
    uint8_t clash;     /* schema_prune.c's */
    bool has_forms;
    uint32_t form, n_form; /* schema.form[form ..]: alternatives that have a value */
    uint32_t scalar;       /* expression */
};
enum { SAT_UNKNOWN, SAT_BUSY, SAT_NO, SAT_YES };

/* Compile n bytes of a schema. On success s->m is ready: machine_begin(&s->m, schema_root(s)). *s
 * must not move afterwards. */
int schema_open(struct schema *s, const char *text, size_t n, const struct schema_options *opt,
                struct expr_limits x, struct machine_limits limits, struct err *e);
void schema_close(struct schema *s); /* Safe on a zeroed struct. */
uint32_t schema_root(const struct schema *s);

/* ---- private to schema*.c ---- */
/* Record a failure at a subschema's keyword (NULL: at itself); return false. */
bool schema_fail(struct schema *s, int code, uint32_t sub, const char *keyword, const char *fmt,
                 ...) __attribute__((format(printf, 5, 6)));
bool schema_no_memory(struct schema *s);
static inline bool schema_ok(const struct schema *s)
{
    return s->rc == 0 && !s->m.x.failed;
}

/* schema_read.c: subschemas, references */
bool schema_read(struct schema *s);
uint32_t sub_of(struct schema *s, const struct json *j, uint32_t parent,
                const char *keyword); /* Return its number. */
uint32_t sub_const(struct schema *s, const struct json *value, uint32_t parent);
static inline uint32_t lit_of(uint32_t sub, bool negated)
{
    return 2 * sub + negated;
}
/* Return the field of a subschema, or NULL. In a draft before 2019 a $ref hides the others. */
const struct json *sub_field(const struct schema *s, uint32_t sub, const char *key);
/* Return the subschema of its $ref; NONE if it has none, or failed. */
uint32_t sub_target(struct schema *s, uint32_t sub);
uint32_t name_number(struct schema *s, const char *name, size_t n);
/* Return the types that `type` admits (T_ALL if it is absent); *integer: numbers must be integers.
 */
unsigned sub_types(struct schema *s, uint32_t sub, bool *integer);

/* schema_scalar.c */
uint32_t lang_of(struct schema *s, uint32_t sub,
                 unsigned type); /* one of T_NULL, T_BOOL, T_NUMBER, T_STRING (decoded) */
uint32_t lang_universe(struct schema *s, unsigned type);
bool schema_needs_multiples(struct schema *s);
/* Return the JSON texts of the set's scalars. */
uint32_t set_scalar(struct schema *s, uint32_t set);
/* Return the language of the texts that are valid by `sub`, a schema of names. */
uint32_t lang_names(struct schema *s, uint32_t sub, bool negated);

/* schema_form.c */
uint32_t set_add(struct schema *s, uint32_t set, uint32_t lit);
bool forms_of_set(struct schema *s, uint32_t set, unsigned type, struct forms *out);
void form_free(struct form *f);
void forms_free(struct forms *f);

/* schema_plan.c: the conditions on items and members in a form, and the states that lead to a value
 */
struct form_plan {
    VEC(uint32_t) name;     /* names in the form, in order; at most NAMES_MAX */
    VEC(uint32_t) name_set; /* conditions on their members */
    VEC(bool) name_required;
    VEC(struct name_class) other; /* all other names, by their languages */
    uint32_t n_item;              /* items from here on have equal conditions */
    /* expressions, NONE if not made yet: all names with their tags, in a JSON string; those of `name`
     * in their plain spelling */
    uint32_t names, plain_names;
};
struct name_class {
    uint32_t lang, set, witness; /* witnesses: bits of form.witness that may be found here */
};
/* Return the tag of a name of the form (by its index in form_plan.name) or of a class of names
 * (NAMES_MAX + its index in form_plan.other), found as the witness of `some` (bits of
 * form.witness). */
static inline uint32_t member_tag(uint32_t index, uint32_t some)
{
    return index << 4 | some;
}
enum { NAMES_MAX = 512, STATE_WORDS = NAMES_MAX / 64, WITNESSES_MAX = 4, COUNTS_MAX = STATE_WORDS };

/* The state inside an array or object. */
struct state {
    uint32_t form;
    /* items or members so far, up to the number above which more make no difference */
    uint32_t n;
    uint64_t seen[STATE_WORDS]; /* members: names; items: counted items, by count_atom */
    uint32_t met;               /* bits of form.witness */
    uint32_t next;              /* index of the first name that is still allowed, in order */
    uint32_t sat;               /* SAT_* */
};

bool plan_form(struct schema *s, uint32_t form);
uint32_t state_number(struct schema *s, const struct state *t);
/* Return whether the array or object may end here. */
bool state_complete(const struct schema *s, uint32_t state);
bool state_sat(struct schema *s, uint32_t state); /* Return whether it can end at all. */
bool set_sat(struct schema *s, uint32_t set);
bool set_forms(struct schema *s, uint32_t set); /* Fill in form, n_form and scalar of a set. */

/* The rule after a member's name, by the tag of the name; of a rule: choice[first .. first + n),
 * ascending by tag. */
struct choice {
    uint32_t tag, rule;
};
struct choices {
    uint32_t first, n;
};

/* A move from a state: an item or a member of these names with a value of this set, and the state
 * after it. */
struct move {
    uint32_t tag; /* of a member's name; see member_tag */
    uint32_t set, to;
};
struct moves {
    struct move *v; /* owned */
    size_t n, cap;
};
bool state_moves(struct schema *s, uint32_t state, struct moves *out);
/* Return the expression of the names of a form. known_only: no name of a class is possible, so with
 * opt.plain each is a constant. */
uint32_t form_names(struct schema *s, uint32_t form, bool known_only);
bool name_atom_holds(struct schema *s, const struct name_atom *a, uint32_t name);

/* schema_rule.c */
bool schema_expand(void *front, struct machine *m, uint32_t rule, struct alts *out);
uint32_t schema_choose(void *front, uint32_t rule, uint32_t tag);
uint32_t rule_value(struct schema *s, uint32_t set);

#endif
