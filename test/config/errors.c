/* A wrong configuration is refused with one message that says where, what, and what would be right (B203).  People see
 * the texts, so they are compared word for word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"
#include "runtime/config/config.h"

static void refuses(const char *file, int line, const char *text, const char *want)
{
    struct config *config = NULL;
    struct pr_error err = { 0 };
    int r = config_load_text(pr_str(text), "t.yaml", &config, &err);

    if (r == PR_OK)
        check_fail(file, line, "accepted: %s", text);
    check_str(file, line, text, err.text, want);
    CHECK_EQ(r, PR_ECONFIG);
    CHECK_EQ(err.code, PR_ECONFIG);
    CHECK(config == NULL);
    CHECK(strchr(err.text, '\n') == NULL);
}

#define REFUSES(text, want) refuses(__FILE__, __LINE__, (text), (want))

TEST(config_names_the_nearest_key) /* B203 */
{
    REFUSES("stroe: sqlite:x\n", "t.yaml:1:1: stroe: unknown key; did you mean store?");
    REFUSES("limits:\n  paylod: 1MiB\n", "t.yaml:2:3: limits.paylod: unknown key; did you mean payload?");
    REFUSES("endpoints:\n  orders:\n    url: 'null:'\n    timeuot: 5s\n",
            "t.yaml:4:5: endpoints.orders.timeuot: unknown key; did you mean timeout?");
    REFUSES("endpoints: {a: {url: 'null:', retry: {bse: 1s}}}\n",
            "t.yaml:1:39: endpoints.a.retry.bse: unknown key; did you mean base?");
    REFUSES("routes:\n  - {tpye: x, to: a}\n", "t.yaml:2:6: routes[0].tpye: unknown key; did you mean type?");
}

TEST(config_lists_the_keys_when_none_is_near) /* B203 */
{
    REFUSES("log: {zzzzzz: 1}\n", "t.yaml:1:7: log.zzzzzz: unknown key; known are level, format");
}

TEST(config_refuses_what_is_no_yaml)
{
    REFUSES("store: [\n", "t.yaml:2:1: not valid YAML: did not find expected node content");
    REFUSES("a: b: c\n", "t.yaml:1:5: not valid YAML: mapping values are not allowed in this context; put a value with "
                         "a colon at its end or before a space in quotes");
    REFUSES(
        "\tstore: x\n",
        "t.yaml:1:1: not valid YAML: found character that cannot start any token; indent lines with spaces, not tabs");
    REFUSES("store: x\n\ttab: x\n", "t.yaml:2:1: not valid YAML: found a tab character that violates indentation; "
                                    "indent lines with spaces, not tabs");
    REFUSES("store: \xef\xb7\x90\n", "t.yaml:1:8: not valid YAML: not a Unicode character");
    REFUSES("log: {level: ${PR_TEST_NO:-ä}, format: \xff\n",
            "t.yaml:1:40: not valid YAML: invalid leading UTF-8 octet");
    REFUSES("log: {level: ${PR_TEST_NO\n", "t.yaml:1:15: not valid YAML: did not find expected ',' or '}'; the { of "
                                           "line 1, column 6 is not closed before");
    REFUSES(
        "endpoints:\n  a: {url: console\nroutes: []\n",
        "t.yaml:3:7: not valid YAML: did not find expected ',' or '}'; the { of line 2, column 6 is not closed before");
    REFUSES("store: \xff\xfe\n", "t.yaml:1:8: not valid YAML: invalid leading UTF-8 octet");
    REFUSES("lease: 15s\nstore: x\xff\n", "t.yaml:2:9: not valid YAML: invalid leading UTF-8 octet");
}

