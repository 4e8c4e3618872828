/* place.h - a store of a test's own: a directory with an SQLite file in it. */
#ifndef TEST_LIB_PLACE_H
#define TEST_LIB_PLACE_H

#include <postrider.h>
#include <sqlite3.h>

#include "check.h"

struct place {
    char dir[64];
    char path[96]; /* the database */
    char url[128]; /* sqlite:... */
};

void place_init(struct place *p);       /* with tables */
void place_init_empty(struct place *p); /* only the directory */
void place_fini(struct place *p);

sqlite3 *place_open(const struct place *p); /* the caller's own connection */
void place_do(const struct place *p, const char *sql);
int64_t place_int(const struct place *p, const char *sql); /* the first column of the first row */

/* Store messages of one type and stream, payloads "1" .. "count". */
void place_send(const struct place *p, const char *box, const char *type, const char *stream, int count);
/* The same by a sender that is open: opening one costs more than a hundred messages. */
void sender_send(struct pr_sender *sender, const char *box, const char *type, const char *stream, int count);

/* Wait until the query gives the number; the test fails after 20 s. */
void place_wait(const struct place *p, const char *sql, int64_t wanted);

int64_t test_now_us(void); /* a steady clock */
void test_pause(void);     /* a moment, inside loops that wait with a deadline */

#endif
