/* What handlers send, append and set in the transaction in which they complete their message: the same sentences on either
 * store. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "stand.h"

#define CONFIG                                                                                                         \
    "poll: {min: 1ms, max: 20ms}\n"                                                                                    \
    "endpoints: {book: {url: \"handler:book\", retry: [10ms, 10ms, 10ms]}}\n"                                          \
    "routes: [{box: inbox, to: book}]\n"
#define EVENTS(s, what, where)                                                                                         \
    ((s)->pg != NULL ? "SELECT " what " FROM event WHERE " where : "SELECT " what " FROM postrider_event WHERE " where)
#define VALUES_OF(s, what, where)                                                                                      \
    ((s)->pg != NULL ? "SELECT " what " FROM flow_state WHERE " where                                                  \
                     : "SELECT " what " FROM postrider_flow_state WHERE " where)

struct handler {
    struct stand *stand;
    int (*effects)(struct handler *h, struct pr_context *context, const struct pr_message *m);
    atomic_int calls, conflicts;
    int roll_back; /* the first so many */
    struct pr_error conflict;
};

static int complete(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct handler *h = user;
    struct pr_error error = { 0 };
    int call = ++h->calls;
    CHECK_EQ(h->effects(h, context, m), PR_OK);
    struct tx tx = tx_begin(h->stand);
    int rc = tx_complete(&tx, context, &error);
    if (rc == PR_ECONFLICT) {
        h->conflicts++;
        h->conflict = error;
    } else {
        CHECK_OK(rc, &error);
    }
    CHECK_EQ(tx_do(&tx, rc == PR_OK && call > h->roll_back ? "COMMIT" : "ROLLBACK"), PR_OK);
    tx_close(&tx);
    return rc == PR_OK ? PR_SETTLED : rc;
}

static struct pr_engine *begin(struct stand *s, struct handler *h)
{
    stand_init(s);
    h->stand = s;
    struct pr_engine *engine = stand_engine(s, CONFIG);
    CHECK_EQ(pr_engine_handle_named(engine, "book", complete, h), PR_OK);
    return engine;
}

static void end(struct stand *s, struct pr_engine *engine)
{
    pr_engine_free(engine);
    stand_fini(s);
}

static int append(struct pr_context *context, const struct pr_message *event, int64_t expected)
{
    struct pr_error error;
    return pr_effect_append(context, event, expected, &error);
}

static int set(struct pr_context *context, const char *name, pr_slice value)
{
    struct pr_error error;
    return pr_effect_set(context, PR_STR("totals"), pr_str(name), value, &error);
}

/* Two events and a message that is one, of the same stream, and values that are set, set again, removed and left empty. */
static int all_kinds(struct handler *h, struct pr_context *context, const struct pr_message *m)
{
    (void)h;
    const struct pr_message event = { .type = PR_STR("booked"),
                                      .stream = PR_STR("account-7"),
                                      .content_type = PR_STR("text/plain"),
                                      .headers = PR_STR("{\"a\":\"1\"}"),
                                      .payload = m->payload };
    const struct pr_message sent = {
        .type = PR_STR("sent"), .stream = PR_STR("account-7"), .event = true, .payload = m->payload
    };
    int rc = append(context, &event, PR_ANY_VERSION);
    if (rc == PR_OK)
        rc = append(context, &event, PR_ANY_VERSION);
    if (rc == PR_OK)
        rc = pr_effect_send(context, &sent);
    if (rc == PR_OK)
        rc = set(context, "last", PR_STR("x"));
    if (rc == PR_OK)
        rc = set(context, "last", m->payload);
    if (rc == PR_OK)
        rc = set(context, "empty", PR_STR(""));
    return rc == PR_OK ? set(context, "gone", (pr_slice){ NULL, 0 }) : rc;
}

