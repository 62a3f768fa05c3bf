/* session.h - a model that is open for use: from a path and options to an engine that runs.
 *
 *   options (flags of a command, keys of quoth_open) --session_open_as--> checkpoint, tokenizer, backend, model
 *                                                    --session_start----> engine on its thread
 *                                                    --chat_open--------> the template for conversations
 *
 * Whoever computes opens one: commands, the library, the server. Open and close from one thread. */
#ifndef QUOTH_SESSION_H
#define QUOTH_SESSION_H

#include "chat/chat.h"
#include "engine/engine.h"

/* ---- options ---- */

/* One field per row of the .def files; texts are borrowed. Start from session_defaults. */
struct session_options {
#define SESSION_INT(field, ...)  int64_t field;
#define SESSION_REAL(field, ...) double field;
#define SESSION_TEXT(field, ...) const char *field;
#define SESSION_FLAG(field, ...) bool field;
#include "chat.def"
#include "load.def"
#include "model.def"
#include "pack_cache.def"
#undef SESSION_INT
#undef SESSION_REAL
#undef SESSION_TEXT
#undef SESSION_FLAG
    bool offline; /* nobody waits for a token: no inter-token target by default */
    progress_fn *progress; /* told how far the packing of weights is; NULL: nobody looks */
    void *progress_ctx;
};
extern const struct session_options session_defaults;

/* Set the option that `key` names ("max-model-len", "max_model_len") from a text, as the command
 * line would; the value is borrowed. ERR_ARG names the key. */
int session_option_set(struct session_options *o, const char *key, const char *value,
                       struct err *e);

/* ---- opening ---- */

struct session {
    struct checkpoint *checkpoint;
    struct tokenizer *tokenizer;
    struct backend *backend;
    struct model *model;
    struct engine *engine;
    int64_t open_us; /* how long opening took */
};

/* What the caller needs of a step and of memory, where no option says otherwise. */
struct session_size {
    int n_seq, n_out; /* sequences and outputs of a step at most                          */
    int context;      /* caps the context (0: no cap)                                     */
    int n_row_min;    /* rows of a step, if max_num_batched_tokens is less                */
    int n_page;       /* KV pages; 0: n_longest of the longest sequences'                 */
    int n_longest;    /* as far as half of the free memory goes; 0: 1                     */
    int n_copy;       /* page copies of a step; 0: one per sequence                       */
};

/* For many requests at once: batch files, the library, a server. */
extern const struct session_size session_many;

/* Everything but the engine. On failure nothing stays open. */
int session_open_as(struct session *s, const char *path, const struct session_options *o,
                    const struct session_size *size, struct err *e);
/* A byte_max for an engine whose clients are strangers: what a request's sequences need is taken when
 * it comes, and it may ask for many long ones. */
int64_t session_request_bytes(void);

/* The engine on a thread of its own; queue_max: requests that may wait (0: the engine's default).
 */
int session_start(struct session *s, const struct session_options *o, int queue_max, struct err *e);
/* What it opens the engine with, for whoever opens one with something changed. */
int session_engine_options(struct engine_options *eo, const struct session *s,
                           const struct session_options *o, struct err *e);
void session_close(struct session *s); /* safe on a zeroed one */

/* Parts of it. The checkpoint may be opened without the data of random weights, the backend without
 * a model (s->checkpoint tells how many bytes it will read; NULL is fine). */
int session_checkpoint(struct checkpoint **out, const char *path, const struct session_options *o,
                       bool no_data, struct err *e);
/* Its tokenizer; of random weights for a folder that has one, the folder's. */
int session_tokenizer(struct tokenizer **out, const struct checkpoint *c, struct err *e);
int session_open_backend(struct session *s, const struct session_options *o, struct err *e);
int session_kv_type(enum kv_type *t, const struct session_options *o, struct err *e);
int session_n_thread(const struct session *s); /* that run; more may have been asked for */

/* Where packed weights are kept, in the caller's memory (which must live as long as the answer). */
struct weights_options session_weights(const struct session_options *o, struct filecache *cache);
const char *pack_cache_dir(void); /* NULL: there is no place for it */

/* How prompts become vectors: "mean", "last", "first" (or "cls"), or as the model says ("auto", else last). */
int session_pooling(enum pooling *out, const struct session *s, const char *name, struct err *e);

/* What the model's authors recommend (generation_config) over quoth's defaults. */
struct sample_params session_sample_defaults(const struct checkpoint *c, float temperature);

/* ---- conversations ---- */

/* bos_token and eos_token as templates see them; NULL where the tokenizer (NULL is fine) has none.
 */
struct chat_special {
    char bos_text[64], eos_text[64];
    const char *bos, *eos;
};
void chat_special(struct chat_special *c, const struct tokenizer *t);

/* How conversations become prompts: the template and what it sees besides messages. */
struct chat {
    struct template *t;  /* owned; NULL: the model has none            */
    struct json *kwargs; /* owned; the template's variables, or NULL   */
    struct chat_special special;
    int64_t now; /* the template's clock, or 0: the real one   */
};
int chat_open(struct chat *c, const struct session *s, const struct session_options *o,
              struct err *e);
void chat_close(struct chat *c); /* safe on a zeroed one */

/* The template that `name` says (a file, or one of the checkpoint's by name; NULL: its default); *t
 * NULL: there is none. c NULL: no checkpoint. */
int chat_template(struct template **t, const struct checkpoint *c, const char *name, struct err *e);
/* "-": standard input */
int chat_template_file(struct template **t, const char *path, struct err *e);
/* The variables of default_chat_template_kwargs (owned; NULL: none) and the clock of `now`. */
int chat_kwargs(struct json **kwargs, const struct session_options *o, struct err *e);
int chat_now(int64_t *now, const struct session_options *o, struct err *e);

#endif
