/* endpoints test: one marked message through the endpoint's own transport, without the store. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/command/policy.h"

#define TEST_TYPE "postrider.test"
#define TEST_HEADERS "{\"postrider-test\":\"true\"}"
#define TEST_PAYLOAD "{\"test\":true}"

static void make_message(const struct config_endpoint *endpoint, struct pr_message *ret)
{
    *ret = (struct pr_message){
        .type = PR_STR(TEST_TYPE),
        .destination = slice_from(endpoint->name),
        .content_type = PR_STR("application/json"),
        .headers = PR_STR(TEST_HEADERS),
        .payload = PR_STR(TEST_PAYLOAD),
        .created_us = clock_wall_us(clock_system()),
    };
    pr_id_new(&ret->id);
}

/* Every delivery gets its result; the transport ensures the deadline. */
static int carry(const struct endpoint_config *config, const struct pr_message *m, struct delivery_result *ret,
                 struct pr_error *reterr)
{
    struct transport transport = { 0 };
    int64_t now_us = clock_mono_us(clock_system());
    struct delivery delivery = {
        .message = m, .attempt = 1, .deadline_us = now_us + config->timeout_us, .start_before_us = PR_NEVER
    };
    const struct delivery *list[] = { &delivery };
    int rc = transport_open(config, &transport, reterr);

    if (rc != PR_OK)
        return rc;
    size_t taken = transport_submit(&transport, list, 1);
    ASSERT(taken == 1);
    while (transport_poll(&transport, ret, 1, now_us + config->timeout_us) == 0)
        ;
    transport_close(&transport);
    return PR_OK;
}

static void print_json(const struct config_endpoint *endpoint, const struct pr_message *m,
                       const struct delivery_result *r, int64_t took_us)
{
    static const char *const outcomes[] = {
        [SEND_OK] = "delivered", [SEND_FAILED] = "failed", [SEND_UNKNOWN] = "unknown", [SEND_RETURNED] = "not_sent"
    };
    bool failed = r->outcome == SEND_FAILED || r->outcome == SEND_UNKNOWN;
    char id[PR_ID_TEXT_SIZE];
    struct json_line line;

    pr_id_format(m->id, id);
    struct json_writer *w = line_begin(&line);
    json_begin_object(w);
    json_put_cstr(w, "endpoint", endpoint->name);
    json_put_cstr(w, "id", id);
    json_put_cstr(w, "outcome", outcomes[r->outcome]);
    json_put_int(w, "took_ms", took_us / 1000);
    json_put_cstr(w, "reason", failed ? pr_reason_name(r->reason) : NULL);
    json_put_cstr(w, "class", failed ? reason_class_name(reason_class(r->reason)) : NULL);
    json_put_cstr(w, "code", r->code[0] != '\0' ? r->code : NULL);
    json_put_cstr(w, "error", r->error);
    json_end_object(w);
    line_end(&line);
}

static void print_words(const struct config_endpoint *endpoint, const struct pr_message *m,
                        const struct delivery_result *r, int64_t took_us)
{
    char id[PR_ID_TEXT_SIZE];

    pr_id_format(m->id, id);
    if (r->outcome == SEND_OK) {
        printf("%s accepted the test message %s (type " TEST_TYPE ") in %" PRId64 " ms\n", endpoint->name, id,
               took_us / 1000);
        return;
    }
    if (r->outcome == SEND_RETURNED) {
        printf("%s: the test message was not sent\n", endpoint->name);
        return;
    }
    printf("%s %s: %s%s%s%s%s%s, after %" PRId64 " ms\n", endpoint->name,
           r->outcome == SEND_UNKNOWN ? "may have accepted the test message" : "did not accept the test message",
           pr_reason_name(r->reason), r->code[0] != '\0' ? " (" : "", r->code, r->code[0] != '\0' ? ")" : "",
           r->error != NULL ? ": " : "", r->error != NULL ? r->error : "", took_us / 1000);
}

/* A test bypasses the store, but not the audit.  An endpoint can be tried before a store exists. */
static void record(struct cli *cli, const struct config_endpoint *endpoint, bool taken)
{
    const struct admin_reply outcome = { .matched = 1, .changed = taken, .refused = !taken };
    const struct admin admin = { .kind = ADMIN_ENDPOINT_TEST,
                                 .filter = { .endpoint = slice_from(endpoint->name), .state = -1 },
                                 .by = cli_user(cli),
                                 .why = slice_from(cli->flags.values[FLAG_WHY]),
                                 .outcome = &outcome };
    struct admin_reply reply;
    struct pr_error err;

    if (cli_open_store(cli) != EXIT_DONE)
        cli_say("so the test is not in the audit log");
    else if (store_admin(&cli->store, &admin, &reply, &err) != PR_OK)
        cli_say("the test is not in the audit log: %s", err.text);
}

int run_endpoints_test(struct cli *cli)
{
    const struct config_endpoint *endpoint = NULL;
    struct endpoint_config config;
    struct pr_message message;
    struct delivery_result result;
    struct pr_error err;
    int code = cli_load_config(cli);

    if (code == EXIT_DONE)
        endpoint = policy_endpoint(cli, cli->args[0], &code);
    if (endpoint == NULL)
        return code;
    if (slice_eq_cstr(transport_scheme(endpoint->url), "handler")) {
        cli_say("endpoint %s is a function of another program; only that program can call it", endpoint->name);
        return EXIT_FAILED;
    }
    config_endpoint_for_transport(endpoint, &config);
    make_message(endpoint, &message);
    int64_t begin_us = clock_mono_us(clock_system());
    if (carry(&config, &message, &result, &err) != PR_OK)
        return cli_fault(&err);
    int64_t took_us = clock_mono_us(clock_system()) - begin_us;
    if (cli->json)
        print_json(endpoint, &message, &result, took_us);
    else
        print_words(endpoint, &message, &result, took_us);
    code = result.outcome == SEND_OK ? EXIT_DONE : EXIT_FAILED;
    record(cli, endpoint, code == EXIT_DONE);
    delivery_result_fini(&result);
    return code;
}
