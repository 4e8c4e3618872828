/* The real daemon, seen from outside: its memory, and its cost while idle. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bare.h"
#include "base/error.h"
#include "bench.h"
#include "daemon.h"
#include "report.h"

#define IDLE_MB_AT_MOST 20.0
#define IDLE_CPU_AT_MOST 1.0 /* per cent of one core */
#define START_TIMEOUT_S 20
#define SETTLE_S 1
#define AT_WORK_S 4

/* ---- The process --------------------------------------------------------------------------- */

pid_t daemon_start(const struct bench *b, const char *url, int lease_s)
{
    static int started;
    char name[32];
    snprintf(name, sizeof name, "daemon-%d.yaml", ++started); /* nobody reads what is being written */
    const char *path = bench_path(b, name);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        die("cannot write %s", path);
    fprintf(file,
            "store: \"%s\"\nendpoints: {sink: {url: \"null:\"}}\nroutes: [{to: sink}]\nlog: {level: error}\n"
            "lease: %ds\n",
            url, lease_s);
    fclose(file);

    pid_t pid = fork();
    if (pid < 0)
        die("cannot fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(STDERR_FILENO, STDOUT_FILENO); /* our own stdout is for results */
        execl(b->program, "postrider", "run", "-c", path, (char *)NULL);
        die("cannot run %s", b->program);
    }
    return pid;
}

static void daemon_await(const char *db, pid_t pid)
{
    sqlite3 *conn = bare_open(db, 0);
    double deadline = seconds_now() + START_TIMEOUT_S;
    while (bare_number(conn, "SELECT count(*) FROM postrider_instance WHERE lanes > 0 AND box = 'outbox'") == 0) {
        if (seconds_now() > deadline || waitpid(pid, NULL, WNOHANG) != 0)
            die("the daemon does not come up");
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    bare_close(conn);
}

void daemon_stop(pid_t pid)
{
    int status;
    kill(pid, SIGTERM);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die("the daemon did not stop cleanly: status %d", status);
}

static void pause_seconds(size_t seconds)
{
    nanosleep(&(struct timespec){ .tv_sec = (time_t)seconds }, NULL);
}

/* ---- What the kernel says ------------------------------------------------------------------- */

/* VmRSS or VmHWM in MB (10^6 bytes). */
double daemon_memory_mb(pid_t pid, const char *key)
{
    char name[64], line[256];
    double kib = -1;
    snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
    FILE *file = fopen(name, "r");
    if (file == NULL)
        die("cannot read %s", name);
    while (kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
            kib = strtod(line + strlen(key) + 1, NULL);
    fclose(file);
    if (kib < 0)
        die("%s says nothing of %s", name, key);
    return kib * 1024 / 1e6;
}

/* Time on a processor, all threads: schedstat counts nanoseconds, stat only ticks. */
double daemon_cpu_seconds(pid_t pid)
{
    char name[512];
    double ns = 0;
    struct dirent *entry;
    snprintf(name, sizeof name, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(name);
    if (dir == NULL)
        die("cannot read %s", name);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        unsigned long long thread_ns = 0;
        snprintf(name, sizeof name, "/proc/%d/task/%s/schedstat", (int)pid, entry->d_name);
        FILE *file = fopen(name, "r");
        if (file == NULL || fscanf(file, "%llu", &thread_ns) != 1)
            die("cannot read %s", name);
        fclose(file);
        ns += (double)thread_ns;
    }
    closedir(dir);
    return ns / 1e9;
}

/* ---- Measuring --------------------------------------------------------------------------------- */

void bench_idle(const struct bench *b)
{
    const char *db = bench_path(b, "idle.db");
    progress(b, "idle: watching the daemon for %zu s", b->idle_s);
    bare_create(db);
    pid_t pid = daemon_start(b, bare_url(db), DAEMON_LEASE_S);
    daemon_await(db, pid);
    pause_seconds(SETTLE_S);

    double cpu = daemon_cpu_seconds(pid), begin = seconds_now();
    pause_seconds(b->idle_s);
    double percent = (daemon_cpu_seconds(pid) - cpu) / (seconds_now() - begin) * 100;
    double mb = daemon_memory_mb(pid, "VmRSS"), peak = daemon_memory_mb(pid, "VmHWM");
    daemon_stop(pid);
    bare_remove(db);

    report_value("idle_cpu", percent, "% of a core", BOUND_AT_MOST, IDLE_CPU_AT_MOST);
    report_value("idle_memory", mb, "MB", BOUND_AT_MOST, IDLE_MB_AT_MOST);
    report_value("idle_memory_peak", peak, "MB", BOUND_NONE, 0);
}

void bench_memory(const struct bench *b)
{
    const char *db = bench_path(b, "deep.db");
    if (access(db, F_OK) != 0) {
        progress(b, "making a backlog of %zu messages", b->deep);
        bare_fill(db, &(struct stock){ .count = b->deep });
    }
    size_t at_work_s = b->quick ? 1 : AT_WORK_S;
    progress(b, "memory: the daemon drains the deep backlog for %zu s", at_work_s);
    pid_t pid = daemon_start(b, bare_url(db), DAEMON_LEASE_S);
    daemon_await(db, pid);
    pause_seconds(at_work_s);
    double peak = daemon_memory_mb(pid, "VmHWM");
    daemon_stop(pid);

    sqlite3 *conn = bare_open(db, 0);
    int64_t left = bare_number(conn, "SELECT max(row_id) - min(row_id) + 1 FROM outbox");
    bare_close(conn);
    progress(b, "memory: %lld messages still wait", (long long)left);
    bare_remove(db);
    report_value("deep_memory_peak", peak, "MB", BOUND_AT_MOST, DEEP_MB_AT_MOST);
}
