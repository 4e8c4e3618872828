/* Deliver inside your own program: messages go to C functions, with retries, order per stream
 * and dead letters, and what a handler sends is stored together with its success.
 *
 *     cc engine.c $(pkg-config --cflags --libs postrider) -pthread -o engine
 *     ./engine shop.db
 */
#include <postrider.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

static int on_order(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)user;
    printf("%.*s, attempt %d: %.*s\n", (int)message->type.size, message->type.data, message->attempts,
           (int)message->payload.size, message->payload.data);
    if (message->attempts == 1)
        return pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "the warehouse does not answer");

    /* Stored in the transaction that completes this message: exactly when it is done. */
    struct pr_message mail = { .type = PR_STR("mail.wanted"), .stream = message->stream, .payload = message->payload };
    pr_effect_send(context, &mail);
    return PR_OK;
}

static int on_mail(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)context;
    printf("%.*s: %.*s\n", (int)message->type.size, message->type.data, (int)message->payload.size,
           message->payload.data);
    sem_post(user); /* handlers run on threads of the engine */
    return PR_OK;
}

static int send_orders(const char *url, struct pr_error *error)
{
    struct pr_sender *sender;
    int rc = pr_sender_open(url, &sender, error);
    if (rc < 0)
        return rc;
    const struct pr_message orders[] = {
        { .type = PR_STR("order.placed"), .stream = PR_STR("order-1"), .payload = PR_STR("{\"order\":1}") },
        { .type = PR_STR("order.placed"), .stream = PR_STR("order-2"), .payload = PR_STR("{\"order\":2}") },
    };
    rc = pr_sender_send_many(sender, NULL, orders, 2, NULL, NULL, error);
    pr_sender_close(sender);
    return rc;
}

int main(int argc, char **argv)
{
    struct pr_error error = { 0 };
    struct pr_engine_counts counts;
    sem_t mails;
    struct timespec deadline;
    int received = 0;
    char url[4096], config[8192];
    sem_init(&mails, 0, 0);
    snprintf(url, sizeof url, "sqlite:%s", argc > 1 ? argv[1] : "shop.db");
    snprintf(config, sizeof config,
             "store: \"%s\"\n"
             "endpoints:\n"
             "  orders: {url: \"handler:order.*\", retry: [100ms, 1s]}\n", /* settings for the handler below */
             url);

    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL || pr_engine_handle(engine, "order.*", on_order, NULL) < 0 ||
        pr_engine_handle(engine, "mail.*", on_mail, &mails) < 0 || pr_engine_start(engine, &error) < 0 ||
        send_orders(url, &error) < 0) {
        fprintf(stderr, "engine: %s\n", error.text);
        pr_engine_free(engine);
        return 1;
    }

    /* A real program does its own work now; this one waits for both mails. */
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 20;
    while (received < 2 && sem_timedwait(&mails, &deadline) == 0)
        received++;
    if (pr_engine_drain(engine, PR_SECONDS(10), &error) < 0)
        fprintf(stderr, "drain: %s\n", error.text);
    pr_engine_stop(engine, PR_SECONDS(10));
    pr_engine_counts(engine, &counts);
    printf("sent %llu, failed attempts %llu\n", (unsigned long long)counts.sent, (unsigned long long)counts.failed);
    pr_engine_free(engine);
    sem_destroy(&mails);
    return received == 2 ? 0 : 1;
}
