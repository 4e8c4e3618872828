/* Cases that work alone, in combination: an end that meets a retry, an endpoint that disappears with messages in every
 * state, a clock that goes back. */
#include "stage.h"

#include "base/slice.h"
#include "store/memory/memory.h"

static pr_id send_until(struct stage *s, const char *to, const char *stream, int64_t expires_us, const char *payload)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.type = scenario_type(0);
    p->m.destination = pr_str(to);
    p->m.stream = pr_str(stream);
    p->m.payload = pr_str(payload);
    p->m.expires_us = world_wall_us(&s->w) + expires_us;
    parcel_seal(&s->w, p);
    CHECK_EQ(world_store(&s->w, &p, 1), PR_OK);
    return p->m.id;
}

static uint64_t expired(struct stage *s)
{
    struct engine_counts counts;
    engine_counts(s->w.instances[0].engine, &counts);
    return counts.expired;
}

static const struct endpoint_state *stored(struct stage *s, const char *name)
{
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply reply;
    CHECK_EQ(store_query(&s->w.store, &query, &s->w.arena, &reply, NULL), PR_OK);
    for (size_t i = 0; i < reply.endpoint_count; i++)
        if (slice_eq_cstr(reply.endpoints[i].name, name))
            return &reply.endpoints[i];
    return NULL;
}

static pr_id send_delayed(struct stage *s, const char *stream, int64_t delay_us)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.type = scenario_type(0);
    p->m.stream = slice_from(stream);
    p->m.due_us = world_wall_us(&s->w) + delay_us;
    p->delayed = true;
    parcel_seal(&s->w, p);
    CHECK_EQ(world_store(&s->w, &p, 1), PR_OK);
    return p->m.id;
}

static bool is_gone(struct stage *s, pr_id id)
{
    return world_state(&s->w, id, (pr_slice){ 0 }) == STATE_GONE;
}

static void route_to_both(struct stage *s)
{
    s->scenario.routes[0].to_count = 2;
    s->scenario.route_to[0][0] = 0;
    s->scenario.route_to[0][1] = 1;
}

/* ---- Ends --------------------------------------------------------------------------------- */

TEST(what_expires_while_it_waits_for_its_retry_is_not_sent_again_and_lets_its_stream_go_on) /* B13, B51, B52 */
{
    static const enum ordering orderings[] = { ORDERING_FIFO, ORDERING_STRICT, ORDERING_AVAILABLE };
    struct stage s;
    for (int i = 0; i < 3; i++) {
        stage_set(&s);
        s.scenario.endpoints[0].ordering = orderings[i];
        stage_open(&s);
        pr_id head = send_until(&s, "", "a", PR_SECONDS(1), "fail:1"), next = world_send(&s.w, "a", "ok");
        stage_run(&s, PR_SECONDS(3)); /* the retry was planned for 2 s */
        CHECK_EQ(stage_sends(&s, head), 1);
        CHECK(is_gone(&s, head));
        CHECK_EQ(expired(&s), 1);
        CHECK(stage_done(&s, next));
        stage_close(&s);
    }
}

TEST(a_follower_that_expires_behind_a_failed_head_is_left_out_and_those_behind_it_go_on) /* B13, B51 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id head = world_send(&s.w, "a", "fail:1"), late = send_until(&s, "", "a", PR_SECONDS(1), "ok");
    pr_id last = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_MILLISECONDS(500));
    CHECK_EQ(stage_look(&s, late).state, STATE_HELD);
    stage_run(&s, PR_SECONDS(3));
    CHECK(stage_done(&s, head));
    CHECK_EQ(stage_sends(&s, late), 0);
    CHECK(is_gone(&s, late));
    CHECK(stage_done(&s, last));
    CHECK_EQ(expired(&s), 1);
    stage_run(&s, s.scenario.engine.lease_us);
    CHECK_EQ(stored(&s, "e0")->expired, 1); /* also for those who come later */
    stage_close(&s);
}

