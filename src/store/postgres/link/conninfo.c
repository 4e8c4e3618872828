/* From the store's URL to libpq's parameters.
 *
 * postgres://user@host:port/db?schema=postrider&prepare=off and any option of libpq.  To another host the connection is
 * encrypted and the certificate checked, unless the URL says otherwise. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/host.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"
#include "store/postgres/link/link.h"

#define URL_MAX 8192
#define SCHEMA_DEFAULT "postrider"
#define KEYWORDS_MAX 126          /* libpq has less than fifty */
#define NOBODY_KNOWS "?"          /* a value of target_session_attrs that libpq refuses */
#define SSLMODE_OF_LIBPQ "prefer" /* libpq's default */
#define PUBLIC_CERTIFICATES "/etc/ssl/certs/ca-certificates.crt"

/* Options that the URL, the environment or a service file may set; otherwise these values apply. */
static const struct {
    const char *keyword, *value;
} defaults[] = {
    { "application_name", "postrider" }, { "connect_timeout", "10" }, { "keepalives_idle", "10" },
    { "keepalives_interval", "3" },      { "keepalives_count", "3" }, { "tcp_user_timeout", "20000" },
};

/* ---- Our own options in the URL --------------------------------------------------------------- */

static int own_option(struct conninfo *conninfo, pr_slice key, pr_slice value, bool *ret_own, struct pr_error *reterr)
{
    *ret_own = true;
    if (slice_eq_cstr(key, "schema")) {
        if (!name_is_valid(value))
            return error_set(
                reterr, PR_EINVAL,
                "schema=%.*s in the store's URL is not a valid name: use letters, digits and _, at most %d",
                SLICE_ARGS(value), BOX_NAME_MAX);
        free(conninfo->schema);
        conninfo->schema = strndup(value.data, value.size);
        return conninfo->schema != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for a store");
    }
    if (slice_eq_cstr(key, "prepare")) {
        conninfo->prepare = !slice_eq_cstr(value, "off");
        if (!conninfo->prepare || slice_eq_cstr(value, "auto"))
            return PR_OK;
        return error_set(reterr, PR_EINVAL, "prepare=%.*s in the store's URL: use auto or off", SLICE_ARGS(value));
    }
    *ret_own = false;
    return PR_OK;
}

static pr_slice slice_until(pr_slice *rest, char mark)
{
    const char *found = rest->size > 0 ? memchr(rest->data, mark, rest->size) : NULL;
    pr_slice head = { rest->data, found != NULL ? (size_t)(found - rest->data) : rest->size };
    size_t used = head.size + (found != NULL);
    *rest = (pr_slice){ rest->data + used, rest->size - used };
    return head;
}

/* The URL without Postrider's own options. */
static int url_strip(struct conninfo *conninfo, const char *url, struct buf *ret, struct pr_error *reterr)
{
    pr_slice rest = slice_from(url);
    buf_add_slice(ret, slice_until(&rest, '?'));
    for (char mark = '?'; rest.size > 0;) {
        pr_slice option = slice_until(&rest, '&'), value = option;
        pr_slice key = slice_until(&value, '=');
        bool own;
        int rc = own_option(conninfo, key, value, &own, reterr);
        if (rc != PR_OK)
            return rc;
        if (own)
            continue;
        buf_add_char(ret, mark);
        buf_add_slice(ret, option);
        mark = '&';
    }
    int rc = buf_failed(ret);
    return rc == PR_OK ? PR_OK : error_set(reterr, rc, "the store's URL is too long");
}

/* ---- Keywords ----------------------------------------------------------------------------------- */

static int conninfo_set(struct conninfo *conninfo, size_t *count, const char *keyword, const char *value)
{
    conninfo->keywords[*count] = strdup(keyword);
    conninfo->values[*count] = strdup(value);
    bool done = conninfo->keywords[*count] != NULL && conninfo->values[*count] != NULL;
    (*count)++;
    return done ? PR_OK : PR_ENOMEM;
}

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o->keyword != NULL; o++)
        if (strcmp(o->keyword, keyword) == 0)
            return o->val != NULL ? o->val : "";
    return "";
}

static const char *given(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o->keyword != NULL; o++)
        if (strcmp(o->keyword, keyword) == 0)
            return o->val != NULL && o->val[0] != '\0' ? o->val : o->envvar != NULL ? getenv(o->envvar) : NULL;
    return NULL;
}

/* A socket directory, or an address of this machine; empty is libpq's default, a directory. */
static bool is_here(pr_slice host)
{
    return host.size == 0 || host.data[0] == '/' || host.data[0] == '@' || host_is_loopback(host);
}

/* libpq accepts lists, and tries the entries in order: all must be local.  An address overrides the name at the same
 * position. */
static bool all_are_here(const char *hosts, const char *addresses)
{
    pr_slice names = slice_from(hosts), numbers = slice_from(addresses);
    do {
        pr_slice name = slice_until(&names, ','), number = slice_until(&numbers, ',');
        if (!is_here(slice_trim(number.size > 0 ? number : name)))
            return false;
    } while (names.size > 0 || numbers.size > 0);
    return true;
}

/* The parameters that libpq would use in the end, including the environment and the service file.  A value that libpq
 * refuses stops it before it connects.  NULL: no memory. */
