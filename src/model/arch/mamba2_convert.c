/* mamba2_convert.c - conversion of layers of Mamba-2. A GGUF has the decays, and the decays and the
 * factors D as columns. It has no key for limits of time steps, so only models without limits
 * convert. */
#include "mamba2_impl.h"

#include "model/convert_impl.h"

#include "base/text.h"

/* The sizes are the first member of the values of every class with such layers. */
static const struct mamba2_sizes *sizes_of(const struct config_writer *w)
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

static void n_group(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->n_group);
}

static void n_head(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->n_head);
}

static void d_head(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_head);
}

static void expand(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, (int64_t)sizes_of(w)->n_head * sizes_of(w)->d_head / w->c->d);
}

static void biased(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, sizes_of(w)->biased);
}

static void conv_biased(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, sizes_of(w)->conv_biased);
}

void mamba2_put_keys(struct key_writer *w)
{
    const struct mamba2_sizes *s = w->m->config.own;
    gguf_put_int(w, "ssm.conv_kernel", s->n_tap);
    gguf_put_int(w, "ssm.state_size", s->d_state);
    gguf_put_int(w, "ssm.group_count", s->n_group);
    gguf_put_int(w, "ssm.time_step_rank", s->n_head);
    gguf_put_int(w, "ssm.inner_size", (int64_t)s->n_head * s->d_head);
}

void mamba2_place(struct source *s, const struct model *m, const char *name)
{
    const struct mamba2_sizes *z = m->config.own;
    if (text_ends_with(name, ".ssm_a")) s->map = MAP_DECAY;
    if (text_ends_with(name, ".ssm_conv1d.weight")) s->squeezed = true;
    if (text_ends_with(name, ".ssm_a") || text_ends_with(name, ".ssm_d")) s->row = 1;
    if (text_ends_with(name, ".ssm_norm.weight"))
        s->row = (int64_t)z->n_head * z->d_head / z->n_group;
}

const struct name_pair mamba2_names[] = {{".ssm_a.weight", ".ssm_a"},
                                         {".ssm_d.weight", ".ssm_d"},
                                         {".ssm_dt.weight", ".ssm_dt.bias"},
                                         {0}};
const char *const mamba2_f32[] = {".ssm_conv1d.weight", ".ssm_a", ".ssm_d", ".ssm_norm.weight",
                                  NULL};

#define SIZE_FIELDS                                                                                \
    {"ssm.conv_kernel", n_tap}, {"ssm.state_size", d_state}, {"ssm.group_count", n_group},         \
        {"ssm.time_step_rank", n_head},                                                            \
    {                                                                                              \
        "ssm.head_dim", d_head                                                                     \
    }
static const struct hf_field field[] = {SIZE_FIELDS,
                                        {"config.expand", expand},
                                        {"config.use_bias", biased},
                                        {"config.use_conv_bias", conv_biased},
                                        {0}};
const struct arch_convert mamba2_convert = {.field = field,
                                            .f32 = mamba2_f32,
                                            .name = mamba2_names,
                                            .place = mamba2_place,
                                            .put_keys = mamba2_put_keys};
