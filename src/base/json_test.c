/* json_test.c - the guarantees of json.h, and all of JSONTestSuite. */
#include "json.h"
#include "os.h"
#include "rng.h"
#include "../../tests/unit.h"

#include <math.h>
#include <stdlib.h>

static struct json *parse(const char *text, struct err *e)
{
    struct json *j;
    return json_parse(&j, text, strlen(text), NULL, e) == 0 ? j : NULL;
}

/* Return the value of a text as json_put writes it, in a static ring. Return "error: ..." if the
 * text is rejected. */
static const char *rewritten_n(const char *text, size_t n)
{
    static char ring[4][1024];
    static int next;
    char *out = ring[next++ % 4];
    struct err e;
    struct json *j;
    struct buf b = {0};
    if (json_parse(&j, text, n, NULL, &e) == 0)
        json_put(&b, j);
    else
        buf_addf(&b, "error: %s", e.text);
    snprintf(out, sizeof ring[0], "%s", b.data);
    buf_deinit(&b);
    json_drop(j);
    return out;
}

static const char *rewritten(const char *text)
{
    return rewritten_n(text, strlen(text));
}

TEST(json_text_forms)
{
    /* Goal: the output is compact, keeps the order, and has the same value. */
    EXPECT_TEXT(rewritten(" { \"b\" : [ 1 , -2.50, true,false,null ] , \"a\":{} } "),
                "{\"b\":[1,-2.5,true,false,null],\"a\":{}}");
    EXPECT_TEXT(rewritten("\"\\u00e9\\t\\\"\\\\\\/\\u0001\\ud83d\\ude00\""),
                "\"\xC3\xA9\\t\\\"\\\\/\\u0001\xF0\x9F\x98\x80\"");
    EXPECT_TEXT(rewritten("[]"), "[]");
    EXPECT_TEXT(rewritten("7"), "7");
}

TEST(json_lone_surrogates)
{
    /* Goal: each lone surrogate escape becomes one U+FFFD. Pairs and escaped backslashes are
     * unchanged. */
    EXPECT_TEXT(rewritten("\"\\ud800\""), "\"\xEF\xBF\xBD\"");
    EXPECT_TEXT(rewritten("\"a\\uDC00b\""), "\"a\xEF\xBF\xBD"
                                            "b\"");
    EXPECT_TEXT(rewritten("\"\\ud800\\ud800\\udc00\""), "\"\xEF\xBF\xBD\xF0\x90\x80\x80\"");
    EXPECT_TEXT(rewritten("\"\\ud800\\n\""), "\"\xEF\xBF\xBD\\n\"");
    EXPECT_TEXT(rewritten("\"\\\\ud800\""), "\"\\\\ud800\"");
    EXPECT_TEXT(rewritten("{\"\\udfff\":1}"), "{\"\xEF\xBF\xBD\":1}");
    EXPECT(strncmp(rewritten("\"\\ud8zz\""), "error: line 1", 13) == 0);
}

TEST(json_nul)
{
    /* Goal: \u0000 is kept in values and in keys. A NUL byte is an error. */
    struct err e;
    struct json *j =
        parse("{\"a\\u0000b\":\"x\\u0000y\",\"\\uFDD0\":2,\"\xEF\xB7\x91\":[{\"\\u0000\":3}]}", &e);
    NEED(j);
    size_t n;
    const char *text = json_text(json_field_n(j, "a\0b", 3), &n);
    EXPECT(text && n == 3 && memcmp(text, "x\0y", 3) == 0);
    /* NULL instead of "x", the part before the NUL */
    EXPECT(!json_text(json_field_n(j, "a\0b", 3), NULL));
    EXPECT_INT(json_int(json_field(j, "\xEF\xB7\x90"), 0), 2);
    EXPECT_INT(json_int(json_field_n(json_item(json_field(j, "\xEF\xB7\x91"), 0), "\0", 1), 0), 3);
    const char *key = json_it_key(json_first(j), &n);
    EXPECT(n == 3 && memcmp(key, "a\0b", 3) == 0);
    json_drop(j);
    EXPECT_TEXT(rewritten("{\"a\\u0000\":[\"\\u0000\"]}"), "{\"a\\u0000\":[\"\\u0000\"]}");
    char all[32 * 6 + 20] = "[{\"\\u0000\":1},\"";
    for (int i = 0; i < 32; i++)
        snprintf(all + strlen(all), 7, i % 2 ? "\\ufd%02X" : "\\uFd%02x", 0xD0 + i);
    snprintf(all + strlen(all), 3, "\"]");
    EXPECT(strncmp(rewritten(all), "[{\"\\u0000\":1},\"\xEF\xB7\x90\xEF\xB7\x91", 20) == 0);
    EXPECT(strncmp(rewritten_n("[\"a\0b\"]", 7), "error: ", 7) == 0);
    EXPECT(strncmp(rewritten_n("[1]\0", 4), "error: ", 7) == 0);
}

