/* crew.h - processes of a test: start them, kill them, wait for their effects.  See program.h for what they are,
 * checker.c for the checks. */
#ifndef TEST_FAULTS_CREW_H
#define TEST_FAULTS_CREW_H

#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "place.h"

#define CREW_MAX 16 /* processes at once */

struct crew {
    struct place place;
    int deaths; /* DIR/deaths */
    pid_t members[CREW_MAX];
    int killed; /* processes that died by SIGKILL so far */
};

/* What a worker's config says beside its store. */
struct crew_setting {
    const char *options;  /* of the store's URL: "busy=200ms"; NULL: none */
    const char *root;     /* "lease: 1s\n" */
    const char *endpoint; /* "timeout: 1s, max_attempts: 5" */
};

/* A directory with a store that has its tables and the table app of the producers. */
void crew_init(struct crew *c, const struct crew_setting *setting);
void crew_init_empty(struct crew *c, const struct crew_setting *setting);      /* without tables */
void crew_configure(const struct crew *c, const struct crew_setting *setting); /* write the config anew */
void crew_fini(struct crew *c);                                                /* kills who is left */

struct crew_order {
    const char *role;       /* "work" or "produce" */
    uint64_t seed;          /* of a producer */
    const char *fail_point; /* "store.cycle.begin:3"; NULL: none */
    int signal;             /* the worker's own, see program.h; 0: none */
    int signal_after;
    bool failing_disk;
};

pid_t crew_start(struct crew *c, const struct crew_order *order);
pid_t crew_work(struct crew *c); /* a plain worker */

/* Any member that has ended until then, and how; 0: nobody. */
pid_t crew_reap(struct crew *c, int64_t timeout_us, int *ret_status);
/* This one; the test fails when it takes longer. */
int crew_wait(struct crew *c, pid_t pid, int64_t timeout_us);
void crew_kill(struct crew *c, pid_t pid); /* -9, and waits for its end */
void crew_end(struct crew *c, pid_t pid);  /* SIGTERM: it must end well, within 10 s */

/* Run the checker: 0 when no promise is broken; what it says. */
int crew_ask_checker(const struct crew *c, int max_attempts, char *ret_text, size_t size);
void crew_judge(const struct crew *c, int max_attempts); /* the test fails with what it says */

/* Wait until a file of the directory has so many lines with both words in them. */
void crew_wait_lines(const struct crew *c, const char *file, const char *word, const char *word2, int count);
int crew_lines(const struct crew *c, const char *file, const char *word, const char *word2);

void crew_touch(const struct crew *c, const char *name);
void crew_remove(const struct crew *c, const char *name);

#endif
