/* session.h - an open model: from a path and options to a running engine.
 *
 *   options: flags of a command, keys of quoth_open
 *      --session_open_as--> checkpoint, tokenizer, backend, model
 *      --session_start----> engine on its thread
 *      --chat_open--------> the template for conversations
 *
 * Commands, the library and the server open their models with this interface. One thread opens and
 * closes a session. Any thread may read a session, and may call the functions that have no session
 * argument. */
#ifndef QUOTH_SESSION_H
#define QUOTH_SESSION_H

#include "base/names.h"
#include "chat/chat.h"
#include "engine/engine.h"
#include "format/format.h"
#include "grammar_constraint.h"
#include "kern/kern.h"
#include "thinking.h"

#include <signal.h>

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
#define SESSION_WORDS(field, ...) struct text_list field;
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
#undef SESSION_WORDS
    /* true: no inter-token target by default, because no client waits for single tokens */
    bool offline;
    struct pool *pool;     /* compute threads, shared, borrowed; NULL: own threads */
    progress_fn *progress; /* callback for the progress of packing weights; NULL if none */
    void *progress_ctx;    /* borrowed; argument of `progress` */
};
extern const struct session_options session_defaults;

/* Return legal value i of --device, from 0. NULL after the last value. The .def files refer to this
 * function and to the other functions for names. All names that these functions return are
 * static. */
const char *session_device_names(int i);
/* Return legal value i of --cpu, from 0. NULL after the last value. */
const char *session_cpu_names(int i);
/* Return legal value i of --activation-dtype, from 0. NULL after the last value. */
const char *session_act_names(int i);
/* Return legal value i of --kv-cache-dtype, from 0. NULL after the last value. */
const char *session_kv_names(int i);
/* Return legal value i of --scheduler, from 0. NULL after the last value. */
const char *session_scheduler_names(int i);
/* Return legal value i of --load-format, from 0. NULL after the last value. */
const char *session_load_names(int i);
/* Return legal value i of serve's --pooling, from 0. NULL after the last value. */
const char *session_pooling_names(int i);
/* Return legal value i of --tool-call-parser, from 0. NULL after the last value. */
const char *session_tool_parser_names(int i);
/* Return legal value i of --reasoning-parser, from 0. NULL after the last value. */
const char *session_reasoning_parser_names(int i);
/* Return legal value i of --shape, from 0. NULL after the last value. */
const char *session_shape_names(int i);
/* Return legal value i of --quant, from 0. NULL after the last value. */
const char *session_quant_names(int i);
/* Return legal value i of --quantization, from 0. NULL after the last value. */
const char *session_quantization_names(int i);
/* Check a number of bytes, such as "8G" or "512M". Return ERR_ARG if the text has another form. */
int session_bytes_form(const char *text, struct err *e);
/* Return the number of bytes that a text such as "8G" gives; -1 for another form. */
int64_t session_bytes(const char *text);
/* Check a value of --lora-modules: NAME=PATH, or the beginning of a JSON object. Return ERR_ARG for
 * another text. */
int session_lora_form(const char *text, struct err *e);
/* Check the value of --itl-target-ms: milliseconds, a multiple such as "2x", "auto" or "none".
 * Return ERR_ARG if the text has another form. */
int session_itl_form(const char *text, struct err *e);
/* Check the value of --now, a date. Return ERR_ARG if the text has another form. */
int session_date_form(const char *text, struct err *e);
/* Check the value of --rope-scaling: the name of a type, or a JSON object. Return ERR_ARG for
 * another text. */
int session_rope_form(const char *text, struct err *e);
/* Check that a number is a power of two. Return ERR_ARG for another number. A text that is not a
 * number is accepted, because the reader of the number rejects it. */
int session_power_form(const char *text, struct err *e);

/* Set the option named `key` ("max-model-len", "max_model_len") from a text, as on the command
 * line. The value is borrowed. An ERR_ARG error contains the key. */
int session_option_set(struct session_options *o, const char *key, const char *value,
                       struct err *e);

/* ---- opening ---- */

