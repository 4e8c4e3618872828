/* tcp_proxy.h - a wire between a transport and its server that can be cut, held and slowed down. */
#ifndef TEST_TRANSPORT_TCP_PROXY_H
#define TEST_TRANSPORT_TCP_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tcp_proxy;

struct tcp_proxy *tcp_proxy_start(unsigned server_port);
void tcp_proxy_stop(struct tcp_proxy *p);
unsigned tcp_proxy_port(const struct tcp_proxy *p);

/* Every answer that has these bytes gets the others instead: a server that tells its own address shall tell
 * ours.  Before the first connection; up to two of them. */
void tcp_proxy_rewrite(struct tcp_proxy *p, const void *from, const void *to, size_t size);
/* The connection is cut after so many more bytes of answers have passed, once; SIZE_MAX: never. */
void tcp_proxy_cut_after(struct tcp_proxy *p, size_t answer_bytes);
bool tcp_proxy_was_cut(const struct tcp_proxy *p); /* that has happened */
/* Nothing passes in either direction while held; what comes meanwhile passes later. */
void tcp_proxy_hold(struct tcp_proxy *p, bool hold);
/* New connections are refused while closed, and those that are there are cut. */
void tcp_proxy_close(struct tcp_proxy *p, bool closed);

uint64_t tcp_proxy_connections(const struct tcp_proxy *p); /* that were ever taken or refused */
uint64_t tcp_proxy_answer_bytes(const struct tcp_proxy *p);
uint64_t tcp_proxy_question_bytes(const struct tcp_proxy *p);

#endif
