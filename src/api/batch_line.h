/* batch_line.h - lines of OpenAI's batch format: requests, their keys, and answers. Part of the
 * public header api.h, for quoth batch and the batches of the server. Any thread; a struct belongs
 * to one thread at a time. */
#ifndef QUOTH_API_BATCH_LINE_H
#define QUOTH_API_BATCH_LINE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdint.h>

/* ---- lines of requests ---- */

/* Return true for bytes of blank lines. NUL is not a blank byte, because a line of NULs is an
 * overwritten request. */
static inline bool batch_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* A line {"custom_id", "method", "url", "body"}, parsed. */
struct batch_line {
    struct json *root;     /* parsed line, owned */
    const char *custom_id; /* borrowed from root; NULL: absent, or the line is not JSON */
    size_t n_custom_id;
    const char *url;         /* borrowed from root */
    const struct json *body; /* borrowed from root */
};
/* Parse a line. ERR_FORMAT if the line is not JSON, ERR_ARG with the field. custom_id is set if the
 * line has one. */
int batch_line_read(struct batch_line *l, const char *text, size_t n, struct err *e);
void batch_line_close(struct batch_line *l); /* free the memory; a zeroed struct is allowed */

/* ---- keys of lines ---- */

/* Key of an output line of an earlier run: its custom_id, or the number of an input line without a
 * custom_id. */
struct batch_key {
    uint64_t hash[2];
};
/* Return the key of a custom_id of n bytes. */
struct batch_key batch_key_id(const char *custom_id, size_t n);
/* Return the key of a line without a custom_id. */
struct batch_key batch_key_line(uint64_t number);

struct batch_keys {        /* Set of keys; empty if zeroed. */
    struct batch_key *key; /* owned: a hash table [n_slot], zero = free */
    size_t n_key, n_slot;
};
/* Return true if the set has k. */
bool batch_keys_has(const struct batch_keys *s, struct batch_key k);
/* Add k. Return false if memory is exhausted. */
bool batch_keys_add(struct batch_keys *s, struct batch_key k);
void batch_keys_deinit(struct batch_keys *s); /* free the memory; a zeroed set is allowed */

/* ---- lines of answers ---- */

/* First bytes of every line of answers. */
extern const char batch_line_start[];

/* An output line {"id", "custom_id", "response", "error"}. custom_id NULL: the error contains the
 * input line's number. status 0: there is no response, and `body` is the error. All pointers are
 * borrowed for batch_answer_put. */
struct batch_answer {
    const char *id, *custom_id;
    size_t n_custom_id;
    uint64_t number;
    int status;
    const struct buf *body; /* JSON */
};
/* Append the line with its newline. b->failed if memory is exhausted. */
void batch_answer_put(struct buf *b, const struct batch_answer *a);

#endif
