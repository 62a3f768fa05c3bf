/* convert.c - open and close a conversion, and make the bytes of its tensors, for to_gguf.c and
 * to_hf.c.
 *
 *   conversion_open    bind the checkpoint, note its used tensors
 *   conversion_add     a tensor of the view and its source
 *   writer --make-->   bytes of one tensor: order of rows, g - 1 -> g, number format
 *
 * A source has the rows of one or several tensors of the checkpoint, in an order (enum row_order).
 * The rows are decoded to f32 and encoded, or copied if they do not change. */
#include "convert_impl.h"

#include "base/log.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

/* ---- rows ---- */

/* Return the row or column of the source that becomes r, of n. */
static int64_t tile_from(const struct source *s, int64_t r, int64_t n)
{
    const struct tiles *t = &s->tiles;
    if (r < t->keep) return r;
    const int64_t size = (n - t->keep) / t->n_head, head = (r - t->keep) / size,
                  at = (r - t->keep) % size;
    const int each = t->n_head / t->n_group, n_inner = s->back ? each : t->n_group,
              n_outer = s->back ? t->n_group : each;
    return t->keep + (head % n_inner * n_outer + head / n_inner) * size + at;
}

/* Return the row of the source that becomes row r, of n_row rows of a part.
 *   ORDER_LANES   GGUF pairs lanes (2i, 2i + 1) of the n rotated lanes of a head, the directory
 *                 (i, i + n / 2)
 *   ORDER_TILED   see struct tiles
 *   ORDER_GROUPS  GGUF has the heads of q, then k, then v; the directory has for each KV head its
 *                 heads of q, k and v */
static int64_t row_from(const struct source *s, int64_t r, int64_t n_row)
{
    if (s->order == ORDER_LANES) {
        const int64_t n = s->n_lane, lane = r % (n_row / s->n_head);
        if (lane >= n) return r;
        if (s->back) return r - lane + lane % (n / 2) * 2 + lane / (n / 2);
        return r - lane + lane / 2 + lane % 2 * (n / 2);
    }
    if (s->order == ORDER_TILED) return tile_from(s, r, n_row);
    if (s->order == ORDER_GROUPS) {
        const int64_t n_kv = s->n_head, group = n_row / n_kv, d = s->d_head, q = group - 2 * d;
        if (s->back) {
            const int64_t g = r / group, at = r % group;
            if (at < q) return g * q + at;
            return n_kv * q + (at < q + d ? 0 : n_kv * d) + g * d + (at - q) % d;
        }
        if (r < n_kv * q) return r / q * group + r % q;
        const int64_t at = (r - n_kv * q) % (n_kv * d);
        return at / d * group + q + (r < n_kv * (q + d) ? 0 : d) + at % d;
    }
    return r;
}

/* Return true if the values of a part are those of its transposed matrices. */
static bool is_transposed(const struct source *s, int part)
{
    return s->order == ORDER_TRANSPOSED && (part == 0 || !s->first_only);
}

/* Return the number of columns of a matrix that are decoded together: whole blocks. */
static int64_t panel_width(const struct tensor_info *from)
{
    enum { COLUMNS = 32 };
    const int block = qtype_info[from->type].block;
    return block > 1 ? block : from->dim[0] % COLUMNS == 0 ? COLUMNS : 1;
}

/* Decode columns of a matrix: panel `at` of all panels of the tensor's matrices. */
static void fill_panel(struct panel *p, const struct tensor_info *from, int64_t at)
{
    const int64_t width = panel_width(from), n = from->dim[1], matrix = at * width / from->dim[0],
                  column = at * width % from->dim[0];
    const size_t step = qtype_bytes(from->type, from->dim[0]);
    const uint8_t *row = from->data + (size_t)(matrix * n) * step + qtype_bytes(from->type, column);
    float value[BLOCK_MAX];
    for (int64_t i = 0; i < n; i++, row += step) {
        qtype_info[from->type].ops->decode(value, row, width);
        for (int64_t c = 0; c < width; c++) p->v[c * n + i] = value[c];
    }
    p->from = from, p->at = at;
}

