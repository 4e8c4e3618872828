#include "transport/broker/amqp1_gate.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/util.h"

#define HEADER_SIZE 8 /* bytes, of a protocol header and of a frame's */
#define TYPE_AMQP 0
#define TYPE_SASL 1
#define DEPTH_MAX 16 /* nesting of values: a source with a filter has 5 */

/* ---- Values ------------------------------------------------------------------------------------------- */

static void take_value(struct cursor *c, unsigned depth);

/* A list or a map: `count` values, and nothing after them. */
static void take_compound(struct cursor *c, unsigned width, unsigned depth)
{
    struct cursor inside = { cursor_take(c, cursor_number(c, width)), c->bad };
    uint64_t count = cursor_number(&inside, width);
    for (; count > 0 && !inside.bad; count--)
        take_value(&inside, depth + 1);
    c->bad |= inside.bad || inside.rest.size > 0;
}

/* An array of values that contain no others: nested arrays are never sent. */
static void take_array(struct cursor *c, unsigned width)
{
    struct cursor inside = { cursor_take(c, cursor_number(c, width)), c->bad };
    uint64_t count = cursor_number(&inside, width), kind = cursor_number(&inside, 1);
    for (; count > 0 && !inside.bad; count--)
        switch (kind >> 4) {
        case 4: count = 1; break; /* values without bytes: any number of them */
        case 5:
        case 6:
        case 7:
        case 8:
        case 9: (void)cursor_take(&inside, UINT64_C(1) << ((kind >> 4) - 5)); break;
        case 10: (void)cursor_take(&inside, cursor_number(&inside, 1)); break;
        case 11: (void)cursor_take(&inside, cursor_number(&inside, 4)); break;
        default: inside.bad = true;
        }
    c->bad |= inside.bad || inside.rest.size > 0;
}

/* The upper half of the type code gives the size of the value. */
static void take_value(struct cursor *c, unsigned depth)
{
    uint64_t kind = cursor_number(c, 1);
    if (depth > DEPTH_MAX)
        c->bad = true;
    if (c->bad)
        return;
    switch (kind >> 4) {
    case 0: /* a descriptor and the described value */
        c->bad |= kind != 0;
        take_value(c, depth + 1);
        take_value(c, depth + 1);
        break;
    case 4: break;
    case 5:
    case 6:
    case 7:
    case 8:
    case 9: (void)cursor_take(c, UINT64_C(1) << ((kind >> 4) - 5)); break;
    case 10: (void)cursor_take(c, cursor_number(c, 1)); break;
    case 11: (void)cursor_take(c, cursor_number(c, 4)); break;
    case 12: take_compound(c, 1, depth); break;
    case 13: take_compound(c, 4, depth); break;
    case 14: take_array(c, 1); break;
    case 15: take_array(c, 4); break;
    default: c->bad = true;
    }
}

/* ---- Frames ---------------------------------------------------------------------------------------------- */

enum performative {
    OPEN = 0x10,
    BEGIN,
    ATTACH,
    FLOW,
    TRANSFER,
    DISPOSITION,
    DETACH,
    END,
    CLOSE,
    MECHANISMS = 0x40,
    INIT,
    CHALLENGE,
    RESPONSE,
    OUTCOME,
};
#define BODY_DATA 0x75 /* section codes of a message; those of the body come last */

/* The frames that may come, and the stages that they lead to.  Anything else ends the connection. */
static const struct gate_rule {
    enum amqp1_stage from, to;
    enum performative what;
} rules[] = {
    { AMQP1_MECHANISMS, AMQP1_OUTCOME, MECHANISMS },
    { AMQP1_OUTCOME, AMQP1_OUTCOME, CHALLENGE },
    { AMQP1_OUTCOME, AMQP1_HEADER, OUTCOME },
    { AMQP1_MECHANISMS, AMQP1_HEADER, OUTCOME },
    { AMQP1_OPEN, AMQP1_BEGIN, OPEN },
    { AMQP1_BEGIN, AMQP1_UP, BEGIN },
    { AMQP1_BEGIN, AMQP1_ENDED, CLOSE },
    { AMQP1_UP, AMQP1_UP, ATTACH },
    { AMQP1_UP, AMQP1_UP, FLOW },
    { AMQP1_UP, AMQP1_UP, DISPOSITION },
    { AMQP1_UP, AMQP1_UP, DETACH },
    { AMQP1_UP, AMQP1_ENDED, END },
    { AMQP1_UP, AMQP1_ENDED, CLOSE },
    { AMQP1_ENDED, AMQP1_ENDED, CLOSE },
};

