#include "runtime/config/config_options.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/util.h"
#include "core/message.h"
#include "transport/bundle.h"
#include "transport/http/signature.h"

#define FIELD(type, member) .offset = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member)
#define COUNTED(type, member, counter) FIELD(type, member), .count_offset = offsetof(struct type, counter)
#define SECTION(table) .options = (table), .count = ARRAY_LENGTH(table)

#define ROUTE_HEADERS_MAX 16 /* a person writes few; each is looked for in every message */

#define DAYS(n) PR_SECONDS(INT64_C(86400) * (n))
#define MIB(n) (INT64_C(1048576) * (n))

static const char *const orderings[] = { "fifo", "strict", "available", "none", NULL };
static const char *const envelopes[] = { "binary", "structured", "batch", "raw", NULL };
static const char *const presets[] = { "cloudeventbus", "whizbang", "finitech", NULL };
static const char *const blames[] = { [BLAME_ALWAYS] = "always", [BLAME_EVIDENCE] = "evidence", NULL };
static const char *const watches[] = { "endpoint", "type", NULL };
static const char *const modes[] = { "durable", "inline", NULL };
static const char *const isolations[] = { "thread", "process", NULL };
static const char *const switches[] = { "off", "on", NULL };
static const char *const levels[] = { "debug", "info", "warn", "error", "none", NULL };
static const char *const built_in_boxes[] = { "outbox", "inbox", "turns", "activities", NULL };
static const char *const formats[] = { "text", "json", NULL };

_Static_assert(ORDERING_FIFO == 0 && ORDERING_STRICT == 1 && ORDERING_AVAILABLE == 2 && ORDERING_NONE == 3, "");
_Static_assert(LOG_DEBUG == 0 && LOG_INFO == 1 && LOG_WARN == 2 && LOG_ERROR == 3 && LOG_NONE == 4, "");
_Static_assert(LOG_LOGFMT == 0 && LOG_JSON == 1, "");

static const struct option poll_options[] = {
    { "min", OPTION_DURATION, "2ms", "Shortest pause between two polls of a busy store.", FIELD(config, poll_min_us),
      .min = 100, .max = PR_SECONDS(60) },
    { "max", OPTION_DURATION, "200ms",
      "Longest pause between two polls of an idle store: the most that a message of another process is delayed. "
      "PostgreSQL with several boxes: up to a second with two.",
      FIELD(config, poll_max_us), .min = 1000, .max = PR_SECONDS(60) },
};
static const struct option_section option_poll = {
    "poll", "How often Postrider polls a store that cannot notify it. The pause adapts between the two values.",
    SECTION(poll_options)
};

static const struct option limits_options[] = {
    { "payload", OPTION_SIZE, "1MiB", "Largest payload that can be sent.", FIELD(config, payload_max), .min = 1,
      .max = PR_PAYLOAD_MAX },
    { "in_flight", OPTION_COUNT, "10000", "Messages in memory at once, prefetched or in flight, over all boxes.",
      FIELD(config, in_flight_max), .min = 1, .max = 1000000 },
    { "in_flight_bytes", OPTION_SIZE, "64MiB",
      "The same limit in bytes. A payload over 4 MiB is in memory only while it is sent; such payloads share this "
      "limit, and one is always sent.",
      FIELD(config, in_flight_bytes_max), .min = MIB(1), .max = MIB(65536) },
    { "waiting", OPTION_COUNT, "100000",
      "Messages that a box can hold before sources stop reading from brokers into it; they resume when it "
      "holds fewer. Messages are never refused because of it.",
      FIELD(config, waiting_max), .min = 1, .max = 100000000 },
};
static const struct option_section option_limits = { "limits", "Limits the memory, no matter how large the backlog is.",
                                                     SECTION(limits_options) };

static const struct option http_options[] = {
    { "listen", OPTION_TEXT, "",
      "Address of the API: `127.0.0.1:8026` (port 0 picks a free one), or a socket file: `unix:/run/postrider.sock`. "
      "Addresses other than loopback need a token. Empty: no API.",
      FIELD(config, http_listen) },
    { "token", OPTION_TEXT, "", "Token that may read and change everything: `${file:token}`, at least 16 characters.",
      FIELD(config, http_token), .secret = true },
    { "viewer_token", OPTION_TEXT, "", "Token that may read everything.", FIELD(config, http_viewer_token),
      .secret = true },
    { "hosts", OPTION_NAMES, "", "Host names that requests may use, in addition to IP addresses and localhost.",
      COUNTED(config, http_hosts, http_host_count), .max = 64 },
};
static const struct option_section option_http = { "http", "The API for operators.", SECTION(http_options) };

static const struct option log_options[] = {
    { "level", OPTION_CHOICE, "info", "Least severe level that is logged.", FIELD(config, log_level),
      .choices = levels },
    { "format", OPTION_CHOICE, "text", "Format of the log lines; `text` is logfmt.", FIELD(config, log_format),
      .choices = formats },
};
static const struct option_section option_log = {
    "log", "Log lines go to standard error. A reload changes the level, not the format.", SECTION(log_options)
};

static const struct option watch_raise_options[] = {
    { "type", OPTION_TEXT, "", "Type of the message, for example `postrider.warning`. Empty: no message is sent.",
      FIELD(config, watch.raise_type) },
    { "to", OPTION_TEXT, "", "Endpoint of the message. Default: the routes decide.", FIELD(config, watch.raise_to) },
};
static const struct option_section option_watch_raise = {
    "watch.raise",
    "Stores a message in `outbox` when a warning begins, once for all instances. Its payload is a JSON object with "
    "`check`, `about` (the box), `advice`,\n"
    "`instance` and `at`. Such a message never raises another one.",
    SECTION(watch_raise_options)
};

