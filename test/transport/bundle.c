/* Splitting a refused batch: every batch of up to ten messages, with every combination of guilty ones. */
#include <string.h>

#include "base/util.h"
#include "check.h"
#include "transport/bundle.h"

#define SMALL 10

/* The other side: refuses every request with a guilty message in it, and notes what it took. */
static struct {
    bool guilty[BUNDLE_MAX];
    size_t down_at; /* the n-th request meets an outage; 0: none */
    unsigned requests, sent[BUNDLE_MAX];
    uint16_t taken[BUNDLE_MAX]; /* in order */
    size_t taken_count;
    bool in_outage[BUNDLE_MAX];
} other;

static enum bundle_answer answer(const uint16_t *places, size_t count)
{
    enum bundle_answer how = BUNDLE_TAKEN;

    if (++other.requests == other.down_at)
        how = BUNDLE_DOWN;
    for (size_t i = 0; i < count; i++) {
        CHECK(i == 0 || places[i] > places[i - 1]);
        other.sent[places[i]]++;
        other.in_outage[places[i]] |= how == BUNDLE_DOWN;
        if (how != BUNDLE_DOWN && other.guilty[places[i]])
            how = BUNDLE_REFUSED;
    }
    for (size_t i = 0; i < count && how == BUNDLE_TAKEN; i++)
        other.taken[other.taken_count++] = places[i];
    return how;
}

/* Send it all; ret_ends[i] is what became of message i. */
static void send_all(struct bundle *b, const uint64_t *streams, size_t count, enum bundle_end *ret_ends)
{
    uint16_t places[BUNDLE_MAX];
    size_t place, n, told = 0;
    enum bundle_end how;

    other.requests = 0;
    other.taken_count = 0;
    memset(other.sent, 0, sizeof(other.sent));
    memset(other.in_outage, 0, sizeof(other.in_outage));
    for (size_t i = 0; i < count; i++)
        ret_ends[i] = BUNDLE_WAITS;
    bundle_init(b, streams, count);
    do {
        n = bundle_next(b, places);
        if (n > 0)
            bundle_answer(b, answer(places, n));
        for (; bundle_tell(b, &place, &how); told++) {
            CHECK_EQ(ret_ends[place], BUNDLE_WAITS); /* G1 */
            ret_ends[place] = how;
        }
    } while (n > 0);
    CHECK_EQ(told, count);
    CHECK(other.requests <= 2 * count - 1); /* G4 */
}

static bool behind_guilty(const uint64_t *streams, size_t place)
{
    for (size_t i = 0; i < place; i++)
        if (streams[i] != 0 && streams[i] == streams[place] && other.guilty[i])
            return true;
    return false;
}

static void set_guilty(unsigned bits)
{
    for (size_t i = 0; i < SMALL; i++)
        other.guilty[i] = bits >> i & 1;
}

static unsigned count_bits(unsigned bits)
{
    return (unsigned)__builtin_popcount(bits);
}

TEST(bundle_finds_every_guilty_message_and_nobody_else) /* B68 */
{
    static struct bundle b;
    enum bundle_end ends[SMALL];
    const uint64_t none[SMALL] = { 0 };

    other.down_at = 0;
    for (size_t count = 1; count <= SMALL; count++)
        for (unsigned bits = 0; bits < 1u << count; bits++) {
            set_guilty(bits);
            send_all(&b, none, count, ends);
            for (size_t i = 0; i < count; i++)
                CHECK_EQ(ends[i], other.guilty[i] ? BUNDLE_FAILED : BUNDLE_DONE);
            CHECK_EQ(other.taken_count, count - count_bits(bits));
            if (bits == 0)
                CHECK_EQ(other.requests, 1);
        }
}

