/* parts.h - the parts of relay.h that its files share. */
#ifndef RUNTIME_RELAY_PARTS_H
#define RUNTIME_RELAY_PARTS_H

#include "base/time.h"
#include "runtime/relay/relay.h"
#include "runtime/threads/schedule_keeper.h"

#define RETUNES_MAX 100 /* then a new relay is made, which drops all old settings */

struct relay {
    struct relay_options options;
    struct setting *setting; /* the current one; earlier ones are kept, since much borrows from them */
    struct setting *next;    /* the one that boxes are already switching to */
    struct past {
        struct setting *setting;
        struct config *config;
    } past[RETUNES_MAX];
    size_t past_count;
    size_t first_count; /* endpoints of the first setting */
    struct monitor monitor;
    struct limits *limits; /* shared by all boxes */
    pthread_mutex_t *limit_locks;
    size_t limit_lock_count;
    struct caller caller;
    struct flows *flows;
    struct inliner *inliner;
    struct source_threads *sources, *next_sources, *gone_sources;
    pthread_mutex_t sources_lock; /* guards `sources` for the keeper: other users are excluded by the runtime's lock */
    struct schedule_keeper *keeper;
    struct box_loop **box_loops;
    size_t box_loop_count;
    size_t started;
    pthread_mutex_t drain_lock; /* one drain at a time: looks are numbered */
    uint64_t look;
};

static inline int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

/* Waits, with the monitor held, until the condition is true of all boxes that were started. */
bool relay_wait(struct relay *r, bool (*is_true)(const struct box_loop_view *view, uint64_t arg), uint64_t arg,
                int64_t deadline_us);
PR_MUST_CHECK int relay_make_setting(const struct relay *r, const struct config *config, struct setting **ret,
                                     struct pr_error *reterr);
void relay_free_setting(struct setting *s); /* NULL is allowed */
/* All boxes together; by the setting's index. */
void relay_sum_endpoint(struct relay *r, size_t index, struct endpoint_view *ret_view);

#endif
