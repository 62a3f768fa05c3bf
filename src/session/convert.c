/* convert.c - a Hugging Face directory -> one GGUF file, and back.
 *
 *   checkpoint_open --> model_gguf_open --> tokenizer_put_gguf --> checkpoint_write_gguf
 *                   '-> model_hf_open --> tokenizer_put_hf --> checkpoint_write_safetensors
 *       --> check_written --> rename        until then the result is OUT.part-PID
 *
 * The written file or folder is opened and compared with the source before it gets its name: the
 * config (model_same_config) and each token. A result that means another model never appears. */
#include "session.h"

#include "base/json.h"
#include "base/os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Compare the tokens of both files: bytes, and whether they are special or end a text. Ids
 * without a piece are unused in a GGUF. */
static int check_tokens(const struct tokenizer *want, const struct tokenizer *got, const char *path,
                        struct err *e)
{
    const int n = tokenizer_n_vocab(want);
    for (int32_t id = 0; id < n; id++) {
        size_t n_want, n_got, n_piece;
        tokenizer_piece(want, id, &n_piece);
        if (n_piece == 0) continue; /* unused */
        const char *a = tokenizer_bytes(want, id, &n_want), *b = tokenizer_bytes(got, id, &n_got);
        if (n_want == n_got && memcmp(a, b, n_want) == 0 &&
            tokenizer_is_special(want, id) == tokenizer_is_special(got, id) &&
            tokenizer_is_eog(want, id) == tokenizer_is_eog(got, id))
            continue;
        return err_set(e, ERR_UNSUPPORTED, "%s: token %d (\"%.*s\") has no equal in a GGUF", path,
                       (int)id, n_want > 40 ? 40 : (int)n_want, a);
    }
    if (tokenizer_bos(want) != tokenizer_bos(got) || tokenizer_eos(want) != tokenizer_eos(got) ||
        tokenizer_adds_bos(want) != tokenizer_adds_bos(got))
        return err_set(e, ERR_UNSUPPORTED, "%s: BOS and EOS have no equal in a GGUF", path);
    return 0;
}

/* Compare the ids of a text. */
static int check_text(const struct tokenizer *want, const struct tokenizer *got,
                      const struct buf *text, const char *path, struct err *e)
{
    struct ids a = {0}, b = {0};
    int rc = tokenizer_encode(want, text->data, text->n, 0, &a, e);
    if (rc == 0) rc = tokenizer_encode(got, text->data, text->n, 0, &b, e);
    size_t i = 0;
    while (i < a.n && i < b.n && a.v[i] == b.v[i]) i++;
    if (rc == 0 && (i < a.n || i < b.n))
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: a text of its own tokens gets other ids from a GGUF, for example instead "
                     "of %d",
                     path, i < a.n ? (int)a.v[i] : -1);
    vec_deinit(&a);
    vec_deinit(&b);
    return rc;
}

/* Compare the ids of texts that consist of the tokens, in their order. The scores of a GGUF order
 * merges in another way than the list of a folder. */
static int check_encoding(const struct tokenizer *want, const struct tokenizer *got,
                          const char *path, struct err *e)
{
    enum { TEXT_BYTES = 4096 };
    struct buf text = {0};
    const int n = strcmp(tokenizer_kind(want), "spm") == 0 ? tokenizer_n_vocab(want) : 0;
    int rc = 0;
    for (int32_t id = 0; id < n && rc == 0; id++) {
        size_t n_byte;
        const char *p = tokenizer_bytes(want, id, &n_byte);
        if (!tokenizer_is_special(want, id) && (n_byte > 1 || (n_byte == 1 && *p > 0)))
            buf_add(&text, p, n_byte);
        if (text.failed) rc = err_memory(e, "a text", text.n);
        if (rc == 0 && text.n > 0 && (text.n >= TEXT_BYTES || id == n - 1)) {
            rc = check_text(want, got, &text, path, e);
            buf_clear(&text);
        }
    }
    buf_deinit(&text);
    return rc;
}

