/* UUIDv7: 48 bits of milliseconds, then randomness; the ids of one process ascend. */
#ifndef CORE_ID_H
#define CORE_ID_H

#include <postrider.h>

/* The id for a given time and randomness; pr_id_new() uses this. */
void id_make(int64_t unix_ms, const uint8_t random[10], pr_id *ret_id);

/* UUIDv5: the same name in the same namespace gives the same id, in every language. */
void id_from_name(pr_id space, pr_slice name, pr_id *ret_id);

/* UUIDv8 from an id that is unique only in its source: the first 16 bytes of SHA-256 of source, newline and id. */
void id_from_event(pr_slice source, pr_slice id, pr_id *ret_id);

/* UUIDv8 from the position of a message in a broker, for a message without an id.  As id_from_event(), but with a zero
 * byte instead of the newline: texts have no zero bytes, so no id that a sender writes can give the same result. */
void id_from_position(pr_slice source, pr_slice position, pr_id *ret_id);

/* From the stored form: 16 bytes (as in SQLite), or 36 characters of text. */
int id_from_stored(pr_slice stored, pr_id *ret_id);

#endif
