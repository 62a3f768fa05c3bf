/* backend_impl.h - private to src/backend: every backend's open. */
#ifndef QUOTH_BACKEND_IMPL_H
#define QUOTH_BACKEND_IMPL_H

#include "backend.h"

#define BACKEND(id)                                                                                \
    int backend_open_##id(struct backend **out, const struct backend_options *o, struct err *e);
#include "backends.def"
#undef BACKEND

#endif
