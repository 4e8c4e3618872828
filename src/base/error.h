/* error.h - the text of a fault, and assertions that stay.
 *
 * A fault is a negative code that travels up unchanged; its text is written once, where
 * it happened.  What must be true is asserted, in release builds, too: a process that
 * stops is repaired by its leases, a process that goes on with broken state is not.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <postrider.h>

/* Write code and text, one line, UTF-8 whatever the arguments are, cut at a character boundary when too long; reterr may
 * be NULL, and its own text may be an argument.  Returns code, for "return error_set(...)". */
int error_set(struct pr_error *reterr, int code, const char *format, ...) PR_PRINTF(3, 4);

/* A static analyser that sees one file at a time has to be told. */
#ifdef __clang_analyzer__
#define error_set(reterr, code, ...) ((void)error_set(reterr, code, __VA_ARGS__), (code))
#endif

/* No fault. */
void error_clear(struct pr_error *reterr);

/* Prints to stderr and aborts. */
_Noreturn void error_assert_failed(const char *file, int line, const char *expression);

#define ASSERT(expression) ((expression) ? (void)0 : error_assert_failed(__FILE__, __LINE__, #expression))

#endif
