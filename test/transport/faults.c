#include "faults.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "certificate.h"
#include "check.h"
#include "server.h"
#include "tcp_proxy.h"

static struct world world; /* it is big */

size_t faults_send(struct world *w, enum send_outcome outcome)
{
    size_t i = world_add(w, "", PR_STR("{}"), WISH_OK);
    world_run(w);
    CHECK_STR(w->results[i].outcome != SEND_OK && outcome == SEND_OK ? w->results[i].error : "", "");
    CHECK_EQ(w->results[i].outcome, outcome);
    return i;
}

void faults_send_until_ok(struct world *w)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    size_t i;
    do {
        CHECK(world_now() < end_us);
        i = world_add(w, "", PR_STR("{}"), WISH_OK);
        world_run(w);
        if (w->results[i].outcome != SEND_OK)
            world_poll(w, PR_MILLISECONDS(100));
    } while (w->results[i].outcome != SEND_OK);
}

void faults_check(struct world *w)
{
    world_look(w);
    for (size_t i = 0; i < w->message_count; i++) {
        CHECK_EQ(w->result_counts[i], i < w->taken ? 1 : 0);
        if (w->results[i].outcome == SEND_OK && i < w->taken)
            CHECK_EQ(world_arrived(w, i), 1);
        else if (w->results[i].outcome != SEND_UNKNOWN)
            CHECK_EQ(world_arrived(w, i), 0);
    }
}

void faults_refused(struct world *w, const char *url, int reason, const char *code, const char *text)
{
    w->config.url = url;
    world_open(w);
    size_t i = faults_send(w, SEND_FAILED);
    CHECK_STR(w->results[i].code, code);
    CHECK_STR(strstr(w->results[i].error, text) != NULL ? text : w->results[i].error, text);
    CHECK_EQ(w->results[i].reason, reason);
    world_fini(w);
}

