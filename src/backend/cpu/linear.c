/* linear.c - linear layers on the CPU: convert the activations once, then run chunks of panels and
 * rows on the pool.
 *
 * A chunk is about CHUNK_BYTES of weights times the maximum rows of the kernel. A chunk is long
 * enough to hide the time of claiming it, and short enough to balance threads. Chunks of the same
 * range of panels are consecutive. Therefore weights are read from memory once, and from the L2
 * cache for the next rows.
 *
 * In a gated block, a chunk is ACT_GROUP outputs of gate and of up. A tile of the worker receives
 * the results of gate and up. The results are multiplied in the tile and converted to activations
 * of the next layer, without an access to memory. */
#include "cpu_impl.h"

#include "base/check.h"

#include <stdlib.h>

/* CHUNK_BYTES: values from a quarter to four times this value are equally fast on two threads
 * (measurements.md, "Constants"). Larger chunks leave more threads idle at the end of an op.
 * BF16_PANELS: minimum number of panels of a chunk with bf16 activations. The activations of many
 * rows exceed the L2 cache, so a kernel should use them for several panels. */
enum {
    CHUNK_BYTES = 98304,
    BF16_PANELS = 8,
    TILE_STRIDE = ACT_GROUP + 16,
    GROUP_PANELS = ACT_GROUP / PANEL
};

/* ---- scratch ---- */

/* Private scratch of a worker. */
struct linear_work {
    float gate[LINEAR_ROWS_MAX * TILE_STRIDE], up[LINEAR_ROWS_MAX * TILE_STRIDE]; /* tiles */
    float row[]; /* [2, k_max]: a normed row, a reordered row */
};

static size_t round64(size_t n)
{
    return (n + 63) / 64 * 64;
}

static size_t work_bytes(const struct cpu_backend *c)
{
    return round64(sizeof(struct linear_work) + 2 * (size_t)c->k_max * sizeof(float));
}

static struct linear_work *work_of(const struct cpu_backend *c, int worker)
{
    return (struct linear_work *)(c->linear.work + (size_t)worker * work_bytes(c));
}

static int acts_open(struct cpu_acts *a, struct cpu_backend *c, struct err *e)
{
    const int n_row = c->row_max, k = (int)c->k_max;
    /* size for the largest type; memory is touched on first use */
    for (int t = 0; t < ACT_COUNT; t++) {
        const size_t n = round64(act_x_bytes((enum act_type)t, n_row, k));
        if (n > a->n_byte) a->n_byte = n;
    }
    a->x = c->base.op->alloc(&c->base, a->n_byte);
    a->scale = aligned_alloc(64, act_scale_bytes(n_row, k));
    a->sum = aligned_alloc(64, act_sum_bytes(n_row, k));
    return a->x && a->scale && a->sum ? 0 : err_memory(e, "activations", a->n_byte);
}

int cpu_linear_open(struct cpu_backend *c, struct err *e)
{
    CHECK(!c->linear.work && c->row_max >= 1 && c->k_max >= 1, "%d rows", c->row_max);
    const size_t n_work = work_bytes(c) * (size_t)pool_n_thread(c->pool);
    int rc = acts_open(&c->linear.in, c, e);
    if (rc == 0) rc = acts_open(&c->linear.between, c, e);
    if (rc != 0) return rc;
    c->linear.work = aligned_alloc(64, n_work);
    return c->linear.work ? 0 : err_memory(e, "linear layers", n_work);
}

static void acts_close(struct cpu_acts *a, struct cpu_backend *c)
{
    c->base.op->release(&c->base, a->x, a->n_byte);
    free(a->scale);
    free(a->sum);
}

void cpu_linear_close(struct cpu_backend *c)
{
    acts_close(&c->linear.in, c);
    acts_close(&c->linear.between, c);
    free(c->linear.work);
}

/* ---- weights in limited memory ---- */

/* Wait until the layers' matrices are in memory, for an op that uses all of them. */
static void use_weights(const struct cpu_backend *c, const struct linear *const *l, int n)
{
    if (!c->resident) return;
    resident_begin(c->resident);
    /* a request precedes the earlier ones, so the first matrix is read first */
    for (int i = n - 1; i >= 0; i--) resident_want(c->resident, l[i]->w.data);
    for (int i = 0; i < n; i++) resident_use(c->resident, l[i]->w.data);
}

