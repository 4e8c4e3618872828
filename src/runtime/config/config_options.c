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
static const char *const switches[] = { "off", "on", NULL };
static const char *const levels[] = { "debug", "info", "warn", "error", "none", NULL };
static const char *const built_in_boxes[] = { "outbox", "inbox", NULL };
static const char *const formats[] = { "text", "json", NULL };

_Static_assert(ORDERING_FIFO == 0 && ORDERING_STRICT == 1 && ORDERING_AVAILABLE == 2 && ORDERING_NONE == 3, "");
_Static_assert(LOG_DEBUG == 0 && LOG_INFO == 1 && LOG_WARN == 2 && LOG_ERROR == 3 && LOG_NONE == 4, "");
_Static_assert(LOG_LOGFMT == 0 && LOG_JSON == 1, "");

static const struct option poll_options[] = {
    { "min", OPTION_DURATION, "2ms", "the shortest pause between two looks at a busy store", FIELD(config, poll_min_us),
      .min = 100, .max = PR_SECONDS(60) },
    { "max", OPTION_DURATION, "200ms",
      "the longest pause while nothing happens: how late a message of another process may be noticed "
      "(PostgreSQL: the more boxes, the later, up to a second with two)",
      FIELD(config, poll_max_us), .min = 1000, .max = PR_SECONDS(60) },
};
static const struct option_section option_poll = {
    "poll", "How often a store that cannot wake us is looked at; the pause adapts between the two.",
    SECTION(poll_options)
};

static const struct option limits_options[] = {
    { "payload", OPTION_SIZE, "1MiB", "the largest payload that may be sent", FIELD(config, payload_max), .min = 1,
      .max = PR_PAYLOAD_MAX },
    { "in_flight", OPTION_COUNT, "10000", "messages in memory at once, read ahead or on their way",
      FIELD(config, in_flight_max), .min = 1, .max = 1000000 },
    { "in_flight_bytes", OPTION_SIZE, "64MiB", "the same in bytes", FIELD(config, in_flight_bytes_max), .min = MIB(1),
      .max = MIB(65536) },
};
static const struct option_section option_limits = { "limits", "Memory stays within these, whatever the backlog.",
                                                     SECTION(limits_options) };

static const struct option http_options[] = {
    { "listen", OPTION_TEXT, "",
      "address and port of the API: `127.0.0.1:8026`, port 0 takes a free one; or a socket file: "
      "`unix:/run/postrider.sock`; addresses that are not loopback need a token; empty: none",
      FIELD(config, http_listen) },
    { "token", OPTION_TEXT, "", "who has it may see and change everything: `${file:token}`, 16 characters or more",
      FIELD(config, http_token), .secret = true },
    { "viewer_token", OPTION_TEXT, "", "who has it may see everything", FIELD(config, http_viewer_token),
      .secret = true },
    { "hosts", OPTION_NAMES, "", "names by which it may be called, beside addresses and localhost",
      COUNTED(config, http_hosts, http_host_count), .max = 64 },
};
static const struct option_section option_http = { "http", "The operators' plane.", SECTION(http_options) };

static const struct option log_options[] = {
    { "level", OPTION_CHOICE, "info", "what is less important is not logged", FIELD(config, log_level),
      .choices = levels },
    { "format", OPTION_CHOICE, "text", "`text` is logfmt", FIELD(config, log_format), .choices = formats },
};
static const struct option_section option_log = { "log", "Written to standard error. A reload does not change it.",
                                                  SECTION(log_options) };

static const struct option watch_raise_options[] = {
    { "type", OPTION_TEXT, "", "of the message, like `postrider.warning`; empty: none is sent",
      FIELD(config, watch.raise_type) },
    { "to", OPTION_TEXT, "", "an endpoint; without it the routes decide", FIELD(config, watch.raise_to) },
};
static const struct option_section option_watch_raise = {
    "watch.raise",
    "A message in `outbox` when a warning begins, once for all instances. Its payload is a JSON object: `check`, "
    "`about` (the box), "
    "`advice`,\n`instance`, `at`. It never raises another.",
    SECTION(watch_raise_options)
};

