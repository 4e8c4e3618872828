/* config.h - the configuration: one YAML file, checked as a whole before anything starts.
 *
 * Where a value comes from, strongest first: a flag of the command line, the environment
 * (POSTRIDER_LIMITS__PAYLOAD), the file, the default.  Every option is a line in the tables
 * of config_options_*.c; checks, `config show` and doc/configuration.md come from there.
 *
 * Memory: everything a struct config points to lives as long as it does, and never changes.
 * Threads: read it from as many as you like. */
#ifndef RUNTIME_CONFIG_CONFIG_H
#define RUNTIME_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "core/box.h"
#include "core/schedule.h"
#include "engine/engine.h"
#include "policy/breaker.h"
#include "policy/retry.h"
#include "source/source.h"
#include "transport/transport.h"

#define CONFIG_BYTES_MAX (1u << 20) /* of the file: a larger one was not written by a person */
#define CONFIG_DEPTH_MAX 16         /* nesting of maps and lists; real configurations are 5 deep */
#define CONFIG_NODES_MAX 50000      /* keys and values */
#define CONFIG_KEYS_MAX 4096        /* in one map: each is compared with all others */
#define CONFIG_VALUE_MAX 65536      /* bytes of one value, after expansion */
#define DEDUPE_INBOX_US PR_SECONDS(86400)
#define CONFIG_NAME_MAX 63 /* bytes of the name of an endpoint */

struct config_box {
    const char *name;
    /* The kinds of `inbox`, `turns`, `activities` have their names, unless the file says otherwise. */
    enum box_kind kind;
    const char *table; /* in the database; "": the existing one, or one named like the box */
    int64_t dedupe_us; /* how long marks of handled messages are kept (core/mark.h); 0: no dedupe */
    int64_t keep_us;   /* how long completed messages stay readable; 0: they are deleted */
    bool used;         /* the outbox, or named by the file, a route or a source; handlers may also name it */
};

struct config_batch {
    int messages;
    int64_t bytes;
};

struct config_endpoint {
    const char *name;
    const char *url;
    const char *source;   /* CloudEvents source of messages without one */
    const char *envelope; /* binary, structured, batch, raw */
    const char *preset;   /* "" when none */
    enum ordering ordering;
    int64_t timeout_us;
    int max_attempts;
    int concurrency;           /* 0: the transport's own */
    struct config_batch batch; /* envelope batch */
    const char *ca;            /* "": the system's */
    const char *cert, *key;    /* of the client; "": none */
    const char *const *sign;   /* secrets of signatures, the newest first */
    size_t sign_count;
    const char *method, *proxy;            /* of webhooks; proxy "": none */
    const struct endpoint_header *headers; /* of webhooks; secrets */
    size_t header_count;
    struct rate_setting rate;
    struct retry_setting retry;
    struct breaker_setting breaker;
    const struct network *allow_networks;
    size_t allow_network_count;
    const struct rule *rules;
    size_t rule_count;
    int64_t payload_max;                 /* 0: no limit of its own */
    const char *const *secret_variables; /* as in struct config */
    size_t secret_variable_count;
    bool isolation; /* process: a handler runs in a process of its own */
    bool mode;      /* inline: sent by pr_engine_send() in the caller's thread */
    /* Of its whole configuration, including its files: if it equals that in another configuration, the endpoint need
     * not be touched. */
    uint64_t digest;
};

/* A message without a destination goes to the endpoints of all matching routes.  Globs; "" matches everything. */
struct config_route {
    const char *box; /* "": every outbox */
    const char *type, *source, *stream;
    const struct route_header *headers;
    size_t header_count;
    const char *const *to; /* names of endpoints that exist */
    size_t to_count;
};

/* A message that is sent again and again (core/schedule.h); `meaning` is composed of the rest when the configuration is
 * checked. */
struct config_schedule {
    const char *name;
    const char *cron, *zone;
    int missed; /* enum schedule_missed */
    int64_t grace_us;
    bool paused, event;
    const char *box, *type, *stream, *to, *subject, *source, *content_type, *headers, *payload;
    struct schedule meaning; /* its texts are those above */
};

/* Watchdogs: when they warn, and the messages that they raise. */
struct config_watch {
    int64_t every_us, stuck_us, oldest_us, deaths_within_us, calm_us;
    int deaths;
    const char *raise_type, *raise_to; /* "": no message; and: the routes decide */
};

