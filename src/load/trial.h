/* trial.h - private to load: the common part of quoth bench latency, throughput and replay. A trial
 * opens a model and an engine in this process, sends jobs through the engine and prints the report.
 *
 *   jobs --trial_open--> model, engine --trial_run, once or several times--> clients' records
 *                                                                             | trial_figures
 *   standard output, --output-json, --output <--trial_print-- figures <-------+
 * Main thread only. */
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
    const char *name; /* name of the command, such as "bench throughput", static */
    struct traffic t; /* jobs to send */
    struct session s;
    struct step_log *log;         /* log of the engine's steps, owned; NULL: no log */
    struct traffic_result result; /* result of the last run */
    struct traffic_figures figures;
    struct traffic_peaks peaks;
    struct slo slo;
    struct samples percent; /* percentiles to report, owned */
    /* members of a JSON object, each after a comma; the command's own members are first */
    struct buf json;
    struct buf text; /* text to print */
    bool good;       /* true: the exit status is 0; false: 1 */
};
enum { TRIAL_LOG_BYTES = 64 << 20 };
/* Parameters of the model and the engine. log_bytes: maximum size of the log of steps; 0: no
 * log. */
struct trial_setup {
    bool offline; /* true: no inter-token target by default (struct session_options) */
    bool prefix_cache;
    /* true: touch all pages before the run, so that the pages do not count as growth of memory */
    bool touch_pages;
    size_t log_bytes;
};
/* Read the flags, open the model and start the engine for the jobs in b->t. Call trial_close also
 * after an error. Errors: those of figures_read, session_open_as, engine_open and engine_start. */
int trial_open(struct trial *b, const char *model, const struct trial_setup *o, struct err *e);
void trial_close(struct trial *b); /* Free the memory. A zeroed trial is allowed. */
/* Send all jobs. Measure the peaks before the first run, unless they are given. The previous result
 * is freed. ERR_MEMORY. */
int trial_run(struct trial *b, int max_concurrency, int n_choice, struct err *e);
/* Compute the figures. Measure the peaks again, after the last run. ERR_MEMORY. */
int trial_figures(struct trial *b, struct err *e);
/* Append the figures to the command's output in b->text and b->json, then print all to standard
 * output and write the files that flags name. ERR_IO or ERR_ARG for a file that cannot be written,
 * ERR_MEMORY. */
int trial_print(struct trial *b, bool detail, struct err *e);
/* Run a command: measure the model of the arguments, or the bundled model. Return the exit
 * status. */
int trial_main(const char *name, int (*measure)(struct trial *b, const char *model, struct err *e),
               int n_arg, char **arg);

#endif