static const struct option watch_options[] = {
    { "every", OPTION_DURATION, "10s", "how often a running instance looks, when it is to raise messages",
      FIELD(config, watch.every_us), .min = PR_MILLISECONDS(100), .max = PR_SECONDS(3600) },
    { "stuck", OPTION_DURATION, "1m", "a message is ready for longer, and an instance that has the lease sends nothing",
      FIELD(config, watch.stuck_us), .min = PR_SECONDS(1), .max = DAYS(1) },
    { "oldest", OPTION_DURATION, "5m", "the oldest ready message waits for longer", FIELD(config, watch.oldest_us),
      .min = PR_SECONDS(1), .max = DAYS(365) },
    { "deaths", OPTION_COUNT, "10", "so many dead letters within `deaths_within` are more than accidents",
      FIELD(config, watch.deaths), .min = 1, .max = 10000 },
    { "deaths_within", OPTION_DURATION, "10m", "", FIELD(config, watch.deaths_within_us), .min = PR_SECONDS(1),
      .max = DAYS(1) },
    { "calm", OPTION_DURATION, "10m", "a warning that did not hold for so long is over: the next one is raised anew",
      FIELD(config, watch.calm_us), .min = PR_SECONDS(1), .max = DAYS(1) },
    { "raise", OPTION_SECTION, "", "", .section = &option_watch_raise },
};
static const struct option_section option_watch = {
    "watch",
    "Watchdogs: `postrider status` and `/health` warn from here on, each with advice. Hand-outs without an outcome are "
    "told one before\n"
    "`endpoints.NAME.max_attempts`, and somebody who keeps the store from cleaning up is told by the store.",
    SECTION(watch_options)
};

static const struct option root_options[] = {
    { "store", OPTION_TEXT, "sqlite:postrider.db",
      "where the messages are: `sqlite:FILE`, relative to the current directory, or "
      "`postgres://USER@HOST/DATABASE?schema=postrider` with any option of libpq; TLS with a checked certificate, "
      "unless "
      "every server that it names is this machine or `sslmode` says otherwise",
      FIELD(config, store) },
    { "instance", OPTION_TEXT, "${HOSTNAME:-local}", "the name of this instance, for people; it need not be unique",
      FIELD(config, instance) },
    { "lease", OPTION_DURATION, "15s", "how long a silent instance keeps its lanes", FIELD(config, lease_us),
      .min = PR_MILLISECONDS(100), .max = PR_SECONDS(3600) },
    { "poll", OPTION_SECTION, "", "", .section = &option_poll },
    { "batch", OPTION_COUNT, "1000", "messages per cycle at most", FIELD(config, batch), .min = 1, .max = 100000 },
    { "stop_timeout", OPTION_DURATION, "10s", "how long a stop waits for what is in flight",
      FIELD(config, stop_timeout_us), .min = 0, .max = PR_SECONDS(3600) },
    { "limits", OPTION_SECTION, "", "", .section = &option_limits },
    { "boxes", OPTION_NAMED, "", "", COUNTED(config, boxes, box_count), .item_size = sizeof(struct config_box),
      .section = &option_box, .max = 256, .built_in = built_in_boxes, .is_name = option_is_box_name,
      .name_rule = "letters, digits and _, at most 63, not a digit first, and no name of a table that is no box" },
    { "endpoints", OPTION_NAMED, "", "", COUNTED(config, endpoints, endpoint_count),
      .item_size = sizeof(struct config_endpoint), .section = &option_endpoint, .max = ENDPOINTS_MAX,
      .is_name = option_is_endpoint_name, .name_rule = "letters, digits and _ - ., at most 63" },
    { "routes", OPTION_LIST, "", "", COUNTED(config, routes, route_count), .item_size = sizeof(struct config_route),
      .section = &option_route, .max = 1024 },
    { "rules", OPTION_RULES, "", "", COUNTED(config, rules, rule_count), .section = &option_rule },
    { "sources", OPTION_LIST, "", "", COUNTED(config, sources, source_count), .item_size = sizeof(struct source_config),
      .section = &option_source, .max = 64 },
    { "watch", OPTION_SECTION, "", "", .section = &option_watch },
    { "http", OPTION_SECTION, "", "", .section = &option_http },
    { "log", OPTION_SECTION, "", "", .section = &option_log },
};
const struct option_section option_root = { "", "", SECTION(root_options) };

