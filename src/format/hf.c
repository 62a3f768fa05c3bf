/* hf.c - a Hugging Face directory: its weights under GGUF names (tensors.c). The weights are one
 * safetensors file, or shards listed in an index. hf_config.c reads the JSON files of the
 * directory. src/token reads the tokenizer's files.
 *
 *   model.safetensors               one file
 *   model.safetensors.index.json    {"weight_map": {"model.norm.weight": "FILE", ...}}
 *   *.safetensors                   one file with another name
 *
 * The first form that exists is used, as in transformers. Names of shards must not lead out of the
 * folder, because an index is untrusted. */
#include "format_impl.h"

#include "base/log.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { INDEX_BYTES_MAX = 256 << 20 };

/* ---- weights ---- */

int hf_path(char *out, size_t n_out, const char *dir, const char *name, struct err *e)
{
    return path_join(out, n_out, dir, name)
               ? 0
               : err_set(e, ERR_ARG, "%s: cannot open: the path is too long", dir);
}

/* Load each file of weight_map once. `files` maps a file's name to its index in c->file. */
static int load_shards(struct checkpoint *c, const char *dir, const struct json *weight_map,
                       struct strmap *files, struct err *e)
{
    int rc = 0;
    for (void *it = json_first(weight_map); it && rc == 0; it = json_next(weight_map, it)) {
        char path[4096];
        size_t n;
        const char *name = json_text(json_it_value(it), &n);
        if (!name || n == 0 || strlen(name) != n || strchr(name, '/') || name[0] == '.')
            return err_set(
                e, ERR_FORMAT,
                "weight_map of \"%s\": expected the name of a file in this folder, got %s",
                json_it_key(it, NULL), name ? name : json_kind_name(json_kind(json_it_value(it))));
        if (strmap_get(files, name, n)) continue;
        if (!strmap_put(files, name, n, (uint32_t)c->file.n)) return err_memory(e, "the index", n);
        rc = hf_path(path, sizeof path, dir, name, e);
        if (rc == 0) rc = safetensors_load(c, path, e);
    }
    return rc;
}

/* Check that each tensor of weight_map is in its file. */
static int check_shards(const struct checkpoint *c, const struct json *weight_map,
                        const struct strmap *files, struct err *e)
{
    for (void *it = json_first(weight_map); it; it = json_next(weight_map, it)) {
        char name[4096];
        size_t n;
        const char *file = json_text(json_it_value(it), &n);
        hf_tensor_name(name, sizeof name, json_it_key(it, NULL), checkpoint_arch(c),
                       c->parts != NULL);
        const struct tensor_info *t = checkpoint_tensor(c, name);
        if (!t || (uint32_t)t->file != *strmap_get(files, file, n))
            return err_set(e, ERR_MISSING, "tensor \"%s\" not found in %s", json_it_key(it, NULL),
                           file);
    }
    return 0;
}

static int load_index(struct checkpoint *c, const char *dir, const char *path, struct err *e)
{
    struct json *index;
    int rc = json_read_file(&index, path, INDEX_BYTES_MAX, e);
    if (rc != 0) return rc;
    struct strmap files = {0};
    const struct json *map = json_field(index, "weight_map");
    if (json_kind(map) != JK_OBJECT || json_count(map) == 0)
        rc = err_field(e, ERR_FORMAT, "weight_map", ": expected an object with tensors, got %s",
                       json_kind_name(json_kind(map)));
    if (rc == 0) rc = load_shards(c, dir, map, &files, e);
    if (rc == 0) rc = check_shards(c, map, &files, e);
    strmap_deinit(&files);
    json_drop(index);
    return rc ? err_prefix(e, rc, "%s", path) : 0;
}

/* Load the only .safetensors file of a folder without model.safetensors. */
static int load_only_file(struct checkpoint *c, const char *dir, struct err *e)
{
    struct buf list = {0};
    char path[4096];
    const char *found = NULL, *pickled = NULL;
    int n_found = 0, rc = dir_list(&list, dir, e);
    for (char *rest = list.data, *name; rc == 0 && (name = strsep(&rest, "\n")) && *name;) {
        if (text_ends_with(name, ".safetensors")) found = name, n_found++;
        if (strncmp(name, "pytorch_model", 13) == 0 && text_ends_with(name, ".bin")) pickled = name;
    }
    if (rc == 0 && n_found == 0 && pickled)
        rc =
            err_set(e, ERR_UNSUPPORTED,
                    "%s/%s: not supported: the file may contain code, and quoth reads safetensors; "
                    "transformers' save_pretrained() writes them, after from_pretrained(\"%s\")",
                    dir, pickled, dir);
    if (rc == 0 && n_found != 1)
        rc = err_set(e, ERR_MISSING,
                     "%s: model.safetensors and model.safetensors.index.json not found; available: "
                     "%d other .safetensors files, expected 1",
                     dir, n_found);
    if (rc == 0) rc = hf_path(path, sizeof path, dir, found, e);
    if (rc == 0) rc = safetensors_load(c, path, e);
    buf_deinit(&list);
    return rc;
}

