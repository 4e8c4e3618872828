/* Options of rules, which config_rule.c reads. */
#include "policy/rule.h"
#include "runtime/config/config_table.h"

#define MATCHER(match) .kind = OPTION_MATCH, .fallback = "", .min = MATCH_##match
#define ACTION(key) .kind = OPTION_STEP, .fallback = "", .min = STEP_KEY_##key

static const struct option rule_options[] = {
    { .name = "name",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "Name in histories, dead letters and `why`. Default: `rule N`." },
    { .name = "when", .kind = OPTION_MATCH, .fallback = "", .doc = "", .section = &option_when },
    { .name = "then", .kind = OPTION_STEP, .fallback = "", .doc = "", .section = &option_step },
};

const struct option_section option_rule = {
    "rules",
    "What happens after a failure. The endpoint's own rules come first, then these; the first match decides. If none\n"
    "matches, the endpoint's `retry` and `breaker` decide. `postrider policy explain` shows what a rule does, `policy "
    "check` finds rules\n"
    "that never apply.",
    SECTION(rule_options)
};

static const struct option when_options[] = {
    { .name = "reason", MATCHER(REASON), .doc = "`timeout_exceeded`, `rejected`, ...: one or a list." },
    { .name = "class", MATCHER(CLASS), .doc = "`transient`, `permanent`, `unknown`: one or a list." },
    { .name = "code", MATCHER(CODE), .doc = "Error code of the broker: globs." },
    { .name = "error", MATCHER(ERROR), .doc = "Text of the failure.", .section = &option_match_error },
    { .name = "type", MATCHER(TYPE), .doc = "Type of the message: globs." },
    { .name = "endpoint", MATCHER(ENDPOINT), .doc = "globs" },
    { .name = "stream", MATCHER(STREAM), .doc = "globs" },
    { .name = "size", MATCHER(SIZE), .doc = "Size of the payload: `{min: 64KiB}`.", .section = &option_range },
    { .name = "age", MATCHER(AGE), .doc = "Time since the message was stored: `{max: 1h}`." },
    { .name = "failures",
      MATCHER(FAILURES),
      .doc = "Failures of this message, including this one: `{max: 3}`, or `3`." },
    { .name = "and", MATCHER(ALL), .doc = "A list of `when`: all must match." },
    { .name = "or", MATCHER(ANY), .doc = "A list of `when`: at least one must match." },
    { .name = "not", MATCHER(NOT), .doc = "A `when` that must not match." },
};

const struct option_section option_when = { "rules.when",
                                            "All given keys must match; in a list one entry is enough. Without `when` "
                                            "a rule matches every failure. Globs cover the whole\n"
                                            "text and are case-sensitive.",
                                            SECTION(when_options) };

static const struct option match_error_options[] = {
    { .name = "contains",
      .kind = OPTION_NAMES,
      .fallback = "",
      .doc = "The text contains one of these; `error: TEXT` is short for it." },
    { .name = "glob", .kind = OPTION_NAMES, .fallback = "", .doc = "The text equals one of these." },
};

const struct option_section option_match_error = { "rules.when.error", "What the endpoint answered, in words.",
                                                   SECTION(match_error_options) };

static const struct option range_options[] = {
    { .name = "min", .kind = OPTION_TEXT, .fallback = "", .doc = "This value or more." },
    { .name = "max", .kind = OPTION_TEXT, .fallback = "", .doc = "This value or less." },
};

const struct option_section option_range = { "rules.when.size, age, failures", "One of the two is enough.",
                                             SECTION(range_options) };

static const struct option step_options[] = {
    { .name = "retry_now", ACTION(RETRY_NOW), .doc = "Retry at once, for this many failures." },
    { .name = "retry",
      ACTION(RETRY),
      .doc = "Retry after these delays, one failure each: `[5s, 30s]`; or a formula as in `endpoints.NAME.retry`, up "
             "to its last failure." },
    { .name = "dead_letter",
      ACTION(DEAD_LETTER),
      .doc = "Move the message to the dead letters.",
      .section = &option_dead_letter },
    { .name = "discard", ACTION(DISCARD), .doc = "Delete the message; it is counted and logged in one line." },
    { .name = "park", ACTION(PARK), .doc = "Set the message aside until an operator retries it." },
    { .name = "pause",
      ACTION(PAUSE),
      .doc = "Pause the endpoint for this long, or `until_resumed`. Next to another action, or alone: the message is "
             "then put back and the failure is not counted." },
    { .name = "raise",
      ACTION(RAISE),
      .doc = "Next to another action: also send a message about the failure. Raised messages never raise others.",
      .section = &option_raise },
    { .name = "call",
      ACTION(CALL),
      .doc = "Next to another action: also call a function that the program registered with pr_engine_call(). Alone: "
             "the function decides; if it does not, the next step does." },
};

const struct option_section option_step = { "rules.then",
                                            "Steps, in order of the message's failures: one step or a list. "
                                            "`dead_letter`, `discard` and `park` can be written as\n"
                                            "a word. A rule that runs out of steps makes a dead letter.",
                                            SECTION(step_options) };

static const struct option dead_letter_options[] = {
    { .name = "to",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "Send it to this endpoint instead, with `postrider-dead-` headers that say why. If it fails there, too, "
             "it goes into the table." },
};

const struct option_section option_dead_letter = { "rules.then.dead_letter", "`{}` means the table of dead letters.",
                                                   SECTION(dead_letter_options) };

static const struct option raise_options[] = {
    { .name = "type", .kind = OPTION_TEXT, .fallback = "", .doc = "Type of the new message.", .required = true },
    { .name = "to",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "Endpoint of the message. Default: the routes decide." },
    { .name = "stream", .kind = OPTION_TEXT, .fallback = "", .doc = "a template" },
    { .name = "payload",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "Template of the payload. Default: a JSON object with all values." },
};

const struct option_section option_raise = { "rules.then.raise",
                                             "Stored in the same transaction as the outcome of the failed message. In "
                                             "templates `{id}` `{type}` `{stream}` `{endpoint}`\n"
                                             "`{box}` `{reason}` `{code}` `{error}` `{failures}` `{attempts}` `{rule}` "
                                             "`{at}` stand for values of the failed message.",
                                             SECTION(raise_options) };
