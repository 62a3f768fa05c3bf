/* safetensors.c - one .safetensors file: a u64 length, that many bytes of JSON, then the data.
 *
 *   {"NAME": {"dtype": "F32", "shape": [rows, columns], "data_offsets": [begin, end]}, ...}
 *
 * The format requires that the tensors' ranges cover the data section without overlap, gap, or
 * bytes after the last range. Shapes are row-major in the file. The reader reverses the shapes,
 * because dim[0] varies fastest. Names are converted to their GGUF spelling. */
#include "format_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES_MAX = 100 * 1000 * 1000, NAME_BYTES_MAX = 1024 };

/* Pointers are borrowed. */
struct safetensors_reader {
    struct checkpoint *c;
    struct err *e;
    const char *path;    /* path of the file, in the arena */
    int file;            /* index of the file in c->file */
    const uint8_t *data; /* data section of the file */
    size_t n;
    VEC(struct extent) extent; /* ranges of the tensors, owned; names are the header's */
};

/* Return the type; -1 if the name is unknown. Smaller floats such as F4 are not supported. */
static int dtype_of(const char *name)
{
    static const struct {
        const char *name; /* static */
        enum qtype type;
    } known[] = {
        {"F64", QT_f64},         {"F32", QT_f32},         {"F16", QT_f16}, {"BF16", QT_bf16},
        {"F8_E4M3", QT_f8_e4m3}, {"F8_E5M2", QT_f8_e5m2}, {"I64", QT_i64}, {"I32", QT_i32},
        {"I16", QT_i16},         {"I8", QT_i8},           {"U8", QT_u8},   {"BOOL", QT_bool},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0) return known[i].type;
    return -1;
}

/* Set the type. ERR_FORMAT if the value is not a text, ERR_UNSUPPORTED if the type is unknown. */
static int read_dtype(struct safetensors_reader *r, struct tensor_info *t, const struct json *dtype)
{
    const char *name = json_text(dtype, NULL);
    if (!name)
        return err_set(r->e, ERR_FORMAT, "%s: tensor \"%s\": dtype: expected a string, got %s",
                       r->path, t->name_raw, json_kind_name(json_kind(dtype)));
    int type = dtype_of(name);
    if (type < 0)
        return err_set(r->e, ERR_UNSUPPORTED, "%s: tensor \"%s\": dtype %s: not supported yet",
                       r->path, t->name_raw, name);
    t->type = (enum qtype)type;
    return 0;
}

/* Convert a row-major shape to dim[]. Dimensions beyond the fourth are multiplied into the slowest
 * dimension. */
static int read_shape(struct safetensors_reader *r, struct tensor_info *t, const struct json *shape)
{
    char value[80];
    size_t n = json_count(shape);
    if (json_kind(shape) != JK_LIST)
        return err_set(r->e, ERR_FORMAT, "%s: tensor \"%s\": shape: expected an array, got %s",
                       r->path, t->name_raw, json_kind_name(json_kind(shape)));
    for (size_t i = 0; i < n; i++) {
        int64_t d = json_int(json_item(shape, n - 1 - i), -1);
        if (d < 0 || __builtin_mul_overflow(t->dim[i < 4 ? i : 3], d, &t->dim[i < 4 ? i : 3]))
            return err_set(r->e, ERR_FORMAT,
                           "%s: tensor \"%s\": shape[%zu]: must be a length of at least 0, and all "
                           "lengths below 2^63 together, got %s",
                           r->path, t->name_raw, n - 1 - i,
                           json_value_text(json_item(shape, n - 1 - i), value));
    }
    t->n_dim = n == 0 ? 1 : n < 4 ? (int)n : 4;
    return 0;
}

/* Check that the range is inside the file and agrees with shape and dtype. Set t->data. */
static int read_offsets(struct safetensors_reader *r, struct tensor_info *t,
                        const struct json *offsets)
{
    int64_t begin = json_int(json_item(offsets, 0), -1), end = json_int(json_item(offsets, 1), -1);
    bool range = json_count(offsets) == 2 && begin >= 0 && end >= begin,
         /* a larger length indicates a damaged file, not an incomplete download */
        cut = range && end < (int64_t)1 << 42;
    if (!range || (uint64_t)end > r->n)
        return err_set(r->e, ERR_FORMAT,
                       "%s: %stensor \"%s\": data_offsets [%lld, %lld], expected a range in 0 .. "
                       "%zu%s",
                       r->path, cut ? "the file is truncated: " : "", t->name_raw, (long long)begin,
                       (long long)end, r->n, cut ? "; download it again" : "");
    char size[32] = "fewer than 2^63";
    const bool sized = tensor_set_bytes(t);
    if (sized) snprintf(size, sizeof size, "%zu", t->n_byte);
    if (!sized || t->n_byte != (size_t)(end - begin))
        return err_set(
            r->e, ERR_FORMAT,
            "%s: tensor \"%s\": data_offsets: must span %s bytes as shape and dtype, got "
            "%lld",
            r->path, t->name_raw, size, (long long)(end - begin));
    struct extent x = {.begin = (uint64_t)begin, .end = (uint64_t)end};
    if (!vec_push(&r->extent, x)) return err_memory(r->e, "the tensor list", sizeof x);
    t->data = r->data + begin;
    return 0;
}