/* Log a warning if a folder with model.safetensors also has an index of other files. */
static void warn_of_index(const char *dir, const char *path)
{
    struct json *index = NULL;
    struct err ignored;
    bool other = json_read_file(&index, path, INDEX_BYTES_MAX, &ignored) != 0;
    const struct json *map = other ? NULL : json_field(index, "weight_map");
    for (void *it = json_first(map); it; it = json_next(map, it)) {
        const char *file = json_text(json_it_value(it), NULL);
        other |= !file || strcmp(file, "model.safetensors") != 0;
    }
    if (other) log_warn("%s: ignored, because %s/model.safetensors exists", path, dir);
    json_drop(index);
}

static int load_weights(struct checkpoint *c, const char *dir, struct err *e)
{
    char path[4096], index[4096];
    bool whole = false, divided = false;
    int rc = hf_path(path, sizeof path, dir, "model.safetensors", e);
    if (rc == 0) rc = hf_path(index, sizeof index, dir, "model.safetensors.index.json", e);
    if (rc == 0) rc = file_find(&whole, path, e);
    if (rc == 0) rc = file_find(&divided, index, e);
    if (rc != 0) return rc;
    if (whole && divided) warn_of_index(dir, index);
    if (whole) return safetensors_load(c, path, e);
    return divided ? load_index(c, dir, index, e) : load_only_file(c, dir, e);
}

/* Load the weights. An unknown architecture is reported before missing weights, because weights
 * cannot make the model loadable. */
static int load_known(struct checkpoint *c, const char *dir, struct err *e)
{
    int n_row, rc = load_weights(c, dir, e);
    tensor_rows(checkpoint_arch(c), &n_row);
    if (rc != ERR_MISSING || n_row > 0) return rc;
    const struct err missing = *e;
    return err_set(e, ERR_UNSUPPORTED,
                   "%s/config.json: architecture \"%.60s\": not supported yet; also, %s", dir,
                   checkpoint_arch(c), missing.text);
}

/* Rename a tensor to its row's name if the file has the tensor only under an alias. Copies under
 * aliases keep their own names. */
static int name_aliases(struct checkpoint *c, struct err *e)
{
    int n, rc = 0;
    const struct tensor_row *row = tensor_rows(checkpoint_arch(c), &n);
    for (int i = 0; i < n; i++) {
        char name[160], raw[160];
        const char *alias;
        snprintf(name, sizeof name, "%s.weight", row[i].name);
        for (int k = 0; rc == 0 && (alias = tensor_alias(row[i].arch, row[i].name, k)); k++) {
            snprintf(raw, sizeof raw, "%s.weight", alias);
            const struct tensor_info *t = checkpoint_tensor(c, raw);
            if (!t || checkpoint_tensor(c, name)) continue;
            struct tensor_info own = *t;
            own.name = name;
            rc = checkpoint_add_tensor(c, &own, e);
        }
    }
    return rc;
}

/* Name the head also as the embedding if the file lacks an embedding. A tied model may have its
 * only matrix under the head's name, as safetensors' save_model writes it. Binding rejects this
 * name in other models. */
static int share_head(struct checkpoint *c, struct err *e)
{
    static const char stem[] = "token_embd.";
    const struct tensor_info *head = checkpoint_tensor(c, "output.weight");
    for (int i = 0; i < checkpoint_n_tensor(c) && head; i++)
        if (strncmp(checkpoint_tensor_at(c, i)->name, stem, sizeof stem - 1) == 0) head = NULL;
    if (!head) return 0;
    struct tensor_info own = *head;
    own.name = "token_embd.weight";
    return checkpoint_add_tensor(c, &own, e);
}

/* Read the configuration of the model. Without one, name the first module that is not a model. */
static int config_load(struct checkpoint *c, const char *dir, const char *own, struct err *e)
{
    const int rc = hf_config_load(c, own, e);
    const int other = rc == ERR_MISSING ? hf_modules_check(c, dir, e) : 0;
    return other ? other : rc;
}

/* weights: true to load the weights of the model. */
static int load_folder(struct checkpoint *c, const char *dir, bool weights, struct err *e)
{
    char own[4096];
    bool modules;
    int rc = sentence_folder(own, &modules, dir, e);
    /* first: its activation replaces that of config.json */
    if (rc == 0) rc = hf_sentence_load(c, dir, e);
    if (rc == 0) rc = config_load(c, dir, own, e);
    if (rc == 0 && weights) rc = load_known(c, own, e);
    if (rc == 0) rc = name_aliases(c, e);
    if (rc == 0) rc = share_head(c, e);
    return rc ? rc : hf_modules_load(c, dir, own, e);
}

int hf_load(struct checkpoint *c, const char *dir, struct err *e)
{
    return load_folder(c, dir, true, e);
}

int hf_load_config(struct checkpoint *c, const char *dir, struct err *e)
{
    return load_folder(c, dir, false, e);
}
