/* The work coordinator: verdicts in, claimed messages out. */
#include <stdio.h>
#include <string.h>

#include "place.h"

#define MAX 16
#define WAIT_US PR_SECONDS(90)

struct fixture {
    struct place place;
    struct pr_worker *worker;
    struct pr_claimed claimed[MAX];
    size_t count;
    int answers[MAX];
};

static void begin(struct fixture *f, const char *ordering)
{
    struct pr_error error;
    memset(f, 0, sizeof *f);
    place_init(&f->place);
    const struct pr_worker_options options = { .store_url = f->place.url, .name = "test", .ordering = ordering };
    CHECK_OK(pr_worker_open(&options, &f->worker, &error), &error);
}

static void end(struct fixture *f)
{
    pr_worker_close(f->worker);
    place_fini(&f->place);
}

static void cycle(struct fixture *f, const struct pr_verdict *verdicts, size_t count)
{
    struct pr_error error;
    CHECK_OK(pr_worker_cycle(f->worker, verdicts, count, f->answers, f->claimed, MAX, &f->count, &error), &error);
}

/* Cycle until so many are claimed at once. */
static void claim(struct fixture *f, size_t wanted)
{
    int64_t deadline_us = test_now_us() + WAIT_US;
    cycle(f, NULL, 0);
    while (f->count == 0 && test_now_us() < deadline_us) {
        pr_worker_wait(f->worker, PR_MILLISECONDS(100));
        cycle(f, NULL, 0);
    }
    CHECK_EQ(f->count, wanted);
}

static struct pr_verdict complete(const struct pr_claimed *c)
{
    return (struct pr_verdict){ .claim = c->claim, .kind = PR_VERDICT_COMPLETE, .status = PR_STATUS_PUBLISHED };
}

TEST(worker_claims_completes_and_the_box_is_empty)
{
    struct fixture f;
    struct pr_verdict verdicts[MAX];
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 3);
    claim(&f, 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(f.claimed[i].attempt, 1);
        CHECK_SLICE(f.claimed[i].message->type, "t");
        verdicts[i] = complete(&f.claimed[i]);
    }
    cycle(&f, verdicts, 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ(f.answers[i], PR_OK);
    CHECK_EQ(f.count, 0);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 0);
    end(&f);
}

TEST(worker_gets_one_of_a_stream_at_a_time) /* B50 */
{
    struct fixture f;
    begin(&f, "fifo");
    place_send(&f.place, NULL, "t", "s", 3);
    for (int i = 1; i <= 3; i++) {
        if (i == 1)
            claim(&f, 1);
        CHECK_EQ(f.claimed[0].message->payload.data[0], '0' + i);
        struct pr_verdict v = complete(&f.claimed[0]);
        cycle(&f, &v, 1); /* the next one comes with the answer */
        CHECK_EQ(f.answers[0], PR_OK);
        CHECK_EQ(f.count, i < 3);
    }
    end(&f);
}

/* Three of one stream are claimed; the first fails, and the others are released with status 0:
 * they come again at once, the first waits for its time. */
TEST(failure_cascade_releases_the_followers) /* B55 */
{
    struct fixture f;
    begin(&f, "none");
    place_send(&f.place, NULL, "t", "s", 3);
    claim(&f, 3);
    const struct pr_verdict verdicts[] = {
        { .claim = f.claimed[0].claim,
          .kind = PR_VERDICT_FAIL,
          .status = PR_STATUS_STORED,
          .reason = PR_REASON_TRANSPORT_UNAVAILABLE,
          .code = PR_STR("E42"),
          .error = PR_STR("Processing failed") },
        { .claim = f.claimed[1].claim, .kind = PR_VERDICT_RELEASE },
        { .claim = f.claimed[2].claim, .kind = PR_VERDICT_RELEASE },
    };
    cycle(&f, verdicts, 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(f.answers[i], PR_OK);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox WHERE status = 32769 AND failures = 1 AND attempts = 1 "
                                 "AND failure_reason = 1 AND code = 'E42' AND error = 'Processing failed'"),
             1);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox WHERE status = 1 AND attempts = 0 AND released = 1"), 2);

    if (f.count == 0)
        claim(&f, 2);
    CHECK_EQ(f.count, 2);
    struct pr_verdict done[] = { complete(&f.claimed[0]), complete(&f.claimed[1]) };
    CHECK_EQ(f.claimed[0].attempt, 1); /* a release counts nothing (B44) */
    cycle(&f, done, 2);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 1);
    end(&f);
}

