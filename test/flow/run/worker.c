/* A process that runs flows, some of which kill it.  Usage: flow-worker URL FILE [YAML]
 *
 * Each call of an activity is a line in FILE: its name and its number in the flow.  It runs until it is killed. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <postrider_flow.h>

static int calls_fd;

static void die(void)
{
    kill(getpid(), SIGKILL);
    pause();
}

static void loop(void)
{
    for (;;)
        usleep(1000);
}

/* ---- Activities ---------------------------------------------------------------------------------------- */

static void record(struct pr_activity_context *context)
{
    const struct pr_activity_info *info = pr_activity_info(context);
    char line[512];
    int size = snprintf(line, sizeof line, "%.*s %.*s %lld\n", (int)info->name.size, info->name.data,
                        (int)info->flow.size, info->flow.data, (long long)info->number);
    if (write(calls_fd, line, (size_t)size) != size)
        abort(); /* a record with holes would prove nothing */
}

static int echo(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)user;
    record(context);
    *ret_output = input;
    return PR_OK;
}

static int deadly(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)user;
    (void)ret_output;
    record(context);
    if (input.size == 4 && memcmp(input.data, "loop", 4) == 0)
        loop();
    die();
    return PR_OK;
}

/* ---- Flows --------------------------------------------------------------------------------------------- */

static int plain(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_call(f, "echo", input, ret_output);
}

/* Three steps with a timer between them, as much as can go wrong in between. */
static int steps(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task two[2];
    int rc = pr_call(f, "echo", input, NULL);
    if (rc == PR_OK)
        rc = pr_result(f, pr_timer(f, PR_MILLISECONDS(10)), NULL, NULL);
    if (rc != PR_OK)
        return rc;
    two[0] = pr_activity(f, "echo", PR_STR("a"));
    two[1] = pr_child(f, "plain", PR_STR("b"));
    rc = pr_all(f, 2, two);
    *ret_output = PR_STR("done");
    return rc;
}

static int compensates(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    struct pr_error why;
    pr_task task = pr_activity(f, "deadly", input);
    int rc = pr_result(f, task, ret_output, &why);
    struct pr_task_error error;
    if (rc != PR_FAILED)
        return rc;
    if (pr_task_error(f, task, &error) != PR_OK)
        return pr_flow_fail(f, "nothing is known of the error");
    *ret_output =
        pr_flow_printf(f, "%s%s: %s", pr_category_name(error.category), error.retryable ? ", again" : "", why.text);
    return PR_OK;
}

/* Dies in its first turn, or after an activity while another one is open. */
static int suicidal(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)ret_output;
    if (input.size == 3 && memcmp(input.data, "now", 3) == 0)
        die();
    if (input.size == 4 && memcmp(input.data, "loop", 4) == 0)
        loop();
    (void)pr_activity_with(f, "echo", PR_STR("x"), &(struct pr_activity_options){ .tag = "nobody" });
    int rc = pr_call(f, "echo", input, NULL);
    if (rc != PR_OK)
        return rc;
    die();
    return PR_OK;
}

static int parent(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_child_options named = { .id = "child" };
    struct pr_error why = { 0 };
    int rc = pr_result(f, pr_child_with(f, "suicidal", input, &named), NULL, &why);
    if (rc != PR_FAILED)
        return rc;
    *ret_output = pr_flow_printf(f, "%s", why.text);
    return PR_OK;
}

/* Three timers at once, and work behind them. */
static int naps(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[3];
    for (int i = 0; i < 3; i++)
        tasks[i] = pr_timer(f, PR_MILLISECONDS(2000 + 10 * i));
    int rc = pr_all(f, 3, tasks);
    return rc == PR_OK ? pr_call(f, "echo", input, ret_output) : rc;
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        pr_flow_function function;
    } flows[] = { { "plain", plain },       { "steps", steps },   { "compensates", compensates },
                  { "suicidal", suicidal }, { "parent", parent }, { "naps", naps } };
    struct rlimit no_core = { 0, 0 };
    struct pr_error error;
    char config[4096];

    if (argc < 3)
        return 2;
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives the test */
    calls_fd = open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    snprintf(config, sizeof config, "store: \"%s\"\n%s", argv[1], argc > 3 ? argv[3] : "");
    struct pr_engine *engine = pr_engine_new(config, &error);
    bool known = engine != NULL && calls_fd >= 0;
    for (size_t i = 0; known && i < sizeof flows / sizeof flows[0]; i++)
        known = pr_engine_flow(engine, flows[i].name, NULL, flows[i].function, NULL) == PR_OK;
    known = known && pr_engine_activity(engine, "echo", echo, NULL) == PR_OK &&
            pr_engine_activity(engine, "deadly", deadly, NULL) == PR_OK;
    if (!known || pr_engine_start(engine, &error) != PR_OK) {
        fprintf(stderr, "flow-worker: %s\n", error.text);
        return 2;
    }
    for (;;)
        pause();
}
