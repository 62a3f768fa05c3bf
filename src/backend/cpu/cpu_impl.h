/* cpu_impl.h - private to src/backend/cpu: the CPU backend's state, shared by its ops. */
#ifndef QUOTH_BACKEND_CPU_IMPL_H
#define QUOTH_BACKEND_CPU_IMPL_H

#include "backend/backend_impl.h"

/* Memory for a struct act of n_row_max rows of k_max values of any type; owned. */
struct cpu_acts {
    void *x;
    float *scale;
    int16_t *sum;
    size_t n_byte; /* of x */
};

struct cpu_backend {
    struct backend base; /* first: a struct backend * is a struct cpu_backend * */
    struct kern kern;
    struct pool *pool; /* owned */
    enum act_choice act;
    char description[64];

    /* Scratch, owned, sized by reserve. */
    struct {
        struct cpu_acts in, between; /* between: of a gated block's last layer */
        char *work;                  /* see linear.c */
    } linear;
    struct attn *attn;
    int n_row_max;
    int64_t k_max;
};

static inline struct cpu_backend *cpu_of(struct backend *b)
{
    return (struct cpu_backend *)b;
}

/* Linear layers' memory, of n_row_max and k_max. */
int cpu_linear_open(struct cpu_backend *c, struct err *e);
void cpu_linear_close(struct cpu_backend *c);

/* Attention's memory: steps of up to n_row rows, heads up to d_head wide, groups of n_group. */
int cpu_attn_open(struct cpu_backend *c, int n_row, int d_head, int n_group, struct err *e);
void cpu_attn_close(struct cpu_backend *c);
/* A worker's room for one head of one token, in any KV type. */
uint8_t *cpu_kv_code(struct cpu_backend *c, int worker);

/* threads.c: the number of threads for a model of so many bytes; any thread. */
int cpu_threads(int64_t weight_bytes);
struct cores;
int cpu_threads_probe(const struct cores *c);

/* The weight's panels, after cpu_weights. */
struct panels cpu_panels(const struct tensor *t);

/* ---- weights.c: where panels go ---- */

/* Of one tensor; pieces are numbered through over all tensors. */
struct weight_place {
    const char *name;
    const uint8_t *rows; /* as published */
    int64_t row_bytes;
    struct panels to; /* its data is the whole region's business: NULL */
    size_t at;        /* in the region */
    int piece0, panels_per_piece;
};

/* All panels lie in one region, tensor after tensor. A tensor whose data is another's has no place
 * of its own. */
struct layout {
    struct weight_place *place; /* [n_place], owned */
    int n_place, n_piece;
    size_t n_byte, piece_bytes_max;
};
int layout_init(struct layout *l, struct tensor *const *tensor, int n, struct err *e);
void layout_deinit(struct layout *l);
const struct weight_place *layout_place(const struct layout *l, const uint8_t *rows);

/* What one thread packs at a time. */
struct piece {
    const struct weight_place *place;
    int first, n; /* panels of it */
    size_t at, n_byte;
};
struct piece layout_piece(const struct layout *l, int i);
void piece_pack(uint8_t *to, const struct piece *p);
/* Run fn(job, 0 .. n_piece-1) on the pool, telling o->progress. */
void pieces_run(struct cpu_backend *c, const struct layout *l, pool_fn *fn, void *job,
                const struct weights_options *o);

/* ---- packed.c: panels in a file of o->cache ---- */

/* Map the file that holds these panels: they begin at *region. ERR_MISSING: there is none.
 * ERR_FORMAT: there was one, which has been removed. */
int packed_open(struct file_map *m, const uint8_t **region, struct cpu_backend *c,
                const struct layout *l, const struct weights_options *o, struct err *e);
/* Pack into a new one and map that. */
int packed_make(struct file_map *m, const uint8_t **region, struct cpu_backend *c,
                const struct layout *l, const struct weights_options *o, struct err *e);
/* verdict [n_place]; else like packed_open. */
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
void cpu_glu(struct backend *b, float *y, const struct glu *g, const struct input *in, int n_row);
void cpu_rope_put(struct backend *b, const struct rope_put *r, int n_row);
void cpu_kv_put(struct backend *b, const struct kv_layer *kv, const float *k, const float *v,
                const int32_t *slot, int n_row);
void cpu_kv_copy(struct backend *b, const struct kv_layer *kv, int32_t page_src, int32_t page_dst);
void cpu_kv_read(struct backend *b, const struct kv_layer *kv, int32_t page, uint8_t *to);
void cpu_kv_write(struct backend *b, const struct kv_layer *kv, int32_t page, const uint8_t *from);
void cpu_attn(struct backend *b, float *y, const float *q, const struct kv_layer *kv,
              const struct batch *batch, const struct attn_spec *spec);

/* A block of 64 positions of one KV head, for n_row rows. */
struct kv_block {
    const struct kv_layer *kv;
    const int32_t *page;      /* the sequence's page table                                     */
    int n_row;                /* what is widened for them depends on how many there are         */
    int head, pos0;           /* pos0 a multiple of 64                                         */
    int lo, hi;               /* positions outside [lo, hi) are left undefined; some are inside */
    int next_head, next_pos0; /* what will be wanted after it, as far as it lies below `end` */
    int end;
    /* scratch: [4, d_k, 16], [64, attn_stride(d_v)], [64], [64], [16, d_k] */
    float *k, *v, *k_scale, *v_scale, *part;
};
void cpu_kv_block(struct attn_kv *out, const struct kern *kern, const struct kv_block *b);

#endif
