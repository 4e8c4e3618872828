#include "runtime/config/config_options.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/util.h"
#include "core/message.h"

const struct option *option_find(const struct option_section *section, const char *name)
{
    for (size_t i = 0; i < section->count; i++)
        if (strcmp(section->options[i].name, name) == 0)
            return &section->options[i];
    return NULL;
}

/* Names of the store's own tables and views are taken; SQLite ignores case and reserves sqlite_. */
bool option_is_box_name(pr_slice name)
{
    static const char *const taken[] = {
        "meta",      "box",       "instance",          "claim",           "endpoint", "control",
        "audit",     "done",      "messages",          "dead_letter",     "flow",     "flow_execution",
        "flow_mail", "in_flight", "endpoint_overview", "blocked_streams", "breaker",  "open_breaker",
        "wal_slot",  "wal_place", "raised_warning",    "ended",
    };

    for (size_t i = 0; i < ARRAY_LENGTH(taken); i++)
        if (name.size == strlen(taken[i]) && strncasecmp(name.data, taken[i], name.size) == 0)
            return false;
    return name_is_valid(name) && !(name.size >= 7 && strncasecmp(name.data, "sqlite_", 7) == 0);
}

bool option_is_box_table(pr_slice name)
{
    return option_is_box_name(name) && !(name.size >= 10 && strncasecmp(name.data, "postrider_", 10) == 0);
}

bool option_is_endpoint_name(pr_slice name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
              c == '.'))
            return false;
    }
    return name.size > 0 && name.size <= CONFIG_NAME_MAX;
}

const char *option_kind_name(enum option_kind kind)
{
    switch (kind) {
    case OPTION_TEXT: return "text";
    case OPTION_DURATION: return "duration";
    case OPTION_SIZE: return "size";
    case OPTION_COUNT: return "count";
    case OPTION_NUMBER: return "number";
    case OPTION_CHOICE:
    case OPTION_WORD:
    case OPTION_PRESET: return "word";
    case OPTION_NAMES: return "names";
    case OPTION_SECRETS: return "secrets";
    case OPTION_RATE: return "rate";
    case OPTION_HEADERS: return "map";
    case OPTION_NETWORKS: return "list of networks";
    case OPTION_DELAYS: return "list of durations";
    case OPTION_SECTION:
    case OPTION_RETRY:
    case OPTION_BREAKER:
    case OPTION_NAMED: return "map";
    case OPTION_LIST: return "list";
    case OPTION_RULES: return "list of rules";
    case OPTION_VALUES: return "map";
    case OPTION_DONE: return "`delete` or map";
    case OPTION_MATCH: return "matcher";
    case OPTION_STEP: return "step";
    }
    ASSERT(!"every kind has its name");
    return "";
}

static const int64_t finitech_delays[] = { PR_SECONDS(10), PR_SECONDS(60), PR_MINUTES(5) };

bool option_preset(const char *name, struct retry_setting *ret_retry, struct breaker_setting *ret_breaker)
{
    static const struct {
        const char *name;
        struct retry_setting retry;
    } table[] = {
        { "cloudeventbus", { .base_us = PR_SECONDS(1), .factor = 2, .cap_us = PR_MINUTES(5), .failures = 5 } },
        { "whizbang", { .base_us = PR_SECONDS(30), .factor = 2, .failures = 10 } },
        { "finitech",
          { .base_us = PR_SECONDS(1),
            .factor = 2,
            .cap_us = PR_MINUTES(5),
            .failures = 5,
            .delays = finitech_delays,
            .delay_count = ARRAY_LENGTH(finitech_delays) } },
    };

    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        if (strcmp(table[i].name, name) == 0) {
            *ret_retry = table[i].retry;
            ret_breaker->enabled = false;
            return true;
        }
    }
    return false;
}
