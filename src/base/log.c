#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/util.h"
#include "base/utf8.h"

static const char *const level_names[] = { "debug", "info", "warn", "error", "none" };

const char *log_level_name(enum log_level level)
{
    return (size_t)level < ARRAY_LENGTH(level_names) ? level_names[level] : "unknown";
}

int log_level_parse(pr_slice name, enum log_level *ret_level)
{
    for (size_t i = 0; i < ARRAY_LENGTH(level_names); i++) {
        if (slice_eq_cstr(name, level_names[i])) {
            *ret_level = (enum log_level)i;
            return PR_OK;
        }
    }
    return PR_UNKNOWN;
}

bool log_is_enabled(const struct log *log, enum log_level level)
{
    return log != NULL && log->write != NULL && level >= __atomic_load_n(&log->level, __ATOMIC_RELAXED) &&
           level < LOG_NONE;
}

void log_set_level(struct log *log, enum log_level level)
{
    __atomic_store_n(&log->level, level, __ATOMIC_RELAXED);
}

/* Everything but numbers and plain words is quoted, as JSON quotes strings. */
static bool logfmt_needs_quotes(pr_slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f)
            return true;
    }
    return text.size == 0;
}

static void add_text(struct buf *line, enum log_format format, pr_slice text)
{
    text = utf8_cut_bytes(text, LOG_VALUE_MAX);
    if (format == LOG_JSON || logfmt_needs_quotes(text))
        json_quote(line, text);
    else
        buf_add_slice(line, text);
}

static void add_value(struct buf *line, enum log_format format, const struct log_field *field)
{
    _Static_assert(TIME_TEXT_SIZE >= DURATION_TEXT_SIZE, "text is for both");
    char text[TIME_TEXT_SIZE];
    switch (field->type) {
    case LOG_TYPE_TEXT: add_text(line, format, field->text); break;
    case LOG_TYPE_INT: buf_addf(line, "%" PRId64, field->number); break;
    case LOG_TYPE_BOOL: buf_add_cstr(line, field->number != 0 ? "true" : "false"); break;
    case LOG_TYPE_TIME:
        time_format_rfc3339(field->number, text);
        add_text(line, format, slice_from(text));
        break;
    case LOG_TYPE_DURATION:
        duration_format(field->number, text);
        add_text(line, format, slice_from(text));
        break;
    case LOG_TYPE_END: break;
    }
}

static void add_field(struct buf *line, struct buf *piece, enum log_format format, const struct log_field *field)
{
    buf_reset(piece);
    if (format == LOG_JSON) {
        buf_add_char(piece, line->size == 0 ? '{' : ',');
        json_quote(piece, slice_from(field->key));
        buf_add_char(piece, ':');
    } else {
        buf_addf(piece, "%s%s=", line->size == 0 ? "" : " ", field->key);
    }
    add_value(piece, format, field);
    /* A field that does not fit is left out as a whole, so that the line remains parsable. */
    if (buf_failed(piece) == 0 && piece->size <= line->max - line->size - 2)
        buf_add_slice(line, buf_slice(piece));
}

void log_emit_fields(const struct log *log, enum log_level level, const char *event, ...)
{
    if (!log_is_enabled(log, level))
        return;
    int saved_errno = errno;

    struct buf line, piece;
    buf_init(&line, LOG_LINE_MAX);
    buf_init(&piece, LOG_LINE_MAX);
    if (log->clock != NULL)
        add_field(&line, &piece, log->format, &LOG_TIME("time", clock_wall_us(log->clock)));
    add_field(&line, &piece, log->format, &LOG_STR("level", log_level_name(level)));
    add_field(&line, &piece, log->format, &LOG_STR("event", event));

    va_list fields;
    va_start(fields, event);
    for (;;) {
        struct log_field field = va_arg(fields, struct log_field);
        if (field.type == LOG_TYPE_END)
            break;
        add_field(&line, &piece, log->format, &field);
    }
    va_end(fields);
    buf_add_cstr(&line, log->format == LOG_JSON ? "}\n" : "\n");

    if (buf_failed(&line) == 0) /* out of memory: the line is lost */
        log->write(log->arg, line.data, line.size);
    buf_fini(&piece);
    buf_fini(&line);
    errno = saved_errno;
}

void log_write_fd(void *arg, const char *line, size_t size)
{
    const int *fd = arg;
    while (size > 0) {
        ssize_t written = write(*fd, line, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* a failing log must not stop the work */
        line += written;
        size -= (size_t)written;
    }
}
