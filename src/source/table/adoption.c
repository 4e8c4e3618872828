/* The products whose tables are known, and the mapping language; see adoption.h. */
#include "source/table/adoption.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/units.h"
#include "base/util.h"
#include "core/message.h"

const struct adopt_field_info adopt_fields[ADOPT_FIELD_COUNT] = {
#define X(field, key, kind, doc) [ADOPT_##field] = { key, ADOPT_KIND_##kind },
    ADOPT_FIELDS(X)
#undef X
};

/* ---- Presets ------------------------------------------------------------------------------ */

/* CAP's other states are left alone: Succeeded is done, Failed waits for a person to set it back to Scheduled.
 * ExpiresAt is when a delayed message is due; on a finished one it is when CAP's own clean-up may delete it. */
static const struct adopt_value cap_pending[] = { { "StatusName", "Scheduled" },
                                                  { "StatusName", "Delayed" },
                                                  { "StatusName", "Queued" } };
static const struct adopt_value cap_set[] = { { "StatusName", "Succeeded" }, { "ExpiresAt", "now()+24h" } };
static const struct adopt_value eventuate_pending[] = { { "published", "0" } };
static const struct adopt_value eventuate_set[] = { { "published", "1" } };
static const struct adopt_value finitech_pending[] = { { "Status", "Pending" } };
static const struct adopt_value finitech_set[] = { { "Status", "Completed" }, { "ProcessedAt", ADOPT_NOW } };

