#include "ops/api/route.h"

#include <string.h>

#include "base/slice.h"
#include "ops/api/api.h"

#define FILTER "box state endpoint type stream correlation_id reason error fingerprint since until limit after"
#define DEAD_FILTER "box endpoint type stream correlation_id reason error fingerprint since until row limit after"
#define GROUP_FILTER "box endpoint type stream reason error fingerprint since until row limit after"

#define ONE "endpoint why dry_run" /* a message to several endpoints has one id: endpoint selects a part */
#define MANY "ids filter dry_run why"

#define SCHEDULE_FIELDS                                                                                                \
    "zone missed grace paused box stream destination subject source content_type correlation_id headers payload "      \
    "payload_text payload_base64 event why"

#define GET_(path, role, answer, summary, params, statuses)                                                            \
    {                                                                                                                  \
        "GET", path, role, ROUTE_JSON, BODY_NONE, answer, summary, params, "", statuses, false                         \
    }
#define POST_(path, answer, summary, fields, statuses)                                                                 \
    {                                                                                                                  \
        "POST", path, ROLE_OPERATOR, ROUTE_JSON, BODY_JSON, answer, summary, "", fields, statuses, false               \
    }

#define CLAIM_(path, answer, summary, fields, statuses)                                                                \
    {                                                                                                                  \
        "POST", path, ROLE_OPERATOR, ROUTE_JSON, BODY_JSON, answer, summary, "", fields, statuses, true                \
    }

