/* quantization.c - --quantization: names of number formats, and of other engines' methods.
 *
 *   a format or a mix (Q4_K_M)       float weights become these formats while they are packed
 *   a method of vLLM or TGI          the weights of the checkpoint must have this form; float
 *                                    weights get its precision in a format of quoth, with a log
 *                                    line
 *
 * NF4 and FP4 are the formats of bitsandbytes, without a second quantization of the scales. FP8 has
 * more scales than in other engines. INT8 becomes Q8_0, which has about the same size and a lower
 * error (docs/measurements.md). */
#include "session.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Methods of other engines. form.def has the methods with a form of the model. All texts are
 * static. */
static const struct method {
    const char *name;
    const char *form; /* quant_method of config.json that has this form; NULL if none */
    const char *type; /* format of float weights for this method; NULL if none */
    /* reason for the type, for the log; NULL: the type is the type of the method */
    const char *why;
} methods[] = {{"auto", NULL, NULL, NULL},
               {"none", NULL, NULL, NULL},
               {"gguf", "gguf", NULL, NULL},
#define METHOD(name, method, type, why) {name, method, type, why},
#include "model/form/form.def"
               {"int8", NULL, "Q8_0", "weights become Q8_0, with a scale per 32 values"},
               {"eetq", NULL, "Q8_0", "weights become Q8_0, with a scale per 32 values"},
               {"nf4", NULL, "NF4_64", NULL},
               {"fp4", NULL, "FP4_64", NULL}};
enum { N_METHOD = sizeof methods / sizeof methods[0] };

/* Return true for the target formats of weights. F32 has no effect, so it is excluded. Plain floats
 * of 8 bits are excluded, because they have no scales. */
static bool is_target(const char *name)
{
    const int t = qtype_of_name(name);
    return t < 0 || qtype_info[t].block > 1 || t == QT_f16 || t == QT_bf16;
}

const char *session_quantization_names(int i)
{
    const char *name;
    for (int k = 0; (name = quant_mix_name_at(k)); k++)
        if (is_target(name) && i-- == 0) return name;
    return i < N_METHOD ? methods[i].name : NULL;
}

/* Return the form of a checkpoint's weights by its name in quant_method; NULL if the weights are
 * plain. */
static const char *form_of(const struct checkpoint *c)
{
    const char *form =
        meta_text(checkpoint_meta(c, "config.quantization_config.quant_method"), NULL);
    return form ? form : checkpoint_kind(c) == CKPT_GGUF ? "gguf" : NULL;
}

/* Return the type of a method for the checkpoint; NULL if its weights keep their formats, or after
 * an error. */
static const char *type_of(const struct method *m, const struct checkpoint *c, int *rc,
                           struct err *e)
{
    const char *form = form_of(c);
    if (!m->form && !m->type) return NULL; /* auto, none */
    if (form && m->form && strcmp(m->form, form) == 0) return NULL;
    if (m->type && (!form || strcmp(form, "gguf") == 0)) {
        if (m->why) log_warn("--quantization %s: %s", m->name, m->why);
        return m->type;
    }
    if (form)
        *rc = err_set(e, ERR_ARG, "--quantization %s: %s has weights of the form %.40s", m->name,
                      checkpoint_path(c), form);
    else
        *rc = err_set(e, ERR_ARG,
                      "--quantization %s: %s has plain weights; load a checkpoint of this form, or "
                      "quantize with a number format such as Q4_K_M",
                      m->name, checkpoint_path(c));
    return NULL;
}

int session_quantization(const char **type, const struct session_options *o,
                         const struct checkpoint *c, struct err *e)
{
    int rc = 0;
    *type = NULL;
    if (!o->quantization) return 0;
    for (int i = 0; i < N_METHOD; i++)
        if (strcasecmp(methods[i].name, o->quantization) == 0) {
            *type = type_of(&methods[i], c, &rc, e);
            return rc;
        }
    *type = o->quantization;
    const char *form = form_of(c);
    return !form || strcmp(form, "gguf") == 0
               ? 0
               : err_set(e, ERR_ARG,
                         "--quantization %s: %s has quantized weights of the form %.40s", *type,
                         checkpoint_path(c), form);
}

/* ---- sizes ---- */

/* Return the integer of the key ARCH.key; `fallback` if none. */
static int key_int(const struct checkpoint *c, const char *key, int fallback)
{
    char full[160];
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    snprintf(full, sizeof full, "%.100s.%s", arch ? arch : "", key);
    const int64_t n = meta_int(checkpoint_meta(c, full), fallback);
    return n > 0 && n < 65536 ? (int)n : fallback;
}

enum qtype session_type(const char *type, const struct checkpoint *c, const struct tensor_info *t)
{
    struct quant_mix mix;
    struct err e;
    const int n_head = key_int(c, "attention.head_count", 1);
    const struct quant_mix_site site = {.name = t->name,
                                        .type = t->type,
                                        .n_dim = t->n_dim,
                                        .k = t->dim[0],
                                        .n_layer = key_int(c, "block_count", 1),
                                        .n_group =
                                            n_head / key_int(c, "attention.head_count_kv", n_head),
                                        .tied = !checkpoint_tensor(c, "output.weight")};
    return type && quant_mix_find(&mix, type, false, &e) == 0 ? quant_mix_type(&mix, &site)
                                                              : t->type;
}
