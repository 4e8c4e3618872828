#include "transport/broker/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

/* ---- TLS ----------------------------------------------------------------------------------------- */

static const char *tls_text(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;
    return text != NULL ? text : "TLS failed";
}

static int file_fault(const struct endpoint_config *config, const char *param, pr_slice file, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "%s: the file of %s, %.*s: %s", endpoint_title(config).text, param,
                     SLICE_ARGS(file), tls_text());
}

static int tls_init(struct wire *w, const struct endpoint_config *config, const struct broker_url *url,
                    struct pr_error *reterr)
{
    struct broker_tls files = broker_url_tls(config, url);
    w->anonymous = files.cert.size == 0;
    ERR_clear_error();
    w->tls = SSL_CTX_new(TLS_client_method());
    if (w->tls == NULL)
        return error_set(reterr, PR_ENOMEM, "%s: out of memory for TLS", endpoint_title(config).text);
    SSL_CTX_set_verify(w->tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(w->tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (SSL_CTX_set_min_proto_version(w->tls, TLS1_2_VERSION) != 1)
        return error_set(reterr, PR_ECONFIG, "%s: %s", endpoint_title(config).text, tls_text());
    if (files.ca.size > 0 ? SSL_CTX_load_verify_file(w->tls, files.ca.data) != 1
                          : SSL_CTX_set_default_verify_paths(w->tls) != 1)
        return file_fault(config, "ca", files.ca, reterr);
    if (files.cert.size > 0 && SSL_CTX_use_certificate_chain_file(w->tls, files.cert.data) != 1)
        return file_fault(config, "cert", files.cert, reterr);
    if (files.cert.size > 0 && SSL_CTX_use_PrivateKey_file(w->tls, files.key.data, SSL_FILETYPE_PEM) != 1)
        return file_fault(config, "certkey", files.key, reterr);
    return PR_OK;
}

static bool failed_by(struct wire *w, const char *code, const char *what)
{
    w->code = code;
    snprintf(w->why, sizeof(w->why), "%.120s:%u: %.200s", w->host, w->port, what);
    wire_close(w);
    return false;
}

static bool failed(struct wire *w, const char *what)
{
    return failed_by(w, "", what);
}

/* The reason of a certificate error is more helpful than the error itself. */
static bool tls_failed(struct wire *w, const char *otherwise)
{
    long verdict = SSL_get_verify_result(w->session);
    char text[WIRE_WHY_SIZE];
    if (verdict != X509_V_OK)
        snprintf(text, sizeof(text), "its certificate was refused: %.80s: " BROKER_CERT_ADVICE,
                 X509_verify_cert_error_string(verdict));
    else
        snprintf(text, sizeof(text), "TLS: %.120s%s", ERR_peek_last_error() != 0 ? tls_text() : otherwise,
                 ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_WRONG_VERSION_NUMBER
                     ? ": it does not use TLS here; check the port in its url"
                 : w->anonymous && !w->heard ? ": " BROKER_NO_CERT_ADVICE
                                             : "");
    return failed_by(w, "tls", text);
}

/* The name that the certificate must have. */
static bool tls_name(struct wire *w)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, w->host, address) == 1 || inet_pton(AF_INET6, w->host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(w->session), w->host) == 1;
    /* SSL_set_tlsext_host_name() without its cast, of which compilers warn; the name is only read. */
    void *name = (void *)(uintptr_t)w->host;
    return SSL_set1_host(w->session, w->host) == 1 &&
           SSL_ctrl(w->session, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) == 1;
}

static bool tls_start(struct wire *w)
{
    ERR_clear_error();
    w->session = SSL_new(w->tls);
    if (w->session == NULL || SSL_set_fd(w->session, w->fd) != 1)
        return failed(w, "out of memory for TLS");
    if (!tls_name(w))
        return failed(w, "its name cannot be verified");
    SSL_set_connect_state(w->session);
    w->state = WIRE_GREETING;
    w->wants = POLLOUT;
    return true;
}

/* 0: not now, the required events are noted; -1: it failed. */
static int tls_again(struct wire *w, int rc)
{
    switch (SSL_get_error(w->session, rc)) {
    case SSL_ERROR_WANT_READ: w->wants = POLLIN; return 0;
    case SSL_ERROR_WANT_WRITE: w->wants = POLLOUT; return 0;
    case SSL_ERROR_SYSCALL: tls_failed(w, errno != 0 ? strerror(errno) : "it closed the connection"); return -1;
    default: tls_failed(w, "it closed the connection"); return -1;
    }
}

/* ---- Connecting ------------------------------------------------------------------------------------ */

int wire_init(struct wire *w, const struct endpoint_config *config, const struct broker_url *url, bool tls,
              struct pr_error *reterr)
{
    w->fd = -1;
    w->code = "";
    w->host = url->host.data;
    w->port = url->port;
    return tls ? tls_init(w, config, url, reterr) : PR_OK;
}

void wire_init_like(struct wire *w, const struct wire *like, const char *host, unsigned port)
{
    *w = (struct wire){
        .fd = -1, .code = "", .host = host, .port = port, .tls = like->tls, .anonymous = like->anonymous
    };
    if (w->tls != NULL)
        SSL_CTX_up_ref(w->tls);
}

