/* kernels_ops.c - quoth bench kernels --op: the backend's ops one by one, on a model's weights and
 * widths but without the model.
 *
 *   linear     all matrices in the order of the file, as a forward pass meets them, each timed by
 *              itself: what comes from a cache there comes from a cache here. A sample is one such
 *              turn. GB/s counts the weights as published
 *   attn       a row each of --batch sequences, and --prompt rows of one, at each --depth (else the
 *              usual ones); a sample is a turn through all layers, with the caches spoiled before.
 *              GB/s counts K and V, TOP/s 2 (d_k + d_v) for each head, row and position it sees
 *   the rest   on the same few rows again and again, which are then in a cache as they are in a
 *              forward pass; a sample is as many calls as fill SAMPLE_US. GB/s counts what is read
 *              and written */
#include "kernels.h"

#include "base/cpu.h"
#include "base/os.h"
#include "base/rng.h"
#include "cache/cache.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_US = 20000, MOST_GROUPS = 256 };

/* The matrices of one name, type and shape, over all layers. */
struct group {
    char part[48]; /* "ffn_down", "token_embd" */
    enum qtype type;
    int64_t n_out, k;
    bool is_head;
    VEC(struct linear) matrix; /* owned */
    struct samples us;         /* owned: of one call, in the turns that count */
};

struct bench {
    const struct kernels_plan *plan;
    struct session s; /* without a model */
    bool usual_attn;  /* attention is measured at depths of its own */
    int n_layer, d, d_ff, n_head, n_head_kv, d_head;
    VEC(struct group) group;
    VEC(uint32_t) order; /* of the matrices in the file: the group of each */
    struct weights *weights;
    struct ids n_row; /* the numbers of rows that are measured, owned */
    int n_row_max;
    float *x, *y, *z, *ones; /* owned, each big enough for any op */
    int32_t *index;          /* owned [n_row_max]: 0, 1, 2 ... */
    struct kv_store kv;
    struct bench_batch batch;
    struct limits *limits; /* to compare with where the plan says so, and to spoil caches */
};

/* One op on given operands. */
struct call {
    const char *op, *part, *type;
    void (*run)(struct bench *b, const struct call *c, int i);
    int n_cycle;               /* calls with different operands, in turn */
    const struct group *group; /* of linear */
    int n_row, depth;
    bool from_memory;  /* the caches are spoiled before each turn */
    int64_t n;         /* values in a row */
    double bytes, ops; /* of a call */
};

/* ---- one row ---- */

static int time_call(struct bench *b, const struct call *c, struct samples *us, struct err *e)
{
    bool ok = true;
    for (int i = 0; i < c->n_cycle; i++) c->run(b, c, i);
    for (int s = 0; s < b->plan->n_repeat && ok; s++) {
        if (c->from_memory) limits_spoil(b->limits);
        int64_t start = time_us(), took = 0, least = c->from_memory ? 0 : SAMPLE_US;
        int n = 0;
        while (n == 0 || took < least || n % c->n_cycle) {
            c->run(b, c, n++ % c->n_cycle);
            took = time_us() - start;
        }
        ok = vec_push(us, (double)took / n);
    }
    return ok ? 0 : err_memory(e, "samples", sizeof(double));
}

static void print_json(const struct call *c, const struct samples *us, double gb, double top,
                       const struct limit limit[2])
{
    char read[16], peak[16];
    printf("{\"op\":\"%s\",\"tensor\":\"%s\",\"type\":\"%s\",\"n_out\":%lld,\"k\":%lld,\"rows\":%d,"
           "\"depth\":%d,\"us\":%.3f,\"sd\":%.3f,\"gb_per_s\":%.4f,\"of_read\":%s,"
           "\"top_per_s\":%.5f,\"of_peak\":%s}\n",
           c->op, c->part, c->type, (long long)(c->group ? c->group->n_out : 1), (long long)c->n,
           c->n_row, c->depth, samples_mean(us), samples_sd(us), gb,
           share_json(read, gb * 1e9, limit[0].read, limit[1].read), top,
           share_json(peak, top * 1e12, limit[0].ops, limit[1].ops));
}

