/* mover.h - the sources of a configuration at work: a thread for each adopted table, which moves its
 * rows into their box.
 *
 * It looks again at once while there is more, soon after something came, and then ever more seldom, down to
 * once per `poll` of the source.  A table that cannot be read any more is told as trouble and tried again. */
#ifndef RUNTIME_MOVER_H
#define RUNTIME_MOVER_H

#include "runtime/config/config.h"
#include "store/store.h"

struct movers;

struct movers_options { /* borrowed until free */
    const struct config *config;
    struct store *store;
    struct log *log;
};

/* Looks at every table.  Fault PR_ECONFIG: one will not do; the text says why and what to do. */
PR_MUST_CHECK int movers_new(const struct movers_options *options, struct movers **ret, struct pr_error *reterr);
PR_MUST_CHECK int movers_start(struct movers *m, struct pr_error *reterr);
/* No further row is taken after the transaction that is under way; does not wait for it. */
void movers_stop(struct movers *m);
/* Waits for the threads.  NULL is fine. */
void movers_free(struct movers *m);

/* What people should know: PR_OK, or the first trouble. */
int movers_trouble(struct movers *m, struct pr_error *reterr);

#endif
