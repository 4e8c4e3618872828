/* undecodable.h - what the dead letter says of something that a source has read and that is no message (S3): the same
 * whatever the source is, and as if the engine had met it (B9). */
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
/* m: what could be read of it.  error: for people; why: its part that groups are made by.  Fault PR_ENOMEM: there is
 * nothing to free. */
PR_MUST_CHECK int undecodable_init(struct undecodable *u, const struct pr_message *m, pr_slice error, pr_slice why,
                                   int64_t now_us);
void undecodable_fini(struct undecodable *u);

/* A sender who sends nothing else must not fill the disk with lines: one a second, with how many there were since the last. */
struct undecodable_log {
    uint64_t count;  /* that nobody was told of */
    int64_t told_us; /* monotonic; 0: never */
    char why[256];   /* of the last one */
};
void undecodable_note(struct undecodable_log *l, const char *why);
/* Is it time for a line?  Then it is written, and they count as told. */
void undecodable_tell(struct undecodable_log *l, const struct log *log, const char *source, pr_slice box,
                      int64_t now_us);

#endif
