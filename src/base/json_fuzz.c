/* Goal: accepted JSON can be written, and the output reads back as the same value.
 * Method: mutated JSON. */
#include "json.h"
#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

FUZZ(json)
{
    struct json *j = (void *)&n, *again;
    struct err e = {0};
    if (json_parse(&j, (const char *)data, n, NULL, &e) != 0) {
        assert(e.text[0] && !j);
        return;
    }
    fuzz_accepted();
    struct buf one = {0}, two = {0};
    json_put(&one, j);
    int rc = json_parse(&again, one.data, one.n, NULL, &e);
    assert(rc == 0);
    json_put(&two, again);
    assert(one.n == two.n && memcmp(one.data, two.data, one.n) == 0);
    buf_deinit(&one), buf_deinit(&two);
    json_drop(j), json_drop(again);
}
