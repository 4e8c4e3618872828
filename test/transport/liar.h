/* liar.h - a broker that violates its protocol: it plays a script to every connection. */
#ifndef TEST_TRANSPORT_LIAR_H
#define TEST_TRANSPORT_LIAR_H

#include <stdbool.h>
#include <stddef.h>

struct liar_step {
    const char *bytes;
    size_t size;
    bool waits;  /* until the client has said something */
    bool floods; /* again and again, and reads nothing, until the client has left */
};

#define SAYS(text)                                                                                                     \
    {                                                                                                                  \
        .bytes = (text), .size = sizeof(text) - 1                                                                      \
    }
#define ANSWERS(text)                                                                                                  \
    {                                                                                                                  \
        .bytes = (text), .size = sizeof(text) - 1, .waits = true                                                       \
    }
#define FLOODS(text)                                                                                                   \
    {                                                                                                                  \
        .bytes = (text), .size = sizeof(text) - 1, .floods = true                                                      \
    }

struct liar;

/* After its last step it closes the connection; with `stays` it keeps it and says nothing more. */
struct liar *liar_start(const struct liar_step *steps, size_t count, bool stays);
unsigned liar_port(const struct liar *liar);
void liar_stop(struct liar *liar);

#endif