void faults_mutual(const struct harness *harness, const char *url, const char *folder, const char *refusal)
{
    char whole[1024], ca[128], cert[128], key[128];
    snprintf(ca, sizeof(ca), "%s/good.pem", folder);
    snprintf(cert, sizeof(cert), "%s/client.pem", folder);
    snprintf(key, sizeof(key), "%s/client.key", folder);
    for (size_t n = 0; n < 2; n++) {
        world_prepare(&world, harness, 0);
        if (n == 0) {
            snprintf(whole, sizeof(whole), "%sca=%s&cert=%s&certkey=%s", url, ca, cert, key);
        } else {
            snprintf(whole, sizeof(whole), "%.*s", (int)strlen(url) - 1, url);
            world.config.ca = ca;
            world.config.cert = cert;
            world.config.key = key;
        }
        world.config.url = whole;
        world_open(&world);
        faults_send(&world, SEND_OK);
        world_fini(&world);
    }
    world_prepare(&world, harness, 0);
    snprintf(whole, sizeof(whole), "%sca=%s", url, ca);
    world.config.url = whole;
    world_open(&world);
    size_t i = world_add(&world, "", PR_STR("{}"), WISH_OK); /* TLS 1.3 tells only after the first bytes */
    world_run(&world);
    CHECK(world.results[i].outcome == SEND_FAILED || world.results[i].outcome == SEND_UNKNOWN);
    CHECK_EQ(world.results[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK_STR(strstr(world.results[i].error, refusal) != NULL ? refusal : world.results[i].error, refusal);
    world_fini(&world);
}

/* ---- What people do wrong ----------------------------------------------------------------------------------- */

static void trouble(const struct harness *harness, const char *url, int reason, const char *text)
{
    if (url == NULL)
        return;
    world_prepare(&world, harness, 0);
    world.config.url = url;
    world_open(&world);
    size_t i = faults_send(&world, SEND_FAILED);
    CHECK_EQ(world.results[i].reason, reason);
    CHECK_STR(strstr(world.results[i].error, text) != NULL ? text : world.results[i].error, text);
    CHECK(strstr(world.results[i].error, "wr0ng") == NULL); /* B204 */
    world_fini(&world);
}

static struct server stale; /* gone also after a failure */

static void stale_gone(void)
{
    server_remove(&stale);
}

static void trouble_with_time(const struct harness *harness, const char *url)
{
    char begin[256], whole[512];
    if (url == NULL || !server_is_installed("openssl"))
        return;
    server_prepare(&stale);
    atexit(stale_gone);
    certificate_make(stale.folder, "old", -60);
    server_arg(&stale, "openssl");
    server_arg(&stale, "s_server");
    server_arg(&stale, "-quiet");
    server_arg(&stale, "-accept");
    server_arg(&stale, "127.0.0.1:%u", stale.port);
    server_arg(&stale, "-cert");
    server_arg(&stale, "old.pem");
    server_arg(&stale, "-key");
    server_arg(&stale, "old.key");
    server_start(&stale);
    snprintf(begin, sizeof(begin), url, stale.port);
    snprintf(whole, sizeof(whole), "%sca=%s/old.pem", begin, stale.folder);
    trouble(harness, whole, PR_REASON_TRANSPORT_UNAVAILABLE, "check ca in its url");
    server_remove(&stale);
}

void faults_troubles(const struct troubles *t)
{
    trouble(t->harness, t->no_host, PR_REASON_TRANSPORT_UNAVAILABLE, "check the host");
    trouble(t->harness, t->wrong_password, PR_REASON_UNAUTHORIZED, "check user");
    trouble(t->harness, t->nothing_there, PR_REASON_DESTINATION_MISSING, "nosuch");
    trouble_with_time(t->harness, t->secure);
}

/* ---- A restart ------------------------------------------------------------------------------------------- */

void faults_take_off(struct world *w)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    world_open(w);
    for (size_t i = 0; i < 400; i++)
        world_add(w, "", PR_STR("{}"), WISH_OK);
    while (w->answered <= 50) {
        CHECK(world_now() < end_us);
        world_submit(w);
        world_poll(w, PR_MILLISECONDS(1));
    }
}

void faults_crash(struct world *w)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    size_t absent;
    world_collect(w);
    do { /* one may still go into a connection of which nobody has noticed yet that it is over */
        CHECK(world_now() < end_us);
        absent = world_add(w, "", PR_STR("{}"), WISH_OK);
        world_run(w);
        CHECK(w->results[absent].outcome != SEND_OK);
    } while (w->results[absent].outcome == SEND_UNKNOWN);
    CHECK_EQ(w->results[absent].outcome, SEND_FAILED);
    CHECK_EQ(w->results[absent].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
}

void faults_land(struct world *w)
{
    faults_send_until_ok(w);
    faults_check(w);
    world_fini(w);
}

/* ---- Through the proxy ---------------------------------------------------------------------------------- */

static struct tcp_proxy *open_through_proxy(const struct faults *f, bool closed)
{
    static char url[512];
    unsigned port;
    world_prepare(&world, f->harness, 0);
    const char *host = strstr(world.config.url, "127.0.0.1:");
    CHECK(host != NULL && sscanf(host, "127.0.0.1:%u", &port) == 1);
    struct tcp_proxy *proxy = tcp_proxy_start(port);
    tcp_proxy_close(proxy, closed);
    snprintf(url, sizeof(url), f->url, tcp_proxy_port(proxy));
    world.config.url = url;
    world_open(&world);
    return proxy;
}

bool faults_everywhere(void)
{
    return getenv("CUT_EVERY_BYTE") != NULL;
}

/* False: that was behind the last byte of the answers. */
static bool cut_at(struct tcp_proxy *proxy, size_t place, bool can_fail)
{
    size_t unknown = 0, first = faults_send(&world, SEND_OK);
    tcp_proxy_cut_after(proxy, place);
    for (size_t i = 0; i < 8; i++)
        world_add(&world, "", PR_STR("{}"), i % 2 && can_fail ? WISH_FAIL : WISH_OK);
    world_run(&world);
    for (size_t i = first; i < world.message_count; i++)
        unknown += world.results[i].outcome == SEND_UNKNOWN;
    CHECK(unknown == 0 || tcp_proxy_was_cut(proxy));
    return unknown > 0;
}

#define PLACES 16

void faults_cut(const struct faults *f, size_t step)
{
    bool can_fail = f->harness->wishes & 1 << WISH_FAIL, more = true;
    if (faults_everywhere())
        step = 1;
    for (size_t place = 0; more;) { /* a world has room for so many places */
        struct tcp_proxy *proxy = open_through_proxy(f, false);
        for (size_t k = 0; k < PLACES && more; k++, place += step)
            more = cut_at(proxy, place, can_fail);
        faults_check(&world);
        world_fini(&world);
        tcp_proxy_stop(proxy);
        CHECK(place < FAULTS_ANSWER_MAX);
        if (!faults_everywhere()) {
            CHECK(more);
            break;
        }
    }
}

void faults_hold(const struct faults *f)
{
    struct tcp_proxy *proxy = open_through_proxy(f, false);
    faults_send(&world, SEND_OK);
    tcp_proxy_hold(proxy, true);
    for (size_t i = 1; i < 3; i++) {
        world_add(&world, "", PR_STR("{}"), WISH_OK);
        world.deliveries[i].deadline_us = world_now() + (int64_t)i * WORLD_SOON_US / 2;
    }
    world_run(&world);
    for (size_t i = 1; i < 3; i++) {
        CHECK_EQ(world.results[i].outcome, SEND_UNKNOWN);
        CHECK_EQ(world.results[i].reason, PR_REASON_TIMEOUT_EXCEEDED);
    }
    tcp_proxy_hold(proxy, false);
    faults_send_until_ok(&world);
    world_fini(&world);
    tcp_proxy_stop(proxy);
}

void faults_cancel(const struct faults *f)
{
    static char large[1 << 20];
    size_t returned = 0;
    struct tcp_proxy *proxy = open_through_proxy(f, false);
    faults_send(&world, SEND_OK);
    tcp_proxy_hold(proxy, true);
    for (size_t i = 1; i < 40; i++)
        world_add(&world, "", i < 20 ? PR_BYTES(large, sizeof(large)) : PR_STR("{}"), WISH_OK);
    world_submit(&world);
    world_poll(&world, PR_MILLISECONDS(50));
    world_cancel(&world);
    tcp_proxy_hold(proxy, false);
    world_collect(&world);
    for (size_t i = 1; i < world.taken; i++)
        returned += world.results[i].outcome == SEND_RETURNED;
    CHECK(returned >= 10);
    faults_check(&world);
    world_fini(&world);
    tcp_proxy_stop(proxy);
}

static void check_unavailable(size_t i, const char *text)
{
    CHECK_EQ(world.results[i].outcome, SEND_FAILED);
    CHECK_EQ(world.results[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK_STR(strstr(world.results[i].error, text) != NULL ? text : world.results[i].error, text);
}

/* Connections are taken by the kernel, and nobody talks. */
static int listen_silently(unsigned *ret_port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(listen(fd, 16), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

void faults_silent(const struct faults *f)
{
    char url[512];
    unsigned port;
    int fd = listen_silently(&port);
    world_prepare(&world, f->harness, 0);
    snprintf(url, sizeof(url), f->url, port);
    world.config.url = url;
    world_open(&world);
    int64_t begin_us = world_now();
    size_t late = world_add(&world, "", PR_STR("{}"), WISH_OK), left = world_add(&world, "", PR_STR("{}"), WISH_OK);
    world.deliveries[late].deadline_us = begin_us + WORLD_SOON_US / 2;
    world_submit(&world);
    while (world_now() < begin_us + WORLD_SOON_US + PR_MILLISECONDS(100)) /* another attempt is allowed then */
        world_poll(&world, PR_MILLISECONDS(100));
    CHECK_EQ(world.answered, 1);
    check_unavailable(late, "no connection in time");
    int taken = accept(fd, NULL, NULL);
    CHECK(taken >= 0);
    close(taken);
    while (world.answered < 2 && world_now() < begin_us + PR_SECONDS(4)) /* it gives up by itself after 5 s */
        world_poll(&world, PR_MILLISECONDS(100));
    CHECK_EQ(world.answered, 2);
    check_unavailable(left, "127.0.0.1:");
    world_fini(&world);
    close(fd);
}

void faults_hammer(const struct faults *f)
{
    struct tcp_proxy *proxy = open_through_proxy(f, true);
    int64_t begin_us = world_now();
    while (world_now() < begin_us + PR_MILLISECONDS(1500) && world.message_count < WORLD_MESSAGES_MAX - 1) {
        world_add(&world, "", PR_STR("{}"), WISH_OK);
        world_run(&world);
        usleep(5000); /* a pace, not a wait */
    }
    CHECK(tcp_proxy_connections(proxy) >= 1);
    CHECK(tcp_proxy_connections(proxy) <= 1 + (uint64_t)((world_now() - begin_us) / PR_SECONDS(1)));
    world_fini(&world);
    tcp_proxy_stop(proxy);
}
