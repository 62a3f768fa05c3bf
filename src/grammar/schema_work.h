/* schema_work.h - private to schema_*.c: from keywords to forms; see schema_form.c.
 *
 *   literal --schema_form.c--> keywords of its type
 *   keywords --schema_logic.c, schema_array.c, schema_object.c--> forms
 *
 * All functions return false after a failure. s->rc or s->m.x.failed has the reason. These
 * functions always free the forms in their arguments. Any thread. A grammar belongs to one thread
 * at a time. */
#ifndef QUOTH_GRAMMAR_SCHEMA_WORK_H
#define QUOTH_GRAMMAR_SCHEMA_WORK_H

#include "schema.h"

/* State of the conversion of keywords to forms. The forms of a keyword are multiplied with `all`
 * for a positive literal, and added to it for a negative literal. */
struct schema_work {
    struct schema *s; /* borrowed */
    uint32_t sub;
    unsigned type; /* JT_LIST or JT_OBJECT */
    bool negated;
    struct forms all;
};

/* Take the forms of one keyword, and empty f. ok: true if all forms were made. */
bool work_take(struct schema_work *w, struct forms *f, bool ok);
bool work_take_form(struct schema_work *w, struct schema_form f, bool made); /* take one form */
bool work_take_lit(struct schema_work *w, uint32_t lit); /* take the forms of a literal */
/* Read a count. Return false if the keyword is absent, or after a failure. */
bool work_count(struct schema *s, uint32_t sub, const char *key, uint32_t *n);
/* Take the minimum and maximum number of items or members. */
bool work_bounds(struct schema_work *w, const char *min_key, const char *max_key);

/* Return the form that every array or object satisfies. */
struct schema_form form_any(unsigned type);
/* Return the form of arrays or objects with [min, max] items or members. */
struct schema_form form_bounded(unsigned type, uint32_t min, uint32_t max);
bool forms_true(struct schema *s, struct forms *out, unsigned type); /* append form_any to `out` */
/* Append a form. ok: false if making the form failed. */
bool forms_add(struct schema *s, struct forms *out, struct schema_form f, bool ok);
bool forms_product(struct schema *s, struct forms *a, struct forms *b); /* set a to a and b */
bool forms_sum(struct schema *s, struct forms *a, struct forms *b);     /* set a to a or b */
/* Add the forms of a literal (forms_of_lit), or multiply by them (forms_and_lit). */
bool forms_of_lit(struct schema *s, uint32_t lit, unsigned type, struct forms *out);
/* Set a to a and the forms of a literal. */
bool forms_and_lit(struct schema *s, struct forms *a, uint32_t lit, unsigned type);

/* Return true if a form has no value, because of the scalars of its required members
 * (schema_prune.c). */
bool form_fails(struct schema *s, const struct schema_form *f);
/* Return true if every value of f satisfies g. f must be the form of one negated keyword. Return
 * false if unknown. */
bool form_implies(struct schema *s, const struct schema_form *f, const struct schema_form *g);
/* Drop the forms that imply f. Return true if f implies another form. Do not call forms_absorb
 * below an unevaluated keyword. */
bool forms_absorb(struct forms *all, const struct schema_form *f);

/* Take all keywords of w->sub, including `type` (schema_logic.c). */
bool work_schema(struct schema_work *w);
/* schema_array.c */
bool array_keywords(struct schema_work *w);
/* Take the condition that an array equals v. */
bool array_const(struct schema_work *w, const struct json *v);
/* schema_object.c */
bool object_keywords(struct schema_work *w);
/* Take the condition that an object has exactly the members of v. */
bool object_const(struct schema_work *w, const struct json *v);

#endif
