/* access.c - the access log: one line per answer, as text or JSON, always whole lines whatever a
 * client sent. Lines are written together, at most 0.1 s late, because a write costs as much as the
 * rest of a line; to a terminal they are written at once. A thread writes them (base/writer.h), so
 * a blocked reader loses lines but delays no answer. */
#include "net_impl.h"

#include "base/date.h"
#include "base/json.h"
#include "base/log.h"
#include "base/writer.h"
#include "base/os.h"

#include <string.h>
#include <unistd.h>

enum {
    TOGETHER_BYTES = 3072
}; /* with one more line at most 4096 bytes, which a pipe takes atomically */

static void put_text(struct buf *b, const char *name, const char *text)
{
    buf_addf(b, ",\"%s\":", name);
    log_put_json(b, text);
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
             (size_t)x->n_body, (unsigned long long)x->n_sent, (long long)(us / 1000),
             (int)(us % 1000));
    put_text(b, "id", x->id);
    buf_add_text(b, "}\n");
}

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
    if (before == 0) n->access_due_us = now + ACCESS_MS * 1000;
    if (log_as_json)
        put_json(b, x, status, us);
    else
        put_plain(b, x, status, us);
    if (b->failed) b->n = before, b->failed = false; /* memory ran out: no partial line */
    if (b->n >= TOGETHER_BYTES || n->access_at_once) access_flush(n);
}

void access_flush(struct net *n)
{
    struct buf *b = &n->access;
    if (b->n) writer_put(n->access_to, b->data, b->n);
    buf_clear(b);
}
