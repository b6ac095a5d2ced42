/* SPDX-License-Identifier: MIT */
/* What `gantry doctor` looks at: devices, the kernel's module, permissions and drivers. */
#include "cli/doctor.h"

#include "cli/surroundings.h"

#include <gantry/context.h>

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first line of a file, without its end; false: there is none. */
static bool read_line(const char *root, const char *path, char *out, size_t room)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    FILE *file = fopen(whole, "r");
    out[0] = '\0';
    if (file == NULL) {
        return false;
    }
    bool good = fgets(out, (int)room, file) != NULL;
    out[strcspn(out, "\n")] = '\0';
    fclose(file);
    return good;
}

static bool exists(const char *root, const char *path)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    return access(whole, F_OK) == 0;
}

/* Display and 3-D controllers of NVIDIA. */
static int count_pci_devices(const char *root)
{
    static const char folder[] = "/sys/bus/pci/devices";
    char path[512], vendor[32], class[32];
    snprintf(path, sizeof(path), "%s%s", root, folder);
    DIR *devices = opendir(path);
    int count = 0;
    for (struct dirent *entry; devices != NULL && (entry = readdir(devices)) != NULL;) {
        snprintf(path, sizeof(path), "%s/%.64s/vendor", folder, entry->d_name);
        bool is_known = read_line(root, path, vendor, sizeof(vendor));
        snprintf(path, sizeof(path), "%s/%.64s/class", folder, entry->d_name);
        is_known = is_known && read_line(root, path, class, sizeof(class));
        count += is_known && strcmp(vendor, "0x10de") == 0 && strncmp(class, "0x03", 4) == 0;
    }
    if (devices != NULL) {
        closedir(devices);
    }
    return count;
}

/* The first /dev/nvidiaN; false: there is none. */
static bool find_device_file(const char *root, char *out, size_t room)
{
    for (int i = 0; i < 32; i++) {
        snprintf(out, room, "/dev/nvidia%d", i);
        if (exists(root, out)) {
            return true;
        }
    }
    return false;
}

/* Containers see the host's PCI devices, but only the device files that they were given. */
static bool is_container(const char *root)
{
    return exists(root, "/.dockerenv") || exists(root, "/run/.containerenv");
}

static const char *how_to_get_a_driver(const char *root)
{
    return is_container(root) ? "start the container with the GPU: docker run --gpus all ... (package "
                                "nvidia-container-toolkit on the host)"
                              : "install it: sudo apt install nvidia-driver libcuda1 (Debian, section "
                                "non-free), or sudo ubuntu-drivers install (Ubuntu)";
}

static void look_at_file(struct findings *f, const char *path, const char *name)
{
    char whole[512];
    struct stat info;
    snprintf(whole, sizeof(whole), "%s%s", f->root, path);
    if (access(whole, R_OK | W_OK) == 0) {
        cli_doctor_add(f, name, FINDING_OK, "", "%s can be opened", path);
    } else if (errno == ENOENT) {
        cli_doctor_add(
            f, name, FINDING_FAULT,
            "load the module and make the file: sudo nvidia-modprobe -u -c=0 (package nvidia-modprobe)",
            "%s is not there", path);
    } else {
        const struct group *group = stat(whole, &info) == 0 ? getgrgid(info.st_gid) : NULL;
        char advice[240];
        snprintf(advice, sizeof(advice), "join its group and log in again: sudo usermod -aG %s $USER",
                 group != NULL ? group->gr_name : "video");
        cli_doctor_add(f, name, FINDING_FAULT, advice, "%s: %s", path, strerrordesc_np(errno));
    }
}

void cli_doctor_devices(struct findings *f)
{
    char module[256], file[32];
    int devices = count_pci_devices(f->root);
    bool has_file = find_device_file(f->root, file, sizeof(file));
    f->has_device = devices > 0 || has_file;
    if (!f->has_device) {
        cli_doctor_add(f, "GPU", FINDING_ABSENT, "", "no NVIDIA GPU; the emulated driver takes its place");
        return;
    }
    if (devices > 0) {
        cli_doctor_add(f, "GPU", FINDING_OK, "", "%d NVIDIA GPU%s among the PCI devices", devices,
                       devices == 1 ? "" : "s");
    } else {
        cli_doctor_add(f, "GPU", FINDING_OK, "", "%s is there", file);
    }
    if (read_line(f->root, "/proc/driver/nvidia/version", module, sizeof(module))) {
        cli_doctor_add(f, "kernel module", FINDING_OK, "", "%s", module);
    } else {
        cli_doctor_add(f, "kernel module", FINDING_FAULT, how_to_get_a_driver(f->root),
                       "the NVIDIA kernel module is not loaded");
    }
    look_at_file(f, "/dev/nvidiactl", "permission");
    look_at_file(f, "/dev/nvidia-uvm", "permission, memory");
    if (has_file) {
        look_at_file(f, file, "permission, device");
    } else {
        cli_doctor_add(f, "permission, device", FINDING_FAULT, how_to_get_a_driver(f->root),
                       "there is no file /dev/nvidia0");
    }
}