TEST(config_refuses_the_odd_parts_of_yaml)
{
    REFUSES("store: &a x\n", "t.yaml:1:8: anchors and aliases are not supported; repeat the value");
    REFUSES("store: *a\n", "t.yaml:1:8: anchors and aliases are not supported; repeat the value");
    REFUSES("store: !!str x\n", "t.yaml:1:8: tags are not supported");
    REFUSES("store: sqlite:x\n---\nbatch: 1\n", "t.yaml:2:1: a second document is not allowed");
    REFUSES("? [a]\n: b\n", "t.yaml:1:3: a key must be a word");
    REFUSES("store: \"a\\0b\"\n", "t.yaml:1:8: a NUL character is not allowed");
    REFUSES("- a\n", "t.yaml:1:1: needs a map, not a list");
}

TEST(config_refuses_duplicate_keys)
{
    REFUSES("batch: 1\nlease: 1s\nbatch: 2\n", "t.yaml:3:1: batch: duplicate key, already in line 1");
    REFUSES("endpoints:\n  a: {url: 'null:'}\n  a: {url: 'null:'}\n",
            "t.yaml:3:3: a: duplicate key, already in line 2");
}

TEST(config_refuses_wrong_values)
{
    REFUSES("lease: 15\n", "t.yaml:1:8: lease: \"15\" is not a duration; use a value such as 200ms, 30s, 5m, 24h, 7d");
    REFUSES("lease: 2h\n", "t.yaml:1:8: lease: 2h is not between 100ms and 1h");
    REFUSES("lease: [1s]\n", "t.yaml:1:8: lease: needs a duration, not a list");
    REFUSES("lease:\n", "t.yaml:1:7: lease: needs a duration, but is empty");
    REFUSES("batch: many\n", "t.yaml:1:8: batch: \"many\" is not a whole number");
    REFUSES("batch: 0\n", "t.yaml:1:8: batch: 0 is not between 1 and 100000");
    REFUSES("limits: {payload: 1 MB}\n",
            "t.yaml:1:19: limits.payload: \"1 MB\" is not a size; use a value such as 512B, 64KiB, 1MiB");
    REFUSES("limits: {payload: 2GiB}\n", "t.yaml:1:19: limits.payload: 2GiB is not between 1B and 1GiB");
    REFUSES("limits: 5\n", "t.yaml:1:9: limits: needs a map, not a single value");
    REFUSES("endpoints: {a: {url: 'null:', retry: 5s}}\n",
            "t.yaml:1:38: endpoints.a.retry: needs a map, not a single value; or list "
            "the delays, such as [10s, 60s, 5m]");
    REFUSES("log: {level: wran}\n", "t.yaml:1:14: log.level: unknown value \"wran\"; did you mean warn?");
    REFUSES("log: {format: xml}\n", "t.yaml:1:15: log.format: unknown value \"xml\"; use one of text, json");
    REFUSES("rules: [{when: {class: shaky}, then: park}]\n",
            "t.yaml:1:24: rules[0].when.class: unknown value \"shaky\"; use one of transient, permanent, unknown");
    REFUSES("endpoints: {a: {url: 'null:', retry: {factor: 0.5}}}\n",
            "t.yaml:1:47: endpoints.a.retry.factor: 0.5 is not between 1 and 100");
    REFUSES("endpoints: {a: {url: 'null:', retry: {jitter: nan}}}\n",
            "t.yaml:1:47: endpoints.a.retry.jitter: \"nan\" is not a number");
    REFUSES("endpoints: {a: {url: 'null:', preset: whizbng}}\n",
            "t.yaml:1:39: endpoints.a.preset: unknown value \"whizbng\"; did you mean whizbang?");
}