static const struct option watch_options[] = {
    { "every", OPTION_DURATION, "10s", "How often a running instance checks, if it raises messages.",
      FIELD(config, watch.every_us), .min = PR_MILLISECONDS(100), .max = PR_SECONDS(3600) },
    { "stuck", OPTION_DURATION, "1m",
      "Warn if a message has been ready for longer and the instance with the lease sends nothing.",
      FIELD(config, watch.stuck_us), .min = PR_SECONDS(1), .max = DAYS(1) },
    { "oldest", OPTION_DURATION, "5m", "Warn if the oldest ready message has waited for longer.",
      FIELD(config, watch.oldest_us), .min = PR_SECONDS(1), .max = DAYS(365) },
    { "deaths", OPTION_COUNT, "10", "Warn at this number of new dead letters within `deaths_within`.",
      FIELD(config, watch.deaths), .min = 1, .max = 10000 },
    { "deaths_within", OPTION_DURATION, "10m", "", FIELD(config, watch.deaths_within_us), .min = PR_SECONDS(1),
      .max = DAYS(1) },
    { "calm", OPTION_DURATION, "10m",
      "A warning ends when its condition has been absent for this long; after that it can be raised again.",
      FIELD(config, watch.calm_us), .min = PR_SECONDS(1), .max = DAYS(1) },
    { "raise", OPTION_SECTION, "", "", .section = &option_watch_raise },
};
static const struct option_section option_watch = {
    "watch",
    "Watchdog: `postrider status` and `/health` report these warnings, each with advice. They also warn about messages "
    "that are one attempt below\n"
    "`endpoints.NAME.max_attempts`, and about transactions that keep the store from cleaning up.",
    SECTION(watch_options)
};

static const struct option retention_options[] = {
    { "dead", OPTION_DURATION, "0s",
      "How long dead letters are kept; after that they are removed, and strict streams no longer wait behind them. "
      "`0s`: forever.",
      FIELD(config, retention.dead_us), .min = 0, .max = DAYS(36500) },
    { "audit", OPTION_DURATION, "0s",
      "How long the audit log is kept. `0s`: forever. On PostgreSQL with roles, run `postrider init --grants` again: "
      "the relay then needs the right to delete.",
      FIELD(config, retention.audit_us), .min = 0, .max = DAYS(36500) },
};
static const struct option_section option_retention = {
    "retention",
    "How long the store keeps what is no longer worked on, for all boxes. Running instances remove what is older, in "
    "small pieces, also while they are idle.\n"
    "Delivered messages: `boxes.NAME.keep`.",
    SECTION(retention_options)
};

static const struct option flow_options[] = {
    { "turns", OPTION_COUNT, "4", "Number of threads that run turns of flows.", FIELD(config, flows.turns), .min = 1,
      .max = 1024 },
    { "activities", OPTION_COUNT, "16", "Number of activities that run at once.", FIELD(config, flows.activities),
      .min = 1, .max = 1024 },
    { "turn_timeout", OPTION_DURATION, "20s",
      "Time for one turn. A turn waits for nothing, so one that takes longer hangs; after another half of this time "
      "the "
      "process ends, and the attempt counts.",
      FIELD(config, flows.turn_timeout_us), .min = PR_MILLISECONDS(100), .max = PR_SECONDS(3600) },
    { "activity_timeout", OPTION_DURATION, "5m",
      "Time for one try of an activity that sets no timeout of its own. The function is asked to stop; if it has not "
      "returned after another half of this time, the process ends, and the attempt counts.",
      FIELD(config, flows.activity_timeout_us), .min = PR_MILLISECONDS(100), .max = DAYS(7) },
    { "max_attempts", OPTION_COUNT, "5",
      "How often a turn or an activity is handed out without an outcome (a crash, a kill) before it is poison.",
      FIELD(config, flows.max_attempts), .min = 1, .max = 1000 },
    { "unknown", OPTION_DURATION, "24h",
      "How long a flow whose name or version no instance knows waits for an instance that does; after that it fails.",
      FIELD(config, flows.unknown_us), .min = 0, .max = DAYS(365) },
    { "keep_mail", OPTION_DURATION, "24h",
      "How long events and mail for a flow that does not exist yet are kept. `0s`: forever.",
      FIELD(config, flows.keep_mail_us), .min = 0, .max = DAYS(365) },
    { "cache", OPTION_SIZE, "64MiB", "Memory for the histories of recently run flows.",
      FIELD(config, flows.cache_bytes), .min = 0, .max = INT64_C(1) << 40 },
};
static const struct option_section option_flows = {
    "flows", "Flows run in programs that register them with pr_engine_flow() and pr_engine_activity().",
    SECTION(flow_options)
};