/* ---- activations ---- */

/* Return the activations' type for a layer: by the option, then by the format of the weights. */
static enum act_type act_type_of(const struct cpu_backend *c, const struct linear *l)
{
    if (c->act == ACT_CHOICE_F32) return ACT_F32;
    if (qtype_takes_bf16(l->w.type)) return ACT_BF16;
    return qtype_takes_int8(l->w.type) && c->act != ACT_CHOICE_BF16 ? ACT_Q8 : ACT_F32;
}

/* Return true if one conversion serves both layers. */
static bool same_activations(const struct cpu_backend *c, const struct linear *a,
                             const struct linear *b)
{
    return act_type_of(c, a) == act_type_of(c, b) && a->order == b->order;
}

static struct act act_for(const struct cpu_backend *c, const struct cpu_acts *a,
                          const struct linear *l, int n_row)
{
    CHECK(n_row <= c->row_max && l->w.k <= c->k_max, "%d rows of %lld, reserved: %d of %lld", n_row,
          (long long)l->w.k, c->row_max, (long long)c->k_max);
    return (struct act){.type = act_type_of(c, l),
                        .n_row = n_row,
                        .k = (int)l->w.k,
                        .x = a->x,
                        .scale = a->scale,
                        .sum = a->sum};
}

/* A conversion of activations. All pointers are borrowed for the op. */
struct convert_job {
    const struct cpu_backend *c;
    const struct act *to;
    const struct input *in;
    const int32_t *row;   /* i32 [to->n_row] rows of the input; NULL: row i of the input is row i */
    const int32_t *order; /* i32 [to->k] as in struct linear; NULL: no order */
};

/* Return true for bf16 activations with weights that are not BF16. These activations are rounded to
 * bf16 and used as f32. */
static bool rounds(const struct cpu_backend *c, const struct act *to)
{
    return c->act == ACT_CHOICE_BF16 && to->type == ACT_F32;
}

/* Round x to bf16. y is f32 [n]; y may be x. */
static void round_bf16(const struct kern *kern, float *y, const float *x, int n)
{
    uint16_t part[ACT_GROUP];
    for (int i = 0; i < n; i += ACT_GROUP) {
        int n_part = n - i < ACT_GROUP ? n - i : ACT_GROUP;
        kern->to_bf16(part, x + i, n_part);
        kern->of_bf16(y + i, part, n_part);
    }
}

static void convert_row(void *ctx, int i, int worker)
{
    const struct convert_job *j = ctx;
    const struct kern *kern = &j->c->kern;
    const float *x = j->in->x + (int64_t)(j->row ? j->row[i] : i) * j->to->k;
    float *row = work_of(j->c, worker)->row;
    if (j->in->g) {
        kern->rms_norm(row, x, j->in->g, 1, j->to->k, j->in->eps);
        x = row;
    }
    if (j->order) {
        float *to = row + j->c->k_max;
        for (int k = 0; k < j->to->k; k++) to[k] = x[j->order[k]];
        x = to;
    }
    if (rounds(j->c, j->to)) {
        round_bf16(kern, row, x, j->to->k);
        x = row;
    }
    kern->act[j->to->type](j->to, i, x);
}

static void convert_rows(const struct cpu_backend *c, const struct act *to, const struct input *in,
                         const int32_t *row, const int32_t *order)
{
    struct convert_job j = {c, to, in, row, order};
    if ((int64_t)to->n_row * to->k >= 1 << 16)
        pool_run(c->pool, convert_row, &j, to->n_row);
    else
        for (int i = 0; i < to->n_row; i++) convert_row(&j, i, 0);
}

/* Convert the activations of l. */
static void convert(const struct cpu_backend *c, const struct act *to, const struct input *in,
                    const struct linear *l)
{
    convert_rows(c, to, in, NULL, l->order);
}

/* ---- several layers of the same activations ---- */

/* Rows divided into tiles of about equal size, at most the maximum rows of the kernel. */
struct row_tiles {
    int n_row, n_tile, size; /* size: number of rows of each tile except the last */
};

