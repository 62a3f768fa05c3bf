/* head_fuzz.c - goal: mutated heads, chunked bodies and key files give the same results in pieces
 * and as a whole. */
#include "net_impl.h"
#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Read every text of a parsed head. The access log also reads the texts after a failure. */
static size_t read_texts(const struct head *h)
{
    const char *const text[] = {h->method, h->target, h->path, h->query};
    size_t n = 0;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) n += text[i] ? strlen(text[i]) : 0;
    for (int i = 0; i < h->n_header; i++)
        n += strlen(h->header[i].name) + strlen(h->header[i].value);
    return n;
}

FUZZ(http_head)
{
    struct head h = {0};
    struct err e = {0};
    struct buf value = {0};
    struct guard g = {.loopback = true};
    size_t n_head = head_length((const char *)data, n);
    if (n_head == 0) return;
    int rc = head_parse(&h, (const char *)data, n_head, &e);
    assert(rc == 0 || e.text[0]);
    assert(read_texts(&h) <= 3 * n);
    if (rc == 0) {
        const char *host = head_header(&h, "host"), *origin = head_header(&h, "origin");
        assert(h.method && h.path && h.query && h.n_body >= 0);
        assert(!(h.chunked && h.n_body > 0));
        if (guard_host(&g, host)) fuzz_accepted();
        guard_origin(&g, origin, host);
        query_value(h.query, "a", &value);
    }
    buf_deinit(&value);
    head_deinit(&h);
}

/* Decode a chunked body in pieces of `step` bytes. Return the number of bytes used, or -1. */
static ptrdiff_t decode(const uint8_t *data, size_t n, size_t step, struct buf *body)
{
    struct chunks c = {0};
    size_t at = 0;
    while (at < n && c.state != CHUNK_DONE && !body->failed) {
        ptrdiff_t used =
            chunks_push(&c, (const char *)data + at, step < n - at ? step : n - at, body, 1000);
        if (used < 0) return -1;
        at += (size_t)used;
    }
    return c.state == CHUNK_DONE ? (ptrdiff_t)at : 0;
}

FUZZ(http_chunks)
{
    struct buf a = {0}, b = {0};
    ptrdiff_t whole = decode(data, n, n ? n : 1, &a), pieces = decode(data, n, 1, &b);
    assert(whole == pieces && a.n <= 1000 && a.n == b.n);
    assert(a.n == 0 || memcmp(a.data, b.data, a.n) == 0);
    if (whole > 0) fuzz_accepted();
    buf_deinit(&a), buf_deinit(&b);
}

FUZZ(net_keys)
{
    struct net_keys k = {0};
    struct err e = {0};
    int rc = net_keys_parse(&k, (const char *)data, n, "keys", &e);
    assert(rc == 0 || e.text[0]);
    if (rc == 0) fuzz_accepted();
    for (size_t i = 0; i < k.n; i++) { /* also check the keys before a failure */
        assert(net_keys_find(&k, k.v[i].secret, strlen(k.v[i].secret)) == &k.v[i]);
        assert(strlen(k.v[i].name) <= n + 30 && k.v[i].per_minute >= 0);
        assert(k.v[i].share >= 1e-3 && k.v[i].share <= 1e6);
    }
    net_keys_deinit(&k);
}
