/* The checkers of incoming messages: handlers that complete messages themselves, messages for another box, and sources
 * that bring them again.  Each story is good except for one event. */
#include "story.h"

static void inbox_begins(struct story *s)
{
    story_begin(s, ORDERING_FIFO);
    s->scenario.engine.dedupe_us = PR_MINUTES(60);
    joins(s, 1);
    cycle(s, 1, 1, LANES_ALL);
}

/* Its handler's transaction: PR_OK, it committed; PR_FAILED, it did not; PR_STALE, it was refused. */
static void settled(struct story *s, uint16_t session, uint32_t message, int number, int answer)
{
    tell(s, (struct event){ .kind = EVENT_SETTLED,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = message,
                            .destination = world_destination(&s->w, s->w.parcels[message]->m.destination),
                            .number = number,
                            .answer = (int16_t)answer });
}

/* The engine asks whether that is so. */
static void asked(struct story *s, uint16_t session, uint32_t message, int number, int answer)
{
    tell(s, (struct event){ .kind = EVENT_VERDICT,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = message,
                            .number = number,
                            .destination = world_destination(&s->w, s->w.parcels[message]->m.destination),
                            .what = VERDICT_ASK,
                            .flag = VERDICT_IS_FENCED,
                            .answer = (int16_t)answer });
}

static void goes_out(struct story *s, uint16_t session, uint32_t message, int number, int receipt)
{
    handed_out(s, session, message, number, receipt);
    cycle(s, session, receipt, LANES_ALL);
    started(s, session, message, number);
}

/* The same id once more, by a plain INSERT. */
static uint32_t sent_again(struct story *s, uint32_t message)
{
    world_send_again(&s->w, s->w.parcels[message]->m.id, "e0", "other", "again");
    return s->w.parcel_count - 1;
}

static void goes_out_and_settles(struct story *s, uint32_t message, int receipt)
{
    goes_out(s, 1, message, 1, receipt);
    settled(s, 1, message, 1, PR_OK);
    answered(s, 1, message, 1, SEND_SETTLED);
    asked(s, 1, message, 1, PR_UNKNOWN);
    cycle(s, 1, receipt + 1, LANES_ALL);
}

/* ---- I10: handlers --------------------------------------------------------------------------- */

TEST(messages_that_their_handlers_complete_are_believed) /* I10 */
{
    struct story s;
    inbox_begins(&s);
    goes_out_and_settles(&s, s.first, 2);
    goes_out_and_settles(&s, s.second, 4);
    the_end(&s);
    story_ends(&s, NULL, NULL);
}

TEST(what_a_handler_writes_twice_is_found) /* I10, B90 */
{
    struct story s;
    inbox_begins(&s);
    goes_out_and_settles(&s, s.first, 2);
    goes_out_and_settles(&s, sent_again(&s, s.first), 4);
    story_ends(&s, "I10", "was written before");

    inbox_begins(&s); /* when its time is over it may */
    goes_out_and_settles(&s, s.first, 2);
    s.w.mono_us += PR_MINUTES(61);
    cycle(&s, 1, 4, LANES_ALL);
    goes_out_and_settles(&s, sent_again(&s, s.first), 5);
    story_ends(&s, NULL, NULL);
}

TEST(a_row_that_is_there_though_its_handler_completed_it_is_found) /* I10 */
{
    struct story s;
    inbox_begins(&s);
    goes_out(&s, 1, s.first, 1, 2);
    settled(&s, 1, s.first, 1, PR_OK);
    answered(&s, 1, s.first, 1, SEND_SETTLED);
    asked(&s, 1, s.first, 1, PR_OK);
    story_ends(&s, "I10", "its row is still there");
}

TEST(a_row_that_is_gone_though_nobody_completed_it_is_found) /* I1 */
{
    struct story s;
    inbox_begins(&s);
    goes_out(&s, 1, s.first, 1, 2);
    settled(&s, 1, s.first, 1, PR_FAILED);
    answered(&s, 1, s.first, 1, SEND_SETTLED);
    asked(&s, 1, s.first, 1, PR_UNKNOWN);
    story_ends(&s, "I1", "nobody has completed it");
}

TEST(a_handler_that_is_refused_without_a_reason_is_found) /* I10 */
{
    struct story s;
    inbox_begins(&s);
    goes_out(&s, 1, s.first, 1, 2);
    settled(&s, 1, s.first, 1, PR_STALE);
    story_ends(&s, "I10", "nobody was faster");
}

