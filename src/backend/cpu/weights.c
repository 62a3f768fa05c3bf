/* weights.c - a model's tensors as panels (kern.h), packed once by all threads.
 *
 *   cache    ----> packed_open --> found: mapped
 *                      | missing or damaged
 *                  packed_make --> packed into a new cache file, which is mapped
 *                      | no space, read-only folder ...
 *   no cache ----> packed into memory
 *
 * Packing reads the checkpoint's map from the beginning to the end. After packing, the map's pages
 * can be dropped. Memory contains the panels only once. The panels are pages of a file that all
 * processes share, or memory of the backend. The backend's memory uses huge pages, which not every
 * system supports for files. */
#include "cpu_impl.h"

#include "base/cancel.h"
#include "base/log.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* A piece and its source, which is not larger, fit together into an L2 cache of 512 kB.
     * Claiming a piece takes about 1 us (docs/measurements.md, "The machine, the threads"); packing
     * it takes 190 us at 1.34 GB/s. */
    PIECE_BYTES = 256 << 10,
    SLICE_PIECES = 256, /* pieces of a phase and a progress report: 64 MB, 50 ms at 1.34 GB/s */
    /* pieces per thread of a phase if models share the threads and wait for the phase: 0.8 ms at
     * 1.34 GB/s, 6 ms for the slowest formats (docs/measurements.md, "Packing, and AMX") */
    SHARED_PIECES = 4,
};

struct weights {
    const uint8_t *data;       /* panels, owned: a part of map, or memory of the backend */
    size_t n_byte;             /* size of the panels */
    struct file_map map;       /* file that contains data; zeros: data is the backend's memory */
    struct resident *resident; /* part of the panels that is in memory, owned; NULL: all */
};

struct panels cpu_panels(const struct tensor *t)
{
    return (struct panels){.type = t->type,
                           .n_out = (int)t->n_out,
                           .k = (int)t->k,
                           .stride = panel_bytes(t->type, (int)t->k),
                           .data = t->data};
}

/* ---- layout ---- */

const struct weight_place *layout_place(const struct layout *l, const uint8_t *rows)
{
    for (int i = 0; i < l->n_place; i++)
        if (l->place[i].rows == rows) return &l->place[i];
    return NULL;
}

/* Return the number of panels of all matrices of a place. Each matrix begins with a new panel. */
static int place_panels(const struct weight_place *p)
{
    return p->n_matrix * panel_count(p->to.n_out);
}

/* Append a tensor's place to the layout. Places follow each other without gaps. */
static void add_place(struct layout *l, const struct tensor *t)
{
    struct weight_place *p = &l->place[l->n_place++];
    *p = (struct weight_place){.name = t->name ? t->name : "",
                               .rows = t->data,
                               .from = t->from,
                               .n_matrix = t->n_expert ? t->n_expert : 1,
                               .row_bytes = (int64_t)qtype_bytes(t->type, t->k),
                               .to = cpu_panels(t),
                               .at = l->n_byte,
                               .piece0 = l->n_piece};
    p->to.data = NULL;
    int per = (int)(PIECE_BYTES / p->to.stride), n_panel = place_panels(p);
    p->panels_per_piece = per > 1 ? per : 1;
    size_t piece_bytes = (size_t)(p->panels_per_piece * p->to.stride);
    if (piece_bytes > l->piece_bytes_max) l->piece_bytes_max = piece_bytes;
    l->n_piece += (n_panel + p->panels_per_piece - 1) / p->panels_per_piece;
    l->n_byte += (size_t)n_panel * (size_t)p->to.stride;
}

/* Allocate memory for each thread's rows of a panel, for matrices that are not FORM_ROWS. */
static int make_room(struct layout *l, int n_thread, struct err *e)
{
    for (int i = 0; i < l->n_place; i++) {
        const struct weight_place *p = &l->place[i];
        const size_t n = (size_t)p->row_bytes * PANEL;
        if (p->from && p->from->form != FORM_ROWS && n > l->made_bytes) l->made_bytes = n;
    }
    const size_t n_byte = (size_t)n_thread * l->made_bytes;
    l->made = n_byte ? malloc(n_byte) : NULL;
    return n_byte && !l->made ? err_memory(e, "rows to be packed", n_byte) : 0;
}

