/* UUIDv7: 48 bits of milliseconds, then randomness; ids made in one process ascend. */
#ifndef CORE_ID_H
#define CORE_ID_H

#include <postrider.h>

/* The same for a given time and randomness: what pr_id_new() is made of. */
void id_make(int64_t unix_ms, const uint8_t random[10], pr_id *ret_id);

/* UUIDv5: the same name in the same namespace gives the same id, here and in any other language. */
void id_from_name(pr_id space, pr_slice name, pr_id *ret_id);

/* UUIDv8 of an id that is unique for its source only: the first 16 bytes of SHA-256 of source, newline and id. */
void id_from_event(pr_slice source, pr_slice id, pr_id *ret_id);

/* UUIDv8 of where a broker has a message, for one without an id: as above with a zero byte, which texts do not have, instead
 * of the newline.  So no id that a sender writes gives the same, whatever it reads like. */
void id_from_position(pr_slice source, pr_slice position, pr_id *ret_id);

/* As stored in SQLite: 16 bytes, or 36 characters of text. */
int id_from_stored(pr_slice stored, pr_id *ret_id);

#endif