TEST(a_handler_that_completes_an_old_hand_out_is_found) /* I6 */
{
    struct story s;
    inbox_begins(&s);
    goes_out(&s, 1, s.first, 1, 2);
    answered(&s, 1, s.first, 1, SEND_FAILED);
    judged(&s, 1, s.first, 1, VERDICT_FAIL, PR_SECONDS(5));
    cycle(&s, 1, 3, LANES_ALL);
    settled(&s, 1, s.first, 1, PR_OK);
    story_ends(&s, "I6", "was completed by its handler");
}

/* ---- I33: another box ---------------------------------------------------------------------------- */

static void local_begins(struct story *s)
{
    inbox_begins(s);
    s->scenario.endpoints[0].into_box = PR_STR("inbox");
}

static void goes_into(struct story *s, uint32_t message, int number, int answer, uint64_t digest)
{
    judged(s, 1, message, 1, VERDICT_COMPLETE, 0);
    tell(s, (struct event){ .kind = EVENT_INTO,
                            .instance = 1,
                            .session = 1,
                            .message = message,
                            .answer = (int16_t)answer,
                            .extra = digest });
    cycle(s, 1, number, LANES_ALL);
}

TEST(messages_that_go_into_another_box_are_believed) /* I33 */
{
    struct story s;
    local_begins(&s);
    goes_into(&s, s.first, 2, PR_OK, s.w.parcels[s.first]->digest);
    goes_into(&s, s.second, 3, PR_OK, s.w.parcels[s.second]->digest);
    the_end(&s);
    story_ends(&s, NULL, NULL);
}

TEST(a_message_that_ends_here_and_does_not_begin_there_is_found) /* I33 */
{
    struct story s;
    local_begins(&s);
    judged(&s, 1, s.first, 1, VERDICT_COMPLETE, 0);
    cycle(&s, 1, 2, LANES_ALL);
    story_ends(&s, "I33", "did not go into the other box");

    local_begins(&s); /* whoever refuses it must have had it */
    goes_into(&s, s.first, 2, PR_DUPLICATE, 0);
    story_ends(&s, "I33", "has never had it");
}

TEST(a_message_that_is_put_into_another_box_changed_or_out_of_order_is_found) /* I3, I8 */
{
    struct story s;
    local_begins(&s);
    goes_into(&s, s.first, 2, PR_OK, 1);
    story_ends(&s, "I8", "changed");

    local_begins(&s);
    goes_into(&s, s.second, 2, PR_OK, s.w.parcels[s.second]->digest);
    story_ends(&s, "I3", "was sent before");
}

/* ---- I32: marks ------------------------------------------------------------------------------------- */

TEST(an_id_that_is_completed_twice_is_found) /* I32, B90 */
{
    struct story s;
    local_begins(&s);
    uint32_t again = sent_again(&s, s.first);
    goes_into(&s, s.first, 2, PR_OK, s.w.parcels[s.first]->digest);
    goes_into(&s, again, 3, PR_DUPLICATE, 0);
    story_ends(&s, "I32", "of the same id was ended before");

    inbox_begins(&s); /* discarded by a person is an end, too */
    again = sent_again(&s, s.first);
    tell(&s, (struct event){ .kind = EVENT_ADMIN, NOBODY, .message = s.first, .what = ADMIN_DISCARD });
    tell(&s, (struct event){ .kind = EVENT_ADMIN_END, NOBODY, .message = s.first });
    delivered(&s, 1, again, 2);
    story_ends(&s, "I32", "of the same id was ended before");
}

/* The first one is over or not; what came again ends as a duplicate. */
static void ends_as_duplicate(struct story *s, bool handled)
{
    inbox_begins(s);
    uint32_t again = sent_again(s, s->first);
    if (handled)
        delivered(s, 1, s->first, 2);
    judged(s, 1, again, 0, VERDICT_DUPLICATE, 0);
    cycle(s, 1, 4, LANES_ALL);
}

TEST(a_duplicate_of_nothing_is_found) /* I32 */
{
    struct story s;
    ends_as_duplicate(&s, true);
    story_ends(&s, NULL, NULL);

    ends_as_duplicate(&s, false);
    story_ends(&s, "I32", "nobody has handled another one");

    inbox_begins(&s); /* its sender was told so */
    tell(&s, (struct event){ .kind = EVENT_REFUSED, NOBODY, .message = s.first });
    story_ends(&s, "I32", "nobody has handled another one");
}

/* ---- I34: sources ----------------------------------------------------------------------------------- */

static void brought(struct story *s, uint32_t message, int answer)
{
    tell(s,
         (struct event){ .kind = EVENT_BROUGHT, NOBODY, .message = message, .number = 2, .answer = (int16_t)answer });
}

