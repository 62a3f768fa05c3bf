/* schema_form.c - forms: the conditions of literals on arrays or objects, as alternatives without
 * boolean operators; see schema.h.
 *
 * The condition of a literal on one type of value is a sum of forms, its disjunctive normal form.
 * For a positive literal, the forms of all keywords are multiplied. For a negative literal, the
 * forms of their negations are added. To take a keyword (work_take) is to combine its forms with
 * w->all. This file has the algebra of forms. The keywords are in schema_logic.c, schema_array.c
 * and schema_object.c. */
#include "schema_work.h"

#include <stdlib.h>
#include <string.h>

/* Maximum number of forms of a schema. A conjunction of anyOfs multiplies its alternatives, so the
 * number can be exponential in the schema's size. */
enum { FORMS_MAX = 512 };

void form_deinit(struct schema_form *f)
{
    vec_deinit(&f->item);
    vec_deinit(&f->count);
    vec_deinit(&f->required);
    vec_deinit(&f->member);
    vec_deinit(&f->witness);
}

void forms_deinit(struct forms *f)
{
    for (size_t i = 0; i < f->n; i++) form_deinit(&f->v[i]);
    vec_deinit(f);
}

/* ---- sets of literals ---- */

/* Return the set of the literals of `set` and lit; `set` after a failure. Literals are in ascending
 * order, so equal sets have equal numbers. */
uint32_t set_add(struct schema *s, uint32_t set, uint32_t lit)
{
    if (lit == LIT_TRUE || !schema_ok(s)) return set;
    uint32_t n = s->set.n ? s->set.v[set].n : 0, first = (uint32_t)s->lit.n, m = 0, v[64], *key = v;
    if (!expr_spend(&s->m.x, 4 + n / 4)) return set;
    if (n + 1 > 64 && !(key = malloc((n + 1) * sizeof *key))) return schema_no_memory(s), set;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t l = s->lit.v[s->set.v[set].first + i];
        if (m == i && l > lit) key[m++] = lit;
        key[m++] = l;
        if (l == lit) m = NONE, i = n; /* lit is in the set */
    }
    if (m == n) key[m++] = lit;
    uint32_t out = set;
    if (m != NONE) {
        const uint32_t *known = strmap_get(&s->set_of, (const char *)key, m * sizeof *key);
        bool ok = true;
        for (uint32_t i = 0; !known && ok && i < m; i++) ok = vec_push(&s->lit, key[i]);
        const char *copy = known ? NULL : arena_text(&s->arena, (const char *)key, m * sizeof *key);
        out = known ? *known : (uint32_t)s->set.n;
        if (!known &&
            !(ok && copy && vec_push(&s->set, ((struct lit_set){.first = first, .n = m})) &&
              strmap_put(&s->set_of, copy, m * sizeof *key, out)))
            schema_no_memory(s), out = set;
    }
    if (key != v) free(key);
    return out;
}

/* ---- forms: constants, sums, products ---- */

/* Append f. Free it after a failure. */
static bool forms_push(struct schema *s, struct forms *out, struct schema_form f)
{
    if (out->n >= FORMS_MAX) {
        form_deinit(&f);
        return schema_fail(s, ERR_UNSUPPORTED, s->at, NULL,
                           "more than %d combinations of alternatives", FORMS_MAX);
    }
    if (vec_push(out, f)) return true;
    form_deinit(&f);
    return schema_no_memory(s);
}

struct schema_form form_any(unsigned type)
{
    return (struct schema_form){.is_object = type == JT_OBJECT, .max = NONE, .unique = NONE};
}

bool forms_true(struct schema *s, struct forms *out, unsigned type)
{
    return forms_push(s, out, form_any(type));
}

/* Append the elements of `from` that are not in `to`. `ok` becomes false if memory is exhausted. */
#define APPEND(to, from)                                                                           \
    do {                                                                                           \
        for (size_t i_ = 0, k_; ok && i_ < (from).n; i_++) {                                       \
            for (k_ = 0; k_ < (to).n && memcmp(&(to).v[k_], &(from).v[i_], sizeof *(to).v) != 0;)  \
                k_++;                                                                              \
            ok = k_ < (to).n || vec_push(&(to), (from).v[i_]);                                     \
        }                                                                                          \
    } while (0)