struct session {
    struct checkpoint *checkpoint;  /* owned */
    struct tokenizer *tokenizer;    /* owned */
    struct backend *backend;        /* owned */
    struct model *model;            /* owned; borrows the checkpoint and the backend */
    struct engine *engine;          /* owned; NULL before session_start */
    struct constraint_vocab *vocab; /* owned; data of the tokenizer for constraints */
    const struct model_info *info;  /* borrowed from model, valid while it is open */
    struct additions additions;     /* adapters of the model */
    /* format of --quantization for the model's float weights, borrowed; NULL: the files' formats */
    const char *quantization;
    int64_t open_us; /* duration of opening, in microseconds */
};

/* Sizes that the caller needs, per step and in memory. Options override these sizes. */
struct session_size {
    int n_seq, n_out; /* maximum sequences and outputs of a step                          */
    int context;      /* upper limit of the context, in tokens; 0: no limit */
    bool trained;     /* true: `context` is also limited by the model's context length */
    int n_row_min;    /* minimum rows of a step; overrides a smaller max_num_batched_tokens */
    int n_page;       /* number of KV pages; 0: enough for n_longest of the longest sequences, */
    int n_longest;    /* limited to half of the free memory; 0: 1                         */
    int n_copy;       /* maximum page copies of a step; 0: one per sequence               */
};

/* Sizes for many concurrent requests: batch files, the library, a server. */
extern const struct session_size session_many;

/* Open everything except the engine. No part remains open after a failure. path, o and size are
 * borrowed for the call. Return the errors of checkpoint_open, session_tokenizer,
 * session_open_backend, session_open_adapters and model_open. */
int session_open_as(struct session *s, const char *path, const struct session_options *o,
                    const struct session_size *size, struct err *e);
/* Return a bytes_max for an engine with untrusted clients. A request may contain many long
 * sequences, and engine_submit reserves its memory. */
int64_t session_request_bytes(void);

/* Start the engine on its own thread. name: the model's name in statistics, which must outlive the
 * session; NULL: the name in its file. queue_max: maximum number of waiting requests; 0: the
 * engine's default. Return ERR_ARG for a wrong option, or ERR_LIMIT if the pages or states exceed
 * the memory limit. Return ERR_IO if the trace file cannot be written, or ERR_MEMORY. The caller
 * closes the session after a failure. */
int session_start(struct session *s, const struct session_options *o, const char *name,
                  int queue_max, struct err *e);
/* Set *eo to the engine options of session_start, for callers that change some of them. */
void session_engine_options(struct engine_options *eo, const struct session *s,
                            const struct session_options *o);
void session_close(struct session *s); /* free the memory; a zeroed session is allowed */

/* Return true if both names are equal without the tag ":latest", which Ollama's clients append. Any
 * thread. */
bool session_same_name(const char *a, const char *b);
/* Return the number of the adapter of a name, for request.adapter; 0 if none. Any thread. */
int session_adapter(const struct session *s, const char *name);

/* ---- describe.c: facts about the files, for listings of models. Any thread. ---- */

enum { SESSION_DIGEST = 64 };
struct session_files {
    const char *format; /* static: "gguf", "safetensors", "llama2c" */
    char type[32];      /* number format of most weights, or mix of formats, in upper case */
    /* hexadecimal digits that differ if the files differ */
    char digest[SESSION_DIGEST + 1];
    int64_t n_byte;      /* size of the files; 0 for random weights */
    int64_t modified_us; /* time of the last change, since 1970; 0 if unknown */
};
void session_describe(struct session_files *out, const struct session *s); /* set *out */
/* Return true if `path` is a model without logits. The model is bound, but not packed. Return false
 * for a file or folder that quoth cannot run. */
bool session_is_headless(const char *path);
/* Return the flags of the tokens that the tokenizer adds to a text; 0 if special is false. pooled:
 * true for a text that is pooled, or for any text of a model without logits. Such a text gets all
 * these tokens, as in sentence-transformers. */
unsigned session_added(bool special, bool pooled);
/* Append the metadata of the files as a JSON object, without the chat template. Long lists are
 * empty if `whole` is false. */
void session_put_metadata(struct buf *b, const struct session *s, bool whole);
/* Return the license that the files name, borrowed from s; NULL if none. */
const char *session_license(const struct session *s);

