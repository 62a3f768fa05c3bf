/* to_hf.c - a GGUF as the tensors and the config.json of a Hugging Face directory: the inverse of
 * to_gguf.c. The fields' names are those of hf_keys.def, the tensors' those of tensors.def. What
 * config.json cannot express is found by model_same_config. */
#include "convert_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hf_class {
    const char *arch, *name; /* static */
    float norm_add;
};

static const struct hf_class *class_of(const char *arch)
{
    static const struct hf_class all[] = {
#define TO_HF(arch, class, norm_add) {arch, class, norm_add},
#include "to_hf.def"
    };
    for (size_t i = 0; arch && i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].arch, arch) == 0) return &all[i];
    return NULL;
}

/* ---- config.json ---- */

/* Append an integer under the name of the field of a key. A class without the field has no
 * member. */
static void put_size(struct buf *b, const char *arch, const char *key, int64_t x)
{
    const char *field = hf_field_name(arch, key);
    if (field) json_member_int(b, field, x);
}

static void put_float(struct buf *b, const char *field, double x)
{
    buf_addf(b, ",\"%s\":", field);
    json_put_float(b, (float)x);
}

/* Return true if the architecture's class has the key. */
static bool class_has(const struct arch *a, const char *key)
{
    const struct config_key *k = a->hf_key;
    while (k->key && strcmp(k->key, key) != 0) k++;
    return k->key != NULL;
}

static int put_rope(struct buf *b, const struct model *m, struct err *e)
{
    const struct rope_config *r = &m->config.rope[ROPE_MAIN];
    const char *type = r->scaling == ROPE_YARN ? "yarn" : r->factor != 1 ? "linear" : "default";
    if (r->freq_factor || r->long_factor)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tensor rope_freqs.weight or rope_factors_long.weight: conversion to "
                       "config.json is not supported yet",
                       checkpoint_path(m->checkpoint));
    buf_addf(b, ",\"rope_parameters\":{\"rope_type\":\"%s\"", type);
    put_float(b, "rope_theta", r->base);
    if (*type != 'd') put_float(b, "factor", r->factor);
    if (r->scaling == ROPE_YARN)
        json_member_int(b, "original_max_position_embeddings", r->context_original);
    buf_add_char(b, '}');
    return 0;
}

static int put_config(struct buf *b, const struct model_gguf *g, const struct hf_class *class,
                      struct err *e)
{
    static const char *const curve[] = {[CURVE_silu] = "silu",
                                        [CURVE_gelu_tanh] = "gelu_pytorch_tanh",
                                        [CURVE_gelu_erf] = "gelu",
                                        [CURVE_relu] = "relu",
                                        [CURVE_relu2] = "relu2"};
    const struct config *c = &g->m->config;
    const char *arch = class->arch;
    if (conversion_window(c) > 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: attention.sliding_window: conversion to config.json is not supported "
                       "yet",
                       checkpoint_path(g->c));
    buf_addf(b, "{\"architectures\":[\"%s\"],\"model_type\":\"%s\"", class->name, arch);
    put_size(b, arch, "block_count", c->n_layer);
    put_size(b, arch, "context_length", c->context_train);
    put_size(b, arch, "embedding_length", c->d);
    put_size(b, arch, "feed_forward_length", c->d_ff);
    put_size(b, arch, "attention.head_count", c->n_head);
    put_size(b, arch, "attention.head_count_kv", c->n_head_kv);
    put_size(b, arch, "attention.key_length", c->d_head);
    put_size(b, arch, "vocab_size", c->n_vocab);
    put_float(b, hf_field_name(arch, "attention.layer_norm_rms_epsilon"), c->rms_eps);
    json_member_text(
        b, class_has(g->m->arch, "config.hidden_activation") ? "hidden_activation" : "hidden_act",
        curve[c->curve]);
    const bool bias = checkpoint_tensor(g->c, "blk.0.attn_q.bias") != NULL;
    if (class_has(g->m->arch, "config.attention_bias"))
        buf_addf(b, ",\"attention_bias\":%s", bias ? "true" : "false");
    buf_addf(b, ",\"tie_word_embeddings\":%s",
             checkpoint_tensor(g->c, "output.weight") ? "false" : "true");
    int rc = put_rope(b, g->m, e);
    buf_add_text(b, "}\n");
    return rc ? rc : b->failed ? err_memory(e, "config.json", b->n) : 0;
}

/* ---- tensors ---- */

/* Return true if the values of a vector are exact in the type after `add`. */
static bool is_exact(const struct tensor_info *t, float add, enum qtype type)
{
    for (int64_t i = 0; i < t->dim[0]; i++) {
        uint8_t code[8];
        float x, back;
        qtype_info[t->type].ops->decode(&x, t->data + (size_t)i * qtype_bytes(t->type, 1), 1);
        x += add;
        qtype_info[type].ops->encode(code, &x, 1, NULL);
        qtype_info[type].ops->decode(&back, code, 1);
        if (memcmp(&x, &back, sizeof x) != 0) return false;
    }
    return true;
}

/* Return the type of a tensor in the directory. A float matrix keeps its type. A vector has the
 * type of the matrices if its values are exact in it. */
static enum qtype type_of(const struct model_gguf *g, const struct tensor_info *t, float add)
{
    const struct tensor_info *embd = checkpoint_tensor(g->c, "token_embd.weight");
    const struct tensor_info *from = t->n_dim > 1 ? t : embd;
    int type = g->type ? qtype_of_name(g->type) : (int)from->type;
    if (type != QT_f32 && type != QT_f16 && type != QT_bf16) type = QT_bf16;
    return t->n_dim > 1 || is_exact(t, add, (enum qtype)type) ? (enum qtype)type : QT_f32;
}

static int put_tensor(struct model_gguf *g, const struct hf_class *class, int i, struct err *e)
{
    char raw[200];
    const struct tensor_info *t = checkpoint_tensor_at(g->c, i);
    const bool norm = text_ends_with(t->name, "norm.weight");
    if (!hf_raw_name(raw, sizeof raw, t->name, class->arch))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tensor %s: conversion to a folder is not supported yet",
                       checkpoint_path(g->c), t->name);
    struct source s = {.tensor = malloc(sizeof *s.tensor),
                       .n_tensor = 1,
                       .n_head = conversion_heads(g->m, t->name),
                       .back = true,
                       .add = norm ? -class->norm_add : 0};
    if (!s.tensor) return err_memory(e, t->name, sizeof *s.tensor);
    s.tensor[0] = i;
    return conversion_add(g, raw, type_of(g, t, s.add), t->n_dim, t->dim, &s, e);
}

int model_hf_open(struct model_gguf **out, const struct checkpoint *c,
                  const struct model_gguf_options *o, struct buf *config, struct err *e)
{
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    const struct hf_class *class = class_of(arch);
    const int type = o->type ? qtype_of_name(o->type) : QT_f32;
    *out = NULL;
    if (!class)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: architecture \"%.60s\": conversion to a folder is not supported yet",
                       checkpoint_path(c), arch ? arch : "");
    if (type != QT_f32 && type != QT_f16 && type != QT_bf16)
        return err_set(e, ERR_ARG, "--type: must be F32, F16 or BF16 for a folder, got %s",
                       o->type);
    int rc = conversion_open(out, c, o, e);
    for (int i = 0; i < checkpoint_n_tensor(c) && rc == 0; i++)
        if ((*out)->used[i]) rc = put_tensor(*out, class, i, e);
    if (rc == 0) rc = put_config(config, *out, class, e);
    if (rc == 0) return 0;
    model_gguf_close(*out);
    *out = NULL;
    return rc;
}
