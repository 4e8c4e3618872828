/* Options of endpoints, and of the routes that lead to them. */
#include "transport/bundle.h"
#include "transport/http/signature.h"
#include "runtime/config/config_table.h"

#define ENDPOINT_HEADERS_MAX 64
#define ROUTE_HEADERS_MAX 16 /* people write a few; each is searched in every message */

static const char *const orderings[] = { "fifo", "strict", "available", "none", NULL };
static const char *const envelopes[] = { "binary", "structured", "batch", "raw", NULL };
static const char *const presets[] = { "cloudeventbus", "whizbang", "finitech", NULL };
static const char *const blames[] = { [BLAME_ALWAYS] = "always", [BLAME_EVIDENCE] = "evidence", NULL };
static const char *const watches[] = { "endpoint", "type", NULL };
static const char *const modes[] = { "durable", "inline", NULL };
static const char *const isolations[] = { "thread", "process", NULL };
static const char *const methods[] = { "POST", "PUT", "PATCH", NULL };

_Static_assert(ORDERING_FIFO == 0 && ORDERING_STRICT == 1 && ORDERING_AVAILABLE == 2 && ORDERING_NONE == 3, "");

static const struct option retry_options[] = {
    { "base", OPTION_DURATION, "1s", "First delay; the delay after failure n is base x factor^n.",
      FIELD(retry_setting, base_us), .min = 0, .max = RETRY_DELAY_MAX_US },
    { "factor", OPTION_NUMBER, "2", "Growth of the delay.", FIELD(retry_setting, factor), .min = 1000, .max = 100000 },
    { "cap", OPTION_DURATION, "10m", "Longest delay. `0s`: no cap.", FIELD(retry_setting, cap_us), .min = 0,
      .max = RETRY_DELAY_MAX_US },
    { "failures", OPTION_COUNT, "8", "The message becomes a dead letter at this failure, as `blame` says. `0`: never.",
      FIELD(retry_setting, failures), .min = 0, .max = 1000000 },
    { "jitter", OPTION_NUMBER, "0.1", "`0.1` makes a delay up to 10 % longer, never shorter.",
      FIELD(retry_setting, jitter), .min = 0, .max = 1000 },
    { "blame", OPTION_CHOICE, "evidence",
      "Which failures count. `evidence`: faults of the endpoint do not count, a refused content makes a dead letter at "
      "the 3rd failure, and any other message becomes one only if another message of its type was delivered since its "
      "previous failure (until then it is tried on, at least 10 seconds apart). `always`: every failure counts. With "
      "`failures`, `delays` or a preset the default is "
      "`always`.",
      FIELD(retry_setting, blame), .choices = blames },
    { "give_up", OPTION_DURATION, "3d",
      "With `blame: evidence`: a message becomes a dead letter after failing for this long without evidence. `0s`: "
      "never.",
      FIELD(retry_setting, give_up_us), .min = 0, .max = RETRY_DELAY_MAX_US },
    { "delays", OPTION_DELAYS, "",
      "A list of delays instead of the formula, one per failure; one more failure makes a dead letter.",
      COUNTED(retry_setting, delays, delay_count), .max = RETRY_DELAYS_MAX },
};

const struct option_section option_retry = { "endpoints.NAME.retry",
                                             "When to retry after a failure. A list, `retry: [10s, 60s, 5m]`, is short "
                                             "for `{delays: [10s, 60s, 5m], jitter: 0}`.",
                                             SECTION(retry_options) };

static const struct option breaker_options[] = {
    { "after", OPTION_COUNT, "5",
      "Opens after this many failures in a row. Where every failure counts (`blame: always`, a rule), they must be of "
      "different messages.",
      FIELD(breaker_setting, after), .min = 1, .max = BREAKER_AFTER_MAX },
    { "open", OPTION_DURATION, "5s", "Pause before a probe; doubled each time a probe fails.",
      FIELD(breaker_setting, open_us), .min = 1000, .max = DAYS(1) },
    { "cap", OPTION_DURATION, "5m", "Longest pause before a probe.", FIELD(breaker_setting, cap_us), .min = 1000,
      .max = DAYS(1) },
    { "per", OPTION_CHOICE, "type",
      "`type`: answers count per message type, and failures to send count for the endpoint. `endpoint`: everything "
      "counts for the endpoint.",
      FIELD(breaker_setting, per_type), .choices = watches },
    { "share", OPTION_NUMBER, "0",
      "Opens at this share of failures instead of `after`: `0.5` when half of the attempts within `window` failed for "
      "transient reasons. `0`: off.",
      FIELD(breaker_setting, share), .min = 0, .max = 1000 },
    { "window", OPTION_DURATION, "30s", "for `share`", FIELD(breaker_setting, window_us), .min = PR_MILLISECONDS(100),
      .max = DAYS(1) },
    { "least", OPTION_COUNT, "20", "Attempts within `window` before `share` applies.", FIELD(breaker_setting, least),
      .min = 1, .max = 1000000 },
};

