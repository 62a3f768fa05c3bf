/* counting.c - a counting backend (counting.h). Each op makes the device's memory accessible, calls
 * the CPU's op of that name and makes the memory inaccessible again. The batch of a step is copied
 * into the device's memory, as for a device with its own memory. */
#include "counting.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REGION_MAX = 64 };

struct region {
    void *at;
    size_t n_byte;
    int access; /* protection of the memory while an op runs */
};

struct counting {
    struct backend base; /* must be the first field */
    struct backend_ops op;
    struct backend *cpu; /* owned */
    struct region region[REGION_MAX];
    int n_region;
    bool inside;            /* true while an op runs */
    struct batch on_device; /* batch of the step */
    void *batch_memory;     /* region of the batch */
    size_t batch_bytes;
    int64_t calls[COUNT_COUNT], bytes[COUNT_COUNT];
};

static struct counting *counting_of(const struct backend *b)
{
    return (struct counting *)(uintptr_t)b;
}

static void protect(const struct region *r, int access)
{
    const int rc = mprotect(r->at, r->n_byte, access);
    CHECK(rc == 0, "mprotect of %zu bytes", r->n_byte);
}

/* Make all regions accessible or inaccessible. Successive regions with one protection share one
 * system call, because the call takes most of an op's time. */
static void protect_all(const struct counting *c)
{
    for (int i = 0, n; i < c->n_region; i += n) {
        struct region all = c->region[i];
        for (n = 1; i + n < c->n_region; n++) {
            const struct region *r = &c->region[i + n];
            if (r->at != (char *)all.at + all.n_byte || (c->inside && r->access != all.access))
                break;
            all.n_byte += r->n_byte;
        }
        protect(&all, c->inside ? all.access : PROT_NONE);
    }
}

/* Add a region of whole memory pages. Regions are in the order of their addresses. */
static void region_add(struct counting *c, void *at, size_t n_byte, int access)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(c->n_region < REGION_MAX, "%d regions", c->n_region);
    int i = c->n_region++;
    for (; i > 0 && (char *)c->region[i - 1].at > (char *)at; i--) c->region[i] = c->region[i - 1];
    c->region[i] = (struct region){at, (n_byte + page - 1) / page * page, access};
    protect(&c->region[i], c->inside ? access : PROT_NONE);
}

static void region_remove(struct counting *c, const void *at)
{
    int i = 0;
    while (i < c->n_region && c->region[i].at != at) i++;
    CHECK(i < c->n_region, "%d regions", c->n_region);
    protect(&c->region[i], c->region[i].access);
    c->n_region--;
    for (; i < c->n_region; i++) c->region[i] = c->region[i + 1];
}

static struct counting *enter(const struct backend *b, enum counted what, size_t n_byte)
{
    struct counting *c = counting_of(b);
    CHECK(!c->inside, "op %d inside an op", (int)what);
    c->calls[what]++;
    c->bytes[what] += (int64_t)n_byte;
    c->cpu->plain = b->plain;
    c->inside = true;
    protect_all(c);
    return c;
}

static void leave(struct counting *c)
{
    c->inside = false;
    protect_all(c);
}

/* ---- memory ---- */

static void *count_alloc(struct backend *b, size_t n_byte)
{
    struct counting *c = counting_of(b);
    void *p = c->cpu->op->alloc(c->cpu, n_byte);
    c->calls[COUNT_alloc]++;
    c->bytes[COUNT_alloc] += (int64_t)n_byte;
    if (p) region_add(c, p, n_byte, PROT_READ | PROT_WRITE);
    return p;
}

static void count_release(struct backend *b, void *p, size_t n_byte)
{
    struct counting *c = counting_of(b);
    region_remove(c, p);
    c->cpu->op->release(c->cpu, p, n_byte);
}

static void count_read(struct backend *b, void *to, const void *from, size_t n_byte)
{
    struct counting *c = enter(b, COUNT_read, n_byte);
    c->cpu->op->read(c->cpu, to, from, n_byte);
    leave(c);
}

