#include "base/host.h"

#include "base/slice.h"
#include "check.h"

TEST(a_host_is_here_by_its_address_not_by_how_its_name_begins) /* B206 */
{
    static const char *const here[] = { "localhost", "LocalHost", "127.0.0.1",       "127.255.0.9",
                                        "::1",       "[::1]",     "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1" };
    static const char *const away[] = { "",
                                        "127.evil.example",
                                        "127.0.0.1.evil.example",
                                        "127.",
                                        "127.1",
                                        "128.0.0.1",
                                        "localhost.evil.example",
                                        "localhost.",
                                        "::2",
                                        "::ffff:10.0.0.1",
                                        "[::1",
                                        "[]",
                                        "0.0.0.0",
                                        "::1%lo" };
    for (size_t i = 0; i < sizeof here / sizeof here[0]; i++)
        if (!host_is_loopback(slice_from(here[i])))
            check_fail(__FILE__, __LINE__, "%s", here[i]);
    for (size_t i = 0; i < sizeof away / sizeof away[0]; i++)
        if (host_is_loopback(slice_from(away[i])))
            check_fail(__FILE__, __LINE__, "%s", away[i]);
}
