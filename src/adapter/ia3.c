/* ia3.c - factors of inputs or outputs (IA3, arXiv 2205.05638): y = out * l(in * x). PEFT scales
 * the inputs of feedforward_modules, and the outputs of all other modules, also their biases.
 *
 *   file   base_model.model.model.layers.0.self_attn.k_proj.ia3_l   [n_out, 1], or [1, k] */
#include "adapter_impl.h"

static const struct addition *bind_ia3(struct bind_state *b, const struct tensor *t,
                                       const char *module)
{
    struct adapters *all = b->a;
    const struct tensor_info *l = adapter_tensor(b, module, "ia3_l");
    bool inputs = false;
    int64_t n_out;
    const int64_t first = adapter_first_row(b->info, t, &n_out);
    struct addition *x = l ? arena_push0(&all->arena, 1, sizeof *x) : NULL;
    if (!l) return NULL;
    if (!x) b->rc = err_memory(b->e, "an addition", sizeof *x);
    if (b->rc == 0) b->rc = peft_is_target(&b->s->peft, module, b->target, b->e);
    if (b->rc == 0)
        b->rc = peft_has_module(&b->s->peft, "feedforward_modules", module, &inputs, b->e);
    if (b->rc == 0 && !inputs && t->joined)
        b->rc = err_set(b->e, ERR_UNSUPPORTED,
                        "%s: target_modules: \"%.60s\": factors of these outputs are not supported "
                        "yet, because a parameter is added to them",
                        b->path, module);
    adapter_check(b, l, inputs ? 1 : n_out, inputs ? t->k : 1);
    float *v = b->rc == 0 ? adapter_values(b, l) : NULL;
    if (!inputs) adapter_sort(b, t, v, n_out, 1);
    if (b->rc != 0) return NULL;
    if (inputs)
        x->in = adapter_vector(b, v, t->k);
    else
        x->out = adapter_vector(b, v + first, t->n_out);
    if (t->k > all->rank_max) all->rank_max = t->k;
    if (t->n_out > all->out_max) all->out_max = t->n_out;
    return x;
}

const struct adapter_kind adapter_kind_ia3 = {
    .type = "IA3", .field = "feedforward_modules", .bind = bind_ia3};
