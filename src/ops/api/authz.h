/* guard.h - may this request come in?  Pure: it sees what a request says, and decides.
 *
 *   Host      an address, localhost or a name that the configuration knows: a web page whose name was made to
 *             point here (DNS rebinding) says its own name.
 *   Origin    what a browser asks for a page of another origin is refused, looking as much as changing: the answer
 *             stays hidden from that page, but asking costs us.
 *   Changes   POST and DELETE need X-Postrider: 1, or a CloudEvents header or media type: a page of another origin
 *             can send none of these without being allowed to first, and nobody is.
 *   Tokens    when there are any: Authorization: Bearer TOKEN.  Without tokens everybody who gets here is an
 *             operator; the configuration lets nobody but this machine get here then. */
#ifndef OPS_API_AUTHZ_H
#define OPS_API_AUTHZ_H

#include <postrider.h>

enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR };

#define GUARD_HEADER "X-Postrider"

struct authz {
    const char *token, *viewer_token; /* "": none; borrowed */
    const char *const *hosts;
    size_t host_count;
    bool by_file; /* it listens on a socket file: browsers cannot get here, and Host says nothing */
};

/* The value of Host, with or without a port; NULL: it is missing, so it is no browser. */
bool authz_host_is_known(const struct authz *authz, const char *host);

/* Did a page of another origin make a browser ask?  Then Sec-Fetch-Site says so, or Origin is not what Host is; each
 * NULL when it is missing.  Programs send neither. */
bool authz_is_cross_site(const char *fetch_site, const char *origin, const char *host);

/* By the value of Authorization; NULL: it is missing.  Takes the same time whichever character is wrong. */
enum role authz_role(const struct authz *authz, const char *authorization);

#endif
