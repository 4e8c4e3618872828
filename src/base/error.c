#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#undef error_set /* the macro for the analyser */

/* Error texts often quote foreign text, and end up in logs, in JSON and on terminals. */
static void make_one_line(char *text)
{
    pr_slice rest = { text, strlen(text) };
    while (rest.size > 0) {
        int32_t codepoint;
        size_t size = utf8_next(rest, &codepoint);
        if (codepoint < ' ' || codepoint == 0x7f)
            memset(text + (rest.data - text), codepoint < 0 ? '?' : ' ', size);
        rest = (pr_slice){ rest.data + size, rest.size - size };
    }
}

int error_set(struct pr_error *reterr, int code, const char *format, ...)
{
    if (reterr == NULL)
        return code;

    /* Format into a second buffer: callers may pass reterr's own text as an argument, to wrap it into a longer one. */
    char text[PR_ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    if (size < 0) {
        text[0] = '\0';
    } else if ((size_t)size >= sizeof(text)) {
        /* When vsnprintf cut a character in half, remove the rest of it. */
        pr_slice cut = utf8_cut_bytes(PR_BYTES(text, sizeof(text) - 1), sizeof(text) - 1);
        text[cut.size] = '\0';
    }
    make_one_line(text);
    reterr->code = code;
    memcpy(reterr->text, text, strlen(text) + 1);
    return code;
}

void error_clear(struct pr_error *reterr)
{
    if (reterr == NULL)
        return;
    reterr->code = PR_OK;
    reterr->text[0] = '\0';
}

_Noreturn void error_assert_failed(const char *file, int line, const char *expression)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    fflush(stderr);
    abort();
}
