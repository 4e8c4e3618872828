/* A Kafka cluster for tests: librdkafka's mock brokers in a process of their own.
 *
 *   kafka_mock [BROKERS]
 *
 * Prints its bootstrap servers, then does what its standard input says, one line each, and answers "ok":
 *
 *   down [ID] | up [ID]        all brokers, or one: no connections, or again
 *   rtt MS                     each answer takes so long
 *   error COUNT API ERROR      the next COUNT requests (0: produce, 3: metadata, 22: init producer id) fail so
 *   topic NAME PARTITIONS      make it
 *   topic-error NAME ERROR     what metadata says of it
 *   leader TOPIC BROKER        of partition 0; -1: none
 *
 * Errors have the library's names, such as NOT_LEADER_FOR_PARTITION; _TRANSPORT cuts the connection. */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <signal.h>

#define LINE_MAX_SIZE 1024
#define FDS_MAX 256

static bool find_error(const char *name, rd_kafka_resp_err_t *ret)
{
    const struct rd_kafka_err_desc *all;
    size_t count;
    rd_kafka_get_err_descs(&all, &count);
    for (size_t i = 0; i < count; i++)
        if (all[i].name != NULL && strcmp(all[i].name, name) == 0) {
            *ret = all[i].code;
            return true;
        }
    return false;
}

static void push_errors(rd_kafka_mock_cluster_t *cluster, int api, int count, rd_kafka_resp_err_t error)
{
    rd_kafka_mock_clear_request_errors(cluster, (int16_t)api);
    for (int i = 0; i < count; i++)
        rd_kafka_mock_push_request_errors_array(cluster, (int16_t)api, 1, &error);
}

static bool obey(rd_kafka_mock_cluster_t *cluster, const char *line)
{
    char topic[256], name[128];
    int a = -1, b;
    rd_kafka_resp_err_t error;
    if (strcmp(line, "down") == 0 || sscanf(line, "down %d", &a) == 1)
        return rd_kafka_mock_broker_set_down(cluster, a) == 0;
    if (strcmp(line, "up") == 0 || sscanf(line, "up %d", &a) == 1)
        return rd_kafka_mock_broker_set_up(cluster, a) == 0;
    if (sscanf(line, "rtt %d", &a) == 1)
        return rd_kafka_mock_broker_set_rtt(cluster, -1, a) == 0;
    if (sscanf(line, "error %d %d %127s", &a, &b, name) == 3 && find_error(name, &error)) {
        push_errors(cluster, b, a, error);
        return true;
    }
    if (sscanf(line, "topic %255s %d", topic, &a) == 2)
        return rd_kafka_mock_topic_create(cluster, topic, a, 1) == 0;
    if (sscanf(line, "topic-error %255s %127s", topic, name) == 2 && find_error(name, &error)) {
        rd_kafka_mock_topic_set_error(cluster, topic, error);
        return true;
    }
    if (sscanf(line, "leader %255s %d", topic, &a) == 2)
        return rd_kafka_mock_partition_set_leader(cluster, topic, 0, a) == 0;
    return false;
}

static void log_nothing(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk;
    (void)level;
    (void)facility;
    (void)text;
}

/* As Kafka's brokers do: without it an answer can wait 40 ms for the acknowledgement of the last one.  The connections
 * have it from the sockets that listen. */
static void send_at_once(void)
{
    const int one = 1;
    for (int fd = 3; fd < FDS_MAX; fd++) {
        int listens = 0;
        socklen_t size = sizeof(listens);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens)
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
}

int main(int argc, char **argv)
{
    char why[256], line[LINE_MAX_SIZE];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlive the test */
    rd_kafka_conf_set_log_cb(conf, log_nothing);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
    rd_kafka_mock_cluster_t *cluster = rk != NULL ? rd_kafka_mock_cluster_new(rk, argc > 1 ? atoi(argv[1]) : 1) : NULL;
    if (cluster == NULL) {
        fprintf(stderr, "kafka_mock: cannot start\n");
        return 1;
    }
    send_at_once();
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        printf("%s\n", obey(cluster, line) ? "ok" : "what?");
        fflush(stdout);
    }
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(rk);
    return 0;
}