static void count_write(struct backend *b, void *to, const void *from, size_t n_byte)
{
    struct counting *c = enter(b, COUNT_write, n_byte);
    c->cpu->op->write(c->cpu, to, from, n_byte);
    leave(c);
}

static void count_copy(struct backend *b, void *to, const void *from, size_t n_byte)
{
    struct counting *c = enter(b, COUNT_copy, n_byte);
    c->cpu->op->copy(c->cpu, to, from, n_byte);
    leave(c);
}

/* ---- weights: the CPU allocates their region itself ---- */

static const uint8_t *first_data(struct tensor *const *tensor, int n)
{
    const uint8_t *first = tensor[0]->data;
    for (int i = 1; i < n; i++)
        if (tensor[i]->data < first) first = tensor[i]->data;
    return first;
}

static int count_weights(struct backend *b, struct weights **out, struct tensor *const *tensor,
                         int n, const struct weights_options *o, struct weights_info *info,
                         struct err *e)
{
    struct counting *c = counting_of(b);
    struct weights_info did;
    int rc = c->cpu->op->weights(c->cpu, out, tensor, n, o, &did, e);
    if (rc == 0 && did.n_byte)
        region_add(c, (void *)(uintptr_t)first_data(tensor, n), (size_t)did.n_byte, PROT_READ);
    if (info) *info = did;
    return rc;
}

static int count_weights_verify(struct backend *b, enum weights_verdict *verdict,
                                struct tensor *const *tensor, int n,
                                const struct weights_options *o, struct err *e)
{
    struct counting *c = counting_of(b);
    return c->cpu->op->weights_verify(c->cpu, verdict, tensor, n, o, e);
}

static void count_weights_close(struct backend *b, struct weights *w)
{
    struct counting *c = counting_of(b);
    for (int i = c->n_region - 1; w && i >= 0; i--)
        if (c->region[i].access == PROT_READ) region_remove(c, c->region[i].at);
    c->cpu->op->weights_close(c->cpu, w);
}

static struct weights_use count_weights_use(struct backend *b, const struct weights *w)
{
    struct counting *c = counting_of(b);
    return c->cpu->op->weights_use(c->cpu, w);
}

/* ---- steps ---- */

static int count_reserve(struct backend *b, const struct op_sizes *s, struct err *e)
{
    struct counting *c = counting_of(b);
    struct batch like = {0};
    int rc = s->batch ? batch_open(&like, s->batch, e) : 0;
    c->batch_bytes = like.n_byte;
    batch_close(&like);
    if (rc == 0 && s->batch) {
        c->batch_memory = b->op->alloc(b, c->batch_bytes);
        if (!c->batch_memory) return err_memory(e, "the batch", c->batch_bytes);
    }
    return rc ? rc : c->cpu->op->reserve(c->cpu, s, e);
}

static const struct batch *count_begin(struct backend *b, const struct batch *batch)
{
    struct counting *c = enter(b, COUNT_begin, batch->n_byte);
    CHECK(batch->n_byte <= c->batch_bytes, "a batch of %zu bytes, %zu reserved", batch->n_byte,
          c->batch_bytes);
    memcpy(c->batch_memory, batch->memory, batch->n_byte);
    c->on_device = batch_at(batch, c->batch_memory);
    leave(c);
    return &c->on_device;
}

