/* convert.c - a Hugging Face directory -> one GGUF file, and back.
 *
 *   checkpoint_open --> model_gguf_open --> tokenizer_put_gguf --> checkpoint_write_gguf
 *                   '-> model_hf_open --> tokenizer_put_hf --> checkpoint_write_safetensors
 *       --> check_written --> rename        until then the result is OUT.part-PID
 *
 * The written file or folder is opened and compared with the source before it gets its name: the
 * config (model_same_config) and each token. A result with another meaning never gets the name. */
#include "session.h"

#include "base/json.h"
#include "base/log.h"
#include "base/os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* State of a comparison of two tokenizers. All pointers are borrowed. */
struct tokenizers {
    const struct tokenizer *want, *got;
    const char *path; /* the source */
    struct err *e;
};

/* Compare the bytes and attributes (special, end of a text) of all tokens of both files. In a GGUF,
 * ids without a piece are unused. Files of BERT have no BOS and EOS. */
static int check_tokens(const struct tokenizers *x)
{
    const struct tokenizer *want = x->want, *got = x->got;
    const int n = tokenizer_n_vocab(want);
    const bool words = strcmp(tokenizer_kind(want), "wordpiece") == 0;
    for (int32_t id = 0; id < n; id++) {
        size_t n_want, n_got, n_piece;
        tokenizer_piece(want, id, &n_piece);
        if (n_piece == 0) continue; /* unused */
        const char *a = tokenizer_bytes(want, id, &n_want), *b = tokenizer_bytes(got, id, &n_got);
        if (n_want == n_got && memcmp(a, b, n_want) == 0 &&
            tokenizer_is_special(want, id) == tokenizer_is_special(got, id) &&
            (words || tokenizer_is_eog(want, id) == tokenizer_is_eog(got, id)))
            continue;
        return err_set(x->e, ERR_UNSUPPORTED, "%s: token %d (\"%.*s\") has no equal in the result",
                       x->path, (int)id, n_want > 40 ? 40 : (int)n_want, a);
    }
    if (!words &&
        (tokenizer_bos(want) != tokenizer_bos(got) || tokenizer_eos(want) != tokenizer_eos(got) ||
         tokenizer_adds_bos(want) != tokenizer_adds_bos(got)))
        return err_set(x->e, ERR_UNSUPPORTED, "%s: BOS and EOS have no equal in the result",
                       x->path);
    return 0;
}

/* Encode a text, or a pair of texts, by one tokenizer. */
static int encode(const struct tokenizer *t, const char *const text[2], const size_t n[2],
                  struct ids *out, struct err *e)
{
    int segment;
    if (!text[1]) return tokenizer_encode(t, text[0], n[0], ENCODE_ADD_SPECIAL, out, e);
    return tokenizer_encode_pair(t, text, n, -1, out, &segment, e);
}

/* Set *same to true if both tokenizers give equal ids to a text or a pair of texts. Set *id to the
 * first id of the source that differs. */
static int same_ids(const struct tokenizers *x, const char *const text[2], const size_t n[2],
                    bool *same, int32_t *id)
{
    struct ids a = {0}, b = {0};
    int rc = encode(x->want, text, n, &a, x->e);
    if (rc == 0) rc = encode(x->got, text, n, &b, x->e);
    size_t i = 0;
    while (i < a.n && i < b.n && a.v[i] == b.v[i]) i++;
    *same = i == a.n && i == b.n;
    *id = i < a.n ? a.v[i] : -1;
    vec_deinit(&a);
    vec_deinit(&b);
    return rc;
}

/* Check that a text gets equal ids. */
static int check_text(const struct tokenizers *x, const struct buf *text)
{
    bool same;
    int32_t id;
    const int rc =
        same_ids(x, (const char *[2]){text->data, NULL}, (size_t[2]){text->n, 0}, &same, &id);
    return rc || same
               ? rc
               : err_set(x->e, ERR_UNSUPPORTED,
                         "%s: the result encodes a text of the source's tokens to other ids, for "
                         "example instead of %d",
                         x->path, (int)id);
}

/* Compare the ids of texts that consist of the tokens in the order of their ids. These texts detect
 * merges whose order by a GGUF's scores differs from the folder's list. Words are joined with
 * spaces. */
