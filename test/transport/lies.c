#include "lies.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/reason.h"
#include "transport/transport.h"
#include "world.h"

#define MEMORY_MAX_KB (24 * 1024) /* more than any transport keeps, less than a second of a flood */
#define AT_ONCE_US PR_SECONDS(4)
#define SLOW_US PR_SECONDS(9) /* longer than a greeting may take: what greets without end fails by that */

/* The most memory that was in use since this was last called, in KB. */
static long memory_peak(void)
{
    char line[256];
    long peak = 0;
    FILE *status = fopen("/proc/self/status", "re");
    CHECK(status != NULL);
    while (fgets(line, sizeof(line), status) != NULL)
        if (sscanf(line, "VmHWM: %ld", &peak) == 1)
            break;
    fclose(status);
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        CHECK(write(fd, "5", 1) == 1);
        close(fd);
    }
    return peak;
}

static void harness_nothing(struct world *w)
{
    (void)w;
}

static void harness_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    (void)m;
    (void)wish;
}

static const struct harness harness_liar = {
    .name = "liar", .start = harness_nothing, .stop = harness_nothing, .make = harness_make
};

static const struct network loopback = { .address = { 127 }, .prefix = 8 };
static struct world w;

static void check_lie(const struct lie *lie)
{
    int64_t begin_us = world_now();
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    if (lie->is_slow)
        w.deliveries[i].deadline_us = begin_us + SLOW_US;
    world_run(&w);
    const struct delivery_result *r = &w.results[i];
    CHECK(r->outcome == SEND_FAILED || r->outcome == SEND_UNKNOWN);
    if (!lie->is_slow || r->reason != PR_REASON_TIMEOUT_EXCEEDED)
        CHECK_EQ(r->reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK(lie->is_slow || world_now() - begin_us < AT_ONCE_US);
    CHECK_STR(strstr(r->error, lie->text) != NULL ? lie->text : r->error, lie->text);
}

void lies_are_survived(const char *format, const struct lie *lies, size_t count)
{
    char url[256];
    for (size_t n = 0; n < count; n++) {
        size_t steps = 0;
        while (steps < LIE_STEPS_MAX && lies[n].steps[steps].bytes != NULL)
            steps++;
        if (getenv("LIES_ALOUD") != NULL)
            fprintf(stderr, "# %s\n", lies[n].about);
        struct liar *liar = liar_start(lies[n].steps, steps, lies[n].stays);
        snprintf(url, sizeof(url), format, liar_port(liar));
        world_prepare(&w, &harness_liar, 0);
        w.config.url = url;
        w.config.allow_networks = &loopback; /* http asks for it */
        w.config.allow_network_count = 1;
        world_open(&w);
        long before = memory_peak();
        before = memory_peak();
        check_lie(&lies[n]);
        if (!lies[n].is_slow)
            check_lie(&lies[n]); /* and it goes on */
        CHECK(memory_peak() - before < MEMORY_MAX_KB);
        world_fini(&w);
        liar_stop(liar);
    }
}
