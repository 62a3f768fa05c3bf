/* log.h - one line on standard error per message. Any thread; a line is written whole.
 * Workers and kernels never log. */
#ifndef QUOTH_BASE_LOG_H
#define QUOTH_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

extern _Atomic bool log_silent; /* nothing is written at all: inside of other programs */
/* lines are JSON objects: {"time":"2026-11-20T14:30:00.123Z","level":"warning","message":"..."} */
extern bool log_as_json;
extern _Atomic enum log_level log_level_max; /* messages above it are dropped; default LOG_WARN */

void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
