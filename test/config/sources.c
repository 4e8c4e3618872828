/* `sources`: tables of other products, their presets, and errors. */
#include "base/slice.h"
#include "check.h"
#include "runtime/config/config.h"

static struct config *load(const char *text)
{
    struct config *config = NULL;
    struct pr_error err;

    CHECK_OK(config_load_text(pr_str(text), "t.yaml", &config, &err), &err);
    return config;
}

static void refuses(int line, const char *text, const char *wanted)
{
    struct config *config = NULL;
    struct pr_error err = { 0 };

    if (config_load_text(pr_str(text), "t.yaml", &config, &err) != PR_ECONFIG)
        check_fail(__FILE__, line, "it was taken: %s", text);
    if (!slice_eq_cstr(pr_str(err.text), wanted))
        check_fail(__FILE__, line, "\"%s\"\nwanted \"%s\"", err.text, wanted);
}
#define REFUSES(text, wanted) refuses(__LINE__, text, wanted)

TEST(a_preset_brings_the_columns_and_the_done_rule_and_keys_change_single_ones)
{
    struct config *c =
        load("boxes: {ledger: {}}\nendpoints: {a: {url: 'null:'}}\n"
             "sources:\n  - {table: cap.published, preset: cap, type: '=x|Name', box: ledger, poll: 5s}\n");
    const struct source_config *s = &c->sources[0];

    CHECK_EQ(c->source_count, 1);
    CHECK_EQ(s->kind, SOURCE_TABLE);
    CHECK_STR(s->table.table, "cap.published");
    CHECK_STR(s->table.box, "ledger");
    CHECK_STR(s->table.time_zone, "UTC");
    CHECK_EQ(s->poll_us, PR_SECONDS(5));
    CHECK_EQ(s->table.batch, 1000);
    CHECK_STR(s->table.fields[ADOPT_ID], "Id");
    CHECK_STR(s->table.fields[ADOPT_TYPE], "=x|Name");
    CHECK_STR(s->table.fields[ADOPT_STREAM], "");
    CHECK_EQ(s->table.pending_count, 3);
    CHECK_STR(s->table.set[0].column, "StatusName");
    CHECK_STR(s->table.set[0].value, "Succeeded");
    CHECK_EQ(s->table.endpoint_count, 1);
    CHECK_STR(s->table.endpoints[0], "a");
    config_free(c);
}

TEST(what_is_pending_and_done_can_be_said)
{
    struct config *c = load("sources:\n"
                            "  - {table: a, id: i, payload: p, pending: {sent: null, state: [new, again]},\n"
                            "     done: {set: {sent: now()+1h, state: ok, lock: ~}}}\n"
                            "  - {table: s.b, preset: finitech, done: delete}\n"
                            "  - {table: s.c, id: i, payload: p}\n");
    const struct adoption *a = &c->sources[0].table;
    int64_t later_us;

    CHECK_EQ(a->pending_count, 3);
    CHECK_STR(a->pending[0].column, "sent");
    CHECK(a->pending[0].value == NULL);
    CHECK_STR(a->pending[1].value, "new");
    CHECK_STR(a->pending[2].column, "state");
    CHECK_STR(a->pending[2].value, "again");
    CHECK_EQ(a->set_count, 3);
    CHECK(adopt_value_is_time(a->set[0].value, &later_us));
    CHECK_EQ(later_us, PR_SECONDS(3600));
    CHECK(!adopt_value_is_time(a->set[1].value, &later_us));
    CHECK(a->set[2].value == NULL);
    CHECK_EQ(c->sources[1].table.set_count, 0);
    CHECK_EQ(c->sources[1].table.pending_count, 1); /* the preset's */
    CHECK_EQ(c->sources[2].table.set_count, 0);
    config_free(c);
}

TEST(every_preset_is_a_source_that_needs_nothing_more)
{
    for (size_t i = 0; adopt_presets[i] != NULL; i++) {
        struct adoption adoption = { .table = "t" };
        struct adopt_parts parts;
        struct pr_error err;

        CHECK(adopt_preset(adopt_presets[i], &adoption));
        CHECK_STR(adoption.preset, adopt_presets[i]);
        for (size_t k = 0; k < ADOPT_FIELD_COUNT; k++)
            CHECK_OK(adopt_parts_parse((enum adopt_field)k, adoption.fields[k], &parts, &err), &err);
        if (adopt_presets[i + 1] != NULL) /* generic is the last */
            CHECK(adoption.fields[ADOPT_ID][0] != '\0' && adoption.fields[ADOPT_PAYLOAD][0] != '\0');
    }
    CHECK(!adopt_preset("nobody", &(struct adoption){ .table = "t" }));
}