/* Read the written file and compare it with its source. */
static int check_written(const char *path, const struct checkpoint *c,
                         const struct convert_options *o, struct err *e)
{
    struct checkpoint *made = NULL;
    struct tokenizer *want = NULL, *got = NULL;
    int rc = checkpoint_open(&made, path, e);
    if (rc == 0) rc = model_same_config(c, made, o->backend, e);
    if (rc == 0) rc = tokenizer_open(&want, c, e);
    if (rc == 0) rc = tokenizer_open(&got, made, e);
    if (rc == 0) rc = check_tokens(want, got, checkpoint_path(c), e);
    if (rc == 0) rc = check_encoding(want, got, checkpoint_path(c), e);
    tokenizer_close(want);
    tokenizer_close(got);
    checkpoint_close(made);
    return rc;
}

enum { PATH_BYTES = 4096 };

/* Set the name of the unfinished result. */
static int part_path(char part[PATH_BYTES], const struct convert_options *o, struct err *e)
{
    const int n = snprintf(part, PATH_BYTES, "%s.part-%d", o->out, (int)getpid());
    return n > 0 && n < PATH_BYTES
               ? 0
               : err_set(e, ERR_ARG, "%s: cannot write: the path is too long", o->out);
}

static int write_checked(const struct model_gguf *g, const struct checkpoint *c,
                         const struct convert_options *o, struct err *e)
{
    char part[PATH_BYTES];
    int rc = part_path(part, o, e);
    if (rc != 0) return rc;
    rc = checkpoint_write_gguf(model_gguf_view(g), part, o->progress, o->ctx, e);
    if (rc == 0) rc = check_written(part, c, o, e);
    if (rc == 0 && rename(part, o->out) != 0)
        rc = err_set(e, ERR_IO, "%s: cannot write: %s", o->out, strerror(errno));
    if (rc != 0) unlink(part);
    return rc;
}

/* ---- a GGUF to a folder ---- */

static int write_text(const char *dir, const char *name, const struct buf *text, struct err *e)
{
    char path[4096];
    if (!path_join(path, sizeof path, dir, name))
        return err_set(e, ERR_ARG, "%s: cannot write: the path is too long", dir);
    return file_write(path, text->data, text->n, e);
}

