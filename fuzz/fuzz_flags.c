/* The command line: one word per line. */
#include <stdarg.h>

#include "cli/cli.h"
#include "cli/flag.h"

#include "fuzz.h"

#define WORDS_MAX 100

/* cli.c would say it on stderr. */
void cli_say(const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    char *words[WORDS_MAX] = { NULL };
    const char *args[WORDS_MAX];
    struct flags flags;
    int count = 0, arg_count = 0;
    while (in.size > 0 && count < WORDS_MAX)
        words[count++] = input_cstr(input_line(&in));
    for (int i = 0; i < count; i++)
        (void)flag_takes_next(words[i]);
    if (flags_parse((const char *const *)words, count, UINT64_MAX, &flags, args, &arg_count)) {
        FUZZ_CHECK(arg_count <= count && flags.header_count <= HEADERS_MAX);
        for (int i = 0; i < FLAG_TOTAL; i++)
            FUZZ_CHECK(flags.values[i] == NULL || flag_given(&flags, (enum flag)i));
    }
    for (int i = 0; i < count; i++)
        free(words[i]);
    return 0;
}
