/* check.h - findings about the store and the installation, with advice. */
#ifndef OPS_WATCH_CHECK_H
#define OPS_WATCH_CHECK_H

#include "base/json.h"
#include "runtime/config/config.h"
#include "store/store.h"

#define DISK_LOW_BYTES (INT64_C(1) << 30)    /* less is a warning */
#define DISK_EMPTY_BYTES (INT64_C(64) << 20) /* less is an error: the next checkpoint may fail */
#define CHECKS_MAX 64                        /* findings; nobody reads more */

enum check_state { CHECK_FINE, CHECK_WARN, CHECK_ERROR };

struct checks {
    struct arena *arena;
    size_t count;
    struct check {
        const char *name;
        enum check_state state;
        const char *text;  /* "" if there is nothing to report */
        const char *about; /* for a watchdog: the box, or "store"; NULL: none */
    } items[CHECKS_MAX];
};

const char *check_state_name(enum check_state state); /* ok, warn, error */

void checks_add(struct checks *checks, const char *name, enum check_state state, const char *format, ...)
    PR_PRINTF(4, 5);
/* A warning of a watchdog; name and about stay the same while the condition holds. */
void checks_warn(struct checks *checks, const char *name, pr_slice about, const char *format, ...) PR_PRINTF(4, 5);
/* Compares the configured slots of the server's log with the existing ones; nothing without any.  ret may be NULL. */
void checks_add_wal(struct checks *checks, const struct config *config, struct store *store, struct wal_report **ret,
                    size_t *ret_count);
/* The worst of them. */
enum check_state checks_health(const struct checks *checks);
/* "checks": [...] */
void checks_json(const struct checks *checks, struct json_writer *w);

#endif
