/* session_impl.h - private to src/session: shared declarations of conversion (convert.c).
 *
 *   convert.c          the steps, and the name of the result
 *   convert_check.c    comparison of the result with its source
 *   convert_folder.c   the files of a folder
 *   convert_modules.c  the files of sentence-transformers in a folder
 *
 * Only the thread of session_convert calls these functions. */
#ifndef QUOTH_SESSION_IMPL_H
#define QUOTH_SESSION_IMPL_H

#include "base/buf.h"
#include "session.h"

enum { PATH_BYTES = 4096 }; /* size of a path */

/* ---- convert_check.c ---- */

/* Read the written file or folder `path`, and compare it with its source c. Return
 * ERR_UNSUPPORTED for a difference, and the errors of checkpoint_open, model_open and
 * tokenizer_open. */
int check_written(const char *path, const struct checkpoint *c, const struct convert_options *o,
                  struct err *e);
/* Replace the path by `by` in the message of e. */
void replace_path(struct err *e, int rc, const char *path, const char *by);

/* ---- convert_folder.c ---- */

enum { DENSE_MAX = 2 }; /* maximum number of Dense modules */
/* Files of a folder, in the order in which they are written. */
enum folder_file {
    FOLDER_CONFIG,
    FOLDER_TOKENIZER,
    FOLDER_WORLD,
    FOLDER_TOKENIZER_CONFIG,
    FOLDER_GENERATION,
    FOLDER_MODEL,
    FOLDER_MODULES,
    FOLDER_LENGTH,
    FOLDER_PROMPTS,
    FOLDER_POOLING,
    FOLDER_DENSE, /* first of two files of each Dense module, config and tensors */
    N_FOLDER_FILE = FOLDER_DENSE + 2 * DENSE_MAX
};

/* Contents of a folder that is written. A file is a text or tensors. A file with neither is not
 * written. */
struct folder {
    const struct checkpoint *c;                /* source, borrowed */
    const struct convert_options *o;           /* borrowed */
    struct buf text[N_FOLDER_FILE];            /* texts, owned */
    struct conversion *tensors[N_FOLDER_FILE]; /* tensors, owned; NULL if none */
};

/* Fill a zeroed folder, whose c and o are set. Errors: those of model_hf_open and
 * tokenizer_put_hf. */
int folder_fill(struct folder *f, struct err *e);
/* Write the files. Errors: ERR_IO, ERR_ARG if a path is too long, and those of
 * checkpoint_write_safetensors. */
int folder_write(const struct folder *f, const char *dir, struct err *e);
/* Release the contents. */
void folder_deinit(struct folder *f);
/* Remove the files of a folder, also of an unfinished one, then the folder. */
void folder_remove(const char *dir);

/* ---- convert_modules.c ---- */

/* Add the files of the modules after the model of an embedding. Errors: those of
 * model_hf_dense. */
int folder_add_modules(struct folder *f, const struct conversion_options *o, struct err *e);

#endif
