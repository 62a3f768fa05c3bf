/* weights.c - a session's weights, and the place of their packed form.
 *
 * The weights come from a model's files, or are random (--load-format dummy). Random weights are
 * for measurements and for tests that do not depend on the model's output.
 *
 * The packed form is kept in a folder of the cache, so that the next start maps it instead of
 * packing. --no-pack-cache disables the cache. */
#include "session.h"

#include "base/filecache.h"
#include "base/os.h"

#include <string.h>

/* Minimum number of bytes of weights that are kept packed. Smaller weights are packed in a few
 * milliseconds, and most of these models belong to tests. */
enum { PACKED_BYTES_MIN = 16 << 20 };

static int check(const struct session_options *o, const char *path, bool *dummy, struct err *e)
{
    *dummy = o->shape || strcmp(o->load_format, "dummy") == 0;
    if (!*dummy && (o->quant || o->pure))
        return err_set(e, ERR_ARG, "--%s needs random weights: give --shape or --load-format dummy",
                       o->quant ? "quant" : "pure");
    if (o->shape && strcmp(path, o->shape) != 0)
        return err_set(e, ERR_ARG, "--shape %s: must not come with the model %s", o->shape, path);
    if (*dummy && strcmp(o->hf_overrides, "{}") != 0)
        return err_set(e, ERR_ARG, "--hf-overrides: must not come with random weights");
    if (*dummy && o->quantization)
        return err_set(
            e, ERR_ARG,
            "--quantization: must not come with random weights; --quant gives their format");
    if (*dummy && (o->rope_scaling || o->rope_theta > 0))
        return err_set(e, ERR_ARG, "--%s: must not come with random weights",
                       o->rope_scaling ? "rope-scaling" : "rope-theta");
    if (o->pure && !o->quant) return err_set(e, ERR_ARG, "--pure needs --quant");
    return 0;
}

/* Reject a model if its format differs from --load-format gguf or safetensors. */
static int check_kind(const struct checkpoint *c, const char *format, struct err *e)
{
    bool gguf = strcmp(format, "gguf") == 0, hf = strcmp(format, "safetensors") == 0;
    enum checkpoint_kind kind = checkpoint_kind(c);
    if ((!gguf || kind == CKPT_GGUF) && (!hf || kind == CKPT_HF)) return 0;
    return err_set(e, ERR_ARG, "--load-format %s: %s has another format; auto detects it", format,
                   checkpoint_path(c));
}

/* Open a model of random weights. Binding lists the tensors of a folder. */
static int open_listed(struct checkpoint **out, struct dummy_options *d, struct err *e)
{
    struct backend *b = NULL;
    int rc = backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, e);
    d->tensors = model_list_random, d->tensors_ctx = b;
    if (rc == 0) rc = checkpoint_open_dummy(out, d, e);
    backend_close(b);
    return rc;
}

int session_checkpoint(struct checkpoint **out, const char *path, const struct session_options *o,
                       bool no_data, struct err *e)
{
    bool dummy;
    int rc = check(o, path, &dummy, e);
    *out = NULL;
    if (rc != 0) return rc;
    if (!dummy) {
        char rope[SESSION_ROPE_BYTES];
        struct checkpoint_changes changes = {.config = o->hf_overrides,
                                             .rope_theta = o->rope_theta};
        rc = session_rope(&changes, rope, o, e);
        if (rc == 0) rc = checkpoint_open_with(out, path, &changes, e);
        if (rc == 0) rc = check_kind(*out, o->load_format, e);
        if (rc != 0) checkpoint_close(*out), *out = NULL;
        return rc;
    }
    struct dummy_options d = {.shape = o->shape,
                              .model = path,
                              .quant = o->quant,
                              .pure = o->pure,
                              .seed = (uint64_t)o->dummy_seed,
                              .no_data = no_data};
    return dir_exists(path) && !o->shape ? open_listed(out, &d, e)
                                         : checkpoint_open_dummy(out, &d, e);
}

/* Write random weights of a folder as a GGUF with another tokenizer. The conversion gives the
 * names, types and sizes of the tensors. The writer generates their bytes, so no weights are in
 * memory. A GGUF that would be another model is not written. */
static int write_folder(struct checkpoint *c, const struct session_options *o, const char *out,
                        progress_fn *progress, void *ctx, struct err *e)
{
    struct conversion_options to = {.type = o->quant, .pure = o->pure};
    struct conversion *g = NULL;
    struct dummy_options d = {
        .model = checkpoint_path(c), .seed = (uint64_t)o->dummy_seed, .no_data = true};
    struct checkpoint *made = NULL;
    int rc = backend_open(&to.backend, "cpu", &(struct backend_options){.n_thread = 1}, e);
    if (rc == 0) rc = checkpoint_outline(c, e);
    if (rc == 0) rc = model_gguf_open(&g, c, &to, e);
    if (rc == 0) d.view = conversion_view(g), rc = checkpoint_open_dummy(&made, &d, e);
    if (rc == 0) rc = checkpoint_outline(made, e);
    if (rc == 0) rc = model_same_config(c, made, to.backend, e);
    if (rc == 0) rc = checkpoint_write_gguf(made, out, progress, ctx, e);
    checkpoint_close(made);
    conversion_close(g);
    backend_close(to.backend);
    return rc;
}

int session_write_gguf(const char *path, const struct session_options *o, const char *out,
                       progress_fn *progress, void *ctx, struct err *e)
{
    struct checkpoint *c;
    int rc = session_checkpoint(&c, path, o, true, e);
    if (rc == 0)
        rc = checkpoint_kind(c) == CKPT_HF && checkpoint_is_random(c)
                 ? write_folder(c, o, out, progress, ctx, e)
                 : checkpoint_write_gguf(c, out, progress, ctx, e);
    checkpoint_close(c);
    return rc;
}

int session_tokenizer(struct tokenizer **out, const struct checkpoint *c,
                      const struct session_options *o, struct err *e)
{
    const bool random_folder = checkpoint_is_random(c) && dir_exists(checkpoint_path(c));
    int rc = random_folder ? tokenizer_open_file(out, checkpoint_path(c), NULL, e) : ERR_MISSING;
    if (rc == ERR_MISSING) rc = tokenizer_open(out, c, e);
    if (rc == 0) rc = chat_mark_turns(*out, c, o->chat_template, e);
    if (rc != 0) tokenizer_close(*out), *out = NULL;
    return rc;
}

const char *pack_cache_dir(void)
{
    static _Thread_local char dir[4096];
    struct err e;
    return filecache_dir(dir, sizeof dir, "packed", &e) == 0 ? dir : NULL;
}

struct weights_options session_weights(const struct session_options *o, struct filecache *cache)
{
    const int64_t memory = session_bytes(o->weights_memory);
    *cache = (struct filecache){.dir = pack_cache_dir(),
                                .n_byte_min = memory > 0 ? 0 : PACKED_BYTES_MIN,
                                .bytes_max = (uint64_t)(o->pack_cache_size * 1e9)};
    return (struct weights_options){.cache = o->pack_cache ? cache : NULL,
                                    .own = !o->mmap,
                                    .memory = memory,
                                    .progress = o->progress,
                                    .ctx = o->progress_ctx};
}
