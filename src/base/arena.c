#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"

struct arena_block {
    struct arena_block *next;
    size_t size; /* of data */
    size_t used;
    _Alignas(ARENA_ALIGN) char data[];
};

void arena_init(struct arena *a, size_t block_size)
{
    *a = (struct arena){ .block_size = max_size(block_size, ARENA_BLOCK_MIN) };
}

static void arena_free_blocks(struct arena_block *block)
{
    while (block != NULL) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
}

void arena_fini(struct arena *a)
{
    arena_free_blocks(a->blocks);
    arena_free_blocks(a->spare);
    a->blocks = a->spare = NULL;
    a->used = a->reserved = 0;
}

void arena_wipe(struct arena *a)
{
    for (struct arena_block *block = a->blocks; block != NULL; block = block->next)
        explicit_bzero(block->data, block->used);
}

/* Keep blocks, since the next turn needs about as much as this one; but at most ARENA_SPARE_MAX bytes, so that one huge
 * request does not hold its memory forever. */
void arena_reset(struct arena *a)
{
    size_t kept = 0;
    for (struct arena_block *block = a->spare; block != NULL; block = block->next)
        kept += block->size;
    while (a->blocks != NULL) {
        struct arena_block *block = a->blocks;
        a->blocks = block->next;
        if (block->size == a->block_size && (kept == 0 || kept + block->size <= ARENA_SPARE_MAX)) {
            kept += block->size;
            block->used = 0;
            block->next = a->spare;
            a->spare = block;
        } else {
            a->reserved -= sizeof(*block) + block->size;
            free(block);
        }
    }
    a->used = 0;
}

static struct arena_block *arena_block_new(size_t size)
{
    if (size > SIZE_MAX - sizeof(struct arena_block))
        return NULL;
    struct arena_block *block = malloc(sizeof(struct arena_block) + size);
    if (block == NULL)
        return NULL;
    block->next = NULL;
    block->size = size;
    block->used = 0;
    return block;
}

/* Find or add a block with room for size bytes.  A block for a large request goes behind the current block, which may
 * still have room for small requests. */
static struct arena_block *arena_find_room(struct arena *a, size_t size)
{
    struct arena_block *current = a->blocks;
    if (current != NULL && current->size - current->used >= size)
        return current;

    struct arena_block *block = size <= a->block_size ? a->spare : NULL;
    if (block != NULL) {
        a->spare = block->next;
    } else {
        block = arena_block_new(max_size(size, a->block_size));
        if (block == NULL)
            return NULL;
        a->reserved += sizeof(*block) + block->size;
    }
    if (size > a->block_size && current != NULL) {
        block->next = current->next;
        current->next = block;
    } else {
        block->next = current;
        a->blocks = block;
    }
    return block;
}

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX - ARENA_ALIGN)
        return NULL;
    size = (max_size(size, 1) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);

    struct arena_block *block = arena_find_room(a, size);
    if (block == NULL)
        return NULL;
    void *result = block->data + block->used;
    block->used += size;
    a->used += size;
    ASSERT(block->used <= block->size);
    return result;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    void *result = arena_alloc(a, size);
    if (result != NULL)
        memset(result, 0, size);
    return result;
}

void *arena_alloc_array(struct arena *a, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    return arena_zalloc(a, total);
}

void *arena_dup(struct arena *a, const void *data, size_t size)
{
    void *result = arena_alloc(a, size);
    if (result != NULL && size > 0)
        memcpy(result, data, size);
    return result;
}

pr_slice arena_printf(struct arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);

    char *text = size < 0 ? NULL : arena_alloc(a, (size_t)size + 1);
    if (text != NULL)
        vsnprintf(text, (size_t)size + 1, format, again);
    va_end(again);
    return text == NULL ? (pr_slice){ NULL, 0 } : (pr_slice){ text, (size_t)size };
}

size_t arena_used(const struct arena *a)
{
    return a->used;
}

size_t arena_reserved(const struct arena *a)
{
    return a->reserved;
}
