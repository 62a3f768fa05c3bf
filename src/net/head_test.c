/* Goal: heads, chunks, queries and paths are read as the RFCs require, and ambiguous texts are
 * rejected. Method: parse texts and compare their results. */
#include "head.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static int parse(struct head *h, const char *text)
{
    struct err e = {0};
    size_t n = head_length(text, strlen(text));
    *h = (struct head){0};
    return n ? head_parse(h, text, n, &e) : 1;
}

TEST(head_is_read)
{
    struct head h;
    NEED(parse(&h, "\r\nPOST /v1/x%20y?a=1&b=%41+c HTTP/1.1\r\nHost: me:80\r\nX-Thing: \t a b \r\n"
                   "Content-Length: 12\r\nExpect: 100-continue\r\n\r\nrest") == 0);
    EXPECT_TEXT(h.method, "POST");
    EXPECT_TEXT(h.path, "/v1/x y");
    EXPECT_TEXT(h.query, "a=1&b=%41+c");
    EXPECT_TEXT(head_header(&h, "x-thing"), "a b");
    EXPECT(!head_header(&h, "x-other"));
    EXPECT_INT(h.n_body, 12);
    EXPECT(h.keep_alive && h.expect_continue && !h.chunked && h.minor == 1);
    struct buf b = {0};
    EXPECT_INT(query_value(h.query, "b", &b), 1);
    EXPECT_TEXT(b.data, "A c");
    EXPECT_INT(query_value(h.query, "c", &b), 0);
    EXPECT_INT(query_value("x=%4", "x", &b), -1);
    EXPECT_INT(query_value("x=%00", "x", &b), -1);
    buf_deinit(&b);
    head_deinit(&h);
}

TEST(head_keeps_alive_or_not)
{
    static const struct {
        const char *text;
        bool keep;
    } c[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: te , close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: te\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n", false},
        {"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET HTTPS://A HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET http://a?x=/v1/models HTTP/1.1\r\nHost: a\r\n\r\n", true},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct head h;
        NEED(parse(&h, c[i].text) == 0);
        EXPECT_INT(h.keep_alive, c[i].keep);
        EXPECT_TEXT(h.path, "/");
        head_deinit(&h);
    }
}

TEST(head_refuses_what_is_ambiguous)
{
    static const char *const bad[] = {
        "GARBAGE\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http:///v1 HTTP/1.1\r\nHost: \r\n\r\n",
        "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\nOrigin: http://b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: a\r\nX-API-KEY: a\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct head h;
        if (parse(&h, bad[i]) != ERR_FORMAT) test_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
        head_deinit(&h);
    }
}

/* Goal: the access log can print each text after a failed parse. In a past bug the path of "/%00"
 * was old content of malloc's memory, for example another client's key. Method: fill freed memory
 * with a secret. */
TEST(head_leaves_nothing_half_made)
{
    static const char *const bad[] = {
        "GET /aaaaaaaa%00bbbbbbbbbbbbbbbbbbbb HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /aaaaaaaa%zzbbbbbbbbbbbbbbbbbbbb HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /aaaaaaaa%ffbbbbbbbbbbbbbbbbbbbb HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa% HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct head h;
        EXPECT_INT(parse(&h, bad[i]), ERR_FORMAT);
        EXPECT(!h.path);
        head_deinit(&h);
    }
    struct head h;
    EXPECT_INT(parse(&h, "G\x1b[31mT / HTTP/1.1\r\nHost: a\r\n\r\n"), ERR_FORMAT);
    EXPECT(!h.method); /* the method would send an escape sequence to the operator's terminal */
    head_deinit(&h);
}

TEST(head_counts_headers)
{
    struct buf b = {0};
    struct head h;
    buf_add_text(&b, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 1; i < HEADER_MAX; i++) buf_addf(&b, "x%d: y\r\n", i);
    size_t n = b.n;
    buf_add_text(&b, "\r\n");
    EXPECT_INT(parse(&h, b.data), 0);
    head_deinit(&h);
    b.n = n;
    buf_add_text(&b, "z: z\r\n\r\n");
    EXPECT_INT(parse(&h, b.data), ERR_LIMIT);
    head_deinit(&h);
    buf_deinit(&b);
}

/* Decode text in pieces of `step` bytes. Return the number of bytes used, -2 if the body is too
 * large, or -10 - i if byte i is wrong. */
static ptrdiff_t decode(const char *text, size_t step, size_t n_max, struct buf *body)
{
    struct chunks c = {0};
    size_t n = strlen(text), at = 0;
    while (at < n && c.state != CHUNK_DONE) {
        ptrdiff_t used = chunks_push(&c, text + at, step < n - at ? step : n - at, body, n_max);
        if (used < 0) return -10 - (ptrdiff_t)c.n_byte;
        if (body->failed) return -2;
        at += (size_t)used;
    }
    return c.state == CHUNK_DONE ? (ptrdiff_t)at : 0;
}

TEST(chunks_in_any_pieces)
{
    static const char text[] =
        "5;x=y\r\nhello\r\n1 ;name=a-value-that-is-longer-than-what-is-kept\r\n \r\n"
        "00B\r\nwide\r\nworld\r\n0\r\nT: r\r\n\r\nnext";
    for (size_t step = 1; step < sizeof text; step++) {
        struct buf body = {0};
        EXPECT_INT(decode(text, step, 100, &body), sizeof text - 1 - 4);
        EXPECT_TEXT(body.data, "hello wide\r\nworld");
        buf_deinit(&body);
    }
}

#define LONG_EXTENSION ";name=a-value-that-is-longer-than-what-is-kept-of-a-line"

TEST(chunks_malformed)
{
    static const struct {
        const char *text;
        size_t place; /* offset of the wrong byte */
    } bad[] = {
        {"\r\n", 1},
        {"x\r\n", 2},
        {"5\nhello", 1},
        {"5\r\nhelloX\r\n", 8},
        {"-1\r\n", 3},
        {"5 5\r\n", 4},
        {"0\r\nx\n", 4},
        {"0\r\n\n", 3},
        {"1\r\na\r\r", 5},
        {"fffffffffffffffff\r\n", 18},
        /* these bytes end a line in other parsers */
        {"5;\rx\r\nhello", 3},
        {"5" LONG_EXTENSION "\nhello", sizeof LONG_EXTENSION},
        {"5" LONG_EXTENSION "\rx\r\nhello", sizeof LONG_EXTENSION + 1},
        {"5;\x01\r\nhello", 2},
        {"5                                          x\r\nhello", 45},
        {"0\r\na: b\rc: d\r\n\r\n", 8},
        {"0\r\n\r\r\n", 4},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t step = 1; step < 9; step += 7) {
            struct buf body = {0};
            EXPECT_INT(decode(bad[i].text, step, 100, &body), -10 - (ptrdiff_t)bad[i].place);
            buf_deinit(&body);
        }
    struct buf body = {0};
    EXPECT_INT(decode("5\r\nhello\r\n6\r\nworlds\r\n0\r\n\r\n", 3, 10, &body), -2);
    buf_deinit(&body);
    EXPECT_INT(decode("fffffffffffffff\r\nx", 3, 10, &body), -2);
    buf_deinit(&body);
}
