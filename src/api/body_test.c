/* Goal: each reader of a body's field accepts its type, and rejects every other value with the
 * field's name, without a change of the output. Method: read single fields of small bodies. */
#include "api_impl.h"
#include "dialect.h"

#include "../../tests/unit.h"

#include <stdlib.h>

/* Parse {"x": VALUE}, in which each ' of the value replaces a ". */
static struct json *body_of(const char *value)
{
    char text[400];
    struct json *j = NULL;
    struct err e = {0};
    int n = snprintf(text, sizeof text, "{\"x\": %s}", value);
    for (int i = 0; i < n; i++)
        if (text[i] == '\'') text[i] = '"';
    if (json_parse(&j, text, (size_t)n, NULL, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", text, e.text);
    return j;
}

/* A value and a reader's result for it. got: number that is read, -7 if none. */
struct read_case {
    const char *value; /* static */
    int rc;
    double got;
};

typedef int read_fn(const struct json *body, double *out, struct err *e);

static int read_real(const struct json *body, double *out, struct err *e)
{
    return body_real(body, "x", out, e);
}

static int read_int(const struct json *body, double *out, struct err *e)
{
    int64_t v = -7;
    int rc = body_int(body, "x", -3, 1000, &v, e);
    *out = (double)v;
    return rc;
}

static int read_flag(const struct json *body, double *out, struct err *e)
{
    bool v = true;
    int rc = body_flag(body, "x", &v, e);
    if (!v) *out = 0;
    return rc;
}

/* The number is the length of the text. */
static int read_text(const struct json *body, double *out, struct err *e)
{
    const char *v = NULL;
    int rc = body_text(body, "x", 5, &v, e);
    if (v) *out = (double)strlen(v);
    return rc;
}

/* The number is the number of ids, or the only id. */
static int read_ids(const struct json *body, double *out, struct err *e)
{
    struct arena a = {0};
    const int32_t *v = NULL;
    int n = -7, rc = body_ids(body, "x", &a, &v, &n, e);
    *out = n == 1 ? v[0] : n;
    arena_deinit(&a);
    return rc;
}

/* The number is the number of texts and ten times their bytes. */
static int read_texts(const struct json *body, double *out, struct err *e)
{
    struct arena a = {0};
    const struct text_span *v = NULL;
    int n = -7, rc = body_texts(body, "x", 3, &a, &v, &n, e);
    *out = n;
    for (int i = 0; i < n; i++) *out += 10 * (double)v[i].n;
    arena_deinit(&a);
    return rc;
}

static void check(read_fn *read, const struct read_case *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct json *body = body_of(c[i].value);
        struct err e = {0};
        double got = -7;
        int rc = read(body, &got, &e);
        if (rc != c[i].rc || got != c[i].got || (rc != 0 && strcmp(e.field, "x") != 0))
            test_fail(__FILE__, __LINE__, "%s: %d, %g, %s", c[i].value, rc, got, e.text);
        json_drop(body);
    }
}
#define CHECK_CASES(read, ...)                                                                     \
    do {                                                                                           \
        static const struct read_case c_[] = {__VA_ARGS__};                                        \
        check(read, c_, sizeof c_ / sizeof *c_);                                                   \
    } while (0)

TEST(body_numbers_and_flags)
{
    CHECK_CASES(read_real, {"1.5", 0, 1.5}, {"-2", 0, -2}, {"null", 0, -7}, {"'1'", ERR_ARG, -7},
                {"true", ERR_ARG, -7}, {"[1]", ERR_ARG, -7}, {"{}", ERR_ARG, -7});
    CHECK_CASES(read_int, {"16", 0, 16}, {"16.0", 0, 16}, {"-3", 0, -3}, {"1000", 0, 1000},
                {"null", 0, -7}, {"1001", ERR_ARG, -7}, {"-4", ERR_ARG, -7}, {"1.5", ERR_ARG, -7},
                {"1e300", ERR_ARG, -7}, {"-9.3e18", ERR_ARG, -7},
                {"9223372036854775807", ERR_ARG, -7}, {"'16'", ERR_ARG, -7}, {"false", ERR_ARG, -7},
                {"[]", ERR_ARG, -7});
    CHECK_CASES(read_flag, {"false", 0, 0}, {"true", 0, -7}, {"null", 0, -7}, {"0", ERR_ARG, -7},
                {"'false'", ERR_ARG, -7}, {"[]", ERR_ARG, -7});
}

TEST(body_texts_and_lists)
{
    CHECK_CASES(read_text, {"'abc'", 0, 3}, {"''", 0, 0}, {"'abcde'", 0, 5}, {"null", 0, -7},
                {"'abcdef'", ERR_ARG, -7}, {"'a\\u0000b'", ERR_ARG, -7}, {"5", ERR_ARG, -7},
                {"['a']", ERR_ARG, -7});
    CHECK_CASES(read_ids, {"[7]", 0, 7}, {"[7, 8.0, 2147483647]", 0, 3}, {"[]", 0, 0},
                {"null", 0, -7}, {"[2147483648]", ERR_ARG, -7}, {"[-1]", ERR_ARG, -7},
                {"[1.5]", ERR_ARG, -7}, {"[null]", ERR_ARG, -7}, {"['1']", ERR_ARG, -7},
                {"[[1]]", ERR_ARG, -7}, {"7", ERR_ARG, -7}, {"{'0': 7}", ERR_ARG, -7});
    CHECK_CASES(read_texts, {"'abc'", 0, 31}, {"['a', '', 'b\\u0000']", 0, 33}, {"[]", 0, 0},
                {"null", 0, -7}, {"['a', 'b', 'c', 'd']", ERR_LIMIT, -7}, {"['a', 5]", ERR_ARG, -7},
                {"['a', null]", ERR_ARG, -7}, {"[['a']]", ERR_ARG, -7}, {"5", ERR_ARG, -7},
                {"{'a': 'b'}", ERR_ARG, -7});
}

TEST(body_values_that_mean_off)
{
    static const char *const off[] = {"null", "false", "0", "0.0", "-0.0", "''", "[]", "{}"};
    static const char *const on[] = {"true", "1", "-0.5", "' '", "'\\u0000'", "[null]", "{'': 0}"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        struct json *body = body_of(off[i]);
        if (body_is_set(json_field(body, "x"))) test_fail(__FILE__, __LINE__, "%s", off[i]);
        json_drop(body);
    }
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        struct json *body = body_of(on[i]);
        if (!body_is_set(json_field(body, "x"))) test_fail(__FILE__, __LINE__, "%s", on[i]);
        json_drop(body);
    }
    EXPECT(!body_is_set(NULL));
}