/* How this instance runs flows. */
struct config_flows {
    int turns, activities; /* threads */
    int64_t turn_timeout_us, activity_timeout_us;
    int max_attempts;
    int64_t unknown_us;   /* how long a flow that no instance here knows waits for one that does */
    int64_t keep_mail_us; /* for flows that do not exist yet */
    int64_t cache_bytes;
};

struct config {
    const char *file; /* for messages to people; "" without a file */
    const char *store;
    const char *instance;
    int64_t lease_us;
    int64_t poll_min_us, poll_max_us;
    int batch;
    int64_t stop_timeout_us;

    int64_t payload_max; /* bytes */
    int in_flight_max;
    int64_t in_flight_bytes_max;
    int waiting_max; /* rows of a box at which sources stop reading */

    struct retention retention;

    /* outbox and inbox come first, even when the file does not name them. */
    struct config_box *boxes;
    size_t box_count;
    struct config_endpoint *endpoints;
    size_t endpoint_count;
    struct config_route *routes;
    size_t route_count;
    const struct rule *rules; /* global: after the endpoints' own */
    size_t rule_count;

    struct source_config *sources;
    size_t source_count;

    struct config_schedule *schedules;
    size_t schedule_count;

    struct config_watch watch;
    struct config_flows flows;

    const char *http_listen;                    /* "" : no HTTP */
    const char *http_token, *http_viewer_token; /* "" : none; secrets */
    const char *const *http_hosts;              /* host names that requests may use, in addition to addresses */
    size_t http_host_count;
    enum log_level log_level;
    enum log_format log_format;

    const char *const *secret_variables; /* environment variables used as ${NAME} */
    size_t secret_variable_count;
    const char *open_secret_file; /* a file used as ${file:} that every user of the machine can read; "": none */

    uint64_t routes_digest, schedules_digest;
    uint64_t rest_digest; /* digest of everything that requires a restart of the relay, except endpoints */

    struct config_notes *notes; /* the origin of each value, for config_show() */
    struct arena arena;
};

/* Fault PR_ECONFIG: the text is "file:line:column: key: what is wrong", one line.  PR_EIO when the file cannot be read.
 * *ret only on success; config_free() it. */
PR_MUST_CHECK int config_load_file(const char *path, struct config **ret, struct pr_error *reterr);

/* The same for text; name is the file's name in messages, and ${file:path} is relative to its directory (or the current
 * one). */
PR_MUST_CHECK int config_load_text(pr_slice text, const char *name, struct config **ret, struct pr_error *reterr);

/* Without a file: defaults and the environment. */
PR_MUST_CHECK int config_default(struct config **ret, struct pr_error *reterr);

void config_free(struct config *config);

/* Sets a value from a flag, which is stronger than everything else. */
PR_MUST_CHECK int config_set_store(struct config *config, const char *url, struct pr_error *reterr);

/* NULL when there is none. */
const struct config_endpoint *config_find_endpoint(const struct config *config, pr_slice name);
/* The table of the box: named like the box, unless the file says otherwise. */
const char *config_box_table(const struct config_box *box);
const struct config_box *config_find_box(const struct config *config, pr_slice name);

/* Does a route or handler that names the box `named` ("": none) apply to messages of this box?  A box that no
 * configuration names is an outbox. */
bool config_takes_box(const struct config *config, const char *named, pr_slice box);

/* The source that reads the server's log; NULL when there is none. */
const struct wal_setting *config_wal(const struct config *config);

/* The settings of an endpoint for transport_open(); handler, clock and log are set by the caller. */
void config_endpoint_for_transport(const struct config_endpoint *endpoint, struct endpoint_config *ret);

/* The policy of an endpoint: its rules, the global ones, its retry setting. */
void config_endpoint_policy(const struct config *config, const struct config_endpoint *endpoint, struct policy *ret);

/* The line at which a rule of this configuration begins; 0: unknown. */
int config_rule_line(const struct config *config, const struct rule *rule);

/* The effective configuration as YAML, each value with its origin.  Secrets are ***. */
void config_show(const struct config *config, struct buf *ret);
/* The same values as one JSON object. */
PR_MUST_CHECK int config_show_json(const struct config *config, struct buf *ret, struct pr_error *reterr);

/* Generates doc/configuration.md from the option tables. */
void config_reference(struct buf *ret);

/* A commented file to start from. */
extern const char config_example[];

#endif
