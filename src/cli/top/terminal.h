/* terminal.h - full control of a terminal: raw keys in, pictures out.
 *
 * The terminal is always restored: at close, when the program is stopped or ended by a signal, and when it crashes.
 * There is one at a time. */
#ifndef CLI_TOP_TERMINAL_H
#define CLI_TOP_TERMINAL_H

#include "cli/top/screen.h"

/* Takes stdin and stdout, which must be a terminal.  Fault PR_EIO. */
PR_MUST_CHECK int terminal_open(bool color, struct pr_error *reterr);
void terminal_close(void); /* safe when it is not open, and when called twice */
/* Ctrl-Z: restores the terminal, stops, and takes control again when the program continues. */
void terminal_stop(void);

/* For a thread that blocks signals: its crash must restore the terminal, too. */
void terminal_watch_thread(void);

/* Size changes, SIGTERM and the like: readable when poll() says so. */
int terminal_signals(void);
/* 0: none; SIGWINCH: the size has changed; others: end. */
int terminal_next_signal(void);

void terminal_size(size_t *ret_width, size_t *ret_height);
/* The next key, or KEY_NONE: none right now.  Waits only for the rest of a sequence.  Fault PR_EIO: the terminal is
 * gone. */
PR_MUST_CHECK int terminal_key(int32_t *ret_key);

void terminal_show(const struct screen *s); /* draws the difference to the last picture */

#endif
