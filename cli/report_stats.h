/* SPDX-License-Identifier: MIT */
/* What `gantry report trace` finds out about a recording. */
#ifndef CLI_REPORT_STATS_H
#define CLI_REPORT_STATS_H

#include "cli/intervals.h"
#include "cli/report_tenants.h"
#include "cli/trace.h"

#define REPORT_KERNELS 20
#define REPORT_STREAMS 256
#define REPORT_PARTITIONS 64
#define REPORT_HOST_TASKS 5
#define REPORT_GPUS 16

/* What covers the longest part of a gap, the GPU's idle time between two tasks. */
enum report_cause {
    REPORT_HOST_TASK,  /* a CPU task */
    REPORT_SHARE,      /* a share of GPU time held tasks back: it was used up, or it was another one's turn */
    REPORT_MEMORY,     /* some task waited for memory */
    REPORT_EXCHANGE,   /* a step waited for a renderer */
    REPORT_ORDER,      /* the task behind the gap had been launched: it came after other work on the GPU, or
                          the device took its time */
    REPORT_LAUNCH,     /* the dispatcher's thread was in a launch callback */
    REPORT_DISPATCHER, /* it was in a batch, and none of these held it up */
    REPORT_COMPLETION, /* what the GPU had done was not told yet */
    REPORT_NOTHING,    /* none of these: nothing was ready */
    REPORT_OTHER_GPU,  /* of one GPU among several: the task behind the gap waited for another GPU, which
                          worked */
    REPORT_CAUSES
};
#define REPORT_CAUSES_OF_ALL REPORT_OTHER_GPU /* those of times when no GPU worked */

struct report_stream {
    const char *name;
    uint32_t gpu; /* track */
    uint64_t ns;  /* at least one task ran */
    uint64_t tasks;
};

const char *cli_report_cause(enum report_cause cause);     /* for people */
const char *cli_report_cause_key(enum report_cause cause); /* in JSON */

struct report_gap {
    uint64_t begin_ns, end_ns;
    enum report_cause cause;
    uint32_t task;  /* name of the CPU task, when that is the cause */
    uint32_t gpu;   /* track of the GPU that was idle; 0: all were */
    uint32_t other; /* track of the GPU that it waited for, when that is the cause */
};

/* A device of a recording. */
struct report_gpu {
    uint32_t track;
    uint64_t tasks, ns;                    /* at least one task ran */
    uint64_t gaps, gap_ns, largest_gap_ns; /* between its first and its last task */
    uint64_t cause_count[REPORT_CAUSES], cause_ns[REPORT_CAUSES];
    uint64_t waited_ns[REPORT_GPUS]; /* of these, for each of the others */
    uint64_t alignment_ns;           /* bound on the error of its times against the host's; 0: not stated */
};

/* Streams of one GPU whose names begin alike: "partition / stream 3".  Those without belong to the whole GPU.
 */
struct report_partition {
    char name[64]; /* "": the whole GPU */
    uint32_t gpu;  /* track */
    uint32_t streams;
    uint64_t tasks, ns;                    /* at least one task ran */
    uint64_t gaps, gap_ns, largest_gap_ns; /* between its first and its last task */
};

struct report_kernel {
    uint32_t name; /* index into the trace's names */
    uint64_t count, total_ns, least_ns, most_ns, ctas;
};

struct report_host_task {
    uint32_t name;
    uint64_t gaps, ns;
};

/* A range inside the blocks of a kernel, or those of a kernel that were lost. */
struct report_range {
    const char
        *kernel;   /* "": it is in the name, and these are `count` lost ones, of which it was the first */
    uint32_t name; /* index into the trace's names */
    uint64_t count, total_ns, least_ns, most_ns;
};

struct report_sm {
    uint32_t gpu; /* track above the SMs */
    int32_t number;
    uint64_t ns;           /* at least one block ran */
    uint64_t alignment_ns; /* of its clock, as stated; UINT64_MAX: not stated */
    int ordinal;           /* of the GPU; -1: not stated */
};

/* Blocks are counted while the trace is read; see report_sms.c. */
struct report_sms;
struct report_sms *cli_report_sms_create(void);
void cli_report_sms_free(struct report_sms *sms);
/* A trace_block_fn; `user` is a struct report_sms. */
void cli_report_sms_add(void *user, const struct trace *trace, const struct trace_slice *block,
                        uint64_t number);

/* What the host did. */
struct report_host {
    uint64_t tasks, task_ns; /* CPU tasks */
    uint64_t batches;
    uint64_t launches, launch_ns;
    uint64_t phase_ns[3]; /* dispatcher time in HtoD, Kernel, DtoH */
    uint64_t memory_waits, memory_ns;
};

/* When the GPU, or any of several, worked. */
struct report_gpu_time {
    uint64_t begin_ns, end_ns, busy_ns;
    uint64_t tasks;
    uint64_t batches, batch_ns;               /* batches in GPU time, which may overlap */
    uint64_t longest_batch_ns, longest_batch; /* its number */
};