static const struct option box_options[] = {
    { "keep", OPTION_DURATION, "0s", "how long delivered messages stay readable; 0s: they are deleted at once",
      FIELD(config_box, keep_us), .min = 0, .max = DAYS(3650) },
};
const struct option_section option_box = {
    "boxes.NAME", "`outbox` and `inbox` exist without being named; a further name makes a further box.",
    SECTION(box_options)
};

static const struct option retry_options[] = {
    { "base", OPTION_DURATION, "1s", "the delay after failure n is base x factor^n", FIELD(retry_setting, base_us),
      .min = 0, .max = RETRY_DELAY_MAX_US },
    { "factor", OPTION_NUMBER, "2", "how the delay grows", FIELD(retry_setting, factor), .min = 1000, .max = 100000 },
    { "cap", OPTION_DURATION, "10m", "no delay is longer; 0s: no cap", FIELD(retry_setting, cap_us), .min = 0,
      .max = RETRY_DELAY_MAX_US },
    { "failures", OPTION_COUNT, "8", "dead at this one, as `blame` says; 0: never", FIELD(retry_setting, failures),
      .min = 0, .max = 1000000 },
    { "jitter", OPTION_NUMBER, "0.1", "0.1 makes a delay up to 10 % longer, never shorter",
      FIELD(retry_setting, jitter), .min = 0, .max = 1000 },
    { "blame", OPTION_CHOICE, "evidence",
      "`evidence`: the endpoint's own faults are not counted, refusals of the content are dead at the 3rd failure, and "
      "any "
      "other message only when another of its type was delivered since its previous failure; `always`: every failure "
      "counts. With `failures`, `delays` or a preset the default is `always`",
      FIELD(retry_setting, blame), .choices = blames },
    { "give_up", OPTION_DURATION, "3d",
      "with `blame: evidence`, dead after failing for so long without evidence; 0s: never",
      FIELD(retry_setting, give_up_us), .min = 0, .max = RETRY_DELAY_MAX_US },
    { "delays", OPTION_DELAYS, "",
      "a table instead of the formula: the delay after each failure; one failure more is dead",
      COUNTED(retry_setting, delays, delay_count), .max = RETRY_DELAYS_MAX },
};
const struct option_section option_retry = { "endpoints.NAME.retry",
                                             "What follows a failure. A list, `retry: [10s, 60s, 5m]`, is "
                                             "short for `{delays: [10s, 60s, 5m], jitter: 0}`.",
                                             SECTION(retry_options) };

static const struct option breaker_options[] = {
    { "after", OPTION_COUNT, "5",
      "opens after so many failures in a row; where every failure counts (`blame: always`, a rule), of different "
      "messages",
      FIELD(breaker_setting, after), .min = 1, .max = BREAKER_AFTER_MAX },
    { "open", OPTION_DURATION, "5s", "how long nothing is sent before a probe; doubled each time the probe fails",
      FIELD(breaker_setting, open_us), .min = 1000, .max = DAYS(1) },
    { "cap", OPTION_DURATION, "5m", "it is never open longer at a time", FIELD(breaker_setting, cap_us), .min = 1000,
      .max = DAYS(1) },
    { "per", OPTION_CHOICE, "type",
      "`type`: answers count for each message type, what could not be sent for the endpoint; `endpoint`: all for the "
      "endpoint",
      FIELD(breaker_setting, per_type), .choices = watches },
    { "share", OPTION_NUMBER, "0",
      "0.5 opens it when half of what was sent within `window` failed for transient reasons, instead of `after`; 0: "
      "off",
      FIELD(breaker_setting, share), .min = 0, .max = 1000 },
    { "window", OPTION_DURATION, "30s", "for `share`", FIELD(breaker_setting, window_us), .min = PR_MILLISECONDS(100),
      .max = DAYS(1) },
    { "least", OPTION_COUNT, "20", "sends within `window` before `share` counts", FIELD(breaker_setting, least),
      .min = 1, .max = 1000000 },
};
const struct option_section option_breaker = { "endpoints.NAME.breaker",
                                               "While it is open nothing is sent to the endpoint, and no "
                                               "failure is counted. `breaker: off` leaves it out.",
                                               SECTION(breaker_options) };

