/* member.h - the members of JSON objects: one table for each struct, for writing and for reading.
 *
 * A table writes the object for --json and for the API, and reads it for --url.  A member that is missing, or of
 * another type, is read as null: a newer daemon may send more, and an older one less.  Values that a table cannot
 * express (an age, a state by the clock) are first computed into a struct, and the struct has the table. */
#ifndef OPS_MEMBER_H
#define OPS_MEMBER_H

#include "base/json.h"
#include "store/store.h"

#include <jansson.h>

enum member_kind {
    MEMBER_TEXT,    /* pr_slice; null: empty */
    MEMBER_STRING,  /* pr_slice; never null */
    MEMBER_CSTR,    /* const char *; null: NULL */
    MEMBER_BYTES,   /* pr_slice; null: empty; bytes that are not text become KEY_base64 */
    MEMBER_OBJECT,  /* pr_slice: JSON, as stored */
    MEMBER_FAILURE, /* the same; null: empty */
    MEMBER_ID,      /* pr_id; null: zero */
    MEMBER_TIME,    /* int64_t; null: 0 (and PR_NEVER, when written) */
    MEMBER_UNTIL,   /* int64_t; null: PR_NEVER (and 0, when written) */
    MEMBER_SPAN,    /* int64_t; seconds */
    MEMBER_BOOL,    /* bool */
    MEMBER_EXACT,   /* bool; missing: true */
    MEMBER_INT,     /* int */
    MEMBER_NUMBER,  /* int64_t */
    MEMBER_COUNT,   /* uint64_t */
    MEMBER_SOME,    /* the same; null: 0 */
    MEMBER_DOUBLE,  /* double */
    MEMBER_BOUNDED, /* uint64_t up to COUNT_EXACT_MAX; KEY_exact is false if there are more */
    MEMBER_WORD,    /* int or an enum, by the names of `words` */
};

/* The names of an enum; null: NULL.  An unknown name is parsed as the value without a name, if there is one. */
struct member_words {
    const char *(*name)(int value);
    int (*parse)(pr_slice name); /* NULL: the one of these that has this name, or the first */
    int first, last;
};

struct member {
    const char *key;
    enum member_kind kind;
    size_t offset;
    bool optional; /* omitted instead of null, 0 or false */
    const struct member_words *words;
};

/* Entries of a table; each brings its comma, so that a table can include a list of columns. */
#define MEMBER(type, name, what, place) { .key = name, .kind = MEMBER_##what, .offset = offsetof(struct type, place) },
#define MEMBER_IF(type, name, what, place)                                                                             \
    { .key = name, .kind = MEMBER_##what, .offset = offsetof(struct type, place), .optional = true },
#define MEMBER_NAME(type, name, names, place)                                                                          \
    { .key = name, .kind = MEMBER_WORD, .offset = offsetof(struct type, place), .words = &(names) },

struct members {
    const struct member *list;
    size_t count;
};
#define MEMBERS(table)                                                                                                 \
    {                                                                                                                  \
        (table), ARRAY_LENGTH(table)                                                                                   \
    }

extern const struct member_words words_of_reasons; /* enum pr_reason */
extern const struct member_words words_of_states;  /* enum state; unknown: STATE_GONE */
extern const struct member_words words_of_ended;   /* enum ended_as */

/* The members of row, a struct of that table, into an open object. */
void members_write(struct json_writer *w, const struct members *members, const void *row);
/* The same as a whole object. */
void members_object(struct json_writer *w, const struct members *members, const void *row);
/* "KEY":[{...},...] into an open object. */
void members_list(struct json_writer *w, const char *key, const struct members *members, const void *rows,
                  size_t row_size, size_t count);
/* Into row, which must be zero.  Texts go into the arena; NULL, or anything but an object, has no members. */
void members_read(const json_t *object, const struct members *members, struct arena *arena, void *row);

/* Single members, for objects that are composed by hand; null: empty, 0, PR_NEVER. */
void member_text(struct json_writer *w, const char *key, pr_slice value);
void member_time(struct json_writer *w, const char *key, int64_t us);
/* A count of the store, and whether it is exact ("KEY_exact") or a lower bound. */
void member_count(struct json_writer *w, const char *key, uint64_t count);

/* For a table for people: a member as a cell, and is it aligned to the left? */
pr_slice member_cell(const struct member *member, const void *row, struct arena *arena);
bool member_is_text(const struct member *member);

#endif