TEST(events_and_values_of_a_handler_are_stored_in_its_own_transaction) /* B93 */
{
    struct stand s;
    struct handler h = { .effects = all_kinds, .roll_back = 1 };
    struct pr_engine *engine = begin(&s, &h);
    stand_do(&s, s.pg != NULL ? "INSERT INTO flow_state VALUES ('totals', 'gone', 'v')"
                              : "INSERT INTO postrider_flow_state VALUES ('totals', 'gone', 'v')");
    stand_send(&s, "inbox", "t", "s1", 3);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    stand_drain(engine);
    CHECK_EQ(h.calls, 4); /* what was rolled back has left nothing */
    CHECK_EQ(stand_int(&s, EVENTS(&s, "count(*)", "stream = 'account-7'")), 9);
    CHECK_EQ(stand_int(&s, EVENTS(&s, "max(version)", "stream = 'account-7'")), 9);
    CHECK_EQ(stand_int(&s, EVENTS(&s, "count(*)", "type = 'booked' AND content_type = 'text/plain'")), 6);
    CHECK_STR(stand_text(&s, EVENTS(&s, "headers", "type = 'booked' AND version = 2")), "{\"a\":\"1\"}");
    CHECK_STR(stand_text(&s, s.pg != NULL ? "SELECT convert_from(payload, 'UTF8') FROM event WHERE version = 8"
                                          : "SELECT CAST(payload AS TEXT) FROM postrider_event WHERE version = 8"),
              "3");
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox WHERE type = 'sent'"), 3);
    CHECK_STR(stand_text(&s, s.pg != NULL ? "SELECT convert_from(value, 'UTF8') FROM flow_state WHERE key = 'last'"
                                          : "SELECT CAST(value AS TEXT) FROM postrider_flow_state WHERE key = 'last'"),
              "3");
    CHECK_EQ(stand_int(&s, VALUES_OF(&s, "length(value)", "key = 'empty'")), 0);
    CHECK_EQ(stand_int(&s, VALUES_OF(&s, "count(*)", "flow = 'totals'")), 2);
    end(&s, engine);
}

/* The first event's number counts, as it was before anything of this message was stored; the message between them is one of
 * the stream, too. */
static int append_behind(struct handler *h, struct pr_context *context, const struct pr_message *m)
{
    const struct pr_message event = { .type = PR_STR("t"), .stream = PR_STR("a"), .payload = m->payload };
    const struct pr_message sent = { .type = PR_STR("t"), .stream = PR_STR("a"), .event = true };
    int64_t expected = 3 * (m->payload.data[0] - '1'); /* of the first message none, of the second three */
    (void)h;
    int rc = pr_effect_send(context, &sent);
    if (rc == PR_OK)
        rc = append(context, &event, expected);
    return rc == PR_OK ? append(context, &event, expected) : rc;
}

TEST(of_several_events_of_one_stream_the_first_one_says_what_is_expected) /* B95 */
{
    struct stand s;
    struct handler h = { .effects = append_behind };
    struct pr_engine *engine = begin(&s, &h);
    stand_send(&s, "inbox", "t", "s1", 2);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    CHECK_EQ(h.conflicts, 0);
    CHECK_EQ(h.calls, 2);
    CHECK_EQ(stand_int(&s, EVENTS(&s, "max(version)", "stream = 'a'")), 6);
    end(&s, engine);
}

static int64_t expected_for(const struct handler *h)
{
    return h->conflicts == 0 ? 5 : 1;
}

static int append_expecting(struct handler *h, struct pr_context *context, const struct pr_message *m)
{
    const struct pr_message event = { .type = PR_STR("t"), .stream = PR_STR("a"), .payload = m->payload };
    int rc = set(context, "tried", m->payload);
    return rc == PR_OK ? append(context, &event, expected_for(h)) : rc;
}

