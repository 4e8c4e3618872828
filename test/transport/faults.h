/* faults.h - faults of the network for every broker's transport, the same for all. */
#ifndef TEST_TRANSPORT_FAULTS_H
#define TEST_TRANSPORT_FAULTS_H

#include "world.h"

/* The wire to the server of a harness, which is at 127.0.0.1 and a port; url has one %u, for that of a proxy. */
struct faults {
    const struct harness *harness;
    const char *url;
};

/* What people do wrong, as urls; NULL: cannot be done wrong here, or is tested elsewhere.  secure has a
 * %u, and ends with ? or &. */
struct troubles {
    const struct harness *harness;
    const char *no_host, *wrong_password, *nothing_there, *secure;
};

/* Each of them has its reason, and its text says what to do: no host of that name, a password that is wrong, no topic,
 * exchange or stream, and a certificate that is over. */
void faults_troubles(const struct troubles *t);

/* One message; how it ends.  Its index. */
size_t faults_send(struct world *w, enum send_outcome outcome);
/* Send until one arrives: the server is coming back. */
void faults_send_until_ok(struct world *w);
/* What is OK is there once, what FAILED is not there.  Looks first. */
void faults_check(struct world *w);
/* Fail as the first message fails: with this reason, and these words in its code and text. */
void faults_refused(struct world *w, const char *url, int reason, const char *code, const char *text);

/* Around a server that wants a certificate of its clients, and its answer to who has none.  In the folder are good.pem,
 * which vouches for both sides, client.pem and client.key.  url ends with ? or &.  In its url, or in the endpoint's
 * config. */
void faults_mutual(const struct harness *harness, const char *url, const char *folder, const char *refusal);

/* Around a restart of the server.  Take off: opens (world_prepare() was before) and sends, and is in the middle of it.
 * Crash: the server is away, and says so.  Land: it is back, and nothing is lost. */
void faults_take_off(struct world *w);
void faults_crash(struct world *w);
void faults_land(struct world *w);

/* CUT_EVERY_BYTE=1 in the environment: the tests of cut answers cut after every byte, not at 16 places.  The suite
 * `full` has them so. */
bool faults_everywhere(void);
#define FAULTS_ANSWER_MAX 4096 /* the answers to a few messages are smaller */

/* The connection is cut in the middle of the answers, at 16 places that are `step` bytes apart, or everywhere: what
 * was answered is OK, what was not UNKNOWN, and the first reconnect is at once. */
void faults_cut(const struct faults *f, size_t step);
/* Nobody answers: the deadline is kept, and it may have arrived. */
void faults_hold(const struct faults *f);
/* The wire is full: what has not begun is returned at cancel, and never goes out. (B23, P4) */
void faults_cancel(const struct faults *f);
/* Somebody takes the connection and says nothing: messages fail in time, and when he leaves, although another attempt
 * may follow at once.  Handed back again and again, they would wait without a word.  The url wants a greeting. */
void faults_silent(const struct faults *f);
/* Nobody is there: at most one attempt a second. */
void faults_hammer(const struct faults *f);

#endif
