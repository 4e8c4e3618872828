#include "base/failpoint.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char           wanted[128]; /* empty: none */
static atomic_long    left;

static void read_environment(void)
{
    const char *text = getenv("POSTRIDER_FAILPOINT");
    if (text == NULL)
        return;
    size_t size = strcspn(text, ":");
    if (size >= sizeof(wanted))
        return;
    memcpy(wanted, text, size);
    left = text[size] == ':' ? strtol(text + size + 1, NULL, 10) : 1;
}

void failpoint(const char *name)
{
    pthread_once(&once, read_environment);
    if (wanted[0] != '\0' && strcmp(wanted, name) == 0 && atomic_fetch_sub(&left, 1) == 1)
        raise(SIGKILL);
}