/* Print the model's properties and the memory plan to standard error. */
void session_report(const struct session *s);
/* Return the backend's text, such as "cpu avx2, 2 threads", borrowed until session_close. */
const char *session_device(const struct session *s);
/* Return the KV type's name, static: "float16". */
const char *session_kv_name(const struct session *s);
/* Return the path of this program, static, if a model is packed into it; otherwise NULL. */
const char *session_packed(void);

/* Open parts of a session. The checkpoint may be opened without the data of random weights. The
 * backend may be opened without a model; in this case s->checkpoint (NULL if none) gives the number
 * of bytes to read. The caller owns *out. session_checkpoint returns the errors of checkpoint_open
 * and checkpoint_open_dummy. */
int session_checkpoint(struct checkpoint **out, const char *path, const struct session_options *o,
                       bool no_data, struct err *e);
/* Write a GGUF, or random weights as a GGUF, to the path `out`. Random weights of a folder get a
 * tokenizer with one token per byte. progress, ctx: as in checkpoint_write_gguf. Errors: those of
 * session_checkpoint, model_gguf_open, model_same_config and checkpoint_write_gguf. */
int session_write_gguf(const char *path, const struct session_options *o, const char *out,
                       progress_fn *progress, void *ctx, struct err *e);
/* Set *type to the format of --quantization for the checkpoint's float weights, borrowed from o or
 * static; NULL if these weights keep their formats. Return ERR_ARG if the weights have a quantized
 * form that differs from the option. */
int session_quantization(const char **type, const struct session_options *o,
                         const struct checkpoint *c, struct err *e);
/* Return the number of bytes of the weights in the formats of the file, or in the formats of
 * s->quantization; 0 without a checkpoint. */
int64_t session_weight_bytes(const struct session *s);
/* Return the format of a tensor, in its own order of values, with weights quantized to `type`.
 * NULL: the format in the file. */
enum qtype session_type(const char *type, const struct checkpoint *c, const struct tensor_info *t);
enum { SESSION_ROPE_BYTES = 320 };
/* Set the rope's values of changes by the options. out: memory for a text of *changes. Return
 * ERR_ARG for options that contradict each other, or ERR_MEMORY. */
int session_rope(struct checkpoint_changes *changes, char out[SESSION_ROPE_BYTES],
                 const struct session_options *o, struct err *e);
/* Open the checkpoint's tokenizer. Use the folder's tokenizer if the weights are random and a
 * folder gives their shape. The caller owns *out. Return ERR_MISSING if there is no tokenizer,
 * ERR_FORMAT if it is damaged, or ERR_UNSUPPORTED for an unknown kind. Other errors are those of
 * chat_mark_turns. */
int session_tokenizer(struct tokenizer **out, const struct checkpoint *c,
                      const struct session_options *o, struct err *e);
/* Return a value of --device, such as "cpu", static. */
const char *session_device_name(const struct session_options *o);
/* Open s->backend. Return ERR_ARG for a wrong --cpu, --device or number of threads. Return
 * ERR_UNSUPPORTED if the machine lacks the device or the instructions, or ERR_MEMORY. */
int session_open_backend(struct session *s, const struct session_options *o, struct err *e);
/* Read the configurations of the adapters and open their files. Return ERR_ARG for a name without a
 * path or with two paths, or the errors of checkpoint_open with the adapter's name. */
int session_open_adapters(struct session *s, const struct session_options *o, struct err *e);
/* Set *t to the type that --kv-cache-dtype selects. Return ERR_ARG for an unknown name. */
int session_kv_type(enum kv_type *t, const struct session_options *o, struct err *e);
/* Return the number of running threads. The number may be less than requested. */
int session_n_thread(const struct session *s);

/* Return the place of packed weights. *cache is the caller's memory and must outlive the result. */
struct weights_options session_weights(const struct session_options *o, struct filecache *cache);
/* Return the path of the cache folder, valid until the next call of this thread. NULL if none. */
const char *pack_cache_dir(void);

