/* falcon_h1_convert.c - conversion of Falcon-H1. The tensors of a GGUF are multiplied by the
 * factors of the class, so that the graph of llama.cpp has no factors. A factor of an input
 * multiplies the weights of a matrix, and a factor of a result also its biases. */
#include "falcon_h1_impl.h"

#include "model/convert_impl.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

/* ---- to GGUF ---- */

/* Multiply all values of a source by a factor. */
static void scale_all(struct source *s, float by)
{
    if (by == 1) return;
    s->factor[0] = (struct row_factor){INT64_MAX, by};
    s->n_factor = 1;
}

/* Multiply the rows of z, x, B, C and dt of the first matrix of Mamba-2, or its biases. */
static void scale_parts(struct source *s, const struct mamba2_sizes *z, float in)
{
    const int64_t d = (int64_t)z->n_head * z->d_head, n_bc = (int64_t)z->n_group * z->d_state;
    const int64_t n[ROW_FACTORS_MAX] = {d, d, n_bc, n_bc, z->n_head};
    int64_t end = 0;
    bool any = false;
    for (int i = 0; i < ROW_FACTORS_MAX; i++) {
        end += n[i];
        s->factor[i] = (struct row_factor){end, in * z->part_scale[i]};
        any |= s->factor[i].by != 1;
    }
    s->n_factor = any ? ROW_FACTORS_MAX : 0;
}

static void place(struct source *s, const struct model *m, const char *name)
{
    const struct falcon_h1_own *own = m->config.own;
    const struct {
        const char *stem; /* static */
        float in, out;    /* factors of the input and of the result */
    } list[] = {{".attn_q", own->attn_in, 1},        {".attn_k", own->attn_in, own->key},
                {".attn_v", own->attn_in, 1},        {".attn_output", 1, own->attn_out},
                {".ssm_out", 1, own->ssm_out},       {".ffn_gate", 1, own->gate},
                {".ffn_down", 1, own->down},         {"token_embd", 1, m->config.embed_scale},
                {"output", 1, m->config.logit_scale}};
    const char *suffix = strrchr(name, '.');
    const size_t n = suffix ? (size_t)(suffix - name) : 0;
    const bool bias = suffix && strcmp(suffix, ".bias") == 0;
    mamba2_place(s, m, name);
    if (text_ends_with(name, ".ssm_in.weight") || text_ends_with(name, ".ssm_in.bias")) {
        if (own->mamba.scaled) scale_parts(s, &own->mamba, bias ? 1 : own->mamba.in_scale);
        return;
    }
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const size_t n_stem = strlen(list[i].stem);
        const bool whole = list[i].stem[0] != '.';
        if (n < n_stem || (whole && n != n_stem) ||
            memcmp(name + n - n_stem, list[i].stem, n_stem) != 0)
            continue;
        scale_all(s, bias ? list[i].out : list[i].in * list[i].out);
    }
}

/* Set the factors of the config to those of a GGUF. */
static void fold(struct config *c, void *own)
{
    struct falcon_h1_own *f = own;
    const struct mamba2_sizes sizes = f->mamba;
    *f = falcon_h1_folded;
    f->mamba = sizes;
    falcon_h1_unscale(&f->mamba);
    c->embed_scale = c->logit_scale = 1;
    for (int i = 0; i < c->n_layer; i++)
        c->layer[i].attn_scale = 1.0f / sqrtf((float)c->layer[i].d_head);
}

/* Write the sizes. A head that is the embedding has the factor of the embedding. */
static void put_keys(struct key_writer *w)
{
    const struct config *c = &w->m->config;
    const bool tied = !checkpoint_tensor(w->m->checkpoint, "output.weight");
    if (w->rc == 0 && tied && c->embed_scale != c->logit_scale)
        w->rc = err_set(w->e, ERR_UNSUPPORTED,
                        "%s: config.json: tie_word_embeddings: a GGUF cannot have a tied head with "
                        "another factor (%g) than the embedding (%g)",
                        checkpoint_path(w->m->checkpoint), (double)c->logit_scale,
                        (double)c->embed_scale);
    mamba2_put_keys(w);
}

/* ---- to a folder ---- */

static const struct mamba2_sizes *sizes_of(const struct config_writer *w)
{
    return w->c->own;
}

static void d_inner(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, (int64_t)sizes_of(w)->n_head * sizes_of(w)->d_head);
}

/* Append the default of the class, which has no effect next to mamba_d_ssm. */
static void expand(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, 2);
}

static void normed(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, !sizes_of(w)->no_norm);
}

static void norm_first(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, sizes_of(w)->norm_first);
}

static void out_bias(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, sizes_of(w)->o_biased);
}

static const struct name_pair names[] = {{".ssm_a.weight", ".ssm_a"},
                                         {".ssm_d.weight", ".ssm_d"},
                                         {".ssm_dt.weight", ".ssm_dt.bias"},
                                         {".ffn_norm.weight", ".ffn_norm"},
                                         {0}};
static const struct hf_field field[] = {{"config.mamba_expand", expand},
                                        MAMBA2_HYBRID_FIELDS,
                                        {"config.mamba_d_ssm", d_inner},
                                        {"config.mamba_rms_norm", normed},
                                        {"config.mamba_norm_before_gate", norm_first},
                                        {"config.projectors_bias", out_bias},
                                        {0}};
const struct arch_convert falcon_h1_convert = {.field = field,
                                               .f32 = mamba2_f32,
                                               .name = names,
                                               .place = place,
                                               .fold = fold,
                                               .put_keys = put_keys};