TEST(wrong_sources_are_refused_where_they_stand) /* B203 */
{
    REFUSES("sources: {table: a}\n", "t.yaml:1:10: sources: needs a list, not a map");
    REFUSES("sources:\n  - {preset: cap}\n",
            "t.yaml:2:5: sources[0]: needs table, wal, http, file or a broker such as redis");
    REFUSES("sources:\n  - {file: orders.jsonl}\n", "t.yaml:2:12: sources[0]: source file: the url is not valid: begin "
                                                    "it with file:, such as file:orders.jsonl; file:- is "
                                                    "the standard input");
    REFUSES("sources:\n  - {table: a, preset: debzium}\n",
            "t.yaml:2:24: sources[0].preset: unknown value \"debzium\"; did you mean debezium?");
    REFUSES("sources:\n  - {table: a, preset: cap, strem: x}\n",
            "t.yaml:2:29: sources[0].strem: unknown key; did you mean stream?");
    REFUSES("sources:\n  - {table: a, payload: p}\n",
            "t.yaml:2:5: sources[0]: id is missing; name its column, or use a preset");
    REFUSES("sources:\n  - {table: a.b.c, preset: cap}\n", "t.yaml:2:13: sources[0].table: \"a.b.c\" is not a table "
                                                           "name; use NAME or SCHEMA.NAME with letters, digits and _");
    REFUSES("sources:\n  - {table: 'a\"; DROP TABLE b; --', preset: cap}\n",
            "t.yaml:2:13: sources[0].table: \"a\"; DROP TABLE b; --\" is not a table name; use NAME or SCHEMA.NAME "
            "with letters, digits and _");
    REFUSES("sources:\n  - {table: a, preset: cap, id: 'x\"y'}\n",
            "t.yaml:2:33: sources[0].id: \"x\"y\" is not a column name: use letters, digits and _, at most 63, not "
            "starting with a digit");
    REFUSES("sources:\n  - {table: a, preset: cap, type: 'a||b'}\n",
            "t.yaml:2:35: sources[0].type: \"\" is not a column name: use letters, digits and _, at most 63, not "
            "starting with a digit");
    REFUSES("sources:\n  - {table: a, preset: cap, type: a|b|c|d|e}\n",
            "t.yaml:2:35: sources[0].type: at most 4 alternatives are allowed");
    REFUSES("sources:\n  - {table: a, preset: cap, stream: 'header:k'}\n",
            "t.yaml:2:37: sources[0].stream: uses header:, but headers names no column");
    REFUSES("sources:\n  - {table: a, preset: cap, box: outbx}\n",
            "t.yaml:2:34: sources[0].box: unknown box \"outbx\"; did you mean outbox?");
    REFUSES("sources:\n  - {table: a, preset: cap, done: remove}\n",
            "t.yaml:2:35: sources[0].done: use delete, or a map such as {set: {Status: Completed}}");
    REFUSES("sources:\n  - {table: a, preset: cap, done: {set: {'a b': 1}}}\n",
            "t.yaml:2:42: sources[0].done: \"a b\" is not a column name; use letters, digits and _, at most 63, not "
            "starting with a digit");
    REFUSES("sources:\n  - {table: a, preset: cap, pending: {a: {b: 1}}}\n",
            "t.yaml:2:42: sources[0].pending.a: needs a single value");
    REFUSES("sources:\n  - {table: a, preset: cap}\n  - {table: a, preset: cap}\n",
            "t.yaml:3:5: sources[1].table: a is listed twice");
    REFUSES("store: sqlite:x.db\nsources:\n  - {table: a, preset: cap}\n",
            "t.yaml:3:13: sources[0].table: needs a PostgreSQL store; the table must be in the store's database");
}

TEST(a_broker_is_a_source_of_the_inbox_unless_another_box_is_named)
{
    struct config *c = load("limits: {waiting: 500}\nboxes: {ledger: {}}\nsources:\n"
                            "  - {redis: 'redis://localhost/0?stream=orders'}\n"
                            "  - {nats: 'nats://localhost/?stream=ORDERS', box: ledger}\n");
    CHECK_EQ(c->waiting_max, 500);
    CHECK_EQ(c->sources[0].kind, SOURCE_REDIS);
    CHECK_STR(c->sources[0].name, "redis:orders");
    CHECK_STR(c->sources[0].box, "inbox");
    CHECK_EQ(c->sources[1].kind, SOURCE_NATS);
    CHECK_STR(c->sources[1].name, "nats:ORDERS");
    CHECK_STR(c->sources[1].box, "ledger");
    config_free(c);
}

TEST(sources_that_read_the_same_from_two_brokers_have_names_of_their_own) /* B90, B203 */
{
    struct config *c = load("sources:\n  - {redis: 'redis://localhost/?stream=orders'}\n"
                            "  - {redis: 'redis://127.0.0.1/?stream=orders', name: 'orders:berlin'}\n");
    CHECK_STR(c->sources[0].name, "redis:orders");
    CHECK_STR(c->sources[1].name, "orders:berlin");
    config_free(c);
}

