/* peft.c - adapter_config.json of PEFT. Patterns of module names are Python's regular expressions.
 * PCRE2 matches these patterns, because its syntax is equal to Python's for module names.
 *
 *   {"peft_type": "LORA", "r": 16, "lora_alpha": 32, "use_rslora": false,
 *    "target_modules": ["q_proj", "v_proj"],  or "all-linear", or one pattern
 *    "rank_pattern": {"layers.0.*.q_proj": 8}, "alpha_pattern": {}}
 *
 * Unknown keys are errors, because many keys of LoraConfig, such as use_dora, change the result.
 * The list peft_keys.def has three kinds of keys: read in this file, without an effect on
 * inference, or accepted only with certain values. */
#include "adapter_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* MATCH_STEPS_MAX limits the backtracking of a hostile pattern. PATTERNS_MAX limits the patterns of
 * a key, because each pattern is compiled for each module. Plain names are not counted, because an
 * adapter may have a rank for each module. */
enum { CONFIG_BYTES_MAX = 1 << 20, MATCH_STEPS_MAX = 10000, PATTERNS_MAX = 256 };

/* ---- keys ---- */

/* A row of peft_keys.def. All texts are static. */
static const struct peft_key {
    const char *name;
    const char *only; /* accepted values, in JSON; NULL: all */
    const char *why;  /* unsupported feature that all other values require; NULL if none */
} keys[] = {
#define PEFT_READ(key)            {#key, NULL, NULL},
#define PEFT_IDLE(key, why)       {#key, NULL, NULL},
#define PEFT_ONLY(key, only, why) {#key, only, why},
#include "peft_keys.def"
#undef PEFT_READ
#undef PEFT_IDLE
#undef PEFT_ONLY
};

/* Return the row of a key of n bytes, which may contain NULs. NULL if the key is unknown. */
static const struct peft_key *find_key(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i].name) == n && memcmp(keys[i].name, name, n) == 0) return &keys[i];
    return NULL;
}

/* Set *found to true if the value is one of the accepted values `only`. `only` is a text such as "
 * null false [] ", with a blank before and after each value. The value's compact JSON between two
 * blanks must be a substring of `only`. */
static int is_among(bool *found, const struct json *value, const char *only, struct err *e)
{
    struct buf b = {0};
    buf_add_char(&b, ' ');
    json_put(&b, value);
    buf_add_char(&b, ' ');
    buf_add_char(&b, 0);
    int rc = b.failed ? err_memory(e, "a value", b.n) : 0;
    *found = rc == 0 && strstr(only, b.data);
    buf_deinit(&b);
    return rc;
}

/* Check one key of the configuration. Null is accepted for each key, also for unknown keys, because
 * PEFT writes null for options without a value. */
static int check_key(const struct peft *p, const char *name, size_t n, const struct json *value,
                     struct err *e)
{
    const struct peft_key *k = find_key(name, n);
    if (json_kind(value) == JK_NULL) return 0;
    if (!k) return err_set(e, ERR_UNSUPPORTED, "%s: %.60s: not supported yet", p->path, name);
    bool found = true;
    int rc = k->only ? is_among(&found, value, k->only, e) : 0;
    if (rc != 0 || found) return rc;
    return err_set(e, ERR_UNSUPPORTED, "%s: %s: not supported yet (%s)", p->path, k->name, k->why);
}

static int wrong_type(const struct peft *p, const char *key, const char *expected,
                      const struct json *found, struct err *e)
{
    return err_set(e, ERR_FORMAT, "%s: %s: expected %s, got %s", p->path, key, expected,
                   json_kind_name(json_kind(found)));
}

/* ---- values ---- */

/* Return the field; NULL if it is absent or null. */
static const struct json *field(const struct peft *p, const char *key)
{
    const struct json *j = json_field(p->root, key);
    return json_kind(j) == JK_NULL ? NULL : j;
}

static int read_rank(const struct peft *p, const char *key, const struct json *j, int64_t *out,
                     struct err *e)
{
    enum { RANK_MAX = 1 << 16 };
    if (json_kind(j) != JK_INT) return wrong_type(p, key, "an integer", j, e);
    *out = json_int(j, 0);
    if (*out >= 1 && *out <= RANK_MAX) return 0;
    return err_set(e, ERR_FORMAT, "%s: %s: must be in [1, %d], got %lld", p->path, key, RANK_MAX,
                   (long long)*out);
}

/* Read an alpha. Each finite number is accepted, also zero and negative numbers. x - x is 0 only if
 * x is finite. */
