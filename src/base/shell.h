/* shell.h - foreign text in commands that a person may copy into a shell. */
#ifndef BASE_SHELL_H
#define BASE_SHELL_H

#include "base/arena.h"

/* Any text as one word of a POSIX shell: unchanged when harmless, 'quoted' when readable, and $'with \033' when it has
 * invisible characters or characters that change the direction of writing.  The empty text becomes ''. */
const char *shell_quote(struct arena *arena, pr_slice text);
/* The same, as an argument that cannot be taken for an option: preceded by "-- " when it begins with a dash. */
const char *shell_argument(struct arena *arena, pr_slice text);

#endif
