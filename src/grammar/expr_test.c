/* Goal: expressions match the right texts, no dead state of their automata is reported as alive,
 * and JSON strings are matched in every spelling.
 * Method: check fixed cases, and compare random expressions with a backtracking matcher. */
#include "expr.h"
#include "base/utf8.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static const struct expr_limits LIMIT = {.bytes_max = 64u << 20, .row_max = 100000};

static bool matches(struct exprs *x, uint32_t e, const char *text)
{
    return expr_matches(x, e, text, strlen(text));
}

TEST(expr_operators)
{
    struct exprs x;
    NEED(exprs_open(&x, LIMIT));
    uint32_t a = expr_bytes(&x, "a", 1), b = expr_bytes(&x, "b", 1), ab = expr_or(&x, a, b);
    EXPECT_INT(expr_or(&x, b, a), ab);
    uint32_t some = expr_rep(&x, ab, 0, EXPR_INF),
             odd = expr_cat(&x, ab, expr_rep(&x, expr_cat(&x, ab, ab), 0, EXPR_INF));
    EXPECT(matches(&x, some, "") && matches(&x, some, "abba") && !matches(&x, some, "abc"));
    EXPECT(matches(&x, odd, "aba") && !matches(&x, odd, "ab"));
    uint32_t even = expr_and(&x, some, expr_not(&x, odd));
    EXPECT(matches(&x, even, "") && matches(&x, even, "abab") && !matches(&x, even, "aba"));
    EXPECT(expr_alive(&x, even));
    EXPECT(!expr_alive(&x, expr_and(&x, odd, even)));
    uint32_t few = expr_rep(&x, a, 2, 4);
    EXPECT(!matches(&x, few, "a") && matches(&x, few, "aa") && matches(&x, few, "aaaa") &&
           !matches(&x, few, "aaaaa"));
    EXPECT(!expr_alive(&x, expr_and(&x, few, expr_rep(&x, a, 5, 9))));
    EXPECT(x.failed == EXPR_OK);
    exprs_close(&x);
}

TEST(expr_spells_json_strings)
{
    struct exprs x;
    NEED(exprs_open(&x, LIMIT));
    uint32_t e = expr_string(&x, expr_bytes(&x, "a\"\xc3\xa9\xf0\x9f\x98\x80", 8));
    EXPECT(matches(&x, e, "a\\\"\xc3\xa9\xf0\x9f\x98\x80\""));
    EXPECT(matches(&x, e, "\\u0061\\u0022\\u00e9\\ud83d\\uDE00\""));
    EXPECT(!matches(&x, e, "a\"\xc3\xa9\xf0\x9f\x98\x80\""));
    EXPECT(!matches(&x, e, "\\u0061\\u0022\\u00e9\\ud83d\""));
    static const char *const dead[] = {"b",
                                       "\\n",
                                       "\\u1",
                                       "\\u007",
                                       "\\u0062",
                                       "a\\\"\xc3\\",
                                       "a\\\"\\u00e9\\u0",
                                       "a\\\"\\u00e9\\ud83e"};
    for (size_t i = 0; i < sizeof dead / sizeof *dead; i++) {
        uint32_t s = e;
        for (const char *c = dead[i]; *c; c++) s = expr_next(&x, s, (uint8_t)*c);
        if (s != EXPR_EMPTY && expr_alive(&x, s))
            test_fail(__FILE__, __LINE__, "alive: %s", dead[i]);
    }
    static const char *const alive[] = {"\\u006", "\\u0061\\", "a\\\"\\u00e9\\ud83d\\ud",
                                        "a\\\"\xc3\xa9\xf0\x9f"};
    for (size_t i = 0; i < sizeof alive / sizeof *alive; i++) {
        uint32_t s = e;
        for (const char *c = alive[i]; *c; c++) s = expr_next(&x, s, (uint8_t)*c);
        if (s == EXPR_EMPTY || !expr_alive(&x, s))
            test_fail(__FILE__, __LINE__, "dead: %s", alive[i]);
    }
    uint32_t any = expr_string(&x, expr_rep(&x, expr_any_char(&x), 0, EXPR_INF));
    EXPECT(matches(&x, any, "x\\\\\\/\\u0000\xe4\xb8\xad\"") && !matches(&x, any, "\n\"") &&
           !matches(&x, any, "\\x\""));
    EXPECT(!matches(&x, any, "\\udc00\"") && !matches(&x, any, "\\ud800x\""));
    EXPECT(x.failed == EXPR_OK);
    exprs_close(&x);
}

