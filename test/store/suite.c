/* suite.c - fixture and helpers of the conformance suite; see suite.h. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/id.h"

static struct suite the_suite;
static bool the_suite_is_open;

static const struct suite_kind *const kinds[] = {
    &suite_memory,
    &suite_sqlite,
    &suite_sqlite_memory,
#ifdef POSTRIDER_POSTGRES
    &suite_postgres,
#endif
};

static int64_t suite_wall(void *arg)
{
    return __atomic_load_n(&((struct suite *)arg)->wall_us, __ATOMIC_RELAXED);
}

static int64_t suite_mono(void *arg)
{
    return __atomic_load_n(&((struct suite *)arg)->mono_us, __ATOMIC_RELAXED);
}

static const struct suite_kind *suite_kind_wanted(void)
{
    const char *name = getenv("SUITE_STORE");
    if (name == NULL)
        return kinds[0];
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    check_fail(__FILE__, __LINE__, "SUITE_STORE=%s is none of memory, sqlite, sqlite-memory, postgres", name);
}

/* Boxes whose tables have other names than they: everything is the same. */
static bool suite_has_other_tables(void)
{
    return getenv("SUITE_TABLES") != NULL;
}

const char *suite_table(const char *box)
{
    return suite_has_other_tables() && strcmp(box, "outbox") == 0 ? "shop_outbox" : box;
}

void suite_open_store(struct suite *s)
{
    const struct store_options options = {
        .url = s->url,
        .clock = &s->clock,
        .payload_max = SUITE_PAYLOAD_MAX,
    };
    static const struct store_box plain[] = { { "ledger", NULL } }, named[] = { { "outbox", "shop_outbox" },
                                                                                { "inbox", "Shop_Inbox" },
                                                                                { "ledger", "outbox_" } };
    const bool other = suite_has_other_tables();
    CHECK_OK(store_open(&options, &s->store, &s->error), &s->error);
    CHECK_OK(
        store_migrate(&s->store, other ? named : plain, other ? ARRAY_LENGTH(named) : ARRAY_LENGTH(plain), &s->error),
        &s->error);
}

struct suite *suite_open(void)
{
    struct suite *s = &the_suite;
    if (the_suite_is_open)
        suite_close(s);
    memset(s, 0, sizeof(*s));
    s->kind = suite_kind_wanted();
    s->clock = (struct clock){ suite_wall, suite_mono, s };
    s->wall_us = SUITE_START_US;
    s->mono_us = PR_SECONDS(1000);
    arena_init(&s->arena, 65536);
    the_suite_is_open = true;
    s->kind->prepare(s);
    suite_open_store(s);
    return s;
}

static void suite_close_workers(struct suite *s)
{
    for (size_t i = 0; i < s->worker_count; i++)
        worker_vanish(&s->workers[i]);
    s->worker_count = 0;
}

void suite_close(struct suite *s)
{
    the_suite_is_open = false;
    suite_close_workers(s);
    if (s->kind->finish != NULL && s->store.ops != NULL)
        s->kind->finish(s);
    store_close(&s->store);
    if (s->kind->destroy != NULL)
        s->kind->destroy(s);
    arena_fini(&s->arena);
}

void suite_reopen(struct suite *s)
{
    suite_close_workers(s);
    store_close(&s->store);
    memset(&s->store, 0, sizeof(s->store));
    suite_open_store(s);
}

bool suite_can(const struct suite *s, enum store_can what)
{
    return (s->kind->ops->can & ~s->kind->lacks & what) != 0;
}

static _Noreturn void suite_skip(const struct suite *s, enum store_can what)
{
    static const struct {
        enum store_can what;
        const char *can, *cannot;
    } texts[] = {
        { STORE_CAN_SHARE_LANES, "several instances work a box", "one instance serves a box" },
        { STORE_CAN_COMMIT_LATE, "transactions commit in any order", "seqs are in the order of commits" },
        { STORE_CAN_LAST, "survives close and open", "does not survive close and open" },
        { STORE_CAN_PROCESSES, "several processes can open it", "only one process can open it" },
    };
    char why[128] = "";
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        if (texts[i].what == what)
            snprintf(why, sizeof(why), "%s: %s", s->kind->name, suite_can(s, what) ? texts[i].can : texts[i].cannot);
    SKIP(why);
}

void suite_needs(const struct suite *s, enum store_can what)
{
    if (!suite_can(s, what))
        suite_skip(s, what);
}

void suite_cannot(const struct suite *s, enum store_can what)
{
    if (suite_can(s, what))
        suite_skip(s, what);
}

void suite_needs_database(const struct suite *s)
{
    if (s->kind->ops->sql == NULL)
        SKIP("memory: it answers what the simulator asks, and no other questions");
}

