/* Events in an application: appended concurrently with expected versions, read, followed, and projected with the
 * position in the transaction of the projection's own writes.  On either store. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stand.h"

#define WRITERS 4
#define APPENDS 25 /* of each */

/* ---- A connection of the application's ---- */

struct app {
    sqlite3 *db;
    PGconn *pg;
    char box[80];
};

static void app_open(struct app *a, const struct stand *s)
{
    *a = (struct app){ 0 };
    if (s->pg != NULL)
        a->pg = stand_pg(s);
    else
        a->db = stand_sqlite(s);
    snprintf(a->box, sizeof a->box, "%s%soutbox", s->schema, s->pg != NULL ? "." : "");
}

static void app_close(struct app *a)
{
    if (a->pg != NULL)
        PQfinish(a->pg);
    else
        sqlite3_close(a->db);
}

static bool app_do(struct app *a, const char *sql)
{
    if (a->pg == NULL)
        return sqlite3_exec(a->db, sql, NULL, NULL, NULL) == SQLITE_OK;
    PGresult *r = PQexec(a->pg, sql);
    bool done = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    PQclear(r);
    return done;
}

static void app_begin(struct app *a)
{
    CHECK(app_do(a, a->pg != NULL ? "BEGIN" : "BEGIN IMMEDIATE"));
}

static int app_send(struct app *a, const struct pr_message *m, struct pr_error *error)
{
    return a->pg != NULL ? pr_send_pg_box(a->pg, a->box, m, NULL, error) : pr_send_sqlite(a->db, m, NULL, error);
}

static int app_advance(struct app *a, struct pr_subscription *s, int64_t place, struct pr_error *error)
{
    return a->pg != NULL ? pr_subscription_advance_pg(s, a->pg, place, error)
                         : pr_subscription_advance_sqlite(s, a->db, place, error);
}

static struct pr_message event_of(const char *stream, const char *payload)
{
    return (struct pr_message){
        .type = PR_STR("added"), .stream = pr_str(stream), .payload = pr_str(payload), .event = true
    };
}

/* Committed at once. */
static void append(const struct stand *s, const char *stream, int count)
{
    struct pr_error error;
    struct app a;
    app_open(&a, s);
    app_begin(&a);
    for (int i = 1; i <= count; i++) {
        char payload[16];
        snprintf(payload, sizeof payload, "%d", i);
        struct pr_message m = event_of(stream, payload);
        CHECK_OK(app_send(&a, &m, &error), &error);
    }
    CHECK(app_do(&a, "COMMIT"));
    app_close(&a);
}

static struct pr_events *reader(const struct stand *s)
{
    struct pr_error error;
    struct pr_events *events = NULL;
    CHECK_OK(pr_events_open(s->url, &events, &error), &error);
    return events;
}

/* ---- Expected versions ---- */

struct writer {
    const struct stand *stand;
    int conflicts;
};

/* Reads how many there are, and appends one more if that is still so. */
static void *write_some(void *arg)
{
    struct writer *w = arg;
    struct pr_events *events = reader(w->stand);
    struct app a;
    app_open(&a, w->stand);
    for (int done = 0; done < APPENDS;) {
        struct pr_error error;
        const struct pr_event *list;
        size_t count;
        CHECK_OK(pr_events_read(events, PR_STR("counter"), 1, 1000, &list, &count, &error), &error);
        struct pr_message m = event_of("counter", "x");
        m.expects_version = true;
        m.expected_version = (int64_t)count;
        app_begin(&a);
        int rc = app_send(&a, &m, &error);
        if (rc == PR_OK) {
            CHECK(app_do(&a, "COMMIT"));
            done++;
            continue;
        }
        CHECK(app_do(&a, "ROLLBACK"));
        CHECK_EQ(rc, PR_ECONFLICT);
        CHECK_EQ(error.expected_version, count);
        CHECK(error.version > (int64_t)count);
        w->conflicts++;
    }
    app_close(&a);
    pr_events_close(events);
    return NULL;
}

