#include "cli/flag.h"

#include <string.h>

#include "base/slice.h"
#include "cli/cli.h"
#include "runtime/config/config_suggest.h"

const struct flag_info flag_infos[FLAG_TOTAL] = {
#define X(name, word, letter, value, doc) { word, letter, value, doc },
    FLAGS(X)
#undef X
};

/* The flag that arg names: "--word", "--word=value", "-c", "-cvalue".  FLAG_TOTAL: none. */
static enum flag find(const char *arg, const char **ret_inline_value)
{
    *ret_inline_value = NULL;
    for (int i = 0; i < FLAG_TOTAL; i++) {
        size_t size = strlen(flag_infos[i].word);

        if (arg[0] == '-' && arg[1] == '-' && strncmp(arg + 2, flag_infos[i].word, size) == 0 &&
            (arg[2 + size] == '\0' || arg[2 + size] == '=')) {
            *ret_inline_value = arg[2 + size] == '=' ? arg + 3 + size : NULL;
            return (enum flag)i;
        }
        if (arg[0] == '-' && flag_infos[i].letter != 0 && arg[1] == flag_infos[i].letter &&
            (arg[2] == '\0' || flag_infos[i].value != NULL)) {
            *ret_inline_value = arg[2] != '\0' ? arg + 2 : NULL;
            return (enum flag)i;
        }
    }
    return FLAG_TOTAL;
}

static bool is_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] != '\0';
}

bool flag_takes_next(const char *arg)
{
    const char *value;
    enum flag flag = is_flag(arg) ? find(arg, &value) : FLAG_TOTAL;

    return flag != FLAG_TOTAL && flag_infos[flag].value != NULL && value == NULL;
}

static void say_unknown(const char *arg, uint64_t allowed)
{
    struct suggestion near = { 0 };
    pr_slice word = { arg + 2, strcspn(arg + 2, "=") };

    if (arg[1] == '-')
        for (int i = 0; i < FLAG_TOTAL; i++)
            if ((allowed >> i & 1) != 0 && flag_infos[i].doc != NULL)
                suggest_try(&near, word, flag_infos[i].word);
    if (near.best != NULL)
        cli_say("unknown option %s; did you mean --%s?", arg, near.best);
    else
        cli_say("unknown option %s", arg);
}

static bool store_value(struct flags *flags, enum flag flag, const char *value)
{
    if (flag == FLAG_HEADER) {
        if (flags->header_count == HEADERS_MAX) {
            cli_say("more than %d headers", HEADERS_MAX);
            return false;
        }
        flags->headers[flags->header_count++] = value;
    } else if (flag_given(flags, flag) && flag_infos[flag].value != NULL) {
        cli_say("--%s was given twice", flag_infos[flag].word);
        return false;
    }
    flags->given |= UINT64_C(1) << flag;
    flags->values[flag] = value;
    return true;
}

bool flags_parse(const char *const *argv, int count, uint64_t allowed, struct flags *ret_flags, const char **args,
                 int *ret_arg_count)
{
    struct flags flags = { 0 };
    int arg_count = 0;

    for (int i = 0; i < count; i++) {
        const char *value;
        enum flag flag;

        if (!is_flag(argv[i])) {
            args[arg_count++] = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            while (++i < count)
                args[arg_count++] = argv[i];
            break;
        }
        flag = find(argv[i], &value);
        if (flag == FLAG_TOTAL || (allowed >> flag & 1) == 0) {
            say_unknown(argv[i], allowed);
            return false;
        }
        if (flag_infos[flag].value == NULL && value != NULL) {
            cli_say("--%s takes no value", flag_infos[flag].word);
            return false;
        }
        if (flag_infos[flag].value != NULL && value == NULL) {
            if (i + 1 == count) {
                cli_say("--%s needs a value: %s", flag_infos[flag].word, flag_infos[flag].value);
                return false;
            }
            value = argv[++i];
        }
        if (!store_value(&flags, flag, value))
            return false;
    }
    *ret_flags = flags;
    *ret_arg_count = arg_count;
    return true;
}
