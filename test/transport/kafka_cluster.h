/* kafka_cluster.h - a cluster of kafka_mock.c, in a process of its own. */
#ifndef TEST_TRANSPORT_KAFKA_CLUSTER_H
#define TEST_TRANSPORT_KAFKA_CLUSTER_H

#include <stdio.h>
#include <sys/types.h>

struct kafka_cluster {
    pid_t pid; /* 0: not running */
    FILE *to, *from;
    char servers[256]; /* as a client wants them */
    unsigned port;     /* of the last broker */
};

/* Skips the test when the environment does not say where KAFKA_MOCK is. */
void kafka_cluster_start(struct kafka_cluster *c, unsigned brokers);
void kafka_cluster_stop(struct kafka_cluster *c);
/* One of its commands; it must obey. */
void kafka_cluster_tell(struct kafka_cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
