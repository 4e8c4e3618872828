/* faulty_vfs.h - a disk that fails on purpose.
 *
 * A layer over SQLite's own file system, the default one after faulty_install().  It counts operations that change
 * files (writes, syncs, truncations), lets the n-th fail, or cuts the power at the n-th: everything that was not synced
 * is undone, and the process ends. */
#ifndef TEST_SQLITE_FAULTY_VFS_H
#define TEST_SQLITE_FAULTY_VFS_H

#include <stdbool.h>

#define POWER_LOSS_EXIT 42

void faulty_install(void);
void faulty_remove(void);

/* The n-th change from now fails with `code` (SQLITE_FULL, SQLITE_IOERR: the right kind of it
 * for the operation), once, or this and all after it. */
void faulty_fail(long n, int code, bool for_ever);
/* At the n-th change from now the power goes.  Of what was not synced each piece survives with
 * probability luck (0: nothing does), decided by seed. */
void faulty_power_loss(long n, double luck, unsigned long seed);
void faulty_no_temporary_files(void); /* none can be opened */
void faulty_calm(void);               /* no more faults */

long faulty_hits(void); /* how often a fault was injected since faulty_fail() */

#endif