TEST(what_a_source_brings_again_is_stored_once) /* I34, B90 */
{
    struct story s;
    inbox_begins(&s);
    brought(&s, s.first, PR_DUPLICATE);
    story_ends(&s, NULL, NULL);

    inbox_begins(&s);
    brought(&s, s.first, PR_OK);
    story_ends(&s, "I34", "stored again");
}

/* Of the part for the first endpoint: made, or left out. */
static void split(struct story *s, uint32_t message, enum event_kind part)
{
    judged(s, 1, message, 0, VERDICT_SPLIT, 0);
    tell(s, (struct event){ .kind = (uint8_t)part, .instance = 1, .session = 1, .message = message, .destination = 1 });
}

/* By its source, when it was split. */
static uint32_t stored_again(struct story *s, uint32_t message)
{
    struct parcel *p = world_parcel(&s->w), *original = s->w.parcels[message];
    brought(s, message, PR_OK);
    p->m = original->m;
    p->original = original;
    original->copy = p;
    parcel_seal(&s->w, p);
    parcel_stored(&s->w, p);
    return p->index;
}

TEST(a_part_that_a_split_leaves_out_is_there_already) /* I32, I34, B66 */
{
    struct story s;
    inbox_begins(&s);
    split(&s, s.first, EVENT_BORN);
    split(&s, stored_again(&s, s.first), EVENT_LEFT_OUT);
    cycle(&s, 1, 2, LANES_ALL);
    story_ends(&s, NULL, NULL);

    inbox_begins(&s);
    split(&s, s.first, EVENT_LEFT_OUT);
    story_ends(&s, "I32", "nobody has one of its id");

    inbox_begins(&s); /* the one that is there has left its own out, too */
    split(&s, s.first, EVENT_BORN);
    split(&s, stored_again(&s, s.second), EVENT_LEFT_OUT);
    story_ends(&s, "I34", "stored again");
}

TEST(a_message_that_is_refused_as_a_duplicate_of_nothing_is_found) /* I34 */
{
    struct story s;
    inbox_begins(&s);
    struct parcel *p = world_parcel(&s.w);
    parcel_seal(&s.w, p);
    brought(&s, p->index, PR_DUPLICATE);
    story_ends(&s, "I34", "has never had it");
}

/* ---- I35: workers ------------------------------------------------------------------------------------- */

static void answered_worker(struct story *s, uint32_t message, int number, enum pr_verdict_kind kind, int answer)
{
    tell(s, (struct event){ .kind = EVENT_ANSWERED,
                            .instance = 1,
                            .session = 1,
                            .message = message,
                            .number = number,
                            .what = (uint16_t)kind,
                            .answer = (int16_t)answer });
}

TEST(what_a_worker_is_told_of_its_verdicts_must_be_so) /* I35 */
{
    struct story s;
    inbox_begins(&s);
    delivered(&s, 1, s.first, 2);
    answered_worker(&s, s.first, 1, PR_VERDICT_COMPLETE, PR_OK);
    story_ends(&s, NULL, NULL);

    inbox_begins(&s);
    delivered(&s, 1, s.first, 2);
    answered_worker(&s, s.first, 1, PR_VERDICT_COMPLETE, PR_STALE);
    story_ends(&s, "I35", "came too late, and it is committed");

    inbox_begins(&s);
    goes_out(&s, 1, s.first, 1, 2);
    answered(&s, 1, s.first, 1, SEND_OK);
    answered_worker(&s, s.first, 1, PR_VERDICT_COMPLETE, PR_OK); /* before its verdict came to the store */
    story_ends(&s, "I35", "is committed, and it is not");
}

TEST(what_a_worker_is_told_of_its_own_transaction_must_be_so) /* I35 */
{
    struct story s;
    inbox_begins(&s);
    goes_out(&s, 1, s.first, 1, 2);
    settled(&s, 1, s.first, 1, PR_OK);
    answered_worker(&s, s.first, 1, PR_VERDICT_SETTLED, PR_FAILED);
    story_ends(&s, "I35", "still there");
}

TEST(a_release_that_no_worker_asked_for_is_found) /* I4 */
{
    struct story s;
    inbox_begins(&s);
    goes_out(&s, 1, s.first, 1, 2);
    answered(&s, 1, s.first, 1, SEND_FAILED);
    judged(&s, 1, s.first, 1, VERDICT_RELEASE, 0);
    story_ends(&s, "I4", "no worker said so");
}
