/* The replication protocol and pgoutput, byte by byte; no server is needed. */
#include <string.h>

#include "check.h"
#include "source/wal/wal_wire.h"

#define BYTES(literal) ((pr_slice){ (literal), sizeof(literal) - 1 })
#define U64(last) "\0\0\0\0\0\0\0" last
#define TIME_2000_01_01 U64("\0")

static const struct {
    const char *name;
    pr_slice bytes;
    enum wal_event_kind kind;
} events[] = {
    { "begin", BYTES("B" U64("\x10") U64("\x01") "\0\0\0\x07"), WAL_BEGIN },
    { "commit", BYTES("C\0" U64("\x10") U64("\x18") U64("\x01")), WAL_COMMIT },
    { "origin", BYTES("O" U64("\x10") "elsewhere\0"), WAL_ORIGIN },
    { "type", BYTES("Y\0\0\0\x05public\0mood\0"), WAL_TYPE },
    { "relation", BYTES("R\0\0\0\x05shop\0outbox\0d\0\x01\x01seq\0\0\0\0\x14\xff\xff\xff\xff"), WAL_RELATION },
    { "relation without columns", BYTES("R\0\0\0\x05shop\0outbox\0d\0\0"), WAL_RELATION },
    { "insert",
      BYTES("I\0\0\0\x05N\0\x04nut\0\0\0\x02"
            "42b\0\0\0\x01\0"),
      WAL_INSERT },
    { "update", BYTES("U\0\0\0\x05N\0\x01n"), WAL_CHANGE },
    { "update with its old key", BYTES("U\0\0\0\x05K\0\x01nN\0\x01n"), WAL_CHANGE },
    { "delete", BYTES("D\0\0\0\x05O\0\x01n"), WAL_CHANGE },
    { "truncate", BYTES("T\0\0\0\x02\0\0\0\0\x05\0\0\0\x06"), WAL_TRUNCATE },
    { "message", BYTES("M\x01" U64("\x20") "shop\0\0\0\0\x02{}"), WAL_MESSAGE },
    { "empty message", BYTES("M\0" U64("\x20") "\0\0\0\0\0"), WAL_MESSAGE },
};

TEST(every_event_is_known_and_none_of_its_bytes_may_be_missing_or_too_many)
{
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        struct wal_event e;
        struct pr_error error = { 0 };
        char longer[128];
        CHECK_OK(wal_event_parse(events[i].bytes, &e, &error), &error);
        CHECK_EQ(e.kind, events[i].kind);
        for (size_t size = 0; size < events[i].bytes.size; size++) {
            if (events[i].kind == WAL_CHANGE && size == 9)
                continue; /* an old key alone is a delete */
            int rc = wal_event_parse((pr_slice){ events[i].bytes.data, size }, &e, &error);
            if (rc != PR_ECORRUPT)
                check_fail(__FILE__, __LINE__, "%s with %zu bytes: %d", events[i].name, size, rc);
            CHECK(error.text[0] != '\0');
        }
        memcpy(longer, events[i].bytes.data, events[i].bytes.size);
        longer[events[i].bytes.size] = 'n';
        CHECK_EQ(wal_event_parse((pr_slice){ longer, events[i].bytes.size + 1 }, &e, &error), PR_ECORRUPT);
    }
}

TEST(what_an_event_says_is_told)
{
    struct wal_event e;
    CHECK_OK(wal_event_parse(BYTES("B" U64("\x10") U64("\x01") "\0\0\0\x07"), &e, NULL), NULL);
    CHECK_EQ(e.place, 0x10);
    CHECK_EQ(e.at_us, INT64_C(946684800000001));
    CHECK_OK(wal_event_parse(BYTES("C\0" U64("\x10") U64("\x18") U64("\x01")), &e, NULL), NULL);
    CHECK_EQ(e.place, 0x18);
    CHECK_OK(wal_event_parse(BYTES("R\0\0\x01\x05shop\0outbox\0d\0\0"), &e, NULL), NULL);
    CHECK_EQ(e.relation, 0x105);
    CHECK_SLICE(e.schema, "shop");
    CHECK_SLICE(e.name, "outbox");
    CHECK_OK(wal_event_parse(BYTES("M\x01\0\0\0\x16\xb3\x74\xd8\x48shop:x\0\0\0\0\x02{}"), &e, NULL), NULL);
    CHECK(e.with_transaction);
    CHECK_EQ(e.place, INT64_C(0x16b374d848));
    CHECK_SLICE(e.prefix, "shop:x");
    CHECK_SLICE(e.content, "{}");
    CHECK_OK(wal_event_parse(BYTES("M\0" U64("\x20") "\0\0\0\0\0"), &e, NULL), NULL);
    CHECK(!e.with_transaction);
}