void suite_advance(struct suite *s, int64_t us)
{
    s->wall_us += us;
    s->mono_us += us;
}

/* ---- Sending ---------------------------------------------------------------------- */

int suite_offer(struct suite *s, const char *box, struct pr_message message)
{
    pr_id id;
    int answer = PR_OK;
    if (message.type.size == 0)
        message.type = PR_STR("t");
    int rc = store_enqueue(&s->store, pr_str(box), &message, 1, SUITE_PAYLOAD_MAX, &id, &answer, &s->error);
    return rc != PR_OK ? rc : answer;
}

pr_id suite_send(struct suite *s, const char *box, struct pr_message message)
{
    if (pr_id_is_zero(message.id))
        pr_id_new(&message.id);
    CHECK_OK(suite_offer(s, box, message), &s->error);
    return message.id;
}

pr_id suite_id(unsigned number)
{
    uint8_t random[10] = { 0 };
    memcpy(random + 6, &number, sizeof(number));
    pr_id id;
    id_make(SUITE_START_US / 1000 + number, random, &id);
    return id;
}

void suite_plant(struct suite *s, const char *box, const struct plant *plant)
{
    if (s->kind->plant == NULL)
        SKIP("sqlite-memory: there is no way past the checks");
    s->kind->plant(s, box, plant);
}

void suite_repair(struct suite *s, pr_id id, const char *payload)
{
    if (s->kind->repair == NULL)
        SKIP("sqlite-memory: there is no way past the store");
    s->kind->repair(s, id, payload);
}

int64_t suite_table_count(struct suite *s, const char *table)
{
    if (s->kind->count == NULL)
        SKIP("there is no way past the store");
    return s->kind->count(s, table);
}

void *suite_tx_begin(struct suite *s)
{
    if (s->kind->tx_begin == NULL)
        SKIP("sqlite-memory: senders have no transactions of their own");
    return s->kind->tx_begin(s);
}

pr_slice suite_stream_in_lane(struct suite *s, unsigned lane)
{
    for (unsigned i = 0;; i++) {
        char text[32];
        int size = snprintf(text, sizeof(text), "stream-%u", i);
        if (lane_of(PR_BYTES(text, (size_t)size), (pr_id){ { 0 } }) == lane)
            return slice_dup(&s->arena, PR_BYTES(text, (size_t)size));
        CHECK(i < 100000);
    }
}

/* ---- Workers ---------------------------------------------------------------------- */

struct worker *suite_worker(struct suite *s, const char *box)
{
    CHECK(s->worker_count < SUITE_WORKERS_MAX);
    struct worker *w = &s->workers[s->worker_count];
    memset(w, 0, sizeof(*w));
    w->suite = s;
    w->box = slice_dup(&s->arena, pr_str(box));
    snprintf(w->name, sizeof(w->name), "worker-%zu", s->worker_count + 1);
    CHECK_OK(store_session_open(&s->store, w->box, &w->session, &s->error), &s->error);
    w->open = true;
    s->worker_count++;
    worker_renew_identity(w);
    return w;
}

struct worker *suite_join(struct suite *s, const char *box)
{
    struct worker *w = suite_worker(s, box);
    CYCLE(w);
    return w;
}

void worker_renew_identity(struct worker *w)
{
    pr_id_new(&w->id);
    w->epoch = 0;
    w->number = 1;
    w->notice = 0;
    w->lanes = 0;
    w->reply = NULL;
}

void worker_vanish(struct worker *w)
{
    if (w->open)
        store_session_close(&w->session);
    w->open = false;
}

void worker_fill(struct worker *w, const struct cycle *cycle, struct cycle *ret)
{
    *ret = *cycle;
    ret->box = w->box;
    ret->instance = w->id;
    ret->epoch = w->epoch;
    ret->number = w->number;
    ret->lease_us = cycle->lease_us != 0 ? cycle->lease_us : SUITE_LEASE_US;
    ret->name = pr_str(w->name);
    ret->notice_after = w->notice;
    if (cycle->retention.ended_us == 0)
        ret->retention.ended_us = w->suite->ended_us;
    if (cycle->dedupe_us == 0)
        ret->dedupe_us = w->suite->dedupe_us;
    ret->payload_max = cycle->payload_max != 0 ? cycle->payload_max : SUITE_PAYLOAD_MAX;
    if (ret->fresh_rows > 0 && ret->fresh_bytes == 0)
        ret->fresh_bytes = SIZE_MAX;
}