TEST(scheduled_retry_blocks_later_messages_of_its_stream) /* B51 */
{
    struct fixture f;
    begin(&f, "fifo");
    place_send(&f.place, NULL, "t", "s", 2);
    place_send(&f.place, NULL, "t", "other", 1);
    claim(&f, 2);
    struct pr_verdict verdicts[2] = { { .claim = f.claimed[0].claim,
                                        .kind = PR_VERDICT_FAIL,
                                        .reason = PR_REASON_UNKNOWN,
                                        .retry_after_us = PR_SECONDS(3600) },
                                      complete(&f.claimed[1]) };
    CHECK_SLICE(f.claimed[0].message->stream, "s");
    cycle(&f, verdicts, 2);
    CHECK_EQ(f.count, 0);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 2);
    end(&f);
}

TEST(partial_completion_is_kept_for_the_retry) /* B37 */
{
    struct fixture f;
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 1);
    claim(&f, 1);
    struct pr_verdict v = { .claim = f.claimed[0].claim,
                            .kind = PR_VERDICT_FAIL,
                            .status = PR_STATUS_STORED | PR_STATUS_EVENT_STORED,
                            .reason = PR_REASON_TRANSPORT_UNAVAILABLE,
                            .error = PR_STR("Transport unavailable"),
                            .retry_after_us = PR_MILLISECONDS(1) };
    cycle(&f, &v, 1);
    CHECK_EQ(f.answers[0], PR_OK);
    CHECK_EQ(place_int(&f.place, "SELECT status FROM outbox"), 1 | 2 | 32768);
    place_do(&f.place, "UPDATE outbox SET due_at = created_at"); /* its time has come */
    if (f.count == 0)
        claim(&f, 1);
    CHECK_EQ(f.claimed[0].attempt, 2);
    CHECK((f.claimed[0].message->status & PR_STATUS_EVENT_STORED) != 0);
    v = complete(&f.claimed[0]);
    cycle(&f, &v, 1);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 0);
    end(&f);
}

TEST(what_was_reached_stays_however_a_verdict_ends_it) /* B30, B37 */
{
    struct fixture f;
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 4);
    claim(&f, 4);
    static const enum pr_verdict_kind kinds[] = { PR_VERDICT_ABANDON, PR_VERDICT_PARK, PR_VERDICT_DEAD_LETTER,
                                                  PR_VERDICT_RELEASE };
    struct pr_verdict verdicts[4];
    for (int i = 0; i < 4; i++)
        verdicts[i] = (struct pr_verdict){ .claim = f.claimed[i].claim,
                                           .kind = kinds[i],
                                           .status = PR_STATUS_EVENT_STORED,
                                           .reason = PR_REASON_REJECTED,
                                           .code = PR_STR("E1"),
                                           .error = PR_STR("no") };
    cycle(&f, verdicts, 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(f.answers[i], PR_OK);
    CHECK_EQ(place_int(&f.place, "SELECT status FROM outbox WHERE CAST(payload AS TEXT) = '1'"), 1 | 2);
    CHECK_EQ(place_int(&f.place, "SELECT status FROM outbox WHERE CAST(payload AS TEXT) = '2' AND failure_reason = 10 "
                                 "AND code = 'E1' AND error = 'no' AND failures = 1 AND attempts = 1"),
             1 | 2 | 32768);
    CHECK_EQ(place_int(&f.place, "SELECT status FROM postrider_dead_letter WHERE code = 'E1' AND failures = 1"),
             1 | 2 | 32768);
    CHECK_EQ(place_int(&f.place, "SELECT status FROM outbox WHERE CAST(payload AS TEXT) = '4'"),
             1); /* D3: nothing changes */
    CHECK_EQ(place_int(&f.place, "SELECT failed FROM postrider_endpoint"), 2);
    end(&f);
}

