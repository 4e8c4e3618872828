/* status.h - one screen: health, boxes, endpoints, instances. */
#ifndef OPS_STATUS_H
#define OPS_STATUS_H

#include "ops/watch/check.h"

struct watch_past;

struct status {
    const struct config *config; /* borrowed, as is the store; set these and checks.arena before collecting */
    struct store *store;
    struct query_reply boxes, endpoints, instances, subscriptions, failing, flows;
    size_t *in_flight;       /* per endpoint */
    bool routed_unknown;     /* too many rows to see which of them are routed to a paused endpoint */
    struct watch_past *past; /* results of earlier looks, updated by this one: see watch.h; NULL: none */
    struct wal_report *slots;
    size_t slot_count;
    struct checks checks;
};

/* Asks the store, and evaluates the replies.  Everything lives in checks.arena.  Fault: the store's. */
PR_MUST_CHECK int status_collect(struct status *s, struct pr_error *reterr);

/* Adds a source that its process reports as failing, unless it was reported before. */
void checks_add_source(struct checks *checks, pr_slice words);

/* The object of status --json and of the API. */
void status_json(struct json_writer *w, const struct status *s);
/* Leaves out empty boxes that the configuration does not use and no instance serves. */
void boxes_hide_unused(const struct config *config, struct query_reply *boxes, const struct query_reply *instances);
/* Members of the object: "boxes": [...] and so on. */
void status_boxes_json(struct json_writer *w, const struct status *s);
/* "KEY": {"running": 3, ...}, of a QUERY_FLOWS */
void flow_states_json(struct json_writer *w, const char *key, const struct query_reply *flows);
void status_endpoints_json(struct json_writer *w, const struct status *s);
void status_instances_json(struct json_writer *w, const struct status *s);

#endif
