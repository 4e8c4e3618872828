/* kill -9, many times: at each named step, and at any time.  Afterwards the checker looks for
 * anything lost, repeated without a cause, out of order, or counted wrongly. */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/util.h"

#include "crew.h"

#define MAX_ATTEMPTS 8 /* bystanders die often here: leave room to see them finish, too */
#define RESTLESS_US PR_SECONDS(3)
#define WORKERS 2 /* one works, one stands by */
#define BOXES 1   /* outbox: nobody uses the other */

static const struct crew_setting setting = {
    .options = "synchronous=normal&busy=10s",
    .root = "lease: 10s\nbatch: 20\n",
    .endpoint = "retry: [2ms, 5ms], max_attempts: 8",
};
static const struct crew_setting keeping = {
    .options = "synchronous=normal&busy=10s",
    .root = "lease: 10s\nbatch: 20\nboxes: {outbox: {keep: 1h}}\n",
    .endpoint = "retry: [2ms, 5ms], max_attempts: 8",
};

/* most: how many passings at most until the kill. */
struct step {
    const char *name;
    int most, signal;
    int kills; /* so far, in all runs */
};

static struct step worker_steps[] = {
    { "handler.before", 20, 0, 0 },
    { "handler.inside", 20, 0, 0 },
    { "handler.after", 20, 0, 0 },
    { "runtime.before_cycle", 30, 0, 0 },
    { "runtime.after_cycle", 30, 0, 0 },
    { "runtime.before_send", 20, 0, 0 },
    { "runtime.after_send", 20, 0, 0 },
    { "runtime.stop", 1, SIGTERM, 0 },
    { "runtime.retune", 1, SIGHUP, 0 },
    { "runtime.reload", 1, SIGUSR1, 0 },
    { "store.cycle.begin", 30, 0, 0 },
    { "store.cycle.before_verdicts", 20, 0, 0 },
    { "store.cycle.before_receipt", 20, 0, 0 },
    { "store.cycle.after_receipt", 20, 0, 0 },
    { "store.cycle.before_commit", 30, 0, 0 },
    { "store.cycle.after_commit", 30, 0, 0 },
    { "store.renew.before", 20, 0, 0 },
    { "store.renew.after", 20, 0, 0 },
    { "store.bury.counted", 1, 0, 0 },
    { "store.bury.done", 1, 0, 0 },
    { "store.dead_letter.copied", 1, 0, 0 },
};
static struct step producer_steps[] = {
    { "producer.before_commit", 50, 0, 0 },
    { "producer.after_commit", 50, 0, 0 },
    { "store.enqueue.before_commit", 30, 0, 0 },
    { "store.enqueue.after_commit", 30, 0, 0 },
};

struct storm {
    struct crew crew;
    struct random random;
    bool at_steps;
    size_t next_step, next_producer_step;
    uint64_t seed;
    struct {
        pid_t pid;
        struct step *step; /* where it will die; NULL: nowhere */
    } slots[WORKERS + 1];  /* the last one is the producer */
    pid_t victim;          /* killed by hand just now */
    int killed_by_hand;
};

/* ---- Starting --------------------------------------------------------------------------------- */

static void storm_start(struct storm *s, size_t slot, const char *role, struct step *step)
{
    char point[64];
    struct crew_order order = { .role = role, .seed = s->seed++ };
    if (step != NULL) {
        snprintf(point, sizeof point, "%s:%d", step->name, 1 + (int)random_below(&s->random, (uint64_t)step->most));
        order.fail_point = point;
        order.signal = step->signal;
        order.signal_after = step->signal != 0 ? 1 + (int)random_below(&s->random, 20) : 0;
    }
    s->slots[slot].pid = crew_start(&s->crew, &order);
    s->slots[slot].step = step;
}

static void storm_fill(struct storm *s)
{
    for (size_t i = 0; i < WORKERS; i++)
        if (s->slots[i].pid == 0)
            storm_start(s, i, "work", s->at_steps ? &worker_steps[s->next_step++ % ARRAY_LENGTH(worker_steps)] : NULL);
    if (s->slots[WORKERS].pid == 0)
        storm_start(s, WORKERS, "produce",
                    s->at_steps ? &producer_steps[s->next_producer_step++ % ARRAY_LENGTH(producer_steps)] : NULL);
}

/* Who ended must have been killed, or have been asked to end. */
static void storm_lost(struct storm *s, pid_t pid, int status)
{
    if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0)
        check_fail(__FILE__, __LINE__, "a process ended with code %d: see %s", WEXITSTATUS(status), s->crew.place.dir);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        check_fail(__FILE__, __LINE__, "a process died of signal %d: see %s", WTERMSIG(status), s->crew.place.dir);
    for (size_t i = 0; i <= WORKERS; i++) {
        if (s->slots[i].pid != pid)
            continue;
        if (s->slots[i].step != NULL && WIFSIGNALED(status) && pid != s->victim)
            s->slots[i].step->kills++;
        s->slots[i].pid = 0;
    }
}

/* ---- Killing ------------------------------------------------------------------------------------- */

static void storm_kill_somebody(struct storm *s)
{
    s->victim = s->slots[random_below(&s->random, WORKERS + 1)].pid;
    kill(s->victim, SIGKILL);
    s->killed_by_hand++;
}

/* A random moment is the fault itself here, not a wait for something. */
static int64_t storm_patience_us(struct storm *s)
{
    return s->at_steps ? RESTLESS_US : (int64_t)random_below(&s->random, PR_MILLISECONDS(150));
}