/* Statuses that begin with 2 are those of success. */
const struct api_route routes[] = {
    { "POST", "/v1/messages", ROLE_OPERATOR, ROUTE_JSON, BODY_MESSAGES, api_messages_send,
      "Stores messages, all or none: CloudEvents (binary, structured, batch) or plain JSON.", "box", "",
      "202 404 409 413 422 507", false },
    GET_("/v1/messages", ROLE_VIEWER, api_messages_list, "Lists the messages that match a filter, page by page.",
         FILTER, "200 404"),
    GET_("/v1/messages/{id}", ROLE_VIEWER, api_message, "Shows a message with its history, and what comes next.", "",
         "200 404"),
    POST_("/v1/messages/{id}/retry", api_message_change, "Tries the message now, with counters reset.", ONE,
          "200 404 409"),
    POST_("/v1/messages/{id}/release", api_message_change, "Lets the message overtake the failed head of its stream.",
          ONE, "200 404 409"),
    POST_("/v1/messages/{id}/park", api_message_change, "Sets the message aside.", ONE, "200 404 409"),
    POST_("/v1/messages/{id}/reschedule", api_message_change, "Sets the time at which the message may go.", "to* " ONE,
          "200 404 409"),
    POST_("/v1/messages/{id}/discard", api_message_change, "Deletes the message without delivering it.", ONE,
          "200 404 409"),
    POST_("/v1/messages/{id}/dead", api_message_change, "Moves the message to the dead letters.",
          "why* reason endpoint dry_run", "200 404 409"),
    POST_("/v1/messages/retry", api_messages_change, "Tries messages now, with counters reset.", MANY, "200 404"),
    POST_("/v1/messages/release", api_messages_change, "Lets messages overtake the failed head of their stream.", MANY,
          "200 404"),
    POST_("/v1/messages/park", api_messages_change, "Sets messages aside.", MANY, "200 404"),
    POST_("/v1/messages/reschedule", api_messages_change, "Sets the time at which messages may go.", "to* " MANY,
          "200 404"),
    POST_("/v1/messages/discard", api_messages_change, "Deletes messages without delivering them.", MANY, "200 404"),
    GET_("/v1/dead", ROLE_VIEWER, api_dead_list, "Lists the dead letters that match a filter, page by page.",
         DEAD_FILTER, "200 404"),
    GET_("/v1/dead/groups", ROLE_VIEWER, api_dead_groups, "Groups dead letters by cause.", GROUP_FILTER, "200 404"),
    POST_("/v1/dead/replay", api_dead_change,
          "Returns dead letters to their place in the box, with counters reset. `limit` replays at most this many; "
          "`next` says where to continue. With a rate or a canary the replay continues after the answer, see "
          "/v1/replays.",
          "ids filter dry_run again why rate canary canary_wait", "200 202 404 409"),
    POST_("/v1/dead/{id}/note", api_message_change, "Adds a note to a dead letter.", "text* endpoint", "200 404"),
    GET_("/v1/dead/export", ROLE_VIEWER, api_dead_export, "Exports dead letters byte for byte, page by page.",
         DEAD_FILTER, "200 404"),
    POST_("/v1/dead/import", api_dead_import,
          "Imports dead letters of an export and reports which of them already existed.", "letters* dry_run again why",
          "200"),
    GET_("/v1/replays", ROLE_VIEWER, api_replays, "Lists the replays of this process, latest first.", "", "200"),
    GET_("/v1/replays/{id}", ROLE_VIEWER, api_replay, "Shows the progress of a replay.", "", "200 404"),
    POST_("/v1/replays/{id}/stop", api_replay_change, "Stops a replay; the remaining dead letters stay.", "why",
          "200 404 409"),
    POST_("/v1/replays/{id}/resume", api_replay_change, "Resumes a replay that was stopped or failed.", "why",
          "200 404 409"),
    POST_("/v1/dead/discard", api_dead_change, "Deletes dead letters permanently.", "ids filter dry_run why",
          "200 404 409"),
    POST_("/v1/dead/{id}/edit", api_dead_edit,
          "Sends a corrected message in place of a dead letter; the original is kept.",
          "payload payload_text payload_base64 headers destination type endpoint dry_run why", "200 404 409 422"),
    GET_("/v1/endpoints", ROLE_VIEWER, api_endpoints, "Lists endpoints and their state.", "", "200"),
    POST_("/v1/endpoints/{name}/pause", api_endpoint_pause, "Pauses an endpoint for a while, or until resumed.",
          "for why", "200 404"),
    POST_("/v1/endpoints/{name}/resume", api_endpoint_resume, "Resumes an endpoint.", "why", "200 404"),
    POST_("/v1/endpoints/{name}/test", api_endpoint_test,
          "Stores a test message (type postrider.test) for an endpoint.", "why", "202 404"),
    CLAIM_(
        "/v1/claims", api_claims,
        "Claims messages for a worker: at most `max`, waiting up to `wait` for the first. Each has a token, which ends "
        "the claim; a claim that is not ended in time is abandoned and counts as an attempt. Activities of flows are "
        "in the "
        "box `activities`; `tags` says what this worker offers to those that need a tag. `types` are patterns such as "
        "`order.*`: of other types this worker gets nothing, and they wait without being in its way.",
        "box endpoint max wait tags types", "200 404"),
    CLAIM_(
        "/v1/claims/complete", api_claims_end,
        "Completes claimed messages, and stores what they send with them. When an event expects another version than "
        "its stream has, the result is `conflict`, nothing changes, and the message comes again. An activity has an "
        "`output` or `output_base64`, which its flow gets.",
        "claims*", "200"),
    CLAIM_("/v1/claims/fail", api_claims_end,
           "Reports that claimed messages failed; the endpoint's rules and retries apply. An activity is tried again "
           "by its "
           "own retry policy, unless `retryable` is false; then its flow gets the `error`.",
           "claims*", "200"),
    CLAIM_("/v1/claims/abandon", api_claims_end, "Hands claimed messages back; the attempt counts.", "claims*", "200"),
    CLAIM_("/v1/claims/release", api_claims_end,
           "Hands claimed messages back uncounted; they may overtake the failed head of their stream.", "claims*",
           "200"),
    CLAIM_("/v1/claims/renew", api_claims_renew, "Gives claims more time.", "claims* for", "200"),
    GET_("/v1/streams", ROLE_VIEWER, api_streams,
         "Lists streams whose head failed; blocked=1: only those with waiting messages.",
         "box endpoint stream blocked limit after", "200 404"),
    POST_("/v1/streams/release", api_streams_release, "Lets the followers of a failed head overtake it.",
          "stream* box endpoint dry_run why", "200"),
    GET_("/v1/boxes", ROLE_VIEWER, api_boxes,
         "Counts the messages of each box by state, and reports how long the oldest has waited; names=1: only the "
         "names, "
         "of all boxes, without counting.",
         "names", "200"),
    GET_("/v1/instances", ROLE_VIEWER, api_instances, "Lists the running instances.", "", "200"),
    GET_("/v1/status", ROLE_VIEWER, api_status,
         "Shows health with advice, boxes, endpoints and instances in one answer.", "", "200"),
    GET_("/v1/audit", ROLE_VIEWER, api_list, "Lists what operators did, latest first.", "since until limit after",
         "200"),
    { "GET", "/v1/events", ROLE_VIEWER, ROUTE_JSON, BODY_NONE, api_events,
      "Lists events of the event store: of one stream from a version on, or all in one order after a place. With "
      "`wait` "
      "the answer waits that long for the first event.",
      "stream from after limit wait", "", "200", true },
    { "POST", "/v1/events", ROLE_OPERATOR, ROUTE_JSON, BODY_MESSAGES, api_messages_send,
      "Stores messages that are also events of their stream, all or none. A wrong `expected_version` is answered with "
      "409 "
      "`version_conflict` and both numbers.",
      "box", "", "202 404 409 413 422 507", false },
    GET_("/v1/subscriptions", ROLE_VIEWER, api_list, "Lists subscriptions: position, lag, and which worker has each.",
         "", "200"),
    CLAIM_("/v1/subscriptions/{name}/claim", api_subscription_claim,
           "Gives a worker the events after the position of a subscription, which is created if it does not exist: at "
           "most `max`, waiting up to `wait`. One worker at a time has it for the time of its `lease`; with its "
           "`fence` it "
           "continues.",
           "worker* max wait lease fence", "200"),
    POST_("/v1/subscriptions/{name}/acknowledge", api_subscription_move,
          "Moves the position of a subscription forward. With an old fence nothing changes: the result is `stale`.",
          "fence* position* lease", "200 404"),
    POST_("/v1/subscriptions/{name}/release", api_subscription_move,
          "Gives the subscription up, so that another worker can have it at once.", "fence*", "200 404"),
    POST_("/v1/subscriptions/{name}/reset", api_subscription_change,
          "Moves the position of a subscription to a place, forward or back; 0 is the start. Its worker loses it.",
          "position* why dry_run", "200 404"),
    POST_("/v1/subscriptions/{name}/remove", api_subscription_change, "Removes a subscription and its position.",
          "why dry_run", "200 404"),
    GET_("/v1/snapshots", ROLE_VIEWER, api_snapshot, "Returns the latest snapshot of a stream.", "stream", "200 404"),
    POST_("/v1/snapshots", api_snapshot_save,
          "Saves a snapshot of the first `version` events of a stream, unless a later one exists.",
          "stream* version* payload payload_text payload_base64", "200"),
    { "GET", "/v1/requests/{id}", ROLE_VIEWER, ROUTE_JSON, BODY_NONE, api_request,
      "Shows what became of a request, with its reply. With `wait` the answer waits that long for it.", "wait", "",
      "200 404", true },
    CLAIM_("/v1/requests", api_request_send,
           "Stores a request, and waits up to `wait` for its reply; the id leads to it later. `reply_to` names an "
           "endpoint of the replying service, if it uses another store.",
           "type* wait reply_to id box stream destination subject source content_type headers payload payload_text "
           "payload_base64 expires_at",
           "200 202 404 422"),
    GET_("/v1/schedules", ROLE_VIEWER, api_schedules,
         "Lists the schedules: when and what they send, and their next times.", "", "200"),
    GET_("/v1/schedules/{name}", ROLE_VIEWER, api_schedule, "Shows a schedule.", "", "200 404"),
    POST_(
        "/v1/schedules", api_schedule_add,
        "Adds a schedule, or changes the one of that name: the message it sends, and when (cron, zone, missed, grace).",
        "name* cron* type* " SCHEDULE_FIELDS, "202 404"),
    POST_("/v1/schedules/{name}/run", api_schedule_run, "Sends its message now without changing its schedule.", "why",
          "202 404"),
    POST_("/v1/schedules/{name}/pause", api_schedule_change, "Pauses a schedule until it is resumed.", "why",
          "200 404"),
    POST_("/v1/schedules/{name}/resume", api_schedule_change,
          "Resumes a schedule; runs that it missed while it was paused are skipped.", "why", "200 404"),
    POST_("/v1/schedules/{name}/cancel", api_schedule_change, "Cancels a schedule.", "why", "200 404"),
    POST_("/v1/schedules/{name}/reschedule", api_schedule_change, "Sets the next time of a schedule.", "to* why",
          "200 404"),
    POST_("/v1/flows", api_flow_start,
          "Starts a flow. An existing flow is left alone, and the answer says duplicate; restart restarts one that has "
          "ended.",
          "name* id input input_base64 version restart due_at", "200 201 413"),
    GET_("/v1/flows", ROLE_VIEWER, api_flows, "Lists flows, newest first, and counts them by state.",
         "name version parent state since until limit after", "200"),
    POST_("/v1/flows/prune", api_flow_prune,
          "Deletes earlier executions: of one flow or of all, except the latest `keep` of each, or those "
          "that ended before a time.",
          "id keep before dry_run why", "200"),
    GET_("/v1/flows/{id}", ROLE_VIEWER, api_flow, "Shows a flow, what it waits for, and what will wake it.", "",
         "200 404"),
    { "DELETE", "/v1/flows/{id}", ROLE_OPERATOR, ROUTE_JSON, BODY_NONE, api_flow_delete,
      "Deletes a flow that has ended, or any with force=1, with its children and all that belongs to them.",
      "force why", "", "200 404 409", false },
    GET_("/v1/flows/{id}/history", ROLE_VIEWER, api_flow_history,
         "Shows the events of a flow: of its current execution, or of another one.", "execution", "200 404"),
    GET_("/v1/flows/{id}/executions", ROLE_VIEWER, api_flow_executions,
         "Lists the executions of a flow, the current one first.", "limit", "200 404"),
    POST_("/v1/flows/{id}/raise", api_flow_tell,
          "Raises an event for a flow. It is kept for a while if the flow does not exist yet.",
          "name* data data_base64 message", "202 413"),
    POST_("/v1/flows/{id}/send", api_flow_tell, "Puts mail into a mailbox of a flow.", "name* data data_base64 message",
          "202 413"),
    POST_("/v1/flows/{id}/cancel", api_flow_cancel, "Asks a flow to clean up and stop.", "why", "202 404 409"),
    POST_("/v1/flows/{id}/retry", api_flow_retry,
          "Resumes a flow that failed from before its failure. Of a running flow, retries pending activities now and "
          "replays "
          "its dead letters. restart: a flow that has ended starts from the beginning with its input.",
          "restart version dry_run why", "200 202 404 409"),
    { "GET", "/v1/flows/{id}/wait", ROLE_VIEWER, ROUTE_JSON, BODY_NONE, api_flow_wait,
      "Waits until a flow has ended, or its custom status has changed since `after_number`; at most 60 s.",
      "timeout after_number", "", "200 404", true },
    { "GET", "/v1/feed", ROLE_VIEWER, ROUTE_EVENTS, BODY_NONE, NULL,
      "Streams what happens as server-sent events; slow clients are disconnected with an event that says so.",
      "kind box endpoint", "", "200", false },
    { "GET", "/metrics", ROLE_VIEWER, ROUTE_TEXT, BODY_NONE, api_metrics,
      "Reports metrics in the Prometheus text format.", "", "", "200", false },
    GET_("/health", ROLE_VIEWER, api_health, "Reports health with advice, including the watchdog's warnings.", "",
         "200"),
    GET_("/health/live", ROLE_NONE, api_live, "Reports whether the process is alive: whether its loops make progress.",
         "", "200"),
    GET_("/health/ready", ROLE_NONE, api_ready, "Reports whether the store is reachable and its tables are up to date.",
         "", "200"),
    GET_("/openapi.json", ROLE_VIEWER, api_openapi, "This document.", "", "200"),
};
const size_t route_count = sizeof routes / sizeof routes[0];

