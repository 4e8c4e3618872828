#include "base/url.h"

#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/slice.h"
#include "base/util.h"

#define SHOWN "***"

/* Schemes whose URLs have an account name before the colon. */
static const char *const with_users[] = { "postgres", "postgresql", "amqp",  "amqps",  "amqp1", "kafka",
                                          "mqtt",     "mqtts",      "redis", "rediss", "nats" };

/* Options of Postrider, of broker URLs and of libpq whose values are not secret. */
static const char *const harmless[] = {
    "schema",
    "prepare",
    "host",
    "hostaddr",
    "port",
    "user",
    "dbname",
    "service",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslnegotiation",
    "gssencmode",
    "channel_binding",
    "require_auth",
    "application_name",
    "connect_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
    "target_session_attrs",
    "load_balance_hosts",
    "passfile", /* of libpq, and of Postrider */
    "ca",
    "cert",
    "certkey",
    "plain",
    "tls",
    "exchange",
    "key",
    "mandatory",
    "vhost",
    "sasl",
    "compression",
    "max_bytes",
    "retain",
    "client",
    "jetstream",
    "creds",
    "stream",
    "group",
    "consumer",
    "start",
    "claim",
    "subject",
    "queue",
    "topic",
    "prefetch",
    "from",
    "expiry",
    "maxlen",
    "mode",
    "batch",
    "sync",
};
static const char *const passwords[] = { "password", "sslpassword" };

static bool is_among(pr_slice word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (word.size == strlen(words[i]) && strncasecmp(word.data, words[i], word.size) == 0)
            return true;
    return false;
}

/* SCHEME:// USER[:PASSWORD]@ ... ?QUERY */
struct parts {
    pr_slice scheme;
    pr_slice user_info; /* data NULL: none */
    const char *rest;   /* starts at the @, or at the authority when there is no user info */
};

static struct parts parts_of(const char *url)
{
    const char *slashes = strstr(url, "://");
    if (slashes == NULL || slashes - url != (ptrdiff_t)strcspn(url, ":/?#"))
        return (struct parts){ .rest = url };
    const char *authority = slashes + 3, *end = authority + strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', (size_t)(end - authority));
    const char *colon = memchr(authority, ':', (size_t)(end - authority));
    /* The password has a slash or question mark that was not encoded: what follows the colon is not a port number. */
    if (at == NULL && colon != NULL && colon + 1 + strspn(colon + 1, "0123456789") != end)
        at = strrchr(authority, '@');
    struct parts parts = { .scheme = { url, (size_t)(slashes - url) }, .rest = at != NULL ? at : authority };
    if (at != NULL)
        parts.user_info = (pr_slice){ authority, (size_t)(at - authority) };
    return parts;
}

static bool is_web(const struct parts *parts)
{
    return slice_eq_cstr(parts->scheme, "http") || slice_eq_cstr(parts->scheme, "https");
}

static void add_user_info(struct buf *b, const struct parts *parts)
{
    pr_slice info = parts->user_info;
    const char *colon = info.size > 0 ? memchr(info.data, ':', info.size) : NULL;
    bool is_user = slice_eq_cstr(parts->scheme, "postgres") || slice_eq_cstr(parts->scheme, "postgresql");
    if (colon != NULL && is_among(parts->scheme, with_users, ARRAY_LENGTH(with_users))) {
        buf_add(b, info.data, (size_t)(colon + 1 - info.data));
        buf_add_cstr(b, SHOWN);
    } else if (colon == NULL && (is_user || info.size == 0)) {
        buf_add_slice(b, info);
    } else {
        buf_add_cstr(b, SHOWN);
    }
}

static void add_query(struct buf *b, const char *query, bool web)
{
    while (*query != '\0') {
        pr_slice option = { query, strcspn(query, "&") };
        const char *equals = memchr(option.data, '=', option.size);
        pr_slice name = { query, equals != NULL ? (size_t)(equals - query) : option.size };
        bool shown = !web && is_among(name, harmless, ARRAY_LENGTH(harmless));
        buf_add_slice(b, equals != NULL || shown ? name : PR_STR(SHOWN));
        if (equals != NULL) {
            buf_add_char(b, '=');
            buf_add_slice(b, shown ? (pr_slice){ equals + 1, option.size - name.size - 1 } : PR_STR(SHOWN));
        }
        query += option.size;
        if (*query == '&')
            buf_add_char(b, *query++);
    }
}

void url_add_shown(struct buf *b, const char *url)
{
    struct parts parts = parts_of(url);
    size_t before_query = strcspn(parts.rest, "?");
    if (parts.user_info.data != NULL) {
        buf_add(b, url, parts.scheme.size + 3);
        add_user_info(b, &parts);
        url = parts.rest;
    }
    buf_add(b, url, (size_t)(parts.rest + before_query - url));
    if (parts.rest[before_query] == '\0')
        return;
    buf_add_char(b, '?');
    add_query(b, parts.rest + before_query + 1, is_web(&parts));
}

bool url_has_password(const char *url)
{
    struct parts parts = parts_of(url);
    pr_slice info = parts.user_info;
    const char *colon = info.size > 0 ? memchr(info.data, ':', info.size) : NULL;
    if (colon != NULL && colon + 1 < info.data + info.size)
        return true;
    for (const char *query = parts.rest; (query = strpbrk(query, "?&")) != NULL;) {
        size_t size = strcspn(++query, "=&");
        if (query[size] == '=' && query[size + 1] != '&' && query[size + 1] != '\0' &&
            is_among((pr_slice){ query, size }, passwords, ARRAY_LENGTH(passwords)))
            return true;
    }
    return false;
}

/* ---- Percent-encoding ---- */

int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int url_decode(pr_slice text, bool plus, struct arena *arena, pr_slice *ret)
{
    char *out = arena_alloc(arena, text.size + 1);
    size_t size = 0;
    if (out == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '%') {
            int high = text.size - i > 2 ? hex_value(text.data[i + 1]) : -1;
            int low = text.size - i > 2 ? hex_value(text.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return PR_EINVAL;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0')
            return PR_EINVAL;
        out[size++] = c;
    }
    out[size] = '\0';
    *ret = (pr_slice){ out, size };
    return PR_OK;
}
