/* dummy_data.c - fast generation of the bytes of random weights.
 *
 * Encoding billions of random numbers would take minutes. Number formats that search a grid would
 * take hours. Therefore one tile of 128 cells of 256 numbers is encoded for each number format and
 * standard deviation. A tensor is a sequence of cells of its tile. A hash of (seed, tensor, j)
 * selects cell number j. Rows therefore differ, and any part of a tensor can be generated alone, by
 * copying cells. Generating the weights of an 8 B model in 4 bits takes seconds, not minutes. The
 * operating system uses most of this time to clear pages.
 *
 * A random number is the sum of twelve uniform numbers. Its distribution is almost normal, and its
 * value is the same on every machine. */
#include "format_impl.h"

#include "base/cancel.h"
#include "base/cores.h"
#include "base/os.h"
#include "base/pool.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* CELL: number of values of a cell, the largest block of all formats. TILE_CELLS: number of cells
 * of a tile; a tensor repeats these cells, so that encoding takes little time. PIECE_BYTES: number
 * of bytes that one thread copies at a time. */
enum { CELL = 256, TILE_CELLS = 128, PIECE_BYTES = 1 << 20, ALIGN_BYTES = 64 };

struct dummy_tile {
    enum qtype type;
    struct dummy_fill fill;
    size_t cell_bytes; /* bytes of one cell of 256 encoded numbers */
    uint8_t *data;     /* encoded cells, owned [TILE_CELLS, cell_bytes] */
};

struct tensor_source { /* Source of the bytes of one tensor. */
    int tile;          /* index of the tile; -1: the tensor already has its data */
    uint64_t seed;
};

struct dummy {
    uint64_t seed;
    /* threads that generate the bytes, owned; NULL after the generation */
    struct pool *pool;
    struct checkpoint *checkpoint; /* source of the shape, owned; NULL if none */
    VEC(struct dummy_tile) tile;
    VEC(struct tensor_source) source; /* sources of the tensors [n_tensor] */
    uint8_t *memory;                  /* bytes of all tensors, owned; NULL if none */
    size_t memory_bytes;              /* size of `memory` */
    bool outlined;                    /* true: `memory` has few of the bytes (checkpoint_outline) */
};

int dummy_open(struct checkpoint *c, uint64_t seed, struct err *e)
{
    c->dummy = calloc(1, sizeof *c->dummy);
    if (!c->dummy) return err_memory(e, "a model of random weights", sizeof *c->dummy);
    c->dummy->seed = seed;
    return pool_open(&c->dummy->pool, cores_usable(), e);
}

void dummy_keep(struct checkpoint *c, struct checkpoint *take_source)
{
    c->dummy->checkpoint = take_source;
}

void dummy_close(struct dummy *d)
{
    if (!d) return;
    for (size_t i = 0; i < d->tile.n; i++) free(d->tile.v[i].data);
    vec_deinit(&d->tile);
    vec_deinit(&d->source);
    os_free(d->memory, d->memory_bytes);
    pool_close(d->pool);
    checkpoint_close(d->checkpoint);
    free(d);
}

/* ---- tiles ---- */

/* Return a random number of mean 0 and variance 1. The variance is 1 because each of the twelve
 * uniform numbers has the variance 1/12. */
static float normal(uint64_t *state)
{
    float sum = -6;
    for (int i = 0; i < 12; i++) sum += rng_float(state);
    return sum;
}

struct tile_job {
    const struct dummy_tile *tile; /* borrowed */
    uint64_t seed;
};

static void encode_cell(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct tile_job *j = ctx;
    const struct dummy_tile *t = j->tile;
    float x[CELL];
    uint64_t state = j->seed + (uint64_t)chunk;
    /* without this step, the streams of neighbouring seeds would overlap */
    state = rng_next(&state);
    for (int i = 0; i < CELL; i++) x[i] = t->fill.mean + t->fill.sd * normal(&state);
    qtype_info[t->type].ops->encode(t->data + (size_t)chunk * t->cell_bytes, x, CELL, NULL);
}

/* Generate a tile. The bytes remain zero if the type is an integer type or cannot be encoded. */
static int make_tile(struct dummy *d, struct dummy_tile *t, struct err *e)
{
    t->cell_bytes = qtype_bytes(t->type, CELL);
    t->data = calloc(TILE_CELLS, t->cell_bytes);
    if (!t->data) return err_memory(e, "random weights", TILE_CELLS * t->cell_bytes);
    struct tile_job j = {t, hash_bytes(&t->fill, sizeof t->fill, d->seed + (uint64_t)t->type)};
    const struct qtype_ops *ops = qtype_info[t->type].ops;
    if (ops && ops->encode) pool_run(d->pool, encode_cell, &j, TILE_CELLS);
    return 0;
}

/* Return the index of a tile, or ERR_*. Generate the tile at its first use. */
static int find_tile(struct dummy *d, enum qtype type, struct dummy_fill fill, struct err *e)
{
    for (size_t i = 0; i < d->tile.n; i++) {
        const struct dummy_tile *t = &d->tile.v[i];
        if (t->type == type && t->fill.mean == fill.mean && t->fill.sd == fill.sd) return (int)i;
    }
    struct dummy_tile t = {.type = type, .fill = fill};
    int rc = make_tile(d, &t, e);
    if (rc == 0 && vec_push(&d->tile, t)) return (int)d->tile.n - 1;
    free(t.data);
    return rc ? rc : err_memory(e, "random weights", sizeof t);
}

/* ---- tensors ---- */

