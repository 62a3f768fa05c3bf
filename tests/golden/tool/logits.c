/* logits.c - print a model's logits for given tokens: logits MODEL TOKENS.i32 OUT.f32 [ROWS
 * [CONTEXT [SOURCE [FORMAT]]]]. A model without a head has the logits of its classifier, or hidden
 * states if it has none. K, V and activations are f32. With FORMAT, such as Q8_0, weights are
 * quantized to it and activations are int8. A step has at most ROWS tokens, in [1, 128] (default
 * 128), or all tokens if the model has no head. The context has CONTEXT tokens (0, the default:
 * those of the text). The first SOURCE tokens are the source of a model of encoder and decoder
 * (default 0). tests/golden/fields.py and odd.py compare these numbers with those of other
 * programs. */
#include "base/buf.h"
#include "base/os.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct out {
    FILE *f;
    int n_vocab;
};

static void keep(void *ctx, int pos, const float *logits)
{
    struct out *o = ctx;
    (void)pos;
    fwrite(logits, sizeof *logits, (size_t)o->n_vocab, o->f);
}

enum { N_OUT = 128 }; /* rows of results per step */

/* Fill the batch with the whole text. Rows [first, end) are results. */
static void fill(struct batch *b, const int32_t *ids, int n, int page_rows, int first, int end)
{
    batch_clear(b);
    for (int i = 0; i * page_rows < n; i++) b->page[i] = i;
    for (int i = 0; i < n; i++) {
        b->token[i] = ids[i];
        b->pos[i] = b->slot[i] = i;
    }
    for (int i = first; i < end; i++) {
        b->out_row[b->n_out] = i;
        b->out_kind[b->n_out++] = OUT_HIDDEN;
    }
    b->n_row = b->row0[1] = b->kv_len[0] = n;
    b->n_seq = 1;
    batch_rope(b, 0, batch_is_long(&b->limits, n));
    batch_state(b, 0, 0);
}

/* Set h f32 [n, d_model] to the hidden states. The text is computed again for every N_OUT rows. */
static int hidden_of(struct model *m, const int32_t *ids, int n, float *h, struct err *e)
{
    const struct model_info *info = model_info(m);
    struct batch b;
    int rc = batch_open(&b, model_batch_limits(m), e);
    for (int first = 0; rc == 0 && first < n; first += N_OUT) {
        fill(&b, ids, n, info->page_rows, first, first + N_OUT < n ? first + N_OUT : n);
        const char *wrong = batch_check(&b, info->n_vocab, info->n_page, info->page_rows);
        if (wrong) rc = err_set(e, ERR_ARG, "batch: %s", wrong);
        const struct model_out out = rc == 0 ? model_forward(m, &b) : (struct model_out){0};
        if (rc == 0)
            memcpy(h + (size_t)first * (size_t)info->d_model, out.hidden,
                   sizeof *h * (size_t)info->d_model * (size_t)out.n_hidden);
    }
    batch_close(&b);
    return rc;
}

/* Return the row that the classifier reads: the first, the last, or the mean in h's first row. */
static const float *pooled(const struct model_info *info, float *h, int n)
{
    const int d = info->d_model;
    if (info->class_pooling == 2) return h;
    if (info->class_pooling == 3) return h + (size_t)(n - 1) * (size_t)d;
    for (int i = 0; i < d; i++) {
        double sum = 0;
        for (int t = 0; t < n; t++) sum += (double)h[(size_t)t * (size_t)d + (size_t)i];
        h[i] = (float)(sum / n);
    }
    return h;
}

/* Write the classifier's logits, or the hidden states if the model has none. */
static int write_results(struct model *m, const int32_t *ids, int n, FILE *f, struct err *e)
{
    const struct model_info *info = model_info(m);
    const size_t n_hidden = (size_t)n * (size_t)info->d_model,
                 n_class = (size_t)info->head_out[HEAD_CLASS];
    float *h = calloc(n_hidden + n_class, sizeof *h);
    int rc = h ? hidden_of(m, ids, n, h, e) : err_memory(e, "hidden states", n_hidden * sizeof *h);
    if (rc == 0 && n_class) {
        model_head(m, HEAD_CLASS, pooled(info, h, n), h + n_hidden);
        fwrite(h + n_hidden, sizeof *h, n_class, f);
    } else if (rc == 0) {
        fwrite(h, sizeof *h, n_hidden, f);
    }
    free(h);
    return rc;
}

static int run(const char *path, const struct buf *ids, int n_row, int context, int n_source,
               const char *format, FILE *f, struct err *e)
{
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    struct model *m = NULL;
    int n = (int)(ids->n / sizeof(int32_t)), rc = checkpoint_open(&c, path, e);
    struct backend_options bo = {.n_thread = 1, .act = format ? ACT_CHOICE_INT8 : ACT_CHOICE_F32};
    if (rc == 0) rc = backend_open(&b, "cpu", &bo, e);
    struct model_options mo = {.backend = b,
                               .quantization = format,
                               .kv_type = KV_F32,
                               .context_max = context > n ? context : n,
                               .n_longest = 1,
                               .batch = {.n_row = n > 128 ? n : 128, .n_seq = 1, .n_out = N_OUT}};
    if (rc == 0) rc = model_open(&m, c, &mo, e);
    struct out o = {f, rc == 0 ? model_info(m)->n_vocab : 0};
    const struct score_options so = {.chunk = n_row, .fn = keep, .ctx = &o, .n_source = n_source};
    if (rc == 0 && model_info(m)->headless)
        rc = write_results(m, (const int32_t *)ids->data, n, f, e);
    else if (rc == 0)
        rc = score_tokens(m, (const int32_t *)ids->data, n, &so, e);
    model_close(m);
    backend_close(b);
    checkpoint_close(c);
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct buf ids = {0};
    int n_row = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 128,
        context = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 0,
        n_source = argc > 6 ? (int)strtol(argv[6], NULL, 10) : 0;
    const char *format = argc > 7 ? argv[7] : NULL;
    if (argc < 4 || argc > 8 || n_row < 1 || n_row > 128 || context < 0 || n_source < 0) {
        fprintf(stderr,
                "usage: logits MODEL TOKENS.i32 OUT.f32 [ROWS [CONTEXT [SOURCE [FORMAT]]]]\n");
        return 2;
    }
    FILE *f = fopen(argv[3], "wb");
    int rc = file_read(&ids, argv[2], 1 << 24, &e);
    if (rc == 0 && !f) rc = err_set(&e, ERR_IO, "%s: cannot write", argv[3]);
    if (rc == 0) rc = run(argv[1], &ids, n_row, context, n_source, format, f, &e);
    if (f) fclose(f);
    buf_deinit(&ids);
    if (rc != 0) fprintf(stderr, "refused: %s\n", e.text);
    return rc != 0;
}
