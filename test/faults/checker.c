/* checker.c - reads what the processes recorded and the database, with plain SQLite, and reports which promise was
 * broken.  It uses nothing of the library's internals.
 *
 *     faults-checker DIR MAX_ATTEMPTS
 *
 * DIR/deaths, written by the test that kills: "K pid" for each process that was killed. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"

#define PROBLEMS_MAX 10 /* shown of one kind */

static sqlite3 *db;

_Noreturn static void give_up(const char *what)
{
    printf("checker: %s: %s\n", what, sqlite3_errmsg(db));
    exit(2);
}

static void run(const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        give_up(sql);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A line is a letter and words: each kind has its table, the words are its columns. */
static const struct {
    const char *file;
    char letter;
    int words;
    const char *insert;
} kinds[] = {
    { "history", 'S', 7,
      "INSERT INTO started (id, stream, seq, attempt, failures, digest, pid, at) VALUES (?, ?, ?, ?, ?, ?, ?, "
      "?)" },
    { "history", 'E', 4, "INSERT INTO ended (id, attempt, result, pid, at) VALUES (?, ?, ?, ?, ?)" },
    { "producer", 'T', 5, "INSERT INTO tried (id, stream, digest, type, pid, at) VALUES (?, ?, ?, ?, ?, ?)" },
    { "producer", 'Q', 5, "INSERT INTO queued (id, stream, digest, type, pid, at) VALUES (?, ?, ?, ?, ?, ?)" },
    { "producer", 'C', 1, "INSERT INTO committed (id, at) VALUES (?, ?)" },
    { "producer", 'R', 1, "INSERT INTO rolled_back (id, at) VALUES (?, ?)" },
    { "deaths", 'K', 1, "INSERT INTO killed (pid, at) VALUES (?, ?)" },
};

static void load_line(size_t kind, char *line, long number)
{
    sqlite3_stmt *statement;
    char *rest = line + 1, *word;
    int count = 0;
    if (sqlite3_prepare_v2(db, kinds[kind].insert, -1, &statement, NULL) != SQLITE_OK)
        give_up(kinds[kind].insert);
    while ((word = strsep(&rest, " \n")) != NULL)
        if (word[0] != '\0')
            sqlite3_bind_text(statement, ++count, word, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(statement, kinds[kind].words + 1, number);
    if (count != kinds[kind].words || sqlite3_step(statement) != SQLITE_DONE) {
        printf("checker: line %ld of %s cannot be read\n", number, kinds[kind].file);
        exit(2);
    }
    sqlite3_finalize(statement);
}

static void load(const char *dir, const char *name)
{
    char path[512], line[1024];
    long number = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        number++;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            if (strcmp(kinds[i].file, name) == 0 && kinds[i].letter == line[0])
                load_line(i, line, number);
    }
    if (file != NULL)
        fclose(file);
}

static void sql_digest(sqlite3_context *context, int count, sqlite3_value **values)
{
    char text[32];
    (void)count;
    const void *data = sqlite3_value_blob(values[0]);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)digest(data, (size_t)sqlite3_value_bytes(values[0])));
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

