/* convert.c - quoth convert: a folder of safetensors as one GGUF file, and back. Ctrl-C leaves no
 * file.
 *
 * The writer tests `stop` between two pieces of output. The result gets its name at the end, so an
 * interrupted conversion leaves no file that looks like a model. SIGTERM has the same effect as
 * Ctrl-C. */
#include "cli.h"

#include "base/os.h"
#include "session/session.h"

#include <signal.h>
#include <stdio.h>

static const char *out_path, *type, *outtype;
static bool force;

/* Return the i-th legal type. The only float format without conversion is F32. */
static const char *type_name(int i)
{
    const char *name;
    for (int k = 0; (name = quant_mix_name_at(k)); k++) {
        const int t = qtype_of_name(name);
        if ((t < 0 || qtype_info[t].gguf_id >= 0) && i-- == 0) return name;
    }
    return NULL;
}

static const struct option options[] = {
    TEXT_OPTION("output", "PATH", &out_path, "file or folder of the result", .letter = 'o'),
    NAME_OPTION("type", "FORMAT", &type, type_name,
                "number format or mixture of the matrices (default: the formats of the model)"),
    NAME_OPTION("outtype", "FORMAT", &outtype, type_name, "another name of --type"),
    FLAG_OPTION("force", &force, "replace an existing GGUF"),
    OPTIONS_END,
};

/* true after Ctrl-C: set by the signal handler, read by the writer */
static volatile sig_atomic_t stop;

/* Record SIGINT or SIGTERM. The writer then removes its unfinished file. */
static void on_stop(int signal)
{
    (void)signal;
    stop = 1;
}

/* Show the rate of writing (convert_options.progress). ctx: time of the start. */
static void show_progress(void *ctx, uint64_t done, uint64_t n_byte)
{
    const int64_t *start = ctx;
    const double s = (double)(time_us() - *start) * 1e-6;
    /* equals the number of written megabytes only at the end */
    const uint64_t n = n_byte / 1000000 + 1;
    progress_rate("MB written", done == n_byte ? n : done / 1000000, n,
                  s > 0 ? (double)done * 1e-6 / s : 0);
}

static int convert(const char *path, struct err *e)
{
    struct backend *b;
    int64_t start = time_us();
    int rc = backend_open(&b, backend_name(0), &(struct backend_options){.n_thread = 1}, e);
    const struct convert_options o = {.backend = b,
                                      .out = out_path,
                                      .type = type ? type : outtype,
                                      .replaces = force,
                                      .progress = show_progress,
                                      .ctx = &start,
                                      .stop = &stop};
    if (rc == 0) rc = session_convert(path, &o, e);
    backend_close(b);
    return rc;
}

static int run(int n_arg, char **arg)
{
    struct sigaction end = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    struct err e = {0};
    if (n_arg != 1 || !out_path)
        return fprintf(stderr, "quoth convert: usage: quoth convert MODEL -o PATH\n"), 2;
    if (type && outtype)
        return fprintf(stderr, "quoth convert: --outtype: must not come with --type\n"), 2;
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGTERM, &end, NULL);
    return convert(arg[0], &e) ? fail("convert", &e) : 0;
}

const struct command command_convert = {
    .name = "convert",
    .summary = "write a folder of safetensors as a GGUF file, or a GGUF as a folder",
    .usage = "MODEL -o PATH",
    .detail =
        "The result also has the tokenizer and the chat templates. quoth compares the result with "
        "the source before the result gets its name. Parts that the result cannot express are "
        "rejected. Vectors and norms become F32. With --type, matrices become another format, for "
        "example F16, Q8_0 or Q4_K_M. Quantized weights of a folder (GPTQ, AWQ, FP8, bitsandbytes "
        "...) become floats: without --type the first of F16, BF16 and F32 that has every value.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