static struct row_tiles row_tiles(const struct cpu_backend *c, const struct act *x)
{
    const int most = c->kern.linear_rows[x->type], n_row = x->n_row;
    int n_tile = (n_row + most - 1) / most;
    return (struct row_tiles){n_row, n_tile, (n_row + n_tile - 1) / n_tile};
}

/* Return the first row of tile i. Set *n to the number of rows of the tile. */
static int tile_row(const struct row_tiles *t, int i, int *n)
{
    CHECK(i >= 0 && i < t->n_tile, "tile %d of %d", i, t->n_tile);
    int row = i * t->size;
    *n = t->n_row - row < t->size ? t->n_row - row : t->size;
    return row;
}

/* Layer of a list_job. `w` and `out` are arguments of linear kernels (kern.h). */
struct list_layer {
    struct panels w;
    struct linear_out out;
    int n_panel, panels_per_chunk, chunk0; /* chunk0: first chunk of this part */
};

/* Some layers of one input. All pointers are borrowed for the op. */
struct list_job {
    const struct cpu_backend *c;
    struct act act;
    struct row_tiles tiles;
    int n_part, n_chunk; /* chunks of all parts */
    struct list_layer part[OUTPUTS_MAX];
};

/* Return the panels of a chunk, from the bytes of a panel and the rows of the op. The number is
 * even, because the kernels of AMX compute panels in pairs. */
static int panels_per_chunk(int64_t stride, const struct act *x)
{
    const int least = x->type == ACT_BF16 && x->n_row > PANEL ? BF16_PANELS : 2;
    const int n = (int)(CHUNK_BYTES / stride) & ~1;
    return n < least ? least : n;
}

/* Append a layer. The chunks of the layer follow the chunks of the previous layers. */
static void list_add(struct list_job *j, const struct linear *l, float *y, bool add)
{
    struct list_layer *p = &j->part[j->n_part++];
    p->w = cpu_panels(&l->w);
    p->out = (struct linear_out){.y = y, .stride = l->w.n_out, .bias = l->bias, .add = add};
    p->n_panel = panel_count(p->w.n_out);
    p->panels_per_chunk = panels_per_chunk(p->w.stride, &j->act);
    p->chunk0 = j->n_chunk;
    j->n_chunk += (p->n_panel + p->panels_per_chunk - 1) / p->panels_per_chunk * j->tiles.n_tile;
}

/* Compute one chunk of a list_job. Chunks are numbered by part, then by panels, then by tile of
 * rows. */
static void list_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct list_job *j = ctx;
    const struct list_layer *p = &j->part[j->n_part - 1];
    while (chunk < p->chunk0) p--;
    chunk -= p->chunk0;
    int n_row, row = tile_row(&j->tiles, chunk % j->tiles.n_tile, &n_row);
    int panel = chunk / j->tiles.n_tile * p->panels_per_chunk, n_panel = p->n_panel - panel;
    if (n_panel > p->panels_per_chunk) n_panel = p->panels_per_chunk;
    j->c->kern.linear[j->act.type][p->w.type](&p->out, &p->w, panel, n_panel, &j->act, row, n_row);
}

static void list_run(struct list_job *j)
{
    pool_run(j->c->pool, list_chunk, j, j->n_chunk);
}

/* Compute consecutive layers with the same type and order of activations by one conversion and one
 * phase of the pool. */
void cpu_linears(struct backend *b, const struct output *out, int n, const struct input *in,
                 int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    const struct linear *all[OUTPUTS_MAX] = {0};
    if (n_row == 0) return;
    for (int i = 0; i < n; i++) all[i] = out[i].l;
    use_weights(c, all, n);
    for (int i = 0; i < n;) {
        const struct linear *first = out[i].l;
        struct list_job j = {.c = c, .act = act_for(c, &c->linear.in, first, n_row)};
        j.tiles = row_tiles(c, &j.act);
        convert(c, &j.act, in, first);
        for (; i < n && same_activations(c, out[i].l, first); i++)
            list_add(&j, out[i].l, out[i].y, false);
        list_run(&j);
    }
}

