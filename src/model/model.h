/* model.h - a loaded model: checkpoint -> weights bound to an architecture -> logits for a batch.
 *
 * The model never sees a request: model_forward computes one struct batch, whatever mixture of
 * prefill chunks and decodes of however many sequences it holds. Open and close from one thread;
 * forward on the engine's. */
#ifndef QUOTH_MODEL_H
#define QUOTH_MODEL_H

#include "backend/backend.h"
#include "cache/cache.h"
#include "format/format.h"

struct model; /* opaque */

struct model_options {
    struct backend *backend; /* borrowed, for the model's whole life                  */
    enum kv_type kv_type;
    int page_rows;    /* 0: 32                                                 */
    int n_page;       /* KV pages; 0: as kv_bytes says                         */
    int64_t kv_bytes; /* of the pages together; 0: as memory_utilization says  */
    /* Of this machine's memory, weights and all: pages get what remains; 0: as many as n_longest of the
     * longest sequences need, as far as half of the free memory goes, one at least (0: 1) */
    double memory_utilization;
    int n_longest;
    int64_t swap_bytes; /* host memory for pages of preempted sequences, 0: none */
    int context_max;    /* longest sequence; 0: the model's own, shortened to fit memory */
    /* where packed weights are kept; the key is the model's to set */
    struct weights_options weights;
    /* n_row, n_seq, n_out of a step; page_stride and the rest are filled in */
    struct batch_limits batch;
};

/* Read-only facts, for the engine, the CLI and reports. */
struct model_info {
    const char *arch; /* "llama" ...                         */
    const char *name; /* general.name, or the file's name    */
    int n_layer, d_model, d_ff, n_head, n_head_kv, d_head, n_vocab;
    int context_train; /* as the model was trained            */
    int context_max;   /* as it is run                        */
    int window;        /* sliding window of any layer, 0 none */
    int window_all;    /* positions that some layer sees, where all have a window; else 0 */
    int64_t n_param;
    int64_t weight_bytes; /* as published                        */
    /* what a step must read, and multiply-adds per row and per logits; the layers' matrices and the head's */
    int64_t layer_bytes, head_bytes, layer_macs, head_macs;
    struct weights_info weights; /* the backend's form of them     */
    int64_t kv_token_bytes;      /* KV bytes per token, all layers      */
    int64_t kv_bytes;            /* the whole pool (reserved)           */
    int64_t scratch_bytes;       /* activations, rope tables, outputs   */
    int page_rows, n_page;
    int64_t page_bytes; /* of all layers                       */
    int n_host_page;    /* pages that the swap space holds     */
    int64_t swap_bytes; /* the swap space (reserved)           */

    enum kv_type kv_type;
};

/* The checkpoint must outlive the model (names and vectors stay in its map). Errors name tensor or
 * key, found, expected. */
int model_open(struct model **out, const struct checkpoint *c, const struct model_options *o,
               struct err *e);
void model_close(struct model *m); /* NULL is fine */
const struct model_info *model_info(const struct model *m);

/* Compare the packed weights that are kept with what packing the checkpoint gives now: one verdict
 * for each tensor that is packed. Unless all are the same, what is kept is removed. ERR_MISSING:
 * nothing is kept; ERR_FORMAT: what is kept cannot be read; and all failures of model_open. */
typedef void model_verdict_fn(void *ctx, const char *tensor, enum weights_verdict v);
int model_verify(const struct checkpoint *c, const struct model_options *o, model_verdict_fn *tell,
                 void *ctx, struct err *e);

/* The limits with which batch_open makes a batch that fits this model. */
const struct batch_limits *model_batch_limits(const struct model *m);

/* Where forward leaves its results, valid until the next forward. */
struct model_out {
    const float *logits; /* f32 [number of OUT_LOGITS rows, n_vocab], in the order of out_row */
    const float *hidden; /* f32 [number of OUT_HIDDEN rows, d_model], after the output norm   */
};

/* Do the batch's copies, then compute all rows (there may be none). Cannot fail on a batch that batch_check accepts;
 * allocates nothing. */
struct model_out model_forward(struct model *m, const struct batch *b);

/* Every KV page is in memory from now on, not from its first use. Before anybody computes. */
void model_touch_pages(struct model *m);

/* Called with every named intermediate: x f32 [n_row, n]. layer is -1 outside layers. For tests
 * and debugging. */
typedef void trace_fn(void *ctx, int layer, const char *name, const float *x, int n_row, int64_t n);
void model_trace(struct model *m, trace_fn *fn, void *ctx); /* NULL: off */

#endif
