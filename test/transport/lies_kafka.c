/* What a broker of Kafka may say that is not so.  librdkafka reads it: here is held what we count on. */
#include "check.h"
#include "lies.h"
#include "transport/transport.h"

#define URL "kafka://127.0.0.1:%u/sink"
#define K "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

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
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}
