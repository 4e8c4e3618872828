/* The scan: see scan.h for the invariants cited here. */
#include "engine/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"

/* A snapshot that several lanes share: usually all of them were read by the same one. */
struct kept_snapshot {
    unsigned refs;
    struct snapshot s;
    uint64_t xip[];
};

struct scan_lane {
    bool started;
    int64_t position;
    int64_t floor;               /* as of `saved`; may be above position while there is a backlog */
    struct kept_snapshot *saved; /* NULL: nothing was read yet */
    struct {
        struct kept_snapshot *upto; /* NULL: no late pass was cut short */
        int64_t cursor;
        int64_t floor;
    } pass;
};

struct aside {
    uint64_t xid;
    int64_t from; /* all its rows are above this seq */
};

struct scan {
    struct scan_limits limits;
    struct kept_snapshot *now; /* the latest one; NULL: there was none */
    int64_t last;
    int64_t floor;                   /* as of `now` */
    struct kept_snapshot *candidate; /* becomes the floor when those that ran in it have ended */
    int64_t candidate_last;
    struct scan_lane lanes[LANE_COUNT];
    size_t aside_count;
    struct aside aside[]; /* limits.aside entries */
};

/* ---- Snapshots ------------------------------------------------------------------------ */

static bool xid_is_among(const uint64_t *xids, size_t count, uint64_t xid)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (xids[middle] < xid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && xids[low] == xid;
}

bool scan_visible(const struct snapshot *snapshot, uint64_t xid)
{
    if (xid < snapshot->xmin)
        return true;
    return xid < snapshot->xmax && !xid_is_among(snapshot->xip, snapshot->xip_count, xid);
}

static struct kept_snapshot *kept_new(const struct snapshot *snapshot)
{
    struct kept_snapshot *kept = calloc(1, sizeof(*kept) + snapshot->xip_count * sizeof(kept->xip[0]));
    if (kept == NULL)
        return NULL;
    kept->refs = 1;
    kept->s = *snapshot;
    kept->s.xip = kept->xip;
    if (snapshot->xip_count > 0)
        memcpy(kept->xip, snapshot->xip, snapshot->xip_count * sizeof(kept->xip[0]));
    return kept;
}

/* Points *place at kept (or nothing), and drops what it held. */
static void kept_set(struct kept_snapshot **place, struct kept_snapshot *kept)
{
    if (kept != NULL)
        kept->refs++;
    if (*place != NULL && --(*place)->refs == 0)
        free(*place);
    *place = kept;
}

/* ---- Lanes ----------------------------------------------------------------------------- */

struct scan *scan_new(const struct scan_limits *limits)
{
    struct scan_limits wanted =
        limits != NULL ? *limits : (struct scan_limits){ .stretch = SCAN_STRETCH, .aside = SCAN_ASIDE };
    struct scan *scan = calloc(1, sizeof(*scan) + wanted.aside * sizeof(scan->aside[0]));
    if (scan == NULL)
        return NULL;
    scan->limits = wanted;
    scan->floor = SCAN_BEGIN;
    return scan;
}

void scan_free(struct scan *scan)
{
    if (scan == NULL)
        return;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        scan_stop(scan, lane);
    scan_forget(scan);
    free(scan);
}

void scan_stop(struct scan *scan, unsigned lane)
{
    ASSERT(lane < LANE_COUNT);
    struct scan_lane *l = &scan->lanes[lane];
    kept_set(&l->saved, NULL);
    kept_set(&l->pass.upto, NULL);
    l->started = false;
}

void scan_start(struct scan *scan, unsigned lane)
{
    scan_stop(scan, lane);
    struct scan_lane *l = &scan->lanes[lane];
    l->started = true;
    l->position = SCAN_BEGIN;
    l->floor = SCAN_BEGIN;
}

bool scan_is_started(const struct scan *scan, unsigned lane)
{
    ASSERT(lane < LANE_COUNT);
    return scan->lanes[lane].started;
}

void scan_forget(struct scan *scan)
{
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if (scan->lanes[lane].started)
            scan_start(scan, lane);
    kept_set(&scan->now, NULL);
    kept_set(&scan->candidate, NULL);
    scan->last = 0;
    scan->floor = SCAN_BEGIN;
    scan->aside_count = 0;
}