static PQconninfoOption *effective(const struct conninfo *conninfo, size_t count)
{
    const char *keywords[KEYWORDS_MAX + 2], *values[KEYWORDS_MAX + 2];
    ASSERT(count <= KEYWORDS_MAX);
    for (size_t i = 0; i < count; i++) {
        keywords[i] = conninfo->keywords[i];
        values[i] = strcmp(keywords[i], "target_session_attrs") == 0 ? NOBODY_KNOWS : conninfo->values[i];
    }
    keywords[count] = "target_session_attrs";
    values[count] = NOBODY_KNOWS;
    keywords[count + 1] = values[count + 1] = NULL;
    PGconn *pg = PQconnectStartParams(keywords, values, 0);
    PQconninfoOption *options = pg != NULL ? PQconninfo(pg) : NULL;
    PQfinish(pg);
    return options;
}

/* TLS to other hosts, unless sslmode is set. */
static int set_tls(struct conninfo *conninfo, const PQconninfoOption *options, size_t *count)
{
    if (given(options, "sslmode") != NULL)
        return PR_OK;
    PQconninfoOption *all = effective(conninfo, *count);
    if (all == NULL)
        return PR_ENOMEM;
    bool said = strcmp(value_of(all, "sslmode"), SSLMODE_OF_LIBPQ) != 0; /* set in a service file */
    bool here = all_are_here(value_of(all, "host"), value_of(all, "hostaddr"));
    bool root = value_of(all, "sslrootcert")[0] != '\0';
    PQconninfoFree(all);
    int rc = said || here ? PR_OK : conninfo_set(conninfo, count, "sslmode", "verify-full");
    if (rc == PR_OK && !said && !here && !root && access(PUBLIC_CERTIFICATES, R_OK) == 0)
        rc = conninfo_set(conninfo, count, "sslrootcert", PUBLIC_CERTIFICATES);
    return rc;
}

static int conninfo_fill(struct conninfo *conninfo, const PQconninfoOption *options)
{
    size_t count = 0;
    int rc = conninfo_set(conninfo, &count, "client_encoding", "UTF8");
    for (const PQconninfoOption *o = options; o->keyword != NULL && rc == PR_OK; o++)
        if (o->val != NULL && o->val[0] != '\0' && strcmp(o->keyword, "client_encoding") != 0)
            rc = conninfo_set(conninfo, &count, o->keyword, o->val);
    for (size_t i = 0; i < ARRAY_LENGTH(defaults) && rc == PR_OK; i++)
        if (given(options, defaults[i].keyword) == NULL)
            rc = conninfo_set(conninfo, &count, defaults[i].keyword, defaults[i].value);
    return rc == PR_OK ? set_tls(conninfo, options, &count) : rc;
}

static size_t option_count(const PQconninfoOption *options)
{
    size_t count = 0;
    while (options[count].keyword != NULL)
        count++;
    return count;
}

/* The rest of a password that contains an @; a socket's name may only begin with one. */
static bool has_two_ats(const char *hosts)
{
    pr_slice rest = slice_from(hosts);
    while (rest.size > 0) {
        pr_slice host = slice_until(&rest, ',');
        if (host.size > 1 && memchr(host.data + 1, '@', host.size - 1) != NULL)
            return true;
    }
    return false;
}

static int conninfo_read(struct conninfo *conninfo, const char *url, struct pr_error *reterr)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &why);
    if (options == NULL) {
        /* libpq repeats the part that it did not understand, which may be half of a password. */
        int rc = error_set(
            reterr, PR_EINVAL,
            "the store's URL is wrong: %.*s; use postgres://USER@HOST:PORT/DATABASE?OPTION=VALUE, and write %%40"
            " for an @ within a part",
            (int)strcspn(why != NULL ? why : "", "\":\n"), why != NULL ? why : "");
        PQfreemem(why);
        return rc;
    }
    if (has_two_ats(value_of(options, "host"))) {
        PQconninfoFree(options);
        return error_set(reterr, PR_EINVAL,
                         "the store's URL is wrong: it contains two @; write %%40 for one in a password");
    }
    size_t room = option_count(options) + ARRAY_LENGTH(defaults) + 4;
    conninfo->keywords = calloc(room, sizeof(conninfo->keywords[0]));
    conninfo->values = calloc(room, sizeof(conninfo->values[0]));
    int rc = conninfo->keywords != NULL && conninfo->values != NULL ? conninfo_fill(conninfo, options) : PR_ENOMEM;
    PQconninfoFree(options);
    return rc == PR_OK ? PR_OK : error_set(reterr, rc, "out of memory for a store");
}

int pg_conninfo_parse(const char *url, struct conninfo *ret, struct pr_error *reterr)
{
    struct buf stripped;
    *ret = (struct conninfo){ .prepare = true, .schema = strdup(SCHEMA_DEFAULT) };
    buf_init(&stripped, URL_MAX);
    int rc = ret->schema != NULL ? url_strip(ret, url, &stripped, reterr)
                                 : error_set(reterr, PR_ENOMEM, "out of memory for a store");
    if (rc == PR_OK)
        rc = conninfo_read(ret, stripped.data, reterr);
    buf_fini(&stripped);
    if (rc != PR_OK)
        pg_conninfo_fini(ret);
    return rc;
}

void pg_conninfo_fini(struct conninfo *conninfo)
{
    for (size_t i = 0; conninfo->keywords != NULL && conninfo->keywords[i] != NULL; i++) {
        free(conninfo->keywords[i]);
        if (conninfo->values[i] != NULL)
            explicit_bzero(conninfo->values[i], strlen(conninfo->values[i]));
        free(conninfo->values[i]);
    }
    free(conninfo->keywords);
    free(conninfo->values);
    free(conninfo->schema);
    *conninfo = (struct conninfo){ .schema = NULL };
}