static void print_text(const struct call *c, const struct samples *us, double gb, double top,
                       const struct limit limit[2])
{
    char read[16], peak[16];
    printf("%-9s %-12s %-8s %7lld x %-7lld %5d %7d %11.2f %9.2f %8.2f %7s %8.4f %7s\n", c->op,
           c->part, c->type, (long long)(c->group ? c->group->n_out : 1), (long long)c->n, c->n_row,
           c->depth, samples_mean(us), samples_sd(us), gb,
           share_text(read, gb * 1e9, limit[0].read, limit[1].read), top,
           share_text(peak, top * 1e12, limit[0].ops, limit[1].ops));
}

static void print_call(const struct bench *b, const struct call *c, const struct samples *us,
                       const struct limit limit[2])
{
    double mean = samples_mean(us), gb = c->bytes / mean * 1e-3, top = c->ops / mean * 1e-6;
    (b->plan->as_json ? print_json : print_text)(c, us, gb, top, limit);
    fflush(stdout);
}

/* What stays in a cache has no limit here. */
static struct limit limit_of(struct bench *b, const struct call *c)
{
    bool wanted = c->from_memory && b->plan->limits;
    return limits_now(wanted ? b->limits : NULL, ARITH_F32);
}

static int measure_call(struct bench *b, const struct call *c, struct err *e)
{
    struct samples us = {0};
    struct limit limit[2];
    progress_note(c->op);
    limit[0] = limit_of(b, c);
    int rc = time_call(b, c, &us, e);
    limit[1] = limit_of(b, c);
    progress_note(NULL);
    if (rc == 0) print_call(b, c, &us, limit);
    vec_deinit(&us);
    return rc;
}

/* ---- linear ---- */

/* A prompt has one row of logits. */
static bool is_met(const struct bench *b, const struct group *g, int n_row)
{
    return !g->is_head || n_row <= b->plan->n_seq;
}

/* One turn through all matrices; its mean times are added to the groups' samples. */
static bool turn_linear(struct bench *b, int n_row)
{
    struct backend *be = b->s.backend;
    double us[MOST_GROUPS] = {0};
    size_t n[MOST_GROUPS] = {0};
    int64_t before = time_us(), now;
    for (size_t i = 0; i < b->order.n; i++) {
        uint32_t g = b->order.v[i];
        const struct linear *l = &b->group.v[g].matrix.v[n[g]++];
        if (is_met(b, &b->group.v[g], n_row)) be->op->linear(be, b->y, l, b->x, n_row);
        now = time_us();
        us[g] += (double)(now - before);
        before = now;
    }
    for (size_t g = 0; g < b->group.n; g++)
        if (!vec_push(&b->group.v[g].us, us[g] / (double)n[g])) return false;
    return true;
}

static void print_linear(const struct bench *b, const struct group *g, int n_row,
                         const struct limit limit[2])
{
    double values = (double)g->k * (double)g->n_out;
    struct call c = {.op = "linear",
                     .part = g->part,
                     .type = qtype_info[g->type].name,
                     .group = g,
                     .n_row = n_row,
                     .n = g->k,
                     .bytes = (double)qtype_bytes(g->type, g->k) * (double)g->n_out,
                     .ops = 2 * values * n_row};
    print_call(b, &c, &g->us, limit);
}

