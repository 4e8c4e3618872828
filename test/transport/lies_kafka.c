/* Protocol violations of a Kafka broker.  librdkafka crashes at some of them, so that it must not see them. */
#include <string.h>

#include "check.h"
#include "lies.h"
#include "transport/broker/kafka_answer.h"
#include "transport/transport.h"

#define URL "kafka://127.0.0.1:%u/sink"
#define K "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

/* Produce, Fetch, Metadata, ApiVersions and InitProducerId; in answer to the first question. */
#define VERSIONS                                                                                                       \
    "\0\0\0\x2f\0\0\0\1\0\0\6"                                                                                         \
    "\0\0\0\3\0\7\0\0\1\0\4\0\x0b\0\0\3\0\0\0\4\0\0\x12\0\0\0\3\0\0\x16\0\0\0\1\0\0\0\0\0\0"

TEST(kafka_survives_a_broker_that_lies) /* B206 */
{
    static const struct lie lies[] = {
        { "no Kafka at all", "", { ANSWERS("HTTP/1.1 400 Bad Request\r\n\r\n") }, .stays = true, .is_slow = true },
        { "an answer of 2 GB", "", { ANSWERS("\x7f\xff\xff\xff"), FLOODS(K K K K) }, .stays = false, .is_slow = true },
        { "an answer below nothing",
          "",
          { ANSWERS("\xff\xff\xff\xff\x00\x00\x00\x01") },
          .stays = true,
          .is_slow = true },
        { "versions without end",
          "",
          { ANSWERS("\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff") },
          .stays = true,
          .is_slow = true },
        { "a broker whose name is NULL, which ends librdkafka",
          "answer to Metadata is not valid Kafka: invalid length",
          { ANSWERS(VERSIONS), ANSWERS("\0\0\0\x1a\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\1"
                                       "\xff\xff\0\0\x23\x84\xff\xff\xff\xff") },
          .stays = true,
          .is_slow = true },
        { "an answer to another question",
          "it answers another request",
          { ANSWERS("\0\0\0\6\0\0\0\7\0\0") },
          .stays = true,
          .is_slow = true },
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}

static const char *check(int16_t key, int16_t version, pr_slice answer)
{
    static unsigned char bytes[256];
    const struct kafka_question q = { .key = key, .version = version };
    CHECK(answer.size <= sizeof(bytes));
    memcpy(bytes, answer.data, answer.size);
    const char *bad = kafka_answer_check(&q, bytes, answer.size);
    return bad != NULL ? bad : "";
}

#define FIND_COORDINATOR "\0\0\0\0\0\0\xff\xff\0\0\0\1"

TEST(kafka_answers_are_what_was_asked_for_to_the_last_byte)
{
    CHECK_STR(check(10, 2, PR_STR(FIND_COORDINATOR "\0\1h\0\0\x23\x84")), "");
    CHECK_STR(check(10, 2, PR_STR(FIND_COORDINATOR "\xff\xff\0\0\x23\x84")), "invalid length");
    CHECK_STR(check(10, 2, PR_STR(FIND_COORDINATOR "\0\1h\0\0\x23")), "it is too short");
    CHECK_STR(check(10, 2, PR_STR(FIND_COORDINATOR "\0\1h\0\0\x23\x84\0")), "trailing bytes");
    CHECK_STR(check(0, 1, PR_STR("\x7f\xff\xff\xff\0\0\0\0")), "it is too short");
    CHECK_STR(check(0, 1, PR_STR("\xff\xff\xff\xff\0\0\0\0")), "negative list length");
    CHECK_STR(check(1, 4,
                    PR_STR("\0\0\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0"
                           "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff")),
              "");
}

/* A broker that knows more than we can check must not be asked for it. */
TEST(kafka_versions_that_cannot_be_checked_are_not_used)
{
    unsigned char answer[] = "\0\0\0\0\0\3\0\3\0\0\0\x0c\0\x47\0\0\0\1\0\x12\0\0\0\3";
    static const char lowered[] = "\0\0\0\0\0\3\0\3\0\0\0\4\0\x47\xff\xff\xff\xff\0\x12\0\0\0\3";
    const struct kafka_question q = { .key = 18, .version = 0 };
    CHECK(kafka_answer_check(&q, answer, sizeof(answer) - 1) == NULL);
    CHECK(memcmp(answer, lowered, sizeof(lowered) - 1) == 0);
}