TEST(of_a_message_to_several_endpoints_only_what_was_late_expires) /* B13, B17, B63 */
{
    struct stage s;
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    route_to_both(&s);
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    world_pause(&s.w, 1, world_wall_us(&s.w) + PR_MINUTES(5));
    pr_id id = send_until(&s, "", "a", PR_MINUTES(1), "ok"), next = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_MINUTES(6));
    CHECK(is_gone(&s, id));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK_EQ(stage_send(&s, id, 1)->endpoint, 0);
    CHECK_EQ(stage_sends(&s, next), 2);
    CHECK_EQ(expired(&s), 1);
    stage_close(&s);
}

/* When it was sent to this endpoint first; PR_NEVER: it was not. */
static int64_t first_at_us(const struct stage *s, pr_id id, unsigned endpoint)
{
    for (size_t i = 0; i < s->count; i++)
        if (pr_id_equal(s->diary[i].id, id) && s->diary[i].endpoint == endpoint)
            return s->diary[i].at_us;
    return PR_NEVER;
}

TEST(what_was_parked_or_made_dead_before_it_was_divided_holds_up_its_stream_at_every_strict_endpoint) /* B17, B53 */
{
    static const enum admin_kind away[] = { ADMIN_PARK, ADMIN_DEAD_ADD }, back[] = { ADMIN_RETRY, ADMIN_DEAD_REPLAY };
    struct stage s;
    for (int i = 0; i < 4; i++) {
        bool first_is_strict = i >= 2;
        stage_set(&s);
        s.scenario.endpoints[0].ordering = first_is_strict ? ORDERING_STRICT : ORDERING_FIFO;
        stage_endpoint(&s, ORDERING_STRICT);
        route_to_both(&s);
        stage_open(&s);
        pr_id head = send_delayed(&s, "a", PR_SECONDS(5));
        CHECK_EQ(stage_admin(&s, away[i % 2], head).changed, 1);
        pr_id next = world_send(&s.w, "a", "ok");
        stage_run(&s, PR_SECONDS(20));
        CHECK_EQ(first_at_us(&s, next, 0) < PR_NEVER, !first_is_strict);
        CHECK_EQ(first_at_us(&s, next, 1), PR_NEVER);
        CHECK_EQ(stage_admin(&s, back[i % 2], head).changed, 1);
        stage_run(&s, PR_SECONDS(20));
        for (unsigned endpoint = 0; endpoint < 2; endpoint++)
            CHECK(first_at_us(&s, head, endpoint) < PR_NEVER && first_at_us(&s, next, endpoint) < PR_NEVER);
        CHECK(first_at_us(&s, head, 1) < first_at_us(&s, next, 1));
        CHECK_EQ(first_at_us(&s, head, 0) < first_at_us(&s, next, 0), first_is_strict);
        stage_close(&s);
    }
}

static struct memory_tx *late_tx; /* NULL: it is committed */

static int commit_before_the_gap_is_read(struct world *w, struct instance *in, const struct cycle *cycle)
{
    (void)w, (void)in;
    if (late_tx != NULL && cycle->reread.rows > 0) {
        memory_tx_commit(late_tx);
        late_tx = NULL;
    }
    return PR_OK;
}

TEST(a_message_to_several_that_is_committed_late_is_not_overtaken_where_others_are_read_again) /* B17, B51, B77 */
{
    struct stage s;
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    route_to_both(&s);
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    world_pause(&s.w, 0, world_wall_us(&s.w) + PR_MINUTES(5));
    for (int i = 0; i < 100; i++) /* more than are kept in memory: the rest is left in the store, new rows and parts */
        world_send_to(&s.w, "e0", NULL, "ok");
    for (int i = 0; i < 10; i++)
        world_send(&s.w, NULL, "ok");
    stage_run(&s, PR_SECONDS(1));
    struct parcel *late = world_parcel(&s.w);
    late->m.type = scenario_type(0);
    late->m.stream = PR_STR("a");
    late->m.payload = PR_STR("ok");
    parcel_seal(&s.w, late);
    late_tx = memory_tx_begin(&s.w.store);
    CHECK_EQ(memory_tx_insert(late_tx, s.scenario.engine.box, &late->m), PR_OK);
    for (int i = 0; i < 10; i++)
        world_send_to(&s.w, "e0", NULL, "ok");
    stage_run(&s, PR_SECONDS(1)); /* its place is passed */
    parcel_stored(&s.w, late);
    s.w.disturb = commit_before_the_gap_is_read;
    world_resume(&s.w, 0);
    stage_run(&s, PR_MILLISECONDS(200));
    CHECK(late_tx == NULL);
    pr_id next = world_send_to(&s.w, "e0", "a", "ok");
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(stage_sends(&s, late->m.id), 2);
    CHECK(first_at_us(&s, late->m.id, 0) < first_at_us(&s, next, 0));
    CHECK(first_at_us(&s, next, 0) < PR_NEVER);
    stage_close(&s);
}