static int measure_linear_rows(struct bench *b, int n_row, struct err *e)
{
    struct limit limit[N_ARITH][2];
    struct limits *l = b->plan->limits ? b->limits : NULL;
    progress_note("linear");
    turn_linear(b, n_row);
    for (size_t g = 0; g < b->group.n; g++) b->group.v[g].us.n = 0;
    for (enum arith k = 0; k < N_ARITH; k++) limit[k][0] = limits_now(l, k);
    bool ok = true;
    for (int i = 0; i < b->plan->n_repeat && ok; i++) ok = turn_linear(b, n_row);
    for (enum arith k = 0; k < N_ARITH; k++) limit[k][1] = limits_now(l, k);
    progress_note(NULL);
    for (size_t g = 0; g < b->group.n && ok; g++)
        if (is_met(b, &b->group.v[g], n_row))
            print_linear(b, &b->group.v[g], n_row, limit[arith_of(b->group.v[g].type)]);
    return ok ? 0 : err_memory(e, "samples", sizeof(double));
}

static int measure_linear(struct bench *b, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < b->n_row.n && rc == 0; i++)
        rc = measure_linear_rows(b, b->n_row.v[i], e);
    return rc;
}

/* ---- attention ---- */

/* Rows at a time, as an engine would take them. */
enum { PROMPT_ROWS = 2048 };

static const int usual_depth[] = {1 << 10, 8 << 10, 32 << 10, 128 << 10},
                 usual_prompt[] = {512, 8192};

static void run_attn_step(struct bench *b, int i)
{
    struct backend *be = b->s.backend;
    struct attn_spec spec = {.n_head = b->n_head,
                             .n_head_kv = b->n_head_kv,
                             .d_k = b->d_head,
                             .d_v = b->d_head,
                             .scale = 1 / sqrtf((float)b->d_head)};
    be->op->attn(be, b->y, b->x, &b->kv.layer[i], &b->batch.batch, &spec);
}

static void run_attn(struct bench *b, const struct call *c, int i)
{
    (void)c;
    run_attn_step(b, i);
}

static void run_prompt_attn(struct bench *b, const struct call *c, int i)
{
    for (int at = 0; at < c->n_row; at += PROMPT_ROWS) {
        int n = c->n_row - at < PROMPT_ROWS ? c->n_row - at : PROMPT_ROWS;
        batch_clear(&b->batch.batch);
        bench_batch_add(&b->batch, 0, c->depth + at, n, false);
        run_attn_step(b, i);
    }
}

/* Fill every page of every layer: memory that was never written would all be one page of zeros. */
static void fill_kv(struct bench *b)
{
    struct backend *be = b->s.backend;
    int n_slot = b->kv.n_page * b->kv.page_rows;
    for (int il = 0; il < b->kv.n_layer; il++)
        for (int at = 0, n; at < n_slot; at += n) {
            n = n_slot - at < b->n_row_max ? n_slot - at : b->n_row_max;
            for (int i = 0; i < n; i++) b->index[i] = at + i;
            be->op->kv_put(be, &b->kv.layer[il], b->x, b->x, b->index, n);
        }
    for (int i = 0; i < b->n_row_max; i++) b->index[i] = i;
}

/* Pages for all sequences at the greatest depth, in as many layers as a quarter of the memory
 * holds. */
static int open_kv(struct bench *b, struct err *e)
{
    enum kv_type type = KV_F16;
    bool usual = b->usual_attn;
    int context = usual ? usual_depth[3] + 1 : b->plan->context, n_seq = usual ? 1 : b->plan->n_seq;
    int page_rows = session_page_rows(), stride = (context + page_rows - 1) / page_rows;
    struct kv_geometry geometry = {b->n_head_kv, b->d_head, b->d_head};
    int rc = session_kv_type(&type, &session_flags, e);
    if (rc != 0 || b->kv.memory) return rc;
    int64_t bytes = kv_store_bytes_per_page(&geometry, 1, type, page_rows) * stride * n_seq;
    int64_t most = (int64_t)(os_memory_free() / 4) / (bytes ? bytes : 1);
    int n = most < 1 ? 1 : most < b->n_layer ? (int)most : b->n_layer;
    struct kv_geometry *all = calloc((size_t)n, sizeof *all);
    if (!all) return err_memory(e, "the KV geometry", (unsigned long long)n * sizeof *all);
    for (int i = 0; i < n; i++) all[i] = geometry;
    rc = kv_store_open(&b->kv, b->s.backend, all, n, type, page_rows, stride * n_seq, e);
    free(all);
    struct batch_limits l = {
        .n_row = b->n_row_max, .n_seq = n_seq, .n_out = n_seq, .page_stride = stride};
    if (rc == 0) rc = bench_batch_open(&b->batch, &l, page_rows, 1, e);
    if (rc == 0) fill_kv(b);
    return rc;
}

