/* Completing a message in the caller's own SQLite transaction; for PostgreSQL see postgres.c. */
#include "core/completion.h"

#include "base/time.h"
#include "lib/lib.h"
#include "store/sqlite/send.h"
#include "transport/handler_context.h"

void lib_completed(struct pr_context *context)
{
    if (context->completed_us == 0)
        context->completed_us = clock_mono_us(context->clock);
}

PR_API int pr_complete_sqlite(struct pr_context *context, struct sqlite3 *db, struct pr_error *reterr)
{
    struct completion completion;
    if (context == NULL || db == NULL)
        return lib_missing(context == NULL ? "context" : "db", reterr);
    int rc = context_completion(context, &completion, reterr);
    if (rc == PR_OK)
        rc = sqlite_complete(db, &completion, reterr);
    if (rc == PR_OK)
        lib_completed(context);
    return rc;
}
