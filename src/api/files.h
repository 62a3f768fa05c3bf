/* files.h - private to src/api: files of clients. A file is a pinned record of the store, with its
 * object as head and its content as chunks. A chunk ends with a line, except the last one. */
#ifndef QUOTH_API_FILES_H
#define QUOTH_API_FILES_H

#include "stored.h"

#define FILE_PREFIX   "file-"
#define BATCH_PURPOSE "batch"

/* A file, for its object. Texts are borrowed. */
struct file_object {
    const char *id, *filename, *purpose;
    int64_t n_byte, created; /* created, ends: seconds since 1970 */
    int64_t ends;            /* 0: the file has no end */
};
/* Store the record of a file without chunks. Errors: those of store_put. */
int file_store(struct store *s, uint64_t owner, const struct file_object *f, struct err *e);
/* Store the content of a file as chunks, at most about 64 KiB and a line each. Errors: those of
 * store_add_chunk. */
int file_store_content(struct store *s, uint64_t owner, const char *id, const char *text, size_t n,
                       struct err *e);
/* Read {"anchor":"created_at","seconds":N} in a member of a body; *seconds is unchanged if it is
 * absent. ERR_ARG. */
int file_read_expiry(const struct json *body, const char *field, int64_t *seconds, struct err *e);

/* Minimum and maximum of the time until a file's end, in seconds. */
enum { FILE_SECONDS_MIN = 3600, FILE_SECONDS_MAX = 2592000 };

#endif