/* Open a context with one driver; says what it is and what is around it, or why not. */
static bool try_driver(gantry_driver_choice choice, char *found, size_t room,
                       struct cli_surroundings *surroundings)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL;
    gantry_device_info device = {.struct_size = sizeof(device)};
    options.driver = choice;
    bool works = gantry_context_create(&options, &context) == GANTRY_OK &&
                 gantry_context_device_info(context, &device) == GANTRY_OK;
    if (works) {
        snprintf(found, room, "%.100s, CUDA %d.%d", device.name, device.driver_version / 1000,
                 device.driver_version % 1000 / 10);
        cli_read_surroundings(context, surroundings);
    } else {
        snprintf(found, room, "%.300s", gantry_last_error());
    }
    gantry_context_destroy(context);
    return works;
}

static void add_surroundings(struct findings *f, const struct cli_surroundings *s)
{
    char text[CLI_SURROUNDINGS_TEXT];
    cli_work_queues_text(s, text);
    cli_doctor_add(f, "work queues", FINDING_OK, "", "%s", text);
    if (cli_mps_text(s, text)) {
        cli_doctor_add(f, "MPS", FINDING_OK, "", "%s", text);
    }
    if (s->log_file != NULL) {
        cli_doctor_add(f, "driver's log", FINDING_OK, "", "CUDA_LOG_FILE is %.200s", s->log_file);
    } else {
        cli_doctor_add(f, "driver's log", FINDING_ABSENT, "",
                       "CUDA_LOG_FILE is not set: stdout, stderr or a file for the driver's messages");
    }
}

/* The emulated driver takes the place of a driver that is not there, and not of one that does not work: then
 * a context that chooses none cannot be made. */
static bool is_faulty(const struct findings *f)
{
    char why[320];
    struct cli_surroundings none;
    return f->has_emulator && !try_driver(GANTRY_DRIVER_AUTO, why, sizeof(why), &none);
}

static void add_cuda(struct findings *f, const char *found)
{
    if (f->has_cuda) {
        cli_doctor_add(f, "NVIDIA driver", FINDING_OK, "", "%s", found);
    } else if (is_faulty(f)) {
        cli_doctor_add(f, "NVIDIA driver", FINDING_FAULT,
                       "it is installed and does not start: after an upgrade start the machine anew; with "
                       "GANTRY_DRIVER=emulated programs run without it",
                       "%s", found);
    } else {
        cli_doctor_add(f, "NVIDIA driver", f->has_device ? FINDING_FAULT : FINDING_ABSENT,
                       f->has_device ? how_to_get_a_driver(f->root) : "", "%s", found);
    }
}

void cli_doctor_drivers(struct findings *f)
{
    char found[320], found_emulated[320];
    struct cli_surroundings cuda, emulated;
    (void)unsetenv("GANTRY_DRIVER"); /* both are tried, and neither is chosen */
    f->has_cuda = try_driver(GANTRY_DRIVER_CUDA, found, sizeof(found), &cuda);
    f->has_emulator = try_driver(GANTRY_DRIVER_EMULATED, found_emulated, sizeof(found_emulated), &emulated);
    add_cuda(f, found);
    if (f->has_emulator) {
        cli_doctor_add(f, "emulated driver", FINDING_OK, "", "%s", found_emulated);
    } else {
        cli_doctor_add(
            f, "emulated driver", f->has_cuda ? FINDING_ABSENT : FINDING_FAULT,
            "libgantry-emu.so belongs beside libgantry.so (package gantry-emu), or $GANTRY_EMULATOR "
            "names it",
            "%s", found_emulated);
    }
    if (f->has_cuda || f->has_emulator) {
        add_surroundings(f, f->has_cuda ? &cuda : &emulated);
    }
}