static int check_encoding(const struct tokenizers *x)
{
    enum { TEXT_BYTES = 4096 };
    struct buf text = {0};
    const int n = strcmp(tokenizer_kind(x->want), "bpe") == 0 ? 0 : tokenizer_n_vocab(x->want);
    const bool joins = tokenizer_joins(x->want);
    int rc = 0;
    for (int32_t id = 0; id < n && rc == 0; id++) {
        size_t n_byte;
        const char *p = tokenizer_bytes(x->want, id, &n_byte);
        /* the space that the tokenizer adds replaces this space */
        if (text.n == 0 && n_byte > 0 && *p == ' ') p++, n_byte--;
        const bool plain = n_byte > 1 || (n_byte == 1 && *p > 0);
        if (plain && !tokenizer_is_special(x->want, id) && id != tokenizer_unk(x->want)) {
            if (joins && text.n > 0) buf_add_char(&text, ' ');
            buf_add(&text, p, n_byte);
        }
        if (text.failed) rc = err_memory(x->e, "a text", text.n);
        if (rc == 0 && text.n > 0 && (text.n >= TEXT_BYTES || id == n - 1)) {
            rc = check_text(x, &text);
            buf_clear(&text);
        }
    }
    buf_deinit(&text);
    return rc;
}

/* Check some texts for normalizers and rules of white space that the result cannot express. Log the
 * first rare text with other ids. Return an error if the ids of the first text differ. That text
 * is plain. */
static int warn_texts(const struct tokenizers *x)
{
    static const char *const texts[][2] = {{"a b", NULL},
                                           {"a b", "c d"},
                                           {" a", NULL},
                                           {"a  b", NULL},
                                           {"a\nb", NULL},
                                           {"a\tb ", NULL},
                                           {"  a\n\n b", NULL},
                                           {"A\xC3\x80", NULL},
                                           {"e\xCC\x81", NULL},
                                           {"\xEF\xBC\xA1\xE2\x91\xA0", NULL},
                                           {"it's 12345, (x)!", NULL},
                                           {"\xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80", NULL}};
    bool same = true;
    int32_t id;
    int rc = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && rc == 0 && same; i++) {
        const char *const *text = texts[i];
        rc = same_ids(x, text, (size_t[2]){strlen(text[0]), text[1] ? strlen(text[1]) : 0}, &same,
                      &id);
        if (rc == 0 && !same && i == 0)
            rc = err_set(x->e, ERR_UNSUPPORTED, "%s: the result encodes plain text to other ids",
                         x->path);
        else if (rc == 0 && !same) {
            struct buf quoted = {0};
            json_put_text(&quoted, text[0], strlen(text[0]));
            log_warn("%s: the result cannot express all rules of white space or of characters; for "
                     "example, it encodes %s%s to other ids",
                     x->path, text[1] ? "a pair with " : "", quoted.failed ? "" : quoted.data);
            buf_deinit(&quoted);
        }
    }
    return rc;
}

/* Replace a path in a message. */
static void replace_path(struct err *e, int rc, const char *path, const char *by)
{
    struct err was = *e;
    char *at = strstr(was.text, path);
    if (!at) return;
    *at = 0;
    err_set(e, rc, "%s%s%s", was.text, by, at + strlen(path));
}

