/* Goal: a mask contains exactly the tokens that the machine accepts byte by byte, for each shortcut
 * of mask.c. Method: check every reached config, with a vocabulary of every class of tokens. The
 * strings have no limit, a limit or a pattern. */
#include "mask.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static const char *const TOKEN[] = {
    "",
    "a",
    "b",
    "ab",
    "abc",
    "hello world",
    "hello wide world of text",
    "\"",
    "\",",
    "\":",
    "a\"",
    "ab\",\"",
    "abc\": ",
    "\\",
    "\\n",
    "\\\"",
    "\\u",
    "00",
    "0061",
    "\\u00e9",
    "\xc3",
    "\xa9",
    "\xc3\xa9",
    "\xe4\xb8\xad",
    "\xf0\x9f\x98\x80",
    "\xf0\x9f",
    "\x98\x80",
    "\n",
    " ",
    "{",
    "}",
    "[1",
    "12",
    ".5",
    "e3",
    "\"}",
    "\"\n}",
    "\x7f",
    "{\"a",
    "\"a\"",
    "{\"a\":\"",
    "a\\",
    "b\\\"c",
    "\xc3\"",
    "1\"",
    "-",
    ".",
    "a.b",
    "ab-c.a",
    "-a\"}",
    "\xc3\xa9\xc3\xa9",
    "\\u0061b",
    "aaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaa",
    /* 80 characters */
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
};
enum { N_TOKEN = sizeof TOKEN / sizeof *TOKEN };

static const char *token(const void *arg, int32_t id, size_t *n)
{
    (void)arg;
    *n = strlen(TOKEN[id]);
    return TOKEN[id];
}

static uint32_t ROOT;
static bool expand(void *front, struct machine *m, uint32_t rule, struct alts *out)
{
    (void)front, (void)m, (void)rule;
    return alts_begin(out) && alts_add(out, SYM_EXPR, ROOT);
}

static uint32_t quoted(struct exprs *x, uint32_t body)
{
    return expr_cat(x, expr_bytes(x, "\"", 1), expr_string(x, body));
}

/* Return (\S+\s){min,max}\S+ with a blank for \s. */
static uint32_t words(struct exprs *x, uint32_t min, uint32_t max)
{
    uint32_t blank = expr_range(x, ' ', ' ');
    uint32_t some = expr_or(x, expr_chars(x, 0, ' ' - 1), expr_chars(x, ' ' + 1, 0x10ffff));
    uint32_t word = expr_rep(x, some, 1, EXPR_INF);
    return expr_cat(x, expr_rep(x, expr_cat(x, word, blank), min, max), word);
}

/* Return labels of letters and hyphens, each of at most n + 2 characters, separated by points. */
static uint32_t labels(struct exprs *x, uint32_t n)
{
    uint32_t letter = expr_range(x, 'a', 'c'), hyphen = expr_range(x, '-', '-');
    uint32_t inner = expr_rep(x, expr_or(x, letter, hyphen), 0, n);
    uint32_t label = expr_cat(x, letter, expr_rep(x, expr_cat(x, inner, letter), 0, 1));
    uint32_t more = expr_cat(x, expr_range(x, '.', '.'), label);
    return expr_cat(x, label, expr_rep(x, more, 0, EXPR_INF));
}

/* Return expression number `kind` of the expressions with counts. */
enum { N_COUNTED = 14 };
static uint32_t counted(struct exprs *x, int kind)
{
    uint32_t any = expr_any_char(x), letter = expr_range(x, 'a', 'c'),
             wide = expr_chars(x, 0xe9, 0xe9), mark = expr_range(x, '.', '.');
    switch (kind) {
    case 0:
        return expr_rep(x, letter, 0, 20);
    case 1:
        return expr_rep(x, letter, 18, 40);
    case 2:
        return expr_rep(x, wide, 0, 20);
    case 3:
        return expr_rep(x, expr_or(x, letter, wide), 3, 61);
    case 4:
        return expr_cat(x, expr_rep(x, letter, 0, 61), expr_bytes(x, "abc", 3));
    case 5:
        return expr_rep(x, expr_cat(x, expr_rep(x, letter, 1, 20), mark), 0, 30);
    case 6:
        return expr_rep(x, expr_or(x, letter, expr_bytes(x, "-a", 2)), 2, 90);
    case 7:
        return labels(x, 61);
    case 8:
        return expr_and(x, expr_rep(x, any, 0, 100), labels(x, 61));
    case 9:
        return expr_and(x, expr_rep(x, any, 0, 253), labels(x, 61));
    case 10:
        return expr_and(x, expr_rep(x, any, 0, 40), labels(x, 18));
    case 11:
        return expr_and(x, expr_rep(x, any, 0, 90),
                        expr_cat(x, labels(x, 30), expr_bytes(x, ".a-b.a-b.abc", 12)));
    case 12:
        return expr_and(x, expr_rep(x, any, 3, 90), labels(x, 30));
    default:
        return expr_or(x, expr_rep(x, letter, 0, 20),
                       expr_cat(x, expr_rep(x, letter, 4, 30), mark));
    }
}

