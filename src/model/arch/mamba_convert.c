/* mamba_convert.c - conversion of models with layers of Mamba, also next to attention (Jamba). A
 * GGUF has the decays, and no suffix in the names of decays and factors D. Jamba's GGUF has 0 KV
 * heads for layers of Mamba, and no keys for the intervals of layers. */
#include "mamba_impl.h"

#include "model/convert_impl.h"

#include "base/text.h"

static const struct mamba_sizes *sizes_of(const struct config_writer *w)
{
    return w->c->own;
}

static void n_tap(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->n_tap);
}

static void d_state(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_state);
}

static void rank(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->rank);
}

static void d_inner(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_inner);
}

static void biased(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, sizes_of(w)->biased);
}

static void conv_biased(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, sizes_of(w)->conv_biased);
}

static void norm_eps(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, (double)sizes_of(w)->norm_eps);
}

static void put_sizes(struct key_writer *w)
{
    const struct mamba_sizes *s = w->m->config.own;
    gguf_put_int(w, "ssm.conv_kernel", s->n_tap);
    gguf_put_int(w, "ssm.state_size", s->d_state);
    gguf_put_int(w, "ssm.inner_size", s->d_inner);
    gguf_put_int(w, "ssm.time_step_rank", s->rank);
}

static void put_keys(struct key_writer *w)
{
    const struct mamba_sizes *s = w->m->config.own;
    put_sizes(w);
    gguf_put_bool(w, "ssm.dt_b_c_rms", s->normed);
}

static void place(struct source *s, const struct model *m, const char *name)
{
    (void)m;
    if (text_ends_with(name, ".ssm_a")) s->map = MAP_DECAY;
    if (text_ends_with(name, ".ssm_conv1d.weight")) s->squeezed = true;
}

static const struct hf_field field[] = {
    {"ssm.conv_kernel", n_tap},         {"ssm.state_size", d_state},
    {"ssm.time_step_rank", rank},       {"ssm.inner_size", d_inner},
    {"config.use_bias", biased},        {"config.use_conv_bias", conv_biased},
    {"config.mixer_rms_eps", norm_eps}, {0}};
static const struct name_pair names[] = {
    {".ssm_a.weight", ".ssm_a"}, {".ssm_d.weight", ".ssm_d"}, {0}};
static const char *const f32[] = {".ssm_conv1d.weight", ".ssm_a", NULL};
const struct arch_convert mamba_convert = {
    .field = field, .f32 = f32, .name = names, .place = place, .put_keys = put_keys};

/* ---- Jamba ---- */

static void expand(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_inner / w->c->d);
}

static bool attends(const struct layer_config *l)
{
    return !l->recurrent;
}

static bool mixes(const struct layer_config *l)
{
    return l->n_expert > 0;
}

/* Return the first layer of a kind; the number of layers if none. */
static int first_of(const struct config *c, int from, bool (*is)(const struct layer_config *))
{
    while (from < c->n_layer && !is(&c->layer[from])) from++;
    return from;
}

/* Append the distance of the first two layers of a kind. Without a second layer, no layer of the
 * class is in its place. */
static void put_period(struct config_writer *w, const char *name,
                       bool (*is)(const struct layer_config *))
{
    const int first = first_of(w->c, 0, is);
    const int second = first_of(w->c, first < w->c->n_layer ? first + 1 : first, is);
    hf_put_int(w, name, second < w->c->n_layer ? second - first : w->c->n_layer + 1);
}

static void attn_period(struct config_writer *w, const char *name)
{
    put_period(w, name, attends);
}

static void attn_offset(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, first_of(w->c, 0, attends));
}

static void expert_period(struct config_writer *w, const char *name)
{
    put_period(w, name, mixes);
}

static void expert_offset(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, first_of(w->c, 0, mixes));
}

/* Append the number of experts: 1 for a model without mixtures. */
static void n_expert(struct config_writer *w, const char *name)
{
    const int il = first_of(w->c, 0, mixes);
    hf_put_int(w, name, il < w->c->n_layer ? w->c->layer[il].n_expert : 1);
}

static const struct hf_field jamba_field[] = {{"ssm.conv_kernel", n_tap},
                                              {"ssm.state_size", d_state},
                                              {"ssm.time_step_rank", rank},
                                              {"config.mamba_expand", expand},
                                              {"config.mamba_proj_bias", biased},
                                              {"config.mamba_conv_bias", conv_biased},
                                              {"config.attn_layer_period", attn_period},
                                              {"config.attn_layer_offset", attn_offset},
                                              {"config.expert_layer_period", expert_period},
                                              {"config.expert_layer_offset", expert_offset},
                                              {"expert_count", n_expert},
                                              {0}};
const struct arch_convert jamba_convert = {
    .field = jamba_field, .f32 = f32, .name = names, .place = place, .put_keys = put_sizes};
