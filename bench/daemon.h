/* daemon.h - the real daemon, seen from outside. */
#ifndef BENCH_DAEMON_H
#define BENCH_DAEMON_H

#include <sys/types.h>

#include "bench.h"

#define DEEP_MB_AT_MOST 100.0 /* however many wait */
#define DAEMON_LEASE_S 15     /* unless said otherwise in its config */

/* Its endpoint "sink" is the null transport. */
pid_t daemon_start(const struct bench *b, const char *url, int lease_s);
void daemon_stop(pid_t pid);
/* Time on a processor, all threads: schedstat counts nanoseconds, stat only ticks. */
double daemon_cpu_seconds(pid_t pid);
/* VmRSS, or VmHWM: the most it ever had. */
double daemon_memory_mb(pid_t pid, const char *key);

#endif
