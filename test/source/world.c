#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "check.h"
#include "store/sql.h"

#define STOP_MAX_US PR_SECONDS(3) /* on a busy machine; an idle one takes milliseconds */

/* ---- A store with moods ----------------------------------------------------------------------------- */

static struct store_ops moody;
static const struct store_ops *real;
static enum store_mood mood_now;
static unsigned refusals;

static int moody_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                         struct pr_error *reterr)
{
    enum store_mood mood = __atomic_load_n(&mood_now, __ATOMIC_SEQ_CST);
    int rc = mood == STORE_REFUSES ? PR_OK : real->enqueue(self, box, messages, count, answers, reterr);
    if (mood == STORE_FINE || rc != PR_OK)
        return rc;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    return error_set(reterr, PR_ESTORE, "the store is in a bad mood");
}

/* What is stored with a position goes this way. */
static struct sql_ops moody_sql;
static const struct sql_ops *real_sql;

static int moody_begin(void *store, enum sql_purpose purpose, struct sql *sql)
{
    if (purpose != SQL_WRITE || __atomic_load_n(&mood_now, __ATOMIC_SEQ_CST) != STORE_REFUSES) {
        int rc = real_sql->begin(store, purpose, sql);
        sql->ops = &moody_sql;
        return rc;
    }
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    return error_set(sql->reterr, PR_ESTORE, "the store is in a bad mood");
}

static int moody_commit(struct sql *sql)
{
    int rc = real_sql->commit(sql);
    if (rc != PR_OK || __atomic_load_n(&mood_now, __ATOMIC_SEQ_CST) != STORE_LOSES_ANSWER)
        return rc;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    return error_set(sql->reterr, PR_ESTORE, "the store is in a bad mood");
}

void world_mood(enum store_mood mood)
{
    __atomic_store_n(&refusals, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&mood_now, mood, __ATOMIC_SEQ_CST);
}

unsigned world_refusals(void)
{
    return __atomic_load_n(&refusals, __ATOMIC_SEQ_CST);
}

/* ---- The world ------------------------------------------------------------------------------------------ */

static enum source_kind kind_of(const char *word)
{
    int kind = SOURCE_FIRST_WITH_URL;
    while (strcmp(source_kind_names[kind], word) != 0)
        CHECK(++kind < SOURCE_KIND_COUNT);
    return (enum source_kind)kind;
}

/* SQLite in memory (or in this file), or where the environment names a server (test/postgres/cluster.sh) a schema of its own there. */
static const char *empty_store(const char *file, char *ret, size_t size)
{
    static unsigned count;
    const char *server = getenv("POSTRIDER_TEST_PG");
    if (server == NULL) {
        snprintf(ret, size, "sqlite:%s", file != NULL ? file : ":memory:");
        return ret;
    }
    snprintf(ret, size, "%s%cschema=source_%d_%u", server, strchr(server, '?') != NULL ? '&' : '?', (int)getpid(),
             ++count);
    return ret;
}

void world_init_at(struct world *w, const char *file)
{
    struct pr_error error = { 0 };
    if (w->runs) /* a test before this one has failed */
        world_fini(w);
    *w = (struct world){ .harness = harness_here, .payload_max = 65536 };
    arena_init(&w->arena, 65536);
    world_mood(STORE_FINE);
    w->harness->start(w);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(w->wake_fd >= 0);
    empty_store(file, w->store_url, sizeof(w->store_url));
    w->config.kind = kind_of(w->harness->kind);
    for (int i = 0; i < SOURCE_KIND_COUNT; i++)
        w->config.urls[i] = "";
    w->config.urls[w->config.kind] = w->url;
    w->config.box = "inbox";
    if (w->config.http.token == NULL)
        w->config.http.token = "";
    CHECK_OK(source_check_url(&w->config, &w->arena, &w->config.name, &error), &error);
}

