/* early.c - streams that begin before their first piece.
 *
 * A request may wait for the load of its model, and then in the queue of an engine. Proxies and
 * clients time out without bytes. A stream therefore begins after BEGIN_MS of waiting, or after its
 * interval of pings if that is shorter:
 *
 *   waiting --early_begin--> head, ping, ping ... --> pieces of the answer
 *                                            '--early_fail--> error in the form of the dialect
 *
 * The pings are comments (events for Anthropic's clients), and spaces before a line of NDJSON.
 * Other answers never begin early, because their status depends on their end. */
#include "server_impl.h"

#include "base/os.h"

#include <string.h>

enum { BEGIN_MS = 10 * 1000, PING_S_MAX = 24 * 3600 };

int early_ping_s(const struct json *body)
{
    const struct json *j = body_field(body, "sse_ping_interval");
    const int64_t s = json_int(j, 0);
    return s >= -1 && s <= PING_S_MAX ? (int)s : 0;
}

/* Return the time before the beginning of a stream, in milliseconds. */
static int64_t begin_ms(const struct server *s, int ping_s)
{
    const int64_t own = ping_s ? (int64_t)ping_s * 1000 : s->o.net.ping_ms;
    return own > 0 && own < BEGIN_MS ? own : BEGIN_MS;
}

/* The interval of pings is the time before a wake while the answer has not begun. */
void early_wait(const struct server *s, struct exchange *x, int ping_s)
{
    exchange_set_ping(x, exchange_begun(x) ? (int64_t)ping_s * 1000 : begin_ms(s, ping_s));
}

bool early_is_due(const struct server *s, const struct exchange *x, int ping_s)
{
    return time_us() - exchange_arrival_us(x) >= begin_ms(s, ping_s) * 1000;
}

void early_begin(const struct server *s, struct exchange *x, const struct dialect *d, int ping_s,
                 bool ping)
{
    orca_put(x, s);
    exchange_begin(x, 200, d->stream_type);
    exchange_set_ping(x, (int64_t)ping_s * 1000);
    /* 0: the server's interval, which may be none */
    if (ping && (ping_s > 0 || (ping_s == 0 && s->o.net.ping_ms >= 0))) exchange_ping(x);
}

void early_fail(struct exchange *x, int rc, const struct err *e)
{
    const struct dialect *d = dialect_find(exchange_path(x));
    const struct error_form *form = d ? d->errors : server_form(x);
    struct buf b = {0};
    exchange_set_status(x, api_status(rc));
    if (d && d->put_early_error) {
        d->put_early_error(&b, rc, e);
    } else {
        buf_add_text(&b, form->before);
        form->put(&b, rc, e, exchange_id(x));
        buf_add_text(&b, form->after);
    }
    if (b.failed) {
        exchange_abort(x);
    } else {
        exchange_push_last(x, b.data, b.n);
        exchange_end(x);
    }
    buf_deinit(&b);
}
