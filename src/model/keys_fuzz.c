/* keys_fuzz.c - read a model configuration from a mutated config.json. The result is an error with
 * a message, or numbers within their ranges. */
#include "../../tests/fuzz/fuzz.h"

#include "base/log.h"
#include "base/os.h"
#include "model_impl.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct arch *const arches[] = {
#define ARCH(id) &arch_##id,
#include "arch/arch.def"
#undef ARCH
};

static const char *folder; /* NULL before the first input */

/* Return the folder, with weights of one tensor. */
static const char *make_folder(void)
{
    static const char tensor[] =
        "\x36\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}} A";
    fuzz_put("model.safetensors", tensor, sizeof tensor - 1);
    log_silent = true;
    return fuzz_folder();
}

/* Check the bounds that the rest of the model code relies on. */
static void check_config(const struct config *c)
{
    assert(c->n_layer >= 1 && c->n_layer <= LAYERS_MAX && c->d >= 1 && c->d_ff >= 1);
    assert(c->n_head_kv >= 1 && c->n_head % c->n_head_kv == 0 && c->d_head >= 1);
    int d_head_max = 0;
    for (int i = 0; i < c->n_layer; i++)
        if (c->layer[i].d_head > d_head_max) d_head_max = c->layer[i].d_head;
    assert(c->rms_eps >= 0 && c->context_train >= 1);
    for (int i = 0; i < c->n_rope; i++) { /* 0 for learned positions */
        const struct rope_config *r = &c->rope[i];
        assert(r->d_rot >= 2 && r->d_rot <= d_head_max && r->base > 0 && isfinite(r->base));
        assert(r->scaling == ROPE_NONE || (r->factor > 0 && r->magnitude > 0));
    }
    for (int i = 0; i < c->n_layer; i++) {
        const struct layer_config *l = &c->layer[i];
        assert(l->window >= 0 && l->rope < c->n_rope && !isnan(l->attn_scale));
        assert(l->d_head >= 1 && l->n_head_kv >= 1 && l->n_head % l->n_head_kv == 0);
        assert(l->rope == ROPE_OFF || c->rope[l->rope].d_rot <= l->d_head);
        /* layers of an encoder share a layer of KV memory, which may be the decoder's */
        assert(l->kv_layer >= 0 && l->kv_layer <= (i < c->n_encoder ? c->n_encoder : i));
        assert(l->kv_layer < i || !l->reuses_kv);
        assert(l->n_expert_used <= l->n_expert && (l->n_expert == 0 || l->n_expert_used > 0));
        assert(l->n_expert == 0 || l->d_expert > 0);
    }
}

/* Read the metadata for one architecture. A rejected file must have a sentence, an accepted one a
 * valid config. */
static void read_as(const struct checkpoint *c, const struct arch *a)
{
    struct err e = {0};
    struct model m = {.arch = a, .checkpoint = c};
    struct binder b = {.m = &m, .checkpoint = c, .prefix = a->name, .e = &e, .part = ""};
    b.read = calloc((size_t)checkpoint_n_meta(c) + 1, 1);
    if (!b.read) abort();
    config_read(&b);
    assert((b.rc == 0) == (e.text[0] == 0));
    if (b.rc == 0) {
        fuzz_accepted();
        check_config(&m.config);
    }
    free(b.read);
    arena_deinit(&m.arena);
}

FUZZ(model_config)
{
    struct checkpoint *c;
    struct err e = {0};
    if (!folder) folder = make_folder();
    fuzz_put("config.json", data, n);
    if (checkpoint_open(&c, folder, &e) != 0) return;
    const char *name = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    for (size_t i = 0; name && i < sizeof arches / sizeof arches[0]; i++)
        if (strcmp(arches[i]->name, name) == 0) read_as(c, arches[i]);
    checkpoint_close(c);
}
