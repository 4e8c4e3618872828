/* message.h - a message as programs see it. */
#ifndef OPS_MESSAGE_H
#define OPS_MESSAGE_H

#include "base/json.h"
#include "runtime/config/config.h"
#include "store/store.h"

/* The object of --json and of the API: the same everywhere.  The reply is the one that it is listed in. */
void message_json(struct json_writer *w, const struct config *config, const struct query_reply *reply,
                  const struct listed *listed);
/* The same of one that its receiver has claimed. */
void message_claimed_json(struct json_writer *w, const struct listed *listed);
/* "payload" where it is text, else "payload_base64". */
void payload_json(struct json_writer *w, pr_slice payload);
/* An event of the event store. */
void event_json(struct json_writer *w, const struct stored_event *event);
/* Where it is going, for a column: the endpoint, or "" while the routes have not decided. */
pr_slice message_endpoint(const struct listed *listed);
/* Of the latest real failure; where there was none, why it died.  "" when it is fine. */
const char *message_reason(const struct listed *listed);

/* How many of the reply died on their way to the endpoint (empty: to any); *ret is one of them, where there are. */
size_t message_count_dead(const struct query_reply *reply, pr_slice endpoint, const struct listed **ret);
/* Where they died: "audit, billing"; fit for a terminal. */
const char *message_dead_endpoints(struct arena *arena, const struct query_reply *reply);

/* Why a dead letter is dead, for people: "poison_message" only when it was handed out without an outcome. */
const char *message_cause_words(const struct listed *listed);
/* Dead because nobody ever said how its attempts ended, and not because they failed. */
bool message_was_poison(const struct listed *listed);

/* "payload": its text, or "payload_base64". */
void payload_json(struct json_writer *w, pr_slice payload);

#endif
