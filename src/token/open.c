/* open.c - select the reader for a checkpoint's tokenizer or for a file.
 *
 *   GGUF                    its metadata
 *   Hugging Face directory  the first of: rwkv_vocab_v20230424.txt, tokenizer.json,
 *                           tokenizer.model, spiece.model, sentencepiece.bpe.model,
 *                           vocab.json + merges.txt, encoder.json + merges.txt,
 *                           vocab.txt, tokenizer.bin, *.tiktoken
 *   llama2.c .bin           tokenizer.bin or tok512.bin in its folder */
#include "token_impl.h"

#include "base/log.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read a .model file, which is a SentencePiece model or a rank file (llama 3). A rank file contains
 * only text. */
static int read_model_file(struct tokenizer *t, const char *path, const char *hint, struct err *e)
{
    struct file_map map;
    int rc = file_map_open(&map, path, e);
    if (rc != 0) return rc;
    bool text = map.n_byte > 4;
    for (size_t i = 0; i < map.n_byte && i < 64 && text; i++)
        text = (map.data[i] >= ' ' && map.data[i] < 0x7F) || map.data[i] == '\n';
    file_map_close(&map);
    return text ? tiktoken_read(t, path, hint, e) : sentencepiece_read(t, path, e);
}

/* Read the tokenizer of a model file. The checkpoint is open only during the reading. Pieces are
 * copied. */
static int read_model_of(struct tokenizer *t, const char *path, struct err *e)
{
    struct checkpoint *c;
    int rc = checkpoint_open(&c, path, e);
    if (rc != 0) return rc;
    rc = tokenizer_read(t, c, e);
    checkpoint_close(c);
    return rc;
}

/* Read a tokenizer.bin, or the tokenizer.bin next to path if path is a llama2.c checkpoint. */
static int read_bin_file(struct tokenizer *t, const char *path, struct err *e)
{
    struct err quiet;
    return read_model_of(t, path, &quiet) == 0 ? 0 : llama2c_read(t, path, e);
}

/* Read a JSON file. The name distinguishes the two kinds of vocabulary with the extension .json. */
static int read_json_file(struct tokenizer *t, const char *path, const char *hint, struct err *e)
{
    if (text_ends_with(path, "vocab.json") || text_ends_with(path, "encoder.json"))
        return plain_vocab_read(t, path, hint, e);
    return hf_json_read(t, path, e);
}

/* Read a file by its extension. The extension selects the reader, because rank files and lists have
 * no magic number. */
static int read_file(struct tokenizer *t, const char *path, const char *hint, struct err *e)
{
    if (text_ends_with(path, ".gguf")) return read_model_of(t, path, e);
    if (text_ends_with(path, ".json")) return read_json_file(t, path, hint, e);
    if (text_ends_with(path, ".model")) return read_model_file(t, path, hint, e);
    if (text_ends_with(path, ".tiktoken")) return tiktoken_read(t, path, hint, e);
    if (world_is_file(path)) return world_read(t, path, e);
    if (text_ends_with(path, ".txt")) return plain_vocab_read(t, path, hint, e);
    if (text_ends_with(path, ".bin")) return read_bin_file(t, path, e);
    if (checkpoint_packed(path)) return read_model_of(t, path, e);
    struct file_map map;
    int rc = file_map_open(&map, path, e); /* report a missing file before checking its kind */
    if (rc != 0) return rc;
    file_map_close(&map);
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: expected the name of a tokenizer file (tokenizer.json, .model, .tiktoken, "
                   ".gguf, .bin, vocab.txt, rwkv_vocab_*.txt), got another",
                   path);
}

int token_file(char path[static 4096], bool *found, const char *dir, const char *name,
               struct err *e)
{
    if (!path_join(path, 4096, dir, name))
        return err_set(e, ERR_ARG, "%s: cannot open: the path is too long", dir);
    return file_find(found, path, e);
}

