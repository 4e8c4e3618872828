/* flag.h - the options of the command line: one table for all commands, so that a name means
 * the same everywhere. */
#ifndef CLI_FLAG_H
#define CLI_FLAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NAME, long, short (0: none), value (NULL: none), meaning (NULL: hidden) */
#define FLAGS(X)                                                                                                       \
    X(CONFIG, "config", 'c', "FILE", "configuration file (default: postrider.yaml if it exists)")                      \
    X(STORE, "store", 0, "URL", "the store, for example sqlite:postrider.db")                                          \
    X(JSON, "json", 0, NULL, "print one JSON object per line")                                                         \
    X(HELP, "help", 'h', NULL, "show this help")                                                                       \
    X(BOX, "box", 0, "NAME", "only this box")                                                                          \
    X(STATE, "state", 0, "STATE", "ready, in-flight, delayed, retrying, held, parked, paused, dead, done")             \
    X(ENDPOINT, "endpoint", 0, "NAME", "only messages for this endpoint")                                              \
    X(TYPE, "type", 0, "TYPE", "message type; in filters a glob: 'order.*'")                                           \
    X(STREAM, "stream", 0, "STREAM", "message stream")                                                                 \
    X(CORRELATION_ID, "correlation-id", 0, "ID", "only messages with this correlation id")                             \
    X(REASON, "reason", 0, "REASON", "only if the last failure has this reason, for example timeout_exceeded")         \
    X(ERROR, "error", 0, "TEXT", "only if the text of the last failure contains TEXT")                                 \
    X(FINGERPRINT, "fingerprint", 0, "PRINT", "only this group of failures (see postrider dead groups)")               \
    X(SINCE, "since", 0, "TIME", "stored (dead letters: died; audit: done) since 1h ago, or 2024-01-31T12:00:00Z")     \
    X(UNTIL, "until", 0, "TIME", "stored (dead letters: died; audit: done) before this time")                          \
    X(LIMIT, "limit", 0, "N", "show at most N (default 100)")                                                          \
    X(AFTER, "after", 0, "ROW", "continue after this row (see the end of the last page); needs --box")                 \
    X(ROW, "row", 0, "ROW", "only the dead letter with this row number")                                               \
    X(YES, "yes", 'y', NULL, "skip the confirmation")                                                                  \
    X(DRY_RUN, "dry-run", 'n', NULL, "only show what would change")                                                    \
    X(AGAIN, "again", 0, NULL, "also messages that were handled meanwhile")                                            \
    X(WHY, "why", 0, "TEXT", "reason for the audit log")                                                               \
    X(BY, "by", 0, "NAME", "name for the audit log (default USER@HOST)")                                               \
    X(RATE, "rate", 0, "N/s", "replay at most N per second")                                                           \
    X(CANARY, "canary", 0, "N", "replay N first, the rest only if those are delivered")                                \
    X(BLOCKED, "blocked", 0, NULL, "only streams with waiting messages")                                               \
    X(TO, "to", 0, "ENDPOINT", "destination endpoint (default: the routes decide)")                                    \
    X(DATA, "data", 'd', "TEXT", "the payload")                                                                        \
    X(FILE, "file", 'f', "FILE", "read the payload (flow check: the history) from this file")                          \
    X(HEADER, "header", 0, "NAME=VALUE", "a header; can be repeated")                                                  \
    X(CONTENT_TYPE, "content-type", 0, "TYPE", "content type of the payload, for example application/json")            \
    X(SOURCE, "source", 0, "URI", "CloudEvents source")                                                                \
    X(SUBJECT, "subject", 0, "TEXT", "CloudEvents subject")                                                            \
    X(DUE, "due", 0, "TIME", "do not send before this time: 5m (from now), or 2024-01-31T12:00:00Z")                   \
    X(EXPIRES, "expires", 0, "TIME", "do not send after this time: 1h (from now), or 2024-01-31T12:00:00Z")            \
    X(ID, "id", 0, "UUID", "message id; a second message with the same id is a duplicate")                             \
    X(EVENT, "event", 0, NULL, "store it in the event store, too, as the next version of its stream")                  \
    X(EXPECT_VERSION, "expect-version", 0, "N", "with --event: only if the stream has N events; 0: it must be new")    \
    X(GRANTS, "grants", 0, NULL, "print the SQL for roles and their rights instead")                                   \
    X(DROP_SLOT, "drop-slot", 0, NULL, "remove Postrider's replication slots and publications")                        \
    X(COUNT, "count", 0, "N", "number of messages")                                                                    \
    X(FOR, "for", 0, "TIME", "pause, or wait, for this long (default: until resumed; no limit)")                       \
    X(FAILURES, "failures", 0, "N", "number of this failure (default 1)")                                              \
    X(CODE, "code", 0, "TEXT", "the broker's error code")                                                              \
    X(SIZE, "size", 0, "SIZE", "size of the payload, for example 64KiB")                                               \
    X(AGE, "age", 0, "TIME", "time since the message was stored, for example 5m")                                      \
    X(RETRY_AFTER, "retry-after", 0, "TIME", "delay that the endpoint asked for, for example 30s")                     \
    X(UNSENT, "unsent", 0, NULL, "nothing was sent: the endpoint was unreachable or refused the login")                \
    X(PRESET, "preset", 0, "NAME", "debezium, cap, masstransit, eventuate, finitech, generic")                         \
    X(TABLE, "table", 0, "TABLE", "the table, SCHEMA.NAME; upper and lower case matter")                               \
    X(CHECK, "check", 0, NULL, "check the table and report what is missing")                                           \
    X(FORCE, "force", 0, NULL, "config init: overwrite an existing file; flow delete: delete running flows, too")      \
    X(URL, "url", 0, "URL", "use a running daemon's API: http://127.0.0.1:8026, unix:/run/postrider.sock")             \
    X(TOKEN_FILE, "token-file", 0, "FILE", "file with the API token (default: http.token in the configuration)")       \
    X(EVERY, "every", 0, "TIME", "refresh interval (default 1s)")                                                      \
    X(ONCE, "once", 0, NULL, "print once and exit; default when the output is not a terminal")                         \
    X(CRON, "cron", 0, "TIMES", "when: minute, hour, day of month, month, day of week; or @daily")                     \
    X(ZONE, "zone", 0, "ZONE", "time zone of these times, for example Europe/Berlin (default UTC)")                    \
    X(MISSED, "missed", 0, "POLICY",                                                                                   \
      "what to do about missed runs: once, skip or all (default once); once:5m counts runs over 5m late as missed")    \
    X(VERSION, "version", 0, "VERSION", "version of the flow")                                                         \
    X(PARENT, "parent", 0, "FLOW", "only children of this flow")                                                       \
    X(RESTART, "restart", 0, NULL, "restart a flow that has ended")                                                    \
    X(KEEP, "keep", 0, "N", "keep the latest N executions before the current one")                                     \
    X(RELAY, "relay", 0, "FD", NULL)

