/* crowd.h - flows on a store of a test's own, through the public functions: an engine, a client, and common steps. */
#ifndef TEST_FLOW_RUN_CROWD_H
#define TEST_FLOW_RUN_CROWD_H

#include <postrider_flow.h>

#include "lib/stand.h"

struct crowd {
    struct stand stand;
    struct pr_engine *engine; /* NULL: none */
    struct pr_flow_client *client;
};

void crowd_init(struct crowd *c);
void crowd_fini(struct crowd *c); /* stops the engine, too */
/* An engine that is not started yet; more: YAML behind the store. */
void crowd_engine(struct crowd *c, const char *more);
void crowd_start(struct crowd *c); /* the engine */
void crowd_stop(struct crowd *c);  /* ... and free it */

void crowd_flow(struct crowd *c, const char *name, pr_flow_function function);
void crowd_activity(struct crowd *c, const char *name, pr_activity_function function);

void crowd_begin(struct crowd *c, const char *name, const char *id, const char *input);
/* Wait for its end; its output, or the text of its error.  Good until the next call. */
const char *crowd_end(struct crowd *c, const char *id, enum pr_flow_state wanted);
/* "started, activity charge, result": the kinds and names of its history. */
const char *crowd_events(struct crowd *c, const char *id);
const char *crowd_text(pr_slice s); /* a C string, good until some calls later */

#endif
