/* The result of a valid configuration, and how it is shown. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/slice.h"
#include "check.h"
#include "runtime/config/config.h"
#include "runtime/config/config_suggest.h"

static struct config *load(const char *text)
{
    struct config *config = NULL;
    struct pr_error err;

    CHECK_OK(config_load_text(pr_str(text), "t.yaml", &config, &err), &err);
    return config;
}

static void check_shows(const struct config *config, const char *part, bool wanted)
{
    struct buf out;

    buf_init(&out, 1 << 20);
    config_show(config, &out);
    CHECK_EQ(buf_failed(&out), 0);
    if (slice_contains(buf_slice(&out), pr_str(part)) != wanted)
        check_fail(__FILE__, __LINE__, "%s \"%s\" in:\n%s", wanted ? "no" : "there is", part, buf_slice(&out).data);
    buf_fini(&out);
}

TEST(config_has_defaults)
{
    struct config *c = NULL;
    struct pr_error err;

    unsetenv("HOSTNAME");
    CHECK_OK(config_default(&c, &err), &err);
    CHECK_STR(c->store, "sqlite:postrider.db");
    char host[256] = "";
    CHECK_EQ(gethostname(host, sizeof(host) - 1), 0);
    CHECK_STR(c->instance, host);
    CHECK_EQ(c->lease_us, PR_SECONDS(15));
    CHECK_EQ(c->poll_min_us, PR_MILLISECONDS(2));
    CHECK_EQ(c->poll_max_us, PR_MILLISECONDS(200));
    CHECK_EQ(c->batch, 1000);
    CHECK_EQ(c->stop_timeout_us, PR_SECONDS(10));
    CHECK_EQ(c->payload_max, 1048576);
    CHECK_EQ(c->in_flight_max, 10000);
    CHECK_EQ(c->in_flight_bytes_max, 64 * 1048576);
    CHECK_EQ(c->endpoint_count, 0);
    CHECK_EQ(c->route_count, 0);
    CHECK_EQ(c->box_count, 4);
    CHECK_STR(c->boxes[0].name, "outbox");
    CHECK_STR(c->boxes[1].name, "inbox");
    CHECK_STR(c->boxes[2].name, "turns");
    CHECK_EQ(c->boxes[2].kind, BOX_TURNS); /* without a word */
    CHECK_STR(c->boxes[3].name, "activities");
    CHECK_EQ(c->boxes[3].kind, BOX_ACTIVITIES);
    CHECK(!c->boxes[2].used && !c->boxes[3].used);
    CHECK_STR(c->http_listen, "");
    CHECK_EQ(c->log_level, LOG_INFO);
    CHECK_EQ(c->log_format, LOG_LOGFMT);
    config_free(c);
    config_free(NULL);
}