TEST(config_refuses_what_does_not_fit_together)
{
    REFUSES("poll: {min: 1s, max: 10ms}\n", "t.yaml:1:13: poll: min is longer than max");
    REFUSES("limits: {payload: 65MiB}\n", "t.yaml:1:19: limits: payload is larger than in_flight_bytes");
    REFUSES("endpoints: {a: {url: 'null:', retry: {base: 1s, delays: [1s]}}}\n",
            "t.yaml:1:39: endpoints.a.retry.base: cannot be combined with delays; use the list or the formula");
    REFUSES("endpoints: {a: {url: 'null:', breaker: {open: 5m, cap: 1m}}}\n",
            "t.yaml:1:40: endpoints.a.breaker: open is longer than cap");
    REFUSES(
        "endpoints: {a: {url: 'null:', breaker: maybe}}\n",
        "t.yaml:1:40: endpoints.a.breaker: unknown value \"maybe\"; use off, or a map such as {after: 5, open: 5s}");
    REFUSES("endpoints: {a: {url: 'null:', retry: []}}\n",
            "t.yaml:1:38: endpoints.a.retry: needs 1 to 64 entries, not 0");
    REFUSES("endpoints: {a: {url: 'null:', retry: [soon]}}\n",
            "t.yaml:1:39: endpoints.a.retry: \"soon\" is not a duration; use a value such as 200ms, 30s, 5m, 24h, 7d");
}

TEST(config_refuses_wrong_endpoints_and_routes)
{
    REFUSES("endpoints:\n  a:\n    timeout: 5s\n", "t.yaml:3:5: endpoints.a: url is missing");
    REFUSES("endpoints:\n  a:\n", "t.yaml:2:5: endpoints.a: url is missing");
    REFUSES("endpoints: {'a b': {url: 'null:'}}\n",
            "t.yaml:1:13: endpoints: \"a b\" is not a valid name; use letters, digits and _ - ., at most 63");
    REFUSES("boxes: {a-b: {}}\n",
            "t.yaml:1:9: boxes: \"a-b\" is not a valid name; use letters, digits and _, at most 63, "
            "not starting with a digit, and not a name that Postrider uses for another table");
    REFUSES("boxes: {messages: {}}\n", "t.yaml:1:9: boxes: \"messages\" is not a valid name; use letters, digits and "
                                       "_, at most 63, not starting with a "
                                       "digit, and not a name that Postrider uses for another table");
    REFUSES("endpoints: [a]\n", "t.yaml:1:12: endpoints: needs a map of names, not a list");
    REFUSES("routes: {to: a}\n", "t.yaml:1:9: routes: needs a list, not a map");
    REFUSES("routes: [{type: x}]\n", "t.yaml:1:10: routes[0]: to is missing");
    REFUSES("endpoints: {orders: {url: 'null:'}}\nroutes:\n  - {to: [orders, ordesr]}\n",
            "t.yaml:3:19: routes[0].to: unknown endpoint \"ordesr\"; did you mean orders?");
    REFUSES("routes: [{to: nowhere}]\n",
            "t.yaml:1:15: routes[0].to: unknown endpoint \"nowhere\"; add it under endpoints");
    REFUSES("endpoints: {a: {url: 'null:'}}\nroutes: [{box: inbx, to: a}]\n",
            "t.yaml:2:16: routes[0].box: unknown box \"inbx\"; did you mean inbox?");
    REFUSES("endpoints: {a: {url: 'null:'}}\nroutes: [{box: ledger, to: a}]\n",
            "t.yaml:2:16: routes[0].box: unknown box \"ledger\"; add it under boxes");
    REFUSES("boxes: {b: {kind: inbx}}\n", "t.yaml:1:19: boxes.b.kind: unknown value \"inbx\"; did you mean inbox?");
    REFUSES("boxes: {turns: {kind: outbox}}\n",
            "t.yaml:1:23: boxes.turns.kind: this box is for flows, so its kind is turns; use another name for yours");
    REFUSES("boxes: {activities: {kind: turns}}\n", "t.yaml:1:28: boxes.activities.kind: this box is for flows, so its "
                                                    "kind is activities; use another name for yours");
    REFUSES("endpoints: {a: {url: 'box:'}}\n",
            "t.yaml:1:22: endpoint a: \"box:\" does not name a box; write box:NAME, with a name under boxes");
    REFUSES("endpoints: {a: {url: 'box:inbx'}}\n",
            "t.yaml:1:22: endpoint a: unknown box \"inbx\"; did you mean inbox?");
    REFUSES("endpoints: {a: {url: 'box:ledger'}}\n",
            "t.yaml:1:22: endpoint a: unknown box \"ledger\"; add it under boxes");
    REFUSES("endpoints: {a: {url: 'box:inbox', mode: inline}}\n",
            "t.yaml:1:41: endpoint a: delivery into a box needs mode: durable");
    REFUSES(
        "boxes: {ledger: {}}\nendpoints: {a: {url: 'box:ledger'}}\nroutes: [{to: a}]\n",
        "t.yaml:3:15: routes[0].to: a delivers into the box ledger, whose messages this route takes, too: they would "
        "loop forever; give the route another box, as in {box: outbox, to: a}");
    REFUSES("routes: [{to: [[x]]}]\n", "t.yaml:1:16: routes[0].to: the list can only have single values");
}

