#include "runtime/threads/mover.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "runtime/threads/thread.h"

#define TROUBLE_FIRST_US PR_MILLISECONDS(50) /* after a fault: ever longer, up to the last */
#define TROUBLE_LAST_US PR_SECONDS(5)
#define ARENA_BLOCK 16384

struct mover {
    struct movers *all;
    const struct config_source *source;
    struct adopter adopter;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* over trouble */
    struct pr_error trouble;
};

struct movers {
    struct movers_options options;
    struct mover *list;
    size_t count;
    int wake_fd;
    atomic_bool stops;
};

/* ---- The thread ---------------------------------------------------------------------------- */

/* The log hears of a trouble when it begins, when it becomes another one, and when it is over. */
static void tell(struct mover *m, const struct pr_error *trouble)
{
    const struct log *log = m->all->options.log;
    const char *table = m->source->table.table;
    ASSERT(pthread_mutex_lock(&m->lock) == 0);
    bool changed = m->trouble.code != trouble->code ||
                   (trouble->code == PR_ECONFIG && strcmp(m->trouble.text, trouble->text) != 0);
    m->trouble = *trouble;
    ASSERT(pthread_mutex_unlock(&m->lock) == 0);
    if (changed && trouble->code != PR_OK)
        log_emit(log, LOG_WARN, "source_trouble", LOG_STR("table", table), LOG_STR("error", trouble->text));
    else if (changed)
        log_emit(log, LOG_INFO, "source_recovered", LOG_STR("table", table));
}

static void log_moved(const struct mover *m, const struct adopt_moved *moved)
{
    const struct log *log = m->all->options.log;
    const char *table = m->source->table.table;
    if (moved->stored + moved->duplicates > 0)
        log_emit(log, LOG_DEBUG, "adopted", LOG_STR("table", table), LOG_STR("box", m->source->box),
                 LOG_INT("stored", moved->stored), LOG_INT("duplicates", moved->duplicates));
    if (moved->dead > 0)
        log_emit(log, LOG_WARN, "adopted_as_dead_letters", LOG_STR("table", table), LOG_STR("box", m->source->box),
                 LOG_INT("count", moved->dead));
    if (moved->left > 0)
        log_emit(log, LOG_WARN, "row_left_alone", LOG_STR("table", table), LOG_STR("error", moved->left_why.text));
}

/* Move once; how long to wait before the next time. */
static int64_t step(struct mover *m, int64_t pause_us, int64_t *left_until_us)
{
    struct adopt_moved moved;
    struct pr_error error = { 0 };
    const int64_t shortest_us = m->all->options.config->poll_min_us, now_us = clock_mono_us(clock_system());
    int rc = store_adopt_move(&m->adopter, &moved, &error);
    if (rc != PR_OK) {
        tell(m, &error);
        return min64(max64(2 * pause_us, TROUBLE_FIRST_US), TROUBLE_LAST_US);
    }
    log_moved(m, &moved);
    if (moved.left > 0) {
        *left_until_us = time_add(now_us, ADOPT_LEFT_US);
        tell(m, &moved.left_why);
    } else if (now_us >= *left_until_us) {
        tell(m, &(struct pr_error){ 0 });
    }
    if (moved.more)
        return 0;
    bool busy = moved.stored + moved.duplicates + moved.dead > 0;
    return busy ? shortest_us : min64(max64(2 * pause_us, shortest_us), m->source->poll_us);
}

static void *mover_run(void *arg)
{
    struct mover *m = arg;
    int64_t pause_us = 0, left_until_us = 0;
    while (!atomic_load(&m->all->stops)) {
        pause_us = step(m, pause_us, &left_until_us);
        if (pause_us > 0)
            wake_wait(m->all->wake_fd, pause_us);
    }
    return NULL;
}

/* ---- From new to free ------------------------------------------------------------------------- */

static int mover_check(struct mover *m, struct pr_error *reterr)
{
    const struct adoption *adoption = &m->source->table;
    struct adopt_report report;
    struct arena arena;
    arena_init(&arena, ARENA_BLOCK);
    int rc = store_adopt_check(m->all->options.store, adoption, &arena, &report, reterr);
    const struct adopt_finding *error = rc == PR_OK ? adopt_report_error(&report) : NULL;
    if (error != NULL)
        rc = error_set(reterr, PR_ECONFIG, "source %s: %s", adoption->table, error->text);
    arena_fini(&arena);
    return rc;
}

int movers_new(const struct movers_options *options, struct movers **ret, struct pr_error *reterr)
{
    size_t count = options->config->source_count;
    struct movers *m = calloc(1, sizeof *m);
    if (m == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for %zu sources", count);
    m->options = *options;
    m->list = calloc(count > 0 ? count : 1, sizeof m->list[0]);
    m->wake_fd = -1;
    int rc = m->list != NULL ? wake_open(&m->wake_fd, reterr)
                             : error_set(reterr, PR_ENOMEM, "no memory for %zu sources", count);
    for (size_t i = 0; rc == PR_OK && i < count; i++) {
        if (options->config->sources[i].kind != SOURCE_TABLE)
            continue;
        struct mover *one = &m->list[m->count++];
        one->all = m;
        one->source = &options->config->sources[i];
        ASSERT(pthread_mutex_init(&one->lock, NULL) == 0);
        rc = mover_check(one, reterr);
        if (rc == PR_OK)
            rc = store_adopt_open(options->store, &one->source->table, &one->adopter, reterr);
    }
    if (rc != PR_OK) {
        movers_free(m);
        return rc;
    }
    *ret = m;
    return PR_OK;
}

int movers_start(struct movers *m, struct pr_error *reterr)
{
    for (size_t i = 0; i < m->count; i++) {
        int rc = thread_start(&m->list[i].thread, THREAD_STACK_LOOP, "source", mover_run, &m->list[i], reterr);
        if (rc != PR_OK) {
            movers_stop(m);
            return rc;
        }
        m->list[i].runs = true;
    }
    return PR_OK;
}

void movers_stop(struct movers *m)
{
    atomic_store(&m->stops, true);
    wake_send(m->wake_fd);
}

void movers_free(struct movers *m)
{
    if (m == NULL)
        return;
    if (m->wake_fd >= 0)
        movers_stop(m);
    for (size_t i = 0; i < m->count; i++) {
        if (m->list[i].runs)
            ASSERT(pthread_join(m->list[i].thread, NULL) == 0);
        store_adopt_close(&m->list[i].adopter);
        pthread_mutex_destroy(&m->list[i].lock);
    }
    wake_close(m->wake_fd);
    free(m->list);
    free(m);
}

int movers_trouble(struct movers *m, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (size_t i = 0; i < m->count && rc == PR_OK; i++) {
        struct mover *one = &m->list[i];
        ASSERT(pthread_mutex_lock(&one->lock) == 0);
        if (one->trouble.code != PR_OK)
            rc = error_set(reterr, one->trouble.code, "source %s: %s", one->source->table.table, one->trouble.text);
        ASSERT(pthread_mutex_unlock(&one->lock) == 0);
    }
    return rc;
}
