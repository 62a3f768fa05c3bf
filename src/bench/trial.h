/* trial.h - private to bench: what quoth bench latency, throughput and replay share: a model and an engine in this
 * process, jobs sent through it, and what is said of that.
 *
 *   jobs --trial_open--> model, engine --trial_run, once or several times--> what clients saw
 *                                                                             | trial_figures
 *   standard output, --output-json, --output <--trial_print-- figures <-------+ */
#ifndef QUOTH_BENCH_TRIAL_H
#define QUOTH_BENCH_TRIAL_H

#include "flags.h"

/* --disable-detokenize, --goodput, --json, --output-json, --output, figure_options, and those of models. */
extern const struct option trial_options[];
/* --enable-prefix-caching, of those that have it on unless they are told */
extern const struct option cache_options[];
extern bool prefix_cache_flag;

struct trial {
    const char *name; /* "bench throughput": of the command */
    struct traffic t; /* what is sent */
    struct session s;
    struct step_log *log;         /* NULL: steps are not written down */
    struct traffic_result result; /* of the last run */
    struct traffic_figures figures;
    struct traffic_peaks peaks;
    struct slo slo;
    struct samples percent; /* owned */
    struct buf json;        /* members of an object, a comma before each: the command's own first */
    struct buf text;        /* what is printed */
    bool good;              /* exit 0, else 1 */
};
enum { TRIAL_LOG_BYTES = 64 << 20 };
/* The model and an engine for jobs as long as t's. log_bytes 0: no log. */
struct trial_setup {
    bool offline; /* nobody waits for a token: see struct session_options */
    bool prefix_cache;
    bool touch_pages; /* before the run, so that memory that grows in it is not theirs */
    size_t log_bytes;
};
int trial_open(struct trial *b, const char *model, const struct trial_setup *o, struct err *e);
void trial_close(struct trial *b); /* safe on a zeroed one */
/* Send everything. Peaks are measured, unless they were given, before the first run and ... */
int trial_run(struct trial *b, int max_concurrency, int n_choice, struct err *e);
/* ... after the last. */
int trial_figures(struct trial *b, struct err *e);
/* The figures go behind what the command wrote to b->text and b->json; then all of it out: to standard
 * output, and to the files that flags name. */
int trial_print(struct trial *b, bool detail, struct err *e);
/* A command's run: the model that the arguments name, or the bundled one, measured; its exit status. */
int trial_main(const char *name, int (*measure)(struct trial *b, const char *model, struct err *e),
               int n_arg, char **arg);

#endif
