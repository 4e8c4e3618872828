/* box.h - the kinds of boxes.  The kind decides which routes and handlers apply to a box that they do not name: a route
 * or a handler without a box applies to every outbox, and never to messages from elsewhere. */
#ifndef CORE_BOX_H
#define CORE_BOX_H

#include <stdbool.h>

enum box_kind {
    BOX_OUTBOX,     /* messages of the application that go to endpoints */
    BOX_INBOX,      /* incoming messages of other systems: a route or a handler must name the box */
    BOX_TURNS,      /* messages that flows wait for; a stream is a flow.  Only flows take them */
    BOX_ACTIVITIES, /* work that flows have requested.  Only activities take it */
};

/* Is the box worked on for flows, and not by routes, handlers and endpoints of messages? */
static inline bool box_is_of_flows(enum box_kind kind)
{
    return kind == BOX_TURNS || kind == BOX_ACTIVITIES;
}

#endif
