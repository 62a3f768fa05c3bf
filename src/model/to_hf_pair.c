/* to_hf_pair.c - tensors of a Hugging Face directory that a GGUF has as two tensors, or in blocks.
 *
 *   GGUF                            directory
 *   gate, up  [n_expert, n, k]      [n_expert, 2 n, k]    rows of gate, then of up; or alternating
 *                                   [n_expert, k, 2 n]    transposed matrices
 *   biases    [n_expert, n]         [n_expert, 2 n]
 *   k_b       [n_head, kv_rank, d_nope]  \
 *   v_b       [n_head, d_v, kv_rank]     / [n_head (d_nope + d_v), kv_rank], k_b transposed
 *   MXFP4     [n_expert, n, k]      NAME_blocks, NAME_scales (form/mxfp4.c)
 *
 * hf_pair_of finds the tensors by tensors.def, which has the name of the whole. */
#include "convert_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *part[2], *whole; /* static */
} pairs[] = {{{".ffn_gate_exps.", ".ffn_up_exps."}, ".ffn_gate_up_exps."},
             {{".ffn_gate_shexp.", ".ffn_up_shexp."}, ".ffn_gate_up_shexp."},
             {{".ffn_gate.", ".ffn_up."}, ".ffn_gate_up."},
             {{".attn_k_b.", ".attn_v_b."}, ".attn_kv_b."}};
enum { N_PAIR = sizeof pairs / sizeof pairs[0], PAIR_OF_HEADS = N_PAIR - 1 };

bool hf_pair_of(struct hf_pair *p, const struct conversion *g, const struct hf_class *class,
                const struct tensor_info *t)
{
    const bool halves = model_arch_find(class->arch)->gguf_halves;
    for (int i = 0; i < 2 * N_PAIR; i++) {
        const char *part = pairs[i / 2].part[i % 2], *at = strstr(t->name, part);
        char other[NAME_BYTES];
        p->of_heads = i / 2 == PAIR_OF_HEADS;
        if (!at || !(halves || p->of_heads)) continue;
        const int n = (int)(at - t->name);
        const char *end = at + strlen(part);
        snprintf(other, sizeof other, "%.*s%s%s", n, t->name, pairs[i / 2].part[1 - i % 2], end);
        snprintf(p->name, sizeof p->name, "%.*s%s%s", n, t->name, pairs[i / 2].whole, end);
        p->t[i % 2] = t;
        p->t[1 - i % 2] = checkpoint_tensor(g->c, other);
        return p->t[1 - i % 2] && conversion_raw_name(p->raw, sizeof p->raw, g, class, p->name, -1);
    }
    return false;
}

/* Set the parts of a source: t[0], or both tensors. */
static int set_parts(struct source *s, const struct conversion *g,
                     const struct tensor_info *const t[2], struct err *e)
{
    s->n_part = t[1] ? 2 : 1;
    s->tensor = malloc((size_t)s->n_part * sizeof *s->tensor);
    if (!s->tensor) return err_memory(e, t[0]->name, (size_t)s->n_part * sizeof *s->tensor);
    for (int i = 0; i < s->n_part; i++) s->tensor[i] = (int)(t[i] - checkpoint_tensor_at(g->c, 0));
    return 0;
}

/* ---- codes ---- */

