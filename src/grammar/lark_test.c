/* Goal: a Lark grammar accepts the texts of its rules and terminals and rejects other texts.
 * Unsupported constructs are rejected with their line and column. Method: check handwritten cases,
 * and the grammars of Lark's own tests in ../shared/data. Each grammar has an accepted and a
 * rejected text. */
#include "lark.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static const struct expr_limits LIMIT = {.bytes_max = 128u << 20, .row_max = 100000};
static const struct machine_limits SIZES = {300000, 300000, 2000, 2000};

static bool takes_bytes(struct cfg *g, const char *text, size_t n)
{
    uint32_t c = machine_begin(&g->m, 0);
    for (size_t i = 0; i < n && c != CONFIG_DEAD; i++) c = machine_next(&g->m, c, (uint8_t)text[i]);
    return c != CONFIG_DEAD && machine_accepts(&g->m, c);
}

static bool takes(struct cfg *g, const char *text)
{
    return takes_bytes(g, text, strlen(text));
}

static int32_t token(const void *arg, const char *text, size_t n)
{
    (void)arg;
    return n == 7 && memcmp(text, "<|end|>", 7) == 0 ? 258 : -1;
}

static int parse(struct cfg *g, const char *text, struct lark_options o, struct err *e)
{
    if (!cfg_open(g, LIMIT, SIZES)) return ERR_MEMORY;
    o.token = token;
    return lark_parse(g, text, strlen(text), &o, e);
}

