/* What follows a failure, decided by your program: rules made in C, a function that a rule calls,
 * and an endpoint that is sent to in your own thread (mode: inline).
 *
 *     cc rules.c $(pkg-config --cflags --libs postrider) -pthread -o rules
 *     ./rules shop.db
 */
#include <postrider.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int calls, alarms, moves;

/* Refuses, fails for a moment, or takes it, by the message's type. */
static int on_payment(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)user;
    int call = ++calls;
    if (message->type.size == sizeof "payment.refused" - 1)
        return pr_fail(context, PR_REASON_REJECTED, "the bank says no");
    return call == 1 ? pr_fail(context, PR_REASON_TIMEOUT_EXCEEDED, "the bank is slow today") : PR_OK;
}

static int on_alarm(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)context;
    (void)user;
    printf("%.*s: %.*s\n", (int)message->type.size, message->type.data, (int)message->payload.size,
           message->payload.data);
    alarms++;
    return PR_OK;
}

/* Asked by the rule "bank says no".  A function that does not decide leaves it to the next step. */
static int on_refused(struct pr_context *context, const struct pr_failure *failure, void *user)
{
    (void)context; /* pr_decide() would decide, pr_effect_send() would send */
    (void)user;
    printf("failure %d: %.*s\n", failure->failures, (int)failure->error.size, failure->error.data);
    moves++;
    return PR_OK;
}

/* A moment's trouble is tried again at once; the function learns of a refusal, which is then buried with an alarm. */
static int add_rules(struct pr_engine *engine, struct pr_error *error)
{
    struct pr_rule *busy = pr_rule_new("bank is slow");
    pr_rule_when_class(busy, "transient");
    pr_rule_retry_now(busy, 3);
    pr_rule_retry(busy, (int64_t[]){ PR_SECONDS(5), PR_SECONDS(30) }, 2);
    pr_rule_dead_letter(busy, NULL);

    struct pr_rule *refused = pr_rule_new("bank says no");
    pr_rule_when_reason(refused, PR_REASON_REJECTED);
    pr_rule_call(refused, "refused");
    pr_rule_dead_letter(refused, NULL);
    pr_rule_raise(refused,
                  &(struct pr_raise){ .type = "alarm.payment", .to = "alarms", .payload = "{\"payment\":\"{id}\"}" });

    int rc = pr_engine_rule(engine, "bank", busy, error);
    return rc < 0 ? rc : pr_engine_rule(engine, NULL, refused, error); /* NULL: for every endpoint */
}

static int send_payment(struct pr_engine *engine, pr_slice type, enum pr_sent wanted, struct pr_error *error)
{
    static const char *const words[] = { [PR_SENT_STORED] = "stored",
                                         [PR_SENT_DELIVERED] = "delivered",
                                         [PR_SENT_DISCARDED] = "discarded",
                                         [PR_SENT_DEAD] = "dead" };
    struct pr_message m = { .type = type, .destination = PR_STR("bank"), .payload = PR_STR("{\"amount\":42}") };
    enum pr_sent sent;
    int rc = pr_engine_send(engine, NULL, &m, NULL, &sent, error);
    if (rc == PR_OK)
        printf("%.*s is %s\n", (int)type.size, type.data, words[sent]);
    return rc == PR_OK && sent != wanted ? PR_FAILED : rc;
}

int main(int argc, char **argv)
{
    struct pr_error error = { 0 };
    char config[8192];
    snprintf(config, sizeof config,
             "store: \"sqlite:%s\"\n"
             "endpoints:\n"
             "  bank: {url: \"handler:bank\", mode: inline}\n" /* pr_engine_send() returns when it is done */
             "  alarms: {url: \"handler:alarms\"}\n",
             argc > 1 ? argv[1] : "shop.db");

    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL || pr_engine_handle_named(engine, "bank", on_payment, NULL) < 0 ||
        pr_engine_handle_named(engine, "alarms", on_alarm, NULL) < 0 ||
        pr_engine_call(engine, "refused", on_refused, NULL) < 0 || add_rules(engine, &error) < 0 ||
        pr_engine_start(engine, &error) < 0 ||
        send_payment(engine, PR_STR("payment.wanted"), PR_SENT_DELIVERED, &error) != PR_OK ||
        send_payment(engine, PR_STR("payment.refused"), PR_SENT_DEAD, &error) != PR_OK ||
        pr_engine_drain(engine, PR_SECONDS(20), &error) != PR_OK) {
        fprintf(stderr, "rules: %s\n", error.text);
        pr_engine_free(engine);
        return 1;
    }
    pr_engine_stop(engine, PR_SECONDS(10));
    pr_engine_free(engine);
    return calls == 3 && moves == 1 && alarms == 1 ? 0 : 1;
}
