/* date.h - days since 1970-01-01 to dates of the Gregorian calendar, and back. */
#ifndef BASE_DATE_H
#define BASE_DATE_H

#include <stdint.h>

#define DAY_SECONDS 86400

struct date {
    int64_t year;
    int month, day; /* counted from 1 */
};

struct date date_from_days(int64_t days);
int64_t date_to_days(struct date date); /* year >= 0 */
int date_month_length(int64_t year, int month);
int date_weekday(int64_t days); /* 0 is Sunday */

#endif
