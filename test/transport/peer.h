/* peer.h - the receiver program as the other side of a test. */
#ifndef TEST_TRANSPORT_PEER_H
#define TEST_TRANSPORT_PEER_H

#include <sys/types.h>

#include "base/buf.h"

#include <jansson.h>

struct peer {
    pid_t pid;
    int input; /* its standard input: it ends when we close it, or die */
    unsigned port;
};

/* Starts the program that the environment variable RECEIVER names, with up to two options
 * ("--cert=FILE"; NULL: none). */
void peer_start(struct peer *peer, const char *option1, const char *option2);
void peer_stop(struct peer *peer); /* safe when it was killed */
void peer_kill(struct peer *peer); /* at once, without a word */

void peer_post(const struct peer *peer, const char *path);
size_t peer_count(const struct peer *peer);                /* requests that arrived */
void peer_wait_for(const struct peer *peer, size_t count); /* until so many have arrived */

/* An array of what arrived, in order; the caller's to json_decref(). */
json_t *peer_records(const struct peer *peer);
const char *record_header(const json_t *record, const char *name); /* NULL: it has none */
void record_body(const json_t *record, struct buf *ret);

#endif
