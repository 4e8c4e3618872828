/* log.h - one event with fields per line.
 *
 *     log_emit(log, LOG_WARN, "endpoint_open", LOG_STR("endpoint", name), LOG_INT("failures", n));
 *
 * logfmt:
 *
 *   time=2024-01-01T00:00:00.000000Z level=warn event=endpoint_open endpoint=a failures=3
 *
 * json:
 *
 *   {"time":"2024-01-01T00:00:00.000000Z","level":"warn","event":"endpoint_open",...}
 *
 * Threads: any thread may call log_emit(); each line is one call of the sink. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <postrider.h>

#include "base/slice.h"
#include "base/time.h"

#define LOG_VALUE_MAX 4096 /* bytes of one value; longer values are cut */
#define LOG_LINE_MAX 65536 /* bytes of a line; fields that do not fit are left out */

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_NONE };
enum log_format { LOG_LOGFMT, LOG_JSON };

struct log {
    enum log_level level; /* lower levels are dropped; LOG_NONE drops everything */
    enum log_format format;
    const struct clock *clock; /* borrowed; NULL: lines have no time */
    /* Receives a whole line including its newline.  Called from every thread that logs. */
    void (*write)(void *arg, const char *line, size_t size);
    void *arg;
};

/* A sink that writes to a file descriptor: arg points to an int.  One write() per line. */
void log_write_fd(void *arg, const char *line, size_t size);

enum log_type { LOG_TYPE_END, LOG_TYPE_TEXT, LOG_TYPE_INT, LOG_TYPE_BOOL, LOG_TYPE_TIME, LOG_TYPE_DURATION };

struct log_field {
    const char *key;
    enum log_type type;
    pr_slice text;
    int64_t number;
};

#define LOG_STR(k, v) LOG_SLICE((k), slice_from(v)) /* a C string; NULL is empty */
#define LOG_SLICE(k, v) ((struct log_field){ .key = (k), .type = LOG_TYPE_TEXT, .text = (v) })
#define LOG_INT(k, v) ((struct log_field){ .key = (k), .type = LOG_TYPE_INT, .number = (int64_t)(v) })
#define LOG_BOOL(k, v) ((struct log_field){ .key = (k), .type = LOG_TYPE_BOOL, .number = (v) })
#define LOG_TIME(k, us) ((struct log_field){ .key = (k), .type = LOG_TYPE_TIME, .number = (us) })
#define LOG_DURATION(k, us) ((struct log_field){ .key = (k), .type = LOG_TYPE_DURATION, .number = (us) })
#define LOG_END ((struct log_field){ .key = NULL, .type = LOG_TYPE_END })

/* log_emit(log, level, event, fields...): log may be NULL; event is a name, not a sentence. */
#define log_emit(log, level, ...) log_emit_fields((log), (level), __VA_ARGS__, LOG_END)

/* The arguments after event are struct log_field, the last one LOG_END. */
void log_emit_fields(const struct log *log, enum log_level level, const char *event, ...);

bool log_is_enabled(const struct log *log, enum log_level level);
void log_set_level(struct log *log, enum log_level level); /* safe while other threads log */

const char *log_level_name(enum log_level level);
/* Outcome PR_UNKNOWN: no such level. */
PR_MUST_CHECK int log_level_parse(pr_slice name, enum log_level *ret_level);

#endif