/* Set *out to the pooling of embeddings by its name: "mean", "last", "first" or "cls". "auto" is
 * the model's own pooling. For a model without a pooling, "auto" is "mean" for an encoder,
 * otherwise "last". Return ERR_ARG for another name. */
int session_pooling(enum pooling *out, const struct session *s, const char *name, struct err *e);

/* Return the text that precedes the texts of an embedding (sentence-transformers' prompts),
 * borrowed from s, and its length. name: name of the prompt; NULL: the model's default. NULL if the
 * model does not have the prompt. Any thread. */
const char *session_prompt(const struct session *s, const char *name, size_t *n);
/* Return true if the model has a default prompt. Any thread. */
bool session_has_default_prompt(const struct session *s);
/* Return true if config.json, or --hf-overrides, has the field with the value true. Any thread. */
bool session_config_true(const struct session *s, const char *field);
/* Set the tokens of a classifier that config.json or --hf-overrides gives (classifier_from_token).
 * Return ERR_ARG for an unknown token or method, or ERR_LIMIT for too many tokens. */
int session_class_tokens(struct model_options *mo, const struct checkpoint *c,
                         const struct tokenizer *t, struct err *e);
/* Write the architecture of a GGUF file to out. ERR_FORMAT for another file, and the errors of
 * session_checkpoint. Any thread. */
int session_file_arch(char out[static 64], const char *path, struct err *e);
/* Return the name of a classifier's label i, borrowed from s, and its length. NULL if the label has
 * no name. Any thread. */
const char *session_label(const struct session *s, int i, size_t *n);

/* Return quoth's defaults, overridden by the recommendations of the model's authors
 * (generation_config). */
struct sample_params session_sample_defaults(const struct checkpoint *c, float temperature);
/* Return max_new_tokens of generation_config.json, a maximum of the default of max_tokens; 0 if
 * none. */
int session_max_tokens(const struct checkpoint *c);

/* ---- peaks.c: the machine's peak rates ---- */

/* Return the arithmetic that multiplies activations of a layer of type t. */
enum arith session_arith(const struct session_options *o, enum qtype t);
/* Return the arithmetic that multiplies activations of most weights, by their types in memory. */
enum arith session_arith_main(const struct session_options *o, const struct model_info *m);

/* Peak rates of all threads together, per second. */
struct machine_peaks {
    /* arithmetic operations per second; 0: no instructions at this kernel level */
    double ops[N_ARITH];
    /* bytes read per second; 0: too little memory to read beyond the caches */
    double read_bytes;
    enum arith arith;       /* arithmetic of the session's model */
    const char *arith_name; /* static; name of `arith` */
};

struct peaks;
/* Thread that measures the peaks once, while the engine is idle. The thread stores the peaks in the
 * cache folder for later starts with equal processor, level and number of threads. The session and
 * its engine are borrowed and must outlive the thread. The caller owns *out. Return 0 or
 * ERR_MEMORY. A damaged or unwritable cache is not an error. */
int peaks_open(struct peaks **out, const struct session *s, const struct session_options *o,
               struct err *e);
/* Stop the thread within about 20 ms and free p; p may be NULL. */
void peaks_close(struct peaks *p);
/* Set *out to the peaks. Return false before they are measured, or if p is NULL. Any thread. */
bool peaks_get(const struct peaks *p, struct machine_peaks *out);

/* ---- conversations ---- */

/* The texts of special tokens by the variables of templates, such as bos_token. Names and texts are
 * borrowed from the checkpoint, or are static. */
enum { CHAT_SPECIAL_MAX = CHECKPOINT_SPECIAL_MAX + 7 };
struct chat_special {
    struct chat_variable v[CHAT_SPECIAL_MAX];
    int n;
};
/* Set *s to the special tokens that c's folder names, or to BOS and EOS of t for other files. c and
 * t are borrowed as long as *s; each may be NULL. */
void chat_special(struct chat_special *s, const struct checkpoint *c, const struct tokenizer *t);
/* Return the variable `name`, borrowed from s; NULL if there is no such token. */
const struct chat_variable *chat_special_find(const struct chat_special *s, const char *name);

