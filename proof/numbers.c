/* SPDX-License-Identifier: MIT */
#include "proof/numbers.h"

#include <sys/mman.h>

/* All are guarded by the lock of order.c, but that numbers are read without it by who has got them. */
static struct gy_part *parts; /* [GY_PROOF_MOST]; immutable below part_count */
static struct gy_work *works; /* [GY_PROOF_MOST]; immutable below work_count, but for names */
static uint32_t part_count, work_count, again_count;
static bool is_spent; /* no memory or no numbers are left: nothing more is noted */

const struct gy_work *gy_work_of(uint32_t work)
{
    return &works[work];
}

const struct gy_part *gy_part_of(uint32_t part)
{
    return &parts[part];
}

void gy_number_spend(const char *what)
{
    is_spent = true;
    gy_order_lack(what);
}

/* Address space, of which the system gives a page when it is first written to. */
void *gy_number_table(size_t bytes)
{
    void *p = is_spent ? MAP_FAILED
                       : mmap(NULL, GY_PROOF_MOST * bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        gy_number_spend("addresses");
        return NULL;
    }
    return p;
}

void gy_numbers_begin(void)
{
    if (part_count == 0) {
        part_count = work_count = 1;
        parts = gy_number_table(sizeof(*parts));
        works = gy_number_table(sizeof(*works));
    }
}

uint32_t gy_number_part(struct gy_part part)
{
    if (is_spent || part_count == GY_PROOF_MOST) {
        gy_number_spend("numbers of tasks");
        return 0;
    }
    parts[part_count] = part;
    return part_count++;
}

uint32_t gy_number_work(uint32_t part)
{
    if (is_spent || part == 0 || work_count == GY_PROOF_MOST) {
        if (part != 0) {
            gy_number_spend("numbers of kernels and copies");
        }
        return 0;
    }
    works[work_count].part = part;
    return work_count++;
}

uint32_t gy_number_again(uint32_t work, bool is_guarded)
{
    const uint32_t again = gy_number_work(works[work].part);
    if (again == 0) {
        return work;
    }
    works[again].name = works[work].name;
    if (is_guarded) {
        atomic_store_explicit(&parts[works[work].part].guarded, again, memory_order_relaxed);
    }
    again_count++;
    return again;
}

void gy_number_name(uint32_t work, const char *name, bool is_kernel)
{
    atomic_store_explicit(&works[work].name, name, memory_order_relaxed);
    atomic_store_explicit(&works[work].is_kernel, is_kernel, memory_order_relaxed);
}

void gy_number_callback(uint32_t part)
{
    parts[part].is_callback = true;
}

struct gy_order_counts gy_number_counts(void)
{
    return (struct gy_order_counts){part_count - 1, work_count - 1 - again_count};
}
