/* kernels.c - quoth bench kernels: speed of a model's arithmetic, compared with the machine's
 * limits. Rows and units are those of llama-bench and llama-batched-bench.
 *
 *   pp512      a prompt of 512 tokens, the last token's logits      tokens/s
 *   tg128      128 tokens in sequence                                tokens/s
 *   tg32 x 8   eight sequences concurrently, 32 tokens each         total tokens/s
 *
 * Each row is measured at every --depth, the number of tokens in the cache before the run
 * (kernels_rows.c). --op measures the backend's ops one by one (kernels_ops.c). With -o, the
 * command writes the model as a GGUF file instead, so that other programs can be measured on the
 * same weights.
 *
 *    options -> plan_read -> kernels_rows; kernels_ops (--op); kernels_fusion (--fusion)
 *
 * The text "none" is an empty list, which skips the rows of that option. */
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>

static const char *prompts = "512", *gens = "128", *batches = "1,2,4,8,16,32,64", *depths, *ops,
                  *out_path;
static int64_t n_batch_gen = 32, n_repeat = 5;
static bool as_json, fusion, limits = true;

enum { TOKENS_MAX = 1 << 20, BATCH_MAX = 4096 };

static int lengths_form(const char *text, struct err *e)
{
    return list_form_ints(text, 1, TOKENS_MAX, e);
}

static int batches_form(const char *text, struct err *e)
{
    return list_form_ints(text, 1, BATCH_MAX, e);
}

static int depths_form(const char *text, struct err *e)
{
    return list_form_ints(text, 0, TOKENS_MAX, e);
}

static const struct option options[] = {
    FORM_OPTION("prompt", "N,...", &prompts, lengths_form,
                "tokens of a prompt (default 512; none: skip)", .letter = 'p'),
    FORM_OPTION("gen", "N,...", &gens, lengths_form,
                "tokens to generate in sequence (default 128; none: skip)", .letter = 'n'),
    FORM_OPTION("batch", "N,...", &batches, batches_form,
                "concurrent sequences (default 1,2,4,8,16,32,64; none: skip)"),
    INT_OPTION("batch-gen", "N", &n_batch_gen, 1, 1 << 20,
               "tokens that each sequence of a batch generates (default 32)"),
    FORM_OPTION("depth", "N,...", &depths, depths_form,
                "tokens in the cache before the run (default 0; --op attn: see below)",
                .letter = 'd'),
    INT_OPTION("repeat", "N", &n_repeat, 1, 10000,
               "number of measured runs, after a warm-up (default 5)", .letter = 'r'),
    NAME_OPTION("op", "NAME,...", &ops, kernels_op_name,
                "measure single ops instead: linear, attn, rms_norm ... or all", .many = true),
    FLAG_OPTION("fusion", &fusion, "measure the gain of each fusion of ops instead"),
    TEXT_OPTION("output", "FILE.gguf", &out_path, "write the model as a GGUF without measuring it",
                .letter = 'o'),
    FLAG_OPTION("limits", &limits,
                "measure the machine's limits for each row (default on; --no-limits)"),
    FLAG_OPTION("json", &as_json, "one JSON object per row"),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

/* ---- -o ---- */

static void show_progress(void *ctx, uint64_t done, uint64_t n_byte)
{
    progress_bar(ctx, done, n_byte);
}

static int write_model(const char *model, struct err *e)
{
    return session_write_gguf(model, &session_flags, out_path, show_progress, (void *)out_path, e);
}

/* ---- the plan ---- */

/* Free the lists of a plan. */
static void plan_deinit(struct kernels_plan *p)
{
    vec_deinit(&p->prompt);
    vec_deinit(&p->gen);
    vec_deinit(&p->batch);
    vec_deinit(&p->depth);
}

/* Read the options into a plan. The context is the deepest cache plus the longest run. */
static int plan_read(struct kernels_plan *p, struct err *e)
{
    int rc = list_read_ints(&p->prompt, prompts, 1, TOKENS_MAX, e);
    if (rc == 0) rc = list_read_ints(&p->gen, gens, 1, TOKENS_MAX, e);
    if (rc == 0) rc = list_read_ints(&p->batch, batches, 1, BATCH_MAX, e);
    if (rc == 0) rc = list_read_ints(&p->depth, depths ? depths : "0", 0, TOKENS_MAX, e);
    int longest = list_max_int(&p->gen, list_max_int(&p->prompt, (int)n_batch_gen));
    p->n_batch_gen = (int)n_batch_gen;
    p->n_repeat = (int)n_repeat;
    p->n_seq = list_max_int(&p->batch, 1);
    p->context = list_max_int(&p->depth, 0) + longest + 1;
    p->no_depth = !depths;
    p->as_json = as_json;
    p->limits = limits;
    return rc;
}

static int measure(const char *model, struct err *e)
{
    struct kernels_plan p = {0};
    int rc = plan_read(&p, e);
    if (rc == 0)
        rc = ops      ? kernels_ops(model, ops, &p, e)
             : fusion ? kernels_fusion(model, &p, e)
                      : kernels_rows(model, &p, e);
    plan_deinit(&p);
    return rc;
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    const char *model = n_arg == 1 ? arg[0] : session_bundled(NULL, &e);
    int rc = !model ? ERR_MISSING : out_path ? write_model(model, &e) : measure(model, &e);
    return rc ? fail("bench kernels", &e) : 0;
}

const struct command command_bench_kernels = {
    .name = "bench kernels",
    .summary = "tokens per second of prompts, generation and batches, without a server",
    .usage = "[MODEL] [OPTIONS]",
    .detail =
        "--shape NAME --quant TYPE measures a model of random weights in that shape. With "
        "-o FILE.gguf, the model is written for other programs and not measured. GB/s "
        "counts the weights and the KV that a step must read. TOP/s counts two operations for each "
        "weight and row. The columns \"of read\" and \"of peak\" are shares of the bandwidth and "
        "of the peak of the instructions in use. \"in cache\" replaces a share of the bandwidth "
        "above 1. Phases are those of the thread pool, per step. \"serial\" is the share of the "
        "time outside of phases, \"idle\" the share in which threads wait inside phases. With --op "
        "each row is a single op: linear layers by name, type and shape, attention at each depth, "
        "and other ops at the model's widths. Ops are measured for 1 row and for the rows of "
        "--batch and --prompt. Without --depth, attention is measured for one row at depths of 1k, "
        "8k, 32k and 128k, and for prompts of 512 and 8192 tokens. With --fusion each row is "
        "measured alternately with all fusions and without one fusion.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
