/* load.c - convert a checkpoint to a model. The steps are: select the architecture, read its config
 * (config.c), bind its tensors (bind.c), pack the tensors for the device, plan memory (plan.c).
 *
 *   choose_arch --> config_read --> bind_all          bind_model: no memory of the device yet
 *   pack_weights --> plan_open                      model_open
 *   model_params, describe                            facts of struct model_info
 *
 * model_measure and model_verify call only bind_model, so they allocate neither activations nor
 * KV. */
#include "model_impl.h"

#include "base/nearest.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- facts ---- */

/* Return the fraction of a mixture's experts that a row reads. */
static double expert_share(const struct model *m)
{
    for (int il = 0; il < m->config.n_layer; il++)
        if (m->config.layer[il].n_expert)
            return (double)m->config.layer[il].n_expert_used / m->config.layer[il].n_expert;
    return 1;
}

/* Return the number of values of all experts. */
static int64_t value_count(const struct tensor *t)
{
    return t->n_out * t->k * (t->n_expert ? t->n_expert : 1);
}

/* Return true if the file has codes of a quantized form (model/form). */
static bool is_converted(const struct tensor *t)
{
    return t->from && t->from->form == FORM_CODES;
}

/* Return true if tensor i has the data of an earlier tensor, such as a tied head. */
static bool is_repeated(const struct model *m, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (m->tensor.v[j]->data == m->tensor.v[i]->data) return true;
    return false;
}

/* Return true for a matrix that a step reads for each row that decodes. The matrices of the
 * encoder, and the matrices of K and V of a source, are read once per text. */
static bool is_of_step(const char *name)
{
    if (strncmp(name, "dec.blk.", 8) != 0) return strncmp(name, "blk.", 4) == 0;
    return !strstr(name, ".cross_attn_k.") && !strstr(name, ".cross_attn_v.");
}

/* Replace the counts of the file's tensors by the counts of the converted matrices. The file has
 * several tensors for each of these matrices. */
static void converted_params(struct model *m)
{
    struct model_info *info = &m->info;
    info->n_param = info->layer_bytes = info->layer_macs = 0;
    for (size_t i = 0; i < m->vector.n; i++)
        if (!m->vector.v[i].index) info->n_param += m->vector.v[i].n;
    for (size_t i = 0; i < m->tensor.n; i++) {
        const struct tensor *t = m->tensor.v[i];
        const int64_t n = value_count(t), n_byte = (int64_t)qtype_bytes(t->type, n);
        const double share = t->n_expert ? expert_share(m) : 1;
        if (!is_repeated(m, i)) info->n_param += n;
        if (is_of_step(t->name)) {
            info->layer_bytes += (int64_t)(share * (double)n_byte);
            info->layer_macs += (int64_t)(share * (double)n);
        } else if (!strstr(t->name, "blk."))
            info->head_bytes = n_byte, info->head_macs = n; /* the head is bound last */
    }
}

/* Set the counts of parameters, bytes and products. A row reads only the share of its experts in a
 * mixture, so bytes and products of experts are multiplied by the share. */
static void model_params(struct model *m)
{
    struct model_info *info = &m->info;
    const char *head =
        checkpoint_tensor(m->checkpoint, "output.weight") ? "output.weight" : "token_embd.weight";
    for (int i = 0; i < checkpoint_n_tensor(m->checkpoint); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(m->checkpoint, i);
        int64_t n = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
        const double share = strstr(t->name, "_exps.") ? expert_share(m) : 1;
        info->n_param += n;
        info->weight_bytes += (int64_t)t->n_byte;
        if (strcmp(t->name, head) == 0) {
            info->head_bytes = (int64_t)t->n_byte;
            info->head_macs = n;
        } else if (is_of_step(t->name) && t->n_dim > 1) {
            info->layer_bytes += (int64_t)(share * (double)t->n_byte);
            info->layer_macs += (int64_t)(share * (double)n);
        }
    }
    if (m->config.quant.form || m->quantized) converted_params(m);
}

/* Return the number of products between one row and one earlier row, in the attention of all
 * layers. */
static int64_t pair_macs(const struct model *m)
{
    const struct config *c = &m->config;
    int64_t n = 0;
    for (int il = c->n_encoder; il < c->n_layer; il++) {
        const struct kv_geometry *g = &m->kv_geometry[c->layer[il].kv_layer];
        n += (int64_t)c->layer[il].n_head * (g->d_k + g->d_v);
    }
    return n;
}

const char *model_name(const struct checkpoint *c)
{
    const char *name = meta_text(checkpoint_meta(c, "general.name"), NULL);
    const char *path = checkpoint_path(c), *file = path_name(path);
    return name && *name ? name : *file ? file : path;
}

/* Return the number of positions that a row of the layer attends to at most, its own included; 0 if
 * the number has no limit. */
