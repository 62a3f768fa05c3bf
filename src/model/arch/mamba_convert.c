/* mamba_convert.c - conversion of models with only layers of Mamba. A GGUF has the decays, and no
 * suffix in the names of decays and factors D. */
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

static void put_keys(struct key_writer *w)
{
    const struct mamba_sizes *s = w->m->config.own;
    gguf_put_int(w, "ssm.conv_kernel", s->n_tap);
    gguf_put_int(w, "ssm.state_size", s->d_state);
    gguf_put_int(w, "ssm.inner_size", s->d_inner);
    gguf_put_int(w, "ssm.time_step_rank", s->rank);
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
static const struct name_pair name[] = {
    {".ssm_a.weight", ".ssm_a"}, {".ssm_d.weight", ".ssm_d"}, {0}};
static const char *const f32[] = {".ssm_conv1d.weight", ".ssm_a", NULL};
const struct arch_convert mamba_convert = {
    .field = field, .f32 = f32, .name = name, .place = place, .put_keys = put_keys};