/* Compare the mask of every config with mask_accept of every token. */
static void compare(struct machine *m, const struct vocab *v)
{
    uint64_t mask[(N_TOKEN + 63) / 64];
    NEED(machine_begin(m, 0) != CONFIG_DEAD);
    /* mask_accept adds configs during the loop */
    for (uint32_t c = 1; c < m->config.n && c < 300; c++) {
        NEED(mask_fill(m, v, c, mask));
        for (int32_t t = 0; t < N_TOKEN; t++) {
            bool want = mask_accept(m, v, c, t) != CONFIG_DEAD, got = mask[t >> 6] >> (t & 63) & 1;
            if (want != got)
                test_fail(__FILE__, __LINE__, "config %u: token \"%s\" is %d, not %d", c, TOKEN[t],
                          got, want);
        }
    }
}

TEST(mask_has_exactly_what_the_machine_takes)
{
    struct vocab v;
    NEED(vocab_open(&v, N_TOKEN, token, NULL));
    for (int kind = 0; kind < 18 + N_COUNTED; kind++) {
        struct machine m;
        NEED(machine_open(&m, (struct expr_limits){.bytes_max = 64u << 20, .row_max = 100000},
                          (struct machine_limits){10000, 10000, 100, 100}, expand, NULL));
        struct exprs *x = &m.x;
        uint32_t any = expr_any_char(x), letter = expr_range(x, 'a', 'c');
        uint32_t body[18] = {expr_rep(x, any, 0, EXPR_INF), expr_rep(x, any, 2, 5),
                             expr_rep(x, letter, 1, EXPR_INF), expr_rep(x, any, 0, 40),
                             expr_not(x, expr_bytes(x, "abc", 3))};
        body[4] = expr_and(x, body[4], body[0]);
        uint32_t most[] = {expr_rep(x, any, 0, 30), expr_rep(x, any, 0, 9),
                           expr_rep(x, any, 3, 20)};
        body[5] = expr_and(x, most[0], words(x, 0, 3));
        body[6] = expr_and(x, most[1], words(x, 0, EXPR_INF));
        body[7] = expr_and(x, most[2], words(x, 1, 4));
        body[8] = words(x, 2, 5);
        body[9] = expr_and(x, most[1], expr_cat(x, words(x, 0, 2), expr_bytes(x, "abc", 3)));
        uint32_t ending = expr_cat(x, expr_range(x, ' ', ' '), expr_bytes(x, "abcabcabcabc", 12));
        body[10] = expr_cat(x, words(x, 0, 0), expr_rep(x, ending, 0, 1));
        body[10] = expr_and(x, expr_rep(x, any, 0, 15), body[10]);
        /* patterns without an anchor, because most characters lead back to the first state of these
         * patterns */
        static const int REPEATS[] = {1, 7, 20, 9, 64, 12};
        for (int i = 0; i < 6; i++) {
            uint32_t last = i < 3   ? letter
                            : i < 5 ? expr_bytes(x, ".5e3", 4)
                                    : expr_range(x, '0', '9');
            uint32_t rest = i < 5 ? expr_bytes(x, "", 0) : body[0];
            body[11 + i] = expr_cat(x, body[0], expr_cat(x, last, rest));
            body[11 + i] = expr_and(x, expr_rep(x, any, 0, (uint32_t)REPEATS[i]), body[11 + i]);
        }
        body[17] = expr_cat(x, expr_rep(x, any, 0, 70), expr_rep(x, expr_range(x, '!', '!'), 0, 1));
        body[17] = expr_and(x, expr_rep(x, any, 0, 200), body[17]);
        ROOT = expr_cat(x, expr_bytes(x, "{\"a\":", 5),
                        expr_cat(x, quoted(x, kind < 18 ? body[kind] : counted(x, kind - 18)),
                                 expr_bytes(x, "}", 1)));
        compare(&m, &v);
        EXPECT(m.x.failed == EXPR_OK);
        machine_close(&m);
    }
    vocab_close(&v);
}
