/* stand.h - one flow without a store: a row, its history, its boxes as lists.
 *
 *     struct stand s;
 *     stand_open(&s, checkout);
 *     stand_start(&s, "order 7");
 *     stand_result(&s, 1, "paid");          the activity with number 1 has ended
 *     CHECK_EQ(s.row.state, FLOW_COMPLETED);
 *     stand_close(&s);
 *
 * After every turn the stand checks what must hold for all of them: the guards, the history as text and back, that the
 * whole history replays, and that every beginning of it leads to the same commands (I11). */
#ifndef TEST_FLOW_STAND_H
#define TEST_FLOW_STAND_H

#include "check.h"
#include "flow/machine.h"
#include "flow/turn.h"
#include "flow/turn_message.h"

#define STAND_MAX 12000

struct stand {
    struct flow_code code;
    struct flow_row row;
    bool has_row;
    struct flow_history history;
    struct arena turn; /* of the latest turn */
    struct arena kept;
    int64_t now_us;
    uint64_t turns;
    struct pr_message queue[STAND_MAX]; /* for the next turn */
    size_t queued;
    struct pr_message activities[STAND_MAX], others[64], timers[STAND_MAX]; /* what it asked for */
    size_t activity_count, other_count, timer_count;
    struct pr_message mail[64]; /* kept for it */
    size_t mail_count;
    struct flow_value state[PR_STATE_KEYS_MAX + 1];
    size_t state_count;
    struct flow_turn_out out;
    struct flow_dead dead;
    bool unchecked; /* no I11: the test changes the code */
    bool no_code;
    char log[1024]; /* lines of all turns */
};

struct stand *stand_new(pr_flow_function function);
void stand_free(struct stand *s);

/* Queue a message; stand_run() takes all that are queued as one run. */
void stand_queue(struct stand *s, const struct turn_message *m);
void stand_queue_raw(struct stand *s, const struct pr_message *m);
void stand_run(struct stand *s);
/* Each of these is queued and run. */
void stand_start(struct stand *s, const char *input);
void stand_resume(struct stand *s); /* it failed: from before that */
void stand_result(struct stand *s, int64_t task, const char *output);
void stand_fail(struct stand *s, int64_t task, const char *error);
void stand_fire(struct stand *s, int64_t task);
void stand_child(struct stand *s, int64_t task, const char *output);
void stand_event(struct stand *s, const char *name, const char *data);
void stand_mail(struct stand *s, const char *name, const char *data);
void stand_cancel(struct stand *s);

/* The same, only queued. */
struct turn_message stand_result_of(const struct stand *s, int64_t task, const char *output);
struct turn_message stand_fired(const struct stand *s, int64_t task);
struct turn_message stand_named(const struct stand *s, enum turn_message_kind kind, const char *name, const char *data);

/* Why it failed: the message of its error. */
const char *stand_error(const struct stand *s);
enum pr_category stand_category(const struct stand *s);
const char *stand_value(const struct stand *s, const char *key); /* NULL: none */
/* "activity charge, timer": the kinds and names of the history's events from this one (1 is the start). */
const char *stand_events(const struct stand *s, size_t from);
/* How many effects of this kind the latest turn had. */
size_t stand_effects(const struct stand *s, int kind);
/* A history of these lines; the caller ends it. */
int stand_history(struct flow_history *h, const char *lines, struct pr_error *reterr);
const char *stand_text(pr_slice s); /* a C string, good until some calls later */

#endif
