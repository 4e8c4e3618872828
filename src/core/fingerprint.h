/* Failures with the same cause have the same fingerprint: endpoint, type, reason and the error text without its
 * numbers, ids, quoted parts and addresses. */
#ifndef CORE_FINGERPRINT_H
#define CORE_FINGERPRINT_H

#include <stdbool.h>

#include <postrider.h>

#define FINGERPRINT_SIZE 17 /* 16 hex digits and the NUL */

void fingerprint(pr_slice endpoint, pr_slice type, int reason, pr_slice error, char ret[FINGERPRINT_SIZE]);
/* Does the text have the format that fingerprint() writes? */
bool fingerprint_is_valid(pr_slice text);

#endif
