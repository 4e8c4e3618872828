/* Boxes whose tables have other names (D14), without the store: for applications, views and other programs.  (The whole
 * suite runs with such boxes, too: store-postgres-tables.) */
#include <stdio.h>
#include <string.h>

#include "store/suite_postgres.h"
#include "store/postgres/send.h"
#include "store/suite.h"

#define SAYS(text, part) CHECK(strstr(text, part) != NULL)

static int migrate_one(struct suite *s, const char *box, const char *table)
{
    return store_migrate(&s->store, &(struct store_box){ box, table }, 1, &s->error);
}

STORE_TEST(send_the_views_and_a_callers_connection_find_the_table_of_a_box) /* D14 */
{
    const struct pr_message m = { .type = PR_STR("sent"), .id = { { 1 } } },
                            again = { .type = PR_STR("sent"), .id = { { 2 } } };
    char box[128];
    int answer;
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "CREATE TABLE %s.shop (mine text)");
    CHECK_EQ(migrate_one(s, "shop", NULL), PR_EINVAL);
    SAYS(s->error.text,
         "already has a table \"shop\" that Postrider did not create; name another with boxes.shop.table");
    CHECK_OK(migrate_one(s, "shop", "Shop_outbox"), &s->error);

    suite_pg_do(pg, "INSERT INTO %s.\"Shop_outbox\" (type, payload) VALUES ('plain', 'x')");
    suite_pg_do(pg, "SELECT %s.send(type => 'called', payload => 'x'::text, box => 'shop')");
    snprintf(box, sizeof(box), "%s.shop", suite_pg_schema());
    CHECK_OK(pg_send_many((struct pg_conn *)pg, pr_str(box), &m, 1, &answer, &s->error), &s->error);
    CHECK_OK(pg_send_many((struct pg_conn *)pg, pr_str(box), &again, 1, &answer, &s->error), &s->error);
    CHECK_EQ(OFFER(s, "shop"), PR_OK);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.\"Shop_outbox\""), 5);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.messages WHERE box = 'shop' AND state = 'ready'"), 5);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.shop"), 0);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("shop"))), 5);

    struct worker *w = suite_join(s, "shop");
    CYCLE(w, .fresh_rows = 10);
    CHECK_EQ(w->reply->row_count, 5);
    suite_pg_do(pg, "UPDATE %s.\"Shop_outbox\" SET payload = 'y' WHERE type = 'plain'"); /* B19 */
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.repaired WHERE box = 'shop'"), 1);
    suite_pg_do(pg, "DROP TABLE %s.shop");
    PQfinish(pg);
}

STORE_TEST(the_table_of_a_box_in_a_schema_is_nobody_elses_and_stays) /* D14 */
{
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "CREATE TABLE %s.taken_heads (mine text)");
    CHECK_OK(migrate_one(s, "shop", "shop_outbox"), &s->error);
    CHECK_OK(migrate_one(s, "shop", NULL), &s->error);
    CHECK_EQ(migrate_one(s, "shop", "other"), PR_ECONFIG);
    SAYS(s->error.text, "set it back");
    CHECK_EQ(migrate_one(s, "second", "shop_outbox"), PR_EINVAL);
    SAYS(s->error.text, "already the table of the box \"shop\"");
    CHECK_EQ(migrate_one(s, "second", "taken"), PR_EINVAL); /* it would have an index of that name */
    SAYS(s->error.text, "\"taken_heads\"");
    CHECK_EQ(migrate_one(s, "second", "a\" b"), PR_EINVAL);
    CHECK_EQ(migrate_one(s, "second", "a234567890123456789012345678901234567890123456789012345x"), PR_EINVAL);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.box WHERE name = 'second'"), 0);
    PQfinish(pg);
}

/* Rows of one stream are in one lane, so that one instance has them all: also when a trigger of the application or a person
 * changes the stream, and whatever a sender writes into the column. */
STORE_TEST(the_lane_is_that_of_the_stream_whoever_changes_it) /* B26 */
{
    static const char wrong[] = "SELECT count(*) FROM %s.outbox WHERE lane <>"
                                " (CASE WHEN stream <> '' THEN hashtext(stream) ELSE uuid_hash(id) END & 63)";
    (void)s;
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "CREATE FUNCTION %s.zz_tenant() RETURNS trigger LANGUAGE plpgsql AS"
                    " $$BEGIN NEW.stream := 'tenant-' || NEW.type; RETURN NEW; END$$");
    suite_pg_do(pg, "CREATE TRIGGER zz_tenant BEFORE INSERT ON %s.outbox FOR EACH ROW WHEN (NEW.type <> 'plain')"
                    " EXECUTE FUNCTION %s.zz_tenant()");
    suite_pg_do(pg,
                "INSERT INTO %s.outbox (type, stream) SELECT 't' || n, 'order-' || n FROM generate_series(1, 100) n");
    suite_pg_do(pg, "INSERT INTO %s.outbox (type, lane) SELECT 'plain', n %% 3 FROM generate_series(1, 100) n");
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox WHERE stream LIKE 'tenant-t%%'"), 100);
    CHECK_EQ(suite_pg_number(pg, wrong), 0);
    suite_pg_do(pg, "UPDATE %s.outbox SET stream = 'moved-' || stream");
    CHECK_EQ(suite_pg_number(pg, wrong), 0);
    suite_pg_do(pg, "UPDATE %s.outbox SET lane = 1");
    CHECK_EQ(suite_pg_number(pg, wrong), 0);
    suite_pg_do(pg, "UPDATE %s.outbox SET id = gen_random_uuid()");
    CHECK_EQ(suite_pg_number(pg, wrong), 0);
    PQfinish(pg);
}

STORE_TEST(a_box_that_another_program_has_made_since_is_found) /* D14 */
{
    struct suite other = { .url = "" };
    const struct store_options options = { .url = s->url, .payload_max = SUITE_PAYLOAD_MAX };
    struct pr_error error;
    CHECK_EQ(OFFER(s, "outbox"), PR_OK); /* it is connected by now */
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"))), 1);
    CHECK_OK(store_open(&options, &other.store, &error), &error);
    CHECK_OK(store_migrate(&other.store, &(struct store_box){ "late", "late_outbox" }, 1, &error), &error);
    store_close(&other.store);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("late"))), 0);
    CHECK_EQ(OFFER(s, "late"), PR_OK);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("late"))), 1);
    CHECK_EQ(OFFER(s, "never"), PR_ESCHEMA);
    SAYS(s->error.text, "unknown box \"never\"");
}
