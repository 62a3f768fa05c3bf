/* backend.h - the only interface to a device: functions that open it, and the ops on its tensors.
 *
 * Ops take effect in the order of the model's calls. A CPU backend runs each op immediately. A GPU
 * backend enqueues the op. A backend has no access to requests. Ops never fail. Only the functions
 * open, reserve, alloc and weights can fail. All activations are f32 [rows, columns] with
 * contiguous rows. Only the engine's thread calls a backend. The CPU backend distributes the work
 * over its pool.
 *
 *   options.h  options for opening a backend
 *   ops.h      tensors and the table of ops
 *   batch.h    the input of one step */
#ifndef QUOTH_BACKEND_H
#define QUOTH_BACKEND_H

#include "batch.h"
#include "ops.h"
#include "options.h"

struct pool;

/* A device. backend_open makes a device. Only the engine thread uses the device. */
struct backend {
    const struct backend_ops *op; /* functions of the device, static */
    /* set of disabled fusions: bit 1 << f disables fusion f; may change between ops */
    unsigned plain;
    bool is_host; /* true if the host may access memory of alloc directly, in call order */
    /* host threads that run the CPU's ops; owned, or borrowed from the options; never NULL */
    struct pool *pool;
    const char *level;       /* kernel level, for example "avx2"; static                    */
    const char *description; /* "cpu avx2, 2 threads"; owned                                */
};

/* Open the backend called `name` in backends.def. The pointers of `o` are borrowed for the call.
 * Return ERR_UNSUPPORTED, with a list of the available backends, if the backend is not built in.
 * Return ERR_ARG if the level or the number of threads is not possible, or ERR_MEMORY. */
int backend_open(struct backend **out, const char *name, const struct backend_options *o,
                 struct err *e);
void backend_close(struct backend *b); /* close the backend; NULL is allowed */
/* Return the i-th name of backends.def, static; NULL after the last name. The first name is the
 * default. */
const char *backend_name(int i);

/* Return the KV type of a name, ignoring case; -1 if unknown. The names are the names of vLLM:
 * float32, float16, bfloat16, int8, fp8, fp8_e4m3, fp8_e5m2, and auto (float16). */
int kv_type_of_name(const char *name);
/* Return the name of a KV type, such as "bfloat16". The text is static. Any thread. */
const char *kv_type_name(enum kv_type t);
/* Return the number of bytes of one page of K (d = d_k) or V (d = d_v). */
int64_t kv_page_bytes(enum kv_type t, int page_rows, int n_head_kv, int d);

/* ---- fused.c: functions that use a fused op if the backend has one, otherwise plain ops with the
 * same bits ---- */

/* Return the input f32 [n_row, k] after its norm, which is written to the scratch of `in`. Return
 * the input itself if there is no norm. */
struct input backend_normed(struct backend *b, const struct input *in, int64_t k, int n_row);
/* Compute n <= OUTPUTS_MAX linear layers of one input. */
void backend_linears(struct backend *b, const struct output *out, int n, const struct input *in,
                     int n_row);
/* Add a linear layer to y f32 [n_row, n_out]: y += x W^T + bias. scratch is f32 [n_row, n_out]. */
void backend_linear_add(struct backend *b, float *y, const struct linear *l, const float *x,
                        int n_row, float *scratch);
/* Compute a gated block: y f32 [n_row, d] = block, or y += block if g->add. */
void backend_glu(struct backend *b, float *y, const struct glu *g, const struct input *in,
                 int n_row);
/* Normalize and rotate the heads of q and k in place, then store k and v in the pages of r->kv. The
 * shapes and the optional parts are in struct rope_put. n_row: number of rows. */
void backend_rope_put(struct backend *b, const struct rope_put *r, int n_row);

#endif
