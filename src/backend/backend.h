/* backend.h - the only interface to a device: opening it, and the ops on its tensors.
 *
 * The model calls ops in order, and they take effect in that order: the CPU runs each one at once,
 * a GPU enqueues it. A backend never sees a request. Ops never fail; only open, reserve, alloc and
 * weights can. All activations are f32 [rows, columns], rows contiguous. One thread (the engine's)
 * calls a backend; the CPU backend distributes the work over its pool.
 *
 *   options.h  how a backend is opened
 *   ops.h      tensors and the table of ops
 *   batch.h    what one step computes */
#ifndef QUOTH_BACKEND_H
#define QUOTH_BACKEND_H

#include "batch.h"
#include "ops.h"
#include "options.h"

struct pool;

struct backend {
    const struct backend_ops *op;
    unsigned plain;          /* bit 1 << f set: fusion f is off; may change between ops     */
    bool is_host;            /* the host may access memory of alloc directly, in call order */
    struct pool *pool;       /* host threads that run the CPU's ops; owned, never NULL      */
    const char *level;       /* kernel level, for example "avx2"; static                    */
    const char *description; /* "cpu avx2, 2 threads"; owned                                */
};

/* Open the backend called `name` in backends.def. Returns ERR_UNSUPPORTED, with a list of the
 * available ones, if it is not built in. */
int backend_open(struct backend **out, const char *name, const struct backend_options *o,
                 struct err *e);
void backend_close(struct backend *b); /* b may be NULL */
/* Return the i-th name of backends.def, or NULL after the last. The first is the default. */
const char *backend_name(int i);

/* Return the KV type of a name, in any case, or -1 if unknown: vLLM's float32 float16 bfloat16 int8
 * fp8 fp8_e4m3 fp8_e5m2, or auto (float16). */
int kv_type_of_name(const char *name);
const char *kv_type_name(enum kv_type t);
/* bytes of one page of K (d = d_k) or V (d = d_v) */
int64_t kv_page_bytes(enum kv_type t, int page_rows, int n_head_kv, int d);

/* ---- fused.c: one pass if the backend supports it, else the plain ops; same bits ---- */

/* Compute n <= OUTPUTS_MAX linear layers of one input. */
void backend_linears(struct backend *b, const struct output *out, int n, const struct input *in,
                     int n_row);
/* Add a linear layer to y f32 [n_row, n_out]: y += x W^T + bias. scratch f32 [n_row, n_out]. */
void backend_linear_add(struct backend *b, float *y, const struct linear *l, const float *x,
                        int n_row, float *scratch);
/* Compute a gated block: y f32 [n_row, d] = block, or y += block if g->add. */
void backend_glu(struct backend *b, float *y, const struct glu *g, const struct input *in,
                 int n_row);
void backend_rope_put(struct backend *b, const struct rope_put *r, int n_row);

#endif