TEST(bundle_keeps_the_order_of_each_stream_while_splitting) /* B50, B68 */
{
    static struct bundle b;
    enum bundle_end ends[SMALL];
    uint64_t streams[SMALL];

    other.down_at = 0;
    for (unsigned ways = 1; ways <= 4; ways++)
        for (unsigned bits = 0; bits < 1u << SMALL; bits++) {
            for (size_t i = 0; i < SMALL; i++)
                streams[i] = (i * 7 + i / 3) % ways + (ways == 4 ? 0 : 1); /* of four one is without order */
            set_guilty(bits);
            send_all(&b, streams, SMALL, ends);
            for (size_t i = 0; i < SMALL; i++)
                CHECK_EQ(ends[i], behind_guilty(streams, i) ? BUNDLE_RETURNED
                                  : other.guilty[i]         ? BUNDLE_FAILED
                                                            : BUNDLE_DONE);
            for (size_t i = 0; i < other.taken_count; i++) /* G3 */
                CHECK(!behind_guilty(streams, other.taken[i]));
            for (size_t i = 1; i < other.taken_count; i++)
                CHECK(other.taken[i] > other.taken[i - 1]);
        }
}

TEST(bundle_is_not_split_in_an_outage)
{
    static struct bundle b;
    enum bundle_end ends[SMALL];
    const uint64_t none[SMALL] = { 0 };

    for (unsigned bits = 0; bits < 1u << SMALL; bits++)
        for (other.down_at = 1; other.down_at < 2 * SMALL; other.down_at++) {
            set_guilty(bits);
            send_all(&b, none, SMALL, ends);
            CHECK(other.requests <= other.down_at);
            for (size_t i = 0; i < SMALL; i++) {
                if (other.in_outage[i])
                    CHECK_EQ(ends[i], BUNDLE_FAILED);
                else if (ends[i] == BUNDLE_FAILED)
                    CHECK(other.guilty[i]); /* G2 */
                else if (ends[i] == BUNDLE_DONE)
                    CHECK(!other.guilty[i]);
            }
            if (other.down_at == 1)
                CHECK_EQ(other.requests, 1);
        }
    other.down_at = 0;
}

TEST(one_guilty_message_of_a_thousand_is_found_in_a_few_requests)
{
    static struct bundle b;
    static enum bundle_end ends[BUNDLE_MAX];
    static uint64_t none[BUNDLE_MAX];

    memset(other.guilty, 0, sizeof(other.guilty));
    for (size_t guilty = 0; guilty < BUNDLE_MAX; guilty++) {
        other.guilty[guilty] = true;
        send_all(&b, none, BUNDLE_MAX, ends);
        CHECK(other.requests <= 2 * 10 + 1);
        CHECK_EQ(ends[guilty], BUNDLE_FAILED);
        CHECK_EQ(other.taken_count, BUNDLE_MAX - 1);
        other.guilty[guilty] = false;
    }
    memset(other.guilty, 1, sizeof(other.guilty)); /* and when all are, each is asked for itself */
    send_all(&b, none, BUNDLE_MAX, ends);
    CHECK_EQ(other.requests, 2 * BUNDLE_MAX - 1);
    memset(other.guilty, 0, sizeof(other.guilty));
}

TEST(what_may_not_be_sent_any_more_keeps_its_followers_back)
{
    static struct bundle b;
    const uint64_t streams[] = { 1, 2, 1, 0 };
    uint16_t places[BUNDLE_MAX];
    size_t place;
    enum bundle_end how;

    bundle_init(&b, streams, ARRAY_LENGTH(streams));
    CHECK_EQ(bundle_next(&b, places), 4);
    bundle_give_back(&b, 0);
    CHECK_EQ(bundle_next(&b, places), 2);
    CHECK(places[0] == 1 && places[1] == 3);
    bundle_answer(&b, BUNDLE_REFUSED);
    CHECK_EQ(bundle_next(&b, places), 1);
    bundle_answer(&b, BUNDLE_TAKEN);
    bundle_stop(&b);
    CHECK_EQ(bundle_next(&b, places), 0);
    static const struct {
        size_t place;
        enum bundle_end how;
    } told[] = { { 0, BUNDLE_RETURNED }, { 2, BUNDLE_RETURNED }, { 1, BUNDLE_DONE }, { 3, BUNDLE_RETURNED } };
    for (size_t i = 0; i < ARRAY_LENGTH(told); i++) {
        CHECK(bundle_tell(&b, &place, &how));
        CHECK_EQ(place, told[i].place);
        CHECK_EQ(how, told[i].how);
    }
    CHECK(!bundle_tell(&b, &place, &how));
}