TEST(config_refuses_patterns_with_too_many_stars) /* B206 */
{
#define STARS "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a"
#define ROUTE "endpoints: {a: {url: 'null:'}}\nroutes:\n  - "
    REFUSES(ROUTE "{type: '" STARS "', to: a}\n",
            "t.yaml:3:12: routes[0].type: a pattern can have at most 255 bytes and 16 stars");
    REFUSES(ROUTE "{header: {x: '" STARS "'}, to: a}\n",
            "t.yaml:3:14: routes[0].header: a pattern can have at most 255 bytes and 16 stars");
#undef ROUTE
#undef STARS
}

TEST(config_refuses_wrong_rates_signatures_and_headers) /* B204 */
{
    static const char *const rates[] = { "100", "0/s", "/s", "-1/s", "1/w", "1/s2", "2000000/s", "+1/s" };
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        char text[100], why[200];
        snprintf(text, sizeof(text), "endpoints:\n  b:\n    url: 'null:'\n    rate: %s\n", rates[i]);
        snprintf(why, sizeof(why),
                 "t.yaml:4:11: endpoints.b.rate: \"%s\" is not a rate; use a value such as 100/s, 6000/m or 500/h (1 "
                 "to 1000000)",
                 rates[i]);
        REFUSES(text, why);
    }
    REFUSES("endpoints:\n  b:\n    url: 'null:'\n    rate: 1/s\n    mode: inline\n",
            "t.yaml:4:11: endpoint b: a rate needs mode durable, because excess messages wait in the store");
    REFUSES(
        "endpoints:\n  b:\n    url: https://h.example/\n    sign: hunter2\n", /* B204: it does not say it again */
        "t.yaml:3:10: endpoint b: sign: a secret is whsec_ and 24 to 64 bytes in base64, number 1 is not; to make one: "
        "echo whsec_$(openssl rand -base64 32)");
    REFUSES("endpoints:\n  b:\n    url: https://h.example/\n    key: /dev/null\n",
            "t.yaml:3:10: endpoint b: key needs cert");
    REFUSES("endpoints: {a: {url: 'null:'}}\nroutes:\n  - {header: x, to: a}\n",
            "t.yaml:3:14: routes[0].header: needs a map of 1 to 16 headers, such as {x-tenant: acme*}");
    REFUSES("endpoints: {a: {url: 'null:'}}\nroutes:\n  - {header: {x: [y]}, to: a}\n",
            "t.yaml:3:18: routes[0].header.x: needs a glob, not a list");
}

TEST(config_refuses_by_name_what_is_not_built_in)
{
    REFUSES("store: mysql:x\n",
            "t.yaml:1:8: store: unknown kind of store; use sqlite:FILE or postgres://USER@HOST/DATABASE");
    REFUSES("store: 'sqlite:'\n", "t.yaml:1:8: store: the file name is missing; use sqlite:FILE");
}

