/* cpu_impl.h - private to src/backend/cpu: the CPU backend's state, shared by its ops. */
#ifndef QUOTH_BACKEND_CPU_IMPL_H
#define QUOTH_BACKEND_CPU_IMPL_H

#include "backend/backend_impl.h"

/* Attention works on tiles of this many query rows of one sequence: what shares each decoded K
 * and V tile. */
enum { ATTN_ROWS = 16 };

struct cpu_backend {
    struct backend base; /* first: a struct backend * is a struct cpu_backend * */
    struct kern kern;
    struct pool *pool; /* owned */
    enum act_choice act;
    char description[64];

    /* Scratch, owned, sized by reserve. */
    uint8_t *act_data; /* [n_row_max, k_max] f32 rows never need it; int8 or bf16 do */
    float *act_scale;  /* [n_row_max, ceil(k_max / 256)]     */
    float *attn_work;  /* [n_thread, attn_work_floats]       */
    int64_t attn_work_floats;
    int n_row_max;
    int64_t k_max;
};

static inline struct cpu_backend *cpu_of(struct backend *b)
{
    return (struct cpu_backend *)b;
}

int64_t cpu_attn_work_floats(int d_head, int n_group);

/* The ops, one file per family. */
void cpu_linear(struct backend *b, float *y, const struct linear *l, const float *x, int n_row);
void cpu_kv_put(struct backend *b, const struct kv_layer *kv, const float *k, const float *v,
                const int32_t *slot, int n_row);
void cpu_kv_copy(struct backend *b, const struct kv_layer *kv, int32_t page_src, int32_t page_dst);
void cpu_attn(struct backend *b, float *y, const float *q, const struct kv_layer *kv,
              const struct batch *batch, const struct attn_spec *spec);

/* f32 copies of one 16-position tile of one head: k [d_k, 16], v [16, d_v]. Positions at and past
 * n are left undefined. page is the sequence's page table, pos0 a multiple of 16. */
void cpu_kv_tile(const struct kv_layer *kv, int head, const int32_t *page, int pos0, int n,
                 float *k, float *v);

#endif
