/* worker.h - completing a worker's message in the caller's own transaction, for either database. */
#ifndef LIB_WORKER_H
#define LIB_WORKER_H

#include "core/completion.h"

/* conn: the caller's connection; url: of the worker's store. */
typedef int worker_end(void *conn, const char *url, const struct completion *completion, struct pr_error *reterr);

PR_MUST_CHECK int worker_complete(struct pr_worker *worker, const struct pr_verdict *verdict, worker_end *end,
                                  void *conn, struct pr_error *reterr);

#endif