TEST(expr_multiples)
{
    struct exprs x;
    NEED(exprs_open(&x, LIMIT));
    uint32_t seven = expr_multiple(&x, (struct divisor){7, 0}),
             cents = expr_multiple(&x, (struct divisor){5, 2});
    for (int i = 0; i < 500; i++) {
        char text[32];
        snprintf(text, sizeof text, "%d", i);
        EXPECT(matches(&x, seven, text) == (i % 7 == 0));
        snprintf(text, sizeof text, "%d.%02d", i / 100, i % 100);
        EXPECT(matches(&x, cents, text) == (i % 5 == 0));
        snprintf(text, sizeof text, "%d.%02d01", i / 100, i % 100);
        EXPECT(!matches(&x, cents, text));
        snprintf(text, sizeof text, "%d.%02d000", i / 100, i % 100);
        EXPECT(matches(&x, cents, text) == (i % 5 == 0));
    }
    EXPECT(!matches(&x, seven, "") && !matches(&x, cents, "5.") && matches(&x, seven, "7.0"));
    EXPECT(matches(&x, cents, "5.0") && matches(&x, cents, "0.1"));
    EXPECT(expr_alive(&x, seven) && expr_alive(&x, cents));
    /* a past bug that ASan detected: a number's remainder was used as the length of a list */
    uint32_t e = expr_cat(&x, expr_multiple(&x, (struct divisor){5003, 0}), expr_bytes(&x, "x", 1));
    for (int i = 0; i < 4; i++) e = expr_next(&x, e, '4');
    EXPECT(expr_alive(&x, e));
    exprs_close(&x);
}

TEST(expr_characters)
{
    struct exprs x;
    NEED(exprs_open(&x, LIMIT));
    static const uint32_t lo[] = {0, 0x41, 0x7f, 0x7ff, 0x900, 0xd000, 0x10000, 0x1f600},
                          hi[] = {0x10ffff, 0x5a, 0x801, 0x10000, 0x97f, 0xe001, 0x10ffff, 0x1f64f};
    for (size_t r = 0; r < sizeof lo / sizeof *lo; r++) {
        uint32_t e = expr_chars(&x, lo[r], hi[r]);
        for (uint32_t cp = 0; cp <= 0x10ffff; cp += cp < 0x3000 || (cp & 0xff) < 2 ? 1 : 7) {
            char c[4];
            int n = utf8_encode(c, cp);
            bool want = cp >= lo[r] && cp <= hi[r] && (cp < 0xd800 || cp > 0xdfff);
            if (expr_matches(&x, e, c, (size_t)n) != want) {
                test_fail(__FILE__, __LINE__, "U+%04X in [%x, %x]", cp, lo[r], hi[r]);
                break;
            }
        }
    }
    exprs_close(&x);
}

/* ---- random expressions compared with a backtracking matcher ---- */

enum { MAX = 400, DEPTH = 4 };
struct node {
    int op; /* 'a'..'c', 'e' (the empty text), '.', '|', '&', '!', '*' */
    int p, q, min, max;
};
static struct node node[MAX];
static int n_node;

/* Return a pseudorandom number in [0, n). */
static uint32_t draw(uint64_t *s, uint32_t n)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33) % n;
}

/* Add a random expression of at most this depth. Return its index in node. */
static int grow(uint64_t *s, int depth)
{
    int i = n_node++;
    uint32_t k = depth == 0 ? 0 : draw(s, 8);
    if (k < 2)
        node[i] = (struct node){.op = 'a' + (int)draw(s, 3)};
    else if (k == 2)
        node[i] = (struct node){.op = 'e'};
    else if (k == 7)
        node[i] = (struct node){.op = '!', .p = grow(s, depth - 1)};
    else if (k == 6) {
        int min = (int)draw(s, 3), max = min + (int)draw(s, 3);
        int p = grow(s, depth - 1);
        node[i] = (struct node){.op = '*', .p = p, .min = min, .max = draw(s, 3) ? max : 100};
    } else {
        int p = grow(s, depth - 1), q = grow(s, depth - 1);
        node[i] = (struct node){.op = k == 3 ? '.' : k == 4 ? '|' : '&', .p = p, .q = q};
    }
    return i;
}

