#include "core/ask.h"

#include <string.h>

#include "base/slice.h"

bool ask_takes(pr_slice types, pr_slice type)
{
    bool takes = types.size == 0;

    while (types.size > 0 && !takes) {
        const char *end = memchr(types.data, '\n', types.size);
        size_t size = end != NULL ? (size_t)(end - types.data) : types.size;
        takes = slice_glob((pr_slice){ types.data, size }, type);
        size += end != NULL;
        types = (pr_slice){ types.data + size, types.size - size };
    }
    return takes;
}
