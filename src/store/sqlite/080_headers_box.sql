-- As in 012_checks_box.sql, which says how and why.  A value that is an object or an array can be sent as no header: such a message
-- failed at every endpoint.  Few headers have more brackets than the first, and only those are parsed once more: json() leaves no space
-- around the colon, and a quote with no backslash before it ends a name.  (Names that end with one are not judged here: they are refused
-- by whatever is to send them.)
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'CONSTRAINT "postrider: id must be a UUID',
    'CONSTRAINT "postrider: headers must not hold objects or arrays: each value is a string, a number, true, false or null"
        CHECK (headers IS NULL OR (instr(headers, ''['') = 0 AND instr(substr(headers, 2), ''{'') = 0)
            OR NOT json_valid(headers) OR json(headers) NOT GLOB ''*[^\]":[[{]*''),
    CONSTRAINT "postrider: id must be a UUID')
    WHERE type = 'table' AND name = '{table}' AND instr(sql, 'CONSTRAINT "postrider: headers must not hold') = 0;
PRAGMA writable_schema = RESET;
