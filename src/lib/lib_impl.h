/* lib_impl.h - private to src/lib: definitions of quoth.h's opaque types. */
#ifndef QUOTH_LIB_IMPL_H
#define QUOTH_LIB_IMPL_H

#include <quoth.h>

#include "api/api.h"

#include <stdatomic.h>

struct quoth_model {
    struct session session;
    struct chat chat;
    struct api api;
    struct buf warning; /* warnings of opening, one per line */
    _Atomic int n_ref;  /* references: the caller's and one per queue */
};
void model_drop(quoth_model *m);

/* Copy a sentence into the caller's buffer; return rc. */
int report_error(int rc, const struct err *e, char *error, size_t n_error);

/* Render the prompt of a conversation in JSON. */
int lib_render(const quoth_model *m, const char *chat, struct buf *out, struct err *e);

#endif
