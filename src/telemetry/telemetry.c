/* telemetry.c - open and close the exporter of spans (telemetry.h).
 *
 *   options --> queue, client, batch --> exporter thread ... span_queue_stop --> joined, freed */
#include "telemetry_impl.h"

#include "base/os.h"
#include "fetch/fetch.h"

#include <stdlib.h>

enum { CLOSE_US = 2000 * 1000 };

int telemetry_check(const char *url, struct err *e)
{
    struct telemetry_options o = {0};
    struct fetch *f = NULL;
    int rc = telemetry_options_read(&o, url, getenv, e);
    if (rc == 0 && o.wanted) rc = fetch_open(&f, NULL, e);
    fetch_close(f);
    telemetry_options_deinit(&o);
    return rc;
}

/* Open the parts of t, whose options are read. */
static int open_parts(struct telemetry *t, struct err *e)
{
    const size_t n_batch = (size_t)t->o.batch_max;
    const struct fetch_options o = {.ca_file = t->o.ca_file};
    for (int i = 0; i < 3; i++) t->seed[i] = os_random();
    int rc = span_queue_init(&t->queue, (size_t)t->o.queue_max, e);
    if (rc == 0) rc = fetch_open(&t->fetch, &o, e);
    if (rc == 0 && !(t->batch = calloc(n_batch, sizeof *t->batch)))
        rc = err_memory(e, "a batch of spans", n_batch * sizeof *t->batch);
    if (rc == 0 && !os_thread_start(&t->thread, exporter_run, t))
        rc = os_thread_error("the exporter thread", e);
    t->started = rc == 0;
    return rc;
}

int telemetry_open(struct telemetry **out, const char *url, struct err *e)
{
    struct telemetry *t = *out = calloc(1, sizeof *t);
    if (!t) return err_memory(e, "traces", sizeof *t);
    t->o.silent = true; /* telemetry_check has logged the warnings */
    int rc = telemetry_options_read(&t->o, url, getenv, e);
    if (rc == 0 && t->o.wanted) rc = open_parts(t, e);
    if (rc == 0 && t->o.wanted) return 0;
    telemetry_close(t);
    *out = NULL;
    return rc;
}

void telemetry_close(struct telemetry *t)
{
    if (!t) return;
    if (t->started) {
        span_queue_stop(&t->queue, time_us() + CLOSE_US);
        pthread_join(t->thread, NULL);
    }
    fetch_close(t->fetch);
    span_queue_deinit(&t->queue);
    telemetry_options_deinit(&t->o);
    free(t->batch);
    free(t);
}
