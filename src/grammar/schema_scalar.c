/* schema_scalar.c - a schema's conditions on null, booleans, numbers and strings as regular
 * languages; see schema.h.
 *
 * Each scalar type has a universe, the language of all its values. Strings of a universe are
 * decoded. Its numbers have no exponent or, if s->scientific, one digit before the point and an
 * exponent (decimal.h). "Not valid" is the complement within the universe. */
#include "decimal.h"
#include "format.h"
#include "regex.h"
#include "schema.h"

#include <stdlib.h>
#include <string.h>

/* Return the index of a type in sub.lang and schema.universe. */
static int index_of(unsigned type)
{
    return __builtin_ctz(type);
}

static uint32_t make_universe(struct schema *s, unsigned type)
{
    struct exprs *x = &s->m.x;
    if (type == JT_NULL) return expr_bytes(x, "null", 4);
    if (type == JT_BOOL) return expr_or(x, expr_bytes(x, "true", 4), expr_bytes(x, "false", 5));
    if (type == JT_NUMBER && s->scientific) return expr_or(x, number_any(x), number_scientific(x));
    if (type == JT_NUMBER) return number_any(x);
    return expr_rep(x, expr_any_char(x), 0, EXPR_INF);
}

uint32_t lang_universe(struct schema *s, unsigned type)
{
    uint32_t *u = &s->universe[index_of(type)];
    if (*u == 0) *u = make_universe(s, type);
    return *u;
}

/* Return the intersection of two languages of a type. The universe is the neutral element, so it
 * never becomes an operand of AND. */
static uint32_t both(struct schema *s, unsigned type, uint32_t a, uint32_t b)
{
    uint32_t all = lang_universe(s, type);
    return a == all ? b : b == all ? a : expr_and(&s->m.x, a, b);
}

/* Return the universe without e. Return the operand of e if e is a complement of this form, so that
 * double negations do not grow. */
static uint32_t complement(struct schema *s, unsigned type, uint32_t e)
{
    struct exprs *x = &s->m.x;
    uint32_t all = lang_universe(s, type);
    const struct expr *it = &x->e[e];
    if (e == all || e == EXPR_EMPTY) return e == all ? EXPR_EMPTY : all;
    for (uint32_t i = 0; it->op == EX_AND && it->b == 2 && i < 2; i++) {
        uint32_t one = x->list.v[it->a + i], other = x->list.v[it->a + 1 - i];
        if (one == all && x->e[other].op == EX_NOT) return x->e[other].a;
    }
    return expr_and(x, all, expr_not(x, e));
}

/* ---- values ---- */

/* Read a number of the schema in the spelling of its text, because int64 and double cannot
 * represent every number. Return false if the number has too many digits, or after a failure. */
static bool schema_decimal(struct schema *s, const struct json *j, struct decimal *d)
{
    const uint32_t *known = strmap_get(&s->number_of, (const char *)&j, sizeof j);
    struct buf b = {0};
    if (known) return decimal_read(d, s->number.v[*known], strlen(s->number.v[*known]));
    json_put(&b, j);
    bool ok = !b.failed && decimal_read(d, b.data, b.n);
    if (b.failed) schema_no_memory(s);
    buf_deinit(&b);
    return ok;
}

/* Return the language of one value; EXPR_EMPTY if the value is of another type. */
static uint32_t lang_value(struct schema *s, uint32_t sub, const struct json *v, unsigned type)
{
    struct exprs *x = &s->m.x;
    struct decimal d;
    char value[80];
    size_t n;
    if (json_type_bit(v) != type) return EXPR_EMPTY;
    if (type == JT_NULL) return lang_universe(s, JT_NULL);
    if (type == JT_BOOL)
        return json_bool(v, false) ? expr_bytes(x, "true", 4) : expr_bytes(x, "false", 5);
    if (type == JT_TEXT) {
        const char *t = json_text(v, &n);
        return expr_bytes(x, t, n);
    }
    if (!schema_decimal(s, v, &d))
        return schema_fail(s, ERR_LIMIT, sub, NULL, "numbers must have at most %d digits, got %s",
                           DECIMAL_DIGITS_MAX, json_value_text(v, value)),
               EXPR_EMPTY;
    return number_equal(x, &d, s->scientific);
}

