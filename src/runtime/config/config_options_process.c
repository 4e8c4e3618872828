/* Options of the process: its store, limits, API, log, warnings; and the names of all other sections. */
#include "runtime/config/config_table.h"

static const char *const levels[] = { "debug", "info", "warn", "error", "none", NULL };
static const char *const formats[] = { "text", "json", NULL };
static const char *const built_in_boxes[] = { "outbox", "inbox", "turns", "activities", NULL };

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
      FIELD(config, http_token), .secret = true, .never_empty = true },
    { "viewer_token", OPTION_TEXT, "", "Token that may read everything.", FIELD(config, http_viewer_token),
      .secret = true, .never_empty = true },
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
