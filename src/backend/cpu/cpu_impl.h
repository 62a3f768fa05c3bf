/* cpu_impl.h - private to src/backend/cpu: the CPU backend's state, shared by its ops. */
#ifndef QUOTH_BACKEND_CPU_IMPL_H
#define QUOTH_BACKEND_CPU_IMPL_H

#include "backend/backend_impl.h"

#include "base/filecache.h"
#include "base/pool.h"
#include "kern/kern.h"

/* Memory of a struct act with up to n_row_max rows of k_max values of any type; owned. */
struct cpu_acts {
    void *x;
    float *scale;
    int16_t *sum;
    size_t n_byte; /* bytes of x */
};

struct cpu_backend {
    struct backend base; /* first: a struct backend * is a struct cpu_backend * */
    struct kern kern;
    struct pool *pool; /* base.pool */
    enum act_choice act;
    char description[64];

    /* Scratch, owned, sized by reserve. */
    struct {
        struct cpu_acts in, between; /* between: input of a gated block's last layer */
        char *work;                  /* struct linear_work of each worker */
    } linear;
    struct attn *attn;
    int n_row_max;
    int64_t k_max;
};

static inline struct cpu_backend *cpu_of(struct backend *b)
{
    return (struct cpu_backend *)b;
}

/* Allocate the memory of linear layers, for n_row_max and k_max. */
int cpu_linear_open(struct cpu_backend *c, struct err *e);
void cpu_linear_close(struct cpu_backend *c);

/* Allocate the memory of attention: up to n_row rows, heads up to d_head wide, n_group query heads
 * per KV head. */
int cpu_attn_open(struct cpu_backend *c, int n_row, int d_head, int n_group, struct err *e);
void cpu_attn_close(struct cpu_backend *c);
/* Return a worker's buffer for one head of one token, in any KV type. */
uint8_t *cpu_kv_code(struct cpu_backend *c, int worker);

/* Return the number of threads for a model of weight_bytes. Any thread. (threads.c) */
int cpu_threads(int64_t weight_bytes);
struct cores;
int cpu_threads_probe(const struct cores *c);

/* Return the weight's panels after cpu_weights; of a mixture, those of the first matrix. */
struct panels cpu_panels(const struct tensor *t);

/* ---- weights.c: layout of panels ---- */

/* Place of one tensor. Pieces are numbered consecutively over all tensors. The panels of a
 * mixture's matrices are adjacent. */
struct weight_place {
    const char *name;
    const uint8_t *rows;          /* as published */
    const struct published *from; /* [n_matrix], or NULL: matrices are adjacent at rows */
    int n_matrix;
    int64_t row_bytes;
    struct panels to; /* panels of one matrix; data is NULL */
    size_t at;        /* offset in the region */
    int piece0, panels_per_piece;
};

/* All panels are in one region, tensor after tensor. A tensor that shares data with an earlier one
 * has no place of its own. */
struct layout {
    struct weight_place *place; /* [n_place], owned */
    int n_place, n_piece;
    size_t n_byte, piece_bytes_max;
    float *made; /* [n_thread, made_floats] decoded rows of a FORM_SCALED panel; owned, or NULL */
    size_t made_floats;
};
int layout_init(struct layout *l, struct tensor *const *tensor, int n, int n_thread, struct err *e);
void layout_deinit(struct layout *l);
const struct weight_place *layout_place(const struct layout *l, const uint8_t *rows);

/* Unit of work of packing: some panels of one place. */
struct piece {
    const struct weight_place *place;
    int first, n; /* panels of the place */
    size_t at, n_byte;
};
struct piece layout_piece(const struct layout *l, int i);
void piece_pack(uint8_t *to, const struct layout *l, const struct piece *p, int worker);
/* Run fn(job, 0 .. n_piece-1) on the pool and report to o->progress. */
void pieces_run(struct cpu_backend *c, const struct layout *l, pool_fn *fn, void *job,
                const struct weights_options *o);

/* ---- packed.c: panels in a file of o->cache ---- */

/* Map the file of these panels; they start at *region. Returns ERR_MISSING if there is none,
 * ERR_FORMAT if it was invalid and has been removed. */
int packed_open(struct file_map *m, const uint8_t **region, struct cpu_backend *c,
                const struct layout *l, const struct weights_options *o, struct err *e);
/* Pack into a new file and map it. */
int packed_make(struct file_map *m, const uint8_t **region, struct cpu_backend *c,
                const struct layout *l, const struct weights_options *o, struct err *e);
/* Compare the file with packing again; fill verdict [n_place]. Errors as packed_open. */
int packed_verify(enum weights_verdict *verdict, struct cpu_backend *c, const struct layout *l,
                  const struct weights_options *o, struct err *e);

/* The ops, one file per family. */
int cpu_weights(struct backend *b, struct weights **out, struct tensor *const *tensor, int n,
                const struct weights_options *o, struct weights_info *info, struct err *e);
int cpu_weights_verify(struct backend *b, enum weights_verdict *verdict,
                       struct tensor *const *tensor, int n, const struct weights_options *o,
                       struct err *e);
void cpu_weights_close(struct backend *b, struct weights *w);
void cpu_linear(struct backend *b, float *y, const struct linear *l, const float *x, int n_row);
void cpu_linears(struct backend *b, const struct output *out, int n, const struct input *in,
                 int n_row);
void cpu_linear_add(struct backend *b, float *y, const struct linear *l, const float *x, int n_row);
void cpu_route(struct backend *b, const struct route *r, float *logits, int n_row);
void cpu_experts(struct backend *b, float *y, const struct linear *l, const float *x,
                 const struct route *r, bool by_entry, int n_row);
void cpu_combine(struct backend *b, float *y, const float *x, const struct route *r, int n_row,
                 int64_t n, bool add);
void cpu_glu(struct backend *b, float *y, const struct glu *g, const struct input *in, int n_row);
void cpu_rope_put(struct backend *b, const struct rope_put *r, int n_row);
void cpu_kv_put(struct backend *b, const struct kv_layer *kv, const float *k, const float *v,
                const int32_t *slot, int n_row);
void cpu_attn(struct backend *b, float *y, const float *q, const struct kv_layer *kv,
              const struct batch *batch, const struct attn_spec *spec);

/* A block of 64 positions of one KV head, for n_row rows. */
struct kv_block {
    const struct kv_layer *kv;
    const int32_t *page;      /* page table of the sequence                                */
    int n_row;                /* whether K and V are widened depends on it                 */
    int head, pos0;           /* pos0 a multiple of 64                                     */
    int lo, hi;               /* positions outside [lo, hi) are undefined; some are inside */
    int next_head, next_pos0; /* next block, to prefetch positions below `end`             */
    int end;
    /* scratch: [4, d_k, 16], [64, attn_stride(d_v)], [64], [64], [16, d_k] */
    float *k, *v, *k_scale, *v_scale, *part;
};
void cpu_kv_block(struct attn_kv *out, const struct kern *kern, const struct kv_block *b);

#endif
