/* Goal: a constraint is rejected if its compilation costs too much, and fails if its masks cost too
 * much. The error names the limit. The work ends after a disconnect of the client. Method: set a
 * small limit of each kind, and compile a constraint that needs more. */
#include "grammar.h"
#include "base/cancel.h"
#include "../../tests/unit.h"

#include <string.h>

/* Open a constraint and accept a text. Return the error code of the first failure, and set *e. */
static int run(enum grammar_kind kind, const char *text, struct grammar_limits limit,
               const char *through, struct err *e)
{
    struct grammar *g;
    *e = (struct err){0};
    int rc =
        grammar_open(&g, kind, text, strlen(text), &(struct grammar_options){.limits = limit}, e);
    if (rc) return rc;
    grammar_accept(g, grammar_begin(g), through, strlen(through), NULL);
    rc = grammar_failure(g, e);
    grammar_close(g);
    return rc;
}

TEST(grammar_limits_are_named)
{
    static const char often[] = "(a|b)*a(a|b){900}", primes[] = "(?:(a{7}|a{11}|a{13}|a{17})*b)*";
    static char long_text[20000];
    struct err e;
    for (size_t i = 0; i + 1 < sizeof long_text; i++) long_text[i] = "ab"[i * i % 7 % 2];
    EXPECT(run(GRAMMAR_REGEX, often, (struct grammar_limits){.text_max = 10}, "", &e) == ERR_LIMIT);
    EXPECT(strstr(e.text, "17 bytes, more than 10"));
    EXPECT(run(GRAMMAR_REGEX, often, (struct grammar_limits){.state_max = 200}, long_text, &e) ==
           ERR_LIMIT);
    EXPECT(strstr(e.text, "more than 200 states"));
    EXPECT(run(GRAMMAR_REGEX, often, (struct grammar_limits){.bytes_max = 2 << 20}, long_text,
               &e) == ERR_LIMIT);
    EXPECT(strstr(e.text, "more than 2 MiB"));
    EXPECT(run(GRAMMAR_REGEX, often, (struct grammar_limits){.work_max = 50000}, long_text, &e) ==
           ERR_LIMIT);
    EXPECT(strstr(e.text, "more than 50000 steps of work"));
    EXPECT(run(GRAMMAR_REGEX, primes, (struct grammar_limits){0}, "aaaaaaab", &e) == 0);
}

TEST(grammar_limits_hold_while_compiling)
{
    /* Method: compile exponentially many references, each with a different set of schemas. The
     * limits of a tag include its schemas. */
    struct buf b = {0};
    struct err e;
    buf_add_text(&b, "{\"$defs\":{\"d0\":{\"type\":\"string\"}");
    for (int i = 1; i < 60; i++)
        buf_addf(&b, ",\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]}",
                 i, i - 1, i - 1);
    buf_add_text(&b, "},\"$ref\":\"#/$defs/d59\"}");
    buf_add(&b, "", 1);
    const struct grammar_limits limit = {.us_max = 20000};
    EXPECT(run(GRAMMAR_SCHEMA, b.data, limit, "", &e) == ERR_LIMIT);
    EXPECT(strstr(e.text, "more than 20 ms"));
    struct buf tag = {0};
    buf_addf(&tag, "{\"type\":\"json_schema\",\"json_schema\":%s}", b.data);
    EXPECT(run(GRAMMAR_TAG, tag.data, limit, "", &e) == ERR_LIMIT);
    EXPECT(strstr(e.text, "processor time"));
    buf_deinit(&tag);
    buf_deinit(&b);
}

TEST(grammar_ends_when_the_client_has_left)
{
    static const char deep[] = "((((((a?b){99}c?){99}|d)*e){2}){9}|.*(f|gh){70}i.*)*";
    atomic_bool left = true;
    struct err e;
    cancel_flag = &left;
    int rc = run(GRAMMAR_REGEX, deep, (struct grammar_limits){0}, "", &e);
    char text[4000] = {0};
    memset(text, 'f', sizeof text - 1);
    if (rc == 0) rc = run(GRAMMAR_REGEX, deep, (struct grammar_limits){0}, text, &e);
    cancel_flag = NULL;
    EXPECT(rc == ERR_BUSY);
    EXPECT(strstr(e.text, "cancelled"));
}
