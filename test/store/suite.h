/* suite.h - the conformance suite of the store contract (src/store/store.h).
 *
 * Every store passes it.  STORE_TEST(name) is a test with a fresh store `s` under a virtual clock; the environment
 * selects the store: SUITE_STORE=memory, sqlite, sqlite-memory, postgres.  Tests of abilities that a store does not
 * declare are skipped visibly with suite_needs().
 *
 * The tests use three small helpers: SEND() stores a message, CYCLE() is one cycle of a worker (an instance that keeps
 * its own books), VERDICT() is a cycle with one verdict.  Whatever a failed test leaves open is closed before the next
 * one begins. */
#ifndef TEST_STORE_SUITE_H
#define TEST_STORE_SUITE_H

#include "base/arena.h"
#include "base/slice.h"
#include "base/util.h"
#include "base/buf.h"
#include "store/store.h"
#include "check.h"

/* Empty argument lists of CYCLE() and friends are what makes the tests read well. */
#pragma GCC diagnostic ignored "-Wpedantic"
/* And their defaults are there to be overridden. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define SUITE_START_US INT64_C(1700000000000000)
#define SUITE_LEASE_US PR_SECONDS(10)
#define SUITE_PAYLOAD_MAX 65536
#define SUITE_WORKERS_MAX 8
#define SUITE_TEXT_MAX 4096

struct suite;

/* A row that was INSERTed past all checks; NULL fields are left at their defaults. */
struct plant {
    pr_slice id; /* bytes as they are stored, 16 when it is a good one; empty: the default */
    const char *type, *destination, *stream, *headers, *payload;
    bool event;
};

/* One store under test: what the contract does not say about it. */
struct suite_kind {
    const char *name;
    const struct store_ops *ops;
    unsigned lacks;                   /* enum store_can that this url does not have */
    void (*prepare)(struct suite *s); /* set s->url */
    void (*finish)(struct suite *s);  /* before close; may look for damage.  NULL: nothing */
    void (*destroy)(struct suite *s); /* after close: remove files.  NULL: nothing */
    void (*plant)(struct suite *s, const char *box, const struct plant *plant); /* NULL: no way in */
    void (*repair)(struct suite *s, pr_id id, const char *payload); /* of a row of outbox; NULL: no way in */

    int64_t (*count)(struct suite *s, const char *table); /* by SQL; the name without a prefix.  NULL: no way in */
    void (*age_notices)(struct suite *s); /* by two hours, where they have a clock of their own.  NULL: they have not */

    void (*effects)(struct suite *s, struct buf *ret); /* what effects left behind, a line each.  NULL: no way in */

    /* Senders' transactions; with STORE_CAN_COMMIT_LATE several at once, and seqs are drawn by
     * tx_add().  NULL: none. */
    void *(*tx_begin)(struct suite *s);
    void (*tx_add)(struct suite *s, void *tx, const char *box, const struct pr_message *message);
    void (*tx_end)(struct suite *s, void *tx, bool commit);
};

extern const struct suite_kind suite_memory, suite_sqlite, suite_sqlite_memory, suite_postgres;

/* An instance at work.  number, epoch and the notice cursor are kept by CYCLE(). */
struct worker {
    struct suite *suite;
    struct store_session session;
    char name[16];
    pr_slice box;
    pr_id id;
    int64_t epoch;
    uint64_t number; /* of the next cycle */
    int64_t notice;
    uint64_t lanes;                  /* owned, by the latest reply */
    const struct cycle_reply *reply; /* the latest */
    struct pr_error error;
    bool open;
};

struct suite {
    const struct suite_kind *kind;
    char url[256];
    struct store store;
    struct clock clock;
    int64_t wall_us, mono_us; /* the virtual clock: settable apart (B25) */
    struct arena arena;       /* what queries answered; until the test ends */
    struct worker workers[SUITE_WORKERS_MAX];
    size_t worker_count;
    int64_t ended_us;  /* retention.ended_us of every cycle that has none of its own */
    int64_t dedupe_us; /* ... and the same of dedupe_us */
    struct pr_error error;
};

/* clang-format off */
#define STORE_TEST(test_name)                       \
    static void test_name##_body(struct suite *s);  \
    TEST(test_name)                                 \
    {                                               \
        struct suite *s = suite_open();             \
        test_name##_body(s);                        \
        suite_close(s);                             \
    }                                               \
    static void test_name##_body(struct suite *s)
/* clang-format on */

/* Open and migrate s->store, whose kind and url are set. */
void suite_open_store(struct suite *s);
/* The table of a box, for plain SQL. */
const char *suite_table(const char *box);
struct suite *suite_open(void); /* with the boxes outbox, inbox and ledger */
void suite_close(struct suite *s);
void suite_reopen(struct suite *s); /* the store is closed and opened; workers are gone */

bool suite_can(const struct suite *s, enum store_can what);
void suite_needs(const struct suite *s, enum store_can what);  /* or the test is skipped */
void suite_cannot(const struct suite *s, enum store_can what); /* a test of those who lack it */
void suite_needs_database(const struct suite *s);              /* a test of people's side: skipped where none is */

void suite_advance(struct suite *s, int64_t us); /* both clocks */

/* ---- Sending ---------------------------------------------------------------------- */

/* SEND(s, "outbox", .stream = PR_STR("a")): its id.  The type is "t" unless given. */
#define SEND(s, box, ...) suite_send((s), (box), (struct pr_message){ __VA_ARGS__ })
pr_id suite_send(struct suite *s, const char *box, struct pr_message message);