/* Count the steps of work of APPEND in conjoin, which compares all pairs of elements. */
static bool spend_merge(struct schema *s, const struct schema_form *a, const struct schema_form *b)
{
    size_t n = a->item.n * b->item.n + a->required.n * b->required.n + a->member.n * b->member.n +
               a->witness.n * b->witness.n;
    return expr_spend(&s->m.x, 10 + n / 16);
}

/* Merge the conditions of b into a. Return false if memory is exhausted or a limit is reached. */
static bool conjoin(struct schema *s, struct schema_form *a, const struct schema_form *b)
{
    bool ok = spend_merge(s, a, b);
    if (b->min > a->min) a->min = b->min;
    if (b->max < a->max) a->max = b->max;
    if (a->unique == NONE) a->unique = b->unique;
    APPEND(a->item, b->item);
    APPEND(a->count, b->count);
    APPEND(a->required, b->required);
    APPEND(a->member, b->member);
    APPEND(a->witness, b->witness);
    if (b->n_evaluated > a->n_evaluated) a->n_evaluated = b->n_evaluated;
    a->evaluated = expr_or(&s->m.x, a->evaluated, b->evaluated);
    return ok || (schema_ok(s) && schema_no_memory(s));
}

/* Append the product of f and g (NULL: f alone) to `out` as one form. Drop a product with a minimum
 * above its maximum. Also drop a product without a value if `prune` is true. Then also remove a
 * form that implies another form of `out`, except in an unevaluated keyword. */
static bool add_product(struct schema *s, struct forms *out, const struct schema_form *f,
                        const struct schema_form *g, bool prune)
{
    struct schema_form both = form_any(f->is_object ? JT_OBJECT : JT_LIST);
    bool ok = conjoin(s, &both, f) && (!g || conjoin(s, &both, g));
    bool drop = !ok || both.min > both.max || (prune && form_fails(s, &both)) ||
                (prune && s->exact == 0 && forms_absorb(out, &both));
    if (!drop) return forms_push(s, out, both);
    form_deinit(&both);
    return ok && schema_ok(s);
}

/* Set a to the product of a and b, and empty b. A form of a that implies a form of b remains
 * unchanged (schema_prune.c). */
bool forms_product(struct schema *s, struct forms *a, struct forms *b)
{
    struct forms out = {0};
    bool ok = schema_ok(s), prune = b->n > 1 || a->n > 1;
    for (size_t i = 0; ok && i < a->n; i++) {
        bool implied = false;
        for (size_t k = 0; k < b->n && prune && s->exact == 0 && !implied; k++)
            implied = form_implies(s, &a->v[i], &b->v[k]);
        for (size_t k = 0; ok && k < (implied ? 1 : b->n); k++)
            ok = add_product(s, &out, &a->v[i], implied ? NULL : &b->v[k], prune);
    }
    forms_deinit(a), forms_deinit(b);
    *a = out;
    *b = (struct forms){0};
    return ok;
}

/* Set a to the sum of a and b: move the forms of b to the end of a. */
bool forms_sum(struct schema *s, struct forms *a, struct forms *b)
{
    bool ok = schema_ok(s);
    for (size_t i = 0; i < b->n; i++)
        if (ok)
            ok = forms_push(s, a, b->v[i]);
        else
            form_deinit(&b->v[i]);
    vec_deinit(b);
    return ok;
}

/* Multiply a by the forms of lit. */
bool forms_and_lit(struct schema *s, struct forms *a, uint32_t lit, unsigned type)
{
    struct forms b = {0};
    bool ok = forms_of_lit(s, lit, type, &b);
    return forms_product(s, a, &b) && ok;
}

/* Append f to `out`, which then owns it. `ok` is false if memory was exhausted while f was made. */
bool forms_add(struct schema *s, struct forms *out, struct schema_form f, bool ok)
{
    if (ok) return forms_push(s, out, f);
    form_deinit(&f);
    return schema_no_memory(s);
}

/* ---- parts of keywords ---- */

struct schema_form form_bounded(unsigned type, uint32_t min, uint32_t max)
{
    struct schema_form f = form_any(type);
    f.min = min, f.max = max;
    return f;
}

/* Combine w->all with the forms of one keyword. Use a product or, for a negative literal, a sum.
 * `ok` is false if making the forms failed. */
