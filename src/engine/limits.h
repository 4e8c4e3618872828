/* limits.h - limits of a process: what its engines, one for each box, may do together.
 *
 * An endpoint's rate, concurrency and breakers hold over all of them, and so does limits.in_flight.  An engine asks before
 * it sends, and says what became of it.  Who is refused waits in line: when room comes free the first in line is woken, and
 * leaves it to the others if it does not come for it.  Nobody polls.
 *
 * Pure: time is an argument, and locks and wake-ups are the owner's.  An engine that is alone has limits of its own, and
 * takes no lock.
 *
 * Invariants (under the endpoint's lock):
 *   L1  slots is the sum of the uses' slots, and no more than the limit, but for a while after the limit was lowered.
 *   L2  pledged is the sum of the uses' pledged: chosen, and not begun.  Time does not bring back their tokens.
 *   L3  A use that was refused and could go when others make room is in line, until it goes or does not want to.
 *   L4  At most one probe is out for each breaker. */
#ifndef ENGINE_LIMITS_H
#define ENGINE_LIMITS_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "engine/suspect_limit.h"
#include "policy/breaker.h"
#include "policy/rate.h"

#define LIMITS_TURN_US PR_MILLISECONDS(100) /* who is first in line and does not come holds others up for this time */
#define LIMITS_SEAT_US PR_SECONDS(1)        /* ... and who was chosen, until its receipt is committed, for this */

struct endpoint_setting;

/* A failure, in words for people. */
struct last_failure {
    int reason;         /* 0: none */
    char *code, *error; /* owned, may be NULL */
};

/* A breaker of an endpoint or of one type there, as all engines know it. */
struct shared_breaker {
    struct map_node node; /* endpoint_limits.breakers */
    pr_slice type;        /* its bytes are behind the struct; empty: all types */
    size_t refs;          /* engines that have it */
    struct breaker breaker;
    int64_t since_us;                 /* when it opened first */
    struct last_failure last_failure; /* that opened it, or failed its latest probe */
};

/* What one engine has of an endpoint. */
struct limits_use {
    struct list_node line; /* endpoint_limits.line */
    bool waits;            /* it is in line */
    bool entitled;         /* ... and has less than its share: the others leave it room */
    size_t slots, pledged;
    int64_t blocks_since_us; /* somebody would go but for this one, which is first in line; 0: nobody */
    int64_t look_us;         /* when we need not leave room any more to somebody who does not come; PR_NEVER */
    void (*wake)(void *arg); /* NULL: none */
    void *wake_arg;
};

struct endpoint_limits {
    struct limits *limits;
    unsigned index;
    struct rate rate;
    struct rate_setting rate_setting; /* by which the rate counts */
    size_t slots, pledged;
    size_t users;     /* uses that have slots or wait */
    struct list line; /* of uses, the first to come first */
    struct shared_breaker gate;
    struct map breakers; /* of types; shared_breaker */
    struct setback setback;
    _Atomic uint64_t changes; /* of breakers: whoever has seen fewer looks again */
};

#define SEATS_TAKEN UINT64_MAX

struct limits_member { /* an engine */
    struct list_node node;
    void (*wake)(void *arg);
    void *wake_arg;
    /* While its cycle is under way nothing that was chosen for it is out, and what was judged is out no more: who would go
     * but for these waits for a turn. */
    _Atomic int64_t cycle_since_us; /* 0: none is */
    _Atomic uint64_t seats;         /* of what was chosen or judged; SEATS_TAKEN: others have them */
    _Atomic bool suspect_waits;     /* a suspect of ours waits for others to finish */
    int64_t look_us;                /* when we need not wait any more for those of others; PR_NEVER */
};

struct limits_setting {
    size_t engines;                    /* that will share it */
    size_t endpoint_count;             /* the first ones; there is room for ENDPOINTS_SPARE more */
    size_t window_count, window_bytes; /* of all engines together */
    size_t payload_max;
    /* Of one endpoint's limits, or (index endpoint_count + ENDPOINTS_SPARE) of the list of engines, which is taken last.
     * NULL: everything is on one thread. */
    void (*lock)(void *arg, size_t index);
    void (*unlock)(void *arg, size_t index);
    void *lock_arg;
};

