/* mamba2_convert.c - conversion of layers of Mamba-2. A GGUF has the decays, and the decays and the
 * factors D as columns. llama.cpp has no key for limits of time steps, so quoth writes its own
 * keys. */
#include "mamba2_impl.h"

#include "model/convert_impl.h"

#include "base/log.h"
#include "base/text.h"

/* The sizes are the first member of the values of every class with such layers. */
static const struct mamba2_sizes *sizes_of(const struct config_writer *w)
{
    return w->c->own;
}

void mamba2_put_taps(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->n_tap);
}

void mamba2_put_states(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_state);
}

void mamba2_put_groups(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->n_group);
}

void mamba2_put_heads(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->n_head);
}

void mamba2_put_head_size(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_head);
}

void mamba2_put_expand(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, (int64_t)sizes_of(w)->n_head * sizes_of(w)->d_head / w->c->d);
}

void mamba2_put_bias(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, sizes_of(w)->biased);
}

void mamba2_put_conv_bias(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, sizes_of(w)->conv_biased);
}

/* Append [LEAST, MOST], with infinity as transformers 5 writes it. */
void mamba2_put_limit(struct config_writer *w, const char *name)
{
    const struct mamba2_sizes *s = sizes_of(w);
    hf_put_name(w, name);
    buf_add_char(w->b, '[');
    json_put_float(w->b, s->step_least);
    buf_add_char(w->b, ',');
    if (s->step_max > 0)
        json_put_float(w->b, s->step_max);
    else
        buf_add_text(w->b, "{\"__float__\":\"Infinity\"}");
    buf_add_char(w->b, ']');
}

/* Write the limits of time steps, which llama.cpp ignores. */
static void put_limits(struct key_writer *w, const struct mamba2_sizes *s)
{
    if (s->step_least > 0) gguf_put_real(w, "ssm.time_step_min", (double)s->step_least);
    if (s->step_max > 0) gguf_put_real(w, "ssm.time_step_max", (double)s->step_max);
    if (s->step_least > 0 || s->step_max > 0)
        log_warn("%s: the limits of time steps are in the file, but llama.cpp ignores them and "
                 "may give other results",
                 checkpoint_path(w->m->checkpoint));
}

void mamba2_put_keys(struct key_writer *w)
{
    const struct mamba2_sizes *s = w->m->config.own;
    gguf_put_int(w, "ssm.conv_kernel", s->n_tap);
    gguf_put_int(w, "ssm.state_size", s->d_state);
    gguf_put_int(w, "ssm.group_count", s->n_group);
    gguf_put_int(w, "ssm.time_step_rank", s->n_head);
    gguf_put_int(w, "ssm.inner_size", (int64_t)s->n_head * s->d_head);
    put_limits(w, s);
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

static const struct hf_field field[] = {MAMBA2_SIZE_FIELDS,
                                        {"config.expand", mamba2_put_expand},
                                        {"config.use_bias", mamba2_put_bias},
                                        {"config.use_conv_bias", mamba2_put_conv_bias},
                                        {0}};
const struct arch_convert mamba2_convert = {.field = field,
                                            .f32 = mamba2_f32,
                                            .name = mamba2_names,
                                            .place = mamba2_place,
                                            .put_keys = mamba2_put_keys};