TEST(config_reads_everything)
{
    struct config *c = load("store: sqlite:/tmp/x.db\n"
                            "instance: me\n"
                            "lease: 20s\n"
                            "poll: {min: 1ms, max: 50ms}\n"
                            "batch: 500\n"
                            "stop_timeout: 3s\n"
                            "limits: {payload: 2MiB, in_flight: 77, in_flight_bytes: 8MiB}\n"
                            "boxes:\n"
                            "  ledger: {keep: 24h, dedupe: 1h}\n"
                            "  partners: {kind: inbox, dedupe: none}\n"
                            "  inbox: {keep: 1m}\n"
                            "  outbox:\n"
                            "endpoints:\n"
                            "  orders:\n"
                            "    url: https://orders.example/in\n"
                            "    source: shop\n"
                            "    envelope: structured\n"
                            "    ordering: strict\n"
                            "    timeout: 7s\n"
                            "    max_attempts: 3\n"
                            "    retry: {base: 2s, factor: 1.5, cap: 1m, failures: 9, jitter: 0}\n"
                            "    breaker: {after: 2, open: 1s, cap: 10s, per: type}\n"
                            "    concurrency: 50\n"
                            "    allow_networks: [127.0.0.0/8, '::1']\n"
                            "  audit: {url: 'console:', retry: [10s, 60s, 5m], breaker: off, ordering: none}\n"
                            "routes:\n"
                            "  - {type: 'order.*', source: shop, stream: 'o-*', to: [orders, audit]}\n"
                            "  - {box: partners, to: audit}\n"
                            "http: {listen: '127.0.0.1:0'}\n"
                            "log: {level: debug, format: json}\n");

    CHECK_STR(c->store, "sqlite:/tmp/x.db");
    CHECK_STR(c->instance, "me");
    CHECK_EQ(c->poll_max_us, PR_MILLISECONDS(50));
    CHECK_EQ(c->in_flight_max, 77);
    CHECK_EQ(c->box_count, 6);
    CHECK_STR(c->boxes[1].name, "inbox");
    CHECK_EQ(c->boxes[1].keep_us, PR_MINUTES(1));
    CHECK_STR(c->boxes[4].name, "ledger");
    CHECK_EQ(c->boxes[4].keep_us, PR_SECONDS(86400));
    CHECK_EQ(c->boxes[0].kind, BOX_OUTBOX);
    CHECK_EQ(c->boxes[1].kind, BOX_INBOX); /* without a word */
    CHECK_EQ(c->boxes[4].kind, BOX_OUTBOX);
    CHECK_EQ(c->boxes[5].kind, BOX_INBOX);
    CHECK_EQ(c->boxes[0].dedupe_us, 0); /* of an outbox, without a word */
    CHECK_EQ(c->boxes[1].dedupe_us, PR_SECONDS(86400));
    CHECK_EQ(c->boxes[4].dedupe_us, PR_SECONDS(3600));
    CHECK_EQ(c->boxes[5].dedupe_us, 0);
    CHECK(config_find_box(c, PR_STR("ledger")) == &c->boxes[4]);
    CHECK(config_find_box(c, PR_STR("nope")) == NULL);

    CHECK_EQ(c->endpoint_count, 2);
    const struct config_endpoint *o = config_find_endpoint(c, PR_STR("orders"));
    CHECK(o == &c->endpoints[0]);
    CHECK_STR(o->url, "https://orders.example/in");
    CHECK_STR(o->source, "shop");
    CHECK_STR(o->envelope, "structured");
    CHECK_EQ(o->ordering, ORDERING_STRICT);
    CHECK_EQ(o->timeout_us, PR_SECONDS(7));
    CHECK_EQ(o->max_attempts, 3);
    CHECK_EQ(o->retry.base_us, PR_SECONDS(2));
    CHECK(fabs(o->retry.factor - 1.5) < 1e-9);
    CHECK_EQ(o->retry.cap_us, PR_MINUTES(1));
    CHECK_EQ(o->retry.failures, 9);
    CHECK(fabs(o->retry.jitter) < 1e-9);
    CHECK_EQ(o->retry.delay_count, 0);
    CHECK(o->breaker.enabled && o->breaker.per_type);
    CHECK_EQ(o->breaker.after, 2);
    CHECK_EQ(o->breaker.cap_us, PR_SECONDS(10));
    CHECK_EQ(o->concurrency, 50);
    CHECK_EQ(o->allow_network_count, 2);
    CHECK_EQ(o->allow_networks[0].prefix, 8);
    CHECK(o->allow_networks[1].v6);

    const struct config_endpoint *a = &c->endpoints[1];
    CHECK_EQ(a->ordering, ORDERING_NONE);
    CHECK(!a->breaker.enabled);
    CHECK_EQ(a->retry.delay_count, 3);
    CHECK_EQ(a->retry.delays[2], PR_MINUTES(5));
    CHECK(fabs(a->retry.jitter) < 1e-9);
    CHECK_EQ(a->max_attempts, 5);
    CHECK_STR(a->envelope, "binary");

    CHECK_EQ(c->route_count, 2);
    CHECK_STR(c->routes[0].type, "order.*");
    CHECK_EQ(c->routes[0].to_count, 2);
    CHECK_STR(c->routes[0].to[1], "audit");
    CHECK_STR(c->routes[0].box, "");
    CHECK_STR(c->routes[1].box, "partners");
    CHECK_STR(c->routes[1].type, "");
    CHECK_STR(c->routes[1].to[0], "audit");
    CHECK_STR(c->http_listen, "127.0.0.1:0");
    CHECK_EQ(c->log_level, LOG_DEBUG);
    CHECK_EQ(c->log_format, LOG_JSON);
    config_free(c);
}