static int reach_of(const struct layer_config *l)
{
    return l->chunk > 0 ? l->chunk : l->window;
}

static bool lacks_logits(const struct model *m)
{
    return m->headless || m->arch->encoder;
}

/* Set the other facts of struct model_info. `permuted` is true for GGUF's order of the rows of q
 * and k, which adapters need. window_all is 0 if any layer has no window. */
static void describe(struct model *m)
{
    const struct config *c = &m->config;
    struct model_info *i = &m->info;
    i->arch = m->arch->name;
    i->name = model_name(m->checkpoint);
    i->n_layer = c->n_layer, i->d_model = c->d, i->d_ff = c->d_ff, i->d_hidden = c->d_embd;
    i->n_head = c->n_head, i->n_head_kv = c->n_head_kv, i->d_head = c->d_head;
    i->pair_macs = pair_macs(m);
    i->n_vocab = c->n_vocab, i->context_train = c->context_train;
    i->matrix = m->tensor.v, i->n_matrix = (int)m->tensor.n;
    i->permuted = checkpoint_kind(m->checkpoint) != CKPT_HF && !m->arch->gguf_neox &&
                  !m->arch->hf_adjacent && !m->arch->no_rope;
    i->grouped = m->arch->hf_groups;
    i->encoder = m->arch->encoder;
    i->n_encoder = c->n_encoder, i->n_start = c->n_start, i->start = c->start;
    i->source_max = m->limits.n_source;
    i->side_max = c->n_encoder > 0 && c->n_position > 0 ? c->n_position - c->position0 : 0;
    i->headless = lacks_logits(m);
    for (int h = 0; h < N_HEAD; h++) i->head_out[h] = m->head[h].n_out;
    i->class_pooling = c->class_pooling;
    i->class_pad = c->class_pad;
    i->pooling_type = c->pooling_type, i->class_act = c->class_act;
    i->score_act = c->score_act;
    i->pooling = meta_text(checkpoint_meta(m->checkpoint, "sentence_transformers.pooling"), NULL);
    i->include_prompt =
        meta_int(checkpoint_meta(m->checkpoint, "sentence_transformers.include_prompt"), 1) != 0;
    i->normalize = !m->whole && head_normalizes(m->checkpoint);
    for (int il = 0; il < c->n_layer; il++)
        if (reach_of(&c->layer[il]) > i->window) i->window = reach_of(&c->layer[il]);
    i->window_all = i->window;
    for (int il = 0; il < c->n_layer; il++)
        if (reach_of(&c->layer[il]) == 0) i->window_all = 0;
}

/* ---- open and close ---- */

static const struct arch *const arches[] = {
#define ARCH(id) &arch_##id,
#include "arch/arch.def"
#undef ARCH
};

static const char *arch_name(const struct checkpoint *c)
{
    return meta_text(checkpoint_meta(c, "general.architecture"), NULL);
}

const struct arch *model_arch_find(const char *name)
{
    for (size_t i = 0; i < sizeof arches / sizeof arches[0]; i++)
        if (strcmp(arches[i]->name, name) == 0 ||
            (arches[i]->gguf_other && strcmp(arches[i]->gguf_other, name) == 0))
            return arches[i];
    return NULL;
}

/* model_types of models of several parts */
static const char *const parts[] = {
#define PARTS(model_type, text, which, tied, head) model_type,
#include "format/parts.def"
};
enum { LIST_BYTES = 880 };

/* Append a name to the list of an error, which is truncated at LIST_BYTES. */
static void put_name(char list[LIST_BYTES], const char *name)
{
    const size_t at = strlen(list);
    snprintf(list + at, LIST_BYTES - at, "%s%s", at ? ", " : "", name);
}

/* Return true if config.json describes a text part, but its model of several parts is unknown. */
static bool has_unknown_parts(const struct checkpoint *c)
{
    return !checkpoint_parts(c) && meta_kind(checkpoint_meta(c, "config.text_config")) != META_NONE;
}

/* Append the names that an architecture has in files, and compare them with the unknown name:
 * model_types of a folder, or the name in a GGUF. */
static void put_arch(char list[LIST_BYTES], struct nearest *near, const struct arch *arch,
                     bool folder)
{
    const char *type;
    for (int i = 0; folder && (type = arch_model_type(arch->name, i)); i++) {
        put_name(list, type);
        nearest_compare(near, type);
    }
    const bool own = strcmp(arch_gguf_name(arch->name), arch->name) == 0;
    if (folder || arch->gguf_why || !own) return;
    put_name(list, arch->name);
    nearest_compare(near, arch->name);
    if (!arch->gguf_other) return;
    put_name(list, arch->gguf_other);
    nearest_compare(near, arch->gguf_other);
}

