/* The file is replaced while it is in use: a backup is put in its place, or it is moved away. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

static void path_of(const struct fixture *f, const char *suffix, char ret[160])
{
    snprintf(ret, 160, "%s%s", f->path, suffix);
}

static void backup_make(struct fixture *f)
{
    char sql[256];
    sqlite3 *raw = fixture_raw(f);
    snprintf(sql, sizeof(sql), "VACUUM INTO '%s.backup'", f->path);
    raw_run(raw, sql);
    sqlite3_close(raw);
}

static void backup_restore(struct fixture *f)
{
    char backup[160];
    path_of(f, ".backup", backup);
    CHECK_EQ(rename(backup, f->path), 0);
}

static void join_anew(struct worker *w)
{
    pr_id_new(&w->id);
    w->epoch = w->notice = 0;
    w->number = 1;
}

TEST(a_backup_that_takes_the_place_of_the_file_is_noticed_and_gone_on_with) /* B28 */
{
    struct worker w;
    struct fixture *f = fixture_open("");
    worker_open(&w, &f->store);
    pr_id kept = fixture_send(f, "in the backup");
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 1);
    backup_make(f);
    pr_id lost = fixture_send(f, "not in the backup"); /* its pages are in the log */
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 1);
    backup_restore(f);

    CHECK_EQ(store_wait(&w.session, -1, SOON_US), 1); /* nobody commits anything, and it is noticed */
    CHECK_EQ(worker_cycle(&w, &(struct cycle){ .fresh_rows = 10, .fresh_bytes = SIZE_MAX }), PR_ELEASE);
    CHECK(strstr(w.error.text, "replaced") != NULL);
    pr_id there = fixture_send(f, "takes the old place");
    join_anew(&w);
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 2);
    CHECK(w.reply->lanes_owned == LANES_ALL);
    CHECK(pr_id_equal(w.reply->rows[0].m.id, kept));
    CHECK(pr_id_equal(w.reply->rows[1].m.id, there));
    CHECK(!pr_id_equal(w.reply->rows[1].m.id, lost));
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 2);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
    worker_close(&w);
    fixture_close(f);
}

TEST(a_file_that_was_moved_away_is_a_fault_in_words_until_one_is_back) /* B28 */
{
    struct worker w;
    char aside[160];
    struct fixture *f = fixture_open("");
    struct cycle look = { .fresh_rows = 10, .fresh_bytes = SIZE_MAX };
    worker_open(&w, &f->store);
    pr_id id = fixture_send(f, "kept");
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 1);
    path_of(f, ".aside", aside);
    CHECK_EQ(rename(f->path, aside), 0);
    CHECK_EQ(worker_cycle(&w, &look), PR_EIO);
    CHECK(strstr(w.error.text, "moved or deleted") != NULL);
    CHECK_EQ(access(f->path, F_OK), -1); /* nobody has made an empty one */
    CHECK_EQ(rename(aside, f->path), 0);
    CHECK_EQ(worker_cycle(&w, &look), PR_OK); /* the same file: nothing is forgotten */
    CHECK_EQ(w.reply->row_count, 0);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 1);
    (void)id;
    worker_close(&w);
    fixture_close(f);
}

TEST(a_file_without_our_tables_in_the_place_of_ours_says_what_to_do) /* B28 */
{
    struct worker w;
    struct fixture *f = fixture_open("");
    char aside[160];
    worker_open(&w, &f->store);
    CYCLE(&w, .fresh_rows = 10);
    path_of(f, ".aside", aside);
    CHECK_EQ(rename(f->path, aside), 0);
    sqlite3 *raw = fixture_raw(f);
    raw_run(raw, "CREATE TABLE theirs (a)");
    sqlite3_close(raw);
    CHECK_EQ(worker_cycle(&w, &(struct cycle){ .fresh_rows = 10, .fresh_bytes = SIZE_MAX }), PR_ESCHEMA);
    CHECK(strstr(w.error.text, "postrider init") != NULL);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM sqlite_master"), 1);
    worker_close(&w);
    fixture_close(f);
}
