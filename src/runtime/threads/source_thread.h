/* source_thread.h - the sources of a configuration at work: a thread for each. */
#ifndef RUNTIME_THREADS_SOURCE_THREAD_H
#define RUNTIME_THREADS_SOURCE_THREAD_H

#include "base/buf.h"
#include "runtime/config/config.h"
#include "source/source.h"

struct source_threads;

/* Opens every source, but those that run already in old (NULL: none); the arguments are borrowed until free.  Fault
 * PR_ECONFIG: one will not do; the text says why and what to do. */
PR_MUST_CHECK int source_threads_new(const struct source_threads *old, const struct config *config, struct store *store,
                                     struct log *log, struct source_threads **ret, struct pr_error *reterr);
PR_MUST_CHECK int source_threads_start(struct source_threads *t, struct pr_error *reterr);
/* Instead of start: t, which was made of old by this configuration, takes over.  What both have goes on, the rest of old ends
 * before anything starts; old still answers for its status, and is to be freed before t is. */
void source_threads_follow(struct source_threads *t, struct source_threads *old, const struct config *config);
/* Nothing more is read after the transaction that is under way; does not wait for it. */
void source_threads_stop(struct source_threads *t);
void source_threads_join(struct source_threads *t); /* stop them first */
/* Stops and waits, too.  NULL is fine. */
void source_threads_free(struct source_threads *t);

#define SOURCES_TEXT_MAX 4096
/* What is wrong with those that have been in trouble for a while, a line each, as far as there is room. */
void source_threads_describe(struct source_threads *t, struct buf *ret);
/* False: it is well, or was a moment ago: a broker that is started again is no news. */
bool source_is_failing(const struct source_status *status);
/* What went wrong, and what to do: those at brokers say only the first.  One line, without its end. */
void source_describe(const struct source_status *status, struct buf *ret);

size_t source_threads_count(const struct source_threads *t);
void source_threads_status(struct source_threads *t, size_t index, struct source_status *ret);

#endif