/* Return the language of the values of an enum that are of a type. */
static uint32_t lang_enum(struct schema *s, uint32_t sub, const struct json *list, unsigned type)
{
    VEC(uint32_t) v = {0};
    if (json_kind(list) != JK_LIST)
        return schema_fail(s, ERR_FORMAT, sub, "enum", "expected a list, got %s",
                           json_kind_name(json_kind(list))),
               EXPR_EMPTY;
    bool ok = true;
    for (size_t i = 0; ok && i < json_count(list); i++)
        ok = vec_push(&v, lang_value(s, sub, json_item(list, i), type));
    uint32_t e = ok ? expr_or_list(&s->m.x, v.v, v.n) : (schema_no_memory(s), EXPR_EMPTY);
    vec_deinit(&v);
    return e;
}

/* ---- numbers ---- */

/* Read a keyword whose value is a number. Return false if the keyword is absent, or after a
 * failure. */
static bool number_field(struct schema *s, uint32_t sub, const char *key, struct decimal *d)
{
    char value[80];
    const struct json *j = sub_field(s, sub, key);
    if (!j) return false;
    if (json_kind(j) != JK_INT && json_kind(j) != JK_REAL)
        return schema_fail(s, ERR_FORMAT, sub, key, "expected a number, got %s",
                           json_kind_name(json_kind(j)));
    return schema_decimal(s, j, d) ||
           schema_fail(s, ERR_LIMIT, sub, key, "must have at most %d digits, got %s",
                       DECIMAL_DIGITS_MAX, json_value_text(j, value));
}

/* Return true if multipleOf has no effect, because only integers are allowed and d is 0.1, 0.2 or
 * 0.5. */
static bool multiple_is_idle(struct schema *s, uint32_t sub, const struct decimal *d)
{
    bool integer;
    sub_types(s, sub, &integer);
    if (!integer || d->n_digit > 0 || d->n_fraction != 1) return false;
    return d->fraction[0] == '1' || d->fraction[0] == '2' || d->fraction[0] == '5';
}

/* Return true if some multipleOf has an effect. Numbers have no scientific notation if the result
 * is true, because number_multiple does not support it. */
bool schema_needs_multiples(struct schema *s)
{
    struct decimal d;
    for (uint32_t i = 1; i < s->sub.n && schema_ok(s); i++)
        if (number_field(s, i, "multipleOf", &d) && !multiple_is_idle(s, i, &d)) return true;
    return false;
}

/* Return the numbers within the bounds of a schema that are multiples of multipleOf. In draft 4
 * exclusiveMinimum and exclusiveMaximum are booleans. */
static uint32_t lang_number(struct schema *s, uint32_t sub)
{
    char value[80];
    struct exprs *x = &s->m.x;
    struct decimal d;
    bool draft4_open = s->draft == DRAFT_4, too_fine = false;
    uint32_t e = lang_universe(s, JT_NUMBER);
    if (number_field(s, sub, "minimum", &d)) {
        bool open = draft4_open && json_bool(sub_field(s, sub, "exclusiveMinimum"), false);
        e = both(s, JT_NUMBER, e, number_above(x, &d, !open, s->scientific));
    }
    if (number_field(s, sub, "maximum", &d)) {
        bool open = draft4_open && json_bool(sub_field(s, sub, "exclusiveMaximum"), false);
        e = both(s, JT_NUMBER, e,
                 complement(s, JT_NUMBER, number_above(x, &d, open, s->scientific)));
    }
    if (!draft4_open && number_field(s, sub, "exclusiveMinimum", &d))
        e = both(s, JT_NUMBER, e, number_above(x, &d, false, s->scientific));
    if (!draft4_open && number_field(s, sub, "exclusiveMaximum", &d))
        e = both(s, JT_NUMBER, e,
                 complement(s, JT_NUMBER, number_above(x, &d, true, s->scientific)));
    if (number_field(s, sub, "multipleOf", &d) && !multiple_is_idle(s, sub, &d)) {
        e = both(s, JT_NUMBER, e, number_multiple(x, &d, &too_fine));
        if (too_fine)
            schema_fail(s, ERR_UNSUPPORTED, sub, "multipleOf",
                        "must be above 0 and have at most 9 digits, got %s",
                        json_value_text(sub_field(s, sub, "multipleOf"), value));
    }
    return e;
}

/* ---- strings ---- */

/* Read a count, clamped to EXPR_INF. Return false if the keyword is absent, or after a failure. */
static bool count_field(struct schema *s, uint32_t sub, const char *key, uint32_t *n)
{
    char value[80];
    const struct json *j = sub_field(s, sub, key);
    if (!j) return false;
    int64_t k = json_int(j, -1);
    if (k < 0)
        return schema_fail(s, ERR_FORMAT, sub, key, "must be a number of at least 0, got %s",
                           json_value_text(j, value));
    *n = k >= EXPR_INF ? EXPR_INF : (uint32_t)k;
    return true;
}