/* When no GPU worked, and why. */
struct report_idle {
    uint64_t gaps, gap_ns, largest_ns;
    uint64_t cause_count[REPORT_CAUSES], cause_ns[REPORT_CAUSES];
    struct report_gap *list; /* of each GPU where there are several, one after the other, else of the one;
                              * the caller's to free, with `sms` */
    size_t list_count;
};

/* By total time; blocks' launches, else GPU tasks. */
struct report_kernels {
    struct report_kernel list[REPORT_KERNELS];
    size_t count;
    bool are_tasks;
};

/* GPU tasks by label, those with and those without blocks' records; by total time; none when the kernels are
 * tasks. */
struct report_labels {
    struct report_kernel list[REPORT_KERNELS];
    size_t count, left; /* left: those that have no room in it */
};

struct report_sm_times {
    struct report_sm *list; /* see struct report_idle */
    size_t count;
    uint64_t least_ns, most_ns, sum_ns; /* busy time of an SM */
};

/* Batched ones. */
struct report_copies {
    uint64_t launches, count, bytes[3]; /* to the device, to the host, on the device */
};

/* What the recording has, and what it has lost. */
struct report_records {
    uint64_t slices_lost, gpu_unfinished, ctas, ctas_lost, ctas_taken, ranges_lost;
};

/* How exact its times are. */
struct report_precision {
    uint64_t gpu_ns, cta_ns, sm_ns, tick_ns, shift_ns;
};

struct report {
    uint64_t begin_ns, end_ns; /* of everything */
    struct report_host host;
    struct report_gpu_time gpu;
    struct report_stream streams[REPORT_STREAMS];
    size_t stream_count;
    struct report_partition partitions[REPORT_PARTITIONS];
    size_t partition_count;
    struct report_gpu gpus[REPORT_GPUS];
    size_t gpu_count;
    struct report_idle idle;
    struct report_host_task host_tasks[REPORT_HOST_TASKS]; /* by the time that the GPU waited for them */
    size_t host_task_count;
    struct report_kernels kernels;
    struct report_labels labels;
    struct report_sm_times sms;
    struct report_range *ranges; /* by kernel and total time, the lost ones last; see struct report_idle */
    size_t range_count;
    struct report_tenants tenants; /* see struct report_idle */
    struct report_copies copies;
    struct report_records records;
    struct report_precision precision;
};

/* Fill in the part about SMs.  False: out of memory. */
bool cli_report_sms_take(const struct report_sms *sms, const struct trace *trace, struct report *report);

/* False after a line on stderr: out of memory.  `sms` has been fed while the trace was loaded. */
bool cli_report_compute(const struct trace *trace, const struct report_sms *sms, struct report *out);

void cli_report_free(struct report *report);

/* report_ranges.c: fill in the ranges inside blocks.  False: out of memory. */
bool cli_report_ranges(const struct trace *trace, struct report *report);
void cli_report_ranges_text(const struct trace *trace, const struct report *report);
void cli_report_ranges_json(const struct trace *trace, const struct report *report);

/* report_gaps.c: why the GPU, busy during `gpu` (united), was idle, and each of several.  False: out of
 * memory. */
bool cli_report_gaps(const struct trace *trace, const struct intervals *gpu, struct report *report);

/* report_gpus.c: the devices, and when each of them worked: `busy` has REPORT_GPUS places, zeroed, whose
 * lists are the caller's to free.  False: out of memory. */
bool cli_report_gpus(const struct trace *trace, struct report *report, struct intervals *busy);
/* The GPU tasks that waited for other devices, by GPU and begin; `at` is the caller's to free. */
struct report_start {
    uint64_t time, after; /* bit n: the device with ordinal n */
    uint32_t gpu;         /* track */
};
struct report_starts {
    struct report_start *at;
    size_t count;
};
bool cli_report_starts(const struct trace *trace, struct report_starts *out);
/* The ordinals of devices that tasks of the GPU waited for which begin at `time`: a bit for each. */
uint64_t cli_report_after(const struct report_starts *starts, uint32_t gpu, uint64_t time);
/* -1: the track is no device's. */
int cli_report_ordinal(const struct trace *trace, uint32_t gpu);
/* report_order.c: when the GPU tasks whose launch callbacks are recorded began, by time; `at` is the caller's
 * to free.  False: out of memory. */
struct report_begin {
    uint64_t begin_ns, launched_ns; /* launched: the end of its last launch callback that began before it */
    uint32_t gpu;                   /* track */
};
struct report_begins {
    struct report_begin *at;
    size_t count;
};
bool cli_report_begins(const struct trace *trace, struct report_begins *out);
/* When the task was launched that began at `time` on the GPU, 0: on any; UINT64_MAX: nobody knows. */
uint64_t cli_report_launched(const struct report_begins *begins, uint32_t gpu, uint64_t time);
void cli_report_gpus_text(const struct trace *trace, const struct report *report);
void cli_report_gpus_json(const struct trace *trace, const struct report *report);

#endif
