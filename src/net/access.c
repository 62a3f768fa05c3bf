/* access.c - the access log: a line per answer, as text or JSON, whole lines whatever a client sent. They are written
 * together, a tenth of a second late at most, because a write costs as much as everything else about a line; to a terminal
 * at once. */
#include "net_impl.h"

#include "base/date.h"
#include "base/json.h"
#include "base/log.h"
#include "base/os.h"

#include <string.h>
#include <unistd.h>

enum {
    TOGETHER_BYTES = 3072
}; /* and a line: a pipe takes 4096 as a whole, whoever else writes to it */

static void put_text(struct buf *b, const char *name, const char *text)
{
    buf_addf(b, ",\"%s\":", name);
    json_put_text(b, text, strlen(text));
}

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
             x->body.n, (unsigned long long)x->n_sent, (long long)(us / 1000), (int)(us % 1000));
    put_text(b, "id", x->id);
    buf_add_text(b, "}\n");
}

static void put_plain(struct buf *b, const struct exchange *x, int status, int64_t us)
{
    date_put_iso(b, time_wall_us());
    buf_addf(b, " %s %s \"%s ", x->peer, x->key ? x->key->name : "-",
             x->head.method ? x->head.method : "-");
    for (const char *c = x->head.path ? x->head.path : "-"; *c; c++)
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\' || *c == 127)
            buf_addf(b, "\\x%02x", (unsigned char)*c);
        else
            buf_add_char(b, *c);
    buf_addf(b, "\" %d %zu %llu %lld.%03dms %s\n", status, x->body.n, (unsigned long long)x->n_sent,
             (long long)(us / 1000), (int)(us % 1000), x->id);
}

void access_line(struct net *n, const struct exchange *x, int status)
{
    if (n->access_fd < 0) return;
    struct buf *b = &n->access;
    size_t before = b->n;
    int64_t now = time_us();
    int64_t us = now - x->start_us;
    if (before == 0) n->access_due_us = now + ACCESS_MS * 1000;
    if (log_as_json)
        put_json(b, x, status, us);
    else
        put_plain(b, x, status, us);
    if (b->failed) b->n = before, b->failed = false; /* memory ran out: not half a line */
    if (b->n >= TOGETHER_BYTES || n->access_at_once) access_flush(n);
}

void access_flush(struct net *n)
{
    struct buf *b = &n->access;
    ssize_t put = b->n ? write(n->access_fd, b->data, b->n) : 0;
    (void)put; /* a full disk must not stop the server */
    buf_clear(b);
}
