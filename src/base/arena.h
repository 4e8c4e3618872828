/* arena.h - memory that is freed all at once.
 *
 * One arena per cycle, turn or request.  Pointers are valid until reset or fini.  Not thread-safe. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <postrider.h>

#define ARENA_ALIGN 16
#define ARENA_BLOCK_MIN 256
#define ARENA_SPARE_MAX ((size_t)1 << 20) /* a cycle of a thousand messages of 512 bytes needs nearly this much */

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first; allocations come from the first */
    struct arena_block *spare;  /* blocks of block_size, kept for the next use */
    size_t block_size;
    size_t used;
    size_t reserved;
};

/* Allocates nothing yet.  Requests over block_size get a block of their own; a block_size below ARENA_BLOCK_MIN is
 * raised to it. */
void arena_init(struct arena *a, size_t block_size);
void arena_fini(struct arena *a);

/* Free all allocations.  Blocks of block_size are kept, up to ARENA_SPARE_MAX bytes (but always one block), so that a
 * steady cycle does not request the same pages from the system again and again. */
void arena_reset(struct arena *a);

/* Overwrite everything that was allocated, for arenas that hold secrets; call arena_fini() afterwards. */
void arena_wipe(struct arena *a);

/* Aligned to ARENA_ALIGN; NULL only when out of memory, also for size 0. */
void *arena_alloc(struct arena *a, size_t size);
void *arena_zalloc(struct arena *a, size_t size);                    /* zero-filled */
void *arena_alloc_array(struct arena *a, size_t count, size_t size); /* zero-filled, overflow-checked */
void *arena_dup(struct arena *a, const void *data, size_t size);

/* NUL-terminated; data is NULL when out of memory. */
pr_slice arena_printf(struct arena *a, const char *format, ...) PR_PRINTF(2, 3);

/* Bytes allocated since init or reset, rounded up to the alignment. */
size_t arena_used(const struct arena *a);
/* Bytes in all blocks, used or not: for callers that keep many small arenas. */
size_t arena_reserved(const struct arena *a);

#endif
