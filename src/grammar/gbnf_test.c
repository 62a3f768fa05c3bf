/* Goal: GBNF grammars accept and reject the texts of llama.cpp's own tests. Method: check
 * handwritten cases, and llama.cpp's cases and grammars in ../shared/data. */
#include "gbnf.h"
#include "base/json.h"
#include "base/rng.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static const struct expr_limits LIMIT = {.bytes_max = 128u << 20, .row_max = 100000};
static const struct machine_limits SIZES = {300000, 300000, 2000, 2000};

static bool takes(struct cfg *g, const char *text, size_t n)
{
    uint32_t c = machine_begin(&g->m, 0);
    for (size_t i = 0; i < n && c != CONFIG_DEAD; i++) c = machine_next(&g->m, c, (uint8_t)text[i]);
    return c != CONFIG_DEAD && machine_accepts(&g->m, c);
}

static int parse(struct cfg *g, const char *text, size_t n, struct err *e)
{
    if (!cfg_open(g, LIMIT, SIZES)) return ERR_MEMORY;
    return gbnf_parse(g, text, n, NULL, NULL, e);
}

TEST(gbnf_grammars)
{
    static const struct {
        const char *grammar, *yes, *no;
    } c[] = {
        {"root ::= \"a\" b*\nb ::= \"(\" root \")\"", "a(a(a)(a))", "a(a(a)"},
        {"root ::= item (\",\" item)* # list\nitem ::= [0-9]+ | \"x\"{2,3}", "12,xx,3", "12,x"},
        {"root ::=\n  \"a\" |\n  \"b\"\n", "b", "ab"},
        {"root ::= [^a-c\\n]+ \"\\x41\\u00e9\"", "zzA\xc3\xa9", "azA\xc3\xa9"},
        {"root ::= root \"a\" | \"b\"", "baa", "ab"},
        {"root ::= a\na ::= b? a \"x\" | \"y\"\nb ::= \"z\"", "zzyxx", "zyxz"},
        {"root ::= e\ne ::= e \"+\" t | t\nt ::= t \"*\" f | f\nf ::= \"(\" e \")\" | [0-9]",
         "1+(2*3+4)*5", "1+*2"},
        {"root ::= a \"!\"\na ::= b \"x\" | c\nb ::= a c | \"b\"\nc ::= \"c\"? \"d\"?", "bxcdx!",
         "bb!"},
        {"root ::= root root | \"(\" root \")\" | \"\"", "(())()", "(()"},
        {"root ::= (\"a\" | r){0,2}\nr ::= \"b\" r | \"c\"", "abbc", "aaa"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct cfg g;
        struct err e = {0};
        NEED_OK(parse(&g, c[i].grammar, strlen(c[i].grammar), &e), &e);
        if (!takes(&g, c[i].yes, strlen(c[i].yes)))
            test_fail(__FILE__, __LINE__, "%zu: \"%s\"", i, c[i].yes);
        if (takes(&g, c[i].no, strlen(c[i].no)))
            test_fail(__FILE__, __LINE__, "%zu: not \"%s\"", i, c[i].no);
        cfg_close(&g);
    }
}

TEST(gbnf_refuses_by_line)
{
    static const char *const bad[] = {"root ::= r",
                                      "root ::= \"a",
                                      "root ::= [a",
                                      "root ::= (\"a\"",
                                      "root ::= \"a\"{3,2}",
                                      "root ::= root",
                                      "root ::= \"a\"\nroot ::= \"b\"",
                                      "rot ::= \"a\"",
                                      "root ::= <nothere>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cfg g;
        struct err e = {0};
        if (parse(&g, bad[i], strlen(bad[i]), &e) == 0)
            test_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
        EXPECT(e.text[0]);
        cfg_close(&g);
    }
}

/* Replace each U+FFFD by TOKEN_MARK, and return the new length. The cases are in JSON, whose
 * strings cannot hold the byte FF. */
static size_t token_marks(char *to, const char *from, size_t n)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (n - i >= 3 && memcmp(from + i, "\xef\xbf\xbd", 3) == 0)
            to[m++] = (char)TOKEN_MARK, i += 2;
        else
            to[m++] = from[i];
    return m;
}

static void check_texts(struct cfg *g, const struct json *list, bool want, const char *name, int *n)
{
    for (size_t i = 0; i < json_count(list); i++, ++*n) {
        size_t len;
        const char *t = json_text(json_item(list, i), &len);
        char *marked = malloc(len + 1);
        size_t m = token_marks(marked, t, len);
        if (takes(g, marked, m) != want)
            test_fail(__FILE__, __LINE__, "%.60s: \"%s\" is not %d", name, t, want);
        free(marked);
    }
}

TEST(gbnf_llama_cpp_cases)
{
    const char *path = data_path("json/llama.cpp_grammar_accept_cases.jsonl");
    FILE *f = path ? fopen(path, "r") : NULL;
    char *line = NULL;
    size_t cap = 0, n_text;
    int n = 0;
    if (!f) {
        test_skip("no cases of llama.cpp");
        return;
    }
    while (getline(&line, &cap, f) > 0) {
        struct json *j = NULL;
        struct err e = {0};
        struct cfg g;
        NEED_OK(json_parse(&j, line, strlen(line), NULL, &e), &e);
        const char *text = json_text(json_field(j, "gbnf"), &n_text),
                   *name = json_text(json_field(j, "name"), NULL);
        if (text) {
            NEED_OK(parse(&g, text, n_text, &e), &e);
            check_texts(&g, json_field(j, "pass"), true, name, &n);
            check_texts(&g, json_field(j, "fail"), false, name, &n);
            cfg_close(&g);
        }
        json_drop(j);
    }
    free(line);
    fclose(f);
    test_note("%d texts", n);
}