TEST(several_writers_that_expect_a_version_never_write_over_each_other) /* B95 */
{
    struct stand s;
    pthread_t threads[WRITERS];
    struct writer writers[WRITERS];
    stand_init(&s);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){ .stand = &s };
        CHECK_EQ(pthread_create(&threads[i], NULL, write_some, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    struct pr_events *events = reader(&s);
    struct pr_error error;
    const struct pr_event *list;
    size_t count;
    CHECK_OK(pr_events_read(events, PR_STR("counter"), 1, 1000, &list, &count, &error), &error);
    CHECK_EQ(count, WRITERS * APPENDS);
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(list[i].version, i + 1);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox"), WRITERS * APPENDS);
    pr_events_close(events);
    stand_fini(&s);
}

TEST(a_conflict_leaves_the_transaction_of_the_application_as_it_was) /* B95 */
{
    struct stand s;
    struct app a;
    struct pr_error error;
    stand_init(&s);
    stand_do(&s, "CREATE TABLE book (n integer)");
    append(&s, "order-7", 2);
    app_open(&a, &s);
    app_begin(&a);
    CHECK(app_do(&a, "INSERT INTO book VALUES (1)"));
    struct pr_message m = event_of("order-7", "late");
    m.expects_version = true;
    m.expected_version = 1;
    pr_id_new(&m.id);
    CHECK_EQ(app_send(&a, &m, &error), PR_ECONFLICT);
    CHECK_STR(error.text, "stream \"order-7\" is at version 2, not 1: read it again before you retry");
    m.expected_version = 2;
    CHECK_OK(app_send(&a, &m, &error), &error);
    CHECK_EQ(app_send(&a, &m, &error), PR_DUPLICATE);
    CHECK(app_do(&a, "COMMIT"));
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM book"), 1);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox"), 3);
    app_close(&a);
    stand_fini(&s);
}

/* ---- Reading ---- */

TEST(a_stream_is_read_from_a_version_and_all_events_behind_a_place)
{
    struct stand s;
    struct pr_error error;
    const struct pr_event *list;
    size_t count;
    stand_init(&s);
    append(&s, "a", 3);
    append(&s, "b", 2);
    struct pr_events *events = reader(&s);
    CHECK_OK(pr_events_read(events, PR_STR("a"), 2, 10, &list, &count, &error), &error);
    CHECK_EQ(count, 2);
    CHECK_EQ(list[0].version, 2);
    CHECK_SLICE(list[0].payload, "2");
    CHECK_SLICE(list[0].type, "added");
    CHECK_OK(pr_events_read_all(events, 0, 4, 0, &list, &count, &error), &error);
    CHECK_EQ(count, 4);
    CHECK_EQ(list[3].place, 4);
    CHECK_SLICE(list[3].stream, "b");
    CHECK_OK(pr_events_read_all(events, 5, 4, 0, &list, &count, &error), &error);
    CHECK_EQ(count, 0);
    CHECK_EQ(pr_events_read(events, PR_STR("a"), 0, 10, &list, &count, &error), PR_EINVAL);
    pr_events_close(events);
    stand_fini(&s);
}

static void *append_later(void *stand)
{
    struct timespec moment = { .tv_nsec = 100000000 };
    nanosleep(&moment, NULL);
    append(stand, "late", 1);
    return NULL;
}

