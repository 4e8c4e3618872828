#include "transport/broker/nats_greeting.h"

#include <stdio.h>
#include <strings.h>

#include "base/json.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/broker/nats_creds.h"

#include <jansson.h> /* last: its json_is_object is a macro */

#define CONNECT_MAX (NATS_CREDS_MAX + BROKER_URL_MAX + 4096)

const char *nats_info_read(pr_slice text, bool tls, struct nats_info *ret)
{
    json_t *info = json_loadb(text.data, text.size, 0, NULL);
    const char *nonce = json_string_value(json_object_get(info, "nonce"));
    bool headers = json_is_true(json_object_get(info, "headers"));
    bool wants_tls = json_is_true(json_object_get(info, "tls_required"));
    bool has_tls = wants_tls || json_is_true(json_object_get(info, "tls_available"));
    ret->payload_max = json_integer_value(json_object_get(info, "max_payload"));
    snprintf(ret->nonce, sizeof(ret->nonce), "%s", nonce != NULL ? nonce : "");
    json_decref(info);
    if (ret->payload_max <= 0)
        return "its INFO is malformed: max_payload is missing";
    if (!headers)
        return "it does not support headers: a server of version 2.2 or newer is needed";
    if (tls && !has_tls)
        return "it does not support TLS: check tls in its url";
    return wants_tls && !tls ? "it requires TLS: set tls=true in its url" : NULL;
}

static int put_login(struct json_writer *w, const struct broker_url *url, const char *nonce, struct pr_error *reterr)
{
    pr_slice creds = broker_url_param(url, "creds", "");
    int rc = PR_OK;
    if (creds.size > 0) {
        struct buf jwt, signature;
        buf_init(&jwt, NATS_CREDS_MAX);
        buf_init(&signature, 256);
        rc = nats_creds_sign(creds.data, slice_from(nonce), &jwt, &signature, reterr);
        json_put_slice(w, "jwt", buf_slice(&jwt));
        json_put_slice(w, "sig", buf_slice(&signature));
        buf_fini(&jwt);
        buf_fini(&signature);
    } else if (url->password.size > 0) {
        json_put_slice(w, "user", url->user);
        json_put_slice(w, "pass", url->password);
    } else if (url->user.size > 0) {
        json_put_slice(w, "auth_token", url->user);
    }
    return rc;
}

int nats_put_connect(struct buf *b, const struct broker_url *url, const char *name, bool tls, const char *nonce,
                     struct pr_error *reterr)
{
    static const struct {
        const char *key;
        bool value;
    } flags[] = {
        { "verbose", false }, { "pedantic", false }, { "echo", false }, { "headers", true }, { "no_responders", true }
    };
    struct buf json;
    struct json_writer w;
    buf_init(&json, CONNECT_MAX);
    json_init(&w, &json);
    json_begin_object(&w);
    for (size_t i = 0; i < ARRAY_LENGTH(flags); i++)
        json_put_bool(&w, flags[i].key, flags[i].value);
    json_put_bool(&w, "tls_required", tls);
    json_put_int(&w, "protocol", 1);
    json_put_slice(&w, "lang", PR_STR("C"));
    json_put_slice(&w, "version", PR_STR(POSTRIDER_VERSION));
    json_put_slice(&w, "name", slice_from(name));
    int rc = put_login(&w, url, nonce, reterr);
    json_end_object(&w);
    if (rc == PR_OK)
        buf_addf(b, "CONNECT %s\r\n", buf_slice(&json).data);
    if (rc == PR_OK && (buf_failed(&json) != 0 || buf_failed(b) != 0))
        rc = PR_ENOMEM;
    buf_fini(&json);
    return rc;
}

bool nats_error_is_login(const char *text)
{
    return strncasecmp(text, "Authorization", 13) == 0 || strncasecmp(text, "User Authentication", 19) == 0 ||
           strncasecmp(text, "Account Authentication", 22) == 0 || strncasecmp(text, "Permissions", 11) == 0;
}
