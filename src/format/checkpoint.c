/* checkpoint.c - open a path of any kind, and look up tensors and metadata (format.h).
 *
 * The kind of a path is detected by the file's content if possible. GGUF and llama2.c have magic
 * numbers. A safetensors file begins with a length and a brace. Only a folder and its index are
 * detected by name.
 *
 *   path --check_path--> set_paths --load--> hf_load           a folder, a shard with config.json
 *                                     |----> gguf_load         "GGUF", alone or in a packed file
 *                                     |----> safetensors_load  one file without metadata
 *                                     '----> llama2c_load      magic number or plausible header
 *
 * Readers call checkpoint_add_*, which copy names and values to the arena. The data of tensors
 * remain in the mapped file. Two hash tables map names to tensors, and keys to metadata. */
#include "format_impl.h"

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

/* ---- building ---- */

/* Map a file and return its index, or a negative error. data and n_byte cover only the model,
 * because a packed executable contains the model at an offset. */
int checkpoint_add_file(struct checkpoint *c, const char *path, struct err *e)
{
    struct checkpoint_file f = {.path = arena_text(&c->arena, path, strlen(path))};
    if (!f.path) return err_memory(e, path, strlen(path));
    int rc = file_map_open(&f.map, path, e);
    if (rc == 0) rc = file_check_content(path, f.map.data, f.map.n_byte, e);
    if (rc != 0) {
        file_map_close(&f.map);
        return rc;
    }
    size_t offset = 0;
    f.n_byte = f.map.n_byte;
    pack_find(f.map.data, f.map.n_byte, &offset, &f.n_byte);
    f.data = f.map.data ? f.map.data + offset : NULL;
    if (!vec_push(&c->file, f)) {
        file_map_close(&f.map);
        return err_memory(e, path, sizeof f);
    }
    return (int)c->file.n - 1;
}

/* Reject two tensors of one name, because the order of the file would decide which tensor is used.
 * name and name_raw share memory if they are equal. */
int checkpoint_add_tensor(struct checkpoint *c, const struct tensor_info *t, struct err *e)
{
    struct tensor_info own = *t;
    const char *path = (size_t)t->file < c->file.n ? c->file.v[t->file].path : c->path;
    if (checkpoint_tensor(c, t->name))
        return err_set(e, ERR_FORMAT, "%s: must have one tensor of each name, got two \"%s\"", path,
                       t->name);
    if (c->tensor.n >= INT32_MAX) return err_set(e, ERR_LIMIT, "%s: more than 2^31 tensors", path);
    own.name = arena_text(&c->arena, t->name, strlen(t->name));
    own.name_raw = own.name;
    if (own.name && strcmp(t->name, t->name_raw) != 0)
        own.name_raw = arena_text(&c->arena, t->name_raw, strlen(t->name_raw));
    if (!own.name || !own.name_raw || !vec_push(&c->tensor, own) ||
        !strmap_put(&c->tensor_by_name, own.name, strlen(own.name), (uint32_t)c->tensor.n - 1))
        return err_memory(e, "the tensor list", c->tensor.n * sizeof own);
    return 0;
}

