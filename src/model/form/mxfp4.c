/* mxfp4.c - MXFP4 (OCP Microscaling formats 1.0) as gpt-oss publishes the experts' matrices: one
 * tensor of codes and one of exponents for all experts of a layer.
 *
 * NAME_blocks    U8 [n_expert, n_out, k / 32, 16]    two codes per byte, the first in the low bits
 *     NAME_scales    U8 [n_expert, n_out, k / 32]        exponents e
 *
 *     value = e2m1[code] * 2^(e - 127)
 *
 * Packing writes blocks of MXFP4, so no value changes. All other matrices have their usual
 * tensors. */
#include "form_impl.h"

#include <stdio.h>
#include <string.h>

/* No matrix has tensors of its own in this form. */
static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    (void)b, (void)s, (void)p;
    return NULL;
}

/* Return the tensor stem_suffix.weight, of bytes [n_expert, n_out, n...]; NULL after an error. n
 * has the sizes of the inner dimensions. */
static const struct tensor_info *bytes(struct binder *b, const struct site *s, const char *suffix,
                                       int64_t n_expert, const int64_t n[2])
{
    char stem[96], name[160];
    snprintf(stem, sizeof stem, "%s_%s", s->stem, suffix);
    bind_name(b, name, stem, s->il, "weight");
    const struct tensor_info *t = b->rc == 0 ? bind_find(b, name) : NULL;
    if (!t) {
        bind_missing(b, name);
        return NULL;
    }
    const bool inner = n[1] > 0;
    const int64_t want[4] = {inner ? n[1] : n[0], inner ? n[0] : s->n_out,
                             inner ? s->n_out : n_expert, inner ? n_expert : 1};
    if (t->type != QT_u8)
        form_fault(b, t, "has type %s, expected U8", qtype_info[t->type].name);
    else if (memcmp(t->dim, want, sizeof want) != 0)
        form_fault(b, t, "is [%lld, %lld, %lld, %lld], expected [%lld, %lld, %lld, %lld]",
                   (long long)t->dim[3], (long long)t->dim[2], (long long)t->dim[1],
                   (long long)t->dim[0], (long long)want[3], (long long)want[2], (long long)want[1],
                   (long long)want[0]);
    return b->rc == 0 ? t : NULL;
}

/* Set the codes and exponents of each expert's rows. */
static const struct tensor_info *bind_part_of(struct binder *b, const struct site *s,
                                              struct published *from, int64_t n_expert,
                                              const struct row_part *part)
{
    enum { RUN = 32, RUN_BYTES = RUN / 2 };
    const int64_t n_run = s->k / RUN, row = n_run * RUN_BYTES;
    if (s->k % RUN) {
        b->rc =
            err_set(b->e, ERR_FORMAT, "%s: MXFP4: rows must be multiples of 32 values, got %lld",
                    checkpoint_path(b->checkpoint), (long long)s->k);
        return NULL;
    }
    const struct tensor_info *blocks =
        bytes(b, s, "blocks", n_expert, (int64_t[]){n_run, RUN_BYTES});
    const struct tensor_info *scales = bytes(b, s, "scales", n_expert, (int64_t[]){n_run, 0});
    for (int64_t e = 0; e < n_expert && b->rc == 0; e++) {
        const int64_t first = e * s->n_out;
        from[e].form = FORM_CODES;
        from[e].n_out = s->n_out, from[e].k = s->k;
        from[e].part = *part;
        from[e].code = (struct codes){
            .data = blocks->data + first * row, .bits = 4, .word = 1, .step = 1, .other = row};
        from[e].level = form_e2m1;
        from[e].block_out = 1, from[e].block_k = RUN;
        from[e].scale = (struct published_scales){.data = scales->data + first * n_run,
                                                  .type = QT_u8,
                                                  .row_step = n_run,
                                                  .group_step = 1,
                                                  .divisor = 1};
        from[e].by = 1;
    }
    return b->rc == 0 ? blocks : NULL;
}

/* Return true if the file has the tensors of this form for the matrices. */
static bool has(const struct binder *b, const struct site *s)
{
    char stem[96];
    snprintf(stem, sizeof stem, "%s_blocks", s->stem);
    return bind_has(b, stem, s->il);
}

const struct form form_mxfp4 = {
    .method = "mxfp4", .bind = bind, .has_experts = has, .bind_experts = bind_part_of};