/* Return true if node i matches t[0, n), by backtracking. */
static bool slow(int i, const char *t, int n)
{
    const struct node *d = &node[i];
    switch (d->op) {
    case 'e':
        return n == 0;
    case '|':
        return slow(d->p, t, n) || slow(d->q, t, n);
    case '&':
        return slow(d->p, t, n) && slow(d->q, t, n);
    case '!':
        return !slow(d->p, t, n);
    case '.':
        for (int k = 0; k <= n; k++)
            if (slow(d->p, t, k) && slow(d->q, t + k, n - k)) return true;
        return false;
    case '*': {
        /* reach[k][m]: true if the first k characters are m pieces. Empty pieces may complete
         * min. */
        bool reach[8][8] = {{true}};
        bool empty = slow(d->p, t, 0);
        for (int k = 0; k <= n; k++)
            for (int m = 0; m < 7; m++)
                for (int j = k + 1; reach[k][m] && j <= n; j++)
                    if (slow(d->p, t + k, j - k)) reach[j][m + 1] = true;
        for (int m = 0; m < 8; m++)
            if (reach[n][m] && m <= d->max && (m >= d->min || empty)) return true;
        return false;
    }
    default:
        return n == 1 && t[0] == d->op;
    }
}

/* Return the expression of node i. */
static uint32_t build(struct exprs *x, int i)
{
    const struct node *d = &node[i];
    char c = (char)d->op;
    switch (d->op) {
    case 'e':
        return EXPR_EPSILON;
    case '|':
        return expr_or(x, build(x, d->p), build(x, d->q));
    case '&':
        return expr_and(x, build(x, d->p), build(x, d->q));
    case '!':
        return expr_not(x, build(x, d->p));
    case '.':
        return expr_cat(x, build(x, d->p), build(x, d->q));
    case '*':
        return expr_rep(x, build(x, d->p), (uint32_t)d->min,
                        d->max == 100 ? EXPR_INF : (uint32_t)d->max);
    default:
        return expr_bytes(x, &c, 1);
    }
}

TEST(expr_random_against_backtracking)
{
    uint64_t seed = 7;
    for (int round = 0; round < (test_long() ? 20000 : 600); round++) {
        struct exprs x;
        NEED(exprs_open(&x, LIMIT));
        n_node = 0;
        int root = grow(&seed, DEPTH);
        uint32_t e = build(&x, root);
        bool any = false;
        VEC(uint32_t) alive = {0}; /* states before texts that match */
        for (int len = 0, count = 1; len <= 5; len++, count *= 3)
            for (int k = 0; k < count; k++) {
                char t[8] = "";
                for (int j = 0, v = k; j < len; j++, v /= 3) t[j] = (char)('a' + v % 3);
                bool want = slow(root, t, len), got = expr_matches(&x, e, t, (size_t)len);
                any = any || want;
                if (want != got)
                    test_fail(__FILE__, __LINE__, "round %d: \"%s\" is %d, not %d", round, t, got,
                              want);
                uint32_t at = e;
                for (int j = 0; want && j < len; j++) {
                    at = expr_next(&x, at, (uint8_t)t[j]);
                    NEED(vec_push(&alive, at));
                }
            }
        if (any && !expr_alive(&x, e))
            test_fail(__FILE__, __LINE__, "round %d: dead, but it matches", round);
        for (size_t i = 0; i < alive.n; i++)
            if (!expr_alive(&x, alive.v[i]))
                test_fail(__FILE__, __LINE__, "round %d: a state of a text is dead", round);
        vec_deinit(&alive);
        EXPECT(x.failed == EXPR_OK);
        exprs_close(&x);
    }
}

/* Follow a text of up to 8 random letters from e, and search for an end at each state. Return a
 * hash of the results. */
static uint64_t follow(struct exprs *x, uint32_t e, uint64_t seed)
{
    uint64_t results = 1;
    for (uint32_t n = draw(&seed, 9); n > 0 && e != EXPR_EMPTY; n--) {
        e = expr_next(x, e, (uint8_t)('a' + draw(&seed, 3)));
        results = results * 2 + expr_alive(x, e);
    }
    return results;
}

/* Goal: in every order, the steps of all cached results bound the steps of a piece of work with a
 * cold cache (docs/design.md 5). The steps that are not covered are much less than 1 / WORK_SLACK
 * of the work. Method: random expressions and texts, first with a cold cache, then after other
 * texts and expressions. */
