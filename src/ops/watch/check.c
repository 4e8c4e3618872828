#include "ops/watch/check.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "ops/member.h"

const char *check_state_name(enum check_state state)
{
    return state == CHECK_ERROR ? "error" : state == CHECK_WARN ? "warn" : "ok";
}

static struct check *add(struct checks *checks, const char *name, enum check_state state, const char *format,
                         va_list args)
{
    char text[1024];

    if (checks->count == CHECKS_MAX)
        return NULL;
    (void)vsnprintf(text, sizeof(text), format, args);
    struct check *check = &checks->items[checks->count++];
    *check = (struct check){ name, state, slice_dup(checks->arena, slice_from(text)).data, NULL };
    ASSERT(check->text != NULL);
    return check;
}

void checks_add(struct checks *checks, const char *name, enum check_state state, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)add(checks, name, state, format, args);
    va_end(args);
}

void checks_warn(struct checks *checks, const char *name, pr_slice about, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    struct check *check = add(checks, name, CHECK_WARN, format, args);
    va_end(args);
    if (check == NULL)
        return;
    check->about = slice_dup(checks->arena, about).data;
    ASSERT(check->about != NULL);
}

void checks_add_wal(struct checks *checks, const struct config *config, struct store *store, struct wal_report **ret,
                    size_t *ret_count)
{
    static const enum check_state states[] = {
        [WAL_FINE] = CHECK_FINE, [WAL_WARN] = CHECK_WARN, [WAL_ERROR] = CHECK_ERROR
    };
    const struct wal_setting *setting = config_wal(config);
    struct wal_report *reports = NULL;
    struct pr_error err;
    size_t count = 0;

    if (store->ops == NULL)
        return;
    int rc = wal_look(store, setting, checks->arena, &reports, &count, &err);
    /* Without a log source, the role need not have the right to look for forgotten slots. */
    if (rc != PR_OK && rc != PR_EUNSUPPORTED && setting != NULL)
        checks_add(checks, "wal", CHECK_ERROR, "%s", err.text);
    for (size_t i = 0; i < count; i++)
        checks_add(checks, "wal", states[reports[i].level], "%.*s: %.*s", SLICE_ARGS(reports[i].slot),
                   SLICE_ARGS(reports[i].text));
    if (ret != NULL) {
        *ret = reports;
        *ret_count = count;
    }
}

enum check_state checks_health(const struct checks *checks)
{
    enum check_state worst = CHECK_FINE;

    for (size_t i = 0; i < checks->count; i++)
        if (checks->items[i].state > worst)
            worst = checks->items[i].state;
    return worst;
}

static int word_state(pr_slice name)
{
    return slice_eq_cstr(name, "error") ? CHECK_ERROR : slice_eq_cstr(name, "warn") ? CHECK_WARN : CHECK_FINE;
}

static const char *state_word(int state)
{
    return check_state_name((enum check_state)state);
}

static const struct member_words words_of_checks = { .name = state_word, .parse = word_state };

static const struct member check_members[] = {
    /* clang-format off */
    MEMBER(check, "name", CSTR, name)
    MEMBER_NAME(check, "state", words_of_checks, state)
    MEMBER(check, "advice", CSTR, text)
    /* clang-format on */
};

void checks_json(const struct checks *checks, struct json_writer *w)
{
    static const struct members members = MEMBERS(check_members);
    members_list(w, "checks", &members, checks->items, sizeof(checks->items[0]), checks->count);
}
