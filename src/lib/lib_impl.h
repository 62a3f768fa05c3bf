/* lib_impl.h - private to src/lib: what the opaque types of quoth.h are. */
#ifndef QUOTH_LIB_IMPL_H
#define QUOTH_LIB_IMPL_H

#include <quoth.h>

#include "api/api.h"

#include <stdatomic.h>

struct quoth_model {
    struct session session;
    struct chat chat;
    struct api api;
    _Atomic int n_ref; /* the caller's and each queue's */
};
void model_drop(quoth_model *m);

/* A sentence into the caller's buffer; hands back rc. */
int tell(int rc, const struct err *e, char *error, size_t n_error);

/* The prompt of a conversation in JSON. */
int lib_render(const quoth_model *m, const char *chat, struct buf *out, struct err *e);

#endif
