#include "transport/transport.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

/* To add a transport: write its file, add its line. */
static const struct transport_ops *const built_in[] = {
    &transport_handler, &transport_http,   &transport_https, &transport_console,   &transport_null,
    &transport_exec,    &transport_file,   &transport_pull,  &transport_local_box,
#ifdef POSTRIDER_REDIS
    &transport_redis,   &transport_rediss,
#endif
#ifdef POSTRIDER_AMQP
    &transport_amqp,    &transport_amqps,
#endif
#ifdef POSTRIDER_AMQP1
    &transport_amqp1,
#endif
#ifdef POSTRIDER_NATS
    &transport_nats,
#endif
#ifdef POSTRIDER_KAFKA
    &transport_kafka,
#endif
#ifdef POSTRIDER_MQTT
    &transport_mqtt,    &transport_mqtts,
#endif
};

/* Names that mean something to Postrider, but not in this build. */
static const char *const only_named[] = {
    "kafka", "amqp", "amqps", "amqp1", "nats", "redis", "rediss", "mqtt", "mqtts",
};

#define SCHEME_MAX 16 /* longer than any scheme; longer words are not compared */
#define SUGGEST_MAX 2 /* letters that may be wrong */

static bool is_scheme(pr_slice scheme, const char *name)
{
    return scheme.size == strlen(name) && strncasecmp(scheme.data, name, scheme.size) == 0;
}

const struct transport_ops *transport_find(pr_slice scheme)
{
    for (size_t i = 0; i < ARRAY_LENGTH(built_in); i++)
        if (is_scheme(scheme, built_in[i]->scheme))
            return built_in[i];
    return NULL;
}

bool transport_is_known_scheme(pr_slice scheme)
{
    for (size_t i = 0; i < ARRAY_LENGTH(only_named); i++)
        if (is_scheme(scheme, only_named[i]))
            return true;
    return transport_find(scheme) != NULL;
}

pr_slice transport_scheme(const char *url)
{
    const char *colon = url != NULL ? strchr(url, ':') : NULL;
    return colon != NULL ? (pr_slice){ url, (size_t)(colon - url) } : (pr_slice){ "", 0 };
}

pr_slice transport_box(const char *url)
{
    pr_slice scheme = transport_scheme(url);
    return is_scheme(scheme, transport_local_box.scheme) ? slice_from(url + scheme.size + 1) : (pr_slice){ NULL, 0 };
}

/* Number of letters to insert, delete or replace. */
static size_t distance(pr_slice a, const char *b)
{
    size_t row[SCHEME_MAX + 1], b_size = strlen(b);
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t replaced = diagonal + (a.data[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = min_size(replaced, 1 + min_size(row[j], row[j - 1]));
        }
    }
    return row[b_size];
}

static void suggest(pr_slice scheme, const char *name, const char **best, size_t *best_distance)
{
    ASSERT(strlen(name) <= SCHEME_MAX);
    size_t d = distance(scheme, name);
    if (d < *best_distance) {
        *best = name;
        *best_distance = d;
    }
}

static const char *nearest_scheme(pr_slice scheme)
{
    const char *best = NULL;
    size_t best_distance = SUGGEST_MAX + 1;
    if (scheme.size > SCHEME_MAX)
        return NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(built_in); i++)
        suggest(scheme, built_in[i]->scheme, &best, &best_distance);
    for (size_t i = 0; i < ARRAY_LENGTH(only_named); i++)
        suggest(scheme, only_named[i], &best, &best_distance);
    return best;
}

static int scheme_fault(const struct endpoint_config *config, pr_slice scheme, struct pr_error *reterr)
{
    if (scheme.size == 0)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: the url has no scheme: use one such as https://host/path",
                         config->name);
    if (transport_is_known_scheme(scheme))
        return error_set(reterr, PR_ECONFIG, "endpoint %s: this build does not support %.*s", config->name,
                         SLICE_ARGS(scheme));
    const char *best = nearest_scheme(scheme);
    return best != NULL ? error_set(reterr, PR_ECONFIG, "endpoint %s: unknown scheme %.*s; did you mean %s?",
                                    config->name, SLICE_ARGS(scheme), best)
                        : error_set(reterr, PR_ECONFIG, "endpoint %s: unknown scheme %.*s", config->name,
                                    (int)min_size(scheme.size, SCHEME_MAX), scheme.data);
}

