/* arena.h - memory that is given back all at once.
 *
 * One per cycle, turn or request.  Pointers are valid until reset or fini.
 * Not thread-safe.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <postrider.h>

#define ARENA_ALIGN 16
#define ARENA_BLOCK_MIN 256
#define ARENA_SPARE_MAX ((size_t)1 << 20) /* a cycle of a thousand messages of 512 bytes needs nearly as much */

struct arena_block;

struct arena {
    struct arena_block *blocks; /* the newest first; allocations come from it */
    struct arena_block *spare;  /* of the ordinary size, for the next turn */
    size_t block_size;
    size_t used;
    size_t reserved;
};

/* Takes no memory yet.  Requests over block_size get a block of their own; a block_size
 * under ARENA_BLOCK_MIN is raised to it. */
void arena_init(struct arena *a, size_t block_size);
void arena_fini(struct arena *a);

/* Forget everything; ordinary blocks are kept, ARENA_SPARE_MAX bytes at most, so that a steady cycle does not get the
 * same pages from the system again and again. */
void arena_reset(struct arena *a);

/* Overwrite what was handed out, for those that hold secrets; follow it with arena_fini(). */
void arena_wipe(struct arena *a);

/* Aligned to ARENA_ALIGN, never NULL except when there is no memory (size 0, too). */
void *arena_alloc(struct arena *a, size_t size);
void *arena_zalloc(struct arena *a, size_t size);                    /* zero-filled */
void *arena_alloc_array(struct arena *a, size_t count, size_t size); /* zero-filled, overflow-checked */
void *arena_dup(struct arena *a, const void *data, size_t size);

/* With a NUL behind it; data is NULL when there is no memory. */
pr_slice arena_printf(struct arena *a, const char *format, ...) PR_PRINTF(2, 3);

/* Bytes handed out since init or reset, rounded up to the alignment. */
size_t arena_used(const struct arena *a);
/* Bytes that its blocks take, used or not: for whoever keeps many small ones. */
size_t arena_reserved(const struct arena *a);

#endif
