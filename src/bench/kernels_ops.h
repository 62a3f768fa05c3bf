/* kernels_ops.h - private to kernels_*.c: single ops of a backend, on a model's weights and widths.
 * Main thread only. */
#ifndef QUOTH_BENCH_KERNELS_OPS_H
#define QUOTH_BENCH_KERNELS_OPS_H

#include "kernels.h"

#include "cache/cache.h"

enum { GROUPS_MAX = 256 };
enum { PROMPT_ROWS = 2048 }; /* rows per step of attention over a prompt, as in an engine */

/* The matrices with one name, type and shape, over all layers. */
struct matrix_set {
    char part[48]; /* "ffn_down", "token_embd" */
    enum qtype type;
    int64_t n_out, k;
    bool is_head;
    VEC(struct linear) matrix; /* matrices of the group, owned */
    struct samples us;         /* owned: time of one call, in the measured rounds */
};

struct ops {
    const struct kernels_plan *plan; /* borrowed */
    struct session s;                /* session without a model */
    bool usual_attn;                 /* true: measure attention at its default depths */
    int n_layer, d, d_ff, n_head, n_head_kv, d_head;
    VEC(struct matrix_set) group;
    VEC(uint32_t) order;     /* group of each matrix, in the file's order */
    struct weights *weights; /* owned: the matrices on the device */
    struct ids n_row;        /* numbers of rows to measure, owned */
    int row_max;
    int64_t n_value;         /* sufficient number of values for every op */
    float *x, *y, *z, *ones; /* operands on the device, owned, f32 [n_value] */
    int32_t *index;          /* indexes 0, 1, 2 ... on the device, owned, i32 [row_max] */
    struct kv_store kv;
    struct bench_batch batch;
    const struct batch *on_device; /* borrowed: batch on the device, copied by op->begin */
    /* owned: limits for comparison, if the plan requires it, and for evicting caches */
    struct limits *limits;
};

/* One op on given operands. Texts are static, or borrowed for ops_measure_call. `group` is borrowed
 * for ops_measure_call. */
struct op_case {
    const char *op, *part, *type;
    void (*run)(struct ops *b, const struct op_case *c, int i);
    int n_cycle;                    /* number of calls with different operands */
    const struct matrix_set *group; /* group of matrices; only for linear */
    int n_row, depth;
    bool from_memory;  /* true if caches are evicted before each round */
    int64_t n;         /* values in a row */
    double bytes, ops; /* per call */
};

/* ---- kernels_ops.c ---- */

/* Measure the time of the call, and print its row. ERR_MEMORY. */
int ops_measure_call(struct ops *b, const struct op_case *c, struct err *e);
/* Print a row: microseconds per call, compared with the limits measured before and after. */
void ops_print_call(const struct ops *b, const struct op_case *c, const struct samples *us,
                    const struct limit limit[2]);

/* ---- kernels_linear.c, kernels_attn.c: rows of linear layers and attention ---- */

/* Measure and print all rows of an op. ERR_MEMORY, and the errors of ops_open_kv from
 * ops_measure_attn. */
int ops_measure_linear(struct ops *b, struct err *e);
int ops_measure_attn(struct ops *b, struct err *e);
/* Return the limits of batches for attention. */
struct batch_limits ops_batch_limits(const struct ops *b);
/* Set b->index i32 [row_max] to from, from + 1, ... on the device. ERR_MEMORY. */
int ops_set_index(struct ops *b, int from, struct err *e);
/* Open KV pages for all sequences at the greatest depth, in as many layers as fit into a quarter of
 * the memory. No effect if the pages are open. ERR_ARG for another --kv-cache-dtype, ERR_MEMORY. */
int ops_open_kv(struct ops *b, struct err *e);

#endif
