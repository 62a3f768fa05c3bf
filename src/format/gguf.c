/* gguf.c - GGUF version 2 and 3, little-endian, one file or several (-00001-of-0000N.gguf).
 *
 *   "GGUF" version n_tensor n_kv | n_kv x (key, type, value)
 *                                | n_tensor x (name, dims, type, offset) | padding | data
 *
 * A reader parses the mapped bytes from the first to the last, and keeps the first error. Every
 * read after a failure returns zero, and loops end. Counts from the file are used only as limits of
 * loops. The reader checks that every length is at most the number of remaining bytes. Only the
 * first part of a split model supplies metadata.
 *
 *   text      u64 length, bytes, no NUL
 *   list      u32 item type, u64 count, items
 *   offset    from the beginning of the data, a multiple of the alignment (32 by default) */
#include "format_impl.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LIST_DEPTH_MAX limits the recursion of take_list. */
enum { NAME_BYTES_MAX = 64, KEY_BYTES_MAX = 65535, LIST_DEPTH_MAX = 8, ALIGNMENT_DEFAULT = 32 };

/* Pointers are borrowed. */
struct gguf_reader {
    struct checkpoint *c;
    struct err *e;
    const char *path;
    int file, part;      /* file: index in c->file. part: part number in a split model. */
    const uint8_t *data; /* bytes of the model [n] */
    size_t n, at;        /* number of bytes of the model, and position of the reader */
    uint64_t alignment;  /* alignment of the data section, a power of two */
    /* values of the metadata split.* of the part; -1 if absent */
    int64_t split_no, split_count, split_n_tensor;
    int rc; /* first failure; 0 if none */
};

/* ---- bytes ---- */

#define FAIL(r, code, ...) ((r)->rc = err_set((r)->e, code, __VA_ARGS__))

/* A length of this size or more indicates a damaged file, not an incomplete download. */
static const uint64_t CUT_MAX = (uint64_t)1 << 42;

/* Return the next n bytes. Return NULL and set r->rc if fewer bytes remain. */
static const uint8_t *next_bytes(struct gguf_reader *r, uint64_t n, const char *what)
{
    if (r->rc) return NULL;
    if (n > r->n - r->at) {
        bool cut = n < CUT_MAX;
        FAIL(r, ERR_FORMAT, "%s: %sat byte %zu: %s takes %llu bytes, but the file has %zu more%s",
             r->path, cut ? "the file is truncated: " : "", r->at, what, (unsigned long long)n,
             r->n - r->at, cut ? "; download it again" : "");
        return NULL;
    }
    const uint8_t *p = r->data + r->at;
    r->at += n;
    return p;
}

