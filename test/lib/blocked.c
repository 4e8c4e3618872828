/* An application's open transaction makes the same rows as handlers of some messages.  Only these messages wait for its
 * end, and each is handled once; 200 others of the box continue meanwhile. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "stand.h"

#define OTHERS 200
#define CONFIG                                                                                                         \
    "poll: {min: 1ms, max: 20ms}\n"                                                                                    \
    "boxes: {inbox: {kind: inbox, dedupe: 1h}}\n"                                                                      \
    "endpoints: {book: {url: \"handler:book\", concurrency: 4}}\n"                                                     \
    "routes: [{box: inbox, to: book}]\n"

struct handler {
    struct stand *stand;
    atomic_int calls;
    atomic_bool open, go_on; /* of the one that completes in a transaction of its own */
    bool appends;
};

static bool is_type(const struct pr_message *m, const char *type)
{
    return m->type.size == strlen(type) && memcmp(m->type.data, type, m->type.size) == 0;
}

/* Sets a value and, unless it is told not to, sends an event of the message's own stream. */
static int add_effects(const struct handler *h, struct pr_context *context, const struct pr_message *m)
{
    struct pr_error error;
    const struct pr_message event = { .type = PR_STR("e"), .stream = m->stream, .event = true };
    if (!h->appends)
        return PR_OK;
    int rc = pr_effect_set(context, PR_STR("scope"), m->stream, PR_STR("v"), &error);
    return rc == PR_OK ? pr_effect_send_box(context, "outbox", &event, &error) : rc;
}

static void wait_for(atomic_bool *flag)
{
    int64_t deadline_us = test_now_us() + PR_SECONDS(60);
    while (!*flag && test_now_us() < deadline_us)
        test_pause();
    CHECK(*flag);
}

static int handle(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct handler *h = user;
    struct pr_error error;
    h->calls++;
    CHECK_EQ(add_effects(h, context, m), PR_OK);
    if (!is_type(m, "own"))
        return PR_OK;
    struct tx tx = tx_begin(h->stand);
    CHECK_OK(tx_complete(&tx, context, &error), &error);
    h->open = true;
    wait_for(&h->go_on);
    CHECK_EQ(tx_do(&tx, "COMMIT"), PR_OK);
    tx_close(&tx);
    return PR_SETTLED;
}

/* false: the test does not apply. */
static bool begin(struct stand *s, struct handler *h, struct pr_engine **ret)
{
    stand_init(s);
    if (s->pg == NULL) {
        stand_fini(s);
        return false;
    }
    h->stand = s;
    *ret = stand_engine(s, CONFIG);
    CHECK_EQ(pr_engine_handle_named(*ret, "book", handle, h), PR_OK);
    return true;
}

static void send_others(struct stand *s)
{
    for (int i = 0; i < OTHERS; i++) {
        char stream[16];
        snprintf(stream, sizeof stream, "other-%d", i);
        stand_send(s, "inbox", "other", stream, 1);
    }
}

static void others_go_on(struct stand *s)
{
    stand_wait(s, "SELECT count(*) FROM inbox WHERE type = 'other'", 0);
    CHECK_EQ(stand_int(s, "SELECT count(*) FROM inbox WHERE type <> 'other'"), 1);
}

static void all_end(struct stand *s, struct handler *h, struct pr_engine *engine, int calls)
{
    stand_wait(s, "SELECT count(*) FROM inbox", 0);
    stand_drain(engine);
    CHECK_EQ(h->calls, calls);
    CHECK_EQ(stand_int(s, "SELECT count(*) FROM {dead}"), 0);
    pr_engine_free(engine);
    stand_fini(s);
}

/* Its own mark: whoever writes it himself says that the message has been handled. */
static void hold_mark(const char *how, int64_t marks)
{
    struct stand s;
    struct handler h = { 0 };
    struct pr_engine *engine;
    if (!begin(&s, &h, &engine))
        SKIP("SQLite has one writer");
    stand_send(&s, "inbox", "held", "held", 1);
    struct tx tx = tx_begin(&s);
    CHECK_EQ(tx_do(&tx, "INSERT INTO seen (box, id, handler, at) SELECT 'inbox', id, 'book', now() FROM inbox"), PR_OK);
    send_others(&s);
    stand_start(engine);
    others_go_on(&s);
    CHECK_EQ(tx_do(&tx, how), PR_OK);
    tx_close(&tx);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM seen"), 1 + OTHERS);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM seen WHERE until IS NULL"), marks);
    all_end(&s, &h, engine, 1 + OTHERS);
}

TEST(a_mark_in_an_open_transaction_holds_up_its_own_message_only) /* B90 */
{
    hold_mark("ROLLBACK", 0);
    hold_mark("COMMIT", 1);
}

TEST(an_event_in_an_open_transaction_holds_up_its_own_stream_only) /* B95 */
{
    struct stand s;
    struct handler h = { .appends = true };
    struct pr_engine *engine;
    if (!begin(&s, &h, &engine))
        SKIP("SQLite has one writer");
    stand_send(&s, "inbox", "held", "held", 1);
    struct tx tx = tx_begin(&s);
    CHECK_EQ(tx_do(&tx, "INSERT INTO outbox (type, stream, event) VALUES ('mine', 'held', true)"), PR_OK);
    send_others(&s);
    stand_start(engine);
    others_go_on(&s);
    CHECK_EQ(tx_do(&tx, "COMMIT"), PR_OK);
    tx_close(&tx);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM event"), 2 + OTHERS);
    CHECK_STR(stand_text(&s, "SELECT string_agg(type, ' ' ORDER BY version) FROM event WHERE stream = 'held'"),
              "mine e");
    all_end(&s, &h, engine, 1 + OTHERS);
}

/* A handler completes its message in a transaction of its own, which stays open, with a mark, an event and a value. */
TEST(a_handlers_own_transaction_with_effects_holds_up_nobody_else) /* B93 */
{
    struct stand s;
    struct handler h = { .appends = true };
    struct pr_engine *engine;
    if (!begin(&s, &h, &engine))
        SKIP("SQLite has one writer");
    stand_start(engine);
    stand_send(&s, "inbox", "own", "held", 1);
    wait_for(&h.open);
    send_others(&s);
    others_go_on(&s);
    struct tx tx = tx_begin(&s);
    CHECK_EQ(tx_do(&tx, "SET lock_timeout = '10ms'"), PR_OK); /* it is open indeed */
    CHECK_EQ(tx_do(&tx, "INSERT INTO flow_state VALUES ('scope', 'held', 'x')"), PR_EBUSY);
    tx_close(&tx);
    h.go_on = true;
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM event"), 1 + OTHERS);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM flow_state"), 1 + OTHERS);
    all_end(&s, &h, engine, 1 + OTHERS);
}
