/* kimi_linear_convert.c - conversion of Kimi Linear. A GGUF has the decays as a column, 0 KV heads
 * for layers with Kimi delta attention, and one number of heads for all layers. */
#include "kimi_linear_impl.h"

#include "model/convert_impl.h"

#include "base/text.h"

#include <string.h>

static void put_keys(struct key_writer *w)
{
    const struct config *c = &w->m->config;
    const struct kimi_own *own = c->own;
    if (w->rc == 0 && own->n_head != c->n_head)
        w->rc = err_set(w->e, ERR_UNSUPPORTED,
                        "%s: config.json: linear_attn_config.num_heads: must be the %d heads of "
                        "attention in a GGUF, got %d",
                        checkpoint_path(w->m->checkpoint), c->n_head, own->n_head);
    gguf_put_int(w, "rope.dimension_count", c->latent->d_rope);
    gguf_put_int(w, "ssm.conv_kernel", own->n_tap);
    gguf_put_int(w, "kda.head_dim", own->d_head);
}

static void place(struct source *s, const struct model *m, const char *name)
{
    (void)m;
    if (text_ends_with(name, ".ssm_a")) s->map = MAP_DECAY, s->row = 1, s->n_dim = 4;
    if (!strstr(name, ".ssm_conv1d_")) return;
    if (s->back)
        s->squeezed = true, s->n_dim = 3;
    else
        s->spread = true;
}

static void layer_types(struct config_writer *w, const char *name)
{
    hf_put_kinds(w, name, "linear_attention", "full_attention");
}

static void n_head(struct config_writer *w, const char *name)
{
    const struct kimi_own *own = w->c->own;
    hf_put_int(w, name, own->n_head);
}

static void d_head(struct config_writer *w, const char *name)
{
    const struct kimi_own *own = w->c->own;
    hf_put_int(w, name, own->d_head);
}

static void n_tap(struct config_writer *w, const char *name)
{
    const struct kimi_own *own = w->c->own;
    hf_put_int(w, name, own->n_tap);
}

static const struct hf_field fields[] = {{"config.layer_types", layer_types},
                                         {"config.linear_num_heads", n_head},
                                         {"config.linear_head_dim", d_head},
                                         {"ssm.conv_kernel", n_tap},
                                         {0}};

static const struct name_pair names[] = {
    {".ssm_a.weight", ".ssm_a"}, {".ssm_dt.weight", ".ssm_dt.bias"}, {0}};
static const char *const f32[] = {".ssm_conv1d_q.weight", ".ssm_conv1d_k.weight",
                                  ".ssm_conv1d_v.weight", ".ssm_a", NULL};
const struct arch_convert kimi_linear_convert = {
    .field = fields, .f32 = f32, .name = names, .place = place, .put_keys = put_keys};
