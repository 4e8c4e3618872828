/* nats_link.h - one connection of libnats, driven by the caller's thread.
 *
 * Connecting happens in a thread of its own.  Then the caller reads and writes when poll_fd, an epoll, says so: libnats
 * never waits for the socket (but with TLS, where it must write again what it began with).  What happens in libnats' own
 * threads (answers that were read, pings, the end of the connection) is shown by event_fd.  They know a link by its number
 * only, and look it up: one that is closed is not found any more, however late they are.
 * There is no reconnecting inside: a link that is down stays down. */
#ifndef TRANSPORT_NATS_LINK_H
#define TRANSPORT_NATS_LINK_H

#include <nats/nats.h>

#include "transport/transport.h"

#define NATS_LINK_WHY_SIZE 256

enum nats_link_state { NATS_LINK_CONNECTING, NATS_LINK_UP, NATS_LINK_DOWN };

struct nats_link;

#define NATS_LINK_SOCKET 1 /* data.u64 of its event in poll_fd */

/* options are borrowed until close; the handlers in them become the link's.  NULL: no memory, no thread. */
struct nats_link *nats_link_open(natsOptions *options, int event_fd, int poll_fd);
/* Waits for the attempt to connect, when that is still going on. */
void nats_link_close(struct nats_link *link); /* NULL is fine */

enum nats_link_state nats_link_state(struct nats_link *link);
/* Why it is down. */
natsStatus nats_link_why(struct nats_link *link, char ret_text[NATS_LINK_WHY_SIZE]);

/* The subject at which an answer under this number is awaited; the link must be up. */
void nats_link_reply_to(const struct nats_link *link, uint64_t number, char *ret, size_t size);
/* Into a buffer that has no end: see to it that it has.  What is in it cannot be taken back. */
natsStatus nats_link_publish(struct nats_link *link, natsMsg *message);
size_t nats_link_unwritten(struct nats_link *link); /* bytes */
/* As much as the socket takes; the rest when poll_fd says so. */
void nats_link_write(struct nats_link *link);
/* What has arrived: at most once after each time that poll_fd said so; ask for the answers then. */
void nats_link_read(struct nats_link *link);

/* The next answer, which the caller destroys; NULL: there is none now. */
natsMsg *nats_link_answer(struct nats_link *link, uint64_t *ret_number);
/* What the server complained about last, since it was last asked; false: nothing. */
bool nats_link_complaint(struct nats_link *link, char ret_text[NATS_LINK_WHY_SIZE]);

#endif
