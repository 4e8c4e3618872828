#include "base/failpoint.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char wanted[128]; /* empty: no failpoint */
static atomic_long left;

static void arm(const char *text)
{
    size_t size = text != NULL ? strcspn(text, ":") : 0;
    if (size >= sizeof(wanted))
        size = 0;
    memset(wanted, 0, sizeof(wanted));
    if (size > 0)
        memcpy(wanted, text, size);
    left = size > 0 && text[size] == ':' ? strtol(text + size + 1, NULL, 10) : 1;
}

static void read_environment(void)
{
    arm(getenv("POSTRIDER_FAILPOINT"));
}

void failpoint_arm(const char *text)
{
    pthread_once(&once, read_environment);
    arm(text);
}

void failpoint(const char *name)
{
    pthread_once(&once, read_environment);
    if (wanted[0] != '\0' && strcmp(wanted, name) == 0 && atomic_fetch_sub(&left, 1) == 1)
        raise(SIGKILL);
}
