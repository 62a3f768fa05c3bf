/* counting.h - a backend that wraps the CPU's backend. It counts calls. The backend's memory cannot
 * be accessed outside of ops.
 *
 * An access of the memory outside of ops (backend/backend.h) ends the program. QUOTH_DOOR=counting
 * makes every call of test_backend open this backend:
 *
 *   QUOTH_DOOR=counting build/unit golden recorded same
 * Threads are those of any backend (backend/backend.h). */
#ifndef QUOTH_TESTS_COUNTING_H
#define QUOTH_TESTS_COUNTING_H

#include "backend/backend.h"

#include <stdbool.h>
#include <stdint.h>

enum counted {
    COUNT_alloc,
    COUNT_read,
    COUNT_write,
    COUNT_copy,
    COUNT_begin,
    COUNT_embed,
    COUNT_rms_norm,
    COUNT_layer_norm,
    COUNT_linear,
    COUNT_rope,
    COUNT_kv_put,
    COUNT_attn,
    COUNT_curve_mul,
    COUNT_curve,
    COUNT_add,
    COUNT_mul,
    COUNT_scale,
    COUNT_xielu,
    COUNT_clamped_glu,
    COUNT_scale_rows,
    COUNT_clamp,
    COUNT_softcap,
    COUNT_route,
    COUNT_experts,
    COUNT_parts,
    COUNT_combine,
    COUNT_weigh,
    COUNT_gather,
    COUNT_columns,
    COUNT_match,
    COUNT_mix_streams,
    COUNT_add_streams,
    COUNT_scale_columns,
    COUNT_cut,
    COUNT_conv,
    COUNT_scan,
    COUNT_linears,
    COUNT_linear_add,
    COUNT_glu,
    COUNT_rope_put,
    COUNT_COUNT
};

/* WRAP_PLAIN: a counting backend without fused forms. */
enum wrap { WRAP_NONE, WRAP_COUNTING, WRAP_PLAIN };

/* Open the CPU's backend inside a counting backend.
 * WRAP_NONE: the CPU's backend, unless QUOTH_DOOR is set. */
int test_backend(struct backend **out, enum wrap wrap, const struct backend_options *o,
                 struct err *e);

/* Return the number of calls of a counting backend so far, or their bytes (alloc, read, write,
 * copy, begin). */
int64_t counting_calls(const struct backend *b, enum counted c);
int64_t counting_bytes(const struct backend *b, enum counted c);

#endif
