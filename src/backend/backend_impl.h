/* backend_impl.h - private to src/backend: every backend's open. */
#ifndef QUOTH_BACKEND_IMPL_H
#define QUOTH_BACKEND_IMPL_H

#include "backend.h"

#define BACKEND(id)                                                                                \
    int backend_open_##id(struct backend **out, const struct backend_options *o, struct err *e);
#include "backends.def"
#undef BACKEND

static inline bool backend_fuses(const struct backend *b, enum fusion f)
{
    return !(b->plain >> f & 1);
}

/* Compute a gated block with plain ops, for a backend whose fused glu does not support the case. */
void backend_glu_plain(struct backend *b, float *y, const struct glu *g, const struct input *in,
                       int n_row);

#endif
