/* A message: validating what senders pass, copying it into one block, and the predicates about it that all layers
 * share. */
#ifndef CORE_MESSAGE_H
#define CORE_MESSAGE_H

#include <string.h>

#include <postrider.h>

#include "base/arena.h"

#define BOX_NAME_MAX 63
#define STORY_LINES_MAX 16
#define CODE_CHARS_MAX 64 /* characters of a stored failure code */
/* Times of a message are Unix microseconds in the years 2000 to 2299: values outside were given in another unit
 * (seconds, milliseconds or nanoseconds). */
#define TIME_MIN_US INT64_C(946684800000000)
#define TIME_MAX_US INT64_C(10413791999999999)
#define COUNTER_MAX 1000000000 /* hand-outs, failures: a larger stored number is damage */

/* The name of a box, table or schema: [A-Za-z_][A-Za-z0-9_]{0,62}. */
bool name_is_valid(pr_slice name);

/* 0, PR_NEVER, or a time in microseconds and in no other unit. */
static inline bool time_is_plausible(int64_t us)
{
    return us == 0 || us == PR_NEVER || (us >= TIME_MIN_US && us <= TIME_MAX_US);
}

/* The nearest plausible time: for the waits of flows, and for times that were not validated. */
static inline int64_t time_plausible(int64_t us)
{
    return time_is_plausible(us) ? us : us < TIME_MIN_US ? TIME_MIN_US : TIME_MAX_US;
}

/* May a sender send this?  PR_OK, or PR_EINVAL / PR_ETOOBIG with a text that names the field and says what to do. */
int message_check(const struct pr_message *message, size_t payload_max, struct pr_error *reterr);

/* May an event that expects a version be appended? is_known: its stream has its id already; version: the number of
 * events in the stream.  PR_OK, PR_DUPLICATE, or PR_ECONFLICT with both numbers. */
PR_MUST_CHECK int message_expectation(const struct pr_message *m, bool is_known, int64_t version,
                                      struct pr_error *reterr);

/* The status of an event says that it is stored: its row and the event are written in one transaction. */
static inline int message_status_bits(const struct pr_message *m)
{
    return m->event ? PR_STATUS_EVENT_STORED : 0;
}

/* Why a stored row cannot be handled, or NULL: the rules of message_check(), for rows that were INSERTed without it.
 * Nested headers are accepted here: a handler may read them. */
const char *message_defect(const struct pr_message *message, size_t payload_max);

static inline bool counter_is_valid(int count)
{
    return count >= 0 && count <= COUNTER_MAX;
}

/* One JSON object and nothing else?  (Empty text counts as one.) */
bool slice_is_json_object(pr_slice text);
/* ... in which no value is an object or an array? */
bool slice_is_flat_json_object(pr_slice text);
/* One JSON value of any kind, not nested too deeply. */
bool slice_is_json(pr_slice text);

/* Call member for each member until it returns something else than PR_OK; key and value are raw JSON, the key with its
 * quotes.  PR_EINVAL: the text is not one JSON object (then member was not called). */
typedef int (*json_member)(void *arg, pr_slice key, pr_slice value);
PR_MUST_CHECK int json_object_walk(pr_slice text, json_member member, void *arg);

/* The same for the elements of an array. */
typedef int (*json_element)(void *arg, pr_slice value);
PR_MUST_CHECK int json_array_walk(pr_slice text, json_element element, void *arg);

/* Decode a raw JSON string of a validated text; the result is in the text itself or in the arena.  Fault PR_EINVAL: not
 * a string, or not valid text (a NUL, half of a surrogate pair).  PR_ENOMEM. */
PR_MUST_CHECK int json_string_read(pr_slice value, struct arena *arena, pr_slice *ret);

/* The total size of its slices. */
size_t message_bytes(const struct pr_message *message);
/* Is this total at most max?  For a message that was not validated. */
bool message_is_within(const struct pr_message *message, size_t max);

/* Copy the slices of message into block (message_bytes() long) and make *ret point there. */
void message_copy(const struct pr_message *message, char *block, struct pr_message *ret);
/* Adjust the slices after the block was moved and *message was copied along. */
void message_rebase(struct pr_message *message, const char *block);

/* Since when the message could have been sent: not before its due time, if it was delayed or came back. */
static inline int64_t message_ready_since(const struct pr_message *m)
{
    return m->due_us > m->created_us ? m->due_us : m->created_us;
}

static inline bool message_is_expired(const struct pr_message *m, int64_t now_us)
{
    return m->expires_us != 0 && m->expires_us <= now_us;
}

/* Hand-outs without a known outcome: crashes, abandons.  Counters are non-negative. */
static inline int message_unexplained(const struct pr_message *m)
{
    return m->attempts > m->failures ? m->attempts - m->failures : 0;
}

/* True also for a failure that was not counted. */
static inline bool message_has_failed(const struct pr_message *m)
{
    return (m->status & PR_STATUS_FAILED) != 0;
}

/* Failed, abandoned or parked; false for one that its sender delayed. */
static inline bool message_came_back(const struct pr_message *m)
{
    return m->due_us == PR_NEVER || (m->due_us != 0 && (message_has_failed(m) || m->attempts > 0));
}

/* Does its stream wait behind it, because it failed or was abandoned and was not released? */
static inline bool message_blocks_stream(const struct pr_message *m)
{
    return m->due_us != 0 && !m->released && (message_has_failed(m) || m->attempts > 0);
}

/* The endpoint at which a row is held: held_by is a key, "endpoint/stream", or "endpoint/" while the row waits for room
 * there.  The key says where; what the row waits for is in held_for.  Empty: not such a key. */
static inline pr_slice held_endpoint(pr_slice key)
{
    const char *slash = key.size > 0 ? memchr(key.data, '/', key.size) : NULL;
    return (pr_slice){ key.data, slash != NULL ? (size_t)(slash - key.data) : 0 };
}

/* It waits only for room at its endpoint: this is not shown to people as held. */
static inline bool message_awaits_endpoint(const struct pr_message *m)
{
    return m->held_by.size > 0 && m->held_for == PR_HELD_FOR_ENDPOINT;
}

/* Is it parked for want of an endpoint, so that it continues when the configuration has one?  A message that its
 * endpoint refused for the same reason, or that a person parked, waits for a person. */
static inline bool message_awaits_route(const struct pr_message *m)
{
    return m->due_us == PR_NEVER && m->parked_by == PR_PARKED_BY_ROUTE;
}

/* Can it be released?  Not the failed head that others wait behind. */
static inline bool message_may_overtake(const struct pr_message *m)
{
    return (m->held_by.size > 0 && !message_awaits_endpoint(m)) || !message_blocks_stream(m);
}

#endif