void cpu_linear(struct backend *b, float *y, const struct linear *l, const float *x, int n_row)
{
    cpu_linears(b, &(struct output){l, y}, 1, &(struct input){.x = x}, n_row);
}

/* Compute a layer of converted activations: y = layer, or y += layer if `add` is true. */
static void run_layer(struct cpu_backend *c, float *y, const struct linear *l,
                      const struct act *act, bool add)
{
    struct list_job j = {.c = c, .act = *act, .tiles = row_tiles(c, act)};
    list_add(&j, l, y, add);
    list_run(&j);
}

void cpu_linear_add(struct backend *b, float *y, const struct linear *l, const float *x, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    if (n_row == 0) return;
    struct act act = act_for(c, &c->linear.in, l, n_row);
    use_weights(c, &l, 1);
    convert(c, &act, &(struct input){.x = x}, l);
    run_layer(c, y, l, &act, true);
}

/* ---- a mixture's matrices ---- */

/* Layers of all experts with one input. All pointers are borrowed for the op. */
struct experts_job {
    struct list_job list; /* layers of the first expert. Rows of `act` are entries */
    const struct route *route;
    const int *active; /* [n_active] experts with entries */
    int chunks_per_expert, row_max;
};

/* List the experts that have entries. With more than LISTED_MAX experts, list all, as 0 to
 * n_expert. Return the number of listed experts. */
enum { LISTED_MAX = 1024 };
static int list_active(int active[LISTED_MAX], const struct route *r)
{
    int n = 0;
    if (r->n_expert > LISTED_MAX) return r->n_expert;
    for (int e = 0; e < r->n_expert; e++)
        if (r->first[e + 1] > r->first[e]) active[n++] = e;
    return n;
}

/* Compute some panels of one layer of one expert for all its entries. */
static void experts_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct experts_job *j = ctx;
    const int i = chunk / j->chunks_per_expert, e = j->active ? j->active[i] : i;
    const struct list_layer *p = &j->list.part[j->list.n_part - 1];
    chunk %= j->chunks_per_expert;
    while (chunk < p->chunk0) p--;
    const int panel = (chunk - p->chunk0) * p->panels_per_chunk, last = j->route->first[e + 1];
    const int left = p->n_panel - panel,
              n_panel = left < p->panels_per_chunk ? left : p->panels_per_chunk;
    struct panels w = p->w;
    struct linear_out out = p->out;
    w.data += (int64_t)e * p->n_panel * w.stride;
    if (out.bias) out.bias += (int64_t)e * out.stride;
    for (int row = j->route->first[e], n; row < last; row += n) {
        n = last - row < j->row_max ? last - row : j->row_max;
        j->list.c->kern.linear[j->list.act.type][w.type](&out, &w, panel, n_panel, &j->list.act,
                                                         row, n);
    }
}

/* Return the matrix of expert e of a layer. */
static const uint8_t *expert_matrix(const struct output *out, int e)
{
    const struct panels w = cpu_panels(&out->l->w);
    return w.data + (int64_t)e * panel_count(w.n_out) * w.stride;
}

/* Wait until the matrices of all experts with entries are in memory. A request precedes the earlier
 * ones, so the first matrix is read first. */
static void use_experts(const struct cpu_backend *c, const struct output *out, int n,
                        const struct route *r)
{
    if (!c->resident) return;
    resident_begin(c->resident);
    for (int i = n - 1; i >= 0; i--)
        for (int e = r->n_expert - 1; e >= 0; e--)
            if (r->first[e + 1] > r->first[e])
                resident_want(c->resident, expert_matrix(&out[i], e));
    for (int i = 0; i < n; i++)
        for (int e = 0; e < r->n_expert; e++)
            if (r->first[e + 1] > r->first[e]) resident_use(c->resident, expert_matrix(&out[i], e));
}

/* Compute consecutive layers with one type of activations by one conversion and one phase of the
 * pool. A chunk is a part of a layer of one expert that has entries. */
