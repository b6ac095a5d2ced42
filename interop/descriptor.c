/* SPDX-License-Identifier: MIT */
#include "interop/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MEMORY_DEVICES 1 /* the major number of /dev/null and its like */

/* A driver's own descriptors are of a character device or, for a dma-buf, of no kind that has a name. */
gantry_status gy_descriptor_check(int fd, const char *label, const char *what, struct stat *file)
{
    if (fstat(fd, file) != 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: descriptor %d: %s", label, fd,
                       strerrordesc_np(errno));
    }
    bool is_null = S_ISCHR(file->st_mode) && major(file->st_rdev) == MEMORY_DEVICES;
    if (is_null || S_ISDIR(file->st_mode) || S_ISFIFO(file->st_mode) || S_ISSOCK(file->st_mode) ||
        S_ISBLK(file->st_mode)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: descriptor %d is no exported %s but %s", label, fd,
                       what,
                       is_null                  ? "/dev/null or a device like it"
                       : S_ISDIR(file->st_mode) ? "a directory"
                                                : "a pipe, socket or disk");
    }
    return GANTRY_OK;
}

gantry_status gy_descriptor_copy(int fd, const char *label, int *out)
{
    *out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return *out >= 0 ? GANTRY_OK
                     : GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "%s: descriptor %d: %s", label, fd,
                               strerrordesc_np(errno));
}

void gy_descriptor_close_refused(int given, int original)
{
    struct stat ours, theirs;
    if (fstat(original, &ours) == 0 && fstat(given, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
        ours.st_ino == theirs.st_ino) {
        close(given);
    }
}
