#include "rabbit.h"

#include <signal.h>

#include "../transport/rabbitmq.h"
#include "check.h"

void rabbit_restart(struct world *w)
{
    (void)w;
    server_stop(rabbitmq(), SIGTERM);
    (void)rabbitmq(); /* starts again */
}

int64_t rabbit_left(struct world *w)
{
    (void)w;
    amqp_connection_state_t c = rabbitmq_ask();
    amqp_queue_declare_ok_t *ok =
        amqp_queue_declare(c, 1, amqp_cstring_bytes(RABBIT_QUEUE), 1, 0, 0, 0, amqp_empty_table);
    CHECK(ok != NULL);
    int64_t count = ok->message_count;
    rabbitmq_leave(c);
    return count;
}
