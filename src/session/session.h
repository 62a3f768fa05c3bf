/* session.h - an open model: from a path and options to a running engine.
 *
 *   options (flags of a command, keys of quoth_open) --session_open_as--> checkpoint, tokenizer, backend, model
 *                                                    --session_start----> engine on its thread
 *                                                    --chat_open--------> the template for conversations
 *
 * Commands, the library and the server open their models with it. Open and close on one thread. */
#ifndef QUOTH_SESSION_H
#define QUOTH_SESSION_H

#include "chat/chat.h"
#include "engine/engine.h"
#include "held.h"
#include "kern/kern.h"

/* ---- options ---- */

/* One field per row of the .def files; texts are borrowed. Initialize from session_defaults. */
struct session_options {
#define SESSION_INT(field, ...)   int64_t field;
#define SESSION_REAL(field, ...)  double field;
#define SESSION_TEXT(field, ...)  const char *field;
#define SESSION_FLAG(field, ...)  bool field;
#define SESSION_NAME(field, ...)  const char *field;
#define SESSION_FORM(field, ...)  const char *field;
#define SESSION_POWER(field, ...) int64_t field;
#include "chat.def"
#include "load.def"
#include "model.def"
#include "parser.def"
#include "pack_cache.def"
#undef SESSION_INT
#undef SESSION_REAL
#undef SESSION_TEXT
#undef SESSION_FLAG
#undef SESSION_NAME
#undef SESSION_FORM
#undef SESSION_POWER
    bool offline;          /* no inter-token target by default: no client waits for single tokens */
    progress_fn *progress; /* called with the progress of packing weights; NULL: none */
    void *progress_ctx;
};
extern const struct session_options session_defaults;

/* Legal values of options, for the .def files (i = 0, 1, ...; NULL after the last). */
const char *session_device_names(int i);
const char *session_cpu_names(int i);
const char *session_act_names(int i);
const char *session_kv_names(int i);
const char *session_scheduler_names(int i);
const char *session_load_names(int i);
const char *session_pooling_names(int i); /* for serve's --pooling */
const char *session_tool_parser_names(int i);
const char *session_reasoning_parser_names(int i);
const char *session_shape_names(int i);
const char *session_quant_names(int i);
/* Checks of values, for the same files. */
int session_bytes_form(const char *text, struct err *e);
int session_itl_form(const char *text, struct err *e);
int session_date_form(const char *text, struct err *e);
int session_power_form(const char *text, struct err *e);

/* Set the option named `key` ("max-model-len", "max_model_len") from a text, as on the command
 * line; the value is borrowed. ERR_ARG names the key. */
int session_option_set(struct session_options *o, const char *key, const char *value,
                       struct err *e);

/* ---- opening ---- */

struct session {
    struct checkpoint *checkpoint;
    struct tokenizer *tokenizer;
    struct backend *backend;
    struct model *model;
    struct engine *engine;
    struct words *words;           /* owned: for constraints */
    const struct model_info *info; /* borrowed from model, valid while it is open */
    int64_t open_us;               /* time that opening took */
};

/* What the caller needs per step and in memory, unless an option overrides it. */
struct session_size {
    int n_seq, n_out; /* maximum sequences and outputs of a step                          */
    int context;      /* upper limit of the context (0: none)                             */
    int n_row_min;    /* minimum rows of a step, overrides a smaller max_num_batched_tokens */
    int n_page;       /* KV pages; 0: enough for n_longest of the longest sequences,      */
    int n_longest;    /* limited to half of the free memory; 0: 1                         */
    int n_copy;       /* maximum page copies of a step; 0: one per sequence               */
};

/* Size for many concurrent requests: batch files, the library, a server. */
extern const struct session_size session_many;

/* Open everything except the engine. On failure nothing remains open. */
int session_open_as(struct session *s, const char *path, const struct session_options *o,
                    const struct session_size *size, struct err *e);
/* Return a byte_max for an engine with untrusted clients: a request's memory is reserved when it is
 * submitted, and it may contain many long sequences. */
int64_t session_request_bytes(void);

/* Start the engine on its own thread. queue_max: maximum waiting requests (0: the engine's
 * default). */
int session_start(struct session *s, const struct session_options *o, int queue_max, struct err *e);
/* Set *eo to the options that session_start uses, for callers that open an engine with changes. */
void session_engine_options(struct engine_options *eo, const struct session *s,
                            const struct session_options *o);
void session_close(struct session *s); /* safe on a zeroed session */

