/* check.h - tests are sentences.
 *
 *     TEST(buf_refuses_what_is_over_its_limit)
 *     {
 *         CHECK_EQ(buf_failed(&b), PR_ETOOBIG);
 *     }
 *
 * A test registers itself; a test binary is its files and check.c.  Run it with words to
 * run only the tests whose name contains one of them.  The output is TAP.
 *
 * CHECKs jump out of the test (cmocka): use them on the test's own thread only.
 */
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include <postrider.h>

struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
};

void check_register(struct check_test *test);

_Noreturn void check_fail(const char *file, int line, const char *format, ...) PR_PRINTF(3, 4);
_Noreturn void check_skip(const char *file, int line, const char *why);
void check_eq(const char *file, int line, const char *a_text, const char *b_text, intmax_t a, intmax_t b);
void check_str(const char *file, int line, const char *a_text, const char *a, const char *b);
void check_slice(const char *file, int line, const char *a_text, pr_slice a, pr_slice b);
void check_ok(const char *file, int line, const char *text, int rc, const struct pr_error *error);

/* True when f(arg) ends the process by abort(): it is run in a child. */
bool check_aborts(void (*f)(void *arg), void *arg);

/* clang-format off */
#define TEST(test_name)                                                             \
    static void test_name(void);                                                    \
    __attribute__((constructor)) static void check_register_##test_name(void)       \
    {                                                                               \
        static struct check_test test = { #test_name, test_name, NULL };            \
        check_register(&test);                                                      \
    }                                                                               \
    static void test_name(void)
/* clang-format on */

#define CHECK(expression) ((expression) ? (void)0 : check_fail(__FILE__, __LINE__, "not true: %s", #expression))

/* Integers. */
#define CHECK_EQ(a, b) check_eq(__FILE__, __LINE__, #a, #b, (intmax_t)(a), (intmax_t)(b))

/* C strings, either may be NULL. */
#define CHECK_STR(a, b) check_str(__FILE__, __LINE__, #a, (a), (b))

/* A pr_slice, and a pr_slice or C string. */
#define CHECK_SLICE(a, b) check_slice(__FILE__, __LINE__, #a, (a), CHECK_AS_SLICE(b))

/* A result that must be PR_OK; error is a struct pr_error, whose text is shown, or NULL. */
#define CHECK_OK(rc, error) check_ok(__FILE__, __LINE__, #rc, (rc), (error))

#define SKIP(why) check_skip(__FILE__, __LINE__, (why))

pr_slice check_slice_from_cstr(const char *text);
pr_slice check_slice_from_slice(pr_slice slice);
#define CHECK_AS_SLICE(x) _Generic((x), pr_slice : check_slice_from_slice, default : check_slice_from_cstr)(x)

#endif
