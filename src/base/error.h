/* error.h - the text of a fault, and assertions that remain in release builds.
 *
 * A fault is a negative code that is passed up unchanged; its text is written once, where the fault happened.
 * Invariants are asserted in release builds, too: when a process stops, another one takes over its leases; a process
 * that continues with broken state cannot be repaired. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <postrider.h>

/* Write code and text to reterr: one line of UTF-8 whatever the arguments are, cut at a character boundary when too
 * long. reterr may be NULL, and its own text may be an argument.  Returns code, for "return error_set(...)". */
int error_set(struct pr_error *reterr, int code, const char *format, ...) PR_PRINTF(3, 4);

/* The static analyser sees one file at a time: this shows it that error_set() returns code. */
#ifdef __clang_analyzer__
#define error_set(reterr, code, ...) ((void)error_set(reterr, code, __VA_ARGS__), (code))
#endif

/* Set reterr to "no fault". */
void error_clear(struct pr_error *reterr);

/* Prints to stderr and aborts. */
_Noreturn void error_assert_failed(const char *file, int line, const char *expression);

#define ASSERT(expression) ((expression) ? (void)0 : error_assert_failed(__FILE__, __LINE__, #expression))

#endif
