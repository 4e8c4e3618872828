/* What receivers request from an endpoint: how many messages, and of which types.  Receivers that request the same
 * types form one ask. */
#ifndef CORE_ASK_H
#define CORE_ASK_H

#include <postrider.h>

#define ASKS_MAX 9                      /* per endpoint; the first one is for all types */
#define ASK_BYTES_MAX ((size_t)4 << 10) /* limit of ask.types */

struct ask {
    pr_slice types; /* patterns, each followed by a newline; empty: all types */
    bool present;   /* a receiver asks, or asked a short time ago; otherwise the rest is meaningless */
    size_t room;    /* how many of its messages may be handed out */
};

/* Does an ask for these types accept this type? */
bool ask_takes(pr_slice types, pr_slice type);

#endif