TEST(lark_grammars)
{
    static const struct {
        const char *grammar, *yes, *no;
    } c[] = {
        {"start: \"a\" b*\nb: \"(\" start \")\"\n", "a(a(a)(a))", "a(a(a)"},
        {"start: A | /b+/ -> bs\n   | [\"x\"] \"y\"~2..3\nA.2: \"a\"..\"c\" \"d\"i\n", "xyyy",
         "xy"},
        {"start: A | /b+/ -> bs\n   | [\"x\"] \"y\"~2..3\nA.2: \"a\"..\"c\" \"d\"i\n", "cD", "dD"},
        {"%import common.WS\n%ignore WS\nstart: NAME (\",\" NAME)* // list\nNAME: /[a-z]+/\n",
         " ab , c,d ", "ab c"},
        {"?start: sum\n?sum: product | sum \"+\" product -> add\n?product: NUMBER | product \"*\" "
         "NUMBER | \"(\" sum \")\"\n%import common.NUMBER\n",
         "1+2.5e3*4*6+(4+5)*6", "1+*2"},
        {"start: list{NUM, \";\"}\nlist{item, sep}: item (sep item)*\nNUM: /[0-9]/\n", "1;2;3",
         "1;;2"},
        {"start: C \"x\"\nC: \"/*\" /(.|\\n)*?/ \"*/\"\n", "/* a\n */x", "/* */ */x"},
        {"start: S\nS: /\\d+/ \"\\u00e9\" /[a-z]/i /\\//\n", "12\xc3\xa9Z/", "\xc3\xa9Z/"},
        {"start: X start |\nX: \"x\"\n", "xxx", "xy"},
        {"%import common (INT, WS_INLINE -> W)\nstart: INT\n", "12", "x"},
        {"start: A \"c\"\nA: /(?U)a+/ | /(?U:b{2})/\n", "ac", "aac"},
        {"start: A \"c\"\nA: /(?U)a+?/\n", "aac", "c"},
        {"A: \"a\"\nfirst: A A\nsecond: A\n", "aa", "a"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct cfg g;
        struct err e = {0};
        int rc = parse(&g, c[i].grammar, (struct lark_options){0}, &e);
        if (i == 9) { /* a list of imports has no aliases */
            EXPECT_INT(rc, ERR_FORMAT);
            cfg_close(&g);
            continue;
        }
        NEED_OK(rc, &e);
        if (!takes(&g, c[i].yes)) test_fail(__FILE__, __LINE__, "%zu: \"%s\"", i, c[i].yes);
        if (takes(&g, c[i].no)) test_fail(__FILE__, __LINE__, "%zu: not \"%s\"", i, c[i].no);
        cfg_close(&g);
    }
}

TEST(lark_tokens)
{
    static const char text[] = "a\xff\0\0\1\2\xff\0\0\0\7";
    struct cfg g;
    struct err e = {0};
    NEED_OK(parse(&g, "start: \"a\" <|end|> <[7]>", (struct lark_options){0}, &e), &e);
    EXPECT(takes_bytes(&g, text, sizeof text - 1));
    EXPECT(!takes_bytes(&g, text, sizeof text - 6));
    cfg_close(&g);
}

TEST(lark_refuses_by_place)
{
    static const struct {
        const char *grammar, *place;
        int code;
    } c[] = {{"start: \"a\"\n  | b", "line 2, column 5: not defined: b", ERR_FORMAT},
             {"start: /a(?=b)/", "line 1, column 9: regular expression, byte 7: look-around",
              ERR_UNSUPPORTED},
             {"start: A\nA: /a*?b*/", "lazy and greedy", ERR_UNSUPPORTED},
             {"start: A\nA: /^a/", "in a terminal", ERR_UNSUPPORTED},
             {"start: A\nA: B \"x\"\nB: A", "contains itself", ERR_FORMAT},
             {"start: A\nA: start", "a rule within a terminal", ERR_FORMAT},
             {"start: I\n%declare I", "declared without a text: I", ERR_UNSUPPORTED},
             {"%import .other.X\nstart: X", "only common and unicode", ERR_UNSUPPORTED},
             {"%import common.XX\nstart: XX", "line 1, column 16: this module does not define XX",
              ERR_FORMAT},
             {"%override start: \"a\"", "not supported: %override", ERR_UNSUPPORTED},
             {"start: \"a\"\nstart: \"b\"", "line 2, column 1: defined twice: start", ERR_FORMAT},
             {"start: (\"a\"", "expected )", ERR_FORMAT},
             {"start: \"a", "closing quote", ERR_FORMAT},
             {"start: \"a\")", "expected the end", ERR_FORMAT},
             {"start: t{\"a\"}\nt{x}: x t{x}", "no text matches", ERR_FORMAT},
             {"start: <nothere>", "token not found", ERR_FORMAT},
             {"", "rule not found: start", ERR_FORMAT}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct cfg g;
        struct err e = {0};
        EXPECT_INT(parse(&g, c[i].grammar, (struct lark_options){0}, &e), c[i].code);
        if (!strstr(e.text, c[i].place))
            test_fail(__FILE__, __LINE__, "%zu: \"%s\" is not \"%s\"", i, e.text, c[i].place);
        cfg_close(&g);
    }
}

/* Read an imported grammar. All samples are in one folder, so only the last name of the path is
 * used. */
static int import(const void *arg, const char *path, char **text, size_t *n, struct err *e)
{
    char at[200];
    const char *name = strrchr(path, '/');
    (void)arg, (void)e;
    snprintf(at, sizeof at, "json/lark/%s", name ? name + 1 : path);
    const char *full = data_path(at);
    FILE *f = full ? fopen(full, "r") : NULL;
    *text = f ? malloc(20000) : NULL;
    *n = *text ? fread(*text, 1, 20000, f) : 0;
    if (f) fclose(f);
    return 0;
}

TEST(lark_published_grammars)
{
    static const struct {
        /* yes, no: texts to accept and to reject; yes is NULL if the grammar must be rejected */
        const char *file, *yes, *no;
    } c[] = {{"ab", "a a b b", "aab"},
             {"common", "1", "a"},
             {"csv", "# a b\n1 x\n", "a"},
             {"json", "{\"a\": [1, true, \"x\"], \"b\": {}}", "{\"a\": [1,]}"},
             {"lark", NULL, NULL},
             {"leading_underscore_grammar", "A", "x"},
             {"multiple2", "0110", "11"},
             {"multiple3", "0110", "10"},
             {"multiples", "2:10", "4:1"},
             {"negative_priority", "a", "b"},
             {"no_newline_at_end", "a", "b"},
             {"python", NULL, NULL},
             {"python2", NULL, NULL},
             {"storage", "{\"a\":1}{}", "{"},
             {"template_lark", NULL, NULL},
             {"templates", NULL, NULL},
             {"test", "12", "a"},
             {"test_relative_import", "12 ab", "ab"},
             {"test_relative_import_of_nested_grammar", "N", "M"},
             {"test_relative_import_of_nested_grammar__grammar_to_import", "N", "M"},
             {"test_relative_import_of_nested_grammar__nested_grammar", "N", "M"},
             {"test_relative_import_preserves_leading_underscore", "Ax", "A"},
             {"test_relative_import_rename", "12 ab", "ab"},
             {"test_relative_import_rules_dependencies_imported_only_once", "AAA", "AA"},
             {"test_relative_import_unicode", "\xc3\xb8", "1"},
             {"test_relative_multi_import", "12 ab", "ab"},
             {"test_relative_rule_import", "xaabby", "xaaby"},
             {"test_relative_rule_import_drop_ignore", "xaabby", "x a b y"},
             {"test_relative_rule_import_rename", "xaabby", "xy"},
             {"test_relative_rule_import_subrule", "xaabby", "xy"},
             {"test_relative_rule_import_subrule_no_conflict", "xaabby", "xy"},
             {"test_templates_import", "[1,2]", "[]"},
             {"test_unicode", "a", "1"},
             {"three_rules_using_same_token", "A", "B"},
             {"unicode", " ", "a"},
             {"verilog", NULL, NULL}};
    int n_compiled = 0, n = sizeof c / sizeof *c;
    if (!data_path("json/lark")) {
        test_skip("no grammars of Lark");
        return;
    }
    for (int i = 0; i < n; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s.lark", c[i].file);
        char *text = NULL;
        size_t n_text;
        struct err e = {0};
        import(NULL, path, &text, &n_text, &e);
        NEED(text);
        text[n_text] = 0;
        struct cfg g;
        int rc = parse(&g, text, (struct lark_options){.import = import}, &e);
        n_compiled += rc == 0;
        if ((rc == 0) != (c[i].yes != NULL))
            test_fail(__FILE__, __LINE__, "%s: %d: %s", c[i].file, rc, e.text);
        if (rc == 0 && c[i].yes && !takes(&g, c[i].yes))
            test_fail(__FILE__, __LINE__, "%s does not take \"%s\"", c[i].file, c[i].yes);
        if (rc == 0 && c[i].yes && takes(&g, c[i].no))
            test_fail(__FILE__, __LINE__, "%s takes \"%s\"", c[i].file, c[i].no);
        if (rc) test_note("%s: %s", c[i].file, e.text);
        cfg_close(&g);
        free(text);
    }
    test_note("%d of %d compiled", n_compiled, n);
    EXPECT(n_compiled >= 25);
}