static bool is_batched(const struct endpoint_config *config)
{
    return config->envelope != NULL && strcmp(config->envelope, "batch") == 0;
}

static bool names_tls_files(const struct endpoint_config *config)
{
    const char *const files[] = { config->ca, config->cert, config->key };
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        if (files[i] != NULL && files[i][0] != '\0')
            return true;
    return false;
}

static bool is_written(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static bool is_put(const char *method)
{
    return is_written(method) && strcmp(method, "POST") != 0;
}

struct endpoint_title endpoint_title(const struct endpoint_config *config)
{
    struct endpoint_title title;
    snprintf(title.text, sizeof(title.text), "%s %s", config->role != NULL ? config->role : "endpoint", config->name);
    return title;
}

int transport_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    pr_slice scheme = transport_scheme(config->url);
    const struct transport_ops *ops = transport_find(scheme);
    if (ops == NULL)
        return scheme_fault(config, scheme, reterr);
    if (is_batched(config) && ops != &transport_http && ops != &transport_https)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: envelope batch needs http or https", config->name);
    if ((config->header_count > 0 || is_written(config->proxy) || is_put(config->method)) && ops != &transport_http &&
        ops != &transport_https)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: headers, method and proxy need http or https", config->name);
    if (config->sign_count > 0 && ops != &transport_http && ops != &transport_https)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: sign needs http or https", config->name);
    if (names_tls_files(config) && (ops == &transport_http || !(ops->promises & TRANSPORT_REMOTE)))
        return error_set(reterr, PR_ECONFIG, "endpoint %s: ca, cert and key need TLS, which %.*s: does not have",
                         config->name, SLICE_ARGS(scheme));
    return ops->check != NULL ? ops->check(config, reterr) : PR_OK;
}

size_t transport_capacity(const struct endpoint_config *config)
{
    size_t messages = config->batch_messages > 0 ? config->batch_messages : TRANSPORT_BATCH_MESSAGES;
    size_t at_once = config->concurrency > 0 ? config->concurrency
                     : is_batched(config)    ? TRANSPORT_BATCHES
                                             : transport_find(transport_scheme(config->url))->concurrency;
    return is_batched(config) ? at_once * messages : at_once;
}

int transport_open(const struct endpoint_config *config, struct transport *ret, struct pr_error *reterr)
{
    int rc = transport_check(config, reterr);
    if (rc < 0)
        return rc;
    struct transport transport = { .ops = transport_find(transport_scheme(config->url)) };
    transport.self = calloc(1, transport.ops->size);
    if (transport.self == NULL)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory", config->name);
    rc = transport.ops->open(transport.self, config, reterr);
    if (rc < 0) {
        transport_close(&transport);
        return rc;
    }
    *ret = transport;
    return PR_OK;
}

void transport_close(struct transport *transport)
{
    if (transport->ops != NULL)
        transport->ops->close(transport->self);
    free(transport->self);
    *transport = (struct transport){ 0 };
}

size_t transport_submit(struct transport *transport, const struct delivery *const *list, size_t count)
{
    if (count == 0)
        return 0;
    size_t taken = transport->ops->submit(transport->self, list, count);
    ASSERT(taken <= count);
    transport->out += taken;
    return taken;
}

size_t transport_poll(struct transport *transport, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    if (max == 0)
        return 0;
    size_t count = transport->ops->poll(transport->self, ret, max, deadline_us);
    ASSERT(count <= max);
    ASSERT(count <= transport->out); /* P1: never a result too many */
    transport->out -= count;
    return count;
}

void transport_cancel(struct transport *transport)
{
    transport->ops->cancel(transport->self);
}
