#include "rabbitmq.h"

#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "certificate.h"
#include "check.h"

#define PROGRAM "/usr/lib/rabbitmq/bin/rabbitmq-server" /* the one in the path changes its user */

static struct server server, names; /* names: epmd, which RabbitMQ will not start without */
static unsigned tls_port, node_port;

static void gone(void)
{
    server_remove(&server);
    server_remove(&names);
}

static void start_names(void)
{
    server_prepare(&names);
    server_arg(&names, "epmd");
    server_arg(&names, "-address");
    server_arg(&names, "127.0.0.1");
    server_arg(&names, "-port");
    server_arg(&names, "%u", names.port);
    server_start(&names);
}

static void write_file(const char *name, const char *text)
{
    char path[sizeof(server.folder) + 32];
    snprintf(path, sizeof(path), "%s/%s", server.folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK_EQ(fclose(file), 0);
}

static void write_config(void)
{
    char text[1024];
    certificate_make(server.folder, "good", 86400);
    certificate_make_client(server.folder, "client", "good");
    write_file("plugins", "[rabbitmq_amqp1_0].\n");
    snprintf(text, sizeof(text),
             "listeners.tcp.1 = 127.0.0.1:%u\n"
             "listeners.ssl.1 = 127.0.0.1:%u\n"
             "ssl_options.certfile = %s/good.pem\n"
             "ssl_options.keyfile = %s/good.key\n"
             "ssl_options.cacertfile = %s/good.pem\n"
             "ssl_options.verify = verify_peer\n"
             "ssl_options.fail_if_no_peer_cert = true\n"
             "max_message_size = %d\n"
             "log.file = false\n"
             "log.console = true\n",
             server.port, tls_port, server.folder, server.folder, server.folder, RABBITMQ_MESSAGE_MAX);
    write_file("rabbitmq.conf", text);
}

/* As it is described in rabbitmq-env: everything in the folder.  With input allowed it is one process. */
static void set_arguments(void)
{
    static const char *const folders[] = { "HOME=%s",
                                           "RABBITMQ_MNESIA_BASE=%s/data",
                                           "RABBITMQ_LOG_BASE=%s/logs",
                                           "RABBITMQ_PID_FILE=%s/pid",
                                           "RABBITMQ_ENABLED_PLUGINS_FILE=%s/plugins",
                                           "RABBITMQ_CONFIG_FILE=%s/rabbitmq.conf" };
    server_arg(&server, "env");
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        server_arg(&server, folders[i], server.folder);
    server_arg(&server, "RABBITMQ_NODENAME=postrider-%u@localhost", node_port);
    server_arg(&server, "RABBITMQ_DIST_PORT=%u", node_port);
    server_arg(&server, "RABBITMQ_ALLOW_INPUT=1");
    server_arg(&server, "ERL_EPMD_PORT=%u", names.port);
    server_arg(&server, "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput +sbwt none +S 1:1");
    server_arg(&server, PROGRAM);
}

bool rabbitmq_is_installed(void)
{
    return access(PROGRAM, X_OK) == 0;
}

struct server *rabbitmq(void)
{
    if (!rabbitmq_is_installed())
        SKIP("RabbitMQ is not installed");
    if (server.folder[0] == '\0') {
        server_prepare(&server);
        atexit(gone);
        tls_port = server_free_port();
        node_port = server_free_port();
        write_config();
        start_names();
        set_arguments();
    }
    if (server.pid == 0)
        server_start(&server);
    return &server;
}

unsigned rabbitmq_tls_port(void)
{
    return tls_port;
}

/* Evaluates an Erlang call in the node: "module, function, [arguments]".  Its answer must be ok. */
static void call_node(const char *call)
{
    char command[1024], text[1024] = "";
    snprintf(command, sizeof(command),
             "HOME=%s exec erl -noinput -boot start_clean -sname c%d@localhost -start_epmd false -erl_epmd_port %u "
             "-dist_listen false -eval 'io:format(\"~0p\", [rpc:call(list_to_atom(\"postrider-%u@localhost\"), "
             "%s)]), halt(0).'",
             server.folder, (int)getpid(), node_port, node_port, call);
    FILE *out = popen(command, "r");
    CHECK(out != NULL);
    size_t size = fread(text, 1, sizeof(text) - 1, out);
    text[size] = '\0';
    CHECK_EQ(pclose(out), 0);
    CHECK_STR(text, "ok");
}

void rabbitmq_alarm(bool on)
{
    char call[256];
    snprintf(call, sizeof(call),
             "rabbit_alarm, %s_alarm, [%s{resource_limit, disk, list_to_atom(\"postrider-%u@localhost\")}%s]",
             on ? "set" : "clear", on ? "{" : "", node_port, on ? ", []}" : "");
    call_node(call);
}

/* ---- Another client --------------------------------------------------------------------------------- */

static void check_reply(amqp_connection_state_t c)
{
    CHECK_EQ(amqp_get_rpc_reply(c).reply_type, AMQP_RESPONSE_NORMAL);
}

amqp_connection_state_t rabbitmq_ask(void)
{
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    CHECK(socket != NULL);
    CHECK_EQ(amqp_socket_open(socket, "127.0.0.1", (int)server.port), AMQP_STATUS_OK);
    CHECK_EQ(amqp_login(c, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest").reply_type,
             AMQP_RESPONSE_NORMAL);
    amqp_channel_open(c, 1);
    check_reply(c);
    return c;
}

void rabbitmq_leave(amqp_connection_state_t c)
{
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(c);
}

void rabbitmq_queue(const char *name, amqp_table_t arguments)
{
    amqp_connection_state_t c = rabbitmq_ask();
    amqp_queue_delete(c, 1, amqp_cstring_bytes(name), 0, 0);
    check_reply(c);
    amqp_queue_declare(c, 1, amqp_cstring_bytes(name), 0, 1, 0, 0, arguments);
    check_reply(c);
    rabbitmq_leave(c);
}

void rabbitmq_look(const char *queue, rabbitmq_see *see, void *user)
{
    amqp_connection_state_t c = rabbitmq_ask();
    for (;;) {
        amqp_message_t message;
        amqp_rpc_reply_t reply = amqp_basic_get(c, 1, amqp_cstring_bytes(queue), 0);
        CHECK_EQ(reply.reply_type, AMQP_RESPONSE_NORMAL);
        if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD)
            break;
        CHECK_EQ(amqp_read_message(c, 1, &message, 0).reply_type, AMQP_RESPONSE_NORMAL);
        see(user, &message);
        amqp_destroy_message(&message);
        amqp_maybe_release_buffers(c);
    }
    rabbitmq_leave(c);
}
