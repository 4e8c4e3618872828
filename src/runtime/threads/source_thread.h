/* source_thread.h - running the sources of a configuration: a thread for each. */
#ifndef RUNTIME_THREADS_SOURCE_THREAD_H
#define RUNTIME_THREADS_SOURCE_THREAD_H

#include "base/buf.h"
#include "runtime/config/config.h"
#include "source/source.h"

struct source_threads;

/* Opens every source, except those that run in old (NULL: none); the arguments are borrowed until free.  Fault
 * PR_ECONFIG: one cannot be used; the text has the reason and advice. */
PR_MUST_CHECK int source_threads_new(const struct source_threads *old, const struct config *config, struct store *store,
                                     struct log *log, struct source_threads **ret, struct pr_error *reterr);
PR_MUST_CHECK int source_threads_start(struct source_threads *t, struct pr_error *reterr);
/* Instead of start: t, which was made from old with this configuration, takes over.  Common sources continue, the
 * others of old end before anything starts; old still answers for its status, and must be freed before t. */
void source_threads_follow(struct source_threads *t, struct source_threads *old, const struct config *config);
/* Nothing more is read after the current transaction; does not wait for it. */
void source_threads_stop(struct source_threads *t);
void source_threads_join(struct source_threads *t); /* stop them first */
/* Stops and waits, too.  NULL is allowed. */
void source_threads_free(struct source_threads *t);

#define SOURCES_TEXT_MAX 4096
/* The errors of sources that have been in trouble for a while, one line each, as far as there is room. */
void source_threads_describe(struct source_threads *t, struct buf *ret);
/* False: it works, or did a moment ago: a broker that restarts is not an error. */
bool source_is_failing(const struct source_status *status);
/* What went wrong, and advice; brokers give only the former.  One line, without a newline. */
void source_describe(const struct source_status *status, struct buf *ret);

size_t source_threads_count(const struct source_threads *t);
void source_threads_status(struct source_threads *t, size_t index, struct source_status *ret);

#endif
