#include "runtime/threads/crash.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

#define LINE_SIZE 1024
#define NAME_SIZE 16 /* the kernel's limit */

static const struct fault {
    int signal;
    const char *name;
} faults[] = {
    { SIGSEGV, "SIGSEGV" }, { SIGBUS, "SIGBUS" }, { SIGFPE, "SIGFPE" }, { SIGILL, "SIGILL" }, { SIGABRT, "SIGABRT" },
};

static const char why_sender[] = "the thread that sends to this endpoint crashed; each message being sent counts as an "
                                 "attempt, and repeated crashes quarantine it";
static const char why_other[] = "this thread crashed; each message being sent counts as an attempt";

static int report_fd = -1;
static enum log_format report_format;

static _Thread_local const char *volatile sends_for; /* NULL: this thread does not send */

void crash_thread_begin(struct crash_thread *t, const char *endpoint)
{
    stack_t stack = { .ss_sp = t->stack, .ss_size = sizeof(t->stack) };
    (void)sigaltstack(&stack, NULL); /* without it only a stack overflow goes unreported */
    sends_for = endpoint;
}

void crash_thread_end(void)
{
    stack_t none = { .ss_flags = SS_DISABLE };
    sends_for = NULL;
    (void)sigaltstack(&none, NULL);
}

/* ---- In the handler: nothing that takes a lock or memory ------------------------------------------ */

struct crash_line {
    char text[LINE_SIZE];
    size_t size;
};

static void add_char(struct crash_line *l, char c)
{
    if (l->size < LINE_SIZE)
        l->text[l->size++] = c;
}

static void add(struct crash_line *l, const char *text)
{
    while (*text != '\0')
        add_char(l, *text++);
}

static void add_number(struct crash_line *l, int64_t number, int digits)
{
    char text[20];
    int count = 0;
    for (; count < digits || number > 0; number /= 10)
        text[count++] = (char)('0' + number % 10);
    while (count > 0)
        add_char(l, text[--count]);
}

/* RFC 3339, UTC; the calendar counts from 1 March 0000, so that a leap day ends a year. */
static void add_time(struct crash_line *l)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    int64_t days = now.tv_sec / 86400 + 719468, second = now.tv_sec % 86400;
    int64_t era = days / 146097, day_of_era = days % 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153, day = day_of_year - (153 * month + 2) / 5 + 1;
    month += month < 10 ? 3 : -9;
    add_number(l, year_of_era + era * 400 + (month <= 2), 4);
    add_char(l, '-');
    add_number(l, month, 2);
    add_char(l, '-');
    add_number(l, day, 2);
    add_char(l, 'T');
    add_number(l, second / 3600, 2);
    add_char(l, ':');
    add_number(l, second / 60 % 60, 2);
    add_char(l, ':');
    add_number(l, second % 60, 2);
    add_char(l, '.');
    add_number(l, now.tv_nsec / 1000, 6);
    add_char(l, 'Z');
}

/* Quoted in both formats; names have no control characters, and anything worse is left out. */
static void add_field(struct crash_line *l, const char *key, const char *value)
{
    add(l, report_format == LOG_JSON ? ",\"" : " ");
    add(l, key);
    add(l, report_format == LOG_JSON ? "\":\"" : "=\"");
    for (; *value != '\0'; value++)
        if ((unsigned char)*value >= ' ' && *value != '"' && *value != '\\')
            add_char(l, *value);
    add_char(l, '"');
}

static const char *name_of(int number)
{
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++)
        if (faults[i].signal == number)
            return faults[i].name;
    return "?";
}

static void write_line(int number)
{
    struct crash_line l;
    char thread[NAME_SIZE] = "";
    l.size = 0;
    (void)prctl(PR_GET_NAME, thread, 0, 0, 0);
    add(&l, report_format == LOG_JSON ? "{\"time\":\"" : "time=");
    add_time(&l);
    add(&l, report_format == LOG_JSON ? "\",\"level\":\"error\",\"event\":\"crash\"" : " level=error event=crash");
    add_field(&l, "signal", name_of(number));
    add_field(&l, sends_for != NULL ? "endpoint" : "thread", sends_for != NULL ? sends_for : thread);
    add_field(&l, "why", sends_for != NULL ? why_sender : why_other);
    add(&l, report_format == LOG_JSON ? "}\n" : "\n");
    ssize_t written = write(report_fd, l.text, l.size);
    (void)written; /* nobody could be informed */
}

/* The default action is restored by then (SA_RESETHAND): a fault happens again on return, and its core shows where.  A
 * signal that somebody sent does not, so it is sent again. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    write_line(number);
    if (info->si_code <= 0 && number != SIGABRT)
        (void)raise(number); /* on return: it is blocked here */
}

void crash_report_to(int fd, enum log_format format)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND };
    report_fd = fd;
    report_format = format;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++) {
        struct sigaction old;
        if (sigaction(faults[i].signal, NULL, &old) == 0 && (old.sa_flags & SA_SIGINFO) == 0 &&
            old.sa_handler == SIG_DFL)
            (void)sigaction(faults[i].signal, &action, NULL);
    }
}
