/* cpu_impl.h - private to src/backend/cpu: the CPU backend's state, shared by its ops. */
#ifndef QUOTH_BACKEND_CPU_IMPL_H
#define QUOTH_BACKEND_CPU_IMPL_H

#include "backend/backend_impl.h"

#include "resident.h"

#include "base/filecache.h"
#include "base/pool.h"
#include "kern/kern.h"

#include <stdatomic.h>

/* Memory of a struct act with up to row_max rows of k_max values of any type. Owned. */
struct cpu_acts {
    void *x;       /* values of any type (struct act), [n_byte] bytes */
    float *scale;  /* f32 [ceil(k_max / 256), row_max] */
    int16_t *sum;  /* i16 [ceil(k_max / 32), row_max, 2] */
    size_t n_byte; /* size of x in bytes */
};

struct cpu_backend {
    struct backend base; /* first member, so a struct backend * is a struct cpu_backend * */
    struct kern kern;
    struct pool *pool; /* equal to base.pool */
    bool owns_pool;    /* false: the pool is borrowed from the options */
    enum act_choice act;
    char description[64];

    /* scratch, owned, sized by reserve */
    struct {
        struct cpu_acts in, between; /* between: input of a gated block's last layer */
        char *work;                  /* struct linear_work of each worker */
    } linear;
    struct attn *attn; /* state of attention, owned; NULL before reserve */
    /* weights in limited memory, owned by struct weights; NULL: all weights are in memory */
    struct resident *resident;
    int row_max;
    int64_t k_max;
};

static inline struct cpu_backend *cpu_of(struct backend *b)
{
    return (struct cpu_backend *)b;
}

/* Allocate the memory of linear layers, for row_max and k_max. After ERR_MEMORY, cpu_linear_close
 * frees the allocated part. */
int cpu_linear_open(struct cpu_backend *c, struct err *e);
/* Free the memory of linear layers, also of a half-open backend. */
void cpu_linear_close(struct cpu_backend *c);

/* Allocate the memory of attention for up to n_row rows, d_head values per head, and n_group query
 * heads per KV head. After ERR_MEMORY, cpu_attn_close frees the allocated part. */
int cpu_attn_open(struct cpu_backend *c, int n_row, int d_head, int n_group, struct err *e);
/* Free the memory of attention, also of a half-open backend. */
void cpu_attn_close(struct cpu_backend *c);
/* Return a worker's buffer for one head of one token, in any KV type, borrowed until the op
 * ends. */
uint8_t *cpu_kv_code(struct cpu_backend *c, int worker);

/* Return the number of threads for a model of weight_bytes. Any thread. threads.c has the
 * function. */
int cpu_threads(int64_t weight_bytes);
struct cores;
/* Measure reading memory with several numbers of threads on these cores. Return the best number. */
int cpu_threads_probe(const struct cores *c);

/* Return the weight's panels after cpu_weights. For a mixture, return the panels of the first
 * matrix. */
struct panels cpu_panels(const struct tensor *t);

/* ---- weights.c: layout of panels ---- */

/* Place of one tensor. Pieces are numbered consecutively over all tensors. The panels of a
 * mixture's matrices are adjacent. Pointers are borrowed from the tensors. */
struct weight_place {
    const char *name;
    const uint8_t *rows;          /* rows as published */
    const struct published *from; /* [n_matrix]; NULL: matrices are adjacent at rows */
    int n_matrix;
    int64_t row_bytes;
    struct panels to; /* panels of one matrix; data is NULL */
    size_t at;        /* offset in the region */
    int piece0, panels_per_piece;
};

/* All panels are in one region, tensor after tensor. A tensor that shares data with an earlier
 * tensor has no separate place. */
struct layout {
    /* cancel_flag of the thread that opened the layout, borrowed; NULL if none. Workers pack no
     * further panel after it is set, because some formats take a second per piece. */
    const atomic_bool *cancel;
    struct weight_place *place; /* [n_place] places of the tensors, owned */
    int n_place, n_piece;
    size_t n_byte, piece_bytes_max;
    /* rows of a panel that is not FORM_ROWS, owned [n_thread, made_bytes]; NULL if none */
    uint8_t *made;
    size_t made_bytes;
};
/* Lay out n tensors, which are borrowed until layout_close. The caller calls layout_close also
 * after ERR_MEMORY. */
int layout_open(struct layout *l, struct tensor *const *tensor, int n, int n_thread, struct err *e);
/* Free the layout, which may be half-built. */
void layout_close(struct layout *l);
/* Return the place of the tensor with these rows, borrowed from the layout; NULL if none. */
const struct weight_place *layout_place(const struct layout *l, const uint8_t *rows);

/* Unit of work of packing: some panels of one place. */
struct pack_piece {
    const struct weight_place *place; /* place of the panels, borrowed from the layout */
    int first, n;                     /* panels of the place */
    size_t at, n_byte;
};
/* Return piece i of [0, n_piece). */
struct pack_piece layout_piece(const struct layout *l, int i);
/* Pack the panels of a piece to its place. Workers call this function concurrently for different
 * pieces. */
void piece_pack(uint8_t *to, const struct layout *l, const struct pack_piece *p, int worker);
/* Run fn for the pieces [0, n_piece) on the pool. Report the progress to o->progress. Return
 * ERR_BUSY, with a part of the pieces done, if the calling thread's work is cancelled. */
int pieces_run(struct cpu_backend *c, const struct layout *l, pool_fn *fn, void *job,
               const struct weights_options *o, struct err *e);

/* ---- packed.c: panels in a file of o->cache ---- */