TEST(what_would_be_due_after_it_expired_is_never_sent) /* B12, B13 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    struct parcel *p = world_parcel(&s.w);
    p->m.type = scenario_type(0);
    p->m.due_us = world_wall_us(&s.w) + PR_SECONDS(20);
    p->m.expires_us = world_wall_us(&s.w) + PR_SECONDS(10);
    p->delayed = true;
    parcel_seal(&s.w, p);
    CHECK_EQ(world_store(&s.w, &p, 1), PR_OK);
    stage_run(&s, PR_SECONDS(30));
    CHECK_EQ(s.count, 0);
    CHECK_EQ(expired(&s), 1);
    CHECK(is_gone(&s, p->m.id));
    stage_close(&s);
}

static int busy_while_a_payload_is_loaded(struct world *w, struct instance *in, const struct cycle *cycle)
{
    (void)in;
    return cycle->load_count > 0 && w->mono_us < PR_SECONDS(6) ? PR_EBUSY : PR_OK;
}

TEST(what_expires_while_its_payload_is_loaded_does_not_go_into_another_box) /* B13 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.engine.late_bytes = 2;
    s.scenario.endpoints[0].into_box = PR_STR("inbox");
    stage_open(&s);
    s.w.disturb = busy_while_a_payload_is_loaded;
    pr_id late = send_until(&s, "", "", PR_SECONDS(5), "a payload that is loaded");
    send_until(&s, "", "", PR_SECONDS(60), "a payload that is loaded");
    stage_run(&s, PR_SECONDS(30));
    CHECK(is_gone(&s, late));
    CHECK_EQ(expired(&s), 1);
    CHECK_EQ(stored(&s, "e0")->sent, 1);
    stage_close(&s);
}

TEST(what_cannot_be_decoded_is_dead_with_its_bytes_and_counted_and_its_stream_goes_on) /* B9, B66 */
{
    static const enum ordering orderings[] = { ORDERING_FIFO, ORDERING_STRICT };
    struct stage s;
    for (int i = 0; i < 2; i++) {
        stage_set(&s);
        s.scenario.endpoints[0].ordering = orderings[i];
        stage_open(&s);
        pr_id first = world_send(&s.w, "a", "ok");
        struct parcel *p = world_parcel(&s.w);
        p->undecodable = true;
        p->m.type = scenario_type(0);
        p->m.stream = PR_STR("a");
        p->m.payload = PR_STR("bytes");
        p->place = ++s.w.places;
        parcel_seal(&s.w, p);
        CHECK_EQ(memory_plant(&s.w.store, PR_STR("outbox"), &p->m, "the headers are no object"), PR_OK);
        parcel_stored(&s.w, p);
        pr_id last = world_send(&s.w, "a", "ok");
        stage_run(&s, PR_SECONDS(1) + s.scenario.engine.lease_us);
        CHECK(stage_done(&s, first));
        CHECK(stage_done(&s, last));
        struct listed dead = stage_look(&s, p->m.id);
        CHECK_EQ(dead.state, STATE_DEAD);
        CHECK_EQ(dead.cause, PR_REASON_SERIALIZATION_ERROR);
        CHECK_EQ(dead.m.attempts, 1);
        CHECK_EQ(dead.m.failures, 1);
        CHECK_SLICE(dead.m.payload, "bytes");
        CHECK_SLICE(dead.m.error, "the headers are no object");
        CHECK_EQ(stored(&s, "")->dead, 1);
        stage_close(&s);
    }
}

/* ---- Endpoints that come and go ------------------------------------------------------------ */

