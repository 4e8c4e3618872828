/* rabbit.h - the suite's other side at RabbitMQ, whichever protocol the source speaks with it. */
#ifndef TEST_SOURCE_RABBIT_H
#define TEST_SOURCE_RABBIT_H

#include "world.h"

#define RABBIT_QUEUE "orders"

/* For the harness. */
void rabbit_restart(struct world *w);
int64_t rabbit_left(struct world *w);

#endif
