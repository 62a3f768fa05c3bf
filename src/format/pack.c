/* pack.c - a model appended to an executable: one file with program and weights.
 *
 *   executable | zeros to a multiple of 64 KiB | model file, unchanged | trailer
 *   trailer, 32 bytes, little-endian: "quothpak" or "quothapp" | offset u64 | bytes u64
 *                                     | offset ^ bytes ^ 0x716B6170 u64
 *
 * The loader of the operating system ignores bytes after the executable's segments.
 * checkpoint_add_file searches for the trailer. Readers receive only the part of the map that
 * contains the model. The weights are aligned in the map on every system, because 64 KiB is the
 * largest page size in use. llamafile introduced this form of executable. */
#include "format_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* PACK_ALIGN: alignment of the model, a multiple of the page sizes of all processors, so that the
 * model can be mapped. */
enum { TRAILER_BYTES = 32, PACK_ALIGN = 65536 };
/* Magic numbers of quoth with a model and of a program that runs its own model. */
static const char magic[2][8] = {"quothpak", "quothapp"};

static uint64_t load64(const uint8_t *p)
{
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--) x = x << 8 | p[i];
    return x;
}

static void store64(uint8_t *p, uint64_t x)
{
    for (int i = 0; i < 8; i++, x >>= 8) p[i] = (uint8_t)x;
}

/* Return the trailer's check value. The check value distinguishes a trailer from other files that
 * end with the magic number. */
static uint64_t check_of(uint64_t offset, uint64_t n_byte)
{
    return offset ^ n_byte ^ 0x716B6170u;
}

/* The trailer must describe exactly the bytes before the trailer. All arithmetic uses validated
 * values, because the file may be hostile. */
bool pack_find(const uint8_t *data, size_t n, size_t *offset, size_t *n_byte)
{
    if (n < TRAILER_BYTES) return false;
    const uint8_t *t = data + n - TRAILER_BYTES;
    if (memcmp(t, magic[0], sizeof magic[0]) != 0 && memcmp(t, magic[1], sizeof magic[1]) != 0)
        return false;
    uint64_t o = load64(t + 8), m = load64(t + 16);
    if (load64(t + 24) != check_of(o, m) || o > n - TRAILER_BYTES || m != n - TRAILER_BYTES - o)
        return false;
    *offset = (size_t)o;
    *n_byte = (size_t)m;
    return true;
}

bool checkpoint_packed(const char *path)
{
    struct file_map m;
    struct err e;
    size_t offset, n_byte;
    if (file_map_open(&m, path, &e) != 0) return false;
    bool found = pack_find(m.data, m.n_byte, &offset, &n_byte);
    file_map_close(&m);
    return found;
}

bool checkpoint_is_app(const char *path)
{
    struct file_map m;
    struct err e;
    size_t offset, n_byte;
    if (file_map_open(&m, path, &e) != 0) return false;
    bool found = pack_find(m.data, m.n_byte, &offset, &n_byte) &&
                 memcmp(m.data + m.n_byte - TRAILER_BYTES, magic[1], sizeof magic[1]) == 0;
    file_map_close(&m);
    return found;
}

static int write_parts(FILE *f, const uint8_t *exe, size_t n_exe, const struct file_map *model,
                       bool app)
{
    static const uint8_t zeros[PACK_ALIGN];
    size_t n_pad = (size_t) - (int64_t)n_exe & (PACK_ALIGN - 1), offset = n_exe + n_pad;
    uint8_t trailer[TRAILER_BYTES];
    memcpy(trailer, magic[app], sizeof magic[app]);
    store64(trailer + 8, offset);
    store64(trailer + 16, model->n_byte);
    store64(trailer + 24, check_of(offset, model->n_byte));
    bool ok = fwrite(exe, 1, n_exe, f) == n_exe && fwrite(zeros, 1, n_pad, f) == n_pad &&
              fwrite(model->data, 1, model->n_byte, f) == model->n_byte &&
              fwrite(trailer, 1, sizeof trailer, f) == sizeof trailer;
    return fclose(f) == 0 && ok ? 0 : ERR_IO;
}

static int write_pack(const char *out, const struct file_map *exe, const struct file_map *model,
                      bool app, struct err *e)
{
    size_t n_exe = exe->n_byte, offset, n_byte;
    /* omit a model that the executable already contains */
    if (pack_find(exe->data, exe->n_byte, &offset, &n_byte)) n_exe = offset;
    char temp[4096];
    int n = snprintf(temp, sizeof temp, "%s.tmp-%d", out, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof temp)
        return err_set(e, ERR_ARG, "%s: cannot write: the path is too long", out);
    FILE *f = fopen(temp, "wbe");
    if (!f) return err_set(e, ERR_IO, "%s: cannot create: %s", out, strerror(errno));
    int rc = write_parts(f, exe->data, n_exe, model, app);
    if (rc == 0 && chmod(temp, 0755) == 0 && rename(temp, out) == 0) return 0;
    unlink(temp);
    return err_set(e, ERR_IO, "%s: cannot write (is the disk full?)", out);
}

int checkpoint_pack(const char *exe_path, const char *model_path, const char *out, bool app,
                    struct err *e)
{
    struct file_map exe = {0}, model = {0};
    struct checkpoint *c = NULL;
    /* reject a model that cannot be opened */
    int rc = checkpoint_open(&c, model_path, e);
    if (rc == 0 && (checkpoint_kind(c) != CKPT_GGUF || c->file.n != 1))
        rc = err_set(e, ERR_UNSUPPORTED, "%s: cannot pack: expected a GGUF of one file, got %s",
                     model_path,
                     checkpoint_kind(c) == CKPT_GGUF ? "several files" : "another format");
    if (rc == 0) rc = file_map_open(&exe, exe_path, e);
    if (rc == 0) rc = file_map_open(&model, model_path, e);
    if (rc == 0 && pack_find(model.data, model.n_byte, &(size_t){0}, &(size_t){0}))
        rc = err_set(
            e, ERR_ARG,
            "%s: cannot pack: expected a GGUF, got a packed program; give the GGUF of this program",
            model_path);
    if (rc == 0) rc = write_pack(out, &exe, &model, app, e);
    file_map_close(&model);
    file_map_close(&exe);
    checkpoint_close(c);
    return rc;
}
