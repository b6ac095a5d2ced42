/* SPDX-License-Identifier: MIT */
/* The memory file that stands for a timeline semaphore which another API has exported: a page with a mark at
 * its head and the timeline's value behind it.  A renderer in a test makes and signals one, also from another
 * process; the emulated driver imports it.  (A device's driver exports a descriptor of its own kind.) */
#ifndef EMULATOR_TIMELINE_FILE_H
#define EMULATOR_TIMELINE_FILE_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GY_TIMELINE_FILE_BYTES 4096
#define GY_TIMELINE_FILE_MARK "gantry timeline" /* 16 bytes with the 0 */

struct gy_timeline_file {
    char mark[16];
    uint64_t value; /* atomic; of all processes */
};

/* A new timeline at 0; its descriptor, or -1.  `*out`: where it is mapped, or NULL. */
static inline int gy_timeline_file_create(struct gy_timeline_file **out)
{
    int fd = memfd_create("timeline", MFD_CLOEXEC);
    *out = NULL;
    if (fd < 0) {
        return -1;
    }
    void *page = MAP_FAILED;
    if (ftruncate(fd, GY_TIMELINE_FILE_BYTES) == 0) {
        page = mmap(NULL, GY_TIMELINE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (page == MAP_FAILED) {
        close(fd);
        return -1;
    }
    *out = (struct gy_timeline_file *)page;
    memcpy((*out)->mark, GY_TIMELINE_FILE_MARK, sizeof((*out)->mark));
    return fd;
}

static inline uint64_t gy_timeline_file_read(const struct gy_timeline_file *file)
{
    return __atomic_load_n(&file->value, __ATOMIC_ACQUIRE);
}

static inline void gy_timeline_file_signal(struct gy_timeline_file *file, uint64_t value)
{
    __atomic_store_n(&file->value, value, __ATOMIC_RELEASE);
}

#endif
