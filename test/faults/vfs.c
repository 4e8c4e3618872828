/* vfs.c - a disk that fails on demand: SQLite's own VFS, but while DIR/io-error is there reads,
 * writes and syncs end with an input/output error, and while DIR/disk-full is there writes find
 * no space.  It becomes the default, so the program under test knows nothing of it. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "program.h"

struct shim_file {
    sqlite3_file base;
    sqlite3_file *real; /* lies behind this struct */
};

static sqlite3_vfs shim;
static sqlite3_vfs *real_vfs;
static char directory[512];

static sqlite3_file *real(sqlite3_file *file)
{
    return ((struct shim_file *)file)->real;
}

static int disk_error(bool writes, int io_error)
{
    if (file_exists(directory, "io-error"))
        return io_error;
    return writes && file_exists(directory, "disk-full") ? SQLITE_FULL : SQLITE_OK;
}

/* ---- Files that fail ------------------------------------------------------------------------- */

static int shim_read(sqlite3_file *file, void *data, int size, sqlite3_int64 at)
{
    int rc = disk_error(false, SQLITE_IOERR_READ);
    return rc != SQLITE_OK ? rc : real(file)->pMethods->xRead(real(file), data, size, at);
}

static int shim_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    int rc = disk_error(true, SQLITE_IOERR_WRITE);
    return rc != SQLITE_OK ? rc : real(file)->pMethods->xWrite(real(file), data, size, at);
}

static int shim_sync(sqlite3_file *file, int flags)
{
    int rc = disk_error(false, SQLITE_IOERR_FSYNC);
    return rc != SQLITE_OK ? rc : real(file)->pMethods->xSync(real(file), flags);
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int rc = disk_error(false, SQLITE_IOERR_TRUNCATE);
    return rc != SQLITE_OK ? rc : real(file)->pMethods->xTruncate(real(file), size);
}

/* ---- The rest is passed on ---------------------------------------------------------------------- */

static int shim_close(sqlite3_file *file)
{
    return real(file)->pMethods->xClose(real(file));
}

static int shim_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    return real(file)->pMethods->xFileSize(real(file), ret);
}

static int shim_lock(sqlite3_file *file, int level)
{
    return real(file)->pMethods->xLock(real(file), level);
}

static int shim_unlock(sqlite3_file *file, int level)
{
    return real(file)->pMethods->xUnlock(real(file), level);
}

static int shim_check_lock(sqlite3_file *file, int *ret)
{
    return real(file)->pMethods->xCheckReservedLock(real(file), ret);
}

static int shim_control(sqlite3_file *file, int op, void *arg)
{
    return real(file)->pMethods->xFileControl(real(file), op, arg);
}

static int shim_sector_size(sqlite3_file *file)
{
    return real(file)->pMethods->xSectorSize(real(file));
}

static int shim_characteristics(sqlite3_file *file)
{
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

static int shim_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
    return real(file)->pMethods->xShmMap(real(file), page, size, extend, ret);
}

static int shim_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real(file)->pMethods->xShmLock(real(file), offset, count, flags);
}

static void shim_shm_barrier(sqlite3_file *file)
{
    real(file)->pMethods->xShmBarrier(real(file));
}

static int shim_shm_unmap(sqlite3_file *file, int remove)
{
    return real(file)->pMethods->xShmUnmap(real(file), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_check_lock,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector_size,
    .xDeviceCharacteristics = shim_characteristics,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap,
};

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
    (void)vfs;
    struct shim_file *f = (struct shim_file *)file;
    f->real = (sqlite3_file *)(f + 1);
    int rc = real_vfs->xOpen(real_vfs, name, f->real, flags, ret_flags);
    f->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
    return rc;
}

void vfs_install(const char *dir)
{
    snprintf(directory, sizeof directory, "%s", dir);
    real_vfs = sqlite3_vfs_find(NULL);
    shim = *real_vfs;
    shim.zName = "faults";
    shim.szOsFile = (int)sizeof(struct shim_file) + real_vfs->szOsFile;
    shim.xOpen = shim_open;
    if (sqlite3_vfs_register(&shim, 1) != SQLITE_OK)
        fprintf(stderr, "the failing disk could not be installed\n");
}