/* n_seq sequences of a row each, or one of n rows, from position `depth` on. */
static int measure_attn_case(struct bench *b, bool is_prompt, int n_seq, int n, int depth,
                             struct err *e)
{
    batch_clear(&b->batch.batch);
    for (int s = 0; s < n_seq && !is_prompt; s++) bench_batch_add(&b->batch, s, depth, n, false);
    struct kv_geometry geometry = {b->n_head_kv, b->d_head, b->d_head};
    double page_bytes =
        (double)kv_store_bytes_per_page(&geometry, 1, b->kv.layer[0].type, b->kv.page_rows);
    double seen = (double)n * depth + 0.5 * n * (n + 1); /* positions, summed over the rows */
    struct call c = {.op = "attn",
                     .part = is_prompt ? "prompt" : "decode",
                     .type = kv_type_name(b->kv.layer[0].type),
                     .run = is_prompt ? run_prompt_attn : run_attn,
                     .from_memory = true,
                     .n_cycle = b->kv.n_layer,
                     .n_row = n_seq * n,
                     .depth = depth,
                     .n = (int64_t)b->n_head * b->d_head,
                     .bytes = page_bytes / b->kv.page_rows * (depth + n) * n_seq,
                     .ops = 4.0 * b->n_head * b->d_head * seen * n_seq};
    return measure_call(b, &c, e);
}

static int measure_usual_attn(struct bench *b, struct err *e)
{
    int rc = open_kv(b, e);
    for (size_t i = 0; i < sizeof usual_depth / sizeof *usual_depth && rc == 0; i++)
        rc = measure_attn_case(b, false, 1, 1, usual_depth[i], e);
    for (size_t i = 0; i < sizeof usual_prompt / sizeof *usual_prompt && rc == 0; i++)
        rc = measure_attn_case(b, true, 1, usual_prompt[i], 0, e);
    return rc;
}

static int measure_attn(struct bench *b, struct err *e)
{
    const struct kernels_plan *p = b->plan;
    if (b->usual_attn) return measure_usual_attn(b, e);
    int rc = open_kv(b, e);
    for (size_t i = 0; i < p->depth.n; i++) {
        for (size_t k = 0; k < p->batch.n && rc == 0; k++)
            rc = measure_attn_case(b, false, p->batch.v[k], 1, p->depth.v[i], e);
        for (size_t k = 0; k < p->prompt.n && rc == 0; k++)
            rc = measure_attn_case(b, true, 1, p->prompt.v[k], p->depth.v[i], e);
    }
    return rc;
}

/* ---- the rest ---- */

static void run_rms_norm(struct bench *b, const struct call *c, int i)
{
    (void)i;
    struct backend *be = b->s.backend;
    be->op->rms_norm(be, b->y, b->x, b->ones, c->n_row, (int)c->n, 1e-5f);
}

static void run_rope(struct bench *b, const struct call *c, int i)
{
    (void)i;
    struct backend *be = b->s.backend;
    struct rope_spec spec = {
        .d_rot = b->d_head, .neox = true, .pos_max = b->n_row_max, .cos = b->ones, .sin = b->z};
    be->op->rope(be, b->y, b->n_head, b->d_head, b->index, c->n_row, &spec);
}

