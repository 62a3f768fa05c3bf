/* score.c - the logits of a given text, without an engine: perplexity, golden tests. One sequence
 * with pages 0, 1, 2 ... The text is processed in chunks of the batch's limits. Each chunk attends
 * to all earlier chunks. */
#include "engine.h"

#include "base/cpu.h"

/* Fill the batch with rows [pos0, pos0 + n) of a text of n_text tokens. */
static void fill(struct batch *b, const int32_t *ids, int n_text, int pos0, int n)
{
    batch_clear(b);
    b->n_seq = 1;
    b->n_row = b->n_out = n;
    b->row0[1] = n;
    b->kv_len[0] = pos0 + n;
    for (int i = 0; i < b->page_stride; i++) b->page[i] = i;
    for (int i = 0; i < n; i++) {
        b->token[i] = ids[pos0 + i];
        b->pos[i] = b->slot[i] = pos0 + i; /* page p holds positions p * page_rows ... */
        b->out_row[i] = i;
        b->out_kind[i] = OUT_LOGITS;
    }
    batch_rope(b, 0, batch_is_long(&b->limits, n_text));
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
    int most = l->n_row < l->n_out ? l->n_row : l->n_out;
    int chunk = o->chunk > 0 && o->chunk < most ? o->chunk : most;
    struct batch b;
    int rc = batch_open(&b, l, e);
    if (rc != 0) return rc;
    unsigned former = cpu_float_canonical();
    for (int pos0 = 0; pos0 < n; pos0 += chunk) {
        int rows = n - pos0 < chunk ? n - pos0 : chunk;
        fill(&b, ids, n, pos0, rows);
        struct model_out out = model_forward(m, &b);
        for (int i = 0; i < rows; i++)
            o->fn(o->ctx, pos0 + i, out.logits + (int64_t)i * info->n_vocab);
    }
    cpu_float_restore(former);
    batch_close(&b);
    return 0;
}
