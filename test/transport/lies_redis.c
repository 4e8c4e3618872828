/* Protocol violations of a Redis server. */
#include "check.h"
#include "lies.h"
#include "transport/transport.h"

#define K "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

TEST(redis_survives_a_server_that_lies_in_its_greeting) /* B206 */
{
    static const struct lie lies[] = {
        { "no Redis at all", "the first byte is 72", { ANSWERS("HTTP/1.1 400 Bad Request\r\n\r\n") }, .stays = true },
        { "an array", "the first byte is 42", { ANSWERS("*2147483647\r\n") }, .stays = true },
        { "a map", "the first byte is 37", { ANSWERS("%1\r\n+a\r\n+b\r\n") }, .stays = true },
        { "an answer too many", "unexpected", { ANSWERS("+OK\r\n+OK\r\n+OK\r\n") }, .stays = true },
        { "a line without end", "more than 65536 bytes", { SAYS("-"), FLOODS(K K K K) }, .stays = false },
        { "a line that begins well",
          "more than 65536 bytes",
          { ANSWERS("+OK\r\n+"), FLOODS(K K K K) },
          .stays = false },
    };
    lies_are_survived("redis://:secret@127.0.0.1:%u/1?stream=s", lies, sizeof(lies) / sizeof(lies[0]));
}

TEST(redis_survives_a_server_that_lies_in_its_answers) /* B206 */
{
    static const struct lie lies[] = {
        { "arrays in arrays",
          "the first byte is 42",
          { FLOODS("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n") },
          .stays = false },
        { "a string of 500 MB", "at most", { ANSWERS("$536870912\r\n"), FLOODS(K K K K) }, .stays = false },
        { "a size that is none", "at most", { ANSWERS("$99999999999999999999999\r\n") }, .stays = true },
        { "a size below none", "at most", { ANSWERS("$-2\r\n") }, .stays = true },
        { "a string that goes on", "does not end", { ANSWERS("$2\r\nabcd\r\n") }, .stays = true },
        { "half an answer", "closed the connection", { ANSWERS("$15\r\n1700000000000-") }, .stays = false },
    };
    lies_are_survived("redis://127.0.0.1:%u?stream=s", lies, sizeof(lies) / sizeof(lies[0]));
}

/* A line without end that began as an error: it is cut off before it is kept. */
TEST(redis_answers_without_a_question_end_the_connection) /* B206 */
{
    static const struct lie lies[] = {
        { "errors for nobody", "", { FLOODS("-LOADING not now\r\n") }, .stays = false },
    };
    lies_are_survived("redis://127.0.0.1:%u?stream=s", lies, sizeof(lies) / sizeof(lies[0]));
}