/* ---- The floor ------------------------------------------------------------------------- */

static bool scan_is_aside(const struct scan *scan, uint64_t xid)
{
    for (size_t i = 0; i < scan->aside_count; i++)
        if (scan->aside[i].xid == xid)
            return true;
    return false;
}

/* Does this transaction of the candidate still hold the floor back? */
static bool scan_is_waited_for(const struct scan *scan, uint64_t xid)
{
    return !scan_visible(&scan->now->s, xid) && !scan_is_aside(scan, xid);
}

static size_t scan_waited_for(const struct scan *scan)
{
    size_t count = 0;
    for (size_t i = 0; i < scan->candidate->s.xip_count; i++)
        count += scan_is_waited_for(scan, scan->candidate->s.xip[i]);
    return count;
}

/* S4: sets aside those that are waited for.  False: there is no room for them. */
static bool scan_set_aside(struct scan *scan, size_t waited_for)
{
    if (waited_for > scan->limits.aside - scan->aside_count)
        return false;
    for (size_t i = 0; i < scan->candidate->s.xip_count; i++) {
        uint64_t xid = scan->candidate->xip[i];
        if (scan_is_waited_for(scan, xid))
            scan->aside[scan->aside_count++] = (struct aside){ .xid = xid, .from = scan->floor };
    }
    return true;
}

/* S2: the candidate's last value becomes the floor when no transaction is waited for; then this snapshot is the next
 * candidate, and may be the floor at once. */
static void scan_raise_floor(struct scan *scan)
{
    while (scan->candidate != NULL) {
        size_t waited_for = scan_waited_for(scan);
        bool is_long = scan->last - scan->candidate_last > scan->limits.stretch;
        if (waited_for > 0 && !(is_long && scan_set_aside(scan, waited_for)))
            return;
        scan->floor = scan->candidate_last;
        bool was_this_snapshot = scan->candidate == scan->now;
        kept_set(&scan->candidate, was_this_snapshot ? NULL : scan->now);
        scan->candidate_last = scan->last;
    }
}

/* Forgets transactions set aside that have ended and that every lane has read. */
static void scan_drop_aside(struct scan *scan)
{
    size_t kept_count = 0;
    for (size_t i = 0; i < scan->aside_count; i++) {
        uint64_t xid = scan->aside[i].xid;
        bool needed = !scan_visible(&scan->now->s, xid);
        for (unsigned lane = 0; lane < LANE_COUNT && !needed; lane++) {
            const struct scan_lane *l = &scan->lanes[lane];
            needed = l->saved != NULL && !scan_visible(&l->saved->s, xid);
        }
        if (needed)
            scan->aside[kept_count++] = scan->aside[i];
    }
    scan->aside_count = kept_count;
}

bool scan_goes_back(const struct scan *scan, int64_t last, const struct snapshot *snapshot)
{
    return last < scan->last || (scan->now != NULL && snapshot->xmax < scan->now->s.xmax);
}

int scan_snapshot(struct scan *scan, int64_t last, const struct snapshot *snapshot)
{
    ASSERT(last >= 0);
    struct kept_snapshot *now = kept_new(snapshot);
    if (now == NULL)
        return PR_ENOMEM;
    if (scan_goes_back(scan, last, snapshot))
        scan_forget(scan); /* S5: the server is another one */
    kept_set(&scan->now, now);
    now->refs--; /* the reference of kept_new() */
    scan->last = last;
    scan_drop_aside(scan);
    if (scan->candidate == NULL) {
        kept_set(&scan->candidate, scan->now);
        scan->candidate_last = last;
    }
    scan_raise_floor(scan);
    return PR_OK;
}

/* ---- What to read ---------------------------------------------------------------------- */

/* Has any transaction that ran in the old snapshot ended?  If not, nothing can have appeared at or below the position
 * (S3). */
static bool scan_has_ended_since(const struct scan *scan, const struct kept_snapshot *old)
{
    for (size_t i = 0; i < old->s.xip_count; i++)
        if (scan_visible(&scan->now->s, old->xip[i]))
            return true;
    return false;
}

/* From where to look for late rows: from the floor, or deeper when a transaction that was set aside has ended since
 * (S4). */
