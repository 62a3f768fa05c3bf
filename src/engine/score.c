/* score.c - the logits of a given text, without an engine: perplexity, golden tests. The batch has
 * one sequence with pages 0, 1, 2 ... The text is processed in chunks of the batch's limits. Each
 * chunk attends to all earlier chunks. The source of a model of encoder and decoder is the first
 * chunk. */
#include "engine.h"

#include "base/cpu.h"

/* Fill the batch with rows [pos0, pos0 + n) of a text of n_text tokens. All rows have results,
 * except rows of the source. */
static void fill(struct batch *b, const int32_t *ids, int n_text, int pos0, int n, int n_source)
{
    batch_clear(b);
    b->n_seq = 1;
    b->n_row = n;
    b->n_out = pos0 < n_source ? 0 : n;
    b->row0[1] = n;
    b->kv_len[0] = pos0 + n;
    for (int i = 0; i < b->page_stride; i++) b->page[i] = i;
    for (int i = 0; i < n; i++) {
        b->token[i] = ids[pos0 + i];
        b->pos[i] = b->slot[i] = pos0 + i; /* page p holds positions p * page_rows ... */
        if (n_source > 0) b->place[i] = pos0 + i - (pos0 < n_source ? 0 : n_source);
        b->out_row[i] = i;
        b->out_kind[i] = OUT_LOGITS;
    }
    batch_rope(b, 0, batch_is_long(&b->limits, n_text));
    batch_state(b, 0, 0);
    if (n_source > 0) b->source[0] = n_source;
}

/* Check that ids [n] have a source if and only if the model needs one. */
static int check_source(const struct model *m, int n, int n_source, struct err *e)
{
    const struct model_info *info = model_info(m);
    const int max = model_batch_limits(m)->n_source;
    if (info->n_start == 0 && n_source == 0) return 0;
    if (info->n_start == 0)
        return err_set(e, ERR_UNSUPPORTED, "%s: must not have a source, got one of %d tokens",
                       info->name, n_source);
    if (n_source == 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: logits of a model of encoder and decoder without a source: not "
                       "supported yet",
                       info->name);
    if (n_source < 0 || n_source > max || n_source >= n)
        return err_set(e, ERR_LIMIT, "the source: must have at most %d of %d tokens, got %d", max,
                       n, n_source);
    return info->side_max == 0 || n - n_source <= info->side_max
               ? 0
               : err_set(e, ERR_LIMIT, "the text: must have at most %d tokens after the source",
                         info->side_max);
}

int score_tokens(struct model *m, const int32_t *ids, int n, const struct score_options *o,
                 struct err *e)
{
    const struct model_info *info = model_info(m);
    const struct batch_limits *l = model_batch_limits(m);
    if (info->headless)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: logits without a language model head: not supported yet", info->name);
    int n_room = info->n_page * info->page_rows;
    int n_max = n_room < info->context_max ? n_room : info->context_max;
    if (n > n_max)
        return err_set(e, ERR_LIMIT, "the text: must have at most %d tokens, got %d", n_max, n);
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= info->n_vocab)
            return err_set(e, ERR_ARG, "token id: must be in [0, %d), got %d", info->n_vocab,
                           ids[i]);
    int rc = check_source(m, n, o->n_source, e);
    if (rc != 0) return rc;
    int most = l->n_row < l->n_out ? l->n_row : l->n_out;
    int chunk = o->chunk > 0 && o->chunk < most ? o->chunk : most;
    struct batch b;
    rc = batch_open(&b, l, e);
    if (rc != 0) return rc;
    unsigned former = cpu_float_canonical();
    for (int pos0 = 0, rows; pos0 < n; pos0 += rows) {
        rows = n - pos0 < chunk ? n - pos0 : chunk;
        if (pos0 < o->n_source) rows = o->n_source;
        fill(&b, ids, n, pos0, rows, o->n_source);
        struct model_out out = model_forward(m, &b);
        for (int i = 0; i < out.n_logits; i++)
            o->fn(o->ctx, pos0 + i, out.logits + (int64_t)i * info->n_vocab);
    }
    cpu_float_restore(former);
    batch_close(&b);
    return 0;
}