/* Set *arch. The error lists all architectures, or all models of several parts. */
static int choose_arch(const struct arch **arch, const struct checkpoint *c, struct err *e)
{
    const size_t n_arch = sizeof arches / sizeof arches[0];
    const char *path = checkpoint_path(c), *name = arch_name(c);
    if (!name && checkpoint_kind(c) == CKPT_HF)
        return err_set(e, ERR_MISSING,
                       "%s: config.json is missing next to the weights; give the model's folder",
                       path);
    if (!name) return err_set(e, ERR_MISSING, "%s: metadata general.architecture is missing", path);
    *arch = model_arch_find(name);
    /* only GGUF files have the further name */
    if (*arch && (checkpoint_kind(c) != CKPT_HF || strcmp((*arch)->name, name) == 0)) return 0;
    char list[LIST_BYTES] = "", known[100] = "";
    const bool folder = checkpoint_kind(c) == CKPT_HF, several = has_unknown_parts(c);
    struct nearest near = nearest_begin(name);
    for (size_t i = 0; i < n_arch && !several; i++) put_arch(list, &near, arches[i], folder);
    for (size_t i = 0; folder && i < sizeof parts / sizeof parts[0]; i++) {
        if (several) put_name(list, parts[i]);
        nearest_compare(&near, parts[i]);
    }
    if (near.best) snprintf(known, sizeof known, "did you mean \"%.60s\"? ", near.best);
    return err_set(e, ERR_UNSUPPORTED, "%s: %s \"%.60s\" not found; %savailable: %s", path,
                   several  ? "model of several parts of model_type"
                   : folder ? "model_type"
                            : "architecture",
                   name, known, list);
}

int model_check_arch(const struct checkpoint *c, struct err *e)
{
    const struct arch *arch;
    return choose_arch(&arch, c, e);
}

/* Run all steps of opening a model before the packing of weights. x: receiver of an explanation;
 * NULL if none. maker: list that receives the tensors of random weights; NULL if none. */
static int bind_model(struct model *m, const struct model_options *o, const struct explain *x,
                      struct dummy_maker *maker, struct err *e)
{
    const struct checkpoint *c = m->checkpoint;
    const int n_tensor = maker ? DUMMY_TENSORS_MAX : checkpoint_n_tensor(c);
    struct refusal refusal = {0};
    struct binder b = {.m = m,
                       .checkpoint = c,
                       .options = o,
                       .e = e,
                       .part = "",
                       .refusal = x ? &refusal : NULL,
                       .maker = maker};
    b.rc = choose_arch(&m->arch, c, e);
    b.prefix = arch_name(c);
    b.bound = b.rc == 0 ? calloc((size_t)n_tensor + 1, 1) : NULL;
    b.read = b.rc == 0 ? calloc((size_t)checkpoint_n_meta(c) + 1, 1) : NULL;
    if (b.rc == 0 && (!b.bound || !b.read))
        b.rc = err_memory(e, "the tensor list", (unsigned long long)n_tensor);
    if (b.rc == 0) b.row = tensor_rows(m->arch->name, &b.n_row);
    if (b.rc == 0) config_read(&b);
    if (b.rc == 0) bind_all(&b);
    if (b.rc == 0 && o && o->quantization) model_quantize(&b, o->quantization);
    if (x && b.bound && b.read) explain_all(&b, x);
    free(b.bound);
    free(b.read);
    return b.rc;
}

/* Return the options for storing weights. Random weights are not stored, because they have no
 * key. */
static struct weights_options weights_options(const struct model *m, const struct model_options *o)
{
    struct weights_options w = o->weights;
    if (!checkpoint_key(m->checkpoint, w.key)) w.cache = NULL;
    return w;
}

/* Store the weights on the device. The pages of the file are dropped after packing, because later
 * reads use only the panels. The weights were not packed and the file's pages were not read if the
 * cache was mapped. */
static int pack_weights(struct model *m, const struct model_options *o, struct err *e)
{
    struct weights_options w = weights_options(m, o);
    int rc = m->backend->op->weights(m->backend, &m->weights, m->tensor.v, (int)m->tensor.n, &w,
                                     &m->info.weights, e);
    enum weights_how how = m->info.weights.how;
    if (rc == 0 && (how == WEIGHTS_PACKED || how == WEIGHTS_KEPT))
        checkpoint_release_pages(m->checkpoint);
    return rc;
}

/* Create a model that is not bound. */
static struct model *empty_model(const struct checkpoint *c, struct backend *b, struct err *e)
{
    struct model *m = calloc(1, sizeof *m);
    if (m)
        m->checkpoint = c, m->backend = b;
    else
        err_memory(e, "the model", sizeof *m);
    return m;
}

/* Create a model without weights. `o` is NULL if the model is not computed. `x` receives an
 * explanation; NULL if none. */
