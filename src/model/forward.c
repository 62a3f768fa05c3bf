/* forward.c - one batch through the model: straight-line code over the backend's ops, no graph.
 *
 *   copies -> embed -> layers (arch/) -> rows that are wanted -> output norm -> head -> logits */
#include "model_impl.h"

#include <string.h>

void trace(struct fwd *f, const char *name, const float *x, int64_t n)
{
    if (f->m->trace) f->m->trace(f->m->trace_ctx, f->il, name, x, f->n_row, n);
}

/* The scratch, in this order: x h y | q attn | k v | gate up | logits. Each buffer begins on a 64-byte
 * border. Behind the layers, the rows that are wanted lie in h, and hidden states in y. */
static int64_t take(float **at, int64_t n)
{
    n = (n + 15) / 16 * 16;
    if (*at) *at += n;
    return n;
}

struct scratch {
    struct fwd f;
    float *logits;
};

/* Lay the buffers out from `base` (NULL: only measure). Returns the floats used. */
static int64_t lay_out(struct scratch *s, float *base, const struct config *c,
                       const struct batch_limits *l)
{
    int64_t row = l->n_row, out = l->n_out, total = 0;
    int64_t d_q = (int64_t)c->n_head * c->d_head, d_kv = (int64_t)c->n_head_kv * c->d_head;
    struct {
        float **at;
        int64_t n;
    } part[] = {
        {&s->f.x, row * c->d},          {&s->f.h, row * c->d},       {&s->f.y, row * c->d},
        {&s->f.q, row * d_q},           {&s->f.attn, row * d_q},     {&s->f.k, row * d_kv},
        {&s->f.v, row * d_kv},          {&s->f.gate, row * c->d_ff}, {&s->f.up, row * c->d_ff},
        {&s->logits, out * c->n_vocab},
    };
    float *at = base;
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        *part[i].at = at;
        total += take(&at, part[i].n);
    }
    return total;
}

int64_t forward_scratch_floats(const struct config *c, const struct batch_limits *l)
{
    struct scratch s;
    return lay_out(&s, NULL, c, l);
}

static void do_copies(struct model *m, const struct batch *b)
{
    for (int i = 0; i < b->n_copy; i++) {
        const struct batch_copy *c = &b->copy[i];
        if (c->kind == COPY_OUT) kv_store_out(&m->kv, c->src, c->dst);
        if (c->kind == COPY_IN) kv_store_in(&m->kv, c->src, c->dst);
        for (int il = 0; il < m->kv.n_layer && c->kind == COPY_KV; il++)
            m->backend->op->kv_copy(m->backend, &m->kv.layer[il], c->src, c->dst);
    }
}

static int32_t highest(const int32_t *x, int n)
{
    int32_t most = -1;
    for (int i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

static void embed(struct fwd *f)
{
    const struct batch *b = f->batch;
    struct backend *be = f->m->backend;
    be->op->embed(be, f->x, &f->m->embd, b->token, b->n_row);
    for (int i = 0; i < b->n_embd; i++)
        memcpy(f->x + (int64_t)b->embd_row[i] * f->m->config.d, b->embd + (int64_t)i * b->d_embd,
               (size_t)f->m->config.d * sizeof(float));
}

/* The rows that are wanted, normalized; runs of logits rows go through the head, hidden rows are
 * copied. */
static struct model_out outputs(struct scratch *s)
{
    struct fwd *f = &s->f;
    struct model *m = f->m;
    const struct batch *b = f->batch;
    struct backend *be = m->backend;
    float *picked = f->h, *hidden = f->y;
    int d = m->config.d, n_logits = 0, n_hidden = 0;
    be->op->gather(be, picked, f->x, b->out_row, b->n_out, d);
    be->op->rms_norm(be, picked, picked, m->out_norm.g, b->n_out, d, m->out_norm.eps);
    f->n_row = b->n_out;
    trace(f, "out_norm", picked, d);
    for (int i = 0, n; i < b->n_out; i += n) {
        for (n = 1; i + n < b->n_out && b->out_kind[i + n] == b->out_kind[i];) n++;
        const float *from = picked + (int64_t)i * d;
        if (b->out_kind[i] == OUT_LOGITS) {
            be->op->linear(be, s->logits + (int64_t)n_logits * m->config.n_vocab, &m->head, from,
                           n);
            n_logits += n;
        } else {
            memcpy(hidden + (int64_t)n_hidden * d, from, (size_t)n * (size_t)d * sizeof(float));
            n_hidden += n;
        }
    }
    return (struct model_out){.logits = s->logits, .hidden = hidden};
}

struct model_out model_forward(struct model *m, const struct batch *b)
{
    struct scratch s;
    const unsigned plain = m->backend->plain;
    do_copies(m, b);
    if (b->n_row == 0) return (struct model_out){0};
    if (m->trace) m->backend->plain = ~0u; /* only then is everything that is traced there */
    lay_out(&s, m->scratch, &m->config, &m->limits);
    struct fwd *f = &s.f;
    f->m = m;
    f->batch = b;
    f->n_row = b->n_row;
    f->il = -1;
    rope_reach(m, highest(b->pos, b->n_row));
    kv_store_reach(&m->kv, highest(b->slot, b->n_row) / m->kv.page_rows);
    embed(f);
    trace(f, "embd", f->x, m->config.d);
    for (f->il = 0; f->il < m->config.n_layer; f->il++) {
        m->arch->layer(f, (char *)m->layer + (size_t)f->il * m->layer_bytes, f->il);
        trace(f, "layer_out", f->x, m->config.d);
    }
    f->il = -1;
    struct model_out out = outputs(&s);
    m->backend->plain = plain;
    return out;
}
