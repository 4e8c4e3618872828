#include <postrider.h>

PR_API const char *pr_version(void)
{
    return POSTRIDER_VERSION;
}
