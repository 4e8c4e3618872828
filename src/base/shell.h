/* shell.h - texts of others in commands that a person may copy into a shell. */
#ifndef BASE_SHELL_H
#define BASE_SHELL_H

#include "base/arena.h"

/* One word of a POSIX shell, whatever is in it: as it is when that is harmless, 'quoted' when it can be read, and
 * $'with \x1b' where it has characters that cannot be seen or that turn the direction of writing.  Empty is ''. */
const char *shell_quote(struct arena *arena, pr_slice text);
/* The same as an argument that is no option: behind "-- " when it begins with a dash. */
const char *shell_argument(struct arena *arena, pr_slice text);

#endif
