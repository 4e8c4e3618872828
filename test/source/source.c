/* The state of a source, whatever its kind. */
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "check.h"
#include "source/decode.h"
#include "source/source.h"
#include "source/undecodable.h"

static struct source working(void)
{
    struct source s = { .ops = NULL };
    CHECK_EQ(pthread_mutex_init(&s.lock, NULL), 0);
    CHECK(!source_fine(&s));
    return s;
}

static bool fails(struct source *s, int code, const char *text)
{
    struct pr_error trouble;
    (void)error_set(&trouble, code, "%s", text);
    return source_trouble(s, &trouble);
}

TEST(a_trouble_is_logged_when_it_begins_when_it_is_another_one_and_when_it_lasts)
{
    struct source s = working();
    CHECK(fails(&s, PR_ESTORE, "process 1 hung up"));
    CHECK(!fails(&s, PR_ESTORE, "process 2 hung up"));
    CHECK(fails(&s, PR_ECONFIG, "there is no column a"));
    CHECK(!fails(&s, PR_ECONFIG, "there is no column a"));
    CHECK(fails(&s, PR_ECONFIG, "there is no column b"));
    s.logged_us -= PR_SECONDS(60);
    CHECK(fails(&s, PR_ECONFIG, "there is no column b"));
    CHECK(!fails(&s, PR_ECONFIG, "there is no column b"));
}

TEST(a_source_is_failing_until_it_works_again_and_that_is_news_once)
{
    struct source s = working();
    struct source_status status;
    fails(&s, PR_ESTORE, "the server is away");
    source_status_get(&s, &status);
    CHECK_EQ(status.state, SOURCE_FAILING);
    CHECK_STR(status.trouble.text, "the server is away");
    CHECK(source_fine(&s));
    CHECK(!source_fine(&s));
    source_status_get(&s, &status);
    CHECK_EQ(status.state, SOURCE_RUNNING);
    CHECK_EQ(status.trouble.code, PR_OK);
}

TEST(batches_add_up_and_the_last_one_has_a_time)
{
    struct source s = working();
    struct source_status status;
    source_status_get(&s, &status);
    CHECK_EQ(status.progress_us, 0);
    source_moved(&s, &(struct source_counts){ .stored = 3, .duplicates = 1 });
    source_moved(&s, &(struct source_counts){ .stored = 4, .dead = 2 });
    source_status_get(&s, &status);
    CHECK(status.progress_us > 0);
    CHECK_EQ(status.counts.stored, 7);
    CHECK_EQ(status.counts.duplicates, 1);
    CHECK_EQ(status.counts.dead, 2);
}

static char lines[2048];

static void keep_line(void *arg, const char *line, size_t size)
{
    (void)arg;
    strncat(lines, line, size);
}

TEST(what_cannot_be_decoded_is_one_line_a_second_with_how_many_there_were)
{
    const struct log log = { .level = LOG_WARN, .write = keep_line };
    struct undecodable_log l = { 0 };
    lines[0] = '\0';
    for (int64_t i = 0; i < 1000; i++) {
        undecodable_note(&l, "no JSON");
        undecodable_log_line(&l, &log, "orders", PR_STR("inbox"), PR_SECONDS(5) + i);
    }
    undecodable_log_line(&l, &log, "orders", PR_STR("inbox"), PR_SECONDS(6)); /* also when no more come */
    undecodable_log_line(&l, &log, "orders", PR_STR("inbox"), PR_SECONDS(8));
    CHECK_STR(lines, "level=warn event=undecodable source=orders box=inbox messages=1 error=\"no JSON\" "
                     "next=\"see postrider dead list\"\n"
                     "level=warn event=undecodable source=orders box=inbox messages=999 error=\"no JSON\" "
                     "next=\"see postrider dead list\"\n");
}

TEST(tables_and_the_log_need_postgres_and_the_fault_names_the_store)
{
    struct store store;
    struct pr_error error;
    struct adoption adoption = { .table = "t" };
    struct source_config config = { .kind = SOURCE_WAL };
    struct source source = { .config = &config, .store = &store };
    struct adopt_report report;
    CHECK_EQ(store_open(&(struct store_options){ .url = "memory:" }, &store, &error), PR_OK);
    CHECK_EQ(source_open(&source, &error), PR_EUNSUPPORTED);
    CHECK_STR(error.text, "only PostgreSQL has a log that can be a source: the store is memory");
    source_close(&source);
    CHECK_EQ(adopt_check(&store, &adoption, NULL, &report, &error), PR_EUNSUPPORTED);
    CHECK_STR(error.text, "tables are adopted in PostgreSQL only, in the store's own database; this store is memory");
    store_close(&store);
}

TEST(what_a_broker_brings_has_no_say_in_where_and_when_it_is_delivered) /* B206 */
{
    const struct decode_header headers[] = { { PR_STR("ce-specversion"), PR_STR("1.0") },
                                             { PR_STR("ce-id"), PR_STR("1") },
                                             { PR_STR("ce-source"), PR_STR("/shop") },
                                             { PR_STR("ce-type"), PR_STR("order.created") },
                                             { PR_STR("ce-postriderdestination"), PR_STR("billing") },
                                             { PR_STR("ce-postriderdue"), PR_STR("2027-01-01T00:00:00Z") } };
    struct decode_input in = {
        .headers = headers, .header_count = ARRAY_LENGTH(headers), .prefix = "ce-", .body = PR_STR("x")
    };
    for (int foreign = 0; foreign < 2; foreign++) {
        struct arena arena = { 0 };
        struct pr_message m;
        struct pr_error error;
        in.is_foreign = foreign != 0;
        CHECK_OK(decode_event(&in, &arena, &m, &error), &error);
        CHECK_SLICE(m.destination, foreign ? PR_STR("") : PR_STR("billing"));
        CHECK_EQ(m.due_us == 0, foreign);
        arena_fini(&arena);
    }
}
