/* asleep.h - a process that sleeps (SIGSTOP) while others continue with its store. */
#ifndef TEST_SQLITE_ASLEEP_H
#define TEST_SQLITE_ASLEEP_H

#include <sqlite3.h>
#include <sys/types.h>

/* A child that has db open, too.  Sent to sleep in the middle of a write it would keep all others out, and nobody
 * could take over: then it is woken, and it is tried again. */
void put_to_sleep(pid_t pid, sqlite3 *db);

#endif
