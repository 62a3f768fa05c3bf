/* fake_test.c - goal: engine tests immediately detect that a sequence reads K and V of another
 * sequence (fake_test.h). */
#include "fake_test.h"

#include "base/check.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

const int32_t fake_start[2] = {5, 2};

uint64_t fake_mix(uint64_t h, int32_t token)
{
    h = (h ^ (uint64_t)(token + 1)) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* Set a few likely tokens, so that sampling has alternatives. */
void fake_logits(uint64_t h, float *logits)
{
    for (int i = 0; i < FAKE_VOCAB; i++) logits[i] = -4;
    for (int i = 0; i < 4; i++) logits[(h >> (i * 8)) % (FAKE_VOCAB - 1)] += 5.0f - (float)i * 0.7f;
}

static void copy_page(const struct fake *f, struct fake_cell *to, int32_t dst,
                      const struct fake_cell *from, int32_t src)
{
    memcpy(to + dst * f->page_rows, from + src * f->page_rows, (size_t)f->page_rows * sizeof *to);
}

static void do_copy(struct fake *f, const struct batch_copy *c)
{
    switch (c->kind) {
    case COPY_KV:
        copy_page(f, f->cell, c->dst, f->cell, c->src);
        break;
    case COPY_OUT:
        copy_page(f, f->host, c->dst, f->cell, c->src);
        break;
    case COPY_IN:
        copy_page(f, f->cell, c->dst, f->host, c->src);
        break;
    case COPY_STATE_OUT:
        f->host_state[c->dst] = f->state[c->src];
        break;
    case COPY_STATE_IN:
        f->state[c->dst] = f->host_state[c->src];
        f->n_state_in++;
        break;
    default:
        CHECK(false, "a copy of kind %d", c->kind);
    }
}

int fake_first_visible(const struct fake *f, int pos)
{
    return f->window && pos >= f->window ? pos - f->window + 1 : 0;
}

/* Return the cell of position p of sequence s; NULL if its page is a hole. */
static struct fake_cell *cell_at(const struct fake *f, const struct batch *b, int s, int p)
{
    int32_t page = b->page[s * b->page_stride + p / f->page_rows];
    return page < 0 ? NULL : &f->cell[page * f->page_rows + p % f->page_rows];
}

static int source_of(const struct fake *f, const struct batch *b, int s)
{
    return f->limits.n_source > 0 ? b->source[s] : 0;
}

/* Check the cells of a source: each depends on all its tokens. */
static void check_source(struct fake *f, const struct batch *b, int s)
{
    uint64_t h = 1;
    const int n = source_of(f, b, s);
    for (int p = 0; p < n; p++) h = fake_mix(h, cell_at(f, b, s, p)->token);
    for (int p = 0; p < n; p++)
        if (cell_at(f, b, s, p)->prefix != fake_mix(h, p))
            f->wrong = "a page of a source has another text";
}

static bool is_long_row(const struct batch *b, int row)
{
    return b->limits.n_short > 0 && b->angle[row] != b->pos[row];
}

/* Return the hash of the tokens that the row of sequence s attends to, read from its pages. */
static uint64_t read_prefix(struct fake *f, const struct batch *b, int s, int row)
{
    const int pos = b->pos[row];
    uint64_t h = is_long_row(b, row) ? 2 : 1;
    const struct fake_cell *before = NULL;
    const int source = source_of(f, b, s);
    if (source > 0) check_source(f, b, s);
    for (int p = fake_first_visible(f, pos); p <= pos; p++) {
        const struct fake_cell *c = cell_at(f, b, s, p);
        if (!c) {
            f->wrong = "a row attends to a hole";
            return 0;
        }
        if (c->pos != p) f->wrong = "a slot holds another position";
        if (c->is_long != is_long_row(b, row)) f->wrong = "a row attends to a key of another rope";
        if (before && p > source && /* check_source has compared the cells of the source */
            c->prefix != fake_mix(before->prefix, c->token))
            f->wrong = "a page follows a page of another prefix";
        h = fake_mix(h, c->token);
        before = c;
    }
    return h;
}

/* Write a row of a source, whose other rows are in the step. */
static void write_source(struct fake *f, const struct batch *b, int s, int row)
{
    uint64_t h = 1;
    for (int i = b->row0[s]; i < b->row0[s + 1]; i++) h = fake_mix(h, b->token[i]);
    f->cell[b->slot[row]] = (struct fake_cell){b->token[row], b->pos[row], fake_mix(h, b->pos[row]),
                                               is_long_row(b, row)};
}

static void write_row(struct fake *f, const struct batch *b, int s, int row)
{
    int pos = b->pos[row];
    const struct fake_cell *before =
        pos > fake_first_visible(f, pos) ? cell_at(f, b, s, pos - 1) : NULL;
    if (page_refs(f->pages, b->slot[row] / f->page_rows) != 1)
        f->wrong = "a row writes to a page of other holders";
    if (pos < source_of(f, b, s)) {
        write_source(f, b, s, row);
        return;
    }
    f->cell[b->slot[row]] =
        (struct fake_cell){b->token[row], pos, fake_mix(before ? before->prefix : 1, b->token[row]),
                           is_long_row(b, row)};
}

/* ---- recurrent state ---- */

static uint64_t meaning(uint64_t seen, uint64_t state)
{
    return fake_mix(seen ^ state * 3, 0);
}

uint64_t fake_meaning(const struct fake *f, const int32_t *token, int n)
{
    uint64_t seen = f->limits.n_short > 0 && n > f->limits.n_short ? 2 : 1, state = 1;
    for (int p = fake_first_visible(f, n - 1); p < n; p++) seen = fake_mix(seen, token[p]);
    for (int p = 0; p < n; p++) state = fake_mix(state, token[p]);
    return f->limits.n_state ? meaning(f->no_kv ? 1 : seen, state) : seen;
}

static void go_on(struct fake *f, const struct batch *b, int s)
{
    struct fake_state x = {0, 1};
    if (b->state_in[s] >= 0) x = f->state[b->state_in[s]];
    if (x.n_token != b->pos[b->row0[s]])
        f->wrong = "a state differs from the state of the previous tokens";
    for (int row = b->row0[s]; row < b->row0[s + 1]; row++) {
        int32_t to = b->state_out[row];
        x = (struct fake_state){x.n_token + 1, fake_mix(x.hash, b->token[row])};
        f->behind[row] = x.hash;
        if (to < 0) continue;
        if (page_refs(f->states, to) != 1) f->wrong = "a row writes a state of other holders";
        f->state[to] = x;
    }
}

static struct model_out forward(void *ctx, const struct batch *b)
{
    struct fake *f = ctx;
    const char *wrong = batch_check(b, FAKE_VOCAB, f->n_page, f->page_rows);
    if (wrong) f->wrong = wrong;
    for (int i = 0; i < b->n_copy; i++) do_copy(f, &b->copy[i]);
    for (int s = 0; s < b->n_seq && f->limits.n_state; s++) go_on(f, b, s);
    for (int s = 0; s < b->n_seq; s++)
        for (int row = b->row0[s]; row < b->row0[s + 1]; row++) write_row(f, b, s, row);
    for (int i = 0, s = 0; i < b->n_out; i++) {
        while (b->out_row[i] >= b->row0[s + 1]) s++;
        int row = b->out_row[i];
        uint64_t seen = f->no_kv ? 1 : read_prefix(f, b, s, row);
        fake_logits(f->limits.n_state ? meaning(seen, f->behind[row]) : seen,
                    f->logits + i * FAKE_VOCAB);
    }
    f->now_us += 1000 + 100 * b->n_row;
    if (f->jump_every && rng_below(&f->rng, (uint64_t)f->jump_every) == 0)
        f->now_us += (int64_t)rng_below(&f->rng, 200000);
    f->n_row += b->n_row;
    f->n_step++;
    return (struct model_out){.logits = f->logits};
}

static int64_t now_us(void *ctx)
{
    return ((struct fake *)ctx)->now_us;
}

/* ---- open and close ---- */

int fake_open(struct fake *f, struct err *e)
{
    f->cell = calloc((size_t)(f->n_page * f->page_rows), sizeof *f->cell);
    f->host = calloc((size_t)(f->n_host_page * f->page_rows) + 1, sizeof *f->host);
    f->logits = calloc((size_t)f->limits.n_out * FAKE_VOCAB, sizeof *f->logits);
    f->state = calloc((size_t)f->limits.n_state + 1, sizeof *f->state);
    f->host_state = calloc((size_t)f->n_host_state + 1, sizeof *f->host_state);
    f->behind = calloc((size_t)f->limits.n_row, sizeof *f->behind);
    if (f->cell && f->host && f->logits && f->state && f->host_state && f->behind) return 0;
    return err_memory(e, "the fake model", (unsigned long long)f->n_page * sizeof *f->cell);
}

void fake_close(struct fake *f)
{
    free(f->cell);
    free(f->host);
    free(f->logits);
    free(f->state);
    free(f->host_state);
    free(f->behind);
}

struct executor fake_executor(struct fake *f)
{
    return (struct executor){.ctx = f,
                             .n_vocab = FAKE_VOCAB,
                             .n_page = f->n_page,
                             .page_rows = f->page_rows,
                             .n_host_page = f->n_host_page,
                             .page_bytes = f->no_kv ? 0 : 1000 * f->page_rows,
                             .n_host_state = f->n_host_state,
                             .state_bytes = 5000,
                             .prefill_rate = 0.01,
                             .window = f->window,
                             .start = fake_start,
                             .n_start = f->n_start,
                             .limits = &f->limits,
                             .pool = f->pool,
                             .forward = forward,
                             .now_us = now_us};
}