TEST(many_that_were_parked_for_want_of_an_endpoint_all_go_on_when_the_config_knows_it) /* B18 */
{
    enum { MANY = 5000 };
    static pr_id ids[MANY];
    struct stage s;
    stage_set(&s);
    s.scenario.engine.window_count = 100;
    s.scenario.engine.batch = 20;
    s.scenario.check = false;
    stage_open(&s);
    s.w.quiet = true;
    for (int i = 0; i < MANY; i++)
        ids[i] = world_send_to(&s.w, "e1", i % 2 == 0 ? STREAM(i % 100) : "", "ok");
    stage_run(&s, PR_SECONDS(30));
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(world_state(&s.w, ids[i], PR_STR("e1")), STATE_PARKED);
    stage_stop(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    instance_start(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_MINUTES(2));
    CHECK_EQ(s.count, MANY);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(world_state(&s.w, ids[i], PR_STR("e1")), STATE_GONE);
    stage_close(&s);
}

static void judge_missing(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    struct stage *s = w->user;
    (void)d;
    (void)endpoint;
    s->count++;
    *f = (struct fate){ .outcome = SEND_FAILED,
                        .reason = PR_REASON_DESTINATION_MISSING,
                        .answer_us = PR_MILLISECONDS(1) };
}

TEST(what_a_rule_or_a_person_parked_stays_parked_over_restarts_whatever_its_reason) /* B18, D4 */
{
    static const struct rule_step park[] = { { .step = STEP_PARK } };
    static const struct rule rule = {
        .name = PR_STR("r"), .when = { .kind = MATCH_ALL }, .steps = park, .step_count = 1
    };
    struct stage s;
    for (int by_rule = 0; by_rule < 2; by_rule++) {
        stage_set(&s);
        if (by_rule) {
            s.scenario.endpoints[0].policy.global = &rule;
            s.scenario.endpoints[0].policy.global_count = 1;
        }
        stage_open(&s);
        s.w.judge = judge_missing;
        pr_id id = world_send(&s.w, "a", "ok");
        stage_run(&s, PR_SECONDS(1));
        CHECK_EQ(s.count, 1);
        if (!by_rule)
            CHECK_EQ(stage_admin(&s, ADMIN_PARK, id).changed, 1);
        instance_crash(&s.w, &s.w.instances[0]);
        stage_run(&s, PR_MINUTES(10));
        CHECK_EQ(s.count, 1);
        CHECK_EQ(stage_look(&s, id).state, STATE_PARKED);
        CHECK_EQ(stage_look(&s, id).m.failures, 1);
        stage_close(&s);
    }
}

TEST(what_a_person_parks_while_it_is_out_stays_parked_when_it_fails_and_holds_up_only_strict_streams) /* B51, B53, D4 */
{
    struct stage s;
    for (int strict = 0; strict < 2; strict++) {
        stage_set(&s);
        s.scenario.endpoints[0].ordering = strict ? ORDERING_STRICT : ORDERING_FIFO;
        stage_open(&s);
        pr_id id = world_send(&s.w, "a", "late:500"), next = world_send(&s.w, "a", "ok"),
              other = world_send(&s.w, "b", "late:500");
        stage_run(&s, PR_MILLISECONDS(100));
        CHECK_EQ(stage_admin(&s, ADMIN_PARK, id).changed, 1);
        stage_run(&s, PR_MINUTES(1));
        CHECK_EQ(stage_sends(&s, id), 1);
        CHECK_EQ(stage_look(&s, id).state, STATE_PARKED);
        CHECK_EQ(stage_look(&s, id).m.failures, 1);
        CHECK_EQ(stage_done(&s, next), !strict);
        CHECK(stage_sends(&s, other) > 1); /* one that nobody parked goes on */
        stage_admin(&s, ADMIN_RETRY, id);
        stage_run(&s, PR_MINUTES(1));
        CHECK(stage_sends(&s, id) > 1);
        stage_close(&s);
    }
}

TEST(an_endpoint_that_goes_away_takes_only_its_own_deliveries_along_and_they_keep_their_counts) /* B17, B18 */
{
    struct stage s;
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO)->policy.retry =
        (struct retry_setting){ .base_us = PR_MINUTES(10), .factor = 1, .failures = 5 };
    route_to_both(&s);
    stage_open(&s);
    pr_id id = world_send(&s.w, "a", "fail:1"), next = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(5));
    CHECK_EQ(world_state(&s.w, id, PR_STR("e0")), STATE_GONE);
    CHECK_EQ(world_state(&s.w, id, PR_STR("e1")), STATE_RETRYING);
    stage_stop(&s);
    s.scenario.engine.endpoint_count = 1;
    s.scenario.routes[0].to_count = 1;
    instance_start(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_MINUTES(20));
    CHECK_EQ(stage_look(&s, id).state, STATE_PARKED);
    CHECK_EQ(stage_look(&s, id).m.failures, 1);
    CHECK_EQ(stage_look(&s, next).state, STATE_PARKED);
    stage_stop(&s);
    s.scenario.engine.endpoint_count = 2;
    instance_start(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_SECONDS(10));
    CHECK(stage_done(&s, id));
    CHECK(stage_done(&s, next));
    CHECK_EQ(stage_send(&s, id, 3)->attempt, 2); /* e0 twice, e1 twice */
    stage_close(&s);
}