void wire_close(struct wire *w)
{
    SSL_free(w->session); /* NULL is fine */
    w->session = NULL;
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    if (w->addresses != NULL)
        freeaddrinfo(w->addresses);
    w->addresses = w->address = NULL;
    w->held_size = 0;
    w->heard = false;
    w->state = WIRE_CLOSED;
}

void wire_fini(struct wire *w)
{
    if (w->host == NULL)
        return;
    wire_close(w);
    SSL_CTX_free(w->tls);
    w->tls = NULL;
}

/* Starts with the next address that does not fail at once. */
static bool try_addresses(struct wire *w, int error)
{
    for (; w->address != NULL; w->address = w->address->ai_next) {
        const struct addrinfo *a = w->address;
        w->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (w->fd >= 0 && (connect(w->fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS)) {
            w->state = WIRE_CONNECTING;
            return true;
        }
        error = errno;
        if (w->fd >= 0)
            close(w->fd);
        w->fd = -1;
    }
    return failed(w, strerror(error));
}

bool wire_connect(struct wire *w)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    char port[8], text[WIRE_WHY_SIZE];
    wire_close(w);
    snprintf(port, sizeof(port), "%u", w->port);
    int rc = getaddrinfo(w->host, port, &hints, &w->addresses);
    if (rc != 0) {
        w->addresses = NULL;
        snprintf(text, sizeof(text), "%s: " BROKER_HOST_ADVICE, gai_strerror(rc));
        return failed_by(w, "lookup", text);
    }
    w->address = w->addresses;
    return try_addresses(w, 0);
}

static bool connected(struct wire *w)
{
    int error = 0, one = 1;
    socklen_t size = sizeof(error);
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error != 0) {
        close(w->fd);
        w->fd = -1;
        w->address = w->address->ai_next;
        return try_addresses(w, error);
    }
    (void)setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* only slower without */
    (void)setsockopt(w->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)); /* deadlines exist, too */
    w->state = WIRE_OPEN;
    return w->tls == NULL || w->tls_later || tls_start(w);
}

bool wire_secure(struct wire *w)
{
    ASSERT(w->state == WIRE_OPEN && w->session == NULL && w->tls != NULL && w->held_size == 0);
    return tls_start(w);
}

bool wire_progress(struct wire *w)
{
    ASSERT(w->state == WIRE_CONNECTING || w->state == WIRE_GREETING);
    if (w->state == WIRE_CONNECTING && !connected(w))
        return false;
    if (w->state != WIRE_GREETING)
        return true;
    ERR_clear_error();
    errno = 0;
    int rc = SSL_do_handshake(w->session);
    if (rc == 1)
        w->state = WIRE_OPEN;
    return rc == 1 || tls_again(w, rc) == 0;
}

short wire_events(const struct wire *w, bool has_bytes)
{
    if (w->state == WIRE_GREETING)
        return w->wants;
    return w->state == WIRE_CONNECTING || has_bytes || w->held_size > 0 ? POLLIN | POLLOUT : POLLIN;
}

/* ---- Bytes ------------------------------------------------------------------------------------------- */

static ssize_t plain_again(struct wire *w, ssize_t rc)
{
    if (rc < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    failed(w, rc == 0 ? "it closed the connection" : strerror(errno));
    return -1;
}

static int tls_write(struct wire *w, const void *data, size_t size)
{
    ERR_clear_error();
    errno = 0;
    int rc = SSL_write(w->session, data, (int)size);
    return rc > 0 ? rc : tls_again(w, rc);
}

/* A TLS record that was begun must be completed with the same bytes: so they are copied here, and count as written. */
static ssize_t tls_take(struct wire *w, const void *data, size_t size)
{
    if (w->held_size > 0) {
        int rc = tls_write(w, w->held, w->held_size);
        if (rc <= 0)
            return rc;
        w->held_size -= (size_t)rc;
        memmove(w->held, w->held + rc, w->held_size);
        if (w->held_size > 0)
            return 0;
    }
    if (size == 0)
        return 0;
    size = min_size(size, WIRE_CHUNK_MAX);
    int rc = tls_write(w, data, size);
    if (rc != 0)
        return rc;
    memcpy(w->held, data, size);
    w->held_size = size;
    return (ssize_t)size;
}

ssize_t wire_write(struct wire *w, const void *data, size_t size)
{
    ASSERT(w->state == WIRE_OPEN);
    if (w->session != NULL)
        return tls_take(w, data, size);
    if (size == 0)
        return 0;
    ssize_t rc = send(w->fd, data, size, MSG_NOSIGNAL);
    return rc > 0 ? rc : plain_again(w, rc);
}

ssize_t wire_read(struct wire *w, void *ret, size_t size)
{
    ASSERT(w->state == WIRE_OPEN);
    if (w->session == NULL) {
        ssize_t rc = recv(w->fd, ret, size, 0);
        return rc > 0 ? rc : plain_again(w, rc);
    }
    ERR_clear_error();
    errno = 0;
    int rc = SSL_read(w->session, ret, (int)min_size(size, INT_MAX));
    w->heard |= rc > 0;
    return rc > 0 ? rc : tls_again(w, rc);
}