int extent_order(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

int checkpoint_add_meta(struct checkpoint *c, const char *key, const struct meta *value,
                        struct err *e)
{
    if (checkpoint_meta(c, key))
        return err_set(e, ERR_FORMAT, "%s: the metadata key \"%s\": must be unique, got two",
                       c->path, key);
    if (c->meta.n >= INT32_MAX) return err_set(e, ERR_LIMIT, "%s: more than 2^31 keys", c->path);
    struct meta_entry entry = {arena_text(&c->arena, key, strlen(key)), *value, c->giving};
    if (!entry.key || !vec_push(&c->meta, entry) ||
        !strmap_put(&c->meta_by_key, entry.key, strlen(key), (uint32_t)c->meta.n - 1))
        return err_memory(e, "the metadata", c->meta.n * sizeof entry);
    return 0;
}

/* Copy the number to the arena. An alignment of 8 bytes is sufficient for each type. */
static int add_number(struct checkpoint *c, const char *key, enum value_type type, const void *x,
                      struct err *e)
{
    void *own = arena_push(&c->arena, value_bytes(type), 8);
    if (!own) return err_memory(e, key, value_bytes(type));
    memcpy(own, x, value_bytes(type));
    return checkpoint_add_meta(c, key, &(struct meta){.type = type, .data = own, .n = 1}, e);
}

int checkpoint_add_int(struct checkpoint *c, const char *key, int64_t x, struct err *e)
{
    return add_number(c, key, VT_I64, &x, e);
}

int checkpoint_add_real(struct checkpoint *c, const char *key, double x, struct err *e)
{
    return add_number(c, key, VT_F64, &x, e);
}

int checkpoint_add_u32(struct checkpoint *c, const char *key, uint32_t x, struct err *e)
{
    return add_number(c, key, VT_U32, &x, e);
}

int checkpoint_add_f32(struct checkpoint *c, const char *key, float x, struct err *e)
{
    return add_number(c, key, VT_F32, &x, e);
}

int checkpoint_add_text(struct checkpoint *c, const char *key, const char *text, size_t n,
                        struct err *e)
{
    struct meta m = {.type = VT_TEXT, .data = arena_text(&c->arena, text, n), .n = n};
    if (!m.data) return err_memory(e, key, n);
    return checkpoint_add_meta(c, key, &m, e);
}

/* The product of hostile dimensions may overflow, so each step is checked. */
bool tensor_set_bytes(struct tensor_info *t)
{
    const struct qtype_info *q = &qtype_info[t->type];
    int64_t n = 1, n_byte;
    for (int i = 0; i < 4; i++)
        if (__builtin_mul_overflow(n, t->dim[i], &n)) return false;
    if (__builtin_mul_overflow(n / q->block, (int64_t)q->n_byte, &n_byte)) return false;
    t->n_byte = (size_t)n_byte;
    return true;
}

/* ---- opening ---- */

/* Return true if path is model.safetensors, a shard, or the index. These paths open the folder, not
 * one file. */
static bool names_folder(const char *path)
{
    const char *name = path_name(path);
    if (text_ends_with(name, ".safetensors.index.json") || strcmp(name, "model.safetensors") == 0)
        return true;
    return strncmp(name, "model-", 6) == 0 && text_ends_with(name, ".safetensors");
}

static int has_config(bool *found, const char *dir, struct err *e)
{
    char path[4096];
    const int rc = hf_path(path, sizeof path, dir, "config.json", e);
    return rc == 0 ? file_find(found, path, e) : rc;
}

/* Return true for the beginning of a safetensors file: the header's length in 8 bytes, then '{'.
 * Headers are smaller than 2^40 bytes, so bytes 5 to 7 are 0. */
static bool safetensors_looks_like(const uint8_t *data, size_t n)
{
    return n >= 10 && memcmp(data + 5, "\0\0\0", 3) == 0 && data[8] == '{';
}

/* Detect the format by the first bytes and load the file. The reader of the format maps the file
 * again. */
static int load_file(struct checkpoint *c, const char *path, struct err *e)
{
    struct file_map m;
    int rc = file_map_open(&m, path, e);
    if (rc == 0) rc = file_check_content(path, m.data, m.n_byte, e);
    if (rc != 0) {
        file_map_close(&m);
        return rc;
    }
    size_t offset = 0, n_byte;
    pack_find(m.data, m.n_byte, &offset, &n_byte);
    bool is_gguf = m.n_byte - offset >= 4 && memcmp(m.data + offset, "GGUF", 4) == 0;
    bool is_safetensors =
        text_ends_with(path, ".safetensors") || safetensors_looks_like(m.data, m.n_byte);
    bool is_llama2c = llama2c_looks_like(m.data, m.n_byte);
    char found[24];
    const char *begins = utf8_first_text((const char *)m.data, m.n_byte, found);
    file_map_close(&m);
    c->kind = is_gguf ? CKPT_GGUF : is_safetensors ? CKPT_HF : CKPT_LLAMA2C;
    if (is_gguf) return gguf_load(c, path, e);
    if (is_safetensors) return safetensors_load(c, path, e);
    if (is_llama2c) return llama2c_load(c, path, e);
    return err_set(e, ERR_FORMAT,
                   "%s: not a model file: expected GGUF, safetensors or a llama2.c .bin, got %s at "
                   "byte 0",
                   path, begins);
}

/* Return OWNER/NAME of "hf:OWNER/NAME" and "hf.co/OWNER/NAME"; NULL for other texts. */
static const char *hub_name(const char *path)
{
    static const char *const prefix[] = {"hf:", "hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
        if (strncmp(path, prefix[i], strlen(prefix[i])) == 0) return path + strlen(prefix[i]);
    return NULL;
}

/* Return true for a name of Ollama's library, "llama3.2:1b". */
static bool is_ollama_name(const char *path)
{
    static const char part[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strspn(path, part);
    return n > 0 && path[n] == ':' && path[n + 1] && !path[n + 1 + strspn(path + n + 1, part)] &&
           strncmp(path, "hf:", 3) != 0;
}

/* Reject a string that is not a path. Commands that accept names of a hub replace them by paths
 * before this check. */
static int check_path(const char *path, struct err *e)
{
    const char *slash = strchr(path, '/');
    const char *name = hub_name(path);
    bool named = name != NULL;
    if (file_exists(path) || dir_exists(path)) return 0;
    if (is_ollama_name(path))
        return err_set(e, ERR_MISSING,
                       "%s: not found; to pull a model of Ollama: quoth pull ollama:%s", path,
                       path);
    if (strstr(path, "://"))
        return err_set(
            e, ERR_MISSING,
            "%s: expected a file or folder, got a URL; run curl -LO %s, then give the file", path,
            path);
    char owner[256];
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (!named &&
        (n == 0 || n >= sizeof owner || path[0] == '.' || path[0] == '~' || strchr(slash + 1, '/')))
        return 0;
    snprintf(owner, sizeof owner, "%.*s", (int)n, path);
    if (!named && dir_exists(owner)) return 0;
    return err_set(e, ERR_MISSING,
                   "%s: not found; to pull a model of Hugging Face: quoth pull hf:%s", path,
                   named ? name : path);
}

/* Load the file or folder. The path of a shard opens its folder if the folder has a config.json,
 * because one shard is not a whole model. A path that does not exist is an error of load_file. */
static int load(struct checkpoint *c, struct err *e)
{
    bool folder = dir_exists(c->path), found = false;
    int rc = check_path(c->path, e);
    if (rc == 0 && !folder && names_folder(c->path)) rc = file_find(&found, c->path, e);
    if (rc == 0 && found) rc = has_config(&folder, c->dir, e);
    if (rc != 0) return rc;
    if (folder) {
        c->kind = CKPT_HF;
        return hf_load(c, c->dir, e);
    }
    return load_file(c, c->path, e);
}

/* Set path and dir. dir is the path itself for a folder, "." for a name without a slash, and "/"
 * for a file in the root. */
static int set_paths(struct checkpoint *c, const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    size_t n_dir = dir_exists(path) ? strlen(path) : slash ? (size_t)(slash - path) : 0;
    if (slash == path && n_dir == 0) n_dir = 1;
    c->path = arena_text(&c->arena, path, strlen(path));
    c->dir = n_dir ? arena_text(&c->arena, path, n_dir) : ".";
    return c->path && c->dir ? 0 : err_memory(e, path, strlen(path));
}

int checkpoint_begin(struct checkpoint **out, const char *path, struct err *e)
{
    *out = calloc(1, sizeof **out);
    return *out ? set_paths(*out, path, e) : err_memory(e, path, sizeof **out);
}

/* Replace values of files that have no config.json. */
static int replace_values(struct checkpoint *c, struct err *e)
{
    if (c->changes->config)
        return err_field(e, ERR_UNSUPPORTED, "--hf-overrides",
                         ": requires a model with a config.json, got %s", c->path);
    return hf_replace_rope(c, e);
}

/* Open the path with the reader of its form. Close the half-open checkpoint after an error, with
 * *out NULL. The reader of a folder applies the changes itself. */
static int open_as(struct checkpoint **out, const char *path, bool header_only,
                   const struct changes *changes, struct err *e)
{
    int rc = checkpoint_begin(out, path, e);
    if (*out) (*out)->header_only = header_only, (*out)->changes = changes;
    if (rc == 0) rc = load(*out, e);
    if (rc == 0 && changes && ((*out)->kind != CKPT_HF || !checkpoint_arch(*out)))
        rc = replace_values(*out, e);
    if (*out) (*out)->changes = NULL;
    if (rc == 0) return 0;
    checkpoint_close(*out);
    *out = NULL;
    return rc;
}

int checkpoint_open(struct checkpoint **out, const char *path, struct err *e)
{
    return open_as(out, path, false, NULL, e);
}

int checkpoint_open_with(struct checkpoint **out, const char *path,
                         const struct checkpoint_changes *changes, struct err *e)
{
    struct changes own;
    *out = NULL;
    int rc = changes_open(&own, changes, e);
    if (rc == 0) rc = open_as(out, path, false, changes_any(&own) ? &own : NULL, e);
    changes_close(&own);
    return rc;
}

int checkpoint_open_header(struct checkpoint **out, const char *path, struct err *e)
{
    return open_as(out, path, true, NULL, e);
}

void checkpoint_close(struct checkpoint *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->file.n; i++) file_map_close(&c->file.v[i].map);
    vec_deinit(&c->file);
    vec_deinit(&c->tensor);
    vec_deinit(&c->meta);
    strmap_deinit(&c->tensor_by_name);
    strmap_deinit(&c->meta_by_key);
    arena_deinit(&c->arena);
    dummy_close(c->dummy);
    free(c);
}

/* ---- look-ups ---- */

enum checkpoint_kind checkpoint_kind(const struct checkpoint *c)
{
    return c->kind;
}

const char *checkpoint_path(const struct checkpoint *c)
{
    return c->path;
}

bool checkpoint_is_random(const struct checkpoint *c)
{
    return c->dummy != NULL;
}

const char *checkpoint_dir(const struct checkpoint *c)
{
    return c->dir;
}

size_t checkpoint_file_bytes(const struct checkpoint *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->file.n; i++) n += c->file.v[i].n_byte;
    return n;
}

/* Return the offset of the first tensor in the file, in bytes. */
static size_t header_bytes(const struct checkpoint *c, size_t file)
{
    const struct checkpoint_file *f = &c->file.v[file];
    size_t n = f->n_byte;
    for (size_t i = 0; i < c->tensor.n; i++) {
        const uint8_t *data = c->tensor.v[i].data;
        if (data >= f->data && data < f->data + n) n = (size_t)(data - f->data);
    }
    return n;
}

/* The two halves of the key have different seeds. The bytes of the header are part of the key,
 * because an edit of the file may preserve its size and modification time. */
bool checkpoint_key(const struct checkpoint *c, uint64_t key[2])
{
    key[0] = 0, key[1] = 1;
    for (size_t i = 0; i < c->file.n; i++) {
        const struct checkpoint_file *f = &c->file.v[i];
        size_t n = header_bytes(c, i);
        uint64_t id[] = {f->map.device, f->map.inode, f->map.n_byte, (uint64_t)f->map.mtime_ns, n};
        for (int k = 0; k < 2; k++)
            key[k] = hash_bytes(f->data, n, hash_bytes(id, sizeof id, key[k]));
    }
    return c->file.n > 0 && !c->dummy;
}

void checkpoint_release_pages(const struct checkpoint *c)
{
    for (size_t i = 0; i < c->file.n; i++) file_map_release_pages(&c->file.v[i].map);
}

/* Keep the bytes before the first tensor, because the metadata of a GGUF point into these bytes. */
int checkpoint_detach(struct checkpoint *c, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < c->file.n && rc == 0 && !c->dummy; i++) {
        struct checkpoint_file *f = &c->file.v[i];
        size_t before = f->data ? (size_t)(f->data - f->map.data) : 0;
        rc = file_map_detach(&f->map, before + header_bytes(c, i), e);
    }
    for (size_t i = 0; i < c->tensor.n && rc == 0 && !c->dummy; i++) c->tensor.v[i].data = NULL;
    return rc;
}

