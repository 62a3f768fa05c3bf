/* json_out.h - append compact JSON to a buf, with its commas, brackets and quotes.
 *
 *   struct json_out o = {.b = b};
 *   out_object(&o, NULL);            {
 *   out_int(&o, "index", 0);          "index":0
 *   out_list(&o, "ids");                       ,"ids":[
 *   out_int(&o, NULL, 7);                              7
 *   out_end(&o);                                        ]
 *   out_end(&o);                                         }
 *
 * `key` is the member's name in the open object: plain ASCII without quotes, borrowed. `key` is
 * NULL for an item of the open list, for the value after out_key, and for a document. Text is
 * escaped as by json_put_text. The caller checks the buf's `failed` once, at the end. `failed` is
 * set if memory is exhausted. Any thread; a json_out and its buf belong to one thread at a time. */
#ifndef QUOTH_BASE_JSON_OUT_H
#define QUOTH_BASE_JSON_OUT_H

#include "buf.h"

#include <stdint.h>

enum { OUT_DEPTH_MAX = 64 };

/* State of a writer, zero except b. Several writers may append to one document in turn if each
 * writer ends its own containers. */
struct json_out {
    struct buf *b;  /* output, borrowed */
    bool more;      /* true if the next value follows another value and needs a comma */
    int depth;      /* number of open containers, at most OUT_DEPTH_MAX */
    uint64_t lists; /* bit i: the container at depth i is a list */
};

/* Begin an object. */
void out_object(struct json_out *o, const char *key);
/* Begin a list. */
void out_list(struct json_out *o, const char *key);
void out_end(struct json_out *o); /* end the innermost object or list */

/* Append a text of n bytes, quoted and escaped. `key` is NULL in a list. */
void out_text(struct json_out *o, const char *key, const char *text, size_t n);
/* Append a text up to its NUL; text NULL: append null. */
void out_word(struct json_out *o, const char *key, const char *text);
/* Append a text that needs no escape, such as base64. */
void out_plain(struct json_out *o, const char *key, const char *text, size_t n);
/* Append an integer. */
void out_int(struct json_out *o, const char *key, int64_t x);
/* Append x in the format of json_put_real. */
void out_double(struct json_out *o, const char *key, double x);
/* Append x in the format of json_put_float. */
void out_float(struct json_out *o, const char *key, float x);
/* Append true or false. */
void out_flag(struct json_out *o, const char *key, bool x);
/* Append null. */
void out_null(struct json_out *o, const char *key);
/* Append n bytes of JSON that are one value. */
void out_raw(struct json_out *o, const char *key, const char *text, size_t n);
/* Append any text as a member's key. The next call appends the value with a NULL key. */
void out_key(struct json_out *o, const char *text, size_t n);

#endif
