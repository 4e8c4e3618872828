/* wal_thread.h - the thread that reads the log of the store's server, where it is a source. */
#ifndef RUNTIME_WAL_THREAD_H
#define RUNTIME_WAL_THREAD_H

#include "store/store.h"

struct wal_thread;

/* setting and store are borrowed until stop. */
PR_MUST_CHECK int wal_thread_start(struct store *store, const struct wal_setting *setting, struct wal_thread **ret,
                                   struct pr_error *reterr);
void wal_thread_stop(struct wal_thread *thread); /* NULL is fine; what is not stored yet is read again later */

#endif
