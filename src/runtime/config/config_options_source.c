/* Options of boxes, and of what brings messages into them: sources and schedules. */
#include "runtime/config/config_table.h"
#include "transport/http/signature.h"

static const char *const switches[] = { "off", "on", NULL };

static const char *const box_kinds[] = { "outbox", "inbox", "turns", "activities", NULL }; /* enum box_kind */

static const char *const no_duration[] = { "none", NULL }; /* 0 */

static const struct option box_options[] = {
    { "kind", OPTION_CHOICE, "outbox",
      "What the box is for. Routes and handlers that name no box take messages of every `outbox`; those of an `inbox` "
      "only go where a route or a handler names the box, or the message its destination. `turns` and `activities` hold "
      "what flows wait for and ask for; no source or handler can name them, and only routes to http, https and pull "
      "endpoints can name a box of `activities`. Default of the box `inbox`: `inbox`. "
      "The boxes `turns` and `activities` are always of the kind of that name.",
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

/* preset comes before the keys that it sets. */
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
      FIELD(source_config, http.token), .secret = true, .never_empty = true },
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