TEST(expr_work_is_bounded_by_that_of_all_results)
{
    uint64_t seed = 11;
    int64_t most = 0;
    int n_cheaper = 0;
    for (int round = 0; round < (test_long() ? 400000 : 3000); round++) {
        struct exprs cold, warm;
        uint64_t text = seed ^ (uint64_t)round;
        NEED(exprs_open(&cold, LIMIT) && exprs_open(&warm, LIMIT));
        n_node = 0;
        int root = grow(&seed, DEPTH + 1);
        uint32_t e = build(&cold, root);
        exprs_resume(&cold);
        uint64_t want = follow(&cold, e, text);
        int64_t n_cold = exprs_spent(&cold);
        int last = n_node;
        for (int i = 0; i < 3; i++) build(&warm, grow(&seed, DEPTH)); /* other numbers */
        e = build(&warm, root);
        exprs_forget(&warm);
        for (uint64_t i = 0; i < draw(&seed, 12); i++) follow(&warm, e, seed + i);
        for (int i = 0; i < 4; i++)
            expr_alive(&warm, build(&warm, (int)draw(&seed, (uint32_t)last)));
        exprs_resume(&warm);
        EXPECT(follow(&warm, e, text) == want);
        int64_t n_warm = exprs_spent(&warm), n_all = exprs_spent_by_all(&warm);
        n_cheaper += n_warm < n_cold;
        if (n_cold > most) most = n_cold;
        if (n_all + n_all / (4 * WORK_SLACK) + 1 < n_cold)
            test_fail(__FILE__, __LINE__, "round %d: %lld steps, only %lld with a cold cache",
                      round, (long long)n_all, (long long)n_cold);
        EXPECT(cold.failed == EXPR_OK && warm.failed == EXPR_OK);
        exprs_close(&cold);
        exprs_close(&warm);
    }
    test_note("%lld steps at most; %d of the warm caches saved work", (long long)most, n_cheaper);
    EXPECT(n_cheaper > 500);
}

/* Return true if digits can complete state e. Visit all states that digits reach. */
static bool digits_complete(struct exprs *x, uint32_t e)
{
    VEC(uint32_t) v = {0};
    bool ends = false, ok = vec_push(&v, e);
    for (size_t i = 0; ok && i < v.n && !ends; i++) {
        ends = expr_nullable(x, v.v[i]);
        for (uint8_t c = '0'; c <= '9'; c++) {
            uint32_t next = expr_next(x, v.v[i], c);
            size_t k = 0;
            while (k < v.n && v.v[k] != next) k++;
            if (next != EXPR_EMPTY && k == v.n) ok &= vec_push(&v, next);
        }
    }
    vec_deinit(&v);
    EXPECT(ok);
    return ends;
}

/* Goal: a state of a multiple is alive if and only if digits can complete it. No state is
 * searched. */
TEST(expr_multiples_are_alive_if_digits_can_complete_them)
{
    static const struct divisor d[] = {{7, 0}, {25, 2}, {3, 1}, {64, 3}, {1, 4}, {50, 1}};
    struct exprs x;
    uint64_t seed = 5;
    int n_dead = 0;
    NEED(exprs_open(&x, LIMIT));
    for (size_t i = 0; i < sizeof d / sizeof *d; i++)
        for (int n = 0; n < 400; n++) {
            uint32_t e = expr_multiple(&x, d[i]);
            for (uint32_t k = draw(&seed, 8); k > 0 && e != EXPR_EMPTY; k--)
                e = expr_next(&x, e, draw(&seed, 4) ? (uint8_t)('0' + draw(&seed, 10)) : '.');
            if (e == EXPR_EMPTY) continue;
            bool alive = expr_alive(&x, e);
            n_dead += !alive;
            if (alive != digits_complete(&x, e))
                test_fail(__FILE__, __LINE__, "divisor %u / 10^%u: %d", d[i].m, d[i].scale, alive);
        }
    EXPECT(n_dead > 20);
    uint32_t large = expr_multiple(&x, (struct divisor){4000000007u, 0});
    size_t n_row = x.n_row;
    EXPECT(expr_alive(&x, expr_next(&x, large, '4')) && x.n_row < n_row + 10);
    EXPECT(x.failed == EXPR_OK);
    exprs_close(&x);
}
