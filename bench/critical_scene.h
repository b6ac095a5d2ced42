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
    BENCH_WAY_PLAIN,    /* two streams: the short one waits until the last wave leaves SMs over */
    BENCH_WAY_PRIORITY, /* the short one's stream is preferred: it waits for blocks of the wave that runs */
    BENCH_WAY_BY_HAND,  /* streams of two partitions: what the hardware can do */
    BENCH_WAY_TASKS, /* tasks of two managers; the long one names no partition, so it is in the default one */
    BENCH_WAY_LEAK,  /* as tasks, but the long one is on a plain stream: on the SMs of all partitions */
    BENCH_WAYS
};

/* What happens to the short kernel, in this order. */
enum bench_moment {
    BENCH_MOMENT_CALLED,   /* its launch callback is; by hand: at once */
    BENCH_MOMENT_LAUNCHED, /* the driver's call has returned */
    BENCH_MOMENT_BEGUN,    /* the host sees what its first block has written */
    BENCH_MOMENT_ENDED,    /* the same of its last block */
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
    uint32_t *counters;                        /* on the device: blocks done by long kernels, by short ones */
    uint64_t long_ns, short_ns;
    uint32_t threads, long_blocks, short_blocks;
    uint32_t long_total, short_total; /* blocks launched so far */
    CUstream watched;                 /* what was put on it by hand last is waited for; NULL: tasks */
    atomic_bool task_failed;          /* atomic */
};

/* One of the two kernels as a task. */
struct bench_shot {
    struct bench_scene *scene;
    gantry_task *done; /* runs when it has ended */
    bool is_long;
    bool observe;    /* the short one tells of its begin and end */
    uint32_t blocks; /* 0: as many as the scene says */
    uint64_t called_ns, launched_ns, finished_ns;
};

struct bench_sample {
    uint64_t short_ns, long_ns;      /* from submission to end, as the host knows it */
    uint64_t moments[BENCH_MOMENTS]; /* ns after submission, when observed */
};

/* Medians and more of samples, in ns. */
struct bench_figures {
    double least, median, p99; /* of the short kernel */
    double long_median;
    double moments[BENCH_MOMENTS]; /* medians */
};

/* How failures are told on stderr; NULL: as gantry_last_error() does. */
extern const char *(*bench_scene_cause)(gantry_status status);

/* False, told on stderr, when it cannot be; bench_scene_close() in either case. */
bool bench_scene_open(struct bench_scene *scene, const struct bench_scene_options *options);
void bench_scene_close(struct bench_scene *scene);

/* Both kernels once.  `observe`: the short one's moments, too. */
bool bench_scene_sample(struct bench_scene *scene, enum bench_way way, bool observe,
                        struct bench_sample *out);

/* A GPU task for one of the two kernels, and one that is run when it has ended. */
bool bench_scene_add(struct bench_scene *scene, gantry_taskman *manager, gantry_partition *partition,
                     struct bench_shot *shot, gantry_task **gpu);

/* Before a long kernel is launched; then wait until its first block runs. */
void bench_scene_arm(struct bench_scene *scene);
bool bench_scene_await_begin(struct bench_scene *scene);

/* Take `count` samples, after one that does not count. */
typedef bool (*bench_sample_fn)(struct bench_scene *scene, void *arg, struct bench_sample *out);
bool bench_scene_measure(struct bench_scene *scene, bench_sample_fn sample, void *arg, uint32_t count,
                         struct bench_figures *out);
bool bench_scene_measure_way(struct bench_scene *scene, enum bench_way way, bool observe, uint32_t count,
                             struct bench_figures *out);

/* Every block of every run has counted itself. */
bool bench_scene_verify(struct bench_scene *scene);

#endif
