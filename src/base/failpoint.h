/* failpoint.h - named steps at which a test can kill the process.
 *
 *     FAILPOINT("store.cycle.before_commit");
 *
 * With POSTRIDER_FAILPOINT=store.cycle.before_commit:3 in the environment the third passing
 * of that point is the process's last.  Compiled in only with -DPOSTRIDER_FAILPOINTS.
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#ifdef POSTRIDER_FAILPOINTS
#define FAILPOINT(name) failpoint(name)
#else
#define FAILPOINT(name) ((void)0)
#endif

/* Raises SIGKILL when the environment names this point and its turn has come.  Any thread. */
void failpoint(const char *name);

/* As the environment would, for a process that has begun already; NULL: no point. */
void failpoint_arm(const char *text);

#endif