static void run_silu_mul(struct bench *b, const struct call *c, int i)
{
    (void)i;
    struct backend *be = b->s.backend;
    be->op->silu_mul(be, b->y, b->x, b->z, c->n * c->n_row);
}

static void run_add(struct bench *b, const struct call *c, int i)
{
    (void)i;
    struct backend *be = b->s.backend;
    be->op->add(be, b->y, b->z, c->n * c->n_row);
}

static void run_kv_put(struct bench *b, const struct call *c, int i)
{
    struct backend *be = b->s.backend;
    be->op->kv_put(be, &b->kv.layer[i], b->x, b->x, b->index, c->n_row);
}

/* n values in a row, of which each costs so many bytes. */
static int measure_rows(struct bench *b, const struct call *like, double bytes_each, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < b->n_row.n && rc == 0; i++) {
        struct call c = *like;
        c.n_row = b->n_row.v[i];
        c.part = "";
        c.type = c.type ? c.type : "float32";
        c.n_cycle = c.n_cycle ? c.n_cycle : 1;
        c.bytes = bytes_each * (double)c.n * c.n_row;
        rc = measure_call(b, &c, e);
    }
    return rc;
}

static int measure_rms_norm(struct bench *b, struct err *e)
{
    return measure_rows(b, &(struct call){.op = "rms_norm", .run = run_rms_norm, .n = b->d}, 8, e);
}

static int measure_rope(struct bench *b, struct err *e)
{
    int64_t n = (int64_t)b->n_head * b->d_head;
    return measure_rows(b, &(struct call){.op = "rope", .run = run_rope, .n = n}, 8, e);
}

static int measure_silu_mul(struct bench *b, struct err *e)
{
    return measure_rows(b, &(struct call){.op = "silu_mul", .run = run_silu_mul, .n = b->d_ff}, 12,
                        e);
}

static int measure_add(struct bench *b, struct err *e)
{
    return measure_rows(b, &(struct call){.op = "add", .run = run_add, .n = b->d}, 12, e);
}

static int measure_kv_put(struct bench *b, struct err *e)
{
    int rc = open_kv(b, e), n_slot = b->kv.n_page * b->kv.page_rows;
    if (rc == 0 && n_slot < b->n_row_max)
        return err_set(e, ERR_ARG, "--op kv_put: %d rows do not fit into %d slots", b->n_row_max,
                       n_slot);
    struct call c = {.op = "kv_put",
                     .type = rc ? NULL : kv_type_name(b->kv.layer[0].type),
                     .run = run_kv_put,
                     .n = 2 * (int64_t)b->n_head_kv * b->d_head,
                     .n_cycle = b->kv.n_layer};
    return rc ? rc : measure_rows(b, &c, 4, e);
}

static const struct op {
    const char *name;
    int (*measure)(struct bench *b, struct err *e);
} ops[] = {
    {"linear", measure_linear}, {"attn", measure_attn},         {"rms_norm", measure_rms_norm},
    {"rope", measure_rope},     {"silu_mul", measure_silu_mul}, {"add", measure_add},
    {"kv_put", measure_kv_put},
};

/* ---- opening ---- */

static int size_of(const struct checkpoint *c, const char *key, int64_t otherwise)
{
    char full[160];
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    snprintf(full, sizeof full, "%s.%s", arch ? arch : "", key);
    int64_t n = meta_int(checkpoint_meta(c, full), otherwise);
    return n > 0 && n < 1 << 24 ? (int)n : 1;
}

static void read_sizes(struct bench *b)
{
    const struct checkpoint *c = b->s.checkpoint;
    b->n_layer = size_of(c, "block_count", 1);
    b->d = size_of(c, "embedding_length", 1);
    b->d_ff = size_of(c, "feed_forward_length", 1);
    b->n_head = size_of(c, "attention.head_count", 1);
    b->n_head_kv = size_of(c, "attention.head_count_kv", b->n_head);
    b->d_head = size_of(c, "attention.key_length", b->d / b->n_head);
}

