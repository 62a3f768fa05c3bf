/* schema.h - private to grammar: JSON Schema, drafts 4 to 2020-12, as rules of a machine.
 *
 * The conditions on a value are a set of literals: "is valid by subschema s" or "is not valid by
 * s". Sets are interned, so a set is a number. The rule that matches the JSON texts of the values
 * of a set is also a number:
 *
 *   literals --schema_scalar.c--> one expression for null, true, false, numbers and strings:
 *                                 boolean combinations are and, or, not
 *            --schema_form.c----> forms: alternatives free of boolean operators, for arrays and for
 *                                 objects
 *            --schema_rule.c----> states of an array or object (index, names found ...), made at a
 *                                 text's first visit
 *
 * A negated literal is also a literal, so not, oneOf, if and dependencies need no special code. A
 * recursive $ref is a set that occurs a second time. An alternative without a value (schema_plan.c)
 * is never offered, so every state can be completed.
 *
 * schema_open rejects keywords that it cannot enforce exactly. The error contains the keyword's
 * JSON pointer. Any thread; a grammar belongs to one thread at a time. */
#ifndef QUOTH_GRAMMAR_SCHEMA_H
#define QUOTH_GRAMMAR_SCHEMA_H

#include "base/hash.h"
#include "base/json.h"
#include "machine.h"

enum draft { DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019, DRAFT_2020 };

enum { LIT_TRUE = 0, LIT_FALSE = 1, SET_ANY = 0, NONE = UINT32_MAX };

/* Subschema number i. Literal 2 i means that a value is valid by the subschema. Literal 2 i + 1
 * means that a value is not valid by the subschema. */
struct sub {
    const struct json *j; /* borrowed from the document */
    const char *path;     /* JSON pointer of the subschema, in schema.arena */
    uint32_t resource;    /* index of the enclosing schema resource ($id) */
    bool is_const;        /* true: `v` is a required value instead of a schema */
    uint32_t lang[4];     /* languages by scalar type; NONE until computed */
    /* true during the computation; a second visit then means that a $ref leads back to itself */
    bool busy[6];
};

/* Condition on items of an array, in one alternative. */
struct items_atom {
    uint32_t from, to; /* indexes [from, to) of the items */
    uint32_t lit;
};
struct count_atom {
    /* The number of items [from, end) that satisfy `lit` is in [min, max]. */
    uint32_t from;
    uint32_t lit;
    uint32_t min, max;
};

/* Members of some names, in one alternative of an object. */
struct name_atom {
    uint32_t name; /* number of one name; NONE: the names in lang */
    uint32_t lang; /* language of decoded names; the keys of `except` are excluded */
    /* literal that all these members satisfy or, for a witness, at least one of them */
    uint32_t lit;
    /* borrowed from the document: object with the excluded keys; NULL: no exceptions */
    const struct json *except;
};

struct schema_form {
    bool is_object;
    uint32_t min, max; /* minimum and maximum number of items or members; max NONE: no limit */
    VEC(struct items_atom) item;
    VEC(struct count_atom) count;
    uint32_t unique;        /* subschema that requires unique items; NONE if none */
    VEC(uint32_t) required; /* numbers of the names of required members */
    VEC(struct name_atom) member;
    VEC(struct name_atom) witness;
    /* evaluated items and members, for unevaluatedItems and unevaluatedProperties */
    uint32_t n_evaluated; /* number of evaluated leading items */
    uint32_t evaluated;   /* language of the evaluated names */
};

struct forms {
    struct schema_form *v; /* owned; forms */
    size_t n, cap;
};

/* Notation of the value (schema_notation.c). PYTHON and BARE are for the arguments of a call: the
 * value is an object without braces around its members. */
enum notation {
    NOTATION_JSON,
    NOTATION_PYTHON, /* NAME=VALUE, NAME=VALUE; constants and dicts of Python */
    NOTATION_BARE,   /* NAME:VALUE,NAME:VALUE; names without quotes, strings between opt.quote */
};

/* Options of schema_open. All texts are borrowed for the call; struct schema has copies in its
 * arena. */
