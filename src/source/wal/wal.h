/* wal.h - the store's own log as a source, where a database can report commits.
 *
 * It has two uses.  Inserts into a box wake the engines that wait for them, at once and without polling the table: the
 * doorbell.  And messages that senders wrote into the log itself, without a table (pg_logical_emit_message), are stored
 * in a box: letters.
 *
 * The doorbell needs nothing persistent, and every instance has its own.  Letters need a slot: the server keeps its log
 * until they are confirmed.  One instance holds it, the others stand by.  A letter is confirmed when it is stored in
 * its box, in one transaction with the place in the log up to which all are stored.  The engine delivers it from there,
 * so the slot never waits for a message that fails. */
#ifndef SOURCE_WAL_WAL_H
#define SOURCE_WAL_WAL_H

#include "base/arena.h"

#define WAL_NAME_MAX 63 /* bytes of the name of a slot or a publication */

struct wal_setting {          /* everything is borrowed */
    const char *prefix;       /* of letters: PREFIX, or PREFIX:BOX */
    const char *box;          /* the box of letters that name none */
    const char *slot;         /* "": schema_database */
    const char *publication;  /* "": like the slot */
    int64_t max_lag;          /* bytes of log that the server may keep for the slot */
    bool letters;             /* false: only the doorbell */
    const char *const *boxes; /* all of them */
    size_t box_count;
};

enum wal_level { WAL_FINE, WAL_WARN, WAL_ERROR };

struct wal_report { /* in the arena that was passed */
    pr_slice slot;
    bool there, active;
    int64_t lag; /* bytes of log that the server keeps for it */
    enum wal_level level;
    pr_slice text; /* the finding, and advice */
};

enum wal_order {
    WAL_MAKE, /* creates publication and slot, if missing */
    WAL_DROP, /* removes them; what is still in the log is lost then */
};

/* PR_EUNSUPPORTED where the store has no such log. */
struct store;
PR_MUST_CHECK int wal_order(struct store *store, const struct wal_setting *setting, enum wal_order order,
                            struct pr_error *reterr);
/* Changes nothing.  setting NULL: slots that were created here before. */
PR_MUST_CHECK int wal_look(struct store *store, const struct wal_setting *setting, struct arena *arena,
                           struct wal_report **ret, size_t *ret_count, struct pr_error *reterr);

#endif
