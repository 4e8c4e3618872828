/* writers.h - those of this process that write to one database file, one after the other, in the order in which they came.
 *
 * SQLite has no such order: whoever finds the file locked pauses and asks again, so the file is idle until the pause is
 * over, and whoever comes last may be first.  Here each one is woken by the end of the one before.  This only keeps an
 * order; the lock is SQLite's.  Other processes, and connections of the application, take no part.
 *
 * Threads: any. */
#ifndef STORE_SQLITE_WRITERS_H
#define STORE_SQLITE_WRITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_name { /* identifies a file, whatever file has its name now; number 0: none */
    uint64_t device, number;
};

struct writers; /* of one file */

struct writers *writers_join(struct file_name file); /* NULL: no memory */
void writers_leave(struct writers *w);               /* NULL is allowed */

/* Returns true as soon as it is the caller's turn; false after this time: then the caller must not call writers_end(). */
bool writers_begin(struct writers *w, int64_t timeout_us);
void writers_end(struct writers *w);

size_t writers_waiting(struct writers *w);

#endif