/* Return the texts that contain a match of an ECMA pattern. */
static uint32_t lang_pattern(struct schema *s, uint32_t sub, const char *keyword,
                             const char *pattern, size_t n)
{
    struct regex_langs l;
    struct err e = {0};
    int rc = regex_parse(&s->m.x, pattern, n, REGEX_ECMA, &l, &e);
    if (rc) return schema_fail(s, rc, sub, keyword, "%.200s", e.text), EXPR_EMPTY;
    return l.found;
}

/* Return the strings that contentEncoding allows. contentEncoding and contentMediaType are
 * assertions in draft 7 with opt.check_format, and annotations in other cases. JSON within a string
 * is not supported, because it is not a regular language. */
static uint32_t lang_content(struct schema *s, uint32_t sub)
{
    static const char base64[] = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";
    const char *encoding = json_text(sub_field(s, sub, "contentEncoding"), NULL),
               *type = json_text(sub_field(s, sub, "contentMediaType"), NULL);
    if (s->draft != DRAFT_7 || !s->opt.check_format) return lang_universe(s, JT_TEXT);
    if (type && strcmp(type, "application/json") == 0)
        schema_fail(s, ERR_UNSUPPORTED, sub, "contentMediaType",
                    "JSON in a string: not supported yet");
    if (!encoding || strcmp(encoding, "base64") != 0) return lang_universe(s, JT_TEXT);
    return lang_pattern(s, sub, "contentEncoding", base64, sizeof base64 - 1);
}

/* Return the strings of a format. An unknown format is an annotation, so all strings are valid.
 * Times with a leap second are a separate alternative (expr_leap). */
static uint32_t lang_format(struct schema *s, uint32_t sub, const char *name)
{
    struct exprs *x = &s->m.x;
    struct regex_langs head;
    const char *known = format_pattern(name), *before = format_before_time(name);
    if (!known) return lang_universe(s, JT_TEXT);
    uint32_t e = lang_pattern(s, sub, "format", known, strlen(known));
    uint32_t n = format_length(name);
    if (n) e = expr_and(x, e, expr_rep(x, expr_any_char(x), 0, n));
    if (!before) return e;
    int rc = regex_parse(x, before, strlen(before), REGEX_ECMA, &head, NULL);
    if (rc) return schema_fail(s, rc, sub, "format", "too large"), EXPR_EMPTY;
    return expr_or(x, e, expr_cat(x, head.whole, expr_leap(x)));
}

static uint32_t lang_string(struct schema *s, uint32_t sub)
{
    struct exprs *x = &s->m.x;
    uint32_t min = 0, max = EXPR_INF, e;
    size_t n;
    count_field(s, sub, "minLength", &min);
    bool bounded = count_field(s, sub, "maxLength", &max);
    e = min > max ? EXPR_EMPTY : expr_rep(x, expr_any_char(x), min, bounded ? max : EXPR_INF);
    const struct json *pattern = sub_field(s, sub, "pattern"),
                      *format = sub_field(s, sub, "format");
    const char *t = json_text(pattern, &n);
    if (pattern && !t)
        return schema_fail(s, ERR_FORMAT, sub, "pattern", "expected a string, got %s",
                           json_kind_name(json_kind(pattern))),
               EXPR_EMPTY;
    if (t) e = both(s, JT_TEXT, e, lang_pattern(s, sub, "pattern", t, n));
    if (s->opt.check_format && json_text(format, NULL))
        e = both(s, JT_TEXT, e, lang_format(s, sub, json_text(format, NULL)));
    return both(s, JT_TEXT, e, lang_content(s, sub));
}

/* ---- boolean operators ---- */

/* Return the values of a type that all subschemas of a list accept. */
static uint32_t lang_all(struct schema *s, uint32_t sub, unsigned type, const char *key)
{
    const struct json *list = sub_field(s, sub, key);
    uint32_t e = lang_universe(s, type);
    for (size_t i = 0; i < json_count(list) && schema_ok(s); i++)
        e = both(s, type, e, lang_of(s, sub_of(s, json_item(list, i), sub, key), type));
    return e;
}

/* Return the values of a type that some subschema of anyOf accepts. */
static uint32_t lang_any(struct schema *s, uint32_t sub, unsigned type)
{
    const struct json *list = sub_field(s, sub, "anyOf");
    if (!list) return lang_universe(s, type);
    size_t n = json_count(list);
    uint32_t *v = malloc((n + 1) * sizeof *v), e;
    if (!v) return schema_no_memory(s), EXPR_EMPTY;
    for (size_t i = 0; i < n; i++)
        v[i] = schema_ok(s) ? lang_of(s, sub_of(s, json_item(list, i), sub, "anyOf"), type) : 0;
    e = expr_or_list(&s->m.x, v, n);
    free(v);
    return e;
}