/* Replace the path of the unfinished result in a message by a name. */
static void hide_part(struct err *e, int rc, const char *path, const char *source)
{
    if (!strstr(e->text, path)) return;
    replace_path(e, rc, path, "the result");
    err_prefix(e, rc, "%s: has no equal", source);
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
    const struct tokenizers x = {want, got, checkpoint_path(c), e};
    if (rc == 0) rc = check_tokens(&x);
    if (rc == 0) rc = check_encoding(&x);
    if (rc == 0) rc = warn_texts(&x);
    if (rc != 0) hide_part(e, rc, path, checkpoint_path(c));
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
    if (rc != 0) replace_path(e, rc, part, o->out);
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

/* ---- the files of sentence-transformers ---- */

static const struct meta *arch_meta(const struct checkpoint *c, const char *name)
{
    char key[160];
    snprintf(key, sizeof key, "%s.%s", meta_text(checkpoint_meta(c, "general.architecture"), NULL),
             name);
    return checkpoint_meta(c, key);
}

/* Return the number of Dense modules. */
static int n_dense(const struct checkpoint *c)
{
    if (!checkpoint_tensor(c, "dense_2.weight")) return 0;
    return checkpoint_tensor(c, "dense_3.weight") ? 2 : 1;
}

static void put_module(struct buf *b, int i, const char *type, bool folder)
{
    buf_addf(b, "%s{\"idx\":%d,\"name\":\"%d\",\"path\":\"", i ? "," : "[", i, i);
    if (folder) buf_addf(b, "%d_%s", i, type);
    buf_addf(b, "\",\"type\":\"sentence_transformers.models.%s\"}", type);
}

/* Write a text and release it. */
static int write_once(const char *dir, const char *name, struct buf *text, struct err *e)
{
    const int rc = text->failed ? err_memory(e, name, text->n) : write_text(dir, name, text, e);
    buf_deinit(text);
    return rc;
}

/* Write the list of modules, and the maximum length of a text from the file, or from the model if
 * the file has none. */
static int write_list(const char *dir, const struct checkpoint *c, struct err *e)
{
    struct buf modules = {0}, length = {0};
    const int n = n_dense(c);
    const int64_t own = meta_int(checkpoint_meta(c, "sentence_transformers.max_seq_length"), 0);
    put_module(&modules, 0, "Transformer", false);
    put_module(&modules, 1, "Pooling", true);
    for (int i = 0; i < n; i++) put_module(&modules, 2 + i, "Dense", true);
    if (meta_int(checkpoint_meta(c, "sentence_transformers.normalize"), 1))
        put_module(&modules, 2 + n, "Normalize", true);
    buf_add_text(&modules, "]\n");
    buf_addf(&length, "{\"max_seq_length\":%lld,\"do_lower_case\":false}\n",
             (long long)(own > 0 ? own : meta_int(arch_meta(c, "context_length"), 512)));
    int rc = write_once(dir, "modules.json", &modules, e);
    if (rc == 0) return write_once(dir, "sentence_bert_config.json", &length, e);
    buf_deinit(&length);
    return rc;
}

static int write_prompts(const char *dir, const struct checkpoint *c, struct err *e)
{
    static const char key[] = "sentence_transformers.prompts.";
    struct buf b = {0};
    const char *name, *comma = "";
    const char *chosen =
        meta_text(checkpoint_meta(c, "sentence_transformers.default_prompt"), NULL);
    buf_add_text(&b, "{\"prompts\":{");
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        size_t n;
        const char *text = meta_text(checkpoint_meta_at(c, i, &name), &n);
        if (!text || strncmp(name, key, sizeof key - 1) != 0) continue;
        buf_add_text(&b, comma);
        json_put_text(&b, name + sizeof key - 1, strlen(name + sizeof key - 1));
        buf_add_char(&b, ':');
        json_put_text(&b, text, n);
        comma = ",";
    }
    buf_add_text(&b, "},\"default_prompt_name\":");
    if (chosen)
        json_put_text(&b, chosen, strlen(chosen));
    else
        buf_add_text(&b, "null");
    buf_add_text(&b, ",\"similarity_fn_name\":\"cosine\"}\n");
    return write_once(dir, "config_sentence_transformers.json", &b, e);
}

static int write_pooling(const char *dir, const struct checkpoint *c, struct err *e)
{
    static const char *const mode[] = {"mean_tokens", "cls_token", "lasttoken"};
    const int64_t type = meta_int(arch_meta(c, "pooling_type"), 0);
    struct buf b = {0};
    buf_addf(&b, "{\"word_embedding_dimension\":%lld",
             (long long)meta_int(arch_meta(c, "embedding_length"), 0));
    for (int i = 0; i < 3; i++)
        buf_addf(&b, ",\"pooling_mode_%s\":%s", mode[i], type == i + 1 ? "true" : "false");
    buf_add_text(&b, ",\"pooling_mode_max_tokens\":false,\"pooling_mode_mean_sqrt_len_tokens\":"
                     "false,\"pooling_mode_weightedmean_tokens\":false,\"include_prompt\":true}\n");
    return write_once(dir, "config.json", &b, e);
}

/* Write Dense module i, a linear layer without an activation. */
static int write_dense(const char *dir, const struct checkpoint *c, int i,
                       const struct model_gguf_options *mo, const struct convert_options *o,
                       struct err *e)
{
    char path[PATH_BYTES], name[40];
    struct buf b = {0};
    struct model_gguf *g = NULL;
    snprintf(name, sizeof name, "dense_%d.weight", i + 2);
    const struct tensor_info *t = checkpoint_tensor(c, name);
    snprintf(name, sizeof name, "dense_%d.bias", i + 2);
    buf_addf(&b,
             "{\"in_features\":%lld,\"out_features\":%lld,\"bias\":%s,\"activation_function\":"
             "\"torch.nn.modules.linear.Identity\"}\n",
             (long long)t->dim[0], (long long)t->dim[1],
             checkpoint_tensor(c, name) ? "true" : "false");
    int rc = write_once(dir, "config.json", &b, e);
    if (rc == 0 && !path_join(path, sizeof path, dir, "model.safetensors"))
        rc = err_set(e, ERR_ARG, "%s: cannot write: the path is too long", dir);
    if (rc == 0) rc = model_hf_dense(&g, c, mo, i, e);
    if (rc == 0)
        rc = checkpoint_write_safetensors(model_gguf_view(g), path, o->progress, o->ctx, e);
    model_gguf_close(g);
    return rc;
}

/* Make a folder in `dir`, and set `path` to its path. */
static int make_inner(char path[PATH_BYTES], const char *dir, const char *name, struct err *e)
{
    if (!path_join(path, PATH_BYTES, dir, name))
        return err_set(e, ERR_ARG, "%s: cannot write: the path is too long", dir);
    return dir_make(path, e);
}