TEST(config_listens_on_loopback_only)
{
    REFUSES("http: {listen: 0.0.0.0:80}\n",
            "t.yaml:1:16: http.listen: 0.0.0.0:80 is not a loopback address; other addresses need http.token");
    setenv("PR_TEST_EMPTY", "", 1); /* a secret that is missing opens no door */
    REFUSES("http: {listen: 127.0.0.1:0, token: ${PR_TEST_EMPTY}}\n",
            "t.yaml:1:36: http.token: is empty, so everybody would be let in; set it, or remove the key");
    REFUSES("http: {listen: 127.0.0.1:0, viewer_token: '${PR_TEST_NONE:-}'}\n",
            "t.yaml:1:43: http.viewer_token: is empty, so everybody would be let in; set it, or remove the key");
    REFUSES("sources:\n  - {http: 'http://127.0.0.1:1/in', token: \"${PR_TEST_EMPTY}\"}\n",
            "t.yaml:2:44: sources[0].token: is empty, so everybody would be let in; set it, or remove the key");
    unsetenv("PR_TEST_EMPTY");
    REFUSES("http: {listen: 0.0.0.0:80, token: short}\n",
            "t.yaml:1:35: http.token: needs at least 16 characters; create one with: openssl rand -hex 32");
    REFUSES("http: {listen: localhost}\n",
            "t.yaml:1:16: http.listen: \"localhost\" is not an address and port; use a value such as 127.0.0.1:8026");
    REFUSES(
        "http: {listen: '127.0.0.1:99999'}\n",
        "t.yaml:1:16: http.listen: \"127.0.0.1:99999\" is not an address and port; use a value such as 127.0.0.1:8026");
}

TEST(config_refuses_expansions_that_fail)
{
    unsetenv("PR_TEST_NONE");
    REFUSES("instance: ${PR_TEST_NONE}\n",
            "t.yaml:1:11: environment variable PR_TEST_NONE is not set; set it, or use ${PR_TEST_NONE:-default}");
    REFUSES("instance: ${PR_TEST_NONE:?tell me your name}\n",
            "t.yaml:1:11: environment variable PR_TEST_NONE is not set: tell me your name");
    REFUSES("instance: ${PR_TEST_NONE\n", "t.yaml:1:11: \"${\" without a closing \"}\"");
    REFUSES("instance: ${1X}\n",
            "t.yaml:1:11: ${1X} is not valid; use ${NAME}, ${NAME:-default}, ${NAME:?message} or ${file:path}");
    REFUSES("instance: ${A:b}\n",
            "t.yaml:1:11: ${A:b} is not valid; use ${NAME}, ${NAME:-default}, ${NAME:?message} or ${file:path}");
    REFUSES("instance: ${file:does/not/exist}\n", "t.yaml:1:11: ${file:does/not/exist}: No such file or directory");
    REFUSES("instance: ${file:}\n", "t.yaml:1:11: ${file:}: not a path");
    REFUSES("instance: ${file:/dev/zero}\n", "t.yaml:1:11: ${file:/dev/zero}: not a file"); /* B206: it has no end */
    REFUSES("instance: ${file:/tmp}\n", "t.yaml:1:11: ${file:/tmp}: not a file");
}

TEST(config_names_the_variable_that_is_wrong) /* B203 */
{
    setenv("POSTRIDER_LIMITS__PAYLOAD", "lots", 1);
    REFUSES("batch: 5\n", "environment variable POSTRIDER_LIMITS__PAYLOAD: limits.payload: \"lots\" is not a size; use "
                          "a value such as 512B, 64KiB, 1MiB");
    unsetenv("POSTRIDER_LIMITS__PAYLOAD");
}

