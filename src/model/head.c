/* head.c - heads: layers after pooling. A head turns the pooled row of a text into an embedding
 * (the Dense modules of sentence-transformers) or into the logits of a classifier.
 *
 *   pooled row [d] --linear, activation, norm--> ... --linear--> result [n_out]
 *
 * Without layers the result is the pooled row. The layers are ops of the backend, so the bits of a
 * result depend only on its row. */
#include "model_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OUT_MAX = 1 << 20 }; /* limit of the width of a layer */

/* ---- binding ---- */

/* Append a layer to the head, and return it; NULL after a failure. */
static struct head_layer *add_layer(struct binder *b, enum head h, int64_t n_out)
{
    struct head_layers *to = &b->m->head[h];
    if (b->rc == 0 && to->n == HEAD_LAYERS_MAX)
        b->rc = err_set(b->e, ERR_LIMIT, "%s: must have at most %d layers after pooling, got %d",
                        checkpoint_path(b->checkpoint), HEAD_LAYERS_MAX, to->n + 1);
    if (b->rc != 0) return NULL;
    b->m->at_head[0] = bind_fixed(b, "head a", n_out);
    b->m->at_head[1] = bind_fixed(b, "head b", n_out);
    to->n_out = (int)n_out;
    return &to->layer[to->n++];
}

/* Set the activation of a Dense module by the name of its class. */
static void set_activation(struct binder *b, struct head_layer *l, const char *name)
{
    static const struct {
        const char *name; /* static */
        bool curved;
        enum curve curve;
    } known[] = {{"Tanh", true, CURVE_tanh},       {"Identity", false, CURVE_tanh},
                 {"ReLU", true, CURVE_relu},       {"GELU", true, CURVE_gelu_erf},
                 {"Sigmoid", true, CURVE_sigmoid}, {"SiLU", true, CURVE_silu}};
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0) {
            l->curved = known[i].curved, l->curve = known[i].curve;
            return;
        }
    b->rc =
        err_set(b->e, ERR_UNSUPPORTED,
                "%s: activation_function of a Dense module: must be Tanh, Identity, ReLU, GELU, "
                "Sigmoid or SiLU, got \"%.40s\"",
                checkpoint_path(b->checkpoint), name ? name : "?");
}

static const struct meta *dense_meta(const struct binder *b, int i, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "sentence_transformers.dense.%d.%s", i, name);
    return checkpoint_meta(b->checkpoint, key);
}

/* Bind the layers of an embedding in a GGUF, dense_2 and dense_3. The layers dense_2 and dense_3
 * have no activation. */
static void bind_dense_tensors(struct binder *b)
{
    static const char *const stem[] = {"dense_2", "dense_3"};
    for (int i = 0; i < 2 && b->rc == 0; i++) {
        char name[160];
        bind_name(b, name, stem[i], -1, "weight");
        const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
        const int64_t k = b->m->head[HEAD_EMBED].n_out, n_out = t ? t->dim[1] : 0;
        if (n_out > OUT_MAX)
            bind_refuse(b, t, ERR_LIMIT, ": must have at most %d rows, got %lld", OUT_MAX,
                        (long long)n_out);
        struct head_layer *l = t ? add_layer(b, HEAD_EMBED, n_out) : NULL;
        if (l) bind_sized(b, &l->l, stem[i], n_out, k, BIAS_HELD);
    }
}

bool head_normalizes(const struct checkpoint *c)
{
    return meta_int(checkpoint_meta(c, "sentence_transformers.normalize"), 1) != 0;
}

/* Return the number of poolings whose results are concatenated. */
static int n_pooling(const struct checkpoint *c)
{
    const char *at = meta_text(checkpoint_meta(c, "sentence_transformers.pooling"), NULL);
    int n = 1;
    while (at && (at = strchr(at, '+'))) at++, n++;
    return n;
}

/* Set the number of values that remain of a truncated embedding. */
static void bind_cut(struct binder *b)
{
    struct model *m = b->m;
    const struct meta *cut = checkpoint_meta(b->checkpoint, "sentence_transformers.truncate_dim");
    struct head_layers *h = &m->head[HEAD_EMBED];
    const int64_t n = meta_int(cut, h->n_out);
    if (b->rc != 0 || n < 1 || n >= h->n_out) return;
    m->n_whole = h->n_out;
    m->whole = arena_push(&m->arena, (size_t)h->n_out * sizeof *m->whole, 64);
    if (!m->whole) b->rc = err_memory(b->e, "an embedding", (size_t)h->n_out * sizeof *m->whole);
    h->n_out = (int)n;
}

