/* postrider-peer URL EXPECTED: Postrider's side of ./dev bench peers.
 *
 * An embedded engine with a handler, like worker.mjs for the other products, with the same output: "ready", "done" and
 * the monotonic time when EXPECTED messages were handled; after SIGTERM, as JSON, when each numbered message came.
 * With "init" instead of a number it creates the tables and exits. */
#include <postrider.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NUMBERED_MAX 100000

static double times[NUMBERED_MAX];
static atomic_ullong handled;
static unsigned long long expected;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The number of {"n":7,...}; -1: it has none. */
static long number_of(pr_slice payload)
{
    char text[32];
    if (payload.size < 6 || memcmp(payload.data, "{\"n\":", 5) != 0)
        return -1;
    size_t size = payload.size - 5 < sizeof text - 1 ? payload.size - 5 : sizeof text - 1;
    memcpy(text, payload.data + 5, size);
    text[size] = '\0';
    return strtol(text, NULL, 10);
}

static int handle(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)user;
    double at = now();
    if (message->type.size == 3 && memcmp(message->type.data, "bad", 3) == 0)
        return pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "this one always fails");
    long n = number_of(message->payload);
    if (n >= 0 && n < NUMBERED_MAX && times[n] == 0)
        times[n] = at;
    if (atomic_fetch_add(&handled, 1) + 1 == expected) {
        printf("done %.6f\n", at);
        fflush(stdout);
    }
    return PR_OK;
}

static void print_times(void)
{
    const char *separator = "";
    printf("{\"handled\":%llu,\"times\":{", (unsigned long long)atomic_load(&handled));
    for (size_t i = 0; i < NUMBERED_MAX; i++) {
        if (times[i] == 0)
            continue;
        printf("%s\"%zu\":%.6f", separator, i, times[i]);
        separator = ",";
    }
    puts("}}");
}

int main(int argc, char **argv)
{
    char config[2048];
    struct pr_error error;
    sigset_t signals;
    int signal;

    if (argc != 3) {
        fputs("usage: postrider-peer URL EXPECTED|init\n", stderr);
        return 2;
    }
    if (strcmp(argv[2], "init") == 0) {
        int rc = pr_store_init(argv[1], &error);
        if (rc != PR_OK)
            fprintf(stderr, "postrider-peer: %s\n", error.text);
        return rc != PR_OK;
    }
    expected = strtoull(argv[2], NULL, 10);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    /* Failed heads wait for an hour, as with the others. */
    snprintf(config, sizeof config,
             "store: \"%s\"\nendpoints: {here: {url: \"handler:here\", retry: [1h, 1h, 1h], breaker: off}}\n"
             "routes: [{to: here}]\nlog: {level: error}\n",
             argv[1]);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL || pr_engine_handle_named(engine, "here", handle, NULL) < 0 ||
        pr_engine_start(engine, &error) < 0) {
        fprintf(stderr, "postrider-peer: %s\n", error.text);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    sigwait(&signals, &signal);
    pr_engine_stop(engine, PR_SECONDS(5));
    pr_engine_free(engine);
    print_times();
    return 0;
}