#define VALUES(name)                                                                                                   \
    .pending = name##_pending, .pending_count = ARRAY_LENGTH(name##_pending), .set = name##_set,                       \
    .set_count = ARRAY_LENGTH(name##_set)

static const struct adoption presets[] = {
    { .preset = "debezium",
      .fields = { [ADOPT_ID] = "id",
                  [ADOPT_PAYLOAD] = "payload",
                  [ADOPT_TYPE] = "type",
                  [ADOPT_STREAM] = "aggregateid",
                  [ADOPT_DESTINATION] = "aggregatetype",
                  [ADOPT_SOURCE] = "aggregatetype",
                  [ADOPT_CONTENT_TYPE] = "=application/json" } },
    { .preset = "cap",
      .fields = { [ADOPT_ID] = "Id",
                  [ADOPT_PAYLOAD] = "Content",
                  [ADOPT_TYPE] = "Name",
                  [ADOPT_DESTINATION] = "Name",
                  [ADOPT_CONTENT_TYPE] = "=application/json",
                  [ADOPT_CREATED] = "Added",
                  [ADOPT_DUE] = "ExpiresAt",
                  [ADOPT_ORDER] = "Id" },
      VALUES(cap) },
    { .preset = "masstransit",
      .list_type = true,
      .fields = { [ADOPT_ID] = "MessageId",
                  [ADOPT_PAYLOAD] = "Body",
                  [ADOPT_TYPE] = "MessageType",
                  [ADOPT_STREAM] = "OutboxId|InboxMessageId",
                  [ADOPT_HEADERS] = "Headers",
                  [ADOPT_SOURCE] = "SourceAddress",
                  [ADOPT_SUBJECT] = "DestinationAddress",
                  [ADOPT_CONTENT_TYPE] = "ContentType",
                  [ADOPT_CORRELATION_ID] = "CorrelationId",
                  [ADOPT_CREATED] = "SentTime",
                  [ADOPT_DUE] = "EnqueueTime",
                  [ADOPT_EXPIRES] = "ExpirationTime",
                  [ADOPT_ORDER] = "SequenceNumber" } },
    { .preset = "eventuate",
      .fields = { [ADOPT_ID] = "id",
                  [ADOPT_PAYLOAD] = "payload",
                  [ADOPT_TYPE] = "header:event-type|header:command_type|header:reply_type|destination",
                  [ADOPT_STREAM] = "header:PARTITION_ID",
                  [ADOPT_DESTINATION] = "destination",
                  [ADOPT_HEADERS] = "headers",
                  [ADOPT_SOURCE] = "header:event-aggregate-type|destination",
                  [ADOPT_CONTENT_TYPE] = "=application/json",
                  [ADOPT_CREATED] = "creation_time",
                  [ADOPT_ORDER] = "id" },
      VALUES(eventuate) },
    { .preset = "finitech",
      .fields = { [ADOPT_ID] = "Id",
                  [ADOPT_PAYLOAD] = "Payload",
                  [ADOPT_TYPE] = "EventType",
                  [ADOPT_CONTENT_TYPE] = "=application/json",
                  [ADOPT_CORRELATION_ID] = "CorrelationId",
                  [ADOPT_CREATED] = "OccurredAt",
                  [ADOPT_ORDER] = "OccurredAt" },
      VALUES(finitech) },
    { .preset = "generic" },
};

const char *const adopt_presets[] = { "debezium", "cap", "masstransit", "eventuate", "finitech", "generic", NULL };
_Static_assert(ARRAY_LENGTH(adopt_presets) == ARRAY_LENGTH(presets) + 1, "each preset has its name in the list");

bool adopt_preset(const char *name, struct adoption *adoption)
{
    for (size_t i = 0; i < ARRAY_LENGTH(presets); i++) {
        if (strcmp(presets[i].preset, name) != 0)
            continue;
        for (size_t k = 0; k < ADOPT_FIELD_COUNT; k++)
            adoption->fields[k] = presets[i].fields[k] != NULL ? presets[i].fields[k] : "";
        adoption->preset = presets[i].preset;
        adoption->list_type = presets[i].list_type;
        adoption->pending = presets[i].pending;
        adoption->pending_count = presets[i].pending_count;
        adoption->set = presets[i].set;
        adoption->set_count = presets[i].set_count;
        return true;
    }
    return false;
}

/* ---- The mapping -------------------------------------------------------------------------- */

static int part_parse(enum adopt_field field, pr_slice text, struct adopt_part *ret, struct pr_error *reterr)
{
    pr_slice header = PR_STR("header:");
    *ret = (struct adopt_part){ ADOPT_PART_COLUMN, text };
    if (adopt_fields[field].kind == ADOPT_KIND_TEXT && text.size > 0 && text.data[0] == '=')
        *ret = (struct adopt_part){ ADOPT_PART_TEXT, { text.data + 1, text.size - 1 } };
    else if (adopt_fields[field].kind == ADOPT_KIND_TEXT && slice_starts_with(text, header))
        *ret = (struct adopt_part){ ADOPT_PART_HEADER, { text.data + header.size, text.size - header.size } };
    if (ret->kind == ADOPT_PART_COLUMN && !name_is_valid(text))
        return error_set(
            reterr, PR_EINVAL,
            "\"%.*s\" is not a column name: use letters, digits and _, at most 63, not starting with a digit",
            SLICE_ARGS(text));
    if (ret->text.size == 0)
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is empty", SLICE_ARGS(text));
    return PR_OK;
}

int adopt_parts_parse(enum adopt_field field, const char *text, struct adopt_parts *ret, struct pr_error *reterr)
{
    ret->count = 0;
    if (text[0] == '\0')
        return PR_OK;
    for (const char *at = text;;) {
        size_t size = adopt_fields[field].kind == ADOPT_KIND_TEXT ? strcspn(at, "|") : strlen(at);
        if (ret->count == ADOPT_PARTS_MAX)
            return error_set(reterr, PR_EINVAL, "at most %d alternatives are allowed", ADOPT_PARTS_MAX);
        int rc = part_parse(field, slice_trim((pr_slice){ at, size }), &ret->list[ret->count++], reterr);
        if (rc != PR_OK)
            return rc;
        if (at[size] == '\0')
            return PR_OK;
        at += size + 1;
    }
}

bool adopt_value_is_time(const char *value, int64_t *ret_later_us)
{
    size_t size = strlen(ADOPT_NOW);
    *ret_later_us = 0;
    if (value == NULL || strncmp(value, ADOPT_NOW, size) != 0)
        return false;
    return value[size] == '\0' ||
           (value[size] == '+' && duration_parse(slice_from(value + size + 1), ret_later_us) == PR_OK);
}

bool adopt_table_split(const char *table, pr_slice *ret_schema, pr_slice *ret_name)
{
    const char *dot = strchr(table, '.');
    *ret_schema = dot != NULL ? (pr_slice){ table, (size_t)(dot - table) } : PR_STR("public");
    *ret_name = slice_from(dot != NULL ? dot + 1 : table);
    return name_is_valid(*ret_schema) && name_is_valid(*ret_name);
}

const struct adopt_finding *adopt_report_error(const struct adopt_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (report->findings[i].level == ADOPT_ERROR)
            return &report->findings[i];
    return NULL;
}
