/* failpoint.h - named steps at which a test can kill the process.
 *
 *     FAILPOINT("store.cycle.before_commit");
 *
 * With POSTRIDER_FAILPOINT=store.cycle.before_commit:3 in the environment, the process kills itself when it passes this
 * point for the third time.  Compiled in only with -DPOSTRIDER_FAILPOINTS. */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#ifdef POSTRIDER_FAILPOINTS
#define FAILPOINT(name) failpoint(name)
#else
#define FAILPOINT(name) ((void)0)
#endif

/* Raise SIGKILL when the environment names this point and its count is reached.  Any thread may call it. */
void failpoint(const char *name);

/* Set the failpoint of a running process, in the format of the environment variable; NULL: none. */
void failpoint_arm(const char *text);

#endif
