/* server.h - a real server for one test: in a folder of its own, on a free loopback port, gone with the test. */
#ifndef TEST_TRANSPORT_SERVER_H
#define TEST_TRANSPORT_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#define SERVER_ARGS_MAX 32

struct server {
    pid_t pid; /* 0: not running */
    unsigned port;
    char folder[128];                /* in TMPDIR */
    char args[SERVER_ARGS_MAX][256]; /* as started, so that it can be started again */
    size_t arg_count;
};

/* A port that nobody listens on now. */
unsigned server_free_port(void);

/* Makes the folder and takes a port; nothing runs yet. */
void server_prepare(struct server *s);
/* One argument of the command line; the first is the program. */
void server_arg(struct server *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Starts it, and waits until it takes connections. */
void server_start(struct server *s);
void server_stop(struct server *s, int signal); /* and waits for its end */
/* Stops it and removes its folder. */
void server_remove(struct server *s);
bool server_is_installed(const char *program);

#endif