static ssize_t pass_header(enum amqp1_stage *stage, pr_slice bytes, struct pr_error *reterr)
{
    const char *wanted = *stage == AMQP1_SASL_HEADER ? "AMQP\x03\x01\x00\x00" : "AMQP\x00\x01\x00\x00";
    size_t size = min_size(bytes.size, HEADER_SIZE);
    if (memcmp(bytes.data, wanted, size) != 0)
        return error_set(reterr, PR_EINVAL,
                         memcmp(bytes.data, "AMQP", min_size(size, 4)) == 0
                             ? "it speaks another version of AMQP, or has no login"
                             : "it does not speak AMQP");
    if (size < HEADER_SIZE)
        return 0;
    *stage = *stage == AMQP1_SASL_HEADER ? AMQP1_MECHANISMS : AMQP1_OPEN;
    return HEADER_SIZE;
}

bool amqp1_gate_is_sound(pr_slice values)
{
    struct cursor c = { values, false };
    while (c.rest.size > 0 && !c.bad)
        take_value(&c, 0);
    return !c.bad;
}

/* The numeric descriptor of a described value; 0: none. */
static unsigned take_code(struct cursor *c)
{
    uint64_t described = cursor_number(c, 1), kind = cursor_number(c, 1);
    uint64_t code = cursor_number(c, kind == 0x53 ? 1 : 8);
    return c->bad || described != 0 || (kind != 0x53 && kind != 0x80) || code > 255 ? 0 : (unsigned)code;
}

pr_slice amqp1_gate_head(pr_slice values, pr_slice *ret_body)
{
    struct cursor at = { values, false }, next, inside;
    unsigned code;
    for (next = at; !next.bad; take_value(&next, 0)) {
        at = inside = next;
        code = take_code(&inside);
        if (code == 0 || code >= BODY_DATA)
            break;
    }
    *ret_body = at.rest;
    inside = at;
    code = take_code(&inside);
    uint64_t kind = cursor_number(&inside, 1);
    (void)cursor_number(&inside, kind == 0xa0 ? 1 : 4);
    if (code == BODY_DATA && (kind == 0xa0 || kind == 0xb0) && !inside.bad)
        *ret_body = inside.rest;
    return (pr_slice){ values.data, values.size - at.rest.size };
}

/* The code of a frame's performative: a described list, complete, followed only by the payload of a transfer.  0:
 * invalid. */
static unsigned performative_of(pr_slice body)
{
    struct cursor c = { body, false }, all = { body, false };
    unsigned code = take_code(&c);
    take_value(&all, 0);
    return all.bad || (all.rest.size > 0 && code != TRANSFER) ? 0 : code;
}

static ssize_t pass_body(enum amqp1_stage *stage, enum amqp1_role role, pr_slice body, size_t size,
                         struct pr_error *reterr)
{
    unsigned code = performative_of(body);
    if (code == 0)
        return error_set(reterr, PR_EINVAL, "a malformed frame");
    if (code == TRANSFER && role == AMQP1_RECEIVES && *stage == AMQP1_UP)
        return (ssize_t)size;
    for (size_t i = 0; i < ARRAY_LENGTH(rules); i++)
        if (rules[i].from == *stage && rules[i].what == code) {
            *stage = rules[i].to;
            return (ssize_t)size;
        }
    return error_set(reterr, PR_EINVAL, "performative %u is out of order, at stage %d", code, (int)*stage);
}

ssize_t amqp1_gate_pass(enum amqp1_stage *stage, enum amqp1_role role, pr_slice bytes, struct pr_error *reterr)
{
    struct cursor c = { bytes, false };
    if (bytes.size == 0)
        return 0;
    if (*stage == AMQP1_SASL_HEADER || *stage == AMQP1_HEADER)
        return pass_header(stage, bytes, reterr);
    if (bytes.size < HEADER_SIZE)
        return 0;
    uint64_t size = cursor_number(&c, 4), offset = 4 * cursor_number(&c, 1), type = cursor_number(&c, 1);
    uint64_t channel = cursor_number(&c, 2);
    if (size > AMQP1_FRAME_MAX || offset < HEADER_SIZE || offset > size)
        return error_set(reterr, PR_EINVAL, "a frame of %llu bytes, at most %d were agreed", (unsigned long long)size,
                         AMQP1_FRAME_MAX);
    if (type != (*stage < AMQP1_HEADER ? TYPE_SASL : TYPE_AMQP) || (type == TYPE_AMQP && channel != 0))
        return error_set(reterr, PR_EINVAL, "a frame of type %u for channel %u is out of order", (unsigned)type,
                         (unsigned)channel);
    if (bytes.size < size)
        return 0;
    if (offset == size && *stage > AMQP1_OPEN)
        return (ssize_t)size; /* an empty frame: a heartbeat */
    return pass_body(stage, role, (pr_slice){ bytes.data + offset, (size_t)(size - offset) }, (size_t)size, reterr);
}
