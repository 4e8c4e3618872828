/* Rows that were INSERTed without the library: any type and any bytes in any column.  They are handed out or
 * dead-lettered; neither they nor the good row behind them cause a crash (B9).  A column per line: n (NULL), i123,
 * r1.5, tTEXT, bBYTES; the verdict comes first. */
#include <dirent.h>
#include <sqlite3.h>
#include <unistd.h>

#include "fuzz.h"

#define CLAIMED_MAX 8
#define CYCLES_MAX 12

static const char *const columns[] = {
    "id",         "destination",  "due_at",  "held_by",        "split_seq",    "stream",         "type",       "source",
    "subject",    "content_type", "headers", "correlation_id", "causation_id", "traceparent",    "tracestate", "event",
    "created_at", "expires_at",   "status",  "attempts",       "failures",     "failure_reason", "released",   "code",
    "error",      "failed_at",    "story",   "payload",
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static char directory[64], url[128];
static sqlite3 *db;
static sqlite3_stmt *insert;

/* ---- The store ------------------------------------------------------------------------------- */

static void remove_all(void)
{
    char path[400];
    DIR *dir = opendir(directory);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(directory);
}

static void prepare_insert(void)
{
    char sql[1024] = "INSERT OR IGNORE INTO outbox (", values[128] = "";
    for (size_t i = 0; i < COLUMNS; i++) {
        strcat(strcat(sql, i > 0 ? ", " : ""), columns[i]);
        strcat(values, i > 0 ? ", ?" : "?");
    }
    strcat(strcat(strcat(sql, ") VALUES ("), values), ")");
    FUZZ_CHECK(sqlite3_prepare_v2(db, sql, -1, &insert, NULL) == SQLITE_OK);
}

static void prepare(void)
{
    struct pr_error error;
    char path[96];
    snprintf(directory, sizeof directory, "%s/postrider-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_CHECK(mkdtemp(directory) != NULL);
    atexit(remove_all);
    snprintf(path, sizeof path, "%s/store.db", directory);
    snprintf(url, sizeof url, "sqlite:%s?synchronous=normal", path);
    FUZZ_CHECK(pr_store_init(url, &error) == PR_OK);
    FUZZ_CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    FUZZ_CHECK(sqlite3_exec(db, "PRAGMA synchronous = off", NULL, NULL, NULL) == SQLITE_OK);
    prepare_insert();
}

static void bind(int at, pr_slice value)
{
    char *text = value.size > 0 ? input_cstr((pr_slice){ value.data + 1, value.size - 1 }) : NULL;
    const char *bytes = value.size > 0 ? value.data + 1 : "";
    int size = value.size > 0 ? (int)value.size - 1 : 0;
    switch (value.size > 0 ? value.data[0] : 'n') {
    case 'i': sqlite3_bind_int64(insert, at, strtoll(text, NULL, 10)); break;
    case 'r': sqlite3_bind_double(insert, at, strtod(text, NULL)); break;
    case 't': sqlite3_bind_text(insert, at, bytes, size, SQLITE_TRANSIENT); break;
    case 'b': sqlite3_bind_blob(insert, at, bytes, size, SQLITE_TRANSIENT); break;
    default: sqlite3_bind_null(insert, at); break;
    }
    free(text);
}

static void insert_rows(struct input *in)
{
    for (int i = 1; i <= (int)COLUMNS; i++)
        bind(i, i < (int)COLUMNS ? input_line(in) : input_rest(in));
    int rc = sqlite3_step(insert);
    FUZZ_CHECK(rc == SQLITE_DONE || (rc & 0xff) == SQLITE_CONSTRAINT || rc == SQLITE_MISMATCH);
    sqlite3_reset(insert);
    FUZZ_CHECK(sqlite3_exec(db, "INSERT INTO outbox (type, payload) VALUES ('good', 'x')", NULL, NULL, NULL) ==
               SQLITE_OK);
}

/* ---- The work --------------------------------------------------------------------------------- */

/* Claim and judge until the good row has come. */
static void work(struct pr_worker *worker, enum pr_verdict_kind kind)
{
    struct pr_claimed claimed[CLAIMED_MAX];
    struct pr_verdict verdicts[CLAIMED_MAX];
    struct pr_error error;
    size_t count = 0;
    bool good = false;
    for (int i = 0; i < CYCLES_MAX; i++) {
        size_t verdict_count = count;
        for (size_t k = 0; k < count; k++) {
            const struct pr_message *m = claimed[k].message;
            bool is_good = m->type.size == 4 && memcmp(m->type.data, "good", 4) == 0;
            good |= is_good;
            verdicts[k] = (struct pr_verdict){ .claim = claimed[k].claim,
                                               .kind = is_good ? PR_VERDICT_COMPLETE : kind,
                                               .reason = PR_REASON_VALIDATION_FAILURE,
                                               .error = m->type };
        }
        int rc = pr_worker_cycle(worker, verdicts, verdict_count, NULL, claimed, CLAIMED_MAX, &count, &error);
        if (rc != PR_OK)
            fprintf(stderr, "%s\n", error.text);
        FUZZ_CHECK(rc == PR_OK);
        if (good && verdict_count == 0)
            break;
    }
    FUZZ_CHECK(good);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    struct pr_worker_options options = { .store_url = url, .name = "fuzz" };
    struct pr_worker *worker;
    struct pr_error error;
    if (db == NULL)
        prepare();
    int64_t kind = input_number(&in);
    FUZZ_CHECK(sqlite3_exec(db,
                            "DELETE FROM outbox; DELETE FROM postrider_dead_letter; DELETE FROM postrider_claim; "
                            "DELETE FROM postrider_instance",
                            NULL, NULL, NULL) == SQLITE_OK);
    insert_rows(&in);
    FUZZ_CHECK(pr_worker_open(&options, &worker, &error) == PR_OK);
    work(worker, kind >= 0 && kind <= PR_VERDICT_PARK ? (enum pr_verdict_kind)kind : PR_VERDICT_COMPLETE);
    pr_worker_close(worker);
    return 0;
}
