/* schema.h - private to grammar: JSON Schema, drafts 4 to 2020-12, as rules of a machine.
 *
 * What a value must satisfy is a set of literals: "is valid by subschema s" or "is not". A set is a number (sets are interned), and so is
 * the rule that matches the JSON texts of its values:
 *
 *   literals --schema_scalar.c--> one expression for null, true, false, numbers and strings: boolean combinations are and, or, not
 *            --schema_form.c----> forms: alternatives free of boolean operators, for arrays and for objects
 *            --schema_rule.c----> states of an array or object (index, names seen ...), made when a text first reaches them
 *
 * A negated literal is a literal like others, so not, oneOf, if and dependencies cost nothing special; a recursive $ref is a set that
 * occurs again. An alternative without a value (schema_plan.c) is never offered, so a mask never leads into a dead end.
 *
 * What cannot be kept exactly is refused by schema_open with the JSON pointer of the keyword. */
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

/* A subschema: `lit` 2 x its number says that a value is valid by it, 2 x its number + 1 that it is not. */
struct sub {
    const struct json *j; /* borrowed from the document */
    const char *path;     /* JSON pointer, in schema.arena */
    uint32_t resource;    /* index of the schema resource ($id) around it */
    bool is_const;        /* not a schema: a value to be equal to */
    uint32_t lang[4];     /* by scalar type: NONE until computed */
    bool busy[6];         /* being computed: a second visit is a $ref that leads to itself */
};

/* One alternative of an array, without boolean operators. */
struct items_atom {
    uint32_t from, to; /* items [from, to) */
    uint32_t lit;
};
struct count_atom {
    uint32_t from;     /* of the items from here on ... */
    uint32_t lit;      /* ... those with this literal ... */
    uint32_t min, max; /* ... are so many */
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
    uint32_t unique;        /* the subschema that wants unique items; NONE */
    VEC(uint32_t) required; /* names */
    VEC(struct name_atom) member;
    VEC(struct name_atom) witness;
    /* what unevaluatedItems and unevaluatedProperties count as evaluated */
    uint32_t n_evaluated; /* leading items */
    uint32_t evaluated;   /* names */
};

struct forms {
    struct form *v; /* owned */
    size_t n, cap;
};

struct schema_options {
    bool
        any_order; /* members may come in any order; else in the order of `properties`, others after them */
    bool
        no_white_space; /* JSON without white space between tokens; else white space as people write it */
    bool no_additional; /* additionalProperties is false where it is not said */
    bool plain_numbers; /* as people write them, where there is a choice */
    bool check_format;  /* `format` is an assertion for the formats known here */
    enum draft draft;   /* if $schema does not say it */
};

struct schema {
    struct machine m;
    struct arena arena;
    struct json *root; /* owned */
    enum draft draft;
    struct schema_options opt;
    VEC(struct sub) sub;      /* [0] is `true` */
    struct strmap sub_of;     /* address of a value -> number */
    VEC(const char *) number; /* numbers of the document that are no int64, as they are written */
    struct strmap number_of;  /* address of a value -> number */
    bool
        scientific; /* numbers may be in scientific notation: always, but where something wants multiples */
    uint32_t universe[4]; /* of scalar types; 0: not made yet */
    VEC(struct resource) resource;
    struct strmap anchor;   /* "resource#name" -> subschema */
    VEC(const char *) name; /* member names that schemas speak of */
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
    uint32_t n_assumed; /* schema_plan.c: how often a set that was being decided was met again */
    uint32_t ws;        /* expression: white space */
    uint32_t root_set;
    uint32_t
        at; /* the subschema whose forms are being made: the place of what they are too many of */
    int depth;
    int exact; /* schema_form.c: below an unevaluated keyword */
    int rc;    /* of the first failure; e holds the sentence */
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

/* Compile n bytes of a schema. On success s->m is ready: machine_begin(&s->m, schema_root(s)). *s must not move afterwards. */
int schema_open(struct schema *s, const char *text, size_t n, const struct schema_options *opt,
                struct expr_limits x, struct machine_limits limits, struct err *e);
void schema_close(struct schema *s); /* safe on a zeroed struct */
uint32_t schema_root(const struct schema *s);

/* ---- private to schema*.c ---- */
/* Note a failure at a subschema's keyword (NULL: at itself); returns false. */
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
                const char *keyword); /* its number */
