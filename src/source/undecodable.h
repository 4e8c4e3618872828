/* undecodable.h - what the dead letter says of something that a source has read and that is no message (S3): the same
 * whatever the source is, and as if the engine had met it (B9). */
#ifndef SOURCE_UNDECODABLE_H
#define SOURCE_UNDECODABLE_H

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

#endif