static int read_alpha(const struct peft *p, const char *key, const struct json *j, double *out,
                      struct err *e)
{
    *out = json_real(j, NAN);
    return *out - *out == 0 ? 0 : wrong_type(p, key, "a number", j, e);
}

/* Return true if a pattern is a plain end of a module name: its only special character is the dot.
 * The pattern may begin with ^ and end with $. */
static bool is_plain(const char *pattern)
{
    const char *from = pattern + (*pattern == '^');
    const size_t n =
        strspn(from, "._-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return from[n] == 0 || (from[n] == '$' && from[n + 1] == 0);
}

static int read_pattern(const struct peft *p, const char *key, const struct json **out,
                        struct err *e)
{
    int n = 0;
    *out = field(p, key);
    if (*out && json_kind(*out) != JK_OBJECT) return wrong_type(p, key, "an object", *out, e);
    for (void *it = json_first(*out); it; it = json_next(*out, it))
        n += !is_plain(json_it_key(it, NULL));
    if (n <= PATTERNS_MAX) return 0;
    return err_set(e, ERR_LIMIT, "%s: %s: must have at most %d regular expressions, got %d",
                   p->path, key, PATTERNS_MAX, n);
}

/* Read a list of names, or one pattern. */
static int read_names(const struct peft *p, const char *key, const struct json **out, struct err *e)
{
    const struct json *j = *out = field(p, key);
    if (!j || json_text(j, NULL)) return 0;
    if (json_kind(j) != JK_LIST) return wrong_type(p, key, "a list or a string", j, e);
    for (size_t i = 0; i < json_count(j); i++)
        if (!json_text(json_item(j, i), NULL))
            return wrong_type(p, key, "a list of strings", json_item(j, i), e);
    return 0;
}

/* Read layers_to_transform. Like PEFT, reject layers_to_transform together with a pattern of
 * targets. An empty list counts as absent. */
static int read_layers(struct peft *p, struct err *e)
{
    static const char key[] = "layers_to_transform";
    const struct json *j = field(p, key);
    const bool is_list = json_kind(j) == JK_LIST;
    if (!j || (is_list && json_count(j) == 0)) return 0;
    if (!is_list && json_kind(j) != JK_INT) return wrong_type(p, key, "an integer or a list", j, e);
    for (size_t i = 0; is_list && i < json_count(j); i++)
        if (json_kind(json_item(j, i)) != JK_INT)
            return wrong_type(p, key, "a list of integers", json_item(j, i), e);
    if (json_text(p->targets, NULL))
        return err_set(e, ERR_FORMAT, "%s: target_modules: expected a list with %s, got a string",
                       p->path, key);
    p->layers = j;
    return 0;
}

/* Set p->kind by the field peft_type. */
static int read_kind(struct peft *p, struct err *e)
{
    static const struct adapter_kind *const all[] = {
#define KIND(id) &adapter_kind_##id,
#include "kinds.def"
#undef KIND
    };
    const char *type = json_text(field(p, "peft_type"), NULL);
    for (size_t i = 0; type && i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->type, type) == 0) p->kind = all[i];
    for (size_t i = 0; p->kind && i < sizeof all / sizeof all[0]; i++)
        if (all[i] != p->kind && all[i]->field && field(p, all[i]->field))
            return err_set(e, ERR_UNSUPPORTED, "%s: %s: must not come with peft_type \"%s\"",
                           p->path, all[i]->field, type);
    if (p->kind) return 0;
    return err_set(e, ERR_UNSUPPORTED, "%s: peft_type: must be a supported kind, got \"%.40s\"",
                   p->path, type ? type : "");
}

/* Read the values. Absent fields have the defaults of PEFT's LoraConfig. */
static int read_values(struct peft *p, struct err *e)
{
    const struct json *r = field(p, "r"), *alpha = field(p, "lora_alpha"),
                      *rslora = field(p, "use_rslora");
    p->rank = p->alpha = 8;
    if (rslora && json_kind(rslora) != JK_BOOL)
        return wrong_type(p, "use_rslora", "true or false", rslora, e);
    p->rslora = json_bool(rslora, false);
    int rc = r ? read_rank(p, "r", r, &p->rank, e) : 0;
    if (rc == 0 && alpha) rc = read_alpha(p, "lora_alpha", alpha, &p->alpha, e);
    if (rc == 0) rc = read_pattern(p, "rank_pattern", &p->rank_pattern, e);
    if (rc == 0) rc = read_pattern(p, "alpha_pattern", &p->alpha_pattern, e);
    if (rc == 0) rc = read_names(p, "target_modules", &p->targets, e);
    if (rc == 0) rc = read_names(p, "exclude_modules", &p->excluded, e);
    return rc ? rc : read_layers(p, e);
}

