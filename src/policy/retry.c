#include "policy/retry.h"

#include <math.h>

#include "base/error.h"
#include "base/time.h"
#include "base/util.h"

const struct retry_setting retry_default = {
    .base_us = PR_SECONDS(1),
    .factor = 2,
    .cap_us = PR_MINUTES(10),
    .failures = 8,
    .jitter = 0.1,
    .blame = BLAME_EVIDENCE,
    .give_up_us = PR_SECONDS(86400) * 3,
};

static int64_t cap_us(const struct retry_setting *s)
{
    return s->cap_us > 0 && s->cap_us < RETRY_DELAY_MAX_US ? s->cap_us : RETRY_DELAY_MAX_US;
}

/* base x factor^failures; in floating point, so that no count can overflow. */
static int64_t formula_us(const struct retry_setting *s, int failures)
{
    double delay = (double)s->base_us * pow(s->factor, failures);

    return delay < (double)cap_us(s) ? (int64_t)delay : cap_us(s);
}

/* Jitter lengthens a delay, but not beyond the cap of a formula. */
static int64_t jittered_us(const struct retry_setting *s, int64_t delay_us, double draw)
{
    int64_t longer_us = delay_us + (int64_t)((double)delay_us * s->jitter * draw);

    return s->delays != NULL ? longer_us : min64(longer_us, cap_us(s));
}

int64_t retry_delay_us(const struct retry_setting *setting, int failures, double draw)
{
    ASSERT(failures >= 1 && draw >= 0 && draw < 1);
    if (setting->delays != NULL ? (size_t)failures > setting->delay_count
                                : setting->failures > 0 && failures >= setting->failures)
        return -1;
    return retry_again_us(setting, failures, draw);
}

int64_t retry_again_us(const struct retry_setting *setting, int failures, double draw)
{
    if (setting->delays == NULL)
        return jittered_us(setting, formula_us(setting, failures), draw);
    if (setting->delay_count == 0)
        return 0;
    return jittered_us(setting, setting->delays[min_size((size_t)failures, setting->delay_count) - 1], draw);
}

int64_t retry_spent_us(const struct retry_setting *setting, int failures)
{
    int64_t spent_us = 0, before_us = -1;
    int listed = setting->delays != NULL ? (int)setting->delay_count : 0;

    for (int i = 1; i <= failures; i++) {
        int64_t delay_us = retry_again_us(setting, i, 0);

        if (i > listed && delay_us == before_us) /* all later ones are equal, too */
            return time_add(spent_us, time_mul(delay_us, failures - i + 1));
        spent_us = time_add(spent_us, delay_us);
        before_us = delay_us;
    }
    return spent_us;
}