/* Conversion of conversations to prompts: the template and its variables except the messages. */
struct chat {
    struct template *t;  /* owned; NULL if the model has no template */
    struct json *kwargs; /* the template's variables, owned; NULL if none */
    struct chat_special special;
    int64_t now; /* time of the template's clock; 0: the system's time */
    /* Names of the parsers of answers; NULL if none. Static or borrowed from the options. */
    const char *tool_parser, *reasoning_parser;
    bool calls_as_content; /* true: tool calls are content (--tool-call-parser none) */
    /* text for conversations without a system message, borrowed; NULL if none */
    const char *system;
    /* list of messages that precede those of each conversation, after its first system message,
     * borrowed; NULL if none */
    const struct json *first;
};
/* Open the template and its variables by the options. o->system and the parsers' names are borrowed
 * until chat_close. Return the errors of chat_template, chat_kwargs, chat_now and chat_parsers. No
 * part remains open after a failure. */
int chat_open(struct chat *c, const struct session *s, const struct session_options *o,
              struct err *e);
void chat_close(struct chat *c); /* free the memory; a zeroed chat is allowed */

/* Open the template `name`: a file, or the name of a template of the checkpoint; NULL: the
 * checkpoint's default template. Set *t to NULL if there is no template, or an empty one. c NULL:
 * no checkpoint. The caller owns *t. Return ERR_ARG if neither a file nor a template has the name.
 * Return ERR_FORMAT, with the line, for a syntax error. Other errors are ERR_IO, ERR_LIMIT and
 * ERR_MEMORY. */
int chat_template(struct template **t, const struct checkpoint *c, const char *name, struct err *e);
enum { CHAT_MISSING_BYTES = 320 };
/* Write the sentence for a checkpoint without a default template: the names of its templates, and
 * the flag. c NULL: no checkpoint. */
void chat_missing(char out[static CHAT_MISSING_BYTES], const struct checkpoint *c);
/* Read a template from a file. "-" is standard input. The caller owns *t. Return the errors of
 * chat_template. */
int chat_template_file(struct template **t, const char *path, struct err *e);
/* Mark the known ends of turns in the chat template as ends of a text (tokenizer_mark_turns). name:
 * as in chat_template. An unknown name has no effect. ERR_IO, ERR_LIMIT, ERR_MEMORY. */
int chat_mark_turns(struct tokenizer *t, const struct checkpoint *c, const char *name,
                    struct err *e);
/* Set *kwargs to the variables of default_chat_template_kwargs, owned by the caller; NULL if none.
 * Return ERR_ARG or ERR_FORMAT if the option is not a JSON object, ERR_LIMIT, or ERR_MEMORY. */
int chat_kwargs(struct json **kwargs, const struct session_options *o, struct err *e);
/* Set *now to the time of the option `now`, in seconds since 1970; 0 if none. Return ERR_ARG for a
 * text that is not a date. */
int chat_now(int64_t *now, const struct session_options *o, struct err *e);
/* Set the names of the parsers from the options or c->t, which may be NULL. Return ERR_ARG if a
 * name is unknown. */
int chat_parsers(struct chat *c, const struct session_options *o, struct err *e);

/* ---- convert.c ---- */

/* Texts are borrowed for the call. */
struct convert_options {
    struct backend *backend; /* device, on which nothing is computed; borrowed */
    const char *out;         /* path of the result */
    /* number format or mix of the matrices; NULL: the formats of the files */
    const char *type;
    bool replaces;         /* true: an existing file is replaced */
    progress_fn *progress; /* callback with ctx, called by this thread; NULL if none */
    void *ctx;
    /* nonzero: the conversion ends with ERR_BUSY; NULL if none */
    const volatile sig_atomic_t *stop;
};
/* Convert the Hugging Face directory `path` to a GGUF, or a GGUF to a directory. The result is read
 * and compared with its source before it gets its name. No part remains after a failure. Return
 * ERR_UNSUPPORTED if the result cannot express a part, ERR_ARG if a file exists, or ERR_BUSY after
 * *stop. Other errors are the errors of checkpoint_open, model_open, tokenizer_open and
 * checkpoint_write_gguf. */
int session_convert(const char *path, const struct convert_options *o, struct err *e);

#endif
