/* What receivers ask an endpoint for: how many messages, and of which types.  Those who ask for the same types are one ask. */
#ifndef CORE_ASK_H
#define CORE_ASK_H

#include <postrider.h>

#define ASKS_MAX 9                      /* at one endpoint; the first one is for all types */
#define ASK_BYTES_MAX ((size_t)4 << 10) /* of its types */

struct ask {
    pr_slice types; /* patterns, each with a newline behind it; empty: all types */
    bool present;   /* somebody asks, or has asked a short time ago; else it means nothing */
    size_t room;    /* how many of its messages may be out */
};

/* Does whoever asks for these types take this one? */
bool ask_takes(pr_slice types, pr_slice type);

#endif
