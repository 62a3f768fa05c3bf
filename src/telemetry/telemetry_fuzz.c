/* telemetry_fuzz.c - parse mutated headers and variables. An accepted `traceparent` is written with
 * the same ids. Accepted headers for the collector have no control character. */
#include "telemetry_impl.h"
#include "../../tests/fuzz/fuzz.h"

#include "base/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

FUZZ(trace_parent)
{
    struct trace_context c;
    char out[TRACE_PARENT_BYTES], *text = strndup((const char *)data, n);
    assert(text);
    (void)trace_state_valid(text);
    if (trace_parent_read(&c, text)) {
        trace_parent_put(&c, out);
        assert(memcmp(out + 3, text + 3, 49) == 0);
        fuzz_accepted();
    }
    free(text);
}

static char *value;

static char *lookup(const char *name)
{
    return strstr(name, "PROTOCOL") || strstr(name, "CLIENT") || strstr(name, "DISABLED") ? NULL
                                                                                          : value;
}

/* Every variable has the same value. */
FUZZ(otlp_variables)
{
    struct telemetry_options o = {.silent = true};
    struct err e = {0};
    value = strndup((const char *)data, n);
    assert(value);
    if (telemetry_options_read(&o, "http://h/", lookup, &e) == 0) {
        for (size_t i = 0; i < o.header.n; i++)
            for (const char *c = o.header.v[i]; *c; c++) assert((unsigned char)*c >= ' ');
        assert(o.batch_max >= 1 && o.batch_max <= o.queue_max && o.timeout_ms >= 1);
        fuzz_accepted();
    }
    telemetry_options_deinit(&o);
    free(value);
}
