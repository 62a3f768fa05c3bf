/* backend_impl.h - private to src/backend: the open function of every backend. One thread at a time
 * calls these functions: the loading thread, then the engine's thread. */
#ifndef QUOTH_BACKEND_IMPL_H
#define QUOTH_BACKEND_IMPL_H

#include "backend.h"

/* Open the backend `id`. Return the errors of backend_open, except the error for an unknown
 * name. */
#define BACKEND(id)                                                                                \
    int backend_open_##id(struct backend **out, const struct backend_options *o, struct err *e);
#include "backends.def"
#undef BACKEND

static inline bool backend_fuses(const struct backend *b, enum fusion f)
{
    return !(b->plain >> f & 1);
}

/* Compute y f32 [n_row, d], a gated block, with plain ops, for a backend that has no fused glu for
 * these arguments. */
void backend_glu_plain(struct backend *b, float *y, const struct glu *g, const struct input *in,
                       int n_row);

#endif