TEST(config_names_the_variable_that_nobody_asked_for) /* B203 */
{
    static const char *const cases[][2] = {
        { "POSTRIDER_LIMITS__PAYLOD", "; did you mean POSTRIDER_LIMITS__PAYLOAD?" },
        { "POSTRIDER_LIMITS_PAYLOAD", "; did you mean POSTRIDER_LIMITS__PAYLOAD?" },
        { "POSTRIDER_STROE", "; did you mean POSTRIDER_STORE?" },
        { "POSTRIDER_ENDPOINTS__A__TIMEUOT", "; did you mean POSTRIDER_ENDPOINTS__A__TIMEOUT?" },
        { "POSTRIDER_SOMETHING",
          "; the variable of limits.payload is POSTRIDER_LIMITS__PAYLOAD, and endpoints and boxes "
          "must be in the file" },
    };
    static const char *const of_others[] = { "POSTRIDER_PORT", "POSTRIDER_PORT_8026_TCP_ADDR", "POSTRIDER_SERVICE_HOST",
                                             "POSTRIDER_SERVICE_PORT_HTTP", "POSTRIDER_HEADERS" };
    char want[256];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv(cases[i][0], "5", 1);
        snprintf(want, sizeof(want), "environment variable %s: no such setting%s", cases[i][0], cases[i][1]);
        REFUSES("endpoints: {a: {url: 'null:'}}\n", want);
        unsetenv(cases[i][0]);
    }
    for (size_t i = 0; i < sizeof(of_others) / sizeof(of_others[0]); i++)
        setenv(of_others[i], "5", 1);
    setenv("POSTRIDER_OWN", "5", 1); /* of the file itself */
    struct config *config = NULL;
    struct pr_error error;
    CHECK_OK(config_load_text(PR_STR("batch: ${POSTRIDER_OWN}\n"), "t.yaml", &config, &error), &error);
    CHECK_EQ(config->batch, 5);
    config_free(config);
    for (size_t i = 0; i < sizeof(of_others) / sizeof(of_others[0]); i++)
        unsetenv(of_others[i]);
    unsetenv("POSTRIDER_OWN");
}

TEST(config_has_limits)
{
    struct config *config = NULL;
    struct pr_error err;
    struct buf text;

    buf_init(&text, CONFIG_BYTES_MAX * 2);
    for (int i = 0; i <= CONFIG_DEPTH_MAX; i++)
        buf_add_char(&text, '[');
    REFUSES(buf_slice(&text).data, "t.yaml:1:17: more than 16 levels deep");

    buf_reset(&text);
    buf_add_cstr(&text, "routes:\n");
    for (int i = 0; i < 60000; i++)
        buf_add_cstr(&text, "- 1\n");
    REFUSES(buf_slice(&text).data, "t.yaml:50000:3: more than 50000 values");

    buf_reset(&text);
    for (int i = 0; i <= CONFIG_KEYS_MAX; i++)
        buf_addf(&text, "k%d: 1\n", i);
    REFUSES(buf_slice(&text).data, "t.yaml:4097:1: more than 4096 keys in one map");

    buf_reset(&text);
    for (unsigned i = 0; i <= CONFIG_BYTES_MAX; i++)
        buf_add_char(&text, '#');
    CHECK_EQ(config_load_text(buf_slice(&text), "t.yaml", &config, &err), PR_ECONFIG);
    CHECK_STR(err.text, "t.yaml: larger than 1048576 bytes");

    buf_reset(&text);
    buf_add_cstr(&text, "instance: ");
    for (int i = 0; i <= CONFIG_VALUE_MAX; i++)
        buf_add_char(&text, 'x');
    REFUSES(buf_slice(&text).data, "t.yaml:1:11: the value is longer than 65536 bytes");
    buf_fini(&text);
}

TEST(config_says_why_a_file_cannot_be_read)
{
    struct config *config = NULL;
    struct pr_error err;

    CHECK_EQ(config_load_file("/nonexistent/p.yaml", &config, &err), PR_EIO);
    CHECK_STR(err.text, "/nonexistent/p.yaml: No such file or directory");
    CHECK_EQ(config_load_file("/", &config, &err), PR_EIO);
    CHECK_STR(err.text, "/: Is a directory");
}