/* Return the values of a type that exactly one subschema of oneOf accepts. After i subschemas,
 * `none` has the values that no subschema accepts. `one` has the values that exactly one subschema
 * accepts. */
static uint32_t lang_one(struct schema *s, uint32_t sub, unsigned type)
{
    struct exprs *x = &s->m.x;
    const struct json *list = sub_field(s, sub, "oneOf");
    if (!list) return lang_universe(s, type);
    uint32_t none = lang_universe(s, type), one = EXPR_EMPTY;
    for (size_t i = 0; i < json_count(list) && schema_ok(s); i++) {
        uint32_t e = lang_of(s, sub_of(s, json_item(list, i), sub, "oneOf"), type),
                 not_e = complement(s, type, e);
        one = expr_or(x, both(s, type, one, not_e), both(s, type, none, e));
        none = both(s, type, none, not_e);
    }
    return one;
}

/* Return the values of a type that the subschema of a keyword accepts; all values if the keyword is
 * absent. */
static uint32_t lang_field(struct schema *s, uint32_t sub, unsigned type, const char *key)
{
    const struct json *j = sub_field(s, sub, key);
    return j ? lang_of(s, sub_of(s, j, sub, key), type) : lang_universe(s, type);
}

static uint32_t lang_if(struct schema *s, uint32_t sub, unsigned type)
{
    struct exprs *x = &s->m.x;
    if (!sub_field(s, sub, "if") || s->draft < DRAFT_7) return lang_universe(s, type);
    uint32_t test = lang_field(s, sub, type, "if");
    uint32_t yes = both(s, type, test, lang_field(s, sub, type, "then"));
    uint32_t no = both(s, type, complement(s, type, test), lang_field(s, sub, type, "else"));
    return expr_or(x, yes, no);
}

/* Return the values of a type that a subschema accepts: the intersection over its keywords. */
static uint32_t lang_schema(struct schema *s, uint32_t sub, unsigned type)
{
    struct exprs *x = &s->m.x;
    bool integer;
    unsigned types = sub_types(s, sub, &integer);
    uint32_t all[16], n = 0, target = sub_target(s, sub);
    if (!(types & type)) return EXPR_EMPTY;
    if (target != NONE) all[n++] = lang_of(s, target, type);
    if (integer && type == JT_NUMBER)
        all[n++] = number_integer(x, s->draft > DRAFT_4, s->scientific);
    if (type == JT_NUMBER) all[n++] = lang_number(s, sub);
    if (type == JT_TEXT) all[n++] = lang_string(s, sub);
    const struct json *one = s->draft > DRAFT_4 ? sub_field(s, sub, "const") : NULL,
                      *some = sub_field(s, sub, "enum");
    if (one) all[n++] = lang_value(s, sub, one, type);
    if (some) all[n++] = lang_enum(s, sub, some, type);
    if (sub_field(s, sub, "not")) all[n++] = complement(s, type, lang_field(s, sub, type, "not"));
    all[n++] = lang_all(s, sub, type, "allOf");
    all[n++] = lang_any(s, sub, type);
    all[n++] = lang_one(s, sub, type);
    all[n++] = lang_if(s, sub, type);
    uint32_t e = lang_universe(s, type);
    for (uint32_t i = 0; i < n; i++) e = both(s, type, e, all[i]);
    return e;
}

uint32_t lang_of(struct schema *s, uint32_t sub, unsigned type)
{
    int k = index_of(type);
    if (!schema_ok(s) || !expr_spend(&s->m.x, 4)) return EXPR_EMPTY;
    if (sub == 0) return lang_universe(s, type);
    struct sub *it = &s->sub.v[sub];
    if (it->lang[k] != NONE) return it->lang[k];
    if (it->busy[k])
        return schema_fail(s, ERR_UNSUPPORTED, sub, "$ref", "leads back to itself"), EXPR_EMPTY;
    it->busy[k] = true;
    uint32_t e;
    if (it->is_const)
        e = lang_value(s, sub, it->j, type);
    else if (json_kind(it->j) == JK_BOOL)
        e = json_bool(it->j, true) ? lang_universe(s, type) : EXPR_EMPTY;
    else
        e = lang_schema(s, sub, type);
    it = &s->sub.v[sub]; /* s->sub may be reallocated */
    it->busy[k] = false;
    return it->lang[k] = e;
}

