#include "fault.h"

#include <stdbool.h>
#include <stddef.h>

static long countdown;

void fault_after(long nth)
{
    countdown = nth;
}

long fault_left(void)
{
    return countdown;
}

static bool fault_now(void)
{
    return countdown > 0 && --countdown == 0;
}

/* What the linker makes of calls to malloc, calloc, realloc and strdup. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fault_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fault_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fault_now() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return fault_now() ? NULL : __real_strdup(text);
}
