/* A subscription that lives for years: it is charged each period, can be upgraded by mail and ended by an event, and continues as
 * new each period, so that its history stays short.  A sleeping one costs a row, and neither memory nor a thread.
 *
 *     cc flow_subscription.c $(pkg-config --cflags --libs postrider) -pthread -o flow_subscription
 *     ./flow_subscription shop.db
 */
#include <postrider_flow.h>
#include <stdio.h>
#include <string.h>

#define PERIOD PR_MILLISECONDS(200) /* a month, for people in a hurry */

static int charge(struct pr_activity_context *context, pr_slice plan, pr_slice *ret_output, void *user)
{
    (void)context;
    (void)user;
    printf("charged for plan %.*s\n", (int)plan.size, plan.data);
    *ret_output = plan;
    return PR_OK;
}

/* One period; the input is the plan.  Key-values, mail and the custom status go over to the next execution. */
static int subscription(pr_flow *f, pr_slice plan, pr_slice *ret_output)
{
    pr_slice periods = { "", 0 };
    int rc = pr_call(f, "charge", plan, NULL);
    if (rc != PR_OK)
        return rc;
    if (pr_state_get(f, PR_STR("periods"), &periods) != PR_OK)
        periods = PR_STR("");
    periods = pr_flow_printf(f, "%.*s|", (int)periods.size, periods.data); /* a tally */
    if ((rc = pr_state_set(f, PR_STR("periods"), periods)) != PR_OK ||
        (rc = pr_set_status(f, pr_flow_printf(f, "%zu periods, plan %.*s", periods.size, (int)plan.size, plan.data))) !=
            PR_OK)
        return rc;

    const pr_task next[] = { pr_timer(f, PERIOD), pr_event(f, "end"), pr_mail(f, "upgrade") };
    int first = pr_any(f, 3, next);
    if (first < 0)
        return first;
    if (first == 1) {
        *ret_output = pr_flow_printf(f, "ended after %zu periods", periods.size);
        return PR_OK;
    }
    if (first == 2 && (rc = pr_result(f, next[2], &plan, NULL)) != PR_OK)
        return rc;
    return pr_continue_as_new(f, plan, NULL);
}

/* ---- The program ---- */

static int live(struct pr_flow_client *client, struct pr_error *error)
{
    const struct pr_flow_start start = { .name = "subscription", .id = "customer-7", .input = PR_STR("basic") };
    struct pr_flow_status status = { 0 };
    int64_t seen = 0;
    if (pr_flow_start(client, &start, NULL, error) < 0)
        return 1;
    for (int i = 0; i < 3; i++) { /* hears of each period when it begins; nobody polls */
        if (pr_flow_wait(client, "customer-7", seen, PR_SECONDS(60), &status, error) != PR_OK)
            return 1;
        seen = status.status_number;
        printf("%.*s\n", (int)status.custom_status.size, status.custom_status.data);
        pr_flow_status_free(&status);
        if (i == 1 && pr_flow_send(client, "customer-7", "upgrade", PR_STR("gold"), error) != PR_OK)
            return 1;
    }
    if (pr_flow_raise(client, "customer-7", "end", PR_STR(""), error) != PR_OK ||
        pr_flow_wait(client, "customer-7", -1, PR_SECONDS(60), &status, error) != PR_OK)
        return 1;
    printf("%.*s\n", (int)status.output.size, status.output.data);
    int failed = status.state != PR_FLOW_COMPLETED;
    pr_flow_status_free(&status);
    return failed;
}

int main(int argc, char **argv)
{
    struct pr_flow_client *client = NULL;
    struct pr_error error = { 0 };
    char url[4096], config[8192];
    int failed = 1;
    snprintf(url, sizeof url, "sqlite:%s", argc > 1 ? argv[1] : "shop.db");
    snprintf(config, sizeof config, "store: \"%s\"\n", url);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine != NULL && pr_store_init(url, &error) == PR_OK &&
        pr_engine_activity(engine, "charge", charge, NULL) == PR_OK &&
        pr_engine_flow(engine, "subscription", NULL, subscription, NULL) == PR_OK &&
        pr_engine_start(engine, &error) == PR_OK && pr_flow_client_open(url, &client, &error) == PR_OK)
        failed = live(client, &error);
    if (error.text[0] != '\0')
        fprintf(stderr, "flow_subscription: %s\n", error.text);
    pr_flow_client_close(client);
    if (engine != NULL)
        pr_engine_stop(engine, PR_SECONDS(10));
    pr_engine_free(engine);
    return failed;
}