/* "blk.3.ffn_up.weight" -> "ffn_up"; of the rest only the head is a matrix of a linear layer. */
static bool part_of(char out[48], const struct checkpoint *c, const char *name, bool *is_head)
{
    const char *head =
        checkpoint_tensor(c, "output.weight") ? "output.weight" : "token_embd.weight";
    *is_head = strcmp(name, head) == 0;
    const char *dot = strchr(name, '.');
    dot = dot && strncmp(name, "blk.", 4) == 0 ? strchr(dot + 1, '.') : NULL;
    const char *part = dot ? dot + 1 : name;
    snprintf(out, 48, "%.*s", (int)strcspn(part, "."), part);
    return *is_head || dot;
}

static struct group *find_group(struct bench *b, const struct group *like)
{
    for (size_t i = 0; i < b->group.n; i++) {
        struct group *g = &b->group.v[i];
        if (strcmp(g->part, like->part) == 0 && g->type == like->type && g->n_out == like->n_out &&
            g->k == like->k)
            return g;
    }
    bool room = b->group.n < MOST_GROUPS;
    return room && vec_push(&b->group, *like) ? &b->group.v[b->group.n - 1] : NULL;
}

static int gather_matrices(struct bench *b, struct err *e)
{
    for (int i = 0; i < checkpoint_n_tensor(b->s.checkpoint); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(b->s.checkpoint, i);
        struct group like = {.type = t->type, .n_out = t->dim[1], .k = t->dim[0]};
        if (t->n_dim != 2 || !part_of(like.part, b->s.checkpoint, t->name, &like.is_head)) continue;
        struct group *g = find_group(b, &like);
        struct linear l = {
            .w = {.type = t->type, .n_out = t->dim[1], .k = t->dim[0], .data = t->data}};
        if (!g || !vec_push(&g->matrix, l) || !vec_push(&b->order, (uint32_t)(g - b->group.v)))
            return err_memory(e, "the matrices", sizeof l);
    }
    return 0;
}

/* Bring all matrices into the backend's form. */
static int open_weights(struct bench *b, struct err *e)
{
    VEC(struct tensor *) list = {0};
    int rc = gather_matrices(b, e);
    for (size_t g = 0; g < b->group.n && rc == 0; g++)
        for (size_t i = 0; i < b->group.v[g].matrix.n && rc == 0; i++)
            if (!vec_push(&list, &b->group.v[g].matrix.v[i].w))
                rc = err_memory(e, "the matrices", list.n * sizeof *list.v);
    if (rc == 0)
        rc = b->s.backend->op->weights(b->s.backend, &b->weights, list.v, (int)list.n, NULL, NULL,
                                       e);
    vec_deinit(&list);
    return rc;
}

static bool list_rows(struct bench *b)
{
    const struct ids *from[] = {&b->plan->batch, &b->plan->prompt};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < from[l]->n; i++)
            if (!vec_push(&b->n_row, from[l]->v[i])) return false;
    if (b->n_row.n == 0 && !vec_push(&b->n_row, 1)) return false;
    b->n_row_max = numbers_most(&b->n_row, b->usual_attn ? PROMPT_ROWS : 1);
    return true;
}

/* Values in the widest row that any op reads or writes, of as many rows as it gets. */
static int64_t most_values(const struct bench *b, int64_t *k_max)
{
    int64_t row = (int64_t)b->n_head * b->d_head, head = 0;
    row = row > b->d_ff ? row : b->d_ff;
    row = row > b->d ? row : b->d;
    for (size_t g = 0; g < b->group.n; g++) {
        const struct group *t = &b->group.v[g];
        row = row > t->k ? row : t->k;
        if (t->is_head)
            head = t->n_out * b->plan->n_seq;
        else
            row = row > t->n_out ? row : t->n_out;
    }
    *k_max = row;
    return row * b->n_row_max > head ? row * b->n_row_max : head;
}