static const struct option root_options[] = {
    { "store", OPTION_TEXT, "sqlite:postrider.db",
      "Where the messages are stored: `sqlite:FILE`, relative to the configuration file, or "
      "`postgres://USER@HOST/DATABASE?schema=postrider` with any option of libpq. TLS with a verified certificate is "
      "the default, unless all servers are on this machine or `sslmode` is set. "
      "`sqlite:FILE?busy=5s&synchronous=full`: how long to wait for another program's write lock (default 5s), and "
      "whether a commit survives a power loss (`normal`: not the latest ones). `memory:NAME` keeps messages in the "
      "process, for tests: they are lost when it ends.",
      FIELD(config, store) },
    { "instance", OPTION_TEXT, "",
      "Name of this instance, for people; need not be unique. Default: the name of the host.",
      FIELD(config, instance) },
    { "lease", OPTION_DURATION, "15s", "How long an instance that stopped responding keeps its lanes.",
      FIELD(config, lease_us), .min = PR_MILLISECONDS(100), .max = PR_SECONDS(3600) },
    { "poll", OPTION_SECTION, "", "", .section = &option_poll },
    { "batch", OPTION_COUNT, "1000", "Maximum number of messages per cycle.", FIELD(config, batch), .min = 1,
      .max = 100000 },
    { "stop_timeout", OPTION_DURATION, "10s", "How long a stop waits for running deliveries.",
      FIELD(config, stop_timeout_us), .min = 0, .max = PR_SECONDS(3600) },
    { "limits", OPTION_SECTION, "", "", .section = &option_limits },
    { "retention", OPTION_SECTION, "", "", .section = &option_retention },
    { "flows", OPTION_SECTION, "", "", .section = &option_flows },
    { "ended", OPTION_DURATION, "24h",
      "How long `postrider why ID` knows when, where, by which instance and at which attempt a message was delivered, "
      "discarded or expired. It takes about 17 bytes per message. `0s`: not at all. What `boxes.NAME.keep` keeps is "
      "known as long as that.",
      FIELD(config, retention.ended_us), .min = 0, .max = DAYS(365) },
    { "boxes", OPTION_NAMED, "", "", COUNTED(config, boxes, box_count), .item_size = sizeof(struct config_box),
      .section = &option_box, .max = 256, .built_in = built_in_boxes, .is_name = option_is_box_name,
      .name_rule = "letters, digits and _, at most 63, not starting with a digit, and not a name that Postrider uses "
                   "for another table" },
    { "endpoints", OPTION_NAMED, "", "", COUNTED(config, endpoints, endpoint_count),
      .item_size = sizeof(struct config_endpoint), .section = &option_endpoint, .max = ENDPOINTS_MAX,
      .is_name = option_is_endpoint_name, .name_rule = "letters, digits and _ - ., at most 63" },
    { "routes", OPTION_LIST, "", "", COUNTED(config, routes, route_count), .item_size = sizeof(struct config_route),
      .section = &option_route, .max = 1024 },
    { "rules", OPTION_RULES, "", "", COUNTED(config, rules, rule_count), .section = &option_rule },
    { "sources", OPTION_LIST, "", "", COUNTED(config, sources, source_count), .item_size = sizeof(struct source_config),
      .section = &option_source, .max = 64 },
    { "schedules", OPTION_NAMED, "", "", COUNTED(config, schedules, schedule_count),
      .item_size = sizeof(struct config_schedule), .section = &option_schedule, .max = 10000,
      .is_name = schedule_name_is_valid,
      .name_rule = "letters, digits and _ - ., at most 100, starting with a letter or digit" },
    { "watch", OPTION_SECTION, "", "", .section = &option_watch },
    { "http", OPTION_SECTION, "", "", .section = &option_http },
    { "log", OPTION_SECTION, "", "", .section = &option_log },
};
const struct option_section option_root = { "", "", SECTION(root_options) };

static const char *const box_kinds[] = { "outbox", "inbox", "turns", "activities", NULL }; /* enum box_kind */

static const char *const no_duration[] = { "none", NULL }; /* 0 */

static const struct option box_options[] = {
    { "kind", OPTION_CHOICE, "outbox",
      "What the box is for. Routes and handlers that name no box take messages of every `outbox`; those of an `inbox` "
      "only go where a route or a handler names the box, or the message its destination. `turns` and `activities` hold "
      "what flows wait for and ask for; no source or handler can name them, and only routes to http, https and pull "
      "endpoints can name a box of `activities`. Default of the boxes `inbox`, "
      "`turns` "
      "and `activities`: their name.",
      FIELD(config_box, kind), .choices = box_kinds },
    { "table", OPTION_TEXT, "",
      "Its table in the database, when the name of the box is taken there; applications INSERT into this table. "
      "Letters, "
      "digits and _, at most 63 (PostgreSQL: 55). Commands and libraries still use the name of the box. The table of "
      "an existing box cannot be changed. Default: the name of the box.",
      FIELD(config_box, table) },
    { "keep", OPTION_DURATION, "0s", "How long delivered messages stay readable. `0s`: they are deleted at once.",
      FIELD(config_box, keep_us), .min = 0, .max = DAYS(3650) },
    { "dedupe", OPTION_DURATION, "none",
      "Each handler (endpoint) ends a message once: one with the same id that arrives within this time after it was "
      "delivered, expired or discarded is a duplicate, which is acknowledged, counted and not handled. Takes about 185 "
      "bytes per message and handler for this time on PostgreSQL, and 115 on SQLite. `none`: ids are only compared "
      "with what waits or is dead. Default "
      "of an `inbox`: `24h`.",
      FIELD(config_box, dedupe_us), .min = PR_SECONDS(1), .max = DAYS(365), .choices = no_duration },
};
const struct option_section option_box = {
    "boxes.NAME",
    "`outbox`, `inbox`, `turns` and `activities` always exist; other names create more boxes. A box that is not here, "
    "and that no route, source or handler names, is not worked on; `outbox` always is.",
    SECTION(box_options)
};

static const struct option retry_options[] = {
    { "base", OPTION_DURATION, "1s", "First delay; the delay after failure n is base x factor^n.",
      FIELD(retry_setting, base_us), .min = 0, .max = RETRY_DELAY_MAX_US },
    { "factor", OPTION_NUMBER, "2", "Growth of the delay.", FIELD(retry_setting, factor), .min = 1000, .max = 100000 },
    { "cap", OPTION_DURATION, "10m", "Longest delay. `0s`: no cap.", FIELD(retry_setting, cap_us), .min = 0,
      .max = RETRY_DELAY_MAX_US },
    { "failures", OPTION_COUNT, "8", "The message becomes a dead letter at this failure, as `blame` says. `0`: never.",
      FIELD(retry_setting, failures), .min = 0, .max = 1000000 },
    { "jitter", OPTION_NUMBER, "0.1", "`0.1` makes a delay up to 10 % longer, never shorter.",
      FIELD(retry_setting, jitter), .min = 0, .max = 1000 },
    { "blame", OPTION_CHOICE, "evidence",
      "Which failures count. `evidence`: faults of the endpoint do not count, a refused content makes a dead letter at "
      "the 3rd failure, and any other message becomes one only if another message of its type was delivered since its "
      "previous failure (until then it is tried on, at least 10 seconds apart). `always`: every failure counts. With "
      "`failures`, `delays` or a preset the default is "
      "`always`.",
      FIELD(retry_setting, blame), .choices = blames },
    { "give_up", OPTION_DURATION, "3d",
      "With `blame: evidence`: a message becomes a dead letter after failing for this long without evidence. `0s`: "
      "never.",
      FIELD(retry_setting, give_up_us), .min = 0, .max = RETRY_DELAY_MAX_US },
    { "delays", OPTION_DELAYS, "",
      "A list of delays instead of the formula, one per failure; one more failure makes a dead letter.",
      COUNTED(retry_setting, delays, delay_count), .max = RETRY_DELAYS_MAX },
};
const struct option_section option_retry = { "endpoints.NAME.retry",
                                             "When to retry after a failure. A list, `retry: [10s, 60s, 5m]`, is short "
                                             "for `{delays: [10s, 60s, 5m], jitter: 0}`.",
                                             SECTION(retry_options) };

