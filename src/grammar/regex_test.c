/* Goal: patterns match the same texts as in ECMA 262 and in Rust's regex crate.
 * Method: handwritten cases. */
#include "regex.h"
#include "../../tests/unit.h"

#include <stdio.h>

static const struct expr_limits LIMIT = {.bytes_max = 256u << 20, .row_max = 100000};

TEST(regex_patterns)
{
    static const struct {
        const char *pattern, *found, *missed; /* texts separated by | */
    } c[] = {
        {"^a+b?$", "a|aab", "|b|ab |xab"},
        {"a|^b|c$", "xax|bx|xc", "xb|cx|"},
        {"(^a|b)c$", "ac|xbc", "xac|acx"},
        {"^(?:foo|ba[rz]){2}$", "foobar|bazfoo", "foo|foobarbaz"},
        {"^\\d{3}-\\d{4}$", "555-1234", "5555-1234|555-123"},
        {"^[^\\s@]+@[^\\s@]+$", "a@b", "a b@c|@b"},
        {"^\\u00e9\\x41.$",
         "\xc3\xa9"
         "Ab",
         "eAb"},
        {"^[\\w.-]*$", "a.b-c_9|", "a b"},
        {"^(a{2,3}){2}$", "aaaa|aaaaaa", "aaa|aaaaaaa"},
        {"^\\p{Lu}\\p{L}*$",
         "\xc3\x89"
         "cole|Abc",
         "abc|A1"},
        {"^(?i:stra\xc3\x9f"
         "e)$",
         "STRa\xc3\x9f"
         "E",
         "strasse"},
        {"^a{,3}$", "a{,3}", "aa"},
        {"^$", "", "x"},
        {"^[]$", "", ""},
        {"(^|x)*a", "a|ba|xxa", "b"},
        {"\\bcat\\b", "cat|a cat.|cat-cat", "concat|cats|_cat"},
        {"^(\\bcat\\b[ -]?)+$", "cat|cat cat|cat-cat cat ", "catcat|cat  cat"},
        {"\\Bx", "ax|xx", "x| x|-x"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct exprs x;
        struct err e = {0};
        struct regex_langs l;
        NEED(exprs_open(&x, LIMIT));
        NEED_OK(regex_parse(&x, c[i].pattern, strlen(c[i].pattern), REGEX_ECMA, &l, &e), &e);
        if (strcmp(c[i].pattern, "^[]$") == 0) {
            EXPECT_INT(l.found, EXPR_EMPTY);
            exprs_close(&x);
            continue;
        }
        for (int want = 1; want >= 0; want--)
            for (const char *t = want ? c[i].found : c[i].missed;; t++) {
                size_t n = strcspn(t, "|");
                bool skip = n == 0 && !t[0] &&
                            (want ? c[i].found : c[i].missed)
                                /* an empty text is a case only if it is the only text, or if a |
                                 * follows it */
                                [0];
                if (!skip && expr_matches(&x, l.found, t, n) != want)
                    test_fail(__FILE__, __LINE__, "%s: \"%.*s\" is not %d", c[i].pattern, (int)n, t,
                              want);
                t += n;
                if (!*t) break;
            }
        exprs_close(&x);
    }
}

TEST(regex_folds_one_ascii_character_as_a_class)
{
    for (char c = '!'; c < 0x7f; c++) { /* [c\x01] has two ranges, so charset_fold searches */
        struct exprs x;
        struct err e = {0};
        struct regex_langs one, other;
        char short_way[20], long_way[40];
        snprintf(short_way, sizeof short_way, "(?i:\\x%02x)", c);
        snprintf(long_way, sizeof long_way, "(?i:[\\x%02x\\x01])", c);
        NEED(exprs_open(&x, LIMIT));
        NEED_OK(regex_parse(&x, short_way, strlen(short_way), REGEX_RUST, &one, &e), &e);
        NEED_OK(regex_parse(&x, long_way, strlen(long_way), REGEX_RUST, &other, &e), &e);
        uint32_t both = expr_or(&x, one.whole, expr_range(&x, 1, 1));
        if (expr_alive(&x, expr_and(&x, both, expr_not(&x, other.whole))) ||
            expr_alive(&x, expr_and(&x, other.whole, expr_not(&x, both))))
            test_fail(__FILE__, __LINE__, "%c", c);
        exprs_close(&x);
    }
}

TEST(regex_refuses_by_name)
{
    static const struct {
        const char *pattern;
        int code;
    } c[] = {
        {"{3}", ERR_FORMAT},         {"a{2}{3}", ERR_FORMAT},     {"a(?=b)", ERR_UNSUPPORTED},
        {"(a)\\1", ERR_UNSUPPORTED}, {"(", ERR_FORMAT},           {"a)", ERR_FORMAT},
        {"[a", ERR_FORMAT},          {"*a", ERR_FORMAT},          {"a{3,2}", ERR_FORMAT},
        {"[z-a]", ERR_FORMAT},       {"a{1,1000000}", ERR_LIMIT}, {"\\p{Greek}", ERR_UNSUPPORTED},
        {"\xff", ERR_FORMAT}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct exprs x;
        struct err e = {0};
        struct regex_langs l;
        NEED(exprs_open(&x, LIMIT));
        EXPECT_INT(regex_parse(&x, c[i].pattern, strlen(c[i].pattern), REGEX_ECMA, &l, &e),
                   c[i].code);
        EXPECT(e.text[0]);
        exprs_close(&x);
    }
}

/* Goal: a pattern with different meanings in the common syntaxes is rejected with its place. In a
 * past bug the operators of sets were read as characters. */
TEST(regex_refuses_unsupported_set_operators_and_counts)
{
    static const struct {
        const char *pattern, *why; /* `why` is NULL: the pattern matches "-" */
    } c[] = {{"[a--b]", "byte 2: set operation --"},
             {"[a-c~~b]", "byte 4: set operation ~~"},
             {"x[[a]--[b]]", "byte 5: set operation --"},
             {"a{,3}", "byte 1: {,n}"},
             {"{3}", "byte 0: nothing to repeat"},
             {"x|{3,}", "byte 2: nothing to repeat"},
             {"[--b]", NULL},
             {"[^~]", NULL},
             {"[-a]", NULL},
             {"[a-]", NULL},
             {"[-a&&-]", NULL},
             {"{a}|{}|-", NULL}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct exprs x;
        struct err e = {0};
        struct regex_langs l;
        NEED(exprs_open(&x, LIMIT));
        int rc = regex_parse(&x, c[i].pattern, strlen(c[i].pattern), REGEX_RUST, &l, &e);
        if (c[i].why)
            EXPECT(rc != 0 && strstr(e.text, c[i].why));
        else
            EXPECT(rc == 0 && expr_matches(&x, l.whole, "-", 1));
        exprs_close(&x);
    }
}

TEST(regex_takes_a_nul_for_a_character)
{
    static const char pattern[] = "a\0+[\0b]\0";
    struct exprs x;
    struct regex_langs l;
    struct err e;
    NEED(exprs_open(&x, LIMIT));
    EXPECT(regex_parse(&x, pattern, sizeof pattern - 1, REGEX_RUST, &l, &e) == 0);
    EXPECT(expr_matches(&x, l.whole, "a\0\0b\0", 5));
    EXPECT(!expr_matches(&x, l.whole, "ab", 2));
    EXPECT(regex_parse(&x, "(?i)\0", 5, REGEX_RUST, &l, &e) == 0);
    EXPECT(expr_matches(&x, l.whole, "\0", 1));
    exprs_close(&x);
}
