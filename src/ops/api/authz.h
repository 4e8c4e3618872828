/* authz.h - is this request allowed?  Pure: it sees the headers of a request, and decides.
 *
 *   Host      an address, localhost or a configured name: a web page whose name was made to
 *             point here (DNS rebinding) sends its own name.
 *   Origin    requests of a browser for a page of another origin are refused, reads as well as changes: the answer
 *             would be hidden from that page, but the request would have a cost.
 *   Changes   POST and DELETE need X-Postrider: 1, or a CloudEvents header or media type: a page of another origin
 *             cannot send these without a preflight, which is never granted.
 *   Tokens    if configured: Authorization: Bearer TOKEN.  Without tokens every client is an
 *             operator; the configuration then only allows addresses of this machine. */
#ifndef OPS_API_AUTHZ_H
#define OPS_API_AUTHZ_H

#include <postrider.h>

enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR };

#define GUARD_HEADER "X-Postrider"

struct authz {
    const char *token, *viewer_token; /* "": none; borrowed */
    const char *const *hosts;
    size_t host_count;
    bool by_file; /* it listens on a socket file: browsers cannot reach it, and Host means nothing */
};

/* The value of Host, with or without a port; NULL: missing, so the client is not a browser. */
bool authz_host_is_known(const struct authz *authz, const char *host);

/* Was the request made by a browser for a page of another origin?  Then Sec-Fetch-Site says so, or Origin differs from
 * Host; each is NULL when missing.  Programs send neither. */
bool authz_is_cross_site(const char *fetch_site, const char *origin, const char *host);

/* From the value of Authorization; NULL: missing.  Takes the same time whichever character is wrong. */
enum role authz_role(const struct authz *authz, const char *authorization);

#endif