/* Write n values of one column from value `first` on of the transposed matrices of a tensor. */
static void decode_transposed(float *to, struct panel *p, const struct tensor_info *from,
                              int64_t first, int64_t n)
{
    const int64_t size = panel_width(from) * from->dim[1], at = first / size;
    if (p->from != from || p->at != at) fill_panel(p, from, at);
    memcpy(to, p->v + first % size, (size_t)n * sizeof *to);
}

/* Decode row `row` of a part, k values. A row that is not whole blocks, such as one value of a
 * vector, is decoded value by value. */
static void decode_row(struct conversion *g, float *to, const struct source *s, int part,
                       const struct tensor_info *from, int64_t row, int64_t k)
{
    const struct qtype_ops *ops = qtype_info[from->type].ops;
    if (s->form) {
        const struct published *p = &s->form[part];
        float *own = p->order ? to + k : to;
        published_rows((uint8_t *)own, p, QT_f32, row, 1, k);
        for (int64_t i = 0; i < k && p->order; i++) to[p->order[i]] = own[i];
    } else if (is_transposed(s, part)) {
        decode_transposed(to, &g->panel[part], from, row * k, k);
    } else if (k % qtype_info[from->type].block != 0) {
        for (int64_t i = 0; i < k; i++) to[i] = qtype_value(from->type, from->data, row * k + i);
    } else {
        ops->decode(to, from->data + (size_t)row * qtype_bytes(from->type, k), k);
    }
}

/* Return true if the values of a row differ from the checkpoint's. */
static bool changes_values(const struct source *s)
{
    return s->add != 0 || s->n_factor > 0 || s->map != MAP_SAME || s->columns;
}

/* Multiply k values, of row `row` of a matrix or of a vector, by the factors of a source. */
static void scale_row(float *v, const struct source *s, int64_t row, int64_t k, bool vector)
{
    int f = 0;
    for (int64_t i = 0; i < k && s->n_factor > 0; i++) {
        const int64_t at = vector ? i : row;
        while (f + 1 < s->n_factor && at >= s->factor[f].end) f++;
        v[i] *= s->factor[f].by;
    }
}

/* Write the codes of block `row`, or the k exponents of the blocks from row * k on. A byte of codes
 * has two consecutive values, the first in the low bits. In a block, the values i and i + 16 share
 * byte i. */
static void make_piece(uint8_t *to, const struct source *s, const struct tensor_info *from,
                       int64_t k, int64_t row)
{
    const size_t step = (size_t)qtype_info[QT_mxfp4].n_byte;
    const int half = qtype_info[QT_mxfp4].block / 2;
    if (s->piece == PIECE_EXPONENTS) {
        for (int64_t i = 0; i < k; i++) to[i] = from->data[(size_t)(row * k + i) * step];
        return;
    }
    const uint8_t *code = from->data + (size_t)row * step + 1;
    for (int i = 0; i < half; i++) {
        const int at = 2 * i % half, shift = 2 * i / half * 4;
        to[i] = (uint8_t)((code[at] >> shift & 15) | (code[at + 1] >> shift & 15) << 4);
    }
}

/* Make row `row` of a part. to: receives the bytes of the row. */
static void make_row(struct conversion *g, const struct source *s, int part,
                     const struct tensor_info *t, int64_t k, int64_t row, uint8_t *to)
{
    const struct tensor_info *from = s->tensor ? checkpoint_tensor_at(g->c, s->tensor[part]) : t;
    if (s->piece != PIECE_VALUES) {
        make_piece(to, s, from, k, row);
        return;
    }
    if (!s->form && from->type == t->type && !changes_values(s) && !is_transposed(s, part)) {
        memcpy(to, from->data + (size_t)row * qtype_bytes(t->type, k), qtype_bytes(t->type, k));
        return;
    }
    /* the codes of this format are copied, because other codes may have the same values */
    if (s->form && s->form[part].form == FORM_CODES && t->type == QT_mxfp4 && s->n_factor == 0 &&
        published_type(&s->form[part]) == QT_mxfp4) {
        published_rows(to, &s->form[part], t->type, row, 1, k);
        return;
    }
    decode_row(g, g->row, s, part, from, row, k);
    for (int64_t i = 0; i < k && s->add != 0; i++) g->row[i] += s->add;
    for (int64_t i = 0; i < k && s->map == MAP_DECAY; i++) {
        const double x = (double)g->row[i];
        g->row[i] = (float)(s->back ? log(-x) : -exp(x));
    }
    scale_row(g->row, s, row, k, t->n_dim == 1);
    float *made = g->row + (s->columns ? k : 0);
    for (int64_t i = 0; i < k && s->columns; i++) made[i] = g->row[tile_from(s, i, k)];
    qtype_info[t->type].ops->encode(to, made, k, NULL);
}

