/* model.h - a loaded model: checkpoint -> weights bound to an architecture -> logits for a batch.
 *
 * The model knows no requests: model_forward computes one struct batch, with any mix of prefill
 * chunks and decodes from any number of sequences. Open and close from one thread; forward on the
 * engine thread. */
#ifndef QUOTH_MODEL_H
#define QUOTH_MODEL_H

#include "backend/backend.h"
#include "cache/cache.h"
#include "format/format.h"

struct model; /* opaque */

struct model_options {
    struct backend *backend; /* borrowed, for the model's whole life                  */
    enum kv_type kv_type;
    int page_rows;    /* rows of a KV page; 0: 32                              */
    int n_page;       /* KV pages; 0: derived from kv_bytes                    */
    int64_t kv_bytes; /* bytes of all pages; 0: derived from memory_utilization */
    /* fraction of the machine's memory for the whole process, weights included; pages get the rest.
     * 0: pages for n_longest sequences of context_max (n_longest 0: 1), limited to half of the free
     * memory, but at least one sequence */
    double memory_utilization;
    int n_longest;
    int64_t swap_bytes; /* host memory for pages of preempted sequences; 0: none */
    int context_max;    /* longest sequence; 0: the model's own, reduced to fit memory */
    /* store of packed weights; the model sets the key */
    struct weights_options weights;
    /* n_row, n_seq and n_out are inputs; the model fills in page_stride and the rest */
    struct batch_limits batch;
};

/* Read-only facts about a model, for the engine, the CLI and reports. */
struct model_info {
    const char *arch; /* "llama" ...                         */
    const char *name; /* general.name, or the file name      */
    int n_layer, d_model, d_ff, n_head, n_head_kv, d_head, n_vocab;
    int context_train; /* context length in training          */
    int context_max;   /* context length in this process      */
    int window;        /* sliding window of any layer, 0: none */
    int window_all;    /* largest sliding window if every layer has one, else 0 */
    int64_t n_param;
    int64_t weight_bytes; /* bytes in the checkpoint             */
    /* Bytes read, and multiply-adds per row and per logits row, by a step of one row: matrices of
     * the layers and of the head. For a mixture, only the experts that a row uses count. */
    int64_t layer_bytes, head_bytes, layer_macs, head_macs;
    struct weights_info weights; /* packed form in the backend     */
    int64_t kv_token_bytes;      /* KV bytes per token over all layers  */
    int64_t kv_bytes;            /* whole pool (reserved)               */
    int64_t scratch_bytes;       /* activations, rope tables, outputs   */
    int page_rows, n_page;
    int64_t page_bytes; /* one page over all layers            */
    int n_host_page;    /* pages in the swap space             */
    int64_t swap_bytes; /* swap space (reserved)               */

    enum kv_type kv_type;
};

/* Open a model. The checkpoint must outlive it: names and vectors stay in the checkpoint's map.
 * Errors name the tensor or key, the found and the expected value. */
int model_open(struct model **out, const struct checkpoint *c, const struct model_options *o,
               struct err *e);
void model_close(struct model *m); /* NULL is fine */
const struct model_info *model_info(const struct model *m);

/* Compare the stored packed weights with a fresh packing of the checkpoint. Calls `report` once per
 * packed tensor. Removes the stored weights unless all tensors are equal. Returns ERR_MISSING if
 * nothing is stored, ERR_FORMAT if the store cannot be read, or an error of model_open. */
typedef void model_verdict_fn(void *ctx, const char *tensor, enum weights_verdict v);
int model_verify(const struct checkpoint *c, const struct model_options *o,
                 model_verdict_fn *report, void *ctx, struct err *e);

/* Return the thread pool of model_forward, borrowed. It is idle between two forward calls. */
struct pool *model_pool(const struct model *m);

/* Return the limits for batch_open of batches that fit this model. */
const struct batch_limits *model_batch_limits(const struct model *m);

/* Results of a forward pass, valid until the next one. */
struct model_out {
    float *logits;          /* f32 [n_logits, n_vocab], OUT_LOGITS rows in the order of out_row   */
    const float *hidden;    /* f32 [n_hidden, d_model], OUT_HIDDEN rows, after the output norm    */
    int n_logits, n_hidden; /* rows                                                               */
};

/* Run the batch's copies, then compute all rows (there may be none). Cannot fail on a batch that
 * batch_check accepts. Does not allocate. */
struct model_out model_forward(struct model *m, const struct batch *b);

/* Make all KV pages resident now instead of on first use. Call before the first forward. */
void model_touch_pages(struct model *m);

/* Callback for every named intermediate: x f32 [n_row, n]; layer is -1 outside layers. For tests
 * and debugging. */
typedef void trace_fn(void *ctx, int layer, const char *name, const float *x, int n_row, int64_t n);
void model_trace(struct model *m, trace_fn *fn, void *ctx); /* NULL: off */

#endif
