/* trial.h - private to load: shared by quoth bench latency, throughput and replay: a model and an
 * engine in this process, jobs sent through it, and the report.
 *
 *   jobs --trial_open--> model, engine --trial_run, once or several times--> what clients saw
 *                                                                             | trial_figures
 *   standard output, --output-json, --output <--trial_print-- figures <-------+ */
#ifndef QUOTH_LOAD_TRIAL_H
#define QUOTH_LOAD_TRIAL_H

#include "flags.h"

/* --disable-detokenize, --goodput, --json, --output-json, --output, figure_options, and the model
 * options. */
extern const struct option trial_options[];
/* --enable-prefix-caching, for commands that enable it by default */
extern const struct option cache_options[];
extern bool prefix_cache_flag;

struct trial {
    const char *name; /* the command's name: "bench throughput" */
    struct traffic t; /* jobs to send */
    struct session s;
    struct step_log *log;         /* NULL: steps are not logged */
    struct traffic_result result; /* of the last run */
    struct traffic_figures figures;
    struct traffic_peaks peaks;
    struct slo slo;
    struct samples percent; /* owned */
    struct buf json;        /* members of an object, each after a comma: the command's own first */
    struct buf text;        /* text to print */
    bool good;              /* exit 0, else 1 */
};
enum { TRIAL_LOG_BYTES = 64 << 20 };
/* Parameters of the model and an engine for jobs as long as t's. log_bytes 0: no log. */
struct trial_setup {
    bool offline; /* no inter-token target by default: see struct session_options */
    bool prefix_cache;
    bool touch_pages; /* before the run, to exclude them from memory growth */
    size_t log_bytes;
};
int trial_open(struct trial *b, const char *model, const struct trial_setup *o, struct err *e);
void trial_close(struct trial *b); /* safe on a zeroed one */
/* Send all jobs. Measures the peaks before the first run, unless they are given. */
int trial_run(struct trial *b, int max_concurrency, int n_choice, struct err *e);
/* Compute the figures; measures the peaks again, after the last run. */
int trial_figures(struct trial *b, struct err *e);
/* Append the figures to the command's output in b->text and b->json, then print all to standard
 * output and write the files that flags name. */
int trial_print(struct trial *b, bool detail, struct err *e);
/* Run a command: measure the model named by the arguments, or the bundled one; return the exit
 * status. */
int trial_main(const char *name, int (*measure)(struct trial *b, const char *model, struct err *e),
               int n_arg, char **arg);

#endif
