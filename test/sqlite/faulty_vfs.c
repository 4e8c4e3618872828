#include "faulty_vfs.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/util.h"
#include "check.h"

#define FILES_MAX 64

/* How a file was before a change that was not synced. */
struct undo {
    struct undo *next;
    sqlite3_int64 offset, size; /* of the file before */
    int amount;                 /* bytes that are kept here */
    unsigned char bytes[];
};

struct faulty_file {
    sqlite3_file base;
    struct undo *undos; /* the latest first */
    char *path;
    sqlite3_file *real;
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs vfs;
static struct faulty_file *files[FILES_MAX];

static struct {
    long left; /* changes until the fault; 0: none */
    int code;
    bool for_ever, power, no_temporary_files;
    double luck;
    unsigned long seed;
    long hits;
} plan;

/* ---- Power ---------------------------------------------------------------------------- */

static void undo_one(int fd, const struct undo *u)
{
    if (u->amount > 0 && pwrite(fd, u->bytes, (size_t)u->amount, u->offset) != u->amount)
        _exit(1);
    if (ftruncate(fd, u->size) != 0)
        _exit(1);
}

static void lose_power(void)
{
    struct random random;
    random_init(&random, plan.seed);
    for (size_t i = 0; i < FILES_MAX; i++) {
        struct faulty_file *f = files[i];
        int fd = f != NULL && f->path != NULL ? open(f->path, O_RDWR) : -1;
        for (struct undo *u = fd >= 0 ? f->undos : NULL; u != NULL; u = u->next)
            if (!random_chance(&random, plan.luck))
                undo_one(fd, u);
    }
    _exit(POWER_LOSS_EXIT);
}

/* Keep what a change of [offset, offset + amount) will overwrite. */
static int remember(struct faulty_file *f, sqlite3_int64 offset, int amount)
{
    sqlite3_int64 size = 0;
    if (!plan.power)
        return SQLITE_OK;
    int rc = f->real->pMethods->xFileSize(f->real, &size);
    if (rc != SQLITE_OK)
        return rc;
    int kept = (int)max64(0, min64(amount, size - offset));
    struct undo *u = malloc(sizeof(*u) + (size_t)kept);
    if (u == NULL)
        return SQLITE_NOMEM;
    *u = (struct undo){ .next = f->undos, .offset = offset, .size = size, .amount = kept };
    if (kept > 0)
        rc = f->real->pMethods->xRead(f->real, u->bytes, kept, offset);
    f->undos = u;
    return rc;
}

static void forget(struct faulty_file *f)
{
    while (f->undos != NULL) {
        struct undo *u = f->undos;
        f->undos = u->next;
        free(u);
    }
}

/* ---- Faults ---------------------------------------------------------------------------- */

/* SQLITE_OK, or what this change fails with. */
static int meet_fault(int io_code)
{
    if (plan.left == 0 || --plan.left > 0)
        return SQLITE_OK;
    if (plan.power)
        lose_power();
    if (plan.for_ever)
        plan.left = 1;
    plan.hits++;
    return plan.code == SQLITE_IOERR ? io_code : plan.code;
}

void faulty_fail(long n, int code, bool for_ever)
{
    memset(&plan, 0, sizeof(plan));
    plan.left = n;
    plan.code = code;
    plan.for_ever = for_ever;
}

void faulty_power_loss(long n, double luck, unsigned long seed)
{
    memset(&plan, 0, sizeof(plan));
    plan.left = n;
    plan.power = true;
    plan.luck = luck;
    plan.seed = seed;
}

void faulty_no_temporary_files(void)
{
    memset(&plan, 0, sizeof(plan));
    plan.no_temporary_files = true;
}

void faulty_calm(void)
{
    long hits = plan.hits;
    memset(&plan, 0, sizeof(plan));
    plan.hits = hits;
}

long faulty_hits(void)
{
    return plan.hits;
}

/* ---- Files ------------------------------------------------------------------------------- */

static struct faulty_file *faulty(sqlite3_file *file)
{
    return (struct faulty_file *)file;
}

static sqlite3_file *real(sqlite3_file *file)
{
    return faulty(file)->real;
}

static int f_close(sqlite3_file *file)
{
    struct faulty_file *f = faulty(file);
    for (size_t i = 0; i < FILES_MAX; i++)
        if (files[i] == f)
            files[i] = NULL;
    forget(f);
    free(f->path);
    return f->real->pMethods->xClose(f->real);
}

static int f_read(sqlite3_file *file, void *data, int amount, sqlite3_int64 offset)
{
    return real(file)->pMethods->xRead(real(file), data, amount, offset);
}

static int f_write(sqlite3_file *file, const void *data, int amount, sqlite3_int64 offset)
{
    int rc = meet_fault(SQLITE_IOERR_WRITE);
    if (rc == SQLITE_OK)
        rc = remember(faulty(file), offset, amount);
    return rc == SQLITE_OK ? real(file)->pMethods->xWrite(real(file), data, amount, offset) : rc;
}

static int f_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_int64 now = 0;
    int rc = meet_fault(SQLITE_IOERR_TRUNCATE);
    if (rc == SQLITE_OK)
        rc = real(file)->pMethods->xFileSize(real(file), &now);
    if (rc == SQLITE_OK && now > size)
        rc = remember(faulty(file), size, (int)(now - size));
    return rc == SQLITE_OK ? real(file)->pMethods->xTruncate(real(file), size) : rc;
}