TEST(stale_verdicts_change_nothing_and_say_so)
{
    struct fixture f;
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 3);
    claim(&f, 3);
    const struct pr_verdict verdicts[] = { complete(&f.claimed[0]),
                                           complete(&f.claimed[0]), /* twice */
                                           { .claim = 987654321, .kind = PR_VERDICT_COMPLETE },
                                           complete(&f.claimed[1]) };
    char sql[128];
    snprintf(sql, sizeof sql, "DELETE FROM outbox WHERE row_id = %lld", (long long)f.claimed[1].message->seq);
    place_do(&f.place, sql); /* somebody took it away */
    cycle(&f, verdicts, 4);
    CHECK_EQ(f.answers[0], PR_OK);
    CHECK_EQ(f.answers[1], PR_STALE);
    CHECK_EQ(f.answers[2], PR_UNKNOWN); /* never handed out */
    CHECK_EQ(f.answers[3], PR_UNKNOWN);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 1);
    cycle(&f, verdicts, 4); /* once more: those that were handed out have ended */
    CHECK_EQ(f.answers[0], PR_STALE);
    CHECK_EQ(f.answers[2], PR_UNKNOWN);
    CHECK_EQ(f.answers[3], PR_STALE);
    struct pr_verdict next = complete(&f.claimed[2]);
    next.claim++; /* nobody has that yet */
    cycle(&f, &next, 1);
    CHECK_EQ(f.answers[0], PR_UNKNOWN);
    end(&f);
}

TEST(every_kind_of_verdict_does_what_it_says) /* B44 */
{
    struct fixture f;
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 5);
    claim(&f, 5);
    const struct pr_verdict verdicts[] = {
        { .claim = f.claimed[0].claim, .kind = PR_VERDICT_ABANDON },
        { .claim = f.claimed[1].claim, .kind = PR_VERDICT_DISCARD },
        { .claim = f.claimed[2].claim,
          .kind = PR_VERDICT_DEAD_LETTER,
          .reason = PR_REASON_REJECTED,
          .error = PR_STR("no") },
        { .claim = f.claimed[3].claim, .kind = PR_VERDICT_PARK },
        { .claim = f.claimed[4].claim, .kind = PR_VERDICT_RETURN },
    };
    cycle(&f, verdicts, 5);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(f.answers[i], PR_OK);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 3);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox WHERE CAST(payload AS TEXT) = '1' AND attempts = 1"), 1);
    CHECK_EQ(
        place_int(&f.place, "SELECT count(*) FROM postrider_dead_letter WHERE failure_reason = 10 AND error = 'no'"),
        1);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox WHERE CAST(payload AS TEXT) = '4' "
                                 "AND due_at = 9223372036854775807"),
             1);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox WHERE CAST(payload AS TEXT) = '5' AND attempts = 0"), 1);
    end(&f);
}

TEST(effects_are_stored_with_the_worker_s_verdict) /* B93 */
{
    struct fixture f;
    const struct pr_message effects[] = { { .type = PR_STR("a") }, { .type = PR_STR("b") } };
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 1);
    claim(&f, 1);
    struct pr_verdict v = complete(&f.claimed[0]);
    v.effects = effects;
    v.effect_count = 2;
    v.effect_box = "inbox";
    cycle(&f, &v, 1);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM inbox WHERE type IN ('a', 'b')"), 2);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 0);
    end(&f);
}