bool work_take(struct schema_work *w, struct forms *f, bool ok)
{
    if (w->negated) return forms_sum(w->s, &w->all, f) && ok;
    return forms_product(w->s, &w->all, f) && ok;
}

bool work_take_form(struct schema_work *w, struct schema_form f, bool made)
{
    struct forms one = {0};
    bool ok = forms_add(w->s, &one, f, made);
    return work_take(w, &one, ok);
}

bool work_take_lit(struct schema_work *w, uint32_t lit)
{
    struct forms f = {0};
    bool ok = forms_of_lit(w->s, lit, w->type, &f);
    return work_take(w, &f, ok);
}

bool work_count(struct schema *s, uint32_t sub, const char *key, uint32_t *n)
{
    char value[80];
    const struct json *j = sub_field(s, sub, key);
    if (!j) return false;
    int64_t k = json_int(j, -1);
    if (k < 0)
        return schema_fail(s, ERR_FORMAT, sub, key, "must be a number of at least 0, got %s",
                           json_value_text(j, value));
    *n = k > INT32_MAX ? INT32_MAX : (uint32_t)k;
    return true;
}

/* Take the minimum and maximum number of items or members. A minimum of 0 is always satisfied, so
 * its negation has no form. */
bool work_bounds(struct schema_work *w, const char *min_key, const char *max_key)
{
    uint32_t n;
    bool ok = true;
    if (work_count(w->s, w->sub, min_key, &n) && !(w->negated && n == 0))
        ok = work_take_form(
            w, w->negated ? form_bounded(w->type, 0, n - 1) : form_bounded(w->type, n, NONE), true);
    if (ok && work_count(w->s, w->sub, max_key, &n))
        ok = work_take_form(
            w, w->negated ? form_bounded(w->type, n + 1, NONE) : form_bounded(w->type, 0, n), true);
    return ok && schema_ok(w->s);
}

/* Take the condition that a value equals v, or its negation. v equals no value of w->type if the
 * type of v is another one. */
static bool const_forms(struct schema_work *w, const struct json *v)
{
    enum json_kind kind = w->type == JT_LIST ? JK_LIST : JK_OBJECT;
    if (json_kind(v) != kind) return !w->negated || forms_true(w->s, &w->all, w->type);
    if (!w->negated && !forms_true(w->s, &w->all, w->type)) return false;
    return w->type == JT_LIST ? array_const(w, v) : object_const(w, v);
}

/* ---- a literal, a set ---- */

bool forms_of_lit(struct schema *s, uint32_t lit, unsigned type, struct forms *out)
{
    uint32_t sub = lit / 2;
    bool negated = lit & 1;
    if (!schema_ok(s) || !expr_spend(&s->m.x, 20)) return false;
    const struct json *j = s->sub.v[sub].j;
    bool whole = sub == 0 || json_kind(j) == JK_BOOL;
    if (whole && !s->sub.v[sub].is_const)
        return (sub == 0 || json_bool(j, true)) == negated || forms_true(s, out, type);
    int k = type == JT_LIST ? 4 : 5;
    if (s->sub.v[sub].busy[k])
        return schema_fail(s, ERR_UNSUPPORTED, sub, "$ref", "leads back to itself");
    s->sub.v[sub].busy[k] = true;
    uint32_t above = s->at;
    s->at = sub;
    struct schema_work w = {.s = s, .sub = sub, .type = type, .negated = negated};
    bool ok = s->sub.v[sub].is_const ? const_forms(&w, j) : work_schema(&w);
    s->sub.v[sub].busy[k] = false;
    s->at = above;
    /* a subschema that is not valid evaluates no items or members */
    for (size_t i = 0; negated && i < w.all.n; i++)
        w.all.v[i].evaluated = EXPR_EMPTY, w.all.v[i].n_evaluated = 0;
    return forms_sum(s, out, &w.all) && ok;
}

bool forms_of_set(struct schema *s, uint32_t set, unsigned type, struct forms *out)
{
    bool ok = forms_true(s, out, type);
    for (uint32_t i = 0; ok && i < s->set.v[set].n; i++)
        ok = forms_and_lit(s, out, s->lit.v[s->set.v[set].first + i], type);
    return ok;
}
