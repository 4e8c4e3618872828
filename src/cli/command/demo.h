/* demo.h - the tour: two processes on one SQLite file.
 *
 *   demo.c         stores sample messages, keeps the relay running, counts, ends it
 *   demo_relay.c   the other process: delivers to C functions that work, fail or kill it
 *   demo_screen.c  the picture
 *
 * The relay reports events in lines on a pipe; the final numbers come from the store. */
#ifndef CLI_COMMAND_DEMO_H
#define CLI_COMMAND_DEMO_H

#include "base/random.h"
#include "cli/cli.h"

#define DEMO_ENDPOINTS 3
#define DEMO_LINES_MAX 32 /* events remembered of each kind */
#define DEMO_TEXT_SIZE 160

/* The tour repeats itself after this time; moments are seconds after its beginning. */
#define DEMO_ROUND_SECONDS 30
#define DEMO_BAD_AT 2   /* an invoice that can never be booked */
#define DEMO_CRASH_AT 5 /* a report that kills the process */
#define DEMO_OUTAGE_FROM 10
#define DEMO_OUTAGE_TO 14    /* billing is down */
#define DEMO_TOUR_SECONDS 20 /* without a terminal */

struct demo_endpoint {
    const char *name, *what;
    char breaker[16];
    unsigned waiting, out;
    uint64_t sent, failed, dead; /* from the store */
};

struct demo_line {
    int64_t at_us;
    char text[DEMO_TEXT_SIZE];
};

struct demo_ring {
    struct demo_line lines[DEMO_LINES_MAX];
    size_t count; /* number ever added */
};

struct demo {
    struct cli *cli;
    const char *path; /* the SQLite file */
    struct random random;
    int64_t start_us, now_us; /* wall clock */
    bool terminal, stopping;

    int pipe_fd; /* lines of the relay */
    int relay;   /* process id, 0: none */
    unsigned crashes;
    char input[4096];
    size_t input_size;

    uint64_t stored;
    struct box_counts counts; /* of the outbox */
    struct demo_endpoint endpoints[DEMO_ENDPOINTS];
    struct demo_ring sent, failed, dead;
    char now_text[DEMO_TEXT_SIZE]; /* what the visitor should look at */
};

void demo_ring_add(struct demo_ring *ring, int64_t at_us, const char *format, ...) PR_PRINTF(3, 4);
/* i 0 is the newest; NULL when there are fewer. */
const struct demo_line *demo_ring_get(const struct demo_ring *ring, size_t i);

/* Seconds since the beginning of the round. */
double demo_round_seconds(int64_t start_us, int64_t now_us);

void demo_screen_open(void);
void demo_screen_close(void);
void demo_screen_draw(const struct demo *demo);
void demo_summary(struct demo *demo);

/* The other process: where is "FD:START".  Returns its exit code. */
int demo_relay(struct cli *cli, const char *where);

#endif
