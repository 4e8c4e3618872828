/* intake.h - a batch on its way from a broker into its box.
 *
 *   Each message becomes a row, or a dead letter with its bytes if it cannot be decoded (S3).  The rows are stored by
 *   one call in
 *   the order of the broker, so that streams keep theirs.
 *
 * The id, which ensures that a message is stored once however often it arrives (S2): a UUID is used as it is.  Another
 * id becomes a UUID of the CloudEvents source (else the name of this source) and the id, which stays readable in the
 * header ce-id.  A message without an id gets one from its position, if the broker has positions; else a new one.  A
 * position includes a time: numbers restart when a stream or topic is deleted and created again, and new messages would
 * be taken for duplicates. */
#ifndef SOURCE_BROKER_INTAKE_H
#define SOURCE_BROKER_INTAKE_H

#include "source/decode.h"
#include "source/source.h"
#include "source/undecodable.h"

#define INTAKE_BYTES_MAX ((size_t)4 << 20) /* of a batch: when they are reached nothing is added */
#define INTAKE_HEADERS_MAX 256             /* of one message */
#define INTAKE_SIZE_ADVICE "raise limits.payload if its messages are that large"

/* A message from a broker; borrowed for the call. */
struct received {
    pr_slice content_type, body;
    const struct decode_header *headers;
    size_t header_count;
    const char *prefix;      /* see decode_input */
    bool is_percent_encoded; /* ... */
    /* What the broker knows in addition, for values that the message lacks; may be empty. */
    pr_slice id, position, type, stream, correlation_id;
    bool has_signed_id; /* ... the headers are not signed, and do not identify it */
    bool is_letter;     /* the body is a message as letter.h reads it */
    uint64_t missing;   /* bytes of the body that were dropped, since it is too large: it becomes a dead letter */
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
    size_t average; /* average size of recent messages; 0: none yet */
    struct undecodable_log undecodable;
    /* stored with the batch, if Postrider keeps the position; without a source: it does not */
    struct position_move move;
};

PR_MUST_CHECK int intake_init(struct intake *in, struct source *source, struct pr_error *reterr);
void intake_fini(struct intake *in); /* safe on a zeroed one */
void intake_begin(struct intake *in);

/* PR_OK or PR_ENOMEM.  Must not be full. */
PR_MUST_CHECK int intake_add(struct intake *in, const struct received *received, struct pr_error *reterr);
/* For data that its source cannot decode: a dead letter with the reason. */
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
/* Sets the expected size of messages. */
void intake_expect(struct intake *in, size_t average);
/* How many messages fit into a batch, by their expected size: at least 1. */
size_t intake_room(const struct intake *in);

/* Commits it.  After a fault nothing may be acknowledged; whatever was committed all the same is recognised when it
 * comes again.  PR_STALE: the position is not where it was when the batch was read. */
PR_MUST_CHECK int intake_store(struct intake *in, struct source_counts *ret, struct pr_error *reterr);

#endif
