/* sse_fuzz.c - parse mutated event streams in pieces and as a whole. The events must be equal. */
#include "fetch.h"
#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

static bool note(void *ctx, const char *data, size_t n)
{
    buf_add(ctx, &n, sizeof n);
    buf_add(ctx, data, n);
    assert(data[n] == '\0');
    return true;
}

static void feed(const uint8_t *data, size_t n, size_t step, struct buf *events)
{
    struct sse s = {0};
    for (size_t at = 0; at < n; at += step)
        assert(sse_feed(&s, (const char *)data + at, step < n - at ? step : n - at, note, events));
    sse_deinit(&s);
}

FUZZ(sse)
{
    struct buf whole = {0}, pieces = {0};
    feed(data, n, n ? n : 1, &whole);
    feed(data, n, 1, &pieces);
    assert(whole.n == pieces.n && (whole.n == 0 || memcmp(whole.data, pieces.data, whole.n) == 0));
    if (whole.n) fuzz_accepted();
    buf_deinit(&whole), buf_deinit(&pieces);
}