TEST(an_event_of_a_worker_that_expects_another_version_is_a_conflict) /* B95 */
{
    struct fixture f;
    const struct pr_message effect = {
        .type = PR_STR("e"), .stream = PR_STR("s"), .event = true, .expects_version = true, .expected_version = 7
    };
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 1);
    claim(&f, 1);
    struct pr_verdict v = complete(&f.claimed[0]);
    v.effects = &effect;
    v.effect_count = 1;
    v.effect_box = "inbox";
    cycle(&f, &v, 1);
    CHECK_EQ(f.answers[0], PR_ECONFLICT);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM inbox"), 0);
    claim(&f, 1); /* it comes again */
    CHECK_EQ(f.claimed[0].attempt, 1);
    end(&f);
}

/* Nobody announces our own commits to us. */
TEST(what_a_worker_sends_into_its_own_box_comes_to_it)
{
    struct fixture f;
    const struct pr_message effect = { .type = PR_STR("next") };
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 1);
    claim(&f, 1);
    cycle(&f, NULL, 0); /* it has seen that there is nothing more */
    struct pr_verdict v = { .claim = 0 };
    place_send(&f.place, NULL, "t", NULL, 1);
    claim(&f, 1);
    v = complete(&f.claimed[0]);
    v.effects = &effect;
    v.effect_count = 1;
    cycle(&f, &v, 1);
    if (f.count == 0)
        claim(&f, 1);
    CHECK_SLICE(f.claimed[0].message->type, "next");
    end(&f);
}

TEST(a_row_with_an_impossible_counter_ends_among_the_dead_letters) /* B9 */
{
    struct fixture f;
    begin(&f, NULL);
    place_do(&f.place, "INSERT INTO outbox (type, attempts) VALUES ('huge', 5000000000), ('negative', -7)");
    place_send(&f.place, NULL, "t", NULL, 1);
    claim(&f, 1);
    cycle(&f, NULL, 0);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM postrider_dead_letter WHERE failure_reason = 5"), 2);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 1);
    end(&f);
}

TEST(close_hands_back_uncounted) /* B14, B44 */
{
    struct fixture f;
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 4);
    claim(&f, 4);
    pr_worker_close(f.worker);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox WHERE attempts = 0"), 4);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM postrider_claim"), 0);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM postrider_instance"), 0);
    f.worker = NULL;
    end(&f);
}

TEST(worker_claims_no_more_than_it_asks_for) /* B46: only what was handed out is on a receipt */
{
    struct fixture f;
    struct pr_error error;
    begin(&f, NULL);
    place_send(&f.place, NULL, "t", NULL, 10);
    for (size_t i = 0; i < 4; i++) {
        CHECK_OK(pr_worker_cycle(f.worker, NULL, 0, NULL, f.claimed, 2, &f.count, &error), &error);
        CHECK_EQ(f.count, 2);
        CHECK_EQ(place_int(&f.place, "SELECT sum((SELECT count(*) FROM json_each(entries))) FROM postrider_claim"),
                 2 * (int)(i + 1));
    }
    end(&f);
}

TEST(worker_that_lost_its_lease_is_told_and_begins_anew) /* B23 */
{
    struct fixture f;
    struct pr_error error;
    memset(&f, 0, sizeof f);
    place_init(&f.place);
    const struct pr_worker_options options = { .store_url = f.place.url };
    CHECK_OK(pr_worker_open(&options, &f.worker, &error), &error);
    place_send(&f.place, NULL, "t", NULL, 2);
    claim(&f, 2);
    struct pr_verdict late[2] = { complete(&f.claimed[0]), complete(&f.claimed[1]) };
    place_do(&f.place, "DELETE FROM postrider_instance; DELETE FROM postrider_claim"); /* buried by somebody else */
    CHECK_EQ(pr_worker_cycle(f.worker, late, 1, f.answers, NULL, 0, NULL, &error), PR_ELEASE);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 2);

    cycle(&f, late, 2);
    CHECK_EQ(f.answers[0], PR_STALE);
    CHECK_EQ(f.answers[1], PR_STALE);
    if (f.count == 0)
        claim(&f, 2);
    CHECK_EQ(f.count, 2); /* they are ours again */
    struct pr_verdict done[2] = { complete(&f.claimed[0]), complete(&f.claimed[1]) };
    cycle(&f, done, 2);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 0);
    end(&f);
}

