/* access.c - the access log: one whole line per answer, as text or JSON, for any bytes that a
 * client sends. Lines are collected for at most 0.1 s, because a write costs as much as all other
 * work for a line. Lines for a terminal are written immediately. A separate thread writes them
 * (base/writer.h). A reader of the log that blocks loses lines, but delays no answer. */
#include "net_impl.h"

#include "base/date.h"
#include "base/json.h"
#include "base/log.h"
#include "base/writer.h"
#include "base/os.h"

#include <string.h>
#include <unistd.h>

/* size of a write. A write with one more line has at most 4096 bytes, which a pipe accepts
 * atomically */
enum { TOGETHER_BYTES = 3072 };

/* Append a member whose value may contain any bytes of a client. log_put_json escapes the value, so
 * a client cannot forge a line. */
static void put_text(struct buf *b, const char *name, const char *text)
{
    buf_addf(b, ",\"%s\":", name);
    log_put_json(b, text);
}

/* Append an answer as one JSON object, for example
 *    {"time":"2026-01-31T12:00:00.000Z",...,"method":"POST","path":"/v1/models","status":200,...}
 * The line contains "-" for a method or path that a rejected head does not have. */
static void put_json(struct buf *b, const struct exchange *x, int status, int64_t us)
{
    buf_add_text(b, "{\"time\":\"");
    date_put_iso(b, time_wall_us());
    buf_add_text(b, "\",\"level\":\"info\",\"event\":\"request\"");
    put_text(b, "peer", x->peer);
    if (x->key) put_text(b, "key", x->key->name);
    put_text(b, "method", x->head.method ? x->head.method : "-");
    put_text(b, "path", x->head.path ? x->head.path : "-");
    buf_addf(b, ",\"status\":%d,\"bytes_in\":%zu,\"bytes_out\":%llu,\"ms\":%lld.%03d", status,
             (size_t)x->n_body, (unsigned long long)x->n_sent, (long long)(us / 1000),
             (int)(us % 1000));
    put_text(b, "id", x->id);
    buf_add_text(b, "}\n");
}

/* Append an answer as text: time, peer, key, "method path", status, bytes in, bytes out, duration,
 * id. The fields that contain a client's bytes are the key's name, the path and the id. */
static void put_plain(struct buf *b, const struct exchange *x, int status, int64_t us)
{
    date_put_iso(b, time_wall_us());
    buf_addf(b, " %s ", x->peer);
    log_put_plain(b, x->key ? x->key->name : "-");
    buf_addf(b, " \"%s ", x->head.method ? x->head.method : "-");
    log_put_plain(b, x->head.path ? x->head.path : "-");
    buf_addf(b, "\" %d %zu %llu %lld.%03dms ", status, (size_t)x->n_body,
             (unsigned long long)x->n_sent, (long long)(us / 1000), (int)(us % 1000));
    log_put_plain(b, x->id);
    buf_add_char(b, '\n');
}

void access_line(struct net *n, const struct exchange *x, int status)
{
    if (!n->access_to) return;
    struct buf *b = &n->access;
    size_t before = b->n;
    int64_t now = time_us();
    int64_t us = now - x->start_us;
    /* the first pending line determines the time of the write, so no line waits longer than
     * ACCESS_MS */
    if (before == 0) n->access_due_us = now + ACCESS_MS * 1000;
    if (log_as_json)
        put_json(b, x, status, us);
    else
        put_plain(b, x, status, us);
    /* discard a partial line if memory is exhausted */
    if (b->failed) b->n = before, b->failed = false;
    if (b->n >= TOGETHER_BYTES || n->access_at_once) access_flush(n);
}

void access_flush(struct net *n)
{
    struct buf *b = &n->access;
    if (b->n) writer_put(n->access_to, b->data, b->n);
    buf_clear(b);
}
