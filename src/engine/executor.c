/* executor.c - a model as the engine's executor. Tests and simulations use another executor, which
 * computes a batch and has a clock. */
#include "engine.h"

#include "base/os.h"
#include "base/pool.h"

static struct model_out forward(void *ctx, const struct batch *b)
{
    struct pool *pool = model_pool(ctx);
    pool_begin(pool); /* models that share their threads compute alternately, one step each */
    struct model_out out = model_forward(ctx, b);
    pool_end(pool);
    return out;
}

static int64_t now_us(void *ctx)
{
    (void)ctx;
    return time_us();
}

static void head(void *ctx, enum head h, const float *x, float *y)
{
    model_head(ctx, h, x, y);
}

static struct weights_use weights_use(void *ctx)
{
    return model_weights_use(ctx);
}

/* Bytes per microsecond between pages and host memory: 4 GB/s, the rate of memcpy on one thread
 * while other threads compute. The rate only determines the kind of preemption. */
static const double copy_rate = 4000;

struct executor executor_of_model(struct model *m)
{
    const struct model_info *info = model_info(m);
    return (struct executor){
        .ctx = m,
        .n_vocab = info->n_vocab,
        .d_hidden = info->n_start > 0 ? 0 : info->d_hidden,
        .whole = info->encoder,
        .start = info->start,
        .n_start = info->n_start,
        .side_max = info->side_max,
        .headless = info->headless,
        .n_page = info->n_page,
        .page_rows = info->page_rows,
        .context_max = info->context_max,
        .context_train = info->context_train,
        .n_host_page = info->n_host_page,
        .page_bytes = info->page_bytes,
        .n_host_state = info->n_host_state,
        .state_bytes = info->state_bytes,
        .copy_rate = copy_rate,
        .window = info->window_all,
        .limits = model_batch_limits(m),
        .name = info->name,
        .kv_type = kv_type_name(info->kv_type),
        .cost = {.row_macs = info->layer_macs,
                 .output_macs = info->head_macs,
                 .pair_macs = info->pair_macs,
                 .layer_bytes = info->layer_bytes,
                 .head_bytes = info->head_bytes,
                 .kv_row_bytes = info->kv_token_bytes},
        .pool = model_pool(m),
        .forward = forward,
        .head = head,
        .head_out = {info->head_out[HEAD_EMBED], info->head_out[HEAD_CLASS]},
        .class_pad = info->class_pad >= 0 ? &info->class_pad : NULL,
        .now_us = now_us,
        .weights_use = model_weights_use(m).limit > 0 ? weights_use : NULL,
    };
}
