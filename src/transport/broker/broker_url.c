#include "transport/broker/broker_url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/host.h"
#include "base/slice.h"
#include "base/url.h"
#include "base/util.h"

/* ---- Pieces ------------------------------------------------------------------------------------ */

static int wrong(const struct endpoint_config *config, const char *what, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "%s: the url is not valid: %s", endpoint_title(config).text, what);
}

/* Cuts off everything before the first of the marks (or the end); the mark itself is dropped. */
static pr_slice cut(pr_slice *rest, const char *marks)
{
    size_t size = 0;
    while (size < rest->size && strchr(marks, rest->data[size]) == NULL)
        size++;
    pr_slice head = { rest->data, size };
    size_t used = size < rest->size ? size + 1 : size;
    *rest = (pr_slice){ rest->data + used, rest->size - used };
    return head;
}

static int decode(const struct endpoint_config *config, pr_slice text, struct arena *arena, pr_slice *ret,
                  struct pr_error *reterr)
{
    char *copy = arena_alloc(arena, text.size + 1);
    size_t size = 0;
    if (copy == NULL)
        return error_set(reterr, PR_ENOMEM, "%s: out of memory for its url", endpoint_title(config).text);
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '%') {
            int high = i + 2 < text.size ? hex_value(text.data[i + 1]) : -1;
            int low = i + 2 < text.size ? hex_value(text.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return wrong(config, "% is followed by two digits such as %2F", reterr);
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0')
            return wrong(config, "it contains a NUL character", reterr);
        copy[size++] = c;
    }
    copy[size] = '\0';
    *ret = (pr_slice){ copy, size };
    return PR_OK;
}

/* ---- User, host, port --------------------------------------------------------------------------- */

static int take_port(const struct endpoint_config *config, pr_slice text, unsigned *ret, struct pr_error *reterr)
{
    unsigned port = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || port > 65535)
            return wrong(config, "the port must be a number up to 65535", reterr);
        port = port * 10 + (unsigned)(text.data[i] - '0');
    }
    if (text.size == 0 || port == 0 || port > 65535)
        return wrong(config, "the port must be a number up to 65535", reterr);
    *ret = port;
    return PR_OK;
}

static int take_host(const struct endpoint_config *config, pr_slice text, struct arena *arena, struct broker_host *ret,
                     struct pr_error *reterr)
{
    pr_slice host = text, port = { NULL, 0 };
    bool has_port = false;
    if (text.size > 0 && text.data[0] == '[') { /* [::1]:5672 */
        const char *end = memchr(text.data, ']', text.size);
        if (end == NULL)
            return wrong(config, "[ has no ]", reterr);
        host = (pr_slice){ text.data + 1, (size_t)(end - text.data) - 1 };
        port = (pr_slice){ end + 1, text.size - host.size - 2 };
        has_port = port.size > 0;
        if (has_port && port.data[0] != ':')
            return wrong(config, "only : and a port can follow ]", reterr);
        if (has_port)
            port = (pr_slice){ port.data + 1, port.size - 1 };
    } else if (memchr(text.data, ':', text.size) != NULL) {
        port = text;
        host = cut(&port, ":");
        has_port = true;
    }
    if (host.size == 0)
        return wrong(config, "it has no host", reterr);
    int rc = has_port ? take_port(config, port, &ret->port, reterr) : PR_OK;
    return rc == PR_OK ? decode(config, host, arena, &ret->name, reterr) : rc;
}

static int take_hosts(const struct endpoint_config *config, pr_slice text, size_t max, struct arena *arena,
                      struct broker_url *ret, struct pr_error *reterr)
{
    int rc = PR_OK;
    unsigned default_port = ret->port;
    do {
        if (ret->host_count == max)
            return wrong(config, max == 1 ? "it has more than one host" : "it has too many hosts", reterr);
        pr_slice one = cut(&text, ",");
        struct broker_host *host = &ret->hosts[ret->host_count++];
        host->port = default_port;
        rc = take_host(config, one, arena, host, reterr);
    } while (rc == PR_OK && text.size > 0);
    ret->host = ret->hosts[0].name;
    ret->port = ret->hosts[0].port;
    return rc;
}