/* Write the modules after the model of an embedding. */
static int write_modules(const char *dir, const struct checkpoint *c,
                         const struct model_gguf_options *mo, const struct convert_options *o,
                         struct err *e)
{
    char path[PATH_BYTES], name[40];
    const int64_t type = meta_int(arch_meta(c, "pooling_type"), 0);
    if (type < 1 || type > 3) return 0;
    int rc = write_list(dir, c, e);
    if (rc == 0) rc = write_prompts(dir, c, e);
    if (rc == 0) rc = make_inner(path, dir, "1_Pooling", e);
    if (rc == 0) rc = write_pooling(path, c, e);
    for (int i = 0; i < n_dense(c) && rc == 0; i++) {
        snprintf(name, sizeof name, "%d_Dense", i + 2);
        rc = make_inner(path, dir, name, e);
        if (rc == 0) rc = write_dense(path, c, i, mo, o, e);
    }
    return rc;
}

static int write_folder(const struct model_gguf *g, const struct checkpoint *c,
                        const struct buf *config, const char *dir,
                        const struct model_gguf_options *mo, const struct convert_options *o,
                        struct err *e)
{
    char path[PATH_BYTES];
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
    if (rc == 0) rc = write_modules(dir, c, mo, o, e);
    buf_deinit(&json);
    buf_deinit(&names);
    buf_deinit(&generation);
    return rc;
}

/* Remove the files of an unfinished folder, then the folder. */
static void remove_folder(const char *dir)
{
    static const char *const file[] = {"config.json",
                                       "tokenizer.json",
                                       "tokenizer_config.json",
                                       "generation_config.json",
                                       "model.safetensors",
                                       "modules.json",
                                       "sentence_bert_config.json",
                                       "config_sentence_transformers.json"},
                             *const inner[] = {"1_Pooling", "2_Dense", "3_Dense"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
        if (path_join(path, sizeof path, dir, file[i])) unlink(path);
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++)
        if (path_join(path, sizeof path, dir, inner[i]) && dir_exists(path)) remove_folder(path);
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
        rc = write_folder(g, c, &config, part, &mo, o, e);
        if (rc == 0) rc = check_written(part, c, o, e);
        if (rc == 0 && rename(part, o->out) != 0)
            rc = err_set(e, ERR_IO, "%s: cannot write: %s", o->out, strerror(errno));
        if (rc != 0) replace_path(e, rc, part, o->out);
        if (rc != 0) remove_folder(part);
    }
    model_gguf_close(g);
    buf_deinit(&config);
    return rc;
}

/* Check that the result replaces at most one file. folder: the result is a folder. */
static int check_free(const struct convert_options *o, bool folder, struct err *e)
{
    const bool file = file_exists(o->out);
    if (dir_exists(o->out) || (file && folder))
        return err_set(e, ERR_ARG, "%s: cannot create: it exists; remove it first", o->out);
    if (!file || o->replaces) return 0;
    return err_set(e, ERR_ARG, "%s: cannot create: it exists; --force replaces it", o->out);
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

/* Ignore a matrix (callback of model_measure). */
static void skip_matrix(void *ctx, const char *tensor, enum qtype type, int64_t n_value,
                        bool converted)
{
    (void)ctx, (void)tensor, (void)type, (void)n_value, (void)converted;
}

/* Append advice to the error of a conversion that is not supported, if quoth runs the source: its
 * architecture and its tokenizer are supported. */
static int advise(const struct checkpoint *c, const struct convert_options *o, int rc,
                  struct err *e)
{
    struct err other = {0}, was = *e;
    struct model_sizes sizes = {.matrix = skip_matrix, .kv_type = KV_F16};
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
    struct model_gguf *g = NULL;
    const struct model_gguf_options mo = {.backend = o->backend, .type = o->type, .stop = o->stop};
    int rc = out_path(out, given, e);
    own.out = out;
    if (rc == 0) rc = checkpoint_open(&c, path, e);
    if (rc == 0) rc = check_free(o, checkpoint_kind(c) == CKPT_GGUF, e);
    if (rc == 0 && checkpoint_kind(c) == CKPT_GGUF) {
        rc = advise(c, o, convert_to_folder(c, o, e), e);
        checkpoint_close(c);
        return rc;
    }
    if (rc == 0) rc = model_gguf_open(&g, c, &mo, e);
    if (rc == 0) rc = tokenizer_put_gguf(model_gguf_view(g), c, model_gguf_n_vocab(g), e);
    if (rc == 0) rc = write_checked(g, c, o, e);
    if (c) rc = advise(c, o, rc, e);
    model_gguf_close(g);
    checkpoint_close(c);
    return rc;
}