void bind_embedding(struct binder *b)
{
    struct model *m = b->m;
    const struct checkpoint *c = b->checkpoint;
    const int n = (int)config_module_int(b, "n_dense", 0, HEAD_LAYERS_MAX, 0);
    const char *other = meta_text(checkpoint_meta(c, "sentence_transformers.unsupported"), NULL);
    m->n_pooled = m->config.d_embd * (b->rc == 0 ? n_pooling(c) : 1);
    m->at_pooled = bind_fixed(b, "pooled row", m->n_pooled);
    m->head[HEAD_EMBED].n_out = m->n_pooled;
    if (!config_is_hf(b)) bind_dense_tensors(b);
    if (other && b->rc == 0)
        b->rc = err_set(b->e, ERR_UNSUPPORTED,
                        "%s/modules.json: module %.120s: not supported yet at its place",
                        checkpoint_path(c), other);
    for (int i = 0; i < n && b->rc == 0; i++) {
        char stem[32], out[32];
        snprintf(out, sizeof out, "dense.%d.out", i);
        const int64_t k = meta_int(dense_meta(b, i, "in"), 0),
                      n_out = config_module_int(b, out, 1, OUT_MAX, 1);
        if (k != m->head[HEAD_EMBED].n_out) {
            b->rc = err_set(b->e, ERR_FORMAT,
                            "%s: in_features of Dense module %d: must be %d, got %lld",
                            checkpoint_path(c), i, m->head[HEAD_EMBED].n_out, (long long)k);
            return;
        }
        struct head_layer *l = add_layer(b, HEAD_EMBED, n_out);
        if (!l) return;
        snprintf(stem, sizeof stem, "modules.%d.linear", i);
        bind_sized(b, &l->l, stem, n_out, k, BIAS_HELD);
        if (b->rc == 0) set_activation(b, l, meta_text(dense_meta(b, i, "activation"), NULL));
    }
    bind_cut(b);
}

/* Return the number of labels, which is the number of rows of the last matrix. A list of labels
 * must have the same length. */
static int label_count(struct binder *b)
{
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, "cls.output.weight");
    const struct meta *list = b->m->config.labels;
    const int n = b->maker                       ? (int)meta_count(list)
                  : t && t->dim[1] <= LABELS_MAX ? (int)t->dim[1]
                                                 : 0;
    if (n == 0)
        b->rc = err_set(b->e, ERR_LIMIT, "%s: a classifier must have 1 to %d labels, got %lld",
                        checkpoint_path(b->checkpoint), LABELS_MAX, t ? (long long)t->dim[1] : 0);
    else if (meta_count(list) > 0 && meta_count(list) != (size_t)n)
        config_refuse(b, config_is_hf(b) ? "config.id2label" : "classifier.output_labels",
                      ERR_FORMAT, "must have %d labels, got %zu", n, meta_count(list));
    return n;
}

void bind_classifier(struct binder *b, const enum curve *curve, enum bias bias)
{
    struct config *c = &b->m->config;
    if (b->rc != 0) return;
    if (!bind_has(b, "cls.output", -1)) {
        b->drops_pooler = true;
        return;
    }
    c->n_label = label_count(b);
    struct head_layer *l = curve ? add_layer(b, HEAD_CLASS, c->d) : NULL;
    if (l) {
        bind_linear(b, &l->l, "cls", -1, bias);
        l->curved = true, l->curve = *curve;
        if (bind_row(b, "cls.norm")) bind_norm(b, &l->norm, "cls.norm", -1);
    }
    l = add_layer(b, HEAD_CLASS, c->n_label);
    if (l) bind_linear(b, &l->l, "cls.output", -1, curve ? BIAS_NEEDED : BIAS_HELD);
}

/* Decode rows of the head's matrix to f32 [n, k]. A checkpoint without data gives zeros. */
static float *token_rows(struct binder *b, const struct tensor_info *t, const int32_t *id, int n)
{
    const int64_t k = b->m->config.d_embd;
    float *row = arena_push(&b->m->arena, (size_t)(n * k) * sizeof *row, 64);
    if (!row) {
        b->rc = err_memory(b->e, t->name, (size_t)(n * k) * sizeof *row);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        float *to = row + i * k;
        if (id[i] < 0 || id[i] >= t->dim[1]) { /* the tokenizer has more tokens than the model */
            b->rc = err_set(b->e, ERR_FORMAT,
                            "%s: classifier_from_token[%d]: must be a token in [0, %lld), got %d",
                            checkpoint_path(b->checkpoint), i, (long long)t->dim[1], id[i]);
            return NULL;
        }
        if (t->data)
            qtype_info[t->type].ops->decode(to, t->data + (size_t)id[i] * qtype_bytes(t->type, k),
                                            k);
        else
            memset(to, 0, (size_t)k * sizeof *to);
    }
    return row;
}