struct limits {
    struct limits_setting setting;
    struct endpoint_limits *endpoints;
    size_t endpoint_room;
    struct suspect_limit suspects;
    _Atomic bool suspects_wait; /* somebody was refused: too many are out */
    struct list members;
    /* The window: each engine has its least for itself, and what is over it comes from the rest. */
    size_t least_count, least_bytes;
    _Atomic size_t over_count, over_bytes;
    _Atomic bool window_waits; /* somebody would read more */
    /* Large payloads that are here; under the lock of the list of engines. */
    size_t load_bytes;
    const void *load_first;   /* an endpoint whose next one found no room: others leave it some ... */
    int64_t load_first_until; /* ... until this time, when it does not come back */
    bool loads_wait;          /* somebody found no room */
};

size_t limits_lock_count(const struct limits_setting *setting);
struct limits *limits_new(const struct limits_setting *setting); /* NULL: no memory */
void limits_free(struct limits *l);                              /* after its engines; NULL is fine */

void limits_join(struct limits *l, struct limits_member *m);
void limits_leave(struct limits *l, struct limits_member *m);
void limits_wake_all(struct limits *l);
bool limits_are_shared(const struct limits *l);

/* May one of this level go out?  Otherwise we are woken when that may have changed, or look again at look_us. */
bool limits_suspect_may_enter(struct limits *l, struct limits_member *m, unsigned level, int64_t now_us);
void limits_suspect_leave(struct limits *l, unsigned level);
void limits_suspect_waits(struct limits *l, struct limits_member *m, bool waits);

/* A cycle is under way, with these seats; it is over.  False: it took too long, and the seats are others' now. */
void limits_seats_at_risk(struct limits *l, struct limits_member *m, uint64_t seats, int64_t now_us);
PR_MUST_CHECK bool limits_seats_kept(struct limits *l, struct limits_member *m);
/* One more of them; one is not needed any more.  False: they were taken already. */
PR_MUST_CHECK bool limits_seat_at_risk(struct limits *l, struct limits_member *m, unsigned level);
PR_MUST_CHECK bool limits_seat_kept(struct limits_member *m, unsigned level);

void limits_lock(struct endpoint_limits *l);
void limits_unlock(struct endpoint_limits *l);

/* ---- Rate and concurrency; the lock must be held ---------------------------------------------- */

/* May it choose one more?  Otherwise it is in line. */
bool limits_may_take(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s,
                     int64_t now_us);
void limits_taken(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s);
/* One that was pledged begins: its token, for limits_unsent(). */
uint32_t limits_begin(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s,
                      int64_t now_us);
/* One goes at once, without having been pledged. */
void limits_pass(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s, int64_t now_us);
void limits_unsent(struct endpoint_limits *l, const struct endpoint_setting *s, uint32_t taken);
/* How many are out now, and how many of these are pledged: what there is less of than before is given back. */
void limits_settle(struct endpoint_limits *l, struct limits_use *use, size_t out, size_t pledged);
/* It has nothing that could go, and leaves the line. */
void limits_wait_over(struct endpoint_limits *l, struct limits_use *use);
/* When it may be able to go though nobody wakes it. */
int64_t limits_next_us(struct endpoint_limits *l, const struct limits_use *use, const struct endpoint_setting *s,
                       int64_t now_us);

/* ---- Breakers; the lock must be held ---------------------------------------------------------- */

struct shared_breaker *limits_breaker_get(struct endpoint_limits *l, pr_slice type); /* NULL: no memory */
void limits_breaker_put(struct endpoint_limits *l, struct shared_breaker *b);
/* It opened, closed, or may be probed again: everybody looks. */
void limits_breaker_changed(struct endpoint_limits *l);

/* ---- The window --------------------------------------------------------------------------------- */

/* Of `mine` messages (bytes) the engine has, how many it may have. */
size_t limits_window_count(const struct limits *l, size_t mine);
size_t limits_window_bytes(const struct limits *l, size_t mine);
void limits_window_changed(struct limits *l, size_t before, size_t after, size_t bytes_before, size_t bytes_after);

/* ---- Large payloads ------------------------------------------------------------------------------ */

/* Is there room for one of this size beside what is in the window?  One at a time always goes, whatever its size.  Otherwise
 * we are woken when there may be some.  who: the endpoint; take: it is ours from now on, until it is given back. */
bool limits_may_load(struct limits *l, const void *who, size_t bytes, size_t window, bool take, int64_t now_us);
void limits_unload(struct limits *l, size_t bytes);

void last_failure_fini(struct last_failure *m);

#endif
