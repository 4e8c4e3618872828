/* intake.h - a batch on its way from a broker into its box.
 *
 *   Each message becomes a row, or a dead letter with its bytes when it is none (S3).  The rows are stored by one call in
 *   the order of the broker, so that streams keep theirs.
 *
 * Who it is, so that it is stored once however often it comes (S2): a UUID is the id.  Another id becomes a UUID of the
 * CloudEvents source (else the name of our source) and the id, which stays readable in the header ce-id.  A message
 * without an id has one of its position, where the broker has positions; else a new one.  A position has a time in it:
 * numbers begin again when a stream or topic is deleted and made again, and what is new would be a duplicate. */
#ifndef SOURCE_BROKER_INTAKE_H
#define SOURCE_BROKER_INTAKE_H

#include "source/decode.h"
#include "source/source.h"
#include "source/undecodable.h"

#define INTAKE_BYTES_MAX ((size_t)4 << 20) /* of a batch: from there on nothing is added */
#define INTAKE_HEADERS_MAX 256             /* of one message */
#define INTAKE_SIZE_ADVICE "raise limits.payload if its messages are that large"

/* A message as a broker has it; borrowed for the call. */
struct received {
    pr_slice content_type, body;
    const struct decode_header *headers;
    size_t header_count;
    const char *prefix;      /* see decode_input */
    bool is_percent_encoded; /* ... */
    /* What the broker knows beside them, for what the message does not say itself; may be empty. */
    pr_slice id, position, type, stream, correlation_id;
    bool has_signed_id; /* ... and its headers are not: they do not say who it is */
    bool is_letter;     /* the body is a message as letter.h reads it */
    uint64_t missing;   /* bytes of the body that were not kept, since it has too many: it becomes a dead letter */
};

struct intake {
    struct source *source;
    struct arena arena; /* of the batch */
    struct pr_message *messages;
    struct listed *dead;
    pr_id *ids;
    int *answers;
    size_t count, dead_count, capacity;
    size_t bytes;
    size_t average; /* bytes of a message lately; 0: none came yet */
    struct undecodable_log undecodable;
    struct position_move move; /* stored with the batch, where the position is ours to keep; no source: it is not */
};

PR_MUST_CHECK int intake_init(struct intake *in, struct source *source, struct pr_error *reterr);
void intake_fini(struct intake *in); /* safe on a zeroed one */
void intake_begin(struct intake *in);

/* PR_OK or PR_ENOMEM.  Not when it is full. */
PR_MUST_CHECK int intake_add(struct intake *in, const struct received *received, struct pr_error *reterr);
/* The same for what is no message to whoever reads it: a dead letter that says why. */
PR_MUST_CHECK int intake_bury(struct intake *in, const struct received *received, const char *why,
                              struct pr_error *reterr);
static inline size_t intake_size(const struct intake *in)
{
    return in->count + in->dead_count;
}
static inline bool intake_is_full(const struct intake *in)
{
    return intake_size(in) == in->capacity || in->bytes >= INTAKE_BYTES_MAX;
}
/* Those that come have so many bytes, as far as one knows. */
void intake_expect(struct intake *in, size_t average);
/* How many messages fit into a batch, as far as one can know before they come: at least 1. */
size_t intake_room(const struct intake *in);

/* Commits it.  A fault: nothing may be acknowledged; what was committed all the same is known when it comes again.
 * PR_STALE: the position is not where it was when the batch was read. */
PR_MUST_CHECK int intake_store(struct intake *in, struct source_counts *ret, struct pr_error *reterr);

#endif
