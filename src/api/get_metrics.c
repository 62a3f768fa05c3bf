/* get_metrics.c - GET /metrics: the engine's figures under vLLM's names, and the server's own, for Prometheus. */
#include "server_impl.h"

static void put_http(struct buf *b, const struct net_stats *n)
{
    buf_add_text(b, "# HELP http_requests_total Answers, by hundreds of their status.\n"
                    "# TYPE http_requests_total counter\n");
    for (int i = 1; i < 6; i++)
        buf_addf(b, "http_requests_total{status=\"%dxx\"} %lld\n", i, (long long)n->n_status[i]);
    buf_addf(b,
             "# HELP quoth:http_connections Open connections.\n"
             "# TYPE quoth:http_connections gauge\n"
             "quoth:http_connections %d\n"
             "# HELP quoth:http_requests_running Requests being answered.\n"
             "# TYPE quoth:http_requests_running gauge\n"
             "quoth:http_requests_running %d\n"
             "# HELP quoth:http_hangups_total Clients that left before their answer was complete.\n"
             "# TYPE quoth:http_hangups_total counter\n"
             "quoth:http_hangups_total %lld\n"
             "# HELP quoth:http_cpu_seconds_total CPU time of the server's own threads.\n"
             "# TYPE quoth:http_cpu_seconds_total counter\n"
             "quoth:http_cpu_seconds_total %.6f\n",
             n->n_conn, n->n_exchange, (long long)n->n_hangup,
             (double)(n->loop_us + n->handler_us + n->stream_us) * 1e-6);
}

void get_metrics(struct exchange *x, void *server)
{
    const struct server *s = server;
    const struct stats *st = engine_stats(s->api->session->engine);
    struct net_stats n = net_stats(s->net);
    struct stats_view v;
    struct buf b = {0};
    stats_read(st, &v);
    stats_prometheus(st, &v, NULL, &b);
    put_http(&b, &n);
    exchange_reply(x, b.failed ? 500 : 200, "text/plain; version=0.0.4; charset=utf-8",
                   b.data ? b.data : "", b.n);
    buf_deinit(&b);
}
