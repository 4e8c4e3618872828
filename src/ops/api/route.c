#include "ops/api/route.h"

#include <string.h>

#include "base/slice.h"
#include "ops/api/api.h"

#define FILTER "box state endpoint type stream reason error fingerprint since until limit after"
#define DEAD_FILTER "box endpoint type stream reason error fingerprint since until row limit after"

#define ONE "endpoint why dry_run" /* a message to several has one id: endpoint says which part */
#define MANY "ids filter dry_run why"

#define GET_(path, role, answer, summary, params, statuses)                                                            \
    {                                                                                                                  \
        "GET", path, role, ROUTE_JSON, BODY_NONE, answer, summary, params, "", statuses                                \
    }
#define POST_(path, answer, summary, fields, statuses)                                                                 \
    {                                                                                                                  \
        "POST", path, ROLE_OPERATOR, ROUTE_JSON, BODY_JSON, answer, summary, "", fields, statuses                      \
    }

/* Statuses that begin with 2 are those of success. */
const struct api_route routes[] = {
    { "POST", "/v1/messages", ROLE_OPERATOR, ROUTE_JSON, BODY_MESSAGES, api_messages_send,
      "Store messages: CloudEvents (binary, structured, batch) or plain JSON; all or none.", "box", "",
      "202 404 413 422 507" },
    GET_("/v1/messages", ROLE_VIEWER, api_messages_list, "Messages that a filter finds, page by page.", FILTER,
         "200 404"),
    GET_("/v1/messages/{id}", ROLE_VIEWER, api_message, "One message with its story, and what comes next.", "",
         "200 404"),
    POST_("/v1/messages/{id}/retry", api_message_change, "Try it now, with new counters.", ONE, "200 404 409"),
    POST_("/v1/messages/{id}/release", api_message_change, "Let it overtake the failed message before it.", ONE,
          "200 404 409"),
    POST_("/v1/messages/{id}/park", api_message_change, "Set it aside.", ONE, "200 404 409"),
    POST_("/v1/messages/{id}/discard", api_message_change, "Delete it without delivering.", ONE, "200 404 409"),
    POST_("/v1/messages/{id}/dead", api_message_change, "Make it dead by hand.", "why* reason endpoint dry_run",
          "200 404 409"),
    POST_("/v1/messages/retry", api_messages_change, "Try them now, with new counters.", MANY, "200"),
    POST_("/v1/messages/release", api_messages_change, "Let them overtake the failed messages before them.", MANY,
          "200"),
    POST_("/v1/messages/park", api_messages_change, "Set them aside.", MANY, "200"),
    POST_("/v1/messages/discard", api_messages_change, "Delete them without delivering.", MANY, "200"),
    GET_("/v1/dead", ROLE_VIEWER, api_dead_list, "Dead letters that a filter finds, page by page.", DEAD_FILTER, "200"),
    GET_("/v1/dead/groups", ROLE_VIEWER, api_dead_groups, "Dead letters by what is wrong with them.", DEAD_FILTER,
         "200"),
    POST_("/v1/dead/replay", api_dead_change,
          "Deliver them after all, each in its old place; with a limit: so many, next says where to go on. "
          "With a rate "
          "or a canary it goes on behind the answer, see /v1/replays.",
          "ids filter dry_run why rate canary canary_wait", "200 202 404 409"),
    POST_("/v1/dead/{id}/note", api_message_change, "Write something down about it.", "text* endpoint", "200 404"),
    GET_("/v1/dead/export", ROLE_VIEWER, api_dead_export, "Dead letters byte for byte, page by page.", DEAD_FILTER,
         "200"),
    POST_("/v1/dead/import", api_dead_import, "Those of an export; which of them are there already is said.",
          "letters* dry_run why", "200"),
    GET_("/v1/replays", ROLE_VIEWER, api_replays, "Replays that go on in this process, or did, the latest first.", "",
         "200"),
    GET_("/v1/replays/{id}", ROLE_VIEWER, api_replay, "How far one of them is.", "", "200 404"),
    POST_("/v1/replays/{id}/stop", api_replay_change, "Leave the others where they are.", "why", "200 404 409"),
    POST_("/v1/replays/{id}/resume", api_replay_change, "Go on with one that was stopped or failed.", "why",
          "200 404 409"),
    POST_("/v1/dead/discard", api_dead_change, "Delete them for good.", "ids filter dry_run why", "200 404 409"),
    POST_("/v1/dead/{id}/edit", api_dead_edit, "Deliver a corrected message in its place; the original stays.",
          "payload payload_text payload_base64 headers destination endpoint dry_run why", "200 404 409 422"),
    GET_("/v1/endpoints", ROLE_VIEWER, api_endpoints, "Endpoints and how they stand.", "", "200"),
    POST_("/v1/endpoints/{name}/pause", api_endpoint_pause, "Send nothing there for a while, or until resumed.",
          "for why", "200 404"),
    POST_("/v1/endpoints/{name}/resume", api_endpoint_resume, "Go on sending.", "why", "200 404"),
    POST_("/v1/endpoints/{name}/test", api_endpoint_test, "Store a message of type postrider.test for it.", "why",
          "202 404"),
    GET_("/v1/streams", ROLE_VIEWER, api_streams,
         "Streams whose head failed; blocked=1: only those that others wait behind.",
         "box endpoint stream blocked limit after", "200 404"),
    POST_("/v1/streams/release", api_streams_release, "Let the followers of a failed head overtake it.",
          "stream* box endpoint dry_run why", "200"),
    GET_("/v1/boxes", ROLE_VIEWER, api_boxes, "What is in the boxes, by state, and how long the oldest waits.", "",
         "200"),
    GET_("/v1/instances", ROLE_VIEWER, api_instances, "Who works on the boxes.", "", "200"),
    GET_("/v1/status", ROLE_VIEWER, api_status, "One screen: health with advice, boxes, endpoints, instances.", "",
         "200"),
    GET_("/v1/audit", ROLE_VIEWER, api_audit, "What people did, the latest first.", "since until limit after", "200"),
    { "GET", "/v1/events", ROLE_VIEWER, ROUTE_EVENTS, BODY_NONE, NULL,
      "What happens, as server-sent events; who is too slow is told so and sent away.", "kind box endpoint", "",
      "200" },
    { "GET", "/metrics", ROLE_VIEWER, ROUTE_TEXT, BODY_NONE, api_metrics, "Metrics in the Prometheus text format.", "",
      "", "200" },
    GET_("/health", ROLE_VIEWER, api_health, "What is wrong, each with advice: the watchdogs' warnings, too.", "",
         "200"),
    GET_("/health/live", ROLE_NONE, api_live, "Do its loops go round?", "", "200"),
    GET_("/health/ready", ROLE_NONE, api_ready, "Is the store reachable, and are its tables right?", "", "200"),
    GET_("/openapi.json", ROLE_VIEWER, api_openapi, "This document.", "", "200"),
};
const size_t route_count = sizeof routes / sizeof routes[0];

/* A part in braces takes one part of the path, which is not empty. */
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
    bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0, gets = false, posts = false;
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
    }
    if (!gets && !posts)
        return ROUTE_NO_PATH;
    *ret_allow = gets && posts ? "GET, HEAD, POST" : gets ? "GET, HEAD" : "POST";
    return ROUTE_NO_METHOD;
}
