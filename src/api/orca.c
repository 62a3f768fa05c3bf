/* orca.c - how loaded the server is, in the head of an answer, for balancers that ask with
 * `endpoint-load-metrics-format: text` or `json` (ORCA, the open request cost aggregation of xDS): the two figures that
 * vLLM reports, under its names. */
#include "server_impl.h"

#include <stdio.h>
#include <strings.h>

void orca_put(struct exchange *x, const struct server *s)
{
    const char *format = exchange_header(x, "endpoint-load-metrics-format");
    bool json = format && strcasecmp(format, "json") == 0,
         text = format && strcasecmp(format, "text") == 0;
    if (!json && !text) return;
    struct stats_view v;
    char report[160];
    stats_read(engine_stats(s->api->session->engine), &v);
    snprintf(report, sizeof report,
             json ? "JSON {\"named_metrics\": {\"kv_cache_usage_perc\": %.6g, "
                    "\"num_requests_waiting\": %lld}}"
                  : "TEXT named_metrics.kv_cache_usage_perc=%.6g, "
                    "named_metrics.num_requests_waiting=%lld",
             (double)v.value[STAT_kv_usage] * stat_scale(stat_info[STAT_kv_usage].unit),
             (long long)v.value[STAT_waiting]);
    exchange_add_header(x, "endpoint-load-metrics", report);
}