static bool keep_no_number(void *arg, const struct json *j, const char *text, size_t n)
{
    (void)arg, (void)j, (void)text, (void)n;
    return false;
}

TEST(json_numbers_that_cannot_be_kept)
{
    /* Goal: a number whose text cannot be kept is an error of memory. The number's value is freed
     * once, at every depth, which the address sanitizer checks. */
    static const char *const texts[] = {"1.5", "[1.5]", "{\"a\": 1.5}", "[{\"a\": [2, 1.5]}]"};
    const struct json_limits limits = {.number = keep_no_number};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct json *j;
        struct err e = {0};
        EXPECT_INT(json_parse(&j, texts[i], strlen(texts[i]), &limits, &e), ERR_MEMORY);
        EXPECT(!j);
    }
}

TEST(json_numbers)
{
    /* Goal: a number within int64 is an int64, any other number the nearest double. A number above
     * a double's range is an error. */
    EXPECT_TEXT(rewritten("[9223372036854775807,-9223372036854775808]"),
                "[9223372036854775807,-9223372036854775808]");
    EXPECT_TEXT(rewritten("[9223372036854775808,-9223372036854775809]"),
                "[9.223372036854776e+18,-9.223372036854776e+18]");
    EXPECT_TEXT(rewritten("[99999999999999999999,18446744073709551615]"),
                "[1e+20,1.8446744073709552e+19]");
    EXPECT_TEXT(rewritten("[1e400]"),
                "error: line 1, column 2: number outside the range of a double");
    EXPECT_TEXT(rewritten("[1e-400,-0,-0.0,1.0,1e3]"), "[0.0,0,-0.0,1.0,1000.0]");
    char big[512];
    memset(big, '7', sizeof big);
    EXPECT(strncmp(rewritten_n(big, 308), "7.777777777777778e+307", 22) == 0);
    EXPECT(strncmp(rewritten_n(big, 310), "error: ", 7) == 0);
    EXPECT(strncmp(rewritten_n(big, 500), "error: ", 7) == 0);
}

TEST(json_big_integers_are_nearest_double)
{
    /* Goal: every integer beyond int64 gets the value that strtod returns.
     * Method: random digits. */
    uint64_t rng = 1;
    char text[64];
    for (int i = 0; i < 20000; i++) {
        int n = 19 + (int)rng_below(&rng, 40), at = 0;
        if (rng_below(&rng, 2)) text[at++] = '-';
        text[at++] = (char)('1' + rng_below(&rng, 9));
        while (--n > 0) text[at++] = (char)('0' + (rng_below(&rng, 3) ? rng_below(&rng, 10) : 9));
        text[at] = 0;
        struct err e;
        struct json *j = parse(text, &e);
        NEED(j);
        if (json_kind(j) == JK_REAL && json_real(j, 0) != strtod(text, NULL))
            test_fail(__FILE__, __LINE__, "%s", text);
        json_drop(j);
    }
}