static int take_authority(const struct endpoint_config *config, pr_slice text, size_t hosts_max, struct arena *arena,
                          struct broker_url *ret, struct pr_error *reterr)
{
    const char *at = text.size > 0 ? memrchr(text.data, '@', text.size) : NULL;
    int rc = PR_OK;
    if (text.size > 0 && (memchr(text.data, '{', text.size) != NULL || memchr(text.data, '}', text.size) != NULL))
        return wrong(config, "placeholders are only allowed after the host", reterr);
    if (at != NULL) {
        pr_slice password = { text.data, (size_t)(at - text.data) };
        text = (pr_slice){ at + 1, text.size - password.size - 1 };
        pr_slice user = cut(&password, ":");
        rc = decode(config, user, arena, &ret->user, reterr);
        if (rc == PR_OK)
            rc = decode(config, password, arena, &ret->password, reterr);
    }
    return rc == PR_OK ? take_hosts(config, text, hosts_max, arena, ret, reterr) : rc;
}

/* ---- Parameters ---------------------------------------------------------------------------------- */

static int unknown_param(const struct endpoint_config *config, pr_slice name, const char *const *allowed,
                         struct pr_error *reterr)
{
    char known[256] = "";
    size_t size = 0;
    for (size_t i = 0; allowed[i] != NULL; i++) {
        size_t room = sizeof(known) - size, length = strlen(allowed[i]) + 2;
        if (length >= room)
            break;
        memcpy(known + size, i > 0 ? ", " : "", i > 0 ? 2 : 0);
        size += i > 0 ? 2 : 0;
        memcpy(known + size, allowed[i], length - 1);
        size += length - 2;
    }
    return error_set(reterr, PR_ECONFIG, "%s: unknown parameter %.*s in the url; known are: %s",
                     endpoint_title(config).text, (int)min_size(name.size, 64), name.data,
                     known[0] != '\0' ? known : "none");
}

static int take_param(const struct endpoint_config *config, pr_slice text, const char *const *allowed,
                      struct arena *arena, struct broker_url *ret, struct pr_error *reterr)
{
    struct broker_param param = { 0 };
    pr_slice value = text, name = cut(&value, "=");
    int rc = decode(config, name, arena, &param.name, reterr);
    if (rc == PR_OK)
        rc = decode(config, value, arena, &param.value, reterr);
    if (rc != PR_OK)
        return rc;
    size_t i = 0;
    while (allowed[i] != NULL && !slice_eq_cstr(param.name, allowed[i]))
        i++;
    if (allowed[i] == NULL)
        return unknown_param(config, param.name, allowed, reterr);
    for (i = 0; i < ret->param_count; i++)
        if (slice_eq(ret->params[i].name, param.name))
            return error_set(reterr, PR_ECONFIG, "%s: the url has the parameter %s twice", endpoint_title(config).text,
                             param.name.data);
    if (ret->param_count == BROKER_PARAMS_MAX)
        return wrong(config, "it has too many parameters", reterr);
    ret->params[ret->param_count++] = param;
    return PR_OK;
}

static int parse(const struct endpoint_config *config, unsigned default_port, size_t hosts_max,
                 const char *const *allowed, struct arena *arena, struct broker_url *ret, struct pr_error *reterr)
{
    pr_slice rest = slice_from(config->url), scheme = transport_scheme(config->url);

    *ret = (struct broker_url){ .port = default_port };
    if (rest.size > BROKER_URL_MAX)
        return wrong(config, "it is too long", reterr);
    rest = (pr_slice){ rest.data + scheme.size + 1, rest.size - scheme.size - 1 };
    if (!slice_starts_with(rest, PR_STR("//")))
        return error_set(reterr, PR_ECONFIG, "%s: the url is not valid: use %.*s://host", endpoint_title(config).text,
                         SLICE_ARGS(scheme));
    rest = (pr_slice){ rest.data + 2, rest.size - 2 };
    if (memchr(rest.data, '#', rest.size) != NULL)
        return wrong(config, "# is written %23", reterr);

    pr_slice query = rest, before = cut(&query, "?"), path = before, authority = cut(&path, "/");
    ret->has_path = authority.size < before.size;
    int rc = decode(config, scheme, arena, &ret->scheme, reterr);
    if (rc == PR_OK)
        rc = take_authority(config, authority, hosts_max, arena, ret, reterr);
    if (rc == PR_OK)
        rc = decode(config, path, arena, &ret->path, reterr);
    while (rc == PR_OK && query.size > 0) {
        pr_slice param = cut(&query, "&");
        if (param.size > 0)
            rc = take_param(config, param, allowed, arena, ret, reterr);
    }
    return rc;
}

int broker_url_parse(const struct endpoint_config *config, unsigned default_port, const char *const *allowed,
                     struct arena *arena, struct broker_url *ret, struct pr_error *reterr)
{
    return parse(config, default_port, 1, allowed, arena, ret, reterr);
}