TEST(who_waits_gets_an_event_when_it_is_stored)
{
    struct stand s;
    struct pr_error error;
    const struct pr_event *list;
    size_t count;
    pthread_t thread;
    stand_init(&s);
    struct pr_events *events = reader(&s);
    CHECK_EQ(pthread_create(&thread, NULL, append_later, &s), 0);
    CHECK_OK(pr_events_read_all(events, 0, 10, PR_SECONDS(20), &list, &count, &error), &error);
    CHECK_EQ(count, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    pr_events_close(events);
    stand_fini(&s);
}

TEST(a_snapshot_spares_reading_the_whole_stream)
{
    struct stand s;
    struct pr_error error;
    const struct pr_event *list;
    size_t count;
    int64_t version = 0, sum = 0;
    pr_slice data;
    stand_init(&s);
    append(&s, "account", 10);
    struct pr_events *events = reader(&s);
    CHECK_EQ(pr_snapshot_load(events, PR_STR("account"), &version, &data, &error), PR_UNKNOWN);
    CHECK_EQ(pr_snapshot_save(events, PR_STR("account"), 8, PR_STR("36"), &error), PR_OK);
    CHECK_EQ(pr_snapshot_save(events, PR_STR("account"), 3, PR_STR("6"), &error), PR_STALE);
    CHECK_EQ(pr_snapshot_load(events, PR_STR("account"), &version, &data, &error), PR_OK);
    CHECK_EQ(version, 8);
    sum = strtoll(data.data, NULL, 10);
    CHECK_OK(pr_events_read(events, PR_STR("account"), version + 1, 100, &list, &count, &error), &error);
    for (size_t i = 0; i < count; i++)
        sum += strtoll(list[i].payload.data, NULL, 10);
    CHECK_EQ(count, 2);
    CHECK_EQ(sum, 55);
    pr_events_close(events);
    stand_fini(&s);
}

/* ---- Projections ---- */

static struct pr_subscription *subscribe(const struct stand *s, const char *instance, int64_t lease_us)
{
    struct pr_error error;
    struct pr_subscription *subscription = NULL;
    const struct pr_subscription_options options = {
        .store_url = s->url, .name = "view", .instance = instance, .lease_us = lease_us
    };
    CHECK_OK(pr_subscription_open(&options, &subscription, &error), &error);
    return subscription;
}

/* One batch: each event into the view, and the position with it.  How many; -1: it was not ours any more. */
static int project(struct app *a, struct pr_subscription *subscription, size_t max, bool commit)
{
    struct pr_error error;
    const struct pr_event *list;
    size_t count;
    char sql[200];
    CHECK_OK(pr_subscription_next(subscription, max, 0, &list, &count, &error), &error);
    if (count == 0)
        return 0;
    app_begin(a);
    for (size_t i = 0; i < count; i++) {
        snprintf(sql, sizeof sql, "INSERT INTO view VALUES (%lld)", (long long)list[i].place);
        CHECK(app_do(a, sql));
    }
    int rc = app_advance(a, subscription, list[count - 1].place, &error);
    CHECK(rc == PR_OK || rc == PR_STALE);
    CHECK(app_do(a, rc == PR_OK && commit ? "COMMIT" : "ROLLBACK"));
    return rc == PR_OK ? (int)count : -1;
}

#define VIEW_IS_RIGHT(s, count)                                                                                        \
    do {                                                                                                               \
        CHECK_EQ(stand_int(s, "SELECT count(*) FROM view"), count);                                                    \
        CHECK_EQ(stand_int(s, "SELECT count(DISTINCT place) FROM view"), count);                                       \
    } while (0)

TEST(a_projection_has_each_event_once_whatever_is_rolled_back) /* B95 */
{
    struct stand s;
    struct app a;
    struct pr_error error;
    stand_init(&s);
    stand_do(&s, "CREATE TABLE view (place integer)");
    append(&s, "a", 10);
    app_open(&a, &s);
    struct pr_subscription *one = subscribe(&s, "one", 0);
    CHECK_EQ(project(&a, one, 4, true), 4);
    CHECK_EQ(project(&a, one, 4, false), 4); /* rolled back: they come again */
    CHECK_EQ(project(&a, one, 4, true), 4);
    pr_subscription_close(one); /* and another process goes on at once */
    one = subscribe(&s, "two", 0);
    CHECK_EQ(project(&a, one, 4, true), 2);
    CHECK_EQ(project(&a, one, 4, true), 0);
    VIEW_IS_RIGHT(&s, 10);
    app_begin(&a);
    CHECK_EQ(app_advance(&a, one, 99, &error), PR_EINVAL); /* it was never given such an event */
    CHECK(app_do(&a, "ROLLBACK"));
    pr_subscription_close(one);
    app_close(&a);
    stand_fini(&s);
}

TEST(one_of_two_instances_projects_and_one_that_slept_is_refused)
{
    struct stand s;
    struct app a, b;
    struct pr_error error;
    const struct pr_event *list;
    size_t count;
    stand_init(&s);
    stand_do(&s, "CREATE TABLE view (place integer)");
    append(&s, "a", 6);
    app_open(&a, &s);
    app_open(&b, &s);
    struct pr_subscription *one = subscribe(&s, "one", PR_MILLISECONDS(300)),
                           *two = subscribe(&s, "two", PR_SECONDS(30));
    CHECK_OK(pr_subscription_next(one, 3, 0, &list, &count, &error), &error);
    CHECK_EQ(count, 3);
    CHECK_EQ(project(&b, two, 3, true), 0);                                                /* the first has it */
    CHECK_OK(pr_subscription_next(two, 3, PR_SECONDS(20), &list, &count, &error), &error); /* until its lease is over */
    CHECK_EQ(count, 3);
    CHECK_EQ(project(&b, two, 3, true), 3);
    app_begin(&a); /* it wakes up, and does what it was about to do */
    CHECK(app_do(&a, "INSERT INTO view VALUES (1)"));
    CHECK_EQ(app_advance(&a, one, 3, &error), PR_STALE);
    CHECK(app_do(&a, "ROLLBACK"));
    CHECK_EQ(project(&b, two, 3, true), 3);
    VIEW_IS_RIGHT(&s, 6);
    pr_subscription_close(one);
    pr_subscription_close(two);
    app_close(&a);
    app_close(&b);
    stand_fini(&s);
}

TEST(work_that_is_done_elsewhere_moves_the_position_alone)
{
    struct stand s;
    struct pr_error error;
    const struct pr_event *list;
    size_t count;
    stand_init(&s);
    append(&s, "a", 3);
    struct pr_subscription *one = subscribe(&s, "one", 0);
    CHECK_OK(pr_subscription_next(one, 2, 0, &list, &count, &error), &error);
    CHECK_OK(pr_subscription_advance(one, list[1].place, &error), &error);
    CHECK_OK(pr_subscription_next(one, 2, 0, &list, &count, &error), &error);
    CHECK_EQ(count, 1);
    CHECK_EQ(list[0].place, 3);
    pr_subscription_close(one);
    CHECK_EQ(
        pr_subscription_open(&(struct pr_subscription_options){ .store_url = s.url, .name = "no name" }, &one, &error),
        PR_EINVAL);
    stand_fini(&s);
}
