/* Schedules by C functions: in the application's own transaction, and in the store of an engine. */
#include <stdio.h>
#include <string.h>

#include "stand.h"

#define ROWS "SELECT count(*) FROM outbox WHERE destination = 'schedule:'"
#define TAKEN_UP ROWS " AND due_at IS NOT NULL AND stream = 'nightly'"

static const struct pr_schedule nightly = { .name = "nightly",
                                            .cron = "0 3 * * *",
                                            .zone = "Europe/Berlin",
                                            .missed = PR_MISSED_SKIP,
                                            .grace_us = PR_SECONDS(300),
                                            .message = { .type = { "report", 6 }, .payload = { "{\"a\":1}", 7 } } };

static struct pr_engine *engine_of(struct stand *s)
{
    struct pr_engine *engine = stand_engine(s, "endpoints:\n  out: {url: \"pull:\", timeout: 30s}\n"
                                               "routes: [{type: \"*\", to: out}]\n");
    stand_start(engine);
    return engine;
}

/* The application's connection, with a transaction. */
struct own {
    PGconn *pg;
    sqlite3 *db;
    const char *schema;
};

static struct own own_of(struct stand *s)
{
    return (struct own){ s->pg != NULL ? stand_pg(s) : NULL, s->pg == NULL ? stand_sqlite(s) : NULL, s->schema };
}

