#include "crowd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_US PR_SECONDS(90)

const char *crowd_text(pr_slice s)
{
    static _Thread_local char texts[8][4096];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof texts[0], "%.*s", (int)s.size, s.data != NULL ? s.data : "");
    return text;
}

void crowd_init(struct crowd *c)
{
    struct pr_error error;
    memset(c, 0, sizeof *c);
    stand_init(&c->stand);
    CHECK_OK(pr_flow_client_open(c->stand.url, &c->client, &error), &error);
}

void crowd_fini(struct crowd *c)
{
    crowd_stop(c);
    pr_flow_client_close(c->client);
    stand_fini(&c->stand);
}

void crowd_engine(struct crowd *c, const char *more)
{
    c->engine = stand_engine(&c->stand, more);
}

void crowd_start(struct crowd *c)
{
    stand_start(c->engine);
}

void crowd_stop(struct crowd *c)
{
    if (c->engine != NULL)
        CHECK_EQ(pr_engine_stop(c->engine, PR_SECONDS(5)), PR_OK);
    pr_engine_free(c->engine);
    c->engine = NULL;
}

void crowd_flow(struct crowd *c, const char *name, pr_flow_function function)
{
    CHECK_EQ(pr_engine_flow(c->engine, name, NULL, function, c), PR_OK);
}

void crowd_activity(struct crowd *c, const char *name, pr_activity_function function)
{
    CHECK_EQ(pr_engine_activity(c->engine, name, function, c), PR_OK);
}

void crowd_begin(struct crowd *c, const char *name, const char *id, const char *input)
{
    struct pr_error error;
    char made[PR_FLOW_ID_SIZE];
    const struct pr_flow_start start = { .name = name, .id = id, .input = pr_str(input) };
    CHECK_OK(pr_flow_start(c->client, &start, made, &error), &error);
    CHECK_STR(made, id);
}

const char *crowd_end(struct crowd *c, const char *id, enum pr_flow_state wanted)
{
    struct pr_error error;
    struct pr_flow_status status;
    int rc = pr_flow_wait(c->client, id, -1, WAIT_US, &status, &error);
    if (rc != PR_OK)
        check_fail(__FILE__, __LINE__, "flow %s has not ended: %d, state %s, events: %s", id, rc,
                   pr_flow_state_name(status.state), rc == PR_TIMEOUT ? crowd_events(c, id) : "");
    if (status.state != wanted)
        check_fail(__FILE__, __LINE__, "flow %s is %s: %s", id, pr_flow_state_name(status.state),
                   crowd_text(status.error));
    const char *text = crowd_text(wanted == PR_FLOW_COMPLETED ? status.output : status.error);
    pr_flow_status_free(&status);
    return text;
}

struct listing {
    char text[4096];
};

/* "kind name" of a line. */
static int list_event(void *arg, pr_slice line)
{
    struct listing *l = arg;
    char kind[64] = "", name[64] = "";
    const char *text = crowd_text(line), *at;
    if ((at = strstr(text, "\"kind\":\"")) != NULL)
        sscanf(at + strlen("\"kind\":\""), "%63[^\"]", kind);
    if ((at = strstr(text, "\"name\":\"")) != NULL && strcmp(kind, "started") != 0)
        sscanf(at + strlen("\"name\":\""), "%63[^\"]", name);
    snprintf(l->text + strlen(l->text), sizeof l->text - strlen(l->text), "%s%s%s%s", l->text[0] != '\0' ? ", " : "",
             kind, name[0] != '\0' ? " " : "", name);
    return PR_OK;
}

const char *crowd_events(struct crowd *c, const char *id)
{
    struct listing l = { "" };
    struct pr_error error;
    CHECK_OK(pr_flow_history(c->client, id, NULL, list_event, &l, &error), &error);
    return crowd_text(pr_str(l.text));
}