/* Goal: only on a path of several dialects, the fields of a body select its dialect. */
TEST(body_fields_select_dialects_of_one_path)
{
    static const struct {
        const char *body, *path;
    } like[] = {{"{\"messages\":[],\"input\":\"a\"}", "/v1/chat/completions"},
                {"{\"input\":\"a\"}", "/v1/embeddings"},
                {"{\"prompt\":\"a\"}", "/v1/completions"},
                {"{\"messages\":null}", "/v1/completions"},
                {"{}", "/v1/completions"}};
    for (size_t i = 0; i < sizeof like / sizeof *like; i++) {
        struct json *body = NULL;
        struct err e;
        NEED_OK(json_parse(&body, like[i].body, strlen(like[i].body), NULL, &e), &e);
        if (dialect_of("/invocations", body) != dialect_find(like[i].path))
            test_fail(__FILE__, __LINE__, "%s", like[i].body);
        EXPECT(dialect_of("/v1/completions", body) == dialect_find("/v1/completions"));
        EXPECT(!dialect_of("/none", body));
        json_drop(body);
    }
}

TEST(body_paths_have_dialects)
{
    const struct dialect *chat = dialect_find("/v1/chat/completions");
    EXPECT(chat && dialect_find("/chat/completions") == chat);
    EXPECT(dialect_find("/completions") && dialect_find("/completions") != chat);
    static const char *const none[] = {"", "/v1/chat/completions/", "/V1/completions",
                                       "v1/completions", "/v1/completions?x=1"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (dialect_find(none[i])) test_fail(__FILE__, __LINE__, "%s", none[i]);
}
