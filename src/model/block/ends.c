/* ends.c - the ends of a decoder: embeddings of tokens and learned positions before the layers,
 * output norm and head after the layers. */
#include "model/model_impl.h"

#include <limits.h>
#include <string.h>

/* ---- binding ---- */

/* Reject an embedding that is the head's tensor under another name (hf.c), unless the class has one
 * matrix for both. A T5 has a tied head in every file, but its class reads the field. */
static void check_shared(struct binder *b, const struct tensor_info *embd)
{
    const struct tensor_info *head = checkpoint_tensor(b->checkpoint, "output.weight");
    char raw[160];
    if (!config_is_hf(b) || !head || strcmp(head->name_raw, embd->name_raw) != 0) return;
    if (b->m->config.tied &&
        (!b->m->arch->crosses || config_bool(b, "config.tie_word_embeddings", true)))
        return;
    if (b->rc == 0 && hf_raw_name(raw, sizeof raw, embd->name, b->m->arch->name, -1))
        b->rc = err_set(b->e, ERR_MISSING, "%s: tensor %s is missing",
                        checkpoint_path(b->checkpoint), raw);
}

/* Check config.json's vocab_size against the rows of the embedding. Other files contain only the
 * number of rows. */
void bind_vocab(struct binder *b)
{
    struct config *c = &b->m->config;
    const struct tensor_info *embd = checkpoint_tensor(b->checkpoint, "token_embd.weight");
    if (!embd) embd = random_tensor(b, "token_embd.weight", 1, c->n_vocab, c->d_embd, false);
    if (b->rc != 0) return;
    if (!embd || embd->dim[1] > INT_MAX) {
        bind_missing(b, "token_embd.weight");
        return;
    }
    check_shared(b, embd);
    if (config_is_hf(b) && embd->dim[1] != c->n_vocab)
        config_refuse(b, "vocab_size", ERR_FORMAT, "must be the %lld rows of %s, got %d",
                      (long long)embd->dim[1], embd->name_raw, c->n_vocab);
    c->n_vocab = (int)embd->dim[1];
}

/* Return true if the head is the embedding. The result is true if the file has no head and the
 * config permits tying, or if the head repeats the embedding's bytes. */
static bool head_is_tied(struct binder *b)
{
    const struct tensor_info *embd = checkpoint_tensor(b->checkpoint, "token_embd.weight"),
                             *head = checkpoint_tensor(b->checkpoint, "output.weight");
    if (!b->m->config.tied) return false;
    if (!head) return !random_unties(b);
    bool same = head->type == embd->type && head->n_byte == embd->n_byte && head->data &&
                memcmp(head->dim, embd->dim, sizeof head->dim) == 0 &&
                memcmp(head->data, embd->data, head->n_byte) == 0;
    if (same) b->bound[head - checkpoint_tensor_at(b->checkpoint, 0)] = 1;
    return same;
}

/* Return true if the file has no head. Models without a head are classifiers and embedding models.
 * Their tensors lack the prefix of a model with a head, or the file gives a pooling. All other
 * models require a head. */
static bool is_headless(const struct binder *b)
{
    const struct tensor_info *embd = checkpoint_tensor(b->checkpoint, "token_embd.weight");
    const char *base = arch_base(b->m->arch->name);
    if (bind_has(b, "output", -1)) return false;
    if (bind_has(b, "cls.output", -1)) return true;
    if (b->m->config.tied) return false;
    if (checkpoint_parts(b->checkpoint)) base = "";
    return b->m->config.pooling_type != 0 || strncmp(embd->name_raw, base, strlen(base)) != 0;
}

static const char *const divisors[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                       "rope_factors_long.weight"};

/* Return false for a class with an object of rope parameters per layer type, because its divisors
 * are not a scaling. */
bool decoder_drops_divisors(const struct binder *b, const char *name)
{
    if (!checkpoint_rope_given(b->checkpoint) ||
        config_has(b, "config.rope_parameters.full_attention"))
        return false;
    for (size_t i = 0; i < sizeof divisors / sizeof divisors[0]; i++)
        if (strcmp(divisors[i], name) == 0) return true;
    return false;
}

/* Reject rope parameters of the caller if the divisors in the file were computed from other
 * parameters. */
static void check_divisors(struct binder *b)
{
    const char *flag = checkpoint_rope_given(b->checkpoint);
    if (!flag && config_given(b, "rope.freq_base")) flag = "--rope-theta";
    for (size_t i = 0; i < sizeof divisors / sizeof divisors[0] && flag && b->rc == 0; i++)
        if (checkpoint_tensor(b->checkpoint, divisors[i]) &&
            !decoder_drops_divisors(b, divisors[i]))
            b->rc = err_set(b->e, ERR_UNSUPPORTED,
                            "%s: %s: must not come with the tensor %s: not supported yet",
                            checkpoint_path(b->checkpoint), flag, divisors[i]);
}

/* Return a list of divisors in a GGUF file; NULL if none, or if a scaling of the caller replaces
 * it, as in transformers. */
static const float *bind_divisors(struct binder *b, const char *name, int n)
{
    return decoder_drops_divisors(b, name) ? NULL : bind_extra(b, name, n);
}

/* Bind the divisors of the rope in a GGUF file: one list, or two for LongRoPE. */
static void bind_factors(struct binder *b, struct rope_config *r)
{
    const int n = r->d_rot / 2;
    check_divisors(b);
    r->freq_factor = bind_divisors(b, divisors[0], n);
    if (r->long_factor) return;
    r->short_factor = bind_divisors(b, divisors[1], n);
    r->long_factor = bind_divisors(b, divisors[2], n);
    if (!r->short_factor != !r->long_factor && b->rc == 0)
        b->rc = err_set(b->e, ERR_MISSING, "%s: tensor rope_factors_%s.weight is missing",
                        checkpoint_path(b->checkpoint), r->long_factor ? "short" : "long");
}

