/* explain.c - report how loading uses each key and each tensor of a file (inspect --explain).
 *
 *   keys      config_judge (keys.c), the same function that loading uses
 *   tensors   the marks of binding, the list of matrices, bind_left_out (bind.c)
 *
 * After a failure of the config the sizes are unknown, so tensors are neither bound nor
 * reported. */
#include "model_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- keys ---- */

/* Report a key. Report two keys of one field of config.json once. */
static void put_key(const struct explain *x, const struct explained_key *k, char last[160])
{
    if (strcmp(last, k->name) != 0) x->key(x->ctx, k);
    snprintf(last, 160, "%s", k->name);
}

static void explain_keys(const struct binder *b, const struct explain *x)
{
    char name[160], last[160] = "", why[WHY_BYTES];
    const struct refusal *r = b->refusal;
    bool found = r->key[0] == 0;
    for (int i = 0; i < checkpoint_n_meta(b->checkpoint); i++) {
        const char *full;
        checkpoint_meta_at(b->checkpoint, i, &full);
        const bool refused = strcmp(r->key, full) == 0;
        struct explained_key k = {.i = i, .name = name, .why = why};
        config_key_name(b, full, name);
        k.fate = config_judge(b, i, why);
        if (refused) k.fate = FATE_REFUSED, k.why = r->why, found = true;
        put_key(x, &k, last);
    }
    if (!found) /* a required key that the file lacks */
        x->key(x->ctx, &(struct explained_key){
                           .i = -1, .name = r->name, .fate = FATE_REFUSED, .why = r->why});
}

/* ---- tensors ---- */

/* Return the length of a name without its last part. For "blk.0.attn_q.weight" it is the length of
 * "blk.0.attn_q". */
static size_t body_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* Return the length of a name without its last part and without the number of an expert. For
 * "blk.0.ffn_up_exps.3.weight" it is the length of "blk.0.ffn_up_exps". */
static size_t stem_length(const char *name)
{
    const size_t n = body_length(name);
    size_t at = n;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') at--;
    return at < n && at > 0 && name[at - 1] == '.' ? at - 1 : n;
}

/* Return true for a tensor of one expert. */
static bool is_of_expert(const char *name)
{
    return stem_length(name) < body_length(name);
}

/* Return true if two matrices of the list share their values, as a tied head does. */
static bool is_again(const struct model *m, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (m->tensor.v[k]->data == m->tensor.v[i]->data) return true;
    return false;
}

/* Add matrix i of the model to the use of a tensor. */
static void add_use(struct explained_tensor *x, const struct model *m, size_t i)
{
    const struct tensor *t = m->tensor.v[i];
    const bool one = x->form == TENSOR_EXPERT;
    if (x->n_matrix == 0 && t->is_table) x->form = TENSOR_TABLE;
    x->type = t->type;
    x->is_codes = t->from && t->from->form == FORM_CODES;
    x->is_encoded = t->from && t->from->form == FORM_ENCODED;
    x->n_matrix++;
    if (!is_again(m, i))
        x->n_byte += (int64_t)qtype_bytes(t->type, t->k) * t->n_out *
                     (t->n_expert && !one ? t->n_expert : 1);
}

/* Return the form in which a matrix uses a tensor; -1 if the matrix does not use the tensor. All
 * experts have the name of the first expert's matrix if the file has a matrix per expert. */
static int relation(const struct tensor *w, const struct tensor_info *t)
{
    const char *a = w->name, *b = t->name;
    const size_t n = stem_length(a);
    if (strcmp(a, b) == 0) return is_of_expert(b) ? TENSOR_EXPERT : TENSOR_MATRIX;
    if (n != stem_length(b) || memcmp(a, b, n) != 0) return -1;
    const char *end = b + body_length(b);
    if (is_of_expert(b) && strcmp(a + body_length(a), end) == 0) return TENSOR_EXPERT;
    return w->from && published_is_split(w->from) && strcmp(end, ".bias") != 0 ? TENSOR_PART : -1;
}

/* Set the form of a bound tensor: a matrix, a part of a matrix, or a vector. Set `stem` to the name
 * of its matrix, or "". as_values: the values are not a matrix of a linear layer. */
static void place(struct explained_tensor *x, const struct model *m, const struct tensor_info *t,
                  bool as_values, char stem[160])
{
    x->form = !as_values && t->n_dim > 1 && t->dim[1] > 1 ? TENSOR_COPY : TENSOR_VECTOR;
    x->type = QT_f32;
    stem[0] = 0;
    for (size_t i = 0; i < m->tensor.n; i++) {
        const struct tensor *w = m->tensor.v[i];
        const int form = relation(w, t);
        if (form < 0 || (form == TENSOR_PART && stem[0])) continue;
        snprintf(stem, 160, "%.*s", (int)stem_length(w->name), w->name);
        if (x->n_matrix == 0) x->form = (enum tensor_form)form;
        if (form == TENSOR_PART)
            x->type = w->type;
        else
            add_use(x, m, i);
    }
    if (x->form == TENSOR_VECTOR)
        x->n_byte = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3] * (int64_t)sizeof(float);
}

static void explain_tensors(const struct binder *b, const struct explain *x)
{
    char why[WHY_BYTES], stem[160];
    for (int i = 0; i < checkpoint_n_tensor(b->checkpoint); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(b->checkpoint, i);
        struct explained_tensor u = {.i = i, .fate = FATE_USED, .why = stem};
        if (t == b->refused)
            u.fate = FATE_REFUSED, u.why = b->refused_why;
        else if (b->bound[i])
            place(&u, b->m, t, b->bound[i] == BOUND_VALUES, stem);
        else if (bind_left_out(b, t, why))
            u.fate = FATE_IDLE, u.why = why;
        else if (b->all_bound)
            u.fate = FATE_REFUSED, u.why = "the architecture has no such tensor";
        else
            u.fate = FATE_UNKNOWN, u.why = "loading ended before it";
        x->tensor(x->ctx, &u);
    }
}

void explain_all(const struct binder *b, const struct explain *x)
{
    explain_keys(b, x);
    if (b->m->config.layer && !b->refusal->key[0]) explain_tensors(b, x);
}