int checkpoint_n_tensor(const struct checkpoint *c)
{
    return (int)c->tensor.n;
}

const struct tensor_info *checkpoint_tensor_at(const struct checkpoint *c, int i)
{
    CHECK(i >= 0 && (size_t)i < c->tensor.n, "tensor %d of %zu", i, c->tensor.n);
    return &c->tensor.v[i];
}

const struct tensor_info *checkpoint_tensor(const struct checkpoint *c, const char *name)
{
    const uint32_t *i = strmap_get(&c->tensor_by_name, name, strlen(name));
    return i ? &c->tensor.v[*i] : NULL;
}

int checkpoint_n_meta(const struct checkpoint *c)
{
    return (int)c->meta.n;
}

const struct meta *checkpoint_meta_at(const struct checkpoint *c, int i, const char **key)
{
    CHECK(i >= 0 && (size_t)i < c->meta.n, "key %d of %zu", i, c->meta.n);
    if (key) *key = c->meta.v[i].key;
    return &c->meta.v[i].value;
}

const struct meta *checkpoint_meta(const struct checkpoint *c, const char *key)
{
    const uint32_t *i = strmap_get(&c->meta_by_key, key, strlen(key));
    return i ? &c->meta.v[*i].value : NULL;
}

const char *checkpoint_given(const struct checkpoint *c, int i)
{
    CHECK(i >= 0 && (size_t)i < c->meta.n, "key %d of %zu", i, c->meta.n);
    return c->meta.v[i].given;
}

const char *checkpoint_rope_given(const struct checkpoint *c)
{
    return c->rope_given;
}

const char *checkpoint_arch(const struct checkpoint *c)
{
    return meta_text(checkpoint_meta(c, "general.architecture"), NULL);
}