uint32_t lang_names(struct schema *s, uint32_t sub, bool negated)
{
    uint32_t e = lang_of(s, sub, JT_TEXT);
    return negated ? complement(s, JT_TEXT, e) : e;
}

/* ---- a set of literals ---- */

/* Return the values of a type that satisfy all literals of a set. */
static uint32_t lang_set(struct schema *s, uint32_t set, unsigned type)
{
    uint32_t e = lang_universe(s, type);
    for (uint32_t i = 0; i < s->set.v[set].n && schema_ok(s); i++) {
        uint32_t lit = s->lit.v[s->set.v[set].first + i], one = lang_of(s, lit / 2, type);
        e = both(s, type, e, lit & 1 ? complement(s, type, one) : one);
    }
    return e;
}

enum { INTEGER_DEPTH_MAX = 4 };

/* Return true if the types of a subschema show that integers are the only allowed numbers. */
static bool sub_is_integer(struct schema *s, uint32_t sub, int depth)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    bool integer;
    if (sub == 0 || s->sub.v[sub].is_const || json_kind(s->sub.v[sub].j) != JK_OBJECT) return false;
    if (depth > INTEGER_DEPTH_MAX || !schema_ok(s) || !expr_spend(&s->m.x, 4)) return false;
    if (!(sub_types(s, sub, &integer) & JT_NUMBER) || integer) return true;
    const uint32_t target = sub_target(s, sub);
    if (target != NONE && sub_is_integer(s, target, depth + 1)) return true;
    for (int k = 0; k < 3; k++) {
        const struct json *list = sub_field(s, sub, lists[k]);
        const size_t n = json_count(list);
        size_t n_integer = 0;
        for (size_t i = 0; i < n && (k == 0 ? n_integer == 0 : n_integer == i); i++)
            n_integer += sub_is_integer(s, sub_of(s, json_item(list, i), sub, lists[k]), depth + 1);
        if (n_integer > 0 && (k == 0 || n_integer == n)) return true;
    }
    return false;
}

/* Return true if a schema of the set allows only integers as numbers, so that no number has a
 * fraction. A search for a number with a fraction would take milliseconds. */
static bool has_integers_only(struct schema *s, uint32_t set)
{
    for (uint32_t i = 0; i < s->set.v[set].n; i++) {
        const uint32_t lit = s->lit.v[s->set.v[set].first + i];
        if (!(lit & 1) && sub_is_integer(s, lit / 2, 0)) return true;
    }
    return false;
}

/* Return e, the numbers of a set, restricted to their usual spelling. Return e unchanged if no
 * number has a usual spelling. The restriction limits the zeros that a model can repeat. The result
 * has the numbers of e with few digits (`small`) if e has a number with a fraction (`broken`).
 * Otherwise the result has the integers without a point (`whole`). */
static uint32_t plain_number(struct schema *s, uint32_t set, uint32_t e)
{
    static const char whole[] = "-?(?:0|[1-9][0-9]{0,18})",
                      small[] =
                          "-?(?:0|[1-9][0-9]{0,18})(?:[.][0-9]{1,17})?(?:[eE][+-]?[0-9]{1,3})?",
                      broken[] = "-?[0-9]+[.][0-9]*[1-9][0-9]*";
    struct exprs *x = &s->m.x;
    struct regex_langs w, m, b;
    if (regex_parse(x, whole, sizeof whole - 1, REGEX_ECMA, &w, NULL) ||
        regex_parse(x, small, sizeof small - 1, REGEX_ECMA, &m, NULL) ||
        regex_parse(x, broken, sizeof broken - 1, REGEX_ECMA, &b, NULL))
        return e; /* x->failed is set */
    bool fraction = !has_integers_only(s, set) && expr_alive(x, expr_and(x, e, b.whole));
    uint32_t plain = expr_and(x, e, fraction ? m.whole : w.whole);
    return expr_alive(x, plain) ? plain : e;
}

uint32_t set_scalar(struct schema *s, uint32_t set)
{
    struct exprs *x = &s->m.x;
    uint32_t number = lang_set(s, set, JT_NUMBER), text = lang_set(s, set, JT_TEXT);
    /* an exponent has any spelling if every number is valid */
    if (number == lang_universe(s, JT_NUMBER)) number = expr_or(x, number, number_exponent(x));
    if (s->opt.plain && number != EXPR_EMPTY) number = plain_number(s, set, number);
    uint32_t all[] = {notation_constant(s, lang_set(s, set, JT_NULL)),
                      notation_constant(s, lang_set(s, set, JT_BOOL)), notation_number(s, number),
                      notation_string(s, text)};
    return expr_or_list(x, all, 4);
}
