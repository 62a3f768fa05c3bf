/* kernels_ops.h - private to kernels_*.c: single ops of a backend, on a model's weights and widths. */
#ifndef QUOTH_BENCH_KERNELS_OPS_H
#define QUOTH_BENCH_KERNELS_OPS_H

#include "kernels.h"

#include "cache/cache.h"

enum { MOST_GROUPS = 256 };
enum { PROMPT_ROWS = 2048 }; /* of attention at a time, as an engine would take them */

/* The matrices of one name, type and shape, over all layers. */
struct group {
    char part[48]; /* "ffn_down", "token_embd" */
    enum qtype type;
    int64_t n_out, k;
    bool is_head;
    VEC(struct linear) matrix; /* owned */
    struct samples us;         /* owned: of one call, in the turns that count */
};

struct ops {
    const struct kernels_plan *plan;
    struct session s; /* without a model */
    bool usual_attn;  /* attention is measured at depths of its own */
    int n_layer, d, d_ff, n_head, n_head_kv, d_head;
    VEC(struct group) group;
    VEC(uint32_t) order; /* of the matrices in the file: the group of each */
    struct weights *weights;
    struct ids n_row; /* the numbers of rows that are measured, owned */
    int n_row_max;
    float *x, *y, *z, *ones; /* owned, each big enough for any op */
    int32_t *index;          /* owned [n_row_max]: 0, 1, 2 ... */
    struct kv_store kv;
    struct bench_batch batch;
    struct limits *limits; /* to compare with where the plan says so, and to spoil caches */
};

/* One op on given operands. */
struct call {
    const char *op, *part, *type;
    void (*run)(struct ops *b, const struct call *c, int i);
    int n_cycle;               /* calls with different operands, in turn */
    const struct group *group; /* of linear */
    int n_row, depth;
    bool from_memory;  /* the caches are spoiled before each turn */
    int64_t n;         /* values in a row */
    double bytes, ops; /* of a call */
};

/* ---- kernels_ops.c ---- */

/* Time it, and print its row. */
int ops_measure_call(struct ops *b, const struct call *c, struct err *e);
/* A row of what was timed: us of a call, beside the limits measured before and after. */
void ops_print_call(const struct ops *b, const struct call *c, const struct samples *us,
                    const struct limit limit[2]);

/* ---- kernels_linear.c, kernels_attn.c: rows of those ops ---- */

int ops_measure_linear(struct ops *b, struct err *e);
int ops_measure_attn(struct ops *b, struct err *e);
/* Pages for all sequences at the greatest depth, in as many layers as a quarter of the memory
 * holds; nothing where they are there. */
int ops_open_kv(struct ops *b, struct err *e);

#endif