/* One message, its answer: PR_OK, PR_DUPLICATE or a fault. */
#define OFFER(s, box, ...) suite_offer((s), (box), (struct pr_message){ __VA_ARGS__ })
int suite_offer(struct suite *s, const char *box, struct pr_message message);

pr_id suite_id(unsigned number); /* the same for the same number, ascending */

/* Store a row past all checks; skips the test where there is no way in. */
void suite_plant(struct suite *s, const char *box, const struct plant *plant);

/* UPDATE outbox SET payload by plain SQL; skips the test where there is no way in. */
void suite_repair(struct suite *s, pr_id id, const char *payload);

void *suite_tx_begin(struct suite *s); /* skips the test where senders have none */

/* A stream that lives in this lane. */
pr_slice suite_stream_in_lane(struct suite *s, unsigned lane);

/* How many rows a table has, by SQL: "done", "dead_letter".  Skips the test where there is no way in. */
int64_t suite_table_count(struct suite *s, const char *table);

/* ---- Workers ---------------------------------------------------------------------- */

struct worker *suite_worker(struct suite *s, const char *box); /* has a session, is not joined */
struct worker *suite_join(struct suite *s, const char *box);   /* joined: one cycle is done */
void worker_renew_identity(struct worker *w);                  /* the next cycle joins as a new instance */
void worker_vanish(struct worker *w);                          /* close the session, as a crash would */

/* A cycle with these fields; who and when is filled in.  _try: the code. */
#define CYCLE(w, ...) worker_cycle((w), &(struct cycle){ __VA_ARGS__ })
#define CYCLE_TRY(w, ...) worker_try((w), &(struct cycle){ __VA_ARGS__ })
const struct cycle_reply *worker_cycle(struct worker *w, const struct cycle *cycle);
int worker_try(struct worker *w, const struct cycle *cycle);
void worker_fill(struct worker *w, const struct cycle *cycle, struct cycle *ret);
/* Cycle until lanes are spread as they should be: each gives what it is asked for. */
void suite_settle_lanes(struct suite *s);

/* A message that was handed out: on a receipt of its worker. */
struct claim {
    uint64_t row;
    pr_id id;
    int number;     /* hand-out */
    uint64_t cycle; /* whose receipt it is on */
};

/* Put it on a receipt in a cycle of its own. */
struct claim worker_claim(struct worker *w, pr_id id);
struct claim worker_claim_to(struct worker *w, pr_id id, const char *destination);
/* Known but not handed out: number 0. */
struct claim suite_seen(struct suite *s, pr_id id);

/* VERDICT(w, claim, .kind = VERDICT_FAIL, ...): a cycle with this verdict alone, which closes
 * the claim's receipt; the answer. */
#define VERDICT(w, claim, ...) worker_verdict((w), (claim), (struct verdict){ __VA_ARGS__ })
/* The verdict alone, for cycles with several; claim is a variable. */
#define VERDICT_OF(claim, ...)                                                                                         \
    ((struct verdict){ .row = (claim).row, .id = (claim).id, .number = (claim).number, ##__VA_ARGS__ })
int worker_verdict(struct worker *w, struct claim claim, struct verdict verdict);

/* Make it fail once, due again after delay_us. */
void worker_fail(struct worker *w, pr_id id, int64_t delay_us);
/* Make it a dead letter of cause rejected, with one failure. */
void worker_kill(struct worker *w, pr_id id);

const struct row *reply_find(const struct cycle_reply *reply, pr_id id); /* NULL: not there */
size_t reply_count(const struct cycle_reply *reply, enum row_from from);

/* What effects have left behind, sorted: "event STREAM VERSION TYPE PAYLOAD", "history EXECUTION FIRST COUNT EVENTS",
 * "state FLOW KEY VALUE", "seen BOX HANDLER". */
#define CHECK_EFFECTS(s, wanted) suite_check_effects((s), (wanted), __FILE__, __LINE__)
void suite_check_effects(struct suite *s, const char *wanted, const char *file, int line);

/* ---- Questions -------------------------------------------------------------------- */

/* Filters have state -1 unless given. */
#define FILTER(...) ((struct filter){ .state = -1, ##__VA_ARGS__ })

const struct query_reply *suite_query(struct suite *s, enum query_kind kind, struct filter filter);
size_t suite_count(struct suite *s, enum query_kind kind, struct filter filter);
const struct listed *suite_find(struct suite *s, pr_id id); /* NULL: nowhere */
const struct listed *suite_get(struct suite *s, pr_id id);  /* fails when it is nowhere */
const struct listed *suite_get_to(struct suite *s, pr_id id, const char *destination);
const struct box_counts *suite_box(struct suite *s, const char *name);
const struct endpoint_state *suite_endpoint(struct suite *s, const char *name); /* NULL: none */

/* ADMIN(s, ADMIN_RETRY, FILTER(...), ...): must be PR_OK. */
#define ADMIN(s, admin_kind, admin_filter, ...)                                                                        \
    suite_admin((s), &(struct admin){ .kind = (admin_kind), .filter = (admin_filter), ##__VA_ARGS__ })
struct admin_reply suite_admin(struct suite *s, const struct admin *admin);
#define ADMIN_ID(s, kind, the_id, ...) ADMIN((s), (kind), FILTER(.ids = &(the_id), .id_count = 1), ##__VA_ARGS__)

#endif
