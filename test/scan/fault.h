/* Allocations that fail: the binary is linked with --wrap for malloc and its family. */
#ifndef TEST_SCAN_FAULT_H
#define TEST_SCAN_FAULT_H

/* The n-th allocation from now on fails, once; 0: none does. */
void fault_after(long nth);
long fault_left(void); /* how many come before the one that fails, and that one; 0: it has, or none does */

#endif