static int new_model(struct model **out, const struct checkpoint *c, struct backend *b,
                     const struct model_options *o, const struct explain *x, struct err *e)
{
    *out = empty_model(c, b, e);
    return *out ? bind_model(*out, o, x, NULL, e) : ERR_MEMORY;
}

int model_list_random(void *backend, struct dummy_maker *maker, struct checkpoint *c, struct err *e)
{
    struct model *m = empty_model(c, backend, e);
    const int rc = m ? bind_model(m, NULL, NULL, maker, e) : ERR_MEMORY;
    model_close(m);
    return rc;
}

int model_bind(struct model **out, const struct checkpoint *c, struct backend *b,
               const struct explain *x, struct err *e)
{
    const struct model_options o = {0};
    return new_model(out, c, b, &o, x, e);
}

/* Bind, pack and plan. After a failure, model_close frees the existing parts. The facts are set
 * last, because they depend on the plan. */
int model_open(struct model **out, const struct checkpoint *c, const struct model_options *o,
               struct err *e)
{
    int rc = new_model(out, c, o->backend, o, NULL, e);
    if (rc == 0) rc = pack_weights(*out, o, e);
    if (rc == 0) rc = plan_open(*out, o, e);
    if (rc == 0) {
        (*out)->additions = o->additions;
        model_params(*out);
        describe(*out);
        return 0;
    }
    model_close(*out);
    *out = NULL;
    return rc;
}

/* A tied head is reported only once. */
int model_measure(const struct checkpoint *c, struct backend *b, const char *quantization,
                  struct model_sizes *s, struct err *e)
{
    struct model *m;
    const struct model_options o = {.quantization = quantization};
    const int rc = new_model(&m, c, b, &o, NULL, e);
    for (size_t i = 0; rc == 0 && i < m->tensor.n; i++) {
        const struct tensor *t = m->tensor.v[i];
        if (s->matrix && !is_repeated(m, i))
            s->matrix(s->ctx, t->name, t->type, value_count(t), is_converted(t));
    }
    s->kv_token_bytes = rc == 0 ? plan_token_bytes(m, s->kv_type) : 0;
    s->headless = rc == 0 && lacks_logits(m);
    s->state_bytes = rc == 0 ? m->state_floats * (int64_t)sizeof(float) : 0;
    model_close(m);
    return rc;
}

int model_explain(const struct checkpoint *c, struct backend *b, const char *quantization,
                  const struct explain *x, struct err *e)
{
    struct model *m;
    const struct model_options o = {.quantization = quantization};
    const int rc = new_model(&m, c, b, &o, x, e);
    model_close(m);
    return rc;
}

/* Compare the cache with a new packing. The results are in the order of the matrices. ERR_MISSING
 * if there is no cache. */
int model_verify(const struct checkpoint *c, const struct model_options *o,
                 model_verdict_fn *report, void *ctx, struct err *e)
{
    struct model *m;
    int rc = new_model(&m, c, o->backend, o, NULL, e), n = rc == 0 ? (int)m->tensor.n : 0;
    enum weights_verdict *verdict = calloc((size_t)n + 1, sizeof *verdict);
    if (rc == 0 && !verdict) rc = err_memory(e, "verdicts", (size_t)n * sizeof *verdict);
    if (rc == 0) {
        struct weights_options w = weights_options(m, o);
        rc = w.cache ? m->backend->op->weights_verify(m->backend, verdict, m->tensor.v, n, &w, e)
                     : err_set(e, ERR_MISSING, "%s: packed weights not found; the cache is off",
                               checkpoint_path(c));
    }
    for (int i = 0; i < n && rc == 0; i++) report(ctx, m->tensor.v[i]->name, verdict[i]);
    free(verdict);
    model_close(m);
    return rc;
}

/* Write to all pages, because the system assigns memory to a page at its first write, and a step
 * would wait for this memory. */
void model_touch_pages(struct model *m)
{
    kv_store_reach(&m->kv, m->kv.n_page - 1);
}

void model_close(struct model *m)
{
    if (!m) return;
    plan_close(m);
    m->backend->op->weights_close(m->backend, m->weights);
    vec_deinit(&m->tensor);
    vec_deinit(&m->vector);
    vec_deinit(&m->scratch);
    arena_deinit(&m->arena);
    free(m);
}

const struct model_info *model_info(const struct model *m)
{
    return &m->info;
}

struct pool *model_pool(const struct model *m)
{
    return m->backend->pool;
}

struct weights_use model_weights_use(const struct model *m)
{
    return m->backend->op->weights_use(m->backend, m->weights);
}

const struct batch_limits *model_batch_limits(const struct model *m)
{
    return &m->limits;
}

void model_trace(struct model *m, trace_fn *fn, void *ctx)
{
    m->trace = fn;
    m->trace_ctx = ctx;
}
