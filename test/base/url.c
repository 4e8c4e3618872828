#include "base/url.h"

#include "base/slice.h"
#include "check.h"

static void shows(const char *file, int line, const char *url, const char *want)
{
    struct buf b;
    buf_init(&b, 4096);
    url_add_shown(&b, url);
    buf_add_cstr(&b, "");
    check_str(file, line, url, b.data != NULL ? b.data : "", want);
    buf_fini(&b);
}
#define SHOWS(url, want) shows(__FILE__, __LINE__, (url), (want))

TEST(what_may_be_a_secret_in_a_url_is_not_shown) /* B204 */
{
    SHOWS("postgres://ann@db/shop?schema=a&sslmode=require", "postgres://ann@db/shop?schema=a&sslmode=require");
    SHOWS("postgres://ann:pw@db,other/shop?password=x&sslpassword=y",
          "postgres://ann:***@db,other/shop?password=***&sslpassword=***");
    SHOWS("postgres:///shop?user=a&options=-c%20x", "postgres:///shop?user=a&options=***");
    SHOWS("postgres://ann:p/w?x@db/shop", "postgres://ann:***@db/shop"); /* it was not encoded, and is refused */
    SHOWS("postgres://ann:p@w@db/shop", "postgres://ann:***@db/shop");
    SHOWS("postgres://ann:p/w@db/shop", "postgres://ann:***@db/shop");
    SHOWS("nats://token@host/subject", "nats://***@host/subject");
    SHOWS("nats://ann:pw@host", "nats://ann:***@host");
    SHOWS("redis://:pw@host/0?stream=a", "redis://:***@host/0?stream=a");
    SHOWS("https://key@hooks.example/x", "https://***@hooks.example/x");
    SHOWS("https://key:x-oauth@hooks.example/x?sig=abc&plain=1&flag",
          "https://***@hooks.example/x?sig=***&plain=***&***");
    SHOWS("amqp://ann:pw@rabbit/%2f?exchange=e&unknown=x", "amqp://ann:***@rabbit/%2f?exchange=e&unknown=***");
    SHOWS("sqlite:shop.db", "sqlite:shop.db");
    SHOWS("file:/var/a@b.jsonl", "file:/var/a@b.jsonl");
    SHOWS("exec:/bin/x http://u:p@h?mode=lines", "exec:/bin/x http://u:p@h?mode=lines");
    SHOWS("", "");
}

TEST(a_password_in_a_url_is_found) /* B204 */
{
    static const char *const with[] = { "postgres://a:b@c/d", "postgres://:b@c", "postgres://c/d?password=x",
                                        "postgres://c/d?x=1&PASSWORD=x", "postgres://a:b/c@d" };
    static const char *const without[] = {
        "postgres://a@c/d",         "postgres://a:@c/d", "postgres://c:5432/d",
        "postgres://c/d?password=", "sqlite:a:b@c",      "postgres:///d?passfile=x"
    };
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++)
        if (!url_has_password(with[i]))
            check_fail(__FILE__, __LINE__, "%s", with[i]);
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        if (url_has_password(without[i]))
            check_fail(__FILE__, __LINE__, "%s", without[i]);
}
