/* check.h - findings about the store and the installation: what is so, and what to do about it. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "base/json.h"
#include "cli/cli.h"

#define CHECKS_MAX 64 /* more findings are not read by anybody */

enum check_state { CHECK_FINE, CHECK_WARN, CHECK_ERROR };

struct checks {
    struct arena *arena;
    size_t count;
    struct check {
        const char *name;
        enum check_state state;
        const char *text; /* "" when there is nothing to say */
    } items[CHECKS_MAX];
};

const char *check_state_name(enum check_state state); /* ok, warn, error */

void checks_add(struct checks *checks, const char *name, enum check_state state, const char *format, ...)
    PR_PRINTF(4, 5);
/* The sources of the configuration, over the open store; worst: what one that will not do is. */
void checks_add_sources(struct checks *checks, struct cli *cli, enum check_state worst);
/* Slots of the server's log, as the configuration wants them and as they are; nothing where there are
 * none.  ret may be NULL. */
struct wal_report;
void checks_add_wal(struct checks *checks, struct cli *cli, struct wal_report **ret, size_t *ret_count);
/* The worst of them. */
enum check_state checks_health(const struct checks *checks);
/* "checks": [...] */
void checks_json(const struct checks *checks, struct json_writer *w);
/* quiet: only what is not ok. */
void checks_print(const struct checks *checks, bool quiet, bool color);

#endif
