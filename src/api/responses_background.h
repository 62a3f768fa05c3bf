/* responses_background.h - private to src/api: responses that are generated after their request
 * was answered. A job has a call, and the events so far if the response is streamed. One thread
 * runs all jobs. A response of a complete job is in the store.
 *
 *   api_call --jobs_start--> QUEUED --first token--> IN_PROGRESS --> stored, the job is closed
 *                               \_______ job_cancel ______\_______/
 *
 * Any thread may call these functions, except jobs_open, jobs_stop and jobs_close. */
#ifndef QUOTH_API_RESPONSES_BACKGROUND_H
#define QUOTH_API_RESPONSES_BACKGROUND_H

#include "api.h"

struct jobs; /* opaque */
struct job;  /* opaque; valid while there is a reference */

/* Start the thread of the jobs, whose responses are stored in `records`, borrowed. The caller owns
 * *out, which is NULL after ERR_MEMORY. */
int jobs_open(struct jobs **out, struct store *records, struct err *e);
/* Cancel all jobs, reject further jobs, and wait until the engine has ended all jobs. */
void jobs_stop(struct jobs *j);
/* stop the jobs, then free j; NULL is allowed; no job may be referenced */
void jobs_close(struct jobs *j);

/* Submit a call in the background. The call is owned by the job, and closed after an error. The
 * caller owns the reference *out, NULL after an error. ERR_MEMORY, ERR_UNAVAILABLE if the server
 * stops; otherwise the errors of api_call_submit. */
int jobs_start(struct jobs *j, struct api_call *take_call, struct job **out, struct err *e);
/* Return a reference to an unfinished job of the owner; NULL if none. */
struct job *jobs_find(struct jobs *j, uint64_t owner, const char *id);
void job_drop(struct job *job); /* release a reference; NULL is allowed */

/* Append the JSON of the response with its present status. Return true if the job has ended. */
bool job_response(struct job *job, struct buf *out);
/* Append the items of the input, separated by commas. */
void job_input(struct job *job, struct buf *out);
/* Return true if the response is streamed. */
bool job_streams(const struct job *job);
/* End the job early. remove: the response is not stored, and can no longer be found. */
void job_cancel(struct job *job, bool remove);

/* A place in events. */
struct event_cursor {
    size_t at;    /* offset of the next byte */
    int64_t skip; /* number of events to skip from this offset */
};
/* Append the events of a log [n] from the cursor on: at least one event, and about n_max bytes if
 * there are more events. Move the cursor. */
void events_read(const char *log, size_t n, struct event_cursor *c, size_t n_max, struct buf *out);
/* Append events of the job, like events_read. Return true if there will be no further events. */
bool job_events(struct job *job, struct event_cursor *c, size_t n_max, struct buf *out);

/* A function that is called after each change of a job. The function must be short, and must not
 * call functions of this header. */
struct job_listener {
    void (*changed)(void *arg);
    void *arg;                 /* borrowed */
    struct job_listener *next; /* owned by the job's list */
};
/* Add a listener, borrowed until job_unlisten. */
void job_listen(struct job *job, struct job_listener *l);
/* Remove a listener. The listener is not called after this function returns. */
void job_unlisten(struct job *job, struct job_listener *l);

#endif
