/* A stage for sentences about the engine, in virtual time: a calm world in which a message's payload says what happens
 * to it, and a diary of every send.
 *
 *   "ok"           delivered                     "fail:N"   fails N times, then delivered
 *   "fail"         always fails                  "down:N"   the same, for a transient reason
 *   "slow:MS"      the answer takes MS           "crash"    kills the process that sends it
 *   "event"        reaches EventStored, fails once
 *   "late:MS"      always fails, and the answer takes MS */
#ifndef TEST_ENGINE_STAGE_H
#define TEST_ENGINE_STAGE_H

#include "check.h"
#include "world.h"

struct note {
    int64_t at_us;
    pr_id id;
    pr_slice stream;
    unsigned endpoint;
    int attempt, status;
};

struct stage {
    struct world w;
    struct scenario scenario;
    struct note *diary;
    size_t count, capacity;
};

/* Change s->scenario between the two. */
void stage_set(struct stage *s);
void stage_open(struct stage *s);
void stage_close(struct stage *s);
/* One more endpoint like the first; returns its setting. */
struct endpoint_setting *stage_endpoint(struct stage *s, enum ordering ordering);

/* Run, starting again whoever crashed, as a supervisor would. */
void stage_run(struct stage *s, int64_t us);

/* Stop the only instance in good order, and do not start it again. */
void stage_stop(struct stage *s);

/* The n-th send (1 first) of a message, or NULL. */
const struct note *stage_send(const struct stage *s, pr_id id, unsigned n);
size_t stage_sends(const struct stage *s, pr_id id);
/* When it was first sent, since the world began; PR_NEVER: not yet. */
int64_t stage_first_us(const struct stage *s, pr_id id);
bool stage_done(struct stage *s, pr_id id);

/* A row as people see it; lives until stage_close. */
struct listed stage_look(struct stage *s, pr_id id);
struct admin_reply stage_admin(struct stage *s, enum admin_kind kind, pr_id id);
struct admin_reply stage_admin_stream(struct stage *s, enum admin_kind kind, const char *stream);

#define STREAM(n)                                                                                                      \
    ((char[]){ 's', (char)('0' + (n) / 100 % 10), (char)('0' + (n) / 10 % 10), (char)('0' + (n) % 10), 0 })

#endif