static const struct option batch_options[] = {
    { "messages", OPTION_COUNT, "100", "in one request at most", FIELD(config_batch, messages), .min = 1,
      .max = BUNDLE_MAX },
    { "bytes", OPTION_SIZE, "256KiB", "of the messages in one request; a larger one goes alone",
      FIELD(config_batch, bytes), .min = 1, .max = MIB(64) },
};
const struct option_section option_batch = {
    "endpoints.NAME.batch",
    "For `envelope: batch`. A batch has what waits when one of the `concurrency` requests (4, unless said) is free. "
    "When it is refused as a whole it is split until the guilty message stands alone.",
    SECTION(batch_options)
};

/* preset stands before retry and breaker, so that they can change what it sets. */
static const struct option endpoint_options[] = {
    { "url", OPTION_TEXT, "",
      "where it goes: `https://...`, `amqp://...`, `amqp1://...`, `nats://...`, `kafka://...`, `mqtt:/"
      "/...`, `redis://...`, `exec:PROGRAM`, `file:NAME`, `handler:NAME`, `console`, `null`",
      .required = true, FIELD(config_endpoint, url) },
    { "source", OPTION_TEXT, "postrider", "CloudEvents source of messages that have none",
      FIELD(config_endpoint, source) },
    { "envelope", OPTION_WORD, "binary",
      "CloudEvents mode; `batch` sends several messages in one request; `raw` sends payload and headers alone",
      FIELD(config_endpoint, envelope), .choices = envelopes },
    { "ordering", OPTION_CHOICE, "fifo",
      "what the followers in a stream do when its head fails: wait for it (`fifo`), also when it is dead or "
      "parked (`strict`), go on (`available`); `none`: streams are not looked at",
      FIELD(config_endpoint, ordering), .choices = orderings },
    { "timeout", OPTION_DURATION, "20s", "for one attempt", FIELD(config_endpoint, timeout_us), .min = 1000,
      .max = PR_SECONDS(3600) },
    { "max_attempts", OPTION_COUNT, "5", "hand-outs without a verdict (crashes); one more is poison",
      FIELD(config_endpoint, max_attempts), .min = 1, .max = 1000 },
    { "preset", OPTION_PRESET, "",
      "retry and breaker as another system has them; `retry` and `breaker` beside it change single values",
      FIELD(config_endpoint, preset), .choices = presets },
    { "retry", OPTION_RETRY, "", "", FIELD(config_endpoint, retry), .section = &option_retry },
    { "breaker", OPTION_BREAKER, "", "", FIELD(config_endpoint, breaker), .section = &option_breaker },
    { "batch", OPTION_SECTION, "", "", FIELD(config_endpoint, batch), .section = &option_batch },
    { "concurrency", OPTION_COUNT, "0",
      "deliveries (or batches) at once at most, for each instance and box; 0: as many as the transport takes",
      FIELD(config_endpoint, concurrency), .min = 0, .max = 100000 },
    { "max_payload", OPTION_SIZE, "0B",
      "a larger payload is not sent: it fails as `message_too_large` at once; 0B: no limit but limits.payload",
      FIELD(config_endpoint, payload_max), .min = 0, .max = PR_PAYLOAD_MAX },
    { "mode", OPTION_CHOICE, "durable",
      "`durable`: stored, then sent; `inline`: pr_engine_send() sends it in the caller's thread, and stores only what "
      "could not be sent",
      FIELD(config_endpoint, mode), .choices = modes },
    { "allow_networks", OPTION_NETWORKS, "",
      "webhooks go to public addresses only, and to these: `[127.0.0.0/8, fd00::/8]`",
      COUNTED(config_endpoint, allow_networks, allow_network_count), .max = 256 },
    { "ca", OPTION_TEXT, "",
      "a file with the certificates (PEM) of the authorities to be trusted, instead of the system's; certificates are "
      "always "
      "verified",
      FIELD(config_endpoint, ca) },
    { "cert", OPTION_TEXT, "", "a file with our own certificate (PEM), for servers that ask for one",
      FIELD(config_endpoint, cert) },
    { "key", OPTION_TEXT, "", "the file with its private key (PEM); not said: it is in `cert`, too",
      FIELD(config_endpoint, key) },
    { "sign", OPTION_SECRETS, "",
      "webhooks are signed as Standard Webhooks wants it: `${file:billing.key}` with `whsec_...` in it; a list, the "
      "newest "
      "first, while keys are changed: each of them signs",
      COUNTED(config_endpoint, sign, sign_count), .max = SIGN_KEYS_MAX },
    { "rate", OPTION_RATE, "",
      "messages in a time at most, `100/s`, `6000/m`, `500/h`, for each instance and box; a tenth of a second of it "
      "may go "
      "at once, also after a stall; what is over it waits, and nothing is counted; not said: no limit",
      FIELD(config_endpoint, rate) },
    { "rules", OPTION_RULES, "", "the endpoint's own rules, asked before the global ones; see `rules`",
      COUNTED(config_endpoint, rules, rule_count) },
};
const struct option_section option_endpoint = { "endpoints.NAME",
                                                "A named destination. A message names it, or the routes do.",
                                                SECTION(endpoint_options) };