TEST(json_duplicate_keys)
{
    EXPECT_TEXT(rewritten("{\"a\":1,\"b\":2,\"a\":3}"), "{\"a\":3,\"b\":2}");
    /* a duplicate key is an error at any depth, also with escapes */
    static const struct json_limits limits = {.unique = true};
    static const struct {
        const char *text, *field;
    } list[] = {{"{\"a\":1,\"b\":2,\"a\":3}", "a"},
                {"[{\"x\":{\"abc\":null,\"\\u0061bc\":null}}]", "abc"},
                {"{\"a\":1,\"\":2,\"\":3}", ""},
                {"{\"a\":{\"a\":1},\"b\":{\"a\":1},\"c\":[{\"a\":1},{\"a\":1}]}", NULL},
                {"{\"a\":1,\"A\":2,\"a\\u0000\":3}", NULL}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct json *j;
        struct err e = {0};
        int rc = json_parse(&j, list[i].text, strlen(list[i].text), &limits, &e);
        EXPECT_INT(rc, list[i].field ? ERR_ARG : 0);
        EXPECT_TEXT(e.field, list[i].field ? list[i].field : "");
        json_drop(j);
    }
    struct json *j;
    struct err e;
    EXPECT_INT(json_parse(&j, "{\"a\":1,\n \"a\":1}", 15, &limits, &e), ERR_ARG);
    EXPECT_TEXT(e.text, "a: must not be repeated in an object (line 2, column 2)");
}

TEST(json_limits)
{
    /* Goal: the limits are exact, and brackets inside strings are ignored. */
    char deep[1300];
    memset(deep, '[', 513), memset(deep + 513, ']', 513);
    struct json *j;
    struct err e;
    EXPECT_INT(json_parse(&j, deep, 1026, NULL, &e), ERR_LIMIT);
    EXPECT_TEXT(e.text, "line 1, column 513: nested deeper than the limit");
    EXPECT_INT(json_parse(&j, deep + 1, 1024, NULL, &e), 0);
    json_drop(j);
    struct json_limits few = {.depth_max = 2, .node_max = 4};
    EXPECT_INT(json_parse(&j, "[1,2,[]]", 8, &few, &e), ERR_LIMIT);
    EXPECT_TEXT(e.text, "line 1, column 6: more values than the limit");
    EXPECT_INT(json_parse(&j, "[1,\"[[[,,,\\\"[\"]", 15, &few, &e), 0);
    json_drop(j);
    EXPECT_INT(json_parse(&j, "[\n[[2]]]", 8, &few, &e), ERR_LIMIT);
    EXPECT_TEXT(e.text, "line 2, column 2: nested deeper than the limit");
    struct json_limits deeper = {.depth_max = 100000};
    char *text = malloc(100000);
    memset(text, '[', 100000);
    EXPECT_INT(json_parse(&j, text, 100000, &deeper, &e), ERR_LIMIT);
    EXPECT_TEXT(e.text, "line 1, column 2049: nested deeper than the limit");
    free(text);
}

TEST(json_errors_name_the_place)
{
    struct err e;
    EXPECT(!parse("{\n  \"a\": [1,\n  2,]\n}", &e));
    EXPECT(strncmp(e.text, "line 3, column 5:", 17) == 0);
    EXPECT(!parse("", &e) && e.text[0]);
    EXPECT(!parse("[1] x", &e) && e.text[0]);
    EXPECT(!parse("\"\xC0\xAF\"", &e) && strstr(e.text, "0xc0"));
    struct json *j;
    EXPECT_INT(json_read_file(&j, "/nonexistent.json", 100, &e), ERR_IO);
    const char *path = temp_path("bad.json");
    NEED_OK(file_write(path, "[1,]", 4, &e), &e);
    EXPECT_INT(json_read_file(&j, path, 100, &e), ERR_FORMAT);
    EXPECT(strstr(e.text, "bad.json: line 1, column 4"));
    EXPECT_INT(json_read_file(&j, path, 3, &e), ERR_LIMIT);
}

/* Goal: Python's words for numbers without a finite value are read only from files of Python. */
TEST(json_words_of_python)
{
    static const char text[] = "[Infinity,-Infinity, NaN,{\"a\":NaN}]";
    struct err e;
    struct json *j;
    const char *path = temp_path("python.json");
    NEED_OK(file_write(path, text, sizeof text - 1, &e), &e);
    EXPECT_INT(json_read_file(&j, path, 100, &e), ERR_FORMAT);
    NEED_OK(json_read_python(&j, path, 100, &e), &e);
    EXPECT_TEXT(json_text(json_field(json_item(j, 0), "__float__"), NULL), "Infinity");
    EXPECT_TEXT(json_text(json_field(json_item(j, 1), "__float__"), NULL), "-Infinity");
    EXPECT_TEXT(json_text(json_field(json_item(j, 2), "__float__"), NULL), "NaN");
    EXPECT_INT(json_kind(json_field(json_item(j, 3), "a")), JK_OBJECT);
    json_drop(j);
    NEED_OK(file_write(path, "[-Inf]", 6, &e), &e);
    EXPECT_INT(json_read_python(&j, path, 100, &e), ERR_FORMAT);
}

