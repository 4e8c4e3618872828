/* Why something failed, and which kind of failure that is. */
#ifndef CORE_REASON_H
#define CORE_REASON_H

#include <postrider.h>

enum reason_class {
    CLASS_TRANSIENT, /* may succeed later */
    CLASS_PERMANENT, /* will fail again in the same way */
    CLASS_UNKNOWN,
};

/*    number  NAME                   text                     class      */
#define REASONS(X)                                                                                                     \
    X(1, TRANSPORT_UNAVAILABLE, "transport_unavailable", TRANSIENT)                                                    \
    X(2, HANDLER_EXCEPTION, "handler_exception", UNKNOWN)                                                              \
    X(3, VALIDATION_FAILURE, "validation_failure", PERMANENT)                                                          \
    X(4, TIMEOUT_EXCEEDED, "timeout_exceeded", TRANSIENT)                                                              \
    X(5, SERIALIZATION_ERROR, "serialization_error", PERMANENT)                                                        \
    X(6, DEPENDENCY_FAILURE, "dependency_failure", TRANSIENT)                                                          \
    X(7, POISON_MESSAGE, "poison_message", PERMANENT)                                                                  \
    X(8, MESSAGE_TOO_LARGE, "message_too_large", PERMANENT)                                                            \
    X(9, DESTINATION_MISSING, "destination_missing", PERMANENT)                                                        \
    X(10, REJECTED, "rejected", PERMANENT)                                                                             \
    X(11, UNAUTHORIZED, "unauthorized", PERMANENT)                                                                     \
    X(12, RATE_LIMITED, "rate_limited", TRANSIENT)                                                                     \
    X(13, EXPIRED, "expired", PERMANENT)                                                                               \
    X(99, UNKNOWN, "unknown", UNKNOWN)

#define X(number, name, text, class) +1
enum { REASON_COUNT = 0 REASONS(X) };
#undef X

/* Who is to blame for a failure?  Decided from the failure alone, so that all layers agree. */
enum fault {
    FAULT_NOBODY, /* not known: an answer or a silence that may be due to the message or to its receiver */
    /* nothing was sent (no connection, name, TLS), or the endpoint rejected our credentials (401, 407, a login) */
    FAULT_ENDPOINT,
    FAULT_CONTENT, /* the message itself: invalid, too large, undecodable */
};
/* unsent: no part of the message was sent. */
enum fault reason_fault(int reason, pr_slice code, bool unsent);
const char *fault_name(enum fault fault); /* "unknown", "endpoint", "content" */

bool reason_is_known(int reason);
/* Its index in the table above; for an unknown number that of the last one. */
size_t reason_index(int reason);
int reason_at(size_t index); /* the inverse */
enum reason_class reason_class(int reason);
const char *reason_class_name(enum reason_class class);
/* PR_REASON_NONE for an unknown word. */
enum pr_reason reason_parse(pr_slice name);

#endif