static const struct option route_options[] = {
    { "type", OPTION_TEXT, "", "a glob; empty matches all", FIELD(config_route, type) },
    { "source", OPTION_TEXT, "", "a glob; empty matches all", FIELD(config_route, source) },
    { "stream", OPTION_TEXT, "", "a glob; empty matches all", FIELD(config_route, stream) },
    { "header", OPTION_HEADERS, "",
      "headers that the message has, `{x-tenant: acme*}`: globs; all of them; the case of a name does not matter",
      COUNTED(config_route, headers, header_count), .max = ROUTE_HEADERS_MAX },
    { "to", OPTION_NAMES, "", "endpoints: one name or a list", .required = true, COUNTED(config_route, to, to_count),
      .max = ENDPOINTS_MAX },
};
const struct option_section option_route = {
    "routes", "A list, for messages without a destination: they go to the endpoints of all routes that match.",
    SECTION(route_options)
};

/* preset stands before what it sets. */
static const struct option source_options[] = {
    { "table", OPTION_TEXT, "",
      "an outbox table of another product in the store's own PostgreSQL database, `SCHEMA.NAME`, case as it is; it is "
      "never altered",
      FIELD(source_config, table.table) },
    { "wal", OPTION_TEXT, "",
      "the log of the store's own PostgreSQL server: inserts into boxes wake at once, and what was emitted with this "
      "prefix, "
      "`pg_logical_emit_message(true, 'PREFIX', ...)` or `'PREFIX:BOX'`, is stored; see doc/wal.md",
      FIELD(source_config, wal.prefix) },
    { "box", OPTION_TEXT, "outbox", "where its messages go", FIELD(source_config, box) },
    { "slot", OPTION_TEXT, "", "wal: the name of the replication slot; not said: `SCHEMA_DATABASE`",
      FIELD(source_config, wal.slot) },
    { "publication", OPTION_TEXT, "", "wal: the name of the publication; not said: as the slot",
      FIELD(source_config, wal.publication) },
    { "max_lag", OPTION_SIZE, "1GiB",
      "wal: more log than this the server should not keep for us; half of it is a warning",
      FIELD(source_config, wal.max_lag), .min = MIB(1), .max = MIB(1048576) },
    { "messages", OPTION_CHOICE, "on", "wal: `off`: inserts wake, and nothing is read from the log",
      FIELD(source_config, wal.letters), .choices = switches },
    { "poll", OPTION_DURATION, "1s",
      "the longest pause between two looks while nothing comes; the shortest is `poll.min`",
      FIELD(source_config, poll_us), .min = 1000, .max = PR_SECONDS(3600) },
    { "time_zone", OPTION_TEXT, "UTC", "of times in it that do not tell theirs: `Europe/Berlin`",
      FIELD(source_config, table.time_zone) },
    { "preset", OPTION_PRESET, "generic",
      "whose table it is: that product's columns and its way to mark a row as done; keys beside it change single "
      "values",
      FIELD(source_config, preset), .choices = adopt_presets },
#define X(field, key, kind, doc) { key, OPTION_TEXT, "", doc, FIELD(source_config, table.fields[ADOPT_##field]) },
    ADOPT_FIELDS(X)
#undef X
        { "pending", OPTION_VALUES, "",
          "rows that wait, `{Status: Pending}`: a value, `null`, or a list of them for each column; not said: all that "
          "are "
          "not done",
          COUNTED(source_config, table.pending, table.pending_count), .max = ADOPT_VALUES_MAX },
    { "done", OPTION_DONE, "",
      "what becomes of a row that was taken: `delete`, or `{set: {Status: Completed, ProcessedAt: now()}}`; "
      "`now()+24h` "
      "is a later time",
      COUNTED(source_config, table.set, table.set_count), .max = ADOPT_VALUES_MAX },
};
const struct option_section option_source = {
    "sources",
    "A list: tables whose rows are moved into a box, and the server's log. The keys from `id` to `order` say in which "
    "columns the parts of a message "
    "are.\nWhere a text is wanted there may be alternatives: `type: header:event-type|kind|=unknown` is the member "
    "`event-type` of "
    "the\nheaders, or else the column `kind`, or else this text. `postrider adopt --check` looks at a table; see "
    "doc/adopting.md.",
    SECTION(source_options)
};