TEST(gbnf_published_grammars)
{
    static const struct {
        const char *file, *yes, *no;
    } c[] = {{"arithmetic", "(1+2)*3=x\n", "1+=2\n"},
             {"c", "int f(){return 1;}", "int f({}"},
             {"chess", "1. e4 e5\n2. Nf3 O-O\n", "1. z9\n"},
             {"english", "Hello, world.", "\xc3\xa9"},
             {"japanese", "\xe3\x81\x82", "abc"},
             {"json", "{\"a\": [1, true, \"x\\u00e9\"]}", "{\"a\": [1,]}"},
             {"json_arr", "[\n1,\n2]", "{}"},
             {"list", "- a\n- b\n", "a\n"}};
    if (!data_path("json/gbnf")) {
        test_skip("no grammars of llama.cpp");
        return;
    }
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char path[64];
        snprintf(path, sizeof path, "json/gbnf/%s.gbnf", c[i].file);
        FILE *f = fopen(data_path(path), "r");
        char text[20000];
        size_t n = f ? fread(text, 1, sizeof text, f) : 0;
        struct cfg g;
        struct err e = {0};
        if (f) fclose(f);
        NEED_OK(parse(&g, text, n, &e), &e);
        if (!takes(&g, c[i].yes, strlen(c[i].yes)))
            test_fail(__FILE__, __LINE__, "%s does not take \"%s\"", c[i].file, c[i].yes);
        if (c[i].no && takes(&g, c[i].no, strlen(c[i].no)))
            test_fail(__FILE__, __LINE__, "%s takes \"%s\"", c[i].file, c[i].no);
        cfg_close(&g);
    }
}

/* Return the length of the longest prefix of `text` that begins some text of the grammar. */
static size_t follow(struct cfg *g, const char *text, uint32_t *config)
{
    size_t i = 0;
    *config = machine_begin(&g->m, 0);
    for (; text[i]; i++) {
        uint32_t next = machine_next(&g->m, *config, (uint8_t)text[i]);
        if (next == CONFIG_DEAD) break;
        *config = next;
    }
    return i;
}

/* Walk by random bytes until the text ends. Prefer opening brackets. Return false at a dead end. */
static bool walk_deep(struct cfg *g, uint32_t c, uint64_t *rng, size_t *n_byte)
{
    for (*n_byte = 0; *n_byte < 5000 && !machine_accepts(&g->m, c); ++*n_byte) {
        uint32_t next[256], n = 0;
        for (int b = 0; b < 256; b++) {
            next[n] = machine_next(&g->m, c, (uint8_t)b);
            n += next[n] != CONFIG_DEAD;
        }
        if (n == 0) return false;
        c = next[rng_next(rng) % 4 ? 0 : rng_next(rng) % n];
    }
    return true;
}

/* Goal: a text that reaches the limit of depth ends there, without a dead end. The grammar still
 * accepts other texts. */
TEST(gbnf_depth_is_part_of_the_language)
{
    static const char text[] = "root ::= \"(\" root \")\" | \"[\" pair \"]\" | \"x\"\n"
                               "pair ::= wrap wrap\n"
                               "wrap ::= \"<\" inner \">\"\n"
                               "inner ::= \"{\" root \"}\"\n";
    struct machine_limits limits = SIZES;
    struct err e = {0};
    uint64_t rng = 1;
    for (uint32_t depth = 8; depth < 24; depth++) {
        struct cfg g;
        char deep[64] = {0};
        uint32_t c;
        size_t n_byte;
        limits.depth_max = depth;
        NEED(cfg_open(&g, LIMIT, limits));
        NEED_OK(gbnf_parse(&g, text, sizeof text - 1, NULL, NULL, &e), &e);
        memset(deep, '(', sizeof deep - 1);
        size_t n = follow(&g, deep, &c);
        EXPECT(n >= depth / 2 && n <= depth);
        EXPECT(walk_deep(&g, c, &rng, &n_byte) && n_byte > n);
        for (int i = 0; i < 10; i++)
            EXPECT(walk_deep(&g, machine_begin(&g.m, 0), &rng, &n_byte) && n_byte > 0);
        EXPECT(takes(&g, "([<{x}><{(x)}>])", 16));
        EXPECT_INT(g.m.x.failed, EXPR_OK);
        cfg_close(&g);
    }
}

/* Goal: a text that reaches the limit of concurrent threads ends there. The grammar still accepts
 * other texts. */
TEST(gbnf_threads_are_part_of_the_language)
{
    static const char text[] = "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"x\"";
    struct machine_limits limits = SIZES;
    struct err e = {0};
    struct cfg g;
    uint32_t c;
    limits.thread_max = 60;
    NEED(cfg_open(&g, LIMIT, limits));
    NEED_OK(gbnf_parse(&g, text, sizeof text - 1, NULL, NULL, &e), &e);
    EXPECT_INT(follow(&g, "aaaaaaaa", &c), 4);
    EXPECT(!takes(&g, "aaaaaxbcbcb", 11));
    EXPECT(takes(&g, "aaaaxbcbc", 9));
    EXPECT_INT(g.m.x.failed, EXPR_OK);
    cfg_close(&g);
}
