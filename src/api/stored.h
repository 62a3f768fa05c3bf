/* stored.h - private to src/api: common parts of endpoints for records of the store: files, batches
 * and conversations. The head of each record is a JSON object. */
#ifndef QUOTH_API_STORED_H
#define QUOTH_API_STORED_H

#include "server_impl.h"

/* A record of a list. */
struct stored {
    uint64_t holder;
    char id[STORE_ID_BYTES];
    struct buf head; /* owned */
};
/* Records of a holder, or of all. A zeroed list is empty. */
struct stored_list {
    struct stored *v; /* owned [n] */
    size_t n, cap;
    int64_t limit; /* maximum number; 0 if none */
    bool more;     /* true if there are more records than the limit */
    bool failed;   /* true: memory is exhausted */
    /* only records whose head contains this text, such as "name":"value", are listed; NULL: all
     * records. String values in a head have escaped quotes, so they cannot contain this text. */
    const char *part;
};
/* Parameters of the query of a list: their names in an API, and its default order. */
struct stored_query {
    const char *after, *before, *order; /* NULL: the API does not have this parameter */
    int limit, limit_max;               /* default and maximum of "limit" */
};

/* Write a new id: prefix and 128 random bits. */
void stored_id(char id[static STORE_ID_BYTES], const char *prefix);
/* Return the id of the path if it begins with the prefix; "" if not. */
const char *stored_path_id(const struct exchange *x, const char *prefix);
/* Return ERR_UNSUPPORTED if the server stores nothing. */
int stored_here(const struct server *s, struct err *e);
/* Add the kind and id of the record to an error of the store if rc is ERR_MISSING. Return rc. */
int stored_error(int rc, const char *field, const char *what, const char *id, struct err *e);
/* Fill a list with the client's records of a prefix, by the parameters of the query. The newest
 * record is the first. The caller frees the list by stored_list_deinit, also after an error.
 * ERR_ARG with the parameter, ERR_MEMORY, ERR_IO. */
int stored_list_query(struct stored_list *l, const struct exchange *x, const struct server *s,
                      const char *prefix, const struct stored_query *q, struct err *e);
/* Fill a list with all records of a prefix, oldest first. */
int stored_list_all(struct stored_list *l, struct store *s, const char *prefix, struct err *e);
void stored_list_deinit(struct stored_list *l); /* free the memory; a zeroed list is allowed */

/* Answer with *b, or with the error rc, and free *b. This ends the exchange. */
void stored_answer(struct exchange *x, int rc, const struct err *e, struct buf *b);

/* ---- contents ---- */

/* Answer with the chunks of a part of the client's record, in their order; part -1: of all parts.
 * The client is disconnected if a chunk cannot be read. */
void stored_content(struct exchange *x, const struct server *s, const char *id, int part,
                    const char *type);

#endif
