#include "base/shell.h"

#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/utf8.h"

#define QUOTED_MAX 65536

static bool is_harmless(pr_slice text)
{
    static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,=";
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '\0' || strchr(harmless, text.data[i]) == NULL)
            return false;
    return text.size > 0;
}

static bool can_be_read(pr_slice text)
{
    for (size_t size; text.size > 0; text = (pr_slice){ text.data + size, text.size - size }) {
        int32_t code;
        size = utf8_next(text, &code);
        if (code < 0 || utf8_is_control(code))
            return false;
    }
    return true;
}

static void add_quoted(struct buf *b, pr_slice text)
{
    buf_add_char(b, '\'');
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '\'')
            buf_add_cstr(b, "'\\''");
        else
            buf_add_char(b, text.data[i]);
    }
    buf_add_char(b, '\'');
}

/* Escapes are three octal digits: their length is fixed, while \x takes as many digits as follow. */
static void add_escaped(struct buf *b, pr_slice text)
{
    buf_add_cstr(b, "$'");
    while (text.size > 0) {
        int32_t code;
        size_t size = utf8_next(text, &code);
        bool escaped = code < 0 || utf8_is_control(code);
        for (size_t i = 0; i < size && escaped; i++)
            buf_addf(b, "\\%03o", (unsigned)(unsigned char)text.data[i]);
        if (!escaped && (code == '\'' || code == '\\'))
            buf_add_char(b, '\\');
        if (!escaped)
            buf_add(b, text.data, size);
        text = (pr_slice){ text.data + size, text.size - size };
    }
    buf_add_char(b, '\'');
}

const char *shell_quote(struct arena *arena, pr_slice text)
{
    struct buf b;
    buf_init(&b, QUOTED_MAX);
    if (is_harmless(text))
        buf_add_slice(&b, text);
    else if (can_be_read(text))
        add_quoted(&b, text);
    else
        add_escaped(&b, text);
    const char *copy = buf_failed(&b) == PR_OK ? slice_dup(arena, buf_slice(&b)).data : NULL;
    buf_fini(&b);
    return copy != NULL ? copy : "''";
}

const char *shell_argument(struct arena *arena, pr_slice text)
{
    const char *quoted = shell_quote(arena, text);
    pr_slice argument =
        text.size > 0 && text.data[0] == '-' ? arena_printf(arena, "-- %s", quoted) : slice_from(quoted);
    return argument.data != NULL ? argument.data : "''";
}
