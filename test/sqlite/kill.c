/* Killed at every named step: all or nothing, and the next process continues. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "fixture.h"

#ifdef POSTRIDER_FAILPOINTS

struct victim {
    const char *url, *point;
    int nth;
};

/* Migrate, send, claim, judge one of each sort, leave. */
static int victim_run(void *arg)
{
    struct victim *v = arg;
    char text[96];
    snprintf(text, sizeof(text), "%s:%d", v->point, v->nth);
    failpoint_arm(text);
    const struct store_options options = { .url = v->url, .payload_max = PAYLOAD_MAX };
    struct store store = { 0 };
    struct worker w = { .number = 1, .lease_us = PR_MINUTES(60) };
    struct pr_message m[3] = { { .type = PR_STR("t") }, { .type = PR_STR("t") }, { .type = PR_STR("t") } };
    pr_id ids[3];
    pr_id_new(&w.id);
    if (store_open(&options, &store, &w.error) != PR_OK || store_migrate(&store, NULL, 0, &w.error) != PR_OK ||
        store_enqueue(&store, PR_STR("outbox"), m, 3, PAYLOAD_MAX, ids, NULL, &w.error) != PR_OK ||
        store_session_open(&store, PR_STR("outbox"), &w.session, &w.error) != PR_OK ||
        worker_cycle(&w, &(struct cycle){ .fresh_rows = 3, .fresh_bytes = SIZE_MAX }) != PR_OK ||
        w.reply->row_count < 3)
        return 1;
    struct receipt_entry entries[3];
    struct verdict verdicts[3];
    for (int i = 0; i < 3; i++) {
        int number = w.reply->rows[i].m.attempts + 1;
        entries[i] = (struct receipt_entry){ w.reply->rows[i].row, number };
        verdicts[i] = (struct verdict){ .kind = i == 0   ? VERDICT_COMPLETE
                                                : i == 1 ? VERDICT_FAIL
                                                         : VERDICT_DEAD_LETTER,
                                        .row = entries[i].row,
                                        .id = w.reply->rows[i].m.id,
                                        .number = number,
                                        .reason = PR_REASON_REJECTED,
                                        .cause = PR_REASON_REJECTED,
                                        .delay_us = PR_MINUTES(60) };
    }
    uint64_t closed = w.number;
    if (worker_cycle(&w, &(struct cycle){ .receipt = entries, .receipt_count = 3 }) != PR_OK ||
        worker_cycle(
            &w, &(struct cycle){ .verdicts = verdicts, .verdict_count = 3, .closed = &closed, .closed_count = 1 }) !=
            PR_OK ||
        worker_cycle(&w, &(struct cycle){ .leave = true }) != PR_OK)
        return 2;
    store_session_close(&w.session);
    store_close(&store);
    return 0;
}

static void check_whole(struct fixture *f)
{
    /* Sends come in threes; the three verdicts land together, and with them the receipt goes. */
    int64_t fresh = fixture_int(f, "SELECT count(*) FROM outbox WHERE due_at IS NULL");
    int64_t failed = fixture_int(f, "SELECT count(*) FROM outbox WHERE due_at IS NOT NULL");
    int64_t dead = fixture_int(f, "SELECT count(*) FROM postrider_dead_letter");
    CHECK_EQ(fresh % 3, 0);
    CHECK_EQ(failed, dead);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox WHERE due_at IS NOT NULL AND (attempts < 1 OR failures <> 1)"),
             0);
    CHECK(fixture_int(f, "SELECT count(*) FROM postrider_instance") <= 1);
    CHECK_EQ(fixture_int(
                 f, "SELECT count(*) FROM postrider_claim WHERE instance NOT IN (SELECT id FROM postrider_instance)"),
             0);
}

/* Statements of migrations are many and alike: some of them.  What comes later begins with the tables. */
static void kill_at(const char *point)
{
    bool migrates = strncmp(point, "store.migrate", strlen("store.migrate")) == 0;
    int step = strcmp(point, "store.migrate.statement") == 0 ? (int)fixture_step(61) : 1;
    for (int nth = 1; nth < 400; nth += step) {
        struct fixture *f = migrates ? fixture_bare("?synchronous=normal") : fixture_open("?synchronous=normal");
        store_close(&f->store); /* a fork must not share it */
        struct victim v = { .url = f->url, .point = point, .nth = nth };
        int code = child_wait(child_start(victim_run, &v));
        if (code != 0 && code != -SIGKILL)
            check_fail(__FILE__, __LINE__, "at %s:%d the child ended with %d", point, nth, code);
        fixture_open_store(f);
        CHECK_OK(store_migrate(&f->store, NULL, 0, &f->error), &f->error);
        check_whole(f);
        struct worker w;
        worker_open(&w, &f->store);
        CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->lanes_owned, LANES_ALL); /* at once: the lock file is free */
        CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_claim"), 0);
        CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_instance"), 1);
        worker_close(&w);
        fixture_close(f);
        if (code == 0) {
            CHECK(nth > 1); /* there is such a point */
            return;
        }
    }
    check_fail(__FILE__, __LINE__, "%s is passed without end", point);
}

TEST(killed_at_every_named_step_nothing_is_half_done_and_the_next_goes_on) /* B22, B80, I18 */
{
    static const char *const points[] = {
        "store.migrate.before_commit", "store.migrate.after_commit", "store.enqueue.before_commit",
        "store.enqueue.after_commit",  "store.cycle.begin",          "store.cycle.before_verdicts",
        "store.cycle.before_receipt",  "store.cycle.after_receipt",  "store.renew.before",
        "store.renew.after",           "store.cycle.before_commit",  "store.cycle.after_commit",
        "store.dead_letter.copied",    "store.bury.counted",         "store.bury.done",
        "store.migrate.statement",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(points); i++)
        kill_at(points[i]);
}

#else

TEST(killed_at_every_named_step_nothing_is_half_done_and_the_next_goes_on)
{
    SKIP("built without -Dfailpoints=true");
}

#endif
