/* news.h - what was sent inline, on its way from the callers' threads to the engine of their box.
 *
 * Many put, one takes.  Successes in a row become one entry, so that a fast sender does not fill
 * the list; when it is full the rest is counted, and only the breaker does not hear of it. */
#ifndef RUNTIME_NEWS_H
#define RUNTIME_NEWS_H

#include <pthread.h>

#include "engine/engine.h"

#define NEWS_MAX 4096

struct news {
    pthread_mutex_t lock;
    struct engine_news *entries;
    size_t count;
    struct engine_news *uncounted; /* by endpoint: of what found no place */
    size_t endpoint_count;
    int wake_fd; /* borrowed: told when there is something */
};

/* PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int news_init(struct news *news, size_t endpoint_count, int wake_fd);
void news_fini(struct news *news);                               /* safe on a zeroed one */
void news_put(struct news *news, const struct engine_news *one); /* copies the type */
/* Tells the engine everything. */
void news_tell(struct news *news, struct engine *engine, int64_t now_us);

#endif