static const struct option breaker_options[] = {
    { "after", OPTION_COUNT, "5",
      "Opens after this many failures in a row. Where every failure counts (`blame: always`, a rule), they must be of "
      "different messages.",
      FIELD(breaker_setting, after), .min = 1, .max = BREAKER_AFTER_MAX },
    { "open", OPTION_DURATION, "5s", "Pause before a probe; doubled each time a probe fails.",
      FIELD(breaker_setting, open_us), .min = 1000, .max = DAYS(1) },
    { "cap", OPTION_DURATION, "5m", "Longest pause before a probe.", FIELD(breaker_setting, cap_us), .min = 1000,
      .max = DAYS(1) },
    { "per", OPTION_CHOICE, "type",
      "`type`: answers count per message type, and failures to send count for the endpoint. `endpoint`: everything "
      "counts for the endpoint.",
      FIELD(breaker_setting, per_type), .choices = watches },
    { "share", OPTION_NUMBER, "0",
      "Opens at this share of failures instead of `after`: `0.5` when half of the attempts within `window` failed for "
      "transient reasons. `0`: off.",
      FIELD(breaker_setting, share), .min = 0, .max = 1000 },
    { "window", OPTION_DURATION, "30s", "for `share`", FIELD(breaker_setting, window_us), .min = PR_MILLISECONDS(100),
      .max = DAYS(1) },
    { "least", OPTION_COUNT, "20", "Attempts within `window` before `share` applies.", FIELD(breaker_setting, least),
      .min = 1, .max = 1000000 },
};
const struct option_section option_breaker = { "endpoints.NAME.breaker",
                                               "Circuit breaker: while the endpoint is failing nothing is sent except "
                                               "probes, and no failures are counted. `breaker: off` disables it.",
                                               SECTION(breaker_options) };

static const struct option batch_options[] = {
    { "messages", OPTION_COUNT, "100", "Maximum number of messages in one request.", FIELD(config_batch, messages),
      .min = 1, .max = BUNDLE_MAX },
    { "bytes", OPTION_SIZE, "256KiB",
      "Maximum total size of the messages in one request; a larger message is sent alone.", FIELD(config_batch, bytes),
      .min = 1, .max = MIB(64) },
};
const struct option_section option_batch = {
    "endpoints.NAME.batch",
    "For `envelope: batch`. A batch takes the waiting messages when one of the `concurrency` requests (default 4) is "
    "free. A batch that is refused as a whole is split until the message at fault is alone.",
    SECTION(batch_options)
};

#define ENDPOINT_HEADERS_MAX 64
static const char *const methods[] = { "POST", "PUT", "PATCH", NULL };