static void storm_rage(struct storm *s, int kills)
{
    while (s->crew.killed < kills) {
        int status;
        storm_fill(s);
        pid_t pid = crew_reap(&s->crew, storm_patience_us(s), &status);
        if (pid == 0) {
            storm_kill_somebody(s);
            pid = crew_reap(&s->crew, RESTLESS_US, &status);
        }
        if (pid != 0)
            storm_lost(s, pid, status);
    }
}

/* The weather is fine again: everything must drain. */
static void storm_calm(struct storm *s)
{
    for (size_t i = 0; i < CREW_MAX; i++)
        if (s->crew.members[i] > 0)
            crew_kill(&s->crew, s->crew.members[i]);
    int taken = crew_lines(&s->crew, "log", "box_taken", "");
    pid_t worker = crew_work(&s->crew);
    crew_wait_lines(&s->crew, "log", "box_taken", "", taken + BOXES); /* now it listens to SIGTERM, too */
    place_wait(&s->crew.place, "SELECT count(*) FROM outbox", 0);
    crew_end(&s->crew, worker);
    CHECK_EQ(place_int(&s->crew.place, "SELECT count(*) FROM postrider_claim"), 0);
    CHECK_EQ(place_int(&s->crew.place, "SELECT count(*) FROM postrider_instance WHERE lanes > 0"), 0);
}

static void storm(uint64_t seed, bool at_steps, int kills, size_t first_step)
{
    struct storm s = {
        .at_steps = at_steps, .next_step = first_step, .next_producer_step = first_step, .seed = seed * 1000
    };
    random_init(&s.random, seed);
    crew_init(&s.crew, seed % 2 == 0 ? &setting : &keeping);
    storm_rage(&s, kills);
    storm_calm(&s);
    printf("# seed %llu: %d kills, %d of them by hand\n", (unsigned long long)seed, s.crew.killed, s.killed_by_hand);
    if (at_steps) /* or the steps are not where they were */
        CHECK(s.killed_by_hand <= kills / 4);
    crew_judge(&s.crew, MAX_ATTEMPTS);
    CHECK(place_int(&s.crew.place, "SELECT count(*) FROM app") > 0);
    crew_fini(&s.crew);
}

static int times(void)
{
    const char *text = getenv("FAULTS_TIMES");
    return text != NULL ? atoi(text) : 1;
}

static void check_that_all_killed(const struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf("# %3d kills at %s\n", steps[i].kills, steps[i].name);
        CHECK(steps[i].kills > 0);
    }
}

TEST(kills_at_every_step_lose_nothing) /* B1, B22, B24, B46, B50, I1 to I9 */
{
    for (int i = 0; i < 5 * times(); i++)
        storm(100 + (uint64_t)i, true, 40, (size_t)i * 7);
    check_that_all_killed(worker_steps, ARRAY_LENGTH(worker_steps));
    check_that_all_killed(producer_steps, ARRAY_LENGTH(producer_steps));
}

TEST(kills_at_any_time_lose_nothing) /* B1, B22, B24 */
{
    for (int i = 0; i < 4 * times(); i++)
        storm(200 + (uint64_t)i, false, 25, 0);
}

/* The measure for the two above: without a fault nothing is handed out twice. */
TEST(without_faults_there_are_no_duplicates) /* I9 */
{
    struct crew crew;
    crew_init(&crew, &keeping);
    pid_t worker = crew_work(&crew), standby = crew_work(&crew);
    pid_t producer = crew_start(&crew, &(struct crew_order){ .role = "produce", .seed = 1 });
    crew_wait_lines(&crew, "producer", "C ", "", 500);
    crew_end(&crew, producer);
    place_wait(&crew.place, "SELECT count(*) FROM outbox", 0);
    crew_end(&crew, standby);
    crew_end(&crew, worker);
    CHECK_EQ(crew_lines(&crew, "deaths", "K", ""), 0);
    crew_judge(&crew, MAX_ATTEMPTS);
    crew_fini(&crew);
}

/* ---- Migration -------------------------------------------------------------------------------------- */

static bool is_killed_before_it_works(struct crew *c)
{
    int64_t deadline_us = test_now_us() + PR_SECONDS(90);
    int status;
    while (crew_lines(c, "log", "box_taken", "outbox") == 0 && c->killed == 0 && test_now_us() < deadline_us)
        crew_reap(c, 0, &status);
    return c->killed > 0;
}

/* The first worker dies at the point; the second one makes the tables.  False: it did not die. */
static bool migrate_twice(const char *point)
{
    struct crew c;
    crew_init_empty(&c, &setting);
    pid_t worker = crew_start(&c, &(struct crew_order){ .role = "work", .fail_point = point });
    bool died = is_killed_before_it_works(&c);
    if (died) {
        bool none = place_int(&c.place, "SELECT count(*) FROM sqlite_master WHERE name NOT LIKE 'sqlite%'") == 0;
        CHECK(none || place_int(&c.place, "SELECT value > 0 FROM postrider_meta WHERE key = 'schema_version'") == 1);
        worker = crew_work(&c);
        crew_wait_lines(&c, "log", "box_taken", "outbox", 1);
    }
    crew_end(&c, worker);
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM outbox"), 0);
    crew_fini(&c);
    return died;
}

TEST(kill_in_a_migration_leaves_all_or_nothing) /* I18 */
{
    static const char *const points[] = { "store.migrate.statement", "store.migrate.before_commit",
                                          "store.migrate.after_commit" };
    int kills = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(points); i++) {
        char point[64];
        int n = 0;
        do { /* the first passings one by one, then in steps: they are all alike */
            n += 1 + n / 4;
            kills++;
            snprintf(point, sizeof point, "%s:%d", points[i], n);
        } while (migrate_twice(point));
        CHECK(n > 1); /* or the point is gone */
    }
    printf("# %d kills\n", kills - (int)ARRAY_LENGTH(points));
}
