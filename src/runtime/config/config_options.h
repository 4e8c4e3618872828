/* config_options.h - the option tables: each option once, with its type, default, bounds, place in the structs of
 * config.h, and the sentence that documents it. */
#ifndef RUNTIME_CONFIG_CONFIG_OPTIONS_H
#define RUNTIME_CONFIG_CONFIG_OPTIONS_H

#include "runtime/config/config.h"

enum option_kind {
    /* One value; can be set from the environment. */
    OPTION_TEXT,     /* const char * */
    OPTION_DURATION, /* int64_t, microseconds */
    OPTION_SIZE,     /* int64_t, bytes */
    OPTION_COUNT,    /* int */
    OPTION_NUMBER,   /* double */
    OPTION_CHOICE,   /* an enum or a bool: the index of the word in choices */
    OPTION_WORD,     /* const char *: one of choices */
    OPTION_RATE,     /* struct rate_setting */
    OPTION_PRESET,   /* OPTION_WORD of an endpoint or a source, which stands for several values */
    OPTION_LAST_VALUE = OPTION_PRESET,

    /* Several values; the field is a pointer, count_offset its count. */
    OPTION_NAMES,    /* const char *const *: one word or a list */
    OPTION_SECRETS,  /* the same; never shown */
    OPTION_NETWORKS, /* const struct network * */
    OPTION_DELAYS,   /* const int64_t * */

    OPTION_SECTION, /* a map: the options of `section`, in the struct at offset */
    OPTION_RETRY,   /* a section, or a list of delays */
    OPTION_BREAKER, /* a section, or off */
    OPTION_NAMED,   /* a map from names to sections; an array of item_size */
    OPTION_LIST,    /* a list of sections; an array of item_size */
    OPTION_RULES,   /* const struct rule *: a list of rules, see config_rule.c */
    OPTION_HEADERS, /* const struct route_header *: a map from names to globs */
    OPTION_VALUES,  /* const struct adopt_value *: a map from columns to values, see config_source.c */
    OPTION_DONE,    /* the same below set, or `delete` */
    OPTION_MATCH,   /* inside a rule: min is its enum matcher_kind */
    OPTION_STEP,    /* inside a rule: min is its enum step_key */
};

enum step_key {
    STEP_KEY_RETRY_NOW,
    STEP_KEY_RETRY,
    STEP_KEY_DEAD_LETTER,
    STEP_KEY_DISCARD,
    STEP_KEY_PARK,
    STEP_KEY_PAUSE,
    STEP_KEY_RAISE,
    STEP_KEY_CALL,
};

struct option_section;

struct option {
    const char *name;
    enum option_kind kind;
    const char *fallback; /* the default, as written in a file; "": none */
    const char *doc;
    bool required;
    bool secret;      /* TEXT: never shown */
    bool never_empty; /* TEXT: by a variable; a secret that is missing would open a door */
    size_t offset, size, count_offset, item_size;
    int64_t min, max;           /* DURATION, SIZE, COUNT; NUMBER: in thousandths */
    const char *const *choices; /* ends with NULL.  DURATION: the word for 0, regardless of min */
    const struct option_section *section;
    const char *const *built_in; /* NAMED: names that exist without being written */
    bool (*is_name)(pr_slice name);
    const char *name_rule; /* the names that is_name() accepts, in words */
};

struct option_section {
    const char *title; /* in the reference: "endpoints.NAME" */
    const char *doc;
    const struct option *options;
    size_t count;
};

extern const struct option_section option_root, option_box, option_endpoint, option_retry, option_breaker, option_batch,
    option_route, option_source, option_schedule, option_rule, option_when, option_match_error, option_range,
    option_step, option_dead_letter, option_raise;

/* NULL when there is none. */
const struct option *option_find(const struct option_section *section, const char *name);

/* "duration", "a word": for messages and the reference. */
const char *option_kind_name(enum option_kind kind);

bool option_is_box_name(pr_slice name);
bool option_is_box_table(pr_slice name);
bool option_is_endpoint_name(pr_slice name);

/* The settings of a preset; false: unknown preset. */
bool option_preset(const char *name, struct retry_setting *ret_retry, struct breaker_setting *ret_breaker);

/* ---- Values (config_value.c) ---- */

/* Parses text into the field; PR_ECONFIG with what is wrong, without a position.  quoted is the value as it may be
 * shown. */
PR_MUST_CHECK int option_parse(const struct option *option, const char *text, const char *quoted, void *field,
                               struct pr_error *reterr);
/* The value as written in a file. */
void option_format(const struct option *option, const void *field, struct buf *ret);

#endif
