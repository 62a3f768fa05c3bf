/* to_gguf.c - a Hugging Face directory as a GGUF view: the keys of GGUF from struct config, and the
 * tensors in GGUF's order of rows.
 *
 *   struct config --put_keys--> ARCH.* and general.*        the inverse of config.c
 *   tensors that binding used --put_tensors--> view         names are GGUF's already (hf.c)
 *   writer --make--> bytes of one tensor                   order of rows, g - 1 -> g, number format
 *
 * The keys are those of the resolved config, not those of config.json, so defaults of the class are
 * in the file. A mechanism without a key is found by model_same_config (same_config.c), which reads
 * the written file. */
#include "convert_impl.h"

#include "base/log.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

struct key_writer {
    struct checkpoint *view;
    const char *arch; /* static; GGUF's name */
    struct err *e;
    int rc; /* first error */
};

static void put_int(struct key_writer *w, const char *key, int64_t x)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", w->arch, key);
    if (w->rc == 0) w->rc = checkpoint_add_u32(w->view, full, (uint32_t)x, w->e);
}

static void put_real(struct key_writer *w, const char *key, double x)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", w->arch, key);
    if (w->rc == 0) w->rc = checkpoint_add_f32(w->view, full, (float)x, w->e);
}

static void put_name(struct key_writer *w, const char *key, const char *text)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", w->arch, key);
    if (w->rc == 0) w->rc = checkpoint_add_text(w->view, full, text, strlen(text), w->e);
}

/* llama3's scaling is a tensor of divisors (put_factors), and LongRoPE is two. */
static void put_rope(struct key_writer *w, const struct config *c)
{
    const struct rope_config *r = &c->rope[ROPE_MAIN];
    put_int(w, "rope.dimension_count", r->d_rot);
    put_real(w, "rope.freq_base", r->base);
    if (c->n_rope > 1) put_real(w, "rope.freq_base_swa", c->rope[ROPE_LOCAL].base);
    if (r->scaling == ROPE_LINEAR || r->scaling == ROPE_YARN) {
        put_name(w, "rope.scaling.type", r->scaling == ROPE_YARN ? "yarn" : "linear");
        put_real(w, "rope.scaling.factor", r->factor);
    }
    if (r->scaling == ROPE_YARN || r->scaling == ROPE_LONG)
        put_int(w, "rope.scaling.original_context_length", r->context_original);
    if (r->scaling == ROPE_LONG) put_real(w, "rope.scaling.attn_factor", r->magnitude);
}

static void put_mixture(struct key_writer *w, const struct config *c)
{
    for (int i = 0; i < c->n_layer; i++) {
        if (c->layer[i].n_expert == 0) continue;
        put_int(w, "expert_count", c->layer[i].n_expert);
        put_int(w, "expert_used_count", c->layer[i].n_expert_used);
        put_int(w, "expert_feed_forward_length", c->layer[i].d_expert);
        return;
    }
}

/* Write the numbers that only one architecture has. A null has no key. */
static void put_own(struct key_writer *w, const struct model *m)
{
    static const struct {
        const char *arch, *from, *key; /* static */
    } own[] = {
#define TO_GGUF_REAL(arch, from, key) {arch, from, key},
#include "to_gguf.def"
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        char full[160];
        const struct meta *v = checkpoint_meta(m->checkpoint, own[i].from);
        snprintf(full, sizeof full, "%s.%s", w->arch, own[i].key);
        if (strcmp(own[i].arch, m->arch->name) == 0 && meta_kind(v) != META_NONE &&
            !checkpoint_meta(w->view, full))
            put_real(w, own[i].key, meta_real(v, 0));
    }
}

int conversion_window(const struct config *c)
{
    int window = 0;
    for (int i = 0; i < c->n_layer; i++)
        if (c->layer[i].window > window) window = c->layer[i].window;
    return window;
}