struct schema_options {
    enum notation notation;
    const char *quote;   /* BARE: text of the quote, which no string contains */
    bool quote_is_token; /* true: the quote is the token quote_token */
    uint32_t quote_token;
    /* text that no string contains, because it ends the value; NULL if none */
    const char *without;
    /* true: members in any order; false: in the order of `properties`, then other members */
    bool any_order;
    /* true: JSON without white space between tokens; false: with the usual white space */
    bool no_white_space;
    const char *white_space; /* expression of the white space; NULL: the default (grammar.h) */
    bool no_additional;      /* true: additionalProperties is false if it is absent */
    bool plain;              /* true: values must have their usual spelling, if any */
    bool check_format;       /* true: `format` is an assertion for the supported formats */
    enum draft draft;        /* draft of a document without $schema */
};

struct schema {
    struct machine m;
    struct arena arena;
    struct json *root; /* owned; the document */
    enum draft draft;
    bool draft_named; /* true: $schema names the draft */
    struct schema_options opt;
    VEC(struct sub) sub;  /* [0] is `true` */
    struct strmap sub_of; /* address of a value -> number */
    /* in the arena: spellings of the document's numbers that are not an int64 */
    VEC(const char *) number;
    struct strmap number_of; /* address of a value -> number */
    /* true: numbers may be in scientific notation, unless multiples are required */
    bool scientific;
    uint32_t universe[4]; /* universes of the scalar types; 0: not made yet */
    VEC(struct resource) resource;
    struct strmap anchor;   /* "resource#name" -> subschema */
    VEC(const char *) name; /* in the arena: names of members in schemas */
    VEC(uint32_t) name_n;
    struct strmap name_of;
    VEC(uint32_t) lit; /* literals of all sets */
    VEC(struct lit_set) set;
    struct strmap set_of;
    VEC(struct rule) rule;
    VEC(struct choices) choices; /* choices by rule */
    VEC(struct tag_rule) choice;
    struct strmap rule_of;
    VEC(struct schema_form) form; /* forms of all sets */
    VEC(struct form_plan) plan;   /* plans by form */
    VEC(struct state) state;      /* states of arrays and objects */
    struct strmap state_of;
    /* number of visits to sets whose search was in progress (schema_plan.c) */
    uint32_t n_assumed;
    uint32_t ws; /* expression of the white space */
    uint32_t root_set;
    uint32_t at; /* subschema whose forms are being made; the place of a failure */
    int depth;
    int exact;     /* number of enclosing unevaluated keywords (schema_form.c) */
    int rc;        /* error code of the first failure; its text is in e */
    struct err *e; /* borrowed for schema_open, then NULL */
};

struct resource {
    const char
        *uri;     /* in the arena: absolute URI, without fragment; "" for a document without $id */
    uint32_t sub; /* root of the resource */
};

struct lit_set {
    uint32_t first, n; /* range of literals: schema.lit[first ..], ascending */
    uint8_t sat;       /* SAT_*: result of set_sat */
    uint8_t clash;     /* cached result of clash() in schema_prune.c */
    bool has_forms;
    uint32_t form, n_form; /* range of the alternatives that have a value: schema.form[form ..] */
    uint32_t scalar;       /* expression of the set's scalars */
};
enum { SAT_UNKNOWN, SAT_BUSY, SAT_NO, SAT_YES };

/* Compile n bytes of a schema, which are borrowed for the call. After success, machine_begin(&s->m,
 * schema_root(s)) begins a text, and *s must not move. After an error, *s is closed. ERR_FORMAT for
 * a malformed schema or a schema without a valid value. ERR_UNSUPPORTED for a keyword or reference
 * that cannot be enforced. Both errors contain the JSON pointer. Other errors are those of
 * json_parse and exprs_error. */
int schema_open(struct schema *s, const char *text, size_t n, const struct schema_options *opt,
                struct expr_limits x, struct machine_limits limits, struct err *e);
void schema_close(struct schema *s); /* free the memory; a zeroed struct is allowed */
/* Return the rule of the whole text, for machine_begin. */
uint32_t schema_root(const struct schema *s);

/* ---- private to schema*.c ---- */
/* Record a failure at a keyword of a subschema (NULL: at the subschema). Return false. */
bool schema_fail(struct schema *s, int code, uint32_t sub, const char *keyword, const char *fmt,
                 ...) __attribute__((format(printf, 5, 6)));
