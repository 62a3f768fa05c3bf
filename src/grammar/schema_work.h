/* schema_work.h - private to schema_*.c: how keywords become forms; see schema_form.c.
 *
 *   literal --schema_form.c--> keywords of its type --schema_logic.c, schema_array.c, schema_object.c--> forms
 *
 * All functions return false after a failure, which s->rc or s->m.x.failed holds; what they were given is freed either way. */
#ifndef QUOTH_GRAMMAR_SCHEMA_WORK_H
#define QUOTH_GRAMMAR_SCHEMA_WORK_H

#include "schema.h"

/* A keyword under construction: with a positive literal `all` is multiplied by its forms, with a negative one they are added. */
struct work {
    struct schema *s;
    uint32_t sub;
    unsigned type; /* T_ARRAY or T_OBJECT */
    bool negated;
    struct forms all;
};

/* Take the forms of one keyword, which are emptied; `ok` is whether they could be made. */
bool work_take(struct work *w, struct forms *f, bool ok);
bool work_take_form(struct work *w, struct form f, bool made); /* one form */
bool work_take_lit(struct work *w, uint32_t lit);              /* what a literal says */
/* Read a count; false: absent, or failed. */
bool work_count(struct schema *s, uint32_t sub, const char *key, uint32_t *n);
/* Take the least and the greatest number of items or members. */
bool work_bounds(struct work *w, const char *min_key, const char *max_key);

struct form form_any(unsigned type); /* which every array or object satisfies */
struct form form_bounded(unsigned type, uint32_t min, uint32_t max);
bool forms_true(struct schema *s, struct forms *out, unsigned type); /* add form_any */
/* Add a form; `ok` is whether it could be made. */
bool forms_add(struct schema *s, struct forms *out, struct form f, bool ok);
bool forms_product(struct schema *s, struct forms *a, struct forms *b); /* a = a and b */
bool forms_sum(struct schema *s, struct forms *a, struct forms *b);     /* a = a or b  */
/* Add the forms of a literal, or multiply by them. */
bool forms_of_lit(struct schema *s, uint32_t lit, unsigned type, struct forms *out);
bool forms_and_lit(struct schema *s, struct forms *a, uint32_t lit, unsigned type);

/* schema_prune.c. Has a form no value, as the scalars of its required members show? */
bool form_fails(struct schema *s, const struct form *f);
/* Does every value of f satisfy g? Asked only of what one negated keyword says; false: not known. */
bool form_implies(struct schema *s, const struct form *f, const struct form *g);
/* Drop the forms that say more than f; true: f says more than one of them. Not below an unevaluated keyword. */
bool forms_absorb(struct forms *all, const struct form *f);

/* schema_logic.c: all keywords of w->sub, its type included */
bool work_schema(struct work *w);
/* schema_array.c */
bool array_keywords(struct work *w);
bool array_const(struct work *w, const struct json *v); /* equal to v */
/* schema_object.c */
bool object_keywords(struct work *w);
bool object_const(struct work *w, const struct json *v);

#endif
