/* SPDX-License-Identifier: MIT */
/* The quotas of control groups, of versions 1 and 2. */
#include "base/cpus.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 4096 };

/* The paths of the process's groups in the hierarchies of both versions; "": it is in none. */
struct groups {
    char v1[PATH_BYTES], v2[PATH_BYTES];
};

static FILE *open_below(const char *root, const char *path)
{
    char whole[2 * PATH_BYTES];
    const int length = snprintf(whole, sizeof(whole), "%s%s", root, path);
    return length > 0 && (size_t)length < sizeof(whole) ? fopen(whole, "re") : NULL;
}

/* Is `word` in the list with commas between its words? */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (; *list != '\0'; list += list[strcspn(list, ",")] != '\0' ? strcspn(list, ",") + 1 : strlen(list)) {
        if (strcspn(list, ",") == length && strncmp(list, word, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Lines are "4:cpu,cpuacct:/path", and "0::/path" for version 2. */
static void read_groups(const char *root, struct groups *out)
{
    char line[LINE_BYTES];
    FILE *file = open_below(root, "/proc/self/cgroup");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'),
             *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL || strlen(path + 1) >= PATH_BYTES) {
            continue;
        }
        *path++ = '\0';
        if (controllers[1] == '\0') {
            memcpy(out->v2, path, strlen(path) + 1);
        } else if (has_word(controllers + 1, "cpu")) {
            memcpy(out->v1, path, strlen(path) + 1);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* What a folder's quota has time for; 0: it has none. */
static uint32_t read_quota(const char *root, const char *folder, bool is_v2)
{
    char path[2 * PATH_BYTES];
    long long quota = -1, period = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, is_v2 ? "cpu.max" : "cpu.cfs_quota_us");
    FILE *file = open_below(root, path);
    if (file == NULL) {
        return 0;
    }
    bool good = fscanf(file, "%lld", &quota) == 1 && (!is_v2 || fscanf(file, "%lld", &period) == 1);
    fclose(file);
    if (good && !is_v2) {
        (void)snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
        file = open_below(root, path);
        good = file != NULL && fscanf(file, "%lld", &period) == 1;
        if (file != NULL) {
            fclose(file);
        }
    }
    return good && quota > 0 && period > 0 ? (uint32_t)((quota - 1) / period + 1) : 0;
}

/* The least of the quotas of a group and of those around it, up to where its hierarchy is mounted. */
static uint32_t least_quota(const char *root, const char *mounted_at, const char *group, bool is_v2)
{
    char folder[2 * PATH_BYTES];
    uint32_t least = 0;
    (void)snprintf(folder, sizeof(folder), "%s%s", mounted_at, group);
    for (size_t top = strlen(mounted_at);;) {
        const uint32_t quota = read_quota(root, folder, is_v2);
        least = quota != 0 && (least == 0 || quota < least) ? quota : least;
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= top || slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

/* The group's path below what is mounted, which in a container is a part of the hierarchy; "" when it is
 * elsewhere. */
static const char *path_below(const char *group, const char *mounted)
{
    const size_t length = strcmp(mounted, "/") == 0 ? 0 : strlen(mounted);
    const bool is_below =
        strncmp(group, mounted, length) == 0 && (group[length] == '/' || group[length] == '\0');
    return !is_below || strstr(group, "/..") != NULL || strcmp(group + length, "/") == 0 ? ""
                                                                                         : group + length;
}

uint32_t gy_cpus_quota(const char *root)
{
    struct groups groups = {"", ""};
    char line[LINE_BYTES], mounted[PATH_BYTES], at[PATH_BYTES], type[64], options[PATH_BYTES];
    uint32_t least = 0;
    read_groups(root, &groups);
    /* "31 23 0:28 /mounted /at rw,relatime - cgroup cgroup rw,cpu" */
    FILE *file = open_below(root, "/proc/self/mountinfo");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *end = strstr(line, " - ");
        if (end == NULL || sscanf(line, "%*s %*s %*s %1023s %1023s", mounted, at) != 2 ||
            sscanf(end, " - %63s %*s %1023s", type, options) != 2) {
            continue;
        }
        const bool is_v2 = strcmp(type, "cgroup2") == 0;
        const char *group = is_v2 ? groups.v2 : groups.v1;
        if (group[0] != '\0' && (is_v2 || (strcmp(type, "cgroup") == 0 && has_word(options, "cpu")))) {
            const uint32_t quota = least_quota(root, at, path_below(group, mounted), is_v2);
            least = quota != 0 && (least == 0 || quota < least) ? quota : least;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}
