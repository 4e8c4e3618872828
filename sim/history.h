/* What happened in a simulated world, as visible from outside the engine: an append-only list of events.  The checkers
 * read nothing else.  Its hash is the test of determinism: the same seed must give the same history. */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include <stdio.h>

#include <postrider.h>

#define MESSAGE_NONE UINT32_MAX
#define INSTANCE_NONE UINT8_MAX

/* Destinations of rows, as numbers: 0 is '', endpoint e is e + 1. */
#define DESTINATION_NONE 0
#define DESTINATION_UNKNOWN UINT16_MAX /* a name that no endpoint has */

/*    NAME       what it says                                   what     number    value   */
#define EVENTS(X)                                                                                                      \
    X(COMMIT, "a sender's transaction put it into the box") /* delayed, place, due; answer: corrects */                \
    X(REFUSED, "a sender was told that it is a duplicate")  /*                         */                              \
    X(ROLLBACK, "a sender's transaction took it back")      /*                         */                              \
    X(UNSTORED, "the store lost the commit of it")          /*                         */                              \
    X(UP, "an engine starts")                               /* config                  */                              \
    X(JOIN, "an instance joins the store")                  /* -       -         lease */                              \
    X(CYCLE, "a cycle landed") /* forced, cycle,   lease left; extra: lanes; answer: no verdicts, no totals */         \
    X(LEAVE, "an instance left the store")               /*                         */                                 \
    X(LOST, "a cycle was refused: no lease")             /*                         */                                 \
    X(HEARD, "a cycle was answered late")                /*                         */                                 \
    X(FAULT, "the store said no, or nothing")            /* rc,     -         -     */                                 \
    X(READ, "a row was read with counters")              /* from,   attempts, failures */                              \
    X(HANDOUT, "it is on a receipt")                     /* -,      number,   cycle; flag */                           \
    X(CLOSE, "a receipt was closed")                     /* -,      -,        cycle */                                 \
    X(VERDICT, "a verdict came to the store")            /* kind,   number,   delay; answer */                         \
    X(BORN, "a row was made by a split")                 /*                         */                                 \
    X(LEFT_OUT, "a split left out what is there")        /*                         */                                 \
    X(START, "a send was started")                       /* endpoint, number, digest */                                \
    X(ARRIVE, "the receiver got it")                     /* endpoint, number, digest */                                \
    X(RESULT, "the transport answered")                  /* outcome, number,  reason; extra: endpoint */               \
    X(CRASH, "an instance died")                         /*                         */                                 \
    X(FREEZE, "an instance was stopped by SIGSTOP")      /*                         */                                 \
    X(THAW, "an instance goes on")                       /*                         */                                 \
    X(RETUNE, "an instance goes on by another setting")  /* config                  */                                 \
    X(STOP, "an instance is asked to stop")              /*                         */                                 \
    X(GIVE_UP, "a stop could not wait")                  /*                         */                                 \
    X(ADMIN, "an operator acted on it")                  /* kind,   -,        -     */                                 \
    X(SEEN, "a row as people see it")                    /* state,  attempts, failures */                              \
    X(ADMIN_END, "all rows of it have been seen")        /*                         */                                 \
    X(CLOCK, "the wall clock jumped")                    /* -,      -,        before */                                \
    X(OUTAGE, "an endpoint went down or came up")        /* up,     -,        -     */                                 \
    X(HEAL, "from here on no faults")                    /*                         */                                 \
    X(WINDOW, "an engine holds more than ever before")   /* -,      count,    bytes, extra: streams + heads */         \
    X(UNREPORTED, "the stored breakers are not its own") /* -,      stored,   its own */                               \
    X(UNDRAINED, "it should be gone by now")             /* state                   */                                 \
    X(INTO, "it went into another box")                  /* -,      -,        -; answer; extra: digest */              \
    X(SETTLED, "its handler completed it itself")        /* endpoint, number; answer */                                \
    X(ANSWERED, "a worker is told of its verdict")       /* kind,   number;   answer */                                \
    X(BROUGHT, "a source brought it again")              /* -,      times;    answer */                                \
    X(EFFECT, "an effect came to the store")             /* kind, expected, count; destination: key */                 \
    X(KEPT, "what effects have left in the store")       /* kind, -, how many; destination: key */                     \
    X(ENDED, "the ledger tells its end")                 /* ended as, attempt; without a message: that was all */      \
    X(PURGED, "what is not kept is gone by now")         /* -,      -,        still there, extra: that long ago */     \
    X(TOTAL, "a stored total of an endpoint")            /* which,  -,        how many; destination */                 \
    X(ASKS, "receivers ask for other messages")          /* endpoint; extra: a bit for each type that one may have */  \
    X(END, "the run is over")                            /*                         */

/* Flags of a SEEN. */
#define SEEN_RELEASED 1
#define SEEN_PARKED 2
#define SEEN_CORRECTED 4 /* another message took its place */
#define SEEN_NOT_DUE 8   /* its time is yet to come: an order may leave it as it is */

/* Flags of a HANDOUT. */
#define HANDOUT_CARRIED 1  /* it was on an earlier receipt, too */
#define HANDOUT_BY_STORE 2 /* the store has put what it read on the receipt itself */

/* Flags of a VERDICT. */
#define VERDICT_IS_MOVED 1   /* a discarded message: it went to another endpoint */
#define VERDICT_IS_COUNTED 2 /* a failure of its endpoint */
#define VERDICT_IS_FENCED 4  /* ASK: what is gone was completed by its handler */

enum total { TOTAL_SENT, TOTAL_FAILED, TOTAL_DEAD, TOTAL_DISCARDED, TOTAL_EXPIRED, TOTAL_DUPLICATES, TOTAL_KINDS };

enum event_kind {
#define X(name, text) EVENT_##name,
    EVENTS(X)
#undef X
        EVENT_COUNT
};

/* `answer` of EVENT_READ: the lines of a story, and how many of them tell of a hand-out without an outcome. */
#define STORY_KEPT(lines, lost) ((lines) << 8 | (lost))

struct event {
    int64_t at_us;   /* monotonic */
    int64_t wall_us; /* the store's clock */
    int64_t value;
    uint64_t extra; /* digest, delay of a schedule, ... */
    uint32_t message;
    int32_t number;
    uint16_t destination; /* of the row */
    uint16_t session;     /* of the store: a new one with each join */
    uint16_t what;
    uint8_t kind; /* enum event_kind */
    uint8_t instance;
    int16_t answer;
    uint16_t flag;
    uint32_t pad; /* named, so that the hash sees no holes */
};

struct history {
    struct event *events;
    size_t count, capacity;
    uint64_t hash;
    FILE *trace;      /* NULL: quiet; every event is printed as it happens, */
    const char *name; /* ... behind this, where there are several; NULL: none */
};

void history_init(struct history *h);
void history_fini(struct history *h);
void history_add(struct history *h, const struct event *event);
void history_print(FILE *out, size_t index, const struct event *event);

const char *event_name(enum event_kind kind);

#endif
