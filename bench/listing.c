/* How long people wait for an answer while there are millions of messages: every listing of the program, run as people
 * run it, from the start of the process to its end; and the answers of a daemon over HTTP. */
#include "listing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bare.h"
#include "daemon.h"
#include "report.h"
#include "transport/server.h"

#define ANSWER_AT_MOST_MS 200.0
#define ROUNDS 5
#define ARGS_MAX 16
#define NAMES_MAX 256
#define START_TIMEOUT_S 20

/* ---- What is asked -------------------------------------------------------------------------------- */

static const struct question {
    const char *name;
    const char *args; /* words are parted by blanks */
} questions[] = {
    { "list", "list" },
    { "list_after", "list --box outbox --after 500000" },
    { "list_endpoint", "list --endpoint sink" },
    { "list_endpoint_rare", "list --endpoint rare" },
    { "list_type", "list --type bench.*" },
    { "list_type_rare", "list --type rare.*" },
    { "list_stream", "list --stream order-100" },
    { "list_stream_rare", "list --stream rare" },
    { "list_ready", "list --state ready" },
    { "list_in_flight", "list --state in-flight" },
    { "list_delayed", "list --state delayed" },
    { "list_retrying", "list --state retrying" },
    { "list_held", "list --state held" },
    { "list_parked", "list --state parked" },
    { "list_paused", "list --state paused" },
    { "list_done", "list --state done" },
    { "list_reason", "list --reason timeout_exceeded" },
    { "list_reason_rare", "list --reason unauthorized" },
    { "list_error", "list --error refused" },
    { "list_error_rare", "list --error nobody-says-this" },
    { "list_since", "list --since 5m" },
    { "list_until", "list --until 1h" },
    { "dead_list", "dead list" },
    { "dead_after", "dead list --after 50000" },
    { "dead_box", "dead list --box outbox" },
    { "dead_endpoint", "dead list --endpoint sink" },
    { "dead_endpoint_rare", "dead list --endpoint rare" },
    { "dead_type", "dead list --type bench.*" },
    { "dead_type_rare", "dead list --type rare.*" },
    { "dead_stream", "dead list --stream user-77" },
    { "dead_reason", "dead list --reason timeout_exceeded" },
    { "dead_reason_rare", "dead list --reason unauthorized" },
    { "dead_error", "dead list --error refused" },
    { "dead_error_rare", "dead list --error nobody-says-this" },
    { "dead_since", "dead list --since 5m" },
    { "dead_fingerprint", "dead list --fingerprint 0000000000000007" },
    { "dead_groups", "dead groups" },
    { "dead_groups_since", "dead groups --since 5m" },
    { "dead_groups_endpoint", "dead groups --endpoint rare" },
    { "dead_groups_type", "dead groups --type rare.*" },
    { "dead_groups_reason", "dead groups --reason unauthorized" },
    { "dead_groups_error", "dead groups --error refused" },
    { "streams", "streams" },
    { "streams_blocked", "streams --blocked" },
    { "streams_stream", "streams --stream order-100" },
    { "status", "status" },
    { "endpoints", "endpoints" },
    { "instances", "instances" },
    { "audit", "audit" },
    { "why", "why 30303030-3030-3030-3030-303030303737" },
    { "show", "show 30303030-3030-3030-3030-303030303737" },
};

static const struct question pages[] = {
    { "http_metrics", "/metrics" },
    { "http_ready", "/health/ready" },
    { "http_health", "/health" },
    { "http_status", "/v1/status" },
    { "http_messages", "/v1/messages" },
    { "http_messages_type_rare", "/v1/messages?type=rare.*" },
    { "http_messages_paused", "/v1/messages?state=paused" },
    { "http_dead", "/v1/dead" },
    { "http_dead_groups", "/v1/dead/groups" },
    { "http_streams_blocked", "/v1/streams?blocked=true" },
};

static void tell(const struct bench *b, const char *place, const char *name, const double *ms, const double *cpu_ms)
{
    static char names[NAMES_MAX][2][64];
    static size_t used;
    double worst = 0;
    for (size_t i = 0; i < ROUNDS; i++)
        worst = ms[i] > worst ? ms[i] : worst;
    if (used == NAMES_MAX)
        die("too many questions");
    snprintf(names[used][0], sizeof names[0][0], "%s_%s", place, name);
    snprintf(names[used][1], sizeof names[0][1], "%s_%s_worst", place, name);
    progress(b, "%-36s %7.1f ms, at worst %7.1f ms; %.1f ms on a processor", names[used][0], median(ms, ROUNDS), worst,
             cpu_ms != NULL ? median(cpu_ms, ROUNDS) : 0);
    report_value(names[used][0], median(ms, ROUNDS), "ms", BOUND_AT_MOST, ANSWER_AT_MOST_MS);
    report_value(names[used][1], worst, "ms", BOUND_NONE, 0);
    used++;
}

/* ---- By the program ---------------------------------------------------------------------------------- */