TEST(config_defaults_of_an_endpoint_are_those_of_the_policy) /* D2 */
{
    struct config *c = load("endpoints: {a: {url: 'null:'}}\n");
    const struct config_endpoint *e = &c->endpoints[0];

    CHECK_EQ(e->retry.base_us, retry_default.base_us);
    CHECK(fabs(e->retry.factor - retry_default.factor) < 1e-9);
    CHECK_EQ(e->retry.cap_us, retry_default.cap_us);
    CHECK_EQ(e->retry.failures, retry_default.failures);
    CHECK(fabs(e->retry.jitter - retry_default.jitter) < 1e-9);
    CHECK_EQ(e->retry.blame, retry_default.blame);
    CHECK_EQ(e->retry.give_up_us, retry_default.give_up_us);
    CHECK_EQ(e->breaker.enabled, breaker_default.enabled);
    CHECK_EQ(e->breaker.after, breaker_default.after);
    CHECK_EQ(e->breaker.open_us, breaker_default.open_us);
    CHECK_EQ(e->breaker.cap_us, breaker_default.cap_us);
    CHECK_EQ(e->breaker.per_type, breaker_default.per_type);
    config_free(c);
}

/* The delay after each failure, up to the end. */
static void check_schedule(const struct retry_setting *retry, const int *seconds, int count)
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(retry_delay_us(retry, i + 1, 0.999), PR_SECONDS(seconds[i]));
    CHECK_EQ(retry_delay_us(retry, count + 1, 0.999), -1);
}

TEST(config_presets_are_the_three_schedules) /* B33 */
{
    struct config *c = load("endpoints:\n"
                            "  a: {url: 'null:', preset: cloudeventbus}\n"
                            "  b: {url: 'null:', preset: whizbang}\n"
                            "  c: {url: 'null:', preset: finitech}\n");

    check_schedule(&c->endpoints[0].retry, (const int[]){ 2, 4, 8, 16 }, 4);
    check_schedule(&c->endpoints[1].retry, (const int[]){ 60, 120, 240, 480, 960, 1920, 3840, 7680, 15360 }, 9);
    check_schedule(&c->endpoints[2].retry, (const int[]){ 10, 60, 300 }, 3);
    for (int i = 0; i < 3; i++)
        CHECK(!c->endpoints[i].breaker.enabled);
    check_shows(c, "breaker: off", true);
    check_shows(c, "delays: [10s, 1m, 5m]", true);
    config_free(c);
}

TEST(config_who_says_when_a_message_is_dead_counts_every_failure) /* B33, B78 */
{
    struct config *c = load("endpoints:\n"
                            "  a: {url: 'null:', retry: {failures: 5}}\n"
                            "  b: {url: 'null:', retry: [1s, 2s]}\n"
                            "  c: {url: 'null:', retry: {delays: [1s, 2s]}}\n"
                            "  d: {url: 'null:', preset: whizbang, retry: {base: 3s}}\n"
                            "  e: {url: 'null:', retry: {blame: always}}\n"
                            "  f: {url: 'null:', retry: {base: 3s, cap: 1m, jitter: 0}}\n"
                            "  g: {url: 'null:', retry: {failures: 5, blame: evidence, give_up: 1d}}\n"
                            "rules: [{name: r, when: {code: x}, then: [{retry: {base: 1s}}, dead_letter]}]\n");

    for (int i = 0; i < 5; i++)
        CHECK_EQ(c->endpoints[i].retry.blame, BLAME_ALWAYS);
    CHECK_EQ(c->endpoints[5].retry.blame, BLAME_EVIDENCE); /* these change only the delays */
    CHECK_EQ(c->endpoints[6].retry.blame, BLAME_EVIDENCE);
    CHECK_EQ(c->endpoints[6].retry.give_up_us, PR_SECONDS(86400));
    CHECK_EQ(c->rules[0].steps[0].retry.blame, BLAME_ALWAYS);
    check_shows(c, "give_up: 1d", true);
    config_free(c);
}