/* preset stands before retry and breaker, so that they can change what it sets. */
static const struct option endpoint_options[] = {
    { "url", OPTION_TEXT, "",
      "Destination: `https://...`, `amqp://...`, `amqp1://...`, `nats://...`, `kafka://...`, `mqtt://...`, "
      "`redis://...`, `exec:PROGRAM`, `file:NAME`, `handler:NAME`, `pull:` (workers claim over HTTP), `box:NAME` "
      "(another box), `console`, `null`",
      .required = true, FIELD(config_endpoint, url) },
    { "source", OPTION_TEXT, "postrider", "CloudEvents source of messages without one.",
      FIELD(config_endpoint, source) },
    { "envelope", OPTION_WORD, "binary",
      "CloudEvents mode; `batch` sends several messages in one request, `raw` sends only payload and headers.",
      FIELD(config_endpoint, envelope), .choices = envelopes },
    { "ordering", OPTION_CHOICE, "fifo",
      "What the followers in a stream do when its head fails: `fifo` waits for it; `strict` waits even if it is dead "
      "or parked; `available` continues; `none` ignores streams.",
      FIELD(config_endpoint, ordering), .choices = orderings },
    { "timeout", OPTION_DURATION, "20s", "Timeout of one attempt.", FIELD(config_endpoint, timeout_us), .min = 1000,
      .max = PR_SECONDS(3600) },
    { "max_attempts", OPTION_COUNT, "5",
      "Maximum number of attempts without an outcome (crashes); one more quarantines the message.",
      FIELD(config_endpoint, max_attempts), .min = 1, .max = 1000 },
    { "preset", OPTION_PRESET, "",
      "Uses retry and breaker values of another system; `retry` and `breaker` override single values.",
      FIELD(config_endpoint, preset), .choices = presets },
    { "retry", OPTION_RETRY, "", "", FIELD(config_endpoint, retry), .section = &option_retry },
    { "breaker", OPTION_BREAKER, "", "", FIELD(config_endpoint, breaker), .section = &option_breaker },
    { "batch", OPTION_SECTION, "", "", FIELD(config_endpoint, batch), .section = &option_batch },
    { "concurrency", OPTION_COUNT, "0",
      "Maximum number of concurrent deliveries (or batches) of one process, over all boxes. Where several boxes use "
      "the endpoint and it sends batches, the messages in them are counted. `0`: as many as the transport supports, "
      "for each box.",
      FIELD(config_endpoint, concurrency), .min = 0, .max = 100000 },
    { "max_payload", OPTION_SIZE, "0B",
      "Larger payloads are not sent: they fail at once as `message_too_large`. `0B`: only limits.payload applies.",
      FIELD(config_endpoint, payload_max), .min = 0, .max = PR_PAYLOAD_MAX },
    { "mode", OPTION_CHOICE, "durable",
      "`durable`: stored, then sent. `inline`: pr_engine_send() sends in the caller's thread and only stores what it "
      "could not send.",
      FIELD(config_endpoint, mode), .choices = modes },
    { "isolation", OPTION_CHOICE, "thread",
      "`handler:` only. `process`: the function runs in a process of its own (`concurrency` of them, default 1): when "
      "it "
      "crashes or does not stop in time, only its message fails. See doc/handlers.md.",
      FIELD(config_endpoint, isolation), .choices = isolations },
    { "allow_networks", OPTION_NETWORKS, "",
      "Networks that webhooks can reach in addition to public addresses: `[127.0.0.0/8, fd00::/8]`.",
      COUNTED(config_endpoint, allow_networks, allow_network_count), .max = 256 },
    { "ca", OPTION_TEXT, "",
      "File with the CA certificates (PEM) to trust instead of the system's. Certificates are always verified.",
      FIELD(config_endpoint, ca) },
    { "cert", OPTION_TEXT, "", "File with the client certificate (PEM), for servers that require one.",
      FIELD(config_endpoint, cert) },
    { "key", OPTION_TEXT, "", "File with the private key (PEM). Default: the key is in `cert`.",
      FIELD(config_endpoint, key) },
    { "sign", OPTION_SECRETS, "",
      "Signs webhooks as Standard Webhooks specifies: `${file:billing.key}` containing `whsec_...`. During a key "
      "change give a list, newest first: every key signs.",
      COUNTED(config_endpoint, sign, sign_count), .max = SIGN_KEYS_MAX },
    { "method", OPTION_WORD, "POST", "Method of webhook requests.", FIELD(config_endpoint, method),
      .choices = methods },
    { "headers", OPTION_HEADERS, "",
      "Headers of every webhook request, for example `{x-api-key: \"${API_KEY}\"}`. They replace headers of the same "
      "name that a message has. Values are not shown.",
      COUNTED(config_endpoint, headers, header_count), .max = ENDPOINT_HEADERS_MAX, .secret = true },
    { "proxy", OPTION_TEXT, "",
      "Proxy for webhook requests, `http://proxy.example:3128`. A private address must be in `allow_networks`; what "
      "the proxy may reach is then up to the proxy. Proxies of the environment are never used.",
      FIELD(config_endpoint, proxy), .secret = true },
    { "rate", OPTION_RATE, "",
      "Maximum rate of one process, over all boxes: `100/s`, `6000/m` or `500/h`. A burst is at most a tenth of a "
      "second's worth. Excess messages wait; waiting is not a failure. Default: unlimited.",
      FIELD(config_endpoint, rate) },
    { "rules", OPTION_RULES, "", "Rules of this endpoint, evaluated before the global `rules`.",
      COUNTED(config_endpoint, rules, rule_count) },
};
const struct option_section option_endpoint = { "endpoints.NAME",
                                                "A named destination. A message names it, or a route does.",
                                                SECTION(endpoint_options) };

static const struct option route_options[] = {
    { "box", OPTION_TEXT, "", "Only messages of this box. Empty: messages of every box of the kind `outbox`.",
      FIELD(config_route, box) },
    { "type", OPTION_TEXT, "", "A glob. Empty: matches all.", FIELD(config_route, type) },
    { "source", OPTION_TEXT, "", "A glob. Empty: matches all.", FIELD(config_route, source) },
    { "stream", OPTION_TEXT, "", "A glob. Empty: matches all.", FIELD(config_route, stream) },
    { "header", OPTION_HEADERS, "",
      "Headers that the message must have, `{x-tenant: acme*}`: globs, all must match; header names ignore case.",
      COUNTED(config_route, headers, header_count), .max = ROUTE_HEADERS_MAX },
    { "to", OPTION_NAMES, "", "One endpoint or a list of endpoints.", .required = true,
      COUNTED(config_route, to, to_count), .max = ENDPOINTS_MAX },
};
const struct option_section option_route = {
    "routes", "A list, for messages without a destination. A message goes to the endpoints of all routes that match.",
    SECTION(route_options)
};

