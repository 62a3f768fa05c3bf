/* batch_in.c - the input of quoth batch: one request in JSON per line. */
#include "batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A longer line is rejected, but read to its end. */
enum { LINE_BYTES_MAX = 64 << 20 };

/* Return true for bytes that may be skipped. NUL is not such a byte, because a line of NULs is an
 * overwritten request. */
static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Count the lines that are not blank, for the progress bar. Only a regular file can be read
 * twice. */
static void count_lines(struct batch_in *in)
{
    char chunk[1 << 16];
    size_t n;
    bool blank = true;
    while ((n = fread(chunk, 1, sizeof chunk, in->file)) > 0)
        for (size_t i = 0; i < n; i++) {
            if (chunk[i] == '\n') in->n_line += !blank;
            if (chunk[i] == '\n')
                blank = true;
            else if (!is_space(chunk[i]))
                blank = false;
        }
    in->n_line += !blank;
    rewind(in->file);
}

int batch_in_open(struct batch_in *in, const char *path, struct err *e)
{
    struct stat st;
    *in = (struct batch_in){.line = {.max = LINE_BYTES_MAX}};
    in->file = fopen(path, "re");
    if (!in->file) return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fileno(in->file), &st) == 0 && S_ISREG(st.st_mode)) {
        count_lines(in);
        return 0;
    }
    if (!S_ISDIR(st.st_mode)) return 0;
    batch_in_close(in);
    return err_set(e, ERR_IO, "%s: cannot read: it is a folder", path);
}

void batch_in_close(struct batch_in *in)
{
    if (in->file) fclose(in->file);
    buf_deinit(&in->line);
    *in = (struct batch_in){0};
}

/* Return false at the end of the file. Read the next line into in->line, without its newline. The
 * buffer's limit truncates a long line. */
static bool read_line(struct batch_in *in)
{
    int c = getc_unlocked(in->file);
    bool any = c != EOF;
    buf_clear(&in->line);
    for (; c != EOF && c != '\n'; c = getc_unlocked(in->file)) buf_add_char(&in->line, (char)c);
    in->number += any;
    return any;
}

static bool is_blank(const struct buf *line)
{
    for (size_t i = 0; i < line->n; i++)
        if (!is_space(line->data[i])) return false;
    return true;
}

bool batch_in_next(struct batch_in *in)
{
    while (read_line(in))
        if (!is_blank(&in->line)) return true;
    return false;
}

/* ---- one line ---- */

/* Read a required text. n may be NULL. json_text returns NULL for a text with NUL if n is NULL. */
static int text_field(const char **out, size_t *n, const struct json *root, const char *name,
                      struct err *e)
{
    const struct json *j = json_field(root, name);
    *out = json_text(j, n);
    if (*out) return 0;
    if (!j) return err_field(e, ERR_ARG, name, ": expected a value, got nothing");
    if (json_kind(j) == JK_TEXT) {
        size_t n_all;
        size_t at = strlen(json_text(j, &n_all));
        return err_field(e, ERR_ARG, name, ": must not contain NUL, got one at offset %zu", at);
    }
    return err_field(e, ERR_ARG, name, ": expected a string, got %s", json_kind_name(json_kind(j)));
}

/* Parse {"custom_id":"a","method":"POST","url":"/v1/...","body":{...}}. custom_id is set even if a
 * later field is wrong, because the error's line needs it. Duplicate names are rejected. */
int batch_line_read(struct batch_line *l, const char *text, size_t n, struct err *e)
{
    const char *method = NULL;
    *l = (struct batch_line){0};
    int rc = json_parse(&l->root, text, n, &(struct json_limits){.unique = true}, e);
    if (rc == 0 && json_kind(l->root) != JK_OBJECT)
        rc = err_set(e, ERR_FORMAT, "expected an object, got %s",
                     json_kind_name(json_kind(l->root)));
    if (rc == 0) rc = text_field(&l->custom_id, &l->n_custom_id, l->root, "custom_id", e);
    if (rc == 0) rc = text_field(&method, NULL, l->root, "method", e);
    if (rc == 0 && strcmp(method, "POST") != 0)
        rc = err_field(e, ERR_ARG, "method", ": must be POST, got \"%.40s\"", method);
    if (rc == 0) rc = text_field(&l->url, NULL, l->root, "url", e);
    l->body = json_field(l->root, "body");
    if (rc == 0 && !l->body) rc = err_field(e, ERR_ARG, "body", ": expected a value, got nothing");
    return rc;
}

void batch_line_close(struct batch_line *l)
{
    json_drop(l->root);
    *l = (struct batch_line){0};
}