int broker_url_parse_hosts(const struct endpoint_config *config, unsigned default_port, const char *const *allowed,
                           struct arena *arena, struct broker_url *ret, struct pr_error *reterr)
{
    return parse(config, default_port, BROKER_HOSTS_MAX, allowed, arena, ret, reterr);
}

/* ---- Values --------------------------------------------------------------------------------------- */

pr_slice broker_url_param(const struct broker_url *url, const char *name, const char *fallback)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (slice_eq_cstr(url->params[i].name, name))
            return url->params[i].value;
    return slice_from(fallback);
}

int broker_url_bool(const struct endpoint_config *config, const struct broker_url *url, const char *name, bool fallback,
                    bool *ret, struct pr_error *reterr)
{
    pr_slice value = broker_url_param(url, name, fallback ? "true" : "false");
    *ret = slice_eq_cstr(value, "true");
    return *ret || slice_eq_cstr(value, "false")
               ? PR_OK
               : error_set(reterr, PR_ECONFIG, "%s: %s in the url must be true or false", endpoint_title(config).text,
                           name);
}

int broker_url_number(const struct endpoint_config *config, const struct broker_url *url, const char *name,
                      int64_t fallback, int64_t least, int64_t most, int64_t *ret, struct pr_error *reterr)
{
    pr_slice value = broker_url_param(url, name, "");
    int64_t number = 0;
    *ret = fallback;
    if (value.size == 0)
        return PR_OK;
    for (size_t i = 0; i < value.size && number >= 0; i++)
        number = value.data[i] >= '0' && value.data[i] <= '9' && number <= most / 10 + 1
                     ? number * 10 + (value.data[i] - '0')
                     : -1;
    if (number < least || number > most)
        return error_set(reterr, PR_ECONFIG, "%s: %s in the url must be a whole number from %lld to %lld",
                         endpoint_title(config).text, name, (long long)least, (long long)most);
    *ret = number;
    return PR_OK;
}

struct broker_tls broker_url_tls(const struct endpoint_config *config, const struct broker_url *url)
{
    struct broker_tls tls = { .ca = broker_url_param(url, "ca", config->ca),
                              .cert = broker_url_param(url, "cert", config->cert),
                              .key = broker_url_param(url, "certkey", config->key) };
    if (tls.key.size == 0)
        tls.key = tls.cert;
    return tls;
}

static int check_plain(const struct endpoint_config *config, const struct broker_url *url, struct pr_error *reterr)
{
    bool plain;
    pr_slice other = { NULL, 0 };
    for (size_t i = 0; i < url->host_count && other.data == NULL; i++)
        if (!host_is_loopback(url->hosts[i].name))
            other = url->hosts[i].name;
    int rc = broker_url_bool(config, url, "plain", other.data == NULL, &plain, reterr);
    if (rc != PR_OK || plain)
        return rc;
    return error_set(reterr, PR_ECONFIG,
                     "%s: %s:// is not encrypted, and %s is another machine: use TLS, or add plain=true to the url",
                     endpoint_title(config).text, url->scheme.data, other.data != NULL ? other.data : url->host.data);
}

int broker_url_check_file(const struct endpoint_config *config, const char *name, pr_slice file,
                          struct pr_error *reterr)
{
    if (file.size == 0 || access(file.data, R_OK) == 0)
        return PR_OK;
    return error_set(reterr, PR_ECONFIG, "%s: %s: %.*s cannot be read: %s", endpoint_title(config).text, name,
                     SLICE_ARGS(file), strerror(errno));
}

int broker_url_check_wire(const struct endpoint_config *config, const struct broker_url *url, bool tls,
                          struct pr_error *reterr)
{
    struct broker_tls files = broker_url_tls(config, url);
    if (!tls && files.ca.size + files.cert.size + files.key.size > 0)
        return error_set(reterr, PR_ECONFIG, "%s: ca, cert and key need TLS, and the url has none",
                         endpoint_title(config).text);
    if (tls && files.key.size > 0 && files.cert.size == 0)
        return error_set(reterr, PR_ECONFIG, "%s: key needs cert", endpoint_title(config).text);
    if (!tls)
        return check_plain(config, url, reterr);
    int rc = broker_url_check_file(config, "ca", files.ca, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_file(config, "cert", files.cert, reterr);
    return rc == PR_OK ? broker_url_check_file(config, "key", files.key, reterr) : rc;
}