/* Make the buffers at least n_byte bytes and n_row values long. Return false without memory. */
static bool grow(struct conversion *g, size_t n_byte, size_t n_row)
{
    if (n_byte > g->n_made) {
        free(g->made);
        g->made = malloc(n_byte), g->n_made = g->made ? n_byte : 0;
    }
    if (n_row > g->n_row) {
        free(g->row);
        g->row = malloc(n_row * sizeof *g->row), g->n_row = g->row ? n_row : 0;
    }
    return n_byte <= g->n_made && n_row <= g->n_row;
}

/* Make the panels of a source long enough. Return false without memory. */
static bool grow_panels(struct conversion *g, const struct source *s)
{
    bool ok = true;
    for (int i = 0; i < s->n_part && !s->form && is_transposed(s, i); i++) {
        CHECK(i < 2, "a source has %d transposed parts", s->n_part);
        struct panel *p = &g->panel[i];
        const struct tensor_info *from = checkpoint_tensor_at(g->c, s->tensor[i]);
        const size_t n = (size_t)(panel_width(from) * from->dim[1]);
        if (n <= p->n) continue;
        free(p->v);
        *p = (struct panel){.v = malloc(n * sizeof *p->v)};
        p->n = p->v ? n : 0;
        ok = ok && p->v;
    }
    return ok;
}

/* Return the bytes of a tensor if they are a section of the checkpoint; otherwise NULL. */
static const uint8_t *section(const struct conversion *g, const struct source *s,
                              const struct tensor_info *t)
{
    if (s->n_part != 1 || s->form || s->order != ORDER_SAME || changes_values(s)) return NULL;
    const struct tensor_info *from = checkpoint_tensor_at(g->c, s->tensor[0]);
    return from->type == t->type ? from->data + (size_t)s->first * qtype_bytes(t->type, t->dim[0])
                                 : NULL;
}

/* Return the number of values of a row that is made at once. A vector with an order is treated as
 * rows of one value, so that a bias has the order of its matrix. */
static int64_t row_length(const struct source *s, const struct tensor_info *t)
{
    const int64_t k = t->n_dim > 1 || s->order == ORDER_SAME ? t->dim[0] : 1;
    return s->run[0] > 0 && s->run[0] < k ? s->run[0] : k;
}

/* Make the bytes of a tensor. */
static const uint8_t *make(void *ctx, int i, int *rc, struct err *e)
{
    struct conversion *g = ctx;
    const struct source *s = &g->source.v[i];
    const struct tensor_info *t = checkpoint_tensor_at(g->view, i);
    if (g->stop && *g->stop) *rc = err_set(e, ERR_BUSY, "cancelled: stopped by a signal");
    if (*rc != 0) return NULL;
    if (s->value) return (const uint8_t *)s->value;
    const uint8_t *whole = section(g, s, t);
    if (whole) return whole;
    const int64_t k = row_length(s, t);
    const int64_t n_row = t->dim[0] / k * t->dim[1] * t->dim[2] * t->dim[3];
    if (!grow(g, t->n_byte, 2 * (size_t)k) || !grow_panels(g, s))
        *rc = err_memory(e, t->name, t->n_byte);
    uint8_t *to = g->made;
    for (int64_t p = 0, done = 0, n; done < n_row && *rc == 0; p++, done += n) {
        const bool alternates = s->run[0] > 0;
        const int part = (int)(alternates ? p % 2 : p);
        n = alternates ? s->run[part] / k : n_row / s->n_part;
        const int64_t first = s->first + (alternates ? p / 2 * n : 0);
        for (int64_t r = 0; r < n; r++, to += qtype_bytes(t->type, k))
            make_row(g, s, part, t, k, first + row_from(s, r, n), to);
    }
    return *rc == 0 ? g->made : NULL;
}

