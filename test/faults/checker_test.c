/* Tests of the checker: each planted breach must be found, and nothing else. */
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#include "crew.h"

#define A "01900000-0000-7000-8000-00000000000a"
#define B "01900000-0000-7000-8000-00000000000b"
#define BLOB_A "x'0190000000007000800000000000000a'"
#define X "af63f54c8601fb67" /* the digest of 'x' */
#define APP(id, type) "INSERT INTO app (id, stream, digest, type) VALUES ('" id "', 's', '" X "', '" type "');"
#define OK_BOTH APP(A, "ok") APP(B, "ok") "UPDATE postrider_endpoint SET sent = 2;"
#define DEAD(attempts, failures, cause, payload)                                                                       \
    "INSERT INTO postrider_dead_letter (box, id, destination, seq, stream, type, status, attempts, failures, "         \
    "failure_reason, released, "                                                                                       \
    "endpoint, cause, limit_reached, rule, fingerprint, died_at, payload) VALUES ('outbox', " BLOB_A                   \
    ", '', 1, 's', 'ok', 1, " attempts ", " failures ", 0, 0, 'e', " cause ", 5, '', '', 1, " payload ");"
#define DONE_A                                                                                                         \
    "INSERT INTO postrider_done (box, id, destination, seq, status, attempts, failures, failure_reason, released, "    \
    "endpoint, done_at, "                                                                                              \
    "keep_until, payload) VALUES ('outbox', " BLOB_A ", '', 1, 1, 1, 0, 0, 0, 'e', 1, 1, 'x');"
#define S(id, attempt, failures, pid) "S " id " s 1 " attempt " " failures " " X " " pid "\n"
#define E(id, attempt, result, pid) "E " id " " attempt " " result " " pid "\n"
#define GOOD(id) S(id, "1", "0", "10") E(id, "1", "ok", "10")

static const struct {
    const char *crime; /* NULL: none */
    const char *sql, *history, *producer, *deaths;
} cases[] = {
    { NULL, OK_BOTH, GOOD(A) GOOD(B), "C " A "\nC " B "\n", "" },
    { NULL, OK_BOTH, S(A, "1", "0", "9") S(A, "2", "0", "10") E(A, "2", "ok", "10") GOOD(B), "", "K 9\n" },
    { NULL, OK_BOTH, S(A, "1", "0", "9") E(A, "1", "failed", "9") S(A, "2", "1", "9") E(A, "2", "ok", "9") GOOD(B), "",
      "" },
    { "I1 committed, but neither", OK_BOTH, GOOD(A), "", "" },
    { "I1 the sender was told", APP(A, "ok"), GOOD(A), "C " B "\n", "" },
    { "I1 still waiting", OK_BOTH "INSERT INTO outbox (type, payload) VALUES ('ok', 'x');", GOOD(A) GOOD(B), "", "" },
    { "I2 handed out, but never committed", APP(A, "ok"), GOOD(A) GOOD(B), "", "" },
    { "I2 dead, but never", DEAD("6", "0", "7", "'x'"), "", "", "" },
    { "I2 rolled back", OK_BOTH, GOOD(A) GOOD(B), "R " A "\n", "" },
    { "I3 first handed out before", OK_BOTH, GOOD(B) GOOD(A), "", "" },
    { "I3 handed out again after", OK_BOTH, S(A, "1", "0", "10") GOOD(B) S(A, "2", "0", "11") E(A, "2", "ok", "11"), "",
      "K 10\n" },
    { "I4 handed out more often", OK_BOTH, S(A, "6", "0", "10") E(A, "6", "ok", "10") GOOD(B), "", "" },
    { "I4 two hand-outs with one number", OK_BOTH, S(A, "1", "0", "9") GOOD(A) GOOD(B), "", "K 9\n" },
    { "I4 more failures", OK_BOTH, S(A, "2", "1", "10") E(A, "2", "ok", "10") GOOD(B), "", "" },
    { "I4 a dead letter has fewer", APP(A, "ok") DEAD("5", "0", "7", "'x'"),
      S(A, "6", "1", "10") E(A, "1", "failed", "10"), "", "" },
    { "I4 poison before", APP(A, "ok") DEAD("3", "0", "7", "'x'"), "", "", "" },
    { "I4 dead without poison", APP(A, "ok") DEAD("3", "3", "2", "'x'"), "", "", "" },
    { "I5 two ends", APP(A, "ok") DEAD("6", "0", "7", "'x'") DONE_A, GOOD(A), "", "" },
    { "I5 not among the delivered", OK_BOTH DONE_A, GOOD(A) GOOD(B), "", "" },
    { "I5 delivered, though it always failed", APP(A, "doomed"), GOOD(A), "", "" },
    { "I5 the endpoint's count", OK_BOTH "UPDATE postrider_endpoint SET sent = 3;", GOOD(A) GOOD(B), "", "" },
    { "I5 the endpoint's count", OK_BOTH "UPDATE postrider_endpoint SET sent = 1;", GOOD(A) GOOD(B), "", "" },
    { "I7 a dead letter", APP(A, "ok") DEAD("6", "0", "7", "'y'"), "", "", "" },
    { "I8 handed out, but not as", OK_BOTH, "S " A " s 1 1 0 0000000000000000 10\n" E(A, "1", "ok", "10") GOOD(B), "",
      "" },
    { "I9 handed out twice", OK_BOTH, GOOD(A) S(A, "2", "0", "11") E(A, "2", "ok", "11") GOOD(B), "", "" },
};

static void write_file(const struct crew *c, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", c->place.dir, name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST(checker_finds_each_crime)
{
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct crew c;
        char said[4096];
        crew_init(&c, &(struct crew_setting){ .endpoint = "timeout: 1s" });
        place_do(&c.place, "INSERT INTO postrider_endpoint (name) VALUES ('e')");
        place_do(&c.place, cases[i].sql);
        write_file(&c, "history", cases[i].history);
        write_file(&c, "producer", cases[i].producer);
        write_file(&c, "deaths", cases[i].deaths);
        int found = crew_ask_checker(&c, 5, said, sizeof said);
        if (cases[i].crime == NULL && found != 0)
            check_fail(__FILE__, __LINE__, "case %zu is innocent, but: %s", i, said);
        if (cases[i].crime != NULL && (found == 0 || strstr(said, cases[i].crime) == NULL))
            check_fail(__FILE__, __LINE__, "case %zu is \"%s\", but: %s", i, cases[i].crime, said);
        crew_fini(&c);
    }
}
