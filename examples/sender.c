/* Send by a connection of Postrider's own, from many threads: what they send at the same time
 * is committed together.
 *
 *     cc sender.c $(pkg-config --cflags --libs postrider) -pthread -o sender
 *     ./sender shop.db
 */
#include <postrider.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define EACH 25

static void *send_some(void *arg)
{
    struct pr_sender *sender = arg;
    for (int i = 0; i < EACH; i++) {
        struct pr_error error;
        struct pr_message message = { .type = PR_STR("page.viewed"), .payload = PR_STR("{\"page\":\"/\"}") };
        if (pr_sender_send(sender, NULL, &message, NULL, &error) < 0) {
            fprintf(stderr, "send: %s\n", error.text);
            return arg; /* anything but NULL */
        }
        /* It is committed now. */
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct pr_error error;
    struct pr_sender *sender;
    char url[4096];
    snprintf(url, sizeof url, "sqlite:%s", argc > 1 ? argv[1] : "shop.db");
    if (pr_store_init(url, &error) < 0 || pr_sender_open(url, &sender, &error) < 0) {
        fprintf(stderr, "open: %s\n", error.text);
        return 1;
    }

    pthread_t threads[THREADS];
    int started = 0, failed = 0;
    while (started < THREADS && pthread_create(&threads[started], NULL, send_some, sender) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed += result != NULL;
    }
    pr_sender_close(sender);
    printf("%d threads sent %d messages each\n", started - failed, EACH);
    return started == THREADS && failed == 0 ? 0 : 1;
}
