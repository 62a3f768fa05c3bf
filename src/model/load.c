/* load.c - a checkpoint becomes a model: choose the architecture, read its config (config.c), bind
 * its tensors (bind.c), pack them for the device, plan memory (plan.c). */
#include "model_impl.h"

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
        } else if (strncmp(t->name, "blk.", 4) == 0 && t->n_dim > 1) {
            info->layer_bytes += (int64_t)(share * (double)t->n_byte);
            info->layer_macs += (int64_t)(share * (double)n);
        }
    }
}

static void describe(struct model *m)
{
    const struct config *c = &m->config;
    struct model_info *i = &m->info;
    const char *name = meta_text(checkpoint_meta(m->checkpoint, "general.name"), NULL);
    const char *slash = strrchr(checkpoint_path(m->checkpoint), '/');
    i->arch = m->arch->name;
    i->name = name && *name ? name : slash && slash[1] ? slash + 1 : checkpoint_path(m->checkpoint);
    i->n_layer = c->n_layer, i->d_model = c->d, i->d_ff = c->d_ff;
    i->n_head = c->n_head, i->n_head_kv = c->n_head_kv, i->d_head = c->d_head;
    i->n_vocab = c->n_vocab, i->context_train = c->context_train;
    for (int il = 0; il < c->n_layer; il++)
        if (c->layer[il].window > i->window) i->window = c->layer[il].window;
    i->window_all = i->window;
    for (int il = 0; il < c->n_layer; il++)
        if (c->layer[il].window == 0) i->window_all = 0;
}

/* ---- open and close ---- */

static const struct arch *const arches[] = {
#define ARCH(id) &arch_##id,
#include "arch/arch.def"
#undef ARCH
};

static int choose_arch(struct model *m, const char **prefix, struct err *e)
{
    size_t n, n_arch = sizeof arches / sizeof arches[0];
    const char *path = checkpoint_path(m->checkpoint);
    *prefix = meta_text(checkpoint_meta(m->checkpoint, "general.architecture"), &n);
    if (!*prefix)
        return err_set(e, ERR_MISSING, "%s: metadata general.architecture is missing", path);
    for (size_t i = 0; i < n_arch; i++)
        if (strcmp(arches[i]->name, *prefix) == 0) m->arch = arches[i];
    if (m->arch) return 0;
    char list[256] = "";
    for (size_t i = 0; i < n_arch; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", arches[i]->name);
    }
    return err_set(e, ERR_UNSUPPORTED, "%s: architecture \"%.60s\" not found; available: %s", path,
                   *prefix, list);
}

/* Run all steps before packing the weights. */
static int bind_model(struct model *m, struct err *e)
{
    const struct checkpoint *c = m->checkpoint;
    struct binder b = {.m = m, .checkpoint = c, .e = e};
    b.rc = choose_arch(m, &b.prefix, e);
    b.bound = b.rc == 0 ? calloc((size_t)checkpoint_n_tensor(c) + 1, 1) : NULL;
    b.read = b.rc == 0 ? calloc((size_t)checkpoint_n_meta(c) + 1, 1) : NULL;
    if (b.rc == 0 && (!b.bound || !b.read))
        b.rc = err_memory(e, "the tensor list", (unsigned long long)checkpoint_n_tensor(c));
    if (b.rc == 0) config_read(&b);
    if (b.rc == 0) bind_all(&b);
    free(b.bound);
    free(b.read);
    return b.rc;
}

/* Return the options for storing weights. Weights that come from no file have no key and are not
 * stored. */
static struct weights_options weights_options(const struct model *m, const struct model_options *o)
{
    struct weights_options w = o->weights;
    if (!checkpoint_key(m->checkpoint, w.key)) w.cache = NULL;
    return w;
}

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

static int new_model(struct model **out, const struct checkpoint *c, struct backend *b,
                     struct err *e)
{
    struct model *m = *out = calloc(1, sizeof *m);
    if (!m) return err_memory(e, "the model", sizeof *m);
    m->checkpoint = c;
    m->backend = b;
    return bind_model(m, e);
}

int model_open(struct model **out, const struct checkpoint *c, const struct model_options *o,
               struct err *e)
{
    int rc = new_model(out, c, o->backend, e);
    if (rc == 0) rc = pack_weights(*out, o, e);
    if (rc == 0) rc = plan_memory(*out, o, e);
    if (rc == 0) {
        model_params(*out);
        describe(*out);
        return 0;
    }
    model_close(*out);
    *out = NULL;
    return rc;
}

int model_verify(const struct checkpoint *c, const struct model_options *o,
                 model_verdict_fn *report, void *ctx, struct err *e)
{
    struct model *m;
    int rc = new_model(&m, c, o->backend, e), n = rc == 0 ? (int)m->tensor.n : 0;
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

void model_touch_pages(struct model *m)
{
    kv_store_reach(&m->kv, m->kv.n_page - 1);
}

void model_close(struct model *m)
{
    if (!m) return;
    plan_release(m);
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

const struct batch_limits *model_batch_limits(const struct model *m)
{
    return &m->limits;
}

void model_trace(struct model *m, trace_fn *fn, void *ctx)
{
    m->trace = fn;
    m->trace_ctx = ctx;
}