/* Append generation_config.json: the ids that end a generation. */
static int put_generation(struct buf *b, const struct checkpoint *c, struct err *e)
{
    struct tokenizer *t;
    const char *comma = "";
    int rc = tokenizer_open(&t, c, e);
    if (rc != 0) return rc;
    buf_add_text(b, "{\"eos_token_id\":[");
    for (int32_t id = 0; id < tokenizer_n_vocab(t); id++) {
        if (!tokenizer_is_eog(t, id)) continue;
        buf_addf(b, "%s%d", comma, (int)id);
        comma = ",";
    }
    buf_add_char(b, ']');
    if (tokenizer_bos(t) >= 0) json_member_int(b, "bos_token_id", tokenizer_bos(t));
    static const char *const sampling[][2] = {{"temp", "temperature"},
                                              {"top_p", "top_p"},
                                              {"top_k", "top_k"},
                                              {"min_p", "min_p"},
                                              {"penalty_repeat", "repetition_penalty"}};
    for (size_t i = 0; i < sizeof sampling / sizeof sampling[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", sampling[i][0]);
        const struct meta *m = checkpoint_meta(c, key);
        if (!m) continue;
        buf_addf(b, ",\"%s\":", sampling[i][1]);
        if (meta_kind(m) == META_REAL)
            json_put_float(b, (float)meta_real(m, 0));
        else
            buf_addf(b, "%lld", (long long)meta_int(m, 0));
    }
    buf_add_text(b, "}\n");
    tokenizer_close(t);
    return b->failed ? err_memory(e, "generation_config.json", b->n) : 0;
}

static int write_folder(const struct model_gguf *g, const struct checkpoint *c,
                        const struct buf *config, const char *dir, const struct convert_options *o,
                        struct err *e)
{
    char path[4096];
    struct buf json = {0}, names = {0}, generation = {0};
    int rc = tokenizer_put_hf(&json, &names, c, e);
    if (rc == 0) rc = put_generation(&generation, c, e);
    if (rc == 0) rc = dir_make(dir, e);
    if (rc == 0) rc = write_text(dir, "config.json", config, e);
    if (rc == 0) rc = write_text(dir, "tokenizer.json", &json, e);
    if (rc == 0) rc = write_text(dir, "tokenizer_config.json", &names, e);
    if (rc == 0) rc = write_text(dir, "generation_config.json", &generation, e);
    if (rc == 0 && !path_join(path, sizeof path, dir, "model.safetensors"))
        rc = err_set(e, ERR_ARG, "%s: cannot write: the path is too long", dir);
    if (rc == 0)
        rc = checkpoint_write_safetensors(model_gguf_view(g), path, o->progress, o->ctx, e);
    buf_deinit(&json);
    buf_deinit(&names);
    buf_deinit(&generation);
    return rc;
}

static void remove_folder(const char *dir)
{
    static const char *const file[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                       "generation_config.json", "model.safetensors"};
    char path[4096];
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
        if (path_join(path, sizeof path, dir, file[i])) unlink(path);
    rmdir(dir);
}

/* Convert a GGUF to a folder, which gets its name after the comparison. */
static int convert_to_folder(const struct checkpoint *c, const struct convert_options *o,
                             struct err *e)
{
    char part[PATH_BYTES];
    struct model_gguf *g = NULL;
    struct buf config = {0};
    const struct model_gguf_options mo = {.backend = o->backend, .type = o->type, .stop = o->stop};
    int rc = part_path(part, o, e);
    if (rc == 0) rc = model_hf_open(&g, c, &mo, &config, e);
    if (rc == 0) {
        rc = write_folder(g, c, &config, part, o, e);
        if (rc == 0) rc = check_written(part, c, o, e);
        if (rc == 0 && rename(part, o->out) != 0)
            rc = err_set(e, ERR_IO, "%s: cannot write: %s", o->out, strerror(errno));
        if (rc != 0) remove_folder(part);
    }
    model_gguf_close(g);
    buf_deinit(&config);
    return rc;
}

/* Check that the result replaces nothing but a file. folder: the result is a folder. */
static int check_free(const struct convert_options *o, bool folder, struct err *e)
{
    const bool file = file_exists(o->out);
    if (dir_exists(o->out) || (file && folder))
        return err_set(e, ERR_ARG, "%s: cannot create: it exists; remove it first", o->out);
    if (!file || o->replaces) return 0;
    return err_set(e, ERR_ARG, "%s: cannot create: it exists; --force replaces it", o->out);
}

int session_convert(const char *path, const struct convert_options *o, struct err *e)
{
    struct checkpoint *c = NULL;
    struct model_gguf *g = NULL;
    const struct model_gguf_options mo = {.backend = o->backend, .type = o->type, .stop = o->stop};
    int rc = checkpoint_open(&c, path, e);
    if (rc == 0) rc = check_free(o, checkpoint_kind(c) == CKPT_GGUF, e);
    if (rc == 0 && checkpoint_kind(c) == CKPT_GGUF) {
        rc = convert_to_folder(c, o, e);
        checkpoint_close(c);
        return rc;
    }
    if (rc == 0) rc = model_gguf_open(&g, c, &mo, e);
    if (rc == 0) rc = tokenizer_put_gguf(model_gguf_view(g), c, model_gguf_n_vocab(g), e);
    if (rc == 0) rc = write_checked(g, c, o, e);
    model_gguf_close(g);
    checkpoint_close(c);
    return rc;
}