TEST(wrong_lengths_and_unknown_kinds_are_told_and_not_believed)
{
    static const struct {
        pr_slice bytes;
        int code;
    } wrong[] = {
        { BYTES("S\0\0\0\x07\x01"), PR_EUNSUPPORTED }, /* streaming was not asked for */
        { BYTES("\x01"), PR_EUNSUPPORTED },
        { BYTES(""), PR_ECORRUPT },
        { BYTES("M\x01" U64("\x20") "shop\0\xff\xff\xff\xff{}"), PR_ECORRUPT }, /* 4 GiB of content */
        { BYTES("M\x01" U64("\x20") "no end of the prefix"), PR_ECORRUPT },
        { BYTES("I\0\0\0\x05N\xff\xffn"), PR_ECORRUPT }, /* more columns than there can be */
        { BYTES("I\0\0\0\x05N\0\x01x"), PR_ECORRUPT },   /* a column of no kind */
        { BYTES("I\0\0\0\x05O\0\x01n"), PR_ECORRUPT },   /* an insert of an old row */
        { BYTES("I\0\0\0\x05N\0\x01t\x7f\xff\xff\xff"
                "4"),
          PR_ECORRUPT },
        { BYTES("T\xff\xff\xff\xff\0"), PR_ECORRUPT },
        { BYTES("R\0\0\0\x05shop\0outbox\0d\xff\xff"), PR_ECORRUPT },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct wal_event e;
        struct pr_error error = { 0 };
        CHECK_EQ(wal_event_parse(wrong[i].bytes, &e, &error), wrong[i].code);
        CHECK(strstr(error.text, "the server's log") != NULL);
    }
}

TEST(a_frame_is_a_piece_of_the_log_or_a_sign_of_life)
{
    struct wal_frame f;
    struct pr_error error = { 0 };
    CHECK_OK(wal_frame_parse(BYTES("w" U64("\x01") U64("\x02") TIME_2000_01_01 "body"), &f, &error), &error);
    CHECK_EQ(f.kind, WAL_FRAME_DATA);
    CHECK_EQ(f.end, 2);
    CHECK_SLICE(f.body, "body");
    CHECK_OK(wal_frame_parse(BYTES("k" U64("\x03") TIME_2000_01_01 "\x01"), &f, &error), &error);
    CHECK_EQ(f.kind, WAL_FRAME_ALIVE);
    CHECK_EQ(f.end, 3);
    CHECK(f.wants_reply);
    CHECK_EQ(wal_frame_parse(BYTES("k" U64("\x03") TIME_2000_01_01), &f, &error), PR_ECORRUPT);
    CHECK_EQ(wal_frame_parse(BYTES("k" U64("\x03") TIME_2000_01_01 "\x01\x01"), &f, &error), PR_ECORRUPT);
    CHECK_EQ(wal_frame_parse(BYTES("w" U64("\x01") U64("\x02")), &f, &error), PR_ECORRUPT);
    CHECK_EQ(wal_frame_parse(BYTES("x"), &f, &error), PR_EUNSUPPORTED);
    CHECK_EQ(wal_frame_parse((pr_slice){ NULL, 0 }, &f, &error), PR_ECORRUPT);
}

TEST(what_we_tell_the_server_is_what_it_expects)
{
    char status[WAL_STATUS_BYTES];
    wal_status_write(INT64_C(0x16b374d848), INT64_C(946684800000001), true, status);
    CHECK(
        memcmp(status,
               "r\0\0\0\x16\xb3\x74\xd8\x48\0\0\0\x16\xb3\x74\xd8\x48\0\0\0\x16\xb3\x74\xd8\x48\0\0\0\0\0\0\0\x01\x01",
               sizeof(status)) == 0);
}

TEST(places_are_written_as_postgresql_does)
{
    char text[WAL_PLACE_TEXT_SIZE];
    wal_place_format(INT64_C(0x16b374d848), text);
    CHECK_STR(text, "16/B374D848");
    wal_place_format(UINT64_MAX, text);
    CHECK_STR(text, "FFFFFFFF/FFFFFFFF");
}
