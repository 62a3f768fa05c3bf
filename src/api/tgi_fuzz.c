/* tgi_fuzz.c - goal: each mutated body is rejected with an error message, or becomes an object with
 * a temperature and a maximum number of tokens. */
#include "tgi.h"

#include "../../tests/fuzz/fuzz.h"

#include <assert.h>

FUZZ(tgi_body)
{
    static const struct json_limits limits = {
        .depth_max = 200, .node_max = 1 << 20, .unique = true};
    struct json *body = NULL, *neutral = NULL;
    struct err e = {0};
    if (json_parse(&body, (const char *)data, n, &limits, &e) != 0) return;
    if (tgi_neutral(&neutral, body, &e) == 0) {
        assert(body_field(neutral, "temperature") && body_field(neutral, "max_tokens"));
        fuzz_accepted();
    } else {
        assert(neutral == NULL && e.text[0]);
    }
    json_drop(neutral);
    json_drop(body);
}