static int open_buffers(struct bench *b, struct err *e)
{
    int64_t k_max, n = most_values(b, &k_max);
    uint64_t state = 1;
    b->x = malloc((size_t)n * sizeof *b->x);
    b->y = calloc((size_t)n, sizeof *b->y);
    b->z = calloc((size_t)n, sizeof *b->z);
    b->ones = malloc((size_t)n * sizeof *b->ones);
    b->index = malloc((size_t)b->n_row_max * sizeof *b->index);
    if (!b->x || !b->y || !b->z || !b->ones || !b->index)
        return err_memory(e, "operands", (unsigned long long)n * 4 * sizeof(float));
    for (int64_t i = 0; i < n; i++) b->x[i] = 2 * rng_float(&state) - 1, b->ones[i] = 1;
    for (int i = 0; i < b->n_row_max; i++) b->index[i] = i;
    return b->s.backend->op->reserve(b->s.backend, b->n_row_max, k_max, b->d_head,
                                     b->n_head / b->n_head_kv, e);
}

static int open_bench(struct bench *b, const char *model, struct err *e)
{
    if (!list_rows(b)) return err_memory(e, "the plan", sizeof *b);
    int rc = session_checkpoint(&b->s.checkpoint, model, &session_flags, false, e);
    if (rc == 0) rc = session_backend(&b->s, e);
    if (rc == 0) read_sizes(b);
    if (rc == 0) rc = open_weights(b, e);
    return rc ? rc : open_buffers(b, e);
}

static void close_bench(struct bench *b)
{
    limits_close(b->limits);
    bench_batch_close(&b->batch);
    kv_store_close(&b->kv);
    if (b->s.backend) b->s.backend->op->weights_close(b->s.backend, b->weights);
    for (size_t i = 0; i < b->group.n; i++) {
        vec_deinit(&b->group.v[i].matrix);
        vec_deinit(&b->group.v[i].us);
    }
    vec_deinit(&b->order);
    vec_deinit(&b->group);
    vec_deinit(&b->n_row);
    free(b->x), free(b->y), free(b->z), free(b->ones), free(b->index);
    session_close(&b->s);
}

static int check_names(const char *names, struct err *e)
{
    size_t n_known = is_listed(names, "all"), n_typed = 1;
    for (const char *c = names; *c; c++) n_typed += *c == ',';
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        n_known += is_listed(names, ops[i].name);
    if (n_known == n_typed) return 0;
    return err_set(
        e, ERR_ARG,
        "--op: \"%s\": there are all, linear, attn, rms_norm, rope, silu_mul, add, kv_put", names);
}

static void print_head(const struct bench *b, const char *model)
{
    printf("%s, %s, activations %s\n\n", model, backend_describe(b->s.backend), session_act_name());
    printf("%-9s %-12s %-8s %17s %5s %7s %11s %9s %8s %7s %8s %7s\n", "op", "tensor", "type",
           "n_out x k    ", "rows", "depth", "us", "+/-", "GB/s", "of read", "TOP/s", "of peak");
}

int kernels_ops(const char *model, const char *names, const struct kernels_plan *p, struct err *e)
{
    bool attn = is_listed(names, "all") || is_listed(names, "attn");
    struct bench b = {.plan = p, .usual_attn = attn && p->no_depth};
    int rc = check_names(names, e);
    if (rc == 0) rc = open_bench(&b, model, e);
    if (rc == 0) rc = limits_open(&b.limits, b.s.backend, e);
    if (rc == 0 && !p->as_json) print_head(&b, model);
    unsigned former = cpu_float_canonical();
    for (size_t i = 0; i < sizeof ops / sizeof ops[0] && rc == 0; i++)
        if (is_listed(names, "all") || is_listed(names, ops[i].name)) rc = ops[i].measure(&b, e);
    cpu_float_restore(former);
    close_bench(&b);
    return rc;
}
