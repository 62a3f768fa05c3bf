/* batches.h - private to src/api: batches of the server. A batch is a pinned record of the store.
 * The head of the record is the state of the batch, and the chunks are its answers. The chunk with
 * a line's answer has the line's number, so each line is answered once. batch_state.c reads and
 * writes states, batch_run.c has the thread that answers lines, batches.c and anthropic_batches.c
 * are the wire forms.
 *
 *   VALIDATING --lines are valid--> IN_PROGRESS --all answered--> COMPLETED
 *        |                            |     \___window is over__> EXPIRED
 *        |                            \__cancel__> CANCELLING --> CANCELLED
 *        \__a line is not valid--> FAILED <--the input is gone, the store is full__ (any state) */
#ifndef QUOTH_API_BATCHES_H
#define QUOTH_API_BATCHES_H

#include "stored.h"

#include "base/json_out.h"

/* Prefixes of ids: OpenAI's batches, and Anthropic's. */
#define BATCH_PREFIX    "batch_"
#define MSGBATCH_PREFIX "msgbatch_"

/* X(name): states, with OpenAI's names. COMPLETED and all later states are final. */
#define BATCH_STATUSES(X)                                                                          \
    X(validating) X(in_progress) X(cancelling) X(completed) X(failed) X(expired) X(cancelled)
enum batch_status {
#define X(name) BATCH_##name,
    BATCH_STATUSES(X)
#undef X
};
/* X(name): times of a batch, seconds since 1970; 0: not yet. */
#define BATCH_TIMES(X)                                                                             \
    X(created_at)                                                                                  \
    X(in_progress_at)                                                                              \
    X(expires_at)                                                                                  \
    X(finalizing_at) X(completed_at) X(failed_at) X(expired_at) X(cancelling_at) X(cancelled_at)
/* Parts of the chunks of a batch. */
enum batch_part { BATCH_OK, BATCH_ERROR, BATCH_CANCELLED, BATCH_EXPIRED, N_BATCH_PART };

enum { BATCH_ENDPOINT_MAX = 64, BATCH_WINDOW_MAX = 16, BATCH_LINES_MAX = 100000 };

struct batch_state {
    uint64_t owner;
    char id[STORE_ID_BYTES];
    enum batch_status status;
    char endpoint[BATCH_ENDPOINT_MAX]; /* path of all lines; "": each line has a path */
    char input[STORE_ID_BYTES];        /* id of the record with the lines: a file, or the batch */
    char output[STORE_ID_BYTES], error[STORE_ID_BYTES]; /* ids of files; "" if none */
    char window[BATCH_WINDOW_MAX];                      /* completion_window */
    int64_t output_seconds; /* time until the end of the files of answers; 0 if none */
#define X(name) int64_t name;
    BATCH_TIMES(X)
#undef X
    int64_t n_line;          /* number of lines; 0 before they are validated */
    int64_t n[N_BATCH_PART]; /* numbers of answers, final after the batch's end */
    struct buf metadata;     /* JSON, owned; empty: null */
    struct buf errors;       /* items of errors.data, JSON, owned */
    int64_t version;         /* version of the record */
};

/* Return true if the status is final. */
bool batch_ended(const struct batch_state *b);
/* Return true if the form of the batch is Anthropic's. */
bool batch_is_anthropic(const struct batch_state *b);
/* Append the state as JSON, which is OpenAI's object. */
void batch_put(struct json_out *o, const struct batch_state *b);
/* Read a state. The caller frees *b by batch_deinit, also after an error. ERR_FORMAT for another
 * text, ERR_MEMORY. */
int batch_read(struct batch_state *b, uint64_t owner, const char *id, const struct buf *head,
               struct err *e);
void batch_deinit(struct batch_state *b); /* free the memory; a zeroed batch is allowed */
/* Read a batch with its present counts. The caller frees *b, also after an error. ERR_MISSING,
 * ERR_FORMAT, ERR_IO, ERR_MEMORY. */
int batch_load(struct batch_state *b, struct store *s, uint64_t owner, const char *id,
               struct err *e);
