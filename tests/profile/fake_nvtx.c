/* A stand-in for NVIDIA's libnvToolsExt: it counts the calls, and keeps the names.  Ranges of the process are
 * checked to be open when they end. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

int nvtxRangePushA(const char *name);
int nvtxRangePop(void);
uint64_t nvtxRangeStartA(const char *name);
void nvtxRangeEnd(uint64_t number);

enum { NAMES = 256 };

atomic_int fake_nvtx_pushed, fake_nvtx_popped;
char fake_nvtx_names[NAMES][64]; /* by the number of the push */
static _Thread_local int depth;
atomic_int fake_nvtx_underflows; /* a pop without a push on its thread */

int nvtxRangePushA(const char *name)
{
    int number = atomic_fetch_add(&fake_nvtx_pushed, 1);
    if (number < NAMES) {
        snprintf(fake_nvtx_names[number], sizeof(fake_nvtx_names[0]), "%s", name);
    }
    return depth++;
}

int nvtxRangePop(void)
{
    atomic_fetch_add(&fake_nvtx_popped, 1);
    if (depth == 0) {
        atomic_fetch_add(&fake_nvtx_underflows, 1);
        return -1;
    }
    return --depth;
}

atomic_int fake_nvtx_started, fake_nvtx_ended;
char fake_nvtx_steps[NAMES][64];   /* by the number of the start */
static atomic_bool is_open[NAMES]; /* the same */
atomic_int fake_nvtx_strays;       /* ends of what was not open */

uint64_t nvtxRangeStartA(const char *name)
{
    const int number = atomic_fetch_add(&fake_nvtx_started, 1);
    if (number < NAMES) {
        snprintf(fake_nvtx_steps[number], sizeof(fake_nvtx_steps[0]), "%s", name);
        atomic_store(&is_open[number], true);
    }
    return (uint64_t)number + 1;
}

void nvtxRangeEnd(uint64_t number)
{
    atomic_fetch_add(&fake_nvtx_ended, 1);
    const uint64_t at = number - 1;
    if (at >= NAMES || !atomic_exchange(&is_open[at], false)) {
        atomic_fetch_add(&fake_nvtx_strays, 1);
    }
}
