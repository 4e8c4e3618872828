/* broker_url.h - the url of an endpoint at a broker, taken apart.
 *
 *   amqp://user:password@host:5672/vhost?exchange=orders&key={type}
 *
 * Every part is percent-decoded, except that placeholders such as {type} stay for template.h.
 * Faults name what is wrong and never repeat the url: it may hold a password. */
#ifndef TRANSPORT_BROKER_BROKER_URL_H
#define TRANSPORT_BROKER_BROKER_URL_H

#include "base/arena.h"
#include "transport/transport.h"

#define BROKER_URL_MAX 8192
#define BROKER_PARAMS_MAX 32
#define BROKER_HOSTS_MAX 16

struct broker_param {
    pr_slice name, value;
};

struct broker_host {
    pr_slice name;
    unsigned port; /* the given default when there is none */
};

/* Slices end with a NUL and live in the arena; missing parts are empty. */
struct broker_url {
    pr_slice scheme, user, password, host, path; /* path without its first slash */
    unsigned port;                               /* host and port are those of the first */
    struct broker_host hosts[BROKER_HOSTS_MAX];
    size_t host_count;
    bool has_path; /* "host/" has an empty one, "host" none */
    struct broker_param params[BROKER_PARAMS_MAX];
    size_t param_count;
};

/* allowed: the names of parameters that this transport supports, ending with NULL.  PR_OK, PR_ECONFIG (the text begins
 * with "endpoint NAME: "), PR_ENOMEM. */
PR_MUST_CHECK int broker_url_parse(const struct endpoint_config *config, unsigned default_port,
                                   const char *const *allowed, struct arena *arena, struct broker_url *ret,
                                   struct pr_error *reterr);
/* The same for transports that take several hosts: a:9092,b:9092. */
PR_MUST_CHECK int broker_url_parse_hosts(const struct endpoint_config *config, unsigned default_port,
                                         const char *const *allowed, struct arena *arena, struct broker_url *ret,
                                         struct pr_error *reterr);

/* The value of a parameter; fallback (borrowed) if it is missing. */
pr_slice broker_url_param(const struct broker_url *url, const char *name, const char *fallback);

/* The files for TLS, each a name that ends with a NUL: ca, cert and certkey in the url, otherwise the endpoint's ca,
 * cert and key.  Empty: none; the key is in the certificate's file unless certkey or key names another. */
struct broker_tls {
    pr_slice ca, cert, key;
};
/* Advice for common mistakes, appended to what the other side says. */
#define BROKER_LOGIN_ADVICE "check user and password in its url"
#define BROKER_HOST_ADVICE "check the host in its url"
#define BROKER_CERT_ADVICE "check ca in its url, and when the certificate expires"
/* For when the other side ends a TLS connection before it has said anything, and we have shown no certificate. */
#define BROKER_NO_CERT_ADVICE "it may require a client certificate (cert)"
#define BROKER_TLS_NO_CERT "it ended the connection over TLS: " BROKER_NO_CERT_ADVICE
struct broker_tls broker_url_tls(const struct endpoint_config *config, const struct broker_url *url);

/* Passwords and payloads must not cross a network in clear text by mistake: without TLS a host other than this one
 * requires plain=true in the url, and files must be used and readable.  PR_OK or PR_ECONFIG. */
PR_MUST_CHECK int broker_url_check_wire(const struct endpoint_config *config, const struct broker_url *url, bool tls,
                                        struct pr_error *reterr);

/* Can the file be read?  An empty name means no file.  PR_OK or PR_ECONFIG. */
PR_MUST_CHECK int broker_url_check_file(const struct endpoint_config *config, const char *name, pr_slice file,
                                        struct pr_error *reterr);

/* A parameter that is a boolean, or a whole number: PR_OK or PR_ECONFIG. */
PR_MUST_CHECK int broker_url_bool(const struct endpoint_config *config, const struct broker_url *url, const char *name,
                                  bool fallback, bool *ret, struct pr_error *reterr);
PR_MUST_CHECK int broker_url_number(const struct endpoint_config *config, const struct broker_url *url,
                                    const char *name, int64_t fallback, int64_t least, int64_t most, int64_t *ret,
                                    struct pr_error *reterr);

#endif
