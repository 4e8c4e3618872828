/* box.h - what a box is for.  Its kind decides who takes its messages when nobody names it: a route or a handler
 * without a box means every outbox, and never what came in from elsewhere. */
#ifndef CORE_BOX_H
#define CORE_BOX_H

#include <stdbool.h>

enum box_kind {
    BOX_OUTBOX,     /* messages of the application that go to endpoints */
    BOX_INBOX,      /* messages of others that came in: a route or a handler must name the box */
    BOX_TURNS,      /* what flows wait for; a stream is a flow.  Only flows take it */
    BOX_ACTIVITIES, /* what flows ask for.  Only activities take it */
};

/* Is it worked for flows, and never by routes, handlers and endpoints of messages? */
static inline bool box_is_of_flows(enum box_kind kind)
{
    return kind == BOX_TURNS || kind == BOX_ACTIVITIES;
}

#endif