/* preset stands before what it sets. */
static const struct option source_options[] = {
    { "table", OPTION_TEXT, "",
      "Another product's outbox table in the store's PostgreSQL database, `SCHEMA.NAME`; upper and lower case matter. "
      "The table is never altered.",
      FIELD(source_config, table.table) },
    { "wal", OPTION_TEXT, "",
      "The log of the store's PostgreSQL server: inserts into boxes wake Postrider at once, and messages emitted with "
      "this prefix, `pg_logical_emit_message(true, 'PREFIX', ...)` or `'PREFIX:BOX'`, are stored. See doc/wal.md.",
      FIELD(source_config, wal.prefix) },
    { "events", OPTION_TEXT, "",
      "A subscription of the event store, by a name of its own: each event becomes a message to the endpoint `to`, in "
      "the order of all events. See doc/events.md.",
      FIELD(source_config, events.name) },
    { "to", OPTION_TEXT, "", "events: the endpoint.", FIELD(source_config, events.to) },
    { "types", OPTION_TEXT, "", "events: a glob; only events of these types are sent: `order.*`.",
      FIELD(source_config, events.types) },
    { "redis", OPTION_TEXT, "",
      "A Redis stream, read by a consumer group: `redis://host/?stream=orders&group=postrider`. For this and the "
      "following keys see doc/brokers.md, \"Receiving\".",
      FIELD(source_config, urls[SOURCE_REDIS]) },
    { "nats", OPTION_TEXT, "",
      "A stream of NATS JetStream, read by a durable consumer: `nats://host/?stream=ORDERS&consumer=postrider`.",
      FIELD(source_config, urls[SOURCE_NATS]) },
    { "mqtt", OPTION_TEXT, "",
      "A topic or a filter of topics, subscribed to with MQTT 5 and a session that is kept: `mqtt://host/orders/+`.",
      FIELD(source_config, urls[SOURCE_MQTT]) },
    { "amqp", OPTION_TEXT, "", "A queue of RabbitMQ: `amqp://user:password@host/VHOST?queue=orders`.",
      FIELD(source_config, urls[SOURCE_AMQP]) },
    { "amqp1", OPTION_TEXT, "",
      "A queue that is read with AMQP 1.0 (Azure Service Bus, Artemis, RabbitMQ with its plugin): "
      "`amqp1://user:password@host/orders`.",
      FIELD(source_config, urls[SOURCE_AMQP1]) },
    { "kafka", OPTION_TEXT, "", "A topic of Kafka, read in a group: `kafka://host1,host2/orders?group=postrider`.",
      FIELD(source_config, urls[SOURCE_KAFKA]) },
    { "http", OPTION_TEXT, "",
      "What others POST: CloudEvents, Standard Webhooks or any body, at `http://127.0.0.1:8090/hooks/orders`. Sources "
      "with one address share it. Addresses other than loopback need `token` or `secrets`; TLS needs a proxy.",
      FIELD(source_config, urls[SOURCE_HTTP]) },
    { "file", OPTION_TEXT, "",
      "Lines of a file that grows, each a JSON object: `file:/var/log/orders.jsonl`; `file:-` is the standard input, "
      "`?format=text` takes any line.",
      FIELD(source_config, urls[SOURCE_FILE]) },
    { "token", OPTION_TEXT, "", "http: senders must give it, `Authorization: Bearer TOKEN`: `${file:token}`.",
      FIELD(source_config, http.token), .secret = true },
    { "secrets", OPTION_SECRETS, "",
      "http: senders must sign as Standard Webhooks specifies, with one of these: `${file:shop.key}` containing "
      "`whsec_...`. During a key change give a list.",
      COUNTED(source_config, http.secrets, http.secret_count), .max = SIGN_KEYS_MAX },
    { "tolerance", OPTION_DURATION, "5m", "http: how far the time of a signature may be from the current time.",
      FIELD(source_config, http.tolerance_us), .min = PR_SECONDS(1), .max = PR_SECONDS(86400) },
    { "box", OPTION_TEXT, "outbox", "Box for its messages. Default for those with a url: `inbox`.",
      FIELD(source_config, box) },
    { "name", OPTION_TEXT, "",
      "Sources with a url: the name of the source in ids, positions, metrics and the log. Default: its kind and what "
      "it "
      "reads, such as `amqp:orders`. Sources that read different brokers into one store need different names. After a "
      "change of the name, messages without a UUID of their own get other ids.",
      FIELD(source_config, given_name) },
    { "slot", OPTION_TEXT, "", "wal: name of the replication slot. Default: `SCHEMA_DATABASE`.",
      FIELD(source_config, wal.slot) },
    { "publication", OPTION_TEXT, "", "wal: name of the publication. Default: the name of the slot.",
      FIELD(source_config, wal.publication) },
    { "max_lag", OPTION_SIZE, "1GiB",
      "wal: most log that the server should keep for the slot; half of it raises a warning.",
      FIELD(source_config, wal.max_lag), .min = MIB(1), .max = MIB(1048576) },
    { "messages", OPTION_CHOICE, "on", "wal: `off`: inserts only wake Postrider; nothing is read from the log.",
      FIELD(source_config, wal.letters), .choices = switches },
    { "poll", OPTION_DURATION, "1s",
      "Longest pause between two polls of an idle table or event store; the shortest is `poll.min`.",
      FIELD(source_config, poll_us), .min = 1000, .max = PR_SECONDS(3600) },
    { "time_zone", OPTION_TEXT, "UTC", "Time zone of timestamps without one: `Europe/Berlin`.",
      FIELD(source_config, table.time_zone) },
    { "preset", OPTION_PRESET, "generic",
      "Product that owns the table: sets its columns and how it marks a row as done. Other keys override single "
      "values.",
      FIELD(source_config, preset), .choices = adopt_presets },
#define X(field, key, kind, doc) { key, OPTION_TEXT, "", doc, FIELD(source_config, table.fields[ADOPT_##field]) },
    ADOPT_FIELDS(X)
#undef X
        { "pending", OPTION_VALUES, "",
          "Rows that are waiting, `{Status: Pending}`: for each column a value, `null`, or a list. Default: all rows "
          "that are not done.",
          COUNTED(source_config, table.pending, table.pending_count), .max = ADOPT_VALUES_MAX },
    { "done", OPTION_DONE, "",
      "What to do with a row after it was taken: `delete`, or `{set: {Status: Completed, ProcessedAt: now()}}`; "
      "`now()+24h` is a later time.",
      COUNTED(source_config, table.set, table.set_count), .max = ADOPT_VALUES_MAX },
};
const struct option_section option_source = {
    "sources",
    "A list: tables whose rows are moved into a box, the server's log, the event store, brokers. The keys from `id` to "
    "`order` name the "
    "columns that hold the parts of a message.\n"
    "A text can have alternatives: `type: header:event-type|kind|=unknown` is the member `event-type` of the\n"
    "headers, or else the column `kind`, or else this text. `postrider adopt --check` checks a table; see "
    "doc/adopting.md.",
    SECTION(source_options)
};

static const char *const missed_words[] = { "once", "skip", "all", NULL }; /* enum schedule_missed */

