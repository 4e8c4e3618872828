/* Protocol violations of a broker of AMQP 1.0. */
#include "check.h"
#include "lies.h"
#include "transport/transport.h"

#define URL "amqp1://127.0.0.1:%u/sink"

#define SASL "AMQP\x03\x01\x00\x00"
#define MECHANISMS                                                                                                     \
    "\x00\x00\x00\x19\x02\x01\x00\x00\x00\x53\x40\xc0\x0c\x01\xa3\x09"                                                 \
    "ANONYMOUS"
#define OUTCOME "\x00\x00\x00\x10\x02\x01\x00\x00\x00\x53\x44\xc0\x03\x01\x50\x00"
#define HEADER "AMQP\x00\x01\x00\x00"
#define OPEN                                                                                                           \
    "\x00\x00\x00\x11\x02\x00\x00\x00\x00\x53\x10\xc0\x04\x01\xa1\x01"                                                 \
    "b"
#define BEGIN(channel) "\x00\x00\x00\x16\x02\x00\x00" channel "\x00\x53\x11\xc0\x09\x04\x60\x00\x00\x43\x52\x64\x52\x64"
/* A session that answers none of ours. */
#define BEGIN_OWN "\x00\x00\x00\x14\x02\x00\x00\x00\x00\x53\x11\xc0\x07\x04\x40\x43\x52\x64\x52\x64"
#define ATTACH_SENDER /* a link on which it would send to us */                                                        \
    "\x00\x00\x00\x1e\x02\x00\x00\x00\x00\x53\x12\xc0\x11\x07\xa1\x03own\x43\x42\x50\x00\x50\x00\x00\x53\x28"          \
    "\x45\x40"
#define GREETING ANSWERS(SASL MECHANISMS), ANSWERS(OUTCOME HEADER)

TEST(amqp1_survives_a_broker_that_lies) /* B206 */
{
    static const struct lie lies[] = {
        { "no AMQP at all", "", { ANSWERS("HTTP/1.1 400 Bad Request\r\n\r\n") }, .stays = true },
        { "the version before", "", { ANSWERS("AMQP\x00\x00\x09\x01") }, .stays = true },
        { "no login", "", { ANSWERS(HEADER OPEN) }, .stays = true },
        { "a frame of 2 GB", "", { GREETING, ANSWERS("\x7f\xff\xff\xff\x02\x00\x00\x00") }, .stays = true },
        { "a frame of 4 bytes", "", { GREETING, ANSWERS("\x00\x00\x00\x04\x02\x00\x00\x00") }, .stays = true },
        { "a frame that begins behind its end",
          "",
          { GREETING, ANSWERS("\x00\x00\x00\x08\xff\x00\x00\x00") },
          .stays = true },
        { "an open that is none",
          "",
          { GREETING, ANSWERS("\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x10\x40") },
          .stays = true,
          .is_slow = true },
        { "a session of its own", "unexpected", { GREETING, ANSWERS(OPEN BEGIN_OWN) }, .stays = true },
        { "a link of its own", "unexpected", { GREETING, ANSWERS(OPEN BEGIN("\x00") ATTACH_SENDER) }, .stays = true },
        { "empty frames without end",
          "malformed",
          { GREETING, FLOODS("\x00\x00\x00\x08\x02\x00\x00\x00") },
          .stays = false,
          .is_slow = false },
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}
