/* Which servers are this machine, and the errors of wrong URLs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "store/postgres/link/link.h"

static const char *value(const struct conninfo *conninfo, const char *keyword)
{
    for (size_t i = 0; conninfo->keywords[i] != NULL; i++)
        if (strcmp(conninfo->keywords[i], keyword) == 0)
            return conninfo->values[i];
    return "";
}

static void tls_is(const char *file, int line, const char *url, const char *want)
{
    struct conninfo conninfo;
    struct pr_error error = { 0 };
    if (pg_conninfo_parse(url, &conninfo, &error) != PR_OK)
        check_fail(file, line, "%s: %s", url, error.text);
    check_str(file, line, url, value(&conninfo, "sslmode"), want);
    pg_conninfo_fini(&conninfo);
}
#define TLS_IS(url, want) tls_is(__FILE__, __LINE__, (url), (want))

static void forget_environment(void)
{
    static const char *const names[] = {
        "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGSERVICEFILE", "PGSSLMODE", "PGPASSWORD"
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

TEST(every_server_of_a_list_has_to_be_this_machine_or_it_is_tls) /* B206 */
{
    forget_environment();
    TLS_IS("postgres:///shop", "");
    TLS_IS("postgres://127.0.0.1:1/shop", "");
    TLS_IS("postgres://[::1]/shop", "");
    TLS_IS("postgres://localhost,127.0.0.2/shop", "");
    TLS_IS("postgres:///shop?host=/run/postgresql", "");
    TLS_IS("postgres://u@127.0.0.1:1,other.example/shop", "verify-full");
    TLS_IS("postgres://other.example,127.0.0.1/shop", "verify-full");
    TLS_IS("postgres://127.evil.example/shop", "verify-full");
    TLS_IS("postgres:///shop?host=/run/postgresql,other.example", "verify-full");
    TLS_IS("postgres://localhost/shop?hostaddr=192.0.2.1", "verify-full");
    TLS_IS("postgres://a.example,localhost/shop?hostaddr=127.0.0.1,192.0.2.1", "verify-full");
    TLS_IS("postgres://a.example/shop?hostaddr=127.0.0.1", "");
    TLS_IS("postgres://other.example/shop?sslmode=disable", "disable");
}

TEST(the_environment_and_the_service_file_name_servers_too) /* B206 */
{
    char path[] = "/tmp/postrider-service-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK(dprintf(fd,
                  "[away]\nhost=other.example\n[here]\nhost=localhost\n[said]\nhost=other.example\nsslmode=disable\n") >
          0);
    close(fd);
    forget_environment();
    setenv("PGHOST", "127.0.0.1,other.example", 1);
    TLS_IS("postgres:///shop", "verify-full");
    TLS_IS("postgres://localhost/shop", "");
    unsetenv("PGHOST");
    setenv("PGHOSTADDR", "192.0.2.1", 1);
    TLS_IS("postgres://localhost/shop", "verify-full");
    unsetenv("PGHOSTADDR");
    setenv("PGSERVICEFILE", path, 1);
    TLS_IS("postgres:///shop?service=away", "verify-full");
    TLS_IS("postgres:///shop?service=here", "");
    TLS_IS("postgres:///shop?service=said", "");
    setenv("PGSERVICE", "away", 1);
    TLS_IS("postgres:///shop", "verify-full");
    forget_environment();
    unlink(path);
}

TEST(a_wrong_url_is_not_repeated_with_its_password) /* B204 */
{
    static const char *const urls[] = { "postgres://ann:hun%zzter2@db/shop", "postgres://ann:hunter2%@db/shop",
                                        "postgres://ann:p@hunter2@db/shop",  "postgres://ann:x?hunter2@db/shop",
                                        "postgres://ann:x/y?hunter2=z",      "postgres://ann:x@db:hunter2/shop?y" };
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct conninfo conninfo;
        struct pr_error error = { 0 };
        if (pg_conninfo_parse(urls[i], &conninfo, &error) == PR_OK) { /* libpq looks at the port when it connects */
            pg_conninfo_fini(&conninfo);
            CHECK(i != 2); /* and at the host, which it names: here that would be half of the password */
        }
        if (strstr(error.text, "hunter2") != NULL || strstr(error.text, "zzter2") != NULL)
            check_fail(__FILE__, __LINE__, "%s", error.text);
    }
}
