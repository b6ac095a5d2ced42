/* SPDX-License-Identifier: MIT */
/* Scenes: small programs that use one part of the library from creation to destruction, written to survive
 * any failure.  The sweep (sweep.h) runs each of them with one thing failing, again and again. */
#ifndef TESTS_CAMPAIGN_SCENE_H
#define TESTS_CAMPAIGN_SCENE_H

#include <gantry/gantry.h>

struct scene {
    const char *name;
    /* 0: everything was right.  1: something was refused, the cause is on stderr, and everything that had
     * been made is destroyed. */
    int (*run)(void);
    /* a sample that calls exit() when something is refused: the objects that it had made stay */
    bool may_exit;
    bool once; /* a sample that can run only once in a process */
    uint32_t
        /* the scene polls: only so many calls of each function and readings of the clock are points; 0:
         * all are */
        most;
    /* kernels that it registers: each is kept for the life of the process, and is a block of host memory */
    uint32_t names;
};

/* All scenes; the last one's name is NULL. */
extern const struct scene scenes[];

int scene_graph_streams(void);
int scene_graph_graphs(void);
int scene_graph_auto(void);
int scene_graph_device_wide(void);
int scene_graph_frozen(void);
int scene_graph_profile(void);
int scene_graph_recorded(void);
int scene_heap(void);
int scene_copies(void);
int scene_taskman(void);
int scene_sharing(void);
int scene_modules(void);
int scene_partitions(void);
int scene_audit(void);
int scene_replay(void);
int scene_memory(void);
int scene_abandon(void);
int scene_random(void);
int scene_whole(void);
int scene_limited(void);
int scene_cancelled(void);
int scene_adopted(void);

/* Report a broken promise, and end the process with a status of its own. */
#define SCENE_BROKEN_STATUS 99
_Noreturn void scene_broken(const char *format, ...) GANTRY_PRINTF(1, 2);

/* True for GANTRY_OK; otherwise the text of gantry_last_error() goes to stderr. */
bool scene_ok(gantry_status status, const char *what);

/* SCENE_MAKE(variable, create(…, &variable)): true when the object was made; else the variable must be as it
 * was before the call, and becomes NULL.  One thread may use it at a time. */
#define SCENE_MAKE(variable, call)                     \
    ((variable) = scene_untouched(), scene_keep(call), \
     scene_made(#call, variable) || ((variable) = NULL, false))
void *scene_untouched(void);
void scene_keep(gantry_status status);
bool scene_made(const char *what, const void *variable);

/* Open the objects that most scenes need.  False: a call was refused, with a message. */
struct scene_gpu {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
};
bool scene_open(struct scene_gpu *gpu, const gantry_context_options *options);
void scene_close(struct scene_gpu *gpu);

#endif