#define OP(name, parameters, arguments)                                                            \
    static void count_##name parameters                                                            \
    {                                                                                              \
        struct counting *c = enter(b, COUNT_##name, 0);                                            \
        c->cpu->op->name arguments;                                                                \
        leave(c);                                                                                  \
    }
OP(embed, (struct backend * b, float *y, const struct tensor *w, const int32_t *token, int n_row),
   (c->cpu, y, w, token, n_row))
OP(rms_norm,
   (struct backend * b, float *y, const float *x, const float *g, int n_row, int n, float eps),
   (c->cpu, y, x, g, n_row, n, eps))
OP(layer_norm,
   (struct backend * b, float *y, const float *x, const struct layer_norm *norm, int n_row),
   (c->cpu, y, x, norm, n_row))
OP(linear, (struct backend * b, float *y, const struct linear *l, const float *x, int n_row),
   (c->cpu, y, l, x, n_row))
OP(rope,
   (struct backend * b, float *x, int n_head, int d_head, const int32_t *pos, int n_row,
    const struct rope_spec *spec),
   (c->cpu, x, n_head, d_head, pos, n_row, spec))
OP(kv_put,
   (struct backend * b, const struct kv_layer *kv, const float *k, const float *v,
    const int32_t *slot, int n_row),
   (c->cpu, kv, k, v, slot, n_row))
OP(attn,
   (struct backend * b, float *y, const float *q, const struct kv_layer *kv,
    const struct batch *batch, const struct attn_spec *spec),
   (c->cpu, y, q, kv, batch, spec))
OP(curve_mul,
   (struct backend * b, float *y, const float *gate, const float *up, int64_t n, enum curve curve),
   (c->cpu, y, gate, up, n, curve))
OP(curve, (struct backend * b, float *y, int64_t n, enum curve curve), (c->cpu, y, n, curve))
OP(add, (struct backend * b, float *y, const float *x, int64_t n), (c->cpu, y, x, n))
OP(mul, (struct backend * b, float *y, const float *x, int64_t n), (c->cpu, y, x, n))
OP(scale, (struct backend * b, float *x, int64_t n, float by), (c->cpu, x, n, by))
OP(xielu, (struct backend * b, float *y, int64_t n, const struct xielu *p), (c->cpu, y, n, p))
OP(clamped_glu,
   (struct backend * b, float *gate, const float *up, int64_t n, const struct clamped_glu *p),
   (c->cpu, gate, up, n, p))
OP(scale_rows, (struct backend * b, float *y, const float *by, int n_row, int64_t n),
   (c->cpu, y, by, n_row, n))
OP(clamp, (struct backend * b, float *x, int64_t n, float least, float most),
   (c->cpu, x, n, least, most))
OP(softcap, (struct backend * b, float *x, int64_t n, float cap), (c->cpu, x, n, cap))
OP(route, (struct backend * b, const struct route *r, float *logits, int n_row),
   (c->cpu, r, logits, n_row))
OP(experts,
   (struct backend * b, const struct output *out, int n, const float *x, const struct route *r,
    bool by_entry, int n_row),
   (c->cpu, out, n, x, r, by_entry, n_row))
OP(parts,
   (struct backend * b, float *y, const struct linear *l, const float *x, const struct columns *s,
    int n_row),
   (c->cpu, y, l, x, s, n_row))
OP(combine,
   (struct backend * b, float *y, const float *x, const struct route *r, int n_row, int64_t n,
    bool add),
   (c->cpu, y, x, r, n_row, n, add))
OP(weigh, (struct backend * b, float *y, const struct route *r, int n_row, int64_t n),
   (c->cpu, y, r, n_row, n))
OP(gather, (struct backend * b, float *y, const float *x, const int32_t *row, int n_out, int d),
   (c->cpu, y, x, row, n_out, d))
OP(columns, (struct backend * b, float *y, const float *x, const struct columns *s, int n_row),
   (c->cpu, y, x, s, n_row))
OP(match, (struct backend * b, float *y, const float *x, int n_row, int64_t n, float least),
   (c->cpu, y, x, n_row, n, least))
OP(mix_streams,
   (struct backend * b, float *y, const float *x, const float *k, int n_stream, int n_row,
    int64_t n),
   (c->cpu, y, x, k, n_stream, n_row, n))
OP(add_streams,
   (struct backend * b, float *y, const float *x, const float *k, int n_stream, int n_row,
    int64_t n),
   (c->cpu, y, x, k, n_stream, n_row, n))
OP(scale_columns,
   (struct backend * b, float *y, const float *x, const float *g, int n_row, int64_t n),
   (c->cpu, y, x, g, n_row, n))
OP(cut, (struct backend * b, float *y, int n_row, int64_t n, float by), (c->cpu, y, n_row, n, by))
OP(conv, (struct backend * b, float *y, const struct conv *k, const struct batch *batch),
   (c->cpu, y, k, batch))
OP(scan, (struct backend * b, float *y, const struct scan *s, const struct batch *batch),
   (c->cpu, y, s, batch))
OP(linears,
   (struct backend * b, const struct output *out, int n, const struct input *in, int n_row),
   (c->cpu, out, n, in, n_row))
OP(linear_add, (struct backend * b, float *y, const struct linear *l, const float *x, int n_row),
   (c->cpu, y, l, x, n_row))
OP(glu, (struct backend * b, float *y, const struct glu *g, const struct input *in, int n_row),
   (c->cpu, y, g, in, n_row))
OP(rope_put, (struct backend * b, const struct rope_put *r, int n_row), (c->cpu, r, n_row))
#undef OP

/* ---- open and close ---- */

static void count_close(struct backend *b)
{
    struct counting *c = counting_of(b);
    if (c->batch_memory) count_release(b, c->batch_memory, c->batch_bytes);
    CHECK(c->n_region == 0, "%d regions are not released", c->n_region);
    backend_close(c->cpu);
    free(c);
}

static const struct backend_ops ops = {
    .name = "counting",
    .close = count_close,
    .alloc = count_alloc,
    .release = count_release,
    .weights = count_weights,
    .weights_verify = count_weights_verify,
    .weights_close = count_weights_close,
    .weights_use = count_weights_use,
    .reserve = count_reserve,
    .read = count_read,
    .write = count_write,
    .copy = count_copy,
    .begin = count_begin,
    .embed = count_embed,
    .rms_norm = count_rms_norm,
    .layer_norm = count_layer_norm,
    .linear = count_linear,
    .rope = count_rope,
    .kv_put = count_kv_put,
    .attn = count_attn,
    .curve_mul = count_curve_mul,
    .curve = count_curve,
    .add = count_add,
    .mul = count_mul,
    .scale = count_scale,
    .xielu = count_xielu,
    .clamped_glu = count_clamped_glu,
    .scale_rows = count_scale_rows,
    .clamp = count_clamp,
    .softcap = count_softcap,
    .route = count_route,
    .experts = count_experts,
    .parts = count_parts,
    .combine = count_combine,
    .weigh = count_weigh,
    .gather = count_gather,
    .columns = count_columns,
    .match = count_match,
    .mix_streams = count_mix_streams,
    .add_streams = count_add_streams,
    .scale_columns = count_scale_columns,
    .cut = count_cut,
    .conv = count_conv,
    .scan = count_scan,
    .linears = count_linears,
    .linear_add = count_linear_add,
    .glu = count_glu,
    .rope_put = count_rope_put,
};

int test_backend(struct backend **out, enum wrap wrap, const struct backend_options *o,
                 struct err *e)
{
    const char *env = getenv("QUOTH_DOOR");
    if (wrap == WRAP_NONE && env) wrap = strcmp(env, "plain") == 0 ? WRAP_PLAIN : WRAP_COUNTING;
    if (wrap == WRAP_NONE) return backend_open(out, "cpu", o, e);
    struct counting *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e, "a backend", sizeof *c);
    int rc = backend_open(&c->cpu, "cpu", o, e);
    if (rc != 0) {
        free(c);
        return rc;
    }
    c->base = *c->cpu;
    c->base.op = &c->op;
    c->base.is_host = false;
    c->op = ops;
    if (wrap == WRAP_PLAIN)
        c->op.linears = NULL, c->op.linear_add = NULL, c->op.glu = NULL, c->op.rope_put = NULL;
    *out = &c->base;
    return 0;
}

int64_t counting_calls(const struct backend *b, enum counted c)
{
    return counting_of(b)->calls[c];
}

int64_t counting_bytes(const struct backend *b, enum counted c)
{
    return counting_of(b)->bytes[c];
}