static const struct option schedule_options[] = {
    { "cron", OPTION_TEXT, "",
      "When: minute, hour, day of month, month and day of week, as in crontab: `0 3 * * 1-5`. Also `@hourly`, "
      "`@daily`, "
      "`@weekly`, `@monthly` and `@yearly`.",
      FIELD(config_schedule, cron), .required = true },
    { "zone", OPTION_TEXT, "UTC",
      "Time zone of these times: `Europe/Berlin`. A time skipped by a clock change runs at the change; a repeated "
      "one runs the first time.",
      FIELD(config_schedule, zone) },
    { "type", OPTION_TEXT, "", "Type of the message.", FIELD(config_schedule, type), .required = true },
    { "missed", OPTION_CHOICE, "once",
      "What to do about times that were missed because no instance was running. `once`: one message, for the latest of "
      "them; `skip`: none; `all`: one for each, at most 1,000 after a gap.",
      FIELD(config_schedule, missed), .choices = missed_words },
    { "grace", OPTION_DURATION, "1m", "How late a time can be before it counts as missed.",
      FIELD(config_schedule, grace_us), .min = PR_SECONDS(1), .max = DAYS(365) },
    { "paused", OPTION_CHOICE, "off", "`on`: a new schedule starts paused, until `postrider schedules resume NAME`.",
      FIELD(config_schedule, paused), .choices = switches },
    { "box", OPTION_TEXT, "outbox", "Box that gets the message.", FIELD(config_schedule, box) },
    { "to", OPTION_TEXT, "", "Endpoint of the message. Default: the routes decide.", FIELD(config_schedule, to) },
    { "stream", OPTION_TEXT, "", "Stream of the message.", FIELD(config_schedule, stream) },
    { "event", OPTION_CHOICE, "off", "`on`: the message is also an event of its stream, see doc/events.md.",
      FIELD(config_schedule, event), .choices = switches },
    { "subject", OPTION_TEXT, "", "Subject of the message.", FIELD(config_schedule, subject) },
    { "source", OPTION_TEXT, "", "Source of the message. Default: as for all messages of the endpoint.",
      FIELD(config_schedule, source) },
    { "content_type", OPTION_TEXT, "", "Content type of the payload. Default: `application/json`.",
      FIELD(config_schedule, content_type) },
    { "headers", OPTION_TEXT, "", "Headers of the message, a JSON object: `'{\"x-tenant\":\"acme\"}'`.",
      FIELD(config_schedule, headers) },
    { "payload", OPTION_TEXT, "", "Payload of the message.", FIELD(config_schedule, payload) },
};
const struct option_section option_schedule = { "schedules.NAME",
                                                "A message that is sent again and again, each time exactly once over "
                                                "all instances. Of two configurations the one of "
                                                "the later start\n"
                                                "counts; a schedule that it does not have any more is cancelled. The "
                                                "message has the headers `postrider-schedule` and "
                                                "`postrider-due`.\n"
                                                "See doc/schedules.md.",
                                                SECTION(schedule_options) };

/* ---- Rules: read by config_rule.c ---- */

#define MATCHER(match) .kind = OPTION_MATCH, .fallback = "", .min = MATCH_##match
#define ACTION(key) .kind = OPTION_STEP, .fallback = "", .min = STEP_KEY_##key

static const struct option rule_options[] = {
    { .name = "name",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "Name in histories, dead letters and `why`. Default: `rule N`." },
    { .name = "when", .kind = OPTION_MATCH, .fallback = "", .doc = "", .section = &option_when },
    { .name = "then", .kind = OPTION_STEP, .fallback = "", .doc = "", .section = &option_step },
};
const struct option_section option_rule = {
    "rules",
    "What happens after a failure. The endpoint's own rules come first, then these; the first match decides. If none\n"
    "matches, the endpoint's `retry` and `breaker` decide. `postrider policy explain` shows what a rule does, `policy "
    "check` finds rules\n"
    "that never apply.",
    SECTION(rule_options)
};

static const struct option when_options[] = {
    { .name = "reason", MATCHER(REASON), .doc = "`timeout_exceeded`, `rejected`, ...: one or a list." },
    { .name = "class", MATCHER(CLASS), .doc = "`transient`, `permanent`, `unknown`: one or a list." },
    { .name = "code", MATCHER(CODE), .doc = "Error code of the broker: globs." },
    { .name = "error", MATCHER(ERROR), .doc = "Text of the failure.", .section = &option_match_error },
    { .name = "type", MATCHER(TYPE), .doc = "Type of the message: globs." },
    { .name = "endpoint", MATCHER(ENDPOINT), .doc = "globs" },
    { .name = "stream", MATCHER(STREAM), .doc = "globs" },
    { .name = "size", MATCHER(SIZE), .doc = "Size of the payload: `{min: 64KiB}`.", .section = &option_range },
    { .name = "age", MATCHER(AGE), .doc = "Time since the message was stored: `{max: 1h}`." },
    { .name = "failures",
      MATCHER(FAILURES),
      .doc = "Failures of this message, including this one: `{max: 3}`, or `3`." },
    { .name = "and", MATCHER(ALL), .doc = "A list of `when`: all must match." },
    { .name = "or", MATCHER(ANY), .doc = "A list of `when`: at least one must match." },
    { .name = "not", MATCHER(NOT), .doc = "A `when` that must not match." },
};
const struct option_section option_when = { "rules.when",
                                            "All given keys must match; in a list one entry is enough. Without `when` "
                                            "a rule matches every failure. Globs cover the whole\n"
                                            "text and are case-sensitive.",
                                            SECTION(when_options) };

static const struct option match_error_options[] = {
    { .name = "contains",
      .kind = OPTION_NAMES,
      .fallback = "",
      .doc = "The text contains one of these; `error: TEXT` is short for it." },
    { .name = "glob", .kind = OPTION_NAMES, .fallback = "", .doc = "The text equals one of these." },
};
const struct option_section option_match_error = { "rules.when.error", "What the endpoint answered, in words.",
                                                   SECTION(match_error_options) };

static const struct option range_options[] = {
    { .name = "min", .kind = OPTION_TEXT, .fallback = "", .doc = "This value or more." },
    { .name = "max", .kind = OPTION_TEXT, .fallback = "", .doc = "This value or less." },
};
const struct option_section option_range = { "rules.when.size, age, failures", "One of the two is enough.",
                                             SECTION(range_options) };

