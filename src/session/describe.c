/* describe.c - facts about the files of an open session, for listings of models: format, size,
 * number format, digest and metadata. */
#include "session.h"

#include "base/hash.h"
#include "base/json_out.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Lists of at most SHORT_MAX items are always written. */
enum { SHORT_MAX = 5 };

/* Return the type with the most bytes of the tensors. */
static enum qtype main_type(const struct checkpoint *c)
{
    size_t n_byte[QT_COUNT] = {0};
    enum qtype best = 0;
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(c, i);
        n_byte[t->type] += t->n_byte;
        if (n_byte[t->type] > n_byte[best]) best = t->type;
    }
    return best;
}

/* Return the name of the weights' number format, static or borrowed from s. */
static const char *type_name(const struct session *s)
{
    const struct meta *type = checkpoint_meta(s->checkpoint, "general.file_type");
    const char *mix = quant_mix_name((int)meta_int(type, -1));
    if (s->quantization) return s->quantization;
    return mix ? mix : qtype_info[main_type(s->checkpoint)].name;
}

/* Set the digest to 64 hexadecimal digits of the key of the files, or of the path if there are no
 * files. */
static void digest(char out[static SESSION_DIGEST + 1], const struct checkpoint *c)
{
    const char *path = checkpoint_path(c);
    uint64_t key[2];
    if (!checkpoint_key(c, key)) key[0] = hash_bytes(path, strlen(path), 0);
    for (uint64_t i = 0; i < SESSION_DIGEST / 16; i++)
        snprintf(out + 16 * i, 17, "%016llx", (unsigned long long)hash_bytes(key, sizeof key, i));
}

void session_describe(struct session_files *out, const struct session *s)
{
    static const char *const format[] = {
        [CKPT_GGUF] = "gguf", [CKPT_HF] = "safetensors", [CKPT_LLAMA2C] = "llama2c"};
    struct stat file;
    *out = (struct session_files){.format = format[checkpoint_kind(s->checkpoint)],
                                  .n_byte = (int64_t)checkpoint_file_bytes(s->checkpoint)};
    snprintf(out->type, sizeof out->type, "%s", type_name(s));
    for (char *c = out->type; *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    digest(out->digest, s->checkpoint);
    if (stat(checkpoint_path(s->checkpoint), &file) == 0)
        out->modified_us = (int64_t)file.st_mtim.tv_sec * 1000000 + file.st_mtim.tv_nsec / 1000;
}

int session_file_arch(char out[static 64], const char *path, struct err *e)
{
    struct checkpoint *c = NULL;
    int rc = session_checkpoint(&c, path, &session_defaults, true, e);
    const char *arch = rc == 0 ? meta_text(checkpoint_meta(c, "general.architecture"), NULL) : NULL;
    if (rc == 0 && (checkpoint_kind(c) != CKPT_GGUF || !arch))
        rc = err_set(e, ERR_FORMAT, "%s: must be a GGUF file of a model", path);
    if (rc == 0) snprintf(out, 64, "%s", arch);
    checkpoint_close(c);
    return rc;
}

/* ---- metadata ---- */

static void put_item(struct json_out *o, const struct meta *m, size_t i)
{
    size_t n = 0;
    const char *text = meta_item_text(m, i, &n);
    const enum meta_kind kind = meta_item_kind(m);
    if (text)
        out_text(o, NULL, text, n);
    else if (kind == META_BOOL)
        out_flag(o, NULL, meta_item_int(m, i, 0) != 0);
    else if (kind == META_REAL)
        out_double(o, NULL, meta_item_real(m, i, 0));
    else
        out_int(o, NULL, meta_item_int(m, i, 0));
}

static void put_value(struct json_out *o, const struct meta *m, bool whole)
{
    size_t n = 0;
    const char *text = meta_text(m, &n);
    switch (meta_kind(m)) {
    case META_BOOL:
        out_flag(o, NULL, meta_bool(m, false));
        return;
    case META_INT:
    case META_UINT:
        out_int(o, NULL, meta_int(m, INT64_MAX));
        return;
    case META_REAL:
        out_double(o, NULL, meta_real(m, 0));
        return;
    case META_TEXT:
        out_text(o, NULL, text, n);
        return;
    case META_LIST:
        out_list(o, NULL);
        n = whole || meta_count(m) <= SHORT_MAX ? meta_count(m) : 0;
        for (size_t i = 0; i < n; i++) put_item(o, m, i);
        out_end(o);
        return;
    default:
        out_null(o, NULL);
    }
}

/* Append a size under the architecture's name if the files do not have the key. */
static void put_size(struct json_out *o, const struct session *s, const char *name, int64_t x)
{
    char key[160];
    snprintf(key, sizeof key, "%.100s.%s", s->info->arch, name);
    if (checkpoint_meta(s->checkpoint, key)) return;
    out_key(o, key, strlen(key));
    out_int(o, NULL, x);
}

void session_put_metadata(struct buf *b, const struct session *s, bool whole)
{
    const struct checkpoint *c = s->checkpoint;
    const struct model_info *info = s->info;
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        const char *key;
        const struct meta *m = checkpoint_meta_at(c, i, &key);
        if (strncmp(key, "tokenizer.chat_template", 23) == 0 || strcmp(key, "general.name") == 0)
            continue;
        out_key(&o, key, strlen(key));
        put_value(&o, m, whole);
    }
    if (!checkpoint_meta(c, "general.architecture"))
        out_word(&o, "general.architecture", info->arch);
    if (!checkpoint_meta(c, "general.parameter_count"))
        out_int(&o, "general.parameter_count", info->n_param);
    put_size(&o, s, "block_count", info->n_layer);
    put_size(&o, s, "context_length", info->context_train);
    put_size(&o, s, "embedding_length", info->d_model);
    put_size(&o, s, "vocab_size", info->n_vocab);
    out_end(&o);
}

const char *session_license(const struct session *s)
{
    return meta_text(checkpoint_meta(s->checkpoint, "general.license"), NULL);
}
