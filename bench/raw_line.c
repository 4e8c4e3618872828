#include "raw_line.h"

#include "carrier.h"

size_t raw_line_make(char ret[RAW_LINE_MAX])
{
    struct raw_message m;
    raw_message_make(&m);
    return (size_t)snprintf(ret, RAW_LINE_MAX,
                            "{\"specversion\":\"1.0\",\"id\":\"%s\",\"type\":\"" CARRIER_TYPE
                            "\",\"source\":\"" CARRIER_SOURCE "\",\"time\":\"%s\","
                            "\"datacontenttype\":\"application/json\",\"data\":%s}\n",
                            m.id, m.time, raw_payload());
}