int worker_try(struct worker *w, const struct cycle *cycle)
{
    struct cycle whole;
    const struct cycle_reply *reply = NULL;
    worker_fill(w, cycle, &whole);
    int rc = store_cycle(&w->session, &whole, &reply, &w->error);
    if (rc != PR_OK)
        return rc;
    w->reply = reply;
    w->epoch = reply->epoch;
    w->number++;
    w->notice = reply->notice_last;
    w->lanes = cycle->leave ? 0 : reply->lanes_owned;
    return PR_OK;
}

const struct cycle_reply *worker_cycle(struct worker *w, const struct cycle *cycle)
{
    CHECK_OK(worker_try(w, cycle), &w->error);
    return w->reply;
}

void suite_settle_lanes(struct suite *s)
{
    /* Each round costs a worker at most two cycles: one to be asked, one to give. */
    for (int round = 0; round < 8; round++)
        for (size_t i = 0; i < s->worker_count; i++) {
            struct worker *w = &s->workers[i];
            if (w->open && w->epoch != 0) {
                uint64_t asked = CYCLE(w)->lanes_asked;
                CYCLE(w, .lanes_give = asked);
            }
        }
}

struct claim suite_seen(struct suite *s, pr_id id)
{
    return (struct claim){ .row = suite_get(s, id)->row, .id = id };
}

static struct claim worker_claim_listed(struct worker *w, const struct listed *listed)
{
    struct receipt_entry entry = { .row = listed->row, .number = listed->m.attempts + 1 };
    struct claim claim = { .row = entry.row, .id = listed->m.id, .number = entry.number, .cycle = w->number };
    CYCLE(w, .receipt = &entry, .receipt_count = 1);
    return claim;
}

struct claim worker_claim(struct worker *w, pr_id id)
{
    return worker_claim_listed(w, suite_get(w->suite, id));
}

struct claim worker_claim_to(struct worker *w, pr_id id, const char *destination)
{
    return worker_claim_listed(w, suite_get_to(w->suite, id, destination));
}

int worker_verdict(struct worker *w, struct claim claim, struct verdict verdict)
{
    verdict.row = claim.row;
    verdict.id = claim.id;
    verdict.number = claim.number;
    CYCLE(w, .verdicts = &verdict, .verdict_count = 1, .closed = &claim.cycle, .closed_count = claim.cycle != 0);
    return w->reply->answers[0];
}

void worker_fail(struct worker *w, pr_id id, int64_t delay_us)
{
    struct claim claim = worker_claim(w, id);
    CHECK_EQ(VERDICT(w, claim, .kind = VERDICT_FAIL, .reason = PR_REASON_TIMEOUT_EXCEEDED, .error = PR_STR("too slow"),
                     .delay_us = delay_us),
             PR_OK);
}

void worker_kill(struct worker *w, pr_id id)
{
    struct claim claim = worker_claim(w, id);
    CHECK_EQ(VERDICT(w, claim, .kind = VERDICT_DEAD_LETTER, .reason = PR_REASON_REJECTED, .cause = PR_REASON_REJECTED,
                     .counted = true, .error = PR_STR("not today"), .fingerprint = "0123456789abcdef"),
             PR_OK);
}

const struct row *reply_find(const struct cycle_reply *reply, pr_id id)
{
    for (size_t i = 0; i < reply->row_count; i++)
        if (pr_id_equal(reply->rows[i].m.id, id))
            return &reply->rows[i];
    return NULL;
}

size_t reply_count(const struct cycle_reply *reply, enum row_from from)
{
    size_t count = 0;
    for (size_t i = 0; i < reply->row_count; i++)
        count += reply->rows[i].from == from;
    return count;
}

/* ---- Questions -------------------------------------------------------------------- */

const struct query_reply *suite_query(struct suite *s, enum query_kind kind, struct filter filter)
{
    struct query_reply *reply = arena_zalloc(&s->arena, sizeof(*reply));
    struct query query = { .kind = kind, .filter = filter };
    bool is_of_rows = kind == QUERY_MESSAGES || kind == QUERY_DEAD || kind == QUERY_ID || kind == QUERY_ENDPOINTS ||
                      kind == QUERY_EVENTS;
    if (!is_of_rows)
        suite_needs_database(s);
    CHECK(reply != NULL);
    CHECK_OK(store_query(&s->store, &query, &s->arena, reply, &s->error), &s->error);
    return reply;
}

size_t suite_count(struct suite *s, enum query_kind kind, struct filter filter)
{
    if (filter.limit == 0)
        filter.limit = 1000;
    return suite_query(s, kind, filter)->listed_count;
}

const struct listed *suite_find(struct suite *s, pr_id id)
{
    const struct query_reply *reply = suite_query(s, QUERY_ID, FILTER(.ids = &id, .id_count = 1));
    return reply->listed_count > 0 ? &reply->listed[0] : NULL;
}