void cpu_experts(struct backend *b, const struct output *out, int n, const float *x,
                 const struct route *r, bool by_entry, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    if (n_row == 0) return;
    int active[LISTED_MAX];
    const int n_active = list_active(active, r);
    use_experts(c, out, n, r);
    for (int i = 0; i < n;) {
        const struct linear *first = out[i].l;
        struct experts_job j = {.list = {.c = c, .tiles = {.n_tile = 1}},
                                .route = r,
                                .active = r->n_expert > LISTED_MAX ? NULL : active};
        j.list.act = act_for(c, &c->linear.in, first, n_row * r->n_used);
        j.row_max = c->kern.linear_rows[j.list.act.type];
        CHECK(!first->order, "a mixture with an order of inputs: %s", first->w.name);
        convert_rows(c, &j.list.act, &(struct input){.x = x}, by_entry ? NULL : r->row, NULL);
        for (; i < n && same_activations(c, out[i].l, first); i++)
            list_add(&j.list, out[i].l, out[i].y, false);
        j.chunks_per_expert = j.list.n_chunk;
        pool_run(c->pool, experts_chunk, &j, n_active * j.chunks_per_expert);
    }
}

/* ---- a matrix per part of a row ---- */

/* Some parts of all rows. All pointers are borrowed for the op. */
struct parts_job {
    const struct cpu_backend *c;
    struct act act; /* one row per part and row, ordered by part */
    struct panels w;
    float *y;
    const float *x;
    const struct columns *s;
    int first; /* first part */
    int n_row, n_panel, panels_per_chunk, chunks_per_part, row_max;
};

static void convert_part(void *ctx, int i, int worker)
{
    const struct parts_job *j = ctx;
    const int part = j->first + i / j->n_row, k = j->act.k;
    const float *x = j->x + i % j->n_row * j->s->x_row + part * j->s->x_part;
    if (rounds(j->c, &j->act)) {
        float *row = work_of(j->c, worker)->row;
        round_bf16(&j->c->kern, row, x, k);
        x = row;
    }
    j->c->kern.act[j->act.type](&j->act, i, x);
}

/* Compute some panels of one part for all rows. */
static void parts_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct parts_job *j = ctx;
    const int i = chunk / j->chunks_per_part, part = j->first + i;
    const int panel = chunk % j->chunks_per_part * j->panels_per_chunk;
    int n_panel = j->n_panel - panel;
    if (n_panel > j->panels_per_chunk) n_panel = j->panels_per_chunk;
    struct panels w = j->w;
    w.data += (int64_t)part * j->n_panel * w.stride;
    for (int row = 0, n; row < j->n_row; row += n) {
        n = j->n_row - row < j->row_max ? j->n_row - row : j->row_max;
        const struct act x = act_part(&j->act, i * j->n_row + row, 0, j->act.k);
        const struct linear_out out = {.y = j->y + row * j->s->y_row + part * j->s->y_part,
                                       .stride = j->s->y_row};
        j->c->kern.linear[x.type][w.type](&out, &w, panel, n_panel, &x, 0, n);
    }
}

/* Compute as many parts at once as the memory of activations has room for. */
void cpu_parts(struct backend *b, float *y, const struct linear *l, const float *x,
               const struct columns *s, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    if (n_row == 0) return;
    CHECK(s->n_part == l->w.n_expert && !l->order && !l->bias && n_row <= c->row_max,
          "%d parts, %d matrices of %s", s->n_part, l->w.n_expert, l->w.name);
    const int most = c->row_max / n_row;
    use_weights(c, &l, 1);
    struct parts_job j = {.c = c,
                          .w = cpu_panels(&l->w),
                          .y = y,
                          .x = x,
                          .s = s,
                          .n_row = n_row,
                          .n_panel = panel_count((int)l->w.n_out)};
    for (int n; j.first < s->n_part; j.first += n) {
        n = s->n_part - j.first < most ? s->n_part - j.first : most;
        j.act = act_for(c, &c->linear.in, l, n * n_row);
        j.panels_per_chunk = panels_per_chunk(j.w.stride, &j.act);
        j.chunks_per_part = (j.n_panel + j.panels_per_chunk - 1) / j.panels_per_chunk;
        j.row_max = c->kern.linear_rows[j.act.type];
        pool_run(c->pool, convert_part, &j, n * n_row);
        pool_run(c->pool, parts_chunk, &j, n * j.chunks_per_part);
    }
}