enum flag {
#define X(name, word, letter, value, doc) FLAG_##name,
    FLAGS(X)
#undef X
        FLAG_TOTAL
};

_Static_assert(FLAG_TOTAL <= 64, "flags are kept as bits of a word");
#define FLAG_BIT(name) (UINT64_C(1) << FLAG_##name)
#define FLAGS_ALWAYS (FLAG_BIT(CONFIG) | FLAG_BIT(STORE) | FLAG_BIT(JSON) | FLAG_BIT(HELP))
#define FLAGS_FOR_PEOPLE (~FLAG_BIT(RELAY))
#define FLAGS_FILTER                                                                                                   \
    (FLAG_BIT(BOX) | FLAG_BIT(STATE) | FLAG_BIT(ENDPOINT) | FLAG_BIT(TYPE) | FLAG_BIT(STREAM) |                        \
     FLAG_BIT(CORRELATION_ID) | FLAG_BIT(REASON) | FLAG_BIT(ERROR) | FLAG_BIT(FINGERPRINT) | FLAG_BIT(SINCE) |         \
     FLAG_BIT(UNTIL))
#define FLAGS_DEAD ((FLAGS_FILTER & ~FLAG_BIT(STATE)) | FLAG_BIT(ROW))
#define FLAGS_PAGE (FLAG_BIT(LIMIT) | FLAG_BIT(AFTER))
#define FLAGS_CHANGE (FLAG_BIT(YES) | FLAG_BIT(DRY_RUN) | FLAG_BIT(WHY) | FLAG_BIT(BY))

#define HEADERS_MAX 64 /* --header on one command line */

struct flag_info {
    const char *word;
    char letter;       /* 0: none */
    const char *value; /* NULL: takes none */
    const char *doc;   /* NULL: hidden */
};

extern const struct flag_info flag_infos[FLAG_TOTAL];

struct flags {
    uint64_t given;
    const char *values[FLAG_TOTAL]; /* NULL when not given */
    const char *headers[HEADERS_MAX];
    size_t header_count;
};

static inline bool flag_given(const struct flags *flags, enum flag flag)
{
    return (flags->given >> flag & 1) != 0;
}

/* Removes the flags from argv[0..count); the rest goes to args (room for count); "--" ends the flags.  allowed are
 * those of the command.  false: printed what is wrong. */
bool flags_parse(const char *const *argv, int count, uint64_t allowed, struct flags *ret_flags, const char **args,
                 int *ret_arg_count);

/* Does argv[i] take the next word as its value?  For finding the command's name among flags. */
bool flag_takes_next(const char *arg);

#endif
