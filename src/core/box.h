/* box.h - what a box is for.  Its kind decides who takes its messages when nobody names it: a route or a handler
 * without a box means every outbox, and never what came in from elsewhere. */
#ifndef CORE_BOX_H
#define CORE_BOX_H

enum box_kind {
    BOX_OUTBOX, /* messages of the application that go to endpoints */
    BOX_INBOX,  /* messages of others that came in: a route or a handler must name the box */
};

#endif
