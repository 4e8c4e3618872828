/* world.h - one source at a real broker, its box, and a store that can be made to refuse. */
#ifndef TEST_SOURCE_WORLD_H
#define TEST_SOURCE_WORLD_H

#include <pthread.h>
#include <unistd.h>

#include "source/source.h"

#define WAIT_US PR_SECONDS(90)
#define POST_PAIRS_MAX 16

struct pair {
    const char *name;
    pr_slice value;
};

/* What somebody else sends: the harness writes it as its broker's binding has it. */
struct post {
    struct pair attributes[POST_PAIRS_MAX]; /* of a CloudEvent in binary mode, without a prefix; none: it is no event */
    struct pair headers[POST_PAIRS_MAX];
    const char *content_type; /* NULL: none */
    const char *message_id;   /* the broker's own; NULL: none */
    pr_slice body;
};

struct world;

struct harness {
    const char *kind;
    bool is_positioned;             /* a message without an id has a position, so that it is stored once */
    bool keeps_position;            /* in the store: nothing comes twice */
    bool has_headers;               /* beside attributes */
    bool has_ids;                   /* the broker has ids of its own that senders set */
    bool gives_back_late;           /* what a reader had that died comes again after half a minute */
    bool is_batched;                /* an answer holds many messages, so that one may be larger than others can */
    void (*start)(struct world *w); /* a server, an empty place in it, and the url */
    void (*publish)(struct world *w, const struct post *post);
    void (*restart)(struct world *w); /* the server goes and comes back with what it had */
    void (*sever)(struct world *w);   /* connections are cut; may be NULL */
    /* How many messages it would deliver (again), when nobody reads; -1: it cannot tell. */
    int64_t (*left)(struct world *w);
};

/* What becomes of a batch. */
enum store_mood {
    STORE_FINE,
    STORE_REFUSES,     /* nothing is stored */
    STORE_LOSES_ANSWER /* it is stored, and nobody hears of it */
};

struct world {
    const struct harness *harness;
    char url[512];
    const char *name;
    struct arena arena;
    char store_url[512];
    struct store store;
    struct source_config config;
    struct source source;
    size_t payload_max; /* the limit of the source */
    int wake_fd;
    pthread_t thread;
    bool runs;
};

extern const struct harness *const harness_here; /* of this program */

void world_init(struct world *w);
/* In two steps, for two processes: the second one has a store of its own, in this file. */
void world_init_at(struct world *w, const char *file);
void world_open_store(struct world *w);
void world_fini(struct world *w);
struct source world_source(struct world *w, uint64_t waiting_max); /* its owner's part; not open */
void world_run(struct world *w, uint64_t waiting_max);             /* starts the source */
void world_stop(struct world *w);                                  /* how long that took is checked */
void world_mood(enum store_mood mood);
unsigned world_refusals(void); /* since the mood was set */

/* Messages of the box in the order of its rows; waits until there are so many. */
const struct query_reply *world_rows(struct world *w, size_t count);
const struct query_reply *world_dead(struct world *w, size_t count);
bool world_has(struct world *w, pr_slice payload); /* is there a row with it? */
struct source_status world_status(struct world *w);

/* Waits until it holds, with a deadline. */
#define WAIT_FOR(condition)                                                                                            \
    for (int64_t until_us_ = clock_mono_us(clock_system()) + WAIT_US; !(condition); usleep(2000))                      \
    CHECK(clock_mono_us(clock_system()) < until_us_)

#endif
