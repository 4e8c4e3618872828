/* Standard Webhooks: the signature of the specification's own example, invalid keys, and no leaks. */
#include <string.h>
#include <time.h>

#include "base/slice.h"
#include "check.h"
#include "transport/http/signature.h"
#include "transport/transport.h"

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

/* The values are those of the reference library for this message. */
TEST(a_signature_is_that_of_the_standard)
{
    static const char *const secrets[] = { SECRET, OTHER };
    struct signer s;
    struct pr_error error;
    struct buf text;

    buf_init(&text, 1000);
    CHECK_OK(signer_init(&s, "x", secrets, 1, &error), &error);
    CHECK_EQ(
        signer_sign(&s, PR_STR("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330, PR_STR("{\"test\": 2432232314}"), &text),
        PR_OK);
    CHECK_SLICE(buf_slice(&text), PR_STR("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    signer_fini(&s);

    buf_reset(&text);
    CHECK_OK(signer_init(&s, "x", secrets, 2, &error), &error);
    CHECK_EQ(
        signer_sign(&s, PR_STR("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330, PR_STR("{\"test\": 2432232314}"), &text),
        PR_OK);
    CHECK(slice_starts_with(buf_slice(&text), PR_STR("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,")));
    CHECK_EQ(text.size, 2 * 47 + 1);
    signer_fini(&s);
    buf_fini(&text);
}

TEST(a_secret_that_is_none_is_refused_and_not_told) /* B204 */
{
    static const char *const bad[] = { "", "whsec_", "whsec_c2hvcnQ=", "hunter2-hunter2-hunter2-hunter2!",
                                       "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct endpoint_config config = {
            .name = "billing", .url = "https://example.org/", .sign = &bad[i], .sign_count = 1
        };
        struct pr_error error;
        CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
        CHECK(strstr(error.text, "endpoint billing: sign: a secret is whsec_ and 24 to 64 bytes in base64") != NULL);
        CHECK(strlen(bad[i]) < 10 || strstr(error.text, bad[i]) == NULL);
    }
}

TEST(only_webhooks_are_signed)
{
    static const char *const secrets[] = { SECRET };
    struct endpoint_config config = { .name = "x", .url = "null:", .sign = secrets, .sign_count = 1 };
    struct pr_error error;
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    CHECK_STR(error.text, "endpoint x: sign needs http or https");
    config = (struct endpoint_config){ .name = "x", .url = "null:", .cert = "/dev/null" };
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    CHECK_STR(error.text, "endpoint x: ca, cert and key need TLS, which null: does not have");
}

static double cpu_seconds(void)
{
    struct timespec t;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds_of(const struct signer *s, pr_slice body, pr_slice header)
{
    double begin = cpu_seconds();
    CHECK_EQ(signer_verify(s, PR_STR("1"), PR_STR("1614265330"), body, header, PR_SECONDS(1614265330), PR_SECONDS(60)),
             SIGNATURE_WRONG);
    return cpu_seconds() - begin;
}

/* The signature is what says who it is: until then a body is a stranger's. */
TEST(many_signatures_beside_a_large_body_cost_as_much_as_one) /* B206 */
{
    static const char *const secrets[] = { SECRET, OTHER };
    static char body[2000000];
    struct signer s;
    struct pr_error error;
    struct buf many;

    buf_init(&many, 10000);
    for (int i = 0; i < 64; i++)
        buf_add_cstr(&many, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= ");
    CHECK_OK(signer_init(&s, "x", secrets, 2, &error), &error);
    double one = 0, all = 0;
    for (int i = 0; i < 5; i++) { /* in turns, as the processor's speed is not the same all the time */
        one +=
            seconds_of(&s, (pr_slice){ body, sizeof(body) }, PR_STR("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
        all += seconds_of(&s, (pr_slice){ body, sizeof(body) }, buf_slice(&many));
    }
    if (all > 4 * one)
        check_fail(__FILE__, __LINE__, "one signature: %.4f s, many: %.4f s", one, all);
    signer_fini(&s);
    buf_fini(&many);
}
