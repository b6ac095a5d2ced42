/* SPDX-License-Identifier: MIT */
/* What the crews of the devices have to do, and whom to wake for it. */
#include "emulator/crew.h"

#include <limits.h>

struct crews gy_emu_crews[GY_EMU_MAX_DEVICES];
static uint32_t begun; /* crews at and above this number were never started */

void gy_emu_crews_begin(int device)
{
    begun = begun > (uint32_t)device ? begun : (uint32_t)device + 1;
}

void gy_emu_crews_add(struct gy_emu_op *op)
{
    op->state = GY_EMU_OP_READY;
    struct crews *crews = &gy_emu_crews[op->work.context->device->ordinal];
    struct crew *crew = &crews->copy;
    if (op->work.kind == GY_EMU_WORK_KERNEL) {
        crew = &crews->gpu;
    } else if (op->work.kind == GY_EMU_WORK_HOST) {
        crew = &crews->host;
    }
    bool is_polled = op->work.kind == GY_EMU_WORK_WAIT_VALUE || op->work.kind == GY_EMU_WORK_WAIT_SEMAPHORE;
    gy_emu_list_insert(is_polled ? &crews->polled : &crew->ready, op);
}

static uint32_t give_tokens(struct crew *crew, uint32_t wanted)
{
    uint32_t n = wanted > crew->tokens ? wanted - crew->tokens : 0;
    if (n > crew->sleeping) {
        n = crew->sleeping;
    }
    crew->sleeping -= n;
    crew->tokens += n;
    return n;
}

/* The number of threads that could join the first open grid. */
static uint32_t grid_places(const struct crews *crews)
{
    const struct gy_emu_op *op = crews->grids.head;
    if (op == NULL) {
        return 0;
    }
    uint64_t next = atomic_load_explicit(&op->next_block, memory_order_relaxed);
    uint64_t left = next < op->blocks ? op->blocks - next : 0;
    return left < crews->gpu_workers ? (uint32_t)left : crews->gpu_workers;
}

bool gy_emu_crews_lack_threads(const struct crews *crews)
{
    return crews->may_grow && crews->gpu.sleeping + crews->gpu.tokens == 0 &&
           (crews->gpu.ready.count != 0 || grid_places(crews) != 0) && gy_emu_take_allowed(crews->device);
}

/* The lists are in order of urgency. */
static void note_urgency(struct crews *crews, bool may_start)
{
    const struct gy_emu_op *const heads[] = {crews->gpu.ready.head, crews->grids.head};
    int most = INT_MAX;
    for (int i = may_start ? 0 : 1; i < 2; i++) {
        most = heads[i] != NULL && heads[i]->priority < most ? heads[i]->priority : most;
    }
    atomic_store_explicit(&crews->most_urgent, most, memory_order_relaxed);
}

static struct gy_emu_wake plan_device(struct crews *crews)
{
    struct gy_emu_wake wake = {0, 0, 0};
    const bool may_start = gy_emu_take_allowed(crews->device);
    note_urgency(crews, may_start);
    if (!may_start) {
        return wake;
    }
    uint32_t work = crews->gpu.ready.count + crews->copy.ready.count + grid_places(crews);
    wake.gpu = (uint8_t)give_tokens(&crews->gpu, work);
    if ((crews->copy.ready.count > 0 && crews->gpu.tokens == 0) || crews->polled.count > 0 ||
        (gy_emu_crews_lack_threads(crews) && crews->stuck_ns == 0)) {
        wake.copy = (uint8_t)give_tokens(&crews->copy, 1);
    }
    wake.host = (uint8_t)give_tokens(&crews->host, crews->host.ready.count != 0);
    return wake;
}

/* Is there anything that a sleeper could be woken for? */
static inline bool is_busy(const struct crews *crews)
{
    return (crews->gpu.ready.count | crews->copy.ready.count | crews->host.ready.count |
            crews->polled.count) != 0 ||
           crews->grids.head != NULL;
}

bool gy_emu_crews_plan(struct gy_emu_wakes *wakes)
{
    wakes->devices = 0;
    for (uint32_t i = 0; i < begun; i++) {
        if (is_busy(&gy_emu_crews[i])) { /* after most calls no device is */
            for (; wakes->devices < i; wakes->devices++) {
                wakes->of[wakes->devices] = (struct gy_emu_wake){0, 0, 0};
            }
            wakes->of[wakes->devices++] = plan_device(&gy_emu_crews[i]);
        }
    }
    return wakes->devices != 0;
}

static void signal_crew(struct crew *crew, uint32_t n)
{
    while (n-- > 0) {
        gy_cond_signal(&crew->cond);
    }
}

void gy_emu_crews_signal(const struct gy_emu_wakes *wakes)
{
    for (uint32_t i = 0; i < wakes->devices; i++) {
        signal_crew(&gy_emu_crews[i].gpu, wakes->of[i].gpu);
        signal_crew(&gy_emu_crews[i].copy, wakes->of[i].copy);
        signal_crew(&gy_emu_crews[i].host, wakes->of[i].host);
    }
}
