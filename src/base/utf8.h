/* utf8.h - validation and repair of text from outside. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <postrider.h>

struct buf;

/* Decode the first character of a non-empty text: returns its length in bytes and sets its code point, or -1 and the
 * length of an invalid piece, to be replaced by one U+FFFD. */
size_t utf8_next(pr_slice text, int32_t *ret_codepoint);

/* Characters that could mislead a terminal or a reader: C0 and C1 controls, DEL, characters that change the direction
 * of writing, line and paragraph separators, the byte order mark. */
bool utf8_is_control(int32_t codepoint);

/* Well-formed: no overlong forms, no surrogates, nothing over U+10FFFF.  NUL is valid. */
bool utf8_valid(pr_slice text);

/* The beginning of text, cut at a character boundary: at most max_chars characters (an invalid piece counts as one), or
 * at most max_bytes bytes. */
pr_slice utf8_cut(pr_slice text, size_t max_chars);
pr_slice utf8_cut_bytes(pr_slice text, size_t max_bytes);

/* Add text, with U+FFFD in place of NUL and of everything invalid. */
void utf8_clean(struct buf *b, pr_slice text);

#endif
