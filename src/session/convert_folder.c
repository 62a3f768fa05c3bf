/* convert_folder.c - the files of a Hugging Face directory that is written from a GGUF.
 *
 *   folder_fill   texts and tensors of the files, in memory
 *   folder_write  files[] --> texts, safetensors
 *   folder_remove files[] --> unlink
 *
 * files[] is the only list of the files, so that no file of an unfinished folder remains. */
#include "session_impl.h"

#include "base/json.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
    const char *inner, *name; /* folder in the folder, "" if none; name of the file; static */
} files[N_FOLDER_FILE] = {
    [FOLDER_CONFIG] = {"", "config.json"},
    [FOLDER_TOKENIZER] = {"", "tokenizer.json"},
    [FOLDER_WORLD] = {"", "rwkv_vocab_v20230424.txt"},
    [FOLDER_TOKENIZER_CONFIG] = {"", "tokenizer_config.json"},
    [FOLDER_GENERATION] = {"", "generation_config.json"},
    [FOLDER_MODEL] = {"", "model.safetensors"},
    [FOLDER_MODULES] = {"", "modules.json"},
    [FOLDER_LENGTH] = {"", "sentence_bert_config.json"},
    [FOLDER_PROMPTS] = {"", "config_sentence_transformers.json"},
    [FOLDER_POOLING] = {"1_Pooling", "config.json"},
    [FOLDER_DENSE] = {"2_Dense", "config.json"},
    [FOLDER_DENSE + 1] = {"2_Dense", "model.safetensors"},
    [FOLDER_DENSE + 2] = {"3_Dense", "config.json"},
    [FOLDER_DENSE + 3] = {"3_Dense", "model.safetensors"},
};

/* Set `path` to dir/name. ERR_ARG if it is too long. */
static int inner_path(char path[PATH_BYTES], const char *dir, const char *name, struct err *e)
{
    return path_join(path, PATH_BYTES, dir, name)
               ? 0
               : err_set(e, ERR_ARG, "%s: cannot write: the path is too long", dir);
}

/* Append the ids that end a generation: the list of the file, or all ends of its tokenizer. A list
 * of one id is an integer, as in most folders. */
static void put_end_ids(struct buf *b, const struct checkpoint *c, const struct tokenizer *t)
{
    const struct meta *list = checkpoint_meta(c, "tokenizer.ggml.eos_token_ids");
    struct buf ids = {0};
    int n = 0;
    for (size_t i = 0; i < meta_count(list); i++)
        buf_addf(&ids, "%s%lld", n++ ? "," : "", (long long)meta_item_int(list, i, -1));
    for (int32_t id = 0; !list && id < tokenizer_n_vocab(t); id++)
        if (tokenizer_is_eog(t, id)) buf_addf(&ids, "%s%d", n++ ? "," : "", (int)id);
    buf_addf(b, n == 1 ? "{\"eos_token_id\":%s" : "{\"eos_token_id\":[%s]", ids.n ? ids.data : "");
    b->failed |= ids.failed;
    buf_deinit(&ids);
}

/* Append the defaults of requests, and other numbers of generation_config.json. A value that is no
 * number has no effect. */
static void put_defaults(struct buf *b, const struct checkpoint *c)
{
    static const char *const rows[][2] = {
#define GENERATION(field, key, kind)          {field, key},
#define GENERATION_SAMPLING(field, key, kind) {field, key},
#include "format/generation.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct meta *m = checkpoint_meta(c, rows[i][1]);
        const enum meta_kind kind = meta_kind(m);
        if (kind == META_INT || kind == META_UINT) json_member_int(b, rows[i][0], meta_int(m, 0));
        if (kind != META_REAL) continue;
        buf_addf(b, ",\"%s\":", rows[i][0]);
        json_put_float(b, (float)meta_real(m, 0));
    }
}

/* Append generation_config.json: the ids that end a generation, and defaults of requests. */
static int put_generation(struct buf *b, const struct checkpoint *c, struct err *e)
{
    struct tokenizer *t;
    int rc = tokenizer_open(&t, c, e);
    if (rc != 0) return rc;
    put_end_ids(b, c, t);
    if (tokenizer_bos(t) >= 0) json_member_int(b, "bos_token_id", tokenizer_bos(t));
    put_defaults(b, c);
    buf_add_text(b, "}\n");
    tokenizer_close(t);
    return b->failed ? err_memory(e, "generation_config.json", b->n) : 0;
}

int folder_fill(struct folder *f, struct err *e)
{
    const struct conversion_options o = {
        .backend = f->o->backend, .type = f->o->type, .stop = f->o->stop};
    int rc = model_hf_open(&f->tensors[FOLDER_MODEL], f->c, &o, &f->text[FOLDER_CONFIG], e);
    if (rc == 0)
        rc = tokenizer_put_hf(&f->text[FOLDER_TOKENIZER], &f->text[FOLDER_WORLD],
                              &f->text[FOLDER_TOKENIZER_CONFIG], f->c, e);
    if (rc == 0) rc = put_generation(&f->text[FOLDER_GENERATION], f->c, e);
    if (rc == 0) rc = folder_add_modules(f, &o, e);
    for (int i = 0; i < N_FOLDER_FILE && rc == 0; i++)
        if (f->text[i].failed) rc = err_memory(e, files[i].name, f->text[i].n);
    return rc;
}

/* Write file i, and make its folder if it is absent. */
static int write_file(const struct folder *f, int i, const char *dir, struct err *e)
{
    char inner[PATH_BYTES], path[PATH_BYTES];
    const struct buf *text = &f->text[i];
    int rc = inner_path(inner, dir, files[i].inner, e);
    if (rc == 0) rc = inner_path(path, inner, files[i].name, e);
    if (rc == 0) rc = dir_make(inner, DIR_SHARED, e);
    if (rc != 0) return rc;
    if (text->n > 0) return file_write(path, text->data, text->n, e);
    return checkpoint_write_safetensors(conversion_view(f->tensors[i]), path, f->o->progress,
                                        f->o->ctx, e);
}

int folder_write(const struct folder *f, const char *dir, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < N_FOLDER_FILE && rc == 0; i++)
        if (f->text[i].n > 0 || f->tensors[i]) rc = write_file(f, i, dir, e);
    return rc;
}

void folder_deinit(struct folder *f)
{
    for (int i = 0; i < N_FOLDER_FILE; i++) {
        buf_deinit(&f->text[i]);
        conversion_close(f->tensors[i]);
    }
}

void folder_remove(const char *dir)
{
    char inner[PATH_BYTES], path[PATH_BYTES];
    for (int i = 0; i < N_FOLDER_FILE; i++)
        if (path_join(inner, sizeof inner, dir, files[i].inner) &&
            path_join(path, sizeof path, inner, files[i].name))
            unlink(path);
    for (int i = 0; i < N_FOLDER_FILE; i++)
        if (*files[i].inner && path_join(inner, sizeof inner, dir, files[i].inner)) rmdir(inner);
    rmdir(dir);
}
