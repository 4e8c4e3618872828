/* replay.c - runs a target over files, without a fuzzer: the corpora are tests.
 *
 *     replay-NAME FILE|DIRECTORY... */
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    char *data = NULL;
    size_t size = 0;
    for (size_t got = 1; got > 0; size += got) {
        char *more = realloc(data, size + 65536);
        if (more == NULL) {
            free(data);
            fclose(file);
            return -1;
        }
        data = more;
        got = fread(data + size, 1, 65536, file);
    }
    fclose(file);
    fprintf(stderr, "%s\n", path);             /* the last one named is the one that crashed */
    char *exact = malloc(size > 0 ? size : 1); /* so that a sanitizer sees each byte too many */
    if (exact != NULL)
        memcpy(exact, data, size);
    free(data);
    int rc = exact != NULL ? LLVMFuzzerTestOneInput((const uint8_t *)exact, size) : -1;
    free(exact);
    return rc;
}

static int run_directory(const char *path, int *count)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        perror(path);
        return -1;
    }
    int rc = 0;
    for (struct dirent *entry; rc == 0 && (entry = readdir(dir)) != NULL;) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        rc = run_file(file);
        ++*count;
    }
    closedir(dir);
    return rc;
}

int main(int argc, char **argv)
{
    int count = 0, rc = LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; rc == 0 && i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode))
            rc = run_directory(argv[i], &count);
        else
            rc = run_file(argv[i]), count++;
    }
    printf("%d inputs\n", count);
    return rc == 0 && count > 0 ? 0 : 1;
}
