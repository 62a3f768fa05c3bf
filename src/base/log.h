/* log.h - log messages as lines on standard error. Lines are written whole. Any thread; workers and
 * kernels never log. */
#ifndef QUOTH_BASE_LOG_H
#define QUOTH_BASE_LOG_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

extern _Atomic bool log_silent; /* nothing is written: for use as a library */
struct buf;
/* This thread's warnings are appended here, one per line, instead of being written; NULL: none. */
extern _Thread_local struct buf *log_kept;
/* Lines are JSON objects: {"time":"2026-11-20T14:30:00.123Z","level":"warning","message":"..."} */
extern bool log_as_json;
extern _Atomic enum log_level log_level_max; /* messages above it are dropped; default LOG_WARN */

struct writer;

/* Start a thread that writes the lines, so that a blocked reader delays no other thread. log_end,
 * called after all logging threads have ended, writes pending lines for at most wait_ms; later
 * lines are written directly. */
int log_begin(struct err *e);
void log_end(int wait_ms);
/* Wait until all pending lines are written, for at most wait_ms. */
void log_flush(int wait_ms);
struct writer *log_writer(void); /* writer of that thread; NULL if none */

/* Append a message formatted as a log line, with its line feed. */
void log_put(struct buf *b, enum log_level level, const char *text, size_t n);
/* Append a client's text to a line: in JSON, with quotes; in plain text, with quotes, backslashes
 * and control characters as \xNN. */
void log_put_json(struct buf *b, const char *text);
void log_put_plain(struct buf *b, const char *text);

void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