void token_folder(char dir[static 4096], const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(dir, 4096, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
}

/* Find the first *.tiktoken in a folder. Return false if the folder has no *.tiktoken. */
static bool find_rank_file(const char *dir, char *path, size_t n)
{
    struct buf names = {0};
    bool found = false;
    if (dir_list(&names, dir, NULL) != 0) return false;
    for (char *name = names.data, *end; names.n && *name && !found; name = end + 1) {
        end = strchrnul(name, '\n');
        bool last = *end == 0;
        *end = 0;
        found = text_ends_with(name, ".tiktoken") && path_join(path, n, dir, name);
        if (last) break;
    }
    buf_deinit(&names);
    return found;
}

/* Read the tokenizer of a folder. The first existing file is used, even if it cannot be read. */
static int read_dir(struct tokenizer *t, const char *outer, const char *hint, struct err *e)
{
    /* a list of RWKV is first: no tokenizer.json expresses it, but some folders have one */
    static const char *const name[] = {"rwkv_vocab_v20230424.txt",
                                       "tokenizer.json",
                                       "tokenizer.model",
                                       "spiece.model",
                                       "sentencepiece.bpe.model",
                                       "vocab.json",
                                       "encoder.json",
                                       "vocab.txt",
                                       "tokenizer.bin"};
    char path[4096], dir[4096];
    bool found = false, modules = false;
    int rc = sentence_folder(dir, &modules, outer, e);
    for (size_t i = 0; i < sizeof name / sizeof name[0] && !found && rc == 0; i++)
        rc = token_file(path, &found, dir, name[i], e);
    if (rc != 0) return rc;
    if (!found && !find_rank_file(dir, path, sizeof path))
        return err_set(e, ERR_MISSING,
                       "%s: tokenizer.json, tokenizer.model, spiece.model, "
                       "sentencepiece.bpe.model, vocab.json, vocab.txt, "
                       "rwkv_vocab_v20230424.txt or *.tiktoken not found",
                       dir);
    rc = read_file(t, path, hint, e);
    return rc == 0 ? hf_config_read(t, dir, modules, e) : rc;
}

static int read_llama2c(struct tokenizer *t, const struct checkpoint *c, struct err *e)
{
    static const char *const name[] = {"tokenizer.bin", "tok512.bin"};
    char path[4096];
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        bool found = false;
        const int rc = token_file(path, &found, checkpoint_dir(c), name[i], e);
        if (rc != 0) return rc;
        if (found) return llama2c_read(t, path, e);
    }
    return err_set(e, ERR_MISSING, "%s: tokenizer.bin or tok512.bin not found in its folder",
                   checkpoint_path(c));
}

/* Also mark the end tokens of a folder's configuration. */
int tokenizer_read(struct tokenizer *t, const struct checkpoint *c, struct err *e)
{
    if (checkpoint_kind(c) == CKPT_GGUF || checkpoint_is_random(c)) return gguf_vocab_read(t, c, e);
    if (checkpoint_kind(c) == CKPT_LLAMA2C) return read_llama2c(t, c, e);
    int rc = read_dir(t, checkpoint_dir(c), NULL, e);
    const struct meta *eos = checkpoint_meta(c, "tokenizer.ggml.eos_token_ids");
    for (size_t i = 0; rc == 0 && i < meta_count(eos); i++) {
        const int64_t id = meta_item_int(eos, i, -1);
        if (id >= 0 && (uint64_t)id >= t->n_piece) /* small models of tests have such ids */
            log_warn("%s: eos_token_id: %lld is not in the vocabulary of %zu tokens, and ends no "
                     "text",
                     checkpoint_path(c), (long long)id, t->n_piece);
        const bool first = id >= 0 && (uint64_t)id < t->n_piece &&
                           t->piece[id].ends & 1 << END_GENERATION; /* it replaces config.json's */
        if (!first) tokenizer_mark_end(t, id, END_CONFIG);
    }
    return rc;
}

/* Finish a tokenizer after its reader. Close the tokenizer on failure. */
static int finish_open(struct tokenizer **out, struct tokenizer *t, int rc, struct err *e)
{
    if (rc == 0) rc = tokenizer_finish(t, e);
    if (rc != 0)
        tokenizer_close(t);
    else
        *out = t;
    return rc;
}

int tokenizer_open(struct tokenizer **out, const struct checkpoint *c, struct err *e)
{
    struct tokenizer *t = tokenizer_open_empty();
    *out = NULL;
    if (!t) return err_memory(e, "a tokenizer", sizeof *t);
    return finish_open(out, t, tokenizer_read(t, c, e), e);
}

/* Read a file or folder. A single tokenizer.json, plain vocabulary or model of a class also uses
 * the configuration files next to it. */
static int read_path(struct tokenizer *t, const char *path, const char *hint, struct err *e)
{
    if (dir_exists(path)) return read_dir(t, path, hint, e);
    int rc = read_file(t, path, hint, e);
    char dir[4096], inner[4096];
    bool modules;
    if (rc != 0 || !(text_ends_with(path, ".json") || text_ends_with(path, ".txt") ||
                     hf_sentencepiece_is_file(path)))
        return rc;
    token_folder(dir, path);
    rc = sentence_folder(inner, &modules, dir, e);
    return rc ? rc : hf_config_read(t, dir, modules, e);
}

int tokenizer_open_file(struct tokenizer **out, const char *path, const char *hint, struct err *e)
{
    struct tokenizer *t = tokenizer_open_empty();
    *out = NULL;
    if (!t) return err_memory(e, "a tokenizer", sizeof *t);
    return finish_open(out, t, read_path(t, path, hint, e), e);
}
