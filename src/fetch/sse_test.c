/* Goal: events equal those of browsers, for any split of the stream. Method: parse handwritten
 * streams as a whole, byte by byte, and split in two at every position. */
#include "fetch.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static bool note(void *ctx, const char *data, size_t n)
{
    struct buf *b = ctx;
    if (strlen(data) != n) test_fail(__FILE__, __LINE__, "%zu bytes of \"%s\"", n, data);
    buf_add_char(b, '<');
    buf_add(b, data, n);
    buf_add_char(b, '>');
    return strcmp(data, "stop") != 0;
}

/* Parse a text in pieces. The first piece has `first` bytes, each later piece has `step` bytes. */
static bool feed(const char *text, size_t first, size_t step, struct buf *events)
{
    struct sse s = {0};
    size_t n = strlen(text);
    bool more = true;
    for (size_t at = 0, part = first; at < n && more; at += part, part = step) {
        if (part > n - at) part = n - at;
        more = sse_feed(&s, text + at, part, note, events);
    }
    sse_deinit(&s);
    return more;
}

TEST(sse_events_are_the_same_however_they_are_cut)
{
    static const struct {
        const char *text, *want;
    } stream[] = {
        {"data: {\"a\":1}\n\ndata: [DONE]\n\n", "<{\"a\":1}><[DONE]>"},
        {"data:x\r\n\r\ndata:  y\r\rdata\n\ndata:\n\n", "<x>< y><><>"},
        {": a comment\n\nevent: message\nid: 7\ndata: one\ndata: two\nretry: 5\n\n", "<one\ntwo>"},
        {"database: no\nDATA: no\n\n\n\ndata: \xE2\x82\xAC\n\n", "<\xE2\x82\xAC>"},
        {"data: not over\n", ""},
        {"data: stop\n\ndata: never\n\n", "<stop>"},
    };
    for (size_t i = 0; i < sizeof stream / sizeof stream[0]; i++) {
        size_t n = strlen(stream[i].text);
        for (size_t first = 0; first <= n; first++) {
            struct buf events = {0};
            buf_add_text(&events, "");
            feed(stream[i].text, first ? first : 1, first ? n : 1, &events);
            if (strcmp(events.data, stream[i].want) != 0)
                test_fail(__FILE__, __LINE__, "stream %zu cut at %zu: %s", i, first, events.data);
            buf_deinit(&events);
        }
    }
}

TEST(sse_events_are_bounded)
{
    struct sse s = {0};
    struct buf events = {0};
    size_t n = 1 << 20;
    char *x = malloc(n);
    bool more = true;
    NEED(x);
    memset(x, 'x', n);
    for (int i = 0; i < 15; i++) more &= sse_feed(&s, x, n, note, &events);
    EXPECT(more);
    for (int i = 0; i < 2; i++) more &= sse_feed(&s, x, n, note, &events);
    EXPECT(!more);
    sse_deinit(&s);
    for (int i = 0; i < 17 && !s.data.failed; i++) /* one event has many lines */
        more = sse_feed(&s, "data: ", 6, note, &events) && sse_feed(&s, x, n, note, &events) &&
               sse_feed(&s, "\n", 1, note, &events);
    EXPECT(!more && events.n == 0);
    sse_deinit(&s);
    free(x);
}