/* ---- the view ---- */

int conversion_add(struct conversion *g, const char *name, enum qtype type, int n_dim,
                   const int64_t *dim, const struct source *source, struct err *e)
{
    if (!vec_push(&g->source, *source)) {
        free(source->tensor);
        return err_memory(e, name, sizeof *source);
    }
    return checkpoint_build_tensor(g->view, name, type, n_dim, dim, e);
}

int conversion_source(struct source *s, int i, struct err *e)
{
    s->tensor = malloc(sizeof *s->tensor);
    s->n_part = 1;
    if (!s->tensor) return err_memory(e, "a tensor's source", sizeof *s->tensor);
    s->tensor[0] = i;
    return 0;
}

static void note_key(void *ctx, const struct explained_key *k)
{
    (void)ctx;
    (void)k;
}

/* Record the use of a tensor. A copy is not written, because it equals a tensor that is written.
 * The first tensor without a use is logged. */
static void note_tensor(void *ctx, const struct explained_tensor *t)
{
    struct conversion *g = ctx;
    if (t->i < 0) return;
    g->used[t->i] = t->fate == FATE_USED && t->form != TENSOR_COPY;
    if (t->fate != FATE_USED && g->n_left_out++ == 0)
        log_warn("%s: tensor %s and others that the model does not use are not in the result: %s",
                 checkpoint_path(g->c), checkpoint_tensor_at(g->c, t->i)->name_raw, t->why);
}

int conversion_open(struct conversion **out, const struct checkpoint *c,
                    const struct conversion_options *o, struct err *e)
{
    struct conversion *g = *out = calloc(1, sizeof *g);
    if (!g) return err_memory(e, "the conversion", sizeof *g);
    *g = (struct conversion){.c = c, .stop = o->stop, .type = o->type, .pure = o->pure};
    const struct explain x = {.key = note_key, .tensor = note_tensor, .ctx = g};
    g->used = calloc((size_t)checkpoint_n_tensor(c) + 1, sizeof *g->used);
    int rc = g->used ? 0 : err_memory(e, "the tensor list", sizeof *g->used);
    if (rc == 0) rc = model_bind(&g->m, c, o->backend, &x, e);
    return rc ? rc : checkpoint_build(&g->view, checkpoint_path(c), make, g, e);
}

struct checkpoint *conversion_view(const struct conversion *g)
{
    return g->view;
}

int conversion_n_vocab(const struct conversion *g)
{
    return g->m->config.n_vocab;
}

void conversion_close(struct conversion *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->source.n; i++) free(g->source.v[i].tensor);
    vec_deinit(&g->source);
    checkpoint_close(g->view);
    model_close(g->m);
    free(g->made);
    free(g->row);
    for (size_t i = 0; i < sizeof g->panel / sizeof g->panel[0]; i++) free(g->panel[i].v);
    free(g->used);
    free(g);
}

int conversion_add_value(struct conversion *g, const char *name, int n_dim, float x, struct err *e)
{
    const int64_t one = 1;
    float *v = arena_push(&g->m->arena, sizeof *v, sizeof *v);
    if (!v) return err_memory(e, name, sizeof *v);
    *v = x;
    const struct source s = {.value = v};
    return conversion_add(g, name, QT_f32, n_dim, &one, &s, e);
}

void conversion_rename(char out[NAME_BYTES], const struct arch *a, const char *name, bool back)
{
    const struct name_pair *p = a->convert ? a->convert->name : NULL;
    snprintf(out, NAME_BYTES, "%s", name);
    for (; p && p->raw; p++) {
        const char *from = back ? p->name : p->raw;
        if (!text_ends_with(out, from)) continue;
        char *at = out + strlen(out) - strlen(from);
        snprintf(at, (size_t)(out + NAME_BYTES - at), "%s", back ? p->raw : p->name);
        return;
    }
}
