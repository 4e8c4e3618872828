/* utf8.h - texts from outside are not always what they say. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <postrider.h>

struct buf;

/* The first character of a text that is not empty: its length in bytes and its code point,
 * or -1 and the length of the piece that is to be replaced by one U+FFFD. */
size_t utf8_next(pr_slice text, int32_t *ret_codepoint);

/* What a terminal or a reader could be led astray by: C0 and C1, DEL, characters that turn the direction of writing,
 * separators of lines and paragraphs, the byte order mark. */
bool utf8_is_control(int32_t codepoint);

/* Well-formed: no overlong forms, no surrogates, nothing over U+10FFFF.  NUL is valid. */
bool utf8_valid(pr_slice text);

/* The beginning of text, never ending inside a character: at most max_chars characters (an
 * invalid piece counts as one), or at most max_bytes bytes. */
pr_slice utf8_cut(pr_slice text, size_t max_chars);
pr_slice utf8_cut_bytes(pr_slice text, size_t max_bytes);

/* Add text, with U+FFFD for what is invalid and for NUL. */
void utf8_clean(struct buf *b, pr_slice text);

#endif