int peft_open(struct peft *p, const char *path, struct err *e)
{
    p->path = path;
    int rc = json_read_file(&p->root, p->path, CONFIG_BYTES_MAX, e);
    if (rc == 0 && json_kind(p->root) != JK_OBJECT)
        rc = err_set(e, ERR_FORMAT, "%s: expected an object, got %s", p->path,
                     json_kind_name(json_kind(p->root)));
    for (void *it = rc == 0 ? json_first(p->root) : NULL; it && rc == 0;
         it = json_next(p->root, it)) {
        size_t n_key;
        const char *key = json_it_key(it, &n_key);
        rc = check_key(p, key, n_key, json_it_value(it), e);
    }
    if (rc == 0) rc = read_kind(p, e);
    return rc ? rc : read_values(p, e);
}

void peft_close(struct peft *p)
{
    json_drop(p->root);
    *p = (struct peft){0};
}

/* ---- modules ---- */

/* Set *found to true if the name matches before + pattern + after. The pattern is compiled in each
 * call, because there are few patterns and only loading uses them. pcre2_compile reports exhausted
 * memory by PCRE2_ERROR_HEAP_FAILED. All other failures are errors of the pattern. */
static int matches(const struct peft *p, const char *before, const char *pattern, const char *after,
                   const char *name, bool *found, struct err *e)
{
    struct buf b = {0};
    int why = 0, got = PCRE2_ERROR_NOMEMORY;
    PCRE2_SIZE at;
    buf_addf(&b, "%s%s%s", before, pattern, after);
    if (b.failed) return err_memory(e, "a pattern", b.n);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)b.data, b.n, PCRE2_ANCHORED | PCRE2_ENDANCHORED, &why, &at, NULL);
    pcre2_match_data *data = code ? pcre2_match_data_create(1, NULL) : NULL;
    pcre2_match_context *limits = code ? pcre2_match_context_create(NULL) : NULL;
    if (limits) pcre2_set_match_limit(limits, MATCH_STEPS_MAX);
    if (data && limits) got = pcre2_match(code, (PCRE2_SPTR)name, strlen(name), 0, 0, data, limits);
    const bool is_pattern = code || why == PCRE2_ERROR_HEAP_FAILED;
    pcre2_match_data_free(data);
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
    buf_deinit(&b);
    *found = got >= 0;
    if (got >= 0 || got == PCRE2_ERROR_NOMATCH) return 0;
    if (is_pattern && got == PCRE2_ERROR_NOMEMORY) return err_memory(e, "a pattern", 0);
    return err_set(e, ERR_FORMAT,
                   "%s: target_modules: must be a regular expression%s, got \"%.60s\"", p->path,
                   is_pattern ? " that is quick to match" : "", pattern);
}

/* Return true if the module's name is `name`, or ends with .name. A dot in `name` matches any
 * character if any_at_dot is true. */
static bool ends_with(const char *module, const char *name, size_t n_name, bool any_at_dot)
{
    const size_t n = strlen(module), first = n - n_name;
    if (n < n_name || (first > 0 && module[first - 1] != '.')) return false;
    for (size_t i = 0; i < n_name; i++)
        if (module[first + i] != name[i] && !(any_at_dot && name[i] == '.')) return false;
    return true;
}

/* Match a plain pattern (is_plain) without compiling it. ^ matches only at the beginning of the
 * name. */
static bool plain_matches(const char *module, const char *pattern)
{
    const bool whole = *pattern == '^';
    const size_t n = strcspn(pattern + whole, "$");
    if (whole && strlen(module) != n) return false;
    return ends_with(module, pattern + whole, n, true);
}

/* Return the value of the first pattern that the module's name ends with, as PEFT does; NULL if
 * none. */
