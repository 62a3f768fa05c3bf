/* session.h - private to cli: opening what session/session.h opens as the flags say, and the option
 * groups for it. */
#ifndef QUOTH_CLI_SESSION_H
#define QUOTH_CLI_SESSION_H

#include "cli.h"

#include "session/session.h"

/* What the flags said; the defaults before they were read. */
extern struct session_options session_flags;

/* --threads, --cpu, --activation-dtype, --kv-cache-dtype, --block-size, --max-model-len, ... */
extern const struct option model_options[];
/* --load-format, --shape, --quant, --pure, --dummy-seed: a part of model_options */
extern const struct option load_options[];
/* --chat-template, --default-chat-template-kwargs, --now, --system */
extern const struct option chat_options[];
const char *chat_system(void); /* --system, or NULL */
/* --temperature, --top-k, ... --seed, --stop */
extern const struct option sample_options[];

/* --shape, else the model packed into this program; NULL with a sentence if there is none. `typed`
 * is what stood in its place (NULL: nothing), which may have been meant as one. */
const char *session_bundled(const char *typed, struct err *e);

/* Open everything but the engine: rows and outputs of a step at most. `context` caps the context
 * where --max-model-len was not given (0: no cap). */
int session_open(struct session *s, const char *path, int n_seq, int n_out, int context,
                 struct err *e);
/* The same where more than that is to be said. */
int session_open_sized(struct session *s, const char *path, const struct session_size *size,
                       struct err *e);
int session_backend(struct session *s, struct err *e); /* the backend alone */
int session_engine(struct session *s, struct err *e);
int session_page_rows(void);        /* as --block-size says */
const char *session_act_name(void); /* as --activation-dtype says */
/* The allocation plan, to standard error. */
void session_report(const struct session *s);

/* The model's defaults (generation_config) overridden by the flags given. Pointers are borrowed
 * from the flags. */
int sample_params_read(struct sample_params *p, const struct session *s, struct arena *a,
                       struct err *e);
struct reply_options reply_options_read(const struct session *s, struct arena *a);

/* The template of a file FILE.jinja, or of a model, which is then opened too (header alone; close
 * it, also after a failure). ERR_MISSING: the model has none. */
int chat_template_of(struct template **t, struct checkpoint **c, const char *path, struct err *e);

#endif