TEST(json_getters_accept_anything)
{
    struct err e;
    struct json *j = parse("[1.0,2.5,\"x\",null,1e30,true]", &e);
    NEED(j);
    EXPECT_INT(json_int(json_item(j, 0), 9), 1);
    EXPECT_INT(json_int(json_item(j, 1), 9), 9);
    EXPECT_INT(json_int(json_item(j, 4), 9), 9);
    EXPECT_INT(json_int(json_item(j, 5), 9), 9);
    EXPECT(json_bool(json_item(j, 5), false) && json_bool(json_item(j, 0), true));
    EXPECT(json_real(json_item(j, 2), 7) == 7);
    EXPECT(!json_item(j, 6) && json_kind(NULL) == JK_NONE && json_count(NULL) == 0);
    EXPECT(!json_field(j, "x") && !json_first(j) && !json_text(j, NULL) && !json_field(NULL, "x"));
    EXPECT_TEXT(json_kind_name(json_kind(j)), "an array");
    json_drop(j);
    json_drop(NULL);
}

static void expect_real(double x, const char *want)
{
    struct buf b = {0};
    json_put_real(&b, x);
    EXPECT_TEXT(b.data, want);
    buf_deinit(&b);
}

TEST(json_put_real_shortest)
{
    /* Goal: a double is written with the fewest digits that read back to it. Method: known cases,
     * then random bit patterns. */
    expect_real(0.1, "0.1"), expect_real(1, "1.0"), expect_real(-0.0, "-0.0"),
        expect_real(1e20, "1e+20");
    expect_real(5e-324, "5e-324"), expect_real(1.0 / 3, "0.3333333333333333"),
        expect_real(2.2250738585072014e-308, "2.2250738585072014e-308");
    expect_real(NAN, "null"), expect_real(-INFINITY, "null");
    uint64_t rng = 2;
    struct buf b = {0};
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = rng_next(&rng);
        double x;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x)) continue;
        buf_clear(&b);
        json_put_real(&b, x);
        NEED(strtod(b.data, NULL) == x && b.n < 26);
    }
    buf_deinit(&b);
}

TEST(json_put_float_shortest)
{
    /* Goal: a float is written with the fewest digits that read back to it. Method: known cases,
     * then random bit patterns. */
    static const struct {
        float x;
        const char *text;
    } known[] = {{0.1f, "0.1"},     {1.0f / 3, "0.33333334"}, {-2, "-2.0"}, {1e20f, "1e+20"},
                 {1e-45f, "1e-45"}, {16777216, "16777216.0"}, {NAN, "null"}};
    uint64_t rng = 3;
    struct buf b = {0};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        buf_clear(&b);
        json_put_float(&b, known[i].x);
        EXPECT_TEXT(b.data, known[i].text);
    }
    for (int i = 0; i < 50000; i++) {
        uint32_t bits = (uint32_t)rng_next(&rng);
        float x;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x)) continue;
        buf_clear(&b);
        json_put_float(&b, x);
        NEED(strtof(b.data, NULL) == x && b.n < 18);
    }
    buf_deinit(&b);
}

TEST(json_members_have_a_comma_before_them)
{
    struct buf b = {0};
    json_member_real(&b, "x", 0.5);
    json_member_real(&b, "none", NAN);
    json_member_int(&b, "n", -3);
    json_member_text(&b, "t", "a\"b");
    json_member_text(&b, "no", NULL);
    EXPECT_TEXT(b.data, ",\"x\":0.5,\"none\":null,\"n\":-3,\"t\":\"a\\\"b\",\"no\":null");
    buf_deinit(&b);
}

