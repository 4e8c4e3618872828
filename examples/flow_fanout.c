/* A thousand activities at once, and their sum: the flow starts all of them in one turn and waits for all.
 *
 *     cc flow_fanout.c $(pkg-config --cflags --libs postrider) -pthread -o flow_fanout
 *     ./flow_fanout shop.db
 */
#include <postrider_flow.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 1000

static long number_of(pr_slice text)
{
    char digits[32] = "";
    memcpy(digits, text.data, text.size < sizeof digits ? text.size : sizeof digits - 1);
    return strtol(digits, NULL, 10);
}

static int twice(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    char *text = pr_activity_alloc(context, 32);
    (void)user;
    if (text == NULL)
        return pr_activity_fail(context, PR_CATEGORY_INFRASTRUCTURE, true, "out of memory");
    *ret_output = (pr_slice){ text, (size_t)snprintf(text, 32, "%ld", 2 * number_of(input)) };
    return PR_OK;
}

static int sum(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task *parts = pr_flow_alloc(f, PARTS * sizeof *parts);
    long total = 0;
    pr_slice one;
    (void)input;
    if (parts == NULL)
        return PR_ENOMEM;
    for (int i = 0; i < PARTS; i++)
        parts[i] = pr_activity(f, "twice", pr_flow_printf(f, "%d", i));
    int rc = pr_all(f, PARTS, parts);
    for (int i = 0; i < PARTS && rc == PR_OK; i++)
        if ((rc = pr_result(f, parts[i], &one, NULL)) == PR_OK)
            total += number_of(one);
    *ret_output = pr_flow_printf(f, "%ld", total);
    return rc;
}

int main(int argc, char **argv)
{
    const struct pr_flow_start start = { .name = "sum", .id = "sum-1" };
    struct pr_flow_status status = { 0 };
    struct pr_flow_client *client = NULL;
    struct pr_error error = { 0 };
    char url[4096], config[8192];
    int failed = 1;
    snprintf(url, sizeof url, "sqlite:%s", argc > 1 ? argv[1] : "shop.db");
    snprintf(config, sizeof config, "store: \"%s\"\n", url);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine != NULL && pr_store_init(url, &error) == PR_OK &&
        pr_engine_activity(engine, "twice", twice, NULL) == PR_OK &&
        pr_engine_flow(engine, "sum", NULL, sum, NULL) == PR_OK && pr_engine_start(engine, &error) == PR_OK &&
        pr_flow_client_open(url, &client, &error) == PR_OK && pr_flow_start(client, &start, NULL, &error) == PR_OK &&
        pr_flow_wait(client, "sum-1", -1, PR_SECONDS(60), &status, &error) == PR_OK) {
        printf("%.*s\n", (int)status.output.size, status.output.data);
        failed = number_of(status.output) != (long)PARTS * (PARTS - 1);
    }
    if (error.text[0] != '\0')
        fprintf(stderr, "flow_fanout: %s\n", error.text);
    pr_flow_status_free(&status);
    pr_flow_client_close(client);
    if (engine != NULL)
        pr_engine_stop(engine, PR_SECONDS(10));
    pr_engine_free(engine);
    return failed;
}
