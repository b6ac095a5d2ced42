/* The table that the library finds here. */
#include "proof/order.h"
#include "proof/report.h"
#include "proof/shadow.h"

#include <stdbool.h>

/* Once, when the emulated driver reserves the addresses of its blocks. */
static void watch(const void *from, size_t bytes)
{
    if (!gy_shadow_watch((uintptr_t)from, bytes)) {
        gy_order_lack("addresses for the shadow");
    }
}

static void touch(const void *address, size_t bytes, enum gy_proof_touch how)
{
    struct gy_access *access = gy_access_now;
    if (access != NULL) {
        access->touches++;
        gy_shadow_note(access, (uintptr_t)address, bytes,
                       how == GY_PROOF_WRITE ? GY_TOUCH_WRITE : GY_TOUCH_READ);
    }
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
 * end. */
static void launch_touch(const void *address, size_t bytes, enum gy_proof_touch how)
{
    if (gy_order_enter_launched()) {
        touch(address, bytes, how);
        gy_order_leave();
    }
}

static void forget(const void *address, size_t bytes)
{
    gy_shadow_forget((uintptr_t)address, bytes);
}

/* Who had the memory before has freed it, and the heap has ordered that. */
static void allocated(const void *address, size_t bytes, gantry_alloc_site site)
{
    gy_shadow_forget((uintptr_t)address, bytes);
    gy_report_block((uintptr_t)address, bytes, site);
}

__attribute__((visibility("default"))) extern const struct gy_proof_ops gantry_proof_ops;
const struct gy_proof_ops gantry_proof_ops = {
    .device = {.enqueue = gy_order_enqueue,
               .enter = gy_order_enter,
               .leave = leave,
               .touch = touch,
               .watch = watch,
               .forget = forget},
    .edge = gy_order_edge,
    .end = gy_order_end,
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
    .manager_gone = gy_order_manager_gone,
    .allocated = allocated,
    .open = gy_report_open,
};
