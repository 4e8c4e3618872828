#include "asleep.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/time.h"
#include "check.h"

#define WAIT_US PR_SECONDS(90)
#define BUSY_MS 200 /* for the writes of those who are awake */

void put_to_sleep(pid_t pid, sqlite3 *db)
{
    int64_t end_us = clock_mono_us(clock_system()) + WAIT_US;
    sqlite3_busy_timeout(db, BUSY_MS);
    for (;;) {
        siginfo_t stopped;
        CHECK_EQ(kill(pid, SIGSTOP), 0);
        CHECK_EQ(waitid(P_PID, (id_t)pid, &stopped, WSTOPPED), 0);
        if (sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) == SQLITE_OK)
            return;
        CHECK_EQ(kill(pid, SIGCONT), 0);
        CHECK(clock_mono_us(clock_system()) < end_us);
    }
}
