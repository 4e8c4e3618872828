#include "policy/retry.h"

#include <math.h>

#include "base/error.h"

const struct retry_setting retry_default = {
    .base_us = PR_SECONDS(1),
    .factor = 2,
    .cap_us = PR_SECONDS(300),
    .failures = 5,
    .jitter = 0.1,
};

/* base x factor^failures; in floating point, so that no count can overflow. */
static int64_t formula_us(const struct retry_setting *s, int failures)
{
    int64_t cap = s->cap_us > 0 && s->cap_us < RETRY_DELAY_MAX_US ? s->cap_us : RETRY_DELAY_MAX_US;
    double delay = (double)s->base_us * pow(s->factor, failures);

    return delay < (double)cap ? (int64_t)delay : cap;
}

int64_t retry_delay_us(const struct retry_setting *setting, int failures, double draw)
{
    int64_t delay;

    ASSERT(failures >= 1 && draw >= 0 && draw < 1);
    if (setting->delays != NULL) {
        if ((size_t)failures > setting->delay_count)
            return -1;
        delay = setting->delays[failures - 1];
    } else {
        if (setting->failures > 0 && failures >= setting->failures)
            return -1;
        delay = formula_us(setting, failures);
    }
    return delay + (int64_t)((double)delay * setting->jitter * draw);
}
