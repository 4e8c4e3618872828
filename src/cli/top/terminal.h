/* terminal.h - a terminal that is ours for a while: raw keys in, pictures out.
 *
 * Whatever happens it is given back as it was: at close, when the program is stopped or ended by a signal,
 * and when it crashes.  There is one at a time. */
#ifndef CLI_TOP_TERMINAL_H
#define CLI_TOP_TERMINAL_H

#include "cli/top/screen.h"

/* Takes stdin and stdout, which must be a terminal.  Fault PR_EIO. */
PR_MUST_CHECK int terminal_open(bool color, struct pr_error *reterr);
void terminal_close(void); /* safe when it is not open, and twice */
/* Ctrl-Z: gives it back, stops, and takes it again when the program goes on. */
void terminal_stop(void);

/* For a thread that blocks signals: its crash must give the terminal back, too. */
void terminal_watch_thread(void);

/* Changes size, SIGTERM and the like: read() it when poll() says so. */
int terminal_signals(void);
/* 0: none; SIGWINCH: the size has changed; otherwise end. */
int terminal_next_signal(void);

void terminal_size(size_t *ret_width, size_t *ret_height);
/* The next key, or KEY_NONE: there is none right now.  Does not wait, but for the rest of a sequence.
 * Fault PR_EIO: the terminal is gone. */
PR_MUST_CHECK int terminal_key(int32_t *ret_key);

void terminal_show(const struct screen *s); /* what is different from last time is drawn */

#endif
