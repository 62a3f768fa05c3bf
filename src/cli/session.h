/* session.h - private to cli: what run, perplexity and others open before they can compute, and the
 * option groups for it. */
#ifndef QUOTH_CLI_SESSION_H
#define QUOTH_CLI_SESSION_H

#include "cli.h"

#include "chat/chat.h"
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

/* --shape, else the model packed into this program; NULL with a sentence if there is none. `typed`
 * is what stood in its place (NULL: nothing), which may have been meant as one. */
const char *session_bundled(const char *typed, struct err *e);

/* Open everything but the engine: rows and outputs of a step at most. `context` caps the context
 * where --max-model-len was not given (0: no cap). */
int session_open(struct session *s, const char *path, int n_seq, int n_out, int context,
                 struct err *e);
/* The same where more than that is to be said. */
struct session_size {
    int n_seq, n_out, context;
    int n_row_min; /* rows of a step, if --max-num-batched-tokens is less             */
    int n_page;    /* KV pages, if --num-gpu-blocks-override was not given; 0: one sequence's */
    int n_copy;    /* page copies of a step; 0: one per sequence                      */
};
int session_open_sized(struct session *s, const char *path, const struct session_size *size,
                       struct err *e);
/* The backend alone, and the KV type that the flags name. */
int session_backend(struct session *s, struct err *e);
int session_kv_type(enum kv_type *t, struct err *e);
int session_engine(struct session *s, struct err *e);
int session_n_thread(const struct session *s); /* that run; --threads may have asked for more */
int session_page_rows(void);                   /* as --block-size says */
const char *session_act_name(void);            /* as --activation-dtype says */
void session_close(struct session *s);
/* The allocation plan, to standard error. */
void session_report(const struct session *s);

/* The model's defaults (generation_config) overridden by the flags given. Pointers are borrowed
 * from the flags. */
int sample_params_read(struct sample_params *p, const struct session *s, struct arena *a,
                       struct err *e);
struct reply_options reply_options_read(const struct session *s, struct arena *a);

/* ---- pack_cache.c: --no-pack-cache, --pack-cache-size ---- */

extern const struct option pack_cache_options[];
struct weights_options pack_cache_read(void); /* valid until the next call */
const char *pack_cache_dir(void);             /* NULL: there is no place for it */

/* ---- chat_options.c: --chat-template, --system, --default-chat-template-kwargs, --now ---- */

extern const struct option chat_options[];

/* The template of --chat-template FILE or NAME, else the checkpoint's (NULL: no checkpoint); *t
 * NULL: there is none. */
int chat_template(struct template **t, const struct checkpoint *c, struct err *e);
int chat_template_file(struct template **t, const char *path,
                       struct err *e); /* "-": standard input */
/* The template of a file FILE.jinja, or of a model, which is then opened too (header alone; close
 * it, also after a failure). ERR_MISSING: the model has none. */
int chat_template_of(struct template **t, struct checkpoint **c, const char *path, struct err *e);

const char *chat_system(void);                        /* --system, or NULL            */
int chat_now(int64_t *now, struct err *e);            /* 0: the real clock            */
int chat_kwargs(struct json **kwargs, struct err *e); /* owned; NULL: none            */

/* bos_token and eos_token as templates see them; NULL where the tokenizer (NULL is fine) has none.
 */
struct chat_special {
    char bos_text[64], eos_text[64];
    const char *bos, *eos;
};
void chat_special(struct chat_special *c, const struct tokenizer *t);

#endif
