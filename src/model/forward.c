/* forward.c - compute one batch with the model, by calls of the backend's ops, without a graph.
 *
 *   copies -> embed -> layers -> result rows: norm, head -> results
 *
 * In a model of encoder and decoder, the encoder first computes the rows of sources
 * (block/cross.c).
 *
 * The architecture defines embedding, layers and results (arch/). */
#include "model_impl.h"

#include "base/check.h"

/* Return a copy on the host of the n floats at x in scratch. No other function copies scratch to
 * the host. */
static float *fetch(struct model *m, const float *x, int64_t n)
{
    const int64_t at = x - m->memory;
    CHECK(at >= 0 && n >= 0 && at + n <= m->n_scratch, "%lld floats at %lld", (long long)n,
          (long long)at);
    if (n > 0 && m->host != m->memory)
        m->backend->op->read(m->backend, m->host + at, x, (size_t)n * sizeof *x);
    return m->host + at;
}

int32_t *fwd_host_ids(struct fwd *f, int scratch)
{
    float *host = f->m->host + (fwd_at(f, scratch) - f->m->memory);
    return (int32_t *)(void *)host;
}

const int32_t *fwd_put_ids(struct fwd *f, int scratch)
{
    struct backend *b = f->m->backend;
    const int32_t *host = fwd_host_ids(f, scratch);
    int32_t *at = (int32_t *)(void *)fwd_at(f, scratch);
    if (host != at) b->op->write(b, at, host, (size_t)f->n_row * sizeof *host);
    return at;
}

void trace(struct fwd *f, const char *name, const float *x, int64_t n)
{
    struct model *m = f->m;
    if (m->trace) m->trace(m->trace_ctx, f->il, name, fetch(m, x, f->n_row * n), f->n_row, n);
}

static void copy_page(struct model *m, const struct batch_copy *c)
{
    switch (c->kind) {
    case COPY_KV:
        kv_store_copy(&m->kv, c->src, c->dst);
        break;
    case COPY_OUT:
        kv_store_out(&m->kv, c->src, c->dst);
        break;
    case COPY_IN:
        kv_store_in(&m->kv, c->src, c->dst);
        break;
    case COPY_STATE_OUT:
        state_store_out(&m->states, c->src, c->dst);
        break;
    case COPY_STATE_IN:
        state_store_in(&m->states, c->src, c->dst);
        break;
    default:
        CHECK(false, "a copy of kind %d from %d to %d", c->kind, c->src, c->dst);
    }
}

static void copy_pages(struct model *m, const struct batch *b)
{
    for (int i = 0; i < b->n_copy; i++) copy_page(m, &b->copy[i]);
}

static int32_t highest(const int32_t *x, int n)
{
    int32_t max = -1;
    for (int i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

/* Replace the tokens of other parts by the padding token, like the class of several parts. */
static void put_padding(struct model *m, struct batch *b)
{
    const struct config *c = &m->config;
    for (int i = 0; i < b->n_row; i++) {
        bool padded = false;
        for (int k = 0; k < c->n_padded; k++) padded |= b->token[i] == c->padded[k];
        m->token[i] = padded ? c->pad : b->token[i];
    }
    b->token = m->token;
}

void fwd_layers(struct fwd *f, int from, int to)
{
    struct model *m = f->m;
    const struct arch *arch = m->arch;
    for (f->il = from; f->il < to; f->il++) {
        (arch->layer ? arch->layer
                     : decoder_layer)(f, (char *)m->layer + (size_t)f->il * m->layer_bytes);
        trace(f, "layer_out", f->x, m->config.d);
    }
    f->il = -1;
}

/* Compute the rows of f. The sources are already computed if the rows attend to sources. */
static struct model_out decode(struct fwd *f)
{
    struct model *m = f->m;
    const struct arch *arch = m->arch;
    (arch->embed ? arch->embed : decoder_embed)(f, m->ends);
    trace(f, "embd", f->x, m->config.d);
    fwd_layers(f, m->config.n_encoder, m->config.n_layer);
    return (arch->output ? arch->output : decoder_output)(f, m->ends);
}

/* Compute the rows of sources, then all other rows. No sequence has rows of both kinds, because a
 * decoder's first row is in the step after its source. */
static struct model_out encode_and_decode(struct fwd *f)
{
    const struct batch *b = f->batch, *on_device = f->on_device;
    const int s0 = batch_source0(b);
    const struct batch source = batch_seqs(b, b, s0, b->n_seq),
                       source_on_device = batch_seqs(on_device, b, s0, b->n_seq),
                       target = batch_seqs(b, b, 0, s0),
                       target_on_device = batch_seqs(on_device, b, 0, s0);
    if (source.n_row > 0) {
        f->batch = &source, f->on_device = &source_on_device, f->n_row = source.n_row;
        fwd_source(f);
    }
    if (target.n_row == 0) return (struct model_out){0};
    f->batch = &target, f->on_device = &target_on_device, f->n_row = target.n_row;
    return decode(f);
}

struct model_out model_forward(struct model *m, const struct batch *batch)
{
    struct batch own = *batch;
    const struct batch *b = &own;
    const unsigned plain = m->backend->plain;
    CHECK(b->n_row <= m->limits.n_row && b->n_seq <= m->limits.n_seq,
          "%d rows of %d, %d sequences of %d", b->n_row, m->limits.n_row, b->n_seq,
          m->limits.n_seq);
    CHECK(b->n_row == 0 || b->row0[b->n_seq] == b->n_row, "%d rows, %d of sequences", b->n_row,
          b->row0[b->n_seq]);
    copy_pages(m, b);
    if (b->n_row == 0) return (struct model_out){0};
    if (m->config.n_padded > 0) put_padding(m, &own);
    /* fused ops would skip intermediates that the trace needs */
    if (m->trace) m->backend->plain = ~0u;
    struct fwd f = {.m = m, .batch = b, .n_row = b->n_row, .il = -1};
    f.on_device = m->backend->op->begin(m->backend, b);
    f.x = fwd_at(&f, m->at_x), f.h = fwd_at(&f, m->at_h), f.y = fwd_at(&f, m->at_y);
    f.angle = m->limits.n_short > 0 ? f.on_device->angle : f.on_device->pos;
    rope_reach(m, m->limits.n_short > 0 ? b->angle : b->pos, b->n_row);
    kv_store_reach(&m->kv, highest(b->slot, b->n_row) / m->kv.page_rows);
    struct model_out out = m->config.n_encoder > 0 ? encode_and_decode(&f) : decode(&f);
    if (out.logits) { /* NULL if the step has only rows of sources */
        out.logits = fetch(m, out.logits, (int64_t)out.n_logits * m->config.n_vocab);
        out.hidden = fetch(m, out.hidden, (int64_t)out.n_hidden * m->config.d_embd);
    }
    m->backend->plain = plain;
    return out;
}
