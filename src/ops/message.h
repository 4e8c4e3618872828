/* message.h - a message for programs. */
#ifndef OPS_MESSAGE_H
#define OPS_MESSAGE_H

#include "base/json.h"
#include "runtime/config/config.h"
#include "store/store.h"

/* The object of --json and of the API: the same everywhere.  The reply is the one that lists the message. */
void message_json(struct json_writer *w, const struct config *config, const struct query_reply *reply,
                  const struct listed *listed);
/* The same for a message that its receiver has claimed. */
void message_claimed_json(struct json_writer *w, const struct listed *listed);
/* "payload" for text, else "payload_base64". */
void payload_json(struct json_writer *w, pr_slice payload);
/* An event of the event store. */
void event_json(struct json_writer *w, const struct stored_event *event);
/* The endpoint for a column, or "" before it is routed. */
pr_slice message_endpoint(const struct listed *listed);
/* Of the latest real failure; if there was none, its cause of death.  "" without either. */
const char *message_reason(const struct listed *listed);

/* How many letters of the reply died at the endpoint (empty: at any); *ret is one of them, if any. */
size_t message_count_dead(const struct query_reply *reply, pr_slice endpoint, const struct listed **ret);
/* Where they died: "audit, billing"; safe for a terminal. */
const char *message_dead_endpoints(struct arena *arena, const struct query_reply *reply);

/* The cause of a dead letter, for people: "poison_message" only when it was handed out without an outcome. */
const char *message_cause_words(const struct listed *listed);
/* Dead because its attempts had no outcome, and not because they failed. */
bool message_was_poison(const struct listed *listed);

/* "payload": its text, or "payload_base64". */
void payload_json(struct json_writer *w, pr_slice payload);

#endif