void world_open_store(struct world *w)
{
    struct pr_error error = { 0 };
    CHECK_OK(
        store_open(&(struct store_options){ .url = w->store_url, .payload_max = PR_PAYLOAD_MAX }, &w->store, &error),
        &error);
    CHECK_OK(store_migrate(&w->store, NULL, 0, &error), &error);
    real = w->store.ops;
    moody = *real;
    moody.enqueue = moody_enqueue;
    real_sql = real->sql;
    moody_sql = *real_sql;
    moody_sql.begin = moody_begin;
    moody_sql.commit = moody_commit;
    moody.sql = &moody_sql;
    w->store.ops = &moody;
}

void world_init(struct world *w)
{
    world_init_at(w, NULL);
    world_open_store(w);
}

static void *run(void *arg)
{
    struct world *w = arg;
    source_run(&w->source, w->wake_fd);
    return NULL;
}

struct source world_source(struct world *w, uint64_t waiting_max)
{
    return (struct source){ .config = &w->config,
                            .store = &w->store,
                            .poll_min_us = 1000,
                            .instance = "here",
                            .batch = 100,
                            .payload_max = w->payload_max,
                            .waiting_max = waiting_max };
}

void world_run(struct world *w, uint64_t waiting_max)
{
    struct pr_error error = { 0 };
    CHECK(!w->runs);
    w->source = world_source(w, waiting_max);
    CHECK_OK(source_open(&w->source, &error), &error);
    CHECK_EQ(pthread_create(&w->thread, NULL, run, w), 0);
    w->runs = true;
}

void world_stop(struct world *w)
{
    uint64_t one = 1;
    int64_t begin_us = clock_mono_us(clock_system());
    CHECK(w->runs);
    CHECK_EQ(write(w->wake_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
    CHECK_EQ(pthread_join(w->thread, NULL), 0);
    w->runs = false;
    CHECK(clock_mono_us(clock_system()) - begin_us < STOP_MAX_US);
    CHECK_EQ(read(w->wake_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
    source_close(&w->source);
}

void world_fini(struct world *w)
{
    if (w->runs)
        world_stop(w);
    store_close(&w->store);
    close(w->wake_fd);
    arena_fini(&w->arena);
}

static const struct query_reply *ask(struct world *w, enum query_kind kind, size_t count)
{
    struct pr_error error = { 0 };
    struct query query = { .kind = kind, .filter = { .box = PR_STR("inbox"), .state = -1, .limit = 5000 } };
    struct query_reply *reply = arena_zalloc(&w->arena, sizeof(*reply));
    int64_t until_us = clock_mono_us(clock_system()) + WAIT_US;
    for (;;) {
        CHECK_OK(store_query(&w->store, &query, &w->arena, reply, &error), &error);
        if (reply->listed_count >= count)
            break;
        if (clock_mono_us(clock_system()) >= until_us)
            check_fail(__FILE__, __LINE__, "%zu instead of %zu came; trouble: %s", reply->listed_count, count,
                       w->runs ? world_status(w).trouble.text : "it does not run");
        usleep(5000);
    }
    CHECK_EQ(reply->listed_count, count);
    return reply;
}

const struct query_reply *world_rows(struct world *w, size_t count)
{
    return ask(w, QUERY_MESSAGES, count);
}

const struct query_reply *world_dead(struct world *w, size_t count)
{
    return ask(w, QUERY_DEAD, count);
}

struct source_status world_status(struct world *w)
{
    struct source_status status;
    source_status_get(&w->source, &status);
    return status;
}

bool world_has(struct world *w, pr_slice payload)
{
    struct query query = { .kind = QUERY_MESSAGES, .filter = { .box = PR_STR("inbox"), .state = -1, .limit = 5000 } };
    struct query_reply reply = { 0 };
    struct pr_error error = { 0 };
    CHECK_OK(store_query(&w->store, &query, &w->arena, &reply, &error), &error);
    for (size_t i = 0; i < reply.listed_count; i++)
        if (slice_eq(reply.listed[i].m.payload, payload))
            return true;
    return false;
}
