/* Do the work yourself, one cycle at a time: verdicts in, claimed messages out, in one
 * transaction.  Streams, retries, poison and leases are Postrider's.
 *
 *     cc worker.c $(pkg-config --cflags --libs postrider) -o worker
 *     ./worker shop.db
 */
#include <postrider.h>
#include <stdio.h>

#define BATCH 16

static int send_jobs(const char *url, struct pr_error *error)
{
    const struct pr_message jobs[] = {
        { .type = PR_STR("image.resize"), .stream = PR_STR("cat"), .payload = PR_STR("{\"width\":100}") },
        { .type = PR_STR("image.resize"), .stream = PR_STR("cat"), .payload = PR_STR("{\"width\":200}") },
        { .type = PR_STR("image.resize"), .stream = PR_STR("dog"), .payload = PR_STR("no json") },
    };
    struct pr_sender *sender;
    int rc = pr_store_init(url, error);
    if (rc == PR_OK)
        rc = pr_sender_open(url, &sender, error);
    if (rc < 0)
        return rc;
    rc = pr_sender_send_many(sender, "inbox", jobs, 3, NULL, NULL, error);
    pr_sender_close(sender);
    return rc;
}

/* The work: what became of one message. */
static struct pr_verdict work(const struct pr_claimed *claimed)
{
    const struct pr_message *m = claimed->message;
    printf("%.*s %.*s, attempt %d\n", (int)m->stream.size, m->stream.data, (int)m->payload.size, m->payload.data,
           claimed->attempt);
    if (m->payload.data[0] != '{')
        return (struct pr_verdict){ .claim = claimed->claim,
                                    .kind = PR_VERDICT_DEAD_LETTER,
                                    .reason = PR_REASON_SERIALIZATION_ERROR,
                                    .error = PR_STR("the payload is not JSON") };
    return (struct pr_verdict){ .claim = claimed->claim, .kind = PR_VERDICT_COMPLETE, .status = PR_STATUS_HANDLED };
}

int main(int argc, char **argv)
{
    struct pr_error error;
    struct pr_worker *worker;
    char url[4096];
    snprintf(url, sizeof url, "sqlite:%s", argc > 1 ? argv[1] : "shop.db");
    const struct pr_worker_options options = { .store_url = url, .box = "inbox", .name = "resizer" };
    if (send_jobs(url, &error) < 0 || pr_worker_open(&options, &worker, &error) < 0) {
        fprintf(stderr, "worker: %s\n", error.text);
        return 1;
    }

    struct pr_verdict verdicts[BATCH];
    struct pr_claimed claimed[BATCH];
    int answers[BATCH];
    size_t verdict_count = 0, count, done = 0;
    for (int quiet = 0; quiet < 5;) {
        int rc = pr_worker_cycle(worker, verdicts, verdict_count, answers, claimed, BATCH, &count, &error);
        if (rc == PR_ELEASE || rc == PR_EBUSY) { /* not ours any more: drop it; or later, with the same verdicts */
            verdict_count = rc == PR_ELEASE ? 0 : verdict_count;
            continue;
        }
        if (rc < 0) {
            fprintf(stderr, "cycle: %s\n", error.text);
            break;
        }
        for (size_t i = 0; i < verdict_count; i++)
            done += answers[i] == PR_OK; /* anything else: somebody was faster, nothing changed */
        for (size_t i = 0; i < count; i++)
            verdicts[i] = work(&claimed[i]);
        verdict_count = count;
        if (count > 0)
            continue;
        quiet++; /* a real worker goes on forever */
        pr_worker_wait(worker, PR_MILLISECONDS(100));
    }
    pr_worker_close(worker); /* hands back what it still holds, uncounted */
    printf("%zu messages done\n", done);
    return done == 3 ? 0 : 1;
}