static const struct option step_options[] = {
    { .name = "retry_now", ACTION(RETRY_NOW), .doc = "Retry at once, for this many failures." },
    { .name = "retry",
      ACTION(RETRY),
      .doc = "Retry after these delays, one failure each: `[5s, 30s]`; or a formula as in `endpoints.NAME.retry`, up "
             "to its last failure." },
    { .name = "dead_letter",
      ACTION(DEAD_LETTER),
      .doc = "Move the message to the dead letters.",
      .section = &option_dead_letter },
    { .name = "discard", ACTION(DISCARD), .doc = "Delete the message; it is counted and logged in one line." },
    { .name = "park", ACTION(PARK), .doc = "Set the message aside until an operator retries it." },
    { .name = "pause",
      ACTION(PAUSE),
      .doc = "Pause the endpoint for this long, or `until_resumed`. Next to another action, or alone: the message is "
             "then put back and the failure is not counted." },
    { .name = "raise",
      ACTION(RAISE),
      .doc = "Next to another action: also send a message about the failure. Raised messages never raise others.",
      .section = &option_raise },
    { .name = "call",
      ACTION(CALL),
      .doc = "Next to another action: also call a function that the program registered with pr_engine_call(). Alone: "
             "the function decides; if it does not, the next step does." },
};
const struct option_section option_step = { "rules.then",
                                            "Steps, in order of the message's failures: one step or a list. "
                                            "`dead_letter`, `discard` and `park` can be written as\n"
                                            "a word. A rule that runs out of steps makes a dead letter.",
                                            SECTION(step_options) };

static const struct option dead_letter_options[] = {
    { .name = "to",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "Send it to this endpoint instead, with `postrider-dead-` headers that say why. If it fails there, too, "
             "it goes into the table." },
};
const struct option_section option_dead_letter = { "rules.then.dead_letter", "`{}` means the table of dead letters.",
                                                   SECTION(dead_letter_options) };

static const struct option raise_options[] = {
    { .name = "type", .kind = OPTION_TEXT, .fallback = "", .doc = "Type of the new message.", .required = true },
    { .name = "to",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "Endpoint of the message. Default: the routes decide." },
    { .name = "stream", .kind = OPTION_TEXT, .fallback = "", .doc = "a template" },
    { .name = "payload",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "Template of the payload. Default: a JSON object with all values." },
};
const struct option_section option_raise = { "rules.then.raise",
                                             "Stored in the same transaction as the outcome of the failed message. In "
                                             "templates `{id}` `{type}` `{stream}` `{endpoint}`\n"
                                             "`{box}` `{reason}` `{code}` `{error}` `{failures}` `{attempts}` `{rule}` "
                                             "`{at}` stand for values of the failed message.",
                                             SECTION(raise_options) };

const struct option *option_find(const struct option_section *section, const char *name)
{
    for (size_t i = 0; i < section->count; i++)
        if (strcmp(section->options[i].name, name) == 0)
            return &section->options[i];
    return NULL;
}

/* The other tables and the views of a store; SQLite does not look at case and keeps sqlite_ for itself. */
bool option_is_box_name(pr_slice name)
{
    static const char *const taken[] = {
        "meta",      "box",       "instance",          "claim",           "endpoint", "control",
        "audit",     "done",      "messages",          "dead_letter",     "flow",     "flow_execution",
        "flow_mail", "in_flight", "endpoint_overview", "blocked_streams", "breaker",  "open_breaker",
        "wal_slot",  "wal_place", "raised_warning",    "ended",
    };

    for (size_t i = 0; i < ARRAY_LENGTH(taken); i++)
        if (name.size == strlen(taken[i]) && strncasecmp(name.data, taken[i], name.size) == 0)
            return false;
    return name_is_valid(name) && !(name.size >= 7 && strncasecmp(name.data, "sqlite_", 7) == 0);
}

bool option_is_box_table(pr_slice name)
{
    return option_is_box_name(name) && !(name.size >= 10 && strncasecmp(name.data, "postrider_", 10) == 0);
}

bool option_is_endpoint_name(pr_slice name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
              c == '.'))
            return false;
    }
    return name.size > 0 && name.size <= CONFIG_NAME_MAX;
}

const char *option_kind_name(enum option_kind kind)
{
    switch (kind) {
    case OPTION_TEXT: return "text";
    case OPTION_DURATION: return "duration";
    case OPTION_SIZE: return "size";
    case OPTION_COUNT: return "count";
    case OPTION_NUMBER: return "number";
    case OPTION_CHOICE:
    case OPTION_WORD:
    case OPTION_PRESET: return "word";
    case OPTION_NAMES: return "names";
    case OPTION_SECRETS: return "secrets";
    case OPTION_RATE: return "rate";
    case OPTION_HEADERS: return "map";
    case OPTION_NETWORKS: return "list of networks";
    case OPTION_DELAYS: return "list of durations";
    case OPTION_SECTION:
    case OPTION_RETRY:
    case OPTION_BREAKER:
    case OPTION_NAMED: return "map";
    case OPTION_LIST: return "list";
    case OPTION_RULES: return "list of rules";
    case OPTION_VALUES: return "map";
    case OPTION_DONE: return "`delete` or map";
    case OPTION_MATCH: return "matcher";
    case OPTION_STEP: return "step";
    }
    ASSERT(!"every kind has its name");
    return "";
}

static const int64_t finitech_delays[] = { PR_SECONDS(10), PR_SECONDS(60), PR_MINUTES(5) };

bool option_preset(const char *name, struct retry_setting *ret_retry, struct breaker_setting *ret_breaker)
{
    static const struct {
        const char *name;
        struct retry_setting retry;
    } table[] = {
        { "cloudeventbus", { .base_us = PR_SECONDS(1), .factor = 2, .cap_us = PR_MINUTES(5), .failures = 5 } },
        { "whizbang", { .base_us = PR_SECONDS(30), .factor = 2, .failures = 10 } },
        { "finitech",
          { .base_us = PR_SECONDS(1),
            .factor = 2,
            .cap_us = PR_MINUTES(5),
            .failures = 5,
            .delays = finitech_delays,
            .delay_count = ARRAY_LENGTH(finitech_delays) } },
    };

    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        if (strcmp(table[i].name, name) == 0) {
            *ret_retry = table[i].retry;
            ret_breaker->enabled = false;
            return true;
        }
    }
    return false;
}