/* Record that memory is exhausted. Return false. */
bool schema_no_memory(struct schema *s);
static inline bool schema_ok(const struct schema *s)
{
    return s->rc == 0 && !s->m.x.failed;
}

/* schema_read.c: subschemas, references */
/* Read the document and register its subschemas. Return false after a failure. */
bool schema_read(struct schema *s);
/* Return the number of subschema j. */
uint32_t sub_of(struct schema *s, const struct json *j, uint32_t parent, const char *keyword);
/* Return the subschema whose only valid value is `value`. */
uint32_t sub_const(struct schema *s, const struct json *value, uint32_t parent);
static inline uint32_t lit_of(uint32_t sub, bool negated)
{
    return 2 * sub + negated;
}
/* Return the field of a subschema; NULL if absent. In a draft before 2019 a $ref hides the other
 * fields. */
const struct json *sub_field(const struct schema *s, uint32_t sub, const char *key);
/* Return the subschema that the $ref of `sub` refers to; NONE if there is no $ref, or after a
 * failure. */
uint32_t sub_target(struct schema *s, uint32_t sub);
/* Return the number of a member's name; 0 after a failure. Add the name if it is new. */
uint32_t name_number(struct schema *s, const char *name, size_t n);
/* Return the types that `type` admits; JT_ALL if it is absent. Set *integer if numbers must be
 * integers. */
unsigned sub_types(struct schema *s, uint32_t sub, bool *integer);

/* Return the language of a type's values that a subschema accepts (schema_scalar.c). type: JT_NULL,
 * JT_BOOL, JT_NUMBER or JT_TEXT (decoded). */
uint32_t lang_of(struct schema *s, uint32_t sub, unsigned type);
/* Return the language of all values of a type. */
uint32_t lang_universe(struct schema *s, unsigned type);
/* Return true if some multipleOf has an effect. */
bool schema_needs_multiples(struct schema *s);
/* Return the JSON texts of the set's scalars. */
uint32_t set_scalar(struct schema *s, uint32_t set);
/* Return the language of the texts that are valid by `sub`, a schema of names. */
uint32_t lang_names(struct schema *s, uint32_t sub, bool negated);

/* schema_form.c */
/* Return the set of the literals of `set` and lit; `set` after a failure. */
uint32_t set_add(struct schema *s, uint32_t set, uint32_t lit);
/* Append the forms of the arrays or objects that satisfy a set to the empty list `out`. Return
 * false after a failure. */
bool forms_of_set(struct schema *s, uint32_t set, unsigned type, struct forms *out);
/* Free the memory of a form. */
void form_deinit(struct schema_form *f);
/* Free a list and its forms. */
void forms_deinit(struct forms *f);

/* Conditions on items and members in a form, and the states that lead to a value
 * (schema_plan.c). */
struct form_plan {
    VEC(uint32_t) name;     /* names in the form, at most NAMES_MAX */
    uint32_t n_ordered;     /* names [n_ordered, n) have no order (list_classes) */
    VEC(uint32_t) name_set; /* conditions on the members of these names */
    VEC(bool) name_required;
    VEC(struct name_class) other; /* classes of all other names, by their languages */
    /* index from which all items have equal conditions */
    uint32_t n_item;
    /* expressions of all names with their tags, in a JSON string. plain_names: only the names of
     * `name`, in their plain spelling. NONE if not made yet */
    uint32_t names, plain_names;
    bool top; /* true: the object may be the outermost object */
    /* notations without JSON: expression of the outermost object's names, NONE before its first
     * use */
    uint32_t top_names;
};
struct name_class {
    /* language, condition, and the bits of form.witness that its members may satisfy */
    uint32_t lang, set, witness;
};
/* Return the tag of a name or class of names that satisfies the witnesses `some` (bits of
 * form.witness). index: index of the name in form_plan.name, or NAMES_MAX + index of the class in
 * form_plan.other. */
static inline uint32_t member_tag(uint32_t index, uint32_t some)
{
    return index << 4 | some;
}
/* NAMES_MAX: maximum number of names of an object, each of which has a bit in a state.
 * WITNESSES_MAX: maximum number of witnesses; a table has 2^WITNESSES_MAX rows. */