static int of_pattern(const struct peft *p, const struct json *patterns, const char *module,
                      const struct json **value, struct err *e)
{
    int rc = 0;
    bool found = false;
    *value = NULL;
    for (void *it = json_first(patterns); it && rc == 0 && !found; it = json_next(patterns, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        if (strlen(key) != n)
            return err_set(e, ERR_FORMAT,
                           "%s: a pattern: must not contain NUL, got one at offset %zu", p->path,
                           strlen(key));
        if (is_plain(key))
            found = plain_matches(module, key);
        else
            rc = matches(p, "(?:.*\\.)?(?:", key, ")", module, &found, e);
        if (found) *value = json_it_value(it);
    }
    return rc;
}

int peft_module(const struct peft *p, const char *module, int64_t *rank, float *scale,
                struct err *e)
{
    const struct json *j;
    double alpha = p->alpha;
    *rank = p->rank;
    int rc = of_pattern(p, p->rank_pattern, module, &j, e);
    if (rc == 0 && j) rc = read_rank(p, "rank_pattern", j, rank, e);
    if (rc == 0) rc = of_pattern(p, p->alpha_pattern, module, &j, e);
    if (rc == 0 && j) rc = read_alpha(p, "alpha_pattern", j, &alpha, e);
    const double by = (double)*rank;
    *scale = (float)(alpha / (p->rslora ? sqrt(by) : by));
    if (rc != 0 || isfinite(*scale)) return rc;
    return err_set(e, ERR_FORMAT, "%s: %s: must give a finite scale, got %g for rank %lld", p->path,
                   j ? "alpha_pattern" : "lora_alpha", alpha, (long long)*rank);
}

size_t peft_n_target(const struct peft *p)
{
    return json_kind(p->targets) == JK_LIST ? json_count(p->targets) : 0;
}

/* Set *found to true if the module matches `names`, a list or one pattern. Set *whole to true if a
 * name is the full module name. Add 1 to count [n] of each matching name in the list; NULL: do not
 * count. */
static int is_among_names(const struct peft *p, const struct json *names, const char *module,
                          bool *found, bool *whole, int *count, struct err *e)
{
    const char *pattern = json_text(names, NULL);
    *found = *whole = false;
    if (pattern) return matches(p, "", pattern, "", module, found, e);
    for (size_t i = 0; i < json_count(names); i++) {
        size_t n;
        const char *name = json_text(json_item(names, i), &n);
        if (!ends_with(module, name, n, false)) continue;
        *found = true;
        *whole |= n == strlen(module);
        if (count) count[i]++;
    }
    return 0;
}

int peft_has_module(const struct peft *p, const char *key, const char *module, bool *found,
                    struct err *e)
{
    const struct json *names;
    bool whole;
    int rc = read_names(p, key, &names, e);
    return rc ? rc : is_among_names(p, names, module, found, &whole, NULL, e);
}

/* Return the index of the module's layer; -1 if none. The index is the first part of the dotted
 * name that is a number and follows at least two other parts. */
static int64_t layer_of(const char *module)
{
    const char *at = strchr(module, '.');
    for (at = at ? strchr(at + 1, '.') : NULL; at; at = strchr(at + 1, '.')) {
        const size_t n = strspn(at + 1, "0123456789");
        if (n > 0 && n < 10 && at[1 + n] == '.') return strtol(at + 1, NULL, 10);
    }
    return -1;
}

/* Return true if PEFT transforms the layer. */
static bool has_layer(const struct peft *p, int64_t layer)
{
    if (json_kind(p->layers) == JK_INT) return json_int(p->layers, -1) == layer;
    bool found = !p->layers;
    for (size_t i = 0; i < json_count(p->layers); i++)
        found |= json_int(json_item(p->layers, i), -1) == layer;
    return found && layer >= 0;
}

int peft_is_target(const struct peft *p, const char *module, int *target, struct err *e)
{
    const char *pattern = json_text(p->targets, NULL);
    const bool all = !p->targets || (pattern && strcasecmp(pattern, "all-linear") == 0);
    bool found, excluded, whole, ignored;
    int rc = is_among_names(p, p->excluded, module, &excluded, &ignored, NULL, e);
    if (rc == 0 && excluded)
        return err_set(
            e, ERR_FORMAT,
            "%s: exclude_modules: must not match a module with tensors, got a match of %s", p->path,
            module);
    if (rc == 0) rc = is_among_names(p, all ? NULL : p->targets, module, &found, &whole, target, e);
    if (rc == 0 && !all && !found)
        rc = err_set(e, ERR_FORMAT,
                     "%s: target_modules: must match all modules with tensors, got no match of %s",
                     p->path, module);
    if (rc != 0 || whole || !p->layers || has_layer(p, layer_of(module))) return rc;
    return err_set(e, ERR_FORMAT,
                   "%s: layers_to_transform: must have all layers with tensors, got none with %lld "
                   "of %s",
                   p->path, (long long)layer_of(module), module);
}