int dummy_add(struct checkpoint *c, struct dummy_fill fill, struct err *e)
{
    struct dummy *d = c->dummy;
    const struct tensor_info *t = &c->tensor.v[d->source.n];
    int tile = t->data ? -1 : find_tile(d, t->type, fill, e);
    if (tile < -1) return tile;
    struct tensor_source s = {tile, hash_bytes(t->name, strlen(t->name), d->seed)};
    return vec_push(&d->source, s) ? 0 : err_memory(e, "the tensor list", sizeof s);
}

/* Return the cell of the tile that is cell number `cell` of a tensor. */
static size_t pick(uint64_t seed, uint64_t cell)
{
    /* one step of splitmix, for random access */
    uint64_t state = seed + cell * 0x9E3779B97F4A7C15u;
    return (size_t)(rng_next(&state) % TILE_CELLS);
}

/* Make bytes [at, at + n) of tensor i. */
static void make_bytes(const struct dummy *d, int i, size_t at, size_t n, uint8_t *out)
{
    const struct tensor_source *s = &d->source.v[i];
    const struct dummy_tile *t = &d->tile.v[s->tile];
    for (size_t done = 0; done < n;) {
        size_t cell = (at + done) / t->cell_bytes, from = (at + done) % t->cell_bytes,
               part = t->cell_bytes - from < n - done ? t->cell_bytes - from : n - done;
        memcpy(out + done, t->data + pick(s->seed, cell) * t->cell_bytes + from, part);
        done += part;
    }
}

/* Pointers are borrowed. */
struct dummy_job {
    const struct dummy *d;
    int tensor;
    uint8_t *out;
    size_t n;
};

static void make_piece(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct dummy_job *j = ctx;
    size_t at = (size_t)chunk * PIECE_BYTES, n = j->n - at < PIECE_BYTES ? j->n - at : PIECE_BYTES;
    make_bytes(j->d, j->tensor, at, n, j->out + at);
}

/* Return n rounded up to the alignment, because tensors begin at cache lines. */
static size_t padded(size_t n)
{
    return (n + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* Generate all tensors in sequence, in one block of memory. */
static int make_all(struct dummy *d, struct checkpoint *c, struct err *e)
{
    size_t total = ALIGN_BYTES;
    for (size_t i = 0; i < c->tensor.n; i++)
        if (!c->tensor.v[i].data) total += padded(c->tensor.v[i].n_byte);
    uint64_t room = os_memory_free();
    if (total > room)
        return err_set(e, ERR_LIMIT, "%s: %zu MiB of random weights do not fit into %llu MiB",
                       c->path, total >> 20, (unsigned long long)(room >> 20));
    uint8_t *at = d->memory = os_alloc(d->memory_bytes = total);
    if (!at) return err_memory(e, "random weights", total);
    for (size_t i = 0; i < c->tensor.n; i++) {
        struct tensor_info *t = &c->tensor.v[i];
        if (t->data) continue;
        if (cancelled()) return err_cancelled(e);
        struct dummy_job j = {d, (int)i, at, t->n_byte};
        pool_run(d->pool, make_piece, &j, (int)((t->n_byte + PIECE_BYTES - 1) / PIECE_BYTES));
        t->data = at;
        at += padded(t->n_byte);
    }
    return 0;
}

int dummy_finish(struct checkpoint *c, bool no_data, struct err *e)
{
    int rc = no_data ? 0 : make_all(c->dummy, c, e);
    pool_close(c->dummy->pool);
    c->dummy->pool = NULL;
    return rc;
}

void dummy_clear(struct checkpoint *c)
{
    for (size_t i = 0; i < c->tensor.n; i++)
        if (c->dummy->source.v[i].tile >= 0) c->tensor.v[i].data = NULL;
}

/* Return the number of bytes of a tensor that an outline contains. */
static size_t outlined(const struct tensor_info *t)
{
    const size_t n = t->n_dim == 1                      ? PIECE_BYTES
                     : strncmp(t->name, "blk.", 4) != 0 ? ALIGN_BYTES
                                                        : 0;
    return n < t->n_byte ? n : t->n_byte;
}

/* Vectors are placed first, so that many vectors share one page. */
int checkpoint_outline(struct checkpoint *c, struct err *e)
{
    struct dummy *d = c->dummy;
    size_t total = ALIGN_BYTES;
    if (!d || d->memory) return 0;
    for (size_t i = 0; i < c->tensor.n; i++) {
        const struct tensor_info *t = &c->tensor.v[i];
        if (t->data) continue;
        if (t->n_byte > SIZE_MAX / 4 - total) return err_memory(e, "random weights", t->n_byte);
        total += padded(t->n_byte);
    }
    uint8_t *at = d->memory = os_alloc(d->memory_bytes = total);
    if (!at) return err_memory(e, "random weights", total);
    d->outlined = true;
    for (int vectors = 1; vectors >= 0; vectors--)
        for (size_t i = 0; i < c->tensor.n; i++) {
            struct tensor_info *t = &c->tensor.v[i];
            if (t->data || (t->n_dim == 1) != vectors) continue;
            make_bytes(d, (int)i, 0, outlined(t), at);
            t->data = at;
            at += padded(t->n_byte);
        }
    return 0;
}

const uint8_t *checkpoint_bytes(const struct checkpoint *c, int i, size_t at, size_t n,
                                uint8_t *scratch)
{
    const struct tensor_info *t = &c->tensor.v[i];
    const struct dummy *d = c->dummy;
    const bool partial = d && d->outlined && d->source.v[i].tile >= 0;
    if (t->data && !partial) return t->data + at;
    make_bytes(d, i, at, n, scratch);
    return scratch;
}