static void exec_postrider(const struct bench *b, const char *config, const char *args)
{
    char words[256], file[512], *argv[ARGS_MAX + 4] = { "postrider" }, *place = NULL;
    size_t count = 1;
    snprintf(words, sizeof words, "%s", args);
    for (char *word = strtok_r(words, " ", &place); word != NULL && count < ARGS_MAX;
         word = strtok_r(NULL, " ", &place))
        argv[count++] = word;
    argv[count++] = "-c";
    snprintf(file, sizeof file, "%s", config);
    argv[count++] = file;
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execv(b->program, argv);
    _exit(127);
}

/* From its start to its end; ret_cpu_ms: what of that was time on a processor (on SQLite all of the work). */
static double run_ms(const struct bench *b, const char *config, const char *args, double *ret_cpu_ms)
{
    struct rusage used;
    int status;
    double begin = seconds_now();
    pid_t pid = fork();
    if (pid < 0)
        die("cannot fork");
    if (pid == 0)
        exec_postrider(b, config, args);
    while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR)
        ;
    double ms = (seconds_now() - begin) * 1e3;
    *ret_cpu_ms = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
                  (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 4 && WEXITSTATUS(status) != 7))
        die("postrider %s ended with status %d", args, status);
    return ms;
}

static void measure_program(const struct bench *b, const struct listing_place *place, const char *config)
{
    for (size_t i = 0; i < ARRAY_LENGTH(questions); i++) {
        double ms[ROUNDS], cpu_ms[ROUNDS];
        for (size_t k = 0; k < ROUNDS; k++)
            ms[k] = run_ms(b, config, questions[i].args, &cpu_ms[k]);
        tell(b, place->name, questions[i].name, ms, cpu_ms);
    }
}

/* ---- By a daemon ----------------------------------------------------------------------------------- */

/* Is it there, and 200? */
static bool http_get(unsigned port, const char *path)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    char text[65536];
    bool ok = false;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("cannot make a socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        int size = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n\r\n",
                            path, port);
        ssize_t got = write(fd, text, (size_t)size) == size ? read(fd, text, sizeof text) : -1;
        ok = got > 12 && memcmp(text, "HTTP/1.1 200", 12) == 0;
        while (got > 0)
            got = read(fd, text, sizeof text);
    }
    close(fd);
    return ok;
}

static pid_t daemon_listening(const struct bench *b, const char *config, unsigned port)
{
    pid_t pid = fork();
    if (pid < 0)
        die("cannot fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exec_postrider(b, config, "run");
    }
    double deadline = seconds_now() + START_TIMEOUT_S;
    while (!http_get(port, "/health/ready")) {
        if (seconds_now() > deadline || waitpid(pid, NULL, WNOHANG) != 0)
            die("the daemon does not come up");
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    return pid;
}

static void measure_daemon(const struct bench *b, const struct listing_place *place, const char *config, unsigned port)
{
    place->pause(place);
    pid_t pid = daemon_listening(b, config, port);
    for (size_t i = 0; i < ARRAY_LENGTH(pages); i++) {
        double ms[ROUNDS];
        for (size_t k = 0; k < ROUNDS; k++) {
            if (strcmp(pages[i].args, "/metrics") == 0)
                nanosleep(&(struct timespec){ .tv_sec = 2, .tv_nsec = 200000000 },
                          NULL); /* until they are counted anew */
            double begin = seconds_now();
            if (!http_get(port, pages[i].args))
                die("GET %s fails", pages[i].args);
            ms[k] = (seconds_now() - begin) * 1e3;
        }
        tell(b, place->name, pages[i].name, ms, NULL);
    }
    daemon_stop(pid);
    double ms[ROUNDS], cpu_ms[ROUNDS];
    for (size_t k = 0; k < ROUNDS; k++)
        ms[k] = run_ms(b, config, "status", &cpu_ms[k]);
    tell(b, place->name, "status_paused", ms, cpu_ms);
}

/* ---- The whole ---------------------------------------------------------------------------------------- */

static void config_write(const char *path, const char *url, unsigned port)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        die("cannot write %s", path);
    fprintf(file,
            "store: \"%s\"\nendpoints: {sink: {url: \"null:\"}, rare: {url: \"null:\"}}\nroutes: [{to: sink}]\n"
            "log: {level: error}\nhttp: {listen: 127.0.0.1:%u}\n",
            url, port);
    fclose(file);
}

void listing_measure(const struct bench *b, const struct listing_place *place)
{
    char name[64], url[512];
    size_t messages = b->messages * 10, dead = b->messages;
    snprintf(url, sizeof url, "%s", place->url); /* filling makes others in its place */
    double begin = seconds_now();
    progress(b, "%s: making %zu messages and %zu dead letters", place->name, messages, dead);
    place->fill(place, messages, dead);
    progress(b, "%s: that took %.0f s", place->name, seconds_now() - begin);

    unsigned port = server_free_port(); /* only now: filling takes minutes, and others take ports, too */
    snprintf(name, sizeof name, "%s-listing.yaml", place->name);
    const char *config = bench_path(b, name);
    config_write(config, url, port);
    measure_program(b, place, config);
    measure_daemon(b, place, config, port);
    place->remove(place);
}

/* ---- SQLite ------------------------------------------------------------------------------------------- */

