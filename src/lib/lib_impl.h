/* lib_impl.h - private to src/lib: definitions of quoth.h's opaque types. Any thread. The number of
 * references is atomic. Dropping the last reference frees the model. */
#ifndef QUOTH_LIB_IMPL_H
#define QUOTH_LIB_IMPL_H

#include <quoth.h>

#include "api/api.h"

#include <stdatomic.h>

struct quoth_model {
    struct session session;
    struct chat chat;
    struct api api;
    struct buf warning; /* warnings of quoth_open, one per line */
    _Atomic int n_ref;  /* number of references: one of the caller and one per queue */
};
/* Drop a reference. Dropping the last reference closes the model. Any thread. */
void model_drop(quoth_model *m);

/* Copy a sentence into the caller's buffer. Return rc. */
int report_error(int rc, const struct err *e, char *error, size_t n_error);

/* Transfer the buffer to the caller, which frees *text by quoth_free. ERR_MEMORY. */
int lib_hand_over(struct buf *b, char **text, size_t *n_text, struct err *e);

/* Append the prompt of a conversation in JSON to *out. Errors begin with "chat": ERR_ARG for NULL,
 * a repeated or an unknown member, and the errors of json_parse, api_check_conversation and
 * api_render. */
int lib_render(const quoth_model *m, const char *chat, struct buf *out, struct err *e);

#endif