/* ---- Rules: read by config_rule.c ---- */

#define MATCHER(match) .kind = OPTION_MATCH, .fallback = "", .min = MATCH_##match
#define ACTION(key) .kind = OPTION_STEP, .fallback = "", .min = STEP_KEY_##key

static const struct option rule_options[] = {
    { .name = "name",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "for stories, dead letters and `why`; default: `rule N`" },
    { .name = "when", .kind = OPTION_MATCH, .fallback = "", .doc = "", .section = &option_when },
    { .name = "then", .kind = OPTION_STEP, .fallback = "", .doc = "", .section = &option_step },
};
const struct option_section option_rule = {
    "rules",
    "What a failure leads to. The endpoint's own rules are asked first, then these; the first that matches decides. "
    "When none\nmatches, the endpoint's `retry` and `breaker` do. `postrider policy explain` says what a rule will do, "
    "`policy check` what it\nnever will.",
    SECTION(rule_options)
};

static const struct option when_options[] = {
    { .name = "reason", MATCHER(REASON), .doc = "`timeout_exceeded`, `rejected`, ...: one or a list" },
    { .name = "class", MATCHER(CLASS), .doc = "`transient`, `permanent`, `unknown`: one or a list" },
    { .name = "code", MATCHER(CODE), .doc = "the broker's own code: globs" },
    { .name = "error", MATCHER(ERROR), .doc = "the text of the failure", .section = &option_match_error },
    { .name = "type", MATCHER(TYPE), .doc = "of the message: globs" },
    { .name = "endpoint", MATCHER(ENDPOINT), .doc = "globs" },
    { .name = "stream", MATCHER(STREAM), .doc = "globs" },
    { .name = "size", MATCHER(SIZE), .doc = "of the payload: `{min: 64KiB}`", .section = &option_range },
    { .name = "age", MATCHER(AGE), .doc = "since it was stored: `{max: 1h}`" },
    { .name = "failures", MATCHER(FAILURES), .doc = "of this message, this one included: `{max: 3}`, or `3`" },
    { .name = "and", MATCHER(ALL), .doc = "a list of `when`: all match" },
    { .name = "or", MATCHER(ANY), .doc = "a list of `when`: one matches" },
    { .name = "not", MATCHER(NOT), .doc = "a `when` that does not match" },
};
const struct option_section option_when = {
    "rules.when",
    "All that is written must match; of a list one entry. Without `when` a rule matches every failure. Globs are over "
    "the whole\ntext, and the case of letters matters.",
    SECTION(when_options)
};

