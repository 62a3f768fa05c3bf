/* batch.h - private to cli: the two files of quoth batch. Main thread only. */
#ifndef QUOTH_CLI_BATCH_H
#define QUOTH_CLI_BATCH_H

#include "api/api.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>
#include <stdio.h>

/* ---- batch_in.c: lines of requests ---- */

struct batch_in {
    FILE *file;      /* input file, owned */
    struct buf line; /* the last line, without its newline */
    uint64_t number; /* number of the last line, from 1 */
    uint64_t n_line; /* number of non-blank lines of the file; 0: unknown */
};
/* Open the file, and count its lines if it is a regular file. ERR_IO if the path cannot be opened
 * or is a folder. *in is closed after an error. */
int batch_in_open(struct batch_in *in, const char *path, struct err *e);
void batch_in_close(struct batch_in *in); /* free the memory; a zeroed struct is allowed */
/* Read the next non-blank line. Return false at the end of the file. A line above the limit is
 * truncated, so it is not a valid request. */
bool batch_in_next(struct batch_in *in);

/* ---- batch_out.c: lines that answer ---- */

struct batch_out {
    int fd;
    const char *path;         /* path of the file, borrowed */
    struct batch_keys found;  /* keys of lines that earlier runs wrote */
    struct batch_keys failed; /* keys of those lines that are errors */
    int64_t synced_us;
    struct buf line; /* scratch */
};
/* Open or create the file, and lock it against other runs. Remove a truncated last line, and read
 * the keys of the answered requests. ERR_FORMAT, without a change, if the file has other
 * content. */
int batch_out_open(struct batch_out *o, const char *path, struct err *e);
void batch_out_close(struct batch_out *o); /* free the memory; a zeroed struct is allowed */

/* Append the line. Lines are synced to disk once a second. ERR_IO, ERR_MEMORY. After ERR_IO, the
 * file may end with a part of the line, which the next batch_out_open removes. */
int batch_out_put(struct batch_out *o, const struct batch_answer *a, struct err *e);
/* Sync all lines to disk now. ERR_IO. */
int batch_out_sync(struct batch_out *o, struct err *e);

#endif
