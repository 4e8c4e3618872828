/* Protocol violations of a broker of AMQP 0-9-1. */
#include "check.h"
#include "lies.h"
#include "transport/transport.h"

#define URL "amqp://127.0.0.1:%u?key=sink"

#define START                                                                                                          \
    "\x01\x00\x00\x00\x00\x00\x1c"                                                                                     \
    "\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05"                                    \
    "en_US\xce"
#define TUNE(channels, frame, heartbeat) "\x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x1e" channels frame heartbeat "\xce"
#define TUNE_USUAL TUNE("\x07\xff", "\x00\x02\x00\x00", "\x00\x3c")
#define OPEN_OK "\x01\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x29\x00\xce"
#define CHANNEL_OK "\x01\x00\x01\x00\x00\x00\x08\x00\x14\x00\x0b\x00\x00\x00\x00\xce"
#define SELECT_OK "\x01\x00\x01\x00\x00\x00\x04\x00\x55\x00\x0b\xce"
#define ACK(tag) "\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00" tag "\x00\xce"
#define CHANNEL_CLOSE "\x01\x00\x01\x00\x00\x00\x0b\x00\x14\x00\x28\x01\x40\x00\x00\x00\x00\x00\xce"
#define RETURN "\x01\x00\x01\x00\x00\x00\x09\x00\x3c\x00\x32\x01\x38\x00\x00\x00\xce"
#define HEARTBEAT "\x08\x00\x00\x00\x00\x00\x00\xce"
#define UP ANSWERS(START), ANSWERS(TUNE_USUAL), ANSWERS(OPEN_OK), ANSWERS(CHANNEL_OK), ANSWERS(SELECT_OK)

TEST(amqp_survives_a_broker_that_lies_in_its_greeting) /* B206 */
{
    static const struct lie lies[] = {
        { "no AMQP at all", "", { ANSWERS("HTTP/1.1 400 Bad Request\r\n\r\n") }, .stays = true },
        { "another version", "another version of AMQP", { ANSWERS("AMQP\x00\x01\x00\x00") }, .stays = false },
        { "frames of one byte",
          "frame_max 1",
          { ANSWERS(START), ANSWERS(TUNE("\x00\x00", "\x00\x00\x00\x01", "\x00\x00")) },
          .stays = true },
        { "frames of 20 bytes",
          "frame_max 20",
          { ANSWERS(START), ANSWERS(TUNE("\xff\xff", "\x00\x00\x00\x14", "\xff\xff")) },
          .stays = true },
        { "frames of 4095 bytes",
          "frame_max 4095",
          { ANSWERS(START), ANSWERS(TUNE("\x00\x01", "\x00\x00\x0f\xff", "\x00\x01")) },
          .stays = true },
        { "a frame of 2 GB",
          "a frame of 2147483647 bytes",
          { ANSWERS("\x01\x00\x00\x7f\xff\xff\xff\x00\x0a\x00\x0a") },
          .stays = true },
        { "a frame of 4 GB",
          "a frame of 4294967295 bytes",
          { ANSWERS("\x01\x00\x00\xff\xff\xff\xff\x00\x0a\x00\x0a") },
          .stays = true },
        { "a channel that nobody opened",
          "channel 7",
          { ANSWERS("\x01\x00\x07\x00\x00\x00\x04\x00\x55\x00\x0b\xce") },
          .stays = true },
        { "a method of two bytes",
          "too short",
          { ANSWERS("\x01\x00\x00\x00\x00\x00\x02\x00\x0a\xce") },
          .stays = true },
        { "no end of the frame",
          "does not end",
          { ANSWERS("\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x0a\x00") },
          .stays = true },
        { "a cut tune",
          "",
          { ANSWERS(START), ANSWERS("\x01\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x1e\x00\xce") },
          .stays = true },
        { "start again and again", "out of order", { FLOODS(START) }, .stays = false },
        { "tune before start", "out of order", { ANSWERS(TUNE_USUAL) }, .stays = true },
        { "tune twice", "out of order", { ANSWERS(START), ANSWERS(TUNE_USUAL TUNE_USUAL) }, .stays = true },
        { "confirms before all", "channel 1, which is not open", { ANSWERS(SELECT_OK) }, .stays = true },
        { "a confirm before a message",
          "out of order",
          { ANSWERS(START), ANSWERS(TUNE_USUAL), ANSWERS(OPEN_OK), ANSWERS(ACK("\x01")) },
          .stays = true },
        { "a message of its own",
          "channel 1",
          { ANSWERS(START),
            ANSWERS("\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xce") },
          .stays = true },
        { "heartbeats and nothing else", "no answer in time", { FLOODS(HEARTBEAT) }, .is_slow = true },
        { "the channel is closed at once", "", { UP, SAYS(CHANNEL_CLOSE) }, .stays = true, .is_slow = true },
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}

TEST(amqp_survives_a_broker_that_lies_in_its_answers) /* B206 */
{
    static const struct lie lies[] = {
        { "a tag that nobody has",
          "confirms a message that was not sent",
          { UP, ANSWERS(ACK("\x09")) },
          .stays = true },
        { "a start in the middle", "out of order", { UP, ANSWERS(START) }, .stays = true },
        { "open again and again", "out of order", { UP, FLOODS(CHANNEL_OK SELECT_OK) }, .stays = false },
        { "closes and opens without reading", "", { UP, FLOODS(CHANNEL_CLOSE CHANNEL_OK SELECT_OK) }, .stays = false },
        { "what came back has no header", "out of order", { UP, ANSWERS(RETURN ACK("\x01")) }, .stays = true },
        { "what came back never ends",
          "larger than any message",
          { UP,
            ANSWERS(RETURN "\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\xce"),
            FLOODS("\x03\x00\x01\x00\x00\x00\x04"
                   "body\xce") },
          .stays = false },
        { "properties that end too early",
          "too short",
          { UP, ANSWERS(RETURN "\x02\x00\x01\x00\x00\x00\x0f\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
                               "\xa0\x80\x09\xce") },
          .stays = true },
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}