/* A stored id as text. */
static void sql_uuid(sqlite3_context *context, int count, sqlite3_value **values)
{
    const unsigned char *b = sqlite3_value_blob(values[0]);
    char text[64] = "damaged";
    (void)count;
    if (sqlite3_value_bytes(values[0]) == 16)
        snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static const char tables[] = "CREATE TABLE started (id, stream, seq INTEGER, attempt INTEGER, failures "
                             "INTEGER, digest, pid INTEGER, at INTEGER);"
                             "CREATE TABLE ended (id, attempt INTEGER, result, pid INTEGER, at INTEGER);"
                             "CREATE TABLE tried (id, stream, digest, type, pid INTEGER, at INTEGER);"
                             "CREATE TABLE queued (id, stream, digest, type, pid INTEGER, at INTEGER);"
                             "CREATE TABLE committed (id, at INTEGER);"
                             "CREATE TABLE rolled_back (id, at INTEGER);"
                             "CREATE TABLE killed (pid INTEGER PRIMARY KEY, at INTEGER);"
                             "CREATE TABLE setting (max_attempts INTEGER);";

/* sent: what is known to be committed, with its order inside its stream.  A message of a sender
 * that died in the call may be committed or not: then its being there decides. */
static const char views[] =
    "CREATE INDEX started_id ON started (id, at);"
    "CREATE INDEX ended_id ON ended (id, attempt);"
    "CREATE INDEX committed_id ON committed (id);"
    "CREATE TABLE waiting AS SELECT uuid(id) id FROM store.outbox;"
    "CREATE TABLE dead AS SELECT uuid(id) id, seq, stream, type, attempts, failures, cause, digest(payload) "
    "digest FROM store.postrider_dead_letter;"
    "CREATE TABLE done AS SELECT uuid(id) id, digest(payload) digest FROM store.postrider_done;"
    "CREATE INDEX dead_id ON dead (id);"
    "CREATE TABLE sent (id PRIMARY KEY, stream, digest, type, place INTEGER);"
    "INSERT INTO sent SELECT id, stream, digest, type, number FROM store.app;"
    "INSERT INTO sent SELECT id, stream, digest, type, at FROM queued WHERE id IN (SELECT id FROM committed)"
    " OR id IN (SELECT id FROM started) OR id IN (SELECT id FROM dead) OR id IN (SELECT id FROM done);"
    "CREATE VIEW first AS SELECT s.id, s.stream, s.place, min(h.at) at, max(h.at) last FROM sent s JOIN "
    "started h USING (id)"
    " WHERE s.stream <> '-' GROUP BY s.id;";

/* ---- Judging ------------------------------------------------------------------------------------ */

/* Each finds what must not be there: a text per row. */
static const struct {
    const char *promise, *sql;
} checks[] = {
    { "I1 committed, but neither delivered nor dead",
      "SELECT id FROM sent WHERE id NOT IN (SELECT id FROM ended WHERE result = 'ok') AND id NOT IN (SELECT id "
      "FROM dead)" },
    { "I1 the sender was told that it is committed, but its own row is gone",
      "SELECT id FROM committed WHERE id NOT IN (SELECT id FROM sent)" },
    { "I1 still waiting after the drain", "SELECT id FROM waiting" },
    { "I2 handed out, but never committed", "SELECT DISTINCT id FROM started WHERE id NOT IN (SELECT id FROM sent)" },
    { "I2 dead, but never committed", "SELECT id FROM dead WHERE id NOT IN (SELECT id FROM sent)" },
    { "I2 rolled back and yet handed out", "SELECT DISTINCT id FROM started WHERE id IN (SELECT id FROM rolled_back)" },
    { "I3 first handed out before an earlier one of its stream",
      "SELECT stream || ': ' || id FROM (SELECT id, stream, at, max(at) OVER (PARTITION BY stream ORDER BY "
      "place"
      " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) before FROM first) WHERE at < before" },
    { "I3 handed out again after a later one of its stream had begun",
      "SELECT stream || ': ' || id FROM (SELECT id, stream, last, min(at) OVER (PARTITION BY stream ORDER BY "
      "place"
      " ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) after FROM first) WHERE last > after" },
    { "I4 handed out more often than the limit allows",
      "SELECT id || ' attempt ' || attempt || ' failures ' || failures FROM started, setting WHERE attempt - "
      "failures > max_attempts" },
    { "I4 two hand-outs with one number, or a number that went back",
      "SELECT id || ' attempt ' || attempt FROM (SELECT id, attempt, lag(attempt) OVER (PARTITION BY id ORDER "
      "BY at) before FROM started)"
      " WHERE attempt <= before" },
    { "I4 more failures are counted than there were",
      "SELECT id FROM started s WHERE failures > (SELECT count(*) FROM ended e WHERE e.id = s.id AND result = "
      "'failed' AND e.at < s.at)" },
    { "I4 a dead letter has fewer attempts than there were hand-outs",
      "SELECT id FROM dead WHERE attempts < (SELECT max(attempt) FROM started WHERE started.id = dead.id)" },
    { "I4 poison before the limit", "SELECT id || ' ' || attempts || '-' || failures FROM dead, setting WHERE "
                                    "cause = 7 AND type <> 'doomed' AND attempts - failures < max_attempts" },
    { "I4 dead without poison, though nothing about it was doomed",
      "SELECT id || ' cause ' || cause FROM dead WHERE type <> 'doomed' AND cause <> 7" },
    { "I5 two ends",
      "SELECT id FROM (SELECT id FROM dead UNION ALL SELECT id FROM done) GROUP BY id HAVING count(*) > 1" },
    { "I5 not among the delivered that are kept",
      "SELECT id FROM sent WHERE EXISTS (SELECT 1 FROM done) AND id NOT IN (SELECT id FROM done) AND id NOT IN "
      "(SELECT id FROM dead)" },
    { "I5 delivered, though it always failed",
      "SELECT id FROM sent WHERE type = 'doomed' AND id NOT IN (SELECT id FROM dead)" },
    /* Counts are written one cycle after the verdict: a kill may lose some, never add any. */
    { "I5 the endpoint's count of deliveries is wrong",
      "SELECT 'counted ' || counted || ', delivered ' || delivered FROM (SELECT (SELECT coalesce(sum(sent), 0) "
      "FROM store.postrider_endpoint) counted,"
      " (SELECT count(*) FROM sent WHERE id NOT IN (SELECT id FROM dead)) delivered)"
      " WHERE counted > delivered OR (counted < delivered AND NOT EXISTS (SELECT 1 FROM killed))" },
    { "I7 a dead letter is not what was sent",
      "SELECT id FROM dead JOIN sent USING (id) WHERE dead.digest <> sent.digest OR dead.type <> sent.type" },
    { "I8 handed out, but not as it was sent",
      "SELECT id FROM started JOIN sent USING (id) WHERE started.digest <> sent.digest" },
    { "I8 kept, but not as it was sent", "SELECT id FROM done JOIN sent USING (id) WHERE done.digest <> sent.digest" },
    { "I9 handed out twice without a failure or a death between",
      "SELECT id || ' attempt ' || attempt FROM (SELECT id, attempt, lag(attempt) OVER w before, lag(pid) OVER "
      "w owner FROM started"
      " WINDOW w AS (PARTITION BY id ORDER BY at)) t WHERE before IS NOT NULL AND owner NOT IN (SELECT pid "
      "FROM killed)"
      " AND NOT EXISTS (SELECT 1 FROM ended e WHERE e.id = t.id AND e.attempt = t.before AND result = "
      "'failed')" },
    { "the database is damaged",
      "SELECT integrity_check FROM pragma_integrity_check WHERE schema = 'store' AND integrity_check <> 'ok'" },
};

static int judge(const char *promise, const char *sql)
{
    sqlite3_stmt *statement;
    int found = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        give_up(sql);
    while (sqlite3_step(statement) == SQLITE_ROW)
        if (found++ < PROBLEMS_MAX)
            printf("BROKEN %s: %s\n", promise, (const char *)sqlite3_column_text(statement, 0));
    if (sqlite3_finalize(statement) != SQLITE_OK)
        give_up(sql);
    return found;
}

static long number(const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        give_up(sql);
    long result = (long)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return result;
}

int main(int argc, char **argv)
{
    char sql[700];
    int broken = 0;
    if (argc != 3) {
        printf("usage: faults-checker DIR MAX_ATTEMPTS\n");
        return 2;
    }
    if (sqlite3_open(":memory:", &db) != SQLITE_OK)
        give_up("memory");
    sqlite3_create_function(db, "digest", 1, SQLITE_UTF8, NULL, sql_digest, NULL, NULL);
    sqlite3_create_function(db, "uuid", 1, SQLITE_UTF8, NULL, sql_uuid, NULL, NULL);
    snprintf(sql, sizeof sql, "ATTACH '%s/store.db' AS store; PRAGMA store.busy_timeout = 20000", argv[1]);
    run(sql);
    run(tables);
    run("BEGIN");
    load(argv[1], "history");
    load(argv[1], "producer");
    load(argv[1], "deaths");
    snprintf(sql, sizeof sql, "INSERT INTO setting VALUES (%ld)", strtol(argv[2], NULL, 10));
    run(sql);
    run(views);
    run("COMMIT");
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        broken += judge(checks[i].promise, checks[i].sql);
    printf("%ld messages sent, %ld rolled back, %ld hand-outs, %ld of them again, %ld dead, %ld processes "
           "killed: %d broken\n",
           number("SELECT count(*) FROM sent"), number("SELECT count(*) FROM rolled_back"),
           number("SELECT count(*) FROM started"), number("SELECT count(*) - count(DISTINCT id) FROM started"),
           number("SELECT count(*) FROM dead"), number("SELECT count(*) FROM killed"), broken);
    sqlite3_close(db);
    return broken > 0;
}
