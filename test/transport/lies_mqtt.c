/* Protocol violations of a broker of MQTT. */
#include "check.h"
#include "lies.h"
#include "transport/transport.h"

#define URL "mqtt://127.0.0.1:%u/sink"
#define CONNACK "\x20\x03\x00\x00\x00"
#define K "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

TEST(mqtt_survives_a_broker_that_lies_in_its_greeting) /* B206 */
{
    static const struct lie lies[] = {
        { "no MQTT at all", "begins with 72", { ANSWERS("HTTP/1.1 400 Bad Request\r\n\r\n") }, .stays = true },
        { "a property that nobody knows", "malformed", { ANSWERS("\x20\x05\x00\x00\x02\x7f\x00") }, .stays = true },
        { "a property of a publish", "malformed", { ANSWERS("\x20\x05\x00\x00\x02\x01\x00") }, .stays = true },
        { "a property that is longer than its packet",
          "malformed",
          { ANSWERS("\x20\x08\x00\x00\x05\x1f\xff\xff"
                    "ab") },
          .stays = true },
        { "properties longer than the packet",
          "malformed",
          { ANSWERS("\x20\x05\x00\x00\x7f\x21\x00") },
          .stays = true },
        { "nothing may be out", "malformed", { ANSWERS("\x20\x06\x00\x00\x03\x21\x00\x00") }, .stays = true },
        { "a cut CONNACK", "malformed", { ANSWERS("\x20\x01\x00") }, .stays = true },
        { "a packet of 256 MB",
          "at most",
          { ANSWERS("\x20\xff\xff\xff\x7f\x00\x00"), FLOODS(K K K K) },
          .stays = false },
        { "a length without end", "at most", { ANSWERS("\x20\xff\xff\xff\xff\xff\xff") }, .stays = true },
        { "an acknowledgement first", "not a CONNACK", { ANSWERS("\x40\x02\x00\x01") }, .stays = true },
        { "pings and nothing else", "not a CONNACK", { FLOODS("\xd0\x00") }, .stays = false },
        { "a message of its own",
          "begins with 48",
          { ANSWERS(CONNACK "\x30\x05\x00\x01"
                            "axy") },
          .stays = true },
        { "a question of how to log in", "begins with 240", { ANSWERS("\xf0\x02\x18\x00") }, .stays = true },
        { "flags that are none", "begins with 34", { ANSWERS("\x22\x03\x00\x00\x00") }, .stays = true },
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}

TEST(mqtt_survives_a_broker_that_lies_in_its_answers) /* B206 */
{
    static const struct lie lies[] = {
        { "a second greeting", "a second CONNACK", { ANSWERS(CONNACK), ANSWERS(CONNACK) }, .stays = true },
        { "the number 0", "malformed", { ANSWERS(CONNACK), ANSWERS("\x40\x02\x00\x00") }, .stays = true },
        { "an acknowledgement with a foreign property",
          "malformed",
          { ANSWERS(CONNACK), ANSWERS("\x40\x06\x00\x01\x00\x02\x7f\x00") },
          .stays = true },
        { "an acknowledgement of 64 KB",
          "at most",
          { ANSWERS(CONNACK), ANSWERS("\x40\xff\xff\x7f\x00\x01"), FLOODS(K K) },
          .stays = false },
        { "half an acknowledgement",
          "closed the connection",
          { ANSWERS(CONNACK), ANSWERS("\x40\x02\x00") },
          .stays = false },
        { "goodbye", "closed the connection", { ANSWERS(CONNACK), ANSWERS("\xe0\x00") }, .stays = true },
        { "pings that nobody asked for",
          "no answer in time",
          { ANSWERS(CONNACK), FLOODS("\xd0\x00") },
          .stays = false,
          .is_slow = true },
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}
