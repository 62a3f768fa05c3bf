/* log.h - write log messages as lines on standard error. Each line is written whole. Any thread
 * except workers. */
#ifndef QUOTH_BASE_LOG_H
#define QUOTH_BASE_LOG_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

extern _Atomic bool log_silent; /* true: no message is written, for use as a library */
struct buf;
/* buffer for this thread's warnings, one per line, instead of standard error; NULL if none */
extern _Thread_local struct buf *log_kept;
/* true: lines are JSON objects:
 * {"time":"2026-11-20T14:30:00.123Z","level":"warning","message":"..."} */
extern bool log_as_json;
/* highest level of messages that are written (default LOG_WARN) */
extern _Atomic enum log_level log_level_max;

struct writer;

/* Start a thread that writes the lines, so that a blocked reader delays no other thread. Call
 * log_end after all logging threads have ended. ERR_MEMORY: lines are then written directly. */
int log_begin(struct err *e);
/* End the thread of log_begin. Write pending lines for at most wait_ms milliseconds. Later lines
 * are written directly. */
void log_end(int wait_ms);
/* Wait until all pending lines are written, for at most wait_ms. */
void log_flush(int wait_ms);
struct writer *log_writer(void); /* return the borrowed writer of log_begin; NULL if none */

/* Append a message formatted as a log line, with its line feed. */
void log_put(struct buf *b, enum log_level level, const char *text, size_t n);
/* Append a client's text to a line, in quotes, escaped as JSON. */
void log_put_json(struct buf *b, const char *text);
/* Append a client's text to a line, in quotes. Replace quotes, backslashes and control characters
 * by \xNN. */
void log_put_plain(struct buf *b, const char *text);

/* Write a message, formatted as by printf, as one line if `level` is enabled. Longer lines are
 * truncated. Any thread. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
