/* Goal: every written value reads back as the same value, and commas are in the right places.
 * Method: compare fixed documents byte for byte. The parser and json_put must reproduce random
 * trees. */
#include "json_out.h"
#include "json.h"
#include "rng.h"
#include "../../tests/unit.h"

#include <math.h>
#include <string.h>

static void expect(struct buf *b, const char *want)
{
    EXPECT(!b->failed && b->data && strcmp(b->data, want) == 0);
    if (b->data && strcmp(b->data, want) != 0) printf("  got  %s\n  want %s\n", b->data, want);
    buf_deinit(b);
}

TEST(json_out_puts_commas_between_values_alone)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_list(&o, "empty");
    out_end(&o);
    out_object(&o, "none");
    out_end(&o);
    out_list(&o, "list");
    out_int(&o, NULL, 0);
    out_null(&o, NULL);
    out_list(&o, NULL);
    out_flag(&o, NULL, true);
    out_end(&o);
    out_object(&o, NULL);
    out_key(&o, "a\"b", 3);
    out_double(&o, NULL, 1);
    out_key(&o, "", 0);
    out_list(&o, NULL);
    out_end(&o);
    out_end(&o);
    out_end(&o);
    out_word(&o, "word", "\n");
    out_word(&o, "no_word", NULL);
    out_end(&o);
    expect(&b, "{\"empty\":[],\"none\":{},\"list\":[0,null,[true],{\"a\\\"b\":1.0,\"\":[]}],"
               "\"word\":\"\\n\",\"no_word\":null}");
}

TEST(json_out_numbers_at_their_edges)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_list(&o, NULL);
    out_int(&o, NULL, INT64_MIN);
    out_int(&o, NULL, INT64_MAX);
    out_int(&o, NULL, -1);
    out_int(&o, NULL, 10);
    out_double(&o, NULL, (double)INFINITY);
    out_float(&o, NULL, 0.1f);
    out_plain(&o, NULL, "AA==", 4);
    out_text(&o, NULL, NULL, 0);
    out_end(&o);
    expect(&b, "[-9223372036854775808,9223372036854775807,-1,10,null,0.1,\"AA==\",\"\"]");
}

/* Append a random value, at most `depth` deep. */
static void put_random(struct json_out *o, const char *key, uint64_t *seed, int depth)
{
    /* an object contains each key at most once, because a parser keeps only one of several
     * duplicates */
    static const char *const keys[] = {"a", "b", "c", "d"};
    uint64_t x = rng_next(seed);
    int kind = (int)(x % (depth > 0 ? 8 : 6)), n = (int)(x >> 8) & 3;
    if (kind == 0) out_null(o, key);
    if (kind == 1) out_flag(o, key, n > 1);
    if (kind == 2) out_int(o, key, (int64_t)rng_next(seed));
    if (kind == 3) out_double(o, key, (double)(int64_t)rng_next(seed) * 0x1p-40);
    if (kind == 4) out_text(o, key, "\0\x1f\"\\/\xc3\xa9", (size_t)(n == 3 ? 7 : n));
    if (kind == 5) out_word(o, key, "word");
    if (kind < 6) return;
    (kind == 6 ? out_list : out_object)(o, key);
    for (int i = 0; i < n; i++) put_random(o, kind == 6 ? NULL : keys[i], seed, depth - 1);
    out_end(o);
}

TEST(json_out_reads_back)
{
    for (uint64_t i = 0; i < 3000; i++) {
        struct buf b = {0}, again = {0};
        struct json_out o = {.b = &b};
        struct json *j = NULL;
        struct err e;
        uint64_t seed = i;
        put_random(&o, NULL, &seed, 1 + (int)(i % 12));
        EXPECT(o.depth == 0);
        NEED_OK(json_parse(&j, b.data, b.n, NULL, &e), &e);
        json_put(&again, j);
        EXPECT(again.n == b.n && memcmp(again.data, b.data, b.n) == 0);
        json_drop(j);
        buf_deinit(&b);
        buf_deinit(&again);
    }
}