static int f_sync(sqlite3_file *file, int flags)
{
    int rc = meet_fault(SQLITE_IOERR_FSYNC);
    if (rc == SQLITE_OK)
        rc = plan.power ? SQLITE_OK
                        : real(file)->pMethods->xSync(real(file), flags); /* undone by us, not by the kernel */
    if (rc == SQLITE_OK)
        forget(faulty(file));
    return rc;
}

static int f_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real(file)->pMethods->xFileSize(real(file), size);
}

static int f_lock(sqlite3_file *file, int level)
{
    return real(file)->pMethods->xLock(real(file), level);
}

static int f_unlock(sqlite3_file *file, int level)
{
    return real(file)->pMethods->xUnlock(real(file), level);
}

static int f_check_lock(sqlite3_file *file, int *ret)
{
    return real(file)->pMethods->xCheckReservedLock(real(file), ret);
}

static int f_control(sqlite3_file *file, int op, void *arg)
{
    return real(file)->pMethods->xFileControl(real(file), op, arg);
}

static int f_sector(sqlite3_file *file)
{
    return real(file)->pMethods->xSectorSize(real(file));
}

static int f_device(sqlite3_file *file)
{
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

static int f_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
    return real(file)->pMethods->xShmMap(real(file), page, size, extend, ret);
}

static int f_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return real(file)->pMethods->xShmLock(real(file), offset, n, flags);
}

static void f_shm_barrier(sqlite3_file *file)
{
    real(file)->pMethods->xShmBarrier(real(file));
}

static int f_shm_unmap(sqlite3_file *file, int remove)
{
    return real(file)->pMethods->xShmUnmap(real(file), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = f_close,
    .xRead = f_read,
    .xWrite = f_write,
    .xTruncate = f_truncate,
    .xSync = f_sync,
    .xFileSize = f_size,
    .xLock = f_lock,
    .xUnlock = f_unlock,
    .xCheckReservedLock = f_check_lock,
    .xFileControl = f_control,
    .xSectorSize = f_sector,
    .xDeviceCharacteristics = f_device,
    .xShmMap = f_shm_map,
    .xShmLock = f_shm_lock,
    .xShmBarrier = f_shm_barrier,
    .xShmUnmap = f_shm_unmap,
};

static int vfs_open(sqlite3_vfs *v, const char *path, sqlite3_file *file, int flags, int *ret_flags)
{
    (void)v;
    struct faulty_file *f = faulty(file);
    memset(f, 0, sizeof(*f));
    f->real = (sqlite3_file *)(void *)(f + 1);
    if (path == NULL && plan.no_temporary_files)
        return SQLITE_IOERR_GETTEMPPATH;
    int rc = real_vfs->xOpen(real_vfs, path, f->real, flags, ret_flags);
    if (rc != SQLITE_OK)
        return rc;
    f->base.pMethods = &methods;
    f->path = path != NULL ? strdup(path) : NULL;
    for (size_t i = 0; i < FILES_MAX; i++)
        if (files[i] == NULL) {
            files[i] = f;
            return SQLITE_OK;
        }
    check_fail(__FILE__, __LINE__, "more than %d files are open", FILES_MAX);
}

void faulty_install(void)
{
    if (real_vfs != NULL)
        return;
    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.zName = "faulty";
    vfs.szOsFile = (int)sizeof(struct faulty_file) + real_vfs->szOsFile;
    vfs.xOpen = vfs_open;
    CHECK_EQ(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

void faulty_remove(void)
{
    faulty_calm();
    if (real_vfs == NULL)
        return;
    sqlite3_vfs_unregister(&vfs);
    sqlite3_vfs_register(real_vfs, 1);
    real_vfs = NULL;
}
