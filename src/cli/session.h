/* session.h - private to cli: what run, perplexity and others open before they can compute, and the option groups for it. */
#ifndef QUOTH_CLI_SESSION_H
#define QUOTH_CLI_SESSION_H

#include "cli.h"

#include "engine/engine.h"

struct session {
    struct checkpoint *checkpoint;
    struct tokenizer *tokenizer;
    struct backend *backend;
    struct model *model;
    struct engine *engine;
    int64_t open_us; /* how long opening took */
};

/* --threads, --cpu, --activation-dtype, --kv-cache-dtype, --block-size, --max-model-len, ... */
extern const struct option model_options[];
/* --temperature, --top-k, ... --seed, --stop */
extern const struct option sample_options[];

/* Open everything but the engine: rows and outputs of a step at most. `context` caps the context where
 * --max-model-len was not given (0: no cap). */
int session_open(struct session *s, const char *path, int n_seq, int n_out, int context, struct err *e);
int session_engine(struct session *s, struct err *e);
void session_close(struct session *s);
/* The allocation plan, to standard error. */
void session_report(const struct session *s);

/* The model's defaults (generation_config) overridden by the flags given. Pointers are borrowed from the flags. */
int sample_params_read(struct sample_params *p, const struct session *s, struct arena *a, struct err *e);
struct reply_options reply_options_read(const struct session *s, struct arena *a);

#endif