#define NUMBERS "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %zu) "
#define NOW "(CAST(strftime('%%s', 'now') AS INTEGER) * 1000000)"

static const char SQLITE_MESSAGES[] =
    "INSERT INTO outbox (id, destination, due_at, held_by, stream, type, created_at, status, attempts, "
    "failures,"
    " failure_reason, error, failed_at, payload) " NUMBERS
    "SELECT CAST(printf('%%016d', i) AS BLOB), CASE WHEN i %% 100000 = 77 THEN 'rare' ELSE 'sink' END,"
    " CASE WHEN i %% 100000 = 78 THEN 9223372036854775807 WHEN i %% 500 = 0 THEN " NOW " + 3600000000 + i"
    " WHEN i %% 500 = 10 THEN " NOW " + 7200000000 + i END,"
    " CASE WHEN i %% 500 BETWEEN 1 AND 5 THEN 'sink/order-' || (i / 500) END,"
    " CASE WHEN i %% 500 <= 5 THEN 'order-' || (i / 500) WHEN i %% 100000 = 77 THEN 'rare' ELSE 'user-' || (i "
    "%% 50000) END,"
    " CASE WHEN i %% 100000 = 77 THEN 'rare.type' ELSE 'bench.' || (i %% 10) END,"
    " " NOW " - 7200000000 + CAST(i * 7200000000.0 / %zu AS INTEGER),"
    " CASE WHEN i %% 500 = 0 THEN 32769 ELSE 1 END, CASE WHEN i %% 500 = 0 THEN 1 + i / 500 %% 7 ELSE 0 END,"
    " CASE WHEN i %% 500 = 0 THEN 1 + i / 500 %% 7 ELSE 0 END,"
    " CASE WHEN i %% 500 <> 0 THEN 0 WHEN i / 500 %% 5000 = 7 THEN 11 ELSE 1 + i / 500 %% 4 END,"
    " CASE WHEN i %% 500 = 0 THEN 'connection refused by ' || (i / 500) END,"
    " CASE WHEN i %% 500 = 0 THEN " NOW " - 60000000 END, zeroblob(512) FROM n";

/* g: what it died of. */
static const char SQLITE_DEAD[] =
    "INSERT INTO postrider_dead_letter (box, id, destination, seq, stream, type, event, created_at, status, attempts, "
    "failures,"
    " failure_reason, error, failed_at, released, endpoint, cause, limit_reached, rule, fingerprint, died_at, "
    "payload) " NUMBERS "SELECT 'outbox', CAST(printf('d%%015d', i) AS BLOB), CASE g WHEN 901 THEN 'rare' ELSE "
    "'sink' END, i, 'user-' || (i %% 50000),"
    " CASE g WHEN 901 THEN 'rare.type' ELSE 'bench.' || (g %% 10) END, 0, " NOW " - 7200000000 + i, 32769, 5, 5,"
    " CASE g WHEN 901 THEN 11 ELSE 1 + g %% 6 END, 'connection refused by ' || g || ' port ' || i, " NOW ", 0,"
    " CASE g WHEN 901 THEN 'rare' ELSE 'sink' END, CASE g WHEN 901 THEN 11 ELSE 1 + g %% 6 END, 5, '', "
    "printf('%%016x', g),"
    " " NOW " - 7200000000 + CAST(i * 7200000000.0 / %zu AS INTEGER), zeroblob(512)"
    " FROM (SELECT i, CASE WHEN i %% 100000 = 77 THEN 901 WHEN i %% 2 = 0 THEN 0 ELSE 1 + i / 2 %% 900 END AS "
    "g FROM n)";

static void sqlite_fill(const struct listing_place *place, size_t messages, size_t dead)
{
    char sql[4096];
    bare_create(place->path);
    sqlite3 *db = bare_open(place->path, 0);
    bare_run(db, "PRAGMA locking_mode = exclusive; PRAGMA journal_mode = off; PRAGMA synchronous = off;"
                 "PRAGMA cache_size = -262144");
    snprintf(sql, sizeof sql, SQLITE_MESSAGES, messages, messages);
    bare_run(db, sql);
    snprintf(sql, sizeof sql, SQLITE_DEAD, dead, dead);
    bare_run(db, sql);
    bare_run(db, "PRAGMA journal_mode = wal");
    bare_close(db);
}

static void sqlite_pause(const struct listing_place *place)
{
    sqlite3 *db = bare_open(place->path, 0);
    bare_run(db, "INSERT INTO postrider_endpoint (name, paused_until) VALUES ('sink', 9223372036854775807)"
                 " ON CONFLICT (name) DO UPDATE SET paused_until = excluded.paused_until");
    bare_close(db);
}

static void sqlite_remove(const struct listing_place *place)
{
    bare_remove(place->path);
}

void bench_listings(const struct bench *b)
{
    char path[512];
    snprintf(path, sizeof path, "%s", bench_path(b, "listing.db"));
    listing_measure(b, &(struct listing_place){ .name = "sqlite",
                                                .url = bare_url(path),
                                                .path = path,
                                                .fill = sqlite_fill,
                                                .pause = sqlite_pause,
                                                .remove = sqlite_remove });
    listing_postgres(b);
}
