/* SPDX-License-Identifier: MIT */
/* The table that the library finds here. */
#include "proof/declared.h"
#include "proof/marks.h"
#include "proof/order.h"
#include "proof/report.h"
#include "proof/shadow.h"
#include "proof/trail.h"

#include <stdbool.h>

static _Atomic(bool) wants_marks; /* atomic */

/* Once both have come: the request, and blocks to look at. */
static void open_marks(void)
{
    if (atomic_load(&wants_marks) && atomic_load(&gy_watched[GY_WATCHED_BLOCKS].bytes) != 0) {
        gy_marks_open();
    }
}

/* Once, when the emulated driver reserves the addresses of its blocks. */
static void watch(const void *from, size_t bytes)
{
    if (!gy_shadow_watch(GY_WATCHED_BLOCKS, (uintptr_t)from, bytes)) {
        gy_order_lack("addresses for the shadow");
    }
    open_marks();
}

static void touch(const void *address, size_t bytes, enum gy_proof_touch how)
{
    gy_shadow_touch(address, bytes, how == GY_PROOF_WRITE ? GY_TOUCH_WRITE : GY_TOUCH_READ, NULL);
}

/* A kernel that has said nothing at all is not instrumented, most likely. */
static void leave(void)
{
    struct gy_access *access = gy_access_now;
    if (access != NULL && access->is_kernel) {
        gy_report_kernel(atomic_load_explicit(&gy_work_of(access->work)->name, memory_order_relaxed),
                         access->touches);
        access->touches = 0;
    }
    gy_order_leave();
}

/* What a callback has enqueued and the library knows of: it touches the memory some time before the task's
 * end. It is entered as if it were carried out now. */
static void launch_touch(const void *address, size_t bytes, enum gy_proof_touch how)
{
    const uint32_t work = gy_order_enqueue(NULL);
    if (work != 0) {
        gy_order_enter(work, "a copy of a batch", 0, false);
        touch(address, bytes, how);
        gy_order_leave();
    }
}

static void forget(const void *address, size_t bytes)
{
    gy_report_freed((uintptr_t)address, bytes);
    gy_marks_forget((uintptr_t)address, bytes);
    gy_shadow_forget((uintptr_t)address, bytes);
}

static void freed(const void *address, size_t bytes)
{
    gy_declared_freed((uintptr_t)address, bytes);
    forget(address, bytes);
}

/* Who had the memory before has freed it, and the heap has ordered that. */
static void allocated(const void *address, size_t bytes, gantry_alloc_site site, bool is_device)
{
    forget(address, bytes);
    gy_report_block((uintptr_t)address, bytes, site, is_device);
}

static void open_proof(void (*tell)(gantry_log_level level, const char *line), unsigned extras)
{
    gy_report_open(tell, extras);
    if ((extras & GY_PROOF_NEEDLESS) != 0) {
        gy_trail_open();
    }
    atomic_store(&wants_marks, (extras & (GY_PROOF_UNWRITTEN | GY_PROOF_UNREAD)) != 0);
    open_marks();
}

__attribute__((visibility("default"))) extern const struct gy_proof_ops gantry_proof_ops;
const struct gy_proof_ops gantry_proof_ops = {
    .device = {.enqueue = gy_order_enqueue,
               .enter = gy_order_enter,
               .leave = leave,
               .touch = touch,
               .watch = watch,
               .forget = freed,
               .follow = gy_order_queue_follows,
               .done = gy_order_queue_done,
               .gone = gy_order_queue_gone},
    .edge = gy_order_edge,
    .end = gy_order_end,
    .declares = gy_declared_add,
    .forgets = gy_declared_forget,
    .body_begin = gy_order_body_begin,
    .body_end = gy_order_body_end,
    .launch_begin = gy_order_launch_begin,
    .launch_end = gy_order_body_end,
    .share = gy_order_share,
    .share_begin = gy_order_share_begin,
    .share_end = gy_order_leave,
    .launch_touch = launch_touch,
    .completes = gy_order_completes,
    .let_go = gy_order_let_go,
    .has_ended = gy_order_has_ended,
    .step_begin = gy_order_step_begin,
    .step_waited = gy_order_step_waited,
    .synchronized = gy_order_synchronized,
    .calls_driver = gy_order_calls_driver,
    .manager_gone = gy_order_manager_gone,
    .allocated = allocated,
    .open = open_proof,
};