uint32_t sub_const(struct schema *s, const struct json *value, uint32_t parent);
static inline uint32_t lit_of(uint32_t sub, bool negated)
{
    return 2 * sub + negated;
}
/* The field of a subschema, or NULL; of a draft before 2019 a $ref hides the others. */
const struct json *sub_field(const struct schema *s, uint32_t sub, const char *key);
uint32_t sub_target(struct schema *s, uint32_t sub); /* of its $ref; NONE: it has none, or failed */
uint32_t name_number(struct schema *s, const char *name, size_t n);
/* The types that `type` admits (T_ALL if it is absent); *integer: numbers must be integers. */
unsigned sub_types(struct schema *s, uint32_t sub, bool *integer);

/* schema_scalar.c */
uint32_t lang_of(struct schema *s, uint32_t sub,
                 unsigned type); /* one of T_NULL, T_BOOL, T_NUMBER, T_STRING (decoded) */
uint32_t lang_universe(struct schema *s, unsigned type);
bool schema_needs_multiples(struct schema *s);
uint32_t set_scalar(struct schema *s, uint32_t set); /* JSON texts of the set's scalars */
/* The language of the texts of which `sub` (a schema of names) approves. */
uint32_t lang_names(struct schema *s, uint32_t sub, bool negated);

/* schema_form.c */
uint32_t set_add(struct schema *s, uint32_t set, uint32_t lit);
bool forms_of_set(struct schema *s, uint32_t set, unsigned type, struct forms *out);
void form_free(struct form *f);
void forms_free(struct forms *f);

/* schema_plan.c: what items and members must satisfy in a form, and which states lead to a value */
struct form_plan {
    VEC(uint32_t) name;     /* names that the form speaks of, in order; at most NAMES_MAX */
    VEC(uint32_t) name_set; /* what their members satisfy */
    VEC(bool) name_required;
    VEC(struct name_class) other; /* all other names, by the languages that hold them */
    uint32_t n_item;              /* items from here on are alike */
    uint32_t
        names; /* expression: all names with their tags, in a JSON string; NONE: not made yet */
};
struct name_class {
    uint32_t lang, set, witness; /* witness: bits of form.witness that may be found here */
};
/* The tag of a name of the form (by its index in form_plan.name) or of a class of names (NAMES_MAX + its index in form_plan.other), found
 * as the witness of `some` (bits of form.witness). */
static inline uint32_t member_tag(uint32_t index, uint32_t some)
{
    return index << 4 | some;
}
enum { NAMES_MAX = 512, STATE_WORDS = NAMES_MAX / 64, WITNESSES_MAX = 4, COUNTS_MAX = STATE_WORDS };

/* Where an array or object is. */
struct state {
    uint32_t form;
    uint32_t n;                 /* items or members so far, up to where more make no difference */
    uint64_t seen[STATE_WORDS]; /* members: names; items: how many were counted, by count_atom */
    uint32_t met;               /* bits of form.witness */
    uint32_t next;              /* index of the first name that may still come, in order */
    uint32_t sat;               /* SAT_* */
};

bool plan_form(struct schema *s, uint32_t form);
uint32_t state_number(struct schema *s, const struct state *t);
bool state_complete(const struct schema *s, uint32_t state); /* may the array or object end here? */
bool state_sat(struct schema *s, uint32_t state);            /* can it end at all? */
bool set_sat(struct schema *s, uint32_t set);
bool set_forms(struct schema *s, uint32_t set); /* fill in form, n_form and scalar of a set */

/* The rule after a member's name, by the tag of the name; of a rule: choice[first .. first + n), ascending by tag. */
struct choice {
    uint32_t tag, rule;
};
struct choices {
    uint32_t first, n;
};

/* The moves from a state: an item or a member of these names with a value of this set, and the state after it. */
struct move {
    uint32_t tag; /* of a member's name; see member_tag */
    uint32_t set, to;
};
struct moves {
    struct move *v; /* owned */
    size_t n, cap;
};
bool state_moves(struct schema *s, uint32_t state, struct moves *out);
uint32_t form_names(struct schema *s, uint32_t form);
bool name_atom_holds(struct schema *s, const struct name_atom *a, uint32_t name);

/* schema_rule.c */
bool schema_expand(void *front, struct machine *m, uint32_t rule, struct alts *out);
uint32_t schema_choose(void *front, uint32_t rule, uint32_t tag);
uint32_t rule_value(struct schema *s, uint32_t set);

#endif