static int send_expecting(struct handler *h, struct pr_context *context, const struct pr_message *m)
{
    (void)m;
    const struct pr_message sent = { .type = PR_STR("t"),
                                     .stream = PR_STR("a"),
                                     .event = true,
                                     .expects_version = true,
                                     .expected_version = expected_for(h) };
    return pr_effect_send(context, &sent);
}

TEST(a_stream_at_another_version_is_a_conflict_and_the_message_comes_again_uncounted) /* B95 */
{
    static int (*const kinds[])(struct handler *, struct pr_context *, const struct pr_message *) = { append_expecting,
                                                                                                      send_expecting };
    for (size_t i = 0; i < 2; i++) {
        struct stand s;
        struct handler h = { .effects = kinds[i] };
        struct pr_engine_counts counts;
        struct pr_engine *engine = begin(&s, &h);
        stand_do(&s, s.pg != NULL ? "INSERT INTO outbox (type, stream, event) VALUES ('t', 'a', true)"
                                  : "INSERT INTO outbox (type, stream, event) VALUES ('t', 'a', 1)");
        stand_send(&s, "inbox", "t", "s1", 1);
        stand_start(engine);
        stand_wait(&s, "SELECT count(*) FROM inbox", 0);
        stand_drain(engine);
        CHECK_EQ(h.calls, 2);
        CHECK_EQ(h.conflicts, 1);
        CHECK_STR(h.conflict.text, "stream \"a\" is at version 1, not 5: read it again before you retry");
        CHECK_EQ(h.conflict.expected_version, 5);
        CHECK_EQ(h.conflict.version, 1);
        CHECK_EQ(stand_int(&s, EVENTS(&s, "count(*)", "stream = 'a'")), 2);
        pr_engine_counts(engine, &counts);
        CHECK_EQ(counts.failed, 0);
        CHECK_EQ(counts.sent, 1);
        end(&s, engine);
    }
}

/* An event whose id the stream has is left out, with or without an expectation; the rest is stored. */
static int append_again(struct handler *h, struct pr_context *context, const struct pr_message *m)
{
    (void)h;
    const struct pr_message event = { .id = m->id, .type = PR_STR("t"), .stream = PR_STR("a") };
    const struct pr_message sent = { .id = m->id,
                                     .type = PR_STR("t"),
                                     .stream = PR_STR("a"),
                                     .event = true,
                                     .expects_version = true,
                                     .expected_version = 7 };
    int rc = append(context, &event, PR_ANY_VERSION);
    if (rc == PR_OK)
        rc = append(context, &event, 7);
    if (rc == PR_OK)
        rc = pr_effect_send(context, &sent);
    return rc == PR_OK ? set(context, "k", PR_STR("v")) : rc;
}

TEST(an_event_that_its_stream_has_is_left_out_of_a_handlers_transaction) /* B95 */
{
    struct stand s;
    struct handler h = { .effects = append_again };
    struct pr_engine *engine = begin(&s, &h);
    char sql[256], id[PR_ID_TEXT_SIZE];
    stand_send(&s, "inbox", "t", "s1", 1);
    snprintf(id, sizeof id, "%s", stand_text(&s, s.pg != NULL ? "SELECT id::text FROM inbox" : "SELECT id FROM inbox"));
    snprintf(sql, sizeof sql, "INSERT INTO outbox (id, type, stream, event) VALUES ('%s', 't', 'a', %s)", id,
             s.pg != NULL ? "true" : "1");
    if (s.pg == NULL)
        snprintf(sql, sizeof sql, "INSERT INTO outbox (id, type, stream, event) SELECT id, 't', 'a', 1 FROM inbox");
    stand_do(&s, sql);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    CHECK_EQ(h.calls, 1);
    CHECK_EQ(h.conflicts, 0);
    CHECK_EQ(stand_int(&s, EVENTS(&s, "count(*)", "stream = 'a'")), 1);
    CHECK_EQ(stand_int(&s, VALUES_OF(&s, "count(*)", "key = 'k'")), 1);
    end(&s, engine);
}