const struct listed *suite_get(struct suite *s, pr_id id)
{
    const struct listed *listed = suite_find(s, id);
    if (listed == NULL) {
        char text[PR_ID_TEXT_SIZE];
        pr_id_format(id, text);
        check_fail(__FILE__, __LINE__, "%s is nowhere", text);
    }
    return listed;
}

const struct listed *suite_get_to(struct suite *s, pr_id id, const char *destination)
{
    const struct query_reply *reply = suite_query(s, QUERY_ID, FILTER(.ids = &id, .id_count = 1));
    for (size_t i = 0; i < reply->listed_count; i++)
        if (slice_eq_cstr(reply->listed[i].m.destination, destination))
            return &reply->listed[i];
    check_fail(__FILE__, __LINE__, "nothing with this id goes to \"%s\"", destination);
}

/* Where the store counts nothing: so many that were listed. */
static void count_listed(struct suite *s, enum query_kind kind, struct filter filter, struct box_counts *counts)
{
    uint64_t *const places[STATE_COUNT] = {
        [STATE_READY] = &counts->ready,     [STATE_IN_FLIGHT] = &counts->in_flight,
        [STATE_DELAYED] = &counts->delayed, [STATE_RETRYING] = &counts->retrying,
        [STATE_HELD] = &counts->held,       [STATE_PARKED] = &counts->parked,
        [STATE_PAUSED] = &counts->paused,   [STATE_DEAD] = &counts->dead,
        [STATE_DONE] = &counts->done,
    };
    const struct query_reply *reply = suite_query(s, kind, filter);
    for (size_t i = 0; i < reply->listed_count; i++)
        ++*places[reply->listed[i].state];
}

static const struct box_counts *suite_count_box(struct suite *s, const char *name)
{
    struct box_counts *counts = arena_zalloc(&s->arena, sizeof(*counts));
    CHECK(counts != NULL);
    counts->name = pr_str(name);
    count_listed(s, QUERY_MESSAGES, FILTER(.box = counts->name, .limit = 100000), counts);
    count_listed(s, QUERY_DEAD, FILTER(.box = counts->name, .limit = 100000), counts);
    count_listed(s, QUERY_MESSAGES, FILTER(.box = counts->name, .limit = 100000, .state = STATE_DONE), counts);
    return counts;
}

const struct box_counts *suite_box(struct suite *s, const char *name)
{
    if (s->kind->ops->sql == NULL)
        return suite_count_box(s, name);
    const struct query_reply *reply = suite_query(s, QUERY_BOXES, FILTER());
    for (size_t i = 0; i < reply->box_count; i++)
        if (slice_eq_cstr(reply->boxes[i].name, name))
            return &reply->boxes[i];
    check_fail(__FILE__, __LINE__, "unknown box \"%s\"", name);
}

const struct endpoint_state *suite_endpoint(struct suite *s, const char *name)
{
    const struct query_reply *reply = suite_query(s, QUERY_ENDPOINTS, FILTER());
    for (size_t i = 0; i < reply->endpoint_count; i++)
        if (slice_eq_cstr(reply->endpoints[i].name, name))
            return &reply->endpoints[i];
    return NULL;
}

struct admin_reply suite_admin(struct suite *s, const struct admin *admin)
{
    struct admin_reply reply = { 0 };
    if (admin->kind == ADMIN_DEAD_IMPORT)
        suite_needs_database(s);
    CHECK_OK(store_admin(&s->store, admin, &reply, &s->error), &s->error);
    return reply;
}

/* ---- Effects ---------------------------------------------------------------------- */

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void suite_check_effects(struct suite *s, const char *wanted, const char *file, int line)
{
    struct buf lines, sorted;
    char *starts[64];
    size_t count = 0;
    if (s->kind->effects == NULL)
        return; /* the answers were compared */
    buf_init(&lines, 65536);
    buf_init(&sorted, 65536);
    s->kind->effects(s, &lines);
    for (char *at = lines.size > 0 ? strtok(lines.data, "\n") : NULL; at != NULL && count < ARRAY_LENGTH(starts);
         at = strtok(NULL, "\n"))
        starts[count++] = at;
    qsort(starts, count, sizeof(starts[0]), compare_lines);
    for (size_t i = 0; i < count; i++)
        buf_addf(&sorted, "%s\n", starts[i]);
    if (!slice_eq_cstr(buf_slice(&sorted), wanted))
        check_fail(file, line, "effects are\n%.*sand not\n%s", SLICE_ARGS(buf_slice(&sorted)), wanted);
    buf_fini(&sorted);
    buf_fini(&lines);
}
