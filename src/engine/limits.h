/* limits.h - limits of a process: what its engines, one for each box, may do together.
 *
 * An endpoint's rate, concurrency and breakers hold over all engines, and so does limits.in_flight.  An engine asks
 * before it sends, and reports the result.  An engine that is refused waits in line: when room becomes free, the first
 * in line is woken, and the room passes to the next ones if the first does not use it.  Nobody polls.
 *
 * Pure: time is an argument, and locks and wake-ups are the owner's.  An engine that is alone has limits of its own,
 * and takes no lock.
 *
 * Invariants (under the endpoint's lock):
 *   L1  slots is the sum of the slots of all uses.  It exceeds the limit only for a while after the limit was lowered.
 *   L2  pledged is the sum of the uses' pledged: messages chosen and not begun.  Their tokens do not refill with time.
 *   L3  A use that was refused, and could go when others make room, stays in line until it goes or gives up.
 *   L4  At most one probe is out for each breaker. */
#ifndef ENGINE_LIMITS_H
#define ENGINE_LIMITS_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "engine/suspect_limit.h"
#include "policy/breaker.h"
#include "policy/rate.h"

#define LIMITS_TURN_US PR_MILLISECONDS(100) /* how long the first in line may block the others without using its turn */
/* how long a chosen suspect may keep its seat before its receipt is committed */
#define LIMITS_SEAT_US PR_SECONDS(1)

struct endpoint_setting;

/* A failure, in words for people. */
struct last_failure {
    int reason;         /* 0: none */
    char *code, *error; /* owned, may be NULL */
};

/* A breaker of an endpoint or of one type there, shared by all engines. */
struct shared_breaker {
    struct map_node node; /* endpoint_limits.breakers */
    pr_slice type;        /* stored behind the struct; empty: all types */
    size_t refs;          /* engines that use it */
    struct breaker breaker;
    int64_t since_us;                 /* when it first opened */
    struct last_failure last_failure; /* the failure that opened it, or of its latest probe */
};

/* What one engine uses of an endpoint. */
struct limits_use {
    struct list_node line; /* endpoint_limits.line */
    bool waits;            /* it is in line */
    bool entitled;         /* ... and has less than its share: the others leave it room */
    size_t slots, pledged;
    /* since when this use, first in line, has kept another one from going; 0: it keeps nobody waiting */
    int64_t blocks_since_us;
    /* when this use may stop leaving room for others that do not come; PR_NEVER: it leaves none */
    int64_t look_us;
    void (*wake)(void *arg); /* NULL: none */
    void *wake_arg;
};

struct endpoint_limits {
    struct limits *limits;
    unsigned index;
    struct rate rate;
    struct rate_setting rate_setting; /* the setting that the rate counts by */
    size_t slots, pledged;
    size_t users;     /* uses that have slots or wait */
    struct list line; /* uses, the one to be woken first in front */
    struct shared_breaker gate;
    struct map breakers; /* of types; shared_breaker */
    struct setback setback;
    _Atomic uint64_t changes; /* changes of breakers: an engine that has seen fewer must look again */
};

#define SEATS_TAKEN UINT64_MAX

struct limits_member { /* one engine of the process */
    struct list_node node;
    void (*wake)(void *arg);
    void *wake_arg;
    /* While a cycle is under way, the messages chosen for it are not out yet and the judged ones are out no more: those
     * that would go but for these wait for their turn. */
    _Atomic int64_t cycle_since_us; /* 0: no cycle is under way */
    /* seats of suspects that are chosen or judged; SEATS_TAKEN: other engines have taken them */
    _Atomic uint64_t seats;
    _Atomic bool suspect_waits; /* a suspect of this engine waits for others to finish */
    int64_t look_us;            /* when this engine need no longer wait for the suspects of others; PR_NEVER */
};

struct limits_setting {
    size_t engines;                    /* engines that will share the limits */
    size_t endpoint_count;             /* endpoints at the start; there is room for ENDPOINTS_SPARE more */
    size_t window_count, window_bytes; /* of all engines together */
    size_t payload_max;
    /* Locks the limits of one endpoint, or (index endpoint_count + ENDPOINTS_SPARE) the list of engines, which is
     * always taken last.  NULL: everything runs on one thread. */
    void (*lock)(void *arg, size_t index);
    void (*unlock)(void *arg, size_t index);
    void *lock_arg;
};

