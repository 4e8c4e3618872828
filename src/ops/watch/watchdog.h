/* watchdog.h - the watchdogs of a running instance: when a warning begins, a message is raised about it.
 *
 * The instance that sees a warning first writes it into the store, which remembers it for all instances and over restarts: so each is raised
 * once, and again only when it was over for watch.calm: to remember it and to raise it is one transaction.  What was raised carries the header that rules know
 * (policy/raised.h), so it raises nothing itself. */
#ifndef OPS_WATCH_WATCHDOG_H
#define OPS_WATCH_WATCHDOG_H

#include "runtime/runtime.h"

struct watchdog;
struct watch_past;

/* One look and what follows; for the thread and for tests.  Returns how many messages were raised, or a fault. */
int watchdog_look(const struct runtime_inside *in, struct watch_past *past, struct pr_error *reterr);

/* A thread that looks every watch.every; it goes by the configuration that the runtime has then. */
PR_MUST_CHECK int watchdog_start(struct runtime *rt, struct log *log, struct watchdog **ret, struct pr_error *reterr);
void watchdog_stop(struct watchdog *s); /* NULL is fine */

#endif
