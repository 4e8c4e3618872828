/* An order as a saga: reserve, charge, ship; when a step fails, what was done before is undone, in reverse order.  The flow is an
 * ordinary function; kill the program at any point, start it again, and every order still ends well or undone.
 *
 *     cc flow_saga.c $(pkg-config --cflags --libs postrider) -pthread -o flow_saga
 *     ./flow_saga shop.db
 */
#include <postrider_flow.h>
#include <stdio.h>
#include <string.h>

/* ---- Activities: they may do anything.  Each is done at least once, and its result is recorded once ---- */

static int report(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    const struct pr_activity_info *info = pr_activity_info(context);
    (void)user;
    printf("%.*s %.*s\n", (int)info->name.size, info->name.data, (int)input.size, input.data);
    *ret_output = info->name;
    return PR_OK;
}

/* Nobody ships to the moon, however often it is tried. */
static int ship(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    static const char moon[] = "moon";
    if (input.size == sizeof moon - 1 && memcmp(input.data, moon, sizeof moon - 1) == 0)
        return pr_activity_fail(context, PR_CATEGORY_APPLICATION, false, "no carrier goes there");
    return report(context, input, ret_output, user);
}

/* ---- The flow ---- */

static int order(pr_flow *f, pr_slice to, pr_slice *ret_output)
{
    static const char *const steps[] = { "reserve", "charge", "ship" };
    static const char *const undo[] = { "unreserve", "refund", NULL };
    const struct pr_activity_options patient = {
        .retry = { .tries = 5, .backoff = PR_BACKOFF_EXPONENTIAL, .first_us = PR_SECONDS(1), .max_us = PR_MINUTES(1) }
    };
    struct pr_error why;
    for (int i = 0; i < 3; i++) {
        int rc = pr_result(f, pr_activity_with(f, steps[i], to, &patient), NULL, &why);
        if (rc < 0)
            return rc; /* not yet, or cancelled */
        if (rc == PR_FAILED) {
            for (int k = i - 1; k >= 0; k--)
                if ((rc = pr_call(f, undo[k], to, NULL)) != PR_OK)
                    return rc;
            return pr_flow_fail(f, "%s: %s", steps[i], why.text);
        }
        if ((rc = pr_set_status(f, pr_str(steps[i]))) != PR_OK)
            return rc;
    }
    *ret_output = PR_STR("shipped");
    return PR_OK;
}

/* ---- The program ---- */

static int run_order(struct pr_flow_client *client, const char *id, const char *to, enum pr_flow_state wanted,
                     struct pr_error *error)
{
    const struct pr_flow_start start = { .name = "order", .id = id, .input = pr_str(to) };
    struct pr_flow_status status;
    if (pr_flow_start(client, &start, NULL, error) < 0 ||
        pr_flow_wait(client, id, -1, PR_SECONDS(60), &status, error) != PR_OK)
        return 1;
    pr_slice result = status.state == PR_FLOW_FAILED ? status.error : status.output;
    printf("%s: %s: %.*s\n", id, pr_flow_state_name(status.state), (int)result.size, result.data);
    int failed = status.state != wanted;
    pr_flow_status_free(&status);
    return failed;
}

int main(int argc, char **argv)
{
    static const char *const activities[] = { "reserve", "charge", "unreserve", "refund" };
    struct pr_flow_client *client = NULL;
    struct pr_error error = { 0 };
    char url[4096], config[8192];
    int failed = 1, rc = PR_OK;
    snprintf(url, sizeof url, "sqlite:%s", argc > 1 ? argv[1] : "shop.db");
    snprintf(config, sizeof config, "store: \"%s\"\n", url);

    struct pr_engine *engine = pr_engine_new(config, &error);
    for (int i = 0; engine != NULL && rc == PR_OK && i < 4; i++)
        rc = pr_engine_activity(engine, activities[i], report, NULL);
    if (engine != NULL && rc == PR_OK && pr_store_init(url, &error) == PR_OK &&
        pr_engine_activity(engine, "ship", ship, NULL) == PR_OK &&
        pr_engine_flow(engine, "order", NULL, order, NULL) == PR_OK && pr_engine_start(engine, &error) == PR_OK &&
        pr_flow_client_open(url, &client, &error) == PR_OK)
        failed = run_order(client, "order-1", "Berlin", PR_FLOW_COMPLETED, &error) ||
                 run_order(client, "order-2", "moon", PR_FLOW_FAILED, &error);
    if (error.text[0] != '\0')
        fprintf(stderr, "flow_saga: %s\n", error.text);
    pr_flow_client_close(client);
    if (engine != NULL)
        pr_engine_stop(engine, PR_SECONDS(10));
    pr_engine_free(engine);
    return failed;
}
