/* Invalid answers of a webhook's server. */
#include "check.h"
#include "lies.h"
#include "transport/transport.h"

#define URL "http://127.0.0.1:%u/hook"
#define K "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

TEST(http_does_not_take_headers_without_end_for_a_delivery) /* B206 */
{
    static const struct lie lies[] = {
        { "no HTTP at all", "", { ANSWERS("SSH-2.0-OpenSSH_9.2\r\n") }, .stays = false },
        { "nothing", "", { ANSWERS("\r\n") }, .stays = false },
        { "a status and the end", "headers were incomplete", { ANSWERS("HTTP/1.1 200 OK\r\n") }, .stays = false },
        { "half a header",
          "headers were incomplete",
          { ANSWERS("HTTP/1.1 204 No Content\r\nContent-Le") },
          .stays = false },
        { "headers without end",
          "they exceed 64 KB",
          { ANSWERS("HTTP/1.1 200 OK\r\n"), FLOODS("x-header: " K "\r\n") },
          .stays = false },
        { "many small headers",
          "they exceed 64 KB",
          { ANSWERS("HTTP/1.1 200 OK\r\n"), FLOODS("a:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n") },
          .stays = false },
        { "a header without end", "", { ANSWERS("HTTP/1.1 200 OK\r\nx: "), FLOODS(K K K K) }, .stays = false },
        { "a status without end", "", { ANSWERS("HTTP/1.1 200 "), FLOODS(K K K K) }, .stays = false },
        { "it is still at it, without end",
          "",
          { ANSWERS("HTTP/1.1 102 Processing\r\n\r\n"), FLOODS("HTTP/1.1 102 Processing\r\n\r\n") },
          .stays = false },
        { "a refusal that does not end",
          "headers were incomplete",
          { ANSWERS("HTTP/1.1 400 Bad Request\r\nx: y\r\n") },
          .stays = false },
    };
    lies_are_survived(URL, lies, sizeof(lies) / sizeof(lies[0]));
}
