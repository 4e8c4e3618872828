/* A program with flows, as a user would write it: the tests of the command and of the API start it with the daemon or
 * alone.
 *
 *     host CONFIG.yaml       runs until SIGTERM; with http in the configuration it answers there */
#include <postrider_flow.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Activities ---- */

static int say(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    char *text = pr_activity_alloc(context, input.size + 8);
    (void)user;
    if (text == NULL)
        return pr_activity_fail(context, PR_CATEGORY_INFRASTRUCTURE, true, "out of memory");
    memcpy(text, "hello, ", 7);
    memcpy(text + 7, input.data, input.size);
    *ret_output = (pr_slice){ text, input.size + 7 };
    return PR_OK;
}

/* Fails until somebody puts the file `up` here. */
static int flaky(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    FILE *f = fopen("up", "re");
    (void)user;
    if (f == NULL)
        return pr_activity_fail(context, PR_CATEGORY_APPLICATION, true, "the bank does not answer");
    fclose(f);
    *ret_output = input;
    return PR_OK;
}

/* ---- Flows ---- */

static int greet(pr_flow *f, pr_slice name, pr_slice *ret_output)
{
    return pr_call(f, "say", name, ret_output);
}

/* Until the event `go`, with a status and a value to look at. */
static int patient(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_set_status(f, PR_STR("waiting"));
    if (rc == PR_OK)
        rc = pr_state_set(f, PR_STR("input"), input);
    if (rc != PR_OK)
        return rc;
    rc = pr_result(f, pr_event(f, "go"), ret_output, NULL);
    if (rc == PR_ECANCELLED)
        return rc;
    if (rc == PR_OK)
        rc = pr_set_status(f, PR_STR("gone"));
    return rc;
}

/* A sum of what comes by mail, until it is "end". */
static int reader(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice letter;
    (void)input;
    for (int letters = 0;; letters++) {
        int rc = pr_result(f, pr_mail(f, "letters"), &letter, NULL);
        if (rc != PR_OK)
            return rc;
        if (letter.size == 3 && memcmp(letter.data, "end", 3) == 0) {
            *ret_output = pr_flow_printf(f, "%d letters", letters);
            return PR_OK;
        }
    }
}

/* Does to its values what its mail says: +KEY=VALUE, -KEY, -- (all), next (continue as new), fail, end. */
static int ledger(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice m, key, value;
    for (;;) {
        int rc = pr_result(f, pr_mail(f, "do"), &m, NULL);
        if (rc != PR_OK)
            return rc;
        const char *equals = m.size > 1 && m.data[0] == '+' ? memchr(m.data, '=', m.size) : NULL;
        if (equals != NULL) {
            key = (pr_slice){ m.data + 1, (size_t)(equals - m.data) - 1 };
            value = (pr_slice){ equals + 1, m.size - key.size - 2 };
            if ((rc = pr_state_set(f, key, value)) != PR_OK)
                return rc;
        } else if (m.size == 2 && memcmp(m.data, "--", 2) == 0) {
            pr_state_clear_all(f);
        } else if (m.size > 1 && m.data[0] == '-') {
            pr_state_clear(f, (pr_slice){ m.data + 1, m.size - 1 });
        } else if (m.size == 4 && memcmp(m.data, "next", 4) == 0) {
            return pr_continue_as_new(f, input, NULL);
        } else if (m.size == 4 && memcmp(m.data, "fail", 4) == 0) {
            return pr_flow_fail(f, "as asked");
        } else {
            *ret_output = pr_flow_printf(f, "%zu values", pr_state_count(f));
            return PR_OK;
        }
    }
}

static int sleepy(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input;
    return pr_result(f, pr_timer(f, PR_SECONDS(3600)), ret_output, NULL);
}

static int stubborn(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = {
        .retry = { .tries = 100, .backoff = PR_BACKOFF_FIXED, .first_us = PR_SECONDS(3600) },
        .session = "till-1",
    };
    return pr_result(f, pr_activity_with(f, "flaky", input, &options), ret_output, NULL);
}

/* A greeting, then something that fails until somebody puts the file `up` here. */
static int careful(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice said;
    int rc = pr_call(f, "say", input, &said);
    return rc != PR_OK ? rc : pr_call(f, "flaky", said, ret_output);
}