/* Return a name that contains the ids, because the name identifies stored packed weights. NULL
 * after a failure. */
static const char *token_rows_name(struct binder *b, const struct model_options *o)
{
    char name[32 + CLASS_TOKENS_MAX * 12];
    int n = snprintf(name, sizeof name, "cls.%s", o->class_difference ? "difference" : "tokens");
    for (int i = 0; i < o->n_class_token; i++)
        n += snprintf(name + n, sizeof name - (size_t)n, ".%d", o->class_token[i]);
    const char *own = arena_text(&b->m->arena, name, (size_t)n);
    if (!own) b->rc = err_memory(b->e, name, (size_t)n);
    return own;
}

/* Copy the rows of the tokens from the head to a new f32 matrix. */
void bind_class_tokens(struct binder *b)
{
    const struct model_options *o = b->options;
    struct config *c = &b->m->config;
    if (b->rc != 0 || !o || o->n_class_token == 0) return;
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, "output.weight");
    if (!t) t = checkpoint_tensor(b->checkpoint, "token_embd.weight");
    const bool other = b->m->head[HEAD_CLASS].n > 0 || b->m->headless || !t;
    if (other || !qtype_info[t->type].ops || t->dim[0] != c->d_embd) {
        b->rc = err_set(b->e, ERR_UNSUPPORTED,
                        "%s: classifier_from_token: requires a language model head of plain or "
                        "GGUF weights, and no other classifier",
                        checkpoint_path(b->checkpoint));
        return;
    }
    c->n_label = o->class_difference ? 1 : o->n_class_token;
    c->labels = NULL; /* the labels of config.json belong to another classifier */
    c->class_pad = -1;
    float *row = token_rows(b, t, o->class_token, o->n_class_token);
    for (int i = 0; i < c->d_embd && row && o->class_difference; i++)
        row[i] = row[c->d_embd + i] - row[i];
    const char *name = row ? token_rows_name(b, o) : NULL;
    struct head_layer *l = add_layer(b, HEAD_CLASS, c->n_label);
    if (!l || !name) return;
    bind_tied(b, &l->l,
              &(struct tensor){.type = QT_f32,
                               .n_out = c->n_label,
                               .k = c->d_embd,
                               .data = (const uint8_t *)row,
                               .name = name});
}

/* ---- computing ---- */

/* Apply the layer to x and write the result to y, f32 on the device. */
static void run_layer(struct backend *b, const struct head_layer *l, float *y, const float *x)
{
    const int64_t n = l->l.w.n_out;
    b->op->linear(b, y, &l->l, x, 1);
    if (l->curved) b->op->curve(b, y, n, l->curve);
    if (!l->norm.g) return;
    const struct layer_norm norm = {
        .g = l->norm.g, .bias = l->norm.b, .eps = l->norm.eps, .n_part = 1, .n = l->norm.n};
    b->op->layer_norm(b, y, y, &norm, 1);
}

/* Compute all values of head h. n: number of values of y. */
static void compute(struct model *m, enum head h, const float *x, float *y, int n)
{
    struct backend *b = m->backend;
    const struct head_layers *head = &m->head[h];
    float *from = m->scratch.v[m->at_pooled].at;
    CHECK(n > 0, "head %d", (int)h);
    if (head->n == 0) {
        memcpy(y, x, (size_t)n * sizeof *y);
        return;
    }
    const int n_in = h == HEAD_EMBED ? m->n_pooled : m->config.d_embd;
    b->op->write(b, from, x, (size_t)n_in * sizeof *x);
    for (int i = 0; i < head->n; i++) {
        float *to = m->scratch.v[m->at_head[i % 2]].at;
        run_layer(b, &head->layer[i], to, from);
        from = to;
    }
    b->op->read(b, y, from, (size_t)n * sizeof *y);
}

/* As in sentence-transformers, a vector is truncated after its normalization, and is not normalized
 * again. The sum is f64, as in api/openai_embeddings.c. */
void model_head(struct model *m, enum head h, const float *x, float *y)
{
    if (h != HEAD_EMBED || !m->whole) {
        compute(m, h, x, y, m->head[h].n_out);
        return;
    }
    double sum = 0, scale = 1;
    compute(m, h, x, m->whole, m->n_whole);
    for (int i = 0; i < m->n_whole; i++) sum += (double)m->whole[i] * (double)m->whole[i];
    if (head_normalizes(m->checkpoint)) scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (int i = 0; i < m->head[h].n_out; i++) y[i] = (float)((double)m->whole[i] * scale);
}

const char *model_label(const struct model *m, int i, size_t *n)
{
    const struct meta *labels = m->config.labels;
    return i >= 0 && (size_t)i < meta_count(labels) ? meta_item_text(labels, (size_t)i, n) : NULL;
}