TEST(config_values_beside_a_preset_change_it)
{
    struct config *c = load("endpoints:\n"
                            "  a: {url: 'null:', retry: {failures: 3}, preset: cloudeventbus, breaker: {after: 2}}\n"
                            "  b: {url: 'null:', retry: {base: 3s}, preset: finitech}\n");

    CHECK_EQ(c->endpoints[0].retry.failures, 3);
    CHECK(fabs(c->endpoints[0].retry.jitter) < 1e-9);
    CHECK(c->endpoints[0].breaker.enabled);
    CHECK_EQ(c->endpoints[1].retry.delay_count, 0);
    CHECK_EQ(c->endpoints[1].retry.base_us, PR_SECONDS(3));
    config_free(c);
}

TEST(config_expands_variables)
{
    setenv("PR_TEST_A", "eins", 1);
    setenv("PR_TEST_EMPTY", "", 1);
    unsetenv("PR_TEST_NONE");
    struct config *c =
        load("instance: 'x-${PR_TEST_A}-${PR_TEST_NONE:-zwei}-${PR_TEST_EMPTY:-drei}-${PR_TEST_EMPTY}-$${y}'\n");

    CHECK_STR(c->instance, "x-eins-zwei-drei--${y}");
    config_free(c);
}

/* In strict YAML the braces of ${...} would begin a map there. */
TEST(config_expands_variables_between_braces)
{
    setenv("PR_TEST_A", "eins", 1);
    struct config *c = load("http: {listen: 127.0.0.1:0, hosts: [${PR_TEST_A}, ${PR_TEST_NO:-a, {b: c] #d}, $${x}]}\n"
                            "instance: \"${PR_TEST_NO:-\\\"ä\\\"}\" # ${PR_TEST_A}, {\n"
                            "batch: 7\n");

    CHECK_EQ(c->http_host_count, 3);
    CHECK_STR(c->http_hosts[0], "eins");
    CHECK_STR(c->http_hosts[1], "a, {b: c] #d");
    CHECK_STR(c->http_hosts[2], "${x}");
    CHECK_STR(c->instance, "\"ä\"");
    CHECK_EQ(c->batch, 7);
    config_free(c);
}

TEST(config_takes_a_variable_as_one_value)
{
    setenv("PR_TEST_A", "me\nbatch: 7\n", 1);
    struct config *c = load("instance: ${PR_TEST_A}\n");

    CHECK_STR(c->instance, "me\nbatch: 7\n");
    CHECK_EQ(c->batch, 1000);
    config_free(c);
}

TEST(config_environment_is_stronger_than_the_file)
{
    struct pr_error err;

    setenv("POSTRIDER_STORE", "sqlite:env.db", 1);
    setenv("POSTRIDER_LIMITS__PAYLOAD", "2MiB", 1);
    setenv("POSTRIDER_ENDPOINTS__MY_HOOK__TIMEOUT", "3s", 1);
    setenv("POSTRIDER_ENDPOINTS__MY_HOOK__RETRY__BASE", "9s", 1);
    struct config *c = load("store: sqlite:file.db\nlimits: {payload: 1MiB}\n"
                            "endpoints: {my-hook: {url: 'null:', timeout: 1s}}\n");
    unsetenv("POSTRIDER_STORE");
    unsetenv("POSTRIDER_LIMITS__PAYLOAD");
    unsetenv("POSTRIDER_ENDPOINTS__MY_HOOK__TIMEOUT");
    unsetenv("POSTRIDER_ENDPOINTS__MY_HOOK__RETRY__BASE");

    CHECK_STR(c->store, "sqlite:env.db");
    CHECK_EQ(c->payload_max, 2 * 1048576);
    CHECK_EQ(c->endpoints[0].timeout_us, PR_SECONDS(3));
    CHECK_EQ(c->endpoints[0].retry.base_us, PR_SECONDS(9));
    check_shows(c, "store: sqlite:env.db                        # POSTRIDER_STORE\n", true);
    CHECK_OK(config_set_store(c, "sqlite:flag.db", &err), &err);
    CHECK_STR(c->store, "sqlite:flag.db");
    check_shows(c, "store: sqlite:flag.db                       # --store\n", true);
    CHECK_EQ(config_set_store(c, "nonsense", &err), PR_ECONFIG);
    CHECK_STR(c->store, "sqlite:flag.db");
    config_free(c);
}

