/* flag.h - the options of the command line: one table for all commands, so that a name means
 * the same everywhere. */
#ifndef CLI_FLAG_H
#define CLI_FLAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NAME, long, short (0: none), value (NULL: none), meaning (NULL: not for people) */
#define FLAGS(X)                                                                                                       \
    X(CONFIG, "config", 'c', "FILE", "the configuration; without it postrider.yaml, if there")                         \
    X(STORE, "store", 0, "URL", "the store, e.g. sqlite:postrider.db")                                                 \
    X(JSON, "json", 0, NULL, "for programs: one JSON object per line")                                                 \
    X(HELP, "help", 'h', NULL, "this text")                                                                            \
    X(BOX, "box", 0, "NAME", "in this box")                                                                            \
    X(STATE, "state", 0, "STATE", "ready, in-flight, delayed, retrying, held, parked, paused, dead, done")             \
    X(ENDPOINT, "endpoint", 0, "NAME", "on its way to this endpoint")                                                  \
    X(TYPE, "type", 0, "TYPE", "the type; in filters a glob: 'order.*'")                                               \
    X(STREAM, "stream", 0, "STREAM", "the stream")                                                                     \
    X(REASON, "reason", 0, "REASON", "failed last for this reason, e.g. timeout_exceeded")                             \
    X(ERROR, "error", 0, "TEXT", "the text of its last failure has this in it")                                        \
    X(FINGERPRINT, "fingerprint", 0, "PRINT", "of this group of failures: see postrider dead groups")                  \
    X(SINCE, "since", 0, "TIME", "stored (dead: died, audit: done) since: 1h ago, or 2024-01-31T12:00:00Z")            \
    X(UNTIL, "until", 0, "TIME", "... and before")                                                                     \
    X(LIMIT, "limit", 0, "N", "at most so many (100)")                                                                 \
    X(AFTER, "after", 0, "ROW", "go on after this row of the last page; messages want --box")                          \
    X(ROW, "row", 0, "ROW", "the dead letter of this row, whatever its id is")                                         \
    X(YES, "yes", 'y', NULL, "do not ask back")                                                                        \
    X(DRY_RUN, "dry-run", 'n', NULL, "only say what would be changed")                                                 \
    X(WHY, "why", 0, "TEXT", "for the record")                                                                         \
    X(BY, "by", 0, "NAME", "who says so, for the record; without it USER@HOST")                                        \
    X(RATE, "rate", 0, "N/s", "at most so many in a second")                                                           \
    X(CANARY, "canary", 0, "N", "so many first, and the others only when these have arrived")                          \
    X(BLOCKED, "blocked", 0, NULL, "only those that others wait behind")                                               \
    X(TO, "to", 0, "ENDPOINT", "where it goes; without it the routes decide")                                          \
    X(DATA, "data", 'd', "TEXT", "the payload")                                                                        \
    X(FILE, "file", 'f', "FILE", "the payload is the content of this file")                                            \
    X(HEADER, "header", 0, "NAME=VALUE", "a header; may be given often")                                               \
    X(CONTENT_TYPE, "content-type", 0, "TYPE", "of the payload, e.g. application/json")                                \
    X(SOURCE, "source", 0, "URI", "CloudEvents source")                                                                \
    X(SUBJECT, "subject", 0, "TEXT", "CloudEvents subject")                                                            \
    X(DUE, "due", 0, "TIME", "not before: in 5m, or 2024-01-31T12:00:00Z")                                             \
    X(EXPIRES, "expires", 0, "TIME", "not after: in 1h, or 2024-01-31T12:00:00Z")                                      \
    X(ID, "id", 0, "UUID", "its id; the same id again is a duplicate")                                                 \
    X(GRANTS, "grants", 0, NULL, "print the roles and their rights instead")                                           \
    X(DROP_SLOT, "drop-slot", 0, NULL, "remove the replication slots and publications that were made")                 \
    X(COUNT, "count", 0, "N", "so many messages")                                                                      \
    X(FOR, "for", 0, "TIME", "for so long: 30s, 5m, 24h; a pause without it: until resumed")                           \
    X(FAILURES, "failures", 0, "N", "it is the n-th failure of the message (1)")                                       \
    X(CODE, "code", 0, "TEXT", "the broker's own code")                                                                \
    X(SIZE, "size", 0, "SIZE", "of the payload: 64KiB")                                                                \
    X(AGE, "age", 0, "TIME", "since it was stored: 5m")                                                                \
    X(RETRY_AFTER, "retry-after", 0, "TIME", "what the other side asked for: 30s")                                     \
    X(UNSENT, "unsent", 0, NULL, "nothing was sent: it could not be reached, or refused the login")                    \
    X(PRESET, "preset", 0, "NAME", "debezium, cap, masstransit, eventuate, finitech, generic")                         \
    X(TABLE, "table", 0, "TABLE", "the table: SCHEMA.NAME, case as it is")                                             \
    X(CHECK, "check", 0, NULL, "say what is there and what is missing")                                                \
    X(FORCE, "force", 0, NULL, "overwrite the file")                                                                   \
    X(URL, "url", 0, "URL", "ask a running daemon: http://127.0.0.1:8026, unix:/run/postrider.sock")                   \
    X(TOKEN_FILE, "token-file", 0, "FILE", "the API's token is in it; without it http.token of the config")            \
    X(EVERY, "every", 0, "TIME", "look so often (1s)")                                                                 \
    X(ONCE, "once", 0, NULL, "print it once and end, as when the output is no terminal")                               \
    X(RELAY, "relay", 0, "FD", NULL)

enum flag {
#define X(name, word, letter, value, doc) FLAG_##name,
    FLAGS(X)
#undef X
        FLAG_TOTAL
};

#define FLAG_BIT(name) (UINT64_C(1) << FLAG_##name)
#define FLAGS_ALWAYS (FLAG_BIT(CONFIG) | FLAG_BIT(STORE) | FLAG_BIT(JSON) | FLAG_BIT(HELP))
#define FLAGS_FOR_PEOPLE (~FLAG_BIT(RELAY))
#define FLAGS_FILTER                                                                                                   \
    (FLAG_BIT(BOX) | FLAG_BIT(STATE) | FLAG_BIT(ENDPOINT) | FLAG_BIT(TYPE) | FLAG_BIT(STREAM) | FLAG_BIT(REASON) |     \
     FLAG_BIT(ERROR) | FLAG_BIT(FINGERPRINT) | FLAG_BIT(SINCE) | FLAG_BIT(UNTIL))
#define FLAGS_DEAD ((FLAGS_FILTER & ~FLAG_BIT(STATE)) | FLAG_BIT(ROW))
#define FLAGS_PAGE (FLAG_BIT(LIMIT) | FLAG_BIT(AFTER))
#define FLAGS_CHANGE (FLAG_BIT(YES) | FLAG_BIT(DRY_RUN) | FLAG_BIT(WHY) | FLAG_BIT(BY))

#define HEADERS_MAX 64 /* --header on one command line */

struct flag_info {
    const char *word;
    char letter;       /* 0: none */
    const char *value; /* NULL: takes none */
    const char *doc;   /* NULL: not for people */
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

/* Take the flags out of argv[0..count); what is left is in args (room for count), "--" ends
 * them.  allowed are those of the command.  false: said on stderr what is wrong. */
bool flags_parse(const char *const *argv, int count, uint64_t allowed, struct flags *ret_flags, const char **args,
                 int *ret_arg_count);

/* Does argv[i] take the next word with it?  For finding the command's name among flags. */
bool flag_takes_next(const char *arg);

#endif