static void put_sizes(struct key_writer *w, const struct model *m)
{
    const struct config *c = &m->config;
    const int window = conversion_window(c);
    put_int(w, "block_count", c->n_layer);
    put_int(w, "context_length", c->context_train);
    put_int(w, "embedding_length", c->d);
    put_int(w, "feed_forward_length", c->d_ff);
    put_int(w, "attention.head_count", c->n_head);
    put_int(w, "attention.head_count_kv", c->n_head_kv);
    put_int(w, "attention.key_length", c->d_head);
    put_int(w, "attention.value_length", c->d_head);
    put_int(w, "vocab_size", c->n_vocab);
    put_real(w,
             m->arch->layer_norm_eps ? "attention.layer_norm_epsilon"
                                     : "attention.layer_norm_rms_epsilon",
             c->rms_eps);
    if (window > 0) put_int(w, "attention.sliding_window", window);
    if (window > 0 && !arch_gguf_window(w->arch))
        log_warn("%s: the window of %d tokens is in the file, but llama.cpp ignores it for %s; "
                 "longer texts have other results there",
                 checkpoint_path(m->checkpoint), window, w->arch);
}

/* Copy the texts and numbers of the directory's other files: sampling and chat templates. */
static int copy_general(struct checkpoint *view, const struct checkpoint *c, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < checkpoint_n_meta(c) && rc == 0; i++) {
        const char *key, *text;
        const struct meta *v = checkpoint_meta_at(c, i, &key);
        size_t n;
        if (strncmp(key, "tokenizer.chat_template", 23) == 0 && (text = meta_text(v, &n)))
            rc = checkpoint_add_text(view, key, text, n, e);
        if (strncmp(key, "general.sampling.", 17) != 0) continue;
        if (strcmp(key + 17, "top_k") == 0)
            rc = checkpoint_add_u32(view, key, (uint32_t)meta_int(v, 0), e);
        else
            rc = checkpoint_add_f32(view, key, (float)meta_real(v, 0), e);
    }
    return rc;
}

/* Return general.file_type of a type of matrices, by GGUF's numbers; -1 if none. */
static int file_type(const struct model_gguf *g)
{
    struct mixture mix;
    struct err ignored;
    const struct tensor_info *t = checkpoint_tensor(g->view, "blk.0.attn_output.weight");
    if (g->type && mixture_find(&mix, g->type, false, &ignored) == 0 && mix.file_type >= 0)
        return mix.file_type;
    if (!t) t = checkpoint_tensor(g->view, "token_embd.weight");
    return !t ? -1 : t->type == QT_f32 ? 0 : t->type == QT_f16 ? 1 : t->type == QT_bf16 ? 32 : -1;
}

static int put_keys(struct model_gguf *g, struct err *e)
{
    struct key_writer w = {.view = g->view, .arch = arch_gguf_name(g->m->arch->name), .e = e};
    const char *name = strrchr(checkpoint_dir(g->c), '/');
    name = name && name[1] ? name + 1 : checkpoint_dir(g->c);
    w.rc = checkpoint_add_text(g->view, "general.architecture", w.arch, strlen(w.arch), e);
    if (w.rc == 0) w.rc = checkpoint_add_text(g->view, "general.type", "model", 5, e);
    if (w.rc == 0) w.rc = checkpoint_add_text(g->view, "general.name", name, strlen(name), e);
    put_sizes(&w, g->m);
    if (!g->m->arch->no_rope) put_rope(&w, &g->m->config);
    put_mixture(&w, &g->m->config);
    put_own(&w, g->m);
    const int type = w.rc == 0 ? file_type(g) : -1;
    if (w.rc == 0 && type >= 0)
        w.rc = checkpoint_add_u32(g->view, "general.file_type", (uint32_t)type, e);
    if (w.rc == 0) w.rc = checkpoint_add_u32(g->view, "general.quantization_version", 2, e);
    return w.rc ? w.rc : copy_general(g->view, g->c, e);
}

/* ---- tensors ---- */

int conversion_heads(const struct model *m, const char *name)
{
    const struct arch *a = m->arch;
    const char *part = strstr(name, ".attn_");
    if (a->gguf_neox || a->hf_adjacent || a->no_rope || !part) return 0;
    if (strcmp(part, ".attn_q.weight") == 0 || strcmp(part, ".attn_q.bias") == 0)
        return m->config.n_head;
    if (strcmp(part, ".attn_k.weight") == 0 || strcmp(part, ".attn_k.bias") == 0)
        return m->config.n_head_kv;
    return 0;
}

/* Return the type of a tensor in the file. Vectors, norms and routers are F32, as readers of GGUF
 * files require. */
