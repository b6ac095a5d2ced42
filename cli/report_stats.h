/* What `gantry report trace` finds out about a recording. */
#ifndef CLI_REPORT_STATS_H
#define CLI_REPORT_STATS_H

#include "cli/trace.h"

#define REPORT_KERNELS 20
#define REPORT_STREAMS 256

enum report_cause {
    REPORT_HOST_TASK,  /* a CPU task ran for the longest part of the gap */
    REPORT_DISPATCHER, /* the dispatcher's thread was in a batch for the longest part */
    REPORT_NOTHING,    /* neither: nothing was ready */
    REPORT_CAUSES
};

struct report_busy {
    const char *name;
    uint64_t ns; /* at least one slice ran */
    uint64_t slices;
};

struct report_kernel {
    uint32_t name; /* index into the trace's names */
    uint64_t count, total_ns, least_ns, most_ns, ctas;
};

struct report {
    uint64_t begin_ns, end_ns; /* of everything */
    uint64_t tasks, task_ns;   /* CPU tasks */
    uint64_t batches;
    uint64_t launches, launch_ns;
    uint64_t phase_ns[3]; /* dispatcher time in HtoD, Kernel, DtoH */
    uint64_t gpu_begin_ns, gpu_end_ns, gpu_busy_ns;
    uint64_t gpu_tasks;
    struct report_busy streams[REPORT_STREAMS];
    size_t stream_count;
    uint64_t gaps, gap_ns, largest_gap_ns;
    uint64_t cause_count[REPORT_CAUSES], cause_ns[REPORT_CAUSES];
    uint32_t worst_task; /* name of the CPU task behind the largest gap of its cause; 0: none */
    struct report_kernel kernels[REPORT_KERNELS]; /* by total time; blocks' launches, else GPU tasks */
    size_t kernel_count;
    bool kernels_are_tasks;
    size_t sm_count;
    uint64_t sm_least_ns, sm_most_ns, sm_sum_ns; /* busy time of an SM */
    uint64_t ctas, ctas_lost;
    uint64_t cta_alignment_ns, tick_ns, shift_ns;
};

/* False after a line on stderr: out of memory. */
bool cli_report_compute(const struct trace *trace, struct report *out);

#endif
