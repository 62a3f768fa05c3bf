/* batch.h - private to cli: the two files of quoth batch. */
#ifndef QUOTH_CLI_BATCH_H
#define QUOTH_CLI_BATCH_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdint.h>
#include <stdio.h>

/* ---- batch_in.c: lines of requests ---- */

struct batch_in {
    FILE *file;      /* owned */
    struct buf line; /* the last line, without its newline */
    uint64_t number; /* its number, from 1 */
    uint64_t n_line; /* number of non-blank lines of the file; 0: unknown */
};
int batch_in_open(struct batch_in *in, const char *path, struct err *e);
void batch_in_close(struct batch_in *in); /* safe on a zeroed one */
/* Read the next non-blank line; false at the end. A line beyond the limit is truncated so that it
 * is not a valid request. */
bool batch_in_next(struct batch_in *in);

/* A line {"custom_id", "method", "url", "body"}, parsed. */
struct batch_line {
    struct json *root;     /* owned */
    const char *custom_id; /* these point into root; NULL: absent, or the line is not JSON */
    size_t n_custom_id;
    const char *url;
    const struct json *body;
};
/* Parse a line. ERR_FORMAT: not JSON; ERR_ARG names the field. custom_id is set whenever the line
 * has one. */
int batch_line_read(struct batch_line *l, const char *text, size_t n, struct err *e);
void batch_line_close(struct batch_line *l); /* safe on a zeroed one */

/* ---- batch_out.c: lines that answer ---- */

/* Key of an output line of an earlier run: its custom_id, or the number of an input line without
 * one. */
struct batch_key {
    uint64_t hash[2];
};
struct batch_key batch_key_id(const char *custom_id, size_t n);
struct batch_key batch_key_line(uint64_t number);

struct batch_keys {        /* a set; empty if zeroed */
    struct batch_key *key; /* owned: a hash table [n_slot], zero = free */
    size_t n_key, n_slot;
};
bool batch_keys_has(const struct batch_keys *s, struct batch_key k);
bool batch_keys_add(struct batch_keys *s, struct batch_key k); /* returns false if out of memory */
void batch_keys_deinit(struct batch_keys *s);

struct batch_out {
    int fd;
    const char *path;        /* borrowed */
    struct batch_keys found; /* keys of lines that earlier runs wrote */
    int64_t synced_us;
    struct buf line; /* scratch */
};
/* Open or create the file, lock it against other runs, remove a truncated last line, and read which
 * requests have an answer. ERR_FORMAT: it contains something else, and is not changed. */
int batch_out_open(struct batch_out *o, const char *path, struct err *e);
void batch_out_close(struct batch_out *o); /* safe on one that was not opened */

/* An output line {"id", "custom_id", "response", "error"}. custom_id NULL: the error contains the
 * input line's number. status 0: no response, `body` is the error. batch_out_put appends it; lines
 * are synced to disk once a second. */
struct batch_answer {
    const char *id, *custom_id;
    size_t n_custom_id;
    uint64_t number;
    int status;
    const struct buf *body; /* JSON */
};
int batch_out_put(struct batch_out *o, const struct batch_answer *a, struct err *e);
int batch_out_sync(struct batch_out *o, struct err *e); /* sync now */

#endif