static const struct option match_error_options[] = {
    { .name = "contains",
      .kind = OPTION_NAMES,
      .fallback = "",
      .doc = "one of these is in it; `error: TEXT` is short for it" },
    { .name = "glob", .kind = OPTION_NAMES, .fallback = "", .doc = "one of these is all of it" },
};
const struct option_section option_match_error = { "rules.when.error", "What the other side said, in words.",
                                                   SECTION(match_error_options) };

static const struct option range_options[] = {
    { .name = "min", .kind = OPTION_TEXT, .fallback = "", .doc = "this much or more" },
    { .name = "max", .kind = OPTION_TEXT, .fallback = "", .doc = "this much or less" },
};
const struct option_section option_range = { "rules.when.size, age, failures", "One end is enough.",
                                             SECTION(range_options) };

static const struct option step_options[] = {
    { .name = "retry_now", ACTION(RETRY_NOW), .doc = "again at once, for so many failures" },
    { .name = "retry",
      ACTION(RETRY),
      .doc = "again after these delays, one failure each: `[5s, 30s]`; or a formula as in "
             "`endpoints.NAME.retry`, up to its last failure" },
    { .name = "dead_letter",
      ACTION(DEAD_LETTER),
      .doc = "into the table of dead letters",
      .section = &option_dead_letter },
    { .name = "discard", ACTION(DISCARD), .doc = "delete it; counted, and one line in the log" },
    { .name = "park", ACTION(PARK), .doc = "set it aside until a person says so" },
    { .name = "pause",
      ACTION(PAUSE),
      .doc = "beside any of them: send nothing to the endpoint for so long, or "
             "`until_resumed`; alone: the message is put back, uncounted" },
    { .name = "raise",
      ACTION(RAISE),
      .doc = "beside any of them: send a message about it; what was raised never raises",
      .section = &option_raise },
    { .name = "call",
      ACTION(CALL),
      .doc = "beside any of them: a function that the program registered with "
             "pr_engine_call(); alone: it decides, and what it does not decide goes to the next "
             "step" },
};
const struct option_section option_step = {
    "rules.then",
    "Steps, by how often the message has failed: a step or a list of them. `dead_letter`, `discard` and `park` may be "
    "written as\na word. A rule that runs out of steps makes a dead letter.",
    SECTION(step_options)
};

static const struct option dead_letter_options[] = {
    { .name = "to",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "to this endpoint instead, with `postrider-dead-` headers that say why; once: the next time it is the "
             "table" },
};
const struct option_section option_dead_letter = { "rules.then.dead_letter", "`{}` is the table.",
                                                   SECTION(dead_letter_options) };

static const struct option raise_options[] = {
    { .name = "type", .kind = OPTION_TEXT, .fallback = "", .doc = "of the new message", .required = true },
    { .name = "to", .kind = OPTION_TEXT, .fallback = "", .doc = "an endpoint; without it the routes decide" },
    { .name = "stream", .kind = OPTION_TEXT, .fallback = "", .doc = "a template" },
    { .name = "payload",
      .kind = OPTION_TEXT,
      .fallback = "",
      .doc = "a template; without it a JSON object with all of them" },
};
const struct option_section option_raise = {
    "rules.then.raise",
    "Stored in the same transaction as what becomes of the failed message. In templates `{id}` `{type}` `{stream}` "
    "`{endpoint}`\n`{box}` `{reason}` `{code}` `{error}` `{failures}` `{attempts}` `{rule}` `{at}` stand for the "
    "failed "
    "message's.",
    SECTION(raise_options)
};

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
        "meta",         "box",      "instance",    "claim",         "endpoint",          "control",         "audit",
        "done",         "messages", "dead_letter", "in_flight",     "endpoint_overview", "blocked_streams", "breaker",
        "open_breaker", "wal_slot", "wal_place",   "raised_warning"
    };

    for (size_t i = 0; i < ARRAY_LENGTH(taken); i++)
        if (name.size == strlen(taken[i]) && strncasecmp(name.data, taken[i], name.size) == 0)
            return false;
    return name_is_valid(name) && !(name.size >= 7 && strncasecmp(name.data, "sqlite_", 7) == 0);
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
