/* bind.c - conversion of an adapter's tensors to additions.
 *
 * PEFT names the tensors of a module base_model.model.MODULE.lora_A.weight and .lora_B.weight.
 * format/tensors.def has the names of the modules. Only matrices of layers can have additions.
 * Tensors of the embedding, the head and experts are rejected, as are all tensors that no matrix
 * uses.
 *
 *   file        base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight   [r, k]
 *               base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight   [n_out, r]
 *   model       blk.0.attn_q.weight                                              [n_out, k]
 *   addition    y += scale * B (A x)
 *
 * Three differences between the files and the model need a conversion. A module in the file may be
 * several matrices of the model, for example a fused qkv. Its matrices share A, and each matrix has
 * some rows of B (first_row). Some classes store q, k and v of a KV head together, so the rows of B
 * are sorted (ungroup). A GGUF file of Llama has permuted rows of q and k, so the rows of B are
 * permuted, too (pair_neighbours). */
#include "adapter_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Set `module` to the Hugging Face name of a layer's matrix, such as
 * "model.layers.0.self_attn.q_proj". Return false if the matrix has no such name. */
static bool module_of(char module[TENSOR_NAME_MAX], const char *arch, const struct tensor *t)
{
    int n = 0, layer = 0, n_row;
    const struct tensor_row *row = tensor_rows(arch, &n_row);
    const char *of_layer = t->name ? strstr(t->name, "blk.") : NULL; /* after "enc." or "dec." */
    if (t->n_expert || !of_layer) return false;
    if (sscanf(of_layer, "blk.%9d.%n", &layer, &n) != 1 || !n) return false; /* check: width */
    for (int i = 0; row && i < n_row; i++) {
        char name[TENSOR_NAME_MAX];
        if (!row[i].raw || row[i].bias || row[i].n_part != SIZE_ONE) continue;
        if (!strstr(row[i].name, "blk.%d.")) continue;
        snprintf(name, sizeof name, row[i].name, layer); /* check: a name of tensors.def */
        const size_t len = strlen(name);
        if (strncmp(t->name, name, len) != 0 || strcmp(t->name + len, ".weight") != 0) continue;
        snprintf(module, TENSOR_NAME_MAX, row[i].raw, layer); /* check: a name of tensors.def */
        return true;
    }
    return false;
}

const struct tensor_info *adapter_tensor(struct bind_state *b, const char *module,
                                         const char *suffix)
{
    char name[TENSOR_NAME_MAX + 64];
    snprintf(name, sizeof name, "base_model.model.%s.%s", module, suffix);
    const struct tensor_info *t = checkpoint_tensor(b->s->file, name);
    if (t) b->used[t - checkpoint_tensor_at(b->s->file, 0)] = 1;
    return t;
}

/* dim[0] varies fastest, as in GGUF. */
void adapter_check(struct bind_state *b, const struct tensor_info *t, int64_t n_out, int64_t k)
{
    const bool is_float = t->type == QT_f32 || t->type == QT_f16 || t->type == QT_bf16;
    if (b->rc != 0) return;
    if (t->n_dim != 2 || t->dim[0] != k || t->dim[1] != n_out)
        b->rc = err_set(b->e, ERR_FORMAT, "%s: tensor %s: expected [%lld, %lld], got [%lld, %lld]",
                        b->path, t->name, (long long)n_out, (long long)k, (long long)t->dim[1],
                        (long long)t->dim[0]);
    else if (!is_float)
        b->rc = err_set(b->e, ERR_UNSUPPORTED, "%s: tensor %s has type %s: not supported yet",
                        b->path, t->name, qtype_info[t->type].name);
}

/* Return the values of a tensor, f32 [n_out, k]. The values are in the arena `values` until
 * adapters_bind ends. A NaN or infinite value is an error with its index, because one such value
 * makes every answer of the adapter NaN. */
float *adapter_values(struct bind_state *b, const struct tensor_info *t)
{
    const int64_t n = t->dim[0] * t->dim[1];
    float *v = arena_push(&b->a->values, (size_t)n * sizeof *v, 64);
    if (!v) {
        b->rc = err_memory(b->e, t->name, (unsigned long long)n * sizeof *v);
        return NULL;
    }
    qtype_info[t->type].ops->decode(v, t->data, n);
    for (int64_t i = 0; i < n && b->rc == 0; i++)
        if (v[i] - v[i] != 0)
            b->rc = err_set(b->e, ERR_FORMAT, "%s: tensor %s[%lld]: must be finite, got %g",
                            b->path, t->name, (long long)i, (double)v[i]);
    return v;
}

/* Permute rows from Hugging Face's order, which pairs rotary lanes (i, i + d/2), to GGUF's pairs
 * (2i, 2i + 1). v is f32 [n_row, k]. Each head has d_head rows. llama.cpp's converter permutes q
 * and k in the same way. */
static int pair_neighbours(float *v, int64_t n_row, int64_t k, int d_head, struct err *e)
{
    const size_t row = (size_t)k * sizeof *v;
    float *head = malloc((size_t)d_head * row);
    if (!head) return err_memory(e, "the rows of a head", (size_t)d_head * row);
    for (int64_t at = 0; at + d_head <= n_row; at += d_head) {
        memcpy(head, v + at * k, (size_t)d_head * row);
        for (int i = 0; i < d_head; i++)
            memcpy(v + (at + i) * k, head + (i % 2 * (d_head / 2) + i / 2) * k, row);
    }
    free(head);
    return 0;
}