struct limits {
    struct limits_setting setting;
    struct endpoint_limits *endpoints;
    size_t endpoint_room;
    struct suspect_limit suspects;
    _Atomic bool suspects_wait; /* an engine was refused: too many suspects are out */
    struct list members;
    /* The window: each engine has a least for itself, and takes what exceeds it from the shared rest. */
    size_t least_count, least_bytes;
    _Atomic size_t over_count, over_bytes;
    _Atomic bool window_waits; /* an engine would read more */
    /* Large payloads in memory; under the lock of the list of engines. */
    size_t load_bytes;
    const void *load_first;   /* an endpoint whose next large payload found no room: others leave room for it ... */
    int64_t load_first_until; /* ... until this time, unless it comes back */
    bool loads_wait;          /* an endpoint found no room */
};

size_t limits_lock_count(const struct limits_setting *setting);
struct limits *limits_new(const struct limits_setting *setting); /* NULL: no memory */
void limits_free(struct limits *l);                              /* after its engines; NULL is allowed */

void limits_join(struct limits *l, struct limits_member *m);
void limits_leave(struct limits *l, struct limits_member *m);
void limits_wake_all(struct limits *l);
bool limits_are_shared(const struct limits *l);

/* May a suspect of this level go out?  Otherwise the engine is woken when that may have changed, or looks again at
 * look_us. */
bool limits_suspect_may_enter(struct limits *l, struct limits_member *m, unsigned level, int64_t now_us);
void limits_suspect_leave(struct limits *l, unsigned level);
void limits_suspect_waits(struct limits *l, struct limits_member *m, bool waits);

/* A cycle starts with these seats; a cycle has ended.  False: it took too long, and other engines have taken the
 * seats. */
void limits_seats_at_risk(struct limits *l, struct limits_member *m, uint64_t seats, int64_t now_us);
PR_MUST_CHECK bool limits_seats_kept(struct limits *l, struct limits_member *m);
/* One more seat is at risk; one is no longer needed.  False: they were taken already. */
PR_MUST_CHECK bool limits_seat_at_risk(struct limits *l, struct limits_member *m, unsigned level);
PR_MUST_CHECK bool limits_seat_kept(struct limits_member *m, unsigned level);

void limits_lock(struct endpoint_limits *l);
void limits_unlock(struct endpoint_limits *l);

/* ---- Rate and concurrency; the lock must be held ---------------------------------------------- */

/* May the engine choose one more message?  If not, it is in line afterwards. */
bool limits_may_take(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s,
                     int64_t now_us);
void limits_taken(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s);
/* A pledged message begins; returns its rate token, for limits_unsent(). */
uint32_t limits_begin(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s,
                      int64_t now_us);
/* A message goes at once, without having been pledged. */
void limits_pass(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s, int64_t now_us);
void limits_unsent(struct endpoint_limits *l, const struct endpoint_setting *s, uint32_t taken);
/* Sets how many are out now, and how many of these are pledged; the difference to before is given back. */
void limits_settle(struct endpoint_limits *l, struct limits_use *use, size_t out, size_t pledged);
/* The engine has nothing that could go, and leaves the line. */
void limits_wait_over(struct endpoint_limits *l, struct limits_use *use);
/* When the use may be able to go without being woken. */
int64_t limits_next_us(struct endpoint_limits *l, const struct limits_use *use, const struct endpoint_setting *s,
                       int64_t now_us);

/* ---- Breakers; the lock must be held ---------------------------------------------------------- */

struct shared_breaker *limits_breaker_get(struct endpoint_limits *l, pr_slice type); /* NULL: no memory */
void limits_breaker_put(struct endpoint_limits *l, struct shared_breaker *b);
/* A breaker opened, closed, or may be probed again: all engines must look. */
void limits_breaker_changed(struct endpoint_limits *l);

/* ---- The window --------------------------------------------------------------------------------- */

/* How many messages (bytes) an engine may have that has `mine` now. */
size_t limits_window_count(const struct limits *l, size_t mine);
size_t limits_window_bytes(const struct limits *l, size_t mine);
void limits_window_changed(struct limits *l, size_t before, size_t after, size_t bytes_before, size_t bytes_after);

/* ---- Large payloads ------------------------------------------------------------------------------ */

/* Is there room for a payload of this size beside the window?  One at a time always fits, whatever its size.  If not,
 * the engine is woken when there may be room.  who: the endpoint; take: the room is taken until it is given back. */
bool limits_may_load(struct limits *l, const void *who, size_t bytes, size_t window, bool take, int64_t now_us);
void limits_unload(struct limits *l, size_t bytes);

void last_failure_fini(struct last_failure *m);

#endif