TEST(a_wrong_url_of_a_broker_is_refused_where_it_stands_and_never_shown) /* B203 */
{
    REFUSES("sources:\n  - {redis: 'redis://:secret@localhost'}\n",
            "t.yaml:2:13: sources[0]: source redis: the url is not valid: it names no stream: add ?stream=NAME");
    REFUSES("sources:\n  - {redis: 'redis://localhost?stream=a&strem=b'}\n",
            "t.yaml:2:13: sources[0]: source redis: unknown parameter strem in the url; known are: stream, group, "
            "consumer, start, claim, plain, ca, cert, certkey");
    REFUSES("sources:\n  - {redis: 'redis://other.example?stream=a'}\n",
            "t.yaml:2:13: sources[0]: source redis: redis:// is not encrypted, and other.example is another machine: "
            "use TLS, or add plain=true to the url");
    REFUSES("sources:\n  - {redis: 'redis://localhost?stream=a&start=7'}\n",
            "t.yaml:2:13: sources[0]: source redis: start in the url must be first or new");
    REFUSES("sources:\n  - {redis: 'redis://localhost?stream=a&claim=soon'}\n",
            "t.yaml:2:13: sources[0]: source redis: the url is not valid: claim must be a duration from 1s to 24h, "
            "such as 60s");
    REFUSES("sources:\n  - {redis: 'nats://localhost?stream=a'}\n",
            "t.yaml:2:13: sources[0]: source redis: the url is not valid: use redis://host/?stream=NAME, or rediss:// "
            "for TLS");
    REFUSES("sources:\n  - {nats: 'nats://localhost/?stream=a.b'}\n",
            "t.yaml:2:12: sources[0]: source nats: the url is not valid: it needs ?stream=NAME; a stream's name has no "
            "spaces, dots, * or >");
    REFUSES("sources:\n  - {mqtt: 'mqtt://localhost'}\n",
            "t.yaml:2:12: sources[0]: source mqtt: the url is not valid: it has no topic: use mqtt://host/TOPIC; a "
            "filter such as orders/+ or orders/%23 will do");
#ifdef POSTRIDER_AMQP
    REFUSES("sources:\n  - {amqp: 'amqp://localhost/shop'}\n",
            "t.yaml:2:12: sources[0]: source amqp: the url is not valid: it needs ?queue=NAME, with at most 255 bytes");
#endif
#ifdef POSTRIDER_KAFKA
    REFUSES("sources:\n  - {kafka: 'kafka://localhost'}\n",
            "t.yaml:2:13: sources[0]: source kafka: the url has no topic: use kafka://host/TOPIC");
#endif
    REFUSES("sources:\n  - {redis: 'redis://localhost?stream=a'}\n  - {redis: 'redis://localhost?stream=a&group=b'}\n",
            "t.yaml:3:13: sources[1].redis: redis:a is listed twice; if these are different brokers, give one of them "
            "a name:");
    REFUSES(
        "sources:\n  - {redis: 'redis://localhost?stream=a', name: x}\n  - {redis: 'redis://127.0.0.1?stream=a', name: "
        "x}\n",
        "t.yaml:3:13: sources[1].redis: x is listed twice; if these are different brokers, give one of them a name:");
    REFUSES("sources:\n  - {redis: 'redis://localhost?stream=a', name: 'a b'}\n",
            "t.yaml:2:49: sources[0].name: \"a b\" is not a name; use letters, digits, _ - . : and /, at most 128");
    REFUSES("sources:\n  - {redis: 'redis://localhost?stream=a', name: ''}\n",
            "t.yaml:2:49: sources[0].name: \"\" is not a name; use letters, digits, _ - . : and /, at most 128");
    REFUSES("sources:\n  - {wal: p, name: x}\n", "t.yaml:2:14: sources[0].name: unknown key in a source of kind wal");
    REFUSES("sources:\n  - {redis: 'redis://localhost?stream=a', preset: cap}\n",
            "t.yaml:2:43: sources[0].preset: unknown key in a source of kind redis");
    REFUSES("sources:\n  - {redis: 'redis://localhost?stream=a', nats: 'nats://localhost?stream=b'}\n",
            "t.yaml:2:6: sources[0].redis: unknown key in a source of kind nats");
    REFUSES("sources:\n  - {redis: 'redis://h/?stream=a', token: x}\n",
            "t.yaml:2:36: sources[0].token: unknown key in a source of kind redis");
    REFUSES("sources:\n  - {http: 'http://0.0.0.0:8090/hooks'}\n",
            "t.yaml:2:12: sources[0]: source http: 0.0.0.0:8090 is not a loopback address; other addresses need token "
            "or secrets");
    REFUSES("sources:\n  - {http: 'https://127.0.0.1:8090/hooks'}\n",
            "t.yaml:2:12: sources[0]: source http: the url is not valid: use http://ADDRESS:PORT/PATH; TLS needs a "
            "proxy before it");
    REFUSES("sources:\n  - {redis: 'redis://localhost?stream=a', box: inbx}\n",
            "t.yaml:2:48: sources[0].box: unknown box \"inbx\"; did you mean inbox?");
}