/* Return a little-endian number of n_byte bytes at any alignment; 0 after a failure. */
static uint64_t take_uint(struct gguf_reader *r, int n_byte, const char *what)
{
    const uint8_t *p = next_bytes(r, (uint64_t)n_byte, what);
    uint64_t v = 0;
    for (int i = 0; p && i < n_byte; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static uint32_t take_u32(struct gguf_reader *r, const char *what)
{
    return (uint32_t)take_uint(r, 4, what);
}

static uint64_t take_u64(struct gguf_reader *r, const char *what)
{
    return take_uint(r, 8, what);
}

static struct text_slice take_text(struct gguf_reader *r, const char *what)
{
    uint64_t n = take_u64(r, what);
    const uint8_t *p = next_bytes(r, n, what);
    return p ? (struct text_slice){(const char *)p, (size_t)n} : (struct text_slice){"", 0};
}

/* Return zeroed memory of the arena. NULL after an earlier failure, or if memory is exhausted;
 * r->rc is then ERR_MEMORY. */
static void *push(struct gguf_reader *r, size_t count, size_t size, const char *what)
{
    void *p = r->rc ? NULL : arena_push0(&r->c->arena, count, size);
    if (!p && !r->rc) r->rc = err_memory(r->e, what, (unsigned long long)count * size);
    return p;
}

/* Return a key or tensor name as a C string in the arena; "" after a failure. */
static const char *take_name(struct gguf_reader *r, const char *what, size_t n_max)
{
    struct text_slice s = take_text(r, what);
    if (r->rc) return "";
    if (s.n == 0 || s.n > n_max)
        FAIL(r, ERR_FORMAT, "%s: at byte %zu: %s has %zu bytes, expected 1 to %zu", r->path, r->at,
             what, s.n, n_max);
    else if (memchr(s.text, 0, s.n) || !utf8_valid(s.text, s.n))
        FAIL(r, ERR_FORMAT, "%s: at byte %zu: %s is not UTF-8 text", r->path, r->at, what);
    char *own = r->rc ? NULL : arena_text(&r->c->arena, s.text, s.n);
    if (!own && !r->rc) r->rc = err_memory(r->e, what, s.n);
    return own ? own : "";
}

/* ---- metadata ---- */

static bool value_type_known(struct gguf_reader *r, uint32_t type, const char *key)
{
    if (!r->rc && type >= VT_GGUF_COUNT)
        FAIL(r, ERR_FORMAT, "%s: key \"%s\" has value type %u, expected 0 to %d", r->path, key,
             type, VT_GGUF_COUNT - 1);
    return !r->rc;
}

static void take_list(struct gguf_reader *r, struct meta *m, const char *key, int depth);

/* Read a value of `type`. Numbers remain in the map, unaligned. Texts are copied, because callers
 * need a NUL at the end. */
static void take_value(struct gguf_reader *r, uint32_t type, struct meta *m, const char *key,
                       int depth)
{
    if (!value_type_known(r, type, key)) return;
    *m = (struct meta){.type = (enum value_type)type, .n = 1};
    if (type == VT_LIST) {
        take_list(r, m, key, depth);
    } else if (type == VT_TEXT) {
        struct text_slice s = take_text(r, key);
        m->n = s.n;
        m->data = r->rc ? NULL : arena_text(&r->c->arena, s.text, s.n);
        if (!m->data && !r->rc) r->rc = err_memory(r->e, key, s.n);
    } else {
        m->data = next_bytes(r, value_bytes(m->type), key);
    }
}

/* Read a list. The items of the list remain in the map. A list of texts or of lists gets an index
 * of the positions of its items. Each item of such a list has at least 8 bytes in the file. The
 * index is therefore at most about three times as large as the file. */
static void take_list(struct gguf_reader *r, struct meta *m, const char *key, int depth)
{
    uint32_t item = take_u32(r, key);
    uint64_t n = take_u64(r, key);
    if (!value_type_known(r, item, key)) return;
    m->item = (enum value_type)item;
    m->n = (size_t)n;
    size_t size = value_bytes(m->item) ? value_bytes(m->item) : 8;
    if (depth >= LIST_DEPTH_MAX) {
        FAIL(r, ERR_LIMIT, "%s: key \"%s\": lists are nested deeper than %d", r->path, key,
             LIST_DEPTH_MAX);
    } else if (n > (r->n - r->at) / size) {
        FAIL(r, ERR_FORMAT,
             "%s: %skey \"%s\": a list of %llu items does not fit the %zu bytes left%s", r->path,
             n < CUT_MAX ? "the file is truncated: " : "", key, (unsigned long long)n, r->n - r->at,
             n < CUT_MAX ? "; download it again" : "");
    } else if (item == VT_TEXT) {
        struct text_slice *index = push(r, m->n, sizeof *index, key);
        m->data = index;
        for (size_t i = 0; i < m->n && !r->rc; i++) index[i] = take_text(r, key);
    } else if (item == VT_LIST) {
        struct meta *index = push(r, m->n, sizeof *index, key);
        m->data = index;
        for (size_t i = 0; i < m->n && !r->rc; i++)
            take_value(r, VT_LIST, &index[i], key, depth + 1);
    } else {
        m->data = next_bytes(r, n * size, key);
    }
}

/* Store the values of keys that the reader needs. */
static void note_meta(struct gguf_reader *r, const char *key, const struct meta *m)
{
    if (strcmp(key, "split.no") == 0) r->split_no = meta_int(m, -1);
    if (strcmp(key, "split.count") == 0) r->split_count = meta_int(m, -1);
    if (strcmp(key, "split.tensors.count") == 0) r->split_n_tensor = meta_int(m, -1);
    if (strcmp(key, "general.alignment") != 0) return;
    int64_t a = meta_int(m, 0);
    if (m->type != VT_U32 || a <= 0 || (a & (a - 1)))
        FAIL(r, ERR_FORMAT, "%s: general.alignment is %lld, expected a power of two (u32)", r->path,
             (long long)a);
    else
        r->alignment = (uint64_t)a;
}

/* Read one key with its value. Keys of parts after the first are read, but not stored. */
static void take_meta(struct gguf_reader *r)
{
    const char *key = take_name(r, "a metadata key", KEY_BYTES_MAX);
    uint32_t type = take_u32(r, key);
    struct meta m = {0};
    take_value(r, type, &m, key, 0);
    if (!r->rc && strncmp(key, "config.", 7) == 0) /* the reader of folders adds these keys */
        FAIL(r, ERR_UNSUPPORTED, "%s: metadata key %s: a GGUF must not have fields of config.json",
             r->path, key);
    if (!r->rc) note_meta(r, key, &m);
    if (!r->rc && r->part == 0) r->rc = checkpoint_add_meta(r->c, key, &m, r->e);
}

/* ---- tensors ---- */

static void take_dims(struct gguf_reader *r, struct tensor_info *t)
{
    uint32_t n_dim = take_u32(r, t->name);
    if (!r->rc && n_dim > 4)
        FAIL(r, ERR_FORMAT, "%s: tensor \"%s\" has %u dimensions, expected 1 to 4", r->path,
             t->name, n_dim);
    for (uint32_t i = 0; i < n_dim && !r->rc; i++) {
        uint64_t d = take_u64(r, t->name);
        if (!r->rc && (d == 0 || d > INT64_MAX))
            FAIL(r, ERR_FORMAT,
                 "%s: tensor \"%s\": dimension %u is %llu, expected a positive number", r->path,
                 t->name, i, (unsigned long long)d);
        t->dim[i] = (int64_t)d;
    }
    t->n_dim = n_dim ? (int)n_dim : 1; /* files store a scalar as a tensor without dimensions */
}

/* Check that type, size and dimensions agree, and set t->n_byte. */
static void check_size(struct gguf_reader *r, struct tensor_info *t, uint32_t type)
{
    int known = qtype_of_gguf(type);
    if (known < 0) {
        FAIL(r, ERR_UNSUPPORTED, "%s: tensor \"%s\" has type %u: unknown", r->path, t->name, type);
        return;
    }
    t->type = (enum qtype)known;
    const struct qtype_info *q = &qtype_info[known];
    if (t->dim[0] % q->block != 0)
        FAIL(r, ERR_FORMAT,
             "%s: tensor \"%s\": rows of %lld values, expected a multiple of %d for type %s",
             r->path, t->name, (long long)t->dim[0], q->block, q->name);
    else if (!tensor_set_bytes(t))
        FAIL(r, ERR_FORMAT, "%s: tensor \"%s\": its dimensions' product overflows", r->path,
             t->name);
}

/* Read one entry of the list of tensors. *offset is relative to the data section. */
static void take_tensor(struct gguf_reader *r, struct tensor_info *t, uint64_t *offset)
{
    *t = (struct tensor_info){.dim = {1, 1, 1, 1}, .file = r->file};
    t->name = t->name_raw = take_name(r, "a tensor name", NAME_BYTES_MAX);
    take_dims(r, t);
    uint32_t type = take_u32(r, t->name);
    *offset = take_u64(r, t->name);
    if (!r->rc) check_size(r, t, type);
    if (!r->rc && *offset % r->alignment != 0)
        FAIL(r, ERR_FORMAT,
             "%s: tensor \"%s\": offset %llu, expected a multiple of the alignment %llu", r->path,
             t->name, (unsigned long long)*offset, (unsigned long long)r->alignment);
}

/* Set t->data to the tensor's bytes in the file. As in llama.cpp, the padding after the data must
 * exist, too, so that a truncated file is detected. */
static void place_tensor(struct gguf_reader *r, struct tensor_info *t, uint64_t offset,
                         uint64_t data_start)
{
    uint64_t room = data_start <= r->n ? r->n - data_start : 0,
             pad = -(uint64_t)t->n_byte & (r->alignment - 1);
    if (offset <= room && t->n_byte <= room - offset && pad <= room - offset - t->n_byte)
        t->data = r->data + data_start + offset;
    else if (!r->c->header_only || room > 0)
        FAIL(r, ERR_FORMAT, "%s: %stensor \"%s\": %zu bytes at offset %llu of %llu bytes of data%s",
             r->path, offset < CUT_MAX ? "the file is truncated: " : "", t->name, t->n_byte,
             (unsigned long long)offset, (unsigned long long)room,
             offset < CUT_MAX ? "; download it again" : "");
}

/* Reject tensors that share bytes, because the address of a matrix identifies it: packing stores
 * the matrices of one address once (backend/cpu/weights.c). */
static void check_apart(struct gguf_reader *r, struct extent *x, size_t n)
{
    if (n > 0) qsort(x, n, sizeof *x, extent_order);
    for (size_t i = 1; i < n && !r->rc; i++)
        if (x[i].begin < x[i - 1].end)
            FAIL(r, ERR_FORMAT,
                 "%s: tensor \"%s\" begins at %llu, expected at least %llu (overlap)", r->path,
                 x[i].name, (unsigned long long)x[i].begin, (unsigned long long)x[i - 1].end);
}

/* Read the list of tensors. Place the tensors in a second pass, because the data begin after the
 * last entry of the list. */
static void take_tensors(struct gguf_reader *r, uint64_t n_tensor)
{
    VEC(struct extent) extent = {0};
    size_t first = r->c->tensor.n;
    for (uint64_t i = 0; i < n_tensor && !r->rc; i++) {
        struct tensor_info t;
        uint64_t at;
        take_tensor(r, &t, &at);
        if (!r->rc) r->rc = checkpoint_add_tensor(r->c, &t, r->e);
        const char *name = r->rc ? NULL : r->c->tensor.v[first + i].name;
        if (!r->rc && !vec_push(&extent, ((struct extent){at, at + t.n_byte, name})))
            r->rc = err_memory(r->e, "the tensor list", extent.n * sizeof *extent.v);
    }
    uint64_t data_start = r->at + (-(uint64_t)r->at & (r->alignment - 1));
    for (size_t i = 0; i < extent.n && !r->rc; i++)
        place_tensor(r, &r->c->tensor.v[first + i], extent.v[i].begin, data_start);
    if (!r->rc) check_apart(r, extent.v, extent.n);
    vec_deinit(&extent);
}

/* ---- a file ---- */

/* Read magic number and version. Version 3 only adds big-endian files to version 2. The version of
 * a big-endian file is read as 3 << 24. */
static void check_version(struct gguf_reader *r)
{
    const uint8_t *magic = next_bytes(r, 4, "the magic");
    if (magic && memcmp(magic, "GGUF", 4) != 0)
        FAIL(r, ERR_FORMAT, "%s: begins with bytes %02x %02x %02x %02x, expected \"GGUF\"", r->path,
             magic[0], magic[1], magic[2], magic[3]);
    uint32_t version = take_u32(r, "the version");
    if (r->rc || version == 2 || version == 3) return;
    if (version != 0 && (version & 0xFFFF) == 0)
        FAIL(r, ERR_UNSUPPORTED,
             "%s: big-endian GGUF (version reads as %u), expected little-endian", r->path, version);
    else
        FAIL(r, ERR_UNSUPPORTED, "%s: GGUF version %u, expected 2 or 3", r->path, version);
}

/* Check the number of the part, so that renamed and repeated parts are detected. */
static void check_split(struct gguf_reader *r)
{
    bool is_part = r->part > 0 || r->split_count > 1;
    if (!r->rc && is_part && r->split_no != r->part)
        FAIL(r, ERR_FORMAT, "%s: split.no is %lld, expected %d", r->path, (long long)r->split_no,
             r->part);
}

/* Read one file. After the first failure all later functions have no effect. */
static int load_part(struct gguf_reader *r, const char *path)
{
    r->alignment = ALIGNMENT_DEFAULT;
    r->split_no = r->split_count = r->split_n_tensor = -1;
    r->file = checkpoint_add_file(r->c, path, r->e);
    if (r->file < 0) return r->file;
    const struct checkpoint_file *f = &r->c->file.v[r->file];
    r->path = f->path, r->data = f->data, r->n = f->n_byte, r->at = 0;
    check_version(r);
    uint64_t n_tensor = take_u64(r, "the number of tensors");
    uint64_t n_kv = take_u64(r, "the number of metadata keys");
    for (uint64_t i = 0; i < n_kv && !r->rc; i++) take_meta(r);
    check_split(r);
    take_tensors(r, n_tensor);
    return r->rc;
}

/* ---- split models ---- */

/* Parse "PREFIX-00002-of-00005.gguf". Return the number of parts (5), and set *n_prefix to the
 * length of PREFIX. Return 0 if path has another form. */
static int split_name(const char *path, size_t *n_prefix)
{
    static const char form[] = "-ddddd-of-ddddd.gguf";
    size_t n = strlen(path), n_form = sizeof form - 1;
    if (n <= n_form) return 0;
    const char *s = path + n - n_form;
    for (size_t i = 0; i < n_form; i++) {
        bool digit = s[i] >= '0' && s[i] <= '9';
        if (form[i] == 'd' ? !digit : s[i] != form[i]) return 0;
    }
    *n_prefix = n - n_form;
    return (int)strtol(s + 10, NULL, 10);
}

/* Read the parts after the first part. Compare the total number of tensors with the number in the
 * first part's metadata. */
static int load_rest(struct gguf_reader *r, const char *path, size_t n_prefix, int n_part)
{
    int64_t n_tensor = r->split_n_tensor;
    for (int i = 1; i < n_part; i++) {
        char name[4096];
        int n = snprintf(name, sizeof name, "%.*s-%05d-of-%05d.gguf", (int)n_prefix, path, i + 1,
                         n_part);
        if (n < 0 || (size_t)n >= sizeof name)
            return err_set(r->e, ERR_ARG, "%s: cannot open: the path is too long", path);
        r->part = i;
        int rc = load_part(r, name);
        if (rc != 0) return rc;
    }
    if (n_tensor >= 0 && n_tensor != (int64_t)r->c->tensor.n)
        return err_set(r->e, ERR_FORMAT,
                       "%s: split.tensors.count: must be %zu, the number of tensors, got %lld",
                       path, r->c->tensor.n, (long long)n_tensor);
    return 0;
}

int gguf_load(struct checkpoint *c, const char *path, struct err *e)
{
    struct gguf_reader r = {.c = c, .e = e};
    size_t n_prefix = 0;
    int named = split_name(path, &n_prefix);
    char first[4096];
    int n =
        named ? snprintf(first, sizeof first, "%.*s-00001-of-%05d.gguf", (int)n_prefix, path, named)
              : snprintf(first, sizeof first, "%s", path);
    if (n < 0 || (size_t)n >= sizeof first)
        return err_set(e, ERR_ARG, "%s: cannot open: the path is too long", path);
    int rc = load_part(&r, first);
    if (rc != 0) return rc;
    int64_t n_part = r.split_count > 0 ? r.split_count : 1;
    if (n_part != (named ? named : 1))
        return err_set(e, ERR_FORMAT, "%s: split.count: must be %d as in the file's name, got %lld",
                       first, named ? named : 1, (long long)n_part);
    return n_part > 1 ? load_rest(&r, first, n_prefix, named) : 0;
}