TEST(json_put_members_except_one)
{
    static const char text[] = "{\"a\":1,\"b\":[true],\"ab\":null}";
    struct json *j;
    struct err e;
    struct buf b = {0};
    NEED_OK(json_parse(&j, text, sizeof text - 1, NULL, &e), &e);
    json_put_members(&b, j, "a");
    buf_add_char(&b, ' ');
    json_put_members(&b, j, NULL);
    buf_add_char(&b, ' ');
    json_put_members(&b, json_field(j, "a"), "a"); /* not an object: no members */
    EXPECT_TEXT(b.data, ",\"b\":[true],\"ab\":null ,\"a\":1,\"b\":[true],\"ab\":null ");
    json_drop(j);
    buf_deinit(&b);
}

TEST(json_text_bytes_are_those_put)
{
    /* Random bytes. Half of them are special: control characters, quotes, invalid UTF-8, or
     * prefixes of longer characters. */
    static const char special[] = "\x01\x1f\n\t\"\\\x7f\xc3\xa4\xf0\x9f\x98\x80\xff\xed";
    uint64_t rng = 5;
    for (int i = 0; i < 5000; i++) {
        char text[40];
        struct buf b = {0};
        size_t n = rng_below(&rng, sizeof text + 1);
        for (size_t k = 0; k < n; k++)
            text[k] = rng_below(&rng, 2) ? (char)rng_below(&rng, 256)
                                         : special[rng_below(&rng, sizeof special)];
        json_put_text(&b, text, n);
        EXPECT_INT(json_text_bytes(text, n), b.n);
        buf_deinit(&b);
    }
}

TEST(json_put_text_repairs)
{
    struct buf b = {0};
    json_put_text(&b, "a\"\\\n\x1f\x7f\xE2\x82\xFFz\xF0\x9F", 12);
    EXPECT_TEXT(b.data, "\"a\\\"\\\\\\n\\u001f\x7f\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD\"");
    buf_deinit(&b);
}

/* ---- JSONTestSuite ---- */

static void run_case(const char *dir, const char *name)
{
    char path[1024];
    struct err e = {0};
    struct buf b = {0};
    struct json *j;
    NEED(path_join(path, sizeof path, dir, name));
    NEED_OK(file_read(&b, path, 1 << 20, &e), &e);
    int rc = json_parse(&j, b.data, b.n, NULL, &e);
    bool agrees = name[1] != '_' || (name[0] == 'y' ? rc == 0 : name[0] == 'n' ? rc != 0 : true);
    if (!agrees) test_fail(__FILE__, __LINE__, "%s: %s", name, rc ? e.text : "accepted");
    if (rc != 0 && !e.text[0])
        test_fail(__FILE__, __LINE__, "%s: refused without a sentence", name);
    json_drop(j);
    buf_deinit(&b);
}

static int run_folder(const char *relative)
{
    const char *dir = data_path(relative);
    struct buf names = {0};
    struct err e;
    if (!dir || dir_list(&names, dir, &e) != 0) return 0;
    int n = 0;
    for (char *rest = names.data, *name; (name = strsep(&rest, "\n")) && *name; n++)
        run_case(dir, name);
    buf_deinit(&names);
    return n;
}

TEST(json_test_suite)
{
    /* Goal: every y_ file is accepted and every n_ file rejected. i_ and transform files do not
     * crash. */
    int n = run_folder("json/JSONTestSuite/test_parsing");
    if (n == 0) SKIP("json/JSONTestSuite is absent");
    EXPECT_INT(n, 318);
    EXPECT_INT(run_folder("json/JSONTestSuite/test_transform"), 22);
}

/* Goal: an error shows each kind of value, and only the beginning of a long text. */
TEST(json_values_as_text_of_errors)
{
    static const struct {
        const char *json, *want;
    } cases[] = {
        {"null", "null"},
        {"true", "true"},
        {"-7", "-7"},
        {"0.5", "0.5"},
        {"\"a\"", "\"a\""},
        {"[1,2,3]", "a list of 3"},
        {"{}", "an object"},
        {"\"0123456789012345678901234567890123456789012345678901234567890\"",
         "\"012345678901234567890123456789012345678901234567890123456789\""},
    };
    char out[80];
    EXPECT_TEXT(json_value_text(NULL, out), "nothing");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json *j;
        struct err e;
        NEED_OK(json_parse(&j, cases[i].json, strlen(cases[i].json), NULL, &e), &e);
        EXPECT_TEXT(json_value_text(j, out), cases[i].want);
        json_drop(j);
    }
}