TEST(verdicts_that_could_not_be_stored_are_said_again)
{
    struct fixture f;
    struct pr_error error;
    begin(&f, NULL);
    pr_worker_close(f.worker);
    char url[160];
    snprintf(url, sizeof url, "%s?busy=10ms", f.place.url);
    const struct pr_worker_options options = { .store_url = url };
    CHECK_OK(pr_worker_open(&options, &f.worker, &error), &error);
    place_send(&f.place, NULL, "t", NULL, 1);
    claim(&f, 1);
    struct pr_verdict v = complete(&f.claimed[0]);
    sqlite3 *db = place_open(&f.place);
    CHECK_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(pr_worker_cycle(f.worker, &v, 1, f.answers, NULL, 0, NULL, &error), PR_EBUSY);
    CHECK_EQ(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);

    int64_t deadline_us = test_now_us() + WAIT_US;
    int rc;
    while ((rc = pr_worker_cycle(f.worker, &v, 1, f.answers, NULL, 0, NULL, &error)) == PR_EBUSY &&
           test_now_us() < deadline_us)
        pr_worker_wait(f.worker, PR_MILLISECONDS(10));
    CHECK_OK(rc, &error);
    CHECK_EQ(f.answers[0], PR_OK);
    CHECK_EQ(place_int(&f.place, "SELECT count(*) FROM outbox"), 0);
    end(&f);
}

TEST(worker_refuses_wrong_arguments)
{
    struct place p;
    struct pr_error error;
    struct pr_worker *worker;
    struct pr_claimed claimed;
    size_t count;
    place_init(&p);
    struct pr_worker_options options = { .store_url = p.url, .ordering = "sideways" };
    CHECK_EQ(pr_worker_open(&options, &worker, &error), PR_EINVAL);
    CHECK(strstr(error.text, "fifo") != NULL);
    options = (struct pr_worker_options){ .store_url = p.url, .box = "no box" };
    CHECK_EQ(pr_worker_open(&options, &worker, &error), PR_EINVAL);
    options = (struct pr_worker_options){ .store_url = p.url, .box = "nowhere" };
    CHECK_EQ(pr_worker_open(&options, &worker, &error) == PR_OK
                 ? pr_worker_cycle(worker, NULL, 0, NULL, &claimed, 1, &count, &error)
                 : error.code,
             PR_ENOTFOUND);
    options = (struct pr_worker_options){ .store_url = "nosuchstore:x" };
    CHECK(pr_worker_open(&options, &worker, &error) < 0);
    options = (struct pr_worker_options){ .store_url = NULL };
    CHECK_EQ(pr_worker_open(&options, &worker, &error), PR_EINVAL);
    CHECK_EQ(pr_worker_open(NULL, &worker, &error), PR_EINVAL);

    options = (struct pr_worker_options){ .store_url = p.url };
    CHECK_OK(pr_worker_open(&options, &worker, &error), &error);
    struct pr_verdict wrong = { .kind = (enum pr_verdict_kind)99 };
    CHECK_EQ(pr_worker_cycle(worker, &wrong, 1, NULL, NULL, 0, NULL, &error), PR_EINVAL);
    struct pr_message bad = { .payload = PR_STR("no type") };
    wrong = (struct pr_verdict){ .kind = PR_VERDICT_COMPLETE, .effects = &bad, .effect_count = 1 };
    CHECK_EQ(pr_worker_cycle(worker, &wrong, 1, NULL, NULL, 0, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_worker_cycle(worker, NULL, 1, NULL, NULL, 0, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_worker_cycle(worker, NULL, 0, NULL, NULL, 1, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_worker_cycle(NULL, NULL, 0, NULL, NULL, 0, NULL, &error), PR_EINVAL);
    pr_worker_wait(NULL, 0);
    pr_worker_close(worker);
    pr_worker_close(NULL);
    place_fini(&p);
}
