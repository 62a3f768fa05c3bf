/* convert.c - a Hugging Face directory -> one GGUF file, and back.
 *
 *   checkpoint_open --> model_gguf_open --> tokenizer_put_gguf --> checkpoint_write_gguf
 *                   '-> folder_fill --> folder_write
 *       --> check_written --> rename        until then the result is OUT.part-PID
 *
 * The written file or folder is opened and compared with the source before it gets its name: the
 * config (model_same_config), each token and the ids of texts. A result with another meaning never
 * gets the name. Two kinds of texts are exceptions: a rare text with other ids is only a warning
 * (warn_texts), and texts of all tokens are not compared for byte-level BPE (check_encoding). */
#include "session_impl.h"

#include "base/os.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Set the name of the unfinished result. */
static int part_path(char part[PATH_BYTES], const struct convert_options *o, struct err *e)
{
    const int n = snprintf(part, PATH_BYTES, "%s.part-%d", o->out, (int)getpid());
    return n > 0 && n < PATH_BYTES
               ? 0
               : err_set(e, ERR_ARG, "%s: cannot write: the path is too long", o->out);
}

/* Return true if the path is a GGUF, or an empty file. */
static bool is_gguf(const char *path)
{
    struct file_map m = {0};
    bool is = file_map_open(&m, path, NULL) == 0 &&
              (m.n_byte == 0 || (m.n_byte >= 4 && memcmp(m.data, "GGUF", 4) == 0));
    file_map_close(&m);
    return is;
}

/* Check that the result replaces nothing but a GGUF: no folder, no file of a checkpoint, no pipe
 * and no device. A link itself is replaced, not its file. folder: the result is a folder. */
static int check_free(const struct convert_options *o, bool folder, struct err *e)
{
    struct stat st;
    if (lstat(o->out, &st) != 0) return 0;
    const bool link = S_ISLNK(st.st_mode), file = link || S_ISREG(st.st_mode);
    if (file && !folder && !o->replaces)
        return err_set(e, ERR_ARG, "%s: cannot create: it exists; --force replaces it", o->out);
    if (file && !folder && (is_gguf(o->out) || (link && !file_exists(o->out)))) return 0;
    return err_set(e, ERR_ARG, "%s: cannot create: it exists%s; give the path of a new one", o->out,
                   folder || S_ISDIR(st.st_mode) ? "" : " and is not a GGUF");
}

/* Check that the name of the result fits its kind: a GGUF becomes a folder, and a folder becomes a
 * GGUF. */
static int check_kind(const struct convert_options *o, bool folder, struct err *e)
{
    if (folder && text_ends_with(o->out, ".gguf"))
        return err_set(e, ERR_ARG,
                       "%s: a GGUF becomes a folder of safetensors, not a GGUF; to change the type "
                       "of its matrices, convert the folder to a GGUF afterwards with --type",
                       o->out);
    if (!folder && text_ends_with(o->out, ".safetensors"))
        return err_set(e, ERR_ARG, "%s: a folder becomes a GGUF; give a path such as model.gguf",
                       o->out);
    return 0;
}

/* Copy the path of the result without slashes at its end. With a slash at the end, the unfinished
 * result would be inside the folder. */
static int out_path(char out[PATH_BYTES], const struct convert_options *o, struct err *e)
{
    size_t n = strlen(o->out);
    while (n > 1 && o->out[n - 1] == '/') n--;
    if (n == 0 || n >= PATH_BYTES)
        return err_set(e, ERR_ARG, "%.100s: cannot create: the path is %s", o->out,
                       n ? "too long" : "empty");
    memcpy(out, o->out, n);
    out[n] = 0;
    return 0;
}

/* End a conversion whose result is at `part`, or failed with rc: compare the result with its source
 * and give it its name, or remove it. Messages contain the name of the result instead of `part`. */
static int commit(int rc, const char *part, const struct checkpoint *c,
                  const struct convert_options *o, struct err *e)
{
    if (rc == 0) rc = check_written(part, c, o, e);
    if (rc == 0 && rename(part, o->out) != 0)
        rc = err_set(e, ERR_IO, "%s: cannot write: %s", o->out, strerror(errno));
    if (rc == 0) return 0;
    replace_path(e, rc, part, o->out);
    if (dir_exists(part))
        folder_remove(part);
    else
        unlink(part);
    return rc;
}

/* Convert a directory to a GGUF. */
static int convert_to_gguf(const struct checkpoint *c, const struct convert_options *o,
                           struct err *e)
{
    char part[PATH_BYTES];
    struct conversion *g = NULL;
    const struct conversion_options mo = {.backend = o->backend, .type = o->type, .stop = o->stop};
    int rc = model_gguf_open(&g, c, &mo, e);
    if (rc == 0) rc = tokenizer_put_gguf(conversion_view(g), c, conversion_n_vocab(g), e);
    if (rc == 0) rc = part_path(part, o, e);
    if (rc == 0) {
        rc = checkpoint_write_gguf(conversion_view(g), part, o->progress, o->ctx, e);
        rc = commit(rc, part, c, o, e);
    }
    conversion_close(g);
    return rc;
}

/* Convert a GGUF to a folder. */
static int convert_to_folder(const struct checkpoint *c, const struct convert_options *o,
                             struct err *e)
{
    char part[PATH_BYTES];
    struct folder f = {.c = c, .o = o};
    int rc = part_path(part, o, e);
    if (rc == 0) rc = folder_fill(&f, e);
    if (rc == 0) rc = commit(folder_write(&f, part, e), part, c, o, e);
    folder_deinit(&f);
    return rc;
}

/* Append advice to the error of a conversion that is not supported, if quoth runs the source: its
 * architecture and its tokenizer are supported. */
static int advise(const struct checkpoint *c, const struct convert_options *o, int rc,
                  struct err *e)
{
    struct err other = {0}, was = *e;
    struct model_sizes sizes = {.kv_type = KV_F16};
    struct tokenizer *t = NULL;
    if (rc != ERR_UNSUPPORTED || model_measure(c, o->backend, NULL, &sizes, &other) != 0 ||
        tokenizer_open(&t, c, &other) != 0)
        return rc;
    tokenizer_close(t);
    return err_set(e, rc, "%s; quoth runs the %s itself", was.text,
                   checkpoint_kind(c) == CKPT_HF ? "folder" : "file");
}

int session_convert(const char *path, const struct convert_options *given, struct err *e)
{
    char out[PATH_BYTES];
    struct convert_options own = *given, *o = &own;
    struct checkpoint *c = NULL;
    int rc = out_path(out, given, e);
    own.out = out;
    if (rc == 0) rc = checkpoint_open(&c, path, e);
    const bool gguf = c && checkpoint_kind(c) == CKPT_GGUF;
    if (rc == 0) rc = check_kind(o, gguf, e);
    if (rc == 0) rc = check_free(o, gguf, e);
    if (rc == 0) rc = gguf ? convert_to_folder(c, o, e) : convert_to_gguf(c, o, e);
    if (c) rc = advise(c, o, rc, e);
    checkpoint_close(c);
    return rc;
}
