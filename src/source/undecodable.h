/* undecodable.h - the dead letter for data from a source that is not a message (S3): the same for all sources, and as
 * if the engine had met it (B9). */
#ifndef SOURCE_UNDECODABLE_H
#define SOURCE_UNDECODABLE_H

#include "base/log.h"
#include "core/fingerprint.h"
#include "core/verdict.h"

#define UNDECODABLE_RULE "undecodable"

struct undecodable {
    struct verdict verdict; /* reason, error, story */
    char print[FINGERPRINT_SIZE];
    char *texts; /* of the verdict */
};
/* m: what could be read.  error: for people; why: the part of it that groups are made by.  Fault PR_ENOMEM: there is
 * nothing to free. */
PR_MUST_CHECK int undecodable_init(struct undecodable *u, const struct pr_message *m, pr_slice error, pr_slice why,
                                   int64_t now_us);
void undecodable_fini(struct undecodable *u);

/* A sender of nothing else must not fill the disk with log lines: one a second, with the number since the last one. */
struct undecodable_log {
    uint64_t count;  /* not logged yet */
    int64_t told_us; /* monotonic; 0: never */
    char why[256];   /* of the last one */
};
void undecodable_note(struct undecodable_log *l, const char *why);
/* Writes a line if it is time for one. */
void undecodable_log_line(struct undecodable_log *l, const struct log *log, const char *source, pr_slice box,
                          int64_t now_us);

#endif
