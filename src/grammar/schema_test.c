/* Goal: the machine of a schema accepts exactly the valid instances, in three spellings. A schema
 * that cannot be enforced is rejected, and the error contains the keyword.
 *
 * Method: check every fourth schema of the JSON Schema Test Suite and the first 150 of MaskBench,
 * in ../shared/data. QUOTH_LONG checks all schemas. QUOTH_SCHEMA_VERBOSE=1 prints each
 * difference. */
#include "schema.h"
#include "base/os.h"
#include "base/utf8.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static const struct expr_limits LIMIT = {.bytes_max = 256u << 20, .row_max = 200000};
static const struct machine_limits SIZES = {1000000, 1000000, 2000, 2000};

/* Return true if the machine accepts the whole text. */
static bool takes(struct schema *s, const char *text, size_t n)
{
    uint32_t c = machine_begin(&s->m, schema_root(s));
    for (size_t i = 0; i < n && c != CONFIG_DEAD; i++) c = machine_next(&s->m, c, (uint8_t)text[i]);
    return c != CONFIG_DEAD && machine_accepts(&s->m, c);
}

/* ---- spellings of a value ---- */

/* Spellings of the current document's numbers that are not an int64. */
static struct {
    const struct json *j;
    char text[400];
} raw[4000];
static int n_raw;

/* Store the spelling of a number. Return false if `raw` is full. */
static bool note_raw(void *arg, const struct json *j, const char *text, size_t n)
{
    (void)arg;
    if (n_raw == 4000 || n >= sizeof raw->text) return false;
    raw[n_raw].j = j;
    memcpy(raw[n_raw].text, text, n);
    raw[n_raw++].text[n] = 0;
    return true;
}

static void spell_number(struct buf *b, const struct json *j)
{
    for (int i = 0; i < n_raw; i++)
        if (raw[i].j == j) {
            buf_add_text(b, raw[i].text);
            return;
        }
    json_put(b, j);
}

/* Parse a document, and fill `raw` with its numbers. */
static void read_document(struct json **j, const char *text, size_t n)
{
    struct err e = {0};
    n_raw = 0;
    NEED_OK(json_parse(j, text, n, &(struct json_limits){.number = note_raw}, &e), &e);
}

static void spell_text(struct buf *b, const struct json *j, bool escaped)
{
    size_t n;
    const char *t = json_text(j, &n);
    if (!escaped) {
        json_put_text(b, t, n);
        return;
    }
    buf_add_char(b, '"');
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int k = utf8_decode(t + i, n - i, &cp);
        if (k <= 0) break;
        i += (size_t)k;
        if (cp > 0xffff)
            buf_addf(b, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                     0xdc00 + ((cp - 0x10000) & 0x3ff));
        else
            buf_addf(b, "\\u%04x", cp);
    }
    buf_add_char(b, '"');
}

static void new_line(struct buf *b, int indent, int depth)
{
    if (indent) buf_addf(b, "\n%*s", indent * depth, "");
}

/* Append a value in a spelling. how: 0 compact, 1 indented, 2 with \u escapes in strings. */
static void spell(struct buf *b, const struct json *j, int how, int depth)
{
    int indent = how == 1 ? 2 : 0;
    if (json_kind(j) == JK_TEXT) {
        spell_text(b, j, how == 2);
    } else if (json_kind(j) == JK_LIST) {
        buf_add_char(b, '[');
        for (size_t i = 0; i < json_count(j); i++) {
            if (i) buf_add_char(b, ',');
            new_line(b, indent, depth + 1);
            spell(b, json_item(j, i), how, depth + 1);
        }
        if (json_count(j)) new_line(b, indent, depth);
        buf_add_char(b, ']');
    } else if (json_kind(j) == JK_OBJECT) {
        buf_add_char(b, '{');
        for (void *it = json_first(j); it; it = json_next(j, it)) {
            size_t n;
            const char *key = json_it_key(it, &n);
            if (it != json_first(j)) buf_add_char(b, ',');
            new_line(b, indent, depth + 1);
            if (how == 2) {
                struct json *k = NULL;
                struct buf q = {0};
                json_put_text(&q, key, n);
                if (json_parse(&k, q.data, q.n, NULL, NULL) == 0) spell_text(b, k, true);
                json_drop(k);
                buf_deinit(&q);
            } else {
                json_put_text(b, key, n);
            }
            buf_add_text(b, how == 1 ? ": " : ":");
            spell(b, json_it_value(it), how, depth + 1);
        }
        if (json_count(j)) new_line(b, indent, depth);
        buf_add_char(b, '}');
    } else {
        spell_number(b, j);
    }
}