/* A name in braces matches one non-empty segment of the path. */
static bool path_matches(const char *pattern, pr_slice path, pr_slice *ret_part)
{
    size_t at = 0;
    *ret_part = (pr_slice){ NULL, 0 };
    while (*pattern != '\0') {
        if (*pattern == '{') {
            size_t end = at;
            while (end < path.size && path.data[end] != '/')
                end++;
            *ret_part = (pr_slice){ path.data + at, end - at };
            if (end == at)
                return false;
            at = end;
            pattern = strchr(pattern, '}') + 1;
        } else if (at < path.size && path.data[at] == *pattern) {
            at++;
            pattern++;
        } else {
            return false;
        }
    }
    return at == path.size;
}

enum route_found route_find(const char *method, pr_slice path, const struct api_route **ret_route, pr_slice *ret_part,
                            const char **ret_allow)
{
    bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0, gets = false, posts = false, deletes = false;
    const char *wanted = get ? "GET" : method;
    for (size_t i = 0; i < route_count; i++) {
        pr_slice part;
        if (!path_matches(routes[i].path, path, &part))
            continue;
        if (strcmp(routes[i].method, wanted) == 0) {
            *ret_route = &routes[i];
            *ret_part = part;
            return ROUTE_FOUND;
        }
        gets |= routes[i].method[0] == 'G';
        posts |= routes[i].method[0] == 'P';
        deletes |= routes[i].method[0] == 'D';
    }
    if (!gets && !posts && !deletes)
        return ROUTE_NO_PATH;
    *ret_allow = gets && posts     ? "GET, HEAD, POST"
                 : gets && deletes ? "GET, HEAD, DELETE"
                 : gets            ? "GET, HEAD"
                                   : "POST";
    return ROUTE_NO_METHOD;
}