/* Print the model's properties and the memory plan to standard error. */
void session_report(const struct session *s);
const char *session_device(const struct session *s); /* the backend's text: "cpu avx2, 2 threads" */
const char *session_kv_name(const struct session *s); /* name of the KV type: "float16" */
/* Return the path of this program if a model is packed into it; else NULL. */
const char *session_packed(void);

/* Open parts of a session. The checkpoint may be opened without the data of random weights, the
 * backend without a model (s->checkpoint gives the number of bytes that it will read; may be
 * NULL). */
int session_checkpoint(struct checkpoint **out, const char *path, const struct session_options *o,
                       bool no_data, struct err *e);
/* Open the checkpoint's tokenizer; for random weights in the shape of a folder, the folder's. */
int session_tokenizer(struct tokenizer **out, const struct checkpoint *c, struct err *e);
const char *session_device_name(const struct session_options *o); /* as --device names it: "cpu" */
int session_open_backend(struct session *s, const struct session_options *o, struct err *e);
int session_kv_type(enum kv_type *t, const struct session_options *o, struct err *e);
int session_n_thread(const struct session *s); /* threads that run; may be fewer than requested */

/* Return where packed weights are kept; *cache is the caller's memory and must outlive the
 * result. */
struct weights_options session_weights(const struct session_options *o, struct filecache *cache);
const char *pack_cache_dir(void); /* NULL if there is no place for it */

/* Set *out to the pooling of embeddings: "mean", "last", "first" (or "cls"), or "auto" (the
 * model's own, else last). */
int session_pooling(enum pooling *out, const struct session *s, const char *name, struct err *e);

/* Return quoth's defaults, overridden by the recommendations of the model's authors
 * (generation_config). */
struct sample_params session_sample_defaults(const struct checkpoint *c, float temperature);

/* ---- peaks.c: what the machine can do at most ---- */

/* Return the arithmetic that multiplies activations of a layer of type t, or of the type of most
 * weights. */
enum arith session_arith(const struct session_options *o, enum qtype t);
enum arith session_arith_most(const struct session_options *o, const struct checkpoint *c);

/* Peak rates of all threads together, per second. */
struct machine_peaks {
    double ops[N_ARITH]; /* 0: the kernel level has no instructions for it */
    double read_bytes;   /* 0: too little memory to read beyond the caches */
    enum arith arith;    /* of the session's model */
    const char *arith_name;
};

/* A thread that measures the peaks once, while the engine is idle, and keeps them in the cache
 * folder for later starts with the same processor, level and number of threads. The session and its
 * engine must outlive it. */
struct peaks;
int peaks_open(struct peaks **out, const struct session *s, const struct session_options *o,
               struct err *e);
void peaks_close(struct peaks *p); /* takes about 20 ms; p may be NULL */
/* Return false if not measured yet, or if p is NULL. Any thread. */
bool peaks_get(const struct peaks *p, struct machine_peaks *out);

/* ---- conversations ---- */

/* bos_token and eos_token in the form that templates use; NULL if the tokenizer has none (t may be
 * NULL). */
struct chat_special {
    char bos_text[64], eos_text[64];
    const char *bos, *eos;
};
void chat_special(struct chat_special *c, const struct tokenizer *t);

/* How conversations become prompts: the template and its variables besides messages. */
struct chat {
    struct template *t;  /* owned; NULL: the model has none            */
    struct json *kwargs; /* owned; the template's variables, or NULL   */
    struct chat_special special;
    int64_t now; /* the template's clock; 0: the real one      */
    /* Parsers of answers; NULL: none. Static or borrowed from the options. */
    const char *tool_parser, *reasoning_parser;
    bool calls_as_content; /* --tool-call-parser none: calls are deliberately content */
    const char *system;    /* borrowed; for conversations without a system message; NULL if none */
};
int chat_open(struct chat *c, const struct session *s, const struct session_options *o,
              struct err *e);
void chat_close(struct chat *c); /* safe on a zeroed one */

/* Open the template named `name`: a file, or one of the checkpoint's by name (NULL: its default).
 * *t is NULL if there is none. c NULL: no checkpoint. */
int chat_template(struct template **t, const struct checkpoint *c, const char *name, struct err *e);
/* Read a template from a file; "-": standard input. */
int chat_template_file(struct template **t, const char *path, struct err *e);
/* Read the variables of default_chat_template_kwargs (owned; NULL: none) and the clock of `now`. */
int chat_kwargs(struct json **kwargs, const struct session_options *o, struct err *e);
int chat_now(int64_t *now, const struct session_options *o, struct err *e);
/* Set the parsers' names from the options or c->t (may be NULL). ERR_ARG: an unknown name. */
int chat_parsers(struct chat *c, const struct session_options *o, struct err *e);

#endif