/* Sort the rows of a fused qkv, f32 [n_row, k]. The input has one group per KV head: its q heads, k
 * and v. The result has all rows of q, then all rows of k, then all rows of v. */
static int ungroup(float *v, int64_t n_row, int64_t k, const struct model_info *info, struct err *e)
{
    const int64_t d = info->d_head, n_q = info->n_head / info->n_head_kv * d, n = n_q + 2 * d;
    const int64_t first[3] = {0, n_q, n_q + d}, size[3] = {n_q, d, d}, n_group = n_row / n;
    const size_t row = (size_t)k * sizeof *v, n_byte = (size_t)n_row * row;
    float *from = malloc(n_byte), *to = v;
    if (!from) return err_memory(e, "the rows of q, k and v", n_byte);
    memcpy(from, v, n_byte);
    for (int part = 0; part < 3; part++)
        for (int64_t g = 0; g < n_group; g++, to += size[part] * k)
            memcpy(to, from + (g * n + first[part]) * k, (size_t)size[part] * row);
    free(from);
    return 0;
}

/* Return true for the matrices of q and k, because rotary embedding pairs their rows. */
static bool has_rotary_rows(const struct tensor *t)
{
    return strstr(t->name, ".attn_q.") || strstr(t->name, ".attn_k.");
}

void adapter_sort(struct bind_state *b, const struct tensor *t, float *v, int64_t n_row, int64_t k)
{
    if (b->rc == 0 && b->info->permuted && has_rotary_rows(t))
        b->rc = pair_neighbours(v, n_row, k, b->info->d_head, b->e);
    if (b->rc == 0 && b->info->grouped && strstr(t->name, ".attn_qkv."))
        b->rc = ungroup(v, n_row, k, b->info, b->e);
}

const float *adapter_vector(struct bind_state *b, const float *v, int64_t n)
{
    struct backend *to = b->a->backend;
    struct device_vector d = {.n_byte = (size_t)n * sizeof *v};
    d.v = b->rc == 0 ? to->op->alloc(to, d.n_byte) : NULL;
    if (b->rc == 0 && (!d.v || !vec_push(&b->a->vector, d))) {
        if (d.v) to->op->release(to, d.v, d.n_byte);
        b->rc = err_memory(b->e, "a vector", d.n_byte);
    }
    if (b->rc != 0) return NULL;
    to->op->write(to, d.v, v, d.n_byte);
    return d.v;
}

/* Return the number of rows before t in the model's tensor that contains t. Set *n_all to the
 * number of rows of that tensor. The parts of a tensor are consecutive and have one name. */
int64_t adapter_first_row(const struct model_info *info, const struct tensor *t, int64_t *n_all)
{
    int64_t first = 0;
    *n_all = 0;
    for (int i = 0; i < info->n_matrix; i++) {
        const struct tensor *m = info->matrix[i];
        if (!m->name || strcmp(m->name, t->name) != 0) continue;
        if (m == t) first = *n_all;
        *n_all += m->n_out;
    }
    return first;
}

/* Return the addition to the matrix t; NULL if the adapter has none. */
static const struct addition *bind_matrix(struct bind_state *b, const struct tensor *t)
{
    char module[TENSOR_NAME_MAX];
    if (b->rc != 0 || !module_of(module, b->info->arch, t)) return NULL;
    return b->s->peft.kind->bind(b, t, module);
}

/* Reject an adapter with a tensor that no matrix uses, or with a target that has no tensors. */
static void check_all(struct bind_state *b)
{
    const int n = checkpoint_n_tensor(b->s->file);
    for (int i = 0; i < n && b->rc == 0; i++)
        if (!b->used[i])
            b->rc = err_set(b->e, ERR_UNSUPPORTED,
                            "%s: tensor %.200s: matrix of this name not found in the model, or "
                            "adapters cannot change it (experts, kv_b_proj of latent pages)",
                            b->path, checkpoint_tensor_at(b->s->file, i)->name);
    if (b->rc == 0 && n == 0)
        b->rc = err_set(b->e, ERR_FORMAT, "%s: must have at least 1 tensor, got 0", b->path);
    for (size_t i = 0; i < peft_n_target(&b->s->peft) && b->rc == 0; i++)
        if (!b->target[i])
            b->rc = err_set(b->e, ERR_FORMAT, "%s: target_modules: tensor of \"%.60s\" is missing",
                            b->s->peft.path, json_text(json_item(b->s->peft.targets, i), NULL));
}

int adapter_bind(struct adapters *a, struct addition_set *set, struct adapter_source *s,
                 const struct model_info *info, struct err *e)
{
    const int n = info->n_matrix;
    struct bind_state b = {
        .a = a, .s = s, .info = info, .path = checkpoint_path(s->file), .e = e, .rc = 0};
    const struct addition **list = arena_push0(&a->arena, (size_t)n + 1, sizeof(void *));
    b.used = calloc((size_t)checkpoint_n_tensor(s->file) + 1, 1);
    b.target = calloc(peft_n_target(&s->peft) + 1, sizeof *b.target);
    if (!list || !b.used || !b.target) b.rc = err_memory(e, "an adapter", (size_t)n);
    for (int i = 0; i < n && b.rc == 0; i++) list[i] = bind_matrix(&b, info->matrix[i]);
    if (b.rc == 0) check_all(&b);
    set->add = list;
    free(b.used);
    free(b.target);
    return b.rc;
}