bool hf_keeps_codes(const struct conversion *g, const struct hf_class *class)
{
    char raw[NAME_BYTES];
    bool any = false;
    if (g->type ||
        !hf_raw_name(raw, sizeof raw, "blk.0.ffn_down_exps_blocks.weight", class->arch, -1))
        return false;
    for (int i = 0; i < checkpoint_n_tensor(g->c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(g->c, i);
        if (!text_ends_with(t->name, "_exps.weight")) continue;
        if (t->type != QT_mxfp4) return false;
        any = true;
    }
    return any;
}

int hf_put_codes(struct conversion *g, const struct hf_class *class, const char *name,
                 const struct tensor_info *const t[2], struct err *e)
{
    static const struct {
        const char *end; /* static */
        enum source_piece piece;
    } pieces[] = {{"_blocks", PIECE_CODES}, {"_scales", PIECE_EXPONENTS}};
    const int block = qtype_info[QT_mxfp4].block;
    const int64_t n_block = t[0]->dim[0] / block, n_out = t[0]->dim[1],
                  n_row = (t[1] ? 2 : 1) * n_out,
                  n_run = model_arch_find(class->arch)->hf_pairs ? 1 : n_out;
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        const bool codes = pieces[i].piece == PIECE_CODES;
        const int64_t row = codes ? n_block * block / 2 : n_block;
        const int64_t dim[2][4] = {{n_block, n_row, t[0]->dim[2], 1},
                                   {block / 2, n_block, n_row, t[0]->dim[2]}};
        struct source s = {.piece = pieces[i].piece, .back = true};
        char own[NAME_BYTES], raw[NAME_BYTES];
        const char *end = strrchr(name, '.');
        snprintf(own, sizeof own, "%.*s%s%s", (int)(end - name), name, pieces[i].end, end);
        const bool named = conversion_raw_name(raw, sizeof raw, g, class, own, -1);
        CHECK(named, "tensor %s is in the table", own);
        if (t[1]) s.run[0] = s.run[1] = n_run * row;
        rc = set_parts(&s, g, t, e);
        if (rc == 0) rc = conversion_add(g, raw, QT_u8, codes ? 4 : 3, dim[codes], &s, e);
    }
    return rc;
}

/* ---- pairs ---- */

/* Return the type of a pair: the type of both tensors, or F32. */
static enum qtype type_of(const struct conversion *g, const struct hf_pair *p,
                          const struct source *s)
{
    const enum qtype a = hf_type_of(g, p->t[0], s), b = hf_type_of(g, p->t[1], s);
    return a == b ? a : QT_f32;
}

/* Add k_b and v_b as one matrix: for each head the rows of k_b, which are its columns in the GGUF,
 * then those of v_b. */
static int put_heads(struct conversion *g, const struct hf_pair *p, struct err *e)
{
    const struct tensor_info *k = p->t[0], *v = p->t[1];
    struct source s = {.back = true,
                       .order = ORDER_TRANSPOSED,
                       .first_only = true,
                       .run = {k->dim[0] * k->dim[1], v->dim[0] * v->dim[1]}};
    const int64_t dim[4] = {v->dim[0], (k->dim[0] + v->dim[1]) * k->dim[2], 1, 1};
    const int rc = set_parts(&s, g, p->t, e);
    return rc ? rc : conversion_add(g, p->raw, type_of(g, p, &s), 2, dim, &s, e);
}

int hf_put_pair(struct conversion *g, const struct hf_class *class, const struct hf_pair *p,
                struct err *e)
{
    if (p->of_heads) return put_heads(g, p, e);
    const struct arch *a = model_arch_find(class->arch);
    const struct tensor_info *t = p->t[0];
    struct source s = {.back = true};
    int64_t dim[4] = {t->dim[0], t->dim[1], t->dim[2], 1};
    if (class->keeps_codes && t->type == QT_mxfp4) return hf_put_codes(g, class, p->name, p->t, e);
    int rc = set_parts(&s, g, p->t, e);
    if (rc != 0) return rc;
    conversion_order(&s, g->m, a, t->name);
    if (s.order == ORDER_TRANSPOSED) dim[0] = t->dim[1], dim[1] = t->dim[0];
    /* dimension of the rows of gate and up */
    const int axis = s.order == ORDER_TRANSPOSED || text_ends_with(t->name, ".bias") ? 0 : 1;
    s.run[0] = s.run[1] = (axis ? dim[0] : 1) * (a->hf_pairs ? 1 : dim[axis]);
    dim[axis] *= 2;
    return conversion_add(g, p->raw, type_of(g, p, &s), t->n_dim, dim, &s, e);
}