TEST(a_failed_message_that_new_routes_send_to_several_endpoints_begins_to_count_anew_at_each) /* B17 */
{
    struct stage s;
    pr_id ids[3];
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    stage_open(&s);
    ids[0] = world_send(&s.w, "a", "fail:2");
    for (int i = 1; i < 3; i++)
        ids[i] = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_look(&s, ids[0]).m.failures, 1);
    stage_stop(&s);
    route_to_both(&s);
    instance_start(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_SECONDS(30));
    for (int i = 0; i < 3; i++)
        CHECK(stage_done(&s, ids[i]));
    CHECK_EQ(stage_sends(&s, ids[0]), 1 + 2 * 3); /* two failures at each of them */
    CHECK_EQ(stage_sends(&s, ids[2]), 2);
    stage_close(&s);
}

/* ---- Limits ----------------------------------------------------------------------------------- */

TEST(with_a_limit_of_one_hand_out_the_second_is_not_made_and_failures_still_are_none_of_it) /* B40 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].max_attempts = 1;
    stage_open(&s);
    pr_id guilty = world_send(&s.w, "a", "crash"), next = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_MINUTES(1));
    pr_id failing = world_send(&s.w, "b", "fail:4");
    stage_run(&s, PR_MINUTES(5));
    CHECK_EQ(stage_sends(&s, guilty), 1);
    CHECK_EQ(stage_look(&s, guilty).state, STATE_DEAD);
    CHECK_EQ(stage_look(&s, guilty).m.attempts, 2);
    CHECK_EQ(stage_look(&s, guilty).limit, 1);
    CHECK(stage_done(&s, next));
    CHECK(stage_done(&s, failing));
    stage_close(&s);
}

/* ---- Clocks -------------------------------------------------------------------------------------- */

TEST(a_clock_that_goes_back_years_costs_nobody_its_lease_and_loses_nothing) /* B25 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.instances = 2;
    stage_open(&s);
    stage_run(&s, PR_SECONDS(30));
    pr_id out = world_send(&s.w, "a", "slow:5000"), next = world_send(&s.w, "a", "ok"),
          failing = world_send(&s.w, "b", "fail:1");
    stage_run(&s, PR_SECONDS(1));
    world_step_clock(&s.w, -PR_MINUTES(60 * 24 * 365 * 10));
    pr_id fresh = world_send(&s.w, "c", "fail:1");
    stage_run(&s, PR_MINUTES(2));
    CHECK(stage_done(&s, out));
    CHECK_EQ(stage_sends(&s, out), 1);
    CHECK(stage_done(&s, next));
    CHECK(stage_done(&s, fresh));
    CHECK_EQ(stage_look(&s, failing).state, STATE_RETRYING); /* its time is years away now */
    world_step_clock(&s.w, PR_MINUTES(60 * 24 * 365 * 10));
    stage_run(&s, PR_SECONDS(30));
    CHECK(stage_done(&s, failing));
    struct engine_counts counts;
    for (int i = 0; i < 2; i++) {
        engine_counts(s.w.instances[i].engine, &counts);
        CHECK_EQ(counts.leases_lost, 0);
    }
    stage_close(&s);
}