/* ---- a gated block ---- */

/* Gate and up of a gated block. All pointers are borrowed for the op. */
struct glu_job {
    const struct cpu_backend *c;
    const struct linear *gate, *up;
    enum curve curve;
    struct act in;
    const struct act *to; /* converted results; NULL: write y */
    float *y;             /* f32 [n_row, n_out] */
    struct row_tiles tiles;
};

/* Compute the outputs [r, r + n) into tile [n_row, TILE_STRIDE]. */
static void to_tile(const struct glu_job *j, float *tile, const struct linear *l, int r, int n,
                    const struct act *x, int n_row)
{
    struct panels w = cpu_panels(&l->w);
    w.data += r / PANEL * w.stride;
    w.n_out = n;
    struct linear_out out = {
        .y = tile, .stride = TILE_STRIDE, .bias = l->bias ? l->bias + r : NULL};
    j->c->kern.linear[x->type][w.type](&out, &w, 0, panel_count(n), x, 0, n_row);
}

/* Compute a group of 256 outputs of gate and up for a tile of rows, and combine them while they are
 * in the L1 cache. The result becomes the activations of `down` if `down` follows, so it never
 * reaches memory as f32. */
static void glu_chunk(void *ctx, int chunk, int worker)
{
    const struct glu_job *j = ctx;
    const struct kern *kern = &j->c->kern;
    struct linear_work *w = work_of(j->c, worker);
    const int n_out = (int)j->gate->w.n_out;
    int n_row, row = tile_row(&j->tiles, chunk % j->tiles.n_tile, &n_row);
    int r = chunk / j->tiles.n_tile * ACT_GROUP, n = n_out - r < ACT_GROUP ? n_out - r : ACT_GROUP;
    const struct act x = act_part(&j->in, row, 0, j->in.k);
    to_tile(j, w->gate, j->gate, r, n, &x, n_row);
    to_tile(j, w->up, j->up, r, n, &x, n_row);
    for (int i = 0; i < n_row; i++) {
        float *a = w->gate + i * TILE_STRIDE, *b = w->up + i * TILE_STRIDE;
        float *y = j->to ? a : j->y + (int64_t)(row + i) * n_out + r;
        kern->curve_mul[j->curve](y, a, b, n);
        if (j->to) {
            const struct act part = act_part(j->to, row + i, r, n);
            if (rounds(j->c, j->to)) round_bf16(kern, y, y, n);
            kern->act[part.type](&part, 0, y);
        }
    }
}

/*   quant      glu_chunk converts its outputs to activations of `down`
 *   not quant  glu_chunk writes f32 to g->a, which is converted afterwards
 *
 * The activations of `down` are also converted afterwards if `down` has an order. The plain ops are
 * used if gate and up have different activations. */
void cpu_glu(struct backend *b, float *y, const struct glu *g, const struct input *in, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    if (n_row == 0) return;
    if (!same_activations(c, g->gate, g->up)) {
        backend_glu_plain(b, y, g, in, n_row);
        return;
    }
    use_weights(c, (const struct linear *[]){g->gate, g->up, g->down}, 3);
    const bool quant = backend_fuses(b, FUSE_quant) && !g->down->order;
    struct act between = act_for(c, &c->linear.between, g->down, n_row);
    struct glu_job j = {.c = c,
                        .gate = g->gate,
                        .up = g->up,
                        .curve = g->curve,
                        .in = act_for(c, &c->linear.in, g->gate, n_row),
                        .to = quant ? &between : NULL,
                        .y = g->a};
    j.tiles = row_tiles(c, &j.in);
    convert(c, &j.in, in, g->gate);
    const int n_group = ((int)g->gate->w.n_out + ACT_GROUP - 1) / ACT_GROUP;
    pool_run(c->pool, glu_chunk, &j, n_group * j.tiles.n_tile);
    if (!quant) convert(c, &between, &(struct input){.x = g->a}, g->down);
    const bool fused = g->add && backend_fuses(b, FUSE_add), apart = g->add && !fused;
    run_layer(c, apart ? g->y : y, g->down, &between, fused);
    if (apart) b->op->add(b, y, g->y, (int64_t)n_row * g->down->w.n_out);
}
