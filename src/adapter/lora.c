/* lora.c - low-rank additions ("LoRA", arXiv 2106.09685): y += scale * B (A x). */
#include "adapter_impl.h"

/* Return a tensor whose data is v, f32 [n_out, k]. v and the name are borrowed; the name belongs to
 * the file. */
static struct tensor matrix(const struct tensor_info *t, const float *v, int64_t n_out)
{
    return (struct tensor){.type = QT_f32,
                           .n_out = n_out,
                           .k = t->dim[0],
                           .data = (const uint8_t *)v,
                           .name = t->name};
}

/* Return the addition to the matrix t from the tensors a and b of a module. Row `first` of b
 * belongs to the first row of t. */
static const struct addition *add_addition(struct bind_state *b, const struct tensor *t,
                                           const struct tensor_info *ta,
                                           const struct tensor_info *tb, int64_t first, float scale)
{
    struct adapters *all = b->a;
    struct addition *x = arena_push0(&all->arena, 1, sizeof *x);
    float *va = adapter_values(b, ta), *vb = b->rc == 0 ? adapter_values(b, tb) : NULL;
    adapter_sort(b, t, vb, tb->dim[1], tb->dim[0]);
    if (b->rc == 0 && !x) b->rc = err_memory(b->e, "an addition", sizeof *x);
    if (b->rc != 0) return NULL;
    *x = (struct addition){.a.w = matrix(ta, va, ta->dim[1]),
                           .b.w = matrix(tb, vb + first * tb->dim[0], t->n_out),
                           .scale = scale};
    if (!vec_push(&all->tensor, &x->a.w) || !vec_push(&all->tensor, &x->b.w))
        b->rc = err_memory(b->e, "the list of tensors", sizeof(struct tensor *));
    if (x->a.w.n_out > all->rank_max) all->rank_max = x->a.w.n_out;
    if (x->b.w.n_out > all->out_max) all->out_max = x->b.w.n_out;
    return x;
}

static const struct addition *bind_lora(struct bind_state *b, const struct tensor *t,
                                        const char *module)
{
    const struct tensor_info *ta = adapter_tensor(b, module, "lora_A.weight"),
                             *tb = adapter_tensor(b, module, "lora_B.weight");
    int64_t rank = 0, n_out;
    const int64_t first = adapter_first_row(b->info, t, &n_out);
    float scale = 0;
    if (!ta && !tb) return NULL;
    if (!ta || !tb)
        b->rc = err_set(b->e, ERR_MISSING, "%s: tensor base_model.model.%s.%s.weight is missing",
                        b->path, module, ta ? "lora_B" : "lora_A");
    if (b->rc == 0) b->rc = peft_is_target(&b->s->peft, module, b->target, b->e);
    if (b->rc == 0) b->rc = peft_module(&b->s->peft, module, &rank, &scale, b->e);
    if (b->rc == 0 && rank > b->info->d_model)
        b->rc = err_set(b->e, ERR_LIMIT, "%s: r: must be at most %d, got %lld", b->s->peft.path,
                        b->info->d_model, (long long)rank);
    if (b->rc != 0) return NULL;
    adapter_check(b, ta, rank, t->k);
    adapter_check(b, tb, n_out, rank);
    return b->rc == 0 ? add_addition(b, t, ta, tb, first, scale) : NULL;
}

const struct adapter_kind adapter_kind_lora = {.type = "LORA", .bind = bind_lora};