/* Set the counts of a batch that has not ended. Errors: those of the store. */
int batch_count(struct batch_state *b, struct store *s, struct err *e);
/* Store a new batch, or replace the state that was loaded. ERR_BUSY if the stored state has changed
 * in the meantime. Other errors: those of store_put. */
int batch_store(struct batch_state *b, struct store *s, bool is_new, struct err *e);
/* Append an item to b->errors. line: number of the line; 0 if none. field: NULL if none. */
void batch_add_error(struct batch_state *b, const char *code, const struct err *why, int64_t line);
/* Request the end of the client's batch. ERR_MISSING; ERR_ARG if it has ended; errors of the
 * store. */
int batch_cancel(struct batch_state *b, struct store *s, uint64_t owner, const char *id,
                 struct err *e);
/* Set *seconds to a completion_window such as "24h". ERR_ARG with the field. */
int batch_read_window(const char *text, int64_t *seconds, struct err *e);

/* Append the object of a batch in an API's form. */
typedef void batch_put_fn(struct json_out *o, const struct batch_state *b);
/* Answer with a list of the client's batches of a prefix, each written by `put`. This ends the
 * exchange. */
void batches_put_list(struct exchange *x, const struct server *s, const char *prefix,
                      const struct stored_query *query, batch_put_fn *put);

/* ---- batch_run.c ---- */

struct batch_runner; /* opaque */

/* Start the thread that answers the batches of s's store. Unfinished batches continue. The caller
 * owns *out, which is NULL after an error. ERR_MEMORY. */
int batches_open(struct batch_runner **out, const struct server *s, struct err *e);
/* End the thread. Lines in flight get no answers; the next batches_open continues with these
 * lines. */
void batches_stop(struct batch_runner *r);
void batches_close(struct batch_runner *r); /* stop the thread, then free r; NULL is allowed */
/* Add a new batch, which must be stored. Any thread. */
void batches_add(struct batch_runner *r, uint64_t owner, const char *id);
/* Report a changed batch. Any thread. */
void batches_wake(struct batch_runner *r);

/* ---- batch_lines.c: the lines of a batch ---- */

/* Reader of the lines of a record. A struct in which only the first fields are set begins at line
 * 1. */
struct batch_cursor {
    struct store *store; /* borrowed */
    uint64_t owner;
    const char *id;   /* id of the record, borrowed */
    int part;         /* part of its chunks */
    struct buf chunk; /* owned */
    size_t at;        /* offset in chunk */
    int64_t next;     /* number of the next chunk */
    int64_t number;   /* number of the last line, from 1; blank lines count */
    const char *line; /* last line [n_line], borrowed from chunk */
    size_t n_line;
};
/* Advance to the next line that is not blank. Return 1, 0 after the last line, or the error of the
 * store. A call after an error tries the same step again. */
int batch_cursor_next(struct batch_cursor *c, struct err *e);
/* Move back to before the last line, which batch_cursor_next then returns again. */
void batch_cursor_repeat(struct batch_cursor *c);
void batch_cursor_deinit(struct batch_cursor *c); /* free the memory */

/* Check all lines of a batch: their form, unique custom_ids, and the endpoint. Set b->n_line.
 * Return false if a line is not valid, with its error in b->errors. *rc: error of the store or of
 * memory. */
bool batch_validate(struct batch_state *b, struct store *s, int *rc, struct err *e);

/* An answer of a line. Pointers are borrowed. */
struct batch_result {
    const struct batch_line *line;
    int64_t number;              /* number of the line */
    const struct api_call *call; /* complete call; NULL if rc is an error before its submission */
    int rc;                      /* 0: the answer is that of the call */
    const struct err *why;       /* error of rc */
};
/* Append a line of answers in the form of the batch, and set *part. ERR_BUSY or ERR_MEMORY if the
 * failure is temporary, so that the line may be tried again. Also in this case the line of the
 * error is appended, unless out->failed. */
int batch_put_answer(struct buf *out, const struct batch_state *b, const struct batch_result *r,
                     enum batch_part *part, struct err *e);
/* Append the line of a request that was not answered: `part` is BATCH_CANCELLED or
 * BATCH_EXPIRED. */
void batch_put_unanswered(struct buf *out, const struct batch_state *b, const struct batch_line *l,
                          int64_t number, enum batch_part part);

#endif