/* Map the file of the layout's panels. Set *region to the start of the panels. Return ERR_MISSING
 * if there is no file, ERR_FORMAT if the file was invalid. An invalid file is removed. */
int packed_open(struct file_map *m, const uint8_t **region, struct cpu_backend *c,
                const struct layout *l, const struct weights_options *o, struct err *e);
/* Pack the panels into a new file and map the file. Return the errors of filecache_begin and
 * filecache_keep, ERR_IO if a write fails, ERR_BUSY if the work is cancelled, or ERR_MEMORY. No
 * file of that name remains after an error. */
int packed_make(struct file_map *m, const uint8_t **region, struct cpu_backend *c,
                const struct layout *l, const struct weights_options *o, struct err *e);
/* Repack the weights and compare the file with the result. Fill verdict [n_place]. Return the
 * errors of packed_open. */
int packed_verify(enum weights_verdict *verdict, struct cpu_backend *c, const struct layout *l,
                  const struct weights_options *o, struct err *e);

/* Compute the ops. Each family has a file. struct backend_ops defines the contracts and the
 * errors. */
int cpu_weights(struct backend *b, struct weights **out, struct tensor *const *tensor, int n,
                const struct weights_options *o, struct weights_info *info, struct err *e);
/* Compare the cached panels with a new packing. */
int cpu_weights_verify(struct backend *b, enum weights_verdict *verdict,
                       struct tensor *const *tensor, int n, const struct weights_options *o,
                       struct err *e);
/* Unmap or free the weights; NULL is allowed. */
void cpu_weights_close(struct backend *b, struct weights *w);
/* Return the figures of the resident set; zeros without a limit. NULL is allowed. */
struct weights_use cpu_weights_use(struct backend *b, const struct weights *w);
/* Compute y f32 [n_row, n_out] = x W^T + bias. */
void cpu_linear(struct backend *b, float *y, const struct linear *l, const float *x, int n_row);
/* Compute the outputs of one input. */
void cpu_linears(struct backend *b, const struct output *out, int n, const struct input *in,
                 int n_row);
/* Add the linear layer of x to y. */
void cpu_linear_add(struct backend *b, float *y, const struct linear *l, const float *x, int n_row);
/* Select the experts of each row by its logits. */
void cpu_route(struct backend *b, const struct route *r, float *logits, int n_row);
/* Multiply each entry's row of x by the matrices of its expert. */
void cpu_experts(struct backend *b, const struct output *out, int n, const float *x,
                 const struct route *r, bool by_entry, int n_row);
/* Multiply the parts of rows by one matrix each. */
void cpu_parts(struct backend *b, float *y, const struct linear *l, const float *x,
               const struct columns *s, int n_row);
/* Sum the weighted results of each row's experts. */
void cpu_combine(struct backend *b, float *y, const float *x, const struct route *r, int n_row,
                 int64_t n, bool add);
/* Multiply each entry's row of y by the entry's weight. */
void cpu_weigh(struct backend *b, float *y, const struct route *r, int n_row, int64_t n);
/* Scale each row of y to the root mean square of its row of x. */
void cpu_match(struct backend *b, float *y, const float *x, int n_row, int64_t n, float least);
/* Set each stream of y to a sum of the streams of x. */
void cpu_mix_streams(struct backend *b, float *y, const float *x, const float *c, int n_stream,
                     int n_row, int64_t n);
/* Add multiples of x to the streams of y. */
void cpu_add_streams(struct backend *b, float *y, const float *x, const float *c, int n_stream,
                     int n_row, int64_t n);
/* Multiply the columns of x by g. */
void cpu_scale_columns(struct backend *b, float *y, const float *x, const float *g, int n_row,
                       int64_t n);
/* Subtract a cut from each row of y, and clamp to 0. */
void cpu_cut(struct backend *b, float *y, int n_row, int64_t n, float by);
/* Compute a causal convolution of columns. */
void cpu_conv(struct backend *b, float *y, const struct conv *c, const struct batch *batch);
/* Compute a recurrence over the rows of each sequence. */
void cpu_scan(struct backend *b, float *y, const struct scan *s, const struct batch *batch);
/* Compute the gated unit of one input. */
void cpu_glu(struct backend *b, float *y, const struct glu *g, const struct input *in, int n_row);
/* Rotate heads and store k and v in the KV pages. */
void cpu_rope_put(struct backend *b, const struct rope_put *r, int n_row);
/* Store k and v in the KV pages. */
void cpu_kv_put(struct backend *b, const struct kv_layer *kv, const float *k, const float *v,
                const int32_t *slot, int n_row);
/* Compute the attention of q over the pages of a batch. */
void cpu_attn(struct backend *b, float *y, const float *q, const struct kv_layer *kv,
              const struct batch *batch, const struct attn_spec *spec);

/* A block of 64 positions of one KV head, for n_row rows. All pointers are borrowed for the
 * call. */
struct kv_block {
    const struct kv_layer *kv;
    const int32_t *page;      /* i32 [ceil(hi / page_rows)] page table of the sequence */
    int n_row;                /* number of rows; K and V are widened first if there are many rows */
    int head, pos0;           /* KV head, and first position, a multiple of 64 */
    int lo, hi;               /* positions outside [lo, hi) are undefined; lo < hi */
    int next_head, next_pos0; /* next block, for prefetching positions below `end` */
    int end;
    /* scratch, f32: [4, d_k, 16], [64, attn_stride(d_v)], [64], [64], [16, d_k] */
    float *k, *v, *k_scale, *v_scale, *part;
};
/* Set *out to a block of K and V in the form that the kernels read. */
void cpu_kv_block(struct attn_kv *out, const struct kern *kern, const struct kv_block *b);

#endif
