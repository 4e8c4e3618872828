/* parcel.h - messages and results on their way between the program and a helper.  Both are one program, forked: structs
 * are the same in both, and only the data behind pointers must be packed.  A helper's output is not trusted all the
 * same: its handler may have written anywhere in its memory and to its socket. */
#ifndef TRANSPORT_PROCESS_PARCEL_H
#define TRANSPORT_PROCESS_PARCEL_H

#include "base/buf.h"
#include "core/delivery.h"
#include "transport/transport.h"

struct parcel_job {
    struct delivery delivery; /* its message is the one below */
    struct pr_message message;
    int64_t deadline_us;
    int64_t timeout_us, keep_us, dedupe_us, lease_us;
    pr_slice name, box, store_url;
    bool has_store;
};

/* Writes the whole parcel, its size first.  Faults stay in the buf. */
void parcel_write_job(struct buf *out, const struct parcel_job *job);
void parcel_write_result(struct buf *out, const struct delivery_result *result);

/* Reads a whole parcel without its size.  The job points into it, the result has memory of its own.  False: malformed
 * (or a result that a handler cannot give), or no memory. */
bool parcel_read_job(struct buf *in, struct parcel_job *ret);
bool parcel_read_result(const struct buf *in, struct delivery_result *ret);

/* Writes to a blocking socket.  False: the other side is gone, or took too long. */
bool parcel_send(int fd, const struct buf *parcel);
bool parcel_receive(int fd, struct buf *ret);

#endif