/* Read one member of the header. Names with NULs are rejected, because C strings would truncate the
 * names. */
static int read_tensor(struct safetensors_reader *r, const char *raw, size_t n_raw,
                       const struct json *v)
{
    char name[NAME_BYTES_MAX + 64], whole[NAME_BYTES_MAX + 64];
    if (n_raw == 0 || n_raw > NAME_BYTES_MAX || strlen(raw) != n_raw)
        return err_set(r->e, ERR_FORMAT,
                       "%s: tensor's name: must have 1 to %d bytes without NUL, got %zu", r->path,
                       NAME_BYTES_MAX, n_raw);
    snprintf(whole, sizeof whole, "%s%s", r->c->prefix ? r->c->prefix : "", raw);
    hf_tensor_name(name, sizeof name, whole, checkpoint_arch(r->c), r->c->parts != NULL);
    struct tensor_info t = {.name = name, .name_raw = whole, .dim = {1, 1, 1, 1}, .file = r->file};
    int rc = read_dtype(r, &t, json_field(v, "dtype"));
    if (rc == 0) rc = read_shape(r, &t, json_field(v, "shape"));
    if (rc == 0) rc = read_offsets(r, &t, json_field(v, "data_offsets"));
    if (rc == 0) r->extent.v[r->extent.n - 1].name = raw; /* name_raw is valid here only */
    if (rc == 0) rc = checkpoint_add_tensor(r->c, &t, r->e);
    return rc;
}

/* Check that the ranges cover the data without holes and overlaps, as the format requires. The
 * check of the ranges detects truncated and padded files. */
static int check_tiling(struct safetensors_reader *r)
{
    uint64_t at = 0;
    if (r->extent.n) qsort(r->extent.v, r->extent.n, sizeof r->extent.v[0], extent_order);
    for (size_t i = 0; i < r->extent.n; i++) {
        const struct extent *x = &r->extent.v[i];
        if (x->begin != at)
            return err_set(r->e, ERR_FORMAT, "%s: tensor \"%s\" begins at %llu, expected %llu (%s)",
                           r->path, x->name, (unsigned long long)x->begin, (unsigned long long)at,
                           x->begin < at ? "overlap" : "hole");
        at = x->end;
    }
    if (at == r->n) return 0;
    return err_set(r->e, ERR_FORMAT, "%s: the tensors take %llu bytes, but the file has %zu",
                   r->path, (unsigned long long)at, r->n);
}

static int read_header(struct safetensors_reader *r, const struct json *header)
{
    int rc = 0;
    if (json_kind(header) != JK_OBJECT)
        return err_set(r->e, ERR_FORMAT, "%s: header: expected an object, got %s", r->path,
                       json_kind_name(json_kind(header)));
    for (void *it = json_first(header); it && rc == 0; it = json_next(header, it)) {
        size_t n;
        const char *name = json_it_key(it, &n);
        if (strcmp(name, "__metadata__") != 0) rc = read_tensor(r, name, n, json_it_value(it));
    }
    return rc ? rc : check_tiling(r);
}

int safetensors_load(struct checkpoint *c, const char *path, struct err *e)
{
    struct safetensors_reader r = {.c = c, .e = e, .file = checkpoint_add_file(c, path, e)};
    if (r.file < 0) return r.file;
    const struct checkpoint_file *f = &c->file.v[r.file];
    uint64_t n_header = 0, n_left = f->n_byte < 8 ? 0 : f->n_byte - 8;
    for (int i = 0; i < 8 && f->n_byte >= 8; i++) n_header |= (uint64_t)f->data[i] << (8 * i);
    if (n_header > n_left && n_header <= HEADER_BYTES_MAX && f->n_byte > 8 && f->data[8] == '{')
        return err_set(e, ERR_FORMAT,
                       "%s: the file is truncated: its header has %llu bytes, but %llu are left; "
                       "download it again",
                       path, (unsigned long long)n_header, (unsigned long long)n_left);
    if (n_header < 2 || n_header > n_left || n_header > HEADER_BYTES_MAX)
        return err_set(e, ERR_FORMAT, "%s: header length: must be in [2, %llu], got %llu", path,
                       (unsigned long long)(n_left < HEADER_BYTES_MAX ? n_left : HEADER_BYTES_MAX),
                       (unsigned long long)n_header);
    r.path = f->path;
    r.data = f->data + 8 + n_header;
    r.n = (size_t)(n_left - n_header);
    struct json *header;
    int rc = json_parse(&header, (const char *)f->data + 8, (size_t)n_header, NULL, e);
    if (rc != 0) return err_prefix(e, rc, "%s: header", path);
    rc = read_header(&r, header);
    vec_deinit(&r.extent);
    json_drop(header);
    return rc;
}