TEST(config_environment_has_lists)
{
    setenv("POSTRIDER_ENDPOINTS__A__RETRY", "10s, 60s,5m", 1);
    setenv("POSTRIDER_ENDPOINTS__A__BREAKER", "off", 1);
    setenv("POSTRIDER_HTTP__HOSTS", "a.example", 1);
    struct config *c = load("endpoints: {a: {url: 'null:', retry: {base: 1s}}}\n");
    unsetenv("POSTRIDER_ENDPOINTS__A__RETRY");
    unsetenv("POSTRIDER_ENDPOINTS__A__BREAKER");
    unsetenv("POSTRIDER_HTTP__HOSTS");

    CHECK_EQ(c->endpoints[0].retry.delay_count, 3);
    CHECK_EQ(c->endpoints[0].retry.delays[1], PR_SECONDS(60));
    CHECK(!c->endpoints[0].breaker.enabled);
    CHECK_EQ(c->http_host_count, 1);
    check_shows(c, "breaker: off                            # POSTRIDER_ENDPOINTS__A__BREAKER\n", true);
    config_free(c);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    CHECK_EQ(fclose(f), 0);
}

TEST(config_reads_secrets_beside_the_file_and_never_shows_them) /* B204 */
{
    char directory[] = "/tmp/pr-config-XXXXXX", path[64];
    struct config *c = NULL;
    struct pr_error err;

    CHECK(mkdtemp(directory) != NULL);
    (void)snprintf(path, sizeof(path), "%s/secret", directory);
    write_file(path, "hunter2\n");
    (void)snprintf(path, sizeof(path), "%s/p.yaml", directory);
    write_file(path, "instance: a-${file:secret}\n"
                     "endpoints:\n"
                     "  hook: {url: 'https://me:${file:secret}@h.example/p?token=abc&x=1'}\n"
                     "  open: {url: 'https://me:verysecret@h.example/'}\n");
    CHECK_OK(config_load_file(path, &c, &err), &err);
    CHECK_STR(c->instance, "a-hunter2");
    CHECK_STR(c->endpoints[0].url, "https://me:hunter2@h.example/p?token=abc&x=1");
    check_shows(c, "hunter2", false);
    check_shows(c, "verysecret", false);
    check_shows(c, "abc", false);
    check_shows(c, "instance: a-***", true);
    check_shows(c, "url: https://***@h.example/p?token=***&x=***", true);
    config_free(c);

    /* Keys of signatures, wherever they come from. */
    write_file(path, "endpoints:\n"
                     "  hook: {url: 'https://h.example/', sign: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, '${KEY}']}\n");
    setenv("KEY", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", 1);
    CHECK_OK(config_load_file(path, &c, &err), &err);
    unsetenv("KEY");
    CHECK_EQ(c->endpoints[0].sign_count, 2);
    CHECK_STR(c->endpoints[0].sign[1], "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    check_shows(c, "whsec", false);
    check_shows(c, "sign: [\"***\", \"***\"]", true);
    config_free(c);

    /* Nor in an error. */
    write_file(path, "lease: ${file:secret}\n");
    CHECK_EQ(config_load_file(path, &c, &err), PR_ECONFIG);
    CHECK(strstr(err.text, "hunter2") == NULL);
    CHECK(strstr(err.text, "\"***\" is not a duration") != NULL);

    /* One that is not there yet is no empty password. */
    (void)snprintf(path, sizeof(path), "%s/secret", directory);
    write_file(path, "\n");
    (void)snprintf(path, sizeof(path), "%s/p.yaml", directory);
    CHECK_EQ(config_load_file(path, &c, &err), PR_ECONFIG);
    CHECK(strstr(err.text, "${file:secret}: the file is empty") != NULL);

    CHECK_EQ(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/secret", directory);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(directory), 0);
}

/* What is shown can be read again, and means the same. */
TEST(config_shows_what_it_would_read)
{
    struct config *c =
        load("instance: 'a: b # $${c}'\n"
             "boxes: {ledger: {keep: 90s}}\n"
             "endpoints:\n"
             "  a: {url: 'null:', retry: [1s, 2s], allow_networks: [10.0.0.0/8], rate: 90/m}\n"
             "  b: {url: 'console:', breaker: off}\n"
             "  c: {url: 'https://c.example', envelope: batch, batch: {messages: 7, bytes: 9KiB}, ca: /dev/null}\n"
             "routes: [{type: '*.x', to: [a, b]}, {header: {x-tenant: 'acme*', n: 1}, to: b}]\n");
    struct buf shown;
    struct config *again;

    buf_init(&shown, 1 << 20);
    config_show(c, &shown);
    again = load(buf_slice(&shown).data);
    CHECK_STR(again->instance, "a: b # ${c}");
    CHECK_EQ(again->boxes[4].keep_us, PR_SECONDS(90));
    CHECK_EQ(again->endpoints[0].retry.delay_count, 2);
    CHECK_EQ(again->endpoints[0].allow_networks[0].prefix, 8);
    CHECK_EQ(again->endpoints[0].rate.count, 90);
    CHECK_EQ(again->endpoints[0].rate.period_us, PR_MINUTES(1));
    CHECK_EQ(again->endpoints[1].rate.count, 0);
    CHECK_EQ(again->routes[1].header_count, 2);
    CHECK_SLICE(again->routes[1].headers[0].name, PR_STR("x-tenant"));
    CHECK_SLICE(again->routes[1].headers[0].glob, PR_STR("acme*"));
    CHECK(!again->endpoints[1].breaker.enabled);
    CHECK_EQ(again->endpoints[2].batch.messages, 7);
    CHECK_EQ(again->endpoints[2].batch.bytes, 9 * 1024);
    CHECK_STR(again->endpoints[2].ca, "/dev/null");
    CHECK_EQ(again->endpoints[0].batch.messages, TRANSPORT_BATCH_MESSAGES);
    CHECK_EQ(again->endpoints[0].batch.bytes, TRANSPORT_BATCH_BYTES);
    CHECK_STR(again->routes[0].type, "*.x");
    CHECK_EQ(again->routes[0].to_count, 2);
    CHECK_EQ(again->routes[1].to_count, 1);
    config_free(c);
    config_free(again);
    buf_fini(&shown);
}

TEST(config_example_is_right)
{
    struct config *c = load(config_example);

    CHECK_EQ(c->endpoint_count, 1);
    config_free(c);
}

/* The commented lines are right, too. */
TEST(config_example_is_right_when_everything_is_switched_on)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    for (const char *line = config_example; *line != '\0';) {
        const char *end = strchr(line, '\n');
        bool comment = line[0] == '#' && line[1] == ' ' && line[2] != ' ';

        if (!comment)
            buf_add(&text, line[0] == '#' ? line + 1 : line, (size_t)(end + 1 - (line[0] == '#' ? line + 1 : line)));
        line = end + 1;
    }
    struct config *c = load(buf_slice(&text).data);
    CHECK_EQ(c->endpoint_count, 3);
    CHECK_EQ(c->route_count, 2);
    CHECK_STR(c->http_listen, "127.0.0.1:8026");
    config_free(c);
    buf_fini(&text);
}

TEST(suggestions_are_near)
{
    struct suggestion s = { 0 };

    CHECK_EQ(suggest_distance(PR_STR("timeuot"), PR_STR("timeout")), 1);
    CHECK_EQ(suggest_distance(PR_STR("abc"), PR_STR("")), 3);
    CHECK_EQ(suggest_distance(PR_STR("kitten"), PR_STR("sitting")), 3);
    suggest_try(&s, PR_STR("stats"), "start");
    suggest_try(&s, PR_STR("stats"), "status");
    CHECK_STR(s.best, "status");
    s = (struct suggestion){ 0 };
    suggest_try(&s, PR_STR("xyzzy"), "status");
    CHECK(s.best == NULL);
}

TEST(config_takes_handlers_that_are_registered_later)
{
    struct config *c = load("endpoints: {a: {url: 'handler:bookkeeper'}}\n");

    CHECK_STR(c->endpoints[0].url, "handler:bookkeeper");
    config_free(c);
}

TEST(config_takes_the_short_form_of_a_url_without_a_place)
{
    struct config *c = load("endpoints: {a: {url: console}, b: {url: 'console:'}}\n");

    CHECK_STR(c->endpoints[0].url, "console:");
    CHECK_STR(c->endpoints[1].url, "console:");
    config_free(c);
}
