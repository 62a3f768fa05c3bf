/* batch_in.c - the input of quoth batch: one request in JSON per line.
 *
 * A line is read before it is parsed, because a malformed line has a line number and an answer too.
 * Memory for a line is limited, because a damaged file may be one line. */
#include "batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* LINE_BYTES_MAX: a longer line is read to its end and rejected. */
enum { LINE_BYTES_MAX = 64 << 20 };

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
            else if (!batch_is_space(chunk[i]))
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
    return err_set(e, ERR_IO, "%s: cannot read: the path is a folder", path);
}

void batch_in_close(struct batch_in *in)
{
    if (in->file) fclose(in->file);
    buf_deinit(&in->line);
    *in = (struct batch_in){0};
}

/* Read the next line into in->line, without its newline. Return false at the end of the file. The
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

/* Return true for a line without a request. */
static bool is_blank(const struct buf *line)
{
    for (size_t i = 0; i < line->n; i++)
        if (!batch_is_space(line->data[i])) return false;
    return true;
}

bool batch_in_next(struct batch_in *in)
{
    while (read_line(in))
        if (!is_blank(&in->line)) return true;
    return false;
}