static enum qtype type_of(const struct model_gguf *g, const struct mixture *mix, const char *name,
                          const struct tensor_info *t, int n_dim)
{
    const struct config *c = &g->m->config;
    const struct mixture_site site = {.name = name,
                                      .type = t->type,
                                      .n_dim = n_dim,
                                      .k = t->dim[0],
                                      .n_layer = c->n_layer,
                                      .n_group = c->n_head / c->n_head_kv,
                                      .tied = !checkpoint_tensor(g->c, "output.weight")};
    if (n_dim < 2 || text_ends_with(name, "_norm.weight") ||
        text_ends_with(name, ".ffn_gate_inp.weight"))
        return QT_f32;
    return mix ? mixture_type(mix, &site) : t->type;
}

/* Split "blk.3.ffn_up_exps.7.weight" into its expert and the name without it. Return -1 for other
 * names. */
static int expert_of(const char *name, char *out, size_t n_out)
{
    const char *at = strstr(name, "_exps.");
    char *end = NULL;
    const long expert = at ? strtol(at + 6, &end, 10) : -1;
    if (!at || end == at + 6 || *end != '.' || expert < 0 || expert > 65535) return -1;
    snprintf(out, n_out, "%.*s%s", (int)(at + 5 - name), name, end);
    return (int)expert;
}

int conversion_add(struct model_gguf *g, const char *name, enum qtype type, int n_dim,
                   const int64_t *dim, const struct source *source, struct err *e)
{
    if (!vec_push(&g->source, *source)) {
        free(source->tensor);
        return err_memory(e, name, sizeof *source);
    }
    return checkpoint_build_tensor(g->view, name, type, n_dim, dim, e);
}

/* Add the tensor of all experts, of which t is the first. */
static int put_experts(struct model_gguf *g, const struct mixture *mix, const char *name,
                       const struct tensor_info *t, struct err *e)
{
    const char *end = strrchr(name, '.');
    struct source s = {0};
    int n = 0;
    for (int il = 0; il < g->m->config.n_layer && n == 0; il++) n = g->m->config.layer[il].n_expert;
    s.tensor = calloc((size_t)n + 1, sizeof *s.tensor);
    if (!s.tensor) return err_memory(e, name, (size_t)n * sizeof *s.tensor);
    for (int i = 0; i < n; i++) {
        char one[200];
        snprintf(one, sizeof one, "%.*s.%d%s", (int)(end - name), name, i, end);
        const struct tensor_info *x = checkpoint_tensor(g->c, one);
        if (!x || x->type != t->type || x->n_byte != t->n_byte) {
            free(s.tensor);
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: tensor %s: must have the type and the shape of expert 0",
                           checkpoint_path(g->c), one);
        }
        s.tensor[s.n_tensor++] = (int)(x - checkpoint_tensor_at(g->c, 0));
    }
    const int64_t dim[3] = {t->dim[0], t->dim[1], n};
    return conversion_add(g, name, type_of(g, mix, name, t, 3), 3, dim, &s, e);
}

static int put_tensor(struct model_gguf *g, const struct mixture *mix, int i, struct err *e)
{
    const struct tensor_info *t = checkpoint_tensor_at(g->c, i);
    char joined[200];
    const int expert = expert_of(t->name, joined, sizeof joined);
    if (expert > 0) return 0; /* with expert 0 */
    if (expert == 0) return put_experts(g, mix, joined, t, e);
    if (strncmp(t->name, "blk.", 4) != 0 && strncmp(t->name, "token_embd", 10) != 0 &&
        strncmp(t->name, "output", 6) != 0)
        return err_set(e, ERR_UNSUPPORTED, "%s: tensor %s: conversion to GGUF is not supported yet",
                       checkpoint_path(g->c), t->name_raw);
    struct source s = {.tensor = malloc(sizeof *s.tensor),
                       .n_tensor = 1,
                       .n_head = conversion_heads(g->m, t->name),
                       .add = text_ends_with(t->name, "norm.weight") ? g->m->config.norm_add : 0};
    if (!s.tensor) return err_memory(e, t->name, sizeof *s.tensor);
    s.tensor[0] = i;
    return conversion_add(g, t->name, type_of(g, mix, t->name, t, t->n_dim), t->n_dim, t->dim, &s,
                          e);
}

