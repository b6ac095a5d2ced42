/* SPDX-License-Identifier: MIT */
/* A short kernel that is in a hurry behind one that fills the device.
 *
 * The long kernel has several waves of blocks; once its first block runs, a kernel of some 20 us is submitted
 * and timed until the host knows its end: by hand, on streams of several kinds, or as a task. */
#ifndef BENCH_CRITICAL_SCENE_H
#define BENCH_CRITICAL_SCENE_H

#include "bench/raw_cuda.h"

#include <gantry/gantry.h>

#include <stdatomic.h>

/* Where the two kernels go. */
enum bench_way {
    BENCH_WAY_PLAIN, /* two streams: the short kernel waits until the last wave leaves SMs free */
    /* the short kernel's stream has the higher priority: it waits for the blocks of the wave that runs */
    BENCH_WAY_PRIORITY,
    BENCH_WAY_BY_HAND, /* streams of two partitions: what the hardware can do */
    /* tasks of two managers; the long task names no partition, so it is in the default one */
    BENCH_WAY_TASKS,
    /* as tasks, but the long kernel is on a plain stream, and so on the SMs of all partitions */
    BENCH_WAY_LEAK,
    BENCH_WAYS
};

/* The moments of the short kernel, in this order. */
enum bench_moment {
    BENCH_MOMENT_CALLED,   /* its launch callback is called; by hand: at once */
    BENCH_MOMENT_LAUNCHED, /* the driver's call has returned */
    BENCH_MOMENT_BEGUN,    /* the host sees what its first block has written */
    BENCH_MOMENT_ENDED,    /* the host sees what its last block has written */
    BENCH_MOMENT_KNOWN,    /* the waiting task runs; by hand: the event is done */
    BENCH_MOMENTS
};

struct bench_scene_options {
    gantry_driver_choice driver;
    gantry_wait_mode wait;   /* of the context's threads and of the worker */
    uint32_t critical_sms;   /* of the partition "critical", at least */
    uint32_t bulk_sms;       /* of another one, "bulk", at least; 0: none */
    bool fine;               /* without co-scheduling: sizes in steps of 2 */
    uint32_t waves, wave_us; /* of the long kernel on all SMs */
};

struct bench_scene {
    gantry_context *context;
    gantry_status refused; /* why there is no context */
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *background, *urgent;
    gantry_kernel *kernel;
    gantry_partition *critical;
    gantry_device_info info;
    struct raw_cuda cuda;
    CUmodule module;
    CUfunction function;
    CUevent event;
    CUstream plain[2], priority[2], parted[2]; /* of the long kernel, of the short one */
    uint32_t *flags;                           /* pinned: a line each for what kernels tell */
    void *device_flags;                        /* their address on the device */
    uint32_t *counters; /* on the device: how many blocks of long kernels, and of short ones, have run */
    uint64_t long_ns, short_ns;
    uint32_t threads, long_blocks, short_blocks;
    uint32_t long_total, short_total; /* blocks launched so far */
    /* the stream on which the last kernel by hand was put, which is waited for; NULL: there are tasks
     * instead */
    CUstream watched;
    atomic_bool task_failed; /* atomic */
};

/* One of the two kernels as a task. */
struct bench_shot {
    struct bench_scene *scene;
    gantry_task *done; /* runs when it has ended */
    bool is_long;
    bool observe;    /* the short kernel reports its begin and its end */
    uint32_t blocks; /* 0: as many as the scene says */
    uint64_t called_ns, launched_ns, finished_ns;
};

struct bench_sample {
    uint64_t short_ns, long_ns;      /* from the submission until the host knows the end */
    uint64_t moments[BENCH_MOMENTS]; /* in ns after the submission; only when observed */
};

/* The medians and the 99th percentile of samples, in ns. */
struct bench_figures {
    double least, median, p99; /* of the short kernel */
    double long_median;
    double moments[BENCH_MOMENTS]; /* medians */
};

/* How failures are reported on stderr; NULL: with the text of gantry_last_error(). */
extern const char *(*bench_scene_cause)(gantry_status status);

/* Open the scene.  False when that failed, with a line on stderr; bench_scene_close() must be called in
 * either case. */
bool bench_scene_open(struct bench_scene *scene, const struct bench_scene_options *options);
void bench_scene_close(struct bench_scene *scene);

/* Run both kernels once.  `observe`: note the moments of the short one, too. */
bool bench_scene_sample(struct bench_scene *scene, enum bench_way way, bool observe,
                        struct bench_sample *out);

/* Submit a GPU task for one of the two kernels, and a CPU task that runs when the kernel has ended. */
bool bench_scene_add(struct bench_scene *scene, gantry_taskman *manager, gantry_partition *partition,
                     struct bench_shot *shot, gantry_task **gpu);

/* Prepare for a long kernel before it is launched; then wait until its first block runs. */
void bench_scene_arm(struct bench_scene *scene);
bool bench_scene_await_begin(struct bench_scene *scene);

/* Take `count` samples, after one that warms up. */
typedef bool (*bench_sample_fn)(struct bench_scene *scene, void *arg, struct bench_sample *out);
bool bench_scene_measure(struct bench_scene *scene, bench_sample_fn sample, void *arg, uint32_t count,
                         struct bench_figures *out);
bool bench_scene_measure_way(struct bench_scene *scene, enum bench_way way, bool observe, uint32_t count,
                             struct bench_figures *out);

/* Has every block of every run counted itself? */
bool bench_scene_verify(struct bench_scene *scene);

#endif