static void own_do(const struct own *own, const char *sql)
{
    if (own->pg != NULL) {
        PGresult *r = PQexec(own->pg, sql);
        CHECK_EQ(PQresultStatus(r), PGRES_COMMAND_OK);
        PQclear(r);
    } else
        CHECK_EQ(sqlite3_exec(own->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static int own_schedule(const struct own *own, const struct pr_schedule *schedule, struct pr_error *error)
{
    struct pr_schedule there = *schedule;
    char box[80];
    if (own->pg == NULL)
        return pr_schedule_sqlite(own->db, schedule, error);
    snprintf(box, sizeof box, "%s.outbox", own->schema);
    there.box = box;
    return pr_schedule_pg(own->pg, &there, error);
}

static void own_begin(const struct own *own)
{
    own_do(own, own->pg != NULL ? "BEGIN" : "BEGIN IMMEDIATE");
}

TEST(a_schedule_of_a_transaction_is_there_when_it_commits) /* B99 */
{
    struct stand s;
    struct pr_error error;
    stand_init(&s);
    struct own own = own_of(&s);
    own_begin(&own);
    CHECK_OK(own_schedule(&own, &nightly, &error), &error);
    own_do(&own, "ROLLBACK");
    CHECK_EQ(stand_int(&s, ROWS), 0);
    own_begin(&own);
    CHECK_OK(own_schedule(&own, &nightly, &error), &error);
    own_do(&own, "COMMIT");
    CHECK_EQ(stand_int(&s, ROWS), 1);
    CHECK_EQ(stand_int(&s, TAKEN_UP), 0);
    CHECK_EQ(stand_int(&s, ROWS " AND CAST(payload AS text) LIKE '%\"missed\":\"skip\",\"grace\":\"5m\"%'"), 1);

    struct pr_engine *engine = engine_of(&s);
    stand_wait(&s, TAKEN_UP, 1);
    struct pr_schedule other = nightly;
    other.message.type = PR_STR("other");
    own_begin(&own);
    CHECK_OK(own_schedule(&own, &other, &error), &error);
    own_do(&own, "COMMIT");
    pr_id id;
    stand_wait(&s, ROWS, 1); /* it takes the place of the first */
    CHECK_OK(pr_engine_schedule_run(engine, "nightly", &id, &error), &error);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox WHERE type = 'other' AND destination <> 'schedule:'"), 1);

    own_begin(&own);
    CHECK_OK(own_schedule(&own, &(struct pr_schedule){ .name = "nightly" }, &error), &error); /* no cron: cancel it */
    own_do(&own, "COMMIT");
    stand_wait(&s, ROWS, 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM {dead}"), 0);
    pr_engine_free(engine);
    PQfinish(own.pg);
    sqlite3_close(own.db);
    stand_fini(&s);
}

TEST(wrong_schedules_are_refused_before_they_are_stored) /* B99 */
{
    struct stand s;
    struct pr_error error;
    stand_init(&s);
    struct own own = own_of(&s);
    struct pr_engine *engine = engine_of(&s);
    struct pr_schedule wrong[7];
    for (size_t i = 0; i < 7; i++)
        wrong[i] = nightly;
    wrong[0].name = "not a name";
    wrong[1].cron = "61 * * * *";
    wrong[2].zone = "Europe/Nowhere";
    wrong[3].missed = (enum pr_missed)7;
    wrong[4].message.type = (pr_slice){ NULL, 0 };
    wrong[5].message.destination = PR_STR("schedule:");
    wrong[6].grace_us = 999999;
    static const char *const words[] = { "name", "61", "Nowhere", "missed", "type", "destination", "grace_us" };
    for (size_t i = 0; i < 7; i++) {
        CHECK_EQ(own_schedule(&own, &wrong[i], &error), PR_EINVAL);
        CHECK(strstr(error.text, words[i]) != NULL);
        CHECK_EQ(pr_engine_schedule(engine, &wrong[i], &error), PR_EINVAL);
        CHECK(strstr(error.text, words[i]) != NULL);
    }
    CHECK_EQ(stand_int(&s, ROWS), 0);
    pr_engine_free(engine);
    PQfinish(own.pg);
    sqlite3_close(own.db);
    stand_fini(&s);
}

TEST(a_schedule_of_an_engine_is_run_paused_resumed_and_cancelled) /* B99 */
{
    struct stand s;
    struct pr_error error;
    pr_id id;
    char text[PR_ID_TEXT_SIZE], sql[256];
    stand_init(&s);
    struct pr_engine *engine = engine_of(&s);
    CHECK_EQ(pr_engine_schedule_run(engine, "nightly", &id, &error), PR_ENOTFOUND);
    CHECK_EQ(pr_engine_schedule_pause(engine, "nightly", &error), PR_ENOTFOUND);
    CHECK_OK(pr_engine_schedule(engine, &nightly, &error), &error);
    stand_wait(&s, TAKEN_UP, 1);
    char due[64];
    snprintf(due, sizeof due, "%s", stand_text(&s, "SELECT due_at FROM outbox WHERE destination = 'schedule:'"));

    CHECK_OK(pr_engine_schedule_run(engine, "nightly", &id, &error), &error);
    pr_id_format(id, text);
    snprintf(sql, sizeof sql,
             s.pg != NULL ? "SELECT count(*) FROM outbox WHERE id = '%s' AND type = 'report'"
                          : "SELECT count(*) FROM outbox WHERE lower(hex(id)) = replace('%s', '-', '') "
                            "AND type = 'report'",
             text);
    CHECK_EQ(stand_int(&s, sql), 1);
    CHECK_STR(stand_text(&s, "SELECT due_at FROM outbox WHERE destination = 'schedule:'"), due); /* its times stay */

    CHECK_EQ(pr_engine_schedule_cancel(engine, NULL, &error), PR_EINVAL); /* and not all of them */
    CHECK_EQ(stand_int(&s, ROWS), 1);

    CHECK_OK(pr_engine_schedule_pause(engine, "nightly", &error), &error);
    stand_wait(&s, ROWS " AND parked_by > 0", 1);
    CHECK_OK(pr_engine_schedule_resume(engine, "nightly", &error), &error);
    stand_wait(&s, TAKEN_UP " AND parked_by = 0", 1);
    CHECK_OK(pr_engine_schedule_cancel(engine, "nightly", &error), &error);
    stand_wait(&s, ROWS, 0);
    CHECK_EQ(pr_engine_schedule_cancel(engine, "nightly", &error), PR_ENOTFOUND);
    CHECK_EQ(pr_engine_schedule_run(engine, "nightly", &id, &error), PR_ENOTFOUND);
    pr_engine_free(engine);
    stand_fini(&s);
}

static struct pr_schedule_info the_one(struct pr_engine *engine, struct pr_schedule_list **list)
{
    struct pr_error error;
    CHECK_OK(pr_engine_schedules(engine, "nightly", list, &error), &error);
    CHECK_EQ((*list)->count, 1);
    return (*list)->entries[0];
}

TEST(schedules_of_an_engine_are_listed_and_moved) /* B213 */
{
    struct stand s;
    struct pr_error error;
    struct pr_schedule_list *list;
    stand_init(&s);
    struct pr_engine *engine = engine_of(&s);
    CHECK_OK(pr_engine_schedules(engine, NULL, &list, &error), &error);
    CHECK_EQ(list->count, 0);
    pr_schedule_list_free(list);
    CHECK_EQ(pr_engine_schedule_move(engine, "nightly", PR_SECONDS(1), &error), PR_ENOTFOUND);
    CHECK_OK(pr_engine_schedule(engine, &nightly, &error), &error);
    stand_wait(&s, TAKEN_UP, 1);
    struct pr_schedule_info i = the_one(engine, &list);
    CHECK_SLICE(i.cron, "0 3 * * *");
    CHECK_SLICE(i.zone, "Europe/Berlin");
    CHECK_SLICE(i.box, "outbox");
    CHECK_SLICE(i.message.type, "report");
    CHECK_EQ(i.missed, PR_MISSED_SKIP);
    CHECK_EQ(i.grace_us, PR_SECONDS(300));
    CHECK(i.state == PR_SCHEDULE_ACTIVE && i.next_us > 0 && !i.in_config && i.error.size == 0);
    int64_t to_us = i.next_us - PR_SECONDS(1);
    pr_schedule_list_free(list);

    CHECK_EQ(pr_engine_schedule_move(engine, "nightly", to_us - PR_SECONDS(200000), &error), PR_EINVAL);
    CHECK(strstr(error.text, "in the past") != NULL);
    CHECK_OK(pr_engine_schedule_move(engine, "nightly", to_us, &error), &error);
    i = the_one(engine, &list);
    CHECK_EQ(i.next_us, to_us);
    pr_schedule_list_free(list);

    CHECK_OK(pr_engine_schedule_pause(engine, "nightly", &error), &error);
    i = the_one(engine, &list);
    CHECK(i.state == PR_SCHEDULE_PAUSED && i.next_us == 0);
    pr_schedule_list_free(list);
    CHECK_EQ(pr_engine_schedule_move(engine, "nightly", to_us, &error), PR_EINVAL);
    CHECK(strstr(error.text, "resume it first") != NULL);
    pr_engine_free(engine);
    stand_fini(&s);
}