enum { NAMES_MAX = 512, STATE_WORDS = NAMES_MAX / 64, WITNESSES_MAX = 4, COUNTS_MAX = STATE_WORDS };

/* State inside an array or object. */
struct state {
    uint32_t form;
    /* number of items or members so far, clamped to the number from which all counts are
     * equivalent */
    uint32_t n;
    /* members: set of the present names. items: number of counted items of each count_atom. */
    uint64_t seen[STATE_WORDS];
    uint32_t met;  /* bits of form.witness that are satisfied */
    uint32_t next; /* index of the first name that is still allowed */
    uint32_t sat;  /* SAT_*: result of state_sat */
};

/* Plan a form. top: the form belongs to the root set. */
bool plan_form(struct schema *s, uint32_t form, bool top);
/* Return the number of a state. Add the state if it is new. Invalid after a failure. */
uint32_t state_number(struct schema *s, const struct state *t);
/* Return true if the array or object may end in this state. */
bool state_complete(const struct schema *s, uint32_t state);
/* Return true if the array or object can be completed from this state. */
bool state_sat(struct schema *s, uint32_t state);
/* Return true if some value satisfies the set; false after a failure. */
bool set_sat(struct schema *s, uint32_t set);
/* Return true if types or scalars show that a set has no value. The result is cached. set_clashes
 * visits no other set, in contrast to set_sat (schema_prune.c). */
bool set_clashes(struct schema *s, uint32_t set);
bool set_forms(struct schema *s, uint32_t set); /* fill in form, n_form and scalar of a set */

/* The rule after a member's name, by the tag of the name. A rule has choice[first, first + n),
 * ascending by tag. */
struct tag_rule {
    uint32_t tag, rule;
};
struct choices {
    uint32_t first, n;
};

/* A move from a state: an item or a member of these names with a value of this set, and the state
 * after it. */
struct move {
    uint32_t tag; /* tag of a member's name; see member_tag */
    uint32_t set, to;
};
struct moves {
    struct move *v; /* owned; moves */
    size_t n, cap;
};
/* Append the moves from a state. Return false after a failure. */
bool state_moves(struct schema *s, uint32_t state, struct moves *out);
/* Return the expression of the names of a form. known_only: true if no name of a class is possible.
 * Every name is then a constant if opt.plain is set. */
uint32_t form_names(struct schema *s, uint32_t form, bool known_only);
/* Return the expression of the names in another notation than JSON, up to the value. top: names of
 * the outermost object. */
uint32_t form_names_noted(struct schema *s, uint32_t form, bool top);
/* Return true if the atom applies to this name. */
bool name_atom_holds(struct schema *s, const struct name_atom *a, uint32_t name);

/* schema_notation.c. top: the name belongs to the outermost object */
bool notation_names_arguments(const struct schema *s); /* return true for arguments of calls */
/* Return the spellings of the strings of `text`, of constants, and of numbers. */
uint32_t notation_string(struct schema *s, uint32_t text);
/* Return the spellings of the constants of e: null, true and false. */
uint32_t notation_constant(struct schema *s, uint32_t e);
/* Return the spellings of the numbers of e. */
uint32_t notation_number(struct schema *s, uint32_t e);
/* Return the names of a class that the notation can write. */
uint32_t notation_class(struct schema *s, uint32_t lang, bool top);
/* Return true if the notation can write this name. Otherwise record a failure. */
bool notation_allows_name(struct schema *s, uint32_t name, bool top);
/* Return the spelling of a name, or of a class of names with its tags. A nested name of PYTHON has
 * no colon. */
uint32_t notation_name(struct schema *s, uint32_t name, bool top);
/* Return the spelling of a class of names, with its tags. */
uint32_t notation_class_name(struct schema *s, uint32_t lang, uint32_t tags, bool top);

/* schema_rule.c */
/* Append the alternatives of a rule (expand_fn). Return false after a failure. */
bool schema_expand(void *front, struct machine *m, uint32_t rule, struct alts *out);
/* Return the rule after a name with this tag; NO_RULE if the tag is not allowed. */
uint32_t schema_choose(void *front, uint32_t rule, uint32_t tag);
/* Return the rule of the values of a set. */
uint32_t rule_value(struct schema *s, uint32_t set);

#endif