void decoder_bind_inputs(struct binder *b, struct decoder_ends *e)
{
    const struct config *c = &b->m->config;
    bind_vocab(b);
    if (b->rc != 0) return;
    bind_table(b, &e->embd, "token_embd", 0);
    if (c->n_position > 0) bind_table(b, &e->position, "position_embd", c->position0);
    if (bind_row(b, "token_embd_norm") && !b->m->arch->output_norm)
        bind_norm(b, &e->embd_norm, "token_embd_norm", -1);
}

/* The bias of a head belongs to the head, also if the matrix is the embedding. */
static void bind_tied_head(struct binder *b, struct decoder_ends *e)
{
    const struct config *c = &b->m->config;
    bind_tied(b, &e->head, &e->embd);
    if (c->head_bias == BIAS_NONE ||
        (c->head_bias == BIAS_HELD && !checkpoint_tensor(b->checkpoint, "output.bias")))
        return;
    e->head.bias = bind_bias_values(b, "output", -1, 1, c->n_vocab);
    bind_vector(b, &e->head.bias, c->n_vocab);
}

void decoder_bind_head(struct binder *b, struct decoder_ends *e)
{
    struct config *c = &b->m->config;
    if (b->rc == 0 && is_headless(b))
        b->m->headless = true;
    else if (b->rc == 0 && head_is_tied(b))
        bind_tied_head(b, e);
    else
        bind_linear(b, &e->head, "output", -1, c->head_bias);
    if (!b->m->headless) e->at_logits = bind_outputs(b, "logits", c->n_vocab);
    if (bind_has(b, "cls.output", -1)) bind_classifier(b, NULL, BIAS_HELD);
    bind_class_tokens(b);
    if (b->rc == 0) bind_factors(b, &c->rope[ROPE_MAIN]);
    config_share_factors(c);
}

void decoder_bind(struct binder *b, void *ends)
{
    struct decoder_ends *e = ends;
    const char *norm = b->m->arch->output_norm;
    decoder_bind_inputs(b, e);
    bind_norm(b, &e->norm, norm ? norm : "output_norm", -1);
    decoder_bind_head(b, e);
}

/* ---- the forward pass ---- */

void fwd_embed(struct fwd *f, float *x, const struct tensor *embd)
{
    struct backend *b = f->m->backend;
    b->op->embed(b, x, embd, f->on_device->token, f->n_row);
}

/* Gather the rows that need outputs. All later ops compute only n_out rows, so the cost of logits
 * does not depend on the length of a prompt. */
float *fwd_wanted(struct fwd *f)
{
    struct backend *b = f->m->backend;
    const int n_out = f->batch->n_out;
    b->op->gather(b, f->h, f->x, f->on_device->out_row, n_out, f->m->config.d);
    f->n_row = n_out;
    return f->h;
}

/* Consecutive rows of one kind are computed by one call. An output may be logits and also a hidden
 * state. */
struct model_out fwd_head(struct fwd *f, const float *h, const struct decoder_ends *e)
{
    const struct batch *b = f->batch;
    struct backend *be = f->m->backend;
    const int64_t d = f->m->config.d_embd, n_vocab = e->head.w.n_out;
    float *logits = fwd_at(f, e->at_logits);
    int n_logits = 0, n_hidden = 0;
    for (int i = 0, n; i < b->n_out; i += n) {
        for (n = 1; i + n < b->n_out && b->out_kind[i + n] == b->out_kind[i];) n++;
        if (b->out_kind[i] & OUT_LOGITS) {
            CHECK(n_vocab > 0, "%s has no head", f->m->info.name);
            fwd_linear(f, logits + n_logits * n_vocab, &e->head, h + i * d, n);
            n_logits += n;
        }
        if (b->out_kind[i] & OUT_HIDDEN) {
            be->op->copy(be, f->y + n_hidden * d, h + i * d, (size_t)n * (size_t)d * sizeof(float));
            n_hidden += n;
        }
    }
    return (struct model_out){
        .logits = logits, .hidden = f->y, .n_logits = n_logits, .n_hidden = n_hidden};
}

void fwd_position(struct fwd *f, const struct tensor *position)
{
    struct backend *b = f->m->backend;
    const struct batch *batch = f->on_device;
    if (!position->data) return;
    b->op->embed(b, f->y, position, f->m->limits.n_source > 0 ? batch->place : batch->pos,
                 f->n_row);
    fwd_add(f, f->x, f->y);
}

void decoder_embed(struct fwd *f, const void *ends)
{
    const struct decoder_ends *e = ends;
    const float scale = f->m->config.embed_scale;
    fwd_embed(f, f->x, &e->embd);
    if (scale != 1) fwd_scale(f, f->x, scale);
    fwd_position(f, &e->position);
    if (e->embd_norm.g) fwd_norm(f, f->x, f->x, &e->embd_norm);
}

float *fwd_end_norm(struct fwd *f, const struct decoder_ends *e)
{
    float *h = fwd_wanted(f);
    if (e->norm.g) fwd_norm(f, h, h, &e->norm);
    trace(f, "out_norm", h, f->m->config.d);
    return h;
}

/* The results are in scratch until the next forward pass. */
struct model_out decoder_output(struct fwd *f, const void *ends)
{
    const struct decoder_ends *e = ends;
    float *h = fwd_end_norm(f, e);
    struct model_out out = fwd_head(f, h, e);
    fwd_scale_logits(f, &out, f->m->config.logit_scale);
    fwd_softcap(f, &out, f->m->config.logit_softcap);
    return out;
}
