/* Protocol violations of a NATS server. */
#include "check.h"
#include "lies.h"
#include "transport/transport.h"

#define URL "nats://127.0.0.1:%u/sink"
#define INFO "INFO {\"server_id\":\"x\",\"version\":\"2.9.0\",\"headers\":true,\"max_payload\":1048576}\r\n"
#define K "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
#define UP SAYS(INFO), ANSWERS("PONG\r\n")

TEST(nats_survives_a_server_that_lies_in_its_greeting) /* B206 */
{
    static const struct lie lies[] = {
        { "no NATS at all", "does not speak NATS", { SAYS("HTTP/1.1 400 Bad Request\r\n\r\n") }, .stays = true },
        { "a line without end", "more than 65536 bytes", { SAYS("INFO {"), FLOODS(K K K K) }, .stays = false },
        { "INFO that is no JSON", "max_payload is missing", { SAYS("INFO {[[[[\r\n") }, .stays = true },
        { "INFO with a negative limit",
          "max_payload is missing",
          { SAYS("INFO {\"headers\":true,\"max_payload\":-5}\r\n") },
          .stays = true },
        { "a server of the time before headers",
          "2.2 or newer",
          { SAYS("INFO {\"max_payload\":1000}\r\n") },
          .stays = true },
        { "a message first", "not INFO", { SAYS("MSG a 1 2\r\nab\r\n") }, .stays = true },
        { "a message in the greeting", "before the greeting", { SAYS(INFO "MSG a 1 2\r\nab\r\n") }, .stays = true },
        { "it wants TLS",
          "tls=true",
          { SAYS("INFO {\"headers\":true,\"max_payload\":1000,\"tls_required\":true}\r\n") },
          .stays = true },
        { "PINGs, and it reads nothing",
          "no answer in time",
          { SAYS(INFO), FLOODS("PING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\n") },
          .stays = false,
          .is_slow = true },
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}

TEST(nats_survives_a_server_that_lies_in_its_answers) /* B206 */
{
    static const struct lie lies[] = {
        { "a message of 2 GB",
          "more than 57344 bytes",
          { UP, ANSWERS("MSG _INBOX.x.1 1 2147483647\r\n"), FLOODS(K K K K) },
          .stays = false },
        { "a message below nothing", "with the size", { UP, ANSWERS("MSG _INBOX.x.1 1 -1\r\nab\r\n") }, .stays = true },
        { "a header larger than its message",
          "with the size",
          { UP, ANSWERS("HMSG _INBOX.x.1 1 20 4\r\nNATS/1.0\r\n\r\n") },
          .stays = true },
        { "a message for somebody else", "unexpected", { UP, ANSWERS("MSG other.1 1 2\r\nab\r\n") }, .stays = true },
        { "another subscription", "malformed", { UP, ANSWERS("MSG _INBOX.x.1 2 2\r\nab\r\n") }, .stays = true },
        { "words without end", "malformed", { UP, ANSWERS("MSG a b c d e f g h i j\r\n") }, .stays = true },
        { "a message that goes on", "does not end", { UP, ANSWERS("MSG _INBOX.x.1 1 2\r\nabcd\r\n") }, .stays = true },
        { "a PONG for nobody", "unexpected PONG", { UP, ANSWERS("PONG\r\n") }, .stays = true },
        { "an error without a word", "without a text", { UP, ANSWERS("-ERR\r\n") }, .stays = true },
        { "half a message", "closed the connection", { UP, ANSWERS("MSG _INBOX.x.1 1 20\r\nab") }, .stays = false },
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}