/* Counts of schemas and of cases; a case is one instance in one spelling. */
struct tally {
    int compiled, refused, wrong_accept, wrong_refuse, n_case;
};

static void run_cases(struct schema *s, const struct json *tests, const char *name, struct tally *t)
{
    for (size_t i = 0; i < json_count(tests); i++) {
        const struct json *one = json_item(tests, i), *data = json_field(one, "data");
        bool want = json_bool(json_field(one, "valid"), false);
        for (int how = 0; how < 3; how++) {
            struct buf b = {0};
            spell(&b, data, how, 0);
            bool got = takes(s, b.data, b.n);
            t->n_case++;
            if (got != want) {
                *(want ? &t->wrong_refuse : &t->wrong_accept) += 1;
                if (getenv("QUOTH_SCHEMA_VERBOSE"))
                    test_note("%s: %s %s: %.300s%s", want ? "REFUSED" : "ACCEPTED", name,
                              json_text(json_field(one, "description"), NULL), b.data,
                              s->rc || s->m.x.failed ? " (failed)" : "");
            }
            buf_deinit(&b);
        }
    }
}

/* Return true for files of the suite that need annotations or features that are not supported
 * yet. */
static bool left_out(const char *file)
{
    static const char *const part[] = {
        "/optional/format/idn-",         "/optional/format/iri",
        "/optional/format/uri-template", "/optional/format/ecmascript-regex",
        "/optional/format/regex",        "/optional/format/hostname"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (strstr(file, part[i])) return true;
    return strstr(file, "draft2020-12/format.json") != NULL;
}

static void run_schema(const struct json *schema, const struct json *tests, const char *name,
                       const struct schema_options *opt, struct tally *t)
{
    struct schema s;
    struct buf text = {0};
    struct err e = {0};
    spell(&text, schema, 0, 0);
    if (schema_open(&s, text.data, text.n, opt, LIMIT, SIZES, &e) == 0) {
        t->compiled++;
        run_cases(&s, tests, name, t);
        schema_close(&s);
    } else {
        t->refused++;
        if (getenv("QUOTH_SCHEMA_VERBOSE")) test_note("refused: %s: %s", name, e.text);
    }
    buf_deinit(&text);
}

TEST(schema_suite)
{
    static const char *const folder[] = {"draft7", "draft2020-12"};
    char list[4096];
    const char *path = data_path("json/JSON-Schema-Test-Suite/tests");
    if (!path) {
        test_skip("no JSON-Schema-Test-Suite");
        return;
    }
    struct tally t = {0};
    int n_schema = 0;
    for (int d = 0; d < 2; d++) {
        snprintf(list, sizeof list, "find %s/%s -name '*.json' | sort", path, folder[d]);
        FILE *p = popen(list, "r"); /* check: the command is the test's own */
        char file[1024];
        while (p && fgets(file, sizeof file, p)) {
            file[strcspn(file, "\n")] = 0;
            struct json *j = NULL;
            struct err e = {0};
            struct buf whole = {0};
            bool format = strstr(file, "/optional/format") != NULL;
            if (left_out(file)) continue;
            NEED_OK(file_read(&whole, file, 1 << 24, &e), &e);
            read_document(&j, whole.data, whole.n);
            buf_deinit(&whole);
            for (size_t i = 0; i < json_count(j); i++) {
                const struct json *one = json_item(j, i);
                char name[1400];
                if (!test_long() && n_schema++ % 4 != 0) continue;
                snprintf(name, sizeof name, "%s %s", file + strlen(path) + 1,
                         json_text(json_field(one, "description"), NULL));
                struct schema_options opt = {.any_order = true,
                                             .check_format = format || d == 0,
                                             .draft = d ? DRAFT_2020 : DRAFT_7};
                run_schema(json_field(one, "schema"), json_field(one, "tests"), name, &opt, &t);
            }
            json_drop(j);
        }
        if (p) pclose(p);
    }
    EXPECT(t.wrong_accept == 0 && t.wrong_refuse == 0 && t.compiled >= 7 * t.refused);
    test_note("%d compiled, %d refused; %d wrong accepts, %d wrong refusals of %d", t.compiled,
              t.refused, t.wrong_accept, t.wrong_refuse, t.n_case);
}

TEST(schema_maskbench)
{
    const char *path = data_path("json/maskbench_half.jsonl");
    if (!path) {
        test_skip("no MaskBench");
        return;
    }
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    struct tally t = {0};
    int n = 0, right = 0;
    while (f && getline(&line, &cap, f) > 0) {
        struct json *j = NULL;
        read_document(&j, line, strlen(line));
        const struct json *doc = json_field(j, "doc");
        struct schema_options opt = {.any_order = true, .check_format = true, .draft = DRAFT_2020};
        struct tally one = {0};
        run_schema(json_field(doc, "schema"), json_field(doc, "tests"),
                   json_text(json_field(j, "file"), NULL), &opt, &one);
        n++;
        right += one.compiled && !one.wrong_accept && !one.wrong_refuse;
        t.compiled += one.compiled, t.wrong_accept += one.wrong_accept,
            t.wrong_refuse += one.wrong_refuse, t.n_case += one.n_case;
        json_drop(j);
        if (n >= 150 && !test_long()) break;
    }
    free(line);
    if (f) fclose(f);
    EXPECT(t.wrong_accept == 0 && right * 941 >= n * 905);
    test_note("%d of %d files right; %d compiled; %d wrong accepts, %d wrong refusals of %d", right,
              n, t.compiled, t.wrong_accept, t.wrong_refuse, t.n_case);
}

/* ---- cases that the suites lack ---- */

TEST(schema_order_counts_and_unique_values)
{
    static const struct {
        const char *schema;
        bool any_order;
        const char *takes, *refuses; /* texts, separated by '|' */
    } c[] = {
        {"{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}}}", false,
         "{}|{\"b\":1,\"a\":2}|{\"a\":1}|{\"b\":1,\"x\":2}", "{\"a\":1,\"b\":2}|{\"x\":1,\"a\":2}"},
        {"{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}}}", true,
         "{}|{\"a\":1,\"b\":2}|{\"x\":1,\"a\":2}", "{\"a\":1,\"a\":2}"},
        {"{\"type\":\"object\",\"minProperties\":1}", true,
         "{\"a\":1}|{\"a\":1,\"b\":2}|{\"a\":1,\"b\":2,\"c\":3}", "{}"},
        {"{\"type\":\"object\",\"minProperties\":2,\"required\":[\"a\"]}", false,
         "{\"a\":1,\"b\":2}|{\"a\":1,\"x\":2,\"y\":3}", "{}|{\"a\":1}|{\"b\":1,\"c\":2}"},
        {"{\"type\":\"object\",\"minProperties\":2,\"patternProperties\":{\"^(x|y[12])$\":{}},"
         "\"properties\":{\"b\":{},\"a\":{}},\"additionalProperties\":false}",
         false,
         "{\"y1\":1,\"x\":2}|{\"b\":1,\"y2\":2}|{\"b\":1,\"a\":2}|{\"a\":0,\"x\":1,\"y1\":2,\"y2\":"
         "3}",
         "{}|{\"x\":1}|{\"x\":1,\"x\":2}|{\"x\":1,\"b\":2}|{\"a\":1,\"b\":2}|{\"x\":1,\"y3\":2}"},
        {"{\"type\":\"object\",\"minProperties\":3,\"propertyNames\":{\"enum\":[\"p\",\"q\",\"r\"]}"
         "}",
         true, "{\"q\":1,\"p\":2,\"r\":3}",
         "{\"q\":1,\"p\":2}|{\"q\":1,\"p\":2,\"q\":3}|{\"q\":1,\"q\":2,\"q\":3}"},
        {"{\"type\":\"object\",\"minProperties\":2,\"properties\":{\"a\":{},\"b\":{},\"c\":{}},"
         "\"additionalProperties\":false}",
         false, "{\"a\":1,\"b\":2}|{\"a\":1,\"c\":3}|{\"b\":1,\"c\":3}", "{}|{\"c\":1}|{\"b\":1}"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[\"r\",1,[2],null]}}", true,
         "[]|[\"r\"]|[null,[2],1,\"r\"]", "[\"r\",\"r\"]|[1,1.0]|[[2],1,[2]]|[3]"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"items\":{\"$ref\":\"#/$defs/"
         "e\"},"
         "\"$defs\":{\"e\":{\"enum\":[\"r\",\"g\"]}}}",
         true, "[\"r\",\"g\"]|[\"g\",\"r\"]", "[]|[\"r\"]|[\"g\",\"g\"]|[\"r\",\"g\",\"r\"]"},
        {"{\"type\":\"array\",\"items\":[{\"type\":\"integer\"},{\"type\":\"string\"}],"
         "\"minItems\":2,"
         "\"additionalItems\":false}",
         true, "[1,\"a\"]", "[]|[1]|[\"a\",1]|[1,\"a\",1]"},
        {"{\"items\":[{\"type\":\"integer\"}]}", true, "[]|[1]|[1,\"a\"]|5", "[\"a\"]"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct schema s;
        struct err e = {0};
        struct schema_options opt = {.any_order = c[i].any_order, .draft = DRAFT_2020};
        NEED_OK(schema_open(&s, c[i].schema, strlen(c[i].schema), &opt, LIMIT, SIZES, &e), &e);
        for (int wrong = 0; wrong < 2; wrong++)
            for (const char *t = wrong ? c[i].refuses : c[i].takes, *end; t;
                 t = *end ? end + 1 : NULL) {
                end = t + strcspn(t, "|");
                if (takes(&s, t, (size_t)(end - t)) == wrong)
                    test_fail(__FILE__, __LINE__, "%zu: %.*s: %s", i, (int)(end - t), t,
                              wrong ? "taken" : "refused");
            }
        schema_close(&s);
    }
}

/* Goal: a schema is rejected if repeated names could satisfy minProperties and cannot be
 * counted. */
TEST(schema_refuses_minimums_of_repeated_names)
{
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"minProperties\":2}",
        "{\"minProperties\":3,\"required\":[\"a\"]}",
        "{\"minProperties\":2,\"additionalProperties\":{\"type\":\"null\"}}",
        "{\"minProperties\":2,\"propertyNames\":{\"pattern\":\"^[a-z]{2}$\"}}",
        "{\"minProperties\":2,\"propertyNames\":{\"pattern\":\"^a*b$\"}}",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        struct schema s;
        struct err e = {0};
        const struct schema_options opt = {.draft = DRAFT_2020};
        EXPECT_INT(schema_open(&s, schemas[i], strlen(schemas[i]), &opt, LIMIT, SIZES, &e),
                   ERR_UNSUPPORTED);
        EXPECT(strstr(e.text, "minProperties"));
    }
}

TEST(schema_refuses_unique_items_of_many_values)
{
    static const char *const schemas[] = {
        "{\"type\":\"array\",\"uniqueItems\":true}",
        "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2,3,4,5,6,7,8,9]}}",
        "{\"type\":\"array\",\"uniqueItems\":true,\"prefixItems\":[{}],\"items\":{\"enum\":[1]}}",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        struct schema s;
        struct err e = {0};
        const struct schema_options opt = {.draft = DRAFT_2020};
        EXPECT_INT(schema_open(&s, schemas[i], strlen(schemas[i]), &opt, LIMIT, SIZES, &e),
                   ERR_UNSUPPORTED);
        EXPECT(strstr(e.text, "uniqueItems"));
    }
}

TEST(schema_lists_of_items_are_of_older_drafts)
{
    static const char text[] = "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
                               "\"items\":[{\"type\":\"integer\"}]}";
    struct schema s;
    struct err e = {0};
    const struct schema_options opt = {.draft = DRAFT_2020};
    EXPECT_INT(schema_open(&s, text, strlen(text), &opt, LIMIT, SIZES, &e), ERR_FORMAT);
    EXPECT(strstr(e.text, "#/items"));
}

TEST(schema_formats_have_lengths)
{
    static const struct {
        const char *schema, *before; /* the text is `before`, then labels of 9 characters */
        size_t most;                 /* maximum number of characters of the string */
    } c[] = {{"{\"type\":\"string\",\"format\":\"hostname\"}", "", 253},
             {"{\"type\":\"string\",\"format\":\"email\"}", "a@", 254}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (size_t n = c[i].most - 2; n < c[i].most + 3; n++) {
            const struct schema_options opt = {.check_format = true, .draft = DRAFT_2020};
            struct schema s;
            struct err e = {0};
            struct buf b = {0};
            buf_addf(&b, "\"%s", c[i].before);
            while (b.n < n + 1) buf_add_char(&b, b.n % 10 == 5 && b.n < n - 1 ? '.' : 'a');
            buf_add_char(&b, '"');
            NEED_OK(schema_open(&s, c[i].schema, strlen(c[i].schema), &opt, LIMIT, SIZES, &e), &e);
            EXPECT(takes(&s, b.data, b.n) == (n <= c[i].most));
            schema_close(&s);
            buf_deinit(&b);
        }
}

/* Goal: one member may be the witness of several conditions. */
TEST(schema_witnesses_share_a_member)
{
#define SOME(condition) "{\"not\":{\"additionalProperties\":{\"not\":" condition "}}}"
    static const char *const schema[] = {
        "{\"type\":\"object\",\"maxProperties\":1,\"allOf\":[" SOME("{\"minimum\":3}") "," SOME(
            "{\"maximum\":9}") "," SOME("{\"type\":\"integer\"}") "]}",
        "{\"type\":\"object\",\"maxProperties\":1,\"required\":[\"a\"],\"properties\":{\"a\":{"
        "\"type\":"
        "\"integer\"}},\"allOf\":[" SOME("{\"minimum\":3}") "," SOME("{\"maximum\":9}") "]}"};
#undef SOME
    for (int i = 0; i < 2; i++) {
        const struct schema_options opt = {.draft = DRAFT_2020};
        struct schema s;
        struct err e = {0};
        NEED_OK(schema_open(&s, schema[i], strlen(schema[i]), &opt, LIMIT, SIZES, &e), &e);
        EXPECT(takes(&s, "{\"a\":5}", 7) && !takes(&s, "{\"a\":1}", 7));
        EXPECT(!takes(&s, "{\"a\":11}", 8) && !takes(&s, "{}", 2));
        EXPECT(!takes(&s, "{\"a\":1,\"b\":5}", 13));
        schema_close(&s);
    }
    /* texts in which no member is both above 9 and below 3 */
    static const char no[] =
        "{\"type\":\"object\",\"maxProperties\":1,\"required\":[\"a\"],\"properties\":{"
        "\"a\":{\"type\":\"integer\"}},\"allOf\":[{\"not\":{\"additionalProperties\":{"
        "\"not\":{\"minimum\":9}}}},{\"not\":{\"additionalProperties\":{\"not\":{"
        "\"maximum\":3}}}}]}";
    const struct schema_options opt = {.draft = DRAFT_2020};
    struct schema s;
    struct err e = {0};
    EXPECT(schema_open(&s, no, sizeof no - 1, &opt, LIMIT, SIZES, &e) == ERR_FORMAT);
}

/* Goal: the white space between two tokens matches the option's expression. */
TEST(schema_white_space_of_an_expression)
{
    static const char text[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\"},"
                               "\"b\":{}},\"additionalProperties\":false}";
    static const struct {
        const char *pattern, *yes[3], *no[3];
    } rows[] = {
        {"", {"{}", "{\"a\":[1,2],\"b\":null}"}, {"{ }", "{\"a\": 1}", " {}"}},
        {" ", {"{ }", "{ \"a\" : [ ] }", "{ \"a\" : [ 1 , 2 ] , \"b\" : 3 }"}, {"{}", " { } "}},
        {"\\n *", {"{\n}", "{\n  \"a\"\n:\n [\n]\n}"}, {"{\n\t}", "{}", "{ \n}"}},
        {"\\s?x?", {"{}", "{\r\"a\" :[ ]}"}, {"{  }", "{x}", "{\f}"}},
        {"^[ \\t]?$", {"{}", "{\t\"a\" :[ ]}"}, {"{  }", "{\n}"}},
    };
    static const char *const refused[] = {"x", "[ ", "[ ]{65}", "(?= )", "[^\\s]"};
    struct schema_options o = {.plain = true, .draft = DRAFT_2020};
    struct err e = {0};
    struct schema s;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        o.white_space = rows[i].pattern;
        NEED_OK(schema_open(&s, text, sizeof text - 1, &o, LIMIT, SIZES, &e), &e);
        for (int k = 0; k < 3; k++) {
            const char *yes = rows[i].yes[k], *no = rows[i].no[k];
            if (yes && !takes(&s, yes, strlen(yes))) test_fail(__FILE__, __LINE__, "%s", yes);
            if (no && takes(&s, no, strlen(no))) test_fail(__FILE__, __LINE__, "%s", no);
        }
        schema_close(&s);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        o.white_space = refused[i];
        EXPECT(schema_open(&s, text, sizeof text - 1, &o, LIMIT, SIZES, &e) != 0);
        EXPECT(strstr(e.text, "white space"));
    }
}

/* Goal: integers in their usual spelling need little work, also with bounds. A search for a
 * fraction among their spellings needed 900,000 steps. Integers have no fraction, other numbers
 * have one. */
TEST(schema_plain_integers_need_little_work)
{
    static const struct {
        const char *schema, *yes, *no;
    } rows[] = {
        {"{\"type\":\"integer\",\"minimum\":-5,\"maximum\":70}", "-5", "1.0"},
        {"{\"type\":\"integer\"}", "70", "1.5"},
        {"{\"type\":[\"integer\",\"null\"],\"maximum\":99}", "99", "9.5"},
        {"{\"anyOf\":[{\"type\":\"integer\",\"minimum\":3},{\"type\":\"null\"}]}", "3", "2"},
        {"{\"allOf\":[{\"$ref\":\"#/$defs/i\"},{}],\"$defs\":{\"i\":{\"type\":\"integer\","
         "\"maximum\":7}}}",
         "-7", "8"},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"number\",\"maximum\":2}]}", "1.5", "2.5"},
        {"{\"type\":\"number\",\"minimum\":-5,\"maximum\":70}", "1.5", "71"},
        {"{\"type\":[\"integer\",\"number\"],\"maximum\":9}", "1.5", "9.5"},
        {"{\"not\":{\"type\":\"integer\"},\"type\":\"number\"}", "1.5", "2"},
        {"{\"const\":1.5}", "1.5", "1"},
        {"{\"enum\":[{\"type\":\"integer\"},0.5]}", "0.5", "1"},
    };
    struct schema_options o = {.plain = true, .draft = DRAFT_2020};
    struct err e = {0};
    struct schema s;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        NEED_OK(schema_open(&s, rows[i].schema, strlen(rows[i].schema), &o, LIMIT, SIZES, &e), &e);
        if (exprs_work(&s.m.x) > 20000)
            test_fail(__FILE__, __LINE__, "%s: %lld steps", rows[i].schema,
                      (long long)exprs_work(&s.m.x));
        if (!takes(&s, rows[i].yes, strlen(rows[i].yes)))
            test_fail(__FILE__, __LINE__, "%s rejects %s", rows[i].schema, rows[i].yes);
        if (takes(&s, rows[i].no, strlen(rows[i].no)))
            test_fail(__FILE__, __LINE__, "%s accepts %s", rows[i].schema, rows[i].no);
        schema_close(&s);
    }
}
