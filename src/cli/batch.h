/* batch.h - private to cli: the two files of quoth batch. Main thread only. */
#ifndef QUOTH_CLI_BATCH_H
#define QUOTH_CLI_BATCH_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

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
 * or is a folder. *in is then closed. */
int batch_in_open(struct batch_in *in, const char *path, struct err *e);
void batch_in_close(struct batch_in *in); /* accepts a zeroed struct */
/* Read the next non-blank line. Return false at the end of the file. A line above the limit is
 * truncated and so is not a valid request. */
bool batch_in_next(struct batch_in *in);

/* A line {"custom_id", "method", "url", "body"}, parsed. */
struct batch_line {
    struct json *root;     /* parsed line, owned */
    const char *custom_id; /* borrowed from root; NULL: absent, or the line is not JSON */
    size_t n_custom_id;
    const char *url;         /* borrowed from root */
    const struct json *body; /* borrowed from root */
};
/* Parse a line. ERR_FORMAT: not JSON; ERR_ARG contains the field. custom_id is set if the line has
 * a custom_id. */
int batch_line_read(struct batch_line *l, const char *text, size_t n, struct err *e);
void batch_line_close(struct batch_line *l); /* accepts a zeroed struct */

/* ---- batch_out.c: lines that answer ---- */

/* Key of an output line of an earlier run: its custom_id, or the number of an input line without a
 * custom_id. */
struct batch_key {
    uint64_t hash[2];
};
struct batch_key batch_key_id(const char *custom_id, size_t n);
struct batch_key batch_key_line(uint64_t number);

struct batch_keys {        /* Set of keys; empty if zeroed. */
    struct batch_key *key; /* owned: a hash table [n_slot], zero = free */
    size_t n_key, n_slot;
};
bool batch_keys_has(const struct batch_keys *s, struct batch_key k);
/* Add k. Return false if memory ran out. */
bool batch_keys_add(struct batch_keys *s, struct batch_key k);
void batch_keys_deinit(struct batch_keys *s);

struct batch_out {
    int fd;
    const char *path;         /* path of the file, borrowed */
    struct batch_keys found;  /* keys of lines that earlier runs wrote */
    struct batch_keys failed; /* keys of those lines that are errors */
    int64_t synced_us;
    struct buf line; /* scratch */
};
/* Open or create the file, and lock it against other runs. Remove a truncated last line, and read
 * the keys of the answered requests. ERR_FORMAT: the file has other content, and is not changed. */
int batch_out_open(struct batch_out *o, const char *path, struct err *e);
void batch_out_close(struct batch_out *o); /* accepts a zeroed struct */

/* An output line {"id", "custom_id", "response", "error"}. custom_id NULL: the error contains the
 * input line's number. status 0: there is no response, and `body` is the error. All pointers are
 * borrowed for batch_out_put. */
struct batch_answer {
    const char *id, *custom_id;
    size_t n_custom_id;
    uint64_t number;
    int status;
    const struct buf *body; /* JSON */
};
/* Append the line. Lines are synced to disk once a second. ERR_IO; the file may then end with a
 * part of the line, which the next batch_out_open removes. ERR_MEMORY. */
int batch_out_put(struct batch_out *o, const struct batch_answer *a, struct err *e);
/* Sync all lines to disk now. ERR_IO. */
int batch_out_sync(struct batch_out *o, struct err *e);

#endif