int layout_open(struct layout *l, struct tensor *const *tensor, int n, int n_thread, struct err *e)
{
    *l = (struct layout){.cancel = cancel_flag, .place = calloc((size_t)n + 1, sizeof *l->place)};
    if (!l->place) return err_memory(e, "the tensor list", (size_t)n * sizeof *l->place);
    for (int i = 0; i < n; i++)
        if (!layout_place(l, tensor[i]->data)) add_place(l, tensor[i]);
    return make_room(l, n_thread, e);
}

void layout_close(struct layout *l)
{
    free(l->place);
    free(l->made);
    *l = (struct layout){0};
}

/* ---- pieces ---- */

/* Find the place of piece i by binary search. The result is the last place whose piece0 is at most
 * i. */
struct pack_piece layout_piece(const struct layout *l, int i)
{
    int lo = 0, hi = l->n_place - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (l->place[mid].piece0 <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    const struct weight_place *p = &l->place[lo];
    int first = (i - p->piece0) * p->panels_per_piece, rest = place_panels(p) - first;
    int n = rest < p->panels_per_piece ? rest : p->panels_per_piece;
    return (struct pack_piece){.place = p,
                               .first = first,
                               .n = n,
                               .at = p->at + (size_t)first * (size_t)p->to.stride,
                               .n_byte = (size_t)n * (size_t)p->to.stride};
}

/* Return true if the panels are no longer needed. Any worker. */
static bool is_cancelled(const struct layout *l)
{
    return l->cancel && atomic_load_explicit(l->cancel, memory_order_relaxed);
}

/* Pack panels [first, first + n) of one matrix. */
static void pack_matrix(uint8_t *to, const struct layout *l, const struct weight_place *place,
                        int matrix, int first, int n, int worker)
{
    struct panels w = place->to;
    const struct published *p = place->from ? &place->from[matrix] : NULL;
    if (!p || p->form == FORM_ROWS) {
        const uint8_t *rows =
            p ? p->rows : place->rows + matrix * place->to.n_out * place->row_bytes;
        w.n_out -= first * PANEL;
        panel_pack(to, &w, rows + (int64_t)first * PANEL * place->row_bytes, place->row_bytes, 0,
                   n);
        return;
    }
    uint8_t *made = l->made + (size_t)worker * l->made_bytes;
    for (int i = first; i < first + n && !is_cancelled(l); i++, to += w.stride) {
        const int rest = place->to.n_out - i * PANEL, n_row = rest < PANEL ? rest : PANEL;
        published_rows(made, p, w.type, (int64_t)i * PANEL, n_row, w.k);
        w.n_out = n_row;
        panel_pack(to, &w, made, place->row_bytes, 0, 1);
    }
}

/* Pack a piece. The piece may begin in one matrix and end in the next if experts are smaller than a
 * piece. */
void piece_pack(uint8_t *to, const struct layout *l, const struct pack_piece *p, int worker)
{
    const int per = panel_count(p->place->to.n_out);
    for (int done = 0, n; done < p->n && !is_cancelled(l); done += n) {
        const int matrix = (p->first + done) / per, first = (p->first + done) % per;
        n = per - first < p->n - done ? per - first : p->n - done;
        pack_matrix(to + done * p->place->to.stride, l, p->place, matrix, first, n, worker);
    }
}

/* Pieces for fn(job), beginning with piece `first`. Pointers are borrowed for the call. */
struct slice {
    pool_fn *fn;
    void *job;
    int first;
};

static void slice_piece(void *ctx, int i, int worker)
{
    const struct slice *s = ctx;
    s->fn(s->job, s->first + i, worker);
}

int pieces_run(struct cpu_backend *c, const struct layout *l, pool_fn *fn, void *job,
               const struct weights_options *o, struct err *e)
{
    const int shared = SHARED_PIECES * pool_n_thread(c->pool);
    const int slice = pool_is_shared(c->pool) && shared < SLICE_PIECES ? shared : SLICE_PIECES;
    for (int i = 0, n; i < l->n_piece && !cancelled(); i += n) {
        n = l->n_piece - i < slice ? l->n_piece - i : slice;
        pool_run(c->pool, slice_piece, &(struct slice){fn, job, i}, n);
        struct pack_piece last = layout_piece(l, i + n - 1);
        if (o->progress) o->progress(o->ctx, last.at + last.n_byte, l->n_byte);
    }
    return cancelled() ? err_cancelled(e) : 0;
}

/* ---- the op ---- */

/* Pointers are borrowed for the call. */
struct pack_job {
    const struct layout *l;
    uint8_t *region; /* panels [n_byte] of the layout */
};

static void pack_piece(void *ctx, int i, int worker)
{
    const struct pack_job *j = ctx;
    struct pack_piece p = layout_piece(j->l, i);
    piece_pack(j->region + p.at, j->l, &p, worker);
}

static int pack_into_memory(struct weights *w, struct cpu_backend *c, const struct layout *l,
                            const struct weights_options *o, struct err *e)
{
    uint8_t *region = c->base.op->alloc(&c->base, l->n_byte);
    if (!region) return err_memory(e, "the packed weights", l->n_byte);
    w->data = region;
    return pieces_run(c, l, pack_piece, &(struct pack_job){l, region}, o, e);
}

/* Open or make the cache file. Set *used to false, after a log line, if there is no usable cache.
 * Return ERR_BUSY if the work is cancelled. */
static int use_cache(bool *used, struct weights *w, enum weights_how *how, struct cpu_backend *c,
                     const struct layout *l, const struct weights_options *o, struct err *e)
{
    *how = WEIGHTS_MAPPED;
    int rc = packed_open(&w->map, &w->data, c, l, o, e);
    *used = rc == 0;
    if (rc == 0) return 0;
    if (cancelled()) return err_cancelled(e);
    if (rc == ERR_FORMAT) log_warn("%s; the weights are packed again", e->text);
    *how = WEIGHTS_KEPT;
    rc = packed_make(&w->map, &w->data, c, l, o, e);
    *used = rc == 0;
    if (rc == 0) return 0;
    if (cancelled()) return err_cancelled(e);
    log_warn("the packed weights are not kept for the next start: %s", e->text);
    return 0;
}

/* Pointers are borrowed for the call. */
struct copy_job {
    const struct layout *l;
    const uint8_t *from;
    uint8_t *to;
};

static void copy_piece(void *ctx, int i, int worker)
{
    (void)worker;
    const struct copy_job *j = ctx;
    struct pack_piece p = layout_piece(j->l, i);
    memcpy(j->to + p.at, j->from + p.at, p.n_byte);
}

/* Replace the cache's map by a copy in memory. */
static int copy_into_memory(struct weights *w, enum weights_how *how, struct cpu_backend *c,
                            const struct layout *l, const struct weights_options *o, struct err *e)
{
    uint8_t *region = c->base.op->alloc(&c->base, l->n_byte);
    if (!region) return err_memory(e, "the packed weights", l->n_byte);
    const int rc = pieces_run(c, l, copy_piece, &(struct copy_job){l, w->data, region}, o, e);
    file_map_close(&w->map);
    w->data = region;
    if (*how == WEIGHTS_MAPPED) *how = WEIGHTS_COPIED;
    return rc;
}

/* Get the panels from the cache, or pack the weights. Models below n_byte_min are not cached: each
 * start packs them. */
static int open_weights(struct weights *w, enum weights_how *how, struct cpu_backend *c,
                        const struct layout *l, const struct weights_options *o, struct err *e)
{
    bool used = false;
    w->n_byte = l->n_byte;
    if (o->cache && l->n_byte >= o->cache->n_byte_min) {
        const int rc = use_cache(&used, w, how, c, l, o, e);
        if (rc != 0) return rc;
    }
    if (used) return o->own ? copy_into_memory(w, how, c, l, o, e) : 0;
    *how = WEIGHTS_PACKED;
    return pack_into_memory(w, c, l, o, e);
}

/* ---- limited memory ---- */

/* Return true if only lookups use the place: an embedding that is not the head. */
static bool is_looked_up(const struct weight_place *p, struct tensor *const *tensor, int n)
{
    for (int i = 0; i < n; i++)
        if (tensor[i]->data == p->rows && !tensor[i]->is_table) return false;
    return true;
}

/* Return true if rows use some of the place's matrices. */
static bool is_routed(const struct weight_place *p, struct tensor *const *tensor, int n)
{
    for (int i = 0; i < n; i++)
        if (tensor[i]->data == p->rows && tensor[i]->routed) return true;
    return false;
}

static void unit_read(void *ctx, const uint8_t *at, size_t n_byte)
{
    (void)ctx;
    file_map_read(at, n_byte);
}

static void unit_drop(void *ctx, const uint8_t *at, size_t n_byte)
{
    file_map_drop(ctx, at, n_byte);
}

/* Limit the memory of the mapped panels. A unit is a matrix that ops use as a whole: a place, or a
 * matrix of an expert. The tensors still have their rows. */
static int limit_memory(struct weights *w, const struct layout *l, struct tensor *const *tensor,
                        int n, int64_t n_byte, struct err *e)
{
    int n_unit = 0, most = 0;
    for (int i = 0; i < l->n_place; i++) most += l->place[i].n_matrix;
    struct resident_unit *unit = calloc((size_t)most + 1, sizeof *unit);
    if (!unit) return err_memory(e, "the list of matrices", (size_t)most * sizeof *unit);
    for (int i = 0; i < l->n_place; i++) {
        const struct weight_place *p = &l->place[i];
        const bool routed = is_routed(p, tensor, n);
        const int per = panel_count(p->to.n_out), n_part = routed ? p->n_matrix : 1;
        const size_t bytes = (size_t)(routed ? per : place_panels(p)) * (size_t)p->to.stride;
        for (int k = 0; k < n_part && !is_looked_up(p, tensor, n); k++)
            unit[n_unit++] =
                (struct resident_unit){w->data + p->at + (size_t)k * bytes, bytes, routed};
    }
    const struct resident_io io = {.ctx = &w->map, .read = unit_read, .drop = unit_drop};
    const int rc = resident_open(&w->resident, unit, n_unit, n_byte, &io, e);
    free(unit);
    return rc;
}

/* Limit the memory if the options have a limit below the size of the panels. */
static int apply_limit(struct weights *w, struct cpu_backend *c, const struct layout *l,
                       struct tensor *const *tensor, int n, const struct weights_options *o,
                       struct err *e)
{
    if (o->memory == 0 || o->memory >= (int64_t)l->n_byte) return 0;
    if (!w->map.data)
        return err_set(
            e, ERR_ARG,
            "--weights-memory: needs the packed weights in a file, but they are not "
            "kept (--no-pack-cache, --no-mmap, random weights, or no space on the disk)");
    const int rc = limit_memory(w, l, tensor, n, o->memory, e);
    if (rc == 0) c->resident = w->resident;
    return rc;
}

/* Pack or map the weights. On success each tensor's data points to its panels. The caller must
 * close *out also after an error. */
int cpu_weights(struct backend *b, struct weights **out, struct tensor *const *tensor, int n,
                const struct weights_options *o, struct weights_info *info, struct err *e)
{
    static const struct weights_options nowhere;
    int64_t start = time_us();
    struct weights_info did = {0};
    struct layout l;
    struct weights *w = *out = calloc(1, sizeof *w);
    int rc = layout_open(&l, tensor, n, pool_n_thread(cpu_of(b)->pool), e);
    if (rc == 0 && !w) rc = err_memory(e, "the packed weights", sizeof *w);
    if (!o) o = &nowhere;
    if (rc == 0) rc = open_weights(w, &did.how, cpu_of(b), &l, o, e);
    if (rc == 0) rc = apply_limit(w, cpu_of(b), &l, tensor, n, o, e);
    for (int i = 0; i < n && rc == 0; i++)
        tensor[i]->data = w->data + layout_place(&l, tensor[i]->data)->at;
    did.n_byte = (int64_t)l.n_byte;
    if (o->memory > 0 && o->memory < did.n_byte) did.n_byte = o->memory;
    did.us = time_us() - start;
    if (info) *info = did;
    layout_close(&l);
    return rc;
}

int cpu_weights_verify(struct backend *b, enum weights_verdict *verdict,
                       struct tensor *const *tensor, int n, const struct weights_options *o,
                       struct err *e)
{
    struct layout l;
    int rc = layout_open(&l, tensor, n, pool_n_thread(cpu_of(b)->pool), e);
    enum weights_verdict *by_place = rc == 0 ? calloc((size_t)n + 1, sizeof *by_place) : NULL;
    if (rc == 0 && !by_place) rc = err_memory(e, "verdicts", (size_t)n * sizeof *by_place);
    if (rc == 0) rc = packed_verify(by_place, cpu_of(b), &l, o, e);
    for (int i = 0; i < n && rc == 0; i++)
        verdict[i] = by_place[layout_place(&l, tensor[i]->data) - l.place];
    free(by_place);
    layout_close(&l);
    return rc;
}

void cpu_weights_close(struct backend *b, struct weights *w)
{
    if (!w) return;
    if (w->resident) cpu_of(b)->resident = NULL;
    resident_close(w->resident);
    if (w->map.data)
        file_map_close(&w->map);
    else
        b->op->release(b, (void *)w->data, w->n_byte);
    free(w);
}

struct weights_use cpu_weights_use(struct backend *b, const struct weights *w)
{
    (void)b;
    return w && w->resident ? resident_figures(w->resident) : (struct weights_use){0};
}