/* Add a list of divisors of the rope's frequencies. value: in the model's arena. */
static int put_factors(struct model_gguf *g, const char *name, const float *value, struct err *e)
{
    const int64_t n = g->m->config.rope[ROPE_MAIN].d_rot / 2;
    const struct source s = {.value = value};
    return conversion_add(g, name, QT_f32, 1, &n, &s, e);
}

/* Add the divisors of llama3's scaling or of LongRoPE. */
static int put_rope_factors(struct model_gguf *g, struct err *e)
{
    const struct rope_config *r = &g->m->config.rope[ROPE_MAIN];
    const int n = r->d_rot / 2;
    if (g->m->arch->no_rope) return 0;
    if (r->scaling == ROPE_LONG) {
        const int rc = put_factors(g, "rope_factors_long.weight", r->long_factor, e);
        return rc ? rc : put_factors(g, "rope_factors_short.weight", r->short_factor, e);
    }
    if (r->scaling != ROPE_LLAMA3) return 0;
    float *v = arena_push(&g->m->arena, (size_t)n * sizeof *v, 64);
    if (!v) return err_memory(e, "the divisors of the rope", (size_t)n * sizeof *v);
    for (int i = 0; i < n; i++)
        v[i] = (float)(pow(r->base, -2.0 * i / r->d_rot) / rope_freq(r, i, false));
    return put_factors(g, "rope_freqs.weight", v, e);
}

static int put_tensors(struct model_gguf *g, struct err *e)
{
    struct mixture mix;
    int rc = g->type ? mixture_find(&mix, g->type, false, e) : 0;
    for (int i = 0; i < checkpoint_n_tensor(g->c) && rc == 0; i++)
        if (g->used[i]) rc = put_tensor(g, g->type ? &mix : NULL, i, e);
    return rc ? rc : put_rope_factors(g, e);
}

/* ---- bytes ---- */

/* Return the row of the source that becomes row r: GGUF pairs lanes (2i, 2i + 1) of a head, the
 * directory (i, i + n / 2). n: rows of a head. */
static int64_t row_from(const struct source *s, int64_t r, int64_t n_row)
{
    if (s->n_head == 0) return r;
    const int64_t n = n_row / s->n_head, lane = r % n;
    if (s->back) return r - lane + lane % (n / 2) * 2 + lane / (n / 2);
    return r - lane + lane / 2 + lane % 2 * (n / 2);
}

/* Make row r of a part of a tensor. to: bytes of the row in the file. */
static void make_row(struct model_gguf *g, const struct source *s, const struct tensor_info *from,
                     const struct tensor_info *t, int64_t k, int64_t row, uint8_t *to)
{
    const uint8_t *at = from->data + (size_t)row * qtype_bytes(from->type, k);
    if (from->type == t->type && s->add == 0) {
        memcpy(to, at, qtype_bytes(t->type, k));
        return;
    }
    qtype_info[from->type].ops->decode(g->row, at, k);
    for (int64_t i = 0; i < k && s->add != 0; i++) g->row[i] += s->add;
    qtype_info[t->type].ops->encode(to, g->row, k, NULL);
}

static bool grow(struct model_gguf *g, size_t n_byte, size_t n_row)
{
    if (n_byte > g->n_made) {
        free(g->made);
        g->made = malloc(n_byte), g->n_made = g->made ? n_byte : 0;
    }
    if (n_row > g->n_row) {
        free(g->row);
        g->row = malloc(n_row * sizeof *g->row), g->n_row = g->row ? n_row : 0;
    }
    return n_byte <= g->n_made && n_row <= g->n_row;
}

/* A vector is rows of one value, so that the order of a bias is that of its matrix. */
static const uint8_t *make(void *ctx, int i, int *rc, struct err *e)
{
    struct model_gguf *g = ctx;
    const struct source *s = &g->source.v[i];
    const struct tensor_info *t = checkpoint_tensor_at(g->view, i);
    const int64_t k = t->n_dim > 1 || s->n_head == 0 ? t->dim[0] : 1;
    if (g->stop && *g->stop) *rc = err_set(e, ERR_BUSY, "cancelled: stopped by a signal");
    if (*rc != 0) return NULL;
    if (s->value) return (const uint8_t *)s->value;
    const struct tensor_info *from = checkpoint_tensor_at(g->c, s->tensor[0]);
    if (s->n_tensor == 1 && from->type == t->type && s->n_head == 0 && s->add == 0)
        return from->data;
    if (!grow(g, t->n_byte, (size_t)k)) *rc = err_memory(e, t->name, t->n_byte);
    const int64_t n_row = t->n_dim > 1 ? t->dim[1] : t->dim[0] / k;
    uint8_t *to = g->made;
    for (int p = 0; p < s->n_tensor && *rc == 0; p++) {
        from = checkpoint_tensor_at(g->c, s->tensor[p]);
        for (int64_t r = 0; r < n_row; r++, to += qtype_bytes(t->type, k))
            make_row(g, s, from, t, k, row_from(s, r, n_row), to);
    }
    return *rc == 0 ? g->made : NULL;
}