static int64_t scan_late_from(const struct scan *scan, int64_t floor, const struct kept_snapshot *seen)
{
    for (size_t i = 0; i < scan->aside_count; i++) {
        uint64_t xid = scan->aside[i].xid;
        if (!scan_visible(&seen->s, xid) && scan_visible(&scan->now->s, xid))
            floor = min64(floor, scan->aside[i].from);
    }
    return floor;
}

size_t scan_ranges(const struct scan *scan, unsigned lane, struct scan_range ret[SCAN_RANGES_MAX])
{
    ASSERT(scan_is_started(scan, lane) && scan->now != NULL);
    const struct scan_lane *l = &scan->lanes[lane];
    const struct kept_snapshot *seen = l->saved;
    int64_t floor = l->floor;
    size_t count = 0;

    if (l->pass.upto != NULL) {
        ret[count++] = (struct scan_range){ .kind = SCAN_REST,
                                            .from = l->pass.cursor + 1,
                                            .to = l->position + 1,
                                            .upto = &l->pass.upto->s,
                                            .unseen = &l->saved->s };
        seen = l->pass.upto;
        floor = l->pass.floor;
    }
    if (seen != NULL && scan_has_ended_since(scan, seen)) {
        int64_t from = scan_late_from(scan, floor, seen);
        if (from < l->position)
            ret[count++] = (struct scan_range){
                .kind = SCAN_LATE, .from = from + 1, .to = l->position + 1, .upto = &scan->now->s, .unseen = &seen->s
            };
    }
    ret[count++] =
        (struct scan_range){ .kind = SCAN_NEW, .from = l->position + 1, .to = INT64_MAX, .upto = &scan->now->s };
    return count;
}

/* All rows up to the position were read as of this snapshot (S3). */
static void lane_save(struct scan_lane *l, struct kept_snapshot *upto, int64_t floor)
{
    kept_set(&l->saved, upto);
    l->floor = floor;
}

static void scan_done_whole(struct scan *scan, struct scan_lane *l, enum scan_range_kind kind, int64_t last_seq)
{
    switch (kind) {
    case SCAN_REST:
        lane_save(l, l->pass.upto, l->pass.floor);
        kept_set(&l->pass.upto, NULL);
        break;
    case SCAN_LATE: lane_save(l, scan->now, scan->floor); break;
    case SCAN_NEW:
        lane_save(l, scan->now, scan->floor);
        l->position = max64(l->position, max64(scan->last, last_seq));
        break;
    }
}

static void scan_done_part(struct scan *scan, struct scan_lane *l, enum scan_range_kind kind, int64_t last_seq)
{
    switch (kind) {
    case SCAN_REST: l->pass.cursor = last_seq; break;
    case SCAN_LATE: /* to be finished as of this snapshot, even if it is not the latest by then */
        kept_set(&l->pass.upto, scan->now);
        l->pass.cursor = last_seq;
        l->pass.floor = scan->floor;
        break;
    case SCAN_NEW:
        lane_save(l, scan->now, scan->floor);
        l->position = last_seq;
        break;
    }
}

void scan_done(struct scan *scan, unsigned lane, size_t whole, int64_t last_seq)
{
    struct scan_range ranges[SCAN_RANGES_MAX];
    size_t count = scan_ranges(scan, lane, ranges);
    struct scan_lane *l = &scan->lanes[lane];

    ASSERT(whole <= count);
    for (size_t i = 0; i < whole; i++)
        scan_done_whole(scan, l, ranges[i].kind, i + 1 == count ? last_seq : SCAN_BEGIN);
    if (whole < count && last_seq != SCAN_BEGIN) {
        ASSERT(last_seq >= ranges[whole].from && last_seq < ranges[whole].to);
        scan_done_part(scan, l, ranges[whole].kind, last_seq);
    }
}

int64_t scan_passed(const struct scan *scan, unsigned lane)
{
    ASSERT(lane < LANE_COUNT);
    const struct scan_lane *l = &scan->lanes[lane];
    return l->saved != NULL ? min64(l->floor, l->position) : SCAN_BEGIN;
}

int64_t scan_floor(const struct scan *scan)
{
    return scan->floor;
}

size_t scan_aside_count(const struct scan *scan)
{
    return scan->aside_count;
}
