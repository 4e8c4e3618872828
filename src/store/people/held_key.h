/* held_key.h - what each database reads out of a key of held rows (held_by): its endpoint, as held_endpoint() does in C.  A key says
 * where rows are held, and nothing else is read out of it (doc/adr/0091). */
#ifndef STORE_PEOPLE_HELD_KEY_H
#define STORE_PEOPLE_HELD_KEY_H

#define SQLITE_HELD_ENDPOINT(key) "substr(" key ", 1, instr(" key ", '/') - 1)"
#define POSTGRES_HELD_ENDPOINT(key) "split_part(" key ", '/', 1)"

/* The least key that is above all keys of its endpoint: '0' comes next after '/'.  A key without an endpoint, which only other
 * programs write, stands alone. */
#define SQLITE_ABOVE_ENDPOINT(key)                                                                                     \
    "iif(instr(" key ", '/') > 0, " SQLITE_HELD_ENDPOINT(key) " || '0', " key " || char(1))"
#define POSTGRES_ABOVE_ENDPOINT(key)                                                                                   \
    "CASE WHEN strpos(" key ", '/') > 0 THEN " POSTGRES_HELD_ENDPOINT(key) " || '0' ELSE " key " || chr(1) END"

#endif