const struct option_section option_breaker = { "endpoints.NAME.breaker",
                                               "Circuit breaker: while the endpoint is failing nothing is sent except "
                                               "probes, and no failures are counted. `breaker: off` disables it.",
                                               SECTION(breaker_options) };

static const struct option batch_options[] = {
    { "messages", OPTION_COUNT, "100", "Maximum number of messages in one request.", FIELD(config_batch, messages),
      .min = 1, .max = BUNDLE_MAX },
    { "bytes", OPTION_SIZE, "256KiB",
      "Maximum total size of the messages in one request; a larger message is sent alone.", FIELD(config_batch, bytes),
      .min = 1, .max = MIB(64) },
};

const struct option_section option_batch = {
    "endpoints.NAME.batch",
    "For `envelope: batch`. A batch takes the waiting messages when one of the `concurrency` requests (default 4) is "
    "free. A batch that is refused as a whole is split until the message at fault is alone.",
    SECTION(batch_options)
};

/* preset comes before retry and breaker, so that they can change its values. */
static const struct option endpoint_options[] = {
    { "url", OPTION_TEXT, "",
      "Destination: `https://...`, `amqp://...`, `amqp1://...`, `nats://...`, `kafka://...`, `mqtt://...`, "
      "`redis://...`, `exec:PROGRAM`, `file:NAME`, `handler:NAME`, `pull:` (workers claim over HTTP), `box:NAME` "
      "(another box), `console`, `null`",
      .required = true, FIELD(config_endpoint, url) },
    { "source", OPTION_TEXT, "postrider", "CloudEvents source of messages without one.",
      FIELD(config_endpoint, source) },
    { "envelope", OPTION_WORD, "binary",
      "CloudEvents mode; `batch` sends several messages in one request, `raw` sends only payload and headers.",
      FIELD(config_endpoint, envelope), .choices = envelopes },
    { "ordering", OPTION_CHOICE, "fifo",
      "What the followers in a stream do when its head fails: `fifo` waits for it; `strict` waits even if it is dead "
      "or parked; `available` continues; `none` ignores streams.",
      FIELD(config_endpoint, ordering), .choices = orderings },
    { "timeout", OPTION_DURATION, "20s", "Timeout of one attempt.", FIELD(config_endpoint, timeout_us), .min = 1000,
      .max = PR_SECONDS(3600) },
    { "max_attempts", OPTION_COUNT, "5",
      "Maximum number of attempts without an outcome (crashes); one more quarantines the message.",
      FIELD(config_endpoint, max_attempts), .min = 1, .max = 1000 },
    { "preset", OPTION_PRESET, "",
      "Uses retry and breaker values of another system; `retry` and `breaker` override single values.",
      FIELD(config_endpoint, preset), .choices = presets },
    { "retry", OPTION_RETRY, "", "", FIELD(config_endpoint, retry), .section = &option_retry },
    { "breaker", OPTION_BREAKER, "", "", FIELD(config_endpoint, breaker), .section = &option_breaker },
    { "batch", OPTION_SECTION, "", "", FIELD(config_endpoint, batch), .section = &option_batch },
    { "concurrency", OPTION_COUNT, "0",
      "Maximum number of concurrent deliveries (or batches) of one process, over all boxes. Where several boxes use "
      "the endpoint and it sends batches, the messages in them are counted. `0`: as many as the transport supports, "
      "for each box.",
      FIELD(config_endpoint, concurrency), .min = 0, .max = 100000 },
    { "max_payload", OPTION_SIZE, "0B",
      "Larger payloads are not sent: they fail at once as `message_too_large`. `0B`: only limits.payload applies.",
      FIELD(config_endpoint, payload_max), .min = 0, .max = PR_PAYLOAD_MAX },
    { "mode", OPTION_CHOICE, "durable",
      "`durable`: stored, then sent. `inline`: pr_engine_send() sends in the caller's thread and only stores what it "
      "could not send.",
      FIELD(config_endpoint, mode), .choices = modes },
    { "isolation", OPTION_CHOICE, "thread",
      "`handler:` only. `process`: the function runs in a process of its own (`concurrency` of them, default 1): when "
      "it "
      "crashes or does not stop in time, only its message fails. See doc/handlers.md.",
      FIELD(config_endpoint, isolation), .choices = isolations },
    { "allow_networks", OPTION_NETWORKS, "",
      "Networks that webhooks can reach in addition to public addresses: `[127.0.0.0/8, fd00::/8]`.",
      COUNTED(config_endpoint, allow_networks, allow_network_count), .max = 256 },
    { "ca", OPTION_TEXT, "",
      "File with the CA certificates (PEM) to trust instead of the system's. Certificates are always verified.",
      FIELD(config_endpoint, ca) },
    { "cert", OPTION_TEXT, "", "File with the client certificate (PEM), for servers that require one.",
      FIELD(config_endpoint, cert) },
    { "key", OPTION_TEXT, "", "File with the private key (PEM). Default: the key is in `cert`.",
      FIELD(config_endpoint, key) },
    { "sign", OPTION_SECRETS, "",
      "Signs webhooks as Standard Webhooks specifies: `${file:billing.key}` containing `whsec_...`. During a key "
      "change give a list, newest first: every key signs.",
      COUNTED(config_endpoint, sign, sign_count), .max = SIGN_KEYS_MAX },
    { "method", OPTION_WORD, "POST", "Method of webhook requests.", FIELD(config_endpoint, method),
      .choices = methods },
    { "headers", OPTION_HEADERS, "",
      "Headers of every webhook request, for example `{x-api-key: \"${API_KEY}\"}`. They replace headers of the same "
      "name that a message has. Values are not shown.",
      COUNTED(config_endpoint, headers, header_count), .max = ENDPOINT_HEADERS_MAX, .secret = true },
    { "proxy", OPTION_TEXT, "",
      "Proxy for webhook requests, `http://proxy.example:3128`. A private address must be in `allow_networks`; what "
      "the proxy may reach is then up to the proxy. Proxies of the environment are never used.",
      FIELD(config_endpoint, proxy), .secret = true },
    { "rate", OPTION_RATE, "",
      "Maximum rate of one process, over all boxes: `100/s`, `6000/m` or `500/h`. A burst is at most a tenth of a "
      "second's worth. Excess messages wait; waiting is not a failure. Default: unlimited.",
      FIELD(config_endpoint, rate) },
    { "rules", OPTION_RULES, "", "Rules of this endpoint, evaluated before the global `rules`.",
      COUNTED(config_endpoint, rules, rule_count) },
};

const struct option_section option_endpoint = { "endpoints.NAME",
                                                "A named destination. A message names it, or a route does.",
                                                SECTION(endpoint_options) };

static const struct option route_options[] = {
    { "box", OPTION_TEXT, "", "Only messages of this box. Empty: messages of every box of the kind `outbox`.",
      FIELD(config_route, box) },
    { "type", OPTION_TEXT, "", "A glob. Empty: matches all.", FIELD(config_route, type) },
    { "source", OPTION_TEXT, "", "A glob. Empty: matches all.", FIELD(config_route, source) },
    { "stream", OPTION_TEXT, "", "A glob. Empty: matches all.", FIELD(config_route, stream) },
    { "header", OPTION_HEADERS, "",
      "Headers that the message must have, `{x-tenant: acme*}`: globs, all must match; header names ignore case.",
      COUNTED(config_route, headers, header_count), .max = ROUTE_HEADERS_MAX },
    { "to", OPTION_NAMES, "", "One endpoint or a list of endpoints.", .required = true,
      COUNTED(config_route, to, to_count), .max = ENDPOINTS_MAX },
};

const struct option_section option_route = {
    "routes", "A list, for messages without a destination. A message goes to the endpoints of all routes that match.",
    SECTION(route_options)
};
