/* load.c - opening a model's own weights, or random ones in its place (--load-format dummy): for
 * measuring, and for trying out whatever does not ask what the model says. */
#include "load.h"

#include "base/os.h"

#include <string.h>

static const char *format = "auto", *shape, *quant;
static bool pure;
static int64_t seed;

const struct option load_options[] = {
    {.kind = OPTION_TEXT,
     .name = "load-format",
     .arg = "FORMAT",
     .target = &format,
     .help = "auto, or dummy: random weights in the shape of MODEL, a GGUF or a folder that needs "
             "no more than a config.json"},
    {.kind = OPTION_TEXT,
     .name = "shape",
     .arg = "NAME",
     .target = &shape,
     .help = "instead of MODEL: random weights in a published shape (llama-1b, qwen3-8b, ...; a "
             "wrong name lists them)"},
    {.kind = OPTION_TEXT,
     .name = "quant",
     .arg = "TYPE",
     .target = &quant,
     .help = "number format of random weights, or a mixture: Q4_0, IQ2_XS, Q4_K_M ... (as in the "
             "GGUF; else BF16)"},
    {.kind = OPTION_FLAG,
     .name = "pure",
     .target = &pure,
     .help = "every matrix in --quant's format, the head too"},
    {.kind = OPTION_INT,
     .name = "dummy-seed",
     .arg = "N",
     .target = &seed,
     .lo = 0,
     .hi = 1ll << 53,
     .help = "of random weights (0)"},
    {.kind = OPTION_END},
};

const char *load_shape(void)
{
    return shape;
}

static int check(const char *path, bool *dummy, struct err *e)
{
    *dummy = shape || strcmp(format, "dummy") == 0;
    if (!*dummy && strcmp(format, "auto") != 0)
        return err_set(e, ERR_ARG, "--load-format: \"%s\" is not auto or dummy", format);
    if (!*dummy && (quant || pure))
        return err_set(e, ERR_ARG, "--%s is for random weights: --shape, or --load-format dummy",
                       quant ? "quant" : "pure");
    if (shape && strcmp(path, shape) != 0)
        return err_set(e, ERR_ARG, "--shape %s and the model %s: give one of them", shape, path);
    if (pure && !quant) return err_set(e, ERR_ARG, "--pure is about --quant, which is not given");
    return 0;
}

int load_checkpoint(struct checkpoint **out, const char *path, bool no_data, struct err *e)
{
    bool dummy;
    int rc = check(path, &dummy, e);
    *out = NULL;
    if (rc != 0) return rc;
    if (!dummy) return checkpoint_open(out, path, e);
    struct dummy_options o = {.shape = shape,
                              .model = path,
                              .quant = quant,
                              .pure = pure,
                              .seed = (uint64_t)seed,
                              .no_data = no_data};
    return checkpoint_open_dummy(out, &o, e);
}

int load_tokenizer(struct tokenizer **out, const struct checkpoint *c, struct err *e)
{
    bool random_folder = checkpoint_kind(c) == CKPT_GGUF && dir_exists(checkpoint_path(c));
    int rc = random_folder ? tokenizer_open_file(out, checkpoint_path(c), NULL, e) : ERR_MISSING;
    return rc == ERR_MISSING ? tokenizer_open(out, c, e) : rc;
}