static int tagged(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = { .tag = "gpu" };
    return pr_result(f, pr_activity_with(f, "say", input, &options), ret_output, NULL);
}

/* The input is the id of its child. */
static int parent(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    char *id = pr_flow_alloc(f, input.size + 1);
    if (id == NULL)
        return PR_ENOMEM;
    memcpy(id, input.data, input.size);
    id[input.size] = '\0';
    const struct pr_child_options options = { .id = id };
    return pr_result(f, pr_child_with(f, "patient", input, &options), ret_output, NULL);
}

static int failing(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)ret_output;
    return pr_flow_fail(f, "no such customer: %.*s", (int)input.size, input.data);
}

/* Three executions, then it ends. */
static int rounds(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_result(f, pr_timer(f, PR_MILLISECONDS(1)), NULL, NULL);
    if (rc != PR_OK)
        return rc;
    if (input.size == 1 && input.data[0] > '1')
        return pr_continue_as_new(f, pr_flow_printf(f, "%c", input.data[0] - 1), NULL);
    *ret_output = PR_STR("round and round");
    return PR_OK;
}

/* Three executions that wait for nothing. */
static int hasty(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    if (input.size == 1 && input.data[0] > '1')
        return pr_continue_as_new(f, pr_flow_printf(f, "%c", input.data[0] - 1), NULL);
    *ret_output = PR_STR("there already");
    return PR_OK;
}

/* Asks for an activity that must begin soon. */
static int soon(pr_flow *f, pr_slice name, pr_slice *ret_output)
{
    const struct pr_activity_options options = { .schedule_to_start_us = PR_MILLISECONDS(200) };
    return pr_result(f, pr_activity_with(f, pr_flow_printf(f, "%.*s", (int)name.size, name.data).data, name, &options),
                     ret_output, NULL);
}

/* Asks somebody for an activity: NAME|TAG|TRIES|TIMEOUT_MS|INPUT. */
static int ask(pr_flow *f, pr_slice wish, pr_slice *ret_output)
{
    char *text = pr_flow_alloc(f, wish.size + 1), *parts[5] = { text };
    if (text == NULL)
        return PR_ENOMEM;
    memcpy(text, wish.data, wish.size);
    text[wish.size] = '\0';
    for (size_t i = 1; i < 5; i++) {
        parts[i] = strchr(parts[i - 1], '|');
        if (parts[i] == NULL)
            return pr_flow_fail(f, "five parts, please");
        *parts[i]++ = '\0';
    }
    const struct pr_activity_options options = {
        .tag = parts[1][0] != '\0' ? parts[1] : NULL,
        .retry = { .tries = atoi(parts[2]), .backoff = PR_BACKOFF_FIXED, .first_us = PR_MILLISECONDS(10) },
        .timeout_us = PR_MILLISECONDS(atoi(parts[3])),
    };
    return pr_result(f, pr_activity_with(f, parts[0], pr_str(parts[4]), &options), ret_output, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        pr_flow_function function;
    } flows[] = { { "greet", greet },       { "patient", patient }, { "reader", reader },   { "sleepy", sleepy },
                  { "tagged", tagged },     { "parent", parent },   { "failing", failing }, { "rounds", rounds },
                  { "stubborn", stubborn }, { "ledger", ledger },   { "ask", ask },         { "soon", soon },
                  { "hasty", hasty },       { "careful", careful } };
    struct pr_error error = { 0 };
    sigset_t ends;
    int signal_number, rc = PR_OK;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* before there are threads */
    struct pr_engine *engine = argc == 2 ? pr_engine_new_file(argv[1], &error) : NULL;
    for (size_t i = 0; engine != NULL && rc == PR_OK && i < sizeof flows / sizeof flows[0]; i++)
        rc = pr_engine_flow(engine, flows[i].name, NULL, flows[i].function, NULL);
    if (engine == NULL || rc != PR_OK || pr_engine_activity(engine, "say", say, NULL) != PR_OK ||
        pr_engine_activity(engine, "flaky", flaky, NULL) != PR_OK || pr_engine_start(engine, &error) != PR_OK) {
        fprintf(stderr, "host: %s\n", error.text);
        pr_engine_free(engine);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    sigwait(&ends, &signal_number);
    rc = pr_engine_stop(engine, PR_SECONDS(10));
    pr_engine_free(engine);
    return rc == PR_OK ? 0 : 1;
}