/* ---- open and close ---- */

static void note_key(void *ctx, const struct explained_key *k)
{
    (void)ctx;
    (void)k;
}

/* A copy equals another tensor, which is written. The first tensor without a use is logged. */
static void note_tensor(void *ctx, const struct explained_tensor *t)
{
    struct model_gguf *g = ctx;
    if (t->i < 0) return;
    g->used[t->i] = t->fate == FATE_USED && t->form != TENSOR_COPY;
    if (t->fate != FATE_USED && g->n_left_out++ == 0)
        log_warn("%s: tensor %s and others that the model does not use are not in the GGUF: %s",
                 checkpoint_path(g->c), checkpoint_tensor_at(g->c, t->i)->name_raw, t->why);
}

static int check_source(const struct checkpoint *c, struct err *e)
{
    static const char *const known[] = {
#define TO_GGUF(arch) arch,
#include "to_gguf.def"
    };
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL),
               *form =
                   meta_text(checkpoint_meta(c, "config.quantization_config.quant_method"), NULL);
    char list[400] = "";
    if (checkpoint_kind(c) != CKPT_HF || !arch)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: must be a folder with a config.json to be converted to GGUF",
                       checkpoint_path(c));
    if (form || checkpoint_meta(c, "config.quantization_config"))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: weights of the form %.40s: conversion to GGUF is not supported yet; "
                       "convert the model's plain weights",
                       checkpoint_path(c), form ? form : "of quantization_config");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const size_t n = strlen(list);
        if (strcmp(known[i], arch) == 0) return 0;
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", known[i]);
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: architecture \"%.60s\": conversion to GGUF is not supported yet; "
                   "available: %s",
                   checkpoint_path(c), arch, list);
}

int conversion_open(struct model_gguf **out, const struct checkpoint *c,
                    const struct model_gguf_options *o, struct err *e)
{
    struct model_gguf *g = *out = calloc(1, sizeof *g);
    if (!g) return err_memory(e, "the conversion", sizeof *g);
    *g = (struct model_gguf){.c = c, .stop = o->stop, .type = o->type};
    const struct explain x = {.key = note_key, .tensor = note_tensor, .ctx = g};
    g->used = calloc((size_t)checkpoint_n_tensor(c) + 1, sizeof *g->used);
    int rc = g->used ? 0 : err_memory(e, "the tensor list", sizeof *g->used);
    if (rc == 0) rc = model_bind(&g->m, c, o->backend, &x, e);
    return rc ? rc : checkpoint_build(&g->view, checkpoint_path(c), make, g, e);
}

int model_gguf_open(struct model_gguf **out, const struct checkpoint *c,
                    const struct model_gguf_options *o, struct err *e)
{
    *out = NULL;
    int rc = check_source(c, e);
    if (rc == 0) rc = conversion_open(out, c, o, e);
    if (rc == 0) rc = put_tensors(*out, e);
    if (rc == 0) rc = put_keys(*out, e);
    if (rc == 0) return 0;
    model_gguf_close(*out);
    *out = NULL;
    return rc;
}

struct checkpoint *model_gguf_view(const struct model_gguf *g)
{
    return g->view;
}

int model_gguf_n_vocab(const struct model_gguf *g)
{
    return g->m->config.n_vocab;
}

void model_gguf_close(struct model_gguf *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->source.n; i++) free(g->source.v[i].tensor);
    vec_deinit(&g->source);
    checkpoint_close(g->view);
    model_close(g->m);
    free(g->made);
    free(g->row);
    free(g->used);
    free(g);
}
